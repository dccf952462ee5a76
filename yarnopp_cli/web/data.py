"""The data of documents and pages: answers of the daemon's own machine, and of other daemons of this host."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from executor.records import ContainerStatus
from executor.regular import read_regular

from ..clock import now_ms
from ..cluster.processes import process_figures
from ..cluster.rundir import RunDir
from ..errors import ApplicationNotFoundError, YoppError
from ..records import client_protocol as client
from ..records import container_protocol as nm
from ..records import job_protocol
from ..records.history import GetMapReduceJobRequest, GetMapReduceJobResponse, MapReduceReport
from ..records.ids import ApplicationId, ContainerId
from ..records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    ClusterInfo,
    ContainerReport,
    NodeReport,
    QueueReport,
    is_waiting,
)
from ..records.scheduler_protocol import GetSchedulerFiguresRequest
from ..views.cluster import metrics
from ..views.containers import NodeFacts, is_live
from ..views.rest.mapreduce import JobView, with_usage
from ..views.rest.metrics import MetricFigures, of_cluster, of_node
from .calls import LocalCalls, Reader, call_daemon
from .http import bad_request, not_found

MEASURE_SECONDS = 2.0
RM_SECONDS = 2.0


class Busy:
    """The recent CPU use of this thread, which runs the daemon's loop."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.thread_time()
        self._percent = 0

    def percent(self) -> int:
        """Percent of one processor since the last measurement; measured again if that was at least a second
        ago.
        """
        now, used = time.monotonic(), time.thread_time()
        if now - self._at >= 1:
            self._percent = min(100, round(100 * (used - self._used) / (now - self._at)))
            self._at, self._used = now, used
        return self._percent


@dataclass(frozen=True, slots=True)
class KeptJob:
    """The part of an ``ApplicationHistory`` that these documents need; the rest of the file is skipped."""

    application: ApplicationReport
    map_reduce: MapReduceReport | None = None


class JobHistories:
    """The kept histories of MapReduce jobs. Reads files: call it in a thread. A file's summary is cached
    until the file changes.
    """

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        self._last: tuple[str, int, JobView | None] | None = None
        self._rows: dict[str, tuple[int, dict[str, Any] | None]] = {}
        self._decoder = msgspec.json.Decoder(KeptJob)

    def find(self, application_id: str) -> JobView | None:
        """One job; None if no history of it is kept, or if it is not a MapReduce job."""
        path = self._run_dir.history_file(application_id)
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            return None
        if self._last is None or self._last[:2] != (path, changed):
            self._last = (path, changed, self._read(path))
        return self._last[2]

    def rows(self) -> list[dict[str, Any]]:
        """A summary of each job, in the order in which they ended."""
        known, self._rows = self._rows, {}
        for application_id in self._run_dir.kept_histories():
            path = self._run_dir.history_file(application_id)
            try:
                changed = os.stat(path).st_mtime_ns
            except OSError:
                continue  # the oldest file, which has just been removed
            before = known.get(application_id)
            if before is None or before[0] != changed:
                view = self._read(path)
                before = (changed, view.history_row() if view is not None else None)
            self._rows[application_id] = before
        found = [row for _, row in self._rows.values() if row is not None]
        return sorted(found, key=lambda row: (row["finishTime"], row["id"]))

    def _read(self, path: str) -> JobView | None:
        """The job in a file; None if the file is not the history of the application in its name, or contains no
        MapReduce job.
        """
        try:
            kept = self._decoder.decode(read_regular(path))
        except (OSError, msgspec.MsgspecError):
            return None
        app = kept.application
        if os.path.basename(path) != f"{app.application_id}.json" or kept.map_reduce is None:
            return None
        return JobView(app, kept.map_reduce, app.finished_at_ms)


