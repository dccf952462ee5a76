"""Who gets the next opportunistic container where several want one, and who gives a place in a queue up for them.

YARN has no fairness among opportunistic containers: one application can fill every queue (yarn-gaps G12). Here the
user goes first who holds least for his weight, and of his applications the one that holds least for its own. What is
held is counted by its dominant share, waiting containers included; guaranteed containers are not counted, and none of
this against the guaranteed share. Whoever is alone gets everything. Decides only; granting and ending are the
ResourceManager's.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from executor.records import ContainerState, Resource

from ...allocation.asks import Ask, could_serve
from ..entities import RMApp, RMAppAttempt, RMContainer
from ..lives import Phase
from .queues import dominant_share

_NOTHING = Resource()


class OpportunisticShares:
    """What users hold of opportunistic containers, and their weights (1 for who is not named)."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self.by_user: dict[str, Resource] = {}

    def copy(self) -> OpportunisticShares:
        """The same, to be changed for itself."""
        copy = OpportunisticShares(self._weights)
        copy.by_user = dict(self.by_user)
        return copy

    def change(self, app: RMApp, resource: Resource, sign: int) -> None:
        """An opportunistic container of ``app`` takes (1) or gives back (-1) ``resource``."""
        app.opportunistic_held = app.opportunistic_held + resource * sign
        self.give(app.user, resource * sign)

    def give(self, user: str, change: Resource) -> None:
        """A user holds so much more, or less."""
        held = self.by_user.get(user, _NOTHING) + change
        if held == _NOTHING:
            self.by_user.pop(user, None)
        else:
            self.by_user[user] = held

    def hand_over(self, container: RMContainer, user: str, resource: Resource) -> None:
        """``container`` ends, so that ``user`` has room for ``resource``."""
        self.give(container.app.user, _NOTHING - container.resource)
        self.give(user, resource)

    def of_user(self, user: str, total: Resource, change: Resource = _NOTHING) -> float:
        """A user's dominant share for each unit of his weight, were it changed by so much."""
        held = self.by_user.get(user, _NOTHING) + change
        return dominant_share(held, total) / self._weights.get(user, 1.0)

    def of_application(self, app: RMApp, total: Resource) -> float:
        """An application's dominant share for each unit of its weight, which is 1 plus its priority."""
        return dominant_share(app.opportunistic_held, total) / (1 + max(0, app.context.priority))


class FairRotation:
    """Whose turn it is among attempts that want opportunistic containers, of which one is served a turn.

    Among equals the one that has waited longest goes first: the order of ``attempts`` at the beginning. A turn costs
    the same however many there are: a user's place that is out of date is passed over when it comes up.
    """

    def __init__(
        self, shares: OpportunisticShares, total: Resource, attempts: Iterable[RMAppAttempt]
    ) -> None:
        self._shares = shares
        self._total = total
        self._turn = 0
        self._users: list[tuple[float, int, str]] = []
        self._turn_of: dict[str, int] = {}
        self._of: dict[str, list[tuple[float, int, RMAppAttempt]]] = {}
        for attempt in attempts:
            self._enter(attempt)
            if attempt.app.user not in self._turn_of:
                self._enter_user(attempt.app.user)

    def take(self) -> RMAppAttempt | None:
        """The next one; None where there is none. It is out until it is put back."""
        while self._users:
            _, turn, user = heapq.heappop(self._users)
            if turn == self._turn_of[user] and (mine := self._of[user]):
                attempt = heapq.heappop(mine)[2]
                self._enter_user(user)  # his others go on if this one can be served no more
                return attempt
        return None

    def put_back(self, attempt: RMAppAttempt) -> None:
        """It was served, and may be again."""
        self._enter(attempt)
        self._enter_user(attempt.app.user)

    def _enter(self, attempt: RMAppAttempt) -> None:
        self._turn += 1
        share = self._shares.of_application(attempt.app, self._total)
        heapq.heappush(self._of.setdefault(attempt.app.user, []), (share, self._turn, attempt))

    def _enter_user(self, user: str) -> None:
        self._turn += 1
        self._turn_of[user] = self._turn
        heapq.heappush(self._users, (self._shares.of_user(user, self._total), self._turn, user))


class QueueShedder:
    """Takes places in nodes' queues back from users who hold more than their share, for one who finds none.

    Who came first may have filled every queue with work that takes hours. What waits there has not begun, so nothing is
    lost: its job asks for it again, at no cost, and finds its turn by its user's share.
    """

    def __init__(self, shares: OpportunisticShares) -> None:
        self._shares = shares
        #: those that are on their way out, each with the user for whom
        self._shed: dict[str, tuple[RMContainer, str]] = {}

    def choose(
        self, waiting: Iterable[RMAppAttempt], live: Mapping[str, RMContainer], total: Resource
    ) -> list[RMContainer]:
        """Containers that are to leave their queues, for attempts that found no room just now.

        The one who loses still holds no less for his weight than the one who gains: nothing goes to and fro.
        """
        self._shed = {name: pair for name, pair in self._shed.items() if name in live}
        attempts = list(waiting)
        takers = {attempt.app.user for attempt in attempts}
        if not takers or len(takers | self._shares.by_user.keys()) < 2:
            return []
        coming = self._shares.copy()  # what users hold once all that is on its way has happened
        for container, user in self._shed.values():
            coming.hand_over(container, user, container.resource)

        def standing(attempt: RMAppAttempt | RMContainer) -> float:
            return coming.of_user(attempt.app.user, total)

        neediest = min(map(standing, attempts))
        if all(coming.of_user(user, total) <= neediest for user in self._shares.by_user):
            return []
        queued = [one for one in live.values() if self._is_queued(one)]
        chosen = []
        for attempt, ask in self._wanted(sorted(attempts, key=standing)):
            gains = coming.of_user(attempt.app.user, total, ask.resource)
            for container in sorted(queued, key=lambda one: (-standing(one), -one.sequence)):
                left = coming.of_user(container.app.user, total, _NOTHING - container.resource)
                if left >= gains and _is_of_use(container, attempt, ask):
                    coming.hand_over(container, attempt.app.user, ask.resource)
                    self._shed[container.id] = (container, attempt.app.user)
                    queued.remove(container)
                    chosen.append(container)
                    break
        return chosen

    def _is_queued(self, container: RMContainer) -> bool:
        return (
            container.phase is Phase.QUEUED
            and not container.is_guaranteed
            and container.status is not None
            and container.status.state is ContainerState.SCHEDULED
            and container.id not in self._shed
            and not container.released
        )

    def _wanted(self, attempts: list[RMAppAttempt]) -> Iterator[tuple[RMAppAttempt, Ask]]:
        """What is waited for, less what is being made room for already."""
        promised = Counter(user for _, user in self._shed.values())
        for attempt in attempts:
            user = attempt.app.user
            for ask in attempt.opportunistic_asks:
                skipped = min(promised[user], ask.outstanding)
                promised[user] -= skipped
                for _ in range(ask.outstanding - skipped):
                    before = len(self._shed)
                    yield attempt, ask
                    if len(self._shed) == before:
                        return


def _is_of_use(container: RMContainer, attempt: RMAppAttempt, ask: Ask) -> bool:
    """Whether the place of a container is one for that ask."""
    node = container.node
    return (
        container.app.user != attempt.app.user
        and node.usable
        and not node.load.awaited
        and could_serve(ask, node.load, attempt.blacklist)
    )
