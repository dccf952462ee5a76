"""``yopp container list|status|kill|signal``, and ``yopp ps``. Its other commands are in ``container_changes``."""

from __future__ import annotations

import os
import signal as signals
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.records import ExecutionType
from executor.settings import ExecutorSettings

from ...errors import (
    EXIT_FAILURE,
    EXIT_TIMEOUT,
    ConnectionFailedError,
    InvalidStateError,
    UsageError,
    YoppError,
)
from ...records.client_protocol import GetContainersRequest
from ...records.reports import ContainerReport, NodeReport
from ...views import containers as view
from ...views.text import span
from ..frame.context import Context
from ..frame.filters import (
    NameFilter,
    NodeFilter,
    QueueFilter,
    TagFilter,
    UserFilter,
    applications_with,
    node_id,
)
from ..frame.listing import Choice, Documents, chosen, empty_text, repeat, show, words_of
from ..frame.naming import agreed, application, containers, of_application, words
from ..frame.options import (
    Color,
    Columns,
    Conf,
    Define,
    DryRun,
    Ids,
    Json,
    Newest,
    NoWait,
    Output,
    Quiet,
    RunDirOption,
    Sort,
    Timeout,
    Verbose,
    Watch,
    Yes,
    examples,
    new_typer,
)
from ..frame.output import Printer
from . import container_changes
from .application import now_ms

if TYPE_CHECKING:
    from ...client.local import YarnClient

STATES = (
    "ALL",
    "ALLOCATED",
    "QUEUED",
    "SCHEDULED",
    "LAUNCHING",
    "RUNNING",
    "PAUSING",
    "PAUSED",
    "RESUMING",
    "KILLING",
    "DONE",
    "KILLED",
)
_ENDED = {"DONE", "KILLED", "ALL"}
KILL_SECONDS = 20.0
_STRICT = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
_ENFORCED = "yarn.nodemanager.resource.memory.enforced"
_PIDS = "yopp.nodemanager.container.pids-max"


def register(app: typer.Typer) -> None:
    """Add the group ``container``."""
    group = new_typer(
        help="List, show, kill, signal, pause, promote and resize containers.",
        no_args_is_help=True,
        epilog=examples("yopp container list -a", "yopp container status last"),
    )
    group.command(
        "list", epilog=examples("yopp container list --app last", "yopp container list --state QUEUED -q")
    )(list_containers)
    group.command(
        "status", epilog=examples("yopp container status last", "yopp container status 3.2 --json")
    )(status)
    group.command(
        "kill", epilog=examples("yopp container kill 3.2", "yopp container list -q | yopp container kill -")
    )(kill)
    group.command(
        "signal", epilog=examples("yopp container signal --signal USR1 3.2", "yopp container signal last")
    )(signal)
    container_changes.add_to(group)
    app.add_typer(group, name="container")


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


def list_containers(
    every: Annotated[bool, typer.Option("-a", "--all", help="Ended containers too.")] = False,
    state: Annotated[str | None, typer.Option("--state", metavar="S,…", help="Only in these states.")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="O|G", help="Only opportunistic or guaranteed ones.")
    ] = None,
    app: Annotated[
        str | None, typer.Option("--app", metavar="ID", help="Only of this application (or attempt).")
    ] = None,
    node: NodeFilter = None,
    user: UserFilter = "",
    queue: QueueFilter = "",
    name: NameFilter = "",
    tag: TagFilter = None,
    sort: Sort = None,
    columns: Columns = None,
    limit: Newest = None,
    watch: Watch = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """List the containers that run, queue or are paused, in order of allocation."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    choice = chosen(printer, view.columns(0), columns=columns, sort=sort, limit=limit)
    states = words_of(state, STATES, "--state")
    wanted_type = execution_type(kind)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        filters = Filters(
            every,
            states,
            wanted_type,
            _application(client, app) if app else "",
            node_id(client, node),
            user,
        )

        def once() -> None:
            of = applications_with(client, queue=queue, name=name, tag=tag)
            _show(printer, client, replace(filters, applications=of), choice)

        repeat(printer, watch, once)


def _application(client: YarnClient, word: str) -> str:
    if word.startswith("appattempt_"):
        return word
    return application([report.application_id for report in client.applications()], word)


def _show(printer: Printer, client: YarnClient, filters: Filters, choice: Choice) -> None:
    all_nodes = client.nodes()
    request = GetContainersRequest(
        application_id=filters.application if filters.application.startswith("application_") else "",
        node_id=filters.node,
        finished=filters.ended_too,
    )
    found = [report for report in client.containers(request, nodes=all_nodes) if filters.pass_(report)]
    if choice.limit is not None and not choice.sort:
        found = found[max(0, len(found) - choice.limit) :]
    facts = node_facts(client, all_nodes, found) if printer.is_json else {}
    now = now_ms()
    show(
        printer,
        found,
        view.columns(now),
        Documents(
            lambda reports: view.documents(reports, now, facts),
            lambda report: view.document(report, now, facts.get(report.node_id)),
        ),
        choice,
        identity=lambda report: report.container_id,
        empty=empty_text("containers", choice, narrowed=filters.narrow, live_only=not filters.ended_too),
    )


def node_facts(
    client: YarnClient, all_nodes: Sequence[NodeReport], reports: Sequence[ContainerReport]
) -> dict[str, view.NodeFacts]:
    """How each node of these containers limits them; nodes that do not answer are left out."""
    wanted = {report.node_id for report in reports}
    settings = _executor_settings(client.cluster_info().properties) if wanted else ExecutorSettings()
    facts = {}
    for node in all_nodes:
        if node.node_id not in wanted:
            continue
        try:
            info = client.node_info(node)
        except ConnectionFailedError:
            continue
        cores = len(os.sched_getaffinity(0))
        facts[node.node_id] = view.NodeFacts(info.cgroups, info.total, cores, settings)
    return facts


def _executor_settings(properties: dict[str, str]) -> ExecutorSettings:
    """Those settings that decide about limits, from what the cluster says it was started with."""
    defaults = ExecutorSettings()
    pids = properties.get(_PIDS, "")
    return ExecutorSettings(
        strict_resource_usage=properties.get(_STRICT, str(defaults.strict_resource_usage)).lower() == "true",
        memory_enforced=properties.get(_ENFORCED, str(defaults.memory_enforced)).lower() == "true",
        pids_max=int(pids) if pids.isdecimal() else defaults.pids_max,
    )


def status(
    ids: Ids,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> None:
    """Show everything that is known of a container: its execution type first."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        found = [client.container(one) for one in containers(client, ids)]
        show_details(client, printer, found)


