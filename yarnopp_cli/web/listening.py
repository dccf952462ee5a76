"""The web servers' sockets: bound before a daemon reports ready, served from the first caller on.

Binding shows at once whether the port is free, and at which address the server is reached. Loading the server
takes a third of a second and 15 MB, so it waits for the first caller, whose connection the kernel queues
meanwhile. If its files have changed by then (an upgrade of yopp), callers are told to restart the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import importlib.util
import ipaddress
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..errors import InvalidPropertyError, YoppError, reason_of
from ..rpc.tcp import Door, bind, holder_of, host_and_port

LOG = logging.getLogger(__name__)
REQUEST_SECONDS = 2.0
"""Seconds that a caller which is turned away has to send its request."""
MOST_TURNED_AWAY = 20
"""The number of callers that are turned away with the reason at the same time; further ones get no reason."""
RESTART = "`yopp rm restart` or `yopp nm restart` restarts the daemon; its work continues"


class Server(Protocol):
    """A server on a socket."""

    async def close(self) -> None:
        """Stop serving, and end every connection."""


class _TurnedAway:
    """Answers every caller with 503 (Service Unavailable) and the reason."""

    def __init__(self, why: str) -> None:
        self._body = f"yopp has no web server here: {why}\n".encode()
        self._callers = 0

    def start(self, sockets: list[socket.socket]) -> None:
        """Serve these sockets."""
        self._door = Door(sockets, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._answer))

    async def close(self) -> None:
        """Stop serving."""
        self._door.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._callers += 1
        try:
            if self._callers <= MOST_TURNED_AWAY:
                await asyncio.wait_for(reader.read(1 << 16), REQUEST_SECONDS)
                head = (
                    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                    f"Content-Length: {len(self._body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + self._body)
        except (OSError, TimeoutError):
            pass  # The caller has disconnected, or sends nothing.
        finally:
            self._callers -= 1
            writer.close()


def _files_of(module: str) -> dict[str, tuple[int, int]]:
    """The identity of each source file beside and below a module; none if they cannot be found."""
    found: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(ImportError, OSError):
        if (spec := importlib.util.find_spec(module)) is not None and spec.origin is not None:
            for parent, _, names in os.walk(os.path.dirname(spec.origin)):
                for path in (os.path.join(parent, name) for name in names if name.endswith(".py")):
                    status = os.stat(path)
                    found[path] = status.st_ino, status.st_mtime_ns
    return found


class WebListener:
    """Bound sockets. ``address`` is the address to call; ``warning`` is for users, "" for none. With
    ``for_owner_only`` other users may not even read; with ``others_submit`` they may submit. ``token`` returns the
    bearer token that gives a caller the owner's rights, "" for none; ``links`` as in ``cluster.resttoken``.
    """

    def __init__(self, bound: list[socket.socket], host: str, warning: str = "") -> None:
        self._sockets = bound
        self._server: Server | None = None
        self._starting: asyncio.Task[None] | None = None
        self._watching = False
        self.host = host
        self.port: int = bound[0].getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.warning = warning
        self.for_owner_only = False
        self.others_submit = False
        self.token: Callable[[], str] = str
        self.links: Callable[[], dict[str, str]] = dict

    def serve(self, module: str, arguments: tuple[Any, ...]) -> None:
        """Wait for the first caller; then ``module``'s ``serve(sockets, *arguments)`` takes over."""
        loop = asyncio.get_running_loop()
        self._watching = True
        files = _files_of(module)

        def first_caller() -> None:
            self._unwatch()
            self._starting = loop.create_task(self._load(module, files, arguments))

        for bound in self._sockets:
            loop.add_reader(bound, first_caller)

    def _unwatch(self) -> None:
        self._watching = False
        for bound in self._sockets:
            asyncio.get_running_loop().remove_reader(bound)

    async def _load(self, module: str, files: dict[str, tuple[int, int]], arguments: tuple[Any, ...]) -> None:
        try:
            if _files_of(module) != files:
                raise ImportError("the files of yopp have changed since this daemon started")
            loaded = await asyncio.to_thread(importlib.import_module, module)
            start: Callable[..., Awaitable[Server]] = loaded.serve
            self._server = await start(self._sockets, *arguments)
        except (ImportError, OSError) as error:
            LOG.error("the web server cannot start: %s; %s", error, RESTART)
            instead = _TurnedAway(f"{error}; {RESTART}")
            instead.start(self._sockets)
            self._server = instead
            return
        LOG.info("the web server serves %s", self.address)

    async def close(self) -> None:
        """Stop listening and serving."""
        if self._watching:
            self._unwatch()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._server is not None:
            await self._server.close()
        for bound in self._sockets:
            bound.close()


