"""What would happen to a job submitted now, and to other containers after an action on some. Pure.

A job's forecast applies the schedulers' rules to the present state of the nodes: guaranteed requests first,
each where most is free; opportunistic ones where they fit, else into the shortest queue. Nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from executor.causes import CauseKind
from executor.light import Record, replace
from executor.reasons import beside_master, lacking, too_big
from executor.records import PREEMPTION_STATUSES, ContainerState, ExecutionType, Resource

from ..records.explanation import CONTAINERS, MEMORY, VCORES, Reason, ReasonKind, unusable
from ..records.jobs import JobSpec, PhaseSpec, TaskSpec
from ..records.reports import ContainerReport, NodeReport, NodeState
from ..records.requests import ANY
from .reasons import KEPT, MOST_NAMED, window_closed
from .snapshot import (
    NodeSnapshot,
    Picture,
    can_promise,
    holders_of,
    needs_of,
    queue_limit,
    snapshots,
    waits_for_room,
)

Amounts = tuple[Resource, Resource, Resource]


@dataclass(slots=True)
class Place:
    """One node and the containers it would receive. ``preempting`` of ``starts`` take resources from
    opportunistic containers.

    ``lent`` is what opportunistic containers may use beyond the unallocated resources; negative: what of
    these they may not use, because the machine is busy. ``promised`` is the size of those that resume or
    start there first. ``ahead`` wait there already, and ``reasons`` say why the first that would queue does
    not start, where none of the job starts there.
    """

    here: NodeSnapshot
    guaranteed: Resource
    opportunistic: Resource
    queue_room: int
    lent: Resource
    promised: Resource
    ahead: int
    reasons: tuple[Reason, ...] = ()
    starts: int = 0
    preempting: int = 0
    queued: int = 0
    master: Resource = Resource()

    @property
    def node_id(self) -> str:
        """The node's id."""
        return self.here.node.node_id

    @property
    def total(self) -> Resource:
        """The node's total resources."""
        return self.here.node.total

    def free(self) -> Resource:
        """The resources that no container holds."""
        return (self.total - self.guaranteed - self.opportunistic).at_least_zero()

    def open(self) -> Resource:
        """The resources that a new opportunistic container could start on now."""
        left = self.total - self.guaranteed - self.opportunistic
        return (left + self.lent - self.promised).at_least_zero()


@dataclass(slots=True)
class Forecast:
    """``waiting`` containers find no node yet; ``impossible`` never will, ``because`` of their own master
    where that is the reason; ``later`` belong to later phases. ``refused``: opportunistic containers are
    switched off.

    ``rounded``: the size that is allocated for each that the minimum allocation makes larger.

    ``held`` of the waiting ones wait for nodes that are large enough but accept no new containers, for the
    reasons in ``unusable``.
    """

    places: list[Place] = field(default_factory=list)
    waiting: int = 0
    held: int = 0
    unusable: tuple[Reason, ...] = ()
    impossible: int = 0
    because: Reason | None = None
    refused: bool = False
    later: int = 0
    rounded: dict[Resource, Resource] = field(default_factory=dict)


def forecast(
    job: JobSpec,
    nodes: Sequence[NodeReport],
    live: Sequence[ContainerReport],
    *,
    opportunistic: bool,
    minimum: Resource,
    master: Resource | None = None,
) -> Forecast:
    """Place the first phase of ``job``. Container sizes are rounded up to ``minimum``, the memory to a
    multiple of it.

    ``live`` are the live containers. ``master`` is the size of a detached job's master, which is placed first
    and stays to the end.
    """
    first, *others = job.phases
    result = Forecast([_place(here) for here in snapshots(nodes, live).values() if _serves(here.node)])
    result.later = sum(phase.size for phase in others)
    sizes = {task.resource: _rounded(task.resource, minimum) for phase in job.phases for task in phase.tasks}
    result.rounded = {asked: size for asked, size in sizes.items() if size != asked}
    if not opportunistic and any(task.execution_type is ExecutionType.OPPORTUNISTIC for task in first.tasks):
        result.refused = True
        return result
    if master is not None:
        place = _promise(result.places, size := _rounded(master, minimum))
        if place is None:  # it waits for a node itself
            result.waiting = first.size
            return result
        place.master = size
    for task in _in_order(first.each()):
        _put(result, first, task, _rounded(task.resource, minimum), nodes)
    return result


