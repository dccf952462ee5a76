"""Blocking calls in daemon threads: quitting never waits for a daemon that does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from ..errors import YoppError

T = TypeVar("T")


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Begin ``function`` in a thread of its own; its result, or the YoppError or OSError that it raised, in a
    future of the running loop.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        problem: BaseException | None = RuntimeError("the call ended without an answer")  # a bug's, if any
        try:
            result = function()
            problem = None
        except (YoppError, OSError) as error:
            problem = error
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, result, problem)

    threading.Thread(target=run, daemon=True, name="yopp-top").start()
    return future
