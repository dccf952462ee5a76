"""What this host can enforce, what stands in the way, and what to type for it: one check a line.

Every check tries the real thing where it can be tried in some 50 ms. Nothing here prints; only ``fix``
changes what was there before, and only what bears this run directory's name.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from executor.settings import ExecutorSettings

from ..errors import YoppError
from ..settings.loading import Configuration, Findings, examine
from ..settings.nodemanager import NodeManagerSettings
from ..settings.resourcemanager import ResourceManagerSettings
from . import leftovers
from .capacity_plan import reserve_mb
from .rundir import RunDir

OK = "ok"
WARN = "warn"
FAIL = "fail"
EXIT_CODES = {OK: 0, WARN: 1, FAIL: 2}

FREE_WARN_MB = 500
FREE_FAIL_MB = 10
FILES_LEAST = 1024
PROCESSES_LEAST = 1024
PACKAGES = ("typer", "psutil", "cgroupspy", "tomli", "msgspec")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: ``found`` is what there is, ``why`` what that means, ``fix`` what to type for it."""

    name: str
    status: str
    found: str
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is examined: the run directory, and the command line and environment that name a configuration."""

    run_dir: RunDir
    conf: Sequence[str]
    define: Sequence[str]
    environ: Mapping[str, str]


def exit_code(checks: Sequence[Check]) -> int:
    """0 all is fine, 1 something is weaker than it could be, 2 something cannot work."""
    return max((EXIT_CODES[check.status] for check in checks), default=0)


def examine_host(place: Surroundings, *, fix: bool = False) -> Iterator[Check]:
    """All checks, each as soon as it is known. ``fix`` removes what dead daemons of this run directory
    left."""
    findings = examine(place.conf, place.define, environ=place.environ, state_dir=place.run_dir.state_dir)
    configuration = findings.configuration or _defaults(place)
    yield from _software()
    yield from _kernel()
    yield from _configuration(findings)
    yield from _machine(configuration)
    from .doctor_cgroups import examine_cgroups

    yield from examine_cgroups(configuration.settings(ExecutorSettings), place.run_dir.key)
    yield from _limits()
    yield from _run_directory(place.run_dir)
    yield from _disks(place.run_dir, configuration)
    from .doctor_clock import examine_clock
    from .doctor_ports import examine_ports

    yield from examine_clock(place.run_dir)
    yield from examine_ports(place.run_dir, configuration)
    yield from _stale(place.run_dir, configuration, fix)


def _defaults(place: Surroundings) -> Configuration:
    """What holds where the configuration cannot be read: the other checks are wanted all the same."""
    from ..settings.loading import default_value
    from ..settings.registry import PROPERTIES

    state_dir = place.run_dir.state_dir
    values = {name: default_value(declared, state_dir) for name, declared in PROPERTIES.items()}
    return Configuration(values, {}, state_dir=state_dir)


def _software() -> Iterator[Check]:
    from .. import __version__

    yield Check("yopp", OK, f"{__version__}, Python {platform.python_version()} ({sys.executable})")
    missing, found = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        yield Check(
            "packages",
            FAIL,
            f"missing: {', '.join(missing)}",
            "yopp needs them",
            f"pip install {' '.join(missing)}",
        )
        return
    parts = version("typer").split(".")
    if (int(parts[0]), int(parts[1])) >= (0, 29):
        yield Check(
            "packages",
            WARN,
            ", ".join(found),
            "typer 0.29 and later make every command slow",
            'pip install "typer<0.29"',
        )
    else:
        yield Check("packages", OK, ", ".join(found))
    shells = [name for name in ("sh", "bash") if shutil.which(name) is None]
    if shells:
        yield Check(
            "shell", FAIL, f"no {' and no '.join(shells)}", "containers start under sh, dshell uses bash"
        )


def _kernel() -> Iterator[Check]:
    release = f"Linux {platform.release()}"
    try:
        os.close(os.pidfd_open(os.getpid()))
        yield Check("kernel", OK, release)
    except (OSError, AttributeError):
        yield Check(
            "kernel",
            FAIL,
            release,
            "it has no pidfd_open(2), by which yopp notices that a process ends",
            "Linux 5.3 or later",
        )
    if os.path.exists("/proc/pressure/cpu"):
        yield Check("pressure", OK, "PSI is there (/proc/pressure)")
    else:
        yield Check("pressure", OK, "no PSI: the kernel does not tell how long work waits for CPU and memory")


def _configuration(findings: Findings) -> Iterator[Check]:
    for problem in findings.problems:
        yield Check("configuration", FAIL, problem.message, problem.because, problem.hint)
    for line in findings.warnings:
        yield Check("configuration", WARN, line)
    if findings.configuration is None:
        return
    read = ", ".join(findings.sources) or "no file"
    settings = findings.configuration.settings(ResourceManagerSettings)
    queue = findings.configuration.settings(ExecutorSettings).max_queue_length
    if settings.opportunistic_enabled and not queue:
        yield Check(
            "configuration", WARN, "opportunistic containers are on, and the queue length is 0",
            "no opportunistic container can wait: one that cannot start at once is refused",
            "-Dyarn.nodemanager.opportunistic-containers-max-queue-length=10",
        )  # fmt: skip
    elif not findings.warnings:
        yield Check("configuration", OK, read)


def _machine(configuration: Configuration) -> Iterator[Check]:
    from executor.linux.capacity import host_limits

    limits = host_limits()
    memory = limits.memory_bytes >> 20
    kept = reserve_mb(memory, configuration.settings(NodeManagerSettings).system_reserved_memory_mb)
    there = limits.physical_memory_bytes >> 20
    found = f"{limits.cores:g} of {limits.physical_cores} cores, {memory} of {there} MB"
    if memory - kept < 64:
        yield Check(
            "machine",
            FAIL,
            found,
            f"{kept} MB are kept for the rest of the machine: nothing is left for containers",
        )
        return
    yield Check(
        "machine",
        OK,
        f"{found}; {kept} MB are kept for the rest of the machine",
        "; ".join(limits.because),
    )
    from .capacity_plan import Wish
    from .lifecycle import plan_capacity

    try:
        nodes, warnings = plan_capacity(configuration, Wish())
    except YoppError as error:
        yield Check("node size", FAIL, error.message, error.because, error.hint)
        return
    size = f"{nodes[0].vcores} vcores, {nodes[0].memory} MB for a node of its own"
    yield Check("node size", WARN if warnings else OK, size, "; ".join(warnings))


def _limits() -> Iterator[Check]:
    """What this user may have of processes and open files."""
    for name, number, least, what in (
        ("open files", resource.RLIMIT_NOFILE, FILES_LEAST, "ulimit -n"),
        ("processes", resource.RLIMIT_NPROC, PROCESSES_LEAST, "ulimit -u"),
    ):
        soft, hard = resource.getrlimit(number)
        found = "no limit" if soft == resource.RLIM_INFINITY else str(soft)
        if soft != resource.RLIM_INFINITY and soft < least:
            why = f"a node holds a few for each container; {least} let it run some hundred"
            most = "unlimited" if hard == resource.RLIM_INFINITY else str(min(hard, 65536))
            yield Check(name, WARN, found, why, f"{what} {most}")
        else:
            yield Check(name, OK, found)
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        pid_max = int(file.read())
    low = pid_max < 4096
    yield Check(
        "pids", WARN if low else OK, f"pid_max {pid_max}", "the machine can hold few processes" if low else ""
    )


def _run_directory(run_dir: RunDir) -> Iterator[Check]:
    try:
        run_dir.check()
        above = run_dir.path
        while not os.path.isdir(above):
            above = os.path.dirname(above)
        if not os.access(above, os.W_OK | os.X_OK):
            yield Check(
                "run directory",
                FAIL,
                run_dir.path,
                f"{above} is not writable",
                "name another with --run-dir or YOPP_RUN_DIR",
            )
            return
    except YoppError as error:
        yield Check("run directory", FAIL, error.message, error.because, error.hint)
        return
    sockets = (
        f"; its path is long, so its sockets are in {run_dir.socket_dir}"
        if run_dir.socket_dir != run_dir.path
        else ""
    )
    living = ", ".join(daemon.name for daemon in run_dir.daemons())
    yield Check("run directory", OK, f"{run_dir.path} ({living or 'nothing runs'}){sockets}")


def _disks(run_dir: RunDir, configuration: Configuration) -> Iterator[Check]:
    settings = configuration.settings(NodeManagerSettings)
    places = {"state": run_dir.state_dir, "logs": settings.log_dirs, "local": settings.local_dirs}
    devices: dict[int, tuple[str, list[str]]] = {}
    for name, path in places.items():
        above = path
        while not os.path.isdir(above) and above != "/":
            above = os.path.dirname(above)
        if not os.access(above, os.W_OK | os.X_OK):
            yield Check(
                f"disk ({name})",
                FAIL,
                path,
                f"{above} is not writable",
                "name another run directory, or set yarn.nodemanager.*-dirs",
            )
            continue
        devices.setdefault(os.stat(above).st_dev, (above, []))[1].append(name)
    for above, names in devices.values():
        free = shutil.disk_usage(above).free >> 20
        status = FAIL if free < FREE_FAIL_MB else WARN if free < FREE_WARN_MB else OK
        yield Check(
            f"disk ({', '.join(names)})",
            status,
            f"{free} MB free at {above}",
            "" if status == OK else "output of containers goes there",
            "" if status == OK else f"free some space at {above}",
        )


def _stale(run_dir: RunDir, configuration: Configuration, fix: bool) -> Iterator[Check]:
    """What dead daemons of this run directory left."""
    from .lifecycle import running_configuration

    if not run_dir.exists():
        return
    where = leftovers.places(run_dir, running_configuration(run_dir) or configuration)
    living = {daemon.port for daemon in run_dir.daemons()}
    ports = frozenset(leftovers.known_ports(run_dir, where) - living)
    files = [os.path.basename(path) for path in run_dir.leftovers()]
    if not ports and not files:
        yield Check("leftovers", OK, "none")
        return
    names = [f"containers or cgroups of nm-{port}" for port in sorted(ports)] + files
    found = ", ".join(names)
    if not fix:
        yield Check(
            "leftovers",
            WARN,
            found,
            "daemons did not end in order",
            "yopp up finds their containers again; yopp doctor --fix ends them",
        )
        return
    with run_dir.lock():
        living = {daemon.port for daemon in run_dir.daemons()}
        cleared = leftovers.clear(run_dir, where, ports=ports - living)
        run_dir.remove_leftovers()
    if cleared.problems:
        yield Check("leftovers", WARN, found, "; ".join(cleared.problems))
    else:
        yield Check("leftovers", OK, f"removed: {found}")
