"""``yopp container list|status``, and ``yopp ps``. ``container_changes`` has the commands that change containers."""

from __future__ import annotations

from executor.light import Record, replace
from executor.records import ExecutionType

from ...errors import UsageError
from ...records.client_protocol import GetContainersRequest
from ...records.ids import ApplicationAttemptId
from ...records.job_protocol import GetApplicationsRequest
from ...records.reports import ApplicationReport, ContainerReport, YarnApplicationState
from ...records.requests import waits_for
from ...views import containers as view
from ...views.containers import CONTAINERS
from ..frame.command import command
from ..frame.filters import (
    NameFilter,
    NodeFilter,
    QueueFilter,
    TagFilter,
    UserFilter,
    applications_with,
    node_id,
)
from ..frame.naming import containers, of_application, one_application
from ..frame.options import Annotated, ContainerIds, OfApplication, Words, option
from ..frame.session import Session, empty_text
from .container_details import InFull, show_details

_NAMED_JOBS = 3
"""The number of jobs that have not begun which are named below a list."""
_ENDED = {"DONE", "KILLED", "ALL"}


class Filters(Record):
    """The filters of a list of containers."""

    every: bool = False
    states: tuple[str, ...] = ()
    kind: ExecutionType | None = None
    application: str = ""
    node: str = ""
    user: str = ""
    applications: frozenset[str] | None = None

    @property
    def ended_too(self) -> bool:
        """Whether ended containers are listed."""
        return self.every or bool(_ENDED & set(self.states))

    @property
    def narrow(self) -> bool:
        """Whether a filter other than that of ended containers is given."""
        return bool(
            self.states
            or self.kind
            or self.application
            or self.node
            or self.user
            or self.applications is not None
        )

    def pass_(self, report: ContainerReport) -> bool:
        """Whether a container passes the filters."""
        if not (self.ended_too or view.is_live(report)):
            return False
        if self.states and "ALL" not in self.states and view.shown_state(report) not in self._shown_states():
            return False
        if self.kind is not None and report.execution_type is not self.kind:
            return False
        if self.application and not of_application(report, self.application):
            return False
        if self.applications is not None and report.application_id not in self.applications:
            return False
        return (not self.node or report.node_id == self.node) and (not self.user or report.user == self.user)

    @property
    def of_containers(self) -> bool:
        """Whether a filter is given that only containers can pass."""
        return bool(self.states or self.kind or self.node)

    def takes_job(self, report: ApplicationReport) -> bool:
        """Whether the containers of an application would be listed."""
        return (
            (not self.application or report.application_id == self.application)
            and (self.applications is None or report.application_id in self.applications)
            and (not self.user or report.user == self.user)
        )

    def _shown_states(self) -> set[str]:
        """The states to list: SCHEDULED is YARN's word for QUEUED; DONE means all ended containers, killed or not."""
        wanted = set(self.states)
        return (
            wanted
            | ({"QUEUED"} if "SCHEDULED" in wanted else set())
            | ({"KILLED"} if "DONE" in wanted else set())
        )


def execution_type(text: str | None) -> ExecutionType | None:
    """The type named by a beginning of GUARANTEED or OPPORTUNISTIC, in any case. Raises UsageError."""
    if text is None:
        return None
    matching = [one for one in ExecutionType if text and one.value.startswith(text.upper())]
    if not matching:
        raise UsageError(
            f"--type has no {text}",
            because="there are two execution types",
            hint="choose G (guaranteed) or O (opportunistic)",
        )
    return matching[0]


@command("ps", "yopp ps -w 1", "yopp ps -a --app last --json", lists=CONTAINERS, newest=True, yarn=True)
@command(
    "container list", "yopp container list --app last", "yopp container list --state QUEUED -q",
    lists=CONTAINERS, newest=True, yarn=True,
)  # fmt: skip
def list_containers(
    session: Session,
    every: Annotated[bool, option("-a, --all", "Ended containers too.")] = False,
    kind: Annotated[
        str | None,
        option("--type O|G", "Only opportunistic or guaranteed containers."),
        Words(lambda: [one.value for one in ExecutionType]),
    ] = None,
    app: OfApplication = None,
    node: NodeFilter = None,
    user: UserFilter = "",
    queue: QueueFilter = "",
    name: NameFilter = "",
    tag: TagFilter = None,
) -> None:
    """List running, queued and paused containers, in order of allocation.

    Jobs that have not begun have no containers; they are named below the list.
    """
    wanted_type = execution_type(kind)
    cluster = session.cluster
    app_id = app or ""
    if app_id and not app_id.startswith("appattempt_"):  # The id of an attempt is a separate filter.
        app_id = one_application(cluster, app_id)
    filters = Filters(every, session.states, wanted_type, app_id, node_id(cluster, node), user)

    def once() -> None:
        of = applications_with(cluster, queue=queue, name=name, tag=tag)
        _show(session, replace(filters, applications=of))

    session.repeat(once)


def _show(session: Session, filters: Filters) -> None:
    cluster = session.cluster
    all_nodes = cluster.nodes()
    app = filters.application
    if app.startswith("appattempt_"):
        app = str(ApplicationAttemptId.parse(app).application_id)
    request = GetContainersRequest(app, filters.node, finished=filters.ended_too)
    told = cluster.containers(request, nodes=all_nodes)
    found = [report for report in told if filters.pass_(report)]
    narrowed, live_only = filters.narrow, not filters.ended_too
    session.show(
        CONTAINERS,
        found,
        document=InFull(session, found, all_nodes).document,
        empty=empty_text("containers", session.choice, narrowed=narrowed, live_only=live_only),
    )
    if session.printer.for_people and session.yarn is None and not filters.of_containers:
        _tell_of_those_to_come(session, filters)


def _tell_of_those_to_come(session: Session, filters: Filters) -> None:
    """Print which jobs have no containers because they have not begun."""
    accepted = session.client.applications(GetApplicationsRequest(states=(YarnApplicationState.ACCEPTED,)))
    later = [one for one in accepted if one.postponed and filters.takes_job(one)]
    for one in later[:_NAMED_JOBS]:
        why = waits_for(one.begin_at_ms, one.after, session.now_ms)
        session.printer.note(f"{one.application_id} ({one.name}) has not begun: it {why}")
    if (more := len(later) - _NAMED_JOBS) > 0:
        session.printer.note(f"{more} more have not begun: `yopp app list` shows what they wait for")


@command("container status", "yopp container status last", "yopp container status 3.2 --json", yarn=True)
def status(session: Session, ids: ContainerIds) -> None:
    """Show everything that is known about a container, its execution type first."""
    cluster = session.cluster
    show_details(session, [cluster.container(one) for one in containers(cluster, ids)])
