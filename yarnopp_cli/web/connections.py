"""A limit on the connections of a web server, so that callers cannot use up the daemon's file descriptors.

Any user of the machine can connect and send nothing, or one header a second. A daemon out of descriptors cannot start
containers, so at the limit the connection that has been silent for longest is closed.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from typing import Final

from aiohttp import web

MOST: Final = 256
"""Connections at once; fewer where the daemon may have few files open."""
SHARE: Final = 4
"""Connections take at most one in this many of the daemon's descriptors."""
ACCEPT_SECONDS: Final = 5.0
"""The longest time between making a protocol and having its transport."""


def bound_of(files: int) -> int:
    """The limit for a process that may have ``files`` files open."""
    return max(8, min(MOST, files // SHARE))


class ConnectionLimit:
    """Makes the protocol of each new connection, and closes the longest silent one where there are too many."""

    def __init__(self, make: Callable[[], web.RequestHandler], most: int = 0) -> None:
        self._make = make
        self._most = most or bound_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._now = asyncio.get_running_loop().time
        self._heard: dict[web.RequestHandler, float] = {}
        """When a connection was made, or a request of it began or ended; the longest ago first."""
        self._answering: Counter[web.RequestHandler] = Counter()

    def __call__(self) -> asyncio.BaseProtocol:
        """A protocol for a new connection."""
        for one in [one for one in self._heard if self._is_gone(one)]:
            self._forget(one)
        open_ones = [one for one in self._heard if one.transport is not None]
        # Those that are being answered go last: a caller that reads slowly is not silent.
        open_ones.sort(key=lambda one: one in self._answering)
        for one in open_ones[: max(0, len(self._heard) + 1 - self._most)]:
            if one.transport is not None:
                one.transport.abort()
            self._forget(one)
        made = self._make()
        self._heard[made] = self._now()
        return made

    def begins(self, request: web.Request) -> None:
        """A request is being answered."""
        self._answering[request.protocol] += 1
        self._touch(request.protocol)

    def ends(self, request: web.Request) -> None:
        """It has been answered, or given up."""
        self._answering[request.protocol] -= 1
        if self._answering[request.protocol] <= 0:
            del self._answering[request.protocol]
        self._touch(request.protocol)

    def _touch(self, protocol: web.RequestHandler) -> None:
        if self._heard.pop(protocol, None) is not None:
            self._heard[protocol] = self._now()

    def _is_gone(self, protocol: web.RequestHandler) -> bool:
        """Whether a connection has ended; one that has just been accepted has no transport yet."""
        if protocol.transport is None:
            return self._now() - self._heard[protocol] > ACCEPT_SECONDS
        return protocol.transport.is_closing()

    def _forget(self, protocol: web.RequestHandler) -> None:
        self._heard.pop(protocol, None)
