"""The standard input of the containers of ``yopp run``: ``--stdin`` and ``--pipe``; otherwise empty.

Imported only with one of these options, or with piped input.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from executor.light import replace

from ...clock import now_ms
from ...cluster.clientfiles import JOBS, PIPE, ClientDirectory
from ...cluster.rundir import RunDir
from ...errors import UsageError, YoppError, reason_of
from ...jobs.tasklines import MOST_TASKS
from ...masters.commands import Tasks
from ...masters.sweeps import filled, has_mark, highest_source, values_of
from ...records.jobs import Sweep

READS = ("/bin/sh", "-c", 'exec "$@" <"$0"')
"""The program that runs a command with a file as its standard input; the file and the command follow."""
BLOCK = "1M"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_PIECE = 1 << 16
_CHUNK = 1 << 20


class Block:
    """The size of a task's piece: a number of bytes and the rest of the line, or a number of lines."""

    def __init__(self, text: str) -> None:
        digits, unit = text[:-1] if text[-1:].isalpha() else text, text[-1:].upper()
        self.lines = unit == "L"
        known = self.lines or unit in _UNITS or unit.isdecimal()
        if not (known and digits.isdecimal() and len(digits) < 12 and int(digits)):
            raise UsageError(
                f"--block {text} is not a size",
                because="a size is a number of bytes with K, M or G, or of lines with L, above 0",
                hint="--block 10M, or --block 1000L",
            )
        self.number = int(digits) * (1 if self.lines or unit.isdecimal() else _UNITS[unit])


@contextmanager
def fed(
    tasks: Tasks, file: str | None, block: str | None, directory: str, run_dir: RunDir
) -> Iterator[Tasks]:
    """``tasks`` whose commands read ``file``, or with ``block`` a piece of our own standard input each. The pieces are
    removed at the end. Raises YoppError."""
    if block is None:
        assert file is not None
        _check(tasks, file, directory)
        yield _reading(file, tasks)
        return
    if tasks.sweep is not None or tasks.numbers != (range(1, 2),):
        raise UsageError(
            "--pipe cannot be used with -n, --from, --array or :::",
            because="--pipe makes a task for each piece of the standard input",
            hint="yopp run --pipe --block 10M -- COMMAND <FILE",
        )
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "--pipe reads standard input, which is a terminal",
            because="nothing is piped into it",
            hint="yopp run --pipe -- COMMAND <FILE",
        )
    size = Block(block)
    try:
        pieces = ClientDirectory(f"{run_dir.state_dir}/{JOBS}", f"{PIPE}{now_ms()}")
    except YoppError as error:
        raise _unwritable(error.because) from None
    try:
        paths = _cut(sys.stdin.buffer, pieces.path, size)
        numbers = (range(1, len(paths) + 1),)
        yield replace(_reading("{}", tasks), sweep=Sweep((tuple(paths),)), numbers=numbers)
    finally:
        pieces.remove()


def _reading(file: str, tasks: Tasks) -> Tasks:
    """``tasks`` with a file as their standard input."""
    name = tasks.name or tasks.command[0].rpartition("/")[2]
    return replace(tasks, command=(*READS, file, *tasks.command), name=name)


def _unwritable(because: str) -> YoppError:
    return YoppError(
        "the standard input cannot be stored for the tasks",
        because=because,
        hint="nothing was started; set YOPP_RUN_DIR to a place with enough room",
    )


def _cut(source: BinaryIO, directory: str, block: Block) -> list[str]:
    """Copy the input into files of whole lines, at least one. Returns their paths. Raises YoppError."""
    paths: list[str] = []
    try:
        line = source.readline(_PIECE)
        while line or not paths:
            if len(paths) == MOST_TASKS:
                raise UsageError(
                    f"the standard input has more than {MOST_TASKS:,} pieces",
                    because="that is the largest number of tasks of a job",
                    hint="use a larger --block",
                )
            paths.append(os.path.join(directory, str(len(paths) + 1)))
            with open(paths[-1], "xb") as piece:
                if block.lines:
                    line = _lines(source, piece, line, block.number)
                else:
                    line = _bytes(source, piece, line, block.number)
    except OSError as error:
        raise _unwritable(reason_of(error)) from None
    return paths


def _bytes(source: BinaryIO, piece: BinaryIO, line: bytes, number: int) -> bytes:
    """Copy this many bytes, starting with ``line``, and the rest of the last line. Returns the start of the next
    piece."""
    piece.write(line)
    last, left = line, number - len(line)
    while left > 0 and (data := source.read(min(left, _CHUNK))):
        piece.write(data)
        last, left = data, left - len(data)
    line = source.readline(_PIECE)
    while line and not last.endswith(b"\n"):
        piece.write(line)
        last, line = line, source.readline(_PIECE)
    return line


def _lines(source: BinaryIO, piece: BinaryIO, line: bytes, number: int) -> bytes:
    """Copy this many lines, starting with ``line``. Returns the start of the next piece."""
    while line and number:
        piece.write(line)
        number -= line.endswith(b"\n")
        line = source.readline(_PIECE)
    return line


def _check(tasks: Tasks, file: str, directory: str) -> None:
    """Raise UsageError for a file that a task cannot read."""
    if not tasks.command or (tasks.sweep is not None and tasks.sweep.shell):
        raise UsageError(
            "--stdin needs a COMMAND without --shell",
            because="a shell line redirects its own input",
            hint="write <FILE in the line",
        )
    if not has_mark(file):
        _check_readable(file, file, directory)
        return
    sources = 0 if tasks.sweep is None else len(tasks.sweep.sources)
    if tasks.sweep is None or highest_source([file]) > sources or (sources > 1 and "{}" in file):
        raise UsageError(
            f"--stdin {file} does not name a file for each task",
            because=f"{'a task has one value' if sources == 1 else f'a task has {sources} values'}, {{1}} is the first",
            hint="yopp run --stdin in/{1}.txt wc -l ::: a b",
        )
    for number in (one for numbers in tasks.numbers for one in numbers):
        (path,) = filled((file,), values_of(tasks.sweep, number), number, shell=False)
        _check_readable(path, f"{path}, which task {number} reads,", directory)


def _check_readable(path: str, named: str, directory: str) -> None:
    whole = os.path.join(directory, path)
    try:
        with open(os.open(whole, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                return
        why = "it is a directory"
    except OSError as error:
        why = reason_of(error)
    raise UsageError(
        f"{named} cannot be read",
        because=why,
        hint="--stdin names a file that each container can read",
    )


def refuse_unread() -> None:
    """Raise UsageError if data is piped into this command, because no container reads it.

    A pipe or file that our parent process has open, too, belongs to the parent: a loop of a shell (``while read``)
    must not lose its lines. (dash itself opens the file of ``<FILE`` in scripts, too: no error is then raised.)
    """
    try:
        here = os.fstat(0)
        if not (stat.S_ISFIFO(here.st_mode) or stat.S_ISREG(here.st_mode)):
            return
        theirs = os.stat(f"/proc/{os.getppid()}/fd/0")
        if (here.st_dev, here.st_ino) == (theirs.st_dev, theirs.st_ino):
            return
        if stat.S_ISREG(here.st_mode):
            left = here.st_size - os.lseek(0, 0, os.SEEK_CUR)
        else:
            (left,) = struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, b"\0" * 4))
    except OSError:
        return  # The owner of the pipe or file is unknown.
    if left > 0:
        raise UsageError(
            "no container would read the standard input",
            because="containers have no standard input, and data is piped into this command",
            hint="--stdin FILE, --pipe (a piece for each task), --from - (a line for each task), or </dev/null",
        )
