"""Calls to a daemon over one socket, without asyncio: for the command line, and for masters in a select loop.

JSON-RPC 2.0, one object a line, many calls in flight, answers in any order. The method's own protocol module
(the one that declares the request) says what the answer is. It never retries and never starts anything.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Any

from ..errors import REMOTE_ERRORS, ConnectionFailedError, RemoteError, YoppError
from .plain import MessageError, decode, encode

LINE_LIMIT = 16 * 1024 * 1024
"""The longest line, in bytes, that goes either way."""

DEFAULT_TIMEOUT = 30.0
"""Seconds that ``call`` waits unless told otherwise."""

Answer = tuple[int, Any]
"""The id that ``send`` gave, and the response dataclass or the YoppError."""


class Connection:
    """One connection to a daemon: ``unix:/path``, ``/path`` or ``host:port``; ``peer`` names it in errors.

    ``call`` waits for one answer. ``send``, ``fileno`` and ``receive`` are the same without waiting: send
    what is to be sent, wait until the descriptor is readable, receive what has come. Both may be mixed:
    answers that come while ``call`` waits for another one are kept for ``receive``. Not for several threads.
    """

    def __init__(self, address: str, *, peer: str = "the ResourceManager", timeout: float = 10.0) -> None:
        self.address = address
        self.peer = peer
        self._socket = _connect(address, peer, timeout)
        self._buffer = bytearray()
        self._scanned = 0
        self._outgoing = bytearray()
        self._next_id = 1
        self._pending: dict[int, tuple[str, type]] = {}
        self._answers: list[Answer] = []
        self._end: ConnectionFailedError | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def has_answers(self) -> bool:
        """Whether ``receive`` has something to give without reading more."""
        return bool(self._answers)

    def fileno(self) -> int:
        """The socket's descriptor, -1 once closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it; calls in flight are never answered."""
        self._socket.close()

    def call(self, method: str, request: Any, *, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """Make one call and wait up to ``timeout`` seconds for its answer.

        Raises what the daemon refused it with (a YoppError of REMOTE_ERRORS), ConnectionFailedError when the
        connection breaks or the time passes, MessageError for an answer of the wrong form.
        """
        call_id = self.send(method, request)
        deadline = time.monotonic() + timeout
        while True:
            for index, (answered, answer) in enumerate(self._answers):
                if answered == call_id:
                    del self._answers[index]
                    if isinstance(answer, YoppError):
                        raise answer
                    return answer
            if self._end is not None:
                self._pending.pop(call_id, None)
                raise self._end
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self._pending.pop(call_id, None)
                raise ConnectionFailedError(
                    f"{self.peer} did not answer {method} within {timeout:g} s",
                    because=f"it listens at {self.address}",
                )
            self._wait(remaining)

    def send(self, method: str, request: Any) -> int:
        """Send one call; its answer comes from ``receive`` under the id returned.

        Raises ConnectionFailedError.
        """
        response_type = sys.modules[type(request).__module__].METHODS[method][1]
        call_id = self._next_id
        self._next_id += 1
        text = json.dumps(
            {"jsonrpc": "2.0", "id": call_id, "method": method, "params": encode(request)},
            separators=(",", ":"),
        )
        if len(text) >= LINE_LIMIT:
            raise MessageError(
                f"{method} is too large to be sent",
                because=f"it has {len(text):,} bytes, and {LINE_LIMIT:,} are the limit",
            )
        if self._end is not None:
            raise self._end
        self._pending[call_id] = (method, response_type)
        self._outgoing += text.encode() + b"\n"
        self._flush()
        return call_id

    def receive(self) -> list[Answer]:
        """All answers that have come, without waiting.

        Raises ConnectionFailedError once the connection has ended and everything that came before has been
        given.
        """
        if self._end is None:
            self._read()
        answers, self._answers = self._answers, []
        if not answers and self._end is not None:
            raise self._end
        return answers

    def _wait(self, seconds: float) -> None:
        """Wait until the socket can be read or, with something left to send, written."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        poller.poll(max(0.0, seconds) * 1000)
        self._read()
        if self._outgoing and self._end is None:
            self._write()

    def _flush(self) -> None:
        """Send everything, reading meanwhile: a daemon that waits for us to read must not wait for ever."""
        self._write()
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while self._outgoing and self._end is None:
            if time.monotonic() > deadline:
                self._fail("it does not read what it is sent")
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
            # what it said before it hung up is still worth reading
            self._read()
            self._fail(error.strerror or str(error))

    def _read(self) -> None:
        try:
            while self._end is None:
                data = self._socket.recv(262_144)
                if not data:
                    self._fail("it closed the connection")
                    break
                self._buffer += data
                self._split()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _split(self) -> None:
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._scanned))) >= 0:
            self._take(bytes(self._buffer[start:end]))
            start = end + 1
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        if len(self._buffer) > LINE_LIMIT:
            self._fail(f"it sent a line of more than {LINE_LIMIT:,} bytes")

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._fail("it sent what is not JSON")
            return
        if not isinstance(message, dict):
            self._fail("it sent what is not an answer")
            return
        call_id: Any = message.get("id")
        if call_id is None and "error" in message:
            # it could not even tell which call that was
            self._fail(_error_of(message["error"]).message)
            return
        pending = self._pending.pop(call_id, None) if isinstance(call_id, int) else None
        if pending is None:
            return
        method, response_type = pending
        answer: Any
        if "error" in message:
            answer = _error_of(message["error"])
        else:
            try:
                answer = decode(response_type, message.get("result"))
            except MessageError as error:
                answer = MessageError(f"{self.peer} answered {method} wrongly", because=error.because)
        self._answers.append((call_id, answer))

    def _fail(self, because: str) -> None:
        if self._end is None:
            self._end = ConnectionFailedError(f"lost the connection to {self.peer}", because=because)


def _connect(address: str, peer: str, timeout: float) -> socket.socket:
    path = address.removeprefix("unix:")
    is_path = path.startswith("/") or address.startswith("unix:")
    try:
        if is_path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.settimeout(timeout)
                made.connect(path)
            except OSError:
                made.close()
                raise
        else:
            host, _, port = address.rpartition(":")
            made = socket.create_connection((host or "localhost", int(port)), timeout)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except FileNotFoundError:
        raise ConnectionFailedError(
            f"{peer} is not running", because=f"there is no socket {path}", hint="yopp up"
        ) from None
    except ConnectionRefusedError:
        raise ConnectionFailedError(
            f"{peer} is not running", because=f"nobody listens at {address}", hint="yopp up"
        ) from None
    except (OSError, ValueError) as error:
        raise ConnectionFailedError(
            f"cannot reach {peer} at {address}", because=str(getattr(error, "strerror", None) or error)
        ) from None
    made.setblocking(False)
    return made


def _error_of(error: Any) -> YoppError:
    """The exception that an answer's ``error`` object stands for."""
    if not isinstance(error, dict):
        return RemoteError(str(error))
    data = error.get("data")
    data = data if isinstance(data, dict) else {}
    kind = REMOTE_ERRORS.get(str(data.get("type")), RemoteError)
    code = data.get("exit")
    return kind(
        str(error.get("message", "")),
        because=str(data.get("because") or ""),
        hint=str(data.get("hint") or ""),
        exit_code=code if type(code) is int else None,
        sought=str(data.get("sought") or ""),
    )
