"""The tables of ``yopp top``: nodes, applications, containers, waiting containers, and events. Pure.

The columns are the ones that ``views`` declares for the noun, under shorter titles, and a few for screens only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from executor.light import replace
from executor.records import MIB, ContainerExitStatus, ContainerState, ExecutionType

from ...explain.snapshot import Picture
from ...records.history import EventKind, HistoryEvent
from ...records.ids import dotted, suffix
from ...records.reports import (
    FINAL_STATES,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    is_waiting,
)
from ...records.times import timestamp
from .. import applications, containers, nodes
from ..columns import (
    ACCENT,
    BAD,
    DIM,
    GOOD,
    HOT,
    MEGABYTES,
    STRONG,
    WARN,
    Cell,
    Column,
    TopColumn,
    state_cell,
)
from ..containers import is_live, shown_state, since_ms
from ..events import details, subject
from ..explain.reasons import why
from ..text import short_megabytes, short_span, width
from .sampling import History, bar, sparkline

# -- nodes ---------------------------------------------------------------------------------------------------

_SHORT_STATES = {
    "DECOMMISSIONING": "DRAINING",
    "DECOMMISSIONED": "DRAINED",
    "RUNNING (silent)": "SILENT",
}
_OF_NODE = nodes.BY_KEY


def _short_state(node: NodeReport) -> Cell:
    """The node's state in nine cells, in the tone of the state."""
    state = nodes.state_text(node)
    return Cell(_SHORT_STATES.get(state, state), state_cell(state).tone)


def _queue(node: NodeReport) -> Cell:
    return Cell(nodes.queue_text(node), "" if node.opportunistic.queued else DIM)


NODE_COLUMNS: tuple[TopColumn[NodeReport], ...] = (
    _OF_NODE["node"].top("Node", 16, flexible=True),
    _OF_NODE["state"].top("State", 9, cell=_short_state),
    _OF_NODE["runningG"].top("Run G"),
    _OF_NODE["runningO"].top("Run O"),
    _OF_NODE["queued"].top("Queue", 6, cell=_queue),
    _OF_NODE["memG"].top("Mem G"),
    _OF_NODE["memO"].top("Mem O"),
    _OF_NODE["vcoresG"].top("VC G"),
    _OF_NODE["vcoresO"].top("VC O"),
    _OF_NODE["cpuPercent"].top("CPU%", key="cpu"),
    _OF_NODE["memPercent"].top("Mem%", key="memory"),
)
"""The columns that fit into 80 cells."""


def node_columns(rows: Sequence[NodeReport]) -> tuple[TopColumn[NodeReport], ...]:
    """``NODE_COLUMNS``, with the queue column as wide as its longest text."""
    longest = max((len(nodes.queue_text(node)) for node in rows), default=0)
    return tuple(
        replace(column, width=max(column.width, longest)) if column.key == "queued" else column
        for column in NODE_COLUMNS
    )


_NOT_ON_SCREEN = frozenset({"tags", "memory", "vcores"})
"""Columns of YARN's Nodes page that add nothing to the others."""
_NODE_WIDTHS = {"rack": 14, "state": 15, "node": 18, "http": 18, "health": 16, "version": 8}


def yarn_node_columns(now_ms: int) -> tuple[TopColumn[NodeReport], ...]:
    """YARN's Nodes page: its titles, in its order.

    The node's id comes first, since the first column stays in place while the others are scrolled.
    """

    keys = {"cpuPercent": "cpu", "memPercent": "memory", "node": "address"}
    cells: dict[str, Callable[[NodeReport], Cell]] = {
        "state": lambda node: state_cell(node.state.value),
        "node": lambda node: Cell(node.node_id),
        "http": lambda node: Cell(_http(node)),
        "heartbeat": lambda node: Cell(short_span(now_ms - node.last_heartbeat_ms) + " ago"),
        "health": lambda node: Cell(node.health_report, WARN if node.health_report else GOOD),
    }

    def shown(title: str, column: Column[NodeReport]) -> TopColumn[NodeReport]:
        of, drawn = column.key, cells.get(column.key)
        if column.kind is MEGABYTES:
            drawn = lambda node: _gigabytes(column.value(node))  # noqa: E731
        return column.top(title, _NODE_WIDTHS.get(of, 0), key=keys.get(of, ""), cell=drawn)

    page = [shown(title, _OF_NODE[key]) for title, key in nodes.PAGE if key not in _NOT_ON_SCREEN]
    return (NODE_COLUMNS[0], *page)


def _http(node: NodeReport) -> str:
    return node.http_address if node.http_address and node.state is NodeState.RUNNING else "N/A"


