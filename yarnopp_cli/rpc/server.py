"""The server of a daemon: JSON lines on a Unix socket, and loopback TCP if configured, become
calls to a machine.

Each valid call becomes a CallReceived; each Reply and ReplyError becomes a line, in any order. A line that is
not a call is answered here and never reaches the machine. Only the daemon's own user and root are served.
``crowd.py`` limits the number of connections and their memory. Nothing here knows what a method means.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pwd
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final

from executor.linux.owners.users import look_up

from ..errors import RemoteError, YoppError, reason_of
from ..machine.calls import CallReceived, ConnectionLost, Reply, ReplyError
from ..records.methods import Methods
from .codec import decode_call, encode_error, encode_response, encode_wire_error
from .crowd import Bounds, Crowd
from .listening import remove_stale_socket, unlink_own
from .tcp import ACCEPT_AT_ONCE, BACKLOG, TcpCaller, any_address, loopback_address
from .wire import INVALID_REQUEST, MAX_LINE_BYTES, CallId, Lines, WireError

_log = logging.getLogger(__name__)

Post = Callable[[CallReceived | ConnectionLost], None]
"""Takes the calls: the ``post`` of a Driver."""

MAX_UNANSWERED: Final = 20_000
"""The most unanswered calls of one connection; more are refused, so that no caller can fill the memory."""

_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of unread answers above which a connection is closed."""

_TURN_SECONDS: Final = 0.005
"""How long one turn of the loop handles the calls of busy connections, all together."""

_SLICE_SECONDS: Final = 0.001
"""How long the calls of one connection are handled while others wait."""

_TOLD_SECONDS: Final = 60.0
"""The shortest time between two log lines about the same refused user."""

_PEERCRED = struct.Struct("3i")


