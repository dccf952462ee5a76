"""Items in the order of a key that changes often and is read rarely.

The owner of a changed item enters its name in ``changed``; the item is moved at the next read. Reading the
first few of ten thousand items then costs the same as of ten, however many changes came between two reads. A
place is found by bisection; moving an item in a list of ten thousand takes a few microseconds. Pure.

Decisions: core-costs-what-changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

ItemT = TypeVar("ItemT")

REBUILD_FROM = 8
"""If more than one item in this many has changed, all are sorted instead of moved one by one."""


class SortedItems(Generic[ItemT]):
    """Items by name. ``key`` gives the place of an item, the smallest first, or None while it has none.

    Keys are compared without their items: no two may be equal.
    """

    def __init__(self, key: Callable[[ItemT], tuple[Any, ...] | None]) -> None:
        self._key = key
        self._places: list[tuple[Any, ...]] = []
        self._place_of: dict[str, tuple[Any, ...]] = {}
        self.items: dict[str, ItemT] = {}
        """All items, in the order in which they were added."""
        self._at: dict[tuple[Any, ...], ItemT] = {}
        self.changed: dict[str, Any] = {}
        """The names of items whose key may have changed; the code that changes an item enters its name."""

    def __len__(self) -> int:
        self._settle()
        return len(self._places)

    def __iter__(self) -> Iterator[ItemT]:
        """The items in their present order; no other read may happen during the iteration."""
        self._settle()
        return map(self._at.__getitem__, self._places)

    def put(self, name: str, item: ItemT) -> None:
        """Add an item, or replace that of the same name."""
        self.items[name] = item
        self.changed[name] = None

    def drop(self, name: str) -> None:
        """Remove an item."""
        if self.items.pop(name, None) is not None:
            self.changed[name] = None

    def all_changed(self) -> None:
        """Note that every key may have changed."""
        self.changed.update(dict.fromkeys(self.items))

    def _settle(self) -> None:
        if not self.changed:
            return
        few = len(self.changed) * REBUILD_FROM <= len(self._places)
        for name in self.changed:
            item = self.items.get(name)
            new = self._key(item) if item is not None else None
            old = self._place_of.get(name)
            if new == old:
                if new is not None and item is not None:
                    self._at[new] = item
                continue
            if old is not None:
                del self._at[old], self._place_of[name]
                if few:
                    del self._places[bisect_left(self._places, old)]
            if new is not None and item is not None:
                self._at[new], self._place_of[name] = item, new
                if few:
                    insort(self._places, new)
        if not few:
            self._places = sorted(self._place_of.values())
        self.changed.clear()

    def validate(self) -> None:
        """Assert that every item with a key is in its place, given that all changes were entered."""
        self._settle()
        expected = {name: key for name, item in self.items.items() if (key := self._key(item)) is not None}
        assert self._place_of == expected, "a place is out of date"
        assert self._places == sorted(expected.values())
        assert all(self._at[key] is self.items[name] for name, key in expected.items())
