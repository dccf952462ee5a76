#!/usr/bin/env python3
"""How long commands take, compared with /bin/true and plain Python in the same run.

    bench/start_latency.py [--runs N]

Prints one table: median, minimum and maximum in ms over N runs of each command, in turn, because machines are noisy.
The node of the running cluster ignores the load of other programs, which would delay opportunistic containers.
Budgets: `yopp run true` on a running cluster 400 ms, `yopp --help` 100 ms, on demand 1500 ms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALM = "yopp.nodemanager.pressure.enabled=false"
BUDGETS_MS = {
    "yopp --help": 100.0,
    "yopp run true (running cluster)": 400.0,
    "yopp run true (on demand)": 1500.0,
}


def timed(argv: list[str], environment: dict[str, str]) -> float:
    """Return the ms from start to end of one process that must succeed."""
    start = time.perf_counter()
    subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return (time.perf_counter() - start) * 1000


def main() -> int:
    """Measure and print; return 1 if a median is above its budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    home = Path(tempfile.mkdtemp(prefix="yobench"))
    base = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)}
    running = base | {"YOPP_RUN_DIR": str(home / "run")}
    demand = base | {"YOPP_RUN_DIR": str(home / "demand")}
    script = Path(sys.executable).with_name("yopp")
    yopp = [str(script)] if script.exists() else [sys.executable, "-m", "yarnopp_cli"]
    cases: dict[str, Callable[[], float]] = {
        "/bin/true": lambda: timed(["/bin/true"], base),
        "python -c pass": lambda: timed([sys.executable, "-c", "pass"], base),
        "yopp --help": lambda: timed([*yopp, "--help"], base),
        "yopp node list --json": lambda: timed([*yopp, "node", "list", "--json"], running),
        "yopp run true (running cluster)": lambda: timed([*yopp, "run", "true"], running),
        "yopp run -O true (running cluster)": lambda: timed([*yopp, "run", "-O", "true"], running),
        "yopp run true (on demand)": lambda: timed([*yopp, "run", "true"], demand),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    try:
        subprocess.run([*yopp, "up", "-D", CALM], env=running, check=True, capture_output=True)
        for run in range(runs + 1):
            for name, measure in cases.items():
                taken = measure()
                if run:  # the first round warms the caches
                    times[name].append(taken)
    finally:
        subprocess.run([*yopp, "down", "-y", "--force"], env=running, capture_output=True, check=False)
        subprocess.run([*yopp, "down", "-y", "--force"], env=demand, capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)
    over = 0
    sys.stdout.write(f"{'ms':38} {'median':>8} {'min':>8} {'max':>8} {'budget':>8}\n")
    for name, values in times.items():
        median, budget = statistics.median(values), BUDGETS_MS.get(name)
        over += budget is not None and median > budget
        sys.stdout.write(
            f"{name:38} {median:8.1f} {min(values):8.1f} {max(values):8.1f} {f'{budget:8.0f}' if budget else '':>8}\n"
        )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
