"""The command line's codec: messages to and from JSON, with only the standard library.

Daemons use ``codec.py``. Both codecs read the same records, and a test checks that they decode the same
bytes alike. Never does I/O.

Decisions: two-codecs.
"""

from __future__ import annotations

import _json  # The module behind json: importing json takes a millisecond, for its regular expressions.

from executor import plain
from executor.hints import Any, TypeVar
from executor.plain import encode as encode

from ..errors import UsageError, YoppError
from ..records.methods import Request
from .wire import INVALID_REQUEST, MAX_LINE_BYTES, Answer, Calls, WireError, error_of, response_of

T = TypeVar("T")


class _Reading:
    """The settings that ``json.loads`` passes to the scanner."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


_scan: Any = _json.make_scanner(_Reading)  # type: ignore[arg-type]
_write: Any = _json.make_encoder(None, encode, _json.encode_basestring, None, ":", ",", False, False, True)


class MessageError(YoppError):
    """A message does not match its declared type; ``because`` names the place of the fault."""


class TooLargeError(MessageError):
    """A call is longer than the longest line that a daemon accepts: nothing was sent."""


def encode_call(call_id: int, request: Request[Any]) -> bytes:
    """The line that makes a call. Raises TooLargeError for a line that no daemon accepts, and UsageError for text that
    is not UTF-8, such as an argument with other bytes."""
    message = {"jsonrpc": "2.0", "id": call_id, "method": request.METHOD, "params": encode(request)}
    try:
        line = "".join(_write(message, 0)).encode() + b"\n"
    except UnicodeEncodeError as error:
        begun, end = error.object.rfind('"', 0, error.start) + 1, error.object.index('"', error.start)
        raise UsageError(
            f"{error.object[begun:end]!a} is not UTF-8",
            because="daemons take, store and show UTF-8 text",
            hint="re-encode it",
        ) from None
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
        message = _loads(line)
    except (ValueError, RecursionError):
        raise WireError(INVALID_REQUEST, "it sent a line that is not JSON") from None
    if not isinstance(message, dict):
        raise WireError(INVALID_REQUEST, "it sent a line that is not an answer")
    call_id: Any = message.get("id")
    if call_id is None and "error" in message:
        # The daemon could not read the id of the call.
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


def _loads(line: bytes) -> Any:
    """The same as ``json.loads``, which is called only for a line that no daemon of ours sends. Raises ValueError."""
    text = line.decode("utf-8", "surrogatepass")
    try:
        found, end = _scan(text, 0)
        if end == len(text):
            return found
    except StopIteration:
        pass
    import json

    return json.loads(line)


def decode(kind: type[T], value: Any) -> T:
    """The inverse of ``encode``, for the output of ``json.loads``. Raises MessageError."""
    try:
        return plain.decode(kind, value)
    except plain.MismatchError as mismatch:
        raise MessageError(f"malformed {kind.__name__}", because=str(mismatch)) from None
