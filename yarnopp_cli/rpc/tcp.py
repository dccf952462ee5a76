"""Listening on TCP, if a property asks for it: on loopback only, and for known users only.

/proc/net/tcp names the owner of a loopback connection, so the rule is that of the Unix socket: the daemon's
own user, and root. A caller is known only while its end is open: one that closes it before it is served, even
only for sending, counts as nobody and is refused. Only an AMRMProxy listens on other interfaces, if
configured (``any_address``).

Decisions: callers.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Final

from executor.light import Record

from ..errors import InvalidPropertyError, YoppError, reason_of
from .tcp_peers import NOBODY, Peer, is_here, peer_of, plain

_PROPERTY = "yarn.resourcemanager.address"
BACKLOG: Final = 1024
"""How many connections the kernel queues until they are accepted."""
ACCEPT_AT_ONCE: Final = 16
"""How many of them one turn of the loop accepts, so that many at once do not delay existing connections."""


class ListenAddress(Record):
    """An address to listen on: ``host`` as configured, and the ``ip`` it stands for."""

    host: str
    ip: str
    port: int

    @property
    def parsed(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """``ip`` as an object; None if it is not an IP address."""
        try:
            return ipaddress.ip_address(self.ip)
        except ValueError:
            return None

    async def listen(self, factory: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        """Listen on the address. Raises YoppError, which names the process that holds a taken port."""
        try:
            bound = socket.create_server(
                (self.ip, self.port), family=socket.AF_INET6 if ":" in self.ip else socket.AF_INET
            )
            loop = asyncio.get_running_loop()
            server = await loop.create_server(factory, sock=bound, backlog=ACCEPT_AT_ONCE)
            bound.listen(BACKLOG)
            return server
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise YoppError(
                    f"port {self.port} is taken",
                    because=holder_of(self.ip, self.port),
                    hint=f"name another one with -D{_PROPERTY}={self.host}:<port>, or empty it to use no TCP",
                ) from None
            raise YoppError(f"cannot listen on {self.host}:{self.port}", because=reason_of(error)) from None


def loopback_address(address: str) -> ListenAddress:
    """Parse ``host:port``. Raises InvalidPropertyError if it is malformed or not on loopback."""
    found = _address(address)
    if found is None:
        raise InvalidPropertyError(
            f"{_PROPERTY} = {address!r} is not an address", because="it looks like localhost:8032"
        )
    if found.parsed is None or not found.parsed.is_loopback:
        raise InvalidPropertyError(
            f"{_PROPERTY} = {address!r} is refused",
            because="whoever reaches the ResourceManager can run commands, so it listens on loopback only",
            hint=f"-D{_PROPERTY}=localhost:{found.port}",
        )
    return found


def any_address(address: str) -> ListenAddress:
    """Parse ``host:port`` on any interface. Raises InvalidPropertyError if it is malformed."""
    found = _address(address)
    if found is None or found.parsed is None:
        raise InvalidPropertyError(
            f"{address!r} is not an address to listen on", because="it looks like 0.0.0.0:8049"
        )
    return found


def host_and_port(text: str) -> tuple[str, int] | None:
    """The parts of ``host:port``, the host without the brackets of IPv6; None for anything else."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        return None
    return host, int(port)


def _address(text: str) -> ListenAddress | None:
    if (found := host_and_port(text)) is None:
        return None
    host, port = found
    return ListenAddress(host, "127.0.0.1" if host == "localhost" else host, port)


class TcpCaller:
    """The other end of an accepted connection, and its owner, which each call asks of the kernel anew.

    The uid is -1 (nobody) unless the same socket is open now and was open when the connection was accepted.
    /proc/net/tcp lists a socket that its owner has closed for a while, with uid 0 and without an inode:
    neither such a row nor a missing one identifies a user.
    """

    def __init__(self, connection: socket.socket | None, peer: object) -> None:
        """``peer`` is the other end's address, as accept(2) gave it. Call it when the connection is accepted."""
        self._connection = connection
        self._address = peer if isinstance(peer, tuple) else ()
        self._accepted = self._read()

    def uid(self) -> int:
        """The uid that owns the other end now and owned it when the connection was accepted; -1
        for nobody."""
        if self._accepted == NOBODY or self._read() != self._accepted:
            return -1
        return self._accepted.uid

    @property
    def accepted_uid(self) -> int:
        """The uid that owned the other end when the connection was accepted; -1 for nobody."""
        return self._accepted.uid

    @property
    def on_loopback(self) -> bool:
        """Whether the caller has a loopback address."""
        return bool(self._address) and plain(self._address[0]).is_loopback

    @property
    def on_this_host(self) -> bool:
        """Whether the caller has an address of this host, so that the kernel knows its user while its
        end is open."""
        return self._connection is None or not self._address or is_here(self._connection, self._address)

    def _read(self) -> Peer:
        if self._connection is None or not self._address:
            return NOBODY
        return peer_of(self._connection, self._address)


def holder_of(ip: str, port: int) -> str:
    """A text that names the process that listens on a port, for an error."""
    import psutil  # only on the way to an error

    family = "inet6" if ":" in ip else "inet4"
    try:
        for connection in psutil.net_connections(family):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                if connection.pid is None:
                    break
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid}) listens there"
    except (psutil.Error, OSError):
        pass
    return "another process listens there"
