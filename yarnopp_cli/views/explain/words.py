"""The words that explanations are made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from executor.records import Resource

from ...records.explanation import Holders
from ...records.ids import dotted
from ..text import vcores


def are(number: int, one: str = "is", several: str = "are") -> str:
    """The verb for so many."""
    return one if number == 1 else several


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``13th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def about(milliseconds: float) -> str:
    """A duration in a sentence, no finer than people ask for."""
    seconds = max(0.0, milliseconds) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def short(identifier: str, of: str = "") -> str:
    """A container's id as people say it in a sentence about application ``of``: ``…_000009``; of another application,
    as it can be typed: ``36.9``.
    """
    parts = identifier.split("_")
    return "…_" + parts[-1] if of.split("_")[1:3] == parts[-4:-2] else dotted(identifier)


def suffix(identifier: str) -> str:
    """The part of an id by which people know it: ``_000009``."""
    return "_" + identifier.rpartition("_")[2]


def short_id(identifier: str) -> str:
    """An id with its middle left out: ``container_…_000009``."""
    return f"{identifier.partition('_')[0]}_…{suffix(identifier)}"


def sentence(text: str) -> str:
    """A text as a sentence; an id at its beginning is left as it is."""
    first = text.partition(" ")[0]
    capital = text if ":" in first or "_" in first else text[:1].upper() + text[1:]
    return f"{capital.rstrip('.')}." if text else ""


def amount(resource: Resource) -> str:
    """``1 vcore, 512 MB``."""
    return f"{vcores(resource.vcores)}, {resource.memory} MB"


def listed(parts: Sequence[str], more: int = 0) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b and 3 more``."""
    every = [*parts, f"{more} more"] if more > 0 else list(parts)
    return " and ".join(part for part in (", ".join(every[:-1]), every[-1]) if part) if every else ""


def names(identifiers: Sequence[str], of: str = "", most: int = 3) -> str:
    """Containers' ids in a sentence about application ``of``, the first few of them."""
    return listed([short(one, of) for one in identifiers[:most]], len(identifiers) - most)


def by_type(holders: Holders) -> str:
    """``1 guaranteed and 2 opportunistic containers``; "" for none."""
    parts = [
        f"{number} {kind}"
        for number, kind in ((holders.guaranteed, "guaranteed"), (holders.opportunistic, "opportunistic"))
        if number
    ]
    several = holders.guaranteed + holders.opportunistic != 1
    return f"{' and '.join(parts)} container{'s' if several else ''}" if parts else ""


def oldest(holders: Holders, now_ms: int, of: str = "") -> str:
    """`` (oldest …_000002, 11 s)``, of a single one without the word; "" for nobody."""
    if not holders.oldest:
        return ""
    age = f", {about(now_ms - holders.since_ms)}" if holders.since_ms and now_ms else ""
    word = "oldest " if holders.guaranteed + holders.opportunistic > 1 else ""
    return f" ({word}{short(holders.oldest, of)}{age})"


def lacks(vcores_short: int, memory_short: int) -> list[str]:
    """What is missing: ``a vcore``, ``512 MB of memory``; nothing for what is not."""
    found = [("a vcore" if vcores_short == 1 else vcores(vcores_short))] if vcores_short > 0 else []
    return [*found, f"{memory_short} MB of memory"] if memory_short > 0 else found
