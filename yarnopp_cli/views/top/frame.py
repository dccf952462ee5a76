"""One frame of ``yopp top`` without a terminal: plain lines, nothing cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...explain.snapshot import Picture
from ...records.reports import FINAL_STATES, NodeReport
from ..applications import APPLICATIONS
from ..columns import Cell, TopColumn
from ..containers import CONTAINERS
from ..nodes import NODES
from ..text import fitted, harmless, timestamp, width
from .lines import counts
from .sampling import History
from .tables import NODE_COLUMNS, application_columns, container_columns, measured

T = TypeVar("T")
_PICTURES = ("spark", "bar")
_ANY = 1 << 10
"""Cells that are enough for everything."""


def lines(picture: Picture, history: History, rows: int | None = None) -> list[str]:
    """The whole frame: the cluster in a line, nodes, live applications, containers; at most ``rows`` of each."""
    host = picture.host
    memory = f"{host.memory_used / (1 << 30):.1f}/{host.memory_total / (1 << 30):.1f} GB"
    first = "  ".join(cell.text for cell in counts(picture))
    frame = [
        f"yopp  {timestamp(picture.taken_at_ms)}  {first}",
        f"CPU {host.cpu_percent:.0f}% of {host.cores}  Mem {memory}"
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
    """States are not cut here, so they need not be short."""
    return column._replace(cell=lambda node: Cell(column.order(node))) if column.key == "state" else column


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


def document(picture: Picture, history: History) -> dict[str, Any]:
    """The same as one JSON document, in the forms of the lists; measured CPU of this moment under ``top``."""
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
