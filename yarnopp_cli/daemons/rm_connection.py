"""A NodeManager's connection to its ResourceManager: performs the machine's wishes, posts what comes of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..errors import YoppError
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
from ..rpc.codec import Codec
from .upstream import Upstream

LOG = logging.getLogger(__name__)

Wish = ConnectToResourceManager | RegisterNode | SendHeartbeat | UnregisterNode
"""What it performs."""


class ResourceManagerConnection:
    """``path`` is the RM's socket; ``post`` takes the events."""

    def __init__(self, path: str, post: Callable[[NodeEvent], None]) -> None:
        self._post = post
        self._upstream = Upstream(path, Codec({}), self._connected, self._lost)
        self._told_why = ""

    def perform(self, wish: Wish) -> None:
        """Begin to do it."""
        match wish:
            case ConnectToResourceManager():
                self._upstream.connect()
            case RegisterNode():
                self._call(wish.request, NodeRegistered, NodeRegistrationRefused)
            case SendHeartbeat():
                sequence = wish.sequence
                self._call(
                    wish.request,
                    lambda response: HeartbeatAnswered(sequence, response),
                    lambda error: HeartbeatRefused(sequence, error),
                )
            case UnregisterNode():
                self._call(
                    wish.request,
                    lambda response: NodeUnregistered(),
                    lambda error: NodeUnregistered(),
                )

    def close(self) -> None:
        """Close the connection when all has been sent; nothing is posted any more."""
        self._upstream.close()

    def _call(
        self,
        request: Any,
        succeeded: Callable[[Any], NodeEvent],
        refused: Callable[[YoppError], NodeEvent],
    ) -> None:
        self._upstream.call(
            request,
            lambda response: self._post(succeeded(response)),
            lambda error: self._post(refused(error)),
        )

    def _connected(self) -> None:
        LOG.info("connected to the ResourceManager")
        self._told_why = ""
        self._post(ResourceManagerConnected())

    def _lost(self, reason: str) -> None:
        if reason != self._told_why:  # once, not at every attempt
            LOG.info("no connection to the ResourceManager: %s", reason)
            self._told_why = reason
        self._post(ResourceManagerLost(reason))
