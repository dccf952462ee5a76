"""A /proc of one's own: what a machine does, told by a test."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

HERTZ = os.sysconf("SC_CLK_TCK")


class FakeProc:
    """Counters that go on by ``run``: cores busy for so many seconds. Memory in MiB."""

    def __init__(self, root: Path, cores: int = 2) -> None:
        self.root = root
        self.cores = cores
        self.busy = 0.0
        self.idle = 0.0
        self.stalled_us = 0
        self.memory = (8192, 4096)
        self.runnable = 1
        self.starts: dict[int, int] = {}
        (root / "pressure").mkdir(parents=True, exist_ok=True)
        self.write()

    def run(self, busy: float, seconds: float, runnable: int = 0) -> None:
        """So many cores are busy for so long, the others idle; ``runnable`` threads run or wait."""
        self.busy += busy * seconds
        self.idle += (self.cores - busy) * seconds
        self.runnable = runnable + 1
        self.write()

    def write(self) -> None:
        each = f"{round(self.busy * HERTZ)} 0 0 {round(self.idle * HERTZ)} 0 0 0 0 0 0"
        lines = [f"cpu  {each}", *(f"cpu{n} 0 0 0 0 0 0 0 0 0 0" for n in range(self.cores)), "intr 1 2 3"]
        self._put("stat", "\n".join([*lines, "procs_blocked 0"]) + "\n")
        self._put("loadavg", f"0.00 0.00 0.00 {self.runnable}/200 4711\n")
        total, available = self.memory
        self._put(
            "meminfo",
            f"MemTotal: {total << 10} kB\nMemAvailable: {available << 10} kB\nSwapFree: 0 kB\nHugePages_Total: 0\n",
        )
        stalled = f"avg10=0.00 avg60=0.00 avg300=0.00 total={self.stalled_us}"
        self._put("pressure/memory", f"some {stalled}\nfull {stalled}\n")

    def process(
        self, pid: int, command: str, seconds: float, age: float, cgroup: str = "0::/", waited: float = 0.0,
        state: str = "S", kernel: bool = False, user: int = os.getuid(), secure: bool = False,
    ) -> None:  # fmt: skip
        """A process with that command line, CPU time, age and time that it waited for a processor, in seconds."""
        (self.root / str(pid) / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        new = round((time.clock_gettime(time.CLOCK_BOOTTIME) - age) * HERTZ)
        start = self.starts.setdefault(pid, new)
        fields = [
            state,
            *"0" * 5,
            str(0x200000 * kernel),
            *"0" * 4,
            str(round(seconds * HERTZ)),
            "0",
            "0",
            "0",
            "0",
            "0",
            "1",
            "0",
            str(start),
        ]
        self._put(f"{pid}/stat", f"{pid} (a (strange) name) " + " ".join(fields) + " 0 0 0\n")
        (self.root / str(pid) / "auxv").write_bytes(struct.pack("6L", 16, 7, 23, secure, 0, 0))
        self._put(f"{pid}/status", f"Name:\tx\nUid:\t{user}\t0\t0\t0\n")
        self._put(f"{pid}/cmdline", command.replace(" ", "\0") + "\0")
        self._put(f"{pid}/cgroup", cgroup + "\n")
        self._put(f"{pid}/schedstat", f"{round(seconds * 1e9)} {round(waited * 1e9)} 9\n")

    def _put(self, name: str, text: str) -> None:
        path = self.root / name
        new = path.with_name(f".{path.name}.new")
        new.write_text(text)
        os.replace(new, path)
