"""Places in nodes' queues are taken back from users who hold more than their share, for one who finds none (G12).

Who came first may have filled every queue with work that takes hours. What waits there has not begun, so nothing is
lost: its job asks for it again, at no cost, and finds its turn by its user's share. Chooses only; ending is the
ResourceManager's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from executor.records import ContainerState, ExecutionType, Resource

from ...allocation.asks import Ask, admits
from ..entities import RMAppAttempt, RMContainer
from ..lives import Phase
from .opportunistic_shares import OpportunisticShares
from .queues import dominant_share


class QueueShedder:
    """``shed`` are those that are on their way out, each with the user for whom."""

    def __init__(self, shares: OpportunisticShares) -> None:
        self._shares = shares
        self._shed: dict[str, tuple[RMContainer, str]] = {}

    def choose(
        self, waiting: Iterable[RMAppAttempt], live: dict[str, RMContainer], total: Resource
    ) -> list[RMContainer]:
        """Containers that are to leave their queues, for attempts that found no room just now.

        The one who loses still holds no less for his weight than the one who gains: nothing goes to and fro.
        """
        self._shed = {name: pair for name, pair in self._shed.items() if name in live}
        attempts = list(waiting)
        takers = {attempt.app.user for attempt in attempts}
        if not takers or len(takers | self._shares.by_user.keys()) < 2:
            return []
        standing = _Standing(self._shares, total, self._shed.values())
        neediest = min(map(standing.of, takers))
        if all(standing.of(user) <= neediest for user in self._shares.by_user):
            return []
        queued = self._queued(live.values())
        chosen = []
        for attempt, ask in self._wanted(attempts, standing):
            for container in sorted(queued, key=lambda one: (-standing.of(one.app.user), -one.sequence)):
                if self._gives_way(container, attempt, ask, standing):
                    standing.give(container, attempt.app.user, ask.resource)
                    self._shed[container.id] = (container, attempt.app.user)
                    queued.remove(container)
                    chosen.append(container)
                    break
        return chosen

    def _queued(self, live: Iterable[RMContainer]) -> list[RMContainer]:
        return [
            one
            for one in live
            if one.phase is Phase.QUEUED
            and one.execution_type is ExecutionType.OPPORTUNISTIC
            and one.status is not None
            and one.status.state is ContainerState.SCHEDULED
            and one.id not in self._shed
            and not one.released
        ]

    def _wanted(
        self, attempts: list[RMAppAttempt], standing: _Standing
    ) -> Iterator[tuple[RMAppAttempt, Ask]]:
        """What is waited for, by who holds least, less what is being made room for already."""
        promised: dict[str, int] = {}
        for _, user in self._shed.values():
            promised[user] = promised.get(user, 0) + 1
        for attempt in sorted(attempts, key=lambda one: standing.of(one.app.user)):
            user = attempt.app.user
            for ask in attempt.opportunistic_asks:
                skipped = min(promised.get(user, 0), ask.outstanding)
                promised[user] = promised.get(user, 0) - skipped
                for _ in range(ask.outstanding - skipped):
                    before = len(self._shed)
                    yield attempt, ask
                    if len(self._shed) == before:
                        return

    def _gives_way(
        self, container: RMContainer, attempt: RMAppAttempt, ask: Ask, standing: _Standing
    ) -> bool:
        """Whether the place is of use to the ask, and is more than its holder's share."""
        node, user = container.node, attempt.app.user
        if container.app.user == user or not node.usable or node.load.awaited:
            return False
        if not ask.resource.fits_in(node.total) or not admits(ask, node.place, attempt.blacklist):
            return False
        return standing.without(container) >= standing.with_more(user, ask.resource)


class _Standing:
    """What users hold for each unit of their weight once all that is on its way has happened."""

    def __init__(
        self, shares: OpportunisticShares, total: Resource, shed: Iterable[tuple[RMContainer, str]]
    ) -> None:
        self._shares = shares
        self._total = total
        self._held = dict(shares.by_user)
        for container, user in shed:
            self.give(container, user, container.resource)

    def of(self, user: str) -> float:
        return self._share(user, self._held.get(user, Resource()))

    def without(self, container: RMContainer) -> float:
        user = container.app.user
        return self._share(user, self._held.get(user, Resource()) - container.resource)

    def with_more(self, user: str, resource: Resource) -> float:
        return self._share(user, self._held.get(user, Resource()) + resource)

    def give(self, container: RMContainer, user: str, resource: Resource) -> None:
        loser = container.app.user
        self._held[loser] = self._held.get(loser, Resource()) - container.resource
        self._held[user] = self._held.get(user, Resource()) + resource

    def _share(self, user: str, held: Resource) -> float:
        return dominant_share(held, self._total) / self._shares.weight(user)
