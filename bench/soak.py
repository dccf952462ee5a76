"""Whether a cluster stays the same over many minutes of jobs, kills of daemons, restarts, pauses and preemptions.

Each round is a job of opportunistic tasks, each of which writes its number once, and one disturbance. Daemons are
killed in the first half of the time only; the second half looks for growth: memory and descriptors are measured after
each round. Every task is accounted for. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from executor.linux.cgroups.slots import SLOT_PREFIX
from yarnopp_cli.cluster.processes import wait_for_end
from yarnopp_cli.cluster.rundir import Daemon, RunDir
from yarnopp_cli.daemons.state_file import LONGEST_LOG
from yarnopp_cli.resourcemanager.hosting.past import MOST_PAST_JOBS
from yarnopp_cli.rpc.blocking import Connection

from .cluster import CALM, Cluster
from .harness import Table, program
from .machine import processes, pss_mb, tree

TASKS = 500
SCRIPT = "trap '' TERM; echo $YOPP_TASK >>{}"
"""The command of a task. It ignores SIGTERM, so that ending it in order cannot come between its line and its end."""
GROWTH = 1.05
"""The maximum ratio of the memory at the end to that at the beginning of the second half."""
SMALL_MB = 3.0
"""Less growth than this is ignored: what the last 200 jobs ran is kept."""
PROPERTIES = (
    "yarn.resourcemanager.recovery.enabled=true",
    "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption=true",
    "yopp.resourcemanager.max-retained-containers=1000",
    "yopp.resourcemanager.event-history.size=4000",
    "yarn.resourcemanager.max-completed-applications=20",
)
"""Everything that is remembered of the past is full after 20 rounds, but for the tasks of the last MOST_PAST_JOBS."""
WARM = 24
"""The rounds between the last death of the RM and the second half; in a long soak as many as MOST_PAST_JOBS."""
RECORDS = ("journal", "state.db")
MOST = {"records, MB": 8.0, "log of records, MB": 2 * LONGEST_LOG / (1 << 20), "slots": 16.0}
"""The figures that may grow up to this size: records are compacted once they have grown; SQLite's log is truncated by
the first checkpoint that finds it too long, and there is one for each 20 MB of it; a node keeps the slots that it
needed at once in the last minute."""
SOCKETS = 3
"""Of a slot: one to its launcher, and a pair by which the next container is told to begin."""
UNFINISHED = {"descriptors of nm-45454": 3, "descriptors of nm-45455": 3, "processes": 2, "cgroups": 10}
"""What slots that are being made or removed have: their sockets, or a launcher, or five cgroups. Whatever is lost for
each container or each round is many times as much."""
SIZES = {"nodes": 2, "vcores": 2, "memory": 1024}


class Soak:
    """A cluster, what disturbs it, and what was measured."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._run_dir = RunDir.of(cluster.environment["YOPP_RUN_DIR"])
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self.containers = 0
        self.memory: dict[str, list[float]] = {}

    def round(self, disturb: Callable[[], None] | None) -> None:
        """Run one job and what disturbs it; check all of its tasks."""
        log = self._cluster.path / f"round-{self.done.total()}"
        words = ["run", "-q", "-d", "-O", "--memory", "32", "-n", str(TASKS), "sh", "-c", SCRIPT.format(log)]
        job = self._cluster.run(*words).strip()
        if disturb is not None:
            self._until(
                lambda: log.exists() and log.read_text().count("\n") > TASKS // 10, "a tenth has ended"
            )
            disturb()
        name = disturb.__name__.replace("_", " ") if disturb is not None else "undisturbed"
        self.done[name] += 1
        self._cluster.run("wait", job)
        seen = Counter(log.read_text().split())
        if again := [task for task, times in seen.items() if times > 1]:
            self.problems.append(
                f"{len(again)} tasks of {job} ran again although they had ended well ({name})"
            )
        if lost := TASKS - len(seen):
            self.problems.append(f"{lost} tasks of {job} are lost ({name})")
        self.containers += TASKS
        log.unlink()

    def _until(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {seconds:g} s: {what}")
            time.sleep(0.01)

    # -- what disturbs

    def guaranteed_work(self) -> None:
        """Half of the running containers are paused for it."""
        self._cluster.run("run", "-q", "-G", "-n", "2", "--memory", "600", "sleep", "0.2")

    def a_daemon_dies(self) -> None:
        """A daemon is killed by SIGKILL, and started again."""
        self._kill([self._chance.choice(self._run_dir.daemons())])

    def all_daemons_die(self) -> None:
        """All daemons are killed at the same moment, and started again."""
        self._kill(self._run_dir.daemons())

    def a_node_is_stopped(self) -> None:
        """A node is stopped in order, and started again."""
        self._cluster.run("nm", "stop", "45455")
        self._again()

    def the_rm_is_stopped(self) -> None:
        """The RM is stopped in order, and started again."""
        self._cluster.run("rm", "stop")
        self._again()

    def _kill(self, daemons: Sequence[Daemon]) -> None:
        for daemon in daemons:
            daemon.process.send(signal.SIGKILL)
        wait_for_end([daemon.process for daemon in daemons], 10)
        self._again()

    def _again(self) -> None:
        sizes = [word for name, number in SIZES.items() for word in (f"--{name}", str(number))]
        defines = [word for one in (CALM, *PROPERTIES) for word in ("-D", one)]
        self._cluster.run("up", *sizes, *defines)

    # -- what is measured

    def told(self, before: dict[str, float], after: dict[str, float]) -> Table:
        """The figures before and after the second half; growth is a problem."""
        table = Table(
            f"{self.containers:,} containers: before and after the second half",
            ("what", "before", "after", "after/before"),
        )
        for name, values in sorted(self.memory.items()):
            quarter = max(1, len(values) // 4)
            first, last = median(values[:quarter]), median(values[-quarter:])
            table.rows.append((f"PSS of {name}, MB", first, last, last / first))
            if last > first * GROWTH and last - first > SMALL_MB:
                self.problems.append(f"the memory of {name} grew from {first:.1f} to {last:.1f} MB")
        for name, first in before.items():
            last = after.get(name, 0.0)
            table.rows.append((name, first, last, last / first if first else None))
            if last > max(first + UNFINISHED.get(name, 0), MOST.get(name, 0.0)):
                self.problems.append(f"{name}: {first:g} before, {last:g} after")
        kinds = ", ".join(f"{number} x {kind}" for kind, number in sorted(self.done.items()))
        table.notes += [f"rounds: {kinds}", *self.problems]
        return table

    def sample(self) -> None:
        """Record the present memory of each daemon."""
        for daemon in self._run_dir.daemons():
            self.memory.setdefault(daemon.name, []).append(pss_mb([daemon.process.pid]))

    def settled(self) -> dict[str, float]:
        """What is held once nothing runs: slots, and beside them descriptors of each daemon, processes, cgroups and
        files of records. A slot has one launcher and three sockets; all its other files are in its cgroups, and opened
        when the first of its containers is measured."""
        self._cluster.rm.close()
        self._cluster.rm = Connection(self._cluster.socket)
        self._cluster.until_empty()
        found: dict[str, float] = {}
        groups = list(self._cluster.groups())
        slots = {tuple(path.split(os.sep)[-2:]) for path in groups if slot_in(path)}
        for daemon in self._run_dir.daemons():
            names = [os.path.realpath(one) for one in Path(f"/proc/{daemon.process.pid}/fd").iterdir()]
            others = [name for name in names if slot_in(name) is None]
            sockets = SOCKETS * sum(node == daemon.name for node, _ in slots)
            found[f"descriptors of {daemon.name}"] = len(others) - sockets
        others = [path for path in groups if slot_in(path) is None]
        found["slots"] = len(slots)
        parents = {pid: one[0] for pid, one in processes().items()}
        found["processes"] = len(tree(parents, self._cluster.pids())) - found["slots"]
        found["cgroups"] = len(others)
        state = self._run_dir.rm_state_file
        found["log of records, MB"] = os.stat(f"{state}-wal").st_size / (1 << 20)
        with contextlib.closing(sqlite3.connect(state)) as database:
            database.execute(
                "PRAGMA wal_checkpoint(PASSIVE)"
            )  # what is only in the log counts as records, too
        records = (one for one in Path(self._run_dir.state_dir).rglob("*") if one.name in RECORDS)
        found["records, MB"] = sum(one.stat().st_size for one in records) / (1 << 20)
        return found


def slot_in(path: str) -> str | None:
    """The slot in whose cgroup a path is."""
    return next((part for part in path.split(os.sep) if part.startswith(SLOT_PREFIX)), None)


def soak(seconds: float, seed: int) -> tuple[Table, list[str]]:
    """Run both halves; return what was measured, and the problems."""
    with Cluster(
        *PROPERTIES, vcores=SIZES["vcores"], memory=SIZES["memory"], nodes=SIZES["nodes"]
    ) as cluster:
        its = Soak(cluster, seed)
        deaths = its.a_daemon_dies, its.all_daemons_die, its.a_node_is_stopped, its.the_rm_is_stopped
        disturbances = [its.guaranteed_work, *deaths]
        its.round(None)
        begun = time.monotonic()
        turn = 0
        while (spent := time.monotonic() - begun) < seconds / 2 or turn < len(disturbances):
            its.round(disturbances[turn % len(disturbances)])
            turn += 1
        for number in range(max(WARM, min(MOST_PAST_JOBS, int(seconds / 6)))):
            its.round(its.guaranteed_work if number % 2 else None)
        before, first, grown = its.settled(), its.containers, time.monotonic()
        while (
            time.monotonic() - grown < max(seconds - spent, seconds / 4) or its.containers - first < 8 * TASKS
        ):
            its.round(its.guaranteed_work if turn % 2 else None)
            its.sample()
            turn += 1
        return its.told(before, its.settled()), its.problems


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--minutes", type=float, help="how long (20; short 1)")
    parser.add_argument("--seed", type=int, default=0, help="of what is chosen; 0 for any")


def main() -> int:
    """The ``main`` of this program; returns 1 if there was a problem."""
    found: list[str] = []

    def tables(given: argparse.Namespace) -> Iterable[Table]:
        seed = given.seed or random.SystemRandom().randrange(1, 10**6)
        table, problems = soak(60 * (given.minutes or (1 if given.short else 20)), seed)
        table.notes.append(f"seed {seed}")
        found.extend(problems)
        yield table

    code = program(__doc__, tables, options)
    return code or int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
