"""Whether limits really bind on this host: a real process in a real group, held, stopped and killed.

The group is called ``<hierarchy>/<key>/doctor-<pid>`` and is removed at the end, whatever happens.
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

from .doctor import FAIL, OK, WARN, Check

PROBE = "probe"
DEADLINE_SECONDS = 3.0
MEMORY_LIMIT = 16 << 20
QUOTA_US = 10_000

ENTER = 'for file do echo 0 > "$file"; done; '
"""The shell enters the group, and becomes what is measured."""
SPIN = ENTER + "while :; do :; done"
EAT = ENTER + "exec tail /dev/zero"  # it looks for the last line of an endless one
WAIT = ENTER + "exec sleep 60"


def examine_cgroups(settings: ExecutorSettings, key: str) -> Iterator[Check]:
    """What holds containers here, then each kind of limit tried out."""
    try:
        driver = discover(settings, group=f"{key}/doctor-{os.getpid()}")
    except ExecutorError as error:
        yield Check("cgroups", FAIL, error.message, error.because, error.hint)
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
        yield Check(
            "cgroups", FAIL, str(error).splitlines()[0], "groups cannot be made", "; ".join(report.hints)
        )
    finally:
        with contextlib.suppress(ExecutorError, OSError):
            driver.remove_parent()


def _tried(name: str, driver: CgroupDriver, probe: Callable[[CgroupDriver], str]) -> Check:
    """Run one probe in a group of its own. A probe returns what it saw; it raises where the limit does not
    bind."""
    try:
        return Check(name, OK, probe(driver))
    except (ExecutorError, OSError, TimeoutError) as error:
        return Check(
            name, WARN, f"does not work: {str(error).splitlines()[0]}", "containers are held less strictly"
        )
    finally:
        with contextlib.suppress(ExecutorError, OSError):
            driver.kill(PROBE)
        driver.remove(PROBE, 1.0)


@contextlib.contextmanager
def _process(driver: CgroupDriver, script: str, limits: CgroupLimits) -> Iterator[subprocess.Popen[bytes]]:
    """A shell in the probe's group; it is gone afterwards."""
    files = driver.create(PROBE, limits)
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until(lambda: process.pid in driver.processes(PROBE), "the process did not enter its group")
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
            f"a process that spins was not held to {QUOTA_US // 1000} % of a core",
        )
    return "a process that spins is held back"


def _memory_binds(driver: CgroupDriver) -> str:
    with _process(driver, EAT, CgroupLimits(memory_max=MEMORY_LIMIT)) as process:
        _until(lambda: process.poll() is not None, f"a process grew beyond {MEMORY_LIMIT >> 20} MB and lives")
        kills = driver.usage(PROBE, time.monotonic()).oom_kills
    return f"a process over {MEMORY_LIMIT >> 20} MB is killed" + (
        "" if kills else ", though the kernel does not count it"
    )


def _freezes(driver: CgroupDriver) -> str:
    with _process(driver, WAIT, CgroupLimits()):
        driver.freeze(PROBE)
        _until(lambda: driver.frozen(PROBE), "a group does not freeze")
        driver.thaw(PROBE)
        _until(lambda: not driver.frozen(PROBE), "a frozen group does not thaw")
    return "a group freezes, and thaws"


def _kills(driver: CgroupDriver) -> str:
    with _process(driver, WAIT, CgroupLimits()) as process:
        driver.kill(PROBE)
        _until(lambda: process.poll() is not None, "a group does not die")
    return "a group dies at once"
