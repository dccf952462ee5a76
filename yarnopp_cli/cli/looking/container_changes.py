"""``yopp container pause|resume|promote|demote|resize``: each returns when it has happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.causes import CauseKind, of_kind
from executor.records import ContainerState, ExecutionType, Resource

from ...errors import EXIT_FAILURE, InvalidStateError, UsageError
from ...records.client_protocol import GetContainersRequest
from ...records.reports import ContainerReport
from ...records.requests import ContainerUpdateType, UpdateContainerRequest
from ...views import containers as view
from ...views.containers import is_live
from ...views.text import vcores as vcores_of
from ..frame.command import command
from ..frame.naming import containers, words
from ..frame.options import IDS, ContainerIds, DryRun, Live, NoWait, Timeout, size_mb
from ..frame.session import Session
from .container_details import await_containers, live, show_details

if TYPE_CHECKING:
    from ...client.local import LocalClient

CHANGE_SECONDS = 20.0
PausableIds = Annotated[list[str], IDS, Live(("container",), lambda one: one.state is ContainerState.RUNNING)]
PausedIds = Annotated[
    list[str],
    IDS,
    Live(("container",), lambda one: one.state in (ContainerState.PAUSING, ContainerState.PAUSED)),
]
OpportunisticIds = Annotated[
    list[str], IDS, Live(("container",), lambda one: one.execution_type is ExecutionType.OPPORTUNISTIC)
]
GuaranteedIds = Annotated[
    list[str],
    IDS,
    Live(("container",), lambda one: one.execution_type is ExecutionType.GUARANTEED and not one.is_am),
]


@command(
    "container pause",
    "yopp container pause 3.2",
    "yopp container list -q | yopp container pause -",
    asks=True,
)
def pause(
    session: Session,
    ids: PausableIds,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Make every process of a container stand still until `resume`; it gives its vcores back meanwhile.

    The time that it is paused does not count against its time limit. Whatever started a job still counts the
    job's own time limit.
    """
    client, given = session.client, words(ids)
    named = containers(client, given, every=lambda one: one.state is ContainerState.RUNNING)
    if dry_run:
        _foretell_pause(session, named)
        return 0
    if not session.agreed(given, named, "Pause"):
        return EXIT_FAILURE
    for report in [live(client.container(one)) for one in named]:
        client.pause_container(report)
    _tell(session, _finish(client, named, no_wait, timeout, _is_paused, "pause"))
    return 0


