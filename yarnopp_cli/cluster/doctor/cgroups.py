"""Checks of the cgroups: a real process in a real cgroup is limited, frozen and killed.

The cgroup is ``<hierarchy>/<key>/doctor-<pid>``, and is always removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator

from executor.errors import ExecutorError
from executor.linux.cgroups import CgroupDriver, discover
from executor.records import CgroupLimits
from executor.settings import ExecutorSettings

from .check import FAIL, OK, WARN, Check, Examined, failed

PROBE = "probe"
DEADLINE_SECONDS = 3.0
MEMORY_LIMIT = 16 << 20
QUOTA_US = 10_000

ENTER = 'for file do echo 0 > "$file"; done; '
"""The start of each script: the shell enters the cgroup, and is then the process that is measured."""
SPIN = ENTER + "while :; do :; done"
EAT = ENTER + "exec tail /dev/zero"  # tail buffers an endless line, so its memory grows
WAIT = ENTER + "exec sleep 60"


def limits(examined: Examined) -> Iterator[Check]:
    """The cgroup version and controllers of containers, then a trial of each kind of limit."""
    settings = examined.configuration.settings(ExecutorSettings)
    try:
        driver = discover(settings, group=f"{examined.run_dir.key}/doctor-{os.getpid()}")
    except ExecutorError as error:
        yield failed("cgroups", error)
        return
    report = driver.describe()
    found = report.mode + (f" ({', '.join(report.controllers)})" if report.controllers else "")
    if report.weaker:
        yield Check("cgroups", WARN, found, "; ".join(report.weaker), "; ".join(report.hints))
    else:
        yield Check("cgroups", OK, found)
    if report.mode == "none":
        return
    controllers = set(report.controllers)
    try:
        driver.create_parent()
        if "cpu" in controllers:
            yield _tried("CPU quota", driver, _quota_binds)
        if "memory" in controllers:
            yield _tried("memory limit", driver, _memory_binds)
        if driver.can_freeze:
            yield _tried("freeze", driver, _freezes)
        yield _tried("kill", driver, _kills)
    except (ExecutorError, OSError) as error:
        because, hint = getattr(error, "because", ""), getattr(error, "hint", "")
        told = str(error).splitlines()[0]
        yield Check(
            "cgroups", FAIL, told, because or "no cgroup can be created", hint or "; ".join(report.hints)
        )
    finally:
        with contextlib.suppress(ExecutorError, OSError):
            driver.remove_parent()


def _tried(name: str, driver: CgroupDriver, probe: Callable[[CgroupDriver], str]) -> Check:
    """Run one probe in its own cgroup. The probe returns its observation, and raises if the limit
    has no effect."""
    try:
        return Check(name, OK, probe(driver))
    except (ExecutorError, OSError, TimeoutError) as error:
        told = f"does not work: {str(error).splitlines()[0]}"
        return Check(name, WARN, told, "containers are limited less strictly")
    finally:
        with contextlib.suppress(ExecutorError, OSError):
            driver.kill(PROBE)
        driver.remove(PROBE, 1.0)


@contextlib.contextmanager
def _process(driver: CgroupDriver, script: str, limits: CgroupLimits) -> Iterator[subprocess.Popen[bytes]]:
    """A shell in the probe's cgroup; it is killed and reaped afterwards."""
    files = driver.create(PROBE, limits)
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until(lambda: process.pid in driver.processes(PROBE), "the process did not enter its cgroup")
        yield process
    finally:
        with contextlib.suppress(ExecutorError, OSError):
            driver.thaw(PROBE)
        process.kill()
        process.wait()


def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        time.sleep(0.002)


def _quota_binds(driver: CgroupDriver) -> str:
    limits = CgroupLimits(cpu_quota_us=QUOTA_US, memory_max=64 << 20)
    with _process(driver, SPIN, limits):
        _until(
            lambda: driver.usage(PROBE, time.monotonic()).throttled_seconds > 0,
            f"a busy process was not limited to {QUOTA_US // 1000} % of a core",
        )
    return "a busy process is throttled"


def _memory_binds(driver: CgroupDriver) -> str:
    with _process(driver, EAT, CgroupLimits(memory_max=MEMORY_LIMIT)) as process:
        _until(lambda: process.poll() is not None, f"a process over {MEMORY_LIMIT >> 20} MB is not killed")
        kills = driver.usage(PROBE, time.monotonic()).oom_kills
    counted = "" if kills else ", though the kernel does not count it"
    return f"a process over {MEMORY_LIMIT >> 20} MB is killed{counted}"


def _freezes(driver: CgroupDriver) -> str:
    with _process(driver, WAIT, CgroupLimits()):
        driver.freeze(PROBE)
        _until(lambda: driver.frozen(PROBE), "a cgroup does not freeze")
        driver.thaw(PROBE)
        _until(lambda: not driver.frozen(PROBE), "a frozen cgroup does not thaw")
    return "a cgroup freezes and thaws"


def _kills(driver: CgroupDriver) -> str:
    with _process(driver, WAIT, CgroupLimits()) as process:
        driver.kill(PROBE)
        _until(lambda: process.poll() is not None, "a cgroup cannot be killed")
    return "a cgroup is killed at once"
