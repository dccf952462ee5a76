"""``yopp report``: a job's timeline, usage and waiting times as one HTML file, also after its cluster has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from executor.hints import TYPE_CHECKING

from ...cluster.histories import read_history
from ...errors import ApplicationNotFoundError, YoppError, reason_of
from ...records.history import ApplicationHistory, GetEventsRequest, HistoryEvent
from ...records.reports import FINAL_STATES
from ...report import timeline
from ..frame.command import command
from ..frame.ended import here_or_ended
from ..frame.naming import one_application
from ..frame.options import Annotated, OneApplication, option
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient
    from ...records.reports import ApplicationReport

BATCH = 10_000


@command("report", "yopp report last", "yopp report 3 --out report.html")
def report(
    session: Session,
    app: OneApplication,
    out: Annotated[
        str, option("--out FILE", "The file to write; - is standard output. [default: <id>.html]")
    ] = "",
) -> None:
    """Write one self-contained HTML file about a job: when and where its containers ran, queued and were paused.

    It also shows the use of the nodes and how long containers waited. It needs Matplotlib (the extra `report`);
    with --json the figures are printed instead. Jobs of clusters that have ended are found too.
    """
    printer = session.printer
    history = find(session, app)
    if not printer.is_json:
        from ...report.plots import available

        available()
    now = history.kept_at_ms or session.now_ms
    found = timeline.lines(history.events, now)
    vcores = sum(node.total.vcores for node in history.nodes)
    numbers = timeline.figures(found, vcores)
    if printer.is_json:
        from ...views.applications import document

        described = document(history.application, now)
        printer.document({"report": {"app": described, **numbers, "lines": timeline.document(found)}})
        return
    if not found:
        last, identifier = history.application, history.application.application_id
        if not last.guaranteed_allocated_total + last.opportunistic_allocated_total:
            raise YoppError(
                f"{identifier} has no containers to show",
                because="it has had none",
                hint=f"`yopp explain {identifier}` shows why",
            )
        raise YoppError(
            f"no containers of {identifier} are known",
            because="their events are no longer kept",
            hint="yopp.resourcemanager.event-history.size sets how many are kept",
        )
    page = _page(history, found, numbers, vcores)
    if out == "-":
        printer.raw(page.encode())
        return
    path = out or f"{history.application.application_id}.html"
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise YoppError(f"cannot write {path}", because=reason_of(error), hint="--out FILE") from None
    printer.text(path)


def _page(
    history: ApplicationHistory, found: list[timeline.ContainerLine], numbers: dict[str, object], vcores: int
) -> str:
    from ...report import plots
    from ...report.page import page

    begin = int(str(numbers["begin"]))
    pictures = [
        (
            "Timeline",
            "One line per container, by node and in order of allocation.",
            plots.timeline_svg(found, begin),
        ),
        (
            "Use",
            "Vcores of this job's running containers, by execution type, and of its queued containers.",
            plots.load_svg(found, begin, vcores),
        ),
        (
            "Waiting",
            "The share of the containers that had started within this time of being eligible: since their master "
            "requested them, or first requested the same work if it was preempted or shed."
            + _unstarted(found),
            plots.waits_svg(found),
        ),
    ]
    notes = timeline.losses(found)
    if len(found) > plots.MOST_LINES:
        notes.append(f"The timeline shows the first {plots.MOST_LINES} of {len(found)} containers.")
    return page(history.application, history.nodes, found, dict(numbers), pictures, notes)


def _unstarted(found: list[timeline.ContainerLine]) -> str:
    number = sum(1 for one in found if not one.has_run)
    return f" {number} never ran." if number else ""


def find(session: Session, word: str) -> ApplicationHistory:
    """The history of the job that ``word`` names, from the cluster or from its history file.

    Raises ApplicationNotFoundError; ConnectionFailedError if there is neither a cluster nor a history.
    """

    def ask(named: Sequence[str]) -> list[ApplicationReport]:
        return [session.client.application(one_application(session.client, one)) for one in named]

    found, kept = here_or_ended(session, [word], ask)
    if kept:
        return kept[0]
    [report] = found
    if report.state in FINAL_STATES:
        with contextlib.suppress(ApplicationNotFoundError):
            return read_history(session.run_dir, report.application_id)
    return _ask(session.client, report.application_id)


def _ask(client: LocalClient, application_id: str) -> ApplicationHistory:
    """The history of one application, as the ResourceManager remembers it."""
    events: list[HistoryEvent] = []
    since = 0
    while True:
        answer = client.events(GetEventsRequest(since=since, application_id=application_id, limit=BATCH))
        events += answer.events
        if len(answer.events) < BATCH:
            break
        since = answer.next
    named = {event.node for event in events if event.node}
    nodes = tuple(node for node in client.nodes() if node.node_id in named)
    return ApplicationHistory(client.application(application_id), nodes, tuple(events))
