"""How long a command takes from the shell: to the first instruction of what it runs, and to the prompt.

The task is a small static program that records when it begins; alone, it is the floor. "Bare Python" is this
interpreter with nothing to do: no program in Python starts sooner. The CPU is that of the command, without the daemons.
Then the lists are timed with --live sleeping containers on a node with more vcores than the host has, and a shell loop
submits detached jobs one after the other.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from executor.records import ExecutionType
from yarnopp_cli.errors import YoppError
from yarnopp_cli.records.job_protocol import SubmitJobRequest, WatchJobRequest
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, TaskSpec
from yarnopp_cli.records.requests import ApplicationSubmissionContext

from .cluster import Cluster, Home, first_stamp, yopp
from .harness import Rounds, Sample, Table, program, spread
from .machine import Meter, reaped_seconds
from .master import SMALL, Master
from .native import tool
from .rivals import HyperQueue, TaskSpooler, missing, rivals

PYTHON = "bare Python"
LIVE_MB = 8
SUBMISSIONS = 'n=$1; shift; while [ $n -gt 0 ]; do "$@" >/dev/null || exit 1; n=$((n-1)); done'


def from_shell(words: Sequence[str], environment: dict[str, str] | None, file: Path | None = None) -> Sample:
    """Run a command to its end; with ``file``, also measure when the task that writes to it began."""
    used, begun = reaped_seconds(), time.monotonic()
    subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    figures = {"prompt": 1000 * (time.monotonic() - begun), "cpu": 1000 * (reaped_seconds() - used)}
    if file is not None:
        figures["first"] = 1000 * (first_stamp(file) - begun)
    return Sample(figures)


def from_library(cluster: Cluster, file: Path) -> Sample:
    """Run the task by calls over one connection: submit, register, ask, start, and wait for the end."""
    used, begun = time.process_time(), time.monotonic()
    master = Master(cluster.rm)
    master.start(master.acquire(1, ExecutionType.GUARANTEED), [*tool("task"), str(file)])
    master.until_completed(1)
    master.finish()
    figures = {"prompt": 1000 * (time.monotonic() - begun), "cpu": 1000 * (time.process_time() - used)}
    return Sample({**figures, "first": 1000 * (first_stamp(file) - begun)})


def hosted(cluster: Cluster, file: Path) -> Sample | None:
    """Run the task by two calls, with the job's master in the RM; None if the RM hosts no masters."""
    task = TaskSpec(1, SMALL, count=1)
    job = JobSpec("bench", "YARN", (PhaseSpec("run", (task,), (*tool("task"), str(file))),))
    context = ApplicationSubmissionContext(application_id="", name="bench")
    used, begun = time.process_time(), time.monotonic()
    try:
        made = cluster.rm.call(SubmitJobRequest(context, job))
    except YoppError:
        return None
    watch = WatchJobRequest(made.application_id, tasks=False)
    while (answer := cluster.rm.call(watch)).end is None:
        watch = WatchJobRequest(made.application_id, answer.position, answer.notices, tasks=False)
    figures = {"prompt": 1000 * (time.monotonic() - begun), "cpu": 1000 * (time.process_time() - used)}
    return Sample({**figures, "first": 1000 * (first_stamp(file) - begun)})


def once(
    cluster: Cluster, demand: Home, others: Sequence[object], files: Iterator[Path]
) -> dict[str, Callable[[], Sample | None]]:
    """All commands, by name."""

    def stamped(words: Sequence[str], environment: dict[str, str]) -> Callable[[], Sample]:
        def case() -> Sample:
            file = next(files)
            return from_shell([*words, *tool("task"), str(file)], environment, file)

        return case

    def plain(*words: str) -> Callable[[], Sample]:
        return partial(from_shell, [*yopp(), *words], cluster.environment)

    run = [*yopp(), "run", "-q", "--memory", "32"]
    cases: dict[str, Callable[[], Sample | None]] = {
        "the task alone (floor)": stamped([], cluster.environment),
        PYTHON: partial(from_shell, [sys.executable, "-c", "pass"], cluster.environment),
        "yopp run": stamped([*run, "--"], cluster.environment),
        "yopp run -O": stamped([*run, "-O", "--"], cluster.environment),
        "yopp run, no cluster running": stamped([*run, "--"], demand.environment),
        "yopp's calls, one connection": lambda: from_library(cluster, next(files)),
        "yopp's submitJob and watchJob": lambda: hosted(cluster, next(files)),
        "yopp run -d": stamped([*run, "-d", "--"], cluster.environment),
        "yopp node list": plain("node", "list"),
        "yopp ps": plain("ps"),
        "yopp --help": plain("--help"),
    }
    for one in others:
        if isinstance(one, TaskSpooler):
            cases["tsp"] = stamped(["tsp", "-n"], one.environment)
            cases["tsp (list)"] = partial(from_shell, ["tsp"], one.environment)
        elif isinstance(one, HyperQueue):
            cases["HyperQueue's Python client"] = stamped(one.cold([]), cluster.environment)
    return cases


