"""The allocator of opportunistic containers: it places outstanding asks on the least loaded nodes without
waiting for feedback.

YARN's ``OpportunisticContainerAllocator``; the RM and the nodes' DistributedSchedulers use the same one. Attempts take
turns, so that an attempt with 50,000 asks does not shut out another with five; an attempt's own asks go by priority,
then age. Requests that find no room stay outstanding, and are tried again as soon as a node has room. The allocator
decides; the caller grants.

Decisions: opportunistic-means-opportunistic, one-allocator.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from executor.reasons import Reason, by_rule
from executor.records import Resource

from ..records.requests import ANY
from .asks import Ask, AskKey, AskTable, admits, excludes, levels
from .cluster_node import Claim, ClusterNode
from .load_monitor import NodeQueueLoadMonitor

_NOTHING = Resource()


class Asker(Protocol):
    """A requester of containers: an attempt of the RM, or of a DistributedScheduler.

    ``since_call`` counts the containers allocated since its master's last call.
    """

    opportunistic_asks: AskTable
    blacklist: set[str]
    since_call: int


AskerT = TypeVar("AskerT", bound=Asker)


class Rotation(Protocol[AskerT]):
    """The order in which attempts take turns."""

    def take(self) -> AskerT | None:
        """Remove and return the next attempt; None if there is none."""

    def put_back(self, attempt: AskerT, /) -> None:
        """Put back an attempt that was served and may be served again."""


class RoundRobin(Generic[AskerT]):
    """Attempts take turns, one after the other."""

    def __init__(self, attempts: Iterable[AskerT]) -> None:
        self._waiting = deque(attempts)

    def take(self) -> AskerT | None:
        """The attempt that has waited longest."""
        return self._waiting.popleft() if self._waiting else None

    def put_back(self, attempt: AskerT, /) -> None:
        """Put the attempt at the end."""
        self._waiting.append(attempt)


class OpportunisticContainerAllocator(Generic[AskerT]):
    """``max_per_call`` bounds how many containers an attempt gets between two calls of its master; 0 or less:
    no bound.
    """

    def __init__(self, monitor: NodeQueueLoadMonitor, *, max_per_call: int) -> None:
        self._monitor = monitor
        self._max_per_call = max_per_call

    def allocate(
        self,
        order: Rotation[AskerT],
        grant: Callable[[AskerT, Ask, ClusterNode, Claim], None],
        least: Resource = _NOTHING,
    ) -> None:
        """Serve requests, one container in each turn. ``order`` determines whose turn it is.

        No ask is smaller than ``least``.
        """
        #: the shapes that each attempt that had its turn has not failed with yet
        shapes: dict[int, deque[OrderedDict[AskKey, Ask]]] = {}
        while self._monitor.has_room() and (attempt := order.take()) is not None:
            table = attempt.opportunistic_asks
            groups = shapes.get(id(attempt))
            if groups is None:
                groups = shapes[id(attempt)] = deque(table.groups())
            choice = ask = None
            while groups and choice is None and self.refuses(attempt) is None:
                ask = next(iter(groups[0].values()), None)
                if ask is None or (choice := self._choose(ask, attempt)) is None:
                    groups.popleft()  # no other ask of this shape can be served either
            if choice is None or ask is None:
                if ask is not None and not self._monitor.may_place(least):
                    return  # no other ask can be placed either
                continue
            node, claim, location = choice
            grant(attempt, ask, node, claim)
            attempt.since_call += 1
            table.take(ask, location)
            if location != ANY:
                shapes[id(attempt)] = deque(table.groups())
            order.put_back(attempt)

    def refuses(self, attempt: AskerT) -> Reason | None:
        """The rule by which an attempt gets no container now, whichever node has room."""
        if not 0 < self._max_per_call <= attempt.since_call:
            return None
        return by_rule(
            "MAX_PER_CALL",
            f"its master got {attempt.since_call} containers since its last call, and may get no more until the next",
        )

    def why_not(self, ask: Ask, attempt: AskerT, node: ClusterNode) -> Reason | None:
        """Why a request is not served on a node now, by the rules of ``allocate``; None if it is served there when its
        turn comes."""
        return (
            excludes(ask, node, attempt.blacklist)
            or self.refuses(attempt)
            or self._monitor.refusal(node, ask.resource)
        )

    def _choose(self, ask: Ask, attempt: AskerT) -> tuple[ClusterNode, Claim, str] | None:
        """A node at the nearest level that has room, and the location it counts for."""
        blacklist = attempt.blacklist
        for level in levels(ask):
            for location in level:

                def suitable(node: ClusterNode, location: str = location) -> bool:
                    return (location == ANY or node.names(location)) and admits(ask, node, blacklist)

                found = self._monitor.select(ask.resource, suitable)
                if found is not None:
                    return *found, location
        return None
