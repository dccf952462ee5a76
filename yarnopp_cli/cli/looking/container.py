"""``yopp container list|status|kill|signal``, and ``yopp ps``. Its other commands are in ``container_changes``."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from executor.records import ExecutionType

from ...errors import EXIT_FAILURE, InvalidStateError, UsageError
from ...records.client_protocol import GetContainersRequest
from ...records.ids import ApplicationAttemptId
from ...records.reports import ContainerReport
from ...views import containers as view
from ...views.containers import CONTAINERS
from ...views.text import span
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
from ..frame.listing import empty_text
from ..frame.naming import application, containers, of_application, words
from ..frame.options import ContainerIds, DryRun, NoWait, OfApplication, Timeout, Words
from ..frame.session import Session
from .container_details import await_containers, live, show_details

if TYPE_CHECKING:
    from ...client.local import LocalClient
    from ...client.protocol import Client

_ENDED = {"DONE", "KILLED", "ALL"}
KILL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Filters:
    """Which containers a list shows."""

    every: bool = False
    states: tuple[str, ...] = ()
    kind: ExecutionType | None = None
    application: str = ""
    node: str = ""
    user: str = ""
    applications: frozenset[str] | None = None

    @property
    def ended_too(self) -> bool:
        """Whether containers that have ended are wanted."""
        return self.every or bool(_ENDED & set(self.states))

    @property
    def narrow(self) -> bool:
        """Whether it leaves out more than what has ended."""
        return bool(
            self.states
            or self.kind
            or self.application
            or self.node
            or self.user
            or self.applications is not None
        )

    def pass_(self, report: ContainerReport) -> bool:
        """Whether this one is wanted."""
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

    def _shown_states(self) -> set[str]:
        """SCHEDULED is YARN's word for QUEUED; DONE means all that have ended, killed or not."""
        wanted = set(self.states)
        return (
            wanted
            | ({"QUEUED"} if "SCHEDULED" in wanted else set())
            | ({"KILLED"} if "DONE" in wanted else set())
        )


def execution_type(text: str | None) -> ExecutionType | None:
    """GUARANTEED or OPPORTUNISTIC, or their beginnings, whatever their case. Raises UsageError."""
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
    every: Annotated[bool, typer.Option("-a", "--all", help="Ended containers too.")] = False,
    kind: Annotated[
        str | None,
        typer.Option("--type", metavar="O|G", help="Only opportunistic or guaranteed ones."),
        Words(lambda: [one.value for one in ExecutionType]),
    ] = None,
    app: OfApplication = None,
    node: NodeFilter = None,
    user: UserFilter = "",
    queue: QueueFilter = "",
    name: NameFilter = "",
    tag: TagFilter = None,
) -> None:
    """List the containers that run, queue or are paused, in order of allocation."""
    wanted_type = execution_type(kind)
    cluster = session.cluster
    app_id = _application(cluster, app) if app else ""
    filters = Filters(every, session.states, wanted_type, app_id, node_id(cluster, node), user)

    def once() -> None:
        of = applications_with(cluster, queue=queue, name=name, tag=tag)
        _show(session, replace(filters, applications=of))

    session.repeat(once)


def _application(cluster: Client, word: str) -> str:
    """The full id of the application that a word means; an attempt's is as it is."""
    if word.startswith("appattempt_"):
        return word
    return application([report.application_id for report in cluster.applications()], word)


def _show(session: Session, filters: Filters) -> None:
    cluster, choice = session.cluster, session.choice
    all_nodes = cluster.nodes()
    app = filters.application
    if app.startswith("appattempt_"):
        app = str(ApplicationAttemptId.parse(app).application_id)
    request = GetContainersRequest(app, filters.node, finished=filters.ended_too)
    told = cluster.containers(request, nodes=all_nodes)
    found = [report for report in told if filters.pass_(report)]
    if choice.limit is not None and not choice.sort:
        found = found[max(0, len(found) - choice.limit) :]
    facts: Mapping[str, view.NodeFacts] = {}
    if session.yarn is None and session.printer.is_json:
        facts = session.client.node_facts(all_nodes, found)
    session.show(
        CONTAINERS,
        found,
        document=lambda report: view.document(report, session.now_ms, facts.get(report.node_id)),
        empty=empty_text("containers", choice, narrowed=filters.narrow, live_only=not filters.ended_too),
    )


