"""The client of this host's cluster: one method per call, and containers with the current figures
of their nodes (YARN's ``YarnClientImpl``).

It uses neither asyncio nor msgspec: a call costs a connect and one line each way. The nodes' protocol is
imported with the first call to a node (creating its messages takes milliseconds). The client never starts or
ends a daemon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

from executor.hints import TYPE_CHECKING
from executor.light import replace, suppress
from executor.records import ContainerState, ContainerStatus, ExecutionType

from ..errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    ContainerNotFoundError,
    InvalidStateError,
    NoAnswerError,
    NodeNotFoundError,
)
from ..records import client_protocol as rm
from ..records import job_protocol
from ..records.methods import Request, ResponseT
from ..records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ClusterInfo,
    ContainerGrant,
    ContainerReport,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
)
from ..records.requests import Token, UpdateContainerRequest
from ..rpc.blocking import DEFAULT_TIMEOUT, Connection

if TYPE_CHECKING:
    from executor.records import Resource
    from executor.settings import ExecutorSettings

    from ..records import container_protocol as nm
    from ..records.admin_protocol import NodesResponse
    from ..records.explanation import Explanation
    from ..records.foretell_protocol import ForetellRequest
    from ..records.history import GetEventsRequest, GetEventsResponse
    from ..records.tracker_protocol import NodeAnswer
    from ..views.containers import NodeFacts
    from .patience import Patience


ANSWER_GRACE = 10.0
"""Seconds that an answer may take beyond the time for which the call asks the daemon to hold it."""

NODE_SECONDS = 2.0
"""Seconds within which a node must report its current figures; otherwise the RM's are shown."""

_ALIVE = (NodeState.RUNNING, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED)
_STRICT = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
_ENFORCED = "yarn.nodemanager.resource.memory.enforced"
_PIDS = "yopp.nodemanager.container.pids-max"


