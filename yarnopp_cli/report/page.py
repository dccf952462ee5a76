"""The page of ``yopp report``: one HTML document that needs nothing beside itself. Pure text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..records.reports import FINAL_STATES, ApplicationReport, NodeReport
from ..views.applications import counts_text, exit_code
from ..views.text import harmless, span, timestamp
from .timeline import GRANTED, PAUSED, RUNNING, Line

MOST_ROWS = 5000
OPEN_ROWS = 100
"""A longer table is shown when one asks for it."""

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
    found: Sequence[Line],
    numbers: dict[str, Any],
    pictures: Sequence[tuple[str, str, str]],
    notes: Sequence[str] = (),
) -> str:
    """The document. ``pictures`` are (title, caption, svg); ``notes`` are said at the end, a paragraph each."""
    body = [
        f"<h1>{_text(app.name)} <small>{_text(app.application_id)}</small></h1>",
        f"<p>{_state(app)} · "
        f"submitted {_text(timestamp(app.submitted_at_ms))} by {_text(app.user)} · {_text(counts_text(app))}</p>",
        f"<p><code>{_text(app.command_line)}</code></p>",
        _figures(numbers, nodes, ended=app.state in FINAL_STATES),
    ]
    if app.diagnostics:
        body.append(f"<p>{_text(app.diagnostics)}</p>")
    for title, caption, svg in pictures:
        body.append(f"<h2>{_text(title)}</h2><figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>")
    body.append(_table(found))
    body += [f"<p>{_text(note)}</p>" for note in notes]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(app.name)} · {_text(app.application_id)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _text(value: object) -> str:
    return escape(harmless("-" if value is None else str(value)))


def _state(app: ApplicationReport) -> str:
    """How it is: its end and exit code where it has ended."""
    if app.state not in FINAL_STATES:
        return _text(app.state.value)
    return f"{_text(app.state.value)} {_text(app.final_status.value)}, exit {_text(exit_code(app))}"


def _figures(numbers: dict[str, Any], nodes: Sequence[NodeReport], *, ended: bool) -> str:
    waited, submit, utilisation = (
        numbers["waitedSinceEligibleMs"], numbers["waitedSinceSubmitMs"], numbers["utilisation"],
    )  # fmt: skip
    told = (
        ("Took" if ended else "So far", span(numbers["elapsedMs"])),
        ("Containers", f"{numbers['ran']} ran of {numbers['containers']}"),
        ("Succeeded", str(numbers["outcomes"]["ok"])),
        ("Preempted, shed", f"{numbers['outcomes']['preempted']}, {numbers['outcomes']['shed']}"),
        ("Waited since eligible: median, 95 %, longest", _spread(waited)),
        ("Waited since submitted: median, 95 %, longest", _spread(submit)),
        ("Ran (median)", span(numbers["ranMs"]["median"])),
        (
            "Paused",
            _paused(numbers["pauses"], numbers["pausedMs"]),
        ),
        (
            "Vcores in use",
            "-"
            if utilisation is None
            else f"{100 * utilisation:.0f} % of {len(nodes)} node{'' if len(nodes) == 1 else 's'}",
        ),
    )
    return "<dl>" + "".join(f"<div><dt>{_text(k)}</dt><dd>{_text(v)}</dd></div>" for k, v in told) + "</dl>"


def _spread(waits: dict[str, int]) -> str:
    return ", ".join(span(waits[name]).replace(" ", "\u00a0") for name in ("median", "p95", "max"))


def _paused(times: int, milliseconds: int) -> str:
    if not times:
        return "never"
    return f"{'once' if times == 1 else f'{times} times'}, {span(milliseconds)}"


def _end(one: Line) -> str:
    """How it ended and its exit status; its state while it lives."""
    if not one.outcome:
        return one.segments[-1].state if one.segments else GRANTED
    return one.outcome if one.exit_status in (0, None) else f"{one.outcome} ({one.exit_status})"


def _table(found: Sequence[Line]) -> str:
    titles = (
        ("Container", ""),
        ("Node", ""),
        ("Type", ""),
        ("Waited", "n"),
        ("Ran", "n"),
        ("Paused", "n"),
        ("CPU", "n"),
        ("Peak MB", "n"),
        ("End", ""),
    )
    head = "".join(f'<th class="{kind}">{_text(title)}</th>' for title, kind in titles)
    rows = []
    for one in found[:MOST_ROWS]:
        cells = (
            one.container,
            one.node,
            one.execution_type + (" (master)" if one.is_master else ""),
            span(one.waited_since(one.eligible)),
            span(one.spent(RUNNING)) if one.has_run else "",
            span(one.spent(PAUSED)) if one.spent(PAUSED) else "",
            span(one.cpu_ms) if one.cpu_ms else "",
            one.peak_mb or "",
            _end(one),
        )
        rows.append(
            "<tr>"
            + "".join(
                f'<td class="{kind}">{_text(cell)}</td>'
                for cell, (_, kind) in zip(cells, titles, strict=True)
            )
            + "</tr>"
        )
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    if len(rows) > OPEN_ROWS:
        table = f"<details><summary>All {len(rows)} of them</summary>{table}</details>"
    return f"<h2>Containers</h2>{table}"
