"""The command line's codec: messages to and from JSON, with nothing but the standard library.

Daemons use ``codec.py``. Both read the same dataclasses, and a test checks that they read the same bytes alike: fields
by name, enums by value, tuples as arrays, a missing field is its default, an unknown one is ignored. Never does IO.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from ..errors import YoppError
from ..records.methods import Request
from .wire import INVALID_REQUEST, MAX_LINE_BYTES, Answer, Calls, WireError, error_of, response_of

T = TypeVar("T")
_Converter = Callable[[Any], Any]

_MISSING = dataclasses.MISSING


class MessageError(YoppError):
    """A message is not of the form that its type declares; ``because`` names the place in it."""


class _Mismatch(Exception):
    """Raised deep inside a value; every level on the way out adds its own name to ``path``."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.path: list[str] = []

    def describe(self) -> str:
        place = "$" + "".join(reversed(self.path))
        return f"expected {self.expected} at {place}, found {_kind_of(self.found)}"


def encode_call(call_id: int, request: Request[Any]) -> bytes:
    """One line that makes a call. Raises MessageError for a line that no daemon accepts."""
    message = {"jsonrpc": "2.0", "id": call_id, "method": request.METHOD, "params": encode(request)}
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise MessageError(
            f"{request.METHOD} is too large to be sent",
            because=f"it has {len(line):,} bytes, and {MAX_LINE_BYTES:,} are the limit",
        )
    return line


def decode_answer(line: bytes, calls: Calls) -> Answer | None:
    """One line from a server; ``types_of`` says what answers each call, None is returned for a call that is not there.

    Raises WireError if it is no answer; a response of the wrong form is an Answer with a MessageError.
    """
    try:
        message = json.loads(line)
    except ValueError:
        raise WireError(INVALID_REQUEST, "it sent a line that is not JSON") from None
    if not isinstance(message, dict):
        raise WireError(INVALID_REQUEST, "it sent a line that is not an answer")
    call_id: Any = message.get("id")
    if call_id is None and "error" in message:
        # it could not even tell which call that was
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


def encode(value: Any) -> Any:
    """A dataclass (with all it holds) as dicts, lists and scalars that ``json.dumps`` takes."""
    kind: Any = type(value)
    encoder = _encoder(kind)
    return value if encoder is None else encoder(value)


def decode(kind: type[T], value: Any) -> T:
    """The inverse of ``encode``, for what ``json.loads`` gave. Raises MessageError."""
    try:
        return typing.cast(T, _decoder(typing.cast(Any, kind))(value))
    except _Mismatch as mismatch:
        raise MessageError(f"malformed {kind.__name__}", because=mismatch.describe()) from None


