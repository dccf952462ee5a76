"""Where a cgroup reports what it has used: in which file, at which word, and in which unit."""

from __future__ import annotations

from collections.abc import Callable

from ...light import Record
from ..procfs import read_bytes


class Gauge(Record):
    """A figure of a cgroup: the file it is in, the word before it if the file has several, and the number to
    divide it by."""

    path: str
    word: str = ""
    unit: float = 1.0


class Gauges(Record):
    """Where a driver finds its figures; None for those it does not have. ``peak_of_file``: resetting the memory peak
    affects only readings of the same open file."""

    cpu_seconds: Gauge | None = None
    throttled_seconds: Gauge | None = None
    memory_bytes: Gauge | None = None
    memory_peak_bytes: Gauge | None = None
    oom_kills: Gauge | None = None
    tasks: Gauge | None = None
    limit_ooms: Gauge | None = None
    refused_forks: Gauge | None = None
    peak_of_file: bool = False


def beginning(path: str) -> bytes:
    """The text of a small file; empty if it does not exist."""
    return read_bytes(path, 4096)


def read_gauge(gauge: Gauge | None, read: Callable[[str], bytes] = beginning) -> float:
    """A figure; 0 if the file or the cgroup does not exist. ``read`` returns the text of a file, or raises
    OSError."""
    if gauge is None:
        return 0
    try:
        text = read(gauge.path)
        if gauge.word:
            text = text.split(gauge.word.encode() + b" ", 1)[1].split(None, 1)[0]
        return int(text) / gauge.unit
    except (OSError, ValueError, IndexError):
        return 0
