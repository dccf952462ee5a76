"""The lines above and below the tables of ``yopp top``: the cluster and the machine, a row in full. Pure."""

from __future__ import annotations

from executor.records import ContainerState

from ...explain.snapshot import Picture, is_waiting
from ...records.history import HistoryEvent
from ...records.reports import FINAL_STATES, ApplicationReport, ContainerReport, NodeReport, NodeState
from ..applications import counts_text
from ..columns import ACCENT, BAD, DIM, GOOD, STRONG, WARN, Cell, state_cell
from ..containers import command_text, exit_text, is_live, shown_state
from ..events import details, subject
from ..explain.reasons import why
from ..explain.words import are
from ..nodes import state_text
from ..text import harmless, number_of, short_span, shorten, timestamp, vcores, width
from .sampling import History, sparkline

_GIB = 1 << 30
_HOT = 90.0
_SPARK_MOST = 40


def counts(picture: Picture) -> list[Cell]:
    """How many nodes and containers there are, each with its word or letter."""
    info = picture.info
    guaranteed = sum(node.num_containers for node in picture.nodes)
    opportunistic = sum(node.opportunistic.running for node in picture.nodes)
    queued = sum(node.opportunistic.queued for node in picture.nodes)
    paused = sum(node.opportunistic.paused for node in picture.nodes)
    lost = [Cell(f"{info.nodes_lost} lost", BAD)] if info.nodes_lost else []
    silent = sum(1 for node in picture.nodes if node.state is NodeState.RUNNING and not node.connected)
    if silent:
        lost.append(Cell(f"{silent} silent", WARN))
    return [
        Cell(number_of(info.nodes_running, "node")),
        *lost,
        Cell(f"{guaranteed} G", STRONG if guaranteed else DIM),
        Cell(f"{opportunistic} O", ACCENT if opportunistic else DIM),
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
    """The machine: CPU and memory as sparklines and figures, and pressure where the kernel tells it."""
    if picture is None:
        return []
    host = picture.host
    memory_percent = 100.0 * host.memory_used / host.memory_total if host.memory_total else 0.0
    cpu = f" {host.cpu_percent:3.0f}% of {host.cores}"
    memory = f" {host.memory_used / _GIB:.1f}/{host.memory_total / _GIB:.1f} GB"
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
        Cell(cpu, WARN if host.cpu_percent >= _HOT else ""),
        Cell("   Mem ", DIM),
        Cell(sparkline(history.host_memory, room, float(host.memory_total or 1)), GOOD),
        Cell(memory, WARN if memory_percent >= _HOT else ""),
        *pressure,
    ]


Told = tuple[Cell, ...]


def of_node(node: NodeReport, picture: Picture) -> Told:
    """Its state in full, since when it is silent, what its queue may hold, its health."""
    told = [Cell(node.node_id, STRONG), Cell(" "), state_cell(state_text(node))]
    status = node.opportunistic
    if node.state is NodeState.DECOMMISSIONING:
        left = node.num_containers + status.running + status.queued
        still = f"{number_of(left, 'container')} {are(left)} left"
        told.append(Cell(f", gets nothing new; {still}", WARN))
    elif node.state is NodeState.DECOMMISSIONED:
        told.append(Cell(", drained: `n` uses it again", DIM))
    if not node.connected and node.state is NodeState.RUNNING:
        age = short_span(picture.taken_at_ms - node.last_heartbeat_ms)
        told.append(Cell(f" for {age}: this data is stale", WARN))
    if node.health_report:
        told.append(Cell(f"  {node.health_report}", WARN))
    if node.state in (NodeState.RUNNING, NodeState.DECOMMISSIONING):
        asked = f", the RM asks for {node.queue_limit} at most" if node.queue_limit >= 0 else ""
        told.append(Cell(f"  {status.queued} of {status.queue_capacity} queued{asked}"))
        if status.paused:
            told.append(Cell(f"  {status.paused} paused", WARN))
        total = f"  {vcores(node.total.vcores)}, {node.total.memory} MB"
        told.append(Cell(total + (f", labels {','.join(node.labels)}" if node.labels else ""), DIM))
    return tuple(told)


def of_container(one: ContainerReport, picture: Picture) -> Told:
    """Its id in full, why it waits or how it ended, and what it runs."""
    told = [Cell(one.container_id, STRONG)]
    if not is_live(one):
        good = one.exit_status == 0
        last = one.diagnostics.strip().rpartition("\n")[2]
        told.append(Cell(f" ended: {exit_text(one)}", GOOD if good else BAD))
        if last and not good:
            told.append(Cell(f" {last}"))
    elif is_waiting(one):
        told += [Cell(f" {shown_state(one)}: "), _why(one, picture)]
    told.append(Cell(f"  {command_text(one)}", DIM))
    return tuple(told)


def _why(one: ContainerReport, picture: Picture) -> Cell:
    return Cell(why(one, picture), WARN if one.state is not ContainerState.SCHEDULED else "")


def of_waiting(one: ContainerReport, picture: Picture) -> Told:
    """Why it waits, first of all."""
    node = picture.node(one.node_id)
    queued = f", number {one.position} in the queue of {one.node_id}" if one.position and node else ""
    return (
        _why(one, picture),
        Cell(queued),
        Cell(f"  {one.container_id}", STRONG),
        Cell(f"  {command_text(one)}", DIM),
    )


def of_application(app: ApplicationReport, picture: Picture) -> Told:
    """Its id in full, whose it is, its containers in words, and how it ended."""
    told = [
        Cell(app.application_id, STRONG),
        Cell(f" {app.name}", ACCENT),
        Cell(f"  {app.user}, queue {app.queue}"),
        Cell(f"  {counts_text(app)}"),
    ]
    last = app.diagnostics.strip().rpartition("\n")[2]
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