class LocalClient:
    """A client of this host's cluster: ``protocol.Client``, and the calls that only yopp's daemons answer.

    Errors are YoppErrors: ConnectionFailedError, or the daemon's refusal. ``trace`` gets a line about each
    call and its duration; with ``trace_messages`` also both messages.
    """

    def __init__(
        self, rm_address: str, *, trace: Callable[[str], None] | None = None, trace_messages: bool = False
    ) -> None:
        self._rm = Connection(rm_address)
        self._nodes: dict[str, Connection] = {}
        self._trace = trace
        self._trace_messages = trace_messages
        self._until: float | None = None
        self._rm_lost = False
        self._patience: Patience | None = None

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def hurry(self, seconds: float) -> None:
        """Limit all calls from now on to ``seconds`` in total; a late answer raises ConnectionFailedError."""
        self._until = time.monotonic() + seconds

    def be_patient(self, tell: Callable[[str], None], may_return: Callable[[], bool]) -> None:
        """Retry calls to an RM that is lost from now on, as ``Patience`` decides: for commands that
        watch for a long time."""
        from .patience import Patience

        self._patience = Patience(tell, may_return)

    def close(self) -> None:
        """Close all connections."""
        for connection in (self._rm, *self._nodes.values()):
            connection.close()
        self._nodes.clear()

    # -- the cluster -------------------------------------------------------------------------------------------

    def cluster_info(self, *, timeout: float = DEFAULT_TIMEOUT) -> ClusterInfo:
        """The summary of the cluster."""
        return self.ask(rm.GetClusterInfoRequest(), timeout=timeout)

    def queues(self) -> tuple[QueueReport, ...]:
        """All queues, parents first."""
        return self.ask(rm.GetQueueInfoRequest("")).queues

    def events(self, request: GetEventsRequest) -> GetEventsResponse:
        """The events that match the request's filters; the RM waits up to ``wait_ms`` for one."""
        return self.ask(request, timeout=DEFAULT_TIMEOUT + request.wait_ms / 1000)

    def explain(self, identifier: str) -> Explanation:
        """Why an application, a container or a node waits. Raises the error of the kind that is not found."""
        from ..records.explanation import ExplainRequest

        return self.ask(ExplainRequest(identifier))

    # -- applications ------------------------------------------------------------------------------------------

    def applications(
        self, request: job_protocol.GetApplicationsRequest | None = None
    ) -> tuple[ApplicationReport, ...]:
        """The applications that match the request, in order of submission; all without a request."""
        return self.ask(request or job_protocol.GetApplicationsRequest()).applications

    def application(self, application_id: str) -> ApplicationReport:
        """One application. Raises ApplicationNotFoundError."""
        for report in self.applications(
            job_protocol.GetApplicationsRequest(application_ids=(application_id,))
        ):
            if report.application_id == application_id:
                return report
        raise ApplicationNotFoundError.of(application_id, "this cluster has no application with that id")

    def job(self, application_id: str) -> job_protocol.GetJobResponse:
        """The job of an application whose master the RM hosts or has hosted. Raises
        ApplicationNotFoundError."""
        return self.ask(job_protocol.GetJobRequest(application_id))

    def wait_for_applications(
        self,
        application_ids: Sequence[str],
        *,
        states: Sequence[YarnApplicationState] = (),
        any_of_them: bool = False,
        wait: float = 60.0,
    ) -> rm.WaitForApplicationsResponse:
        """Wait up to ``wait`` seconds until the applications have reached ``states`` or later ones (none:
        have ended)."""
        request = rm.WaitForApplicationsRequest(
            tuple(application_ids), tuple(states), any_of_them, max(0, round(wait * 1000))
        )
        return self.ask(request, timeout=wait + ANSWER_GRACE)

    def change(self, request: Request[rm.ApplicationResponse]) -> ApplicationReport:
        """Change an application; its report after that. Raises ApplicationNotFoundError, or the
        RM's refusal."""
        return self.ask(request).application

    def attempts(self, application_id: str) -> tuple[ApplicationAttemptReport, ...]:
        """The attempts of one application, oldest first. Raises ApplicationNotFoundError."""
        return self.ask(rm.GetApplicationAttemptsRequest(application_id)).attempts

    # -- nodes -------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[NodeReport, ...]:
        """All nodes, ordered by name and port."""
        return self.ask(rm.GetClusterNodesRequest()).nodes

    def wait_for_nodes(self, count: int, seconds: float) -> None:
        """Return when this number of nodes is running, or after this time."""
        self.ask(rm.WaitForNodesRequest(count, round(seconds * 1000)), timeout=DEFAULT_TIMEOUT + seconds)

    def node(self, node_id: str) -> NodeReport:
        """One node. Raises NodeNotFoundError."""
        for report in self.nodes():
            if report.node_id == node_id:
                return report
        raise NodeNotFoundError.of(node_id, "no node with that id has registered")

    def node_facts(
        self, nodes: Iterable[NodeReport], reports: Iterable[ContainerReport]
    ) -> dict[str, NodeFacts]:
        """The limits that the nodes of these containers set; nodes that do not answer are left out."""
        from ..records import container_protocol as nm
        from ..views.containers import NodeFacts

        wanted = {report.node_id for report in reports}
        if not wanted:
            return {}
        settings = _executor_settings(self.cluster_info().properties)
        facts = {}
        for node in nodes:
            if node.node_id in wanted:
                try:
                    info = self.ask_node(node, nm.GetNodeInfoRequest())
                except ConnectionFailedError:
                    continue
                cores = len(os.sched_getaffinity(0))
                facts[node.node_id] = NodeFacts(info.cgroups, info.total, cores, settings)
        return facts

    def drain_nodes(
        self, node_ids: Sequence[str], timeout_ms: int = -1, *, dry_run: bool = False
    ) -> tuple[tuple[NodeReport, ...], int]:
        """Begin to drain nodes. Returns their reports after that, and the number of their containers."""
        from ..records import admin_protocol as admin

        request = admin.DrainNodesRequest(tuple(node_ids), timeout_ms, dry_run)
        answer = self.ask(request)
        return answer.nodes, answer.containers

    def resume_nodes(self, node_ids: Sequence[str], *, dry_run: bool = False) -> tuple[NodeReport, ...]:
        """Return drained nodes to service."""
        from ..records import admin_protocol as admin

        return self.ask(admin.ResumeNodesRequest(tuple(node_ids), dry_run)).nodes

    def resize_nodes(self, sizes: Mapping[str, Resource], *, dry_run: bool = False) -> NodesResponse:
        """Resize nodes, all of them or none. Raises InvalidResourceRequestError for a size without room for a
        container, and for more memory than the host has."""
        from ..records import admin_protocol as admin

        return self.ask(admin.UpdateNodeResourceRequest(dict(sizes), dry_run))

    # -- containers --------------------------------------------------------------------------------------------

    def container_reports(self, request: rm.GetContainersRequest) -> tuple[ContainerReport, ...]:
        """Containers as the RM knows them, in order of allocation."""
        return self.ask(request).containers

    def containers(
        self, request: rm.GetContainersRequest | None = None, *, nodes: Iterable[NodeReport] | None = None
    ) -> tuple[ContainerReport, ...]:
        """Containers in order of allocation, with the current state, queue position and usage
        from their nodes.

        If a node does not answer, the RM's report is kept. ``nodes`` saves another request for the nodes.
        """
        request = request or rm.GetContainersRequest()
        asked = self._ask_ahead(request, nodes or ())
        answer = self.ask(replace(request, grants_only=bool(asked) and not request.finished))
        live: list[ContainerGrant | ContainerReport] = list(answer.grants)
        live += [one for one in answer.containers if one.state is not ContainerState.DONE]
        wanted: dict[str, list[str]] = {}
        for one in live:
            wanted.setdefault(one.node_id, []).append(one.container_id)
        if not wanted:
            return answer.containers
        found: dict[str, ContainerStatus] = {}
        for node in self.nodes() if nodes is None else nodes:
            if node.node_id in wanted and _answers(node):
                found.update(self._statuses(node, wanted[node.node_id], asked.get(node.node_id)))
        reports = {report.container_id: report for report in answer.containers}
        grants = {grant.container_id: grant for grant in answer.grants}
        if untold := tuple(name for name in grants if name not in found or not found[name].command):
            in_full = self.container_reports(rm.GetContainersRequest(container_ids=untold))
            reports |= {report.container_id: report for report in in_full}
        return tuple(
            reports.get(name, one).merged(found[name]) if name in found else reports[name]
            for name, one in (grants or reports).items()
        )

    def _ask_ahead(self, request: rm.GetContainersRequest, nodes: Iterable[NodeReport]) -> dict[str, int]:
        """If all containers are wanted, ask the nodes for their live ones before the RM answers, so that both
        work at the same time. Returns the ids of the calls by node id."""
        if request.application_id or request.container_ids:
            return {}
        asked = {}
        for node in nodes:
            if _answers(node) and request.node_id in ("", node.node_id):
                with suppress(ConnectionFailedError):
                    asked[node.node_id] = self._node(node).send(_live_ones())
        return asked

    def _statuses(
        self, node: NodeReport, container_ids: list[str], asked: int | None
    ) -> dict[str, ContainerStatus]:
        """A node's statuses of these containers, by id; none if the node cannot be reached. ``asked`` is the id of the
        call that requested its live ones, if one was made."""
        from ..records import container_protocol as nm

        found: dict[str, ContainerStatus] = {}
        try:
            if asked is not None:
                answer = self._answered(self._node(node), asked, _live_ones(), NODE_SECONDS)
                found = {status.container_id: status for status in answer.statuses}
            if missing := tuple(one for one in container_ids if one not in found):
                request = nm.GetContainerStatusesRequest(missing, finished=True)
                answer = self.ask_node(node, request, timeout=NODE_SECONDS)
                found.update((status.container_id, status) for status in answer.statuses)
        except ConnectionFailedError:
            pass
        return found

    def container(self, container_id: str) -> ContainerReport:
        """One container, live or ended. Raises ContainerNotFoundError."""
        request = rm.GetContainersRequest(container_ids=(container_id,), finished=True)
        for report in self.containers(request):
            if report.container_id == container_id:
                return report
        raise ContainerNotFoundError.of(container_id, "neither its ResourceManager nor a node knows it")

    def usage_traces(self, node: NodeReport, container_ids: tuple[str, ...]) -> nm.GetUsageTracesResponse:
        """The usage of these containers of a node, and of its machine, in the last minute. Raises
        ConnectionFailedError.
        """
        from ..records import container_protocol as nm

        return self.ask_node(node, nm.GetUsageTracesRequest(container_ids), timeout=NODE_SECONDS)

    def foretell(self, node: NodeReport, request: ForetellRequest) -> NodeAnswer:
        """What would happen at a node. Raises ConnectionFailedError if it does not answer, InvalidStateError if it does
        not know."""
        found = self.ask_node(node, request, timeout=NODE_SECONDS)
        if found.failed:
            unknown = f"the effects at node {node.node_id} are unknown"
            raise InvalidStateError(unknown, because=found.failed, hint="try it again")
        return found

    def gives_way(self, reports: Iterable[ContainerReport], nodes: Iterable[NodeReport]) -> dict[str, str]:
        """The containers that their nodes would preempt if these became guaranteed now, each with
        "pause" or "kill". Raises YoppError, as ``foretell``.
        """
        from ..records.foretell_protocol import ForetellRequest
        from ..records.tracker_protocol import ContainerToUpdate, NodeOrders

        guaranteed, later = ExecutionType.GUARANTEED, 2**31 - 1
        promoted: dict[str, list[ContainerToUpdate]] = {}
        for one in reports:
            update = ContainerToUpdate(one.container_id, later, guaranteed, one.resource, Token("", "", ""))
            promoted.setdefault(one.node_id, []).append(update)
        found: dict[str, str] = {}
        for node in nodes:
            if updates := promoted.get(node.node_id):
                orders = NodeOrders(containers_to_update=tuple(updates))
                answer = self.foretell(node, ForetellRequest(orders))
                found |= dict.fromkeys(answer.paused, "pause") | dict.fromkeys(answer.killed, "kill")
        return found

    def stop_container(self, report: ContainerReport, diagnostics: str) -> nm.StopContainersResponse:
        """Ask a container's node to end it (KILLED_BY_APPMASTER)."""
        from ..records import container_protocol as nm

        request = nm.StopContainersRequest((report.container_id,), diagnostics=diagnostics, by_person=True)
        return self._ask_node_of(report, request)

    def signal_name(self, signal: int) -> str:
        """The name of a signal; every signal can be sent."""
        import signal as signals

        return signals.Signals(signal).name

    def signal_container(self, report: ContainerReport, signal: int) -> None:
        """Send a signal to every process of a container."""
        from ..records import container_protocol as nm

        self._ask_node_of(report, nm.SignalContainerRequest(report.container_id, signal))

    def pause_container(self, report: ContainerReport) -> ContainerStatus:
        """Begin to pause a container; its status at that time."""
        from ..records import container_protocol as nm

        return self._ask_node_of(report, nm.PauseContainerRequest(report.container_id))

    def resume_container(self, report: ContainerReport) -> ContainerStatus:
        """Let a paused container resume when resources are free; its status at that time."""
        from ..records import container_protocol as nm

        return self._ask_node_of(report, nm.ResumeContainerRequest(report.container_id))

    def update_container(self, update: UpdateContainerRequest) -> rm.ChangeContainerResponse:
        """Promote, demote or resize a container. Raises InvalidStateError with YARN's reason
        for a refusal."""
        return self.ask(rm.ChangeContainerRequest(update))

    # -- calls -------------------------------------------------------------------------------------------------

    def ask_node(
        self, node: NodeReport, request: Request[ResponseT], *, timeout: float = DEFAULT_TIMEOUT
    ) -> ResponseT:
        """Make one call to a node. Raises ConnectionFailedError, or the node's refusal."""
        return self._call(self._node(node), request, timeout)

    def _ask_node_of(self, report: ContainerReport, request: Request[ResponseT]) -> ResponseT:
        """Make one call to the node of a container."""
        return self.ask_node(self.node(report.node_id), request)

    def _node(self, node: NodeReport) -> Connection:
        """The connection to a node. Raises ConnectionFailedError."""
        if not node.address:
            raise ConnectionFailedError(
                f"node {node.node_id} has no known address",
                because="it has not registered since the ResourceManager started",
                hint="`yopp node list -a` shows its last heartbeat",
            )
        if node.node_id not in self._nodes:
            self._nodes[node.node_id] = Connection(node.address, peer=f"node {node.node_id}")
        return self._nodes[node.node_id]

    def ask(self, request: Request[ResponseT], *, timeout: float = DEFAULT_TIMEOUT) -> ResponseT:
        """Make one call to the ResourceManager; retry while it is lost, if ``be_patient`` was called."""
        patience = self._patience
        if patience is None:
            return self._call(self._rm, request, timeout)
        while True:
            try:
                if self._rm_lost:
                    self._rm = Connection(self._rm.address)
                    self._rm_lost = False
                    # The request itself may be answered only when something happens.
                    self._call(self._rm, rm.GetClusterInfoRequest(), DEFAULT_TIMEOUT)
                    patience.found()
                return self._call(self._rm, request, timeout)
            except NoAnswerError:
                raise
            except ConnectionFailedError as error:
                self._rm.close()
                self._rm_lost = True
                if self._until is not None and time.monotonic() >= self._until:
                    raise
                patience.lost(error)

    def _call(self, connection: Connection, request: Request[ResponseT], timeout: float) -> ResponseT:
        """Make one call over a connection, and report it to ``trace``."""
        return self._answered(connection, connection.send(request), request, timeout)

    def _answered(
        self, connection: Connection, call_id: int, request: Request[ResponseT], timeout: float
    ) -> ResponseT:
        """Wait for the answer to a call that was sent, and report both to ``trace``."""
        if self._until is not None:
            timeout = min(timeout, max(0.0, self._until - time.monotonic()))
        if self._trace is not None and self._trace_messages:
            self._trace(f"-> {request}")
        begin = time.perf_counter()
        answer = connection.answer(call_id, request, timeout=timeout)
        if self._trace is not None:
            elapsed_ms = (time.perf_counter() - begin) * 1000
            self._trace(f"{connection.peer}: {request.METHOD} took {elapsed_ms:.1f} ms")
            if self._trace_messages:
                self._trace(f"<- {answer}")
        return answer


def _answers(node: NodeReport) -> bool:
    """Whether the node can be expected to answer."""
    return node.state in _ALIVE and node.connected


def _live_ones() -> nm.GetContainerStatusesRequest:
    """The request for all live containers of a node."""
    from ..records import container_protocol as nm

    return nm.GetContainerStatusesRequest()


def _executor_settings(properties: dict[str, str]) -> ExecutorSettings:
    """The settings that decide the limits, from the properties with which the cluster was started."""
    from executor.settings import ExecutorSettings

    defaults = ExecutorSettings()
    pids = properties.get(_PIDS, "")
    return ExecutorSettings(
        strict_resource_usage=properties.get(_STRICT, str(defaults.strict_resource_usage)).lower() == "true",
        memory_enforced=properties.get(_ENFORCED, str(defaults.memory_enforced)).lower() == "true",
        pids_max=int(pids) if pids.isdecimal() else defaults.pids_max,
    )
