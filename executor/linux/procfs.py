"""The kernel's table of processes, read straight from /proc; and signals to processes.

Reading ``/proc/PID/stat`` takes about 15 microseconds for each process, against 60 for psutil's objects,
which lack the session.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable

from ..light import Record

_STOP = 1 << (signal.SIGSTOP - 1)
_PF_EXITING = 0x4
_PF_KTHREAD = 0x200000
_AT_SECURE = 23
PIDS = range(1 << 22)
"""Every pid that Linux gives (PID_MAX_LIMIT), and 0 for none."""


class ProcessStat(Record):
    """Fields of /proc/PID/stat (proc(5)). ``start``, in clock ticks after boot, and ``pid`` identify one process."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    cpu_ticks: int
    start: int
    resident_pages: int
    exiting: bool
    """The kernel is ending it (PF_EXITING): it no longer runs its own code, but is not a zombie yet."""
    threads: int = 1
    kernel: bool = False
    """It is a kernel thread (PF_KTHREAD)."""


def oom_kills(*, proc: str = "/proc") -> int:
    """How many processes the OOM killer has ended on this host, for whatever limit; 0 if it is not counted."""
    _, _, counted = read_bytes(f"{proc}/vmstat").partition(b"\noom_kill ")
    return int(counted.split(None, 1)[0] if counted else 0)


def boot_id() -> str:
    """The kernel's identifier of the present boot, "" if the kernel has none."""
    return read_bytes("/proc/sys/kernel/random/boot_id", 64).decode("ascii", "replace").strip()


def read_bytes(path: str, length: int = 1 << 20) -> bytes:
    """The beginning of a file; empty if it does not exist (any more), or may not be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK in case it is a FIFO
    except OSError:
        return b""
    try:
        return os.read(fd, length)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_stat(pid: int, *, proc: str = "/proc") -> ProcessStat | None:
    """The process ``pid``, None if it does not exist. A zombie still exists, with state Z."""
    text = read_bytes(f"{proc}/{pid}/stat", 4096)
    # The command name is in parentheses and may contain anything, even parentheses: count from the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    state = fields[0].decode("ascii")
    if state == "Z" and int(fields[17]) > 1:  # its main thread has ended, and others continue
        state = _state_of_threads(pid, proc)
    return ProcessStat(
        pid=pid,
        state=state,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start=int(fields[19]),
        resident_pages=max(0, int(fields[21])),
        exiting=bool(int(fields[6]) & _PF_EXITING),
        threads=int(fields[17]),
        kernel=bool(int(fields[6]) & _PF_KTHREAD),
    )


def _state_of_threads(pid: int, proc: str) -> str:
    """The state of a thread that has not ended, preferably of a running one; "Z" if all have ended."""
    found = {"Z"}
    try:
        threads = os.listdir(f"{proc}/{pid}/task")
    except OSError:
        return "Z"
    for thread in threads:
        text = read_bytes(f"{proc}/{pid}/task/{thread}/stat", 4096)
        found.add(text[text.rfind(b")") + 2 :][:1].decode("ascii") or "Z")
    return min(found - {"Z", "X"}, key="RDSITt".find, default="Z")


def real_uid(pid: int, *, proc: str = "/proc") -> int:
    """The real user of this process. Raises OSError.

    This is not the owner of /proc/PID, who is root while a setuid program of root's runs.
    """
    with open(f"{proc}/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def author(pid: int, *, proc: str = "/proc") -> int | None:
    """The user who chose the arguments and the environment of a process: its real user.

    None where that is not known: it has ended, or may not be read; or it gained privileges when it was executed
    (AT_SECURE of getauxval(3)), so another user chose them, whoever it runs as by now. If this program gains some, as a
    Python with file capabilities does, so do all daemons, and the kernel shows none of that: then the real user counts.
    """
    with contextlib.suppress(OSError):
        if _gained(f"{proc}/{pid}") == 0 or _gained("/proc/self") != 0:
            return real_uid(pid, proc=proc)
    return None


def _gained(process: str) -> int | None:
    """The value of AT_SECURE of a process, by its directory in /proc; None if it may not be read."""
    words = memoryview(read_bytes(f"{process}/auxv")).cast("L")  # types, each with its value
    return dict(zip(words[::2], words[1::2], strict=False)).get(_AT_SECURE)


def is_ours(pid: int) -> bool:
    """Whether this user chose the arguments and the environment of a process that has our root directory: the same path
    in another container of this host is another node's. False if the process has ended."""
    with contextlib.suppress(OSError):
        return author(pid) == os.getuid() and os.path.samefile(f"/proc/{pid}/root", "/")
    return False


