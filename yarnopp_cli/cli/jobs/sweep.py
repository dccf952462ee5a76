"""The values and numbers of the tasks of ``yopp run``: ``--from``, ``:::``, ``--array`` and ``--shell``.

Imported only with one of these options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from executor.light import pattern, replace

from ...errors import UsageError
from ...jobs.commands import find_command
from ...jobs.tasklines import MOST_TASKS, STDIN, Columns, at_most, commands_of, named, values_of
from ...masters.commands import SHELLS_WORDS, Tasks, no_command
from ...masters.sweeps import SHELL, has_mark, highest_source, places_of, shells_mark, unfit
from ...records.jobs import Sweep
from ...views.text import number_of, shorten

_MARKS = (":::", "::::", ":::+", "::::+")
_OURS = 16 * 1024
"""Bytes that are left for the variables which a container gets besides those of its job."""
_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?", re.ASCII)
_MOST_DIGITS = 9


def varied(
    tasks: Tasks,
    lines: str | None,
    array: str | None,
    *,
    shell: bool,
    environment: Mapping[str, str],
    directory: str | None,
    null: bool = False,
    colsep: str | None = None,
) -> Tasks:
    """``tasks`` with the values, numbers and shell of these options. ``directory`` is their working directory, None
    for a YARN cluster. ``null``: values in files end with a NUL byte. ``colsep`` separates each value into the values
    of several sources.

    Raises UsageError, and YoppError for a program that cannot be run.
    """
    at = next((at for at, word in enumerate(tasks.command) if word in _MARKS), len(tasks.command))
    command, rest = tasks.command[:at], tasks.command[at:]
    if directory is None and rest:
        raise UsageError(
            "a YARN cluster cannot run a sweep",
            because="Hadoop's distributed shell runs one command in all containers",
            hint="submit one job for each value",
        )
    find = None if shell or directory is None else lambda name: find_command(name, environment, directory)
    if not command and lines is None and len(rest) == 2 and rest[0] == "::::":
        lines, rest = rest[1], ()  # A file of commands, as in parallel.
    origins: list[str] = []
    cut = None if colsep is None else Columns(colsep)
    sweep = _sweep(command, rest, lines, find, origins, shell=shell, null=null, cut=cut)
    if command and find is not None and not has_mark(command[0]):
        find(command[0])
    numbers, name = tasks.numbers, ""
    if not command:
        name = "stdin" if lines == STDIN else (lines or "sweep").rpartition("/")[2]
    if sweep is not None:
        _check_size(sweep, numbers)
        numbers = (range(1, sweep.size + 1),)
    if shell and command:
        name = (command[0].split() or [""])[0].rpartition("/")[2]
    if shell and sweep is None:
        command = (*SHELL, " ".join(command))
    most = 0
    if array is not None:
        array, percent, bound = array.partition("%")
        most = int(bound) if bound.isdecimal() and len(bound) < 10 else 0
        if percent and not most:
            raise UsageError(
                f"--array …%{bound} is not a limit",
                because="after %, a number above 0 limits the running containers",
                hint="--array 5-50%4",
            )
        numbers = _chosen(array, sweep, tasks.numbers)
    if sweep is not None and (command or rest):
        _check_fit(command, sweep, numbers, origins, environment)
    return replace(tasks, command=command, sweep=sweep, numbers=numbers, name=name, max_running=most)


def _sweep(
    command: Sequence[str],
    rest: Sequence[str],
    lines: str | None,
    find: Callable[[str], object] | None,
    origins: list[str],
    *,
    shell: bool,
    null: bool,
    cut: Columns | None,
) -> Sweep | None:
    """The values of the tasks; None if all are the same. ``origins`` receives a name for each source."""
    if (null or cut is not None) and (not command or not (rest or lines is not None)):
        raise UsageError(
            f"{'-0' if null else '--colsep'} needs a COMMAND and values for it",
            because="it says how to read the values of --from, ::: and ::::",
            hint="yopp run --colsep ',' echo {2} {1} :::: table.csv",
        )
    if not (rest or lines is not None):
        if not command:
            raise no_command()
        return None
    sources: list[tuple[str, ...]] = []
    linked: list[int] = []

    def add(values: tuple[str, ...], origin: str, *, link: bool = False) -> None:
        if link:
            _check_link(sources, values)
        for at, column in enumerate([values] if cut is None else cut.cut(values, origin)):
            if link or at:
                linked.append(len(sources))
            sources.append(column)
            origins.append(origin)

    def read(path: str) -> tuple[str, ...]:
        return at_most(path, values_of(path, null=null))

    if lines is not None:
        add(read(lines) if command or rest else at_most(lines, commands_of(lines, find)), _line_of(lines))
    starts = [at for at, word in enumerate(rest) if word in _MARKS]
    for begin, end in pairwise([*starts, len(rest)]):
        mark, given = rest[begin], rest[begin + 1 : end]
        link = mark.endswith("+")
        if not mark.startswith("::::"):
            add(tuple(given), f"value {{}} after {mark}", link=link)
            continue
        if not given:
            raise UsageError(
                f"{mark} names no file",
                because="a file of values must follow it",
                hint="yopp run echo :::: FILE, or - for standard input",
            )
        for one in given:
            add(read(one), _line_of(one), link=link)
    if (highest := highest_source(command)) > len(sources):
        raise UsageError(
            f"tasks have no value {{{highest}}}",
            because=f"there {'is one source' if len(sources) == 1 else f'are {len(sources)} sources'} of values",
            hint="yopp run echo {1} {2} ::: a b ::: 1 2",
        )
    return Sweep(tuple(sources), shell=shell, linked=tuple(linked))


_LOOKED_UP = 1000
"""In how many commands patterns are looked up, which takes a reading of the directory each."""
_PATTERN = pattern(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|((?<!\S)~[^\s'"\\]*|(?<!\S)[^\s'"\\]*[*?\[][^\s'"\\]*)""",
    re.ASCII | re.DOTALL,
)


