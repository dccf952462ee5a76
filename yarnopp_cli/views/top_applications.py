"""The columns of ``yopp top``'s Applications screen: the compact ones, and those of YARN's page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.reports import FINAL_STATES, ApplicationReport
from .applications import elapsed_ms
from .cells import ACCENT, DIM, STRONG, Cell, TopColumn, short_megabytes, short_span, state_cell
from .explain.words import suffix
from .spark import bar
from .text import timestamp, width

BAR = "█▒░·✗!"
"""Running, paused, queued (and pending), done, preempted, failed."""


def counted(app: ApplicationReport) -> tuple[tuple[int, str], ...]:
    """Its containers by state, in the order of the bar."""
    return (
        (app.containers_running, "run"),
        (app.containers_paused, "paused"),
        (app.containers_queued + app.pending_containers, "queued"),
        (app.containers_done, "done"),
        (app.containers_preempted, "preempted"),
        (app.containers_failed, "failed"),
    )


_STEADY = 37
"""Cells of the columns whose width never changes, of the gaps, the gutter and a scrollbar."""

_LEAST = 20
"""Cells of name and bar, whatever the counts are."""


def _widths(rows: Sequence[ApplicationReport], cells: int) -> tuple[int, int, int, int]:
    """Of id, name, bar and counts in ``cells``: what must be read first has its room, the bar what is left."""
    id_width = max((len(suffix(app.application_id)) for app in rows), default=5)
    words = max((len(counts_cell(app).text) for app in rows), default=0)
    room = max(36, cells - _STEADY - id_width)
    if words > room - _LEAST:  # then their marks stand for words, and leave room for names
        words = max((len(counts_cell(app, 0).text) for app in rows), default=0)
    counts = min(max(words, 14), room - _LEAST)
    name = min(max([10, *(width(app.name) for app in rows)]), max(10, room - counts - 10))
    return id_width, name, max(10, min(30, room - counts - name)), counts


def counts_cell(app: ApplicationReport, cells: int = 1 << 10) -> Cell:
    """The counts in words, the empty ones left out; with the bar's characters for words where these have no room."""
    text = " ".join(f"{number} {word}" for number, word in counted(app) if number)
    if len(text) > cells:
        text = " ".join(
            f"{mark}{number}" for mark, (number, _) in zip(BAR, counted(app), strict=True) if number
        )
    return Cell(text or "-", "" if text else DIM)


def compact_columns(
    now_ms: int, rows: Sequence[ApplicationReport], cells: int
) -> tuple[TopColumn[ApplicationReport], ...]:
    """What fits into ``cells``, which are 80 at least."""
    id_width, name_width, bar_cells, counts_width = _widths(rows, cells)
    return (
        TopColumn(
            "id",
            "App",
            id_width,
            lambda app: Cell(suffix(app.application_id), STRONG),
            lambda app: app.application_id,
        ),
        TopColumn("name", "Name", name_width, lambda app: Cell(app.name), lambda app: app.name),
        TopColumn("state", "State", 8, lambda app: state_cell(app.state.value), lambda app: app.state.value),
        TopColumn("final", "Final", 9, _final, lambda app: app.final_status.value),
        TopColumn(
            "progress",
            "Done%",
            5,
            lambda app: Cell(f"{100 * app.progress:.0f}"),
            lambda app: app.progress,
            numeric=True,
        ),
        TopColumn(
            "time",
            "Time",
            4,
            lambda app: Cell(short_span(elapsed_ms(app, now_ms))),
            lambda app: elapsed_ms(app, now_ms),
            numeric=True,
        ),
        TopColumn(
            "bar",
            "Containers",
            bar_cells,
            lambda app: Cell(bar([number for number, _ in counted(app)], BAR, bar_cells), ACCENT),
            lambda app: sum(number for number, _ in counted(app)),
        ),
        TopColumn(
            "counts",
            "",
            counts_width,
            lambda app: counts_cell(app, counts_width),
            lambda app: sum(number for number, _ in counted(app)),
            flexible=True,
        ),
    )


def _final(app: ApplicationReport) -> Cell:
    return state_cell(app.final_status.value) if app.state in FINAL_STATES else Cell("-", DIM)


def yarn_columns() -> tuple[TopColumn[ApplicationReport], ...]:
    """YARN's applications page: its titles, in its order."""
    return (
        TopColumn(
            "id", "ID", 30, lambda app: Cell(app.application_id, STRONG), lambda app: app.application_id
        ),
        TopColumn("user", "User", 8, lambda app: Cell(app.user), lambda app: app.user),
        TopColumn("name", "Name", 16, lambda app: Cell(app.name), lambda app: app.name),
        TopColumn(
            "type",
            "Application Type",
            16,
            lambda app: Cell(app.application_type),
            lambda app: app.application_type,
        ),
        TopColumn(
            "tags",
            "Application Tags",
            16,
            lambda app: Cell(",".join(app.tags)),
            lambda app: ",".join(app.tags),
        ),
        TopColumn("queue", "Queue", 10, lambda app: Cell(app.queue), lambda app: app.queue),
        TopColumn(
            "priority",
            "Application Priority",
            20,
            lambda app: Cell(str(app.priority)),
            lambda app: app.priority,
            numeric=True,
        ),
        TopColumn(
            "started",
            "StartTime",
            24,
            lambda app: Cell(timestamp(app.submitted_at_ms)),
            lambda app: app.submitted_at_ms,
        ),
        TopColumn(
            "launched",
            "LaunchTime",
            24,
            lambda app: Cell(timestamp(app.started_at_ms)),
            lambda app: app.started_at_ms,
        ),
        TopColumn(
            "finished",
            "FinishTime",
            24,
            lambda app: Cell(timestamp(app.finished_at_ms)),
            lambda app: app.finished_at_ms,
        ),
        TopColumn("state", "State", 10, lambda app: state_cell(app.state.value), lambda app: app.state.value),
        TopColumn("final", "FinalStatus", 11, _final, lambda app: app.final_status.value),
        TopColumn(
            "running",
            "Running Containers",
            18,
            lambda app: Cell(str(app.containers_running)),
            lambda app: app.containers_running,
            numeric=True,
        ),
        TopColumn(
            "vcores",
            "Allocated CPU VCores",
            20,
            lambda app: Cell(str(app.allocated.vcores)),
            lambda app: app.allocated.vcores,
            numeric=True,
        ),
        TopColumn(
            "memory",
            "Allocated Memory MB",
            19,
            lambda app: Cell(str(app.allocated.memory)),
            lambda app: app.allocated.memory,
            numeric=True,
        ),
        TopColumn(
            "progress",
            "Progress",
            8,
            lambda app: Cell(f"{100 * app.progress:.0f}%"),
            lambda app: app.progress,
            numeric=True,
        ),
    )


def memory_text(app: ApplicationReport) -> str:
    """What it holds now."""
    return f"{short_megabytes(app.allocated.memory)} {app.allocated.vcores}c"
