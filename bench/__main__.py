"""All tables of docs/performance.md and bench/README.md, or the named ones: python -m bench throughput idle.

With --short, what the gate runs: the main tables in a small form, in half a minute, compared with the floor. It fails
only if a program fails: no figure is a test, because machines are noisy.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date

from .cluster import ROOT
from .machine import CORES

PROGRAMS: dict[str, Sequence[str]] = {
    "throughput": ("--rounds", "3"),
    "slot_gap": ("--tasks", "100", "--rounds", "2"),
    "command_start": (),
    "preemption": (),
    "utilisation": ("--plot", str(ROOT / "docs" / "images" / "utilisation.svg")),
    "idle": (),
    "allocation": (),
    "handover": ("--rounds", "2"),
    "where": (),
    "launch": (),
    "core": ("--budget", "2"),
    "tui": (),
    "sweeps": (),
    "crowd": ("--rounds", "3", "--kinds", "clients", "readers", "rest", "all"),
    "outside": ("--trials", "3", "--seconds", "3"),
}
"""The arguments of each program in the whole run."""
SHORT = ("throughput", "slot_gap", "command_start", "preemption")


def host() -> str:
    """The host that the figures were measured on."""
    version = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    groups = "cgroup v2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "cgroup v1"
    software = f"Linux {platform.release()}, {groups}, Python {platform.python_version()}"
    return f"{date.today()}, {version or 'no version'}: {CORES} cores, {software}"


def main() -> int:
    """Run the programs; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.programs) - PROGRAMS.keys():
        parser.error(f"no program {min(unknown)}: {', '.join(PROGRAMS)}")
    failed = []
    common = [word for word, on in (("--short", given.short), ("--json", given.json)) if on]
    if not given.json:
        sys.stdout.write(f"{host()}\n\n")
    for name in given.programs or (SHORT if given.short else PROGRAMS):
        begun = time.monotonic()
        sys.stdout.flush()
        words = [sys.executable, "-m", f"bench.{name}", *common, *(() if given.short else PROGRAMS[name])]
        if subprocess.run(words, cwd=ROOT, check=False).returncode:
            failed.append(name)
        sys.stderr.write(f"{name}: {time.monotonic() - begun:.0f} s\n")
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
