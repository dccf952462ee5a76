"""The queues of guaranteed containers: capacities, usage, and order.

YARN's ``ParentQueue``, ``LeafQueue``, ``UsersManager`` and ``FairOrderingPolicy``. Opportunistic containers are not
charged here. Accounts and order only: ``capacity_scheduler`` handles nodes, ``preemption`` preemption.

Decisions: shares.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from executor.light import replace
from executor.reasons import Reason, ReasonKind
from executor.records import Resource, counted

from ...allocation.asks import Ask, AskKey, AskTable
from ...allocation.sorted_items import SortedItems
from ...errors import InvalidResourceRequestError
from ...records.requests import ApplicationSubmissionContext
from ...settings.queues import DEFAULT_QUEUES, CapacitySchedulerSettings, QueueSettings

_NOTHING = Resource()
_EPSILON = 1e-9

Group = dict[AskKey, Ask]


class QueuedApplication(Protocol):
    """An application, with the attributes that decide its place among others."""

    user: str
    number: int
    context: ApplicationSubmissionContext
    guaranteed: Resource


class QueuedAttempt(Protocol):
    """An attempt that requests guaranteed containers."""

    id: str
    guaranteed_asks: AskTable

    @property
    def app(self) -> QueuedApplication:
        """The attempt's application."""


AttemptT = TypeVar("AttemptT", bound=QueuedAttempt)


def apportion(total: int, percents: Sequence[float]) -> list[int]:
    """``total`` in whole parts by percentage (largest remainder). The parts sum to the total if the percentages sum to
    100.

    Queues are therefore promised whole vcores, and never more than there are: 70 and 30 percent of 2 are 1 and 1.
    """
    exact = [total * percent / 100 for percent in percents]
    parts = [math.floor(one + _EPSILON) for one in exact]
    left = round(sum(exact)) - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda index: (parts[index] - exact[index], index))
    for index in by_remainder[:left]:
        parts[index] += 1
    return parts


def dominant_share(used: Resource, total: Resource) -> float:
    """The largest share of ``total`` that ``used`` is, over the resource types (Ghodsi et al., NSDI 2011)."""
    memory = used.memory / total.memory if total.memory else 0.0
    vcores = used.vcores / total.vcores if total.vcores else 0.0
    share = max(memory, vcores)
    for one in used.others:
        if has := total.amount(one.name):
            share = max(share, one.value / has)
    return share


def with_more(used: Resource, need: Resource) -> Resource:
    """The sum of ``used`` and ``need``, with the further resource types of ``need`` only. A user above the share of
    GPUs may therefore have another container that needs no GPU."""
    grown = used + need
    if grown.others:
        grown = replace(grown, others=tuple(one for one in grown.others if need.amount(one.name)))
    return grown


def total_of(resources: Iterable[Resource]) -> Resource:
    """The sum of all these resources."""
    memory = vcores = 0
    others = _NOTHING
    for one in resources:
        memory, vcores = memory + one.memory, vcores + one.vcores
        if one.others:
            others = others + one.only_others
    return Resource(memory, vcores, others.others)


def _place(attempt: QueuedAttempt) -> tuple[int, int]:
    """The place of an attempt in a queue that is ordered by priority and submission."""
    return (-attempt.app.context.priority, attempt.app.number)


def _ceil(part: float, total: Resource) -> Resource:
    def of(amount: int) -> int:
        return math.ceil(amount * part - _EPSILON)

    others = total.others and counted({one.name: of(one.value) for one in total.others})
    return Resource(of(total.memory), of(total.vcores), others)