class RpcServer:
    """Serves the methods of one daemon. ``post`` takes the calls and lost connections; ``perform``
    takes the answers.

    ``numbers_from`` keeps the numbers of calls and connections of two servers of one machine apart.
    """

    def __init__(
        self,
        methods: Methods,
        post: Post,
        *,
        bounds: Bounds | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        numbers_from: int = 1,
    ) -> None:
        self._methods = methods
        self._bounds = bounds or Bounds()
        self._crowd = Crowd(self._bounds)
        self._look: asyncio.TimerHandle | None = None
        self._refused: dict[int, float] = {}
        self.post = post
        self.max_line_bytes = max_line_bytes
        self._calls: dict[int, tuple[_Connection, CallId]] = {}
        self._next_call = numbers_from
        self._next_connection = numbers_from
        self._connections: set[_Connection] = set()
        self._busy: deque[_Connection] = deque()
        """The connections with more calls than could be handled in one turn."""
        self._client_pids: dict[int, int] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._socket_paths: list[tuple[str, int]] = []
        self._closing = False
        self._together: list[_Connection] | None = None

    async def listen_unix(self, path: str) -> None:
        """Listen on ``path``, with mode 0600. A stale socket there is removed first.

        Raises YoppError if a live daemon listens on it, or if the socket cannot be created.
        """
        remove_stale_socket(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        try:
            # The run directory is 0700 already; the mode protects a socket configured elsewhere.
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
        self._servers.append(await loop.create_unix_server(accept, sock=listener, backlog=ACCEPT_AT_ONCE))
        listener.listen(BACKLOG)
        self._socket_paths.append((path, inode))

    async def listen_tcp(self, address: str, origin: str, *, loopback_only: bool = True) -> str:
        """Listen on ``host:port``, the value of the property ``origin``; the address with its actual port. Raises
        YoppError.

        Port 0 takes a free port. Without ``loopback_only``, callers from other machines, whose user the
        kernel does not know, are served too: use that only for methods that each require a token.
        """
        where = (loopback_address if loopback_only else any_address)(address, origin)
        server = await where.listen(partial(_Connection, self, known_only=loopback_only))
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return f"{where.host}:{name[1]}"

    def perform(self, command: Reply | ReplyError) -> None:
        """Answer a call. The answer is dropped if its connection has ended."""
        found = self._calls.pop(command.call_id, None)
        if found is None:
            return
        connection, call_id = found
        connection.unanswered.discard(command.call_id)
        if isinstance(command, Reply):
            connection.known = True  # a caller without a known user has shown a token
            connection.write(encode_response(call_id, command.response))
        else:
            connection.write(encode_error(call_id, command.error))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Send the answers made in this block at its end, instead of in the next turn of the loop."""
        self._together = []
        try:
            yield
        finally:
            answered, self._together = self._together, None
            for connection in answered or ():
                connection.flush()

    @property
    def unanswered(self) -> int:
        """The number of unanswered calls."""
        return len(self._calls)

    def client_pids(self) -> frozenset[int]:
        """The pids of the callers on the Unix sockets. May be called from another thread."""
        return frozenset(list(self._client_pids.values()))

    async def close(self) -> None:
        """Stop listening, remove the sockets, send the pending answers, and close all connections."""
        self._closing = True
        if self._look is not None:
            self._look.cancel()
        for server in self._servers:
            server.close()
        for path, inode in self._socket_paths:
            unlink_own(path, inode)
        connections = list(self._connections)
        for connection in connections:
            connection.flush()
            connection.close()
        # Buffered answers have one second to be sent; after that, a peer that does not read is disconnected.
        waiting = [connection.gone.wait() for connection in connections]
        if waiting:
            try:
                await asyncio.wait_for(asyncio.gather(*waiting), 1.0)
            except TimeoutError:
                for connection in connections:
                    connection.abort()

    def _admit(self, connection: _Connection) -> str:
        """Add the connection to the crowd; why there is no room for it, "" if there is."""
        why = self._crowd.add(connection, asyncio.get_running_loop().time())
        self._look_later()
        return why

    def _look_later(self) -> None:
        """Schedule the next check for idle connections, if there may be any to close."""
        if self._look is None and self._crowd.wants_look and not self._closing:
            pause = self._bounds.idle_seconds / 4
            self._look = asyncio.get_running_loop().call_later(pause, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        for connection in self._connections:
            connection.weigh()
        self._crowd.look(asyncio.get_running_loop().time())
        self._look_later()

    def _wait_turn(self, connection: _Connection) -> None:
        """Handle the connection's remaining calls in a later turn of the loop."""
        self._busy.append(connection)
        if len(self._busy) == 1:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turns(self) -> None:
        now = asyncio.get_running_loop().time
        until = now() + _TURN_SECONDS
        turns = len(self._busy)
        while turns and now() < until:
            turns -= 1
            connection = self._busy.popleft()
            if connection.go_on(now() + _SLICE_SECONDS):
                self._busy.append(connection)
        if self._busy:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _says_refused(self, uid: int) -> None:
        """Log that a user was refused, at most once a minute, so that this user cannot fill the disk."""
        now = asyncio.get_running_loop().time()
        if now - self._refused.get(uid, -_TOLD_SECONDS) >= _TOLD_SECONDS:
            self._refused[uid] = now
            _log.warning("refused a connection of user %d", uid)

    def _opened(self, connection: _Connection, pid: int) -> None:
        self._connections.add(connection)
        connection.id = self._next_connection
        self._next_connection += 1
        if pid:
            self._client_pids[connection.id] = pid

    def _lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self._crowd.remove(connection)
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
            if not connection.known:
                connection.hang_up()
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
    """One caller: splits its input into lines, and joins the answers of one turn of the loop
    into one write."""

    def __init__(self, server: RpcServer, known_only: bool = True) -> None:
        self.id = 0
        self.uid = -1
        self.user = ""
        self.called = False
        self.known_only = known_only
        self.unanswered: set[int] = set()
        self.gone = asyncio.Event()
        self.address = ""
        self.known = True
        self.held = 0
        self._now = asyncio.get_running_loop().time
        self.heard = self._now()
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._lines = Lines(server.max_line_bytes)
        self._waiting: deque[bytes] = deque()
        """Complete lines that are handled after other connections have had their turn."""
        self._unread = False
        self._unread_bytes = 0
        self._tcp: TcpCaller | None = None
        self._output: list[bytes] = []
        self._flush_due = False

    @property
    def waits(self) -> bool:
        """Whether the caller waits for the answer to a call."""
        return bool(self.unanswered or self._waiting)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=1024 * 1024)
        connection: socket.socket = transport.get_extra_info("socket")
        pid = 0  # unknown with TCP
        if connection.family == socket.AF_UNIX:
            pid, uid = _credentials(connection)
        else:
            self._tcp = TcpCaller(connection, transport.get_extra_info("peername"))
            uid = self._tcp.accepted_uid
        self._server._opened(self, pid)
        if not self._identify(uid):
            return
        try:
            self.user = "" if self.uid < 0 else _name_of(self.uid)
        except OSError as error:  # the uid as a name would be another user's, or nobody's
            self._refuse(RemoteError("the users of this host cannot be read now", because=reason_of(error)))
            return
        if self.uid < 0:
            self.known = False
            self.address = str((transport.get_extra_info("peername") or ("an unknown address",))[0])
        if why := self._server._admit(self):
            self._refuse(RemoteError("there is no room for another connection", because=why))

    def _identify(self, uid: int) -> bool:
        """Whether this user is served; if not, send an error and close the connection."""
        served = uid in (os.geteuid(), 0)
        if uid < 0 and not self.known_only and self._tcp is not None and not self._tcp.on_this_host:
            served = True
        if served:
            self.uid = uid
            return True
        self._server._says_refused(uid)
        you = (
            f"you are {user_name(uid)}"
            if uid >= 0
            else "who you are is not known: the connection is not open"
        )
        because = f"it runs as {user_name(os.geteuid())}, and {you}"
        self._refuse(YoppError("this daemon serves its own user only", because=because))
        return False

    def _refuse(self, error: YoppError) -> None:
        self.write(encode_error(None, error))
        self.hang_up()

    def hang_up(self) -> None:
        """Drop the waiting calls, send the answers made so far, and close."""
        self._waiting.clear()
        self.flush()
        self.close()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        # The data is acted on only if the connection still belongs to the user who opened it.
        if self._tcp is not None and not self._identify(self._tcp.uid()):
            return
        waited = bool(self._waiting)
        self._waiting.extend(line for line in self._lines.add(data) if line.strip())
        if not waited and not self._take(self._now() + _SLICE_SECONDS):
            self._transport.pause_reading()
            self._server._wait_turn(self)
        self.weigh()

    def _take(self, until: float) -> bool:
        """Handle the calls that have arrived, until the given time; whether none is left."""
        while self._waiting:
            self._server._received(self, self._waiting.popleft())
            self.heard = now = self._now()
            if now >= until and self._waiting:
                return False
        if self._lines.too_long and self._transport is not None:
            message = f"a line is longer than {self._server.max_line_bytes} bytes"
            self.write(encode_wire_error(WireError(INVALID_REQUEST, message)))
            self._lines.clear()
            self.flush()
            self.close()
        return True

    def go_on(self, until: float) -> bool:
        """Handle waiting calls, if the connection still belongs to the same user; whether some are left.

        While the caller does not read its answers, nothing is handled.
        """
        if self._unread or self._transport is None or self._transport.is_closing():
            return False
        if self._tcp is not None and not self._identify(self._tcp.uid()):
            return False
        if not self._take(until):
            return True
        self._listen()
        return False

    def _listen(self) -> None:
        """Resume reading, unless calls are waiting or the caller does not read its answers."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._waiting and not self._unread:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        # The answers made so far are sent, then the connection is closed. A caller that was killed looks
        # like one that only stopped sending, and the death of a master in a client must be noticed at once.
        self._take_rest()
        self.flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._take_rest()
        self._transport = None
        self._output.clear()
        self.gone.set()
        self._server._lost(self)

    def _take_rest(self) -> None:
        """Handle the calls that came before the end of the connection, if it is certain who made
        them (Unix)."""
        if self._tcp is None and self._waiting and not self._unread:
            self._take(float("inf"))
        self._waiting.clear()

    def pause_writing(self) -> None:
        """Called by asyncio: the caller does not read its answers; take no more calls of it until it does."""
        self._unread = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Called by asyncio: the caller reads its answers again."""
        self._unread = False
        if self._waiting:
            self._server._wait_turn(self)
        else:
            self._listen()
        self.weigh()

    def write(self, line: bytes) -> None:
        """Send a line, in one write with the others of this turn of the loop."""
        if self._transport is None:
            return
        self._output.append(line)
        if not self._flush_due:
            self._flush_due = True
            if self._server._together is not None:
                self._server._together.append(self)
            else:
                asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the collected answers to the transport."""
        self._flush_due = False
        if self._transport is None or not self._output:
            return
        self._transport.write(b"".join(self._output))
        self._output.clear()
        if self._transport.get_write_buffer_size() > _OUTPUT_BYTES:
            self.end("it leaves its answers unread")
        else:
            self.weigh()

    def weigh(self) -> None:
        """Update the bytes held for this connection."""
        if self._transport is None:
            return
        unread = self._transport.get_write_buffer_size()
        if unread < self._unread_bytes:
            self.heard = self._now()  # the caller has read answers
        self._unread_bytes = unread
        if (held := self._lines.begun + unread) != self.held:
            self._server._crowd.holds(self, held)

    def close(self) -> None:
        """Close once all output is sent."""
        if self._transport is not None:
            self._transport.close()

    def end(self, why: str) -> None:
        """Close now, and log why."""
        _log.warning(
            "closed connection %d%s: %s", self.id, f" of {self.address}" if self.address else "", why
        )
        self.abort()

    def abort(self) -> None:
        """Close now, without sending the rest."""
        if self._transport is not None:
            self._transport.abort()


def user_name(uid: int) -> str:
    """The name of a user, or the uid if it has no name, or if that cannot be read now; "" for an
    unknown user (-1)."""
    if uid < 0:
        return ""
    try:
        return _name_of(uid)
    except OSError:
        return str(uid)


@lru_cache(maxsize=64)
def _name_of(uid: int) -> str:
    """As ``user_name``, but raises OSError, which is not cached, if the name cannot be read now."""
    try:
        return look_up(lambda: pwd.getpwuid(uid)).pw_name
    except KeyError:
        return str(uid)


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """The pid and uid at the other end of a Unix socket, as of connect(2)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    pid, uid, _ = _PEERCRED.unpack(credentials)
    return int(pid), int(uid)
