"""The values of a sweep, read as a stream from a file or standard input; errors name the line number.

Reads files. Whether a line can be run is checked here as far as possible, before the submission.
"""

from __future__ import annotations

import os
import re
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

from ..errors import UsageError, YoppError, reason_of, unseen
from ..masters.sweeps import BLANKS, LONGEST_WORD, words_of
from ..records.jobs import ARGS_VARIABLE
from ..views.text import number_of
from .commands import ANEW

MOST_TASKS = 100_000
LONGEST = LONGEST_WORD - len(f"{ARGS_VARIABLE}=")
"""The longest line in bytes: a task has it in a variable."""

STDIN = "-"
_CHUNK = 1 << 16


def values_of(path: str, *, null: bool = False) -> Iterator[tuple[int, str]]:
    """The lines of a file, numbered from 1, without their newlines; with ``null`` each ends with a NUL byte
    instead. Raises UsageError for a line that cannot be an argument.
    """
    if path == STDIN and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            "- reads lines from standard input, which is a terminal",
            because="nothing is piped into it",
            hint="ls | yopp run --from - COMMAND",
        )
    descriptor = 0
    try:
        if path != STDIN:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(descriptor, "rb", closefd=path != STDIN) as file:
            pieces = _between_nuls(file) if null else iter(lambda: file.readline(LONGEST + 2), b"")
            for number, line in enumerate(pieces, 1):
                if number == 1 and not null:
                    line = line.removeprefix(
                        BOM_UTF8
                    )  # The byte order mark names the encoding of the file, and does not belong to its text.
                yield number, _text(path, number, line if null else line.removesuffix(b"\n"))
    except OSError as error:
        raise UsageError(
            f"cannot read {named(path)}", because=reason_of(error), hint="name a file of lines"
        ) from None


def _between_nuls(file: BinaryIO) -> Iterator[bytes]:
    """The records that end with a NUL byte, and what follows the last one; of a record that is too long, a
    piece that is too long.
    """
    rest = b""
    while data := file.read(_CHUNK):
        *whole, rest = (rest + data).split(b"\0")
        yield from whole
        if len(rest) > LONGEST:
            yield rest
            rest = b""
    if rest:
        yield rest


def named(path: str) -> str:
    """The name of a file of lines for messages."""
    return "standard input" if path == STDIN else path


def bad_line(path: str, number: int, because: str, hint: str) -> UsageError:
    """The error for a line that cannot be run."""
    return UsageError(f"line {number} of {named(path)} cannot be run", because=because, hint=hint)


def _text(path: str, number: int, line: bytes) -> str:
    if len(line) > LONGEST:
        raise bad_line(path, number, f"it has more than {LONGEST:,} bytes", "write it into a script")
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise bad_line(path, number, "it begins with the byte order mark of UTF-16", "re-encode it as UTF-8")
    if b"\0" in line:
        raise bad_line(path, number, "it has a NUL byte, which an argument cannot contain", "remove it")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise bad_line(
            path, number, "it is not UTF-8, as everything in a job must be", "re-encode it"
        ) from None


def commands_of(path: str, find: Callable[[str], object] | None) -> Iterator[tuple[int, str]]:
    """The command lines of a file: all lines except empty ones and lines that begin with #.

    ``find`` is called with the program of each line, and raises YoppError if it cannot be run; without
    ``find`` the lines are for the shell, which parses them itself.
    """
    found: set[str] = set()
    for number, line in values_of(path):
        text = line.strip(BLANKS)
        if not text or text.startswith("#"):
            continue
        if find is None and (marks := unseen(re.split(f"[{BLANKS}]", text, maxsplit=1)[0])):
            raise bad_line(path, number, f"its first word has {marks}", ANEW)
        if find is not None:
            try:
                program = words_of(text)[0]
            except ValueError as error:
                because = f"it is not a command: {str(error).lower()}"
                raise bad_line(path, number, because, "with --shell, /bin/sh reads the lines") from None
            if program not in found:
                try:
                    find(program)
                except YoppError as error:
                    raise _located(path, number, error) from None
                found.add(program)
        yield number, text


def _located(path: str, number: int, error: YoppError) -> YoppError:
    """The error with its file and line number."""
    return YoppError(
        f"line {number} of {named(path)}: {error.message}",
        because=error.because,
        hint=error.hint if unseen(error.message) else "with --shell, /bin/sh reads the lines",
        exit_code=error.exit_code,
    )


def at_most(path: str, lines: Iterable[tuple[int, str]]) -> tuple[str, ...]:
    """The texts of numbered lines. Raises UsageError if there are more than MOST_TASKS."""
    found: list[str] = []
    for number, text in lines:
        if len(found) == MOST_TASKS:
            because = f"a job has {MOST_TASKS:,} tasks at most"
            raise bad_line(path, number, because, "split the file, and submit a job for each part")
        found.append(text)
    return tuple(found)


class Columns:
    """Splits a value into columns at the matches of a regular expression, without the blanks around each
    column, as GNU parallel's ``--colsep`` does. Raises UsageError for an invalid expression.
    """

    def __init__(self, separator: str) -> None:
        try:
            self._separator = re.compile(separator)
        except re.error as error:
            raise UsageError(
                f"--colsep {separator} is not a regular expression",
                because=str(error),
                hint="--colsep ',', or '\\t'",
            ) from None

    def cut(self, values: Sequence[str], origin: str) -> list[tuple[str, ...]]:
        """The columns of the values, each a tuple over all values. ``origin`` names a value, with {} for its
        number.
        """
        rows = [self._row(value) for value in values]
        for number, row in enumerate(rows, 1):
            if len(row) != len(rows[0]):
                raise UsageError(
                    f"{origin.replace('{}', str(number), 1)} has {number_of(len(row), 'column')}",
                    because=f"{origin.replace('{}', '1', 1)} has {len(rows[0])}, and all need the same number",
                    hint="--colsep matches the separator between two columns",
                )
        return list(zip(*rows, strict=True)) or [()]

    def _row(self, value: str) -> list[str]:
        found, begin = [], 0
        for match in self._separator.finditer(value):  # split() would return the groups, too
            if match.end() > match.start():
                found.append(value[begin : match.start()].strip(" "))
                begin = match.end()
        return [*found, value[begin:].strip(" ")]
