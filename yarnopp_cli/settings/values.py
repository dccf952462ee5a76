"""Converts the texts of a file or a ``-D`` to the values of properties, or raises a sentence with the expected values.

A text is read as Hadoop's ``Configuration`` reads the text of an XML element: blanks around it are ignored, numbers
may be hexadecimal, and a float may have Java's suffix ``f`` ("1.0f", as in YARN's own document).

``${variable}`` is replaced as in Hadoop: a variable is another property, ``yopp.state-dir``, ``user.name``,
``user.home``, or ``env.NAME`` (with ``${env.NAME-default}`` and ``${env.NAME:-default}``). Hadoop leaves an unresolved
variable in the value, which creates a directory named "${hadoop.tmp.dir}"; here it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from executor.hints import Any, TypeAlias
from executor.light import pattern
from executor.settings import Property

from .declarations import ADDRESSES, CGROUP_PATHS, DIRECTORIES, OPTIONAL_ADDRESSES
from .resource_types import NODE_AMOUNT
from .suggest import printable

Value: TypeAlias = int | float | bool | str

LARGEST_NUMBER = 2**31 - 1
"""Java's int, the largest number in YARN. In milliseconds it is 24 days."""

_WHOLE = pattern(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})", re.ASCII)
_NUMBER = pattern(
    r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?[fFdD]?", re.ASCII
)
_TOML_TYPES = {bool: "a boolean", int: "a whole number", float: "a number", str: "a text", list: "a list"}


class Refused(ValueError):
    """A value that its property cannot take; the message names the expected values."""


def from_text(declared: Property, text: str) -> Value:
    """The value of ``text`` for this property. Raises Refused."""
    stripped = text.strip()
    if declared.type is bool:
        lowered = stripped.lower()
        if lowered not in ("true", "false"):
            raise Refused(f"expected {expected(declared)}, found {quoted(text)}")
        return lowered == "true"
    if declared.type is int:
        if not _WHOLE.fullmatch(stripped):
            raise Refused(f"expected {expected(declared)}, found {quoted(text)}")
        return _bounded(declared, int(stripped, 16 if "x" in stripped.lower() else 10))
    if declared.type is float:
        if not _NUMBER.fullmatch(stripped):
            raise Refused(f"expected {expected(declared)}, found {quoted(text)}")
        return _bounded(declared, float(stripped.rstrip("fFdD")))
    return _checked_text(declared, stripped)


def from_toml(declared: Property, value: Any) -> Value:
    """The value of a TOML scalar for this property; a text is read as in ``from_text``. Raises Refused."""
    if isinstance(value, str):
        return from_text(declared, value)
    if declared.type is bool and isinstance(value, bool):
        return value
    if declared.type is int and isinstance(value, int) and not isinstance(value, bool):
        return _bounded(declared, value)
    if declared.type is float and isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:  # float() of it may overflow.
            raise Refused(f"expected {expected(declared)}, found a number beyond {LARGEST_NUMBER}")
        return _bounded(declared, float(value))
    if type(value) is int and declared.name.startswith(NODE_AMOUNT):
        return from_text(declared, str(value))  # One amount for all nodes; a text may have one for each.
    found = _TOML_TYPES.get(type(value), "a date or time")
    raise Refused(f"expected {expected(declared)}, found {found}")


def expected(declared: Property) -> str:
    """The values that the property takes, in words: "a whole number of at least 0", "one of auto, v1, v2, none"."""
    if declared.choices:
        return "one of " + ", ".join(declared.choices)
    if declared.type is bool:
        return "true or false"
    if declared.name in DIRECTORIES:
        return "the absolute path of one directory"
    if declared.name in ADDRESSES:
        return "host:port, or nothing" if _may_be_empty(declared) else "host:port"
    if declared.type is str:
        return "a text"
    kind = "a whole number" if declared.type is int else "a number"
    lower, upper = _plain(declared.at_least), _plain(declared.at_most)
    if lower and upper:
        return f"{kind} from {lower} to {upper}"
    if lower:
        return f"{kind} of at least {lower}"
    return f"{kind} of at most {upper}" if upper else kind


