"""The common parts of both codecs, the clients and the server: calls and answers as lines, and errors as objects.

The protocol is JSON-RPC 2.0: one object per line, many calls in flight, answers in any order. There are two codecs
with the same interface (``encode_call``, ``decode_answer``): ``codec.py`` for daemons, by msgspec, and ``plain.py``
for the command line, where importing msgspec would cost 20 to 35 ms. This module imports neither, and does no I/O.
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
"""The error codes of JSON-RPC, and the one that carries every YoppError."""

OTHER_VERSION: Final = (
    "if `yopp status` names another version of the daemons, `yopp down --keep-containers` and `yopp up` "
    "replace them"
)
"""The hint for a call or an answer that the other side does not understand."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line that either side accepts."""

CallId = int | str | None
"""The types that a caller may use as the id of a call."""

Calls = Mapping[CallId, type[Request[Any]]]
"""The unanswered calls of a caller, by id."""


class WireError(Exception):
    """A line is not a valid call, or not a valid answer.

    ``code`` is JSON-RPC's error code, ``call_id`` the id of the call if it was legible.
    """

    def __init__(self, code: int, message: str, call_id: CallId = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.call_id = call_id


class Answer(Record):
    """One line from a server: the response to call ``call_id``, or the error instead of it."""

    call_id: CallId
    response: Any
    error: YoppError | None


class Lines:
    """Splits incoming bytes into lines. ``too_long`` is true if a line has more than ``limit`` bytes."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self.limit = limit
        self._buffer = bytearray()
        self._searched = 0

    @property
    def too_long(self) -> bool:
        """Whether the incomplete line is longer than the limit."""
        return len(self._buffer) > self.limit

    @property
    def begun(self) -> int:
        """The number of bytes of an incomplete line that have arrived."""
        return len(self._buffer)

    def add(self, data: bytes) -> list[bytes]:
        """Add ``data``; the lines that are now complete, up to one that is too long, without
        their newlines."""
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
        """Drop the incomplete line."""
        self._buffer.clear()
        self._searched = 0


def response_of(request: type[Request[Any]]) -> type[Any]:
    """The class of the response to a request."""
    declared: Any = request
    (named,) = declared.__orig_bases__[0].__args__
    found: type[Any] = getattr(sys.modules[request.__module__], named)
    return found


def error_object(error: YoppError) -> dict[str, Any]:
    """An error as JSON-RPC's ``error`` object, with all its fields."""
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
    """The exception for the ``error`` of an answer; a RemoteError if its type is unknown."""
    if not isinstance(found, dict):
        return RemoteError(str(found))
    data = found.get("data")
    data = data if isinstance(data, dict) else {}
    kind = REMOTE_ERRORS.get(str(data.get("type")), RemoteError)
    code = data.get("exit")
    is_unknown = found.get("code") in (METHOD_NOT_FOUND, INVALID_PARAMS)
    return kind(
        str(found.get("message", "")),
        because=str(data.get("because") or ""),
        hint=str(data.get("hint") or (OTHER_VERSION if is_unknown else "")),
        exit_code=code if type(code) is int else None,
        sought=str(data.get("sought") or ""),
    )
