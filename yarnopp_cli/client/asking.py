"""Asking many daemons at once, by threads that nobody waits for: one that hangs holds up neither Ctrl-C nor the end."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def ask_each(
    things: Sequence[Thing],
    ask: Callable[[Thing], Answer],
    *,
    late: Callable[[Thing], Answer],
    threads: int,
    seconds: float,
) -> list[Answer]:
    """``ask`` of each, by that many threads at most, in the order of ``things``; ``late`` of those that have not
    answered ``seconds`` after the begin. Raises what ``ask`` raises.
    """
    until = time.monotonic() + seconds
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    answered: queue.SimpleQueue[tuple[int, Answer | None, BaseException | None]] = queue.SimpleQueue()
    for index in range(len(things)):
        waiting.put(index)

    def work() -> None:
        while time.monotonic() < until:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            answer: Answer | None = None
            try:
                answer = ask(things[index])
            finally:
                answered.put((index, answer, sys.exc_info()[1]))

    for _ in range(min(threads, len(things))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[int, Answer] = {}
    while len(found) < len(things):
        try:
            index, answer, error = answered.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if error is not None:
            raise error
        found[index] = cast(Answer, answer)
    return [found[index] if index in found else late(thing) for index, thing in enumerate(things)]
