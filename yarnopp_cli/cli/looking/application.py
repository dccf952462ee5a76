"""``yopp app``: listing, showing, killing and moving applications; ``yopp attempt``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from executor.hints import TYPE_CHECKING, Any
from executor.records import ExecutionType

from ...errors import ApplicationNotFoundError, UsageError
from ...records import client_protocol as rm
from ...records import job_protocol
from ...records.ids import ApplicationAttemptId, job_id
from ...records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    YarnApplicationState,
)
from ...records.times import timestamp
from ...views.applications import APPLICATIONS, ATTEMPTS, FINALS, counts_text
from ...views.cluster import timeout_document
from ...views.text import harmless
from ..frame.actions import agree, awaited, foretell_kill, tell
from ..frame.command import command
from ..frame.ended import here_or_ended
from ..frame.filters import (
    QueueFilter,
    UserFilter,
    applications_on,
    comma_words,
    node_id,
    queues_below,
)
from ..frame.naming import applications, one_application, owners, words
from ..frame.options import (
    HERE_ONLY,
    LEAF_QUEUE,
    Annotated,
    AnyApplicationIds,
    ApplicationIds,
    AttemptIds,
    BadValueError,
    Live,
    LiveApplication,
    OneApplication,
    Words,
    argument,
    duration,
    option,
)
from ..frame.session import Session, empty_text, words_of

if TYPE_CHECKING:
    from ...client.protocol import ApplicationChange, Client

KILL_SECONDS = 20.0
HOLD_SECONDS = 60.0


@command(
    "app list", "yopp app list -a", "yopp app list --final FAILED,KILLED -q",
    lists=APPLICATIONS, newest=True, yarn=True,
)  # fmt: skip
def list_applications(
    session: Session,
    every: Annotated[
        bool, option("-a, --all", "Show also ended applications (implied by --state and --final).")
    ] = False,
    kind: Annotated[
        str | None, option("--type T,…", "Only of these types."), Words(lambda: ("YARN", "MAPREDUCE"))
    ] = None,
    tag: Annotated[str | None, option("--tag T,…", "Only applications with one of these tags.")] = None,
    user: UserFilter = "",
    queue: QueueFilter = "",
    node: Annotated[
        str | None, option("--node NODE", "Only applications with containers on this node."), Live(("node",))
    ] = None,
    name: Annotated[str, option("--name NAME", "Only with this name.")] = "",
    final: Annotated[
        str | None, option("--final F,…", "Only applications with this final status."), Words(lambda: FINALS)
    ] = None,
) -> None:
    """List the live applications, in order of submission."""
    cluster, states = session.cluster, session.states
    finals = words_of(final, FINALS, "--final")
    request = job_protocol.GetApplicationsRequest(
        states=() if "ALL" in states else tuple(YarnApplicationState(one) for one in states),
        application_types=comma_words(kind),
        tags=comma_words(tag),
        queue=queue if session.yarn is not None else "",
        user=user,
        name=name,
        live_only=not (every or states or finals),
    )
    queues = queues_below(cluster, queue) if queue and session.yarn is None else None
    on = node_id(cluster, node)
    _check_types(cluster, request.application_types)
    narrowed = bool(states or finals or kind or tag or user or queue or node or name)
    empty = empty_text("applications", session.choice, narrowed=narrowed, live_only=request.live_only)
    if "FAILED" in states and not finals:
        empty += " (FAILED in the column FINAL: --final FAILED)"
    shown = request.states or (() if request.live_only else tuple(YarnApplicationState))
    filters = {"states": shown, "types": request.application_types, "tags": request.tags}

    def once() -> None:
        found = cluster.applications(request)
        if queues is not None:
            found = tuple(one for one in found if one.queue in queues)
        if finals:
            found = tuple(one for one in found if one.final_status.value in finals)
        if on:
            there = applications_on(cluster, on, ended_too=not request.live_only)
            found = tuple(one for one in found if one.application_id in there)
        session.show(APPLICATIONS, found, empty=empty, filters=filters)

    session.repeat(once)


def _check_types(cluster: Client, wanted: tuple[str, ...]) -> None:
    """Raise UsageError for an execution type (`O`) that is not an application type here."""
    for word in wanted:
        if any(one.value.startswith(word.upper()) for one in ExecutionType):
            known = sorted({one.application_type for one in cluster.applications()})
            if word.upper() not in (one.upper() for one in known):
                raise UsageError(
                    f"--type has no {harmless(word)}",
                    because="--type of applications is YARN's applicationType, not the execution type",
                    hint=f"{', '.join(known) or 'YARN, MAPREDUCE'}; `yopp ps --type {word}` lists containers",
                )


@command("app status", "yopp app status last", "yopp app status 3 --json", yarn=True)
def status(session: Session, ids: AnyApplicationIds) -> None:
    """Show everything that is known about an application, also by the id of one of its containers.

    Jobs of clusters that have ended are found too.
    """

    def ask(named: Sequence[str]) -> list[ApplicationReport]:
        cluster = session.cluster
        return [cluster.application(one) for one in owners(cluster, named)]

    found, kept = here_or_ended(session, words(ids), ask)
    session.details(APPLICATIONS, found + [one.application for one in kept])


@command("app kill", "yopp app kill last", "yopp app list -q | yopp app kill -", changes=True, yarn=True)
def kill(session: Session, ids: ApplicationIds) -> None:
    """Kill applications and their containers, and wait until they have ended. `all` means every live one."""
    cluster, given = session.cluster, words(ids)
    named = applications(cluster, given)
    agree(session, given, named, "Kill", what="live application")
    before = [cluster.application(one) for one in named]
    live = [one for one in before if one.state not in FINAL_STATES]
    if session.dry_run:
        foretell_kill(session, named, live, counts_text, partial(tell, session, APPLICATIONS))
        return
    for one in live:
        cluster.change(rm.KillApplicationRequest(one.application_id, "Killed by the user."))
    if live and not session.no_wait:
        awaited(
            APPLICATIONS,
            lambda left: cluster.wait_for_applications(named, wait=min(left, HOLD_SECONDS)).applications,
            lambda one: one.state in FINAL_STATES,
            "end",
            KILL_SECONDS if session.timeout is None else session.timeout,
            because=lambda _: "an application ends after its containers, which get some time after SIGTERM",
        )
    after = [cluster.application(one) for one in named] if live else before
    if session.printer.as_mapred and session.printer.for_people:
        session.printer.text("\n".join(f"Killed job {job_id(one)}" for one in named))
        return
    ended = {one.application_id for one in before} - {one.application_id for one in live}
    tell(
        session,
        APPLICATIONS,
        after,
        lambda one: f"{'had already ended: ' if one.application_id in ended else ''}{one.state.value}",
        before=lambda one: one.application_id in ended,
        answer=lambda one: {"state": one.state.value},
    )


def _lifetime(text: str) -> float:
    """Seconds as ``duration`` reads them; infinity for ``unlimited``. Raises BadValueError."""
    if text.lower() == "unlimited":
        return math.inf
    try:
        return duration(text)
    except BadValueError as error:
        raise BadValueError(f"{error}, or `unlimited`") from None


@command(
    "app lifetime", "yopp app lifetime last 2h", "yopp app lifetime 3 unlimited", tries=HERE_ONLY, yarn=True
)
def lifetime(
    session: Session,
    application: LiveApplication,
    length: Annotated[
        float, argument("DUR", "Its lifetime from now on: 90s, 5m, 2h; or `unlimited`.", parser=_lifetime)
    ],
) -> None:
    """Limit the lifetime of a running application: it is killed after this time, counted from now."""
    unlimited = math.isinf(length)
    if not length:
        raise UsageError(
            "the lifetime must be positive",
            because="it is zero",
            hint="`yopp app kill` ends it now; `unlimited` removes the limit",
        )
    if unlimited and session.yarn is not None:
        raise UsageError(
            "YARN cannot remove the limit of an application's lifetime",
            because="its REST API accepts only a point in time",
            hint="`yopp app lifetime ID 365d`",
        )
    expires = 0 if unlimited else session.now_ms + round(length * 1000)
    may = "would be allowed to run" if session.dry_run else "may run"
    limit = f"{may} until {timestamp(expires)}" if expires else f"{may} without a time limit"
    _change(
        session,
        rm.UpdateApplicationTimeoutsRequest(
            one_application(session.cluster, application), expires, session.dry_run
        ),
        lambda _: limit,
        lambda one: {"timeout": timeout_document(one, session.now_ms)},
    )


@command("app tags", "yopp app tags last", "yopp app tags last --add nightly,big", tries=True)
def tags(
    session: Session,
    application: LiveApplication,
    tag: Annotated[list[str] | None, argument("[TAG]...", "Set these tags, and remove all others.")] = None,
    add: Annotated[str | None, option("--add T,…", "Add these tags.")] = None,
    remove: Annotated[str | None, option("--remove T,…", "Remove these tags.")] = None,
    clear: Annotated[bool, option("--clear", "Remove all tags.")] = False,
) -> None:
    """Print the tags of an application, one per line, or change those of a running one.

    `yopp app list --tag` finds applications by them.
    """
    ways = (bool(tag), clear, add is not None or remove is not None)
    if sum(ways) > 1:
        raise UsageError(
            "which tags should it have?",
            because="TAGs, --clear, and --add or --remove exclude each other",
            hint="yopp app tags last nightly big",
        )
    client, printer = session.client, session.printer
    report = client.application(one_application(session.cluster, application))
    if any(ways):
        gone = comma_words(remove)
        wanted = [one for one in report.tags if one not in gone] + list(comma_words(add))
        wanted = [] if clear else list(tag or wanted)
        report = client.change(
            rm.UpdateApplicationTagsRequest(report.application_id, tuple(wanted), session.dry_run)
        )
        told = ", ".join(report.tags) or "none"
        would = "would have" if session.dry_run else "has"
        tell(session, APPLICATIONS, [report], lambda _: f"{would} the tags: {told}")
    elif not printer.for_people:
        session.details(APPLICATIONS, [report])
    elif report.tags:
        printer.text("\n".join(report.tags))
    else:
        printer.note(f"{report.application_id} has no tags")


@command("app queue", "yopp app queue last prod", "yopp app queue 3 root.dev.web", tries=HERE_ONLY, yarn=True)
def queue(
    session: Session,
    application: LiveApplication,
    name: Annotated[str, argument("QUEUE", "The new queue."), LEAF_QUEUE],
) -> None:
    """Move a running application and its containers to another queue."""
    _change(
        session,
        rm.MoveApplicationRequest(one_application(session.cluster, application), name, session.dry_run),
        lambda one: f"{'would be' if session.dry_run else 'is'} in queue {one.queue}",
        lambda one: {"queue": one.queue},
    )


@command(
    "app priority", "yopp app priority last 5", "yopp app priority 3 0 --json", tries=HERE_ONLY, yarn=True
)
def priority(
    session: Session,
    application: LiveApplication,
    value: Annotated[
        int,
        argument(
            "N",
            "Larger numbers are served first (smaller ones with `run --priority`).",
            min=0,
        ),
    ],
) -> None:
    """Change the priority of a running application within its queue."""
    report = _change(
        session,
        rm.UpdateApplicationPriorityRequest(
            one_application(session.cluster, application), value, session.dry_run
        ),
        lambda one: f"{'would have' if session.dry_run else 'has'} priority {one.priority}",
        lambda one: {"priority": one.priority},
    )
    if report.priority < value:
        session.printer.note(
            f"{value} exceeds the cluster's highest priority, {report.priority} "
            "(yarn.cluster.max-application-priority), which is used instead"
        )


def _change(
    session: Session,
    request: ApplicationChange,
    text: Callable[[ApplicationReport], str],
    answer: Callable[[ApplicationReport], Mapping[str, Any]],
) -> ApplicationReport:
    """Change an application, or try the change. Returns its report afterwards. ``text`` is for users, REST's
    ``answer`` for JSON."""
    report = session.cluster.change(request)
    tell(session, APPLICATIONS, [report], text, answer=None if session.dry_run else answer)
    return report


@command("attempt list", "yopp attempt list last", "yopp attempt list 3 --json", lists=ATTEMPTS, yarn=True)
def list_attempts(
    session: Session,
    application: OneApplication,
    node: Annotated[
        str | None, option("--node NODE", "Only attempts whose master is on this node."), Live(("node",))
    ] = None,
) -> None:
    """List the attempts of an application, oldest first."""
    cluster, states = session.cluster, session.states
    one_app = one_application(session.cluster, application)
    on = node_id(cluster, node)

    def once() -> None:
        found = [
            one
            for one in cluster.attempts(one_app)
            if (not states or one.state in states) and (not on or one.am_node_id == on)
        ]
        session.show(ATTEMPTS, found, empty="no attempts")

    session.repeat(once)


@command(
    "attempt status",
    "yopp attempt status appattempt_1765400000000_0001_000001",
    "yopp attempt list last -q | yopp attempt status -",
    yarn=True,
)
def attempt_status(session: Session, ids: AttemptIds) -> None:
    """Show attempts by their full ids; `last` is the newest attempt of the newest application."""
    cluster = session.cluster
    found: list[ApplicationAttemptReport] = []
    for word in words(ids):
        if word == "last":
            found += cluster.attempts(applications(cluster, [word])[0])[-1:]
            continue
        wanted = ApplicationAttemptId.parse(word)
        owner = str(wanted.application_id)
        matching = [one for one in cluster.attempts(owner) if one.attempt_id == str(wanted)]
        if not matching:
            raise ApplicationNotFoundError(
                f"no attempt {word}",
                because=f"{owner} has no attempt with that number",
                hint=f"`yopp attempt list {owner}` lists them",
                sought=str(wanted),
            )
        found += matching
    session.details(ATTEMPTS, found)
