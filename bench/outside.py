"""What programs outside yopp notice of opportunistic containers, and what these make of what is left.

A trial has a window in which the load outside runs alone, and one with opportunistic containers beside it, from the
second second on. Trials of all cases take turns, in clusters with the site file that yopp ships. ``of alone`` is the
work that the load outside got done, in parts of what it did alone; ``of what is left`` the CPU time of the containers,
in parts of what the load had left of the machine. A process that wakes every 10 ms has a millisecond of work to do
before it is due again; how much later that is done is told besides. The floor is the same without containers. Then
short tasks beside a load are timed against GNU parallel.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .cluster import ROOT, Cluster
from .harness import Rounds, Sample, Table, program, quantile
from .machine import CORES, busy_seconds, own_seconds, processes, tree

SPIN = ["sh", "-c", "while :; do :; done"]
SITE = str(ROOT / "configs" / "yarn-site.toml")
SHIPPED = "yopp.nodemanager.pressure.enabled=true"
SETTLING_SECONDS = 1.5
"""What is promised is promised from the second second on: so long after the submission the window begins."""

NOISY_CORES = 0.08
"""Other programs that use more than this spoil a trial."""

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
"""Wakes every 10 ms, works for about one, and writes down how many milliseconds after it was due that was done."""

MAKEFILE = """
all: $(foreach n,$(shell seq 1 400),unit$(n).o)
unit%.o:
\t@i=0; while [ $$i -lt 20000 ]; do i=$$((i+1)); done
\t@head -c 400000 /dev/zero | od -v > $@.tmp; mv $@.tmp $@; echo >> done
"""
"""Like a compiler: many short processes that compute, read and write files; each leaves a line when it is done."""


@dataclass
class Load:
    """A load outside yopp, under way: its processes, and how much work it has done so far."""

    roots: list[int]
    work: Callable[[], float]
    lateness: Callable[[], list[float]] = list
    settled: float = 0.5
    """It is at work once it has done so much."""


@contextlib.contextmanager
def _running(*commands: list[str], **options: object) -> Iterator[list[int]]:
    """Commands in sessions of their own, as programs of other terminals are; ended with all that they started."""
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
    """So many endless loops: their work is their CPU time."""
    with _running(*[SPIN] * number) as roots:
        yield Load(roots, lambda: own_seconds(roots))


@contextlib.contextmanager
def compiling() -> Iterator[Load]:
    """``make -j2``, again and again: its work is what has been made."""
    with tempfile.TemporaryDirectory(prefix="yobench-make") as folder:
        Path(folder, "Makefile").write_text(MAKEFILE)
        endless = "while :; do make -s -j2 all; rm -f unit*.o; done"
        with _running(["sh", "-c", endless], cwd=folder) as roots:
            done = Path(folder, "done")
            yield Load(roots, lambda: float(done.stat().st_size if done.exists() else 0), settled=10)


@contextlib.contextmanager
def waking() -> Iterator[Load]:
    """A process that wakes every 10 ms: its work is how often it was in time, before it is due again."""
    with tempfile.TemporaryDirectory(prefix="yobench-wake") as folder:
        path = Path(folder, "late")
        path.touch()
        with _running([sys.executable, "-S", "-E", "-c", WAKER, str(path)]) as roots:

            def lateness() -> list[float]:
                text = path.read_text()
                return [float(line) for line in text[: text.rfind("\n") + 1].split()]

            yield Load(roots, lambda: float(sum(late < 10.0 for late in lateness())), lateness, settled=10)


@contextlib.contextmanager
def nothing() -> Iterator[Load]:
    """No load: all is left."""
    yield Load([], lambda: 0.0)


SPINNING = ("two spinners", "one spinner", "nothing")
LOADS: dict[str, Callable[[], contextlib.AbstractContextManager[Load]]] = {
    "two spinners": partial(spinners, 2),
    "one spinner": partial(spinners, 1),
    "make -j2": compiling,
    "wakes every 10 ms": waking,
    "nothing": nothing,
}


@dataclass
class Window:
    """What happened in some seconds: the work of the load, the CPU of containers, of the load and of all else."""

    seconds: float
    work: float
    inside: float
    busy: float
    late: list[float]


def container_seconds(clusters: list[Cluster]) -> float:
    """The CPU time of containers so far, with what they have reaped."""
    daemons = {pid for cluster in clusters for pid in cluster.pids()}
    seen = processes()
    below = tree({pid: one[0] for pid, one in seen.items()}, daemons) - daemons
    return sum(seen[pid][1] + seen[pid][2] for pid in below)


def until_at_work(load: Load, seconds: float = 10.0) -> None:
    """Wait until all programs of the load do what they are to do, which takes some tenths of a second."""
    begun, deadline = load.work(), time.monotonic() + seconds
    while load.roots and load.work() < begun + load.settled:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the load has not begun to work within {seconds:g} s")
        time.sleep(0.02)


def window(load: Load, clusters: list[Cluster], seconds: float) -> Window:
    """Let that long pass."""

    def now() -> tuple[float, float, float, float, int]:
        return (
            time.monotonic(),
            load.work(),
            container_seconds(clusters),
            busy_seconds(),
            len(load.lateness()),
        )

    before = now()
    time.sleep(seconds)
    after = now()
    passed, work, inside, busy, _ = (end - begin for begin, end in zip(before, after, strict=True))
    return Window(passed, work / passed, inside / passed, busy / passed, load.lateness()[before[4] :])


@dataclass(frozen=True)
class Case:
    """A load, and how yopp is used beside it."""

    load: str
    clusters: int = 1
    detached: bool = False
    guaranteed: str = ""
    """``idle`` or ``busy``: a guaranteed container of a vcore beside the opportunistic ones."""
    floor: bool = False

    def __str__(self) -> str:
        if self.floor:
            return f"{self.load}: alone (floor)"
        words = ["3 clusters" if self.clusters > 1 else "detached" if self.detached else "foreground"]
        if self.guaranteed:
            words.append(f"{self.guaranteed} guaranteed one")
        return f"{self.load}: {', '.join(words)}"


CASES = [
    *(
        case
        for load in LOADS
        for case in (
            Case(load, floor=True),
            Case(load),
            Case(load, detached=True),
            Case(load, detached=True, guaranteed="idle"),
        )
    ),
    Case("two spinners", clusters=3),
    Case("one spinner", clusters=3),
    Case("wakes every 10 ms", clusters=3),
    Case("two spinners", detached=True, guaranteed="busy"),
]


def start_job(cluster: Cluster, case: Case, stack: ExitStack) -> None:
    """Opportunistic spinners, as many as there are cores, until the stack is left."""
    words = ["run", "-q", "-O", "-n", str(CORES), "--memory", "32"]
    if case.detached:
        cluster.run(*words, "-d", *SPIN)
        stack.callback(cluster.run, "app", "kill", "last", "-y")
    else:
        stack.callback(_end, cluster.start(*words, *SPIN))


def _end(job: subprocess.Popen[bytes]) -> None:
    job.terminate()
    job.wait()


def trial(case: Case, clusters: list[Cluster], seconds: float, attempts: int) -> Sample:
    """One trial; it is repeated while other programs spoil it."""
    for _ in range(attempts):
        sample = _trial(case, clusters[: case.clusters], seconds)
        if sample.others <= NOISY_CORES:
            break
    return sample


def _trial(case: Case, clusters: list[Cluster], seconds: float) -> Sample:
    with ExitStack() as stack:
        if case.guaranteed:
            command = SPIN if case.guaranteed == "busy" else ["sleep", "600"]
            held = clusters[0].start("run", "-q", "--memory", "32", *command)
            stack.callback(_end, held)
            clusters[0].until_running(1)
        load = stack.enter_context(LOADS[case.load]())
        until_at_work(load)
        alone = window(load, clusters, seconds)
        if case.floor:
            beside = window(load, clusters, seconds)
        else:
            for cluster in clusters:
                start_job(cluster, case, stack)
            time.sleep(SETTLING_SECONDS)
            beside = window(load, clusters, seconds)
    figures = {}
    if alone.work:
        figures["of alone"] = beside.work / alone.work
    left = CORES - alone.busy
    if not case.floor and left > 0.2 and case.load != "wakes every 10 ms":
        figures["of what is left"] = (beside.inside - alone.inside) / left
    if alone.late and beside.late:
        for name, share in (("median", 0.5), ("99 %", 0.99)):
            figures[name] = quantile(beside.late, share) - quantile(alone.late, share)
    figures["inside"] = beside.inside
    return Sample(figures, _others(case, (alone, beside)))


def _others(case: Case, windows: tuple[Window, Window]) -> float:
    """Cores that other programs used meanwhile, where that can be known: the work of spinners is their CPU time."""
    if case.load not in SPINNING:
        return 0.0
    return max(0.0, *(one.busy - one.work - one.inside for one in windows))


def noticed(cases: list[Case], trials: int, seconds: float, attempts: int, define: list[str]) -> Table:
    """The table of all cases."""
    table = Table(
        f"What a load outside gets with opportunistic containers beside it, {trials} trials of {seconds:g} s",
        ("load: job", "of alone", "worst", "of what is left", "worst left", "later by, ms", "99 %"),
    )
    with ExitStack() as stack:
        words = ("--conf", SITE)
        clusters = [
            stack.enter_context(Cluster(SHIPPED, *define, words=words, vcores=CORES))
            for _ in range(max(case.clusters for case in cases))
        ]
        rounds = Rounds(
            {str(case): partial(trial, case, clusters, seconds, attempts) for case in cases},
            trials,
            warm=False,
        )
    for name in rounds.samples:
        done, left = rounds.values(name, "of alone"), rounds.values(name, "of what is left")
        table.rows.append(
            (rounds.label(name),
             rounds.median(name, "of alone"), min(done, default=None),
             rounds.median(name, "of what is left"), min(left, default=None),
             rounds.median(name, "median"), rounds.median(name, "99 %"))
        )  # fmt: skip
    table.notes += rounds.notes()
    return table


def short_tasks(load: str, tasks: int, trials: int, define: list[str]) -> Table:
    """How long many short tasks take beside a load: with GNU parallel, and as opportunistic containers."""
    table = Table(
        f"{tasks} tasks beside a load outside: {load}",
        (
            "runner",
            "sleep 0.03, s",
            "worst",
            "of the floor",
            "a hundredth of a core-second, s",
            "worst ",
            "of the floor ",
        ),
    )
    computes = ["sh", "-c", "i=0; while [ $i -lt 7000 ]; do i=$((i+1)); done"]
    kinds = {"sleep": ["sleep", "0.03"], "cpu": computes}
    with Cluster(SHIPPED, *define, words=("--conf", SITE), vcores=CORES) as cluster, LOADS[load]():

        def timed(words: Callable[[list[str]], list[str]], own: bool) -> Sample | None:
            if not own and shutil.which("parallel") is None:
                return None
            figures = {}
            for kind, task in kinds.items():
                begun = time.monotonic()
                if own:
                    cluster.run(*words(task))
                else:
                    subprocess.run(
                        words(task), check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
                    )
                figures[kind] = time.monotonic() - begun
            return Sample(figures)

        lines = [str(number) for number in range(tasks)]

        def parallel(task: list[str]) -> list[str]:
            return ["parallel", "-N0", f"-j{CORES}", shlex.join(task), ":::", *lines]

        def nice(task: list[str]) -> list[str]:
            return ["nice", "-n19", *parallel(task)]

        def ours(task: list[str]) -> list[str]:
            return ["run", "-q", "-O", "-n", str(tasks), "--memory", "16", *task]

        cases = {
            "GNU parallel (floor)": partial(timed, parallel, False),
            "nice -n19 parallel": partial(timed, nice, False),
            "yopp run -O": partial(timed, ours, True),
        }
        rounds = Rounds(cases, trials, warm=False)
    floor = next(iter(rounds.samples))
    for name in rounds.samples:
        row: list[str | float | None] = [name]
        for kind in kinds:
            values = rounds.values(name, kind)
            row += [statistics.median(values), max(values), rounds.ratio(name, kind, floor)]
        table.rows.append(row)
    return table


def options(parser: argparse.ArgumentParser) -> None:
    """What this program takes besides what all do."""
    parser.add_argument("--trials", type=int, help="trials of each case (20; short 2)")
    parser.add_argument("--seconds", type=float, help="the length of a window (10; short 3)")
    parser.add_argument("--load", action="append", choices=tuple(LOADS), help="these loads only")
    parser.add_argument(
        "--case", action="append", default=[], metavar="WORDS", help="only cases whose row has these words"
    )
    parser.add_argument("--attempts", type=int, default=4, help="how often a spoilt trial is made (4)")
    parser.add_argument("--tasks", type=int, help="short tasks beside each load (300; short 100; 0 for none)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """What is noticed, and short tasks beside each load."""
    trials, seconds = given.trials or (2 if given.short else 20), given.seconds or (3 if given.short else 10)
    loads = given.load or list(LOADS)
    cases = [case for case in CASES if case.load in loads]
    if given.short and not given.load:
        cases = [case for case in cases if case.floor or (case.clusters == 1 and not case.guaranteed)]
    cases = [case for case in cases if not given.case or any(word in str(case) for word in given.case)]
    if cases:
        yield noticed(cases, trials, seconds, given.attempts, given.define)
    tasks = given.tasks if given.tasks is not None else (100 if given.short else 300)
    for load in ("nothing", "one spinner", "make -j2"):
        if tasks and load in loads:
            yield short_tasks(load, tasks, min(trials, 5), given.define)


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
