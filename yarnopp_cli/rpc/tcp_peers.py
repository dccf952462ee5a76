"""The owner of the other end of a TCP connection on this host, as the kernel reports it.

The kernel looks up the one socket (sock_diag(7)), which takes the same time on a host with many sockets. Only if the
kernel lacks this interface, the table of all sockets is read. Both sides check the owner: a daemon checks its callers,
and a caller checks the daemon before it sends its token.

Decisions: callers.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from executor.light import Record

from ..errors import reason_of

_ESTABLISHED: Final = 1
"""The state of an open connection, in /proc/net/tcp and in struct tcp_info."""
_ACCEPT_POLL_SECONDS: Final = 0.002
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_NO_COOKIE, _ALL_STATES = 0xFFFF_FFFF, 0xFFFF_FFFF
_DIAG_REQUEST: Final = struct.Struct("=IHHII4BI2s2s16s16s3I")
"""struct nlmsghdr and struct inet_diag_req_v2 (linux/inet_diag.h)."""
_DIAG_ANSWER: Final = struct.Struct("=4xH11xB62x2I")
"""The type in struct nlmsghdr; the state, the uid and the inode in struct inet_diag_msg."""


class Peer(Record):
    """The owner of the other end of a connection: its uid, and the inode of the socket, which identifies the
    socket while it is open. :data:`NOBODY` if the kernel does not know.
    """

    uid: int = -1
    inode: int = 0


NOBODY: Final = Peer()


def peer_of(connection: socket.socket, peer: tuple[Any, ...]) -> Peer:
    """The current owner of the other end; ``peer`` is its address, as accept(2) or getpeername(2) gave it."""
    try:
        own = connection.getsockname()
        found = _asked(peer, own)
        if found is None and _is_open(connection) and _asked(own, peer) is None:
            # The kernel does not know even our own end: it has no tcp_diag.
            found = peer_in(_tables(), own, peer)
        # Our own end is open now, so it was open when the kernel was asked: no other socket had the two addresses.
        if found is None or not _is_open(connection) or found.uid == _unmapped_uid():
            return NOBODY
    except (OSError, ValueError):
        return NOBODY  # The uid may be the one that the kernel shows for all unmapped users.
    return found


def _asked(local: tuple[Any, ...], remote: tuple[Any, ...]) -> Peer | None:
    """The owner of the socket with these two addresses, by sock_diag(7): NOBODY unless the socket is ESTABLISHED and
    has an inode. None if the kernel has no such socket, or does not answer this question."""
    here, there = plain(str(local[0])), plain(str(remote[0]))
    request = _DIAG_REQUEST.pack(
        *(_DIAG_REQUEST.size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0),
        *(socket.AF_INET if here.version == 4 else socket.AF_INET6, socket.IPPROTO_TCP, 0, 0, _ALL_STATES),
        *(int(one[1]).to_bytes(2, "big") for one in (local, remote)),
        *(one.packed.ljust(16, b"\0") for one in (here, there)),
        *(local[3] if len(local) > 3 else 0, _NO_COOKIE, _NO_COOKIE),
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
            asking.send(request)
            answer, (sender, _) = asking.recvfrom(
                4096, socket.MSG_DONTWAIT
            )  # The kernel has answered in send(2).
    except OSError:
        return None
    if sender or len(answer) < _DIAG_ANSWER.size:
        return None
    kind, state, uid, inode = _DIAG_ANSWER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None
    return Peer(uid, inode) if state == _ESTABLISHED and inode else NOBODY


def _is_open(connection: socket.socket) -> bool:
    """Whether neither end has closed the connection."""
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == bytes([_ESTABLISHED])
    except OSError:
        return False


def is_here(connection: socket.socket, peer: tuple[Any, ...]) -> bool:
    """Whether the other end has an address of this host, so that the kernel knows its user while
    it is open."""
    if plain(peer[0]).is_loopback:
        return True
    with socket.socket(connection.family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((peer[0], 0, *peer[2:]))
        except OSError as error:
            # bind(2) accepts only addresses of this host. After any other error the peer counts as on this
            # host, so that its user is checked.
            return error.errno != errno.EADDRNOTAVAIL
    return True


def stranger_that_serves(connection: socket.socket, timeout: float) -> str:
    """Why a server on this host is not trusted; "" if it is: it belongs to our own user, or to root.

    The owner is known once the server has accepted the connection; this function waits at most ``timeout``
    seconds for that. A server on another host, whose user our kernel does not know, is accepted.
    """
    deadline = time.monotonic() + timeout
    try:
        peer = connection.getpeername()
        if not is_here(connection, peer):
            return ""
    except OSError as error:
        return reason_of(error)
    while (found := peer_of(connection, peer)) == NOBODY:
        if not _is_open(connection):
            return "the server's user is unknown: it closed the connection too early"
        if time.monotonic() >= deadline:
            return f"the server's user is unknown: it did not accept the connection within {timeout:g} s"
        time.sleep(_ACCEPT_POLL_SECONDS)
    return "" if found.uid in (os.geteuid(), 0) else f"user {found.uid} listens there, not you or root"


def peer_in(rows: Iterable[str], own: tuple[Any, ...], peer: tuple[Any, ...]) -> Peer:
    """The peer according to the rows of /proc/net/tcp{,6}; the row of its socket has ``peer`` as the
    local address.

    It is known only if exactly one socket matches, which is ESTABLISHED and has an inode.
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
    """The uid that the kernel shows for users outside our user namespace; -2 if the namespace maps that uid.
    Raises OSError or ValueError, which is not cached, if that cannot be read now."""
    try:
        with open("/proc/sys/kernel/overflowuid") as file:
            overflow = int(file.read())
        with open("/proc/self/uid_map") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
    except FileNotFoundError:
        return -2  # The kernel has no user namespaces.
    return -2 if any(first <= overflow < first + count for first, _, count in ranges) else overflow


def plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IP address; an IPv4-mapped IPv6 address is returned as IPv4."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return ip.ipv4_mapped or ip if isinstance(ip, ipaddress.IPv6Address) else ip


def _encode(name: tuple[Any, ...]) -> frozenset[str]:
    """A socket's name as /proc/net/tcp{,6} writes it: 32-bit words of the address, in the host's
    byte order."""
    ip, port = plain(str(name[0])), int(name[1])
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
