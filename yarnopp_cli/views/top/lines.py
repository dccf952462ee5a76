"""The lines above and below the tables of ``yopp top``, and one whole frame without a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from executor.light import replace
from executor.records import ContainerState

from ...explain.snapshot import HostFacts, Picture
from ...records.history import HistoryEvent
from ...records.reports import (
    FINAL_STATES,
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    is_waiting,
)
from ...records.times import timestamp
from ..applications import APPLICATIONS, counts_text, diagnostics_text
from ..cluster import opportunistic_totals
from ..columns import ACCENT, BAD, DIM, GOOD, HOT, STRONG, WARN, Cell, TopColumn, state_cell
from ..containers import CONTAINERS, command_text, exit_text, is_live, shown_state
from ..events import details, subject
from ..explain.reasons import why
from ..nodes import NODES, others_text, state_text
from ..text import are, fitted, harmless, last_line, number_of, short_span, shorten, vcores, width
from .sampling import History, sparkline
from .tables import NODE_COLUMNS, application_columns, container_columns, measured

_GIB = 1 << 30
_SPARK_MOST = 40


def counts(picture: Picture) -> list[Cell]:
    """The numbers of nodes and containers, each with its word or letter."""
    info = picture.info
    guaranteed = sum(node.guaranteed_running for node in picture.nodes)
    opportunistic = opportunistic_totals(node.opportunistic for node in picture.nodes)
    running, queued = opportunistic["running"], opportunistic["queued"]
    paused = sum(node.paused for node in picture.nodes)
    lost = [Cell(f"{info.nodes_lost} lost", BAD)] if info.nodes_lost else []
    silent = sum(1 for node in picture.nodes if node.state is NodeState.RUNNING and not node.connected)
    if silent:
        lost.append(Cell(f"{silent} silent", WARN))
    draining = sum(node.state is NodeState.DECOMMISSIONING for node in picture.nodes)
    if draining:
        lost.append(Cell(f"{draining} draining", WARN))
    return [
        Cell(number_of(info.nodes_running + draining, "node")),
        *lost,
        Cell(f"{guaranteed} G", STRONG if guaranteed else DIM),
        Cell(f"{running} O", ACCENT if running else DIM),
        Cell(f"{queued} queued", "" if queued else DIM),
        Cell(f"{paused} paused", WARN if paused else DIM),
    ]


def first_line(where: str, picture: Picture | None, right: list[Cell], cells: int) -> list[Cell]:
    """The name, where, the counts, and ``right`` at the right edge; ``where`` is cut first."""
    right_text = "  ".join(one.text for one in right)
    left: list[Cell] = counts(picture) if picture is not None else []
    used = 6 + sum(width(one.text) + 2 for one in left) + width(right_text) + 3
    where = shorten(harmless(where), cells - used) if cells - used >= 4 else ""
    line = [Cell(" yopp ", STRONG)]
    for one in filter(None, [Cell(where, DIM) if where else None, *left]):
        line += [one, Cell("  ")]
    taken = sum(width(one.text) for one in line)
    line.append(Cell(" " * max(1, cells - taken - width(right_text) - 1)))
    for index, one in enumerate(right):
        line += [Cell("  "), one] if index else [one]
    return line


def second_line(picture: Picture | None, history: History, cells: int) -> list[Cell]:
    """The machine: CPU and memory as sparklines and figures, and pressure if the kernel reports it."""
    if picture is None:
        return []
    host = picture.host
    memory_percent = 100.0 * host.memory_used / host.memory_total if host.memory_total else 0.0
    cpu = f" {host.cpu_percent:3.0f}% of {host.cores}"
    memory = f" {_memory(host)}"
    pressure = []
    if host.psi_cpu >= 0:
        busy = Cell(f"{host.psi_cpu:.0f}%", WARN if host.psi_cpu >= 50 else "")
        pressure = [Cell("   PSI cpu ", DIM), busy]
        if host.psi_memory >= 1:
            pressure += [Cell(" mem ", DIM), Cell(f"{host.psi_memory:.0f}%", WARN)]
    fixed = len(f" CPU {cpu}   Mem {memory} ") + sum(len(one.text) for one in pressure)
    room = max(0, min(_SPARK_MOST, (cells - fixed) // 2))
    return [
        Cell(" CPU ", DIM),
        Cell(sparkline(history.host_cpu, room, 100.0), ACCENT),
        Cell(cpu, WARN if host.cpu_percent >= HOT else ""),
        Cell("   Mem ", DIM),
        Cell(sparkline(history.host_memory, room, float(host.memory_total or 1)), GOOD),
        Cell(memory, WARN if memory_percent >= HOT else ""),
        *pressure,
    ]


def _memory(host: HostFacts) -> str:
    return f"{host.memory_used / _GIB:.1f}/{host.memory_total / _GIB:.1f} GB"


Told = tuple[Cell, ...]


def of_node(node: NodeReport, picture: Picture) -> Told:
    """A node's state in full, the time since when it is silent, the capacity of its queue, its health."""
    told = [Cell(node.node_id, STRONG), Cell(" "), state_cell(state_text(node))]
    status = node.opportunistic
    if node.state is NodeState.DECOMMISSIONING:
        left = node.guaranteed_running + status.running + status.queued + node.paused
        still = f"{number_of(left, 'container')} {are(left)} left"
        told.append(Cell(f", nothing new is scheduled on it; {still}", WARN))
    elif node.state is NodeState.DECOMMISSIONED:
        told.append(Cell(", drained: press `n` to use it again", DIM))
    if not node.connected and node.state is NodeState.RUNNING:
        age = short_span(picture.taken_at_ms - node.last_heartbeat_ms)
        told.append(Cell(f" for {age}: this data is stale", WARN))
    if node.health_report:
        told.append(Cell(f"  {node.health_report}", WARN))
    if node.state in (NodeState.RUNNING, NodeState.DECOMMISSIONING):
        asked = f", the RM allows {node.queue_limit}" if node.queue_limit >= 0 else ""
        told.append(Cell(f"  {status.queued} of {status.queue_capacity} queued{asked}"))
        if status.closed_until_ms:
            told.append(Cell(f", none runs before {timestamp(status.closed_until_ms)}", WARN))
        if node.paused:
            told.append(Cell(f"  {node.paused} paused", WARN))
        total = f"  {vcores(node.total.vcores)}, {node.total.memory} MB"
        if node.total.others:
            total += f", {others_text(node)}"
        told.append(Cell(total + (f", labels {','.join(node.labels)}" if node.labels else ""), DIM))
    return tuple(told)


