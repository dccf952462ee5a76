"""Preemption of guaranteed containers: if a queue is below its capacity, containers of queues above their capacity
are preempted.

YARN's ``ProportionalCapacityPreemptionPolicy``. It marks only the containers that waiting requests need, on the nodes
that will serve these requests; a marked container that is no longer needed is not killed.

Decisions: exact-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from executor.causes import Cause, CauseKind
from executor.reasons import Reason, ReasonKind, by_rule
from executor.records import MEMORY_MB, VCORES, ContainerExitStatus, Resource

from ...allocation.asks import Ask, could_serve
from ..container_ledger import ContainerLedger
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import RMApp, RMAppAttempt, RMContainer, RMNode
from .queues import LeafQueue, dominant_share, with_more

PREEMPTED = "Container preempted by scheduler"
_NOTHING = Resource()


@dataclass(frozen=True, slots=True)
class _Want:
    """A requested container for which a queue below its capacity waits."""

    leaf: LeafQueue[RMAppAttempt]
    attempt: RMAppAttempt
    ask: Ask

    @property
    def master(self) -> bool:
        return self.ask is self.attempt.am_ask

    def could_go_to(self, node: RMNode) -> bool:
        return could_serve(self.ask, node.load, self.attempt.blacklist)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan for one requested container: the containers to preempt on its node."""

    want: _Want
    node: RMNode
    victims: tuple[RMContainer, ...]


