"""Small pictures out of characters: sparklines and bars of parts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], cells: int, highest: float) -> str:
    """The last ``cells`` values, one character each, ``highest`` the full height; blank where there are none.

    The newest is at the right. Values above ``highest`` are shown as ``highest``.
    """
    shown = list(values)[-cells:] if cells > 0 else []
    top = len(LEVELS) - 1
    drawn = "".join(
        LEVELS[min(top, max(0, round(top * value / highest)))] if highest > 0 else LEVELS[0]
        for value in shown
    )
    return drawn.rjust(max(0, cells))


def shares(counts: Sequence[int], cells: int) -> list[int]:
    """``cells`` cells divided among ``counts`` in proportion: each count above 0 has at least one cell, if there
    are enough, and the sum is exact (largest remainder).
    """
    total = sum(counts)
    if total <= 0 or cells <= 0:
        return [0] * len(counts)
    exact = [cells * count / total for count in counts]
    given = [int(share) for share in exact]
    for index, count in enumerate(counts):
        if count > 0 and given[index] == 0:
            given[index] = 1
    while sum(given) > cells:
        # taken from a part with more than one cell, if there is any
        widest = max(
            range(len(given)), key=lambda index: (given[index] > 1, given[index] - exact[index], given[index])
        )
        given[widest] -= 1
    while sum(given) < cells:
        short = max(range(len(given)), key=lambda index: exact[index] - given[index])
        given[short] += 1
    return given


def bar(counts: Sequence[int], characters: str, cells: int) -> str:
    """One bar: each of ``counts`` drawn with the character of its place, in proportion."""
    return "".join(
        character * width for character, width in zip(characters, shares(counts, cells), strict=True)
    )
