"""The CPU cost of `yopp top`, with canned snapshots in which every value changes each time.

For each number of containers: the CPU time of one frame (a new snapshot by CPU, drawn completely at 120x40) and
of one key; and the CPU use of an idle app at one snapshot a second. The floor is a loop of plain Python.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Iterable

from tests.tui.driving import NEVER, Driver
from tests.tui.fake import FakeSource, cluster
from yarnopp_cli.tui.app import YoppTop

from .harness import Table, program


def floor_ms() -> float:
    """Return the ms of a million additions: the present speed of this machine."""
    begin = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return (time.process_time() - begin) * 1000


async def frames(rows: int, count: int) -> tuple[float, float, float]:
    """Return ms of CPU: median and largest frame, median key."""
    source = FakeSource(cluster(rows))
    app = YoppTop(source, interval=NEVER)
    async with app.run_test(size=(120, 40)) as pilot:
        driver = Driver(app, source, pilot)
        await driver.until(lambda: app.picture is not None)
        await driver.press("2", "C")
        taken, keys = [], []
        for number in range(count):
            source.later(1.0, busy=0.3 + (number % 7) / 10)  # this is not measured
            begin = time.process_time()
            app._took(source.picture(finished=False))
            await pilot.pause()
            app.screen._compositor.render_strips()
            taken.append((time.process_time() - begin) * 1000)
            begin = time.process_time()
            await pilot.press("j")
            app.screen._compositor.render_strips()
            keys.append((time.process_time() - begin) * 1000)
    source.close()
    return statistics.median(taken), max(taken), statistics.median(keys)


async def idle(rows: int, seconds: float) -> float:
    """Return the percent of a core at one snapshot per second on the Containers screen."""
    source = FakeSource(cluster(rows))
    app = YoppTop(source, interval=1.0)
    async with app.run_test(size=(120, 40)) as pilot:
        driver = Driver(app, source, pilot)
        await driver.until(lambda: app.picture is not None)
        await driver.press("2")
        await asyncio.sleep(1.0)
        begin, cpu = time.monotonic(), time.process_time()
        while time.monotonic() - begin < seconds:
            await asyncio.sleep(1.0)
        used = 100 * (time.process_time() - cpu) / (time.monotonic() - begin)
    source.close()
    return used


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to the common ones."""
    parser.add_argument("--rows", type=int, nargs="*", help="containers (20 200 1000; short 20 200)")
    parser.add_argument("--frames", type=int, help="frames of each (40; short 10)")
    parser.add_argument("--idle", type=float, help="seconds without a key (10; short 3)")


def tables(given: argparse.Namespace) -> Iterable[Table]:
    """Yield one table."""
    table = Table(
        "yopp top, ms of CPU", ("containers", "frame", "largest", "key", "floor: a million additions")
    )
    for count in given.rows or ((20, 200) if given.short else (20, 200, 1000)):
        floor = floor_ms()
        table.rows.append(
            (str(count), *asyncio.run(frames(count, given.frames or (10 if given.short else 40))), floor)
        )
    used = asyncio.run(idle(20, given.idle or (3.0 if given.short else 10.0)))
    table.notes.append(f"with 20 containers, no key and one snapshot a second it uses {used:.2f} % of a core")
    yield table


if __name__ == "__main__":
    sys.exit(program(__doc__, tables, options))
