"""Who gets the next opportunistic container where several want one: a weighted share a user and an application.

YARN has no fairness among opportunistic containers: one application can fill every queue (yarn-gaps G12). Here the
user goes first who holds least for his weight, and of his applications the one that holds least for its own. What is
held is counted by its dominant share, waiting containers included; guaranteed containers are not counted, and none of
this against the guaranteed share. Whoever is alone gets everything.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from executor.records import Resource

from ..entities import RMApp, RMAppAttempt
from .queues import dominant_share

_NOTHING = Resource()


class OpportunisticShares:
    """What users hold of opportunistic containers, and their weights (1 for who is not named)."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self.by_user: dict[str, Resource] = {}

    def change(self, app: RMApp, resource: Resource, sign: int) -> None:
        """An opportunistic container of ``app`` takes (1) or gives back (-1) ``resource``."""
        change = resource if sign > 0 else _NOTHING - resource
        app.opportunistic_held = app.opportunistic_held + change
        held = self.by_user.get(app.user, _NOTHING) + change
        if held == _NOTHING:
            self.by_user.pop(app.user, None)
        else:
            self.by_user[app.user] = held

    def weight(self, user: str) -> float:
        """How much he is to have beside others."""
        return self._weights.get(user, 1.0)

    def of_user(self, user: str, total: Resource) -> float:
        """A user's dominant share for each unit of his weight."""
        return dominant_share(self.by_user.get(user, _NOTHING), total) / self.weight(user)

    def of_application(self, app: RMApp, total: Resource) -> float:
        """An application's dominant share for each unit of its weight, which is 1 plus its priority."""
        return dominant_share(app.opportunistic_held, total) / (1 + max(0, app.context.priority))


class FairRotation:
    """Whose turn it is among attempts that want opportunistic containers, of which one is served a turn.

    Among equals the one that has waited longest goes first: the order of ``attempts`` at the beginning.
    """

    def __init__(
        self, shares: OpportunisticShares, total: Resource, attempts: Iterable[RMAppAttempt]
    ) -> None:
        self._shares = shares
        self._total = total
        self._turn = 0
        self._users: list[tuple[float, int, str]] = []
        self._of: dict[str, list[tuple[float, int, RMAppAttempt]]] = {}
        for attempt in attempts:
            self._enter(attempt)

    def take(self) -> RMAppAttempt | None:
        """The next one; None where there is none. It is out until it is put back."""
        while self._users:
            user = heapq.heappop(self._users)[2]
            if mine := self._of[user]:
                attempt = heapq.heappop(mine)[2]
                if mine:
                    # He has others, which go on if this one can be served no more.
                    self._enter_user(user)
                return attempt
        return None

    def put_back(self, attempt: RMAppAttempt) -> None:
        """It was served, and may be again."""
        self._users = [one for one in self._users if one[2] != attempt.app.user]
        heapq.heapify(self._users)
        self._enter(attempt)

    def _enter(self, attempt: RMAppAttempt) -> None:
        self._turn += 1
        user = attempt.app.user
        mine = self._of.setdefault(user, [])
        heapq.heappush(mine, (self._shares.of_application(attempt.app, self._total), self._turn, attempt))
        if not any(one[2] == user for one in self._users):
            self._enter_user(user)

    def _enter_user(self, user: str) -> None:
        self._turn += 1
        heapq.heappush(self._users, (self._shares.of_user(user, self._total), self._turn, user))