def _gigabytes(megabytes: int) -> Cell:
    """Memory as on YARN's page: GB from 1 GB on, whole numbers without decimals."""
    if megabytes % 1024 == 0:
        return Cell(f"{megabytes // 1024} GB")
    return Cell(f"{megabytes} MB" if megabytes < 1024 else f"{megabytes / 1024:.2f} GB")


# -- applications --------------------------------------------------------------------------------------------

BAR = "█▒░·-✗!?"
"""The characters of running, paused, queued (and pending), done, killed, preempted, failed and lost containers."""
_STEADY = 37
"""Cells of the columns whose width never changes, of the gaps, the gutter and a scrollbar."""
_LEAST = 20
"""The least cells of name and bar, however wide the counts are."""


def counted(app: ApplicationReport) -> tuple[tuple[int, str], ...]:
    """The application's containers by state, in the order of the bar."""
    return (
        (app.containers_running, "run"),
        (app.containers_paused, "paused"),
        (app.containers_queued + app.pending_containers, "queued"),
        (app.containers_done, "done"),
        (app.containers_killed, "killed"),
        (app.containers_preempted, "preempted"),
        (app.containers_failed, "failed"),
        (app.containers_lost, "lost"),
    )


def _widths(rows: Sequence[ApplicationReport], cells: int) -> tuple[int, int, int, int]:
    """The widths of id, name, bar and counts in ``cells``: the bar gets the remaining cells."""
    id_width = max((len(suffix(app.application_id)) for app in rows), default=5)
    words = max((len(counts_cell(app).text) for app in rows), default=0)
    room = max(36, cells - _STEADY - id_width)
    if words > room - _LEAST:  # The bar's characters then replace the words, which leaves room for names.
        words = max((len(counts_cell(app, 0).text) for app in rows), default=0)
    counts = min(max(words, 14), room - _LEAST)
    name = min(max([10, *(width(app.name) for app in rows)]), max(10, room - counts - 10))
    return id_width, name, max(10, min(30, room - counts - name)), counts


def counts_cell(app: ApplicationReport, cells: int = 1 << 10) -> Cell:
    """The counts above 0 in words; with the bar's characters instead of words if the words do not fit."""
    text = " ".join(f"{number} {word}" for number, word in counted(app) if number)
    if len(text) > cells:
        marked = zip(BAR, counted(app), strict=True)
        text = " ".join(f"{mark}{number}" for mark, (number, _) in marked if number)
    return Cell(text or "-", "" if text else DIM)


def _final(app: ApplicationReport) -> Cell:
    return state_cell(app.final_status.value) if app.state in FINAL_STATES else Cell("-", DIM)


def _total(app: ApplicationReport) -> int:
    return sum(number for number, _ in counted(app))


def application_columns(
    now_ms: int, rows: Sequence[ApplicationReport], cells: int
) -> tuple[TopColumn[ApplicationReport], ...]:
    """The columns that fit into ``cells``, at least 80."""
    id_width, name_width, bar_cells, counts_width = _widths(rows, cells)
    of = applications.by_key(now_ms)

    def drawn_bar(app: ApplicationReport) -> Cell:
        return Cell(bar([number for number, _ in counted(app)], BAR, bar_cells), ACCENT)

    def counts(app: ApplicationReport) -> Cell:
        return counts_cell(app, counts_width)

    return (
        of["id"].top("App", id_width, cell=lambda app: Cell(suffix(app.application_id), STRONG)),
        of["name"].top("Name", name_width),
        of["state"].top("State", 8),
        of["final"].top("Final", 9, cell=_final),
        of["progress"].top("Done%", cell=lambda app: Cell(f"{100 * app.progress:.0f}")),
        of["elapsed"].top("Time"),
        TopColumn("bar", "Containers", bar_cells, drawn_bar, _total),
        TopColumn("counts", "", counts_width, counts, _total, flexible=True),
    )


_APPLICATION_WIDTHS = {
    "id": 30, "user": 8, "name": 16, "queue": 10, "submitted": 24, "started": 24, "finished": 24, "state": 10,
}  # fmt: skip


def yarn_application_columns(now_ms: int) -> tuple[TopColumn[ApplicationReport], ...]:
    """YARN's page of applications: its titles, in its order."""
    of = applications.by_key(now_ms)
    drawn = {"final": _final, "progress": lambda app: Cell(applications.progress_text(app))}
    return tuple(
        of[key].top(title, _APPLICATION_WIDTHS.get(key, 0), cell=drawn.get(key))
        for title, key in applications.PAGE
        if key not in ("queued", "paused")
    )


# -- containers ----------------------------------------------------------------------------------------------

