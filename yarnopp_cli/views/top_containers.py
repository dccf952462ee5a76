"""The columns of ``yopp top``'s Containers and Queue screens. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from executor.records import ContainerState, ExecutionType

from ..explain.snapshot import is_waiting
from ..records.reports import ContainerReport
from .cells import (
    ACCENT,
    BAD,
    DIM,
    PLAIN,
    STATE_TONES,
    STRONG,
    WARN,
    Cell,
    TopColumn,
    short_megabytes,
    short_span,
    state_cell,
)
from .containers import command_text, is_live, shown_state, since_ms
from .explain.reasons import why
from .explain.words import suffix
from .picture import Picture
from .sampling import History
from .spark import sparkline

_MIB = 1 << 20
_HOT = 90.0
_OUT_OF_MEMORY = -104
_REASON = 16
_BESIDE_REASON = 44
"""Cells of the Queue screen's columns whose width never changes, of the gaps, the gutter and a scrollbar."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One container's measured use beside what it was given: percent of its quota, -1 for not known."""

    cpu_percent: float
    memory_bytes: int


def cores_per_vcore(picture: Picture, node_id: str) -> float:
    """How much of the machine's CPU one vcore of a node stands for."""
    node = picture.node(node_id)
    if node is None or node.total.vcores <= 0:
        return 1.0
    return picture.host.cores / node.total.vcores


def quota_cores(report: ContainerReport, picture: Picture) -> float:
    """Of how many of the machine's cores a container's CPU is a part: its vcores', or one vcore's if it has none."""
    return max(1, report.resource.vcores) * cores_per_vcore(picture, report.node_id)


def measured(report: ContainerReport, picture: Picture, history: History) -> Measured:
    """Its use now: CPU from the last two measurements, in percent of its vcores' share of the machine."""
    cores = history.cores(report.container_id)
    percent = -1.0 if cores is None else 100.0 * cores / quota_cores(report, picture)
    return Measured(percent, report.usage.memory_bytes if is_live(report) else report.usage.memory_peak_bytes)


def cpu_line(report: ContainerReport, picture: Picture, history: History, cells: int) -> str:
    """The sparkline of its CPU, its quota the full height."""
    return sparkline(history.cpu(report.container_id), cells, quota_cores(report, picture))


def type_cell(report: ContainerReport) -> Cell:
    """G or O."""
    opportunistic = report.execution_type is ExecutionType.OPPORTUNISTIC
    return Cell("O" if opportunistic else "G", ACCENT if opportunistic else STRONG)


def container_state(report: ContainerReport) -> Cell:
    """The state; a container that its memory limit killed says OOM."""
    if report.state is ContainerState.DONE and report.exit_status == _OUT_OF_MEMORY:
        return Cell("OOM", BAD)
    state = shown_state(report)
    if state == "DONE":
        return Cell("DONE" if report.exit_status == 0 else f"EXIT {report.exit_status}", _done(report))
    return state_cell(state)


def _done(report: ContainerReport) -> str:
    return STATE_TONES["DONE"] if report.exit_status == 0 else BAD


def _id_width(reports: Sequence[ContainerReport]) -> int:
    return max((len(suffix(one.container_id)) for one in reports), default=0)


