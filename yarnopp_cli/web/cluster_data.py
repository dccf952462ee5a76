"""What the RM's documents and pages are made of: the machine's own answers, and what nodes measure."""

from __future__ import annotations

import asyncio
import time

from executor.records import ContainerStatus

from ..cluster.rundir import RunDir
from ..errors import ApplicationNotFoundError, YoppError
from ..records import client_protocol as client
from ..records.container_protocol import GetContainerStatusesRequest, GetContainerStatusesResponse
from ..records.figures import GetSchedulerFiguresRequest, GetSchedulerFiguresResponse
from ..records.ids import ApplicationId
from ..records.mapreduce_report import GetMapReduceJobRequest, GetMapReduceJobResponse
from ..records.reports import FINAL_STATES, ApplicationReport, ClusterInfo, ContainerReport, NodeReport
from ..views.mapreduce import JobView, with_usage
from . import figures
from .calls import LocalCalls, call_daemon
from .http import not_found
from .kept_jobs import KeptJobs

MEASURE_SECONDS = 2.0


def now_ms() -> int:
    """The time of day, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class ClusterData:
    """What documents and pages are made of: the machine's own answers."""

    def __init__(self, calls: LocalCalls, run_dir: RunDir) -> None:
        self.call = calls
        self.run_dir = run_dir
        self.busy = figures.Busy()
        self.kept_jobs = KeptJobs(run_dir)

    async def info(self) -> ClusterInfo:
        """The cluster in short."""
        found: ClusterInfo = (await self.call(client.GetClusterInfoRequest())).info
        return found

    async def figures(self) -> GetSchedulerFiguresResponse:
        """What is counted beside the reports."""
        found: GetSchedulerFiguresResponse = await self.call(GetSchedulerFiguresRequest())
        return found

    async def applications(
        self, request: client.GetApplicationsRequest | None = None
    ) -> tuple[ApplicationReport, ...]:
        """Those that the request names, in order of submission."""
        answer: client.GetApplicationsResponse = await self.call(request or client.GetApplicationsRequest())
        return answer.applications

    async def application(self, application_id: str) -> ApplicationReport:
        """One application. Raises 404 as YARN does, 400 for what is no id."""
        ApplicationId.parse(application_id)
        try:
            return (await self.applications(client.GetApplicationsRequest((application_id,))))[0]
        except ApplicationNotFoundError:
            raise not_found(f"app with id: {application_id} not found") from None

    async def nodes(self) -> tuple[NodeReport, ...]:
        """All nodes, in order of their names and ports."""
        answer: client.GetClusterNodesResponse = await self.call(client.GetClusterNodesRequest())
        return answer.nodes

    async def node(self, node_id: str) -> NodeReport:
        """One node. Raises 404."""
        for one in await self.nodes():
            if one.node_id == node_id:
                return one
        raise not_found(f"nodeId, {node_id[:200]}, is not found")

    async def job(self, application_id: str) -> JobView | None:
        """The MapReduce job of an application as it is or was; None for what is none, or of which nothing was kept."""
        answer: GetMapReduceJobResponse = await self.call(GetMapReduceJobRequest(application_id))
        if answer.report is not None:
            return await self.measured(answer)
        if answer.application.state not in FINAL_STATES:
            return None
        return await asyncio.to_thread(self.kept_jobs.find, application_id)

    async def measured(self, answer: GetMapReduceJobResponse) -> JobView:
        """A job the RM knows, with what its nodes measured of attempts that run: the RM hears of that at their end."""
        assert answer.report is not None
        running: dict[str, list[str]] = {}
        for one in answer.report.attempts:
            if one.started_at_ms and not one.finished_at_ms:
                running.setdefault(one.node_id, []).append(one.container_id)
        addresses = (
            {one.node_id: one.address for one in await self.nodes() if one.connected} if running else {}
        )
        told = await asyncio.gather(
            *(_statuses(addresses[node], names) for node, names in running.items() if node in addresses)
        )
        usages = {status.container_id: status.usage for statuses in told for status in statuses}
        return JobView(answer.application, with_usage(answer.report, usages), now_ms())

    async def containers(self, request: client.GetContainersRequest) -> tuple[ContainerReport, ...]:
        """Containers as the RM knows them, in order of allocation."""
        answer: client.GetContainersResponse = await self.call(request)
        return answer.containers


async def _statuses(address: str, names: list[str]) -> tuple[ContainerStatus, ...]:
    """What a node says of its containers; nothing where it does not answer in time."""
    try:
        wish = GetContainerStatusesRequest(tuple(names))
        answer: GetContainerStatusesResponse = await call_daemon(
            address, "getContainerStatuses", wish, MEASURE_SECONDS
        )
    except YoppError:
        return ()
    return answer.statuses
