"""The kernel's table of processes, read straight from /proc: who is whose child, in which session, in what
state.

One read of ``/proc/PID/stat`` a process (about 15 microseconds), against 60 for psutil's objects, which
also do not tell the session. And signals to processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass

_STOP = 1 << (signal.SIGSTOP - 1)
_PF_EXITING = 0x4


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Fields of /proc/PID/stat (proc(5)). ``start`` in clock ticks after boot: with ``pid`` it names one
    process.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    cpu_ticks: int
    start: int
    resident_pages: int
    exiting: bool
    """The kernel is ending it (PF_EXITING): it runs nothing of its own any more, and is no zombie yet."""


def read_stat(pid: int) -> ProcessStat | None:
    """One process, None where there is none. A zombie is still there, with state Z."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The command name stands in parentheses and may hold anything, parentheses too: count from the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    return ProcessStat(
        pid=pid,
        state=fields[0].decode("ascii"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start=int(fields[19]),
        resident_pages=max(0, int(fields[21])),
        exiting=bool(int(fields[6]) & _PF_EXITING),
    )


def real_uid(pid: int, *, proc: str = "/proc") -> int:
    """The user who runs this process. Raises OSError.

    Not the owner of /proc/PID, which is root while anybody runs a program of root's that is setuid.
    """
    with open(f"{proc}/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def runnable_threads(processes: list[int]) -> int:
    """How many of their threads run or wait for a processor now."""
    found = 0
    for pid in processes:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            stat = read_stat(int(thread))
            found += stat is not None and stat.state == "R"
    return found


def send(pid: int, number: int) -> bool:
    """Send a signal; False where the process is gone or not ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def continue_all(processes: list[int]) -> int:
    """Let them go on; to how many that could be said."""
    return sum(send(pid, signal.SIGCONT) for pid in processes)


def standing(pid: int) -> bool:
    """Whether a process runs no instruction of its own any more: stopped, traced, dead, or about to stop.

    One in uninterruptible sleep with a SIGSTOP pending stops before it returns from the kernel. A parent in
    vfork is such a one: it stays there for as long as its stopped child has not executed anything.
    """
    found = read_stat(pid)
    if found is None or found.state in "TtZX":
        return True
    return found.state == "D" and _stop_is_pending(pid)


def _stop_is_pending(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            pending = [line.split()[1] for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return True
    return any(int(mask, 16) & _STOP for mask in pending)


def all_stopped(processes: list[int]) -> bool:
    """Whether there are living processes, and all of them stand still because of a signal."""
    living = [pid for pid in processes if (found := read_stat(pid)) is not None and found.state not in "ZX"]
    return bool(living) and all(standing(pid) for pid in living)


def virtual_bytes(pids: Iterable[int], *, proc: str = "/proc") -> int:
    """The sum of their address spaces, in bytes (the first figure of statm). Who has ended counts nothing."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in pids:
        try:
            with open(f"{proc}/{pid}/statm", encoding="ascii") as file:
                total += int(file.read().split()[0]) * page
        except (OSError, ValueError, IndexError):
            continue
    return total


def scan() -> dict[int, ProcessStat]:
    """All processes of this host (or pid namespace)."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := read_stat(int(name))) is not None:
            table[found.pid] = found
    return table


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks after boot; None where there is none."""
    found = read_stat(pid)
    return None if found is None else found.start


def is_alive(pid: int, start: int) -> bool:
    """Whether that very process still runs: the pid may have been given to another one since."""
    found = read_stat(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def children(pid: int) -> list[int]:
    """Direct children of a process with a single thread, such as our shim; [] where it has none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
            return [int(word) for word in listed.read().split()]
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}"):
            # A kernel without CONFIG_PROC_CHILDREN.
            return [entry.pid for entry in scan().values() if entry.parent == pid]
        return []
    except (ProcessLookupError, ValueError):
        return []


def environment_marks(pid: int, mark: bytes) -> bool:
    """Whether a process was started with ``mark`` (``NAME=VALUE``) in its environment, as far as we may see
    it.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environ:
        return mark in environ.read().split(b"\0")
    return False


@dataclass(frozen=True, slots=True)
class Traces:
    """How the processes of a container are known where no cgroup holds them.

    The shim's pid and start time: it leads their session. ``mark`` is a ``NAME=VALUE`` of their environment
    that no other container on this host has (its private directory, in LOCAL_DIRS).
    """

    shim: int
    start: int
    mark: bytes


def members_of(traces: Traces, table: dict[int, ProcessStat], *, orphans: bool = True) -> list[ProcessStat]:
    """The processes of a container that no cgroup holds: those of the shim's session, and their descendants.

    An orphan that made a session of its own is found by the mark in its environment; ``orphans`` False saves
    that search, which reads a file a process. The shim itself is not among them, nor what is dead already.
    """
    members: set[int] = set()
    shim = table.get(traces.shim)
    # The kernel gives no pid away that is still the id of a session: once the shim's is somebody else's,
    # nothing of its session is left, and whoever has the pid now is none of ours.
    if shim is None or shim.start == traces.start:
        members = {pid for pid, entry in table.items() if entry.session == traces.shim}
    own_session = os.getsid(0)
    strangers = []
    for pid, entry in table.items():
        if pid in members:
            continue
        ancestor, steps = entry.parent, 0
        while ancestor in table and ancestor > 1 and ancestor not in members and steps < 64:
            ancestor, steps = table[ancestor].parent, steps + 1
        if ancestor in members:
            members.add(pid)
        elif orphans and entry.start >= traces.start and entry.session != own_session:
            strangers.append(pid)
    members.update(pid for pid in strangers if environment_marks(pid, traces.mark))
    return [table[pid] for pid in sorted(members) if pid != traces.shim and table[pid].state not in "ZX"]


def belonging_to(shim: int, container_id: str, table: dict[int, ProcessStat]) -> list[ProcessStat]:
    """``members_of`` for a shim that lives, and an id that no other container on this host has."""
    start = table[shim].start if shim in table else 0
    return members_of(Traces(shim, start, b"CONTAINER_ID=" + os.fsencode(container_id)), table)
