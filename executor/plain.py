"""Converts records to and from what ``json`` writes and reads, with nothing but the standard library. Does no I/O.

Fields are stored by name, enums by value, tuples as arrays; a missing field gets its default, an unknown one
is ignored.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable
from functools import cache

from .hints import Any, TypeVar
from .light import MISSING, Record, defaults_of

T = TypeVar("T")
_Converter = Callable[[Any], Any]
_Converters = tuple[_Converter | None, _Converter]


class MismatchError(ValueError):
    """A value is not of its declared type. Raised where the value is; every enclosing level adds its own name
    to ``path``."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.path: list[str] = []

    def __str__(self) -> str:
        place = "$" + "".join(reversed(self.path))
        return f"expected {self.expected} at {place}, found {_kind_of(self.found)}"


def encode(value: Any) -> Any:
    """Encode a record (with everything in it) as dicts, lists and scalars that ``json.dumps`` takes."""
    kind: Any = type(value)
    encoder, _ = _converters(kind)
    return value if encoder is None else encoder(value)


def decode(kind: type[T], value: Any) -> T:
    """The inverse of ``encode``, for the result of ``json.loads``. Raises MismatchError."""
    hint: Any = kind
    decoded: T = _converters(hint)[1](value)
    return decoded


@cache
def _converters(hint: Any) -> _Converters:
    """The function that converts a value of this type into JSON's types, None if it already is one; and its
    inverse."""
    if hint in _SCALARS:
        return None, _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if isinstance(hint, type) and issubclass(hint, Record):
        return _record(hint)
    if isinstance(hint, types.UnionType):
        others = [item for item in hint.__args__ if item is not types.NoneType]
        if len(others) == 1 and len(hint.__args__) == 2:  # no union except ``X | None`` occurs in messages
            return _optional(*_converters(others[0]))
    origin = getattr(hint, "__origin__", None)
    if origin in (tuple, list, frozenset):
        return _array(origin, hint.__args__[0])
    if origin is dict:
        return _dict(*_converters(hint.__args__[1]))
    raise TypeError(f"messages cannot contain {hint!r}")


def _optional(encoder: _Converter | None, decoder: _Converter) -> _Converters:
    def optional(inner: _Converter) -> _Converter:
        return lambda value: None if value is None else inner(value)

    return None if encoder is None else optional(encoder), optional(decoder)


def _enum(kind: type[enum.Enum]) -> _Converters:
    members = {member.value: member for member in kind}

    def decode_enum(value: Any) -> enum.Enum:
        try:
            return members[value]
        except (KeyError, TypeError):
            raise MismatchError(f"one of {', '.join(map(str, members))}", value) from None

    return lambda value: value.value, decode_enum


def _hints(kind: type[Record]) -> dict[str, Any]:
    """The types of a record's fields by name, without the cost of ``typing``."""
    hints: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        scope = vars(sys.modules[one.__module__])
        for name, text in vars(one).get("__annotations__", {}).items():
            known = _NAMES if text in _NAMES else scope
            hints[name] = known[text] if text in known else eval(text, scope)
    return hints


def _record(kind: type[Record]) -> _Converters:
    defaults, hints = defaults_of(kind), _hints(kind)
    converters = {name: _converters(hints[name]) for name in defaults}
    plain = [name for name, (encoder, _) in converters.items() if encoder is None]
    encoders = [(name, encoder) for name, (encoder, _) in converters.items() if encoder is not None]
    # a scalar of exactly its type, as nearly all are, is taken as it is
    decoders = {name: (hints[name], decoder) for name, (_, decoder) in converters.items()}
    required = [name for name, default in defaults.items() if default is MISSING]

    def encode_record(value: Any) -> dict[str, Any]:
        message = {name: getattr(value, name) for name in plain}
        for name, encoder in encoders:
            message[name] = encoder(getattr(value, name))
        return message

    def decode_record(value: Any) -> Any:
        if type(value) is not dict:
            raise MismatchError("an object", value)
        arguments = {}
        name = ""
        try:
            for name, item in value.items():
                if name in decoders:
                    hint, decoder = decoders[name]
                    arguments[name] = item if type(item) is hint else decoder(item)
        except MismatchError as mismatch:
            mismatch.path.append(f".{name}")
            raise
        for name in required:
            if name not in arguments:
                raise MismatchError(f"the field {name!r}", None)
        return kind(**arguments)

    return encode_record, decode_record


