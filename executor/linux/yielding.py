"""How containers yield besides their cgroups: to the OOM killer, in I/O, and, without cgroups, for the CPU.

When memory of the host ends, the kernel ends the process with the highest score first; opportunistic containers have
the highest (proc(5), oom_score_adj). The idle class of I/O (ioprio_set(2)) is served when nobody else wants the disk.
A process inherits all of them. A launcher sets them before the command begins; here they are changed for
processes that run. Nobody but root may lower a score below the one with which root let it begin, and leave SCHED_IDLE
without RLIMIT_NICE.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable

from .launcher import IDLE_CLASS, IOPRIO_SET
from .procfs import read_bytes

_LIBRARY = ctypes.CDLL(None, use_errno=True)


def change(processes: Callable[[], list[int]], score: int, *, idle: bool, for_cpu: bool) -> str:
    """Change all these processes, and those that they start meanwhile; ``for_cpu``: their class of the CPU, too.
    Returns what the kernel refused, "" for nothing. Raises OSError if they cannot be listed."""
    refused: dict[str, None] = {}
    own, done = _score_of(os.getpid()), set[int]()
    while new := set(processes()) - done:
        done |= new
        for pid in new:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                try:
                    with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
                        file.write(b"%d" % score)
                except PermissionError:
                    if _score_of(pid) not in (b"%d" % score, own):
                        refused["its score for the OOM killer (oom_score_adj)"] = None
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    if not _set_io_class(thread, idle):
                        refused["its class of I/O (ioprio_set)"] = None
                    try:
                        policy = os.SCHED_IDLE if idle else os.SCHED_OTHER
                        if for_cpu and os.sched_getscheduler(thread) != policy:
                            os.sched_setscheduler(thread, policy, os.sched_param(0))
                    except PermissionError:
                        refused["its class of the CPU (SCHED_IDLE)"] = None
    return ", ".join(refused)


def _score_of(pid: int) -> bytes:
    return read_bytes(f"/proc/{pid}/oom_score_adj", 16).strip()


def _set_io_class(thread: int, idle: bool) -> bool:
    """Returns False if the kernel refuses it; True if the thread has ended, or this kernel has other numbers."""
    number = IOPRIO_SET.get(os.uname().machine)
    call = _LIBRARY.syscall
    return not number or call(number, 1, thread, IDLE_CLASS if idle else 0) == 0 or ctypes.get_errno() != 1
