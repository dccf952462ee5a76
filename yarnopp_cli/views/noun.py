"""What lists and details of one kind of thing consist of, declared once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from executor.light import dataclass

from .columns import Column

T = TypeVar("T")
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Noun(Generic[T]):
    """One kind of thing: its columns, its JSON, the lines of its ``status``, and what identifies one.

    ``singular`` and ``plural`` are the names that YARN's JSON has for it. ``columns``, ``document`` and ``fields``
    take the epoch milliseconds that times are counted to.
    """

    singular: str
    plural: str
    identity: Callable[[T], str]
    columns: Callable[[int], Sequence[Column[T]]]
    document: Callable[[T, int], Mapping[str, Any]]
    fields: Callable[[T, int], Pairs]
    states: tuple[str, ...] = ()
    """The words of ``--state``."""
    ours: frozenset[str] = frozenset()
    """The names of those of its ``fields`` that only yopp tells; which columns are such, they say themselves."""

    def told(self, pairs: Pairs) -> Pairs:
        """Those of its ``fields`` that YARN tells of it, too."""
        return [(name, value) for name, value in pairs if name not in self.ours and value]

    def documents(self, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The document of a list, from those of its things: as in YARN, that of none is null."""
        return {self.plural: {self.singular: list(listed)} if listed else None}

    def every(self, rows: Sequence[T], now_ms: int = 0) -> dict[str, Any]:
        """The document of a list of things, as it is at a time."""
        return self.documents([self.document(row, now_ms) for row in rows])