def first_table(rounds: Rounds) -> Table:
    """One command for each row."""
    table = Table(
        "One command from the shell, ms",
        (
            "command",
            "first instruction",
            "prompt",
            "smallest-largest",
            "of bare Python",
            "CPU of the command",
        ),
        notes=[*missing(), *rounds.notes()],
    )
    for name in rounds.samples:
        table.rows.append(
            (rounds.label(name), rounds.median(name, "first"), rounds.median(name, "prompt"),
             spread(rounds.values(name, "prompt")), rounds.ratio(name, "prompt", PYTHON), rounds.median(name, "cpu"))
        )  # fmt: skip
    return table


def lists(live: int, rounds: int, define: Sequence[str]) -> Table:
    """The times of lists with ``live`` live containers."""
    table = Table(
        f"Lists with {live:,} live containers, ms",
        ("command", "prompt", "smallest-largest", "of bare Python", "CPU of the command"),
    )
    with Cluster(*define, vcores=live, memory=LIVE_MB * live) as cluster:
        job = cluster.start("run", "-q", "-n", str(live), "--memory", str(LIVE_MB), "sleep", "600")
        try:
            cluster.until_running(live, seconds=300)
            python = [sys.executable, "-c", "pass"]
            words = {"yopp ps": ["ps"], "yopp ps -q": ["ps", "-q"], "yopp node list": ["node", "list"]}
            cases: dict[str, Callable[[], Sample | None]] = {
                PYTHON: partial(from_shell, python, cluster.environment)
            }
            for name, given in words.items():
                cases[name] = partial(from_shell, [*yopp(), *given], cluster.environment)
            found = Rounds(cases, rounds)
        finally:
            job.kill()
            job.wait()
    for name in cases:
        table.rows.append(
            (found.label(name), found.median(name, "prompt"), spread(found.values(name, "prompt")),
             found.ratio(name, "prompt", PYTHON), found.median(name, "cpu"))
        )  # fmt: skip
    table.notes += found.notes()
    return table


def loops(number: int, define: Sequence[str]) -> Table:
    """A shell loop of detached submissions."""
    table = Table(
        f"{number} submissions of /bin/true from a shell loop",
        ("command", "s to the prompt", "s to the last end", "CPU ms a submission", "CPU ms with the daemons"),
    )
    with Cluster(*define) as cluster:
        words = [
            "sh",
            "-c",
            SUBMISSIONS,
            "sh",
            str(number),
            *yopp(),
            "run",
            "-d",
            "-q",
            "-O",
            "--memory",
            "32",
            "true",
        ]
        begun = time.monotonic()
        with Meter(cluster.pids) as meter:
            used = reaped_seconds()
            subprocess.run(words, env=cluster.environment, check=True)
            prompt, client = time.monotonic() - begun, reaped_seconds() - used
            cluster.until_idle()
        row = (1000 * client / number, 1000 * meter.cpu / number)
        table.rows.append(("yopp run -d -O", prompt, meter.seconds, *row))
    if shutil.which("tsp"):
        spooler = TaskSpooler()
        with Meter(spooler.roots) as meter:
            used = reaped_seconds()
            spooler.run(number, ["/bin/true"])
            client = reaped_seconds() - used
        spooler.close()
        row = (1000 * client / number, 1000 * meter.cpu / number)
        table.rows.append(("tsp", None, meter.seconds, *row))
    return table


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--rounds", type=int, help="rounds (9; short 3)")
    parser.add_argument("--live", type=int, help="live containers for the lists, 0 for none (2,000; short 0)")
    parser.add_argument("--loop", type=int, help="detached submissions, 0 for none (100; short 0)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield up to three tables."""
    count = given.rounds or (3 if given.short else 9)
    live = given.live if given.live is not None else 0 if given.short else 2000
    loop = given.loop if given.loop is not None else 0 if given.short else 100
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yobench")))
        cluster = stack.enter_context(Cluster(*given.define))
        demand = stack.enter_context(Home())
        files = (folder / str(turn) for turn in itertools.count())
        yield first_table(Rounds(once(cluster, demand, rivals(stack), files), count))
    if live:
        yield lists(live, count, given.define)
    if loop:
        yield loops(loop, given.define)


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