class PreemptionMonitor:
    """Marks containers for preemption, notifies their masters, and ends them after their grace period."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger
        #: the containers that will be ended, by id, each with the queue that wants its place
        self._marked: dict[str, tuple[RMContainer, LeafQueue[RMAppAttempt]]] = {}

    def check(self) -> None:
        """Schedule ``look`` if asks found no room; called at the end of each step."""
        scheduler, settings = self._rm.scheduler, self._rm.capacity
        if scheduler.starving and settings.preemption_enabled and len(scheduler.queues.leaves) > 1:
            due = self._rm.now + settings.preemption_interval_ms / 1000
            self._rm.deadlines.ensure(Due(DueKind.PREEMPT), due)

    def look(self) -> None:
        """Mark containers of queues above their capacity for queues below it; unmark containers that are no longer
        needed.
        """
        settings = self._rm.capacity
        plans = _Simulation(self._rm, self._marked.keys()).plans()
        wanted = {victim.id: (victim, plan.want.leaf) for plan in plans for victim in plan.victims}
        for container_id in self._marked.keys() - wanted.keys():
            self._rm.deadlines.clear(Due(DueKind.PREEMPTED, container_id))
        self._marked = {name: wanted[name] for name in self._marked if name in wanted}
        for container in self._affordable(plans):
            self._marked[container.id] = wanted[container.id]
            if not container.is_am:
                container.attempt.preempting.put_new(container.id, container.id)
                self._rm.news_for_master(container.attempt)
            if not settings.observe_only:
                due = self._rm.now + settings.max_wait_before_kill_ms / 1000
                self._rm.deadlines.set(Due(DueKind.PREEMPTED, container.id), due)

    def _affordable(self, plans: list[_Plan]) -> list[RMContainer]:
        """The containers that may be marked in one round: the first plan in any case, the next ones within the
        budget."""
        settings, total = self._rm.capacity, self._rm.scheduler.queues.total
        new = [[one for one in plan.victims if one.id not in self._marked] for plan in plans]
        costs = [_size(victims, total) for victims in new]
        budget = min(settings.total_preemption_per_round, settings.natural_termination_factor * sum(costs))
        spent = 0.0
        found: list[RMContainer] = []
        for victims, cost in zip(new, costs, strict=True):
            if victims and found and spent + cost > budget:
                break
            spent += cost
            found += victims
        return found

    def under_way_for(self, leaf: LeafQueue[RMAppAttempt]) -> list[Reason]:
        """The reason that containers are about to be preempted for the requests of a queue; empty if there are none."""
        number = sum(wanting is leaf for _, wanting in self._marked.values())
        what = "container of another queue is" if number == 1 else "containers of other queues are"
        found = by_rule("PREEMPTING", f"{number} {what} about to be preempted for its queue")
        return [found] if number else []

    def kill(self, container_id: str) -> None:
        """The grace period of a marked container has passed: end it if it is still needed."""
        self.look()
        marked = self._marked.pop(container_id, None)
        if marked is None:
            return
        container, wanting = marked
        wanting.owed = True
        text = f"{PREEMPTED}: queue {container.app.leaf.label} is above its capacity"
        cause = Cause(CauseKind.PREEMPTED, text=text)
        self._ledger.end_at_node(container, cause, PREEMPTED, ContainerExitStatus.PREEMPTED)


class _Simulation:
    """The planned state: ending containers are removed from the queues and planned ones added; afterwards the state
    is restored."""

    def __init__(self, context: RMContext, marked: Iterable[str]) -> None:
        self._rm = context
        self._marked = frozenset(marked)
        self._undo: list[Callable[[], None]] = []
        self._nodes = [node for node in context.nodes.values() if node.usable]
        self._free: dict[str, Resource] = {}
        self._staying: dict[str, list[RMContainer]] = {}

    def plans(self) -> list[_Plan]:
        """The plan for each requested container, the emptiest queue first."""
        try:
            for node in self._nodes:
                self._enter(node)
            found: list[_Plan] = []
            for leaf in sorted(self._rm.scheduler.queues.leaves.values(), key=self._usage):
                plans = [plan for want in self._wants(leaf) if (plan := self._plan(want)) and plan.victims]
                # Room that these plans leave over spares later victims of the same plans, before other requests get
                # it.
                found += [plan for plan in plans if not self._spared(plan)]
            return [plan for plan in found if not self._spared(plan)]
        finally:
            self._restore(len(self._undo))

    def _usage(self, leaf: LeafQueue[RMAppAttempt]) -> float:
        return leaf.usage(self._rm.scheduler.queues.total)

    def _enter(self, node: RMNode) -> None:
        """Add a node: its free resources after all ending containers have ended, and the containers that stay."""
        free, staying = node.total - node.used, []
        for container in node.containers.values():
            if not container.is_guaranteed:
                continue
            if Due(DueKind.UNENDED, container.id) in self._rm.deadlines:
                free = free + container.resource
                self._charge(container, -1)
            else:
                staying.append(container)
        self._free[node.node_id], self._staying[node.node_id] = free, staying

    def _charge(self, container: RMContainer, sign: int) -> None:
        self._charge_app(container.app, container.resource, sign, master=container.is_am)

    def _charge_app(self, app: RMApp, resource: Resource, sign: int, *, master: bool) -> None:
        app.leaf.charge(app.user, resource, sign, master=master)
        self._undo.append(partial(app.leaf.charge, app.user, resource, -sign, master=master))

    def _restore(self, number: int) -> None:
        for _ in range(number):
            self._undo.pop()()

    def _spared(self, plan: _Plan) -> bool:
        """Whether earlier plans left enough room to serve the plan without its victims."""
        need, home = plan.want.ask.resource, plan.node.node_id
        back = self._free[home] + need
        for victim in plan.victims:
            back = back - victim.resource
        if back.at_least_zero() != back:
            return False
        free = {**self._free, home: back}
        better = [
            node for node in self._nodes if need.fits_in(free[node.node_id]) and plan.want.could_go_to(node)
        ]
        if not better:
            return False
        for victim in plan.victims:
            self._charge(victim, 1)
        if any(queue.is_full_for(_NOTHING) for queue in plan.want.leaf.line()):
            self._restore(len(plan.victims))
            return False
        free[better[0].node_id] = free[better[0].node_id] - need
        self._free = free
        return True

    def _wants(self, leaf: LeafQueue[RMAppAttempt]) -> Iterator[_Want]:
        """The containers for which a queue waits, in its order, as long as it is within its capacity.

        Planned containers are charged meanwhile, so the iteration ends. If a container is too large for the capacity,
        the requests behind it get nothing by preemption: if there is room for that container, other queues go first.
        """
        for attempt in leaf.waiting():
            for group in attempt.guaranteed_asks.groups():
                if (yield from self._wants_of(leaf, attempt, list(group.values()))):
                    return

    def _wants_of(
        self, leaf: LeafQueue[RMAppAttempt], attempt: RMAppAttempt, group: list[Ask]
    ) -> Generator[_Want, None, bool]:
        """The containers of asks of one shape, until one cannot be served: then no other can. Returns whether a
        container is too large for the capacity."""
        for ask in group:
            want = _Want(leaf, attempt, ask)
            for _ in range(ask.outstanding):
                if not with_more(leaf.used, ask.resource).fits_in(leaf.guaranteed):
                    return True
                # Preemption may make room in a full queue above it.
                refused = leaf.refuses(attempt.app.user, ask.resource, master=want.master)
                if refused is not None and refused.kind is not ReasonKind.QUEUE_MAXIMUM:
                    return False
                before = len(self._undo)
                yield want
                if len(self._undo) == before:
                    return False
        return False

    def _plan(self, want: _Want) -> _Plan | None:
        """Find room for one container, by preemption if necessary, and book it. Returns None if there is no way."""
        need = want.ask.resource
        best: tuple[tuple[int, int, int, float], RMNode, tuple[RMContainer, ...]] | None = None
        for node in self._nodes:
            if not want.could_go_to(node):
                continue
            if not _short(want, self._free[node.node_id]):
                best = ((0, 0, 0, 0.0), node, ())
                break
            if victims := self._victims(want, node):
                price = self._price(victims)
                if best is None or price < best[0]:
                    best = (price, node, victims)
        if best is None:
            return None
        _, node, victims = best
        for victim in victims:
            self._charge(victim, -1)
            self._staying[node.node_id].remove(victim)
            self._free[node.node_id] = self._free[node.node_id] + victim.resource
        self._free[node.node_id] = self._free[node.node_id] - need
        self._charge_app(want.attempt.app, need, 1, master=want.master)
        return _Plan(want, node, victims)

    def _price(self, victims: tuple[RMContainer, ...]) -> tuple[int, int, int, float]:
        """The order of plans: fewer masters, fewer containers that are not notified yet, fewer containers, less
        resources."""
        return (
            sum(one.is_am for one in victims),
            sum(one.id not in self._marked for one in victims),
            len(victims),
            _size(victims, self._rm.scheduler.queues.total),
        )

    def _victims(self, want: _Want, node: RMNode) -> tuple[RMContainer, ...]:
        """The containers of one node to preempt for one ask; empty if they do not suffice.

        Each of them is needed: without it there is too little room.
        """
        free = self._free[node.node_id]
        candidates = sorted(
            self._staying[node.node_id],
            key=lambda one: (
                one.is_am,
                one.id not in self._marked,
                -self._usage(one.app.leaf),
                one.app.context.priority,
                -one.sequence,
            ),
        )
        for single in candidates:
            # One container that suffices is better than several, unless it is a master.
            if not single.is_am and self._may_take(single, want, _short(want, free)):
                self._charge(single, -1)
                enough = not _short(want, free + single.resource)
                self._restore(1)
                if enough:
                    return (single,)
        taken: list[RMContainer] = []
        for candidate in candidates:
            short = _short(want, free)
            if not short:
                break
            if self._may_take(candidate, want, short):
                taken.append(candidate)
                free = free + candidate.resource
                self._charge(candidate, -1)
        needed = () if _short(want, free) else self._needed(want, taken, free)
        self._restore(len(taken))
        return needed

    def _needed(self, want: _Want, taken: list[RMContainer], free: Resource) -> tuple[RMContainer, ...]:
        """The containers that are needed to make room. Victims that are not needed are dropped, beginning with the
        first."""
        needed = []
        for victim in taken:
            self._charge(victim, 1)
            if _short(want, free - victim.resource):
                needed.append(victim)
                self._restore(1)
            else:
                free = free - victim.resource
        self._restore(len(taken) - len(needed))
        return tuple(needed)

    def _may_take(self, container: RMContainer, want: _Want, short: tuple[str, ...]) -> bool:
        """Whether the queue of ``container`` has to give resources of the types in ``short`` to the queue of ``want``.

        Below the common ancestor of both queues, the losing queue and its parents are above their capacity in this
        resource type, and the gaining queue and its parents stay within theirs. A preempted resource is therefore
        never taken back.
        """
        leaf, starving, need = container.app.leaf, want.leaf, want.ask.resource
        if leaf is starving or leaf.settings.disable_preemption:
            return False
        mine = [queue for queue in leaf.line() if queue not in starving.line()]
        theirs = [queue for queue in starving.line() if queue not in leaf.line()]
        ignored = 1 + self._rm.capacity.max_ignored_over_capacity

        def is_to_give(of: str) -> bool:
            over = all(one.used.amount(of) > one.guaranteed.amount(of) * ignored for one in mine)
            return over and all(
                one.used.amount(of) + need.amount(of) <= one.guaranteed.amount(of) for one in theirs
            )

        return any(container.resource.amount(of) and is_to_give(of) for of in short)


def _size(containers: Iterable[RMContainer], total: Resource) -> float:
    return sum(dominant_share(one.resource, total) for one in containers)


def _short(want: _Want, free: Resource) -> tuple[str, ...]:
    """The resource types that do not suffice: on the node, or below the maximum of the queue or of a queue above it."""
    need = want.ask.resource
    full = [queue for queue in want.leaf.line() if queue.is_full_for(need)]
    return tuple(
        of
        for of in (MEMORY_MB, VCORES, *(one.name for one in need.others))
        if need.amount(of) > free.amount(of)
        or any(queue.used.amount(of) + need.amount(of) > queue.maximum.amount(of) for queue in full)
    )
