"""What a piece of work costs, in lines of Python executed: the same in each run, whatever else the machine does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python ``work`` executes in this thread, those of comprehensions and callees included.

    Work inside C functions (a long ``list.index``, a sort) counts as one line. Raises what ``work`` raises.
    """
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return on_line

    before = sys.gettrace()
    assert threading.current_thread() is threading.main_thread(), "other threads are not counted"
    sys.settrace(on_line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
