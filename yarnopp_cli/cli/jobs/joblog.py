"""``run --joblog FILE``: a line for each task that has ended, in the columns of GNU parallel, and ``--resume`` by it.

Imported only with one of these options.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import stat
from collections.abc import Iterable
from typing import BinaryIO

from executor.light import Record, replace
from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, ContainerState, ExecutionType, Resource

from ...clock import now_ms
from ...errors import UsageError, reason_of
from ...masters.commands import Tasks
from ...masters.sweeps import launch_of
from ...records.history import ApplicationHistory
from ...records.jobs import JobSpec, TaskReport, TaskState
from ...records.reports import ContainerReport
from ...views.containers import shell_code

HEADER = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
_SAFE = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_NO_ENDS = PREEMPTION_STATUSES | {
    ContainerExitStatus.ABORTED,
    ContainerExitStatus.KILLED_BY_APPMASTER,
    ContainerExitStatus.KILLED_BY_RESOURCEMANAGER,
    ContainerExitStatus.KILLED_AFTER_APP_COMPLETION,
}
"""Exit statuses of containers whose task has not ended."""
_SIGNALS = range(129, 129 + 64)
"""Exit codes that a shell gives for signals."""


class JobLogLine(Record):
    """The last line of a task in a job log."""

    exit_code: int
    signal: int
    command: str


def command_of(tasks: Tasks, number: int) -> str:
    """The command of a task on one line: a line for a shell unchanged, words quoted as for a shell."""
    if tasks.sweep is None:
        words = tasks.command
    else:
        words, _ = launch_of(tasks.command, replace(tasks.sweep, prefix=()), number)
        if tasks.sweep.shell:
            return words[-1].translate(_SAFE)
    return shlex.join(words).translate(_SAFE)


def lines_of(path: str) -> dict[int, JobLogLine]:
    """The tasks in a job log; empty if there is no file. An incomplete line is ignored. Raises UsageError."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            if file.readline() not in (HEADER, ""):
                raise _no_log(path, "its first line is not the header of a job log")
            found = {}
            for at, line in enumerate(file, 2):
                if line.endswith("\n"):
                    number, seen = _line(path, at, line)
                    found[number] = seen
            return found
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(path, error) from None


def _line(path: str, at: int, line: str) -> tuple[int, JobLogLine]:
    fields = line.rstrip("\n").split("\t", 8)
    try:
        number, exit_code, signal = int(fields[0]), int(fields[6]), int(fields[7])
        return number, JobLogLine(exit_code, signal, fields[8])
    except (ValueError, IndexError):
        raise _no_log(path, f"line {at} does not have the fields of a job log") from None


def _no_log(path: str, because: str) -> UsageError:
    return UsageError(f"{path} is not a job log", because=because, hint="name another file with --joblog")


def _unusable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"the job log {path} cannot be written",
        because=reason_of(error),
        hint="name another file with --joblog",
    )


def still_to_run(tasks: Tasks, path: str, *, failed: bool) -> Tasks:
    """The tasks that are not in the log; with ``failed`` also the tasks that failed in it. Raises UsageError if the
    log belongs to another command line.
    """
    seen = lines_of(path)
    left = []
    for number in (one for some in tasks.numbers for one in some):
        line = seen.get(number)
        if line is not None and line.command != (command := command_of(tasks, number)):
            raise UsageError(
                f"{path} is the job log of other commands",
                because=f"task {number} was `{line.command}` there, and is `{command}` here",
                hint="use another --joblog, or the command line of that job",
            )
        if line is None or (failed and (line.exit_code or line.signal)):
            left.append(number)
    return replace(tasks, numbers=ranges_of(left))


def ranges_of(numbers: Iterable[int]) -> tuple[range, ...]:
    """The numbers, in order, as ranges."""
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return tuple(found)


