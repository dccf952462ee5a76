"""Shares of opportunistic containers: which user gets the next one, and whose queued containers are shed.

YARN has no fairness among opportunistic containers: one application can fill every queue (yarn-gaps G12). Here the
user with the smallest holdings relative to the user's weight goes first, and then that user's application with the
smallest holdings relative to its own weight. Holdings are dominant shares of opportunistic containers, waiting ones
included. A single user gets everything. It only decides; the ResourceManager grants and ends.

Decisions: shares.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping

from executor.records import ContainerState, Resource

from ...allocation.asks import Ask, could_serve
from ...allocation.sorted_items import SortedItems
from ..entities import RMApp, RMAppAttempt, RMContainer
from ..lives import Phase
from .queues import dominant_share

_NOTHING = Resource()


class OpportunisticShares:
    """The users' holdings of opportunistic containers, and their weights (default 1)."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self.by_user: dict[str, Resource] = {}
        self.watchers: list[Callable[[str, RMApp], None]] = []
        """Called with a user, and an application of this user, when their holdings have changed."""

    def copy(self) -> OpportunisticShares:
        """A copy that can be changed independently."""
        copy = OpportunisticShares(self._weights)
        copy.by_user = dict(self.by_user)
        return copy

    def change(self, app: RMApp, resource: Resource, sign: int) -> None:
        """An opportunistic container of ``app`` takes (1) or gives back (-1) ``resource``."""
        app.opportunistic_held = app.opportunistic_held + resource * sign
        self.give(app.user, resource * sign)
        for watcher in self.watchers:
            watcher(app.user, app)

    def give(self, user: str, change: Resource) -> None:
        """Add ``change`` to the holdings of a user."""
        held = self.by_user.get(user, _NOTHING) + change
        if held == _NOTHING:
            self.by_user.pop(user, None)
        else:
            self.by_user[user] = held

    def hand_over(self, container: RMContainer, user: str, resource: Resource) -> None:
        """Count ``container`` as ended, and ``resource`` as allocated to ``user``."""
        self.give(container.app.user, _NOTHING - container.resource)
        self.give(user, resource)

    def of_user(self, user: str, total: Resource, change: Resource = _NOTHING) -> float:
        """A user's dominant share divided by the user's weight, after ``change``."""
        held = self.by_user.get(user, _NOTHING) + change
        return dominant_share(held, total) / self._weights.get(user, 1.0)

    def of_application(self, app: RMApp, total: Resource) -> tuple[float, int]:
        """The place of an application among its user's applications: its dominant share divided by its weight, which
        is 1 plus its priority. Among equals, such as applications without containers, the greater weight comes
        first."""
        weight = 1 + max(0, app.context.priority)
        return dominant_share(app.opportunistic_held, total) / weight, -weight