@cache
def _encoder(hint: Any) -> _Converter | None:
    """What turns a value of this type into JSON's types; None where it is one already."""
    if hint in (str, int, float, bool, type(None)):
        return None
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return lambda value: value.value
    if dataclasses.is_dataclass(hint):
        return _make_dataclass_encoder(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = _encoder(_optional(hint, arguments))
        return None if inner is None else _make_optional_converter(inner)
    if origin in (tuple, list, frozenset):
        return _make_array_encoder(_encoder(arguments[0]))
    if origin is dict:
        return _make_dict_encoder(_encoder(arguments[1]))
    raise TypeError(f"messages do not hold {hint!r}")


def _make_optional_converter(inner: _Converter) -> _Converter:
    return lambda value: None if value is None else inner(value)


def _make_array_encoder(inner: _Converter | None) -> _Converter:
    return list if inner is None else lambda value: [inner(item) for item in value]


def _make_dict_encoder(inner: _Converter | None) -> _Converter:
    return dict if inner is None else lambda value: {key: inner(item) for key, item in value.items()}


def _make_dataclass_encoder(kind: Any) -> _Converter:
    hints = typing.get_type_hints(kind)
    plain: list[str] = []
    converted: list[tuple[str, _Converter]] = []
    for item in dataclasses.fields(kind):
        encoder = _encoder(hints[item.name])
        if encoder is None:
            plain.append(item.name)
        else:
            converted.append((item.name, encoder))

    def encode_dataclass(value: Any) -> dict[str, Any]:
        message = {name: getattr(value, name) for name in plain}
        for name, encoder in converted:
            message[name] = encoder(getattr(value, name))
        return message

    return encode_dataclass


@cache
def _decoder(hint: Any) -> _Converter:
    """What turns JSON's types into a value of this type; it raises _Mismatch."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _make_enum_decoder(hint)
    if dataclasses.is_dataclass(hint):
        return _make_dataclass_decoder(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _make_optional_converter(_decoder(_optional(hint, arguments)))
    if origin in (tuple, list, frozenset):
        return _make_array_decoder(origin, _decoder(arguments[0]))
    if origin is dict:
        return _make_dict_decoder(_decoder(arguments[1]))
    raise TypeError(f"messages do not hold {hint!r}")


def _make_enum_decoder(kind: type[enum.Enum]) -> _Converter:
    members = {member.value: member for member in kind}

    def decode_enum(value: Any) -> enum.Enum:
        try:
            return members[value]
        except (KeyError, TypeError):
            raise _Mismatch(f"one of {', '.join(map(str, members))}", value) from None

    return decode_enum


def _make_dataclass_decoder(kind: Any) -> _Converter:
    hints = typing.get_type_hints(kind)
    decoders = {item.name: _decoder(hints[item.name]) for item in dataclasses.fields(kind)}
    required = [
        item.name
        for item in dataclasses.fields(kind)
        if item.default is _MISSING and item.default_factory is _MISSING
    ]

    def decode_dataclass(value: Any) -> Any:
        if type(value) is not dict:
            raise _Mismatch("an object", value)
        arguments = {}
        name = ""
        try:
            for name, item in value.items():
                decoder = decoders.get(name)
                if decoder is not None:
                    arguments[name] = decoder(item)
        except _Mismatch as mismatch:
            mismatch.path.append(f".{name}")
            raise
        for name in required:
            if name not in arguments:
                raise _Mismatch(f"the field {name!r}", None)
        return kind(**arguments)

    return decode_dataclass


def _make_array_decoder(kind: Any, inner: _Converter) -> _Converter:
    def decode_array(value: Any) -> Any:
        if type(value) is not list:
            raise _Mismatch("an array", value)
        items = []
        try:
            for item in value:
                items.append(inner(item))
        except _Mismatch as mismatch:
            mismatch.path.append(f"[{len(items)}]")
            raise
        return kind(items)

    return decode_array


def _make_dict_decoder(inner: _Converter) -> _Converter:
    def decode_dict(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _Mismatch("an object", value)
        result = {}
        key = ""
        try:
            for key, item in value.items():
                result[key] = inner(item)
        except _Mismatch as mismatch:
            mismatch.path.append(f"[{key!r}]")
            raise
        return result

    return decode_dict


def _optional(hint: Any, arguments: tuple[Any, ...]) -> Any:
    """The X of ``X | None``; no other union occurs in messages."""
    others = [item for item in arguments if item is not type(None)]
    if len(others) != 1 or len(arguments) != 2:
        raise TypeError(f"messages do not hold {hint!r}")
    return others[0]


def _string(value: Any) -> str:
    if type(value) is not str:
        raise _Mismatch("a string", value)
    return value


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise _Mismatch("an integer", value)
    return value


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _Mismatch("a number", value)
    return float(value)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Mismatch("true or false", value)
    return value


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "an integer",
        float: "a float",
    }
    text = repr(value)
    return f"{names.get(type(value), type(value).__name__)} {text if len(text) <= 60 else text[:57] + '...'}"


_SCALARS: dict[Any, _Converter] = {str: _string, int: _integer, float: _number, bool: _boolean}