_MANY = 50
"""From how many records on it is worth compiling a decoder for their class, which takes a millisecond."""


@cache
def _quick(kind: type[Record]) -> _Converter:
    """The compiled decoder of a record: four times as fast if every field is present and has exactly its
    type. All other records are left to the normal decoder."""
    decoder, hints = _converters(kind)[1], _hints(kind)
    scope: dict[str, Any] = {
        "new": object.__new__,
        "kind": kind,
        "decoder": decoder,
        "MismatchError": MismatchError,
    }
    lines = ["def quick(value):", " try:", "  self = new(kind)"]
    for number, name in enumerate(defaults_of(kind)):
        lines.append(f"  item = value[{name!r}]")
        if hints[name] in _SCALARS:
            scope[f"kind{number}"] = hints[name]
            lines.append(f"  if type(item) is not kind{number}: return decoder(value)")
        else:
            hint = hints[name]
            of_record = isinstance(hint, type) and issubclass(hint, Record)
            scope[f"decoder{number}"] = _quick(hint) if of_record else _converters(hint)[1]
            lines.append(f"  item = decoder{number}(item)")
        lines.append(f"  self.{name} = item")
    lines += ["  return self", " except (KeyError, TypeError, MismatchError):", "  return decoder(value)"]
    exec("\n".join(lines), scope)
    quick: _Converter = scope["quick"]
    return quick


def _array(kind: Any, hint: Any) -> _Converters:
    encoder, decoder = _converters(hint)

    def decode_array(value: Any) -> Any:
        if type(value) is not list:
            raise MismatchError("an array", value)
        items: list[Any] = []
        try:
            if len(value) >= _MANY and isinstance(hint, type) and issubclass(hint, Record):
                quick = _quick(hint)
                for item in value:
                    items.append(quick(item))
                return kind(items)
            for item in value:
                items.append(item if type(item) is hint else decoder(item))
        except MismatchError as mismatch:
            mismatch.path.append(f"[{len(items)}]")
            raise
        return kind(items)

    return list if encoder is None else lambda value: [encoder(item) for item in value], decode_array


def _dict(encoder: _Converter | None, decoder: _Converter) -> _Converters:
    def decode_dict(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise MismatchError("an object", value)
        result = {}
        key = ""
        try:
            for key, item in value.items():
                result[key] = decoder(item)
        except MismatchError as mismatch:
            mismatch.path.append(f"[{key!r}]")
            raise
        return result

    if encoder is None:
        return dict, decode_dict
    return lambda value: {key: encoder(item) for key, item in value.items()}, decode_dict


def _scalar(kind: type, expected: str) -> _Converter:
    def decode_scalar(value: Any) -> Any:
        if type(value) is not kind:
            raise MismatchError(expected, value)
        return value

    return decode_scalar


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise MismatchError("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise MismatchError("a number", value) from None


_SCALARS: dict[Any, _Converter] = {
    str: _scalar(str, "a string"),
    int: _scalar(int, "an integer"),
    float: _number,
    bool: _scalar(bool, "true or false"),
}
_NAMES: dict[str, Any] = {kind.__name__: kind for kind in _SCALARS}
_NAMES |= {str(hint): hint for hint in (tuple[int, ...], tuple[str, ...], dict[str, str])}
"""What fields are often annotated with, and need not be compiled for."""
_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a float",
}


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return f"{_KINDS.get(type(value), type(value).__name__)} {text if len(text) <= 60 else text[:57] + '...'}"
