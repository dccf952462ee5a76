"""Listening by TCP, where a property asks for it: on loopback only, and for known users only.

The kernel tells whose a loopback connection is by /proc/net/tcp, so the rule is the Unix socket's: the daemon's own
user, and root. A caller is known only while its end is open: one that closes it before it is served, even only for
sending, counts as nobody and is refused. Only an AMRMProxy listens on other interfaces, where it is told to
(``any_address``).
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from executor.light import Record

from ..errors import InvalidPropertyError, YoppError, reason_of

_PROPERTY = "yarn.resourcemanager.address"
_ESTABLISHED: Final = 1
"""The state of an open connection, in /proc/net/tcp and in struct tcp_info."""


class ListenAddress(Record):
    """An address to listen on: ``host`` as it was written, ``ip`` what it means."""

    host: str
    ip: str
    port: int

    @property
    def parsed(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """What ``ip`` says; None where it is no IP address."""
        try:
            return ipaddress.ip_address(self.ip)
        except ValueError:
            return None

    async def listen(self, factory: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        """Listen there. Raises YoppError, which names who holds a port that is taken."""
        try:
            return await asyncio.get_running_loop().create_server(factory, self.ip, self.port, backlog=1024)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise YoppError(
                    f"port {self.port} is taken",
                    because=holder_of(self.ip, self.port),
                    hint=f"name another one with -D{_PROPERTY}={self.host}:<port>, or empty it to use no TCP",
                ) from None
            raise YoppError(f"cannot listen on {self.host}:{self.port}", because=reason_of(error)) from None


def loopback_address(address: str) -> ListenAddress:
    """Check ``host:port``. Raises InvalidPropertyError if it is none, or not on loopback."""
    found = _address(address)
    if found is None:
        raise InvalidPropertyError(
            f"{_PROPERTY} = {address!r} is no address", because="it looks like localhost:8032"
        )
    if found.parsed is None or not found.parsed.is_loopback:
        raise InvalidPropertyError(
            f"{_PROPERTY} = {address!r} is refused",
            because="whoever reaches the ResourceManager can run commands, so it listens on loopback only",
            hint=f"-D{_PROPERTY}=localhost:{found.port}",
        )
    return found


def any_address(address: str) -> ListenAddress:
    """``host:port`` on whatever interface. Raises InvalidPropertyError if it is none."""
    found = _address(address)
    if found is None or found.parsed is None:
        raise InvalidPropertyError(
            f"{address!r} is no address to listen on", because="it looks like 0.0.0.0:8049"
        )
    return found


def _address(text: str) -> ListenAddress | None:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        return None
    return ListenAddress(host, "127.0.0.1" if host == "localhost" else host, int(port))


class Peer(Record):
    """Who holds the other end of a connection: a uid, and the inode of the socket, which names that very socket while
    it is open. :data:`NOBODY` where the kernel does not tell.
    """

    uid: int = -1
    inode: int = 0


NOBODY: Final = Peer()


class TcpCaller:
    """The other end of an accepted connection: whose it is, asked of the kernel each time anew.

    The uid is -1, nobody's, unless the same socket is open now and was when the connection was accepted. A
    socket that its owner has closed stands in /proc/net/tcp for a while, with uid 0 and without an inode: neither that
    nor a missing row tells of a user.
    """

    def __init__(self, connection: socket.socket | None, peer: object) -> None:
        """``peer`` is the other end's address, as accept(2) gave it. Call it when the connection is accepted."""
        self._connection = connection
        self._address = peer if isinstance(peer, tuple) else ()
        self._accepted = self._read()

    def uid(self) -> int:
        """The user who holds the other end now and held it when the connection was accepted, -1 for nobody."""
        if self._accepted == NOBODY or self._read() != self._accepted:
            return -1
        return self._accepted.uid

    @property
    def accepted_uid(self) -> int:
        """The user who held the other end when the connection was accepted, -1 for nobody."""
        return self._accepted.uid

    @property
    def on_loopback(self) -> bool:
        """Whether it calls by a loopback address."""
        return bool(self._address) and _plain(self._address[0]).is_loopback

    @property
    def on_this_host(self) -> bool:
        """Whether it calls by an address of this host, so that the kernel knows its user as long as it is open."""
        if self._connection is None or not self._address or self.on_loopback:
            return True
        with socket.socket(self._connection.family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((self._address[0], 0, *self._address[2:]))
            except OSError:
                return False  # it can be bound only where it is one of this host's
        return True

    def _read(self) -> Peer:
        connection = self._connection
        if connection is None or not self._address:
            return NOBODY
        try:
            # While our own end is open, no other socket can have the same two addresses.
            state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
            own = connection.getsockname()
        except OSError:
            return NOBODY
        if state != bytes([_ESTABLISHED]):
            return NOBODY
        found = peer_in(_tables(), own, self._address)
        return NOBODY if found.uid == _unmapped_uid() else found


def peer_in(rows: Iterable[str], own: tuple[Any, ...], peer: tuple[Any, ...]) -> Peer:
    """The peer by the rows of /proc/net/tcp{,6}: that of its own socket has its address as the local one.

    It is known only by the one row of a socket that is ESTABLISHED and has an inode.
    """
    local, remote = _encode(peer), _encode(own)
    found: set[Peer] = set()
    for row in rows:
        parts = row.split()
        if len(parts) < 10 or parts[1] not in local or parts[2] not in remote:
            continue
        inode = int(parts[9])
        found.add(Peer(int(parts[7]), inode) if int(parts[3], 16) == _ESTABLISHED and inode else NOBODY)
    return found.pop() if len(found) == 1 else NOBODY


def _tables() -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                next(file, None)
                yield from file
        except OSError:
            continue


@lru_cache(maxsize=1)
def _unmapped_uid() -> int:
    """The uid by which the kernel names users whom our user namespace does not have; -2 where it has all."""
    try:
        with open("/proc/sys/kernel/overflowuid") as file:
            overflow = int(file.read())
        with open("/proc/self/uid_map") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
    except (OSError, ValueError):
        return -2
    return -2 if any(first <= overflow < first + count for first, _, count in ranges) else overflow


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address; an IPv4 one also where an IPv6 socket names it."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return ip.ipv4_mapped or ip if isinstance(ip, ipaddress.IPv6Address) else ip


def _encode(name: tuple[Any, ...]) -> frozenset[str]:
    """A socket's name as /proc/net/tcp{,6} write it: 32-bit words of the address in the host's byte order."""
    ip, port = _plain(str(name[0])), int(name[1])
    forms = [ip.packed]
    if isinstance(ip, ipaddress.IPv4Address):
        forms.append(bytes(10) + b"\xff\xff" + ip.packed)
    words = (
        "".join(
            f"{int.from_bytes(form[start : start + 4], sys.byteorder):08X}"
            for start in range(0, len(form), 4)
        )
        for form in forms
    )
    return frozenset(f"{word}:{port:04X}" for word in words)


def holder_of(ip: str, port: int) -> str:
    """Who listens on a port, for people."""
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
