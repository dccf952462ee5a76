"""A container's program: one process more than there are processors spin for the same three seconds.

It prints two lines of JSON: what the kernel has counted in its own group before and after.

The figures are of a reader that the kernel lets run: what the group has been charged beyond its quota, a tick or time
that a host took from its guest, is paid back before that.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

SECONDS = 3.0
MOUNT = Path("/sys/fs/cgroup")


def groups() -> dict[str, Path]:
    """This process's groups, by controller; v2's by the empty name."""
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            mount = MOUNT / controllers if name else MOUNT
            found[name] = mount / path.lstrip("/")
    return found


def reading() -> dict[str, float]:
    """The limit of the group, how many of its periods have begun, and the seconds used and throttled so far."""
    own, v2 = groups(), (MOUNT / "cgroup.controllers").exists()
    cpu = own[""] if v2 else own["cpu"]
    stat = {word: int(number) for word, number in map(str.split, (cpu / "cpu.stat").read_text().splitlines())}
    if v2:
        quota, period = (cpu / "cpu.max").read_text().split()
        used, throttled = stat["usage_usec"] / 1e6, stat["throttled_usec"] / 1e6
    else:
        quota, period = ((cpu / f"cpu.cfs_{word}_us").read_text() for word in ("quota", "period"))
        used = int((own["cpuacct"] / "cpuacct.usage").read_text()) / 1e9
        throttled = stat["throttled_time"] / 1e9
    return {
        "quota": -1.0 if quota.strip() in ("max", "-1") else int(quota) / 1e6,
        "period": int(period) / 1e6,
        "periods": stat["nr_periods"],
        "used": used,
        "throttled": throttled,
        "time": time.monotonic(),
    }


def main() -> None:
    """Read, spin, wait for the others, read."""
    print(json.dumps(reading()), flush=True)
    end = time.monotonic() + SECONDS
    children = []
    for _ in os.sched_getaffinity(0):
        child = os.fork()
        if not child:
            spin(end)
            os._exit(0)
        children.append(child)
    spin(end)
    for child in children:
        os.waitpid(child, 0)
    print(json.dumps(reading()), flush=True)


def spin(end: float) -> None:
    """Use a processor until then."""
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    main()
