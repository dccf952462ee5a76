"""Pictures of a job for ``yopp report``, drawn with Matplotlib (the extra ``report``) as SVG text.

The only module that imports it. It opens no window, writes no files and keeps no state: figures are made without
pyplot.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Sequence
from typing import Any

from ..errors import YoppError
from ..records.ids import numbered
from . import timeline
from .timeline import ContainerLine

KINDS = {
    timeline.GRANTED: ("granted", "#8a94a3", 0.25),
    timeline.QUEUED: ("queued", "#8a94a3", 0.5),
    "OPPORTUNISTIC": ("running, opportunistic", "#8a63d2", 1.0),
    "GUARANTEED": ("running, guaranteed", "#2e9e5b", 1.0),
    timeline.PAUSED: ("paused", "#e0a52e", 1.0),
}
"""States, and types of running containers: name, colour as on the pages, opacity. Waiting is drawn faint on
light and dark pages.
"""
RED, ORANGE = "#d64545", "#e07b39"
ENDED_BADLY = {"failed": (RED, "x"), "aborted": (RED, "x"), "preempted": (RED, "v"), "shed": (ORANGE, "4")}
"""Colour and marker of ends other than success."""
MOST_LINES = 2000
"""The timeline shows at most this many containers, the first ones: more lines could not be distinguished."""
WIDTH = 10.0
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "yopp",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
}


def available() -> Any:
    """The Matplotlib module. Raises YoppError, with the command to type, if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise YoppError(
            "a report needs Matplotlib",
            because="it is not installed: it is large, and nothing else of yopp needs it",
            hint="pip install matplotlib, where yopp is installed; `yopp report --json` needs none",
        ) from None
    # Suppress its warning that it cannot write its font cache.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    return matplotlib


def timeline_svg(found: Sequence[ContainerLine], begin: int) -> str:
    """A line for each container, by node and in order of grant: waiting, running by type, paused; a mark for a failed
    end."""
    shown = by_node(found[:MOST_LINES])
    height = min(14.0, 1.2 + 0.16 * len(shown))

    def draw(axes: Any) -> None:
        _bars(axes, shown, begin)
        _ends(axes, shown, begin)
        _nodes(axes, shown)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds since the job began")
        if len(shown) <= 40:
            axes.set_ylabel("containers")
            numbers = [numbered(line.container) for line in shown]
            axes.set_yticks(range(len(shown)), numbers)
        else:
            axes.set_ylabel(f"{len(shown)} containers")
            axes.set_yticks([])
        _legend(axes)

    return _svg(draw, height)


def by_node(found: Sequence[ContainerLine]) -> list[ContainerLine]:
    """The lines of each node together, the nodes in order of their ids' lengths and letters."""
    return sorted(found, key=lambda line: (len(line.node), line.node))


def _bars(axes: Any, shown: Sequence[ContainerLine], begin: int) -> None:
    """All segments of one colour are one path: a thousand containers stay a small file, quickly drawn."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    half = 0.4 if len(shown) <= 100 else 0.5
    corners: dict[str, list[tuple[float, float]]] = {}
    for row, line in enumerate(shown):
        for part in line.segments:
            kind = part.execution_type if part.state == timeline.RUNNING else part.state
            left, right = (part.begin - begin) / 1000, (part.end - begin) / 1000
            low, high = row - half, row + half
            corners.setdefault(kind, []).extend(
                ((left, low), (right, low), (right, high), (left, high), (left, low))
            )
    rectangle = (Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY)
    for kind, (name, colour, alpha) in KINDS.items():
        if points := corners.get(kind):
            path = Path(points, rectangle * (len(points) // 5))
            axes.add_patch(PathPatch(path, facecolor=colour, alpha=alpha, linewidth=0, label=name))
    axes.autoscale_view()


def _ends(axes: Any, shown: Sequence[ContainerLine], begin: int) -> None:
    for outcome, (colour, marker) in ENDED_BADLY.items():
        ends = [(row, line) for row, line in enumerate(shown) if line.outcome == outcome and line.segments]
        if ends:
            moments = [(line.segments[-1].end - begin) / 1000 for _, line in ends]
            style = {"marker": marker, "markersize": 5, "color": colour, "linestyle": "none"}
            axes.plot(moments, [row for row, _ in ends], label=outcome, **style)


def _nodes(axes: Any, shown: Sequence[ContainerLine]) -> None:
    """Each node's name at the right of its lines, and a rule between two nodes."""
    names = [line.node for line in shown]
    firsts = [row for row, name in enumerate(names) if row == 0 or name != names[row - 1]]
    for first, following in zip(firsts, [*firsts[1:], len(names)], strict=True):
        if first:
            axes.axhline(first - 0.5, color="#888888", linewidth=0.6)
        axes.annotate(
            names[first], xy=(1, (first + following - 1) / 2), xycoords=("axes fraction", "data"), xytext=(4, 0),
            textcoords="offset points", rotation=270 if following - first > 4 else 0, va="center", fontsize=8,
        )  # fmt: skip


