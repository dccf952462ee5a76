"""``yopp events``: past and new events of the cluster."""

from __future__ import annotations

import time

from executor.hints import TYPE_CHECKING
from executor.light import replace

from ...errors import TimedOutError, UsageError
from ...records.history import EventKind, GetEventsRequest, HistoryEvent
from ...views import events as view
from ..frame.command import command
from ..frame.filters import NodeFilter, node_id
from ..frame.naming import one_application, one_container
from ..frame.options import Annotated, Live, OfApplication, Timeout, Words, moment, option
from ..frame.output import Printer
from ..frame.session import Session

if TYPE_CHECKING:
    from ...client.local import LocalClient

HOLD_SECONDS = 30.0
"""Seconds for which the ResourceManager may hold the answer of one call."""
SHOWN = 100
BATCH = 1000


def _beginning(text: str) -> tuple[int, int]:
    """The event number and the time from which to print, 0 for the one that is not given. Raises BadValueError."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text), 0
    return 0, moment(text)


def _checked(text: str) -> str:
    """The words of ``--since``, after a check that they can be read. Raises BadValueError."""
    _beginning(text)
    return text


Since = Annotated[
    str | None,
    option(
        "--since T|SEQ",
        "Only events after number 12, of the last 10m, or since 2026-01-31T12:00Z.",
        parser=_checked,
    ),
]
Kind = Annotated[
    str | None,
    option(
        "--kind K,…",
        "Only these kinds; a word (shed, node) selects all kinds with a word that begins with it.",
    ),
    Words(lambda: [one.value for one in EventKind], several=True),
]


@command(
    "events", "yopp events -f --json", "yopp events --since 10m --kind preempted", "yopp events --app last"
)
def events(
    session: Session,
    follow: Annotated[bool, option("-f, --follow", "Follow new events until Ctrl-C.")] = False,
    since: Since = None,
    kind: Kind = None,
    app: OfApplication = None,
    container: Annotated[
        str | None, option("--container ID", "Only of this container."), Live(("container",))
    ] = None,
    node: NodeFilter = None,
    number: Annotated[
        int | None,
        option("-n, --limit N", "Only the last N [default: 100, all with --since].", min=0, max=1_000_000),
    ] = None,
    timeout: Timeout = None,
) -> None:
    """Print the last events of the cluster (submitted, queued, paused, promoted, preempted, …) and their
    reasons.

    With --json, each event is one object per line. To continue without a gap, pass its `seq` to --since; if
    the ResourceManager has dropped later events meanwhile, a warning on stderr says so. With -q, only the ids
    of the containers, applications or nodes are printed. When --timeout expires, -f exits with 124.
    """
    begin = _beginning(since) if since is not None else (0, 0)
    kinds = _kinds(kind)
    client, printer = session.client, session.printer
    deadline = None if timeout is None else time.monotonic() + timeout
    request = GetEventsRequest(
        since=begin[0],
        since_ms=begin[1],
        kinds=kinds,
        application_id=one_application(client, app) if app else "",
        container_id=one_container(client, container) if container else "",
        node_id=node_id(client, node),
    )
    stream = _Stream(client, printer, request)
    if printer.form == "tsv":
        printer.separated([column.key for column in view.COLUMNS])
    if since is None:
        stream.last(SHOWN if number is None else number)
    elif number is not None:
        stream.last(number)
    else:
        stream.catch_up()
    if follow:
        session.be_patient()
    while follow:
        remaining = HOLD_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
        stream.more(min(remaining, HOLD_SECONDS))
        if deadline is not None and time.monotonic() >= deadline:
            raise TimedOutError(
                f"followed the events for {timeout:g} s",
                because="--timeout has passed",
                hint="without --timeout, it continues until Ctrl-C",
            )


class _Stream:
    """Events in order, each printed once."""

    def __init__(self, client: LocalClient, printer: Printer, request: GetEventsRequest) -> None:
        self._client = client
        self._printer = printer
        self._request = request
        self._life = 0

    def last(self, number: int) -> None:
        """Print the newest ones."""
        wanted = replace(self._request, limit=max(1, number), newest=True)
        answer = self._client.events(wanted)
        self._life = answer.cluster_timestamp
        self._print(answer.events if number else ())
        self._request = replace(self._request, since=answer.next, since_ms=0)

    def catch_up(self) -> None:
        """Print all events so far."""
        while self.more(0.0):
            pass

    def more(self, wait: float) -> bool:
        """Print the events of the next ``wait`` seconds; return whether there may be more."""
        since = self._request.since
        answer = self._client.events(replace(self._request, limit=BATCH, wait_ms=round(wait * 1000)))
        life, self._life = self._life, answer.cluster_timestamp
        if answer.next < since or (life and life != answer.cluster_timestamp):
            self._printer.warn("the ResourceManager was replaced: sequence numbers start again")
            self._request = replace(self._request, since=0)
            return True
        if since and answer.oldest > since + 1:
            self._printer.warn(
                f"{answer.oldest - since - 1} events before {answer.oldest} are no longer kept"
            )
        self._print(answer.events)
        self._request = replace(self._request, since=answer.next)
        return len(answer.events) == BATCH

    def _print(self, found: tuple[HistoryEvent, ...]) -> None:
        printer = self._printer
        for event in found:
            if printer.is_json:
                printer.stream_line(view.document(event))
            elif printer.ids_only:
                printer.ids([view.subject(event)])
            elif printer.form == "tsv":
                printer.separated((), [[column.cell(event) for column in view.COLUMNS]])
            else:
                printer.text(view.line(event, wide=printer.form == "wide"))


def _begins(name: str, wanted: str) -> bool:
    """Whether one of the words in a kind's name begins with ``wanted``: `shed` does not select Finished."""
    return any(name[at:].casefold().startswith(wanted) for at, letter in enumerate(name) if letter.isupper())


def _kinds(text: str | None) -> tuple[EventKind, ...]:
    """The kinds of events that a comma list of words names. Raises UsageError for a word that names none."""
    found: dict[EventKind, None] = {}
    for word in (text or "").split(","):
        wanted = word.strip().casefold()
        if not wanted:
            continue
        exact = [kind for kind in EventKind if kind.value.casefold() == wanted]
        matching = exact or [kind for kind in EventKind if _begins(kind.value, wanted)]
        if not matching:
            raise UsageError(
                f"--kind {word.strip()} matches no kind of event",
                because="no kind has a word that begins with it",
                hint="choose from " + ", ".join(kind.value for kind in EventKind),
            )
        found.update(dict.fromkeys(matching))
    return tuple(found)