def container_columns(
    picture: Picture, history: History, reports: Sequence[ContainerReport], spark_cells: int
) -> tuple[TopColumn[ContainerReport], ...]:
    """The Containers screen; ``spark_cells`` is how wide the sparkline is."""
    now = picture.taken_at_ms

    def use(report: ContainerReport) -> Measured:
        return measured(report, picture, history)

    def cpu(report: ContainerReport) -> Cell:
        percent = use(report).cpu_percent
        if percent < 0 or not is_live(report):
            return Cell("-", DIM)
        return Cell(f"{percent:.0f}", WARN if percent >= _HOT else PLAIN)

    def memory(report: ContainerReport) -> Cell:
        used, limit = use(report).memory_bytes / _MIB, report.resource.memory
        text = f"{short_megabytes(used) if used else '-'}/{short_megabytes(limit)}"
        return Cell(text, WARN if limit and used >= _HOT / 100 * limit and is_live(report) else PLAIN)

    def memory_order(report: ContainerReport) -> int:
        return use(report).memory_bytes

    return (
        TopColumn(
            "id",
            "Id",
            max(7, _id_width(reports)),
            lambda one: Cell(suffix(one.container_id), STRONG),
            lambda one: one.container_id,
        ),
        TopColumn(
            "app", "App", 5, lambda one: Cell(suffix(one.application_id)), lambda one: one.application_id
        ),
        TopColumn("type", "T", 1, type_cell, lambda one: one.execution_type.value),
        TopColumn("state", "State", 9, container_state, shown_state),
        TopColumn(
            "since",
            "Since",
            5,
            lambda one: Cell(short_span(now - since_ms(one)) if since_ms(one) else "-"),
            lambda one: now - since_ms(one) if since_ms(one) else -1,
            numeric=True,
        ),
        TopColumn(
            "position",
            "Pos",
            3,
            lambda one: Cell(str(one.position)) if one.position else Cell("-", DIM),
            lambda one: one.position,
            numeric=True,
        ),
        TopColumn("cpu", "CPU%", 4, cpu, lambda one: use(one).cpu_percent, numeric=True),
        TopColumn(
            "spark",
            "60 s",
            spark_cells,
            lambda one: Cell(cpu_line(one, picture, history, spark_cells), ACCENT),
            lambda one: use(one).cpu_percent,
        ),
        TopColumn("memory", "RSS/limit", 11, memory, memory_order, numeric=True),
        TopColumn(
            "command",
            "Command",
            12,
            lambda one: Cell(command_text(one)),
            command_text,
            flexible=True,
        ),
    )


def queue_columns(
    picture: Picture, rows: Sequence[ContainerReport], cells: int
) -> tuple[TopColumn[ContainerReport], ...]:
    """The Queue screen in ``cells``: what waits where, its place, its age, and why, in short where it must be."""
    now = picture.taken_at_ms
    node_width = max(12, min(20, max((len(one.node_id) for one in rows), default=0)))
    id_width = max(7, _id_width(rows))
    room = max(_REASON, cells - _BESIDE_REASON - node_width - id_width)
    return (
        TopColumn("node", "Node", node_width, lambda one: Cell(one.node_id), lambda one: one.node_id),
        TopColumn(
            "position",
            "Pos",
            3,
            lambda one: Cell(str(one.position)) if one.position else Cell("-", DIM),
            lambda one: one.position,
            numeric=True,
        ),
        TopColumn(
            "id",
            "Id",
            id_width,
            lambda one: Cell(suffix(one.container_id), STRONG),
            lambda one: one.container_id,
        ),
        TopColumn(
            "app", "App", 5, lambda one: Cell(suffix(one.application_id)), lambda one: one.application_id
        ),
        TopColumn("type", "T", 1, type_cell, lambda one: one.execution_type.value),
        TopColumn("state", "State", 9, container_state, shown_state),
        TopColumn(
            "age",
            "Age",
            4,
            lambda one: Cell(short_span(now - since_ms(one)) if since_ms(one) else "-"),
            lambda one: now - since_ms(one) if since_ms(one) else -1,
            numeric=True,
        ),
        TopColumn(
            "needs",
            "Needs",
            8,
            lambda one: Cell(f"{short_megabytes(one.resource.memory)} {one.resource.vcores}c"),
            lambda one: (one.resource.memory, one.resource.vcores),
            numeric=True,
        ),
        TopColumn(
            "reason",
            "Why it waits",
            _REASON,
            lambda one: Cell(why(one, picture, room)),
            lambda one: why(one, picture),
            flexible=True,
        ),
    )


def queue_rows(picture: Picture) -> list[ContainerReport]:
    """What waits, node by node: paused ones first, since they go on first, then the queue in its order."""
    waiting = [one for one in picture.containers if is_waiting(one)]
    return sorted(waiting, key=lambda one: (one.node_id, one.position or 0, one.queued_at_ms))
