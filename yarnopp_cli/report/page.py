"""The page of ``yopp report``: one self-contained HTML document. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..records.reports import FINAL_STATES, ApplicationReport, NodeReport
from ..records.times import timestamp
from ..views.applications import counts_text, diagnostics_text, exit_code
from ..views.html import Html, esc, join, tag
from ..views.text import number_of, span
from .timeline import GRANTED, PAUSED, RUNNING, ContainerLine

MOST_ROWS = 5000
OPEN_ROWS = 100
"""A longer table is collapsed until the reader opens it."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2733;--paper:#fff;--soft:#667;--rule:#d8dde4}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--paper:#15191f;--soft:#9aa4b2;--rule:#333b46}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:72rem;
padding:1.5rem 1rem}
h1{font-size:1.35rem;margin:0 0 .2rem;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}
svg text{fill:currentColor}
p,figcaption{color:var(--soft);margin:.2rem 0}figure{margin:0}svg{width:100%;height:auto;display:block}
code{overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem;margin:1rem 0}
summary{cursor:pointer;color:var(--soft);margin:.3rem 0}
@media(max-width:700px){dl{grid-template-columns:1fr 1fr}}
@media(max-width:700px){figure{overflow-x:auto}figure svg{width:44rem}figcaption{position:sticky;left:0}}
dl div{display:flex;flex-direction:column;justify-content:space-between}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.1rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--rule);white-space:nowrap}
td.n,th.n{text-align:right}
"""


def page(
    app: ApplicationReport,
    nodes: Sequence[NodeReport],
    found: Sequence[ContainerLine],
    numbers: dict[str, Any],
    pictures: Sequence[tuple[str, str, str]],
    notes: Sequence[str] = (),
) -> str:
    """The document. ``pictures`` are (title, caption, svg); ``notes`` are paragraphs at the end."""
    name = join([app.name, " ", tag("small", app.application_id)])
    about = f"{_state(app)} · submitted {timestamp(app.submitted_at_ms)} by {app.user} · {counts_text(app)}"
    body = [tag("h1", name), tag("p", about), tag("p", tag("code", app.command_line))]
    body.append(_figures(numbers, len(nodes), ended=app.state in FINAL_STATES))
    if why := diagnostics_text(app):
        body.append(tag("p", why))
    for title, caption, svg in pictures:
        body += [tag("h2", title), tag("figure", join([Html(svg), tag("figcaption", caption)]))]
    body += [tag("h2", "Containers"), _table(found), *(tag("p", note) for note in notes)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{esc(app.name)} · {esc(app.application_id)}</title><style>{_STYLE}</style></head>"
        f"<body>{join(body)}</body></html>\n"
    )


def _state(app: ApplicationReport) -> str:
    """The application's state; its final status and exit code if it has ended."""
    if app.state not in FINAL_STATES:
        return app.state.value
    return f"{app.state.value} {app.final_status.value}, exit {exit_code(app)}"


def _figures(numbers: dict[str, Any], nodes: int, *, ended: bool) -> Html:
    outcomes, used, times = numbers["outcomes"], numbers["utilisation"], numbers["pauses"]
    paused = f"{'once' if times == 1 else f'{times} times'}, {span(numbers['pausedMs'])}"
    told = (
        ("Took" if ended else "So far", span(numbers["elapsedMs"])),
        ("Containers", f"{numbers['ran']} ran of {numbers['containers']}"),
        ("Succeeded", outcomes["ok"]),
        ("Preempted, given back by a full queue", f"{outcomes['preempted']}, {outcomes['shed']}"),
        ("Lost", outcomes["aborted"]),
        ("Waited since eligible: median, 95 %, longest", _spread(numbers["waitedSinceEligibleMs"])),
        ("Waited since submitted: median, 95 %, longest", _spread(numbers["waitedSinceSubmitMs"])),
        ("Ran (median)", span(numbers["ranMs"]["median"])),
        ("Paused", paused if times else "never"),
        ("Vcores in use", "-" if used is None else f"{100 * used:.0f} % of {number_of(nodes, 'node')}"),
    )
    return tag("dl", join(tag("div", join([tag("dt", name), tag("dd", value)])) for name, value in told))


def _spread(waits: dict[str, int]) -> str:
    return ", ".join(span(waits[name]).replace(" ", "\u00a0") for name in ("median", "p95", "max"))


def _end(one: ContainerLine) -> str:
    """How a container ended, and its exit status; its state while it is live."""
    if not one.outcome:
        return one.segments[-1].state if one.segments else GRANTED
    return one.outcome if one.exit_status in (0, None) else f"{one.outcome} ({one.exit_status})"


_COLUMNS: tuple[tuple[str, str, Callable[[ContainerLine], object]], ...] = (
    ("Container", "", lambda one: one.container),
    ("Node", "", lambda one: one.node),
    ("Type", "", lambda one: one.execution_type + (" (master)" if one.is_master else "")),
    ("Waited", "n", lambda one: span(one.waited_since(one.eligible))),
    ("Ran", "n", lambda one: span(one.spent(RUNNING)) if one.has_run else ""),
    ("Paused", "n", lambda one: span(one.spent(PAUSED)) if one.spent(PAUSED) else ""),
    ("CPU", "n", lambda one: span(one.cpu_ms) if one.cpu_ms else ""),
    ("Peak MB", "n", lambda one: one.peak_mb or ""),
    ("End", "", _end),
)
"""The columns of the table of containers: title, ``n`` for figures, and the value."""


def _table(found: Sequence[ContainerLine]) -> Html:
    head = tag("tr", join(tag("th", title, class_=kind or None) for title, kind, _ in _COLUMNS))
    rows = [
        tag("tr", join(tag("td", value(one), class_=kind or None) for _, kind, value in _COLUMNS))
        for one in found[:MOST_ROWS]
    ]
    inside = tag("table", join([tag("thead", head), tag("tbody", join(rows))]))
    table = tag("div", inside, class_="scroll")
    if len(rows) <= OPEN_ROWS:
        return table
    return tag("details", join([tag("summary", f"All {len(rows)} of them"), table]))
