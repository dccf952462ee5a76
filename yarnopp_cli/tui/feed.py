"""The stream of events: the recent ones, and new ones as they happen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from ..errors import YoppError
from ..records.history import GetEventsRequest, HistoryEvent
from .source import Source, in_thread

KEPT = 5000
_FIRST = 1000
_WAIT_MS = 20_000
_RETRY_SECONDS = 1.0
_SHORTEST_SECONDS = 0.1


class EventFeed:
    """Holds the last KEPT events, the newest last. ``arrived`` is called after each batch."""

    def __init__(self, source: Source, arrived: Callable[[], None]) -> None:
        self.events: deque[HistoryEvent] = deque(maxlen=KEPT)
        self.forgotten = 0
        """The number of events lost between two calls, because more happened than the RM remembers."""
        self._source = source
        self._arrived = arrived
        self._since = 0
        self._life = 0

    async def run(self) -> None:
        """Fetch events for ever; if the cluster does not answer, try again every second."""
        wait_ms = _WAIT_MS
        while True:
            newest = self._since == 0
            request = GetEventsRequest(
                since=self._since,
                limit=_FIRST,
                newest=newest,
                wait_ms=0 if newest else wait_ms,
            )
            try:
                response = await in_thread(partial(self._source.events, request))
            except (YoppError, OSError):
                await asyncio.sleep(_RETRY_SECONDS)
                # Another ResourceManager may answer, whose numbers begin anew: do not wait for higher ones.
                wait_ms = 0
                continue
            wait_ms = _WAIT_MS
            if response.cluster_timestamp != self._life and self._life:
                # The numbers of a new history begin anew.
                self._life, self._since = 0, 0
                continue
            self._life = response.cluster_timestamp
            if not newest and response.oldest > self._since + 1:
                self.forgotten += response.oldest - self._since - 1
            self._since = response.next
            if response.events:
                self.events.extend(response.events)
                self._arrived()
            # Events are fetched in batches: an answer for each would keep both sides busy.
            await asyncio.sleep(_SHORTEST_SECONDS if response.events or not newest else _RETRY_SECONDS)
