"""A node's answer to a question of the ResourceManager: a copy of its scheduler runs forward. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from executor.core.container import KILLING, PAUSED, PAUSING, SCHEDULED, Container
from executor.core.estimates import remaining
from executor.core.events import ContainerPauseRequested, ContainerScheduled
from executor.core.scheduler import ContainerScheduler
from executor.light import made_of, replace
from executor.records import ContainerSpec, ExecutionType, Resource

from ..explain.estimates import is_beyond, weaker
from ..nodemanager.machine import NodeManager
from ..records.explanation import BY_NODE, DECLARED, Expected, Start, Unknown, UnknownStart
from ..records.tracker_protocol import Arrivals, ExpectedTimes, NodeAnswer, NodeQuestion
from .foresight import Foresight, Started

_NEVER = ExpectedTimes("", Expected(), Expected())


def answer(scheduler: ContainerScheduler, question: NodeQuestion, now: float) -> NodeAnswer:
    """The answer of the node with this scheduler, a copy, which cannot be used again."""
    line, about = scheduler.line(), question.about
    waiting = [one for one in line if about in ("", one.spec.application_id, one.container_id)]
    queued = [one for one in waiting if one.state is SCHEDULED]
    watched = queued or waiting
    shown = {one.container_id: None for one in (*watched[:1], *watched[-1:])}
    if about in scheduler.live:
        shown[about] = None
    causes = set()
    for one in scheduler.live.values():
        paused = one.state in (PAUSED, PAUSING) and about in ("", one.spec.application_id, one.container_id)
        if paused and (kind := one.cause and one.cause.kind) not in causes:
            causes.add(kind)
            shown[one.container_id] = None
    statuses = tuple(scheduler.statuses(shown)) if shown else ()
    found = NodeAnswer(question.number, statuses, len(line))
    return _Times(scheduler, question, now).told(found, watched)


def foresee(node: NodeManager, question: NodeQuestion, now: float) -> NodeAnswer:
    """The answer of this node, a copy, which cannot be used again."""
    scheduler, about = node.scheduler, question.about
    if not question.orders and not question.pauses:
        return answer(scheduler, question, now)
    world = Foresight(scheduler, scheduler.live.get, list(scheduler.live.values()), now, lambda one, at: None)
    for orders in question.orders:
        world.perform(node.follow(orders, now))
    for name in question.pauses:
        world.tell(ContainerPauseRequested(name))
    mine = {one.container_id for one in scheduler.live.values() if one.spec.application_id == about}
    line = scheduler.line()
    queued = [one.container_id for one in line if one.container_id in mine]
    return NodeAnswer(
        question.number,
        tuple(scheduler.statuses(queued[:1])) if queued else (),
        len(line),
        started=tuple(dict.fromkeys(one.container_id for one in world.started)),
        queued=len(queued),
        paused=tuple(one for one in world.paused if one not in question.pauses),
        killed=tuple(world.killed),
    )


class _Times:
    """The running times of the containers of a node, and the resulting starts of the waiting ones."""

    def __init__(self, scheduler: ContainerScheduler, question: NodeQuestion, now: float) -> None:
        self._scheduler, self._now = scheduler, now
        self._known = {one.application_id: one for one in question.times}
        self._arrivals = question.arrivals
        #: what is expected of each container that ran at the beginning: the expected time, and whether it is late
        self._began: dict[str, tuple[Expected, bool]] = {}

    def told(self, found: NodeAnswer, watched: Sequence[Container]) -> NodeAnswer:
        """The answer with the times when the first and the last of ``watched`` start, and of the arrivals, or the
        reason why they are unknown."""
        scheduler, status = self._scheduler, self._scheduler.opportunistic_status()
        why = Unknown(UnknownStart.WINDOW_CLOSED if status.closed_until_ms else UnknownStart.OTHER_PROGRAMS)
        closed = status.host_is_busy or status.closed_until_ms > 0
        arrivals = _ArrivingContainers(scheduler, self._arrivals, closed=closed)
        if not closed:
            why = self._why_unknown(watched[0] if watched else None)
        first, last = ([one.container_id for one in watched[at]] for at in (slice(0, 1), slice(-1, None)))
        wanted = {*first, *last, *arrivals.wanted}
        if watched and watched[0].is_opportunistic and closed:
            wanted -= {*first, *last}
        if not wanted:
            return replace(found, unknown=why) if watched or self._arrivals else found
        world = Foresight(scheduler, scheduler.live.get, list(scheduler.live.values()), self._now, self._left)
        world.run(wanted, arrivals.next)
        begun = {
            one.container_id: self._start(one, world.ended)
            for one in reversed(world.started)
            if one.container_id in wanted
        }
        starts = {name: begun[name] for name in (*first, *last) if name in begun}
        later = sorted((begun[name] for name in arrivals.wanted if name in begun), key=lambda one: one.in_ms)
        complete = later and arrivals.wanted <= begun.keys()
        return replace(
            found,
            starts=starts,
            arrivals=(*later[:1], *(later[-1:] if complete else ())),
            unknown=None if all(name in starts for name in first) and (starts or later) else why,
        )

    def _expected(self, one: Container) -> ExpectedTimes:
        declared = one.spec.duration_hint_ms
        if one.spec.least_vcores:
            return _NEVER  # A master ends with its application.
        if declared > 0:
            return ExpectedTimes("", Expected(declared, DECLARED), Expected(declared, DECLARED))
        known = self._known.get(one.spec.application_id) or self._known.get("", _NEVER)
        seconds = None if known.usual.ms else self._scheduler.usual_seconds(one)
        if seconds is None:
            return known
        own = Expected(max(1, round(seconds * 1000)), BY_NODE)
        return ExpectedTimes("", own, own)

    def _left(self, one: Container, now: float) -> float | None:
        times, ran = self._expected(one), one.ran_seconds(now) * 1000
        if not times.usual.ms or is_beyond(times.usual, ran):
            return None
        left = 0.0 if one.state is KILLING else remaining(times.expected.ms, ran)
        late = now == self._now and ran > times.usual.ms
        # An expectation from the elapsed time alone is no reason to expect the end now.
        self._began[one.container_id] = times.expected if left else times.usual, late
        return left / 1000

    def _start(self, one: Started, ended: Sequence[str]) -> Start:
        weakest, outlived = Expected(), []
        for name in ended[: one.ended]:
            expected, late = self._began[name]
            weakest = weaker(weakest, expected)
            if late:
                outlived.append(name)
        basis = weakest if weakest.basis else self._began.get(one.container_id, (Expected(), False))[0]
        return Start(max(0, round((one.at - self._now) * 1000)), basis, tuple(outlived))

    def _why_unknown(self, first: Container | None) -> Unknown:
        for one in self._scheduler.live.values():
            ran, usual = one.ran_seconds(self._now) * 1000, self._expected(one).usual
            if one.running_since is not None and is_beyond(usual, ran):
                return Unknown(UnknownStart.BEYOND_EXPECTED, one.container_id, round(ran), usual)
        known = first is not None and self._expected(first).expected.ms
        return Unknown(UnknownStart.DURATION_OF_OTHERS if known else UnknownStart.NO_DURATION)


class _ArrivingContainers:
    """The containers that the ResourceManager sends when there is room; no opportunistic ones while the node is
    ``closed`` to them. ``wanted`` are the first and the last container of each kind in the question."""

    def __init__(self, scheduler: ContainerScheduler, arrivals: Sequence[Arrivals], *, closed: bool) -> None:
        self._scheduler, self._arrivals = scheduler, arrivals
        self._capacity = scheduler.opportunistic_status().queue_capacity
        #: how many have not arrived, by place
        self._left = {
            place: one.number
            for place, one in enumerate(arrivals)
            if not (closed and one.execution_type is ExecutionType.OPPORTUNISTIC)
        }
        mine = [(place, last) for place, last in self._left.items() if arrivals[place].mine]
        self.wanted = {f"{place}/{number}" for place, last in mine for number in (1, last)}

    def next(self) -> ContainerScheduled | None:
        """The next container that arrives now; None if no other has room."""
        for place, left in self._left.items():
            one = self._arrivals[place]
            if left and self._has_room(one):
                self._left[place] -= 1
                name = f"{place}/{one.number - left + 1}"
                given = {"container_id": name, "command": (), "least_vcores": int(one.is_master)}
                return ContainerScheduled(made_of(ContainerSpec, one, **given))
        return None

    def _has_room(self, one: Arrivals) -> bool:
        """Whether the ResourceManager would grant the container: a guaranteed one is promised resources, an
        opportunistic one gets free resources or a place in the queue."""
        scheduler = self._scheduler
        if one.execution_type is ExecutionType.OPPORTUNISTIC:
            return scheduler.queue_length < self._capacity or one.resource.fits_in(scheduler.available)
        held = (other.resource for other in scheduler.live.values() if not other.is_opportunistic)
        return one.resource.fits_in((scheduler.total - sum(held, Resource())).at_least_zero())
