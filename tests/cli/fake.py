"""A cluster of canned answers: threads that speak the wire on sockets, and record what they are asked."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executor.light import made_of
from executor.records import (
    ContainerState,
    ContainerStatus,
    ContainerUsage,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
)
from yarnopp_cli.errors import ContainerNotFoundError, YoppError
from yarnopp_cli.records import client_protocol as rm
from yarnopp_cli.records import container_protocol as nm
from yarnopp_cli.records import explanation, job_protocol
from yarnopp_cli.records.methods import Methods
from yarnopp_cli.records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    ClusterInfo,
    ContainerGrant,
    ContainerReport,
    FinalApplicationStatus,
    JobSummary,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
)
from yarnopp_cli.rpc.methods import methods_of
from yarnopp_cli.rpc.plain import decode, encode

TIMESTAMP = 1765400000000
NODE = "host1:45454"
MIB = 1 << 20


def app_id(number: int) -> str:
    return f"application_{TIMESTAMP}_{number:04d}"


def container_id(app: int, number: int) -> str:
    return f"container_{TIMESTAMP}_{app:04d}_01_{number:06d}"


class Daemon:
    """Answers each call with ``handlers[method](request)``; a YoppError raised is an error."""

    def __init__(self, path: Path, methods: Methods, handlers: dict[str, Callable[[Any], Any]]) -> None:
        self.methods = methods
        self.handlers = handlers
        self.asked: list[tuple[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    stream.write(self._answer(json.loads(line)))
                    stream.flush()
        except OSError:
            return

    def _answer(self, call: dict[str, Any]) -> bytes:
        method = call["method"]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            if method not in self.handlers:
                self.asked.append((method, call["params"]))
                raise YoppError(f"this cluster has no answer to {method}")
            request: Any = decode(self.methods[method], call["params"])
            self.asked.append((method, request))
            answer["result"] = encode(self.handlers[method](request))
        except YoppError as error:
            data = {
                "type": type(error).__name__,
                "exception": error.exception,
                "because": error.because,
                "hint": error.hint,
                "exit": error.exit_code,
            }
            answer["error"] = {"code": -32000, "message": error.message, "data": data}
        return json.dumps(answer).encode() + b"\n"

    def close(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)


class Cluster:
    """An RM and one node with lists of reports that a test may change while it runs."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.info = ClusterInfo(
            TIMESTAMP,
            TIMESTAMP,
            4711,
            "0.1.0",
            "stay",
            str(run_dir),
            f"unix:{run_dir}/rm.sock",
            total=Resource(4096, 2),
            nodes_running=1,
            applications_running=1,
            containers_running=2,
            containers_queued=8,
            opportunistic_enabled=True,
        )
        self.nodes: list[NodeReport] = []
        self.applications: list[ApplicationReport] = []
        self.attempts: list[ApplicationAttemptReport] = []
        self.containers: list[ContainerReport] = []
        self.queues = [QueueReport("default", used=Resource(512, 1), applications=1)]
        self.statuses: dict[str, ContainerStatus] = {}
        self.cgroups = "v1"
        self.node_warnings: tuple[str, ...] = ()
        self.rm = Daemon(run_dir / "rm.sock", methods_of(rm, job_protocol, explanation), self._rm())
        self.nm = Daemon(run_dir / "nm-45454.sock", methods_of(nm), self._nm())

    def close(self) -> None:
        self.rm.close()
        self.nm.close()

    def asked(self, method: str) -> list[Any]:
        """The requests of one method, in order."""
        return [request for name, request in (*self.rm.asked, *self.nm.asked) if name == method]

    def app(self, identifier: str) -> ApplicationReport:
        return next(one for one in self.applications if one.application_id == identifier)

    def _rm(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "getClusterInfo": lambda _: self.info,
            "foreseeJob": lambda _: explanation.JobForecast(),
            "getClusterNodes": lambda _: rm.GetClusterNodesResponse(tuple(self.nodes)),
            "getApplications": lambda request: job_protocol.GetApplicationsResponse(
                tuple(
                    one
                    for one in self.applications
                    if (not request.application_ids or one.application_id in request.application_ids)
                    and (not request.states or one.state in request.states)
                    and not (request.live_only and one.state in FINAL_STATES)
                )
            ),
            "getApplicationAttempts": lambda _: rm.GetApplicationAttemptsResponse(tuple(self.attempts)),
            "getContainers": self._get_containers,
            "getQueueInfo": lambda _: rm.GetQueueInfoResponse(tuple(self.queues)),
            "waitForApplications": self._wait,
            "forceKillApplication": self._kill,
            "moveApplicationAcrossQueues": lambda request: rm.ApplicationResponse(
                replace_app(self.app(request.application_id), queue=request.queue)
            ),
            "updateApplicationPriority": lambda request: rm.ApplicationResponse(
                replace_app(self.app(request.application_id), priority=request.priority)
            ),
        }

    def _get_containers(self, request: rm.GetContainersRequest) -> rm.GetContainersResponse:
        found = tuple(
            one
            for one in self.containers
            if (not request.application_id or one.application_id == request.application_id)
            and (not request.container_ids or one.container_id in request.container_ids)
            and (request.finished or one.state is not ContainerState.DONE)
        )
        if not request.grants_only:
            return rm.GetContainersResponse(found)
        return rm.GetContainersResponse((), tuple(made_of(ContainerGrant, one) for one in found))

    def _wait(self, request: rm.WaitForApplicationsRequest) -> rm.WaitForApplicationsResponse:
        found = tuple(one for one in self.applications if one.application_id in request.application_ids)
        ended = [one.state in FINAL_STATES or one.state in request.states for one in found]
        satisfied = any(ended) if request.any else all(ended)
        return rm.WaitForApplicationsResponse(satisfied, found)

    def _kill(self, request: rm.KillApplicationRequest) -> rm.ApplicationResponse:
        killed = replace_app(
            self.app(request.application_id),
            state=YarnApplicationState.KILLED,
            final_status=FinalApplicationStatus.KILLED,
        )
        self.applications = [
            killed if one.application_id == killed.application_id else one for one in self.applications
        ]
        return rm.ApplicationResponse(killed)

    def _nm(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "getContainerStatuses": lambda request: nm.GetContainerStatusesResponse(
                tuple(self.statuses[one] for one in request.container_ids if one in self.statuses)
            ),
            "getNodeInfo": lambda _: nm.GetNodeInfoResponse(
                NODE,
                4712,
                Resource(4096, 2),
                Resource(),
                OpportunisticContainersStatus(),
                ResourceUtilization(),
                ResourceUtilization(),
                TIMESTAMP,
                "0.1.0",
                self.cgroups,
                self.node_warnings,
            ),
            "stopContainers": self._stop,
            "signalContainer": self._signal,
        }

    def _stop(self, request: nm.StopContainersRequest) -> nm.StopContainersResponse:
        for one in request.container_ids:
            if one not in self.statuses:
                failed = nm.FailedContainer(one, "YarnException", "it has not arrived at its node yet")
                return nm.StopContainersResponse((), (failed,))
            self.statuses[one] = ContainerStatus(
                one,
                ContainerState.DONE,
                ExecutionType.OPPORTUNISTIC,
                exit_status=-105,
                exit_code=143,
                diagnostics=request.diagnostics,
            )
        return nm.StopContainersResponse(request.container_ids)

    def _signal(self, request: nm.SignalContainerRequest) -> ContainerStatus:
        if request.container_id not in self.statuses:
            raise ContainerNotFoundError(f"no container {request.container_id}")
        return self.statuses[request.container_id]

    def populate(self) -> None:
        """One node; application 1 has ended with 3, application 2 runs one container and queues another."""
        self.nodes = [node(self.run_dir), node(self.run_dir, "host1:45455", state=NodeState.LOST)]
        self.applications = [
            application(
                1,
                state=YarnApplicationState.FINISHED,
                final_status=FinalApplicationStatus.FAILED,
                finished_at_ms=TIMESTAMP + 9000,
                summary=JobSummary(total=2, completed=2, exit_code=3),
            ),
            application(2),
        ]
        self.containers = [
            container(
                1,
                1,
                state=ContainerState.DONE,
                exit_status=3,
                exit_code=3,
                started_at_ms=TIMESTAMP + 2000,
                finished_at_ms=TIMESTAMP + 5000,
            ),
            container(2, 1, state=ContainerState.SCHEDULED, queued_at_ms=TIMESTAMP + 1000),
            container(2, 2, state=ContainerState.SCHEDULED, queued_at_ms=TIMESTAMP + 1000),
        ]
        self.statuses = {
            container_id(2, 1): ContainerStatus(
                container_id(2, 1),
                ContainerState.RUNNING,
                ExecutionType.OPPORTUNISTIC,
                Resource(512, 1),
                pid=99,
                started_at_ms=TIMESTAMP + 2000,
                usage=ContainerUsage(1.5, 20 * MIB, 25 * MIB, 0.25, 0, 2, 3.0),
            ),
            container_id(2, 2): ContainerStatus(
                container_id(2, 2),
                ContainerState.SCHEDULED,
                ExecutionType.OPPORTUNISTIC,
                Resource(512, 1),
                position=1,
            ),
        }
        self.attempts = [ApplicationAttemptReport(f"appattempt_{TIMESTAMP}_0002_000001", "RUNNING")]


