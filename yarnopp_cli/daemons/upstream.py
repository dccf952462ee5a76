"""A connection to the ResourceManager, made when asked for: who holds it is told that it is there, or is gone and why.

It never connects by itself, and keeps the order in which it was told to send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..errors import ConnectionFailedError, YoppError
from ..records.methods import Request, ResponseT
from ..rpc.client import RpcClient
from ..rpc.codec import Codec

LOG = logging.getLogger(__name__)


class Upstream:
    """``path`` is the ResourceManager's socket. After each ``connect`` one of ``connected`` and ``lost`` is called, and
    ``lost`` once more when a connection has ended; none of them after ``close``."""

    def __init__(
        self, path: str, codec: Codec, connected: Callable[[], None], lost: Callable[[str], None]
    ) -> None:
        self._path = path
        self._codec = codec
        self._connected = connected
        self._lost = lost
        self._client: RpcClient | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closed = False

    def connect(self) -> None:
        """Begin to connect; a connection that there is, is closed."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def call(
        self,
        request: Request[ResponseT],
        succeeded: Callable[[ResponseT], None],
        refused: Callable[[YoppError], None],
    ) -> None:
        """Make a call. Nothing comes back where the connection is lost: ``lost`` says so for all calls together."""
        client = self._client
        if client is None:
            return  # lost was, or is about to be, called

        def answered(response: Any, error: YoppError | None) -> None:
            if self._closed or self._client is not client or isinstance(error, ConnectionFailedError):
                return
            if error is None:
                succeeded(response)
            else:
                LOG.warning("the ResourceManager refused %s: %s", request.METHOD, error)
                refused(error)

        client.call(request, answered)

    def close(self) -> None:
        """Close the connection when all has been sent; nothing is called any more."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._client is not None:
            self._client.close()

    async def _connect(self) -> None:
        client: RpcClient | None = None

        def ended(reason: str) -> None:
            if self._client is client:
                self._gone(reason)

        try:
            client = await RpcClient.connect(self._path, self._codec, ended)
        except ConnectionFailedError as error:
            self._gone(error.because)
            return
        self._client = client
        if not self._closed:
            self._connected()

    def _gone(self, reason: str) -> None:
        self._client = None
        if not self._closed:
            self._lost(reason)
