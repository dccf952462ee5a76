"""How many opportunistic containers a second are allocated to one master, centrally and at its node.

One master requests a batch, waits for it, releases it with the next call, and requests the next; once from the RM, once
through the AMRMProxy (distributed scheduling). No container is started, so that the load of this machine hardly
matters. The floor is calls that allocate nothing over the same connection.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import time
from collections.abc import Iterable

from executor.records import ExecutionType, Resource

from .cluster import ROOT, Cluster
from .harness import Table, program
from .master import Master

SIZE = Resource(1, 0)


def allocate(master: Master, containers: int, batch: int) -> tuple[float, list[float]]:
    """Return the seconds for all containers, and the waiting time of each batch in ms."""
    waits: list[float] = []
    held: list[str] = []
    begun = time.perf_counter()
    while len(master.seen) < containers:
        asked = time.perf_counter()
        held = [one.id for one in master.acquire(batch, ExecutionType.OPPORTUNISTIC, SIZE, releases=held)]
        waits.append(1000 * (time.perf_counter() - asked))
    return time.perf_counter() - begun, waits


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--containers", type=int, help="containers in batches (5,000; short 1,000)")
    parser.add_argument("--batch", type=int, default=100)


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    containers = given.containers or (1000 if given.short else 5000)
    table = Table(
        "Opportunistic containers allocated to one master",
        ("where", "a second", "of the floor", "median wait, ms"),
    )
    proxy = f"localhost:{free_port()}"
    properties = [
        f"yarn.nodemanager.amrmproxy.address={proxy}",
        "yarn.nodemanager.opportunistic-containers-max-queue-length=100000",
    ]
    words = ("--conf", str(ROOT / "configs" / "distributed.toml"))
    found: list[tuple[str, float, float | None]] = []
    with Cluster(*properties, *given.define, nodes=2, vcores=1, memory=512, words=words) as cluster:
        master = Master(cluster.socket)
        begun = time.perf_counter()
        for _ in range(1000):
            master.call(wait_ms=0)
        floor = 1000 / (time.perf_counter() - begun)
        master.finish()
        found.append(("floor: calls for nothing", floor, None))
        for name, scheduler in (("central", ""), ("distributed", proxy)):
            for batch in (1, given.batch):
                master = Master(cluster.socket, scheduler)
                seconds, waits = allocate(master, containers if batch > 1 else min(1000, containers), batch)
                found.append(
                    (f"{name}, {batch} at a time", len(master.seen) / seconds, statistics.median(waits))
                )
                master.finish()
    table.rows += [(name, rate, rate / floor, wait) for name, rate, wait in found]
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