class WaitingAttempts:
    """The attempts that request opportunistic containers; the attempt that was served last is at the end.

    Users, and the applications of each user, are kept in order, and only changes are updated: a turn costs the same
    for five waiting applications and for a thousand. ``least`` is a lower bound of the sizes of their requests.
    """

    def __init__(self, shares: OpportunisticShares) -> None:
        self.shares = shares
        self.least = _NOTHING
        self._has_least = False
        self._total = _NOTHING
        self._attempts: OrderedDict[str, RMAppAttempt] = OrderedDict()
        self._position = 0
        self._positions: dict[str, int] = {}
        self._of: dict[str, OrderedDict[str, RMAppAttempt]] = {}
        self.users: SortedItems[str] = SortedItems(self._place_of_user)
        self._ordered: dict[str, SortedItems[RMAppAttempt]] = {}
        shares.watchers.append(self._share_changed)

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, attempt_id: str) -> bool:
        return attempt_id in self._attempts

    def __iter__(self) -> Iterator[RMAppAttempt]:
        """The attempts, in the order in which they were last served or added."""
        return iter(self._attempts.values())

    @property
    def contended(self) -> bool:
        """Whether several users wait or hold containers."""
        return len(self._of) > 1 or not self.shares.by_user.keys() <= self._of.keys()

    def add(self, attempt: RMAppAttempt) -> None:
        """Add an attempt that requests containers, behind the others."""
        if attempt.id in self._attempts:
            return
        user = attempt.app.user
        self._attempts[attempt.id] = attempt
        if user not in self._of:
            self._of[user] = OrderedDict()
            self._ordered[user] = SortedItems(self._place_of_attempt)
        self._of[user][attempt.id] = attempt
        self._number(attempt)
        self._ordered[user].put(attempt.id, attempt)
        self.users.put(user, user)

    def remove(self, attempt_id: str) -> None:
        """Remove an attempt that requests no containers any more."""
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is None:
            return
        user = attempt.app.user
        del self._of[user][attempt_id], self._positions[attempt_id]
        self._ordered[user].drop(attempt_id)
        self.users.changed[user] = None
        if not self._of[user]:
            del self._of[user], self._ordered[user]
            self.users.drop(user)
        if not self._attempts:
            self.least = _NOTHING
            self._has_least = False

    def served(self, attempt: RMAppAttempt) -> None:
        """Move an attempt that got a container behind the others."""
        if attempt.id in self._attempts:
            self._attempts.move_to_end(attempt.id)
            self._of[attempt.app.user].move_to_end(attempt.id)
            self._number(attempt)

    def asked(self, size: Resource | None) -> None:
        """One of the attempts requests containers of this size."""
        if size is not None:
            least = self.least if self._has_least else size
            self.least = least.lesser(size)
            self._has_least = True

    def weight_changed(self, app: RMApp) -> None:
        """The priority of an application has changed."""
        self._share_changed(app.user, app)

    def begin(self, total: Resource) -> FairRotation:
        """Begin a round of turns; ``total`` is the cluster's resources."""
        if total != self._total:
            self._total = total
            self.users.all_changed()
            for ordered in self._ordered.values():
                ordered.all_changed()
        return FairRotation(self, total, self._ordered)

    def _number(self, attempt: RMAppAttempt) -> None:
        self._position += 1
        self._positions[attempt.id] = self._position
        self._ordered[attempt.app.user].changed[attempt.id] = None
        self.users.changed[attempt.app.user] = None

    def _share_changed(self, user: str, app: RMApp) -> None:
        if user in self._of:
            self.users.changed[user] = None
            if app.attempts:
                self._ordered[user].changed[app.attempt.id] = None

    def _place_of_user(self, user: str) -> tuple[float, int] | None:
        mine = self._of.get(user)
        if not mine:
            return None
        return self.shares.of_user(user, self._total), self._positions[next(iter(mine))]

    def _place_of_attempt(self, attempt: RMAppAttempt) -> tuple[tuple[float, int], int] | None:
        position = self._positions.get(attempt.id)
        if position is None:
            return None
        return self.shares.of_application(attempt.app, self._total), position

    def validate(self) -> None:
        """Assert that the orders match the waiting requests."""
        self.users.validate()
        assert set(self._of) == set(self._ordered) == {one.app.user for one in self._attempts.values()}
        for user, mine in self._of.items():
            assert list(mine) == [one.id for one in self._attempts.values() if one.app.user == user]
            self._ordered[user].validate()
        positions = [self._positions[name] for name in self._attempts]
        assert positions == sorted(positions) and len(positions) == len(self._positions)