def runnable_threads(processes: Iterable[int], *, proc: str = "/proc") -> int:
    """How many threads of these processes run, or wait for the CPU, now."""
    found = 0
    for pid in processes:
        try:
            threads = os.listdir(f"{proc}/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            stat = read_stat(int(thread), proc=proc)
            found += stat is not None and stat.state == "R"
    return found


def ran_and_waited_ns(pid: int, threads: int, *, proc: str = "/proc") -> tuple[int, int]:
    """How long the threads of a process have run, and waited for the CPU, so far (schedstat's run-queue delay); 0 if
    unknown."""
    folders = [f"{proc}/{pid}"]
    if threads > 1:
        try:
            folders = [f"{proc}/{pid}/task/{thread}" for thread in os.listdir(f"{proc}/{pid}/task")]
        except OSError:
            return 0, 0
    words = [read_bytes(f"{folder}/schedstat", 128).split() for folder in folders]
    known = [found for found in words if len(found) > 1]
    return sum(int(found[0]) for found in known), sum(int(found[1]) for found in known)


def send(pid: int, number: int) -> bool:
    """Send a signal; False if the process is gone or belongs to another user."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def continue_all(processes: list[int]) -> int:
    """Send SIGCONT to all of them. Returns how many got it."""
    return sum(send(pid, signal.SIGCONT) for pid in processes)


def standing(pid: int) -> bool:
    """Whether a process no longer runs its own code: it is stopped, traced, dead, or about to stop.

    A process in uninterruptible sleep with a SIGSTOP pending stops before it returns from the kernel. A
    parent in vfork is an example: it stays there for as long as its stopped child has not executed anything.
    """
    found = read_stat(pid)
    if found is None or found.state in "TtZX":
        return True
    return found.state == "D" and _stop_is_pending(pid)


def stopped_since(pid: int, beside: Collection[int]) -> int | None:
    """The start time of a process that a signal, or a tracer among the processes ``beside``, has stopped; None of any
    other one. A tracer elsewhere may let its process run at any time."""
    found = read_stat(pid)
    if found is None:
        return None
    stopped = found.state == "T" or (found.state == "D" and _stop_is_pending(pid))
    if found.state == "t":
        stopped = any(int(word) in beside for word in _status(pid, b"TracerPid:"))
    return found.start if stopped else None


def _stop_is_pending(pid: int) -> bool:
    pending = _status(pid, b"SigPnd:", b"ShdPnd:")
    return not pending or any(int(mask, 16) & _STOP for mask in pending)


def _status(pid: int, *names: bytes) -> list[bytes]:
    """These fields of /proc/PID/status; nothing of a process that does not exist any more."""
    lines = read_bytes(f"/proc/{pid}/status").splitlines()
    return [line.split()[1] for line in lines if line.startswith(names)]


def all_stopped(processes: list[int]) -> bool:
    """Whether there are live processes, and all of them were stopped by a signal."""
    living = [pid for pid in processes if (found := read_stat(pid)) is not None and found.state not in "ZX"]
    return bool(living) and all(standing(pid) for pid in living)


def virtual_bytes(pids: Iterable[int], *, proc: str = "/proc") -> int:
    """The sum of the processes' address spaces, in bytes (the first figure of statm). Ended processes count as 0."""
    figures = (read_bytes(f"{proc}/{pid}/statm").split() for pid in pids)
    return os.sysconf("SC_PAGE_SIZE") * sum(int(found[0]) for found in figures if found)


def scan(*, proc: str = "/proc") -> dict[int, ProcessStat]:
    """All processes of this host (or pid namespace)."""
    table = {}
    for name in os.listdir(proc):
        if name.isdigit() and (found := read_stat(int(name), proc=proc)) is not None:
            table[found.pid] = found
    return table


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks after boot; None if it does not exist."""
    found = read_stat(pid)
    return None if found is None else found.start


def is_alive(pid: int, start: int) -> bool:
    """Whether exactly that process still runs: its pid may belong to another one by now.

    Raises OSError if that cannot be read now, so that no process is taken for dead because a file descriptor
    is missing.
    """
    found = read_stat(pid)
    if found is None and os.path.exists(f"/proc/{pid}"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            os.close(os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC))
            found = read_stat(pid)  # the failure was temporary
    return found is not None and found.start == start and found.state not in "ZX"


def is_running(pid: int) -> bool:
    """Whether a process exists and is not dead."""
    found = read_stat(pid)
    return found is not None and found.state not in "ZX"


def children(pid: int) -> list[int]:
    """The direct children of a process with a single thread, such as a launcher."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
            return [int(word) for word in listed.read().split()]
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}"):
            # This kernel lacks CONFIG_PROC_CHILDREN.
            return [entry.pid for entry in scan().values() if entry.parent == pid]
        return []
    except (ProcessLookupError, ValueError):
        return []


