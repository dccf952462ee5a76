#!/usr/bin/env python3
"""The CPU cost of `yopp top`, with canned snapshots in which every value changes each time.

    bench/tui.py [--rows 20 200 1000] [--frames 40] [--idle 10]

For each number of containers: the CPU time of one frame (a new snapshot sorted by CPU, drawn completely at 120x40),
of one key, and of a loop of plain Python in the same run as the floor, because machines are noisy. Then the CPU use
of an idle app at one snapshot per second. Budgets: a frame of 200 rows 120 ms, idle 2 % of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.tui.driving import NEVER, Driver
from tests.tui.fake import FakeSource, cluster
from yarnopp_cli.tui.app import YoppTop

FRAME_BUDGET_MS = 120.0
IDLE_BUDGET_PERCENT = 2.0


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
            source.later(1.0, busy=0.3 + (number % 7) / 10)  # not what is measured
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


def main() -> int:
    """Measure and print; return 1 if a budget is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="*", default=[20, 200, 1000])
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--idle", type=float, default=10.0)
    options = parser.parse_args()
    late = False
    print(f"{'rows':>6} {'frame ms':>9} {'largest':>9} {'key ms':>8} {'floor ms':>9}")
    for rows in options.rows:
        floor = floor_ms()
        frame, largest, key = asyncio.run(frames(rows, options.frames))
        print(f"{rows:>6} {frame:>9.1f} {largest:>9.1f} {key:>8.1f} {floor:>9.1f}")
        late = late or (rows <= 200 and frame > FRAME_BUDGET_MS)
    used = asyncio.run(idle(20, options.idle))
    print(f"idle, 20 containers, one snapshot per second: {used:.2f} % of a core")
    return int(late or used > IDLE_BUDGET_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