_REASON = 16
_BESIDE_REASON = 44
"""Cells of the Queue screen's columns of fixed width, the gaps, the gutter and a scrollbar."""
_NEEDS = 8
"""The part of these cells that shows a container's size, if it is memory and vcores."""


class Measured(NamedTuple):
    """One container's measured use: CPU in percent of its quota, -1 if not known, and memory."""

    cpu_percent: float
    memory_bytes: int


def quota_cores(report: ContainerReport, picture: Picture) -> float:
    """The machine's cores that correspond to a container's vcores, or to one vcore if it has none."""
    node = picture.node(report.node_id)
    each = picture.host.cores / node.total.vcores if node is not None and node.total.vcores > 0 else 1.0
    return max(1, report.resource.vcores) * each


def measured(report: ContainerReport, picture: Picture, history: History) -> Measured:
    """A container's present use: CPU from the last two measurements, in percent of its vcores' share of the
    machine.
    """
    cores = history.cores(report.container_id)
    percent = -1.0 if cores is None else 100.0 * cores / quota_cores(report, picture)
    return Measured(percent, report.usage.memory_bytes if is_live(report) else report.usage.memory_peak_bytes)


def container_state(report: ContainerReport) -> Cell:
    """The state; OOM for a container killed by its memory limit."""
    if report.state is ContainerState.DONE and report.exit_status == ContainerExitStatus.KILLED_EXCEEDED_PMEM:
        return Cell("OOM", BAD)
    state = shown_state(report)
    if state == "DONE" and report.exit_status != 0:
        return Cell(f"EXIT {report.exit_status}", BAD)
    return state_cell(state)


def _type(report: ContainerReport) -> Cell:
    """G for guaranteed, O for opportunistic."""
    opportunistic = report.execution_type is ExecutionType.OPPORTUNISTIC
    return Cell("O" if opportunistic else "G", ACCENT if opportunistic else STRONG)


def _position(report: ContainerReport) -> Cell:
    return Cell(str(report.position)) if report.position else Cell("-", DIM)


def _common(picture: Picture, rows: Sequence[ContainerReport]) -> dict[str, TopColumn[ContainerReport]]:
    """The columns that the Containers and the Queue screen share, by their keys. ``age`` is how long a
    container has been in its state.
    """
    now = picture.taken_at_ms
    of = {column.key: column for column in containers.columns(now)}
    id_width = max((len(suffix(one.container_id)) for one in rows), default=0)
    node_width = max((len(one.node_id) for one in rows), default=0)

    def age(report: ContainerReport) -> int:
        return now - since_ms(report) if since_ms(report) else -1

    def age_cell(report: ContainerReport) -> Cell:
        return Cell(short_span(age(report)) if since_ms(report) else "-")

    found = (
        of["id"].top("Id", max(7, id_width), cell=lambda one: Cell(suffix(one.container_id), STRONG)),
        of["app"].top("App", 5, cell=lambda one: Cell(suffix(one.application_id))),
        of["type"].top("T", cell=_type),
        of["state"].top("State", 9, cell=container_state),
        of["position"].top("Pos", cell=_position),
        of["node"].top("Node", max(12, min(20, node_width))),
        of["command"].top("Command", 12, flexible=True),
        TopColumn("since", "Since", 5, age_cell, age, numeric=True),
        TopColumn("age", "Age", 4, age_cell, age, numeric=True),
    )
    return {column.key: column for column in found}


def container_columns(
    picture: Picture, history: History, reports: Sequence[ContainerReport], spark_cells: int
) -> tuple[TopColumn[ContainerReport], ...]:
    """The columns of the Containers screen; ``spark_cells`` is the width of the sparkline."""
    common = _common(picture, reports)

    def percent(report: ContainerReport) -> float:
        return measured(report, picture, history).cpu_percent

    def used(report: ContainerReport) -> int:
        return measured(report, picture, history).memory_bytes

    def cpu(report: ContainerReport) -> Cell:
        found = percent(report)
        if found < 0 or not is_live(report):
            return Cell("-", DIM)
        return Cell(f"{found:.0f}", WARN if found >= HOT else "")

    def spark(report: ContainerReport) -> Cell:
        quota = quota_cores(report, picture)
        return Cell(sparkline(history.cpu(report.container_id), spark_cells, quota), ACCENT)

    def memory(report: ContainerReport) -> Cell:
        megabytes, limit = used(report) / MIB, report.resource.memory
        text = f"{short_megabytes(megabytes) if megabytes else '-'}/{short_megabytes(limit)}"
        hot = limit and megabytes >= HOT / 100 * limit and is_live(report)
        return Cell(text, WARN if hot else "")

    return (
        *(common[key] for key in ("id", "app", "type", "state", "since", "position")),
        TopColumn("cpu", "CPU%", 4, cpu, percent, numeric=True),
        TopColumn("spark", "60 s", spark_cells, spark, percent),
        TopColumn("memory", "RSS/limit", 11, memory, used, numeric=True),
        common["command"],
    )


