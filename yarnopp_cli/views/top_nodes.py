"""The columns of ``yopp top``'s Nodes screen: the compact ones, and those of YARN's page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..records.reports import NodeReport, NodeState
from .cells import DIM, GOOD, STRONG, WARN, Cell, TopColumn, short_megabytes, short_span, state_cell
from .nodes import cpu_percent, memory_percent, queue_text, state_text

_BUSY = 90.0


_SHORT_STATES = {
    "DECOMMISSIONING": "DRAINING",
    "DECOMMISSIONED": "DRAINED",
    "RUNNING (silent)": "SILENT",
}


def short_state(node: NodeReport) -> Cell:
    """Its state in nine cells, and in the tone of the state."""
    state = state_text(node)
    return Cell(_SHORT_STATES.get(state, state), state_cell(state).tone)


def _count(number: int) -> Cell:
    return Cell(str(number), DIM if number == 0 else "")


def _percent(value: float) -> Cell:
    return Cell(f"{value:.0f}", WARN if value >= _BUSY else "")


def compact_columns(rows: Sequence[NodeReport]) -> tuple[TopColumn[NodeReport], ...]:
    """``COMPACT``, its queue as wide as the nodes' longest."""
    longest = max((len(queue_text(node)) for node in rows), default=0)
    return tuple(
        replace(column, width=max(column.width, longest)) if column.key == "queue" else column
        for column in COMPACT
    )


COMPACT: tuple[TopColumn[NodeReport], ...] = (
    TopColumn(
        "node", "Node", 16, lambda node: Cell(node.node_id, STRONG), lambda node: node.node_id, flexible=True
    ),
    TopColumn("state", "State", 9, short_state, state_text),
    TopColumn(
        "runningG",
        "Run G",
        5,
        lambda node: _count(node.num_containers),
        lambda node: node.num_containers,
        numeric=True,
    ),
    TopColumn(
        "runningO",
        "Run O",
        5,
        lambda node: _count(node.opportunistic.running),
        lambda node: node.opportunistic.running,
        numeric=True,
    ),
    TopColumn(
        "queue",
        "Queue",
        6,
        lambda node: Cell(queue_text(node), DIM if not node.opportunistic.queued else ""),
        lambda node: node.opportunistic.queued,
        numeric=True,
    ),
    TopColumn(
        "memG",
        "Mem G",
        5,
        lambda node: Cell(short_megabytes(node.used.memory)),
        lambda node: node.used.memory,
        numeric=True,
    ),
    TopColumn(
        "memO",
        "Mem O",
        5,
        lambda node: Cell(short_megabytes(node.opportunistic.memory_used)),
        lambda node: node.opportunistic.memory_used,
        numeric=True,
    ),
    TopColumn(
        "vcG",
        "VC G",
        4,
        lambda node: _count(node.used.vcores),
        lambda node: node.used.vcores,
        numeric=True,
    ),
    TopColumn(
        "vcO",
        "VC O",
        4,
        lambda node: _count(node.opportunistic.vcores_used),
        lambda node: node.opportunistic.vcores_used,
        numeric=True,
    ),
    TopColumn("cpu", "CPU%", 4, lambda node: _percent(cpu_percent(node)), cpu_percent, numeric=True),
    TopColumn("memory", "Mem%", 4, lambda node: _percent(memory_percent(node)), memory_percent, numeric=True),
)
"""What fits into 80 columns."""


def _gigabytes(megabytes: int) -> Cell:
    """As YARN's page has it: whole units, GB where they are."""
    if megabytes % 1024 == 0:
        return Cell(f"{megabytes // 1024} GB")
    return Cell(f"{megabytes} MB" if megabytes < 1024 else f"{megabytes / 1024:.2f} GB")


def yarn_columns(now_ms: int) -> tuple[TopColumn[NodeReport], ...]:
    """YARN's Nodes page with opportunistic containers enabled (``NodesPage.java``): its titles, in its order.

    The node's own id stands before them, since it stays in place while the others are scrolled.
    """
    return (
        COMPACT[0],
        TopColumn(
            "labels",
            "Node Labels",
            11,
            lambda node: Cell(",".join(node.labels)),
            lambda node: ",".join(node.labels),
        ),
        TopColumn("rack", "Rack", 14, lambda node: Cell(node.rack), lambda node: node.rack),
        TopColumn(
            "state",
            "Node State",
            15,
            lambda node: state_cell(node.state.value),
            lambda node: node.state.value,
        ),
        TopColumn("address", "Node Address", 18, lambda node: Cell(node.node_id), lambda node: node.node_id),
        TopColumn("http", "Node HTTP Address", 18, lambda node: Cell(_http(node)), _http),
        TopColumn(
            "heartbeat",
            "Last health-update",
            18,
            lambda node: Cell(short_span(now_ms - node.last_heartbeat_ms) + " ago"),
            lambda node: node.last_heartbeat_ms,
        ),
        TopColumn(
            "health",
            "Health-report",
            16,
            lambda node: Cell(node.health_report, GOOD if not node.health_report else WARN),
            lambda node: node.health_report,
        ),
        *_yarn_guaranteed(),
        *_yarn_opportunistic(),
        TopColumn("version", "Version", 8, lambda node: Cell(node.version), lambda node: node.version),
    )


def _http(node: NodeReport) -> str:
    return node.http_address if node.http_address and node.state is NodeState.RUNNING else "N/A"


def _yarn_guaranteed() -> tuple[TopColumn[NodeReport], ...]:
    return (
        _number("runningG", "Running Containers (G)", lambda node: node.num_containers),
        _memory("memG", "Mem Used (G)", lambda node: node.used.memory),
        _memory("availG", "Mem Avail (G)", lambda node: max(0, node.total.memory - node.used.memory)),
        _number("memory", "Phys Mem Used %", lambda node: round(memory_percent(node))),
        _number("vcG", "VCores Used (G)", lambda node: node.used.vcores),
        _number("vcAvailG", "VCores Avail (G)", lambda node: max(0, node.total.vcores - node.used.vcores)),
        _number("cpu", "Phys VCores Used %", lambda node: round(cpu_percent(node))),
    )


def _yarn_opportunistic() -> tuple[TopColumn[NodeReport], ...]:
    return (
        _number("runningO", "Running Containers (O)", lambda node: node.opportunistic.running),
        _memory("memO", "Mem Used (O)", lambda node: node.opportunistic.memory_used),
        _number("vcO", "VCores Used (O)", lambda node: node.opportunistic.vcores_used),
        _number("queue", "Queued Containers", lambda node: node.opportunistic.queued),
    )


def _number(key: str, title: str, value: Callable[[NodeReport], int]) -> TopColumn[NodeReport]:
    return TopColumn(key, title, len(title), lambda node: _count(value(node)), value, numeric=True)


def _memory(key: str, title: str, value: Callable[[NodeReport], int]) -> TopColumn[NodeReport]:
    return TopColumn(key, title, len(title), lambda node: _gigabytes(value(node)), value, numeric=True)
