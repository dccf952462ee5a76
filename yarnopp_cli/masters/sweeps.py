"""Sweeps: the command of each task of a template, with the replacement strings of GNU parallel. Pure.

If a command has no replacement string, all values are appended. Without a command, the value itself is the
command. ``{}`` stands for all values, ``{2}`` for that of the second source; ``.`` removes the extension,
``/`` the directory, ``//`` keeps only the directory, ``/.`` removes both: ``{.}``, ``{2/.}``. ``{#}`` is the
number of the task.

Decisions: sweeps-as-templates.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..records.jobs import ARGS_VARIABLE, Sweep

ItemT = TypeVar("ItemT")

SHELL = ("/bin/sh", "-c")
_QUOTING = re.compile(r"['\"\\]")
BLANKS = " \t\r\n"
"""The characters that separate the words of a line, as in a shell; other blanks (no-break space) are characters of a
word."""
_BETWEEN = re.compile(f"[{BLANKS}]+")
LONGEST_WORD = 128 * 1024 - 1
"""The most bytes of a word or a variable, without its NUL: MAX_ARG_STRLEN of Linux (execve(2))."""
_POINTER = 8
_QUOTED = 5
"""The most bytes that one byte of a value can become when it is quoted for the shell."""
_MARK = re.compile(r"\{(?:(#)|([1-9]\d{0,4})?(/\.|//?|\.)?)\}", re.ASCII)
_TOKEN = re.compile(rf"(?P<escape>\\?)(?P<mark>{_MARK.pattern})|\\.|['\"]", re.ASCII | re.DOTALL)
"""The tokens in a shell line that matter here: escapes, quotes, and replacement strings."""
_SPECIAL = re.compile(r"[^\w@%+=:,./\n-]", re.ASCII)


def problem_of(sweep: Sweep) -> str:
    """The error text if the values make no sweep, "" if they do."""
    sizes = [len(source) for source in sweep.sources]
    if any(not 0 < at < len(sizes) or sizes[at] != sizes[at - 1] for at in sweep.linked):
        return "a linked source must have as many values as the one before it"
    return ""


def longest_of(command: Sequence[str], sweep: Sweep) -> int:
    """The largest number of characters of the words and the variable of a task, if the words of its values are not
    quoted."""
    longest = [max(map(len, source), default=0) for source in sweep.sources]
    filled_in = sum(sum(_named_by(mark, longest)) for mark in _marks(command))
    return sum(map(len, command)) + max(filled_in, sum(longest)) + sum(longest)


def unfit(command: Sequence[str], sweep: Sweep, numbers: Iterable[int], room: int) -> tuple[int, str] | None:
    """The first of these tasks that cannot run with its values, and why: it has no program, or is longer than
    Linux allows. ``room`` is the number of bytes for the words and variables of a task, with 8 for each
    (ARG_MAX, execve(2)).
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
    """Whether the longest values of all sources together could be too long. Never False if a task
    is too long."""
    sizes = [
        max((len(one.encode(errors="surrogateescape")) + 3 for one in source), default=0)
        for source in sweep.sources
    ]
    whole = sum(sizes)
    marks = _marks(command)
    filled_in = sum(sum(_named_by(mark, sizes)) for mark in marks) or whole
    of_command = sum(len(word.encode(errors="surrogateescape")) for word in command)
    bound = of_command + (_QUOTED if sweep.shell else 1) * filled_in + whole
    words = len(command) + len(marks) * len(sizes) + (whole if not command else 0)
    return bound > LONGEST_WORD - 64 or bound + (words + 8) * (_POINTER + 1) > room


def values_of(sweep: Sweep, number: int) -> tuple[str, ...]:
    """The values of the task with this number, one of each source."""
    places = places_of(sweep, number)
    return tuple(source[place] for source, place in zip(sweep.sources, places, strict=True))


def places_of(sweep: Sweep, number: int) -> tuple[int, ...]:
    """The index, from 0, in each source of the value of the task with this number."""
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
    """The command and variables of the task with this number. A value that is itself the command, but cannot
    be split into words, is one word.
    """
    values = values_of(sweep, number)
    words = filled(command, values, number, shell=sweep.shell)
    if sweep.prefix:
        words = (*(with_values(word, values, number) for word in sweep.prefix), *words)
    return words, {ARGS_VARIABLE: " ".join(values)}


