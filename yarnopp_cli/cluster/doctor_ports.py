"""Whether the ports that a cluster would listen on can be had, and on which a running one does."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from ..errors import YoppError
from ..settings.loading import Configuration
from ..settings.nodemanager import NodeManagerSettings
from ..settings.resourcemanager import ResourceManagerSettings
from ..settings.web import WebSettings
from .doctor import FAIL, OK, WARN, Check
from .rundir import RunDir

_RM = "yarn.resourcemanager.webapp.address"
_NM = "yarn.nodemanager.webapp.address"


def examine_ports(run_dir: RunDir, configuration: Configuration) -> Iterator[Check]:
    """A line for each port, whatever is to be said of it."""
    yield from _rm_address(run_dir, configuration)
    if run_dir.daemons():
        yield from _pages_there_are(run_dir)
    else:
        yield from _pages_to_come(configuration)
        yield from _proxy(configuration)


def _rm_address(run_dir: RunDir, configuration: Configuration) -> Iterator[Check]:
    """The RM's TCP address, where one is set."""
    address = configuration.settings(ResourceManagerSettings).address
    if not address or run_dir.daemon("rm") is not None:
        return
    host, _, port = address.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            pass
    except (OSError, ValueError, OverflowError) as error:
        yield Check(
            "address",
            FAIL,
            f"yarn.resourcemanager.address = {address}",
            str(error),
            "name another port of this host",
        )
        return
    yield Check("address", OK, f"{address} is free")


def _pages_there_are(run_dir: RunDir) -> Iterator[Check]:
    """Where the pages of the daemons that run are."""
    for daemon in run_dir.daemons():
        what = "rm pages" if daemon.name == "rm" else f"{daemon.name} pages"
        address = (run_dir.read(f"{daemon.name}.http") or "").strip()
        served = f"http://{address} (process {daemon.process.pid})" if address else "none: it serves no pages"
        yield Check(what, OK, served)


def _pages_to_come(configuration: Configuration) -> Iterator[Check]:
    """A default port that is taken gives way to a free one; one that was named has to be free."""
    from ..web.listening import parse, port_problem

    settings = configuration.settings(WebSettings)
    for what, name, address in (
        ("rm pages", _RM, settings.resourcemanager_address),
        ("nm pages", _NM, settings.nodemanager_address),
    ):
        if not address:
            yield Check(what, OK, f"none: {name} is empty")
            continue
        try:
            host, ip, port = parse(address, name, loopback_only=settings.loopback_only)
        except YoppError as error:
            yield Check(what, FAIL, error.message, error.because, error.hint)
            continue
        problem = port_problem(ip, port)
        if not problem:
            yield Check(
                what, OK, f"{address} is free" if port else f"a free port of {host}, chosen at the start"
            )
        elif configuration.origin(name) == "default":
            yield Check(
                what, WARN, f"{address} is taken", problem, f"nothing, a free port is used; or -D{name}=…"
            )
        else:
            yield Check(what, FAIL, f"{name} = {address}", problem, "name another port, or --ports auto")


def _proxy(configuration: Configuration) -> Iterator[Check]:
    """The AMRMProxy's, with distributed allocation. Masters in containers have a Unix socket besides."""
    settings = configuration.settings(NodeManagerSettings)
    if not (settings.amrmproxy_enabled or settings.distributed_scheduling_enabled):
        return
    from ..web.listening import port_problem

    host, _, port = settings.amrmproxy_address.rpartition(":")
    every = settings.amrmproxy_loopback_only and host.strip("[]") in ("0.0.0.0", "::")
    ip = "127.0.0.1" if host == "localhost" or every else host.strip("[]")
    problem = port_problem(ip, int(port)) if port.isdigit() and int(port) <= 65535 else "it is no port"
    if problem:
        why = f"{problem}; masters in containers use a Unix socket, those in clients have no port"
        fix = "-Dyarn.nodemanager.amrmproxy.address=localhost:18049"
        yield Check("AMRMProxy port", WARN, f"{settings.amrmproxy_address} is taken", why, fix)
    else:
        yield Check("AMRMProxy port", OK, f"{ip}:{port} is free")
