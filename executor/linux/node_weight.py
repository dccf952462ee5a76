"""When the weights of this node's group and of those above it are written: beside what is under way, and again.

What a node wants is known from its book at once. Writing it takes a fraction of a millisecond, which is not to be a
part of a container's start: it is done when the loop comes round.
"""

from __future__ import annotations

import asyncio

from .cgroups.base import CgroupDriver


class NodeWeight:
    """Keeps the weights as the last ``set`` wants them. Does nothing before the first, so that they stay alone
    where nobody is to write them; nor where the host has none."""

    def __init__(self, cgroups: CgroupDriver, loop: asyncio.AbstractEventLoop) -> None:
        self._weights = cgroups.weights()
        self._loop = loop
        self._vcores: int | None = None
        self._soon: asyncio.Handle | None = None

    def set(self, vcores: int) -> None:
        """Guaranteed containers have so many vcores together from now on."""
        self._vcores = vcores
        if self._soon is None:
            self._soon = self._loop.call_soon(self.check)

    def check(self) -> None:
        """Write what is not as it should be: another node may have ended without a word, or have been faster."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._weights is not None and self._vcores is not None:
            self._weights.set(self._vcores)

    def finish(self) -> None:
        """Write what was still to be written, and nothing after it."""
        if self._soon is not None:
            self.check()

    def removed(self) -> None:
        """This node's group is no more: those above it weigh less now, if they are still there."""
        if self._weights is not None and self._vcores is not None:
            self._weights.correct_above()
        self._vcores = None
