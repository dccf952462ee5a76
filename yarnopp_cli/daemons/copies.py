"""A copy of this daemon's machine, made by ``fork``: it answers a question about the future and ends.

The kernel shares the memory and copies what either side writes, so a copy costs the loop a few milliseconds however
large the machine is. The child runs pure code only: it has no thread of its parent, no descriptor but the pipe of its
answer, no signal handler, and at most ``SECONDS`` of CPU time; it ends with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeVar

import msgspec

from executor.linux.processes import set_parent_death_signal

SECONDS = 2
"""How long a copy may take."""
MOST_COPIES = 8
"""At most this many are at work: nobody fills the host with questions."""


Answer = TypeVar("Answer")


def ask_copy(
    copies: set[asyncio.Task[None]],
    work: Callable[[], Answer],
    kind: type[Answer],
    tell: Callable[[Answer | None, str], None],
) -> None:
    """Have ``work`` done in a copy of this process, and ``tell`` what it returns, a ``kind``; None, and why, if there
    can be no copy, or if it does not answer in time. ``copies`` are those at work.
    """

    if len(copies) >= MOST_COPIES:
        tell(None, f"{MOST_COPIES} copies of this daemon are at work: ask again")
        return

    async def ask() -> None:
        found, failed = None, ""
        try:
            found = msgspec.json.decode(await _answer_of(work), type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            failed = str(error)
        tell(found, failed)

    copy = asyncio.create_task(ask())
    copies.add(copy)
    copy.add_done_callback(copies.discard)


async def _answer_of(work: Callable[[], object]) -> bytes:
    pid, reader = _fork(work)
    try:
        found = await asyncio.wait_for(_read(reader), SECONDS)
    except TimeoutError:
        found = b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not found:
        raise OSError(f"the copy of the daemon has not answered within {SECONDS} s")
    return found


def _fork(work: Callable[[], object]) -> tuple[int, int]:
    """The child's pid, and the end of the pipe from which its answer is read."""
    reader, writer = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of threads: the child takes no lock of theirs
            pid = os.fork()
        if not pid:
            _be_copy(work, writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(writer)
    return pid, reader


def _be_copy(work: Callable[[], object], writer: int) -> NoReturn:
    try:
        gc.disable()  # a collection would write to all of the shared memory
        set_parent_death_signal(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(writer, 0)
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        left = memoryview(msgspec.json.encode(work()))
        while left:
            left = left[os.write(0, left) :]
    finally:
        os._exit(0)


async def _read(reader: int) -> bytes:
    """All that comes until the other end is closed."""
    loop, found = asyncio.get_running_loop(), []
    stream = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb")
    )
    try:
        while block := await stream.read(1 << 20):
            found.append(block)
    finally:
        transport.close()
    return b"".join(found)
