"""Loads outside yopp: programs that spin, compile, wake up or use memory, and how much work each has done so far."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .machine import own_seconds

SPIN = ["sh", "-c", "while :; do :; done"]
WAKER = """
import sys, time
clock, late = time.perf_counter, []
def work():
    total = 0
    for one in range(15000): total += one
report = open(sys.argv[1], "w", buffering=1)
due = clock() + 0.01
while True:
    time.sleep(max(0.0, due - clock()))
    work()
    report.write(f"{(clock() - due) * 1000:.3f}\\n")
    due = max(due + 0.01, clock())
"""
"""Wakes every 10 ms, works for about one, and writes how many milliseconds after it was due the work was done."""

NEEDED_MB = 256
"""How much memory the load that works in memory allocates, again and again."""

PASSES = 20
"""How often that load writes to all of its memory before it frees it."""

HELD_MB = 256
"""How much memory each container beside it holds."""

TAKER = f"""
import sys
report = open(sys.argv[1], "w", buffering=1)
while True:
    pages = bytearray({NEEDED_MB} << 20)
    for one in range({PASSES}):
        pages[::4096] = bytes([one]) * len(range(0, len(pages), 4096))
        report.write("+")
        report.flush()
    del pages
"""
"""Allocates memory, writes to each page of it many times, and frees it; each pass writes one character."""

HOLDER = [
    "python3", "-S", "-E", "-c",
    f"held = bytearray({HELD_MB} << 20); held[::4096] = b'x' * len(range(0, len(held), 4096))\nwhile True: pass",
]  # fmt: skip
"""A container that holds memory while it computes."""

MAKEFILE = """
all: $(foreach n,$(shell seq 1 400),unit$(n).o)
unit%.o:
\t@i=0; while [ $$i -lt 20000 ]; do i=$$((i+1)); done
\t@head -c 400000 /dev/zero | od -v > $@.tmp; mv $@.tmp $@; echo >> done
"""
"""Like a compiler: many short processes that compute, read and write files; each writes a line when it is done."""


@dataclass
class Load:
    """A running load outside yopp: its processes, and how much work it has done so far."""

    roots: list[int]
    work: Callable[[], float]
    lateness: Callable[[], list[float]] = list
    settled: float = 0.5
    """The work after which the load counts as started."""
    takes_memory: bool = False


@contextlib.contextmanager
def _running(*commands: list[str], **options: object) -> Iterator[list[int]]:
    """Run commands in sessions of their own, like programs of other terminals, and end them with all their
    descendants in the session."""
    started = [
        subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        for words in commands
    ]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


@contextlib.contextmanager
def spinners(number: int) -> Iterator[Load]:
    """Run ``number`` endless loops: their work is their CPU time."""
    with _running(*[SPIN] * number) as roots:
        yield Load(roots, lambda: own_seconds(roots))


@contextlib.contextmanager
def compiling() -> Iterator[Load]:
    """Run ``make -j2`` again and again: its work is the number of targets made."""
    with tempfile.TemporaryDirectory(prefix="yobench-make") as folder:
        Path(folder, "Makefile").write_text(MAKEFILE)
        endless = "while :; do make -s -j2 all; rm -f unit*.o; done"
        with _running(["sh", "-c", endless], cwd=folder) as roots:
            done = Path(folder, "done")
            yield Load(roots, lambda: float(done.stat().st_size if done.exists() else 0), settled=10)


@contextlib.contextmanager
def waking() -> Iterator[Load]:
    """Run a process that wakes every 10 ms: its work is how often it was done before it was due again."""
    with tempfile.TemporaryDirectory(prefix="yobench-wake") as folder:
        path = Path(folder, "late")
        path.touch()
        with _running([sys.executable, "-S", "-E", "-c", WAKER, str(path)]) as roots:

            def lateness() -> list[float]:
                text = path.read_text()
                return [float(line) for line in text[: text.rfind("\n") + 1].split()]

            yield Load(roots, lambda: float(sum(late < 10.0 for late in lateness())), lateness, settled=10)


@contextlib.contextmanager
def taking() -> Iterator[Load]:
    """Run a program that needs memory: its work is how often it went through all of it."""
    with tempfile.TemporaryDirectory(prefix="yobench-take") as folder:
        path = Path(folder, "done")
        path.touch()
        with _running([sys.executable, "-S", "-E", "-c", TAKER, str(path)]) as roots:
            yield Load(roots, lambda: float(path.stat().st_size), settled=2, takes_memory=True)


@contextlib.contextmanager
def nothing() -> Iterator[Load]:
    """No load: the whole host is left."""
    yield Load([], lambda: 0.0)


MEMORY = "needs memory"
WAKING = "wakes every 10 ms"
COMPILING = "make -j2"
LOADS: dict[str, Callable[[], contextlib.AbstractContextManager[Load]]] = {
    "two spinners": partial(spinners, 2),
    "one spinner": partial(spinners, 1),
    COMPILING: compiling,
    WAKING: waking,
    MEMORY: taking,
    "nothing": nothing,
}