class FairRotation:
    """The turns of attempts that request opportunistic containers; each turn serves one container.

    Among equals the attempt that has waited longest goes first: the order of ``waiting`` at the beginning. Attempts
    that had a turn are kept apart from the others, whose order does not change.
    """

    def __init__(
        self,
        waiting: WaitingAttempts,
        total: Resource,
        ordered: Mapping[str, SortedItems[RMAppAttempt]],
    ) -> None:
        self._shares = waiting.shares
        self._total = total
        self._turn = 0
        self._ordered = ordered
        self._first = iter(waiting.users)
        self._next: str | None = next(self._first, None)
        self._share_of_next = self._of_user(self._next)
        #: users who had a turn: (share, turn, user); of each the last entry counts
        self._users: list[tuple[float, int, str]] = []
        self._turn_of: dict[str, int] = {}
        #: by user: the rest of his attempts that had no turn, the first of them, and those that had a turn
        self._fresh: dict[str, Iterator[RMAppAttempt]] = {}
        self._fresh_one: dict[str, RMAppAttempt | None] = {}
        self._again: dict[str, list[tuple[tuple[float, int], int, RMAppAttempt]]] = {}

    def take(self) -> RMAppAttempt | None:
        """Remove and return the next attempt; None if there is none."""
        while (user := self._next_user()) is not None:
            if (attempt := self._next_of(user)) is not None:
                # The user's other attempts go on if this one cannot be served any more.
                self._enter_user(user)
                return attempt
        return None

    def put_back(self, attempt: RMAppAttempt) -> None:
        """Put back an attempt that was served and may be served again."""
        self._turn += 1
        user, share = attempt.app.user, self._shares.of_application(attempt.app, self._total)
        heapq.heappush(self._again.setdefault(user, []), (share, self._turn, attempt))
        self._enter_user(user)

    def _of_user(self, user: str | None) -> float:
        return math.inf if user is None else self._shares.of_user(user, self._total)

    def _next_user(self) -> str | None:
        while self._users and self._users[0][1] != self._turn_of[self._users[0][2]]:
            heapq.heappop(self._users)
        if self._next is not None and (not self._users or self._share_of_next <= self._users[0][0]):
            user, self._next = self._next, next(self._first, None)
            self._share_of_next = self._of_user(self._next)
            return user
        return heapq.heappop(self._users)[2] if self._users else None

    def _next_of(self, user: str) -> RMAppAttempt | None:
        if user not in self._fresh:
            self._fresh[user] = iter(self._ordered[user])
            self._fresh_one[user] = next(self._fresh[user], None)
        fresh, again = self._fresh_one[user], self._again.get(user)
        if fresh is not None and (
            not again or self._shares.of_application(fresh.app, self._total) <= again[0][0]
        ):
            self._fresh_one[user] = next(self._fresh[user], None)
            return fresh
        return heapq.heappop(again)[2] if again else None

    def _enter_user(self, user: str) -> None:
        self._turn += 1
        self._turn_of[user] = self._turn
        heapq.heappush(self._users, (self._of_user(user), self._turn, user))


class QueueShedder:
    """Sheds queued containers of users above their share, for a user who finds no place in a queue.

    An earlier user may have filled every queue with work that takes hours. Queued work has not started, so nothing is
    lost: its job requests it again without counting a try, and gets it by its user's share.
    """

    def __init__(self, shares: OpportunisticShares) -> None:
        self._shares = shares
        #: those that are on their way out, each with the user for whom
        self._shed: dict[str, tuple[RMContainer, str]] = {}

    def choose(
        self,
        waiting: WaitingAttempts,
        live: Mapping[str, RMContainer],
        total: Resource,
        may_take: Callable[[RMAppAttempt], bool],
    ) -> list[RMContainer]:
        """The containers that are to leave their queues, for attempts that have just found no room; ``may_take``
        returns whether an attempt may get more containers.

        After the change, the losing user's share is not below the gaining user's share, relative to their weights.
        Places therefore do not oscillate.
        """
        if self._shed:
            self._shed = {name: pair for name, pair in self._shed.items() if name in live}
        if not waiting.contended:
            return []
        attempts = [attempt for attempt in waiting if may_take(attempt)]
        if not attempts:
            return []
        coming = self._shares.copy()  # The users' holdings after all pending changes.
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
        """The requested resources, without the requests for which containers are being shed."""
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
    """Whether the place of ``container`` can serve ``ask``."""
    node = container.node
    return (
        container.app.user != attempt.app.user
        and node.usable
        and not node.load.awaited
        and could_serve(ask, node.load, attempt.blacklist)
    )
