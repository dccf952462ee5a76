"""Sweeps: what each task of a template runs, with the replacement strings of GNU parallel. Pure.

A command without any of them has all values after it. Without a command the value itself is what is run. ``{}`` are all
values, ``{2}`` the second source's; ``.`` takes the extension away, ``/`` the directory, ``//`` leaves the directory
alone, ``/.`` does both: ``{.}``, ``{2/.}``. ``{#}`` is the task's number.

Decisions: sweeps-as-templates.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from ..records.jobs import ARGS_VARIABLE, Sweep

SHELL = ("/bin/sh", "-c")
_QUOTING = re.compile(r"['\"\\]")
_BETWEEN = re.compile(r"[ \t\r\n]+")
LONGEST = 4 * 1024 * 1024
"""Characters that a task's words may come to: more than Linux takes of all arguments together (execve(2))."""
LONGEST_WORD = 128 * 1024 - 1
"""Bytes of a word or a variable, without its NUL: MAX_ARG_STRLEN of Linux (execve(2))."""
_POINTER = 8
_QUOTED = 5
"""What a byte of a value becomes at most where it is quoted for the shell."""
_MARK = re.compile(r"\{(?:(#)|([1-9]\d{0,4})?(/\.|//?|\.)?)\}", re.ASCII)
_TOKEN = re.compile(rf"(?P<escape>\\?)(?P<mark>{_MARK.pattern})|\\.|['\"]", re.ASCII | re.DOTALL)
"""What says in a line for a shell where quotations begin and end, and where a value comes."""
_SPECIAL = re.compile(r"[^\w@%+=:,./\n-]", re.ASCII)


def problem_of(command: Sequence[str], sweep: Sweep) -> str:
    """Why no task can have its values, "" if each can."""
    sizes = [len(source) for source in sweep.sources]
    if any(not 0 < at < len(sizes) or sizes[at] != sizes[at - 1] for at in sweep.linked):
        return "a linked source must have as many values as the one before it"
    longest = [max(map(len, source), default=0) for source in sweep.sources]
    whole, marks = sum(longest), [mark for word in command for mark in _MARK.finditer(word)]
    filled_in = sum(sum(longest[int(mark[2]) - 1 : int(mark[2])]) if mark[2] else whole for mark in marks)
    if sum(map(len, command)) + max(filled_in, whole) > LONGEST:
        return f"what a task runs would have more than {LONGEST:,} characters"
    return ""


def unfit(command: Sequence[str], sweep: Sweep, numbers: Iterable[int], room: int) -> tuple[int, str] | None:
    """The first of these tasks that cannot be run as its values are, and why: it has no program, or more than Linux
    takes. ``room``: bytes for the words and variables of a task, with 8 for each (ARG_MAX, execve(2)).
    """
    empty, long = _may_be_empty(command, sweep), _may_be_long(command, sweep, room)
    for number in numbers if empty or long else ():
        words, variables = launch_of(command, sweep, number)
        if not (words[-1] if sweep.shell and not command else words[0]).strip():
            return number, "it is empty: there is no program to run"
        texts = [*words, *(f"{name}={value}" for name, value in variables.items())]
        sizes = [len(text.encode(errors="surrogateescape")) for text in texts]
        if max(sizes) > LONGEST_WORD:
            what = ARGS_VARIABLE if sizes.index(max(sizes)) == len(words) else "a word of the command"
            return number, f"{what} would have {max(sizes):,} bytes, and Linux allows {LONGEST_WORD:,}"
        if (whole := sum(sizes) + len(sizes) * (_POINTER + 1)) > room:
            return number, f"its words would have {whole:,} bytes, and there is room for {room:,}"
    return None


def _may_be_empty(command: Sequence[str], sweep: Sweep) -> bool:
    if command:
        return not sweep.shell and not _MARK.sub("", command[0]).strip()
    values = (value.strip() for source in sweep.sources for value in source)
    return any(not value or value[0] in "'\"" for value in values)


def _may_be_long(command: Sequence[str], sweep: Sweep, room: int) -> bool:
    """Whether the longest values of all sources together could be too much. Never says no where one task has it."""
    sizes = [
        max((len(one.encode(errors="surrogateescape")) + 3 for one in source), default=0)
        for source in sweep.sources
    ]
    whole = sum(sizes)
    marks = [mark for word in command for mark in _MARK.finditer(word)]
    filled_in = (
        sum(sum(sizes[int(mark[2]) - 1 : int(mark[2])]) if mark[2] else whole for mark in marks) or whole
    )
    of_command = sum(len(word.encode(errors="surrogateescape")) for word in command)
    bound = of_command + (_QUOTED if sweep.shell else 1) * filled_in + whole
    words = len(command) + len(marks) * len(sizes) + (whole if not command else 0)
    return bound > LONGEST_WORD - 64 or bound + (words + 8) * (_POINTER + 1) > room


