"""Small pure helpers for text that people read: harmless characters, widths, durations, sizes, times."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timezone

# C0 and C1 controls, DEL, bidirectional overrides and isolates, line separators, lone surrogates: all of these can
# make a terminal show something else than what is there.
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def harmless(text: str, keep: str = "") -> str:
    """``text`` with every control character outside ``keep`` written as an escape (``\\e``, ``\\x07``, ``\\u202e``)."""
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def width(text: str) -> int:
    """The number of terminal cells that ``text`` takes."""
    if text.isascii():
        return len(text)
    cells = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def shorten(text: str, cells: int) -> str:
    """``text`` cut to ``cells`` terminal cells, ending in an ellipsis if anything was cut."""
    if width(text) <= cells:
        return text
    kept: list[str] = []
    used = 1
    for character in text:
        used += width(character)
        if used > cells:
            break
        kept.append(character)
    return "".join(kept) + "…"


def span(milliseconds: float) -> str:
    """A duration as people say it: ``340 ms``, ``12.3 s``, ``5m 03s``, ``2h 05m``, ``3d 04h``."""
    if milliseconds < 0:
        return "-"
    if milliseconds < 1000:
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
    """MB as people read them: ``512 MB``, ``4.0 GB``."""
    if amount >= 10240:
        return f"{amount / 1024:.1f} GB"
    return f"{amount:.0f} MB" if amount >= 10 or amount == int(amount) else f"{amount:.1f} MB"


def timestamp(epoch_ms: int) -> str:
    """ISO 8601 with zone and milliseconds; "-" for 0."""
    if not epoch_ms:
        return "-"
    moment = datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
