"""Preemption of guaranteed containers: where a queue is below its capacity, those of queues above theirs give way.

YARN's ``ProportionalCapacityPreemptionPolicy``. It marks no more than what asks that are waiting need, on the nodes
where they would go, so nothing is preempted in vain; what is no longer needed is not killed. Marks only: the
ResourceManager tells masters and kills when their time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from executor.records import ExecutionType, Resource

from ...allocation.asks import Ask
from ...settings.queues import CapacitySchedulerSettings
from ..entities import RMAppAttempt, RMContainer, RMNode
from .capacity_scheduler import could_serve
from .queues import QUEUE_CAPACITY, LeafQueue, QueueTree, dominant_share

_NOTHING = Resource()
_MEMORY, _VCORES = "memory", "vcores"


@dataclass(frozen=True, slots=True)
class _Want:
    """A container that a queue below its capacity waits for."""

    leaf: LeafQueue[RMAppAttempt]
    attempt: RMAppAttempt
    ask: Ask

    @property
    def master(self) -> bool:
        return self.ask is self.attempt.am_ask


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one wanted container needs: these are to leave that node. ``new`` are those not marked yet."""

    want: _Want
    node: RMNode
    victims: tuple[RMContainer, ...]
    new: tuple[RMContainer, ...]
    cost: float


class PreemptionMonitor:
    """``marked`` are the containers that will be killed, by id, each with the queue that wants its place.

    ``ending`` says whether a container is being ended already, so that what it has is as good as free.
    """

    def __init__(self, settings: CapacitySchedulerSettings, ending: Callable[[RMContainer], bool]) -> None:
        self._settings = settings
        self._ending = ending
        self.marked: dict[str, tuple[RMContainer, LeafQueue[RMAppAttempt]]] = {}

    def round(self, tree: QueueTree[RMAppAttempt], nodes: Iterable[RMNode]) -> list[RMContainer]:
        """Look at all queues; the containers that are marked from now on. Others may cease to be."""
        plans = _Simulation(tree, nodes, self._settings, self.marked.keys(), self._ending).plans()
        wanted = {victim.id: (victim, plan.want.leaf) for plan in plans for victim in plan.victims}
        self.marked = {name: wanted[name] for name in self.marked if name in wanted}
        lacking = sum(plan.cost for plan in plans)
        budget = min(
            self._settings.total_preemption_per_round,
            self._settings.natural_termination_factor * lacking,
        )
        spent = 0.0
        marked: list[RMContainer] = []
        for plan in plans:
            if not plan.new:
                continue
            if marked and spent + plan.cost > budget:
                break
            spent += plan.cost
            marked += plan.new
        self.marked.update((victim.id, wanted[victim.id]) for victim in marked)
        return marked


