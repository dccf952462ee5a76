"""The server of a daemon: JSON lines on a Unix socket, and loopback TCP if configured, become
calls to a machine.

Each valid call becomes a CallReceived; each Reply and ReplyError becomes a line, in any order. A line that is not a
call is answered here and never reaches the machine. Only the daemon's own user and root are served. ``crowd.py``
limits the number of connections and their memory. This module knows only the names and records of methods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from executor.driver import LATE_SECONDS

from ..errors import RemoteError, YoppError, reason_of
from ..machine.calls import CallReceived, ConnectionLost, Reply, ReplyError
from ..records.methods import Methods
from .codec import decode_call, encode_error, encode_response, encode_wire_error
from .connection import SLICE_SECONDS, ServerConnection
from .crowd import Bounds, Crowd
from .listening import remove_stale_socket, unlink_own
from .tcp import ACCEPT_AT_ONCE, BACKLOG, Door, any_address, loopback_address
from .wire import MAX_LINE_BYTES, CallId, WireError

_log = logging.getLogger(__name__)

Post = Callable[[CallReceived | ConnectionLost], None]
"""Takes the calls: the ``post`` of a Driver."""

MAX_UNANSWERED: Final = 20_000
"""The most unanswered calls of one connection; more are refused, so that no caller can fill the memory."""

_TURN_SECONDS: Final = 0.005
"""Seconds for which one turn of the loop handles the calls of busy connections in total."""

_TOLD_SECONDS: Final = 60.0
"""The shortest time between two log lines about the same refused user."""


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
        self._calls: dict[int, tuple[ServerConnection, CallId]] = {}
        self._next_call = numbers_from
        self._next_connection = numbers_from
        self._connections: set[ServerConnection] = set()
        self._busy: deque[ServerConnection] = deque()
        """The connections with more calls than could be handled in one turn."""
        self._client_pids: dict[int, int] = {}
        self._servers: list[asyncio.AbstractServer | Door] = []
        self._socket_paths: list[tuple[str, int]] = []
        self._closing = False
        self._together: list[ServerConnection] | None = None

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
        accept = partial(ServerConnection, self)
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
        accept = partial(ServerConnection, self, known_only=loopback_only)
        server = where.listen(accept, crowded=partial(bool, self._refused))
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
            connection.known = True  # A caller without a known user has presented a token.
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

    def admit(self, connection: ServerConnection) -> str:
        """Add the connection to the crowd. Returns why there is no room for it, "" if there is room."""
        why = self._crowd.add(connection, asyncio.get_running_loop().time())
        self._look_later()
        return why

    def holds(self, connection: ServerConnection, held: int) -> None:
        """Note the number of bytes that are held for the connection."""
        self._crowd.holds(connection, held)

    def flush_later(self, connection: ServerConnection) -> None:
        """Flush its answers with those of the other connections."""
        if self._together is not None:
            self._together.append(connection)
        else:
            asyncio.get_running_loop().call_soon(connection.flush)

    def _look_later(self) -> None:
        """Schedule the next check for idle connections, if there may be any to close."""
        if self._look is None and self._crowd.wants_look and not self._closing:
            due = asyncio.get_running_loop().time() + self._bounds.idle_seconds / 4
            self._look = asyncio.get_running_loop().call_at(due, self._look_now, due)

    def _look_now(self, due: float) -> None:
        self._look = None
        now = asyncio.get_running_loop().time()
        if (
            now - due < LATE_SECONDS
        ):  # Otherwise this process was stopped, and has not read the callers' input meanwhile.
            for connection in self._connections:
                connection.weigh()
            self._crowd.look(now)
        self._look_later()

    def wait_turn(self, connection: ServerConnection) -> None:
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
            if connection.go_on(now() + SLICE_SECONDS):
                self._busy.append(connection)
        if self._busy:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def says_refused(self, uid: int) -> None:
        """Log that a user was refused, at most once a minute, so that this user cannot fill the disk."""
        now = asyncio.get_running_loop().time()
        if now - self._refused.get(uid, -_TOLD_SECONDS) >= _TOLD_SECONDS:
            self._refused[uid] = now
            _log.warning("refused a connection of user %d", uid)

    def opened(self, connection: ServerConnection, pid: int) -> None:
        """A connection is established: give it its number. ``pid`` is 0 if it is unknown."""
        self._connections.add(connection)
        connection.id = self._next_connection
        self._next_connection += 1
        if pid:
            self._client_pids[connection.id] = pid

    def lost(self, connection: ServerConnection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)
        self._crowd.remove(connection)
        self._client_pids.pop(connection.id, None)
        for call in connection.unanswered:
            self._calls.pop(call, None)
        connection.unanswered.clear()
        if connection.called and not self._closing:
            self.post(ConnectionLost(connection.id))

    def received(self, connection: ServerConnection, line: bytes) -> None:
        """A caller has sent a line."""
        try:
            call_id, request = decode_call(line, self._methods)
        except WireError as error:
            connection.write(encode_wire_error(error))
            # A browser's request, whose body may contain calls, ends with its first line.
            if connection.over_tcp:
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