@command("container status", "yopp container status last", "yopp container status 3.2 --json", yarn=True)
def status(session: Session, ids: ContainerIds) -> None:
    """Show everything that is known of a container: its execution type first."""
    cluster = session.cluster
    show_details(session, [cluster.container(one) for one in containers(cluster, ids)])


@command(
    "container kill", "yopp container kill 3.2", "yopp container list -q | yopp container kill -", asks=True
)
def kill(
    session: Session,
    ids: ContainerIds,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """End containers (TERM, then KILL); return when that has happened. `all` means every live one."""
    client, printer, given = session.client, session.printer, words(ids)
    named = containers(client, given)
    if not session.agreed(given, named, "Kill", what="live container", dry_run=dry_run):
        return EXIT_FAILURE
    before = {one: client.container(one) for one in named}
    if dry_run:
        _say_what_would_end(session, list(before.values()))
        return 0
    for report in before.values():
        if view.is_live(report):
            _stop(client, report)
    if not no_wait:
        bound = KILL_SECONDS if timeout is None else timeout
        await_containers(client, named, lambda one: not view.is_live(one), bound, "end")
    after = [client.container(one) for one in named]
    if not printer.for_people:
        show_details(session, after)
        return 0
    for report in after:
        if view.is_live(before[report.container_id]):
            printer.text(f"{report.container_id} {view.shown_state(report)}")
        else:
            printer.note(f"{report.container_id} had already ended")
    return 0


def _say_what_would_end(session: Session, reports: list[ContainerReport]) -> None:
    would = [report for report in reports if view.is_live(report)]
    if not session.printer.for_people:
        show_details(session, would)
        return
    for report in would:
        time = span(view.time_ms(report, session.now_ms))
        told = f"{report.execution_type.value}, {view.shown_state(report)} for {time}"
        session.printer.text(f"{report.container_id} would be killed: {told}")
    session.printer.note(f"{len(would)} of {len(reports)} live; nothing was changed")


def _stop(client: LocalClient, report: ContainerReport) -> None:
    """Ask its node to end a container. Raises InvalidStateError for one that its node does not have yet."""
    response = client.stop_container(report, "Container killed by a person.")
    for failed in response.failed:
        raise InvalidStateError(
            f"{report.container_id} could not be killed",
            because=failed.message,
            hint=f"yopp app kill {report.application_id}",
        )


def signal_number(text: str) -> int:
    """A signal's number from ``TERM``, ``SIGTERM`` or ``15``. Raises UsageError."""
    try:
        if text.isdecimal():
            return int(signals.Signals(int(text)))
        name = text.upper()
        return int(signals.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except (KeyError, ValueError):
        raise UsageError(
            f"--signal has no {text}",
            because="Linux has no signal of that name or number",
            hint="a name such as TERM, USR1, STOP, or a number",
        ) from None


@command(
    "container signal", "yopp container signal --signal USR1 3.2", "yopp container signal last",
    asks=True, yarn=True,
)  # fmt: skip
def signal(
    session: Session,
    ids: ContainerIds,
    name: Annotated[
        str, typer.Option("-s", "--signal", metavar="NAME|NUMBER", help="Which signal.")
    ] = "TERM",
) -> int:
    """Send a signal to every process of a container."""
    number = signal_number(name)
    cluster, given = session.cluster, words(ids)
    told = cluster.signal_name(number)
    named = containers(cluster, given, every=lambda one: one.started_at_ms > 0)
    if not session.agreed(given, named, f"Send {signals.Signals(number).name} to"):
        return EXIT_FAILURE
    for report in [live(cluster.container(one)) for one in named]:
        cluster.signal_container(report, number)
    if not session.printer.for_people:
        show_details(session, [cluster.container(one) for one in named])
        return 0
    for one in named:
        session.printer.text(f"{one} was sent {told}")
    return 0
