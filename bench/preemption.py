#!/usr/bin/env python3
"""How soon a guaranteed container starts on a node full of busy opportunistic ones, by pausing and by killing them.

    bench/preemption.py [--runs N] [--limit MS] [-D KEY=VALUE...]

Measures the time from the arrival of the guaranteed container at its node (the time in its record) to its first
instruction (it prints the clock), in ms, over N runs. The floor, measured in the same run, is the same container on
an idle node. Exits with 1 if a median is above the limit (20 ms). The node ignores the load of other programs, so
that they pause no container; -D yopp.nodemanager.pressure.enabled=true includes them, as in the shipped site file.
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
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAUSE = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"
MECHANISM = "yopp.nodemanager.pause-mechanism"
CALM = "yopp.nodemanager.pressure.enabled=false"
CASES = {
    "idle node (the floor)": ("", ()),
    "by pausing, signals": ("spin", (f"{PAUSE}=true",)),
    "by pausing, freezer": ("spin", (f"{PAUSE}=true", f"{MECHANISM}=freezer")),
    "by killing": ("spin", (f"{PAUSE}=false",)),
}
SPIN = "while :; do :; done"


class Bench:
    """One cluster of one node of 2 vcores."""

    def __init__(self, home: Path, properties: tuple[str, ...]) -> None:
        script = Path(sys.executable).with_name("yopp")
        self.yopp = [str(script)] if script.exists() else [sys.executable, "-m", "yarnopp_cli"]
        self.home = home
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "YOPP_RUN_DIR": str(home / "run"),
        }
        defines = [word for one in properties for word in ("-D", one)]
        self.run("up", "--vcores", "2", "--memory", "1024", *defines)

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

    def containers(self, *words: str) -> list[dict[str, Any]]:
        """Return the documents of `container list`."""
        found = json.loads(self.run("container", "list", "--json", *words))["containers"]
        return list(found["container"]) if found else []

    def until_running(self, number: int) -> None:
        """Wait until ``number`` opportunistic containers run."""
        deadline = time.monotonic() + 30
        while sum(c["yopp"]["state"] == "RUNNING" for c in self.containers("--type", "O")) < number:
            if time.monotonic() > deadline:
                raise RuntimeError("the spinners do not run")
            time.sleep(0.05)

    def once(self) -> float:
        """Return the ms from a guaranteed container's arrival at its node to its first instruction."""
        stamp = (
            float(self.run("run", "--vcores", "2", "--memory", "100", "bash", "-c", "echo $EPOCHREALTIME"))
            * 1e3
        )
        arrived = self.containers("-a", "--type", "G")[-1]["yopp"]["queuedSince"]
        return stamp - arrived


def measure(name: str, spinners: str, properties: tuple[str, ...], runs: int) -> list[float]:
    """Return the times of one case; none if this host cannot run it."""
    home = Path(tempfile.mkdtemp(prefix="yobench"))
    bench: Bench | None = None
    job: subprocess.Popen[bytes] | None = None
    try:
        try:
            bench = Bench(home, properties)
        except RuntimeError as error:
            sys.stderr.write(f"{name}: {error}\n")
            return []
        if spinners:
            words = [*bench.yopp, "run", "-O", "-n", "2", "--memory", "100", "sh", "-c", SPIN]
            job = subprocess.Popen(
                words, env=bench.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        times = []
        for turn in range(runs + 1):
            if spinners:
                bench.until_running(2)
            taken = bench.once()
            if turn:  # the first one warms the caches
                times.append(taken)
        return times
    finally:
        if job is not None:
            job.kill()
            job.wait()
        if bench is not None:
            subprocess.run(
                [*bench.yopp, "down", "-y", "--force"],
                env=bench.environment,
                capture_output=True,
                check=False,
            )
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    """Measure and print; return 1 if a median is above the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument(
        "-D", dest="define", action="append", default=[], help="set a property of the clusters"
    )
    given = parser.parse_args()
    over = 0
    sys.stdout.write(f"{'arrival to first instruction, ms':34} {'median':>8} {'min':>8} {'max':>8}\n")
    for name, (spinners, properties) in CASES.items():
        times = measure(name, spinners, (CALM, *properties, *given.define), given.runs)
        if not times:
            sys.stdout.write(f"{name:34} {'n/a':>8}\n")
            continue
        median = statistics.median(times)
        over += median > given.limit
        sys.stdout.write(f"{name:34} {median:8.1f} {min(times):8.1f} {max(times):8.1f}\n")
        sys.stdout.flush()
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
