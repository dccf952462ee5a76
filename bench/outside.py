"""How much opportunistic containers disturb programs outside yopp, and how much of the rest of the CPU they use.

In each trial the load runs alone in one window and beside opportunistic containers in another, measured from the
second second on. Trials of all cases take turns, in clusters with the shipped site file. ``of alone`` is the CPU time
that the load had beside containers, divided by what it had alone; of a compiler, that of everything outside yopp, and
what it did not have counts only as far as yopp took it; of a process that wakes, how often it was done in time.
``work`` is the same of what was done in that CPU time: by a compiler, 0.8 to 1.4 of that in the window before, also
without any containers; in memory, less while another core is busy, whoever uses it. ``of what is left`` is the CPU
time of the containers, divided by what the load left of the host. A process that wakes every 10 ms has a millisecond
of work to do; ``later by`` is how much later it finishes that. The floor is the same without containers. Then short
tasks beside a load are timed, compared with GNU parallel.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import psutil

from .cluster import ROOT, Cluster
from .harness import Rounds, Sample, Table, program, quantile, tell
from .loads import COMPILING, HELD_MB, HOLDER, LOADS, MEMORY, NEEDED_MB, SPIN, WAKING, Load
from .machine import CORES, busy_seconds, own_seconds, processes, tree

SITE = str(ROOT / "configs" / "yarn-site.toml")
SHIPPED = "yopp.nodemanager.pressure.enabled=true"
FLOOR = "yopp.nodemanager.pressure.memory-available-mb"
SETTLING_SECONDS = 1.0
"""The time between the submission, when the ResourceManager has the job, and the start of the window: yopp's promise
holds from the second second on."""

NOISY_CORES = 0.08
"""A trial in which other programs use more cores than this is spoilt."""


@dataclass
class Window:
    """What happened in some seconds: the work of the load, the CPU time of the load, of containers, of yopp's daemons
    and of everything together."""

    seconds: float
    work: float
    own: float
    inside: float
    daemons: float
    busy: float
    late: list[float]
    available: float
    """The least memory that was available, in MB."""

    @property
    def outside(self) -> float:
        """The cores that all others have used."""
        return self.busy - self.inside - self.daemons


def yopp_seconds(clusters: list[Cluster]) -> tuple[float, float]:
    """The CPU time so far of containers, including the children that they have reaped, and of the daemons."""
    daemons = {pid for cluster in clusters for pid in cluster.pids()}
    seen = processes()
    below = tree({pid: one[0] for pid, one in seen.items()}, daemons) - daemons
    inside = sum(seen[pid][1] + seen[pid][2] for pid in below)
    return inside, sum(seen[pid][1] for pid in daemons if pid in seen)


def until_at_work(load: Load, seconds: float = 60.0) -> None:
    """Wait until all programs of the load are at work, which takes some tenths of a second, on a slow machine some
    seconds."""
    begun, deadline = load.work(), time.monotonic() + seconds
    while load.roots and load.work() < begun + load.settled:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the load has not begun to work within {seconds:g} s")
        time.sleep(0.02)


def window(load: Load, clusters: list[Cluster], seconds: float) -> Window:
    """Wait for ``seconds``, and return what happened meanwhile. What takes CPU time itself is read before and after;
    during it, only the memory of a load that takes some."""

    def work() -> tuple[float, ...]:
        return time.monotonic(), load.work(), own_seconds(load.roots), busy_seconds()

    daemons_and_inside, late = yopp_seconds(clusters), len(load.lateness())
    before, least, end = work(), available_mb(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.05, left) if load.takes_memory else left)
        least = min(least, available_mb())
    after = work()
    passed, *used = (end - begin for begin, end in zip(before, after, strict=True))
    used += (end - begin for begin, end in zip(daemons_and_inside, yopp_seconds(clusters), strict=True))
    done, own, busy, inside, daemons = (one / passed for one in used)
    return Window(passed, done, own, inside, daemons, busy, load.lateness()[late:], least)


@dataclass(frozen=True)
class Case:
    """A load, and how yopp is used beside it."""

    load: str
    clusters: int = 1
    detached: bool = False
    guaranteed: str = ""
    """``idle`` or ``busy``: a guaranteed container with one vcore beside the opportunistic ones."""
    floor: bool = False

    def __str__(self) -> str:
        if self.floor:
            return f"{self.load}: alone (floor)"
        words = ["3 clusters" if self.clusters > 1 else "detached" if self.detached else "foreground"]
        if self.guaranteed:
            words.append(f"{self.guaranteed} guaranteed one")
        return f"{self.load}: {', '.join(words)}"


CASES = [
    case
    for load in LOADS
    for case in (
        Case(load, floor=True),
        Case(load),
        Case(load, detached=True),
        # Beside nothing that shows what is allocated, and not who disturbs whom.
        *([Case(load, detached=True, guaranteed="idle")] if load != "nothing" else []),
        Case(load, detached=True, guaranteed="busy") if load == MEMORY else Case(load, clusters=3),
        *([Case(load, detached=True, guaranteed="busy")] if load == "two spinners" else []),
    )
]

LEAST_MEDIAN, LEAST_WORST, LEAST_LEFT = 0.97, 0.90, 0.90
"""The goals: of what the load does alone (median, worst), and of what it leaves."""


TASK_SECONDS = {"nothing": 0.15, "one spinner": 0.2, "make -j2": 0.6, "two spinners": 0.8}
"""How long a short task of each kind takes in all runners together, beside these loads, on two cores."""
FEWER = 3
"""Beside two spinners, which leave nothing, so many times fewer tasks are timed."""


def expected_seconds(case: Case, seconds: float) -> float:
    """How long a trial takes that is not spoilt."""
    return 2 * seconds + (0.5 if case.floor else SETTLING_SECONDS + 1 + 2 * (case.load == MEMORY))


def start_job(cluster: Cluster, case: Case, stack: ExitStack) -> None:
    """Run opportunistic spinners, as many as there are cores, until the stack is closed."""
    memory, command = (HELD_MB + 64, HOLDER) if case.load == MEMORY else (32, SPIN)
    words = ["run", "-q", "-O", "-n", str(CORES), "--memory", str(memory)]
    if case.detached:
        cluster.run(*words, "-d", *command)
        stack.callback(cluster.run, "app", "kill", "last", "-y")
    else:
        stack.callback(_end, cluster.start(*words, *command))


def _end(job: subprocess.Popen[bytes]) -> None:
    job.terminate()
    job.wait()


def trial(case: Case, clusters: Sequence[Cluster], seconds: float, attempts: int) -> Sample:
    """Run one trial; repeat it while other programs spoil it."""
    sample = None
    for left in reversed(range(attempts)):
        with ExitStack() as stack:
            if case.load == MEMORY:
                clusters = [stack.enter_context(short_of_memory())]
            sample = _trial(case, clusters[: case.clusters], seconds, left > 0)
        if sample is not None and sample.others <= NOISY_CORES:
            break
    assert sample is not None
    return sample


def available_mb() -> float:
    """The memory that is available now, in MB."""
    return psutil.virtual_memory().available / (1 << 20)


def short_of_memory() -> Cluster:
    """A cluster whose host counts as short of memory while the load has what it needs and more than one
    container runs."""
    floor = int(available_mb()) - NEEDED_MB - HELD_MB * 3 // 2
    return Cluster(
        SHIPPED, f"{FLOOR}={floor}", words=("--conf", SITE), vcores=CORES, memory=CORES * (HELD_MB + 64)
    )


def _trial(case: Case, clusters: Sequence[Cluster], seconds: float, repeats: bool) -> Sample | None:
    """One attempt; None, if it can be repeated, as soon as it is known to be spoilt."""
    for cluster in clusters:
        cluster.until_empty()
    with ExitStack() as stack:
        if case.guaranteed:
            command = SPIN if case.guaranteed == "busy" else ["sleep", "600"]
            held = clusters[0].start("run", "-q", "--memory", "32", *command)
            stack.callback(_end, held)
            clusters[0].until_running(1)
        load = stack.enter_context(LOADS[case.load]())
        until_at_work(load)
        alone = window(load, clusters, seconds)
        if repeats and _others(case, (alone,)) > NOISY_CORES:
            return None
        if case.floor:
            beside = window(load, clusters, seconds)
        else:
            before = [cluster.last_event() for cluster in clusters]
            for cluster in clusters:
                start_job(cluster, case, stack)
            for cluster, since in zip(clusters, before, strict=True):
                cluster.until_submitted(since)
            time.sleep(SETTLING_SECONDS)
            beside = window(load, clusters, seconds)
    figures = {}
    if case.load == COMPILING:
        # A compiler needs less now and then. It has lost no more than yopp took.
        least = alone.outside - beside.inside - beside.daemons
        figures["of alone"] = max(beside.outside, least) / alone.outside
    elif case.load == MEMORY:
        figures["of alone"] = beside.own / alone.own
    elif alone.work:
        figures["of alone"] = beside.work / alone.work
    if case.load in (COMPILING, MEMORY) and alone.work:  # on a slow machine a window may be too short for any
        figures["work"] = beside.work / alone.work
    left = CORES - alone.busy
    if not case.floor and left > 0.2 and case.load not in (WAKING, MEMORY):
        figures["of what is left"] = (beside.inside - alone.inside) / left
    if alone.late and beside.late:
        for name, share in (("median", 0.5), ("99 %", 0.99)):
            figures[name] = quantile(beside.late, share) - quantile(alone.late, share)
    if case.load == MEMORY and not case.floor:
        figures["spare"] = beside.available - alone.available + HELD_MB * 3 / 2
    figures["inside"] = beside.inside
    return Sample(figures, _others(case, (alone, beside)))


def _others(case: Case, windows: tuple[Window, ...]) -> float:
    """The cores that other programs used meanwhile; unknown, and 0, for a compiler, whose processes come and go."""
    if case.load == COMPILING:
        return 0.0
    return max(0.0, *(one.busy - one.own - one.inside for one in windows))


def noticed(cases: list[Case], trials: int, seconds: float, attempts: int, define: list[str]) -> Table:
    """The table of all cases."""
    table = Table(
        f"What a load outside gets with opportunistic containers beside it, {trials} trials of {seconds:g} s",
        (
            "load: job",
            "of alone",
            "worst",
            "work",
            "of what is left",
            "worst left",
            "later by, ms",
            "99 %",
            "MB to spare",
        ),
    )
    with ExitStack() as stack:
        words = ("--conf", SITE)
        clusters = [
            stack.enter_context(Cluster(SHIPPED, *define, words=words, vcores=CORES, memory=1024))
            for _ in range(max(0 if case.load == MEMORY else case.clusters for case in cases))
        ]
        rounds = Rounds(
            {str(case): partial(trial, case, clusters, seconds, attempts) for case in cases},
            trials,
            warm=False,
            shows=True,
        )
    table.interrupted = rounds.interrupted
    for name in rounds.samples:
        done, left = rounds.values(name, "of alone"), rounds.values(name, "of what is left")
        table.rows.append(
            (rounds.label(name),
             rounds.median(name, "of alone"), min(done, default=None), rounds.median(name, "work"),
             rounds.median(name, "of what is left"), min(left, default=None),
             rounds.median(name, "median"), rounds.median(name, "99 %"),
             min(rounds.values(name, "spare"), default=None))
        )  # fmt: skip
    for load in dict.fromkeys(case.load for case in cases):
        ours = [case for case in cases if case.load == load and not case.floor]
        names = [str(case) for case in ours if str(case) in rounds.samples]
        table.notes += _verdicts(load, rounds, names)
    table.notes += rounds.notes()
    return table


def _verdicts(load: str, rounds: Rounds, names: list[str]) -> list[str]:
    """Whether a load meets the goals, over all the ways in which yopp was used beside it."""
    done = [value for name in names for value in rounds.values(name, "of alone")]
    left = [value for name in names for value in rounds.values(name, "of what is left")]
    said = []
    if done:
        median, worst = statistics.median(done), min(done)
        held = "held" if median >= LEAST_MEDIAN and worst >= LEAST_WORST else "NOT held"
        aims = f"{LEAST_MEDIAN} and {LEAST_WORST}"
        said.append(f"{load}, {len(done)} trials: {median:.2f} of alone, worst {worst:.2f} ({aims}: {held})")
    if left:
        median, aim = statistics.median(left), LEAST_MEDIAN if load == "nothing" else LEAST_LEFT
        held = "held" if median >= aim else "NOT held"
        said.append(f"containers beside {load}: {median:.2f} of what is left ({aim}: {held})")
    return said


def short_tasks(load: str, tasks: int, trials: int, define: list[str]) -> Table:
    """The times of many short tasks beside a load: with GNU parallel, and as opportunistic containers."""
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
            # Among the processes of its session only, where the kernel has autogroups (sched(7)).
            return ["nice", "-n19", *parallel(task)]

        def ours(task: list[str]) -> list[str]:
            return ["run", "-q", "-O", "-n", str(tasks), "--memory", "16", *task]

        cases = {
            "GNU parallel (floor)": partial(timed, parallel, False),
            "nice -n19 parallel": partial(timed, nice, False),
            "yopp run -O": partial(timed, ours, True),
        }
        rounds = Rounds(cases, trials, warm=False, shows=True)
    table.interrupted = rounds.interrupted
    table.notes += rounds.notes()
    floor = next(iter(rounds.samples), "")
    for name in rounds.samples:
        row: list[str | float | None] = [name]
        for kind in kinds:
            values = rounds.values(name, kind)
            row += [statistics.median(values), max(values), rounds.ratio(name, kind, floor)]
        table.rows.append(row)
    return table


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument(
        "--trials", type=int, help="trials of each case (5, so 20 or more of each load; short 2)"
    )
    parser.add_argument("--seconds", type=float, help="the length of a window (2)")
    parser.add_argument("--load", action="append", choices=tuple(LOADS), help="these loads only")
    parser.add_argument(
        "--case", action="append", default=[], metavar="WORDS", help="only cases whose row has these words"
    )
    parser.add_argument("--attempts", type=int, default=2, help="how often a spoilt trial is made (2)")
    parser.add_argument("--tasks", type=int, help="short tasks beside each load (150; short 50; 0 for none)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield the table of what loads notice, and one of short tasks beside each load."""
    trials, seconds = given.trials or (2 if given.short else 5), given.seconds or 2
    loads = given.load or list(LOADS)
    cases = [case for case in CASES if case.load in loads]
    if given.short and not given.load:
        cases = [case for case in cases if case.floor or (case.clusters == 1 and not case.guaranteed)]
    cases = [case for case in cases if not given.case or any(word in str(case) for word in given.case)]
    tasks = given.tasks if given.tasks is not None else (50 if given.short else 150)
    timed = {
        load: tasks // (FEWER if load == "two spinners" else 1) for load in TASK_SECONDS if load in loads
    }
    timed = {load: number for load, number in timed.items() if number}
    expected = trials * sum(expected_seconds(case, seconds) for case in cases)
    by_tasks = trials * sum(number * TASK_SECONDS[load] for load, number in timed.items())
    tell(
        f"This takes about {(expected + by_tasks) / 60:.1f} minutes on two cores, up to "
        f"{(given.attempts * expected + by_tasks) / 60:.1f} if other programs spoil trials. "
        "Ctrl-C prints the table of what has been measured."
    )
    if cases:
        yield noticed(cases, trials, seconds, given.attempts, given.define)
    for load, number in timed.items():
        yield short_tasks(load, number, trials, given.define)


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
