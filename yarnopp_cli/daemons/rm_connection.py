"""A NodeManager's connection to its ResourceManager: performs the machine's wishes, posts what comes of them.

It connects when told, and never by itself; it keeps the order in which it was told to send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..errors import ConnectionFailedError, YoppError
from ..nodemanager.events import (
    ConnectToResourceManager,
    HeartbeatAnswered,
    HeartbeatRefused,
    NodeEvent,
    NodeRegistered,
    NodeRegistrationRefused,
    NodeUnregistered,
    RegisterNode,
    ResourceManagerConnected,
    ResourceManagerLost,
    SendHeartbeat,
    UnregisterNode,
)
from ..records import tracker_protocol
from ..rpc.client import RpcClient
from ..rpc.codec import Codec

LOG = logging.getLogger(__name__)

Wish = ConnectToResourceManager | RegisterNode | SendHeartbeat | UnregisterNode
"""What it performs."""


class ResourceManagerConnection:
    """``path`` is the RM's socket; ``post`` takes the events."""

    def __init__(self, path: str, post: Callable[[NodeEvent], None]) -> None:
        self._path = path
        self._post = post
        self._codec = Codec(tracker_protocol.METHODS)
        self._client: RpcClient | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._told_why = ""
        self._closed = False

    def perform(self, wish: Wish) -> None:
        """Begin to do it."""
        match wish:
            case ConnectToResourceManager():
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
            case RegisterNode():
                self._call("registerNodeManager", wish.request, NodeRegistered, NodeRegistrationRefused)
            case SendHeartbeat():
                sequence = wish.sequence
                self._call(
                    "nodeHeartbeat",
                    wish.request,
                    lambda response: HeartbeatAnswered(sequence, response),
                    lambda error: HeartbeatRefused(sequence, error),
                )
            case UnregisterNode():
                self._call(
                    "unRegisterNodeManager",
                    wish.request,
                    lambda response: NodeUnregistered(),
                    lambda error: NodeUnregistered(),
                )

    def close(self) -> None:
        """Close the connection when all has been sent; nothing is posted any more."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._client is not None:
            self._client.close()

    async def _connect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        try:
            self._client = await RpcClient.connect(self._path, self._codec, self._lost)
        except ConnectionFailedError as error:
            self._lost(error.because)
            return
        LOG.info("connected to the ResourceManager")
        self._told_why = ""
        if not self._closed:
            self._post(ResourceManagerConnected())

    def _lost(self, reason: str) -> None:
        self._client = None
        if reason != self._told_why:  # once, not at every attempt
            LOG.info("no connection to the ResourceManager: %s", reason)
            self._told_why = reason
        if not self._closed:
            self._post(ResourceManagerLost(reason))

    def _call(
        self,
        method: str,
        request: Any,
        succeeded: Callable[[Any], NodeEvent],
        refused: Callable[[YoppError], NodeEvent],
    ) -> None:
        if self._client is None:
            return  # ResourceManagerLost was, or is about to be, posted

        def answered(response: Any, error: YoppError | None) -> None:
            if self._closed or isinstance(error, ConnectionFailedError):
                return  # ResourceManagerLost says so for all calls together
            if error is None:
                self._post(succeeded(response))
            else:
                LOG.warning("the ResourceManager refused %s: %s", method, error)
                self._post(refused(error))

        self._client.call(method, request, answered)
