"""The nearest declared name to an undeclared one, and text that is safe to print in a message."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_SHOWN = 80
_LONGEST_COMPARED = 200
LIKE = 0.6
"""The least similarity, by difflib, of two names whose difference counts as a misspelling."""


def nearest(name: str, names: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """The declared name most like ``name``, or None if no name is near. ``cutoff`` is difflib's ratio, 0 to 1."""
    import difflib  # 5 ms, needed only for an error.

    if len(name) > _LONGEST_COMPARED:
        return None
    known = list(names)
    # Names of YARN have one spelling in upper and lower case; users' names may differ.
    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    if found and is_like(name.lower(), found[0].lower()):
        return found[0]
    # A correct last part after a wrong beginning ("nodemanager.resource.memory-mb") is far by ratio, but near for a
    # reader.
    tail = name.lower().rsplit(".", 2)[-2:]
    same = [candidate for candidate in known if candidate.split(".")[-len(tail) :] == tail]
    return same[0] if len(same) == 1 else None


def is_like(name: str, other: str) -> bool:
    """Whether two names are also similar without their common leading parts, which do not distinguish them."""
    import difflib

    one, two = name.split("."), other.split(".")
    while len(one) > 1 and len(two) > 1 and one[0] == two[0]:
        one, two = one[1:], two[1:]
    return difflib.SequenceMatcher(None, ".".join(one), ".".join(two)).ratio() >= LIKE


def printable(text: str) -> str:
    """``text`` in one line that cannot move a terminal's cursor: unprintable characters are escaped, and long text is
    cut."""
    shown = printable_path(text[: LONGEST_SHOWN + 1])
    return shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…"


def printable_path(path: str) -> str:
    """A file's path in a message: escaped as ``printable`` does, but never cut."""
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in path)
