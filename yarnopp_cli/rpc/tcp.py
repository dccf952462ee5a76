"""Listening on TCP, if a property asks for it: on loopback only, and for known users only.

The kernel names the owner of a loopback connection, so the rule is that of the Unix socket: the daemon's
own user, and root. The owner is known only while the other end is open: a caller that closes its end before it is
served, even for sending only, counts as nobody and is refused. Only an AMRMProxy listens on other interfaces,
if configured (``any_address``).

Decisions: callers.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable
from typing import Final

from executor.light import Record

from ..errors import InvalidPropertyError, YoppError, reason_of
from .tcp_peers import NOBODY, Peer, is_here, peer_of, plain

LOG = logging.getLogger(__name__)
BACKLOG: Final = 1024
"""The number of connections that the kernel queues until they are accepted; a TCP port gets an eighth."""
ACCEPT_AT_ONCE: Final = 16
"""The number of connections that one turn of the loop accepts, so that a burst does not delay existing connections."""
ACCEPT_SECONDS: Final = 0.0025
CROWDED_SECONDS: Final = 0.01
"""The seconds that an accepted connection to a TCP port counts, usually and in a crowd. If their sum runs ahead of the
time by more than ``BURST_SECONDS``, the port pauses: this bounds the rate of connections, whoever makes them."""
BURST_SECONDS: Final = 0.16
_RETRY_SECONDS: Final = 1.0
"""The pause, in seconds, after a connection could not be accepted because there was no free descriptor or memory."""
_PORT_TRIES: Final = 20
_OTHER_LOOPBACK: Final = {"127.0.0.1": "::1", "::1": "127.0.0.1", "0.0.0.0": "::1"}
"""The loopback address that an address leaves to other processes. ``::`` includes both."""


class ListenAddress(Record):
    """An address to listen on: ``host`` as configured, the ``ip`` that it stands for, and the property that sets it."""

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

    def listen(self, factory: Callable[[], asyncio.Protocol], crowded: Callable[[], bool]) -> Door:
        """Listen on the address. Raises YoppError, which names the process that holds a taken port."""
        try:
            return Door(bind(self.ip, self.port), factory, crowded)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise YoppError(
                    f"port {self.port} is taken",
                    because=holder_of(self.port),
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


def bind(ip: str, port: int) -> list[socket.socket]:
    """Sockets that listen on an address. Raises OSError.

    A loopback address gets two sockets, one for each loopback address: a process on the other one at the same port
    would have the same origin, ``localhost:PORT``, in a browser. Port 0 takes a port that is free at both. A host
    without IPv6 has one socket."""
    for left in reversed(range(1 if port else _PORT_TRIES)):
        found = [_bound(ip, port)]
        try:
            if other := _OTHER_LOOPBACK.get(ip):
                found.append(_bound(other, found[0].getsockname()[1]))
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                found[0].close()
                if left and error.errno == errno.EADDRINUSE:
                    continue
                raise
        break
    return found


def _bound(ip: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Allows a port whose last connections are still closing, but not a port on which another process listens.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, ip != "::")
        bound.bind((ip, port))
        bound.listen(BACKLOG // 8)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


class Door:
    """Accepts callers at TCP sockets, at a rate that leaves the loop time for other work; at a lower rate while they
    are ``crowded``."""

    def __init__(
        self,
        sockets: list[socket.socket],
        factory: Callable[[], asyncio.BaseProtocol],
        crowded: Callable[[], bool] = bool,
    ) -> None:
        self.sockets = sockets
        self._factory = factory
        self._crowded = crowded
        self._loop = asyncio.get_running_loop()
        self._busy_until = dict.fromkeys(sockets, 0.0)  # A crowd at one address does not block the other.
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._coming = set[asyncio.Task[None]]()
        for listening in sockets:
            self._open(listening)

    def close(self) -> None:
        """Stop accepting."""
        for pause in self._pauses.values():
            pause.cancel()
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()

    def _open(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        now = self._loop.time()
        for _ in range(ACCEPT_AT_ONCE):
            if self._busy_until[listening] > now + BURST_SECONDS:
                self._wait(listening, ACCEPT_AT_ONCE * ACCEPT_SECONDS)
                break
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                LOG.warning("no connection can be accepted for %g s: %s", _RETRY_SECONDS, reason_of(error))
                self._wait(listening, _RETRY_SECONDS)
                break
            counts = CROWDED_SECONDS if self._crowded() else ACCEPT_SECONDS
            self._busy_until[listening] = max(self._busy_until[listening], now) + counts
            coming = self._loop.create_task(self._take(connection))
            self._coming.add(coming)
            coming.add_done_callback(self._coming.discard)

    async def _take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:
            connection.close()  # The caller has disconnected.

    def _wait(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(seconds, self._open, listening)


class TcpCaller:
    """The other end of an accepted connection, and its owner, for which each call asks the kernel.

    The uid is -1 (nobody) unless the same socket is open now and was open at the first call. The kernel shows a socket
    that its owner has closed for a while, with uid 0 and without an inode: such a socket identifies no user, and
    neither does a missing one.
    """

    def __init__(self, connection: socket.socket | None, peer: object) -> None:
        """``peer`` is the other end's address, as accept(2) returned it."""
        self._connection = connection
        self._address = peer if isinstance(peer, tuple) else ()
        self._first: Peer | None = None

    def uid(self) -> int:
        """The uid that owns the other end now and owned it at the first call; -1 for nobody."""
        now = peer_of(self._connection, self._address) if self._connection and self._address else NOBODY
        self._first = self._first or now
        return now.uid if now == self._first else -1

    @property
    def on_loopback(self) -> bool:
        """Whether the caller has a loopback address."""
        return bool(self._address) and plain(self._address[0]).is_loopback

    @property
    def on_this_host(self) -> bool:
        """Whether the caller has an address of this host, so that the kernel knows its user while its
        end is open."""
        return self._connection is None or not self._address or is_here(self._connection, self._address)


def holder_of(port: int) -> str:
    """The process that listens on a port, as a clause for an error."""
    import psutil  # Imported only for an error.

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                if connection.pid is None:
                    break
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid}) listens there"
    except (psutil.Error, OSError):
        pass
    return "another process listens there"
