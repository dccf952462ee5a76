"""A web server's calls of the machine in its own process: post a request, await its answer.

Call numbers are far above those of the RPC servers, so that the two cannot be confused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, cast

from ..errors import ConnectionFailedError, YoppError
from ..machine.calls import CallReceived, Reply, ReplyError
from ..records.methods import Request, ResponseT

NUMBERS_FROM: Final = 1 << 62
CONNECTION: Final = 1 << 62
CALL_SECONDS: Final = 30.0


class Reader(Protocol):
    """Answers a read of the machine in this process: a function of its context."""

    def __call__(self, request: Request[ResponseT]) -> ResponseT:
        """The answer. Raises YoppError if the machine refuses the request."""


class LocalCalls:
    """Calls of the machine in this process. ``post`` hands the driver an event."""

    def __init__(self, post: Callable[[CallReceived], None]) -> None:
        self._post = post
        self._next = NUMBERS_FROM
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._closed = False

    async def __call__(
        self, request: Request[ResponseT], *, uid: int = -1, user: str = "", guest: bool = False
    ) -> ResponseT:
        """The answer. Raises YoppError if the machine refuses the request or does not answer."""
        if self._closed:
            raise ConnectionFailedError("the daemon is ending")
        number = self._next
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._post(CallReceived(number, CONNECTION, request, uid, user, guest))
            return cast(ResponseT, await _within(CALL_SECONDS, future, "the daemon"))
        finally:
            self._waiting.pop(number, None)

    def perform(self, command: Reply | ReplyError) -> None:
        """Hand an answer to its caller; ignore one whose caller is gone, or that belongs to another server's
        call.
        """
        future = self._waiting.get(command.call_id)
        if future is not None and isinstance(command, ReplyError):
            _settle(future, None, command.error)
        elif future is not None and isinstance(command, Reply):
            _settle(future, command.response, None)

    def close(self) -> None:
        """Fail all open calls, and all later ones."""
        self._closed = True
        for future in self._waiting.values():
            _settle(future, None, ConnectionFailedError("the daemon is ending"))


async def call_daemon(address: str, request: Request[ResponseT], timeout: float = 5.0) -> ResponseT:
    """One call of another daemon of this host, over its Unix socket. Raises YoppError."""
    from ..rpc.client import RpcClient

    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    # A lost connection is reported by the call itself.
    client = await RpcClient.connect(address.removeprefix("unix:"), lambda reason: None)
    try:
        client.call(request, partial(_settle, future))
        return cast(ResponseT, await _within(timeout, future, address))
    finally:
        client.close()


def _settle(future: asyncio.Future[Any], response: Any, error: YoppError | None) -> None:
    if future.done():
        return  # The caller has disconnected.
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(response)


async def _within(seconds: float, future: asyncio.Future[Any], who: str) -> Any:
    try:
        return await asyncio.wait_for(future, seconds)
    except TimeoutError:
        raise ConnectionFailedError(f"{who} does not answer", because=f"{seconds:g} s have passed") from None