def _legend(axes: Any) -> None:
    """A legend above the picture, only of what the picture shows."""
    _, labels = axes.get_legend_handles_labels()
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=max(1, min(7, len(labels))), frameon=False, fontsize=8
    )  # fmt: skip


def load_svg(found: Sequence[ContainerLine], begin: int, vcores: int) -> str:
    """Vcores in use by type beside the vcores of the nodes, and below, with a separate scale, the queued vcores."""
    queued = timeline.load(found, "OPPORTUNISTIC", timeline.QUEUED)

    def draw(axes: Any, below: Any = None) -> None:
        running = {kind: timeline.load(found, kind) for kind in ("GUARANTEED", "OPPORTUNISTIC")}
        moments = sorted({t for steps in running.values() for t, _ in steps})
        axes.stackplot(
            [(t - begin) / 1000 for t in moments],
            *(_sampled(steps, moments) for steps in running.values()),
            step="post",
            colors=[KINDS[kind][1] for kind in running],
            labels=[KINDS[kind][0] for kind in running],
        )
        if vcores:
            label = f"the nodes have {vcores}"
            axes.axhline(vcores, color="#888888", linewidth=0.8, linestyle="--", label=label)
        axes.set_ylabel("vcores in use")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        _legend(axes)
        if below is not None:
            _, colour, alpha = KINDS[timeline.QUEUED]
            seconds, vcores_queued = [(t - begin) / 1000 for t, _ in queued], [number for _, number in queued]
            below.fill_between(seconds, vcores_queued, step="post", color=colour, alpha=alpha, linewidth=0)
            below.set_ylabel("vcores queued")
            below.set_ylim(bottom=0)
        (axes if below is None else below).set_xlabel("seconds since the job began")

    return _svg(draw, 3.8 if queued else 2.6, panels=2 if queued else 1)


def _sampled(steps: Sequence[tuple[int, int]], moments: Sequence[int]) -> list[int]:
    """The value of a step function at each of the ``moments``; both are in order of time."""
    values, value, place = [], 0, 0
    for moment in moments:
        while place < len(steps) and steps[place][0] <= moment:
            value = steps[place][1]
            place += 1
        values.append(value)
    return values


def waits_svg(found: Sequence[ContainerLine]) -> str:
    """The distribution of waiting times for each type: the share of containers started after a given time."""

    def draw(axes: Any) -> None:
        for kind in ("GUARANTEED", "OPPORTUNISTIC"):
            waited = sorted(timeline.waits(found, kind))
            if waited:
                label = f"{kind.lower()} ({len(waited)})"
                axes.ecdf([one / 1000 for one in waited], color=KINDS[kind][1], label=label)
        axes.set_xlabel("seconds from eligible (requested) to start")
        axes.set_ylabel("share of containers")
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        if timeline.waits(found):  # Without a curve, no legend is needed.
            axes.legend(loc="lower right", frameon=False, fontsize=8)

    return _svg(draw, 2.6)


def _svg(draw: Any, height: float, panels: int = 1) -> str:
    """An ``<svg>`` of the drawing by ``draw`` on ``panels`` axes, one below the other; its text has the page's
    colour.
    """
    matplotlib = available()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(*figure.subplots(panels, sharex=True, squeeze=False).flat)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text, count=1)
    # Matplotlib draws text and axes in black: let the page choose the colour, so that it is readable in dark
    # mode.
    return text.replace("#000000", "currentColor")
