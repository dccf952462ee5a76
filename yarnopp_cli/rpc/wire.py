"""What both codecs and all ends of the wire have in common: calls and answers as lines, and errors as objects.

JSON-RPC 2.0, one object a line, many calls in flight, answers in any order. There are two codecs of one form
(``encode_call``, ``decode_answer``): ``codec.py`` for daemons, by msgspec, and ``plain.py`` for the command line, where
importing msgspec would cost 20 to 35 ms. Nothing here imports either, or does IO.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from executor.hints import Any, Final
from executor.light import Record

from ..errors import REMOTE_ERRORS, RemoteError, YoppError
from ..records.methods import Request

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
APPLICATION_ERROR: Final = -32000
"""JSON-RPC's own error codes, and the one under which every YoppError travels."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line that either side accepts."""

CallId = int | str | None
"""What a caller may number its calls with."""

Calls = Mapping[CallId, type[Request[Any]]]
"""The calls that a caller has made, by their numbers."""


class WireError(Exception):
    """A line is not a call that the machine can answer, or not an answer.

    ``code`` is JSON-RPC's, ``call_id`` that of the call if it was legible.
    """

    def __init__(self, code: int, message: str, call_id: CallId = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.call_id = call_id


class Answer(Record):
    """One line from a server: the response to call ``call_id``, or why there is none."""

    call_id: CallId
    response: Any
    error: YoppError | None


class Lines:
    """Bytes as they come, cut into lines. ``too_long`` once there is a line of more than ``limit`` bytes."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self.limit = limit
        self._buffer = bytearray()
        self._searched = 0

    @property
    def too_long(self) -> bool:
        """Whether the line that has come in part is longer than any that is accepted."""
        return len(self._buffer) > self.limit

    @property
    def begun(self) -> int:
        """How many bytes of a line have come in part."""
        return len(self._buffer)

    def add(self, data: bytes) -> list[bytes]:
        """The lines that are complete with ``data``, up to one that is too long; without their newlines."""
        self._buffer += data
        lines: list[bytes] = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._searched))) >= 0:
            if end - start > self.limit:
                break
            lines.append(bytes(self._buffer[start:end]))
            start = end + 1
        del self._buffer[:start]
        self._searched = 0 if end >= 0 else len(self._buffer)
        return lines

    def clear(self) -> None:
        """Forget what has come in part."""
        self._buffer.clear()
        self._searched = 0


def response_of(request: type[Request[Any]]) -> type[Any]:
    """The class of the response to a request."""
    declared: Any = request
    (named,) = declared.__orig_bases__[0].__args__
    found: type[Any] = getattr(sys.modules[request.__module__], named)
    return found


def error_object(error: YoppError) -> dict[str, Any]:
    """An error as JSON-RPC's ``error``, with all its parts."""
    data = {
        "type": type(error).__name__,
        "exception": error.exception,
        "because": error.because,
        "hint": error.hint,
        "exit": error.exit_code,
    }
    if error.sought:
        data["sought"] = error.sought
    return {"code": APPLICATION_ERROR, "message": error.message, "data": data}


def error_of(found: Any) -> YoppError:
    """The exception that an answer's ``error`` stands for; a RemoteError where it is of no kind that is known."""
    if not isinstance(found, dict):
        return RemoteError(str(found))
    data = found.get("data")
    data = data if isinstance(data, dict) else {}
    kind = REMOTE_ERRORS.get(str(data.get("type")), RemoteError)
    code = data.get("exit")
    return kind(
        str(found.get("message", "")),
        because=str(data.get("because") or ""),
        hint=str(data.get("hint") or ""),
        exit_code=code if type(code) is int else None,
        sought=str(data.get("sought") or ""),
    )
