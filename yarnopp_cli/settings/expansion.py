"""``${variable}`` in values, as Hadoop's ``Configuration`` replaces it.

A variable is another property, ``yopp.state-dir``, ``user.name``, ``user.home``, or ``env.NAME`` (with
Hadoop's ``${env.NAME-default}`` and ``${env.NAME:-default}``). Hadoop leaves what it cannot resolve as it
stands, and a directory called "${hadoop.tmp.dir}" appears; here that is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_SUBSTITUTIONS = 20
"""Hadoop's bound for one value."""

_LONGEST = 65536
_VARIABLE = re.compile(r"\$\{([^\}\$\s]+)\}")
_ENVIRONMENT = re.compile(r"env\.([^:\-]+)(?:(:?-)(.*))?", re.DOTALL)


class ExpansionError(ValueError):
    """A variable that nobody defines, or one that defines itself; the message says which."""


def expand(text: str, lookup: Callable[[str], str | None]) -> str:
    """``text`` with its variables replaced. ``lookup`` gives a variable's own text, None where there is none.

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
            raise ExpansionError(f"nothing is called {found.group()}")
        result = result[: found.start()] + replacement + result[found.end() :]
        if len(result) > _LONGEST:
            raise ExpansionError(f"it grows beyond {_LONGEST} characters")
    if _VARIABLE.search(result):
        raise ExpansionError(f"more than {MAX_SUBSTITUTIONS} variables to replace; does one refer to itself?")
    return result


def environment_variable(name: str, get: Callable[[str], str | None]) -> str | None:
    """What ``env.NAME``, ``env.NAME-default`` or ``env.NAME:-default`` stands for; None for other names.

    With ``:-`` the default also replaces an empty value, as in the shell.
    """
    found = _ENVIRONMENT.fullmatch(name)
    if found is None:
        return None
    value = get(found.group(1))
    if found.group(2) and (value is None or (found.group(2) == ":-" and not value)):
        return found.group(3)
    return value