def values_of(sweep: Sweep, number: int) -> tuple[str, ...]:
    """One value of each source: those of the task with this number."""
    places = places_of(sweep, number)
    return tuple(source[place] for source, place in zip(sweep.sources, places, strict=True))


def places_of(sweep: Sweep, number: int) -> tuple[int, ...]:
    """Where in each source the value of the task with this number is, from 0."""
    left = number - 1
    places: list[int] = []
    followers = 0
    for at in reversed(range(len(sweep.sources))):
        if at in sweep.linked:
            followers += 1
            continue
        left, place = divmod(left, len(sweep.sources[at]))
        places += [place] * (followers + 1)
        followers = 0
    return tuple(reversed(places))


def launch_of(command: Sequence[str], sweep: Sweep, number: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and variables of the task with this number. A value that is a command and cannot be split into
    words is one word.
    """
    values = values_of(sweep, number)
    words = filled(command, values, number, shell=sweep.shell)
    if sweep.prefix:
        words = (*(with_values(word, values, number) for word in sweep.prefix), *words)
    return words, {ARGS_VARIABLE: " ".join(values)}


def filled(command: Sequence[str], values: Sequence[str], number: int, *, shell: bool) -> tuple[str, ...]:
    """The template ``command`` with these values."""
    if not command:
        line = " ".join(values)
        if shell:
            return (*SHELL, line)
        try:
            return tuple(words_of(line))
        except ValueError:
            return (line,)
    words = list(command) if any(map(has_mark, command)) else [*command, "{}"]
    if shell:
        return (*SHELL, _shell_line(" ".join(words), values, number))
    found: list[str] = []
    for word in words:
        if word == "{}":
            found += values
        else:
            found.append(with_values(word, values, number))
    return tuple(found)


def with_values(word: str, values: Sequence[str], number: int) -> str:
    """One word of a template with these values, all of them in it where it says {}."""
    return _replaced(word, values, number, " ".join)


def words_of(line: str) -> list[str]:
    """The words of a command, quoted as for a shell. Raises ValueError for a quotation that does not end."""
    if _QUOTING.search(line):
        return shlex.split(line)
    return _BETWEEN.split(line.strip(" \t\r\n"))  # the same, ten times as fast


def has_mark(word: str) -> bool:
    """Whether a word of a template has anything to replace."""
    return _MARK.search(word) is not None


def highest_source(command: Iterable[str]) -> int:
    """The highest source that a template names, 0 for none."""
    return max((int(mark[2] or 0) for word in command for mark in _MARK.finditer(word)), default=0)


def _shell_line(line: str, values: Sequence[str], number: int) -> str:
    """The line with its values quoted, so that no value is ever read as a part of the line. Within quotations of the
    line itself the special characters have backslashes before them, as GNU parallel has it."""
    quotation = ""

    def quoted(value: str) -> str:
        if not quotation:
            return shlex.quote(value)
        value = _SPECIAL.sub(lambda found: f"\\{found[0]}", value)
        if quotation == '"':
            return value.replace("\n", "'\n'")
        return value.replace("\\'", "'\\''").replace("\n", "'\"\n\"'")

    def token(found: re.Match[str]) -> str:
        nonlocal quotation
        if found["mark"]:  # a backslash before it would undo the quotation of the value
            before = found["escape"] if quotation == "'" else ""
            return before + _replaced(found["mark"], values, number, lambda some: " ".join(map(quoted, some)))
        text = found[0]
        mark = text[-1] if quotation == "'" else text  # there a backslash is a character like any other
        if mark in ("'", '"') and quotation in ("", mark):
            quotation = "" if quotation else mark
        return text

    return _TOKEN.sub(token, line)


def _replaced(text: str, values: Sequence[str], number: int, joined: Callable[[Iterable[str]], str]) -> str:
    def value(mark: re.Match[str]) -> str:
        if mark[1]:
            return str(number)
        chosen = values if not mark[2] else values[int(mark[2]) - 1 : int(mark[2])]
        return joined(_part(one, mark[3] or "") for one in chosen)

    return _MARK.sub(value, text)


def _part(value: str, which: str) -> str:
    """A value without its directory or its extension, or its directory."""
    if which == "//":
        before, _, _ = value.rstrip("/").rpartition("/")
        return before.rstrip("/") or ("/" if value.startswith("/") else ".")
    if which.startswith("/"):
        value = value.rpartition("/")[2]
    if which.endswith("."):
        before, dot, after = value.rpartition(".")
        value = before if dot and "/" not in after else value
    return value
