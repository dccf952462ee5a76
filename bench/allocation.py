#!/usr/bin/env python3
"""How many opportunistic containers per second are allocated to one master, centrally and at its node.

    bench/allocation.py [--containers N] [--batch N]

One cluster with distributed scheduling, and one master. The master requests a batch, waits for it, releases it with
the next call, and requests the next; once from the RM, once through the AMRMProxy. No container is started, so that
the load of this machine does not matter. The floor is the rate of calls that allocate nothing over the same
connection. Prints one table. The goal is 1,000 per second each way.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from executor.records import ExecutionType, Resource  # noqa: E402
from yarnopp_cli.records.client_protocol import SubmitApplicationRequest  # noqa: E402
from yarnopp_cli.records.master_protocol import (  # noqa: E402
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus  # noqa: E402
from yarnopp_cli.records.requests import (  # noqa: E402
    ApplicationSubmissionContext,
    ExecutionTypeRequest,
    ResourceRequest,
)
from yarnopp_cli.rpc.blocking import Connection  # noqa: E402

GOAL = 1000.0


class Master:
    """A master in this process, connected to the RM or to a proxy."""

    def __init__(self, rm: str, scheduler: str) -> None:
        self.client = Connection(rm)
        self.scheduler = Connection(scheduler) if scheduler else self.client
        context = ApplicationSubmissionContext(application_id="", name="bench", unmanaged=True)
        made = self.client.call(SubmitApplicationRequest(context))
        self.attempt, self.token = made.attempt_id, made.am_token
        request = RegisterApplicationMasterRequest(self.attempt, self.token)
        registered = self.scheduler.call(request)
        self.token = registered.token or self.token
        self.seen: set[str] = set()
        self.response_id = self.batch = 0

    def call(self, wanted: int = 0, releases: tuple[str, ...] = (), wait_ms: int = 1000) -> list[str]:
        """Make one allocate call; return the ids of the new containers."""
        kind = ExecutionTypeRequest(ExecutionType.OPPORTUNISTIC, True)
        ask = ResourceRequest(
            wanted, Resource(1, 0), execution_type_request=kind, allocation_request_id=self.batch
        )
        request = AllocateRequest(
            self.attempt, self.token, self.response_id, asks=(ask,) if wanted else (),
            releases=releases, wait_ms=wait_ms,
        )  # fmt: skip
        response = self.scheduler.call(request)
        self.response_id = response.response_id
        new = [one.id for one in response.allocated if one.id not in self.seen]
        self.seen.update(new)
        return new

    def run(self, containers: int, size: int) -> tuple[float, list[float]]:
        """Return the seconds for all containers, and the waiting time of each batch."""
        waits, held = [], ()
        start = time.perf_counter()
        while len(self.seen) < containers:
            self.batch += 1
            asked = time.perf_counter()
            got = self.call(size, held)
            while len(got) < size:
                got += self.call()
            waits.append(time.perf_counter() - asked)
            held = tuple(got)
        return time.perf_counter() - start, waits

    def finish(self) -> None:
        """Unregister the master."""
        request = FinishApplicationMasterRequest(self.attempt, self.token, FinalApplicationStatus.SUCCEEDED)
        self.scheduler.call(request)
        self.scheduler.close()
        self.client.close()


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Measure and print; return 1 if a rate is below the goal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--containers", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=100)
    arguments = parser.parse_args()
    home, port = Path(tempfile.mkdtemp(prefix="yobench")), free_port()
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT),
        "YOPP_RUN_DIR": str(home / "run"),
    }  # fmt: skip
    yopp = [sys.executable, "-m", "yarnopp_cli"]
    up = [
        *yopp, "up", "--nodes", "2", "--vcores", "1", "--memory", "512",
        "--conf", str(ROOT / "configs" / "distributed.toml"),
        f"-Dyarn.nodemanager.amrmproxy.address=localhost:{port}",
        "-Dyarn.nodemanager.opportunistic-containers-max-queue-length=100000",
    ]  # fmt: skip
    rows: list[tuple[str, float, float]] = []
    try:
        subprocess.run(up, env=environment, check=True, capture_output=True)
        rm = f"unix:{home / 'run' / 'rm.sock'}"
        for name, scheduler in (("central", ""), ("distributed", f"localhost:{port}")):
            for size in (1, arguments.batch):
                master = Master(rm, scheduler)
                wanted = arguments.containers if size > 1 else min(1000, arguments.containers)
                seconds, waits = master.run(wanted, size)
                rows.append(
                    (f"{name}, {size} at a time", len(master.seen) / seconds, statistics.median(waits))
                )
                master.finish()
        floor = Master(rm, "")
        start = time.perf_counter()
        for _ in range(1000):
            floor.call(wait_ms=0)
        rows.append(("floor: calls for nothing", 1000 / (time.perf_counter() - start), 0.0))
        floor.finish()
    finally:
        subprocess.run([*yopp, "down", "-y", "--force"], env=environment, capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)
    sys.stdout.write(f"{'opportunistic containers':32} {'per second':>12} {'median wait, ms':>16}\n")
    for name, rate, wait in rows:
        sys.stdout.write(f"{name:32} {rate:12,.0f} {wait * 1000:16.2f}\n")
    return (
        1 if min(rate for name, rate, _ in rows if "at a time" in name and "1 at" not in name) < GOAL else 0
    )


if __name__ == "__main__":
    sys.exit(main())
