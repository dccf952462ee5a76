"""A YARN cluster as the commands need it: each method is one or two calls of its REST APIs."""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from executor.light import dataclass

from ..errors import (
    EXIT_NO_SUCH,
    ApplicationNotFoundError,
    ConnectionFailedError,
    ContainerNotFoundError,
    NodeNotFoundError,
    UsageError,
    YoppError,
)
from ..records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from ..records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    QueueReport,
    YarnApplicationState,
)
from . import documents
from .asking import ask_each
from .rest import Answer, RefusedError, Rest

T = TypeVar("T")
LIVE_STATES: Final = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
LOG_BYTES: Final = 32 * 1024 * 1024
FAN_OUT: Final = 8
"""How many nodes are asked at once."""
ROUNDS: Final = 2
"""How many times as long as one may take all nodes together have."""
SIGNALS: Final = {"QUIT": "OUTPUT_THREAD_DUMP", "TERM": "GRACEFUL_SHUTDOWN", "KILL": "FORCEFUL_SHUTDOWN"}
"""Signals that YARN's REST API has a command for."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a call listed: reports, the document of each, and the bytes as they came."""

    reports: list[Any]
    documents: list[documents.Document]
    body: bytes

    @property
    def ours(self) -> bool:
        """Whether a yopp cluster answered, which tells more than YARN does."""
        return any(documents.is_ours(one) for one in self.documents)