class Queue:
    """One queue. ``guaranteed`` and ``maximum`` are its percentages as resources of the present cluster.

    ``share`` and ``maximum_share`` are parts of the cluster, from 0 to 1. ``owed``: containers of other queues were
    preempted for its requests. ``stopped``: the queue accepts no applications.
    """

    def __init__(self, settings: QueueSettings, parent: Queue | None) -> None:
        self.settings = settings
        self.parent = parent
        self.share: float = (parent.share if parent else 1.0) * settings.capacity / 100
        self.maximum_share: float = (
            (parent.maximum_share if parent else 1.0) * settings.maximum_capacity / 100
        )
        self.stopped = settings.state == "STOPPED"
        self.children: tuple[Queue, ...] = ()
        self.owed = False
        self.used = self.guaranteed = self.maximum = _NOTHING

    @property
    def path(self) -> str:
        """The queue's name from the root down."""
        return self.settings.path

    def resize(self, guaranteed: Resource, total: Resource) -> None:
        """The cluster has ``total`` now; ``guaranteed`` is the capacity of this queue."""
        self.guaranteed = guaranteed
        at_most = _ceil(self.maximum_share, total)
        # A capacity in whole vcores may be a little above the percentage.
        self.maximum = at_most.greater(guaranteed)
        percents = [child.settings.capacity for child in self.children]
        memory, vcores = apportion(guaranteed.memory, percents), apportion(guaranteed.vcores, percents)
        others = {one.name: apportion(one.value, percents) for one in guaranteed.others}
        for at, child in enumerate(self.children):
            of_child = counted({name: parts[at] for name, parts in others.items()})
            child.resize(Resource(memory[at], vcores[at], of_child), total)

    def usage(self, total: Resource) -> float:
        """The used part of its capacity, in the resource type with the largest part: 1.0 is all of it."""
        used = dominant_share(self.used, total)
        if self.share <= 0:
            return math.inf
        return used / self.share

    def is_full_for(self, need: Resource) -> bool:
        """Whether its maximum refuses ``need`` more. A queue whose maximum is the whole cluster is limited only by
        nodes."""
        return self.maximum_share < 1 and not with_more(self.used, need).fits_in(self.maximum)

    def line(self) -> Iterator[Queue]:
        """This queue and the queues above it."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent


def _at_limit(
    kind: ReasonKind, where: str, need: Resource, used: Resource, limit: Resource, user: str = ""
) -> Reason:
    return Reason(kind, where=where, size=need, used=used, limit=limit, detail=user)


@dataclass(slots=True)
class UserUse:
    """The usage of one user in one queue; ``workers`` counts containers other than masters."""

    used: Resource = _NOTHING
    workers: int = 0
    masters: int = 0


class LeafQueue(Queue, Generic[AttemptT]):
    """A queue that accepts applications.

    ``in_turn``: among applications of one priority, the applications of the user with the smallest usage go first.
    ``is_fair``: among these, the application with the smallest usage goes first, instead of the oldest. ``label`` is
    its name if the name is unique, else its path.
    """

    def __init__(
        self, settings: QueueSettings, parent: Queue | None, scheduler: CapacitySchedulerSettings
    ) -> None:
        super().__init__(settings, parent)
        percent = settings.maximum_am_resource_percent
        self._am_percent = scheduler.maximum_am_resource_percent if percent < 0 else percent
        self.is_fair = settings.ordering_policy == "fair"
        self.in_turn = scheduler.users_in_turn and settings.minimum_user_limit_percent == 100
        self.label = settings.name
        self.attempts: dict[str, AttemptT] = {}
        #: those of them with outstanding guaranteed asks, in order, by user
        self._asking: dict[str, SortedItems[AttemptT]] = {}
        self._asking_users: dict[str, str] = {}
        self.users: dict[str, UserUse] = {}
        self.masters = 0
        self.masters_used = _NOTHING

    @property
    def unlimited(self) -> bool:
        """Whether only the room on nodes would limit applications here, if this were the only queue."""
        settings = self.settings
        factor = settings.user_limit_factor
        return (
            all(queue.settings.maximum_capacity >= 100 for queue in self.line())
            and (factor < 0 or factor >= 1)
            and settings.minimum_user_limit_percent == 100
            and self._am_percent >= 1
            and not self.is_fair
        )

    def charge(self, user: str, resource: Resource, sign: int, *, master: bool) -> None:
        """A guaranteed container takes (1) or gives back (-1) ``resource``."""
        change = resource * sign
        for queue in self.line():
            queue.used = queue.used + change
        use = self.users.setdefault(user, UserUse())
        use.used = use.used + change
        if master:
            use.masters += sign
            self.masters += sign
            self.masters_used = self.masters_used + change
        else:
            use.workers += sign
        if not use.workers and not use.masters:
            del self.users[user]

    def enter(self, attempt: AttemptT) -> None:
        """Add an attempt."""
        self.attempts[attempt.id] = attempt
        self.asks(attempt)

    def leave(self, attempt: AttemptT) -> bool:
        """Remove an attempt. Returns whether the queue had it."""
        was_here = self.attempts.pop(attempt.id, None) is not None
        self.asks(attempt)
        return was_here

    def asks(self, attempt: AttemptT) -> None:
        """Note whether an attempt asks for guaranteed containers, and its priority."""
        name, user = attempt.id, attempt.app.user
        if name in self.attempts and attempt.guaranteed_asks.outstanding:
            self._asking_users[name] = user
            self._asking.setdefault(user, SortedItems(_place)).put(name, attempt)
        elif self._asking_users.pop(name, None) is not None:
            self._asking[user].drop(name)
            if not self._asking[user].items:
                del self._asking[user]

    def active_users(self) -> int:
        """The number of users with waiting guaranteed requests."""
        return len(self._asking)

    def user_limit(self, need: Resource, active: int) -> Resource:
        """The limit of one user here while ``active`` users request containers, one of them of size ``need``.

        YARN's formula in each dimension: an even share of the queue's resources (its capacity, or its usage if that is
        greater), at least the minimum percentage of them, at most the factor times its capacity.
        """
        settings, guaranteed, used = self.settings, self.guaranteed, self.used
        part = max(1 / max(1, active), settings.minimum_user_limit_percent / 100)
        factor = settings.user_limit_factor

        def limit(capacity: int, taken: int, wanted: int) -> int:
            current = max(capacity, taken + wanted)
            even = math.ceil(current * part - _EPSILON)
            return even if factor < 0 else min(even, math.ceil(capacity * factor - _EPSILON))

        return Resource(
            limit(guaranteed.memory, used.memory, need.memory),
            limit(guaranteed.vcores, used.vcores, need.vcores),
            counted(
                {
                    name: limit(guaranteed.amount(name), used.amount(name), need.amount(name))
                    for name in {one.name for size in (guaranteed, used, need) for one in size.others}
                }
            ),
        )

    def am_limit(self) -> Resource:
        """The limit of all masters in the queue."""
        return _ceil(self._am_percent, self.maximum)

    def refuses(self, user: str, need: Resource, *, master: bool, active: int | None = None) -> Reason | None:
        """The limit that refuses another guaranteed container of ``need`` to ``user``, with the usage and the queue.

        A user may always have one container and a queue one master; otherwise a small cluster would run nothing.
        """
        for queue in self.line():
            if queue.is_full_for(need):
                return _at_limit(ReasonKind.QUEUE_MAXIMUM, queue.path, need, queue.used, queue.maximum)
        if master:
            limit, full = self.am_limit(), self.masters > 0 and self._am_percent < 1
            if not full or with_more(self.masters_used, need).fits_in(limit):
                return None
            return _at_limit(ReasonKind.MASTERS_LIMIT, self.path, need, self.masters_used, limit)
        use = self.users.get(user)
        if use is not None and use.workers:
            limit = self.user_limit(need, self.active_users() if active is None else active)
            if not with_more(use.used, need).fits_in(limit):
                return _at_limit(ReasonKind.USER_LIMIT, self.path, need, use.used, limit, user)
        return None

    def check_size(self, size: Resource) -> None:
        """Raise InvalidResourceRequestError for a guaranteed container that is larger than the queue can ever be."""
        for queue in self.line():
            if queue.maximum_share < 1 and queue.maximum != _NOTHING and not size.fits_in(queue.maximum):
                raise InvalidResourceRequestError(
                    f"a container of {size} is larger than queue {queue.path} may ever be",
                    because=f"its maximum-capacity is {queue.maximum} on this cluster",
                    hint="request less, or use another queue: yopp queue list",
                )

    @property
    def is_asked(self) -> bool:
        """Whether any attempt has outstanding guaranteed asks."""
        return bool(self._asking_users)

    def waiting(self) -> Iterator[AttemptT]:
        """Attempts with outstanding guaranteed asks, by priority (a larger number first), then submission.

        An attempt whose asks end during the iteration may be included.
        """
        return heapq.merge(*self._asking.values(), key=_place)

    def lines(self) -> list[Iterator[AttemptT]]:
        """The waiting attempts in as many lines as take turns: one for each user, or one for all."""
        return [iter(one) for one in self._asking.values()] if self.in_turn else [self.waiting()]

    def validate(self) -> None:
        """Assert that all requesting applications are known."""
        asking = {name: one for name, one in self.attempts.items() if one.guaranteed_asks.outstanding}
        assert self._asking_users == {name: one.app.user for name, one in asking.items()}
        assert set(self._asking) == set(self._asking_users.values())
        for one in self._asking.values():
            one.validate()
        assert [one.id for one in self.waiting()] == sorted(asking, key=lambda name: _place(asking[name]))


class QueueTree(Generic[AttemptT]):
    """All queues. ``plain``: there is one leaf and no limit, so only the order matters."""

    def __init__(
        self, root: QueueSettings = DEFAULT_QUEUES, scheduler: CapacitySchedulerSettings | None = None
    ) -> None:
        self.settings = root
        self.scheduler = scheduler or CapacitySchedulerSettings()
        self.leaves: dict[str, LeafQueue[AttemptT]] = {}
        self.by_path: dict[str, Queue] = {}
        self.total = _NOTHING
        self.root = self._made(root, None)
        names = [leaf.settings.name for leaf in self.leaves.values()]
        for leaf in self.leaves.values():
            if names.count(leaf.settings.name) > 1:
                leaf.label = leaf.path
        self.plain = len(self.leaves) == 1 and next(iter(self.leaves.values())).unlimited

    def _made(self, settings: QueueSettings, parent: Queue | None) -> Queue:
        if not settings.children:
            leaf: LeafQueue[AttemptT] = LeafQueue(settings, parent, self.scheduler)
            self.leaves[settings.path] = self.by_path[settings.path] = leaf
            return leaf
        queue = self.by_path[settings.path] = Queue(settings, parent)
        queue.children = tuple(self._made(child, queue) for child in settings.children)
        return queue

    def resize(self, total: Resource) -> None:
        """The cluster has ``total`` now."""
        self.total = total
        self.root.resize(total, total)

    def find(self, name: str) -> Queue | None:
        """The queue with this path, or with this name if only one queue has it."""
        if (found := self.by_path.get(name)) is not None:
            return found
        named = [queue for queue in self.by_path.values() if queue.settings.name == name]
        return named[0] if len(named) == 1 else None


@dataclass(slots=True, eq=False)
class AttemptTurn(Generic[AttemptT]):
    """An attempt whose turn it is, with its asks that have not been passed over, grouped by shape.

    ``active`` users wait in its queue. ``rest`` are the attempts behind it.
    """

    leaf: LeafQueue[AttemptT]
    attempt: AttemptT
    groups: deque[Group]
    active: int
    rest: Iterator[AttemptT]

    @property
    def ask(self) -> Ask:
        """The next ask."""
        return next(iter(self.groups[0].values()))

    def pass_over(self) -> None:
        """Drop the asks of the next shape: they cannot be served in this round."""
        self.groups.popleft()


class _Line(Generic[AttemptT]):
    """The attempts of one queue that have not been passed over with all their asks yet, in order of submission.

    If a user's turns follow the same order, only the attempts whose turn comes are examined.
    """

    def __init__(self, leaf: LeafQueue[AttemptT]) -> None:
        self._leaf = leaf
        self._active = leaf.active_users()
        self._turns: list[AttemptTurn[AttemptT]] = []
        for rest in leaf.lines():
            self._fill(rest)

    @property
    def is_empty(self) -> bool:
        """Whether all attempts were passed over."""
        return not self._turns

    def first(self, total: Resource) -> AttemptTurn[AttemptT]:
        """The next turn; ``total`` is the cluster's resources."""
        if len(self._turns) == 1:
            return self._turns[0]
        leaf = self._leaf

        def standing(turn: AttemptTurn[AttemptT]) -> tuple[int, float, float, int]:
            app = turn.attempt.app
            use = leaf.users.get(app.user) if leaf.in_turn else None
            users = dominant_share(use.used, total) if use is not None else 0.0
            own = dominant_share(app.guaranteed, total) if leaf.is_fair else 0.0
            return (-app.context.priority, users, own, app.number)

        return min(self._turns, key=standing)

    def remove(self, turn: AttemptTurn[AttemptT]) -> None:
        """Remove an attempt that was passed over with all its asks."""
        self._turns.remove(turn)
        self._fill(turn.rest)

    def _fill(self, rest: Iterator[AttemptT]) -> None:
        """Add all attempts at once if shares decide, else the next one."""
        for attempt in rest:
            groups: deque[Group] = deque(attempt.guaranteed_asks.groups())
            self._turns.append(AttemptTurn(self._leaf, attempt, groups, self._active, rest))
            if not self._leaf.is_fair:
                return