def _promise(places: Sequence[Place], size: Resource) -> Place | None:
    """Promise a guaranteed container the resources of a node, and take what is missing from opportunistic
    ones.
    """
    left = [one for one in places if size.fits_in((one.total - one.guaranteed).at_least_zero())]
    if not left:
        return None
    place = max([one for one in left if size.fits_in(one.free())] or left, key=_free_share)
    taken = (size - place.free()).at_least_zero()
    place.opportunistic = (place.opportunistic - taken).at_least_zero()
    place.guaranteed = place.guaranteed + size
    return place


def _serves(node: NodeReport) -> bool:
    return node.state is NodeState.RUNNING and node.connected


def _place(here: NodeSnapshot) -> Place:
    """A node as ``explain`` sees it: containers that already wait there and fit go before new ones."""
    node, status = here.node, here.node.opportunistic
    place = Place(
        here,
        node.used,
        (node.total - node.used - here.free).at_least_zero(),
        max(0, queue_limit(node) - status.queued),
        Resource(status.lent_memory, status.lent_vcores),
        sum((needs_of(one) for one in here.paused if not waits_for_room(one)), Resource()),
        len(here.queued),
    )
    for one in here.line:
        if needs_of(one).fits_in(place.open()):
            place.promised = place.promised + needs_of(one)
    return place


