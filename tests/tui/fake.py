"""A source of canned pictures that records what it is told to do. Everything in it is fixed, the time too."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

from executor.causes import Cause, CauseKind
from executor.reasons import VCORES, Reason, ReasonKind
from executor.records import (
    ContainerState,
    ContainerUsage,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
)
from executor.settings import ExecutorSettings
from yarnopp_cli.errors import ConnectionFailedError, ContainerNotFoundError, YoppError
from yarnopp_cli.explain.snapshot import HostFacts, Picture
from yarnopp_cli.records.history import EventKind, GetEventsRequest, GetEventsResponse, HistoryEvent
from yarnopp_cli.records.reports import (
    ApplicationReport,
    ClusterInfo,
    ContainerReport,
    FinalApplicationStatus,
    NodeReport,
    NodeState,
    YarnApplicationState,
)
from yarnopp_cli.tui.source import Traces
from yarnopp_cli.views.containers import NodeFacts

TIMESTAMP = 1765400000000
NOW = TIMESTAMP + 600_000
MIB = 1 << 20
GIB = 1 << 30
STATES = (
    ContainerState.RUNNING,
    ContainerState.RUNNING,
    ContainerState.SCHEDULED,
    ContainerState.PAUSED,
    ContainerState.RUNNING,
    ContainerState.SCHEDULED,
)


def app_id(number: int) -> str:
    return f"application_{TIMESTAMP}_{number:04d}"


def container_id(app: int, number: int) -> str:
    return f"container_{TIMESTAMP}_{app:04d}_01_{number:06d}"


def node(port: int = 45454, **changes: Any) -> NodeReport:
    report = NodeReport(
        f"host1:{port}",
        NodeState.RUNNING,
        f"unix:/run/yopp/nm-{port}.sock",
        total=Resource(16384, 8),
        used=Resource(6144, 3),
        num_containers=3,
        opportunistic=OpportunisticContainersStatus(5, 2560, 5, 4, 4, 20_000, 10, 1),
        queue_limit=15,
        node_utilization=ResourceUtilization(9 * GIB, 5.0),
        last_heartbeat_ms=NOW - 400,
        version="0.1.0",
        pid=4712,
    )
    return dataclasses.replace(report, **changes)


def why(number: int) -> tuple[Reason, ...]:
    """What nodes say: the first has no vcore left, the second has."""
    if STATES[number % len(STATES)] is ContainerState.PAUSED:
        return (Reason(ReasonKind.BY_PERSON, detail="me"),)
    behind = (Reason(ReasonKind.BEHIND, number=number // 6),) if number >= 6 else ()
    return (
        (Reason(ReasonKind.SHORT, VCORES, 1, 0, 8),)
        if number % 2 == 0
        else behind or (Reason(ReasonKind.NEXT),)
    )


def container(app: int, number: int, **changes: Any) -> ContainerReport:
    state = STATES[number % len(STATES)]
    kind = ExecutionType.GUARANTEED if number % 3 == 1 else ExecutionType.OPPORTUNISTIC
    if state is not ContainerState.RUNNING:
        kind = ExecutionType.OPPORTUNISTIC
    started = 0 if state is ContainerState.SCHEDULED else NOW - 1000 * (number * 7 + 3)
    report = ContainerReport(
        container_id(app, number),
        app_id(app),
        f"host1:{45454 + number % 2}",
        kind,
        # the guaranteed ones of the first node, and its others, have all its vcores
        Resource(512, 3 if kind is ExecutionType.GUARANTEED and number % 2 == 0 else 1),
        state=state,
        command=("/usr/bin/env", "simulate", "--step", str(number)),
        user="me",
        pid=20_000 + number if started else 0,
        position=number // 6 + 1 if state is ContainerState.SCHEDULED else 0,
        why=why(number) if state in (ContainerState.SCHEDULED, ContainerState.PAUSED) else (),
        allocated_at_ms=NOW - 1000 * (number * 7 + 9),
        queued_at_ms=NOW - 1000 * (number * 7 + 8),
        submitted_at_ms=NOW - 90_000,
        eligible_at_ms=NOW - 1000 * (number * 7 + 10),
        started_at_ms=started,
        paused_at_ms=NOW - 4000 if state is ContainerState.PAUSED else 0,
        cause=Cause(CauseKind.PERSON, by="me") if state is ContainerState.PAUSED else None,
        log_directory=f"/nonexistent/{container_id(app, number)}",
        cgroup=f"/sys/fs/cgroup/yopp/{number}",
        usage=ContainerUsage(1.5 * number, (40 + 11 * number % 400) * MIB, 460 * MIB, 0.25, 0, 2, 1.0)
        if started
        else ContainerUsage(),
    )
    return dataclasses.replace(report, **changes)


def application(number: int, **changes: Any) -> ApplicationReport:
    report = ApplicationReport(
        app_id(number),
        f"job-{number}",
        "me",
        "default",
        "YOPP",
        YarnApplicationState.RUNNING,
        FinalApplicationStatus.UNDEFINED,
        progress=0.25,
        submitted_at_ms=NOW - 90_000,
        started_at_ms=NOW - 89_000,
        containers_allocated=11,
        containers_running=7,
        containers_queued=4,
        containers_paused=1,
        containers_done=12,
        containers_preempted=1,
        allocated=Resource(8704, 11),
        command_line="yopp run -O -n 25 simulate",
    )
    return dataclasses.replace(report, **changes)


INFO = ClusterInfo(
    TIMESTAMP,
    TIMESTAMP,
    4711,
    "0.1.0",
    "stay",
    "/run/yopp",
    "unix:/run/yopp/rm.sock",
    total=Resource(32768, 16),
    nodes_running=2,
    applications_running=2,
    opportunistic_enabled=True,
)
HOST = HostFacts(62.0, 8, 9 * GIB, 16 * GIB, 3.0, 0.0)


def cluster(containers: int = 12) -> Picture:
    """Two nodes, three applications (one ended), and so many containers."""
    return Picture(
        NOW,
        INFO,
        (node(), node(45455, opportunistic=OpportunisticContainersStatus(queue_capacity=10), num_containers=0,
              used=Resource(), node_utilization=ResourceUtilization(2 * GIB, 0.4))),
        tuple(container(1 + number % 2, number) for number in range(1, containers + 1)),
        (
            application(
                3, name="old", state=YarnApplicationState.FINISHED,
                final_status=FinalApplicationStatus.SUCCEEDED, finished_at_ms=NOW - 60_000, progress=1.0,
                containers_running=0, containers_queued=0, containers_paused=0, containers_preempted=0,
                allocated=Resource(), containers_done=50,
            ),
            application(1),
            application(2, containers_queued=0, containers_paused=0, containers_preempted=0, progress=0.7),
        ),
        HOST,
    )  # fmt: skip


class FakeSource:
    """Gives ``now``, a little later and a little more used each time; ``lost`` makes it fail, ``refusal`` its acts."""

    where = "/run/yopp"

    def __init__(self, picture: Picture | None = None) -> None:
        self.now = picture or cluster()
        self.acts: list[tuple[str, ...]] = []
        self.lost: YoppError | None = None
        self.refusal: YoppError | None = None
        self.hold: threading.Event | None = None
        self.taken = 0
        self.reconnected = 0
        self.finished = False
        self.ended: dict[str, ContainerReport] = {}
        self.yields = {container_id(1, 6): "kill"}
        """Who gives way where 1.2 is promoted."""
        self.happened: list[HistoryEvent] = []
        self.before: Traces = ({}, ())
        self.quiet = threading.Event()
        self.life = TIMESTAMP
        self._populate()

    def _populate(self) -> None:
        self.tell(EventKind.NODE_ADDED, node="host1:45454")
        self.tell(EventKind.APPLICATION_SUBMITTED, app=app_id(1), words={"name": "job-1"})
        for kind in (EventKind.CONTAINER_ALLOCATED, EventKind.CONTAINER_QUEUED, EventKind.CONTAINER_STARTED,
                     EventKind.CONTAINER_PAUSED):  # fmt: skip
            self.tell(
                kind, node="host1:45455", app=app_id(2), container=container_id(2, 3),
                why="room for a guaranteed container" if kind is EventKind.CONTAINER_PAUSED else "",
            )  # fmt: skip
        self.tell(EventKind.CONTAINER_PREEMPTED, node="host1:45454", app=app_id(1), container=container_id(1, 40),
                  why="room for container_…_000041", numbers={"exitStatus": -102, "ranMs": 4000})  # fmt: skip
        self.quiet.clear()

    def picture(self, *, finished: bool) -> Picture:
        self.taken += 1
        self.finished = finished
        if self.hold is not None:
            self.hold.wait(10)
        if self.lost is not None:
            raise self.lost
        picture = self.now
        if finished:
            picture = dataclasses.replace(picture, containers=picture.containers + tuple(self.ended.values()))
        return picture

    def later(self, seconds: float = 1.0, busy: float = 0.5) -> None:
        """Let time pass: running containers use ``busy`` cores, less for higher numbers."""

        def aged(one: ContainerReport) -> ContainerReport:
            if one.state is not ContainerState.RUNNING:
                return one
            share = busy / (1 + int(one.container_id[-3:]) % 5)
            usage = dataclasses.replace(
                one.usage, cpu_seconds=one.usage.cpu_seconds + seconds * share,
                sampled_at=one.usage.sampled_at + seconds,
            )  # fmt: skip
            return dataclasses.replace(one, usage=usage)

        self.now = dataclasses.replace(
            self.now,
            taken_at_ms=self.now.taken_at_ms + round(1000 * seconds),
            containers=tuple(aged(one) for one in self.now.containers),
        )

    def traces(self, picture: Picture) -> Traces:
        return self.before

    def change(self, identifier: str, **changes: Any) -> None:
        """Another report of one container."""
        self.now = dataclasses.replace(
            self.now,
            containers=tuple(
                dataclasses.replace(one, **changes) if one.container_id == identifier else one
                for one in self.now.containers
            ),
        )

    def container(self, container_id: str) -> ContainerReport:
        if container_id in self.ended:
            return self.ended[container_id]
        found = self.now.container(container_id)
        if found is None:
            raise ContainerNotFoundError(f"no container {container_id}")
        return found

    def facts(self, report: ContainerReport) -> NodeFacts | None:
        return NodeFacts("v2", Resource(16384, 8), 8, ExecutorSettings())

    def gives_way(self, reports: Sequence[ContainerReport], picture: Picture) -> dict[str, str]:
        return self.yields if reports[0].container_id == container_id(1, 2) else {}

    def act(self, action: str, report: ContainerReport) -> str:
        self.acts.append((action, report.container_id))
        if self.refusal is not None:
            raise self.refusal
        return "done"

    def drain(self, node_id: str) -> str:
        self.acts.append(("drain", node_id))
        return "drains"

    def use_again(self, node_id: str) -> str:
        self.acts.append(("use", node_id))
        return "is RUNNING"

    def explain(self, identifier: str) -> list[str]:
        self.acts.append(("explain", identifier))
        return [f"{identifier} waits.", "  needs 1 vcore; free: 0 vcores -> waits for a vcore."]

    def events(self, request: GetEventsRequest) -> GetEventsResponse:
        if self.lost is not None:
            raise self.lost
        if request.wait_ms:
            self.quiet.wait(request.wait_ms / 1000)
        found = tuple(
            event
            for event in self.happened
            if event.seq > request.since and request.container_id in ("", event.container)
        )
        return GetEventsResponse(found, max([0, *(event.seq for event in self.happened)]), 1, self.life)

    def tell(self, kind: EventKind, **more: Any) -> None:
        """One more event."""
        seq = len(self.happened) + 1
        self.happened.append(HistoryEvent(seq, NOW - 60_000 + 1000 * seq, kind, **more))
        self.quiet.set()

    def kill_application(self, application_id: str) -> str:
        self.acts.append(("kill", application_id))
        if self.refusal is not None:
            raise self.refusal
        return "is KILLED"

    def reconnect(self) -> None:
        self.reconnected += 1

    def close(self) -> None:
        self.quiet.set()


LOST = ConnectionFailedError("lost the connection to the ResourceManager")