class ClusterData:
    """The data of the ResourceManager's documents and pages: the machine's own answers. ``read`` answers a read at
    once, ``call`` makes a call of the machine."""

    def __init__(self, read: Reader, calls: LocalCalls, run_dir: RunDir) -> None:
        self.read = read
        self.call = calls
        self.run_dir = run_dir
        self._busy = Busy()
        self.kept_jobs = JobHistories(run_dir)

    def info(self) -> ClusterInfo:
        """A summary of the cluster."""
        return self.read(client.GetClusterInfoRequest())

    def applications(
        self, request: job_protocol.GetApplicationsRequest | None = None
    ) -> tuple[ApplicationReport, ...]:
        """The applications that the request selects, in order of submission."""
        return self.read(request or job_protocol.GetApplicationsRequest()).applications

    def application(self, application_id: str) -> ApplicationReport:
        """One application. Raises 404 as YARN does, 400 for a malformed id."""
        application_id = str(ApplicationId.read(application_id))
        try:
            return self.applications(job_protocol.GetApplicationsRequest((application_id,)))[0]
        except ApplicationNotFoundError:
            raise not_found(f"app with id: {application_id} not found") from None

    def attempts(self, application_id: str) -> tuple[ApplicationAttemptReport, ...]:
        """The attempts of an application, the oldest first."""
        return self.read(client.GetApplicationAttemptsRequest(application_id)).attempts

    async def containers_of(self, application_id: str) -> tuple[ContainerReport, ...]:
        """All containers of an application, in order of allocation."""
        return await self._containers(
            client.GetContainersRequest(application_id=application_id, finished=True)
        )

    async def container(self, container_id: str) -> ContainerReport:
        """One container, ended or not. Raises YoppError."""
        ContainerId.parse(container_id)
        request = client.GetContainersRequest(container_ids=(container_id,), finished=True)
        return (await self._containers(request))[0]

    async def _containers(self, request: client.GetContainersRequest) -> tuple[ContainerReport, ...]:
        """The containers; the waiting ones as their nodes see them now, with their places and reasons."""
        found = self.read(request).containers
        told = await self._told(
            (one.node_id, one.container_id) for one in found if one.state and is_waiting(one)
        )
        return tuple(one.merged(told[one.container_id]) if one.container_id in told else one for one in found)

    async def _told(self, containers: Iterable[tuple[str, str]]) -> dict[str, ContainerStatus]:
        """The present statuses of some containers, each given as its node's id and its own; nodes that do not answer
        are left out."""
        wanted: dict[str, list[str]] = {}
        for node_id, container_id in containers:
            wanted.setdefault(node_id, []).append(container_id)
        addresses = {one.node_id: one.address for one in self.nodes() if one.connected} if wanted else {}
        asked = (_statuses(addresses[node], names) for node, names in wanted.items() if node in addresses)
        return {status.container_id: status for told in await asyncio.gather(*asked) for status in told}

    def queues(self) -> tuple[QueueReport, ...]:
        """All queues, parents before children."""
        return self.read(client.GetQueueInfoRequest()).queues

    def nodes(self) -> tuple[NodeReport, ...]:
        """All nodes, in order of host name and port."""
        return self.read(client.GetClusterNodesRequest()).nodes

    def node(self, node_id: str) -> NodeReport:
        """One node. Raises 404 if there is no node of that id."""
        for one in self.nodes():
            if one.node_id == node_id:
                return one
        raise not_found(f"nodeId, {node_id[:200]}, is not found")

    async def job(self, application_id: str) -> JobView | None:
        """The MapReduce job of an application, live or ended; None if it is not one, or if no history of it is kept."""
        answer = self.read(GetMapReduceJobRequest(application_id))
        if answer.report is not None:
            return await self.measured(answer)
        if answer.application.state not in FINAL_STATES:
            return None
        return await asyncio.to_thread(self.kept_jobs.find, application_id)

    async def measured(self, answer: GetMapReduceJobResponse) -> JobView:
        """A job that the RM knows, with its nodes' measurements of running attempts, which the RM receives
        only at their end.
        """
        assert answer.report is not None
        running = (one for one in answer.report.attempts if one.started_at_ms and not one.finished_at_ms)
        told = await self._told((one.node_id, one.container_id) for one in running)
        usages = {container_id: status.usage for container_id, status in told.items()}
        return JobView(answer.application, with_usage(answer.report, usages), now_ms())

    def http_addresses(self) -> dict[str, str]:
        """The address of each node's pages, by node id."""
        return {node.node_id: node.http_address for node in self.nodes()}

    def metrics(self) -> dict[str, Any]:
        """ClusterMetricsInfo."""
        counted = self.read(GetSchedulerFiguresRequest())
        return metrics(
            self.info(),
            self.applications(),
            self.nodes(),
            counted.pending,
            self._busy.percent(),
            counted.assigned_per_second,
        )

    async def figures(self) -> MetricFigures:
        """The figures of ``/metrics`` and ``/jmx``."""
        return of_cluster(
            self.info(),
            self.applications(),
            self.nodes(),
            self.read(GetSchedulerFiguresRequest()),
            self._busy.percent(),
            process_figures(os.getpid()),
        )


