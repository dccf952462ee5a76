"""Checks, as a shell does, whether a command can be run, before the submission. Reads the file system."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence

from ..errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, UsageError, YoppError, reason_of, unseen

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path for a command without the variable PATH, also at its node (``executor/linux/launcher.py``)."""

ANEW = "type it anew: such a character often comes from a page or a document"
"""The hint about invisible characters."""


def without_value(assignment: str) -> str:
    """``NAME=VALUE`` for all users: a value may be a secret, so only the name is shown."""
    name, _, value = assignment.partition("=")
    return f"{name}=..." if value else assignment


def without_values(argv: Sequence[str], assignments: Sequence[str]) -> list[str]:
    """A command line without the values of ``assignments``, the NAME=VALUE words for the containers'
    environment.
    """
    hidden = [one for one in assignments if without_value(one) != one]

    def shown(word: str) -> str:
        for one in hidden:
            if word == one or (word.startswith("-") and word.endswith(one)):  # -e A=b, -eA=b, --env=A=b
                return word[: -len(one)] + without_value(one)
        return word

    return [shown(word) for word in argv]


def check_text(words: Sequence[str], what: str, shown: Callable[[str], str] = str) -> None:
    """Raise UsageError if one of the words cannot be encoded in UTF-8, as the protocol requires; ``shown``
    makes the text for the error.
    """
    for word in words:
        if not _is_utf8(word):
            raise UsageError(
                f"{what} {os.fsencode(shown(word))!r} is not UTF-8",
                because="jobs are submitted, stored and shown as UTF-8 text",
                hint="re-encode it; a script, or a file for --stdin, may hold any bytes",
            )


def portable_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables that can be encoded in UTF-8, and the names of the others."""
    kept = {name: value for name, value in environment.items() if _is_utf8(f"{name}={value}")}
    return kept, [name.encode(errors="backslashreplace").decode() for name in environment if name not in kept]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_directory(path: str) -> str:
    """The absolute path of a container's working directory. Raises UsageError if it is not a directory."""
    full = os.path.abspath(path)
    check_text([full], "the directory")
    if not os.path.isdir(full):
        there = os.path.exists(full)
        raise UsageError(
            f"{path} is not a directory" if there else f"no directory {path}",
            because="a container needs a working directory",
            hint="name another one with --cwd",
        )
    return full


def find_command(command: str, environment: Mapping[str, str], directory: str) -> str:
    """The file that ``command`` runs.

    Raises YoppError with exit code 127 (not found) or 126 (not executable).
    """
    if not command:
        raise _not_found(command, "its name is empty")
    if "/" in command:
        path = os.path.join(directory, command.removeprefix("./"))
        _check_executable(command, path)
        return path
    blocked = ""
    for folder in environment.get("PATH", DEFAULT_PATH).split(os.pathsep):
        file = os.path.join(directory, folder, command)
        if _is_executable(file):
            return file
        if not blocked and os.path.isfile(file):
            blocked = file
    if blocked:
        _check_executable(command, blocked)
    raise _not_found(command, "it is in no directory of PATH")


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _check_executable(command: str, path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise _not_found(command, f"there is no file {path}") from None
    except OSError as error:
        raise _not_executable(command, reason_of(error), "") from None
    if stat.S_ISDIR(mode):
        raise _not_executable(command, "it is a directory", "name the program in it")
    if not os.access(path, os.X_OK):
        raise _not_executable(command, "its execute permission is not set", f"chmod +x {path}")
    if (interpreter := _interpreter(path)) and not os.path.exists(interpreter):
        raise YoppError(
            f"cannot execute {command}",
            because=f"its first line names {interpreter}, which does not exist",
            hint="install it, or correct that line",
            exit_code=EXIT_NOT_FOUND,
        )


def _interpreter(path: str) -> str:
    """The interpreter in the first line of a script; "" for none, an unreadable file, or a relative path."""
    try:
        with open(path, "rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return ""
    # as the kernel reads it: a carriage return is a character of the name
    name = first[2:].strip(b" \t").replace(b"\t", b" ").partition(b" ")[0] if first.startswith(b"#!") else b""
    return os.fsdecode(name) if name.startswith(b"/") else ""


def _not_found(command: str, because: str) -> YoppError:
    return YoppError(
        f"command not found: {command}",
        because=f"{because}; it has {marks}" if (marks := unseen(command)) else because,
        hint=ANEW if marks else "`yopp run -- sh -c '…'` runs a shell line",
        exit_code=EXIT_NOT_FOUND,
    )


def _not_executable(command: str, because: str, hint: str) -> YoppError:
    return YoppError(
        f"cannot execute {command}",
        because=because,
        hint=hint or "name a program that this user may run",
        exit_code=EXIT_NOT_EXECUTABLE,
    )
