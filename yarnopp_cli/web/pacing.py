"""Limits the REST API's share of a daemon's loop: a client at full speed does not delay nodes, masters and
commands.

A daemon has one loop. Requests begin one after the other, and after each the loop is left to other work for a time in
proportion to the request's. Waiting for an answer of the machine, for a file or for a slow reader does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

SHARE: Final = 0.4
"""The part of the loop's time that requests may take."""
LONGEST_PAUSE: Final = 0.1
"""The longest time, in seconds, that a request waits for earlier ones."""


class RequestPacing:
    """Begins one request after the other, paced by the time that they take (``now``: the loop's clock)."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self.now = asyncio.get_running_loop().time
        self._free_at = 0.0

    async def run(self, handler: Coroutine[Any, Any, T]) -> T:
        """Run the handler when its turn has come; returns or raises its result."""
        has_turn = False
        try:
            async with self._turn:
                while (pause := self._free_at - self.now()) > 0:
                    await asyncio.sleep(pause)
                has_turn = True
        finally:
            if not has_turn:
                handler.close()  # Cancelled: the caller has disconnected.
        return await _Timed(handler, self)

    def took(self, seconds: float) -> None:
        """Count ``seconds`` for which a handler has kept the loop busy."""
        now = self.now()
        pause = seconds * (1 / SHARE - 1)
        # Time that other requests took meanwhile was not left to other work.
        self._free_at = min(max(self._free_at + seconds, now) + pause, now + LONGEST_PAUSE)


class _Timed(Generic[T]):
    """A coroutine whose steps are timed."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], pace: RequestPacing) -> None:
        self._steps = coroutine.__await__()
        self._pace = pace

    def __await__(self) -> Generator[Any, Any, T]:
        result: T = yield from self
        return result

    def __iter__(self) -> _Timed[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        begun = self._pace.now()
        try:
            return self._steps.send(value)
        finally:
            self._pace.took(self._pace.now() - begun)

    def throw(self, *error: Any) -> Any:
        begun = self._pace.now()
        try:
            return self._steps.throw(*error)
        finally:
            self._pace.took(self._pace.now() - begun)

    def close(self) -> None:
        self._steps.close()
