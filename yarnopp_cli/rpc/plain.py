"""The command line's codec: messages to and from JSON, with only the standard library.

Daemons use ``codec.py``. Both codecs read the same records, and a test checks that they decode the same
bytes alike. Never does I/O.

Decisions: two-codecs.
"""

from __future__ import annotations

import json

from executor import plain
from executor.hints import Any, TypeVar
from executor.plain import encode as encode

from ..errors import YoppError
from ..records.methods import Request
from .wire import INVALID_REQUEST, MAX_LINE_BYTES, Answer, Calls, WireError, error_of, response_of

T = TypeVar("T")


class MessageError(YoppError):
    """A message does not match its declared type; ``because`` names the place of the fault."""


class TooLargeError(MessageError):
    """A call is longer than the longest line that a daemon accepts: nothing was sent."""


def encode_call(call_id: int, request: Request[Any]) -> bytes:
    """The line that makes a call. Raises TooLargeError for a line that no daemon accepts."""
    message = {"jsonrpc": "2.0", "id": call_id, "method": request.METHOD, "params": encode(request)}
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise TooLargeError(
            f"{request.METHOD} is too large to be sent",
            because=f"it has {len(line):,} bytes, and the limit is {MAX_LINE_BYTES:,}",
        )
    return line


def decode_answer(line: bytes, calls: Calls) -> Answer | None:
    """Decode one line from a server; None for an answer to a call that is not in ``calls``, the
    unanswered ones.

    Raises WireError if the line is not an answer; a malformed response becomes an Answer with a MessageError.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError(INVALID_REQUEST, "it sent a line that is not JSON") from None
    if not isinstance(message, dict):
        raise WireError(INVALID_REQUEST, "it sent a line that is not an answer")
    call_id: Any = message.get("id")
    if call_id is None and "error" in message:
        # the daemon could not read the id of the call
        raise WireError(INVALID_REQUEST, error_of(message["error"]).message)
    request = calls.get(call_id) if isinstance(call_id, int) else None
    if request is None:
        return None
    if "error" in message:
        return Answer(call_id, None, error_of(message["error"]))
    try:
        return Answer(call_id, decode(response_of(request), message.get("result")), None)
    except MessageError as error:
        return Answer(call_id, None, error)


def decode(kind: type[T], value: Any) -> T:
    """The inverse of ``encode``, for the output of ``json.loads``. Raises MessageError."""
    try:
        return plain.decode(kind, value)
    except plain.MismatchError as mismatch:
        raise MessageError(f"malformed {kind.__name__}", because=str(mismatch)) from None
