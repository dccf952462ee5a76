"""The applications at this node: their containers here, and their run times.

Policies use it to find queued containers that are probably short, and applications with little work left here. A
duration declared by the application master takes precedence over measured ones. A node knows only its own containers.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from .container import Container
from .estimates import RecentMean

REMEMBERED = 1000
"""How many applications without a container here are remembered."""


@dataclass(slots=True)
class Application:
    """One application at this node: its live containers, how many ended by themselves, and how long those ran."""

    live: dict[str, Container] = field(default_factory=dict)
    finished: int = 0
    durations: RecentMean = field(default_factory=RecentMean)


class Applications:
    """The recent applications of this node, by id; "" for containers without an application."""

    def __init__(self) -> None:
        #: those with the latest arrivals are last
        self._known: OrderedDict[str, Application] = OrderedDict()
        self._everybody = RecentMean()

    def arrived(self, container: Container) -> None:
        """A container of the application has arrived."""
        application_id = container.spec.application_id
        application = self._known.get(application_id)
        if application is None:
            application = self._known[application_id] = Application()
        self._known.move_to_end(application_id)
        application.live[container.container_id] = container
        if len(self._known) > REMEMBERED:
            self._forget_the_oldest()

    def ended(self, container: Container, seconds: float | None) -> None:
        """Note that a container has ended; ``seconds`` is how long it ran if it ended by itself, else None."""
        application = self._known[container.spec.application_id]
        application.live.pop(container.container_id, None)
        if seconds is not None:
            application.finished += 1
            application.durations.add(seconds)
            self._everybody.add(seconds)

    def unfinished(self, application_id: str) -> int:
        """The number of its unfinished containers here."""
        application = self._known.get(application_id)
        return len(application.live) if application is not None else 0

    def is_measured(self, application_id: str) -> bool:
        """Whether a container of the application has ended by itself here."""
        application = self._known.get(application_id)
        return application is not None and application.finished > 0

    def expected_seconds(self, container: Container) -> float | None:
        """The expected run time of a container: the one that its master declared, else the mean of its application,
        else of all applications; None if nothing is known."""
        if container.spec.duration_hint_ms > 0:
            return container.spec.duration_hint_ms / 1000
        application = self._known.get(container.spec.application_id)
        learned = application.durations.mean if application is not None else None
        return learned if learned is not None else self._everybody.mean

    def share_done(self, application_id: str, now: float) -> float:
        """The share of an application's work at this node that is done, 0.0 to 1.0.

        All containers count the same: one that ended by itself as done, a running one by the part of its expected time
        that has passed, all others as not begun.
        """
        application = self._known.get(application_id)
        if application is None:
            return 0.0
        done = float(application.finished)
        for container in application.live.values():
            ran = container.ran_seconds(now)
            expected = self.expected_seconds(container) if ran > 0 else None
            if expected:
                done += min(ran / expected, 1.0)
        return done / max(application.finished + len(application.live), 1)

    def _forget_the_oldest(self) -> None:
        """Forget those without a container here, except the latest ``REMEMBERED``."""
        idle = [name for name, application in self._known.items() if not application.live]
        for name in idle[: len(self._known) - REMEMBERED]:
            del self._known[name]
