"""The lines above every screen of ``yopp top``, as runs of cells. Pure."""

from __future__ import annotations

from ..records.reports import NodeState
from .cells import ACCENT, BAD, DIM, GOOD, STRONG, WARN, Cell
from .picture import Picture
from .sampling import History
from .spark import sparkline
from .text import harmless, shorten, width

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
    nodes = f"{info.nodes_running} node" + ("" if info.nodes_running == 1 else "s")
    lost = [Cell(f"{info.nodes_lost} lost", BAD)] if info.nodes_lost else []
    silent = sum(1 for node in picture.nodes if node.state is NodeState.RUNNING and not node.connected)
    if silent:
        lost.append(Cell(f"{silent} silent", WARN))
    return [
        Cell(nodes),
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
    for one in [*([Cell(where, DIM)] if where else []), *left]:
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
        pressure = [
            Cell("   PSI cpu ", DIM),
            Cell(f"{host.psi_cpu:.0f}%", WARN if host.psi_cpu >= 50 else ""),
        ]
        if host.psi_memory >= 1:
            pressure += [Cell(" mem ", DIM), Cell(f"{host.psi_memory:.0f}%", WARN)]
    fixed = (
        len(" CPU ") + len(cpu) + len("   Mem ") + len(memory) + sum(len(one.text) for one in pressure) + 1
    )
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