def of_container(one: ContainerReport, picture: Picture) -> Told:
    """A container's id in full, why it waits or how it ended, and its command."""
    told = [Cell(one.container_id, STRONG)]
    if not is_live(one):
        good = one.exit_status == 0
        last = last_line(one.diagnostics)
        told.append(Cell(f" ended: {exit_text(one)}", GOOD if good else BAD))
        if last and not good:
            told.append(Cell(f" {last}"))
    elif is_waiting(one):
        told += [Cell(f" {shown_state(one)}: "), _why(one, picture)]
    told.append(Cell(f"  {command_text(one)}", DIM))
    return tuple(told)


def _why(one: ContainerReport, picture: Picture) -> Cell:
    return Cell(
        why(one, picture.node(one.node_id)), WARN if one.state is not ContainerState.SCHEDULED else ""
    )


def of_waiting(one: ContainerReport, picture: Picture) -> Told:
    """A waiting container: why it waits first."""
    node = picture.node(one.node_id)
    queued = f", number {one.position} in the queue of {one.node_id}" if one.position and node else ""
    return (
        _why(one, picture),
        Cell(queued),
        Cell(f"  {one.container_id}", STRONG),
        Cell(f"  {command_text(one)}", DIM),
    )


def of_application(app: ApplicationReport, picture: Picture) -> Told:
    """An application's id in full, its user, its containers in words, and how it ended."""
    told = [
        Cell(app.application_id, STRONG),
        Cell(f" {app.name}", ACCENT),
        Cell(f"  {app.user}, queue {app.queue}"),
        Cell(f"  {counts_text(app)}"),
    ]
    last = last_line(diagnostics_text(app))
    if last and (app.state in FINAL_STATES or not app.containers_running):
        told.append(Cell(f"  {last}", WARN))
    return tuple(told)


