"""News for one listener, repeated in every answer until the listener has acknowledged an answer
that contained it.

Answers are numbered; a request names the last answer that has arrived. A connection loses no message, so an item that
was sent on the present connection is no reason to answer early; each answer repeats it until it is acknowledged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Mailbox(Generic[ItemT]):
    """Items by key, in order of arrival. ``fresh`` is the number that must be sent (again)."""

    __slots__ = ("_fresh", "_items", "_sent")

    def __init__(self) -> None:
        self._items: OrderedDict[str, ItemT] = OrderedDict()
        self._sent: dict[str, int] = {}
        self._fresh: set[str] = set()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    @property
    def fresh(self) -> int:
        """How many items are unsent, or were sent over a connection that is lost."""
        return len(self._fresh)

    def put(self, key: str, item: ItemT) -> None:
        """Add this item; it replaces the item with the same key, and is unsent."""
        self.drop(key)
        self._items[key] = item
        self._fresh.add(key)

    def put_new(self, key: str, item: ItemT) -> None:
        """Add this item unless there is one with the key."""
        if key not in self._items:
            self.put(key, item)

    def drop(self, key: str) -> None:
        """Remove an item; ignored if there is none with the key."""
        if key in self._items:
            del self._items[key]
            self._sent.pop(key, None)
            self._fresh.discard(key)

    def clear(self) -> None:
        """Remove all items."""
        self._items.clear()
        self._sent.clear()
        self._fresh.clear()

    def keys_received(self, response_id: int) -> list[str]:
        """The keys of the items that were sent in an answer up to ``response_id``."""
        return [key for key, sent in self._sent.items() if sent <= response_id]

    def acknowledge(self, response_id: int) -> None:
        """Remove the items of the answers up to ``response_id``, which have arrived."""
        if self._sent:
            for key in self.keys_received(response_id):
                self.drop(key)

    def send_again(self) -> None:
        """Mark all items as unsent, since sent ones may be lost with their connection.

        The first answer with each item is still remembered, since it may have arrived.
        """
        self._fresh.update(self._items)

    def restart(self) -> None:
        """Mark all items as unsent, since the numbering of answers starts anew."""
        self._sent.clear()
        self._fresh.update(self._items)

    def items(self) -> list[ItemT]:
        """All unacknowledged items, oldest first."""
        return list(self._items.values())

    def take(self, response_id: int) -> tuple[ItemT, ...]:
        """All unacknowledged items, now marked as sent with answer ``response_id``."""
        if not self._items:
            return ()
        for key in self._fresh:
            self._sent.setdefault(key, response_id)
        self._fresh.clear()
        return tuple(self._items.values())

    def take_fresh(self, response_id: int, size_of: Callable[[ItemT], int], room: int) -> tuple[ItemT, ...]:
        """The first fresh items, at least one and no more than ``room`` allows, now marked as sent with answer
        ``response_id``.

        For items of which there are many, and which the receiver soon names in its own messages: on one connection,
        all sent items arrive in order.
        """
        taken: list[ItemT] = []
        for key, item in self._items.items() if self._fresh else ():
            if key not in self._fresh:
                continue
            room -= size_of(item)
            if taken and room < 0:
                break
            taken.append(item)
            self._sent.setdefault(key, response_id)
            self._fresh.discard(key)
        return tuple(taken)

    def validate(self) -> None:
        """Assert that every item is fresh or was sent, and that nothing else is remembered."""
        assert self._fresh <= self._items.keys()
        assert self._sent.keys() <= self._items.keys()
        assert self._fresh | self._sent.keys() == self._items.keys()