async def _statuses(address: str, names: list[str]) -> tuple[ContainerStatus, ...]:
    """A node's statuses of its containers; empty if it does not answer in time."""
    wish = nm.GetContainerStatusesRequest(tuple(names))
    try:
        answer = await call_daemon(address, wish, MEASURE_SECONDS)
    except YoppError:
        return ()
    return answer.statuses


def _alone(one: ContainerStatus, node_id: str) -> ContainerReport:
    """A report that contains only the node's facts."""
    kind, size = one.execution_type, one.resource
    return ContainerReport(one.container_id, one.application_id, node_id, kind, size).merged(one)


class NodeData:
    """The data of the NodeManager's documents and pages: the node's own answers, and further facts from its RM."""

    def __init__(self, calls: LocalCalls, node_id: str, run_dir: RunDir, facts: NodeFacts) -> None:
        self._call = calls
        self.node_id = node_id
        self.run_dir = run_dir
        self.facts = facts

    async def info(self) -> nm.GetNodeInfoResponse:
        """The node."""
        return await self._call(nm.GetNodeInfoRequest())

    async def statuses(self) -> tuple[ContainerStatus, ...]:
        """All containers that the node knows, in order of arrival."""
        return (await self._call(nm.GetContainerStatusesRequest(finished=True))).statuses

    async def containers(self) -> list[ContainerReport]:
        """The node's containers as ``yopp container list -a --node`` shows them, in order of allocation.

        While the RM does not answer: only what the node knows.
        """
        node_id = self.node_id
        statuses = {one.container_id: one for one in await self.statuses()}
        request = client.GetContainersRequest(node_id=node_id, finished=True)
        try:
            answer = await call_daemon(self.run_dir.rm_socket, request, RM_SECONDS)
        except YoppError:
            return [_alone(one, node_id) for one in statuses.values()]
        found = []
        for report in answer.containers:
            status = statuses.pop(report.container_id, None)
            if status is not None and is_live(report):
                report = report.merged(status)
            found.append(report)
        return found + [_alone(one, node_id) for one in statuses.values()]

    async def container(self, container_id: str) -> ContainerReport:
        """One container. Raises 404, or 400 for a malformed id, in YARN's words."""
        try:
            ContainerId.parse(container_id)
        except YoppError:
            raise bad_request(f"invalid container id, {container_id[:200]}") from None
        for one in await self.containers():
            if one.container_id == container_id:
                return one
        raise not_found(f"container with id, {container_id}, not found")

    async def log_directory(self, container_id: str) -> str:
        """The directory of a container's output, even if the node no longer knows the container. Raises 404."""
        try:
            report = await self.container(container_id)
        except YoppError:
            parsed = ContainerId.parse(container_id)
            info = await self.info()
            directory = os.path.join(info.log_dir, str(parsed.application_id), str(parsed))
            if info.log_dir and os.path.isdir(directory):
                return directory
            raise
        return report.log_directory

    async def figures(self) -> MetricFigures:
        """The figures of ``/metrics`` and ``/jmx``."""
        counted = await self._call(nm.GetNodeFiguresRequest())
        process = process_figures(os.getpid())
        return of_node(await self.info(), await self.statuses(), counted.counts, process)