def filled(command: Sequence[str], values: Sequence[str], number: int, *, shell: bool) -> tuple[str, ...]:
    """The template ``command`` filled with these values."""
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
    """One word of a template filled with these values; ``{}`` within it is replaced by all of them."""
    return _replaced(word, values, number, " ".join)


_VARIABLE = r"\$(?:\w+|[{(@*#?!$-])|`"
_TO_A_SHELL = re.compile(
    rf"""'[^']*'|\\.|"((?:\\.|[^"\\])*)"|([<>|;]|&&|&(?!\S)|{_VARIABLE})""", re.ASCII | re.DOTALL
)
_IN_QUOTES = re.compile(rf"\\.|({_VARIABLE})", re.ASCII | re.DOTALL)
_EXEC = re.compile(r"\s-(exec|ok)(dir)?\s")


def words_of(line: str) -> list[str]:
    """The words of a command line with a shell's quotes. Raises ValueError for a quotation without an end."""
    if _QUOTING.search(line):
        return shlex.split(line)
    return _BETWEEN.split(line.strip(BLANKS))  # the same result, ten times as fast


def shells_mark(line: str) -> str:
    """The first construct in a command line that a shell would interpret, but ``words_of`` does not: a redirection, a
    pipe, a list, a variable or a substitution, outside of quotes that protect it. "" if there is none. A ``;`` that
    ends the ``-exec`` of find is correct only without a shell."""
    for found in _TO_A_SHELL.finditer(line):
        if found[1] and (inner := next(filter(None, _IN_QUOTES.findall(found[1])), "")):
            return str(inner)
        if found[2] and not (found[2] == ";" and _EXEC.search(line)):
            return found[2]
    return ""


def has_mark(word: str) -> bool:
    """Whether a word of a template has a replacement string."""
    return _MARK.search(word) is not None


def highest_source(command: Iterable[str]) -> int:
    """The highest source that a template names, 0 for none."""
    return max((int(mark[2] or 0) for mark in _marks(command)), default=0)


def _marks(command: Iterable[str]) -> list[re.Match[str]]:
    return [mark for word in command for mark in _MARK.finditer(word)]


def _named_by(mark: re.Match[str], each: Sequence[ItemT]) -> Sequence[ItemT]:
    """The items of the sources that a replacement string names; ``each`` has one for each source."""
    return each[int(mark[2]) - 1 : int(mark[2])] if mark[2] else each


def _shell_line(line: str, values: Sequence[str], number: int) -> str:
    """The line with its values quoted, so that the shell never interprets a value. Within quotations of the
    line itself, special characters are escaped by backslashes, as in GNU parallel."""
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
        if found["mark"]:  # A backslash before it would undo the quotation of the value.
            before = found["escape"] if quotation == "'" else ""
            return before + _replaced(found["mark"], values, number, lambda some: " ".join(map(quoted, some)))
        text = found[0]
        # In single quotes a backslash is an ordinary character.
        mark = text[-1] if quotation == "'" else text
        if mark in ("'", '"') and quotation in ("", mark):
            quotation = "" if quotation else mark
        return text

    return _TOKEN.sub(token, line)


def _replaced(text: str, values: Sequence[str], number: int, joined: Callable[[Iterable[str]], str]) -> str:
    def value(mark: re.Match[str]) -> str:
        if mark[1]:
            return str(number)
        return joined(_part(one, mark[3] or "") for one in _named_by(mark, values))

    return _MARK.sub(value, text)


def _part(value: str, which: str) -> str:
    """A value without its directory or its extension, or only its directory."""
    if which == "//":
        before, _, _ = value.rstrip("/").rpartition("/")
        return before.rstrip("/") or ("/" if value.startswith("/") else ".")
    if which.startswith("/"):
        value = value.rpartition("/")[2]
    if which.endswith("."):
        before, dot, after = value.rpartition(".")
        value = before if dot and "/" not in after else value
    return value
