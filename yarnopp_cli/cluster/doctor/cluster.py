"""Checks of one cluster: its configuration, its directories, its ports, and leftovers of its dead daemons."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from executor.linux.owners.ownership import refuse_unsafe
from executor.settings import ExecutorSettings

from ...errors import YoppError, reason_of
from ...settings.declarations import NodeManagerSettings, ResourceManagerSettings, WebSettings
from ...settings.rules import AMRM_PROXY, RM_ADDRESS
from ...web.listening import parse, port_problem
from .. import cleanup
from ..inspection import inspect_cluster, other_version
from ..state import running_configuration
from .check import FAIL, OK, WARN, Check, Examined, failed

FREE_WARN_MB = 500
FREE_FAIL_MB = 10
_RM = "yarn.resourcemanager.webapp.address"
_NM = "yarn.nodemanager.webapp.address"


def configuration(examined: Examined) -> Iterator[Check]:
    """The configuration that a command started here reads."""
    findings = examined.findings
    for problem in findings.problems:
        yield Check("configuration", FAIL, problem.message, problem.because, problem.hint)
    for line in findings.warnings:
        yield Check("configuration", WARN, line)
    if findings.configuration is None:
        return
    settings = findings.configuration.settings(ResourceManagerSettings)
    queue = findings.configuration.settings(ExecutorSettings).max_queue_length
    if settings.opportunistic_enabled and not queue:
        yield Check(
            "configuration",
            WARN,
            "opportunistic containers are enabled, but the queue length is 0",
            "opportunistic containers cannot queue: one that cannot start at once is refused",
            "-Dyarn.nodemanager.opportunistic-containers-max-queue-length=10",
        )
    elif not findings.warnings:
        yield Check("configuration", OK, ", ".join(findings.sources) or "no file")


def run_directory(examined: Examined) -> Iterator[Check]:
    """Whether the run directory can be used, and which daemons run there."""
    run_dir = examined.run_dir
    try:
        run_dir.check()
    except YoppError as error:
        yield failed("run directory", error)
        return
    above = existing(run_dir.path)
    if not os.access(above, os.W_OK | os.X_OK):
        fix = "name another with --run-dir or YOPP_RUN_DIR"
        yield Check("run directory", FAIL, run_dir.path, f"{above} is not writable", fix)
        return
    found = (
        f"{run_dir.path} ({', '.join(daemon.name for daemon in run_dir.daemons()) or 'nothing is running'})"
    )
    if run_dir.socket_dir != run_dir.path:
        found += f"; the path is too long for sockets; they are in {run_dir.socket_dir}"
    yield Check("run directory", OK, found)


def disks(examined: Examined) -> Iterator[Check]:
    """The free space of each disk to which containers or daemons write."""
    settings = examined.configuration.settings(NodeManagerSettings)
    places = {"state": examined.run_dir.state_dir, "logs": settings.log_dirs, "local": settings.local_dirs}
    devices: dict[int, tuple[str, list[str]]] = {}
    for name, path in places.items():
        above = existing(path)
        if not os.access(above, os.W_OK | os.X_OK):
            fix = "name another run directory, or set yarn.nodemanager.*-dirs"
            yield Check(f"disk ({name})", FAIL, path, f"{above} is not writable", fix)
            continue
        try:
            refuse_unsafe(path)
        except PermissionError as error:
            fix = f"chown and chmod go-w {error.filename}, or name another directory"
            yield Check(f"disk ({name})", FAIL, f"{error.filename} is refused", reason_of(error), fix)
            continue
        devices.setdefault(os.stat(above).st_dev, (above, []))[1].append(name)
    for above, names in devices.values():
        free = shutil.disk_usage(above).free >> 20
        status = FAIL if free < FREE_FAIL_MB else WARN if free < FREE_WARN_MB else OK
        advice = () if status == OK else ("containers write there", f"free some space at {above}")
        yield Check(f"disk ({', '.join(names)})", status, f"{free} MB free at {above}", *advice)


def existing(path: str) -> str:
    """The path, or the nearest directory above it that exists."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path


# -- ports ---------------------------------------------------------------------------------------------


def rm_address(examined: Examined) -> Iterator[Check]:
    """Whether the RM's TCP address is free, if one is configured and no RM runs."""
    address = examined.configuration.settings(ResourceManagerSettings).address
    if not address or examined.run_dir.daemon("rm") is not None:
        return
    if problem := _taken(RM_ADDRESS, address, loopback_only=True):
        yield Check("address", FAIL, f"{RM_ADDRESS} = {address}", problem, "name another port of this host")
    else:
        yield Check("address", OK, f"{address} is free")


