"""Calls to a daemon over one socket, without asyncio: for the command line, and for masters in a select loop.

It never retries and never starts anything.
"""

from __future__ import annotations

import select
import sys
import time
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

from executor.hints import TYPE_CHECKING, Any, cast

from ..errors import ConnectionFailedError, NoAnswerError, StoppedDaemonError, YoppError, reason_of
from ..records.methods import Request, ResponseT
from .plain import MessageError, decode_answer, encode_call
from .wire import MAX_LINE_BYTES, OTHER_VERSION, CallId, Lines, WireError

if TYPE_CHECKING:
    import socket as sockets

DEFAULT_TIMEOUT = 30.0
"""Default timeout of ``call``, in seconds."""

PROBE_SECONDS = 1.5
"""Seconds without an answer after which ``answer`` checks whether the daemon's process is stopped."""

Answer = tuple[int, Any]
"""The id that ``send`` returned, and the response dataclass or the YoppError."""


STARTS = "yopp up"
"""The command that starts the daemons of a cluster."""


class Connection:
    """One connection to a daemon: ``unix:/path``, ``/path`` or ``host:port``; ``peer`` names it in errors, and
    ``hint`` names the command that starts it.

    ``call`` waits for one answer, as ``send`` and then ``answer`` do. To make calls without waiting, ``send``
    them, poll ``fileno()`` until it is readable, and ``receive`` the answers. Both styles can be mixed: an
    answer that arrives while ``call`` waits for another one is kept for ``receive``. A connection is not
    thread-safe.
    """

    def __init__(
        self,
        address: str,
        *,
        peer: str = "the ResourceManager",
        hint: str = STARTS,
        timeout: float = 10.0,
    ) -> None:
        self.address = address
        self.peer = peer
        self._socket = _connect(address, peer, hint, timeout)
        self._lines = Lines()
        self._outgoing = bytearray()
        self._next_id = 1
        self._calls: dict[CallId, type[Request[Any]]] = {}
        self._answers: list[Answer] = []
        self._end: ConnectionFailedError | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def has_answers(self) -> bool:
        """Whether ``receive`` can return answers without reading the socket."""
        return bool(self._answers)

    def fileno(self) -> int:
        """The file descriptor of the socket; -1 once closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection; calls in flight are never answered."""
        self._socket.close()

    def call(self, request: Request[ResponseT], *, timeout: float = DEFAULT_TIMEOUT) -> ResponseT:
        """Make one call and wait up to ``timeout`` seconds for its answer.

        Raises the YoppError (of REMOTE_ERRORS) with which the daemon refused the call, ConnectionFailedError
        if the connection breaks or the timeout passes, MessageError for a malformed answer.
        """
        return self.answer(self.send(request), request, timeout=timeout)

    def answer(
        self, call_id: int, request: Request[ResponseT], *, timeout: float = DEFAULT_TIMEOUT
    ) -> ResponseT:
        """Wait for the answer to a call for which ``send`` returned ``call_id``. Raises as ``call`` does."""
        began = time.monotonic()
        deadline = began + timeout
        while True:
            for index, (answered, answer) in enumerate(self._answers):
                if answered == call_id:
                    del self._answers[index]
                    if isinstance(answer, YoppError):
                        raise answer
                    return cast(ResponseT, answer)
            if self._end is not None:
                self._calls.pop(call_id, None)
                raise self._end
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self._calls.pop(call_id, None)
                raise NoAnswerError(
                    f"{self.peer} did not answer {request.METHOD} within {timeout:g} s",
                    because=f"it listens at {self.address}",
                    hint="`yopp status` shows which daemons answer",
                )
            self._wait(min(remaining, PROBE_SECONDS))
            if not self._answers and time.monotonic() - began >= PROBE_SECONDS and self._end is None:
                self._probe(call_id)

    def _probe(self, call_id: int) -> None:
        """Raise StoppedDaemonError if the daemon's process is stopped: it cannot answer until it
        is continued."""
        pid = self.stopped_peer()
        if pid:
            self._calls.pop(call_id, None)
            raise StoppedDaemonError(
                f"{self.peer} does not answer",
                because=f"its process {pid} is stopped (SIGSTOP, Ctrl-Z or a debugger)",
                hint=f"`kill -CONT {pid}` continues it; `yopp down --force` ends the cluster",
            )

    def stopped_peer(self) -> int:
        """The pid of the daemon if its process is stopped, by SIGSTOP or a debugger; 0 if it is not, or if
        that is unknown (TCP)."""
        if self._socket.family != AF_UNIX:
            return 0
        from executor.linux.procfs import read_stat  # Imported only if an answer is late.

        pid = int.from_bytes(self._socket.getsockopt(SOL_SOCKET, SO_PEERCRED, 4), sys.byteorder)
        found = read_stat(pid) if pid > 0 else None
        return pid if found is not None and found.state in "Tt" else 0

    def send(self, request: Request[Any]) -> int:
        """Send one call and return its id; ``receive`` returns the answer with that id.

        Raises ConnectionFailedError.
        """
        call_id = self._next_id
        self._next_id += 1
        line = encode_call(call_id, request)
        if self._end is not None:
            raise self._end
        self._calls[call_id] = type(request)
        self._outgoing += line
        self._flush()
        return call_id

    def receive(self) -> list[Answer]:
        """All answers that have arrived, without waiting.

        Raises ConnectionFailedError once the connection has ended and all earlier answers have been returned.
        """
        if self._end is None:
            self._read()
        answers, self._answers = self._answers, []
        if not answers and self._end is not None:
            raise self._end
        return answers

    def _wait(self, seconds: float) -> None:
        """Wait until the socket is readable or, if output is left, writable; then read and write."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        poller.poll(max(0.0, seconds) * 1000)
        self._read()
        if self._outgoing and self._end is None:
            self._write()

    def _flush(self) -> None:
        """Send all output, and read meanwhile: a daemon that waits for us to read would otherwise wait for ever."""
        self._write()
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while self._outgoing and self._end is None:
            if time.monotonic() > deadline:
                self._fail("it does not read its input")
                break
            self._wait(1.0)
        if self._end is not None:
            raise self._end

    def _write(self) -> None:
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            # answers that the daemon sent before it hung up are still valid
            self._read()
            self._fail(reason_of(error))

    def _read(self) -> None:
        try:
            while self._end is None:
                data = self._socket.recv(262_144)
                if not data:
                    self._fail("it closed the connection")
                    break
                for line in self._lines.add(data):
                    self._take(line)
                if self._lines.too_long:
                    self._fail(f"it sent a line of more than {MAX_LINE_BYTES:,} bytes")
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(reason_of(error))

    def _take(self, line: bytes) -> None:
        try:
            answer = decode_answer(line, self._calls)
        except WireError as error:
            self._fail(error.message)
            return
        if answer is None or not isinstance(answer.call_id, int):
            return
        found: Any = answer.response if answer.error is None else answer.error
        if isinstance(found, MessageError):
            method = self._calls[answer.call_id].METHOD
            message = f"{self.peer} sent a malformed answer to {method}"
            found = MessageError(message, because=found.because, hint=OTHER_VERSION)
        del self._calls[answer.call_id]
        self._answers.append((answer.call_id, found))

    def _fail(self, because: str) -> None:
        if self._end is None:
            self._end = ConnectionFailedError(f"lost the connection to {self.peer}", because=because)


def _connect(address: str, peer: str, hint: str, timeout: float) -> socket:
    path = address.removeprefix("unix:")
    is_path = path.startswith("/") or address.startswith("unix:")
    try:
        if is_path:
            made = socket(AF_UNIX, SOCK_STREAM)
            try:
                made.settimeout(timeout)
                made.connect(path)
            except OSError:
                made.close()
                raise
        else:
            import socket as sockets  # Calls over Unix sockets do not need this import.

            host, _, port = address.rpartition(":")
            found = sockets.create_connection((host or "localhost", int(port)), timeout)
            found.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            _refuse_strangers(found, address, peer, timeout)
            made = found
    except (FileNotFoundError, ConnectionRefusedError) as error:
        missing = isinstance(error, FileNotFoundError)
        because = f"there is no socket {path}" if missing else f"nothing listens at {address}"
        raise ConnectionFailedError(f"{peer} is not running", because=because, hint=hint) from None
    except (OSError, ValueError) as error:
        raise ConnectionFailedError(f"cannot reach {peer} at {address}", because=reason_of(error)) from None
    made.setblocking(False)
    return made


def _refuse_strangers(made: sockets.socket, address: str, peer: str, timeout: float) -> None:
    """Close the connection and raise ConnectionFailedError if another user of this host listens there."""
    from .tcp_peers import stranger_that_serves  # Imported only for TCP.

    if because := stranger_that_serves(made, timeout):
        made.close()
        raise ConnectionFailedError(
            f"{peer} at {address} is not trusted",
            because=because,
            hint=f"`ss -tlnp` shows who listens at {address}",
        )
