"""Who asks what happened: at once, or held until something has (``getEvents``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...machine.calls import CallReceived
from ...records.history import GetEventsRequest, GetEventsResponse
from ..context import RMContext
from ..due import Due, DueKind

MAX_LIMIT = 10_000
"""Events in one answer, at most."""


@dataclass(frozen=True, slots=True)
class _Follower:
    """A call that waits for the next event of its liking."""

    call_id: int
    connection_id: int
    request: GetEventsRequest


class EventService:
    """Answers from the history; ``check`` at the end of each step serves those who wait."""

    def __init__(self, context: RMContext) -> None:
        self._context = context
        self._followers: dict[int, _Follower] = {}
        self._served = 0

    def get(self, call: CallReceived, request: GetEventsRequest, now: float) -> None:
        """Answer, or wait for up to ``wait_ms``."""
        context = self._context
        since = context.history.last if request.since < 0 else request.since
        request = replace(request, since=since, limit=max(1, min(request.limit, MAX_LIMIT)))
        follower = _Follower(call.call_id, call.connection_id, request)
        if self._answer(follower, even_without=request.wait_ms <= 0 or context.ending):
            return
        self._followers[call.call_id] = follower
        context.deadlines.set(Due(DueKind.EVENTS, str(call.call_id)), now + request.wait_ms / 1000)

    def check(self) -> None:
        """Answer those whose event has come; all of them where the cluster ends."""
        history = self._context.history
        if not self._followers or (history.last == self._served and not self._context.ending):
            return
        self._served = history.last
        for follower in list(self._followers.values()):
            if self._answer(follower, even_without=self._context.ending):
                self._forget(follower)

    def wait_is_over(self, call_id: int) -> None:
        """The time of a wait has passed."""
        if (follower := self._followers.get(call_id)) is not None:
            self._forget(follower)
            self._answer(follower, even_without=True)

    def connection_lost(self, connection_id: int) -> None:
        """Nobody waits for these answers any more."""
        for follower in list(self._followers.values()):
            if follower.connection_id == connection_id:
                self._forget(follower)

    def _forget(self, follower: _Follower) -> None:
        self._followers.pop(follower.call_id, None)
        self._context.deadlines.clear(Due(DueKind.EVENTS, str(follower.call_id)))

    def _answer(self, follower: _Follower, *, even_without: bool) -> bool:
        """Answer if there is something to tell, or ``even_without``; whether that was so."""
        history = self._context.history
        events, following = history.select(follower.request)
        if not events and not even_without:
            return False
        timestamp = self._context.identity.cluster_timestamp
        self._context.reply(follower.call_id, GetEventsResponse(events, following, history.oldest, timestamp))
        return True