def _taken(name: str, address: str, *, loopback_only: bool) -> str:
    """Why a daemon cannot listen at the address in a property; "" if it can."""
    try:
        _, ip, port = parse(address, name, loopback_only=loopback_only)
    except YoppError as error:
        return error.because
    return port_problem(ip, port)


def versions(examined: Examined) -> Iterator[Check]:
    """Whether running daemons have the version of this command."""
    if not examined.run_dir.daemons():
        return
    seen = inspect_cluster(examined.run_dir)
    if others := other_version(seen.info, seen.nodes):
        yield Check("daemons", WARN, others[0], "", "yopp down --keep-containers; yopp up")
    elif seen.info is not None:
        yield Check("daemons", OK, f"yopp {seen.info.version}")


def pages(examined: Examined) -> Iterator[Check]:
    """The addresses of the pages of running daemons; if none run, whether the configured ports are free."""
    daemons = examined.run_dir.daemons()
    for daemon in daemons:
        address = examined.run_dir.http_address(daemon.name)
        served = (
            f"http://{address} (process {daemon.process.pid})" if address else "none: web pages are disabled"
        )
        yield Check(f"{daemon.name} pages", OK, served)
    if not daemons:
        settings = examined.configuration.settings(WebSettings)
        yield _page_port(examined, "rm pages", _RM, settings.resourcemanager_address)
        yield _page_port(examined, "nm pages", _NM, settings.nodemanager_address)


def _page_port(examined: Examined, what: str, name: str, address: str) -> Check:
    """Whether a port is free. A daemon replaces a taken default port by a free one; a configured port
    must be free."""
    if not address:
        return Check(what, OK, f"none: {name} is empty")
    loopback_only = examined.configuration.settings(WebSettings).loopback_only
    try:
        host, ip, port = parse(address, name, loopback_only=loopback_only)
    except YoppError as error:
        return failed(what, error)
    problem = port_problem(ip, port)
    if not problem:
        return Check(
            what, OK, f"{address} is free" if port else f"a free port of {host}, chosen at the start"
        )
    if examined.configuration.origin(name) == "default":
        return Check(
            what, WARN, f"{address} is taken", problem, f"nothing (a free port is used), or -D{name}=…"
        )
    return Check(what, FAIL, f"{name} = {address}", problem, "name another port, or --ports auto")


def proxy(examined: Examined) -> Iterator[Check]:
    """Whether the AMRMProxy's port is free, with distributed allocation or the proxy enabled, while no daemon
    runs. Masters in containers use a Unix socket instead."""
    settings = examined.configuration.settings(NodeManagerSettings)
    if examined.run_dir.daemons() or not (
        settings.amrmproxy_enabled or settings.distributed_scheduling_enabled
    ):
        return
    address = settings.amrmproxy_address
    problem = _taken(AMRM_PROXY, address, loopback_only=settings.amrmproxy_loopback_only)
    if problem:
        why = f"{problem}; masters in containers use a Unix socket; masters in clients have no port"
        yield Check("AMRMProxy port", WARN, f"{address} is taken", why, f"-D{AMRM_PROXY}=localhost:18049")
    else:
        yield Check("AMRMProxy port", OK, f"{address} is free")


# -- leftovers -----------------------------------------------------------------------------------------


def stale_daemons(examined: Examined) -> Iterator[Check]:
    """Leftovers of dead daemons of this run directory; ``fix`` removes them."""
    run_dir = examined.run_dir
    if not run_dir.exists():
        return
    where = cleanup.places(run_dir, running_configuration(run_dir) or examined.configuration)
    ports = frozenset(cleanup.known_ports(run_dir, where) - {daemon.port for daemon in run_dir.daemons()})
    files = [os.path.basename(path) for path in run_dir.stale_files()]
    found = ", ".join([f"containers or cgroups of nm-{port}" for port in sorted(ports)] + files)
    if not found:
        yield Check("leftovers", OK, "none")
        return
    if not examined.fix:
        fix = "`yopp up` recovers their containers; `yopp doctor --fix` ends them"
        yield Check("leftovers", WARN, found, "daemons did not shut down cleanly", fix)
        return
    with run_dir.lock():
        running = {daemon.port for daemon in run_dir.daemons()}
        cleared = cleanup.clear(run_dir, where, ports=ports - running)
        run_dir.remove_stale_files()
    if cleared.problems:
        yield Check("leftovers", WARN, found, "; ".join(cleared.problems))
    else:
        yield Check("leftovers", OK, f"removed: {found}")
