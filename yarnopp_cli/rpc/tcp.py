"""Listening on TCP, if a property asks for it: on loopback only, and for known users only.

/proc/net/tcp names the owner of a loopback connection, so the rule is that of the Unix socket: the daemon's
own user, and root. The owner is known only while the other end is open: a caller that closes its end before it is
served, even for sending only, counts as nobody and is refused. Only an AMRMProxy listens on other interfaces,
if configured (``any_address``).

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

BACKLOG: Final = 1024
"""How many connections the kernel queues until they are accepted."""
ACCEPT_AT_ONCE: Final = 16
"""How many of them one turn of the loop accepts, so that many at once do not delay existing connections."""


class ListenAddress(Record):
    """An address to listen on: ``host`` as configured, the ``ip`` it stands for, and the property that has it."""

    host: str
    ip: str
    port: int
    origin: str

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
                    hint=f"choose another: -D{self.origin}={self.host}:PORT; or use no TCP: -D{self.origin}=",
                ) from None
            raise YoppError(f"cannot listen on {self.host}:{self.port}", because=reason_of(error)) from None


def loopback_address(address: str, origin: str) -> ListenAddress:
    """Parse ``host:port``, the value of the property ``origin``. Raises InvalidPropertyError if it is malformed or not
    on loopback."""
    found = _address(address, origin)
    if found is None:
        raise _malformed(address, origin)
    if found.parsed is None or not found.parsed.is_loopback:
        raise InvalidPropertyError(
            f"{origin} = {address!r} is refused",
            because="it may be on loopback only: whoever reaches it can run commands",
            hint=f"-D{origin}=localhost:{found.port}",
        )
    return found


def any_address(address: str, origin: str) -> ListenAddress:
    """The same on any interface. Raises InvalidPropertyError if it is malformed."""
    found = _address(address, origin)
    if found is None or found.parsed is None:
        raise _malformed(address, origin)
    return found


def _malformed(address: str, origin: str) -> InvalidPropertyError:
    return InvalidPropertyError(
        f"{origin} = {address!r} is not an address",
        because="an address is an IP address, or localhost, and a port",
    )


def host_and_port(text: str) -> tuple[str, int] | None:
    """The parts of ``host:port``, the host without the brackets of IPv6; None for anything else."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        return None
    return host, int(port)


def _address(text: str, origin: str) -> ListenAddress | None:
    if (found := host_and_port(text)) is None:
        return None
    host, port = found
    return ListenAddress(host, "127.0.0.1" if host == "localhost" else host, port, origin)


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
    """The process that listens on a port, as a clause for an error."""
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