class JobLog:
    """Writes the log of a job. ``more``: append to the file. Raises UsageError if it cannot be opened."""

    def __init__(self, path: str, tasks: Tasks, *, more: bool) -> None:
        self.path = path
        self.problem = ""
        self._tasks = tasks
        self._written: set[int] = set()
        self._file: BinaryIO | None = None
        try:
            self._file = _opened(path, more=more)
        except OSError as error:
            raise _unusable(path, error) from None

    def ended(self, task: TaskReport, log_directory: str) -> None:
        """A task has ended for good; a repeated report, after a restart of the RM, is written once. ``problem`` is the
        reason why a line could not be written; no line is written after it."""
        if self._file is None or task.number in self._written:
            return
        self._written.add(task.number)
        began = task.started_at_ms or now_ms()
        ran = max(0, task.finished_at_ms - began) if task.started_at_ms else 0
        written = 0
        with contextlib.suppress(OSError):
            written = os.stat(os.path.join(log_directory, task.container_id, "stdout")).st_size
        code = 0 if task.exit_code is None else task.exit_code
        signal = code - 128 if code in _SIGNALS else 0
        line = (
            f"{task.number}\t{task.node_id or ':'}\t{began / 1000:.3f}\t{ran / 1000:10.3f}\t0\t{written}\t{code}\t"
            f"{signal}\t{command_of(self._tasks, task.number)}\n"
        )
        try:
            self._file.write(line.encode(errors="surrogateescape"))
        except OSError as error:
            self.problem = reason_of(error)
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_afterwards(
    path: str, job: JobSpec, succeeded: Iterable[int], containers: Iterable[ContainerReport]
) -> int:
    """Write the log of a job that has ended, from the cluster's records of its containers. Returns the number of tasks
    that ended well, but whose containers are not recorded any more. A task without a recorded end has no line. Raises
    UsageError.
    """
    phase = job.phases[-1]
    last: dict[int, tuple[ContainerReport, int]] = {}
    for one in sorted(containers, key=lambda one: one.finished_at_ms):
        code = 0 if one.exit_code == 0 else shell_code(one)  # It ended well, although it was being killed.
        if one.task is None or one.is_am or code is None or (code and one.exit_status in _NO_ENDS):
            continue
        last[one.task] = one, code
    log = JobLog(path, Tasks(phase.command, ranges_of(phase.numbers()), phase.sweep), more=False)
    try:
        for number, (one, code) in sorted(last.items(), key=lambda item: item[1][0].finished_at_ms):
            task = TaskReport(
                len(job.phases) - 1,
                number,
                TaskState.FAILED if code else TaskState.SUCCEEDED,
                one.execution_type,
                container_id=one.container_id,
                node_id=one.node_id,
                exit_code=code,
                started_at_ms=one.started_at_ms,
                finished_at_ms=one.finished_at_ms,
            )
            log.ended(task, os.path.dirname(one.log_directory))
        if log.problem:
            raise _unusable(path, OSError(errno.EIO, log.problem))
    finally:
        log.close()
    return sum(number not in last for number in succeeded)


def containers_in(history: ApplicationHistory) -> list[ContainerReport]:
    """The containers of tasks whose ends are among the stored events of a job."""
    app, found = history.application, []
    for event in history.events:
        numbers = event.numbers
        if event.container and "exitStatus" in numbers:
            ended = numbers["at"]
            report = ContainerReport(
                event.container,
                app.application_id,
                event.node,
                ExecutionType.GUARANTEED,  # The type is unknown: a job log does not need it.
                Resource(),
                ContainerState.DONE,
                task=history.task_of(event.container),
                exit_status=numbers["exitStatus"],
                exit_code=numbers.get("exitCode"),
                started_at_ms=ended - numbers["ranMs"] - numbers.get("pausedMs", 0)
                if "ranMs" in numbers
                else 0,
                finished_at_ms=ended,
                log_directory=os.path.join(app.log_directory, event.container),
            )
            found.append(report)
    return found


def _opened(path: str, *, more: bool) -> BinaryIO:
    """The log, of which each line is written at once. An incomplete line at its end is removed; a file is locked for
    this job while it is open. A pipe or a device gets the lines as they come. Raises OSError.
    """
    kind = os.O_RDWR | os.O_CREAT
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            kind = os.O_WRONLY
    try:
        descriptor = os.open(path, kind | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(errno.ENXIO, "it is a pipe without a reader") from None
    file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 - its owner closes it
    try:
        os.set_blocking(descriptor, True)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or _is_ours(descriptor):
            file.write(HEADER.encode())
            return file
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another job is writing it") from None
        size = _whole(descriptor) if more else 0
        os.ftruncate(descriptor, size)
        if not size:
            file.write(HEADER.encode())
    except OSError:
        file.close()
        raise
    return file


def _is_ours(descriptor: int) -> bool:
    """Whether our own output goes to the same file, as with /dev/stdout: other processes then write there, too."""
    here = os.fstat(descriptor)
    for ours in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(here, os.fstat(ours)):
                return True
    return False


def _whole(descriptor: int) -> int:
    """The number of bytes up to the end of the last complete line."""
    size = os.fstat(descriptor).st_size
    while size:
        begin = max(0, size - 4096)
        end = os.pread(descriptor, size - begin, begin).rfind(b"\n")
        if end >= 0:
            return begin + end + 1
        size = begin
    return 0
