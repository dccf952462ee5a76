"""Copies the containers' output from their log files to the client's own output, while it is written.

The log files are the buffer: when the reader of the client's output is slow, less is read from them, and nothing else
is delayed. The bytes of one container are copied unchanged; of several, whole lines. Alternatively the output of each
task is kept together, one task after the other; the next task's output then waits in its file.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Callable, Collection, Iterable

from executor.regular import ANY_SIZE, open_regular

CHUNK = 65_536
_ATOMIC = select.PIPE_BUF
"""The number of bytes that a pipe accepts without blocking when poll reports it writable (pipe(7))."""

"""A container may replace its log file with a link or a FIFO: follow no link, wait for no writer."""

POLL_SECONDS = 0.05
"""The interval, in seconds, at which files are read while a container runs. When the RM reports the end, they are read
again."""


BUDGET_SECONDS = 0.01
"""The longest turn of copying, so that the master is not delayed, and the time to the next turn."""


class Sink:
    """One of the client's own streams. Never blocks on a pipe: what the pipe does not accept stays pending.

    ``before_write`` is called before each write, to clear a progress line.
    """

    def __init__(self, descriptor: int, before_write: Callable[[], None] | None = None) -> None:
        self._descriptor = descriptor
        self._before_write = before_write
        self._pending = bytearray()
        self._blocks = _is_slow(descriptor)
        self.closed = False
        self.problem: OSError | None = None
        """Why the sink was closed."""
        self.at_line_start = True

    @property
    def is_free(self) -> bool:
        """Whether all data given to the sink has been written."""
        return not self._pending

    def write(self, data: bytes) -> None:
        """Write as much as possible without waiting, and keep the rest; drop it once the reader has gone."""
        if self.closed:
            return
        self._pending += data
        self.flush()

    def flush(self, wait: float = 0.0) -> None:
        """Write pending data, waiting up to ``wait`` seconds for the reader to accept some."""
        if self._pending and self._before_write is not None:
            self._before_write()
        try:
            while self._pending and not self.closed:
                if self._blocks and not self._polled(select.POLLOUT, wait):
                    return
                wait = 0.0
                size = _ATOMIC if self._blocks else CHUNK
                written = os.write(self._descriptor, self._pending[:size])
                self.at_line_start = self._pending[written - 1 : written] == b"\n"
                del self._pending[:written]
        except BlockingIOError:
            return
        except OSError as error:
            self._close(error)

    def look(self) -> None:
        """Notice that the reader has gone, without writing."""
        if self.closed or not self._blocks:
            return
        if self._polled(0) & (select.POLLERR | select.POLLHUP):
            self._close(OSError(errno.EPIPE, os.strerror(errno.EPIPE)))

    def abandon(self, problem: OSError) -> None:
        """Close the sink, because its reader is known to have gone: the descriptor may meanwhile have been
        redirected to /dev/null, which accepts everything.
        """
        if not self.closed:
            self._close(problem)

    @property
    def target(self) -> tuple[int, int] | None:
        """Device and inode of the file behind the descriptor; None if that is closed."""
        try:
            facts = os.fstat(self._descriptor)
        except OSError:
            return None
        return facts.st_dev, facts.st_ino

    def _close(self, problem: OSError) -> None:
        self.closed = True
        self.problem = problem
        self._pending.clear()

    def _polled(self, events: int, wait: float = 0.0) -> int:
        poller = select.poll()
        poller.register(self._descriptor, events)
        return sum(event for _, event in poller.poll(wait * 1000))


def _is_slow(descriptor: int) -> bool:
    """Whether writing may have to wait for a reader: true for everything but a regular file."""
    try:
        return not stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False


class _Stream:
    """One log file on its way to one sink."""

    def __init__(self, path: str, sink: Sink, prefix: bytes, *, in_lines: bool) -> None:
        self._path = path
        self._sink = sink
        self._prefix = prefix
        self._lines = in_lines
        self._descriptor = -1
        self._line = bytearray()

    def pump(self) -> bool:
        """Copy one piece. Returns whether there was one. The file is not read while the sink does not accept data: the
        file may have gigabytes.
        """
        if self._sink.closed or not self._sink.is_free:
            return False
        if self._descriptor < 0:
            try:
                self._descriptor = open_regular(self._path, most=ANY_SIZE)
            except OSError:
                # The file does not exist yet, or never will: a container that has not run has no files.
                return False
        try:
            data = os.read(self._descriptor, CHUNK)
        except OSError:
            return False
        if data:
            shown = self._in_lines(data) if self._lines else data
            if shown:
                self._sink.write(shown)
            else:
                self._sink.look()  # No output is written yet, so check whether the reader has gone.
        return bool(data)

    def _in_lines(self, data: bytes) -> bytes:
        self._line += data
        end = self._line.rfind(b"\n") + 1
        if not end:
            if len(self._line) < CHUNK:
                return b""
            if self._prefix:
                self._line += b"\n"  # A longer line is shown in pieces.
            end = len(self._line)
        whole = bytes(self._line[:end])
        del self._line[:end]
        return self._prefixed(whole)

    def _prefixed(self, lines: bytes) -> bytes:
        if not self._prefix:
            return lines
        return b"".join(self._prefix + line for line in lines.splitlines(keepends=True))

    def finish(self) -> None:
        """Write an unfinished last line, and close the file: everything has been read."""
        if self._line:
            if self._prefix:
                self._line += b"\n"
            self._sink.write(self._prefixed(bytes(self._line)))
            self._line.clear()
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _Turns:
    """The order of output if each task's output is kept together: one task after the other."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)
        self._ended: set[int] = set()
        self._containers: dict[int, list[str]] = {}
        self._now = next(self._numbers, None)
        self._all_ended = False

    def add(self, container_id: str, number: int) -> None:
        """Add a container of a task, which may have had others before."""
        self._containers.setdefault(number, []).append(container_id)

    def task_ended(self, number: int) -> None:
        """Note that this task will have no further container."""
        self._ended.add(number)

    def all_ended(self) -> None:
        """Note that no task will have a further container."""
        self._all_ended = True

    def shown(self, left: Collection[str]) -> list[str]:
        """The containers whose turn it is; ``left`` are those whose output is not completely shown."""
        while self._now is not None:
            if found := [one for one in self._containers.get(self._now, ()) if one in left]:
                return found[:1]
            if self._now not in self._ended and not self._all_ended:
                break
            self._ended.discard(self._now)
            self._containers.pop(self._now, None)
            self._now = next(self._numbers, None)
        return list(left) if self._now is None else []


