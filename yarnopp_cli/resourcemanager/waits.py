"""Calls of clients that are answered when a condition is fulfilled, or when their time has passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..machine.calls import LONGEST_HOLD_MS, CallReceived
from .context import RMContext
from .due import Due, DueKind

ResponseT = TypeVar("ResponseT")
Answer = Callable[[bool], ResponseT | None]
"""Returns the answer if the condition is fulfilled, or if called with True; None if the call has to wait."""


class Waits:
    """Calls that wait for changes of one kind of entity; ``due`` is the kind of their deadlines."""

    def __init__(self, context: RMContext, due: DueKind) -> None:
        self._rm = context
        self._due = due
        self._waiting: dict[str, tuple[CallReceived, Answer[Any]]] = {}

    def answer(self, call: CallReceived, answer: Answer[ResponseT], wait_ms: int) -> ResponseT | None:
        """The answer, if there is one or the call does not wait; else None, and the answer follows later."""
        response = answer(wait_ms <= 0 or self._rm.ending)
        if response is None:
            key = str(call.call_id)
            self._waiting[key] = (call, answer)
            self._rm.deadlines.set(Due(self._due, key), self._rm.now + min(wait_ms, LONGEST_HOLD_MS) / 1000)
        return response

    def check(self) -> None:
        """The entities have changed: answer the calls whose condition is fulfilled, or all of them if the cluster
        ends."""
        for key in list(self._waiting):
            self._try(key, final=self._rm.ending)

    def time_is_over(self, key: str) -> None:
        """The time of a waiting call has passed."""
        if key in self._waiting:
            self._try(key, final=True)

    def connection_lost(self, connection_id: int) -> None:
        """Forget the waiting calls of a connection that was lost."""
        for key, (call, _) in list(self._waiting.items()):
            if call.connection_id == connection_id:
                self._forget(key)

    def _try(self, key: str, *, final: bool) -> None:
        call, answer = self._waiting[key]
        if (response := answer(final)) is not None:
            self._forget(key)
            self._rm.reply(call.call_id, response)

    def _forget(self, key: str) -> None:
        del self._waiting[key]
        self._rm.deadlines.clear(Due(self._due, key))