def environment_marks(pid: int, mark: bytes) -> bool:
    """Whether a process was started with ``mark`` (``NAME=VALUE``) in its environment, as far as we may see it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return mark in environ.read().split(b"\0")
    except OSError:
        return False


class Traces(Record):
    """How the processes of a container are recognised without a cgroup.

    The command, with its pid and start time, leads their session. ``mark`` is a ``NAME=VALUE`` of their
    environment that no other container on this host has (its private directory, in LOCAL_DIRS); only processes of
    ``users`` are believed to have it. All children of ``launcher`` are theirs, while that process is older than the
    command; 0 if it is not known.
    """

    leader: int
    start: int
    mark: bytes
    users: tuple[int, ...] = ()
    launcher: int = 0


def members_of(
    traces: Traces,
    table: dict[int, ProcessStat],
    *,
    orphans: bool = True,
    known: Collection[tuple[int, int]] = (),
) -> list[ProcessStat]:
    """The processes of a container without a cgroup: those of the command's session, the children of its launcher,
    those that were ``known`` before by pid and start time, and the descendants of all of them.

    An orphan with a session of its own is found by the mark in its environment, if one of the container's users chose
    that; ``orphans=False`` skips that search, which reads one file for each process. Dead processes are left out.
    """
    members: set[int] = set()
    leader = table.get(traces.leader)
    # The kernel reuses no pid that is still the id of a session: if another process has the command's pid, the
    # session is gone, and that process does not belong to the container.
    if leader is None or leader.start == traces.start:
        members = {pid for pid, entry in table.items() if entry.session == traces.leader}
    if leader is None:
        # It may have been the session of another process, which had the pid later and has ended, too.
        members = {pid for pid in members if author(pid) in traces.users}
    launcher = table.get(traces.launcher)
    if launcher is not None and launcher.start <= traces.start:
        members.update(pid for pid, entry in table.items() if entry.parent == launcher.pid)
    members.update(pid for pid, start in known if pid in table and table[pid].start == start)
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
    for pid in strangers:
        with contextlib.suppress(OSError):
            # The owner first: anybody's environment may have megabytes.
            marked = os.stat(f"/proc/{pid}").st_uid in traces.users and environment_marks(pid, traces.mark)
            if marked and author(pid) in traces.users and start_time(pid) == table[pid].start:
                members.add(pid)
    return [table[pid] for pid in sorted(members) if table[pid].state not in "ZX"]


def wait_until(
    condition: Callable[[], bool], seconds: float, pause: float = 0.0005, longest: float = 0.01
) -> bool:
    """Wait, in a worker thread, until a condition holds. Returns whether it did in time. Pauses double up to
    ``longest``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(longest, pause * 2)
    return True
