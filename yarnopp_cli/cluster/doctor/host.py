"""Checks of the machine and its software, independent of any cluster."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from executor.linux.watching.host import host_limits

from ... import __version__
from ...errors import YoppError
from ...settings.declarations import NodeManagerSettings
from ..capacity import NodeSizeRequest, plan_capacity, reserve_mb
from ..rundir import RunDir
from .check import FAIL, OK, WARN, Check, Examined, failed

FILES_LEAST = 1024
PROCESSES_LEAST = 1024
PIDS_LEAST = 4096
PACKAGES = ("typer", "psutil", "cgroupspy", "tomli", "msgspec")
EARLIEST = 1_704_067_200.0
"""1 January 2024: a clock that shows an earlier time was never set."""
SLACK_SECONDS = 2.0


def software(examined: Examined) -> Iterator[Check]:
    """The versions of yopp and of the packages that it needs, and the shells that containers need."""
    yield Check("yopp", OK, f"{__version__}, Python {platform.python_version()} ({sys.executable})")
    missing, found = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        fix = f"pip install {' '.join(missing)}"
        yield Check("packages", FAIL, f"missing: {', '.join(missing)}", "yopp needs them", fix)
        return
    parts = version("typer").split(".")
    if (int(parts[0]), int(parts[1])) >= (0, 29):
        why = "typer 0.29 and later make every command slow"
        yield Check("packages", WARN, ", ".join(found), why, 'pip install "typer<0.29"')
    else:
        yield Check("packages", OK, ", ".join(found))
    shells = [name for name in ("sh", "bash") if shutil.which(name) is None]
    if shells:
        why = "containers start under sh, and dshell uses bash"
        yield Check("shell", FAIL, f"no {' and no '.join(shells)}", why)


def kernel(examined: Examined) -> Iterator[Check]:
    """The kernel's version, and whether it has pidfds and PSI."""
    release = f"Linux {platform.release()}"
    try:
        os.close(os.pidfd_open(os.getpid()))
        yield Check("kernel", OK, release)
    except (OSError, AttributeError):
        why = "it lacks pidfd_open(2), which yopp needs to detect the end of a process"
        yield Check("kernel", FAIL, release, why, "Linux 5.3 or later")
    has_psi = os.path.exists("/proc/pressure/cpu")
    told = (
        "PSI is available (/proc/pressure)" if has_psi else "no PSI: CPU and memory pressure are not measured"
    )
    yield Check("pressure", OK, told)


def machine(examined: Examined) -> Iterator[Check]:
    """The share of this machine that a cluster may use, and the size of a node on it."""
    limits = host_limits()
    memory = limits.memory_bytes >> 20
    kept = reserve_mb(memory, examined.configuration.settings(NodeManagerSettings).system_reserved_memory_mb)
    there = limits.physical_memory_bytes >> 20
    found = f"{limits.cores:g} of {limits.physical_cores} cores, {memory} of {there} MB"
    reserve = f"{kept} MB are reserved for the rest of the machine"
    if memory - kept < 64:
        yield Check("machine", FAIL, found, f"{reserve}: nothing is left for containers")
        return
    yield Check("machine", OK, f"{found}; {reserve}", "; ".join(limits.because))
    try:
        planned = plan_capacity(examined.configuration, NodeSizeRequest())
    except YoppError as error:
        yield failed("node size", error)
        return
    size = f"{planned.nodes[0].vcores} vcores, {planned.nodes[0].memory} MB for a single node"
    yield Check("node size", WARN if planned.warnings else OK, size, "; ".join(planned.warnings))


def limits(examined: Examined) -> Iterator[Check]:
    """The limits on the processes and open files of this user."""
    for name, number, least, what in (
        ("open files", resource.RLIMIT_NOFILE, FILES_LEAST, "ulimit -n"),
        ("processes", resource.RLIMIT_NPROC, PROCESSES_LEAST, "ulimit -u"),
    ):
        soft, hard = resource.getrlimit(number)
        found = "no limit" if soft == resource.RLIM_INFINITY else str(soft)
        if soft != resource.RLIM_INFINITY and soft < least:
            why = f"a node needs a few for each container; {least} are enough for some hundred containers"
            yield Check(name, WARN, found, why, raising(what, hard, least, os.geteuid()))
        else:
            yield Check(name, OK, found)
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        pid_max = int(file.read())
    low = pid_max < PIDS_LEAST
    why = "the machine allows few processes" if low else ""
    yield Check("pids", WARN if low else OK, f"pid_max {pid_max}", why)


def raising(what: str, hard: int, least: int, uid: int) -> str:
    """The command that raises a resource limit to at least ``least``. ``hard`` is this user's hard limit."""
    most = "unlimited" if hard == resource.RLIM_INFINITY else str(min(max(hard, least), 65536))
    if uid == 0 or hard == resource.RLIM_INFINITY or hard >= least:
        return f"{what} {most}"
    item = "nofile" if what.endswith("-n") else "nproc"
    return f"`* hard {item} {least}` in /etc/security/limits.conf, as root; then log in again and `{what} {least}`"


def clock(examined: Examined) -> Iterator[Check]:
    """Whether the clock, on which ages and waiting times depend, can be trusted."""
    yield clock_at(examined.run_dir, time.time())


def clock_at(run_dir: RunDir, now: float) -> Check:
    """The clock, compared with the modification times of the files in the run directory."""
    told = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    fix = "`timedatectl` shows what sets it; `date -s …` as root sets it"
    newest = max(_written(run_dir.path), default=0.0)
    if now < EARLIEST:
        return Check("clock", WARN, told, "it was never set: dates and ages are wrong", fix)
    if newest > now + SLACK_SECONDS:
        back = f"it was set back: files are {newest - now:.0f} s in the future; ages are wrong until then"
        return Check("clock", WARN, told, back, fix)
    return Check("clock", OK, told)


def _written(folder: str) -> Iterator[float]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return
