"""The environment of the containers (``--env``), and their working directory (``--cwd``).

Decisions: caller-environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from executor.light import replace, suppress

from ... import started
from ...errors import EXIT_NOT_PERMITTED, UsageError, YoppError, reason_of
from ...jobs.commands import check_directory, check_text, portable_environment, without_value
from ...masters.commands import COUNT_VARIABLE, NUMBER_VARIABLE, Tasks
from ...records.jobs import ARGS_VARIABLE
from ..frame.output import Printer


def surroundings(env: list[str], cwd: str | None, printer: Printer) -> tuple[dict[str, str], str]:
    """The environment and directory of the containers: the caller's, changed by ``--env`` and ``--cwd``."""
    kept, dropped = portable_environment(started.environment())
    if dropped:
        printer.warn(f"variables that are not UTF-8 are not passed on: {', '.join(sorted(dropped))}")
    asked = assignments(env)
    refuse_owned(asked)
    kept.update(asked)
    try:
        here = os.getcwd() if cwd is None else cwd
    except OSError as error:
        raise UsageError(
            "the current directory cannot be used", because=reason_of(error), hint="name one with --cwd"
        ) from None
    return kept, check_directory(here)


def surroundings_of(user: str, env: list[str], cwd: str | None) -> tuple[dict[str, str], str | None]:
    """The environment and directory of the containers of another user: only ``--env`` and ``--cwd`` of the caller,
    which is None for a private directory of the container. Raises YoppError."""
    import pwd  # Imported late: few command lines name a user.

    if os.geteuid() != 0:
        raise YoppError(
            f"you cannot run containers as {user}",
            because="only root can start processes as another user",
            hint=f"as root: yopp run --user {user}",
            exit_code=EXIT_NOT_PERMITTED,
        )
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise UsageError(
            f"there is no user {user!r}",
            because="this host has no user with that name",
            hint="`getent passwd` lists the users of this host",
        ) from None
    asked = assignments(env)
    refuse_owned(asked)
    return asked, None if cwd is None else check_directory(cwd)


def past_shells(tasks: Tasks, environment: dict[str, str]) -> tuple[Tasks, dict[str, str]]:
    """The tasks and their environment, if a shell of ours executes the command: variables that no shell passes on
    (exported functions of bash) bypass the shell."""
    from . import exact

    odd = exact.odd_in(environment)
    if not odd or not tasks.command:
        return tasks, environment
    command = (sys.executable, "-I", "-S", "-Xutf8", exact.__file__, *tasks.command)
    name = tasks.name or tasks.command[0].rpartition("/")[2]
    others = {name: value for name, value in environment.items() if name not in odd}
    return replace(tasks, command=command, name=name), others | {
        exact.CARRIER: exact.packed(odd, environment)
    }


def refuse_owned(asked: Collection[str]) -> None:
    """Raise UsageError for a variable that a container's node sets."""
    if not asked:
        return
    from executor.linux.environment import OWNED

    hints = {"PWD": "--cwd names the directory"}
    for name in asked:
        if name in (*OWNED, NUMBER_VARIABLE, COUNT_VARIABLE, ARGS_VARIABLE):
            raise UsageError(
                f"--env cannot set {name}",
                because="the node sets that variable in each container",
                hint=hints.get(name, "choose another name"),
            )


def with_values(words: Sequence[str]) -> list[str]:
    """The words of ``--env``: a word without ``=`` has its value in the caller's environment, and is dropped if it has
    none there, as in docker."""
    environ = started.environment() if words else {}
    return [
        one if "=" in one or not one else f"{one}={environ[one]}"
        for one in words
        if "=" in one or not one or one in environ
    ]


def assignments(words: list[str]) -> dict[str, str]:
    """Variables from ``K=V`` words; a word without ``=`` is an empty variable, as in YARN.

    Raises UsageError.
    """
    _blank(words)
    check_text(words, "the variable", without_value)
    result = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name or "\0" in word:
            raise UsageError(
                f"{without_value(word)!r} is not a variable",
                because="it has no name",
                hint="write NAME=VALUE",
            )
        result[name] = value
    return result


def _blank(words: list[str]) -> None:
    """Overwrite the values in this process's own command line, which all users of the host can read."""
    values = [(os.fsencode(word), len(os.fsencode(word.partition("=")[2]))) for word in words if "=" in word]
    if not values:
        return
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            arg_start, arg_end = file.read().rpartition(b")")[2].split()[45:47]
        begin, end = int(arg_start), int(arg_end)
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            line = memory.read(end - begin)
            for word, length in values:
                line = line.replace(word + b"\0", word[: len(word) - length] + b"." * length + b"\0")
            memory.seek(begin)
            memory.write(line)
