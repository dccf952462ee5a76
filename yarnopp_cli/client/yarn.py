"""The client of a YARN cluster: each method makes one or a few calls to its REST APIs."""

from __future__ import annotations

import contextlib
import datetime
import json
import operator
import signal as signals
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from executor.light import Record, replace

from ..errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    ContainerNotFoundError,
    NodeNotFoundError,
    UsageError,
    YoppError,
)
from ..records.client_protocol import (
    GetContainersRequest,
    KillApplicationRequest,
    MoveApplicationRequest,
    UpdateApplicationPriorityRequest,
    UpdateApplicationTimeoutsRequest,
    WaitForApplicationsResponse,
)
from ..records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from ..records.job_protocol import GetApplicationsRequest
from ..records.reports import (
    FINAL_STATES,
    LIVE_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
    has_reached,
)
from ..views.containers import is_live
from . import documents
from .asking import ask_each
from .polling import polls
from .rest import RefusedError, Rest, RestAnswer, UnansweredError

if TYPE_CHECKING:
    from .protocol import ApplicationChange

T = TypeVar("T")
LOG_BYTES: Final = 32 * 1024 * 1024
FAN_OUT: Final = 8
"""How many nodes are asked in parallel."""
ROUNDS: Final = 2
"""The time limit of all nodes together, as a multiple of the limit of one answer."""
SIGNALS: Final = {"QUIT": "OUTPUT_THREAD_DUMP", "TERM": "GRACEFUL_SHUTDOWN", "KILL": "FORCEFUL_SHUTDOWN"}
"""The signals for which YARN's REST API has a command."""
PACE: Final = {"fastest": 0.1, "slowest": 2.0}
"""Seconds between two polls of an application: YARN's REST API has no calls that wait."""
ALIVE: Final = (NodeState.RUNNING, NodeState.DECOMMISSIONING)
"""The states of nodes whose NodeManager answers."""


class _Answered(Record):
    """One answer: whether it describes a ``single`` object, its reports, and its bytes."""

    single: bool
    reports: Sequence[Any]
    body: bytes


