"""Calls from one daemon to another, by asyncio: from a NodeManager to its ResourceManager.

The client never reconnects; that is the caller's decision. The command line and the masters use ``blocking.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..errors import ConnectionFailedError, YoppError, reason_of
from ..records.methods import Request
from .codec import decode_answer, encode_call
from .wire import MAX_LINE_BYTES, CallId, Lines, WireError

Answered = Callable[[Any, YoppError | None], None]
"""Called once, with (response, None) or (None, error)."""


class RpcClient(asyncio.Protocol):
    """One connection. ``lost`` is called once, with the reason, if the connection ends without ``close``."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._lines = Lines()
        self._next_id = 1
        self._calls: dict[CallId, type[Request[Any]]] = {}
        self._callbacks: dict[CallId, Answered] = {}
        self._reason = "the connection was closed"
        self._closed = False

    @classmethod
    async def connect(cls, path: str, lost: Callable[[str], None]) -> RpcClient:
        """Connect to a Unix socket. Raises ConnectionFailedError."""
        loop = asyncio.get_running_loop()
        try:
            _, client = await loop.create_unix_connection(lambda: cls(lost), path)
        except OSError as error:
            reason = reason_of(error)
            raise ConnectionFailedError(f"cannot reach {path}", because=reason) from None
        return client

    @property
    def has_ended(self) -> bool:
        """Whether the connection has ended, closed by either side."""
        return self._transport is None

    def call(self, request: Request[Any], answered: Answered) -> None:
        """Make a call; ``answered`` is called exactly once, never before this returns."""
        if self._transport is None or self._transport.is_closing():
            error = ConnectionFailedError("the call was not made", because=self._reason)
            asyncio.get_running_loop().call_soon(answered, None, error)
            return
        number = self._next_id
        self._next_id += 1
        line = encode_call(number, request)
        self._calls[number] = type(request)
        self._callbacks[number] = answered
        self._transport.write(line)

    def close(self) -> None:
        """Close once all output is sent; unanswered calls get an error, and ``lost`` is not called."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection is established."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio: split the data into lines and deliver the answers."""
        for line in self._lines.add(data):
            self._line(line)
        if self._lines.too_long:
            self._fail(f"a line was longer than {MAX_LINE_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection has ended, closed by either side."""
        self._transport = None
        if exc is not None:
            self._reason = str(exc).lower()
        callbacks = list(self._callbacks.values())
        self._callbacks.clear()
        self._calls.clear()
        for answered in callbacks:
            answered(None, ConnectionFailedError("the connection was lost", because=self._reason))
        if not self._closed:
            self._closed = True
            self._lost(self._reason)

    def _line(self, line: bytes) -> None:
        try:
            answer = decode_answer(line, self._calls)
        except WireError as error:
            # The other end does not speak this protocol: its later lines cannot be trusted either.
            self._fail(error.message)
            return
        if answer.call_id is None and answer.error is not None:
            self._fail(answer.error.message)
            return
        self._calls.pop(answer.call_id, None)
        answered = self._callbacks.pop(answer.call_id, None)
        if answered is not None:
            answered(answer.response, answer.error)

    def _fail(self, reason: str) -> None:
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()
