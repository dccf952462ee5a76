"""The allocator of opportunistic containers: outstanding asks onto the least loaded nodes, no feedback
awaited.

YARN's ``OpportunisticContainerAllocator``; the RM and the nodes' DistributedSchedulers use the same one.
Attempts take turns, so that one with
50,000 asks does not shut out one with five; an attempt's own asks go by priority, then age. What finds no
room stays outstanding, and is tried again as soon as any node has some. It decides; granting is the
caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from ..records.requests import ANY
from .asks import Ask, AskTable, Place, admits, levels
from .load_monitor import Claim, ClusterNode, NodeQueueLoadMonitor


class Asker(Protocol):
    """Whoever wants containers: the RM's attempt, or a DistributedScheduler's.

    ``since_call`` counts what was allocated since its master last called.
    """

    opportunistic_asks: AskTable
    blacklist: set[str]
    since_call: int


class Placed(Protocol):
    """A node, as far as an ask may speak of it."""

    place: Place


AskerT = TypeVar("AskerT", bound=Asker)
NodeT = TypeVar("NodeT", bound=Placed)


class Rotation(Protocol[AskerT]):
    """Whose turn it is."""

    def take(self) -> AskerT | None:
        """The next one; None where there is none. It is out until it is put back."""

    def put_back(self, attempt: AskerT, /) -> None:
        """It was served, and may be again."""


class RoundRobin(Generic[AskerT]):
    """One after the other."""

    def __init__(self, attempts: Iterable[AskerT]) -> None:
        self._waiting = deque(attempts)

    def take(self) -> AskerT | None:
        """The one that waits longest."""
        return self._waiting.popleft() if self._waiting else None

    def put_back(self, attempt: AskerT, /) -> None:
        """To the end."""
        self._waiting.append(attempt)


class OpportunisticContainerAllocator(Generic[AskerT, NodeT]):
    """``max_per_call`` bounds what one attempt gets between two calls of its master; 0 or less for no
    bound.
    """

    def __init__(
        self, monitor: NodeQueueLoadMonitor, nodes: Mapping[str, NodeT], *, max_per_call: int
    ) -> None:
        self._monitor = monitor
        self._nodes = nodes
        self._max_per_call = max_per_call

    def allocate(
        self,
        attempts: Iterable[AskerT],
        grant: Callable[[AskerT, Ask, NodeT, Claim], None],
        rotation: Callable[[list[AskerT]], Rotation[AskerT]] | None = None,
    ) -> None:
        """Serve what can be served, one container a turn; ``rotation`` says whose turn it is (default: in turn)."""
        asking = [attempt for attempt in attempts if attempt.opportunistic_asks.outstanding]
        order = RoundRobin(asking) if rotation is None or len(asking) == 1 else rotation(asking)
        turns: dict[int, _Turn[AskerT]] = {}
        while self._monitor.has_room() and (attempt := order.take()) is not None:
            if (turn := turns.get(id(attempt))) is None:
                turn = turns[id(attempt)] = _Turn(attempt)
            if self._serve_one(turn, grant):
                order.put_back(attempt)

    def _serve_one(self, turn: _Turn[AskerT], grant: Callable[[AskerT, Ask, NodeT, Claim], None]) -> bool:
        """Allocate one container; False if this attempt can get none now."""
        attempt = turn.attempt
        if 0 < self._max_per_call <= attempt.since_call:
            return False
        table = attempt.opportunistic_asks
        while turn.groups:
            group = turn.groups[0]
            if not group:
                turn.groups.popleft()
                continue
            ask = next(iter(group.values()))
            choice = self._choose(ask, attempt)
            if choice is None:
                # No other ask of this shape can be served either.
                turn.groups.popleft()
                continue
            node, claim, location = choice
            grant(attempt, ask, node, claim)
            attempt.since_call += 1
            table.take(ask, location)
            if location != ANY:
                turn.groups = deque(table.groups())
            return True
        return False

    def _choose(self, ask: Ask, attempt: AskerT) -> tuple[NodeT, Claim, str] | None:
        """A node at the nearest level that has room, and the location it counts for."""
        nodes, blacklist = self._nodes, attempt.blacklist
        for level in levels(ask):
            for location in level:

                def suitable(load: ClusterNode, location: str = location) -> bool:
                    place = nodes[load.node_id].place
                    return (location == ANY or place.names(location)) and admits(ask, place, blacklist)

                found = self._monitor.select(ask.resource, suitable)
                if found is not None:
                    return nodes[found[0].node_id], found[1], location
        return None


class _Turn(Generic[AskerT]):
    """One attempt's place in the rotation, and the shapes it has not failed with yet."""

    __slots__ = ("attempt", "groups")

    def __init__(self, attempt: AskerT) -> None:
        self.attempt = attempt
        self.groups = deque(attempt.opportunistic_asks.groups())