def queue_columns(
    picture: Picture, rows: Sequence[ContainerReport], cells: int
) -> tuple[TopColumn[ContainerReport], ...]:
    """The columns of the Queue screen in ``cells``: the container, its node, its position, its age, and the reason of
    its wait, shortened if necessary.
    """
    common = _common(picture, rows)

    def needs(report: ContainerReport) -> Cell:
        size = report.resource
        more = "".join(f" {one.value} {one.name.rpartition('/')[2]}" for one in size.others)
        return Cell(f"{short_megabytes(size.memory)} {size.vcores}c{more}")

    needed = max((width(needs(one).text) for one in rows if one.resource.others), default=_NEEDS)
    beside = _BESIDE_REASON - _NEEDS + max(needed, _NEEDS)
    room = max(_REASON, cells - beside - common["node"].width - common["id"].width)

    def reason(report: ContainerReport) -> Cell:
        return Cell(why(report, picture.node(report.node_id), room))

    def in_full(report: ContainerReport) -> str:
        return why(report, picture.node(report.node_id))

    return (
        *(common[key] for key in ("node", "position", "id", "app", "type", "state", "age")),
        TopColumn(
            "needs",
            "Needs",
            max(needed, _NEEDS),
            needs,
            lambda one: (one.resource.memory, one.resource.vcores),
            True,
        ),
        TopColumn("reason", "Why it waits", _REASON, reason, in_full, flexible=True),
    )


def queue_rows(picture: Picture) -> list[ContainerReport]:
    """The waiting containers, node by node: paused ones first, since they resume first, then the queue in its
    order.
    """
    waiting = [one for one in picture.containers if is_waiting(one)]
    return sorted(waiting, key=lambda one: (one.node_id, one.position or 0, one.queued_at_ms))


# -- events --------------------------------------------------------------------------------------------------

_TONED = {
    GOOD: "ContainerStarted ContainerResumed ApplicationFinished NodeAdded NodeReturned NodeHealthy NodeResumed",
    DIM: "ContainerQueued ContainerAllocated ContainerAcquired QueueLimitTold",
    WARN: "ContainerPaused NodeSilent NodeDraining DaemonRestarted",
    ACCENT: "ContainerPromoted ContainerDemoted",
    BAD: "ContainerPreempted ContainerShed ContainerAborted ApplicationFailed ApplicationKilled NodeLost NodeUnhealthy "
    "DaemonGivenUp",
}
_TONES = {EventKind(kind): tone for tone, kinds in _TONED.items() for kind in kinds.split()}


def _kind_cell(text: str, event: HistoryEvent) -> Cell:
    """A text in the tone of an event's kind."""
    return Cell(text, _TONES.get(event.kind, ""))


def clock(epoch_ms: int) -> str:
    """The time of the day (UTC), to the millisecond."""
    return timestamp(epoch_ms)[11:23]


def _short_subject(event: HistoryEvent) -> str:
    """The subject of the event, its id shortened; a container's id in the form that can be typed."""
    if event.container:
        return f"container {dotted(event.container)}"
    name = subject(event)
    return f"application {suffix(name)}" if name.startswith("application_") else name


EVENT_COLUMNS: tuple[TopColumn[HistoryEvent], ...] = (
    TopColumn("time", "Time (UTC)", 12, lambda one: Cell(clock(one.t), DIM), lambda one: (one.t, one.seq)),
    TopColumn("kind", "Kind", 20, lambda one: _kind_cell(one.kind.value, one), lambda one: one.kind.value),
    TopColumn("subject", "Subject", 24, lambda one: Cell(_short_subject(one), STRONG), subject),
    TopColumn("details", "Details", 16, lambda one: Cell(details(one)), details, flexible=True),
)


def kinds_of(events: Sequence[HistoryEvent]) -> list[tuple[str, str]]:
    """The kinds of the events and the number of each, by name."""
    kinds = Counter(event.kind.value for event in events)
    return [(kind, f"{kind}  {number}") for kind, number in sorted(kinds.items())]


def story(events: Sequence[HistoryEvent]) -> list[tuple[str, Cell, str]]:
    """One container's history: time, kind and details of each event."""
    return [
        (clock(event.t), _kind_cell(event.kind.value.removeprefix("Container"), event), details(event))
        for event in events
    ]