class YarnEngine:
    """One YARN cluster. All methods raise ConnectionFailedError and RefusedError."""

    def __init__(self, rest: Rest) -> None:
        self.rest = rest

    # -- the cluster -------------------------------------------------------------------------------------------

    def info(self, *, anybody: bool = False) -> Answer:
        """``clusterInfo``; of a standby ResourceManager too with ``anybody``.

        That is the one document that a standby gives itself: another call finds the active one then.
        """
        answer = self.rest.call("GET", "/info", anybody=anybody)
        if anybody or self._member(answer, "clusterInfo").get("haState") != "STANDBY":
            return answer
        self.metrics()
        return self.rest.call("GET", "/info")

    def metrics(self) -> documents.Document:
        """``clusterMetrics``."""
        return self._member(self.rest.call("GET", "/metrics"), "clusterMetrics")

    def queues(self) -> tuple[list[tuple[QueueReport, documents.Document]], bytes]:
        """The queues with their documents, parents first, and the scheduler's document as it came."""
        answer = self.rest.call("GET", "/scheduler")
        found = answer.document()
        return self._read(answer, lambda: documents.queues(found)), answer.body

    def scheduler(self) -> Answer:
        """The scheduler's document, whichever scheduler it is."""
        return self.rest.call("GET", "/scheduler")

    # -- nodes -------------------------------------------------------------------------------------------------

    def nodes(self, states: Sequence[str] = ()) -> Listing:
        """Nodes in these states; without any those that YARN shows then."""
        answer = self.rest.call("GET", "/nodes", query=[("states", ",".join(states))] if states else [])
        return self._listing(answer, "nodes", "node", documents.node)

    def node(self, node_id: str) -> Listing:
        """One node. Raises NodeNotFoundError."""
        try:
            answer = self.rest.call("GET", f"/nodes/{_quoted(node_id)}")
        except RefusedError as error:
            raise _missing(error, NodeNotFoundError, f"no node {node_id}", "yopp node list -a") from None
        return self._single(answer, "node", documents.node)

    # -- applications ------------------------------------------------------------------------------------------

    def applications(self, query: Sequence[tuple[str, str]] = ()) -> Listing:
        """Applications by YARN's own filters, in order of submission."""
        answer = self.rest.call("GET", "/apps", query=query)
        found = self._listing(answer, "apps", "app", documents.application)
        order = sorted(range(len(found.reports)), key=lambda i: _submitted(found.reports[i].application_id))
        return Listing([found.reports[i] for i in order], [found.documents[i] for i in order], found.body)

    def application_ids(self) -> list[str]:
        """All ids, in order of submission."""
        return [one.application_id for one in self.applications().reports]

    def application(self, application_id: str) -> Listing:
        """One application. Raises ApplicationNotFoundError."""
        try:
            answer = self.rest.call("GET", f"/apps/{application_id}")
        except RefusedError as error:
            raise _no_application(error, application_id) from None
        return self._single(answer, "app", documents.application)

    def submit(self, make_body: Callable[[str], dict[str, Any]]) -> str:
        """Submit an application; its id. ``make_body`` makes the body for the id that it is given."""
        answer = self.rest.call("POST", "/apps/new-application")
        given = answer.document().get("application-id")
        application_id = self._read(answer, lambda: str(ApplicationId.parse(str(given))))
        self.rest.call("POST", "/apps", body=make_body(application_id))
        return application_id

    def kill(self, application_id: str) -> None:
        """Begin to end an application. Raises ApplicationNotFoundError."""
        self._change(application_id, "state", {"state": YarnApplicationState.KILLED.value})

    def move(self, application_id: str, queue: str) -> None:
        """Put an application into another queue."""
        self._change(application_id, "queue", {"queue": queue})

    def prioritise(self, application_id: str, priority: int) -> None:
        """Give an application another priority."""
        self._change(application_id, "priority", {"priority": priority})

    def limit_lifetime(self, application_id: str, expires_at_ms: int) -> None:
        """Let an application end at ``expires_at_ms`` (epoch milliseconds)."""
        timeout = {"type": "LIFETIME", "expiryTime": expiry(expires_at_ms)}
        self._change(application_id, "timeout", {"timeout": timeout})

    def _change(self, application_id: str, what: str, body: dict[str, Any]) -> None:
        try:
            self.rest.call("PUT", f"/apps/{application_id}/{what}", body=body)
        except RefusedError as error:
            raise _no_application(error, application_id) from None

    def attempts(self, application_id: str) -> Listing:
        """An application's attempts, oldest first. Raises ApplicationNotFoundError."""
        try:
            answer = self.rest.call("GET", f"/apps/{application_id}/appattempts")
        except RefusedError as error:
            raise _no_application(error, application_id) from None
        return self._listing(
            answer, "appAttempts", "appAttempt", lambda one: documents.attempt(one, application_id)
        )

    # -- containers --------------------------------------------------------------------------------------------

    def attempt_containers(self, attempt: ApplicationAttemptReport) -> Listing:
        """The containers of an attempt, as far as the ResourceManager still knows them."""
        application_id = str(ApplicationAttemptId.parse(attempt.attempt_id).application_id)
        path = f"/apps/{application_id}/appattempts/{attempt.attempt_id}/containers"
        try:
            answer = self.rest.call("GET", path)
        except RefusedError as error:
            raise _no_application(error, application_id) from None
        return self._listing(answer, "containers", "container", documents.container)

    def in_truth(self, listing: Listing, nodes: Sequence[NodeReport]) -> Listing:
        """The ResourceManager's containers with the execution type and the state that their nodes know.

        It tells no type itself, and calls all that live RUNNING, those in a node's queue too.
        """
        if not listing.documents or any("executionType" in one for one in listing.documents):
            return listing
        wanted = {one.node_id for one in listing.reports}
        told = self.containers_of([one for one in nodes if one.node_id in wanted])[0]
        known = {one.container_id: one for found in told for one in found.reports}
        reports = [
            replace(one, execution_type=there.execution_type, state=there.state)
            if (there := known.get(one.container_id))
            else one
            for one in listing.reports
        ]
        return Listing(reports, listing.documents, listing.body)

    def node_containers(self, node: NodeReport) -> Listing:
        """What a NodeManager knows of its containers."""
        answer = self.rest.get(f"{self.node_url(node)}/containers")
        return self._listing(
            answer, "containers", "container", lambda one: documents.container(one, node.node_id)
        )

    def containers_of(self, nodes: Sequence[NodeReport]) -> tuple[list[Listing], list[tuple[str, YoppError]]]:
        """The containers of several nodes; and those that did not answer, with what went wrong.

        All of them together have the time of ``ROUNDS`` answers. Raises what went wrong where none of them answered.
        """

        def ask(node: NodeReport) -> Listing | tuple[str, YoppError]:
            try:
                return self.node_containers(node)
            except YoppError as error:
                return node.node_id, error

        def late(node: NodeReport) -> tuple[str, YoppError]:
            return node.node_id, ConnectionFailedError(
                f"cannot reach node {node.node_id}", because="too many others did not answer in time"
            )

        answers = ask_each(nodes, ask, late=late, threads=FAN_OUT, seconds=ROUNDS * self.rest.seconds)
        found = [one for one in answers if isinstance(one, Listing)]
        failed = [one for one in answers if not isinstance(one, Listing)]
        if failed and not found:
            raise failed[0][1]
        return found, failed

    def container(self, container_id: str) -> Listing:
        """One container, from its node, which is found through its application. Raises ContainerNotFoundError."""
        node = self.node_of(container_id)
        try:
            answer = self.rest.get(f"{self.node_url(node)}/containers/{container_id}")
        except RefusedError as error:
            raise _no_container(error, container_id) from None
        return self._single(answer, "container", lambda one: documents.container(one, node.node_id))

    def node_of(self, container_id: str) -> NodeReport:
        """The node of a container. Raises ContainerNotFoundError."""
        parsed = ContainerId.parse(container_id)
        attempt = ApplicationAttemptReport(str(parsed.application_attempt_id), "")
        try:
            known: list[ContainerReport] = self.attempt_containers(attempt).reports
        except ApplicationNotFoundError as error:
            raise _no_container(error, container_id) from None
        for one in known:
            if one.container_id == container_id and one.node_id:
                report: NodeReport = self.node(one.node_id).reports[0]
                return report
        raise _no_container(None, container_id)

    def signal(self, container_id: str, command: str) -> None:
        """Have YARN signal a container; ``command`` is one of YARN's three. Raises ContainerNotFoundError."""
        try:
            self.rest.call("POST", f"/containers/{container_id}/signal/{command}")
        except RefusedError as error:
            if error.status == 404:
                raise _no_container(error, container_id) from None
            raise

    def log_files(self, node: NodeReport, container_id: str) -> list[str]:
        """The names of a container's log files. Raises ContainerNotFoundError where its node has none (any more)."""
        try:
            answer = self.rest.get(f"{self.node_url(node)}/containers/{container_id}/logs")
        except RefusedError as error:
            if "not yet running" in error.message:  # it waits in its node's queue
                return []
            raise _no_container(error, container_id) from None
        found = answer.document()

        def names() -> list[str]:
            # From 3.0 on one object or a list of them; a member of either kind has the files.
            outer = found.get("containerLogsInfo")
            listed = outer if isinstance(outer, list) else [outer]
            files = [
                one
                for info in listed
                if isinstance(info, dict)
                for one in documents.members({"files": info}, "files", "containerLogInfo")
            ]
            return list(dict.fromkeys(str(one["fileName"]) for one in files if one.get("fileName")))

        return self._read(answer, names)

    def log(self, node: NodeReport, container_id: str, name: str) -> bytes:
        """What stands in a log file of a container, ``LOG_BYTES`` of it at most, the last of them."""
        url = f"{self.node_url(node)}/containers/{container_id}/logs/{_quoted(name)}"
        try:
            answer = self.rest.get(url, [("size", str(-LOG_BYTES))])
        except RefusedError as error:
            raise _no_container(error, container_id) from None
        if answer.content_type.startswith("text/html"):  # a page that says that there is nothing
            raise _no_container(None, container_id)
        return documents.log_text(answer.body)

    def node_url(self, node: NodeReport) -> str:
        """The base URL of a node's REST API. Raises RefusedError where it has none."""
        if not node.http_address:
            raise RefusedError(
                f"node {node.node_id} has no web address",
                because="the ResourceManager tells none",
                hint="`yopp node status` shows it",
            )
        address = node.http_address
        if "://" not in address:
            secure = self.rest.address.startswith("https://")
            address = f"{'https' if secure else 'http'}://{address}"
        return f"{address.rstrip('/')}/ws/v1/node"

    # -- reading -----------------------------------------------------------------------------------------------

    def _listing(
        self, answer: Answer, plural: str, singular: str, read: Callable[[documents.Document], Any]
    ) -> Listing:
        found = answer.document()
        listed = self._read(answer, lambda: documents.members(found, plural, singular))
        return Listing(self._read(answer, lambda: [read(one) for one in listed]), listed, answer.body)

    def _single(self, answer: Answer, name: str, read: Callable[[documents.Document], Any]) -> Listing:
        one = self._member(answer, name)
        return Listing([self._read(answer, lambda: read(one))], [one], answer.body)

    def _member(self, answer: Answer, name: str) -> documents.Document:
        found = answer.document()
        return self._read(answer, lambda: documents.member(found, name))

    def _read(self, answer: Answer, read: Callable[[], T]) -> T:
        try:
            return read()
        except (ValueError, KeyError, TypeError) as error:
            raise answer.strange(str(error)) from None
        except YoppError as error:
            raise answer.strange(error.message) from None