def _expanded(line: str) -> str:
    """The first word that a shell would replace by a home or by the names of files that there are; "" for none."""
    for word in filter(None, _PATTERN.findall(line)):
        if word.startswith("~"):
            return str(word)
        import glob

        if next(glob.iglob(word), None) is not None:
            return str(word)
    return ""


def without_a_shell(tasks: Tasks) -> str:
    """A warning about words in commands that are probably meant for a shell, though no shell reads them; "" for
    none."""
    command, sweep = tasks.command, tasks.sweep
    if not command:
        lines = sweep.sources[0] if sweep is not None else ()
        marked = [line for line in lines if shells_mark(line)]
        marked = marked or [line for line in lines[:_LOOKED_UP] if _expanded(line)]
        marks = [_expanded(marked[0])] if marked else []
    else:
        line = command[0] if " " in command[0] and shells_mark(command[0]) else ""
        tested = command[0].rpartition("/")[2] in ("expr", "test", "[")
        marks = [word for word in command if word in SHELLS_WORDS and not tested]
        if any(word in ("-exec", "-execdir", "-ok", "-okdir") for word in command):
            marks = [word for word in marks if word != ";"]
        marked = [line or " ".join(command)] if line or marks else []
    if not marked:
        return ""
    mark = shells_mark(marked[0]) or marks[0]
    more = f" and {len(marked) - 1:,} more" if marked[1:] else ""
    return (
        f"`{mark}` in `{shorten(marked[0], 60)}`{more} is passed to the command as it is, since no shell reads it; "
        "with --shell, /bin/sh does"
    )


def _line_of(path: str) -> str:
    return f"line {{}} of {named(path)}"


def _check_link(sources: Sequence[Sequence[str]], values: Sequence[str]) -> None:
    if not sources or len(sources[-1]) != len(values):
        raise UsageError(
            f"{number_of(len(values), 'value')} cannot go along with {len(sources[-1]) if sources else 'none'}",
            because="each value after :::+ belongs to one value of the source before it",
            hint="yopp run echo ::: a b :::+ 1 2",
        )


def _check_fit(
    command: Sequence[str],
    sweep: Sweep,
    numbers: Sequence[range],
    origins: Sequence[str],
    environment: Mapping[str, str],
) -> None:
    variables = sum(len(os.fsencode(f"{name}={value}")) + 9 for name, value in environment.items())
    room = max(0, os.sysconf("SC_ARG_MAX") - variables - _OURS)
    found = unfit(command, sweep, (number for some in numbers for number in some), room)
    if found is not None:
        number, because = found
        places = [
            origin.replace("{}", str(place + 1), 1)
            for origin, place in zip(origins, places_of(sweep, number), strict=True)
        ]
        raise UsageError(
            f"{' with '.join(places)} cannot be run",
            because=because,
            hint="leave it out"
            if because.startswith("it is empty")
            else "give each task the name of a file instead",
        )


def _check_size(sweep: Sweep, numbers: Sequence[range]) -> None:
    if numbers != (range(1, 2),):
        raise UsageError(
            "-n cannot be used with --from or :::",
            because="there is a container for each value",
            hint="leave out -n",
        )
    if sweep.size > MOST_TASKS:
        raise UsageError(
            f"these are {sweep.size:,} tasks",
            because=f"a job has {MOST_TASKS:,} at most, and several sources make all combinations",
            hint="submit a job for each value of one source",
        )


def _chosen(array: str, sweep: Sweep | None, alike: Sequence[range]) -> tuple[range, ...]:
    """The numbers that ``--array`` names."""
    if alike != (range(1, 2),):
        raise UsageError(
            "-n cannot be used with --array",
            because="the array determines the number",
            hint="leave out -n",
        )
    found = numbers_of(array, "--array 5-50:5, or --array 1,3,7-9")
    if sweep is not None and not sweep.size:
        return ()
    last = max(one[-1] for one in found)
    if sweep is not None and (last > sweep.size or min(one[0] for one in found) < 1):
        raise UsageError(
            f"--array {array} names tasks that do not exist",
            because=f"the values are for the tasks 1 to {sweep.size}",
            hint=f"--array 1-{sweep.size}",
        )
    return found


def numbers_of(text: str, hint: str) -> tuple[range, ...]:
    """The numbers of ``5-50:5`` or ``1,3,7-9``. Raises UsageError."""
    found: list[range] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match and any(len(one) > _MOST_DIGITS for one in match.groups(default="")):
            raise UsageError(
                f"{part.strip()!r} has too large a number",
                because=f"a task's number has {_MOST_DIGITS} digits at most",
                hint=hint,
            )
        first, last, step = (int(one) if one else None for one in match.groups()) if match else (None,) * 3
        if first is None or step == 0 or (last is not None and last < first):
            raise UsageError(
                f"{part.strip()!r} names no tasks",
                because="a task is a number, or a first and a last number with an optional step above 0",
                hint=hint,
            )
        found.append(range(first, (first if last is None else last) + 1, step or 1))
    if sum(map(len, found)) > MOST_TASKS:
        raise UsageError(
            f"{text} are {sum(map(len, found)):,} tasks",
            because=f"a job has {MOST_TASKS:,} at most",
            hint=hint,
        )
    if len({number for one in found for number in one}) < sum(map(len, found)):
        raise UsageError(f"{text} names a task twice", because="each runs once", hint=hint)
    return tuple(found)
