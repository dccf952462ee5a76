"""Which waiting container begins in the moment in which another one ends (LaunchNext).

Between two containers, a node takes a millisecond to hear of the end and to order the start. For containers that are
as short, that is the largest part of a slot's time. So the decision is taken ahead, where it is certain: only
opportunistic containers of equal size wait, and nothing has a better claim to the room. It is taken back as soon as
that is no longer so. A container that follows still waits, in its place; only the news of its start makes it LAUNCHING.

Decisions: launchers.
"""

from __future__ import annotations

from ..records import CgroupLimits
from .container import Container


class Succession:
    """Pairs of a container that holds resources, and the waiting one that follows it."""

    def __init__(self) -> None:
        #: those that hold resources, and that none follows yet
        self.open: dict[str, Container] = {}
        self._next: dict[str, tuple[Container, CgroupLimits]] = {}
        self._first: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._next)

    def __contains__(self, container: Container) -> bool:
        """Whether it follows another one."""
        return container.container_id in self._first

    def pair(self, first: Container, following: Container, limits: CgroupLimits) -> None:
        """Let one follow the other, with these limits."""
        del self.open[first.container_id]
        self._next[first.container_id] = following, limits
        self._first[following.container_id] = first.container_id

    def close(self, first: Container) -> CgroupLimits | None:
        """Nothing follows this one from now on. Returns the limits of the one that did, None for none."""
        self.open.pop(first.container_id, None)
        following = self._next.pop(first.container_id, None)
        if following is None:
            return None
        del self._first[following[0].container_id]
        return following[1]

    def part(self, following: Container, live: dict[str, Container]) -> None:
        """Take back a container that was to follow another one, which may get another follower."""
        first = self._first.pop(following.container_id)
        del self._next[first]
        self.open[first] = live[first]

    def following(self, first: Container) -> Container | None:
        """The one that follows this one, None for none."""
        pair = self._next.get(first.container_id)
        return None if pair is None else pair[0]

    def followers(self) -> list[Container]:
        """All that follow another one."""
        return [following for following, _ in self._next.values()]

    def validate(self) -> None:
        """Assert that both views of the pairs agree."""
        assert {one.container_id: first for first, (one, _) in self._next.items()} == self._first
        assert not self.open.keys() & self._next.keys()
