"""In which order queued opportunistic containers are started (YARN-5886). Policies of one shape.

A policy sorts by urgency, and by arrival among equals. How far it may go is not its business: a container
that waits is overtaken by later arrivals within the bounds of ``OpportunisticQueue``, whatever the policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

from .applications import Applications
from .container import Container


class QueueOrder(Protocol):
    """The shape of every policy. ``overtakes``: later arrivals may start before the first that waits."""

    overtakes: bool

    def kind(self, container: Container) -> Hashable:
        """Queued containers of one kind are equally urgent at any moment; a container's kind never changes."""

    def urgency(self, container: Container) -> float:
        """The one with the smallest goes first. It may change with whatever happens."""


class ByArrival:
    """First in, first out. YARN's FIFO lets nobody overtake; otherwise the first that fits starts."""

    def __init__(self, *, overtakes: bool = True) -> None:
        self.overtakes = overtakes

    def kind(self, container: Container) -> Hashable:
        """All are alike."""
        return None

    def urgency(self, container: Container) -> float:
        """All are alike."""
        return 0.0


class ShortestFirst:
    """The one that is expected to end soonest once it runs; of a paused one what it ran counts.

    Of which nothing is known goes last.
    """

    overtakes = True

    def __init__(self, applications: Applications) -> None:
        self._applications = applications

    def kind(self, container: Container) -> Hashable:
        """Its master's word, else its application."""
        hint = container.spec.duration_hint_ms
        return hint if hint > 0 else container.spec.application_id

    def urgency(self, container: Container) -> float:
        """The seconds that are left of its expected running time."""
        expected = self._applications.expected_seconds(container)
        return math.inf if expected is None else max(expected - container.ran, 0.0)


class LeastRemainingTasks:
    """One of the application that has the fewest unfinished containers here, so that jobs get finished."""

    overtakes = True

    def __init__(self, applications: Applications) -> None:
        self._applications = applications

    def kind(self, container: Container) -> Hashable:
        """Its application."""
        return container.spec.application_id

    def urgency(self, container: Container) -> float:
        """The number of containers of its application that live here."""
        return float(self._applications.unfinished(container.spec.application_id))


ORDERS: Mapping[str, Callable[[Applications], QueueOrder]] = {
    "FIFO_BACKFILL": lambda applications: ByArrival(),
    "FIFO": lambda applications: ByArrival(overtakes=False),
    "SHORTEST_FIRST": ShortestFirst,
    "LEAST_REMAINING_TASKS": LeastRemainingTasks,
}
"""By the values of ``yopp.nodemanager.opportunistic-queue.policy``."""