class Turns(Generic[AttemptT]):
    """One round of assignment: the order in which asks are examined, until each was served or passed over.

    At every level, queues whose next container stays within their capacity go first. Among these, queues for which
    containers were preempted go first, then the queue that uses the least of its share. Within the queue, its order of
    users and applications decides.
    """

    def __init__(self, tree: QueueTree[AttemptT]) -> None:
        self._tree = tree
        #: attempts that have not been passed over with all their asks yet, in order of submission, by queue
        self._waiting: dict[str, _Line[AttemptT]] = {}
        #: asks that their queue's own limit keeps waiting, by queue
        self._limited: dict[str, list[Ask]] = {}
        for leaf in tree.leaves.values():
            if leaf.is_asked:
                self._waiting[leaf.path] = _Line(leaf)
            else:
                leaf.owed = False
        for queue in reversed(tree.by_path.values()):
            if queue.children:
                queue.owed = any(child.owed for child in queue.children)

    def next(self) -> AttemptTurn[AttemptT] | None:
        """The next attempt and its asks; None if all were served or passed over."""
        while (line := self._pick(self._tree.root)) is not None:
            turn = line.first(self._tree.total)
            while turn.groups and not turn.groups[0]:
                turn.groups.popleft()
            if turn.groups:
                return turn
            line.remove(turn)
            if line.is_empty:
                del self._waiting[turn.leaf.path]
        return None

    def limited(self, turn: AttemptTurn[AttemptT], patience: int) -> None:
        """Pass over an ask whose queue is full. After ``patience`` later asks were served, its queue waits for it."""
        ask = turn.ask
        turn.pass_over()
        if ask.overtaken >= patience:
            del self._waiting[turn.leaf.path]
        else:
            self._limited.setdefault(turn.leaf.path, []).append(ask)

    def served(self, turn: AttemptTurn[AttemptT]) -> None:
        """Count a served ask: it has overtaken the asks that the queue's limit keeps waiting."""
        for ask in self._limited.get(turn.leaf.path, ()):
            ask.overtaken += 1

    def _pick(self, queue: Queue) -> _Line[AttemptT] | None:
        if not queue.children:
            return self._waiting.get(queue.path)
        found = [(child, line) for child in queue.children if (line := self._pick(child)) is not None]
        if len(found) < 2:
            return found[0][1] if found else None
        return min(found, key=lambda pair: self._standing(*pair))[1]

    def _standing(self, queue: Queue, line: _Line[AttemptT]) -> tuple[bool, bool, float]:
        groups = line.first(self._tree.total).groups
        need = next((next(iter(group.values())).resource for group in groups if group), _NOTHING)
        within = (queue.used + need).fits_in(queue.guaranteed)
        return (not within, not queue.owed, queue.usage(self._tree.total))
