#!/usr/bin/env python3
"""What a guaranteed job of many short tasks costs opportunistic containers in the queue, and how long it takes.

    bench/handover.py [--tasks N] [--seconds S] [--runs N] [-D KEY=VALUE...]

Opportunistic containers run on one node of 2 vcores and fill its queue. Then a guaranteed job of N tasks of S seconds
runs there, two tasks at a time. Prints one table: the duration of that job, and how often an opportunistic container
was preempted (killed or paused), with freed resources held for the next guaranteed container and, as in YARN, not
held. The floor, measured in the same run, is the same job alone on the node. Nodes ignore the load of other programs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAUSE = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"
HOLD = "yopp.nodemanager.opportunistic-queue.hold-for-guaranteed-ms"
SITE = (
    "yopp.nodemanager.pressure.enabled=false",
    "yarn.nodemanager.opportunistic-containers-max-queue-length=100",
)
CASES = {
    "nothing else (the floor)": (0, ()),
    "killing, at once (YARN)": (100, (f"{HOLD}=0",)),
    "killing, kept": (100, ()),
    "pausing": (100, (f"{PAUSE}=true",)),
}


class Bench:
    """One cluster of one node."""

    def __init__(self, properties: tuple[str, ...]) -> None:
        script = Path(sys.executable).with_name("yopp")
        self.yopp = [str(script)] if script.exists() else [sys.executable, "-m", "yarnopp_cli"]
        self.home = Path(tempfile.mkdtemp(prefix="yobench"))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "YOPP_RUN_DIR": str(self.home / "run"),
        }
        defines = [word for one in (*SITE, *properties) for word in ("-D", one)]
        self.run("up", "--vcores", "2", "--memory", "2048", *defines)

    def run(self, *words: str) -> str:
        """Run one command that must succeed; return its output."""
        ended = subprocess.run(
            [*self.yopp, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            raise RuntimeError(f"{words}: {ended.stderr}")
        return ended.stdout

    def opportunistic(self) -> list[dict[str, object]]:
        """Return the documents of all opportunistic containers so far."""
        found = json.loads(self.run("container", "list", "-a", "--type", "O", "--json"))["containers"]
        return list(found["container"]) if found else []

    def fill(self, number: int) -> subprocess.Popen[bytes]:
        """Start a job of opportunistic containers, and wait until two of them run."""
        job = subprocess.Popen(
            [*self.yopp, "run", "-O", "-n", str(number), "--memory", "64", "sleep", "300"],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while str(self.opportunistic()).count("'RUNNING'") < 2:
            if time.monotonic() > deadline:
                raise RuntimeError("the opportunistic containers do not run")
            time.sleep(0.05)
        return job

    def preemptions(self) -> int:
        """Return how often a container was killed or paused for a guaranteed one."""
        return sum(str(c["diagnostics"]).count("to make room") for c in self.opportunistic())

    def close(self) -> None:
        subprocess.run(
            [*self.yopp, "down", "-y", "--force"], env=self.environment, capture_output=True, check=False
        )
        shutil.rmtree(self.home, ignore_errors=True)


def measure(others: int, properties: tuple[str, ...], tasks: int, seconds: float) -> tuple[float, int]:
    """Return the seconds that the guaranteed job took, and the preemptions meanwhile."""
    bench = Bench(properties)
    job = None
    try:
        job = bench.fill(others) if others else None
        begun = time.monotonic()
        bench.run("run", "-q", "-n", str(tasks), "--memory", "64", "sleep", str(seconds))
        return time.monotonic() - begun, bench.preemptions() if others else 0
    finally:
        if job is not None:
            job.kill()
            job.wait()
        bench.close()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "-D", dest="define", action="append", default=[], help="set a property of the clusters"
    )
    given = parser.parse_args()
    sys.stdout.write(f"{f'{given.tasks} guaranteed tasks':34} {'seconds':>8} {'preemptions':>12}\n")
    for name, (others, properties) in CASES.items():
        found = [
            measure(others, (*properties, *given.define), given.tasks, given.seconds)
            for _ in range(given.runs)
        ]
        took, count = statistics.median(t for t, _ in found), statistics.median(n for _, n in found)
        sys.stdout.write(f"{name:34} {took:8.2f} {count:12.0f}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
