"""Pictures of a job for ``yopp report``, drawn with Matplotlib (the extra ``report``) as SVG text.

The only module that imports it. No window, no files, no state of its own: figures are made without pyplot.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Sequence
from typing import Any

from .errors import YoppError
from .views import timeline
from .views.timeline import Line

COLOURS = {
    timeline.GRANTED: "#c9ced6",
    timeline.QUEUED: "#e8b33f",
    timeline.PAUSED: "#a06cd5",
    "GUARANTEED": "#2f6fdb",
    "OPPORTUNISTIC": "#2e9e6b",
}
ENDED_BADLY = {"failed": "#d64545", "preempted": "#d64545", "shed": "#e07b39", "aborted": "#d64545"}
MOST_LINES = 2000
"""Containers in the timeline: the first so many; beyond that nobody can tell the lines apart."""
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
    """Matplotlib. Raises YoppError with the line to type where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise YoppError(
            "a report needs Matplotlib",
            because="it is not installed: it is large, and nothing else of yopp needs it",
            hint="pip install 'yopp[report]' (or: pip install matplotlib); `yopp report --json` needs none",
        ) from None
    logging.getLogger("matplotlib").setLevel(
        logging.ERROR
    )  # where it may not keep a list of fonts is its own affair
    return matplotlib


def timeline_svg(found: Sequence[Line], begin: int) -> str:
    """Every container a line, in order of grant: waiting, running by type, paused; a mark where it ended badly."""
    shown = found[:MOST_LINES]
    height = min(14.0, 1.2 + 0.16 * len(shown))

    def draw(axes: Any) -> None:
        for row, line in enumerate(shown):
            for part in line.segments:
                colour = COLOURS[part.execution_type if part.state == timeline.RUNNING else part.state]
                spans = [((part.begin - begin) / 1000, (part.end - part.begin) / 1000)]
                axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=colour, linewidth=0)
            if line.outcome in ENDED_BADLY and line.segments:
                end = (line.segments[-1].end - begin) / 1000
                axes.plot(
                    [end], [row], marker="x", markersize=5, color=ENDED_BADLY[line.outcome], linestyle="none"
                )
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds since the job began")
        axes.set_ylabel("containers")
        if len(shown) <= 40:
            axes.set_yticks(
                range(len(shown)), [line.container.rpartition("_")[2].lstrip("0") or "0" for line in shown]
            )
        _legend(axes)

    return _svg(draw, height)


def _legend(axes: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = {
        timeline.GRANTED: "granted",
        timeline.QUEUED: "queued",
        "OPPORTUNISTIC": "running, opportunistic",
        "GUARANTEED": "running, guaranteed",
        timeline.PAUSED: "paused",
    }
    handles: list[Any] = [Patch(color=COLOURS[key], label=label) for key, label in names.items()]
    handles.append(
        Line2D([], [], marker="x", linestyle="none", color=ENDED_BADLY["failed"], label="failed or preempted")
    )
    axes.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=6, frameon=False, fontsize=8
    )


def load_svg(found: Sequence[Line], begin: int, vcores: int) -> str:
    """Vcores that ran by type, and those that waited in queues, over time."""

    def draw(axes: Any) -> None:
        kinds = (("GUARANTEED", timeline.RUNNING), ("OPPORTUNISTIC", timeline.RUNNING))
        queued = [*timeline.load(found, "OPPORTUNISTIC", timeline.QUEUED)]
        moments = sorted({t for kind, state in kinds for t, _ in timeline.load(found, kind, state)})
        stacked = [[_at(timeline.load(found, kind, state), t) for t in moments] for kind, state in kinds]
        seconds = [(t - begin) / 1000 for t in moments]
        axes.stackplot(
            seconds,
            *stacked,
            step="post",
            colors=[COLOURS[kind] for kind, _ in kinds],
            labels=[f"running, {kind.lower()}" for kind, _ in kinds],
        )
        if queued:
            axes.step(
                [(t - begin) / 1000 for t, _ in queued],
                [number for _, number in queued],
                where="post",
                color=COLOURS[timeline.QUEUED],
                label="queued",
            )
        if vcores:
            axes.axhline(vcores, color="#888888", linewidth=0.8, linestyle="--", label="of the nodes")
        axes.set_xlabel("seconds since the job began")
        axes.set_ylabel("vcores")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=8)

    return _svg(draw, 2.8)


def _at(steps: Sequence[tuple[int, int]], moment: int) -> int:
    value = 0
    for t, number in steps:
        if t > moment:
            break
        value = number
    return value


def waits_svg(found: Sequence[Line]) -> str:
    """The share of containers that had started after so long, for each type: the distribution of waiting."""

    def draw(axes: Any) -> None:
        for kind in ("GUARANTEED", "OPPORTUNISTIC"):
            waited = sorted(timeline.waits(found, kind))
            if waited:
                axes.ecdf(
                    [one / 1000 for one in waited],
                    color=COLOURS[kind],
                    label=f"{kind.lower()} ({len(waited)})",
                )
        axes.set_xlabel("seconds from grant to start")
        axes.set_ylabel("share of containers")
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        axes.legend(loc="lower right", frameon=False, fontsize=8)

    return _svg(draw, 2.6)


def _svg(draw: Any, height: float) -> str:
    """What ``draw`` puts on axes, as an ``<svg>`` element whose text takes the page's colour."""
    matplotlib = available()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text, count=1)
    # Black is the library's colour for text and axes: let the page decide, so that it reads in the dark too.
    return text.replace("#000000", "currentColor")