class OutputFollower:
    """Copies stdout and stderr of a job's containers. ``log_directory`` holds one directory per container.
    ``in_lines``: lines of several containers are not mixed. ``order``: the output of each of these tasks is
    kept together, in this order.
    """

    def __init__(
        self,
        log_directory: str,
        out: Sink,
        err: Sink,
        *,
        prefixed: bool,
        in_lines: bool = False,
        order: Iterable[int] | None = None,
    ) -> None:
        self._log_directory = log_directory
        self._out = out
        self._err = err
        self._prefixed = prefixed
        self._in_lines = prefixed or (in_lines and order is None)
        self._turns = None if order is None else _Turns(order)
        self._one_reader = out.target is not None and out.target == err.target
        self._streams: dict[str, tuple[_Stream, _Stream]] = {}
        self._ended: dict[str, None] = {}
        self._done: set[str] = set()

    @property
    def reader_gone(self) -> bool:
        """Whether the reader of the client's stdout has gone before everything was written."""
        problem = self._out.problem
        return problem is not None and problem.errno in (errno.EPIPE, errno.EIO)

    @property
    def lost(self) -> OSError | None:
        """Why a part of the containers' stdout could not be copied; None if nothing was lost, or if the
        reader has gone.
        """
        return None if self.reader_gone else self._out.problem

    def watch(self, container_id: str, number: int) -> None:
        """Begin to copy the output of this container, which runs."""
        if container_id and container_id not in self._streams and container_id not in self._done:
            prefix = b"[%d] " % number if self._prefixed else b""
            directory = f"{self._log_directory}/{container_id}"
            self._streams[container_id] = (
                _Stream(f"{directory}/stdout", self._out, prefix, in_lines=self._in_lines),
                _Stream(f"{directory}/stderr", self._err, prefix, in_lines=self._in_lines),
            )
            if self._turns is not None:
                self._turns.add(container_id, number)

    def ended(self, container_id: str, number: int) -> None:
        """Copy the rest of the output of this container, which has ended, then forget it."""
        self.watch(container_id, number)
        if container_id in self._streams:
            self._ended[container_id] = None

    def task_ended(self, number: int) -> None:
        """Note that this task has ended for good: with an order, the next task's output follows."""
        if self._turns is not None:
            self._turns.task_ended(number)

    def tick(self, now: float) -> float | None:
        """Copy the present output. Returns the time of the next turn, None for not before an event."""
        until = time.monotonic() + BUDGET_SECONDS
        while moved := self._pump():
            if time.monotonic() > until:
                break
        if moved or not (self._out.is_free and self._err.is_free):
            return now + BUDGET_SECONDS
        return now + POLL_SECONDS if self._streams else None

    def drain(self, keep_on: Callable[[], bool]) -> None:
        """Copy everything that is left, as fast as it is accepted, while ``keep_on`` returns true."""
        self._ended.update(dict.fromkeys(self._streams))
        if self._turns is not None:
            self._turns.all_ended()
        while (self._streams or not self._out.is_free or not self._err.is_free) and keep_on():
            if not self._pump():
                for sink in (self._out, self._err):
                    sink.flush(wait=0.05)

    def close(self) -> None:
        """Close all files."""
        for streams in self._streams.values():
            for stream in streams:
                stream.close()
        self._streams.clear()

    def _pump(self) -> bool:
        """Copy one piece of every stream. Returns whether there was any."""
        self._out.flush()
        self._err.flush()
        moved = False
        shown = list(self._streams) if self._turns is None else self._turns.shown(self._streams)
        for container_id in shown:
            for stream in self._streams[container_id]:
                moved |= stream.pump()
        for container_id in [one for one in shown if one in self._ended]:
            moved |= self._empty(container_id)
        if self._one_reader and (moved or self._err.closed):
            self._out.look()  # For `2>&1 | head`, where perhaps no output is ever written to stdout.
            if self._out.problem is not None:
                self._err.abandon(self._out.problem)
        return moved

    def _empty(self, container_id: str) -> bool:
        """Copy the rest of an ended container's output. Returns whether it is finished."""
        streams = self._streams[container_id]
        for stream in streams:
            while stream.pump():
                pass
        if not (self._out.is_free and self._err.is_free):
            return False
        for stream in streams:
            stream.finish()
        del self._ended[container_id]
        del self._streams[container_id]
        self._done.add(container_id)
        return True
