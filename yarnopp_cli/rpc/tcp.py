"""Listening by TCP, where a property asks for it: on loopback only, and for known users only.

The kernel tells whose a loopback connection is by /proc/net/tcp, so the rule is the Unix socket's: the
daemon's own user, and root. Only an AMRMProxy that was told so listens on other interfaces (``any_address``).
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import InvalidPropertyError, YoppError

_PROPERTY = "yarn.resourcemanager.address"


@dataclass(frozen=True, slots=True)
class LoopbackAddress:
    """A checked address: ``host`` as it was written, ``ip`` what it means."""

    host: str
    ip: str
    port: int

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
            reason = (error.strerror or str(error)).lower()
            raise YoppError(f"cannot listen on {self.host}:{self.port}", because=reason) from None


def loopback_address(address: str) -> LoopbackAddress:
    """Check ``host:port``. Raises InvalidPropertyError if it is none, or not on loopback."""
    host, colon, port_text = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port_text.isascii() or not port_text.isdigit() or int(port_text) > 65535:
        raise InvalidPropertyError(
            f"{_PROPERTY} = {address!r} is no address", because="it looks like localhost:8032"
        )
    ip = "127.0.0.1" if host == "localhost" else host
    try:
        parsed = ipaddress.ip_address(ip)
    except ValueError:
        parsed = None
    if parsed is None or not parsed.is_loopback:
        raise InvalidPropertyError(
            f"{_PROPERTY} = {address!r} is refused",
            because="whoever reaches the ResourceManager can run commands, so it listens on loopback only",
            hint=f"-D{_PROPERTY}=localhost:{port_text}",
        )
    return LoopbackAddress(host, ip, int(port_text))


def any_address(address: str) -> LoopbackAddress:
    """``host:port`` on whatever interface. Raises InvalidPropertyError if it is none."""
    host, _, port_text = address.rpartition(":")
    host = host.strip("[]")
    ip = "127.0.0.1" if host == "localhost" else host
    try:
        ipaddress.ip_address(ip)
        return LoopbackAddress(host, ip, int(port_text))
    except ValueError:
        raise InvalidPropertyError(
            f"{address!r} is no address to listen on", because="it looks like 0.0.0.0:8049"
        ) from None


def peer_uid(own: tuple[object, ...], peer: tuple[object, ...]) -> int:
    """The user of the other end of a loopback connection; -1 if the kernel does not tell.

    ``own`` and ``peer`` are socket names. The peer's own entry has its address as the local one.
    """
    local, remote = _encode(peer), _encode(own)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                next(file, None)
                for line in file:
                    parts = line.split()
                    if parts[1] in local and parts[2] in remote:
                        return int(parts[7])
        except OSError:
            continue
    return -1


def _encode(name: tuple[object, ...]) -> frozenset[str]:
    """A socket's name as /proc/net/tcp{,6} write it: 32-bit words of the address in the host's byte order."""
    ip, port = ipaddress.ip_address(str(name[0])), int(str(name[1]))
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
