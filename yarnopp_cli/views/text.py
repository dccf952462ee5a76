"""Small pure helpers for text shown to users: escaped characters, widths, durations, sizes, times."""

from __future__ import annotations

from collections.abc import Sequence

from executor.hints import Any
from executor.light import pattern
from executor.records import Resource

from ..errors import is_seen
from ..records.times import DAY_MS

# C0 and C1 controls, DEL, bidirectional overrides and isolates, line separators, lone surrogates: each one
# can make a terminal show something other than the text.
_HARMFUL = pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
SHED = "given back by a full queue"
"""The users' text for YARN's word "shed": the container was in a node's queue, had not started, and is requested
again."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def number_of(number: float, noun: str) -> str:
    """``1 vcore``, ``2 vcores``, ``0 nodes``: a number and its noun; ``noun`` is the singular."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def are(number: int, one: str = "is", several: str = "are") -> str:
    """The verb for a number of entities."""
    return one if number == 1 else several


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``13th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def about(milliseconds: float) -> str:
    """A duration for a sentence, rounded to a useful precision."""
    seconds = max(0.0, milliseconds) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def sentence(text: str) -> str:
    """A text as a sentence; an id at its beginning is unchanged."""
    first = text.partition(" ")[0]
    capital = text if ":" in first or "_" in first else text[:1].upper() + text[1:]
    return f"{capital.rstrip('.')}." if text else ""


def listed(parts: Sequence[str], more: int = 0) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b and 3 more``."""
    every = [*parts, f"{more} more"] if more > 0 else list(parts)
    return " and ".join(part for part in (", ".join(every[:-1]), every[-1]) if part) if every else ""


def harmless(text: str, keep: str = "") -> str:
    """``text`` with every control character outside ``keep`` written as an escape: ``\\e``, ``\\x07``,
    ``\\u202e``.
    """
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def revealed(text: str) -> str:
    """The same for an error; blanks and characters that look like others are escaped, too: ``\\xa0``, ``\\ufeff``."""
    return "".join(mark if is_seen(mark) else _escape(mark) for mark in text)


def _escape(character: str) -> str:
    return _NAMED.get(character) or ascii(character)[1:-1]


def json_line(value: Any, *, indent: int | None = None) -> bytes:
    """A JSON value on one line, or indented; characters that a terminal might act on are JSON escapes."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=(",", ": " if indent else ":"))
    if not text.isascii() or "\x7f" in text:  # json.dumps has escaped the other control characters.
        text = _HARMFUL.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)
    return text.encode() + b"\n"