def expiry(expires_at_ms: int) -> str:
    """A moment as YARN's timeouts want it: 2026-11-22T05:26:35.987+0000."""
    moment = datetime.datetime.fromtimestamp(expires_at_ms / 1000, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{expires_at_ms % 1000:03d}+0000"


def cut(reports: Sequence[ApplicationReport], limit: int | None) -> Iterable[ApplicationReport]:
    """The newest ``limit`` of them; all without one."""
    return reports[max(0, len(reports) - limit) :] if limit is not None else reports


def _quoted(word: str) -> str:
    return urllib.parse.quote(word, safe=":")


def _submitted(application_id: str) -> tuple[int, int]:
    parsed = ApplicationId.parse(application_id)
    return parsed.cluster_timestamp, parsed.id


def _missing(error: RefusedError, kind: type[YoppError], message: str, hint: str) -> YoppError:
    """A 404 as our own kind of error; any other as it is."""
    if error.status != 404:
        return error
    return kind(message, because="the cluster does not know it", hint=f"`{hint}` shows those that it knows")


def _no_application(error: RefusedError, application_id: str) -> YoppError:
    return _missing(error, ApplicationNotFoundError, f"no application {application_id}", "yopp app list -a")


def _no_container(error: YoppError | None, container_id: str) -> YoppError:
    """Where neither the ResourceManager nor a node has a container any more."""
    if isinstance(error, RefusedError) and error.status != 404:
        return error
    application_id = str(ContainerId.parse(container_id).application_id)
    return ContainerNotFoundError(
        f"the cluster's nodes do not know {container_id}",
        because="a node forgets its containers when their application has ended",
        hint=f"aggregated logs: `yarn logs -applicationId {application_id} -containerId {container_id}`",
        exit_code=EXIT_NO_SUCH,
    )


ALIVE: Final = (NodeState.RUNNING, NodeState.DECOMMISSIONING)
"""States of nodes whose NodeManager answers."""


def node_named(known: Sequence[NodeReport], word: str) -> NodeReport | None:
    """The node with that full id, None where none has it."""
    return next((one for one in known if one.node_id == word), None)


def signal_command(name: str) -> str:
    """YARN's command for a signal's name (TERM). Raises UsageError for one that it has none for."""
    if name not in SIGNALS:
        raise UsageError(
            f"YARN cannot send SIG{name}",
            because=f"its REST API knows {', '.join(SIGNALS)} only",
            hint="`yopp container signal --signal TERM`",
        )
    return SIGNALS[name]
