"""A web server's calls of the machine in its own process: a request in, its answer awaited.

Numbers of calls are far above those of the RPC servers, so that none is taken for another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from ..errors import ConnectionFailedError, YoppError
from ..machine.calls import CallReceived, Reply, ReplyError
from ..records.methods import Request, ResponseT

NUMBERS_FROM: Final = 1 << 62
CONNECTION: Final = 1 << 62
CALL_SECONDS: Final = 30.0


class LocalCalls:
    """Calls of the machine in this process. ``post`` hands the driver an event."""

    def __init__(self, post: Callable[[CallReceived], None]) -> None:
        self._post = post
        self._next = NUMBERS_FROM
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._closed = False

    async def __call__(self, request: Request[ResponseT], *, uid: int = -1, user: str = "") -> ResponseT:
        """The answer. Raises YoppError: what the machine refused, or that it does not answer."""
        if self._closed:
            raise ConnectionFailedError("the daemon is ending")
        number = self._next
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._post(CallReceived(number, CONNECTION, request, uid, user))
            return cast(ResponseT, await _within(CALL_SECONDS, future, "the daemon"))
        finally:
            self._waiting.pop(number, None)

    def perform(self, command: Reply | ReplyError) -> None:
        """Hand an answer to its caller; drop one whose caller is gone, or that was called for elsewhere."""
        future = self._waiting.get(command.call_id)
        if future is not None and isinstance(command, ReplyError):
            _settle(future, None, command.error)
        elif future is not None and isinstance(command, Reply):
            _settle(future, command.response, None)

    def close(self) -> None:
        """Fail all calls that are open, and those to come."""
        self._closed = True
        for future in self._waiting.values():
            _settle(future, None, ConnectionFailedError("the daemon is ending"))


async def call_daemon(address: str, request: Request[ResponseT], timeout: float = 5.0) -> ResponseT:
    """One call of another daemon of this host, over its Unix socket. Raises YoppError."""
    from ..rpc.client import RpcClient

    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    # The call itself reports a lost connection.
    client = await RpcClient.connect(address.removeprefix("unix:"), lambda reason: None)
    try:
        client.call(request, partial(_settle, future))
        return cast(ResponseT, await _within(timeout, future, address))
    finally:
        client.close()


def _settle(future: asyncio.Future[Any], response: Any, error: YoppError | None) -> None:
    if future.done():
        return  # its caller is gone
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(response)


async def _within(seconds: float, future: asyncio.Future[Any], who: str) -> Any:
    try:
        return await asyncio.wait_for(future, seconds)
    except TimeoutError:
        raise ConnectionFailedError(f"{who} does not answer", because=f"{seconds:g} s have passed") from None
