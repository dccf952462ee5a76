"""Runs blocking work beside the loop, even while the host has no room for another thread.

Decisions: ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_SECONDS = 0.1
"""How long work waits for an existing thread if no new one can be started."""


async def beside(threads: Executor | None, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do some work in one of ``threads``; None stands for the loop's default threads.

    If no thread can be started, an existing one does the work, or else the loop itself: containers may have
    used up all processes of the host, and this work is what ends them.
    """
    done: Future[T] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            with _Telling(done):
                done.set_result(work(*args, **kwargs))

    told = asyncio.wrap_future(done)
    try:
        asyncio.get_running_loop().run_in_executor(threads, run)
    except RuntimeError:  # no thread was started, but the work is queued
        await asyncio.wait([told], timeout=PATIENCE_SECONDS)
        if done.cancel():
            return work(*args, **kwargs)
    return await told


class _Telling(Generic[T]):
    """Hands an exception to whoever awaits the future."""

    def __init__(self, done: Future[T]) -> None:
        self._done = done

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            self._done.set_exception(error)
        return True
