"""The daemons' end of the wire: JSON lines on a Unix socket (and, where configured, loopback TCP) become a machine's
calls.

Each line that is a proper call becomes a CallReceived; Reply and ReplyError become lines again, in whatever order
they come. A line that is not a call is answered here and never reaches the machine. Only the daemon's own user and
root are served. Nothing here knows what a method means.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from ..errors import RemoteError, YoppError, reason_of
from ..machine.calls import CallReceived, ConnectionLost, Reply, ReplyError
from ..records.methods import Methods
from .codec import decode_call, encode_error, encode_response, encode_wire_error
from .tcp import TcpCaller, any_address, loopback_address
from .wire import INVALID_REQUEST, MAX_LINE_BYTES, CallId, Lines, WireError

_log = logging.getLogger(__name__)

Post = Callable[[CallReceived | ConnectionLost], None]
"""Where calls go: a Driver's ``post``."""

MAX_UNANSWERED: Final = 20_000
"""Calls one connection may have waiting; more are refused, so that no caller can fill the memory."""

_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Answers that a connection may leave unread before it is dropped."""

_PEERCRED = struct.Struct("3i")


class RpcServer:
    """Serves one daemon's methods. ``post`` takes what happens; ``perform`` takes the answers.

    ``numbers_from`` keeps the calls and connections of two servers of one machine apart.
    """

    def __init__(
        self,
        methods: Methods,
        post: Post,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        numbers_from: int = 1,
    ) -> None:
        self._methods = methods
        self.post = post
        self.max_line_bytes = max_line_bytes
        self._calls: dict[int, tuple[_Connection, CallId]] = {}
        self._next_call = numbers_from
        self._next_connection = numbers_from
        self._connections: set[_Connection] = set()
        self._client_pids: dict[int, int] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._socket_paths: list[tuple[str, int]] = []
        self._closing = False

    async def listen_unix(self, path: str) -> None:
        """Listen on ``path``, 0600. A socket there that nobody listens on is removed first.

        Raises YoppError if a living daemon has it or it cannot be made.
        """
        remove_stale_socket(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        try:
            # The directory is 0700 already; the mode is for those who put it elsewhere.
            previous = os.umask(0o177)
            try:
                listener.bind(path)
            finally:
                os.umask(previous)
            inode = os.stat(path).st_ino
        except OSError as error:
            listener.close()
            raise YoppError(f"cannot listen on {path}", because=reason_of(error)) from None
        accept = partial(_Connection, self)
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_unix_server(accept, sock=listener, backlog=1024))
        self._socket_paths.append((path, inode))

    async def listen_tcp(self, address: str, *, loopback_only: bool = True) -> str:
        """Listen on ``host:port``, loopback only unless told otherwise; the address it got. Raises YoppError.

        Port 0 takes a free one. Without ``loopback_only`` callers from other machines, whose user no kernel tells, are
        served too: only for methods that ask for a token each.
        """
        where = loopback_address(address) if loopback_only else any_address(address)
        server = await where.listen(partial(_Connection, self, known_only=loopback_only))
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return f"{where.host}:{name[1]}"

    def perform(self, command: Reply | ReplyError) -> None:
        """Answer a call. One whose connection has gone is forgotten."""
        found = self._calls.pop(command.call_id, None)
        if found is None:
            return
        connection, call_id = found
        connection.unanswered.discard(command.call_id)
        if isinstance(command, Reply):
            connection.write(encode_response(call_id, command.response))
        else:
            connection.write(encode_error(call_id, command.error))

    @property
    def unanswered(self) -> int:
        """How many calls wait for their answers."""
        return len(self._calls)

    def client_pids(self) -> frozenset[int]:
        """The processes at the other end of the Unix sockets. May be asked from another thread."""
        return frozenset(list(self._client_pids.values()))

    async def close(self) -> None:
        """Stop listening, remove the sockets, send what is to be sent, and close every connection."""
        self._closing = True
        for server in self._servers:
            server.close()
        for path, inode in self._socket_paths:
            _unlink_own(path, inode)
        connections = list(self._connections)
        for connection in connections:
            connection.flush()
            connection.close()
        # An answer that is still in a buffer gets a moment to leave; a peer that does not read gets no more.
        waiting = [connection.gone.wait() for connection in connections]
        if waiting:
            try:
                await asyncio.wait_for(asyncio.gather(*waiting), 1.0)
            except TimeoutError:
                for connection in connections:
                    connection.abort()

    def _opened(self, connection: _Connection, pid: int) -> None:
        self._connections.add(connection)
        connection.id = self._next_connection
        self._next_connection += 1
        if pid:
            self._client_pids[connection.id] = pid

    def _lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self._client_pids.pop(connection.id, None)
        for call in connection.unanswered:
            self._calls.pop(call, None)
        connection.unanswered.clear()
        if connection.called and not self._closing:
            self.post(ConnectionLost(connection.id))

    def _received(self, connection: _Connection, line: bytes) -> None:
        try:
            call_id, request = decode_call(line, self._methods)
        except WireError as error:
            connection.write(encode_wire_error(error))
            return
        if len(connection.unanswered) >= MAX_UNANSWERED:
            refusal = RemoteError("too many calls at once", because=f"{MAX_UNANSWERED} wait for an answer")
            connection.write(encode_error(call_id, refusal))
            return
        number = self._next_call
        self._next_call += 1
        self._calls[number] = (connection, call_id)
        connection.unanswered.add(number)
        connection.called = True
        self.post(CallReceived(number, connection.id, request, connection.uid, connection.user))


class _Connection(asyncio.Protocol):
    """One caller: cuts its bytes into lines, and gathers the answers of a turn of the loop into one write."""

    def __init__(self, server: RpcServer, known_only: bool = True) -> None:
        self.id = 0
        self.uid = -1
        self.user = ""
        self.called = False
        self.known_only = known_only
        self.unanswered: set[int] = set()
        self.gone = asyncio.Event()
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._lines = Lines(server.max_line_bytes)
        self._tcp: TcpCaller | None = None
        self._output: list[bytes] = []
        self._flush_due = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=1024 * 1024)
        connection: socket.socket = transport.get_extra_info("socket")
        pid = 0  # where it is not known
        if connection.family == socket.AF_UNIX:
            pid, uid = _credentials(connection)
        else:
            self._tcp = TcpCaller(connection, transport.get_extra_info("peername"))
            uid = self._tcp.accepted_uid
        self._server._opened(self, pid)
        if self._identify(uid):
            self.user = user_name(self.uid)

    def _identify(self, uid: int) -> bool:
        """Whether that user is served here; one who is not is told so, and the connection ends."""
        served = uid in (os.geteuid(), 0)
        if uid < 0 and not self.known_only and self._tcp is not None and not self._tcp.on_this_host:
            served = True
        if served:
            self.uid = uid
            return True
        _log.warning("refused a connection of user %d", uid)
        you = (
            f"you are {user_name(uid)}"
            if uid >= 0
            else "who you are is not known: the connection is not open"
        )
        error = YoppError(
            "this daemon serves its own user only",
            because=f"it runs as {user_name(os.geteuid())}, and {you}",
        )
        self.write(encode_error(None, error))
        self.flush()
        self.close()
        return False

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        # The data is acted on only if the connection still belongs to the user who opened it.
        if self._tcp is not None and not self._identify(self._tcp.uid()):
            return
        for line in self._lines.add(data):
            if line.strip():
                self._server._received(self, line)
        if self._lines.too_long:
            message = f"a line is longer than {self._server.max_line_bytes} bytes"
            self.write(encode_wire_error(WireError(INVALID_REQUEST, message)))
            self._lines.clear()
            self.flush()
            self.close()

    def eof_received(self) -> bool:
        # What has been answered is sent; then it counts as gone. A caller that was killed looks the same as
        # one that only stopped sending, and the death of a master in a client must be noticed at once.
        self.flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._output.clear()
        self.gone.set()
        self._server._lost(self)

    def pause_writing(self) -> None:
        """The caller does not read its answers: take no more calls of it until it does."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, line: bytes) -> None:
        """Send a line, together with the others of this turn of the loop."""
        if self._transport is None:
            return
        self._output.append(line)
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Hand over what has gathered."""
        self._flush_due = False
        if self._transport is None or not self._output:
            return
        self._transport.write(b"".join(self._output))
        self._output.clear()
        if self._transport.get_write_buffer_size() > _OUTPUT_BYTES:
            _log.warning("dropped connection %d: it leaves its answers unread", self.id)
            self.abort()

    def close(self) -> None:
        """Close when all has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()


def remove_stale_socket(path: str) -> None:
    """Remove a socket on which nobody listens any more.

    Raises YoppError if somebody does, or it is no socket.
    """
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    try:
        probe.connect(path)
    except FileNotFoundError:
        return
    except BlockingIOError:
        pass  # it listens, and is busy
    except ConnectionRefusedError:
        # So says the kernel of any file that is no socket, too.
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
            return
        raise YoppError(f"cannot listen on {path}", because="it exists but is not a socket") from None
    except OSError as error:
        raise YoppError(f"cannot listen on {path}", because=reason_of(error)) from None
    finally:
        probe.close()
    raise YoppError(f"cannot listen on {path}", because="another daemon listens there already")


@lru_cache(maxsize=64)
def user_name(uid: int) -> str:
    """The name of a user, or the number where it has none; "" for an unknown one."""
    if uid < 0:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a Unix socket when it was connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    pid, uid, _ = _PEERCRED.unpack(credentials)
    return int(pid), int(uid)


def _unlink_own(path: str, inode: int) -> None:
    """Remove our socket, unless another daemon has put its own in its place meanwhile."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:
        return
