"""Small pieces of HTML. Whatever is not ``Html`` is escaped; control characters are shown as escapes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from ..records.times import timestamp
from .text import harmless

LONG = 24
"""Longer text may be cut in a table; its tooltip has the whole text."""
DENSE = 14
"""Tables with more columns than this are set more densely."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def esc(value: object) -> Html:
    """``value`` escaped for text and quoted attributes."""
    if isinstance(value, Html):
        return value
    return Html(escape(harmless(str(value), keep="\n"), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    """All parts, each escaped as it needs."""
    return Html(between.join(esc(part) for part in parts))


def tag(name: str, content: object = "", **attributes: object) -> Html:
    """One element. ``class_`` is class, ``data_x`` data-x; an attribute that is None or False is left out."""
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{esc(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{shown}>{esc(content)}</{name}>")


def link(address: str, text: object, *, here: bool = False) -> Html:
    """A link; ``address`` is a path whose parts are quoted, or http://host:port/…. ``here``: it points to the
    present page.
    """
    return tag("a", text, href=address, aria_current="page" if here else None)


def state(word: str) -> Html:
    """A state: its word, and a colour that only repeats it."""
    kind = "".join(character for character in word.split(" ")[0] if character.isalnum())
    return tag("span", word, class_=f"state {kind.lower()}")


def meter(used: float, total: float, text: object) -> Html:
    """A bar of ``used`` over ``total``, with its figures in words."""
    share = min(1.0, max(0.0, used / total)) if total > 0 else 0.0
    bar = tag("meter", f"{share:.0%}", value=f"{share:.4f}", min="0", max="1")
    return Html(f"{bar}{tag('span', text, class_='figure')}")


def moment(epoch_ms: int, now_ms: int = 0) -> Html:
    """A time (UTC), to the second; to the millisecond in its tooltip. Without the date if that is today."""
    if not epoch_ms:
        return Html("-")
    full, today = timestamp(epoch_ms), timestamp(now_ms)[:10]
    shown = full[11:19] if full[:10] == today else full[:19].replace("T", " ")
    return tag("time", shown, datetime=full, title=full)


def shares(guaranteed: float, opportunistic: float, total: float, text: object) -> Html:
    """The shares of guaranteed and opportunistic containers in a total as one bar, and the figures in words."""
    whole = max(total, guaranteed + opportunistic)
    bar = _bar((("guaranteed", guaranteed), ("opportunistic", opportunistic)), whole, 'aria-hidden="true"')
    return Html(f"{tag('span', text, class_='figure')}{bar}")


def stacked(parts: Sequence[tuple[str, int]], said: str) -> Html:
    """Counts as one stacked bar, with the counts in words as its title and ``said`` below it; no bar if all are 0."""
    total = sum(number for _, number in parts)
    words = ", ".join(f"{number} {name}" for name, number in parts if number)
    bar = _bar(parts, total, 'role="img"', tag("title", words)) if total else ""
    return tag("div", join([bar, tag("p", said, class_="more")]), class_="counts")


def _bar(parts: Sequence[tuple[str, float]], total: float, attributes: str, inside: str = "") -> Html:
    """Parts of a total side by side, each with its name as class."""
    at, bars = 0.0, []
    for name, number in parts:
        width = 100 * number / total if total else 0.0
        if width:
            bars.append(f'<rect class="{esc(name)}" x="{at:.2f}" width="{width:.2f}" height="8"/>')
        at += width
    return Html(
        f'<svg class="stacked" viewBox="0 0 100 8" preserveAspectRatio="none" {attributes}>'
        f"{inside}{''.join(bars)}</svg>"
    )


class Keyed(NamedTuple):
    """A cell's value, and the number by which a reader's browser sorts its column."""

    value: object
    key: float


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
    numeric: frozenset[str] = frozenset(),
) -> Html:
    """A table that scrolls sideways if it is too wide; on a phone each row is a card with titles.

    A column without any value is left out on narrow screens (``void``).
    """
    rows = list(rows)
    void = [all(row[at] == "" for row in rows) for at in range(len(titles))]
    marks = [
        " ".join(word for word in ("num" if title in numeric else "", "void" if empties else "") if word)
        for title, empties in zip(titles, void, strict=True)
    ]
    head = join(
        tag("th", title, class_=mark or None, scope="col") for title, mark in zip(titles, marks, strict=True)
    )
    lines = [
        tag("tr", join(_cell(*one) for one in zip(titles, row, marks, strict=True)))  # a card on a phone
        for row in rows
    ]
    if not lines:
        return tag("p", empty, class_="empty")
    inside = Html(f"<thead><tr>{head}</tr></thead><tbody>{join(lines)}</tbody>")
    return tag("div", tag("table", inside, class_="dense" if len(titles) > DENSE else None), class_="wide")


def _cell(title: str, value: object, mark: str) -> Html:
    key = None
    if isinstance(value, Keyed):
        value, key = value
    may_be_cut = isinstance(value, str) and not isinstance(value, Html) and len(value) > LONG
    marks = " ".join(word for word in (mark, "none" if value == "" else None) if word)
    return tag(
        "td",
        tag("span", value),
        data_label=title,
        data_sort=key,
        title=value if may_be_cut else None,
        class_=marks or None,
    )


def facts(rows: Iterable[tuple[str, object]]) -> Html:
    """Names and values below each other."""
    inside = join(Html(f"{tag('dt', name)}{tag('dd', value)}") for name, value in rows)
    return tag("dl", inside, class_="facts")


def tiles(items: Iterable[tuple[str, object, object]]) -> Html:
    """Figures side by side: title, figure and remark."""
    inside = join(
        tag(
            "div",
            join([tag("h3", title), tag("p", figure, class_="big"), tag("p", more, class_="more")]),
            class_="tile",
        )
        for title, figure, more in items
    )
    return tag("section", inside, class_="tiles")


def section(title: str, content: object) -> Html:
    """A titled part of a page."""
    return tag("section", join([tag("h2", title), content]))