def width(text: str) -> int:
    """The number of terminal cells that ``text`` takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # A shared library of its own.

    cells = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def shorten(text: str, cells: int) -> str:
    """``text`` cut to ``cells`` terminal cells, ending in an ellipsis if it was cut."""
    if width(text) <= cells:
        return text
    kept: list[str] = []
    used = 1
    for character in text:
        used += width(character)
        if used > cells:
            break
        kept.append(character)
    return "".join(kept).rstrip("…") + "…"


def wrapped(text: str, cells: int, lines: int) -> list[tuple[int, int, bool]]:
    """``text`` in at most ``lines`` lines of ``cells`` terminal cells, broken at blanks where possible: the
    begin and end of each line in ``text``, and whether an ellipsis must follow, for which room is left.
    """
    found: list[tuple[int, int, bool]] = []
    begin = 0
    while begin < len(text) and len(found) < lines:
        end = begin + _fitting(text, begin, cells)
        if end == len(text):
            found.append((begin, end, False))
            break
        if len(found) == lines - 1:
            found.append((begin, begin + _fitting(text, begin, cells - 1), True))
            break
        blank = text.rfind(" ", begin, end + 1)
        if blank > begin:
            found.append((begin, blank, False))
            begin = blank + 1
        else:
            found.append((begin, end, False))
            begin = end
    return found


def vcores(number: int) -> str:
    """``1 vcore``, ``2 vcores``."""
    return number_of(number, "vcore")


def others_named(resource: Resource) -> str:
    """``1 yarn.io/gpu, 2 license``: the amounts besides vcores and memory; "" for none."""
    return ", ".join(f"{one.value} {one.name}" for one in resource.others)


def others(resource: Resource) -> str:
    """The same as a continuation of a text: ``, 1 yarn.io/gpu``."""
    return f", {others_named(resource)}" if resource.others else ""


def size_text(resource: Resource) -> str:
    """``512 MB, 1 vcore, 1 yarn.io/gpu``."""
    return f"{resource.memory} MB, {vcores(resource.vcores)}{others(resource)}"


def last_line(text: str) -> str:
    """The last line of diagnostics, which describes the last event."""
    return text.strip().rpartition("\n")[2]


def repeats(lines: Sequence[str]) -> list[str]:
    """Each of ``lines`` once, at its last position, with the number of its occurrences."""
    counted: dict[str, int] = {}
    for line in lines:
        counted[line] = counted.pop(line, 0) + 1
    return [line if times == 1 else f"{line} ({times} times)" for line, times in counted.items()]


def _fitting(text: str, begin: int, cells: int) -> int:
    """The number of characters from ``begin`` that fit into ``cells``; at least one."""
    used, at = 0, begin
    while at < len(text):
        used += width(text[at])
        if used > cells and at > begin:
            break
        at += 1
    return at - begin


def span(milliseconds: float) -> str:
    """A readable duration: ``340 ms``, ``12.3 s``, ``5m 03s``, ``2h 05m``, ``3d 04h``; "-" if negative."""
    if milliseconds < 0:
        return "-"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    seconds = round(milliseconds / 1000)
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    if seconds < 86400:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
    return f"{seconds // 86400}d {seconds % 86400 // 3600:02d}h"


def megabytes(amount: float) -> str:
    """A readable amount of MB: ``512 MB``, ``0.4 MB``, ``15.6 GB``."""
    if amount >= 10240:
        return f"{amount / 1024:.1f} GB"
    return f"{amount:.0f} MB" if amount >= 10 or amount == int(amount) else f"{amount:.1f} MB"


def of_megabytes(part: float, whole: float) -> str:
    """A part and its whole, with the unit once where both have the same: ``384 of 2048 MB``."""
    first, total = megabytes(part), megabytes(whole)
    if first.rpartition(" ")[2] == total.rpartition(" ")[2]:
        first = first.rpartition(" ")[0]
    return f"{first} of {total}"


_DAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def weekday(epoch_ms: int) -> str:
    """The day of the week in UTC, in three letters."""
    return _DAYS[epoch_ms // DAY_MS % 7]


def month_name(month: int) -> str:
    """A month, counted from 1, in three letters."""
    return _MONTHS[month - 1]


def fitted(text: str, cells: int, *, right: bool = False) -> str:
    """``text`` in exactly ``cells`` terminal cells: cut with an ellipsis, or filled with blanks."""
    if cells <= 0:
        return ""
    if not text.isascii() or len(text) > cells:
        text = shorten(text, cells)
        cells -= width(text) - len(text)
    return text.rjust(cells) if right else text.ljust(cells)


def harmless_all(texts: list[str]) -> list[str]:
    """``harmless`` of each text; fast for the usual lists, in which no text changes."""
    together = "".join(texts)
    return texts if together.isascii() and together.isprintable() else [harmless(text) for text in texts]


def widest(texts: Sequence[str]) -> int:
    """The ``width`` of the widest text; 0 for none."""
    return max(map(len if "".join(texts).isascii() else width, texts), default=0)


def fitted_all(texts: Sequence[str], cells: int, *, right: bool = False) -> list[str]:
    """``fitted`` for each text of a column."""
    if max(map(len, texts), default=0) > cells or not "".join(texts).isascii():
        return [fitted(text, cells, right=right) for text in texts]
    return [text.rjust(cells) for text in texts] if right else [text.ljust(cells) for text in texts]


def short_span(milliseconds: float) -> str:
    """A duration in at most five cells: ``0s``, ``119s``, ``9m``, ``23h``, ``400d``; "-" if negative.

    A unit is used from two units on, so that 61 s and 118 s are not both shown as ``1m``.
    """
    if milliseconds < 0:
        return "-"
    seconds = int(milliseconds // 1000)
    for limit, unit, letter in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit}{letter}"
    return f"{seconds // 86400}d"


def short_megabytes(amount: float) -> str:
    """MB in at most five cells: ``0.4M``, ``512M``, ``8.0G``, ``120G``."""
    if amount < 9.95 and amount != int(amount):
        return f"{amount:.1f}M"
    if amount < 1000:
        return f"{amount:.0f}M"
    gigabytes = amount / 1024
    return f"{gigabytes:.1f}G" if gigabytes < 99.95 else f"{gigabytes:.0f}G"
