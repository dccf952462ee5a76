"""Calls of clients that are answered once something has come about, or when their time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..machine.calls import LONGEST_HOLD_MS, CallReceived
from .context import RMContext
from .due import Due, DueKind

ResponseT = TypeVar("ResponseT")
Answer = Callable[[bool], ResponseT | None]
"""The answer if what is waited for has come about, or where True is given; None if it is still to come."""


class Waits:
    """Calls that wait for things of one kind; ``due`` is what their deadlines are called."""

    def __init__(self, context: RMContext, due: DueKind) -> None:
        self._rm = context
        self._due = due
        self._waiting: dict[str, tuple[CallReceived, Answer[Any]]] = {}

    def answer(self, call: CallReceived, answer: Answer[ResponseT], wait_ms: int) -> ResponseT | None:
        """The answer, if there is one or no time to wait for it; else None, and it comes later."""
        response = answer(wait_ms <= 0 or self._rm.ending)
        if response is None:
            key = str(call.call_id)
            self._waiting[key] = (call, answer)
            self._rm.deadlines.set(Due(self._due, key), self._rm.now + min(wait_ms, LONGEST_HOLD_MS) / 1000)
        return response

    def check(self) -> None:
        """Something changed that they may wait for; where the cluster ends all of them are answered."""
        for key in list(self._waiting):
            self._try(key, final=self._rm.ending)

    def time_is_over(self, key: str) -> None:
        """The time of one has passed."""
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