class YarnClient:
    """One YARN cluster: ``protocol.Client``, and the other calls of its REST APIs.

    The client keeps the document of each report that a method returns, and the bytes of each answer, so that JSON can
    be printed exactly as the cluster sent it. ``warn`` gets a line about each node that does not answer.
    """

    def __init__(self, rest: Rest, warn: Callable[[str], None] | None = None) -> None:
        self.rest = rest
        self._warn = warn
        self._documents: dict[int, tuple[Any, documents.Document]] = {}
        self._answers: list[_Answered] = []

    def close(self) -> None:
        """Do nothing: no connection is kept open between two calls."""

    # -- kept documents ----------------------------------------------------------------------------------------

    def document_of(self, report: Any) -> documents.Document:
        """The document from which a report was read."""
        return self._documents[id(report)][1]

    def forget(self) -> None:
        """Drop all documents and answers; later calls ask again."""
        self._documents.clear()
        self._answers.clear()

    def body_of(self, rows: Sequence[Any], *, single: bool = False) -> bytes | None:
        """The bytes of the answer that listed exactly these reports, or (``single``) described this one
        alone; None if there is none."""
        for one in reversed(self._answers):
            same = one.single is single and len(one.reports) == len(rows)
            if same and all(map(operator.is_, one.reports, rows)):
                return one.body
        return None

    def is_ours(self, rows: Iterable[Any]) -> bool:
        """Whether the reports are from a yopp cluster, which reports more than YARN does."""
        return any(documents.is_ours(self.document_of(one)) for one in rows)

    # -- the cluster -------------------------------------------------------------------------------------------

    def info(self, *, anybody: bool = False) -> RestAnswer:
        """``clusterInfo``; with ``anybody`` also that of a standby ResourceManager.

        It is the only document that a standby answers itself instead of redirecting: another call then finds
        the active ResourceManager.
        """
        answer = self.rest.call("GET", "/info", anybody=anybody)
        if anybody or self._member(answer, "clusterInfo").get("haState") != "STANDBY":
            return answer
        self.metrics()
        return self.rest.call("GET", "/info")

    def metrics(self) -> documents.Document:
        """``clusterMetrics``."""
        return self._member(self.rest.call("GET", "/metrics"), "clusterMetrics")

    def queues(self) -> tuple[QueueReport, ...]:
        """The queues, parents first. Raises RefusedError for a scheduler other than the CapacityScheduler."""
        answer = self.scheduler()
        found = answer.document()
        pairs = self._read(answer, lambda: documents.queues(found))
        return self._keep([report for report, _ in pairs], [document for _, document in pairs])

    def scheduler(self) -> RestAnswer:
        """The document of the scheduler, of whatever type."""
        return self.rest.call("GET", "/scheduler")

    # -- nodes -------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[NodeReport, ...]:
        """All nodes, whatever their state."""
        return self.nodes_in(tuple(NodeState))

    def nodes_in(self, states: Sequence[NodeState]) -> tuple[NodeReport, ...]:
        """The nodes in these states."""
        answer = self.rest.call("GET", "/nodes", query=[("states", ",".join(one.value for one in states))])
        return self._listing(answer, "nodes", "node", documents.node)

    def node(self, node_id: str) -> NodeReport:
        """One node. Raises NodeNotFoundError."""
        with _naming(_no_node, node_id):
            answer = self.rest.call("GET", f"/nodes/{_quoted(node_id)}")
        return self._single(answer, "node", documents.node)

    # -- applications ------------------------------------------------------------------------------------------

    def applications(self, request: GetApplicationsRequest | None = None) -> tuple[ApplicationReport, ...]:
        """The applications that match the request, in order of submission. YARN filters, except by name."""
        wanted = request or GetApplicationsRequest()
        query = [
            ("states", ",".join(LIVE_STATES if wanted.live_only else wanted.states)),
            ("applicationTypes", ",".join(wanted.application_types)),
            ("applicationTags", ",".join(wanted.tags)),
            ("user", wanted.user),
            ("queue", wanted.queue),
        ]
        answer = self.rest.call("GET", "/apps", query=[(name, text) for name, text in query if text])
        found = self._listing(
            answer, "apps", "app", documents.application, order=lambda one: _submitted(one.application_id)
        )
        if wanted.name:
            return tuple(one for one in found if one.name == wanted.name)
        return found

    def application(self, application_id: str) -> ApplicationReport:
        """One application. Raises ApplicationNotFoundError."""
        with _naming(_no_application, application_id):
            answer = self.rest.call("GET", f"/apps/{application_id}")
        return self._single(answer, "app", documents.application)

    def wait_for_applications(
        self,
        application_ids: Sequence[str],
        *,
        states: Sequence[YarnApplicationState] = (),
        any_of_them: bool = False,
        wait: float = 60.0,
    ) -> WaitForApplicationsResponse:
        """Poll, with growing pauses, until the applications have reached ``states`` or later ones (none: have
        ended), or ``wait`` seconds have passed."""
        seen: dict[str, ApplicationReport] = {}
        satisfied = False
        for _ in polls(time.monotonic() + wait, **PACE):
            ended = {one: report for one, report in seen.items() if report.state in FINAL_STATES}
            seen = {one: ended.get(one) or self.application(one) for one in application_ids}
            reached = [has_reached(report.state, states) for report in seen.values()]
            satisfied = any(reached) if any_of_them else all(reached)
            if satisfied:
                break
        return WaitForApplicationsResponse(satisfied, tuple(seen.values()))

    def submit(self, make_body: Callable[[str], dict[str, Any]]) -> str:
        """Submit an application; its id. ``make_body`` makes the request's body from the id.

        Without an answer, the request is repeated once: a ResourceManager that has an application of this id starts no
        other one (``ClientRMService.submitApplication``).
        """
        answer = self.rest.call("POST", "/apps/new-application")
        given = answer.document().get("application-id")
        application_id = self._read(answer, lambda: str(ApplicationId.parse(str(given))))
        body = make_body(application_id)
        try:
            self.rest.call("POST", "/apps", body=body)
        except UnansweredError as unanswered:
            try:
                self.rest.call("POST", "/apps", body=body)
            except ConnectionFailedError:
                raise unanswered from None
        return application_id

    def change(self, request: ApplicationChange) -> ApplicationReport:
        """Change an application; its report after that. YARN writes its own diagnostics. Raises
        ApplicationNotFoundError."""
        what, body = _CHANGES[type(request)]
        with _naming(_no_application, request.application_id):
            self.rest.call("PUT", f"/apps/{request.application_id}/{what}", body=body(request))
        return self.application(request.application_id)

    def attempts(self, application_id: str) -> tuple[ApplicationAttemptReport, ...]:
        """An application's attempts, oldest first. Raises ApplicationNotFoundError."""
        with _naming(_no_application, application_id):
            answer = self.rest.call("GET", f"/apps/{application_id}/appattempts")
        return self._listing(
            answer, "appAttempts", "appAttempt", lambda one: documents.attempt(one, application_id)
        )

    # -- containers --------------------------------------------------------------------------------------------

    def container_reports(self, request: GetContainersRequest) -> tuple[ContainerReport, ...]:
        """The containers, as ``containers`` finds them, ordered by id: YARN has no quicker way."""
        found = [one for one in self.containers(request) if request.finished or is_live(one)]
        return tuple(sorted(found, key=lambda one: one.container_id))

    def containers(
        self, request: GetContainersRequest | None = None, *, nodes: Iterable[NodeReport] | None = None
    ) -> tuple[ContainerReport, ...]:
        """The containers of one node or of all, as the NodeManagers report them; those of one application as
        the ResourceManager reports them."""
        wanted = request or GetContainersRequest()
        alive = [one for one in (self.nodes_in(ALIVE) if nodes is None else nodes) if one.state in ALIVE]
        if wanted.application_id:
            attempts = self.attempts(wanted.application_id)
            return self.in_truth(self._merged([self.attempt_containers(one) for one in attempts]), alive)
        if wanted.node_id:
            for one in alive:
                if one.node_id == wanted.node_id:
                    return self.node_containers(one)
            raise UsageError(
                f"node {wanted.node_id} is not running",
                because="only running NodeManagers report their containers",
                hint="`yopp node status` shows details",
            )
        found, failed = self.containers_of(alive)
        for node_id, error in failed:
            if self._warn is not None:
                self._warn(f"node {node_id} does not answer: {error.because or error.message}")
        return self._merged(found)

    def _merged(self, found: Sequence[tuple[ContainerReport, ...]]) -> tuple[ContainerReport, ...]:
        """Merge several listings into one."""
        if len(found) == 1:
            return found[0]
        reports = tuple(one for listing in found for one in listing)
        told = [self.document_of(one) for one in reports]
        whole = {"containers": {"container": told} if told else None}
        self._answers.append(_Answered(False, reports, _compact(whole)))
        return reports

    def attempt_containers(self, attempt: ApplicationAttemptReport) -> tuple[ContainerReport, ...]:
        """The containers of an attempt that the ResourceManager still knows."""
        application_id = str(ApplicationAttemptId.parse(attempt.attempt_id).application_id)
        path = f"/apps/{application_id}/appattempts/{attempt.attempt_id}/containers"
        with _naming(_no_application, application_id):
            answer = self.rest.call("GET", path)
        return self._listing(answer, "containers", "container", documents.container)

    def in_truth(
        self, listed: tuple[ContainerReport, ...], nodes: Sequence[NodeReport]
    ) -> tuple[ContainerReport, ...]:
        """The ResourceManager's containers, with the execution type and the state from their nodes.

        The ResourceManager reports no execution type, and reports all live containers as
        RUNNING, queued ones too.
        """
        if not listed or any("executionType" in self.document_of(one) for one in listed):
            return listed
        wanted = {one.node_id for one in listed}
        told = self.containers_of([one for one in nodes if one.node_id in wanted])[0]
        known = {one.container_id: one for found in told for one in found}
        reports = []
        for one in listed:
            there = known.get(one.container_id)
            true = replace(one, execution_type=there.execution_type, state=there.state) if there else one
            self._documents[id(true)] = true, self.document_of(one)
            reports.append(true)
        body = self.body_of(listed)
        if body is not None:
            self._answers.append(_Answered(False, reports, body))
        return tuple(reports)

    def node_containers(self, node: NodeReport) -> tuple[ContainerReport, ...]:
        """The containers of a node, as its NodeManager reports them."""
        answer = self.rest.get(f"{self.node_url(node)}/containers")
        return self._listing(
            answer, "containers", "container", lambda one: documents.container(one, node.node_id)
        )

    def containers_of(
        self, nodes: Sequence[NodeReport]
    ) -> tuple[list[tuple[ContainerReport, ...]], list[tuple[str, YoppError]]]:
        """The containers of several nodes; and the ids of the nodes that did not answer, with their errors.

        The time limit of all nodes is ``ROUNDS`` times that of one answer. Raises the first
        error if no node answered.
        """
        seconds = ROUNDS * self.rest.seconds
        found: list[tuple[ContainerReport, ...]] = []
        failed: list[tuple[str, YoppError]] = []
        answers = ask_each(nodes, self.node_containers, threads=FAN_OUT, seconds=seconds)
        for node, answer in zip(nodes, answers, strict=True):
            if answer is None:
                answer = ConnectionFailedError(
                    f"cannot reach node {node.node_id}", because="too many nodes did not answer in time"
                )
            if isinstance(answer, YoppError):
                failed.append((node.node_id, answer))
            else:
                found.append(answer)
        if failed and not found:
            raise failed[0][1]
        return found, failed

    def container(self, container_id: str) -> ContainerReport:
        """One container, as reported by its node, which is found through its attempt. Raises
        ContainerNotFoundError."""
        node = self.node_of(container_id)
        with _naming(_no_container, container_id):
            answer = self.rest.get(f"{self.node_url(node)}/containers/{container_id}")
        return self._single(answer, "container", lambda one: documents.container(one, node.node_id))

    def node_of(self, container_id: str) -> NodeReport:
        """The node of a container. Raises ContainerNotFoundError."""
        parsed = ContainerId.parse(container_id)
        attempt = ApplicationAttemptReport(str(parsed.application_attempt_id), "")
        with contextlib.suppress(ApplicationNotFoundError):
            for one in self.attempt_containers(attempt):
                if one.container_id == container_id and one.node_id:
                    return self.node(one.node_id)
        raise _no_container(container_id)

    def signal_name(self, signal: int) -> str:
        """YARN's command for a signal. Raises UsageError if it has none."""
        name = signals.Signals(signal).name.removeprefix("SIG")
        if name not in SIGNALS:
            raise UsageError(
                f"YARN cannot send SIG{name}",
                because=f"its REST API supports only {', '.join(SIGNALS)}",
                hint="`yopp container signal --signal TERM`",
            )
        return f"{SIGNALS[name]} (SIG{name})"

    def signal_container(self, report: ContainerReport, signal: int) -> None:
        """Ask YARN to signal a container. Raises ContainerNotFoundError."""
        command = self.signal_name(signal).partition(" ")[0]
        with _naming(_no_container, report.container_id):
            self.rest.call("POST", f"/containers/{report.container_id}/signal/{command}")

    def log_files(self, node: NodeReport, container_id: str) -> list[str]:
        """The names of a container's log files. Raises ContainerNotFoundError if its node does not know
        the container (any more)."""
        try:
            with _naming(_no_container, container_id):
                answer = self.rest.get(f"{self.node_url(node)}/containers/{container_id}/logs")
        except RefusedError as error:
            if "not yet running" in error.message:  # the container waits in its node's queue
                return []
            raise
        found = answer.document()
        return self._read(answer, lambda: documents.log_files(found))

    def log(self, node: NodeReport, container_id: str, name: str) -> bytes:
        """The content of a container's log file: its last ``LOG_BYTES`` bytes at most."""
        url = f"{self.node_url(node)}/containers/{container_id}/logs/{_quoted(name)}"
        with _naming(_no_container, container_id):
            answer = self.rest.get(url, [("size", str(-LOG_BYTES))])
        if answer.content_type.startswith("text/html"):  # a page that reports that there is no log
            raise _no_container(container_id)
        return documents.log_text(answer.body)

    def node_url(self, node: NodeReport) -> str:
        """The base URL of a node's REST API. Raises RefusedError if the node has no web address."""
        if not node.http_address:
            raise RefusedError(
                f"node {node.node_id} has no web address",
                because="the ResourceManager reports none",
                hint="`yopp node status` shows it",
            )
        address = node.http_address
        if "://" not in address:
            secure = self.rest.address.startswith("https://")
            address = f"{'https' if secure else 'http'}://{address}"
        return f"{address.rstrip('/')}/ws/v1/node"

    # -- reading -----------------------------------------------------------------------------------------------

    def _listing(
        self,
        answer: RestAnswer,
        plural: str,
        singular: str,
        read: Callable[[documents.Document], T],
        order: Callable[[T], Any] | None = None,
    ) -> tuple[T, ...]:
        found = answer.document()
        listed = self._read(answer, lambda: documents.members(found, plural, singular))
        reports = self._keep(self._read(answer, lambda: [read(one) for one in listed]), listed)
        if order is not None:
            reports = tuple(sorted(reports, key=order))
        self._answers.append(_Answered(False, reports, answer.body))
        return reports

    def _single(self, answer: RestAnswer, name: str, read: Callable[[documents.Document], T]) -> T:
        one = self._member(answer, name)
        reports = self._keep([self._read(answer, lambda: read(one))], [one])
        self._answers.append(_Answered(True, reports, answer.body))
        return reports[0]

    def _keep(self, reports: Sequence[T], told: Sequence[documents.Document]) -> tuple[T, ...]:
        for report, document in zip(reports, told, strict=True):
            self._documents[id(report)] = report, document
        return tuple(reports)

    def _member(self, answer: RestAnswer, name: str) -> documents.Document:
        found = answer.document()
        return self._read(answer, lambda: documents.member(found, name))

    def _read(self, answer: RestAnswer, read: Callable[[], T]) -> T:
        try:
            return read()
        except (ValueError, KeyError, TypeError) as error:
            raise answer.strange(str(error)) from None
        except YoppError as error:
            raise answer.strange(error.message) from None