@command("container resume", "yopp container resume 3.2", "yopp container resume last", asks=True)
def resume(
    session: Session,
    ids: PausedIds,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Let a container that `pause` stopped go on, as soon as its node has room for it."""
    from .container_effects import why_it_waits

    client, given = session.client, words(ids)
    named = containers(client, given, every=lambda one: one.state is ContainerState.PAUSED)
    if not session.agreed(given, named, "Resume"):
        return EXIT_FAILURE
    for report in [live(client.container(one)) for one in named]:
        client.resume_container(report)
    why = partial(why_it_waits, client)
    _tell(session, _finish(client, named, no_wait, timeout, _goes_on, "go on", why))
    return 0


@command(
    "container promote",
    "yopp container promote 3.2 --dry-run",
    "yopp container promote last --json",
    asks=True,
)
def promote(
    session: Session,
    ids: OpportunisticIds,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Make an opportunistic container guaranteed, as soon as its node can promise it its resources.

    From then on nobody preempts it. One that waits in a queue or is paused starts or goes on before all
    opportunistic ones.
    """
    return _change_type(session, ids, ExecutionType.GUARANTEED, no_wait, timeout, dry_run)


@command("container demote", "yopp container demote 3.2", "yopp container demote last", asks=True)
def demote(
    session: Session,
    ids: GuaranteedIds,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Make a guaranteed container opportunistic: it goes on, and gives way where guaranteed ones need room."""
    return _change_type(session, ids, ExecutionType.OPPORTUNISTIC, no_wait, timeout, dry_run)


@command(
    "container resize",
    "yopp container resize --memory 2G 3.2",
    "yopp container resize --vcores 2 last",
    asks=True,
)
def resize(
    session: Session,
    ids: ContainerIds,
    memory: Annotated[
        int | None,
        typer.Option("--memory", metavar="SIZE", parser=size_mb, help="Its new memory: 512, 512M, 2G."),
    ] = None,
    vcores: Annotated[int | None, typer.Option("--vcores", metavar="V", help="Its new vcores.")] = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Give a container more or less memory or vcores while it runs; its limits change with them."""
    if memory is None and vcores is None:
        raise UsageError(
            "no new size was given",
            because="a resize needs memory, vcores or both",
            hint="--memory 2G, --vcores 2, or both",
        )
    client, given = session.client, words(ids)
    named = containers(client, given, every=is_live)
    if not session.agreed(given, named, "Resize"):
        return EXIT_FAILURE
    for report in [live(_at_the_rm(client, one)) for one in named]:
        has = report.resource
        wanted = Resource(has.memory if memory is None else memory, has.vcores if vcores is None else vcores)
        # Less of one and more of the other are two updates: what gives back is first.
        smaller = Resource(min(wanted.memory, has.memory), min(wanted.vcores, has.vcores))
        if wanted == has:
            session.printer.note(f"{report.container_id} has {wanted} already")
        if smaller != has:
            decrease = ContainerUpdateType.DECREASE_RESOURCE
            _update(session, report.container_id, decrease, no_wait, timeout, size=smaller)
        if wanted != smaller:
            increase = ContainerUpdateType.INCREASE_RESOURCE
            _update(session, report.container_id, increase, no_wait, timeout, size=wanted)
    _tell(session, [client.container(one) for one in named], _size_text)
    return 0


def _size_text(report: ContainerReport) -> str:
    return f"{report.resource.memory} MB, {vcores_of(report.resource.vcores)}"


def _change_type(
    session: Session,
    ids: Sequence[str],
    target: ExecutionType,
    no_wait: bool,
    timeout: float | None,
    dry_run: bool,
) -> int:
    from .container_effects import Aftermath, aftermath, foretell, picture_of

    client, printer, given = session.client, session.printer, words(ids)
    guaranteed = target is ExecutionType.GUARANTEED
    verb = "promote" if guaranteed else "demote"
    kind = (
        ContainerUpdateType.PROMOTE_EXECUTION_TYPE
        if guaranteed
        else ContainerUpdateType.DEMOTE_EXECUTION_TYPE
    )
    named = containers(client, given, every=lambda one: one.execution_type is not target)
    if not session.agreed(given, named, verb.capitalize(), dry_run=dry_run):
        return EXIT_FAILURE
    to_change = []
    for report in [live(_at_the_rm(client, one)) for one in named]:
        if report.execution_type is target:
            printer.note(f"{report.container_id} is {target.value} already")
        else:
            to_change.append(report.container_id)
    before = picture_of(client) if to_change else None
    if dry_run:
        if before is not None:
            foretell(printer, verb, [_of_no_master(client.container(one)) for one in to_change], before)
        return 0
    for one in to_change:
        _update(session, one, kind, no_wait, timeout, target=target)
    found = Aftermath()
    if guaranteed and before is not None:
        found = aftermath(client, before.containers, to_change, wait=not no_wait)
        found.say(printer)
    after = [client.container(one) for one in named]
    _tell(session, after, lambda one: one.execution_type.value, found.of if guaranteed else None)
    return 0


def _of_no_master(report: ContainerReport) -> ContainerReport:
    if report.is_am:
        raise InvalidStateError(
            f"{report.container_id} cannot be updated",
            because="it is its application's master",
            hint=f"`yopp app kill {report.application_id}` ends it with its application",
        )
    return report


def _foretell_pause(session: Session, named: Sequence[str]) -> None:
    """What pausing them would do. Raises InvalidStateError where nothing of one runs."""
    from .container_effects import foretell, picture_of

    client = session.client
    reports = [live(client.container(one)) for one in named]
    for one in reports:
        if one.state is not ContainerState.RUNNING:
            raise InvalidStateError(
                f"{one.container_id} would not be paused",
                because=f"it is {view.shown_state(one)}",
                hint=f"`yopp explain {one.container_id}` says what it does",
            )
    foretell(session.printer, "pause", reports, picture_of(client))


def _update(
    session: Session,
    container_id: str,
    kind: ContainerUpdateType,
    no_wait: bool,
    timeout: float | None,
    *,
    size: Resource | None = None,
    target: ExecutionType | None = None,
) -> None:
    """Ask the RM for one update and wait until the container's node has made it."""
    client = session.client
    response = client.update_container(UpdateContainerRequest(container_id, -1, kind, size, target))

    def has_happened(report: ContainerReport) -> bool:
        _still_alive(report)
        refusal = report.refusal
        refused = of_kind(refusal, CauseKind.UPDATE_REFUSED) and response.version <= refusal.version
        if refused and report.version < response.version:
            raise InvalidStateError(
                f"{container_id} is not updated",
                because=_last_line(report),
                hint=f"`yopp explain {container_id}` says what it has and its node",
            )
        return report.version >= response.version

    what = "get room on its node for that" if response.pending else "change"
    if response.pending:
        from .container_effects import promise_text

        session.printer.note(f"{container_id}: {promise_text(client, response.container)}")
    _finish(client, [container_id], no_wait, timeout, has_happened, what)


def _at_the_rm(client: LocalClient, container_id: str) -> ContainerReport:
    """A container as the RM counts it, which may be ahead of its node."""
    request = GetContainersRequest(container_ids=(container_id,), finished=True)
    return next(iter(client.container_reports(request)))


def _still_alive(report: ContainerReport) -> None:
    if not view.is_live(report):
        raise InvalidStateError(
            f"{report.container_id} has ended meanwhile",
            because=report.diagnostics.strip(),
            hint=f"`yopp container status {report.container_id}` shows how",
        )


def _is_paused(report: ContainerReport) -> bool:
    _still_alive(report)
    if report.state is ContainerState.RUNNING and of_kind(report.refusal, CauseKind.PAUSE_FAILED):
        raise InvalidStateError(
            f"{report.container_id} still runs",
            because=_last_line(report),
            hint=f"`yopp container status {report.container_id}` shows it as it is now",
        )
    return report.state is ContainerState.PAUSED


def _goes_on(report: ContainerReport) -> bool:
    return report.state not in (ContainerState.PAUSING, ContainerState.PAUSED, ContainerState.RESUMING)


def _last_line(report: ContainerReport) -> str:
    return report.diagnostics.strip().rpartition("\n")[2]


def _finish(
    client: LocalClient,
    named: Sequence[str],
    no_wait: bool,
    timeout: float | None,
    condition: Callable[[ContainerReport], bool],
    what: str,
    why: Callable[[str], str] | None = None,
) -> list[ContainerReport]:
    if no_wait:
        return [client.container(one) for one in named]
    bound = CHANGE_SECONDS if timeout is None else timeout
    return await_containers(client, named, condition, bound, what, why)


def _tell(
    session: Session,
    after: Sequence[ContainerReport],
    text: Callable[[ContainerReport], str] = view.shown_state,
    besides: Callable[[ContainerReport], dict[str, Any]] | None = None,
) -> None:
    """How they are now; ``besides`` is what their documents say beyond that, under ``yopp``."""
    if not session.printer.for_people:
        show_details(session, after, besides)
        return
    for report in after:
        session.printer.text(f"{report.container_id} {text(report)}")