def of_event(event: HistoryEvent, picture: Picture) -> Told:
    """The whole event, and its day: the row has the time."""
    return (
        Cell(f"{event.kind.value} ", STRONG),
        Cell(details(event)),
        Cell(f"  {subject(event)}  "),
        Cell(timestamp(event.t)[:10], DIM),
    )


T = TypeVar("T")
_PICTURES = ("spark", "bar")
_ANY = 1 << 10
"""More cells than any text needs."""


def frame_lines(picture: Picture, history: History, rows: int | None = None) -> list[str]:
    """The whole frame: a line about the cluster, nodes, live applications, containers; at most ``rows`` of
    each.
    """
    host = picture.host
    first = "  ".join(cell.text for cell in counts(picture))
    frame = [
        f"yopp  {timestamp(picture.taken_at_ms)}  {first}",
        f"CPU {host.cpu_percent:.0f}% of {host.cores}  Mem {_memory(host)}"
        + (f"  PSI cpu {host.psi_cpu:.0f}%" if host.psi_cpu >= 0 else ""),
    ]
    apps = [app for app in picture.applications if app.state not in FINAL_STATES]
    now = picture.taken_at_ms
    for title, found, columns in (
        ("nodes", picture.nodes, [_in_full(column) for column in NODE_COLUMNS]),
        ("applications", apps, application_columns(now, apps, _ANY)),
        ("containers", picture.containers, container_columns(picture, history, picture.containers, 1)),
    ):
        shown = found if rows is None else found[:rows]
        if not shown:
            continue
        frame.append("")
        frame += _table(shown, [one for one in columns if one.key not in _PICTURES])
        if len(shown) < len(found):
            frame.append(f"({len(found) - len(shown)} more {title})")
    return frame


def _in_full(column: TopColumn[NodeReport]) -> TopColumn[NodeReport]:
    """The column with full states: here they are not cut."""
    return replace(column, cell=lambda node: Cell(column.order(node))) if column.key == "state" else column


def _table(rows: Sequence[T], columns: Sequence[TopColumn[Any]]) -> list[str]:
    texts = [[harmless(column.cell(row).text) for column in columns] for row in rows]
    widths = [
        max(width(column.title), *(width(line[index]) for line in texts))
        for index, column in enumerate(columns)
    ]
    titles = [column.title for column in columns]
    return [
        " ".join(
            fitted(text, cells, right=column.numeric)
            for text, cells, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in [titles, *texts]
    ]


def _percent(value: float) -> float | None:
    return round(value, 1) if value >= 0 else None


def frame_document(picture: Picture, history: History) -> dict[str, Any]:
    """The frame as one JSON document, in the forms of the lists; present CPU measurements are under ``top``."""
    now = picture.taken_at_ms
    return {
        "top": {
            "t": now,
            "host": {
                "cpuPercent": round(picture.host.cpu_percent, 1),
                "cores": picture.host.cores,
                "memUsedMB": picture.host.memory_used >> 20,
                "memTotalMB": picture.host.memory_total >> 20,
            },
            "containers": [
                {
                    "id": one.container_id,
                    "cpuPercentOfQuota": _percent(measured(one, picture, history).cpu_percent),
                    "rssMB": round(one.usage.memory_bytes / (1 << 20), 1),
                }
                for one in picture.containers
            ],
        },
        **NODES.every(picture.nodes),
        **APPLICATIONS.every(picture.applications, now),
        **CONTAINERS.every(picture.containers, now),
    }
