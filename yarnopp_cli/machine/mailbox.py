"""News for one listener, repeated in every answer until the listener has acknowledged an answer that held it.

Answers are numbered; a request says which answer was the last to arrive. On one connection nothing is lost,
so what has been sent there is no reason to answer early, yet it stands in every answer until it is
acknowledged.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Mailbox(Generic[ItemT]):
    """Items by key, in order of arrival. ``fresh`` is how many are to be sent (again)."""

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
        """How many items are news: not sent yet, or sent over a connection that is lost."""
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
        """Do not tell this any more."""
        if key in self._items:
            del self._items[key]
            self._sent.pop(key, None)
            self._fresh.discard(key)

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()
        self._sent.clear()
        self._fresh.clear()

    def keys_received(self, response_id: int) -> list[str]:
        """Keys of the items that stood in an answer up to ``response_id``."""
        return [key for key, sent in self._sent.items() if sent <= response_id]

    def acknowledge(self, response_id: int) -> None:
        """Answers up to ``response_id`` have arrived: remove their items."""
        if self._sent:
            for key in self.keys_received(response_id):
                self.drop(key)

    def send_again(self) -> None:
        """Sent items may be lost with their connection: all are unsent again.

        It is still remembered which answer held it first, since that answer may have arrived after all.
        """
        self._fresh.update(self._items)

    def restart(self) -> None:
        """Answers are numbered from the beginning: all items count as unsent."""
        self._sent.clear()
        self._fresh.update(self._items)

    def items(self) -> list[ItemT]:
        """All unacknowledged items, oldest first."""
        return list(self._items.values())

    def take(self, response_id: int) -> tuple[ItemT, ...]:
        """All unacknowledged items, now sent with answer ``response_id``."""
        if not self._items:
            return ()
        for key in self._fresh:
            self._sent.setdefault(key, response_id)
        self._fresh.clear()
        return tuple(self._items.values())

    def take_fresh(self, response_id: int) -> tuple[ItemT, ...]:
        """The news alone, now sent with answer ``response_id``: for items that whoever gets them speaks of before long,
        and that are many. What is sent on one connection arrives, in order.
        """
        if not self._fresh:
            return ()
        items = self._items
        fresh = items if len(self._fresh) == len(items) else [key for key in items if key in self._fresh]
        for key in fresh:
            self._sent.setdefault(key, response_id)
        self._fresh.clear()
        return tuple([items[key] for key in fresh])

    def validate(self) -> None:
        """Assert that everything is either fresh or was sent, and nothing else is remembered."""
        assert self._fresh <= self._items.keys()
        assert self._sent.keys() <= self._items.keys()
        assert self._fresh | self._sent.keys() == self._items.keys()