def _compact(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def expiry(expires_at_ms: int) -> str:
    """A time in the format of YARN's timeouts: 2026-11-22T05:26:35.987+0000."""
    moment = datetime.datetime.fromtimestamp(expires_at_ms / 1000, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{expires_at_ms % 1000:03d}+0000"


_CHANGES: Final[dict[type, tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    KillApplicationRequest: ("state", lambda _: {"state": YarnApplicationState.KILLED.value}),
    MoveApplicationRequest: ("queue", lambda one: {"queue": one.queue}),
    UpdateApplicationPriorityRequest: ("priority", lambda one: {"priority": one.priority}),
    UpdateApplicationTimeoutsRequest: (
        "timeout",
        lambda one: {"timeout": {"type": "LIFETIME", "expiryTime": expiry(one.expires_at_ms)}},
    ),
}
"""The resource below its application to which each change is PUT, and the body."""


def _quoted(word: str) -> str:
    return urllib.parse.quote(word, safe=":")


def _submitted(application_id: str) -> tuple[int, int]:
    parsed = ApplicationId.parse(application_id)
    return parsed.cluster_timestamp, parsed.id


@contextlib.contextmanager
def _naming(missing: Callable[[str], YoppError], identifier: str) -> Iterator[None]:
    """Turn a 404 into the error ``missing``, which names what was not found; other errors pass unchanged."""
    try:
        yield
    except RefusedError as error:
        raise missing(identifier) if error.status == 404 else error from None


def _no_node(node_id: str) -> YoppError:
    return NodeNotFoundError.of(node_id, "the cluster does not know it")


def _no_application(application_id: str) -> YoppError:
    return ApplicationNotFoundError.of(application_id, "the cluster does not know it")


def _no_container(container_id: str) -> YoppError:
    """The error for a container that neither the ResourceManager nor a node has any more."""
    application_id = str(ContainerId.parse(container_id).application_id)
    return ContainerNotFoundError(
        f"the cluster's nodes do not know {container_id}",
        because="a node forgets its containers when their application has ended",
        hint=f"aggregated logs: `yarn logs -applicationId {application_id} -containerId {container_id}`",
    )
