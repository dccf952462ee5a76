"""The daemons' end of the wire: JSON lines on a Unix socket (and, where configured, loopback TCP) become a machine's
calls.

Each line that is a proper call becomes a CallReceived; Reply and ReplyError become lines again, in whatever order
they come. A line that is not a call is answered here and never reaches the machine. Only the daemon's own user and
root are served. ``crowd.py`` bounds how many there are and what they may hold. Nothing here knows what a method means.
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

from executor.linux.users import look_up

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
"""Where calls go: a Driver's ``post``."""

MAX_UNANSWERED: Final = 20_000
"""Calls one connection may have waiting; more are refused, so that no caller can fill the memory."""

_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Answers that a connection may leave unread before it is dropped."""

_TURN_SECONDS: Final = 0.005
"""How long calls of those who have many are taken in one turn of the loop, all together."""

_SLICE_SECONDS: Final = 0.001
"""How long those of one caller are taken, while others wait."""

_TOLD_SECONDS: Final = 60.0
"""How often the log says that a user was refused."""

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
        """Those who have more calls waiting than could be taken at once."""
        self._client_pids: dict[int, int] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._socket_paths: list[tuple[str, int]] = []
        self._closing = False
        self._together: list[_Connection] | None = None

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
        self._servers.append(await loop.create_unix_server(accept, sock=listener, backlog=ACCEPT_AT_ONCE))
        listener.listen(BACKLOG)
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
            connection.known = True  # who has no user has shown a token
            connection.write(encode_response(call_id, command.response))
        else:
            connection.write(encode_error(call_id, command.error))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is answered in this block is sent at its end, instead of when the loop has come round once more."""
        self._together = []
        try:
            yield
        finally:
            answered, self._together = self._together, None
            for connection in answered or ():
                connection.flush()

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
        # An answer that is still in a buffer gets a moment to leave; a peer that does not read gets no more.
        waiting = [connection.gone.wait() for connection in connections]
        if waiting:
            try:
                await asyncio.wait_for(asyncio.gather(*waiting), 1.0)
            except TimeoutError:
                for connection in connections:
                    connection.abort()

    def _admit(self, connection: _Connection) -> str:
        """Why there is no place for it, "" where it has one."""
        why = self._crowd.add(connection, asyncio.get_running_loop().time())
        self._look_later()
        return why

    def _look_later(self) -> None:
        """See to it that who is silent for too long is closed, where there may be such."""
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
        """Its other calls are taken when it is its turn."""
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
        """Log that a user was refused: once a minute, or he fills the disk with it."""
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
    """One caller: cuts its bytes into lines, and gathers the answers of a turn of the loop into one write."""

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
        """Calls that have come whole, and are taken when others have had their turn."""
        self._unread = False
        self._unread_bytes = 0
        self._tcp: TcpCaller | None = None
        self._output: list[bytes] = []
        self._flush_due = False

    @property
    def waits(self) -> bool:
        """Whether it waits for the answer to a call."""
        return bool(self.unanswered or self._waiting)

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
        if not self._identify(uid):
            return
        self.user = user_name(self.uid)
        if self.uid < 0:
            self.known = False
            self.address = str((transport.get_extra_info("peername") or ("an unknown address",))[0])
        if why := self._server._admit(self):
            self._refuse(RemoteError("there is no room for another connection", because=why))

    def _identify(self, uid: int) -> bool:
        """Whether that user is served here; one who is not is told so, and the connection ends."""
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
        """Send what has been answered, take no more, and close."""
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
        """Take the calls that have come, until that time; whether that were all."""
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
        """Take calls that had to wait, if the caller is still the one who made them; whether it has more to wait for.

        Who does not read its answers waits until it does.
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
        """Read on, unless it has calls enough or does not read its answers."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._waiting and not self._unread:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        # What has been answered is sent; then it counts as gone. A caller that was killed looks the same as
        # one that only stopped sending, and the death of a master in a client must be noticed at once.
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
        """Take what it has asked for before it went, as long as that is known to have come from it."""
        if self._tcp is None and self._waiting and not self._unread:
            self._take(float("inf"))
        self._waiting.clear()

    def pause_writing(self) -> None:
        """The caller does not read its answers: take no more calls of it until it does."""
        self._unread = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        self._unread = False
        if self._waiting:
            self._server._wait_turn(self)
        else:
            self._listen()
        self.weigh()

    def write(self, line: bytes) -> None:
        """Send a line, together with the others of this turn of the loop."""
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
        """Hand over what has gathered."""
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
        """Count what is kept for it."""
        if self._transport is None:
            return
        unread = self._transport.get_write_buffer_size()
        if unread < self._unread_bytes:
            self.heard = self._now()  # it reads
        self._unread_bytes = unread
        if (held := self._lines.begun + unread) != self.held:
            self._server._crowd.holds(self, held)

    def close(self) -> None:
        """Close when all has been sent."""
        if self._transport is not None:
            self._transport.close()

    def end(self, why: str) -> None:
        """Close now, and say why."""
        _log.warning(
            "closed connection %d%s: %s", self.id, f" of {self.address}" if self.address else "", why
        )
        self.abort()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()


def user_name(uid: int) -> str:
    """The name of a user, or the number where it has none, or where that cannot be read now; "" for an unknown one."""
    if uid < 0:
        return ""
    try:
        return _name_of(uid)
    except OSError:
        return str(uid)


@lru_cache(maxsize=64)
def _name_of(uid: int) -> str:
    """The same; raises OSError, which is not kept, where it cannot be read now."""
    try:
        return look_up(lambda: pwd.getpwuid(uid)).pw_name
    except KeyError:
        return str(uid)


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a Unix socket when it was connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    pid, uid, _ = _PEERCRED.unpack(credentials)
    return int(pid), int(uid)
