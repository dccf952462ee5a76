"""What would become of a job that were submitted now: where its containers would start, queue or wait. Pure.

It follows the schedulers' rules over the nodes as they are this moment: guaranteed asks first, each where most is
free; opportunistic ones where there is room, else into the shortest queue. It is a forecast; nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from executor.records import ExecutionType, Resource

from ..records.jobs import JobSpec, PhaseSpec, TaskSpec
from ..records.reports import NodeReport, NodeState
from ..records.requests import ANY
from .explain import beside_master, limit_of


@dataclass(slots=True)
class Place:
    """One node and what would come to it. ``preempting`` of ``starts`` take room that opportunistic containers have."""

    node_id: str
    total: Resource
    guaranteed: Resource
    opportunistic: Resource
    queue_room: int
    starts: int = 0
    preempting: int = 0
    queued: int = 0
    master: Resource = Resource()

    def free(self) -> Resource:
        """What nobody has."""
        return (self.total - self.guaranteed - self.opportunistic).at_least_zero()


@dataclass(slots=True)
class Forecast:
    """``waiting`` find no node yet; ``impossible`` never will, ``because`` of their own master where that is why;
    ``later`` are of phases that begin when others end.
    """

    places: list[Place] = field(default_factory=list)
    waiting: int = 0
    impossible: int = 0
    because: str = ""
    refused: str = ""
    later: int = 0


def forecast(
    job: JobSpec,
    nodes: Sequence[NodeReport],
    *,
    opportunistic: bool,
    minimum: Resource,
    master: Resource | None = None,
) -> Forecast:
    """Place the first phase of ``job``. ``minimum`` is the least and the step that containers are rounded up to.
    ``master`` is the size of a detached job's master, which comes first and stays to the end.
    """
    first, *others = job.phases
    result = Forecast([_place(node) for node in nodes if _serves(node)])
    result.later = sum(len(phase.tasks) for phase in others)
    if not opportunistic and any(task.execution_type is ExecutionType.OPPORTUNISTIC for task in first.tasks):
        result.refused = "opportunistic containers are switched off on this cluster"
        return result
    if master is not None and not _put_master(result, _rounded(master, minimum)):
        result.waiting = len(first.tasks)
        return result
    for task in _in_order(first.tasks):
        _put(result, first, task, _rounded(task.resource, minimum))
    return result


def _put_master(result: Forecast, size: Resource) -> bool:
    """Give the master its place; False where it waits for one itself."""
    left = [
        one for one in result.places if size.fits_in((one.total - one.guaranteed).at_least_zero())
    ]  # fmt: skip
    if not left:
        return False
    place = max([one for one in left if size.fits_in(one.free())] or left, key=_free_share)
    taken = (size - place.free()).at_least_zero()
    place.opportunistic = (place.opportunistic - taken).at_least_zero()
    place.guaranteed = place.guaranteed + size
    place.master = size
    return True


def _serves(node: NodeReport) -> bool:
    return node.state is NodeState.RUNNING and node.connected


def _place(node: NodeReport) -> Place:
    status = node.opportunistic
    return Place(
        node.node_id,
        node.total,
        node.used,
        Resource(status.memory_used, status.vcores_used),
        max(0, limit_of(node) - status.queued),
    )


def _in_order(tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
    return sorted(
        tasks, key=lambda one: (one.execution_type is ExecutionType.OPPORTUNISTIC, one.priority, one.number)
    )


def _rounded(size: Resource, minimum: Resource) -> Resource:
    step = max(1, minimum.memory)
    return Resource(-(-max(size.memory, step) // step) * step, max(size.vcores, minimum.vcores))


def _put(result: Forecast, phase: PhaseSpec, task: TaskSpec, size: Resource) -> None:
    name = phase.resource_name
    admitted = [
        one for one in result.places if name in (ANY, one.node_id, one.node_id.rpartition(":")[0]) or
        (name != ANY and one.node_id.endswith(name))
    ]  # fmt: skip
    large = [one for one in admitted if size.fits_in(one.total)]
    beside = [beside_master(size, one.master, one.total, one.node_id) for one in large]
    if all(beside):
        result.impossible += 1
        result.because = next((one.text for one in beside if one is not None), result.because)
        return
    large = [one for one, why in zip(large, beside, strict=True) if why is None]
    roomy = [one for one in large if size.fits_in(one.free())]
    if task.execution_type is ExecutionType.GUARANTEED:
        left = [one for one in large if size.fits_in((one.total - one.guaranteed).at_least_zero())]
        if not left:
            result.waiting += 1
            return
        place = max([one for one in left if one in roomy] or left, key=_free_share)
        if not size.fits_in(place.free()):
            place.preempting += 1
            taken = size - place.free()
            place.opportunistic = (place.opportunistic - taken.at_least_zero()).at_least_zero()
        place.guaranteed = place.guaranteed + size
        place.starts += 1
        return
    if roomy:
        place = max(roomy, key=_free_share)
        place.opportunistic = place.opportunistic + size
        place.starts += 1
        return
    queues = [one for one in large if one.queue_room > one.queued]
    if not queues:
        result.waiting += 1
        return
    min(queues, key=lambda one: (one.queued, -one.queue_room)).queued += 1


def _free_share(place: Place) -> float:
    free, total = place.free(), place.total
    return min(free.memory / max(1, total.memory), free.vcores / max(1, total.vcores))
