"""Where the CPU of a container goes: the client, the RM, the NM, and what the NM starts, for each of many /bin/true.

What the NM starts is the command and all processes made for it: launchers, shells and what they fork. The floor is a
loop in C around the same command: no runner can use less.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable

from .cluster import Cluster
from .harness import Table, program
from .idle import daemons
from .machine import cpu_seconds, own_seconds, reaped_seconds
from .rivals import Floor, Yopp
from .throughput import COMMAND


def used(cluster: Cluster) -> dict[str, float]:
    """The CPU seconds of each part so far."""
    own = {name: own_seconds(pids) for name, pids in daemons(cluster).items()}
    started = cpu_seconds(cluster.pids()) - sum(own.values())
    return {"client": reaped_seconds(), **own, "what the NodeManager starts": started}


def once(cluster: Cluster, runner: Yopp, number: int) -> dict[str, float]:
    """The CPU ms of each part, for each of ``number`` tasks."""
    before = used(cluster)
    runner.batch(number, COMMAND)
    return {name: 1000 * (seconds - before[name]) / number for name, seconds in used(cluster).items()}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--tasks", type=int, help="tasks of a round (1,000; short 200)")
    parser.add_argument("--rounds", type=int, help="rounds (3; short 1)")
    parser.add_argument("-G", "--guaranteed", action="store_true", help="instead of opportunistic ones")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    number, kind = given.tasks or (200 if given.short else 1000), "-G" if given.guaranteed else "-O"
    rounds: list[dict[str, float]] = []
    floor: list[float] = []
    with Cluster(*given.define) as cluster:
        runner = Yopp(cluster, kind)
        runner.batch(20, COMMAND)
        for _ in range(given.rounds or (1 if given.short else 3)):
            rounds.append(once(cluster, runner, number))
            before = reaped_seconds()
            Floor().batch(number, COMMAND)
            floor.append(1000 * (reaped_seconds() - before) / number)
    table = Table(f"CPU of a container, {runner.name} -n {number}", ("part", "ms", "% of all"))
    parts = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    table.rows += [(name, ms, 100 * ms / sum(parts.values())) for name, ms in parts.items()]
    table.rows.append(("together", sum(parts.values()), 100.0))
    table.rows.append((Floor.name, statistics.median(floor), None))
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