def listen(
    address: str, name: str, *, loopback_only: bool, offset: int = 0, fallback: bool = False, earlier: int = 0
) -> WebListener:
    """Bind ``address``, the value of property ``name``, with ``offset`` added to the port.

    With ``fallback`` a free port is used if this one is taken, and the listener's warning says so. With ``fallback``,
    or if any port may be used, ``earlier`` is tried first: the port that this daemon had before it was restarted.
    Raises InvalidPropertyError for an invalid address, YoppError for one that cannot be bound.
    """
    host, ip, port = parse(address, name, loopback_only=loopback_only)
    wanted = port + offset if port else 0
    if wanted > 65535:
        wanted = 0
    if earlier and (fallback or not wanted):
        with contextlib.suppress(OSError):
            return WebListener(bind(ip, earlier), host)
    try:
        return WebListener(bind(ip, wanted), host)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise YoppError(f"cannot listen on {host}:{wanted}", because=reason_of(error)) from None
        taken = error.errno == errno.EADDRINUSE
        because = holder_of(wanted) if taken else reason_of(error)
    if not fallback:
        raise YoppError(
            f"port {wanted} is taken" if taken else f"cannot listen on port {wanted}",
            because=because,
            hint=f"-D{name}={host}:{wanted + 10000 if wanted < 55535 else 0}, or --ports auto",
        )
    listener = WebListener(bind(ip, 0), host)
    listener.warning = (
        f"port {wanted} is taken ({because}): the web server is at http://{listener.address}/ instead; "
        f"-D{name}=<host:port> names another one"
    )
    return listener


def parse(address: str, name: str, *, loopback_only: bool) -> tuple[str, str, int]:
    """``host:port`` as (host to show, IP to bind, port). Raises InvalidPropertyError."""
    if (found := host_and_port(address)) is None:
        raise InvalidPropertyError(
            f"{name} = {address!r} is not an address", because="it must look like localhost:8088"
        )
    host, port = found
    if host == "localhost":
        return host, "127.0.0.1", port
    if loopback_only and host in ("0.0.0.0", "::"):
        return "localhost", "127.0.0.1", port
    if host in ("0.0.0.0", "::"):
        return socket.gethostname(), host, port
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        ip = None
    if loopback_only and (ip is None or not ip.is_loopback):
        raise InvalidPropertyError(
            f"{name} = {address!r} is refused",
            because="any caller could read the output of containers, so it is served on loopback only",
            hint=f"-D{name}=localhost:{port}, or -Dyopp.webapp.loopback-only=false",
        )
    if ip is not None:
        return host, host, port
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InvalidPropertyError(
            f"{name} = {address!r} is not an address", because=f"{host}: {reason_of(error)}"
        ) from None
    return host, str(infos[0][4][0]), port


def port_problem(ip: str, port: int) -> str:
    """Why a port cannot be bound now, "" if it can."""
    try:
        for one in bind(ip, port):
            one.close()
    except OSError as error:
        return holder_of(port) if error.errno == errno.EADDRINUSE else reason_of(error)
    return ""