class _Simulation:
    """The books as they will be: what ends is taken out of the queues, what is planned is put in, all is put back."""

    def __init__(
        self,
        tree: QueueTree[RMAppAttempt],
        nodes: Iterable[RMNode],
        settings: CapacitySchedulerSettings,
        marked: Iterable[str],
        ending: Callable[[RMContainer], bool],
    ) -> None:
        self._tree = tree
        self._settings = settings
        self._marked = frozenset(marked)
        self._charges: list[tuple[LeafQueue[RMAppAttempt], str, Resource, int, bool]] = []
        self._nodes = [node for node in nodes if node.usable]
        self._free: dict[str, Resource] = {}
        self._staying: dict[str, list[RMContainer]] = {}
        self._ending = ending

    def plans(self) -> list[_Plan]:
        """What each wanted container needs, the emptiest queue's first."""
        try:
            for node in self._nodes:
                self._enter(node)
            found: list[_Plan] = []
            for leaf in sorted(self._tree.leaves.values(), key=lambda one: one.usage(self._tree.total)):
                plans = [plan for want in self._wants(leaf) if (plan := self._plan(want)) and plan.victims]
                # What these leave over spares its own victims first, before others may want it.
                found += [plan for plan in plans if not self._spared(plan)]
            return [plan for plan in found if not self._spared(plan)]
        finally:
            self._restore(len(self._charges))

    def _spared(self, plan: _Plan) -> bool:
        """Whether there is room for it without its victims, now that others have left more than was needed."""
        need, home = plan.want.ask.resource, plan.node.node_id
        back = self._free[home] + need
        for victim in plan.victims:
            back = back - victim.resource
        if back.at_least_zero() != back:
            return False
        free = {**self._free, home: back}
        better = [
            node
            for node in self._nodes
            if need.fits_in(free[node.node_id]) and could_serve(plan.want.ask, plan.want.attempt, node)
        ]
        if not better:
            return False
        for victim in plan.victims:
            app = victim.app
            self._charge(app.leaf, app.user, victim.resource, 1, master=victim.is_am)
        if any(queue.is_full_for(_NOTHING) for queue in plan.want.leaf.line()):
            self._restore(len(plan.victims))
            return False
        free[better[0].node_id] = free[better[0].node_id] - need
        self._free = free
        return True

    def _enter(self, node: RMNode) -> None:
        """Take a node in: what is free there once all that is ending has ended, and who stays."""
        free, staying = node.total - node.used, []
        for container in node.containers.values():
            if container.execution_type is not ExecutionType.GUARANTEED:
                continue
            if self._ending(container):
                free = free + container.resource
                self._uncharge(container)
            else:
                staying.append(container)
        self._free[node.node_id], self._staying[node.node_id] = free, staying

    def _charge(
        self, leaf: LeafQueue[RMAppAttempt], user: str, resource: Resource, sign: int, *, master: bool
    ) -> None:
        leaf.charge(user, resource, sign, master=master)
        self._charges.append((leaf, user, resource, sign, master))

    def _uncharge(self, container: RMContainer) -> None:
        app = container.app
        self._charge(app.leaf, app.user, container.resource, -1, master=container.is_am)

    def _wants(self, leaf: LeafQueue[RMAppAttempt]) -> Iterator[_Want]:
        """What a queue waits for, container by container, in its order, as long as it is within its capacity.

        The planned ones are charged while this goes on, so it ends.
        """
        for attempt in leaf.waiting():
            for group in attempt.guaranteed_asks.groups():
                yield from self._wants_of(leaf, attempt, list(group.values()))

    def _wants_of(
        self, leaf: LeafQueue[RMAppAttempt], attempt: RMAppAttempt, group: list[Ask]
    ) -> Iterator[_Want]:
        """The containers of asks of one shape, until one cannot be had: then no other can."""
        for ask in group:
            for _ in range(ask.outstanding):
                want = _Want(leaf, attempt, ask)
                if not (leaf.used + ask.resource).fits_in(leaf.guaranteed):
                    return
                # A full queue above it may be made room in.
                if leaf.refuses(attempt.app.user, ask.resource, master=want.master) not in (
                    "",
                    QUEUE_CAPACITY,
                ):
                    return
                before = len(self._charges)
                yield want
                if len(self._charges) == before:
                    return

    def _plan(self, want: _Want) -> _Plan | None:
        """Find room for one container, by preemption if need be, and book it. None if that cannot be."""
        need = want.ask.resource
        nodes = [node for node in self._nodes if could_serve(want.ask, want.attempt, node)]
        best: tuple[tuple[int, int, int, float], RMNode, tuple[RMContainer, ...]] | None = None
        for node in nodes:
            if not _short(want, self._free[node.node_id]):
                best = ((0, 0, 0, 0.0), node, ())
                break
            victims = self._victims(want, node)
            if victims:
                price = self._price(victims)
                if best is None or price < best[0]:
                    best = (price, node, victims)
        if best is None:
            return None
        _, node, victims = best
        for victim in victims:
            self._uncharge(victim)
            self._staying[node.node_id].remove(victim)
            self._free[node.node_id] = self._free[node.node_id] + victim.resource
        self._free[node.node_id] = self._free[node.node_id] - need
        self._charge(want.leaf, want.attempt.app.user, need, 1, master=want.master)
        new = tuple(victim for victim in victims if victim.id not in self._marked)
        cost = sum(dominant_share(victim.resource, self._tree.total) for victim in new)
        return _Plan(want, node, victims, new, cost)

    def _price(self, victims: tuple[RMContainer, ...]) -> tuple[int, int, int, float]:
        """Fewer masters, fewer that do not know yet, fewer at all, less resources."""
        return (
            sum(1 for one in victims if one.is_am),
            sum(1 for one in victims if one.id not in self._marked),
            len(victims),
            sum(dominant_share(one.resource, self._tree.total) for one in victims),
        )

    def _victims(self, want: _Want, node: RMNode) -> tuple[RMContainer, ...]:
        """The containers of one node that give way to one ask; empty if they do not suffice.

        None of them is needless: without it there would be too little room.
        """
        free = self._free[node.node_id]
        candidates = sorted(
            self._staying[node.node_id],
            key=lambda one: (
                one.is_am,
                one.id not in self._marked,
                -one.app.leaf.usage(self._tree.total),
                one.app.context.priority,
                -one.sequence,
            ),
        )
        for single in candidates:
            # One that suffices is better than several, a master excepted.
            if not single.is_am and self._may_take(single, want, _short(want, free)):
                self._uncharge(single)
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
                self._uncharge(candidate)
        enough = not _short(want, free)
        needless = self._needless(want, taken, free) if enough else set()
        self._restore(len(taken))
        return tuple(one for one in taken if one.id not in needless) if enough else ()

    def _needless(self, want: _Want, taken: list[RMContainer], free: Resource) -> set[str]:
        """Of containers that were taken, those without which there is room all the same, the first taken first."""
        needless: set[str] = set()
        for victim in taken:
            app = victim.app
            app.leaf.charge(app.user, victim.resource, 1, master=victim.is_am)
            if _short(want, free - victim.resource):
                app.leaf.charge(app.user, victim.resource, -1, master=victim.is_am)
            else:
                needless.add(victim.id)
                free = free - victim.resource
        for victim in taken:
            if victim.id in needless:  # as it was before
                victim.app.leaf.charge(victim.app.user, victim.resource, -1, master=victim.is_am)
        return needless

    def _restore(self, number: int) -> None:
        """Take the last charges back."""
        for _ in range(number):
            leaf, user, resource, sign, master = self._charges.pop()
            leaf.charge(user, resource, -sign, master=master)

    def _may_take(self, container: RMContainer, want: _Want, short: tuple[str, ...]) -> bool:
        """Whether a container's queue has to give to the one that wants some of what is ``short``.

        Below the queue that both have above them, its own line is above its capacity at each level, in that
        dimension, and the other's stays within its own. So what it gives is never taken back from the other.
        """
        leaf, starving, need = container.app.leaf, want.leaf, want.ask.resource
        if leaf is starving or leaf.settings.disable_preemption:
            return False
        common = set(starving.line())
        mine = [queue for queue in leaf.line() if queue not in common]
        above = set(leaf.line())
        theirs = [queue for queue in starving.line() if queue not in above]
        ignored = 1 + self._settings.max_ignored_over_capacity
        for dimension in short:
            if not getattr(container.resource, dimension):
                continue
            over = all(
                getattr(queue.used, dimension) > getattr(queue.guaranteed, dimension) * ignored
                for queue in mine
            )
            under = all(
                getattr(queue.used, dimension) + getattr(need, dimension)
                <= getattr(queue.guaranteed, dimension)
                for queue in theirs
            )
            if over and under:
                return True
        return False


def _short(want: _Want, free: Resource) -> tuple[str, ...]:
    """The dimensions of which there is too little: on a node, or below the maximum of a queue that it is in."""
    need = want.ask.resource
    full = [queue for queue in want.leaf.line() if queue.is_full_for(need)]
    return tuple(
        name
        for name in (_MEMORY, _VCORES)
        if getattr(need, name) > getattr(free, name)
        or any(
            getattr(queue.used, name) + getattr(need, name) > getattr(queue.maximum, name) for queue in full
        )
    )