def _in_order(tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
    opportunistic = ExecutionType.OPPORTUNISTIC
    return sorted(tasks, key=lambda one: (one.execution_type is opportunistic, one.priority, one.number))


def _rounded(size: Resource, minimum: Resource) -> Resource:
    step = max(1, minimum.memory)
    memory = -(-max(size.memory, step) // step) * step
    return Resource(memory, max(size.vcores, minimum.vcores), size.others)


def admits(name: str, node_id: str) -> bool:
    """Whether a node may serve requests for ``name``: ANY, its id, its host, or an end of its id."""
    return name in (ANY, node_id, node_id.rpartition(":")[0]) or (name != ANY and node_id.endswith(name))


def _put(
    result: Forecast, phase: PhaseSpec, task: TaskSpec, size: Resource, nodes: Sequence[NodeReport]
) -> None:
    admitted = [one for one in result.places if admits(phase.resource_name, one.node_id)]
    large = [one for one in admitted if size.fits_in(one.total)]
    if not large:
        _put_nowhere(result, phase, size, nodes)
        return
    beside = [beside_master(size, one.master, one.total, one.node_id) for one in large]
    if all(beside):
        result.impossible += 1
        result.because = next((one for one in beside if one is not None), result.because)
        return
    large = [one for one, why in zip(large, beside, strict=True) if why is None]
    if task.execution_type is ExecutionType.GUARANTEED:
        full = [one.node_id for one in large if not size.fits_in(one.free())]
        promised = _promise(large, size)
        if promised is None:
            result.waiting += 1
        else:
            promised.preempting += promised.node_id in full
            promised.starts += 1
        return
    roomy = [one for one in large if size.fits_in(one.open())]
    if roomy:
        place = max(roomy, key=_free_share)
        place.opportunistic = place.opportunistic + size
        place.starts += 1
        return
    queues = [one for one in large if one.queue_room > one.queued]
    if not queues:
        result.waiting += 1
        return
    place = min(queues, key=lambda one: (one.ahead + one.queued, -one.queue_room))
    if not place.starts and not place.queued:
        place.reasons = _why_queued(place.here, size)
    place.queued += 1


def _put_nowhere(result: Forecast, phase: PhaseSpec, size: Resource, nodes: Sequence[NodeReport]) -> None:
    """No usable node is large enough: the task waits for a drained or disconnected node that is, if there is
    one.
    """
    away = [
        one
        for one in nodes
        if not _serves(one) and admits(phase.resource_name, one.node_id) and size.fits_in(one.total)
    ]
    why = tuple(reason for one in away if one.state not in _GONE for reason in unusable(one))
    if not why:
        result.impossible += 1
        return
    result.unusable = why
    result.held += 1
    result.waiting += 1


_GONE = (NodeState.LOST, NodeState.SHUTDOWN, NodeState.NEW, NodeState.REBOOTED)


def _why_queued(here: NodeSnapshot, size: Resource) -> tuple[Reason, ...]:
    """The reasons that ``explain`` would give for a container of that size queued there."""
    opportunistic, queues = ExecutionType.OPPORTUNISTIC, ContainerState.SCHEDULED
    one = ContainerReport("", "", here.node.node_id, opportunistic, size, state=queues)
    return tuple(why_queued(one, here, len(here.queued)))


def _free_share(place: Place) -> float:
    free, total = place.free(), place.total
    return min(free.memory / max(1, total.memory), free.vcores / max(1, total.vcores))


PAUSE, KILL = "pause", "kill"
_PAUSED = (ContainerState.PAUSING, ContainerState.PAUSED)
_DISTURBED = (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSED)


class Preemption(Record):
    """The containers that make room, and how: PAUSE or KILL."""

    reports: tuple[ContainerReport, ...] = ()
    how: str = ""


class Promotion(Record):
    """The effect of promoting containers: which are preempted for them, node by node, and which of the
    promoted wait because their node cannot promise them their resources.
    """

    reports: tuple[ContainerReport, ...]
    preemptions: tuple[Preemption, ...]
    unpromised: tuple[ContainerReport, ...]
    nodes: int


def promotion(reports: Sequence[ContainerReport], picture: Picture) -> Promotion:
    """The effect of a promotion now; which containers give way is taken from the nodes' answers in
    ``picture``.
    """
    known = [one for one in reports if one.node_id in picture.snapshots]
    full = [one for one in known if not can_promise(picture.snapshots[one.node_id].node, one.resource)]
    found: dict[tuple[str, str], list[ContainerReport]] = {}
    for container_id, how in picture.gives_way.items():
        if (victim := picture.container(container_id)) is not None and not full:
            found.setdefault((victim.node_id, how), []).append(victim)
    preemptions = [Preemption(tuple(victims), how) for (_, how), victims in found.items()]
    return Promotion(tuple(reports), tuple(preemptions), tuple(full), len({one.node_id for one in reports}))


def starts_instead(report: ContainerReport, here: NodeSnapshot | None) -> ContainerReport | None:
    """The queued container that starts on the vcores of a container once that is paused; None for none."""
    if here is None or not report.resource.vcores:
        return None
    free = here.free + Resource(0, report.resource.vcores)
    return next((one for one in here.queued if one.resource.fits_in(free)), None)


def preempted_since(
    before: Sequence[ContainerReport], after: Iterable[ContainerReport]
) -> tuple[Preemption, Preemption]:
    """Which containers have been paused, and which killed, to make room for promoted ones; ``after`` are the
    present reports of those of ``disturbed``.
    """
    was_paused = {one.container_id for one in before if one.state is ContainerState.PAUSED}
    gave_way = [one for one in after if one.cause is not None and one.cause.kind is CauseKind.MAKE_ROOM]
    done = [one for one in gave_way if one.state is ContainerState.DONE]
    ended = [one for one in done if one.exit_status in PREEMPTION_STATUSES]
    paused = [one for one in gave_way if one.state in _PAUSED and one.container_id not in was_paused]
    killed = [one for one in gave_way if one.state is ContainerState.KILLING or one in ended]
    return Preemption(tuple(paused), PAUSE), Preemption(tuple(killed), KILL)


def disturbed(before: Sequence[ContainerReport], promoted: Sequence[str]) -> tuple[str, ...]:
    """The containers that promoting these may preempt: the other opportunistic ones on their nodes."""
    nodes = {one.node_id for one in before if one.container_id in promoted}
    return tuple(
        one.container_id for one in before
        if one.node_id in nodes
        and one.container_id not in promoted
        and one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.state in _DISTURBED
    )  # fmt: skip


def _ids(reports: Sequence[ContainerReport]) -> tuple[str, ...]:
    return tuple(one.container_id for one in reports[:MOST_NAMED])


def _of(size: Resource, name: str) -> int:
    return size.memory if name == MEMORY else size.amount(name)


def _about(
    kind: ReasonKind, name: str, amounts: Amounts, holders: Sequence[ContainerReport] = (), **more: Any
) -> Reason:
    """A reason about one resource type; ``amounts`` are what is needed, free and the total, ``holders`` the
    containers that may hold it.
    """
    having = [one for one in holders if _of(one.resource, name)]
    needs, free, total = (_of(size, name) for size in amounts)
    return replace(Reason(kind, name, needs, free, total, _ids(having), holders_of(having)), **more)


def _missing(needs: Resource, free: Resource) -> list[str]:
    names = (VCORES, MEMORY, *(one.name for one in needs.others))
    return [name for name in names if _of(needs, name) > _of(free, name)]


def why_queued(report: ContainerReport, here: NodeSnapshot, ahead: int) -> list[Reason]:
    """Why a container queued behind ``ahead`` others does not start: missing resources, the containers before
    it, the state of its node.
    """
    if (never := never_here(report, here)) is not None:
        return [never]
    reasons = _shortages(report.resource, here, [*here.running, *here.paused])
    if report.execution_type is ExecutionType.GUARANTEED:
        reasons = [replace(one, detail=KEPT) if _is_kept(one, here) else one for one in reasons]
    if not reasons:
        reasons = _machine_busy(report.resource, here, report.execution_type)
    if ahead:
        before = _ids(here.queued[:ahead])
        reasons.append(Reason(ReasonKind.BEHIND, CONTAINERS, 1, 0, len(here.queued), before, number=ahead))
    return [*reasons, *unusable(here.node)]


def _is_kept(short: Reason, here: NodeSnapshot) -> bool:
    """Whether opportunistic containers that are not being ended hold the countable resource that a guaranteed one
    lacks: nodes end them at once, unless they are told to leave them their devices."""
    return short.resource not in (VCORES, MEMORY) and any(
        one.execution_type is ExecutionType.OPPORTUNISTIC
        and one.state is not ContainerState.KILLING
        and _of(one.resource, short.resource)
        for one in (*here.running, *here.paused)
    )


def _shortages(needs: Resource, here: NodeSnapshot, keep_memory: Sequence[ContainerReport]) -> list[Reason]:
    """The missing resources and their holders: running containers for vcores, those in ``keep_memory`` for
    all others.
    """
    amounts = (needs, here.free, here.node.total)
    return [
        _about(ReasonKind.SHORT, name, amounts, here.running if name == VCORES else keep_memory)
        for name in _missing(needs, here.free)
    ]


def _machine_busy(needs: Resource, here: NodeSnapshot, kind: ExecutionType) -> list[Reason]:
    """The reason that the machine uses what is not allocated, or that the window for opportunistic containers
    is closed; else empty.
    """
    if kind is ExecutionType.OPPORTUNISTIC and (closed := window_closed(here.node)):
        return closed
    left = here.free_for(kind)
    if needs.fits_in(left):
        return []
    return [lacking(ReasonKind.MACHINE_BUSY, needs, left, here.node.total, used=left)]


def never_here(report: ContainerReport, here: NodeSnapshot) -> Reason | None:
    """Why a container queued at a node can never start there: it is too large for the node, or for what its
    own master leaves of it.
    """
    node = here.node
    if not report.resource.fits_in(node.total):
        return too_big(report.resource, [(node.node_id, node.total)], ReasonKind.TOO_BIG_HERE)
    if report.is_am:
        return None
    of = report.application_id
    master = sum((one.resource for one in here.live if one.is_am and one.application_id == of), Resource())
    return beside_master(report.resource, master, node.total, node.node_id)
