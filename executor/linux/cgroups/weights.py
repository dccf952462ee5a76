"""Writes the weights of a node's cgroup and of the cgroups above it, up to the topmost that is yopp's.

Several nodes and clusters share the upper cgroups, and none owns them: a node that changes its own weight
sets each cgroup above it to the sum of the weights in its children's files. It then checks the sum again, so
that of two concurrent writers the last one leaves the right value. The topmost cgroup weighs no more than one
process on each core, or its largest child alone: the weights of several clusters do not add up.

Decisions: group-weights.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from ...core.limits import WeightScale
from ...errors import CgroupWriteError
from ...hints import TYPE_CHECKING
from .files import KernelFiles, at

if TYPE_CHECKING:
    import asyncio

LOG = logging.getLogger(__name__)

LOWER_SECONDS = 0.05
"""How long a node keeps the weight of guaranteed containers that have ended."""

REVISE_SECONDS = 0.9
"""The least time between two looks at what other nodes have written: each reads the weights of all of them."""
REVISE_IDLE_SECONDS = 4.9
"""The same while the node has no guaranteed container."""

ATTEMPTS = 5
"""How often a sum is written again if it changes meanwhile; an error that remains is corrected the next time."""


class GroupWeights:
    """``groups`` are the node's own cgroup, then those above it; ``file`` is the name of the weight file in each.

    If ``cores`` is given, all clusters together weigh no more than that many processes, or the largest cluster
    alone. A weight that the kernel refuses to change stays as it is, and is logged once: containers run without it.
    """

    def __init__(self, groups: tuple[str, ...], file: str, scale: WeightScale, cores: int = 0) -> None:
        self._groups = groups
        self._file = file.encode()
        self._scale = scale
        self._cores = cores
        self._refused: set[str] = set()

    @property
    def groups(self) -> tuple[str, ...]:
        """The cgroups whose weights are written, the node's own first."""
        return self._groups

    def set(self, vcores: float) -> None:
        """Give the node's cgroup the weight of ``vcores`` guaranteed vcores, and correct the cgroups above it.

        Only weights that differ are written.
        """
        self._settle(self._groups[0], self._scale.of_vcores(vcores))
        self.correct_above()

    def hasten(self, group: str) -> Callable[[], None]:
        """Raise the weight of a container's cgroup to more than one guaranteed vcore, if it is less, until
        the returned function is called."""
        hasty, before = self._scale.of_vcores(1) + 1, self._weight(group)
        if before is None or before >= hasty or not self._settle(group, hasty):
            return lambda: None

        def take_back() -> None:
            if self._weight(group) == hasty:
                self._settle(group, before)

        return take_back

    def correct_above(self) -> None:
        """Set each cgroup above the node's to the sum of its children, the topmost within its bound."""
        for group in self._groups[1:]:
            cores = self._cores if group == self._groups[-1] else 0
            for _ in range(ATTEMPTS):
                if not self._settle(group, self._scale.of_groups(self._children(group), cores)):
                    break
                if self._is_only_child(group):
                    break

    def _settle(self, group: str, wanted: int) -> bool:
        """Write the weight if it differs. Returns whether a write was needed and succeeded."""
        current = self._weight(group)
        if current is None or current == wanted:
            return False
        try:
            at(group, KernelFiles).set_property(self._file, wanted)
        except CgroupWriteError as error:
            if group not in self._refused:
                self._refused.add(group)
                LOG.info("the weight of a group is still %d: %s", current, error)
            return False
        return True

    def _is_only_child(self, group: str) -> bool:
        """Whether the node's own cgroup is the only one directly below: nobody else writes the weight of one there.
        cgroup file systems count child cgroups in st_nlink, from two on."""
        try:
            return (
                group == self._groups[1] and os.stat(group).st_nlink == 3 and os.path.exists(self._groups[0])
            )
        except OSError:
            return False

    def _children(self, group: str) -> list[int]:
        try:
            names = [entry.path for entry in os.scandir(group) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []  # another node has just removed it
        return [weight for name in names if (weight := self._weight(name)) is not None]

    def _weight(self, group: str) -> int | None:
        """The weight of the cgroup; None if the cgroup does not exist (any more), or has no weight."""
        try:
            return int(at(group, KernelFiles).get_property(self._file))
        except (OSError, ValueError):
            return None


def weighed_groups(base: str, relative: str, hierarchy: str) -> tuple[str, ...]:
    """The cgroups from ``base/relative`` up to the one that ``hierarchy`` names, which is yopp's topmost.

    Cgroups above it, in ``hierarchy`` itself (``/system/hadoop-yarn``) or in ``base``, belong to others, too.
    """
    above = max(len([part for part in hierarchy.split("/") if part]) - 1, 0)
    parts = [part for part in relative.split("/") if part]
    return tuple("/".join([base, *parts[:depth]]) for depth in range(len(parts), above, -1))


class NodeWeight:
    """Keeps the weights as the last ``set`` requires. Does nothing before the first ``set``, or where the
    host has no weights.

    A write takes a fraction of a millisecond, which must not delay a container's start: it is done in the
    next iteration of the loop. A lower weight is written after a short delay: most containers that end are
    followed by another, and then there is nothing to write.
    """

    def __init__(self, weights: GroupWeights | None, loop: asyncio.AbstractEventLoop) -> None:
        self._weights = weights
        self._loop = loop
        self._vcores: float | None = None
        self._written: float | None = None
        self._pending: asyncio.Handle | None = None
        self._checked_at = 0.0

    def set(self, vcores: float) -> None:
        """Set how many vcores the guaranteed containers have together."""
        self._vcores = vcores
        if self._written is not None and vcores < self._written:
            if self._pending is None:
                self._pending = self._loop.call_later(LOWER_SECONDS, self.check)
            return
        self._cancel()
        if vcores != self._written:
            self._pending = self._loop.call_soon(self.check)

    def check(self) -> None:
        """Write the weights that differ: another node may have disappeared, or have written at the same time."""
        self._cancel()
        self._checked_at = self._loop.time()
        if self._weights is not None and self._vcores is not None:
            self._weights.set(self._vcores)
            self._written = self._vcores

    def revise(self) -> None:
        """``check``, if the last one is some time ago."""
        least = REVISE_SECONDS if self._vcores else REVISE_IDLE_SECONDS
        if self._loop.time() - self._checked_at >= least:
            self.check()

    def finish(self) -> None:
        """Write a pending weight now, and nothing after it."""
        if self._pending is not None:
            self.check()

    def _cancel(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    def removed(self) -> None:
        """Correct the weights above this node's cgroup, which is gone, if they still exist."""
        if self._weights is not None and self._vcores is not None:
            self._weights.correct_above()
        self._vcores = self._written = None
