"""One connection of a daemon's server: lines of its input, answers, and the caller's identity.

It splits the input into lines and passes them on as long as it has its turn, joins the answers of one turn of the loop
into one write, and closes the connection of a user who is not served, or who does not read the answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import socket
import struct
from collections import deque
from functools import lru_cache
from typing import Final, Protocol

from executor.linux.owners.users import look_up

from ..errors import RemoteError, YoppError, reason_of
from .codec import encode_error, encode_wire_error
from .tcp import TcpCaller
from .wire import INVALID_REQUEST, Lines, WireError

_log = logging.getLogger(__name__)

_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of unread answers above which a connection is closed."""

SLICE_SECONDS: Final = 0.001
"""Seconds for which the calls of one connection are handled while others wait."""

_PEERCRED = struct.Struct("3i")


class Owner(Protocol):
    """The server of the connection."""

    max_line_bytes: int

    def opened(self, connection: ServerConnection, pid: int) -> None:
        """Called first; ``pid`` is 0 if it is unknown."""

    def admit(self, connection: ServerConnection) -> str:
        """Why there is no room for the connection, "" if there is room."""

    def says_refused(self, uid: int) -> None:
        """Called when a user is refused."""

    def received(self, connection: ServerConnection, line: bytes) -> None:
        """Called with each line, in order."""

    def wait_turn(self, connection: ServerConnection) -> None:
        """Called if lines are left for a later turn: the server then calls ``go_on``."""

    def flush_later(self, connection: ServerConnection) -> None:
        """Called if there are answers: the server calls ``flush`` soon."""

    def holds(self, connection: ServerConnection, held: int) -> None:
        """Called if another number of bytes is held for the connection."""

    def lost(self, connection: ServerConnection) -> None:
        """Called when the connection has ended."""


class ServerConnection(asyncio.Protocol):
    """One caller: splits its input into lines, and joins the answers of one turn of the loop
    into one write."""

    def __init__(self, server: Owner, known_only: bool = True) -> None:
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
        self.over_tcp = False
        self._tcp: TcpCaller | None = None
        self._output: list[bytes] = []
        self._flush_due = False

    @property
    def waits(self) -> bool:
        """Whether the caller waits for the answer to a call."""
        return bool(self.unanswered or self._waiting)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection is established; decide whether to serve it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=1024 * 1024)
        connection: socket.socket = transport.get_extra_info("socket")
        pid = 0  # unknown with TCP
        if connection.family == socket.AF_UNIX:
            pid, uid = _credentials(connection)
        else:
            self.over_tcp = True
            self._tcp = TcpCaller(connection, transport.get_extra_info("peername"))
            uid = self._tcp.uid()
        self._server.opened(self, pid)
        if not self._identify(uid):
            return
        try:
            self.user = "" if self.uid < 0 else _name_of(self.uid)
        except OSError as error:  # The uid as a name might be another user's name.
            self._refuse(RemoteError("the users of this host cannot be read now", because=reason_of(error)))
            return
        if self.uid < 0:
            self.known = False
            self.address = str((transport.get_extra_info("peername") or ("an unknown address",))[0])
        if why := self._server.admit(self):
            self._refuse(RemoteError("there is no room for another connection", because=why))

    def _identify(self, uid: int) -> bool:
        """Whether this user is served; if not, send an error and close the connection."""
        served = uid in (os.geteuid(), 0)
        if uid < 0 and not self.known_only and self._tcp is not None and not self._tcp.on_this_host:
            served = True
        if served:
            self.uid = uid
            return True
        self._server.says_refused(uid)
        you = f"you are {user_name(uid)}" if uid >= 0 else "your user is unknown: the connection is not open"
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
        """Called by asyncio: handle the lines that are complete."""
        if self._transport is None or self._transport.is_closing():
            return
        # The data is acted on only if the connection still belongs to the user who opened it.
        if self._tcp is not None and not self._identify(self._tcp.uid()):
            return
        waited = bool(self._waiting)
        self._waiting.extend(line for line in self._lines.add(data) if line.strip())
        if not waited and not self._take(self._now() + SLICE_SECONDS):
            self._transport.pause_reading()
            self._server.wait_turn(self)
        self.weigh()

    def _take(self, until: float) -> bool:
        """Handle the calls that have arrived, until the given time. Returns whether none is left."""
        while self._waiting:
            self._server.received(self, self._waiting.popleft())
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
        """Handle waiting calls, if the connection still belongs to the same user. Returns whether some are left.

        While the caller does not read its answers, no call is handled.
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
        """Called by asyncio: the caller sends nothing more."""
        # The answers made so far are sent, then the connection is closed. A caller that was killed looks
        # like one that only stopped sending, and the death of a master in a client must be noticed at once.
        self._take_rest()
        self.flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection has ended."""
        self._take_rest()
        self._transport = None
        self._output.clear()
        self.gone.set()
        self._server.lost(self)

    def _take_rest(self) -> None:
        """Handle the calls that came before the end of the connection, if their caller is certain (Unix)."""
        if self._tcp is None and self._waiting and not self._unread:
            self._take(float("inf"))
        self._waiting.clear()

    def pause_writing(self) -> None:
        """Called by asyncio: the caller does not read its answers; handle no more of its calls until it does."""
        self._unread = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Called by asyncio: the caller reads its answers again."""
        self._unread = False
        if self._waiting:
            self._server.wait_turn(self)
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
            self._server.flush_later(self)

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
            self._server.holds(self, held)

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
    """Do as ``user_name``, but raise OSError, which is not cached, if the name cannot be read now."""
    try:
        return look_up(lambda: pwd.getpwuid(uid)).pw_name
    except KeyError:
        return str(uid)


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """The pid and uid at the other end of a Unix socket, as of connect(2)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    pid, uid, _ = _PEERCRED.unpack(credentials)
    return int(pid), int(uid)