def node(run_dir: Path, node_id: str = NODE, **changes: Any) -> NodeReport:
    report = NodeReport(
        node_id,
        NodeState.RUNNING,
        f"unix:{run_dir}/nm-{node_id.rpartition(':')[2]}.sock",
        total=Resource(4096, 2),
        used=Resource(1024, 1),
        num_containers=1,
        opportunistic=OpportunisticContainersStatus(2, 1536, 2, 8, 8, -1, 10, 1),
        queue_limit=15,
        node_utilization=ResourceUtilization(2048 * MIB, 1.5),
        last_heartbeat_ms=TIMESTAMP,
        pid=4712,
        version="0.1.0",
    )
    return dataclasses.replace(report, **changes)


def application(number: int, **changes: Any) -> ApplicationReport:
    report = ApplicationReport(
        app_id(number),
        "sleep",
        "me",
        "default",
        "YOPP",
        YarnApplicationState.RUNNING,
        FinalApplicationStatus.UNDEFINED,
        progress=0.25,
        submitted_at_ms=TIMESTAMP,
        started_at_ms=TIMESTAMP + 1000,
        unmanaged=True,
        command_line="yopp run -O sleep 10",
    )
    return replace_app(report, **changes)


def replace_app(report: ApplicationReport, **changes: Any) -> ApplicationReport:
    return dataclasses.replace(report, **changes)


def container(app: int, number: int, **changes: Any) -> ContainerReport:
    report = ContainerReport(
        container_id(app, number),
        app_id(app),
        NODE,
        ExecutionType.OPPORTUNISTIC,
        Resource(512, 1),
        command=("sleep", "10"),
        allocated_at_ms=TIMESTAMP + 900,
        user="me",
    )
    return dataclasses.replace(report, **changes)
