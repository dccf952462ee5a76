"""``yopp container kill|signal|pause|resume|promote|demote|resize``: each returns when the change has been made."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable, Sequence
from functools import partial

from executor.causes import CauseKind, of_kind
from executor.hints import TYPE_CHECKING
from executor.records import ContainerState, ExecutionType

from ...errors import InvalidStateError, UsageError
from ...records.client_protocol import GetContainersRequest
from ...records.reports import ContainerReport
from ...records.requests import ContainerUpdateType, UpdateContainerRequest
from ...views import containers as view
from ...views.containers import CONTAINERS, is_live
from ...views.text import last_line, size_text, span
from ..frame.actions import agree, awaited, foretell_kill
from ..frame.command import command
from ..frame.naming import containers, words
from ..frame.options import CONTAINER_IDS, Annotated, ContainerIds, Live, option
from ..frame.session import Session
from .container_details import live, tell_containers
from .sizes import NewSize

if TYPE_CHECKING:
    from ...client.local import LocalClient

CHANGE_SECONDS = 20.0


def _runs(one: ContainerReport) -> bool:
    return one.state is ContainerState.RUNNING


def _is_paused(one: ContainerReport) -> bool:
    return one.state in (ContainerState.PAUSING, ContainerState.PAUSED)


def _is_opportunistic(one: ContainerReport) -> bool:
    return one.execution_type is ExecutionType.OPPORTUNISTIC


def _is_guaranteed(one: ContainerReport) -> bool:
    return one.execution_type is ExecutionType.GUARANTEED and not one.is_am


_TYPES = {
    "promote": (ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ExecutionType.GUARANTEED, _is_opportunistic),
    "demote": (ContainerUpdateType.DEMOTE_EXECUTION_TYPE, ExecutionType.OPPORTUNISTIC, _is_guaranteed),
}
PausableIds = Annotated[list[str], CONTAINER_IDS, Live(("container",), _runs)]
PausedIds = Annotated[list[str], CONTAINER_IDS, Live(("container",), _is_paused)]
OpportunisticIds = Annotated[list[str], CONTAINER_IDS, Live(("container",), _is_opportunistic)]
GuaranteedIds = Annotated[list[str], CONTAINER_IDS, Live(("container",), _is_guaranteed)]


def _agreed(
    session: Session,
    ids: Sequence[str],
    verb: str,
    every: Callable[[ContainerReport], bool] | None,
    *,
    what: str = "container",
) -> list[str]:
    """The named containers, after a confirmation if necessary. ``every`` selects the containers of ``all``."""
    given = words(ids)
    named = containers(session.cluster, given, every=every)
    agree(session, given, named, verb, what=what)
    return named


def _awaited(
    session: Session,
    named: Sequence[str],
    done: Callable[[ContainerReport], bool],
    what: str,
    because: Callable[[str], str] = lambda _: "its time has expired",
) -> Sequence[ContainerReport]:
    """The containers when they are in the requested state; with ``no_wait`` as they are now."""

    def look(left: float = 0) -> list[ContainerReport]:
        return [session.client.container(one) for one in named]

    if session.no_wait:
        return look()
    seconds = CHANGE_SECONDS if session.timeout is None else session.timeout
    return awaited(CONTAINERS, look, done, what, seconds, because=because)


@command(
    "container kill",
    "yopp container kill 3.2",
    "yopp container list -q | yopp container kill -",
    changes=True,
)
def kill(session: Session, ids: ContainerIds) -> None:
    """Kill containers (TERM, then KILL), and wait until they have ended. `all` means every live one."""
    client = session.client
    named = _agreed(session, ids, "Kill", None, what="live container")
    before = [client.container(one) for one in named]
    alive = [one for one in before if is_live(one)]
    if session.dry_run:
        foretell_kill(
            session,
            named,
            alive,
            partial(_present_state, now_ms=session.now_ms),
            partial(tell_containers, session),
        )
        return
    for report in alive:
        for failed in client.stop_container(report, "Container killed by the user.").failed:
            raise InvalidStateError(
                f"{report.container_id} could not be killed",
                because=failed.message,
                hint=f"yopp app kill {report.application_id}",
            )
    after = _awaited(session, named, lambda one: not is_live(one), "end")
    ended = {one.container_id for one in before if not is_live(one)}
    tell_containers(
        session,
        after,
        lambda one: "had already ended" if one.container_id in ended else view.shown_state(one),
        before=lambda one: one.container_id in ended,
    )


def _present_state(report: ContainerReport, now_ms: int) -> str:
    time = span(view.time_ms(report, now_ms))
    return f"{report.execution_type.value}, {view.shown_state(report)} for {time}"


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


def _refuse_signals(ids: Sequence[str]) -> None:
    """Raise UsageError for the name of a signal that is given as the id of a container."""
    for word in ids:
        if not word.isdecimal():
            try:
                signal_number(word)
            except UsageError:
                continue
            raise UsageError(
                f"{word} is a signal, not a container",
                because="all arguments of this command are ids of containers",
                hint=f"yopp container signal --signal {word} {next((one for one in ids if one != word), 'ID')}",
            )


@command(
    "container signal", "yopp container signal --signal USR1 3.2", "yopp container signal last",
    asks=True, yarn=True,
)  # fmt: skip
def signal(
    session: Session,
    ids: ContainerIds,
    name: Annotated[str, option("-s, --signal NAME|NUMBER", "The signal to send.")] = "TERM",
) -> None:
    """Send a signal to every process of a container."""
    number = signal_number(name)
    _refuse_signals(ids)
    cluster = session.cluster
    told = cluster.signal_name(number)
    verb = f"Send {signals.Signals(number).name} to"
    named = _agreed(session, ids, verb, lambda one: one.started_at_ms > 0)
    for report in [live(cluster.container(one)) for one in named]:
        cluster.signal_container(report, number)
    tell_containers(session, [cluster.container(one) for one in named], lambda _: f"was sent {told}")


@command(
    "container pause",
    "yopp container pause 3.2",
    "yopp container list -q | yopp container pause -",
    changes=True,
)
def pause(session: Session, ids: PausableIds) -> None:
    """Stop every process of a container until `resume`; meanwhile, others can use its vcores.

    Paused time does not count against the container's time limit, but it does count against the job's.
    """
    client = session.client
    named = _agreed(session, ids, "Pause", _runs)
    reports = [live(client.container(one)) for one in named]
    if session.dry_run:
        _foretell_pause(session, reports)
        return
    for report in reports:
        client.pause_container(report)
    tell_containers(session, _awaited(session, named, _has_paused, "pause"))


def _foretell_pause(session: Session, reports: Sequence[ContainerReport]) -> None:
    """Show the effects of pausing these containers. Raises InvalidStateError for one without a running process."""
    from .container_effects import foretell

    for one in reports:
        if not _runs(one):
            raise InvalidStateError(
                f"{one.container_id} would not be paused",
                because=f"it is {view.shown_state(one)}",
                hint=f"`yopp explain {one.container_id}` shows why",
            )
    foretell(session.printer, session.client, "pause", reports)


def _has_paused(report: ContainerReport) -> bool:
    _still_alive(report)
    if _runs(report) and of_kind(report.refusal, CauseKind.PAUSE_FAILED):
        raise InvalidStateError(
            f"{report.container_id} still runs",
            because=last_line(report.diagnostics),
            hint=f"`yopp container status {report.container_id}` shows its present state",
        )
    return report.state is ContainerState.PAUSED


@command("container resume", "yopp container resume 3.2", "yopp container resume last", asks=True, waits=True)
def resume(session: Session, ids: PausedIds) -> None:
    """Resume a paused container when its node has room for it."""
    from .container_effects import why_it_waits

    client = session.client
    named = _agreed(session, ids, "Resume", _is_paused)
    for report in [live(client.container(one)) for one in named]:
        client.resume_container(report)
    waiting = (ContainerState.PAUSING, ContainerState.PAUSED, ContainerState.RESUMING)
    after = _awaited(
        session,
        named,
        lambda one: one.state not in waiting,
        "go on",
        lambda one: why_it_waits(client, one),
    )
    tell_containers(session, after)


@command(
    "container promote",
    "yopp container promote 3.2 --dry-run",
    "yopp container promote last --json",
    changes=True,
)
def promote(session: Session, ids: OpportunisticIds) -> None:
    """Make an opportunistic container guaranteed when its node can guarantee its resources.

    From then on it is not preempted. If it is queued or paused, it starts or resumes before all opportunistic
    ones.
    """
    _change_type(session, ids, "promote")


@command("container demote", "yopp container demote 3.2", "yopp container demote last", changes=True)
def demote(session: Session, ids: GuaranteedIds) -> None:
    """Make a guaranteed container opportunistic: it keeps running, but can be preempted for guaranteed ones."""
    _change_type(session, ids, "demote")


def _change_type(session: Session, ids: Sequence[str], verb: str) -> None:
    from .container_effects import Aftermath, aftermath, foretell

    client = session.client
    kind, target, every = _TYPES[verb]
    named = _agreed(session, ids, verb.capitalize(), every)
    to_change = _of_other_type(session, named, target)
    if session.dry_run:
        foretell(session.printer, client, verb, _updatable(client, to_change))
        return
    before = client.containers() if to_change else ()
    for one in to_change:
        _update(session, UpdateContainerRequest(one, -1, kind, None, target))
    found = Aftermath()
    if verb == "promote":
        found = aftermath(client, before, to_change, wait=not session.no_wait)
        found.say(session.printer)
    after = [client.container(one) for one in named]
    besides = found.of if verb == "promote" else None
    tell_containers(session, after, lambda one: one.execution_type.value, besides=besides)


def _of_other_type(session: Session, named: Sequence[str], target: ExecutionType) -> list[str]:
    """The containers that do not have that execution type yet; a message is printed for the others."""
    others = []
    for report in [live(_at_the_rm(session.client, one)) for one in named]:
        if report.execution_type is target:
            session.printer.note(f"{report.container_id} is {target.value} already")
        else:
            others.append(report.container_id)
    return others


def _updatable(client: LocalClient, named: Sequence[str]) -> list[ContainerReport]:
    """The reports of the containers. Raises InvalidStateError for a master."""
    reports = [client.container(one) for one in named]
    for report in reports:
        if report.is_am:
            raise InvalidStateError(
                f"{report.container_id} cannot be updated",
                because="it is its application's master",
                hint=f"`yopp app kill {report.application_id}` ends it with its application",
            )
    return reports


@command(
    "container resize",
    "yopp container resize --memory 2G 3.2",
    "yopp container resize --vcores 2 last",
    asks=True,
    waits=True,
)
def resize(session: Session, ids: ContainerIds, size: NewSize) -> None:
    """Change the memory or vcores of a running container, and its limits accordingly."""
    size.check()
    client = session.client
    named = _agreed(session, ids, "Resize", is_live)
    for report in [live(_at_the_rm(client, one)) for one in named]:
        has, wanted = report.resource, size.of(report.resource)
        # A decrease of one amount and an increase of the other are two updates: the decrease is first.
        smaller = wanted.lesser(has)
        if wanted == has:
            session.printer.note(f"{report.container_id} has {wanted} already")
        for new, differs, kind in (
            (smaller, smaller != has, ContainerUpdateType.DECREASE_RESOURCE),
            (wanted, wanted != smaller, ContainerUpdateType.INCREASE_RESOURCE),
        ):
            if differs:
                update = UpdateContainerRequest(report.container_id, -1, kind, new, None)
                _update(session, update)
    after = [client.container(one) for one in named]
    tell_containers(session, after, lambda one: size_text(one.resource))


def _update(session: Session, update: UpdateContainerRequest) -> None:
    """Ask the RM for one update and wait until the container's node has made it."""
    client, container_id = session.client, update.container_id
    response = client.update_container(update)

    def has_happened(report: ContainerReport) -> bool:
        _still_alive(report)
        refusal = report.refusal
        refused = of_kind(refusal, CauseKind.UPDATE_REFUSED) and response.version <= refusal.version
        if refused and report.version < response.version:
            raise InvalidStateError(
                f"{container_id} is not updated",
                because=last_line(report.diagnostics),
                hint=f"`yopp explain {container_id}` shows its resources and its node",
            )
        return report.version >= response.version

    what = "get room on its node for that" if response.pending else "change"
    if response.pending:
        from .container_effects import promise_text

        session.printer.note(f"{container_id}: {promise_text(client, response.container)}")
    _awaited(session, [container_id], has_happened, what)


def _at_the_rm(client: LocalClient, container_id: str) -> ContainerReport:
    """A container as the RM counts it; its node may not have the change yet."""
    request = GetContainersRequest(container_ids=(container_id,), finished=True)
    return next(iter(client.container_reports(request)))


def _still_alive(report: ContainerReport) -> None:
    if not is_live(report):
        raise InvalidStateError(
            f"{report.container_id} has ended meanwhile",
            because=report.diagnostics.strip(),
            hint=f"`yopp container status {report.container_id}` shows how",
        )
