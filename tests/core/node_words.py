"""What a node says of the containers that it is said to have: the answers of a real scheduler with these containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from executor.causes import STANDS_BACK, CauseKind, of_kind
from executor.core.container import Pause
from executor.core.events import ContainerRecovered, RecoveryCompleted
from executor.core.pressure_actions import BUSY
from executor.core.scheduler import ContainerScheduler
from executor.core.tracker import Room
from executor.light import made_of, replace
from executor.reasons import Reason
from executor.records import (
    GPU,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    OpportunisticContainersStatus,
    Resource,
)
from executor.settings import ExecutorSettings
from yarnopp_cli.explain import explanations
from yarnopp_cli.explain.estimates import Durations
from yarnopp_cli.explain.snapshot import NodeSnapshot
from yarnopp_cli.records.explanation import Explanation, Start
from yarnopp_cli.records.reports import ContainerReport, NodeReport
from yarnopp_cli.records.tracker_protocol import NodeQuestion
from yarnopp_cli.whatif.node import answer

NOW = 1000.0
_ALIVE = (ContainerState.RUNNING, ContainerState.PAUSED, ContainerState.KILLING)
_BEFORE = {
    ContainerState.RESUMING: ContainerState.RUNNING,
    ContainerState.LAUNCHING: ContainerState.RUNNING,
    ContainerState.PAUSING: ContainerState.RUNNING,
}


class _Pressed(ContainerScheduler):
    """A scheduler to which other programs leave less, as if that had been measured: without the amounts ``taken``."""

    taken = Resource()

    def _room_for_opportunistic(self) -> Room | Reason:
        room = super()._room_for_opportunistic()
        return room if isinstance(room, Reason) else room.less(self.taken, BUSY)

    @property
    def _lent(self) -> Resource:
        return Resource() - self.taken


def scheduler_of(
    total: Resource,
    containers: Iterable[ContainerStatus | ContainerReport],
    now_ms: int,
    told: OpportunisticContainersStatus,
    **settings: object,
) -> ContainerScheduler:
    """A scheduler that has recovered these containers at NOW, which is ``now_ms``, and has measured what ``told``
    says."""
    containers = list(containers)
    gpus = [f"gpu{number}" for number in range(total.amount(GPU))]
    made = _Pressed(
        sum((one.resource for one in containers), Resource(1 << 20, 1 << 10, total.others)),
        ExecutorSettings(max_queue_length=told.queue_capacity, **settings),  # type: ignore[arg-type]
        physical_cores=total.vcores,
        wall_offset=now_ms / 1000 - NOW,
        devices=gpus,
    )
    made.taken = Resource(max(0, -told.lent_memory), max(0, -told.lent_vcores))
    for number, one in enumerate(containers, 1):
        state = _BEFORE.get(one.state, one.state) if one.state is not None else None
        if state is None or state is ContainerState.DONE:
            continue
        is_am = isinstance(one, ContainerReport) and one.is_am
        spec = made_of(ContainerSpec, one, command=("x",), least_vcores=float(is_am), waiting_since_ms=0)
        began, stood = one.started_at_ms or now_ms, one.stood_ms
        ran = (one.paused_at_ms or now_ms) - began - stood
        record = ContainerRecord(
            spec, state, pid=number, queued_at_ms=one.queued_at_ms or now_ms, started_at_ms=one.started_at_ms,
            sequence=(one.position or number) + (0 if state is ContainerState.SCHEDULED else -1_000_000),
            ran_ms=ran, state_since_ms=one.paused_at_ms or now_ms, cause=one.cause,
            held=of_kind(one.cause, CauseKind.PERSON),
        )  # fmt: skip
        alive = state in _ALIVE
        made.handle(ContainerRecovered(record, alive, state is ContainerState.PAUSED, None), NOW)
        container = made.live[one.container_id]
        if of_kind(one.cause, *STANDS_BACK) and state is ContainerState.PAUSED:
            made._dequeue(container)
            container.pause = Pause(gives_way_to=one.cause)
    made._tracker.total = total
    made.closed_until_ms = told.closed_until_ms
    made.handle(RecoveryCompleted(), NOW)
    return made


@dataclass(frozen=True)
class Sight:
    """A node with the containers that it is said to have, and ended ones of all nodes."""

    node: NodeReport
    live: Sequence[ContainerReport]
    finished: Sequence[ContainerReport] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    def told(self, about: str, now_ms: int) -> NodeSnapshot:
        """The reports with the node's own facts about a container, or about all of them."""
        durations = Durations(self.finished, self.live, now_ms)
        apps = dict.fromkeys(one.application_id for one in self.live)
        machine = scheduler_of(self.node.total, self.live, now_ms, self.node.opportunistic, **self.settings)
        question = NodeQuestion(1, about, durations.of_node(apps, self.node.node_id))
        found = answer(machine, question, NOW)
        told = {one.container_id: one for one in found.statuses}
        known = [
            replace(one, position=told[one.container_id].position, why=told[one.container_id].why)
            if one.container_id in told
            else replace(one, position=0)
            for one in self.live
        ]
        return NodeSnapshot(self.node, known, self.finished, found)


def explain_container(report: ContainerReport, here: Sight | None, now_ms: int) -> Explanation:
    """The explanation of one of its containers."""
    if here is None:
        return explanations.explain_container(report, None, now_ms)
    told = here.told(report.container_id, now_ms)
    known = next((one for one in told.live if one.container_id == report.container_id), report)
    return explanations.explain_container(known, told, now_ms)


def explain_node(here: Sight, now_ms: int) -> Explanation:
    """The explanation of the node."""
    return explanations.explain_node(here.told("", now_ms), now_ms)


def start_of(report: ContainerReport, here: Sight, now_ms: int) -> Start | None:
    """When one of its containers starts."""
    found = here.told(report.container_id, now_ms).answer
    return None if found is None else found.starts.get(report.container_id)
