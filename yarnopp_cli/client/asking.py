"""Asks many daemons at once, in daemon threads: one that hangs delays neither Ctrl-C nor the end of
the process."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..errors import YoppError

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def ask_each(
    things: Sequence[Thing], ask: Callable[[Thing], Answer], *, threads: int, seconds: float
) -> list[Answer | YoppError | None]:
    """Call ``ask`` for each of ``things`` in at most ``threads`` threads; the results in the same order.

    A result is the answer, the YoppError that ``ask`` raised, or None if there was no answer within
    ``seconds``. Any other exception of ``ask`` is raised.
    """
    until = time.monotonic() + seconds
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    answered: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    for index in range(len(things)):
        waiting.put(index)

    def work() -> None:
        while time.monotonic() < until:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            answer: Any = None
            try:
                answer = ask(things[index])
            except YoppError as refusal:
                answer = refusal
            finally:
                answered.put((index, answer, sys.exc_info()[1]))

    for _ in range(min(threads, len(things))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[int, Answer | YoppError] = {}
    while len(found) < len(things):
        try:
            index, answer, error = answered.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if error is not None:
            raise error
        found[index] = answer
    return [found.get(index) for index in range(len(things))]
