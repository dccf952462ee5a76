"""In which order queued opportunistic containers are started (YARN-5886). Policies of one shape.

A policy sorts by urgency, and by arrival among equals. How far it may go is not its business: a container
that waits is overtaken by later arrivals within the bounds of ``OpportunisticQueue``, whatever the policy.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable
from typing import Protocol

from .applications import Applications
from .container import Container


class QueuePolicy(enum.StrEnum):
    """The values of ``yopp.nodemanager.opportunistic-queue.policy``."""

    FIFO_BACKFILL = "FIFO_BACKFILL"
    FIFO = "FIFO"
    SHORTEST_FIRST = "SHORTEST_FIRST"
    LEAST_REMAINING_TASKS = "LEAST_REMAINING_TASKS"


class QueueOrder(Protocol):
    """The shape of every policy."""

    def kind(self, container: Container) -> Hashable:
        """Queued containers of one kind are equally urgent at any moment; a container's kind never changes."""

    def urgency(self, container: Container) -> float:
        """The one with the smallest goes first. It may change with whatever happens."""


class ByArrival:
    """First in, first out."""

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

    def __init__(self, applications: Applications) -> None:
        self._applications = applications

    def kind(self, container: Container) -> Hashable:
        """Its application."""
        return container.spec.application_id

    def urgency(self, container: Container) -> float:
        """The number of containers of its application that live here."""
        return float(self._applications.unfinished(container.spec.application_id))


def order_of(policy: QueuePolicy, applications: Applications) -> QueueOrder:
    """The order of a policy. FIFO differs from FIFO_BACKFILL in its bounds alone."""
    match policy:
        case QueuePolicy.SHORTEST_FIRST:
            return ShortestFirst(applications)
        case QueuePolicy.LEAST_REMAINING_TASKS:
            return LeastRemainingTasks(applications)
        case QueuePolicy.FIFO | QueuePolicy.FIFO_BACKFILL:
            return ByArrival()