def show_details(
    client: YarnClient,
    printer: Printer,
    found: list[ContainerReport],
    besides: Callable[[ContainerReport], dict[str, Any]] | None = None,
) -> None:
    """Print everything about these containers in the form chosen, with what their nodes hold them to; ``besides`` goes
    under ``yopp`` in documents.
    """
    facts = node_facts(client, client.nodes(), found) if printer.is_json or printer.for_people else {}
    now = now_ms()

    def document(one: ContainerReport) -> dict[str, Any]:
        made = view.document(one, now, facts.get(one.node_id))
        if besides is not None:
            made["yopp"].update(besides(one))
        return made

    printer.details(
        found,
        key="container",
        document=document,
        fields=lambda one: view.fields(one, now, facts.get(one.node_id)),
        columns=view.columns(now),
        identity=lambda one: one.container_id,
    )


def kill(
    ids: Ids,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    yes: Yes = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """End containers (TERM, then KILL); return when that has happened. `all` means every live one."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    bound = KILL_SECONDS if timeout is None else timeout
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        given = words(ids)
        named = containers(client, given)
        if not agreed(printer, given, named, "Kill", yes=yes or dry_run, what="live container"):
            return 1
        before = {one: client.container(one) for one in named}
        if dry_run:
            _say_what_would_end(client, printer, list(before.values()))
            return 0
        for report in before.values():
            if view.is_live(report):
                _stop(client, report)
        if not no_wait:
            await_containers(client, named, lambda one: not view.is_live(one), bound, "end")
        after = [client.container(one) for one in named]
        if not printer.for_people:
            show_details(client, printer, after)
            return 0
    for report in after:
        if view.is_live(before[report.container_id]):
            printer.text(f"{report.container_id} {view.shown_state(report)}")
        else:
            printer.note(f"{report.container_id} had already ended")
    return 0


def _say_what_would_end(client: YarnClient, printer: Printer, reports: list[ContainerReport]) -> None:
    would = [report for report in reports if view.is_live(report)]
    if not printer.for_people:
        show_details(client, printer, would)
        return
    for report in would:
        told = f"{report.execution_type.value}, {view.shown_state(report)} for {span(view.time_ms(report, now_ms()))}"
        printer.text(f"{report.container_id} would be killed: {told}")
    printer.note(f"{len(would)} of {len(reports)} live; nothing was changed")


def _stop(client: YarnClient, report: ContainerReport) -> None:
    """Ask its node to end a container. Raises InvalidStateError for one that its node does not have yet."""
    response = client.stop_container(report, "Container killed by a person.")
    for failed in response.failed:
        raise InvalidStateError(
            f"{report.container_id} could not be killed",
            because=failed.message,
            hint=f"yopp app kill {report.application_id}",
        )


def await_containers(
    client: YarnClient,
    named: Sequence[str],
    condition: Callable[[ContainerReport], bool],
    bound: float,
    what: str,
    why: Callable[[str], str] | None = None,
) -> list[ContainerReport]:
    """Ask again and again, ever more slowly, until ``condition`` holds for all. YoppError (exit 124) in the
    end, with what ``why`` says of the first for which it does not.
    """
    deadline = time.monotonic() + bound
    pause = 0.01
    while True:
        reports = [client.container(one) for one in named]
        waiting = [one.container_id for one in reports if not condition(one)]
        if not waiting:
            return reports
        if time.monotonic() >= deadline:
            raise YoppError(
                f"{', '.join(waiting)} did not {what} within {bound:g} s",
                because=why(waiting[0]) if why is not None else "the time that was given to it has passed",
                hint="look at it with `yopp container status`; --timeout waits longer",
                exit_code=EXIT_TIMEOUT,
            )
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 0.25)


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


def signal(
    ids: Ids,
    name: Annotated[
        str, typer.Option("-s", "--signal", metavar="NAME|NUMBER", help="Which signal.")
    ] = "TERM",
    yes: Yes = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Send a signal to every process of a container."""
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    number = signal_number(name)
    with Context.looking(conf=conf, define=define, run_dir=run_dir).client(printer) as client:
        given = words(ids)
        named = containers(client, given, every=lambda one: one.started_at_ms > 0)
        if not agreed(printer, given, named, f"Send {signals.Signals(number).name} to", yes=yes):
            return EXIT_FAILURE
        reports = [client.container(one) for one in named]
        for report in reports:
            if not view.is_live(report):
                raise InvalidStateError(
                    f"{report.container_id} has ended",
                    because=view.exit_text(report),
                    hint="`yopp ps` shows what lives",
                )
        for report in reports:
            client.signal_container(report, number)
        after = [client.container(one) for one in named]
        if not printer.for_people:
            show_details(client, printer, after)
            return 0
    for report in after:
        printer.text(f"{report.container_id} was sent {signals.Signals(number).name}")
    return 0
