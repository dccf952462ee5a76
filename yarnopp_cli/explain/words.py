"""The words that explanations are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from executor.records import ExecutionType, Resource

from ..records.ids import dotted
from ..records.reports import ContainerReport
from .estimates import BY_NODE, DECLARED, OF_ALL, OF_APPLICATION, OF_NODE, Expected, Start
from .waited import Waited

_BASES = {
    DECLARED: "declared",
    OF_APPLICATION: "median task",
    OF_NODE: "median on its node",
    OF_ALL: "median in this cluster",
}


def count(number: int, word: str) -> str:
    """``1 vcore``, ``2 vcores``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def are(number: int, one: str = "is", several: str = "are") -> str:
    """The verb for so many."""
    return one if number == 1 else several


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``13th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def span(milliseconds: float) -> str:
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


def capital(text: str) -> str:
    """A text as the beginning of a sentence; an id, as a node's, is left as it is."""
    return text if ":" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def amount(resource: Resource) -> str:
    """``1 vcore, 512 MB``."""
    return f"{count(resource.vcores, 'vcore')}, {resource.memory} MB"


def listed(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part) if parts else ""


def names(identifiers: Sequence[str], of: str = "", most: int = 3) -> str:
    """Containers' ids in a sentence about application ``of``, the first few of them."""
    told = [short(one, of) for one in identifiers[:most]]
    return listed([*told, f"{len(identifiers) - most} more"] if len(identifiers) > most else told)


def by_type(reports: Iterable[ContainerReport]) -> str:
    """``1 guaranteed and 2 opportunistic containers``; "" for none."""
    kinds = [one.execution_type for one in reports]
    parts = [
        f"{kinds.count(kind)} {kind.value.lower()}"
        for kind in (ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC)
        if kind in kinds
    ]
    return f"{' and '.join(parts)} container{'' if len(kinds) == 1 else 's'}" if parts else ""


def held_by(holders: Sequence[ContainerReport], now_ms: int, of: str = "") -> str:
    """Who has what is missing: ``, held by 2 opportunistic containers (oldest …_000002, 11 s)``; "" for nobody."""
    if not holders:
        return ""
    oldest = min(holders, key=begun)
    since = begun(oldest)
    age = f", {span(now_ms - since)}" if since else ""
    word = "oldest " if len(holders) > 1 else ""
    return f", held by {by_type(holders)} ({word}{short(oldest.container_id, of)}{age})"


def begun(report: ContainerReport) -> int:
    """When it began to hold what it has."""
    return report.resumed_at_ms or report.started_at_ms or report.queued_at_ms or report.allocated_at_ms


def waited_text(found: Waited, verb: str = "It has waited", *, is_am: bool = False) -> str:
    """Both numbers; "" where neither is known. Nobody asks for a master but the submission itself."""
    submit, eligible = found
    if is_am or eligible < 0:
        return f"{verb} {span(submit)} since its application was submitted." if submit >= 0 else ""
    asked = f"{verb} {span(eligible)} since it was eligible (asked for by its master)"
    return f"{asked}, {span(submit)} since its application was submitted." if submit >= 0 else f"{asked}."


def rests_on(expected: Expected) -> str:
    """What an estimate rests on: ``median task 10 s``."""
    if expected.basis == BY_NODE:
        return "its node's own estimate for its queue"
    return f"{_BASES.get(expected.basis, expected.basis)} {span(expected.ms)}"


def begins(start: Start, of: str = "", verb: str = "starts", may: str = "start") -> str:
    """When one may start: ``starts in about 20 s (median task 10 s; estimate)``."""
    late = start.outlived
    rests = rests_on(start.expected) if start.expected.basis else ""
    marked = start.expected.basis == BY_NODE  # says itself that it is one
    basis = f"({rests})" if marked else f"({rests}; estimate)" if rests else "(estimate)"
    if start.in_ms == 0:
        why = (
            f", as {names(late, of)} {are(len(late), 'has', 'have')} run longer than expected" if late else ""
        )
        return f"may {may} at any moment{why} {basis}"
    return f"{verb} in about {span(start.in_ms)} {basis}{later(start, of)}"


def later(start: Start, of: str = "") -> str:
    """What may make it later: those that have outlived their time; "" for none."""
    late = start.outlived
    have = f"{are(len(late), 'has', 'have')} run longer than expected"
    return f", later if {names(late, of)}, which {have}, {are(len(late), 'goes', 'go')} on" if late else ""
