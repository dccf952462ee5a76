"""The options that every command takes, added where a command does not declare them itself.

A script that says ``-y --no-progress --timeout 30s`` everywhere must not be told by a command that asks nothing
and draws nothing that it does not know them. Those that do nothing are not in its help. ``--timeout`` bounds any
command that does not wait by a bound of its own.
"""

from __future__ import annotations

import copy
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import typer

from ...errors import EXIT_TIMEOUT, YoppError
from .options import Color, Conf, Define, NoProgress, Quiet, RunDirOption, Timeout, Verbose, Yes, new_typer
from .output import Printer

_UNBOUNDED = frozenset({("man",), ("completion",), ("rm", "run"), ("nm", "run")})
"""Commands that no time ends: they are done at once, or go on until somebody ends them."""


class TimedOutError(YoppError):
    """What ``--timeout`` allows has passed."""

    exit_code = EXIT_TIMEOUT


def complete(command: Any, *path: str) -> None:
    """Add to a command of the parser, or to each of a group's, the common options that it lacks."""
    for name, one in getattr(command, "commands", {}).items():
        complete(one, *path, name)
    if hasattr(command, "commands"):
        return
    has = {spelling for one in command.params for spelling in one.opts}
    for declared in _common_options():
        one = copy.copy(declared)
        spelling = max(one.opts, key=len)
        if spelling in has:
            continue
        if spelling == "--timeout":
            if path in _UNBOUNDED or path[:1] in _UNBOUNDED:
                continue
            one.callback = bounded
        else:
            one.hidden = True
            if spelling in ("--conf", "--define"):
                one.callback = checked
        one.opts = [each for each in one.opts if each not in has]
        if spelling == "--quiet":
            command.callback = _without_quiet(command.callback)
        else:
            one.expose_value = False
        command.params.append(one)


@cache
def _common_options() -> list[Any]:
    """The options as the parser's own objects, to be copied for each command: making one costs a tenth of a ms."""
    holder = new_typer(callback=lambda: None)
    holder.command("common")(_declarations)
    group: Any = typer.main.get_command(holder)
    return [one for one in group.commands["common"].params if one.name != "help"]


def _declarations(
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
    no_progress: NoProgress = False,
    timeout: Timeout = None,
    yes: Yes = False,
) -> None:
    """Stand for a command that takes them all."""


def _without_quiet(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The command that does not know ``-q``, which is refused beside another form all the same."""

    def call(*args: Any, quiet: bool = False, **values: Any) -> Any:
        if quiet:
            Printer.of(output=values.get("output"), json=bool(values.get("json")), quiet=True)
        return callback(*args, **values)

    return call


def checked(context: Any, option: Any, value: Any) -> Any:
    """What is named is checked, though this command reads no property. Raises ConfigurationError."""
    if value:
        from ...settings.loading import load

        conf, defines = (value, ()) if option.name == "conf" else ((), value)
        load(tuple(conf), tuple(defines), environ=os.environ, state_dir="/")
    return value


def bounded(context: Any, option: Any, seconds: Any) -> Any:
    """Have this command end with 124 after so many seconds."""
    if seconds is not None and not context.resilient_parsing:
        _arm(float(seconds))
    return seconds


def _arm(seconds: float) -> None:
    def ring(number: int, frame: object) -> None:
        raise TimedOutError(
            f"not done within {seconds:g} s",
            because="that is the time that --timeout (or YOPP_TIMEOUT) gives it",
            hint="a longer --timeout waits longer",
        )

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


@contextmanager
def alarm_kept() -> Iterator[None]:
    """Leave the alarm of this process as it was, whatever a command sets within."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler, (remaining, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGALRM) is not handler:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, remaining, interval)