def to_text(value: Value) -> str:
    """A value in the form of a file or a ``-D``: ``from_text`` reads it back to the same value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def quoted(text: str) -> str:
    """A text in quotes, safe for a terminal."""
    return f'"{printable(text)}"'


def _plain(bound: float | None) -> str:
    if bound is None:
        return ""
    return str(int(bound)) if bound == int(bound) else str(bound)


def _bounded(declared: Property, number: int | float) -> int | float:
    if number != number or abs(number) == float("inf"):
        raise Refused(f"expected {expected(declared)}, found {number}")
    largest = max(LARGEST_NUMBER, declared.at_most or 0)
    if abs(number) > largest:
        raise Refused(f"expected {expected(declared)}, found a number beyond {largest}")
    below = declared.at_least is not None and number < declared.at_least
    above = declared.at_most is not None and number > declared.at_most
    if below or above:
        raise Refused(f"expected {expected(declared)}, found {number}")
    return number


def _checked_text(declared: Property, text: str) -> str:
    if declared.choices and text not in declared.choices:
        raise Refused(f"expected {expected(declared)}, found {quoted(text)}")
    if any(ord(mark) < 32 or ord(mark) == 127 for mark in text):
        raise Refused(f"expected {expected(declared)}, found one with control characters")
    if declared.name in DIRECTORIES:
        if "," in text:
            raise Refused(f"expected {expected(declared)}, found a list: {quoted(text)}")
        if not text.startswith("/"):
            raise Refused(f"expected {expected(declared)}, found {quoted(text)}")
    if declared.name in ADDRESSES and (text or not _may_be_empty(declared)) and not _is_address(text):
        raise Refused(f"expected {expected(declared)}, found {quoted(text)}")
    if declared.name in CGROUP_PATHS:
        parts = [part for part in text.split("/") if part]
        if not parts or "." in parts or ".." in parts:
            raise Refused(f'expected the path of a cgroup such as "{declared.default}", found {quoted(text)}')
    return text


def _may_be_empty(declared: Property) -> bool:
    return not declared.default or declared.name in OPTIONAL_ADDRESSES


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    # The length is checked first: Python refuses int() of thousands of digits.
    return bool(host) and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535


# -- variables in texts --------------------------------------------------------------------------------

MAX_SUBSTITUTIONS = 20
"""Hadoop's limit for one value."""

_LONGEST = 65536
_VARIABLE = pattern(r"\$\{([^\}\$\s]+)\}")
_ENVIRONMENT = pattern(r"env\.([^:\-]+)(?:(:?-)(.*))?", re.DOTALL)


class ExpansionError(ValueError):
    """A variable is not defined, or defines itself; the message names the variable."""


def expand(text: str, lookup: Callable[[str], str | None]) -> str:
    """``text`` with its variables replaced. ``lookup`` returns the text of a variable, None if there is none.

    Raises ExpansionError.
    """
    if "${" not in text:
        return text
    result = text
    for _ in range(MAX_SUBSTITUTIONS):
        found = _VARIABLE.search(result)
        if found is None:
            return result
        replacement = lookup(found.group(1))
        if replacement is None:
            raise ExpansionError(f"there is no variable {found.group()}")
        result = result[: found.start()] + replacement + result[found.end() :]
        if len(result) > _LONGEST:
            raise ExpansionError(f"it grows beyond {_LONGEST} characters")
    if _VARIABLE.search(result):
        raise ExpansionError(f"more than {MAX_SUBSTITUTIONS} variables to replace; does one refer to itself?")
    return result


def environment_variable(name: str, get: Callable[[str], str | None]) -> str | None:
    """The value of ``env.NAME``, ``env.NAME-default`` or ``env.NAME:-default``; None for other names.

    With ``:-`` the default also replaces an empty value, as in the shell.
    """
    found = _ENVIRONMENT.fullmatch(name)
    if found is None:
        return None
    value = get(found.group(1))
    if found.group(2) and (value is None or (found.group(2) == ":-" and not value)):
        return found.group(3)
    return value
