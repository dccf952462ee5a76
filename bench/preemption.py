"""How soon a guaranteed container runs on a node that opportunistic ones fill, by pausing and by killing them.

Two spinning opportunistic containers hold both vcores, and the newcomer wants both. "At the node": from just before the
call that starts it there. "From the library": from just before it is asked for. "From the shell": from the start of
`yopp run`. Each to the newcomer's first instruction, which it writes down itself. An idle node is the floor.

In a kernel with cgroup v2 alone, of Linux 6.1, which has slots only if they are asked for:
.ci/in-uml .venv/bin/python -m bench.preemption --short -Dyopp.nodemanager.pooled-groups=100
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from executor.records import ExecutionType, Resource

from .cluster import Cluster, first_stamp, yopp
from .harness import Table, program, quantile
from .master import Master
from .native import tool

PAUSE = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"
MECHANISM = "yopp.nodemanager.pause-mechanism"
CASES = {
    "idle node (floor)": None,
    "by pausing, signals": (f"{PAUSE}=true",),
    "by pausing, freezer": (f"{PAUSE}=true", f"{MECHANISM}=freezer"),
    "by killing": (f"{PAUSE}=false",),
}
SPINNERS = 2
OFTEN = "yopp.am.max-preemptions-per-container=1000000"  # each newcomer kills both, hundreds of times
BOTH = Resource(100, 2)


def newcomer(cluster: Cluster, master: Master, file: Path) -> tuple[float, float]:
    """Ask for a guaranteed container and start it; return the ms to its first instruction from the start
    call, and from the ask."""
    asked = time.monotonic()
    granted = master.acquire(1, ExecutionType.GUARANTEED, BOTH)
    called = time.monotonic()
    master.start(granted, [*tool("task"), str(file)])
    begun = first_stamp(file)
    master.until_completed(1)
    return 1000 * (begun - called), 1000 * (begun - asked)


def from_shell(cluster: Cluster, file: Path) -> float:
    """Start a guaranteed container by `yopp run`; return the ms from the command's start to the first
    instruction."""
    words = [*yopp(), "run", "-q", "--vcores", "2", "--memory", "100", "--", *tool("task"), str(file)]
    begun = time.monotonic()
    subprocess.run(words, env=cluster.environment, stdin=subprocess.DEVNULL, check=True, capture_output=True)
    return 1000 * (first_stamp(file) - begun)


class Case:
    """A cluster of one node in one of the cases, and its times in ms: at the node, from the library and from
    the shell."""

    def __init__(self, stack: ExitStack, properties: tuple[str, ...] | None, define: list[str]) -> None:
        self.cluster = stack.enter_context(Cluster(*(properties or ()), *define, memory=1024))
        self.full = properties is not None
        self.node: list[float] = []
        self.library: list[float] = []
        self.shell: list[float] = []
        self._master = Master(self.cluster.socket)
        stack.callback(self._master.finish)
        if self.full:
            spin = ["sh", "-c", "while :; do :; done"]
            words = ["run", "-q", "-O", "-n", str(SPINNERS), "--memory", "100", "-D", OFTEN, "--", *spin]
            job = self.cluster.start(*words)
            stack.callback(job.wait)
            stack.callback(job.kill)

    def turn(self, files: Iterator[Path], *, shell: bool) -> None:
        """Run one newcomer, from the library or from the shell."""
        if self.full:
            self.cluster.until_running(SPINNERS)
            self.cluster.until_light()  # spinners with the weight of the last newcomer would slow down `yopp run`
        if shell:
            self.shell.append(from_shell(self.cluster, next(files)))
            return
        node, library = newcomer(self.cluster, self._master, next(files))
        self.node.append(node)
        self.library.append(library)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--runs", type=int, help="newcomers of the library a case (200; short 10)")
    parser.add_argument("--shell", type=int, help="newcomers of the shell a case (20; short 2)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table. The cases run one after the other, so that the spinners of two cases do not run at the
    same time."""
    runs, shells = given.runs or (10 if given.short else 200), given.shell or (2 if given.short else 20)
    table = Table(
        f"A guaranteed newcomer on a full node, ms to its first instruction ({runs} runs, {shells} from the shell)",
        (
            "the node",
            "at the node",
            "its 99 %",
            "from the library",
            "and its 99 %",
            "from the shell",
            "largest",
        ),
    )
    for name, properties in CASES.items():
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yobench")))
            files = (folder / str(turn) for turn in itertools.count())
            try:
                case = Case(stack, properties, given.define)
            except RuntimeError as error:  # there is no freezer on this host
                table.notes.append(f"{name}: {str(error).splitlines()[0]}")
                table.rows.append((name,))
                continue
            for shell, count in ((False, runs), (True, shells)):
                for _ in range(count + 1):
                    case.turn(files, shell=shell)
            del case.node[0], case.library[0], case.shell[0]  # these have warmed the caches
            table.rows.append(
                (name, statistics.median(case.node), quantile(case.node, 0.99), statistics.median(case.library),
                 quantile(case.library, 0.99), statistics.median(case.shell), max(case.shell))
            )  # fmt: skip
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
