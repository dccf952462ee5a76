"""The program of a pool's processes: one small zygote, from which a launcher is forked for each slot.

It runs by itself (``python -I -S launcher.py SOCKET FILES``) and imports as little as possible: ``signal``
alone takes 8 ms. Forking a launcher takes 1 ms and a few hundred KB, because it shares the pages of its
zygote. A launcher with a cgroup joins it once, and stays there: what it starts is born in the cgroup. A launcher
outside has none: each container comes with the files that its first process joins. A launcher decides nothing:
``slots/pool.py`` sends it one container after another.

A second pair of sockets holds the container that follows the present one, if the node has sent one. When a container
has ended and has left nothing, the launcher takes the next one from there and begins it, without waiting for the node.
The node keeps descriptors of both ends, and takes the container back by receiving it first: one of the two gets it,
never both. With each container that the node sends to the idle launcher, the direction changes: what follows that one
is not taken for what follows the one before it.

A later run of the node reads its journal (``slots/journals.py`` describes the lines): ``begin`` is written before
anything is started, so a container without that line has not begun, and never will once its launcher is dead.

Decisions: launchers, confined.
"""

from __future__ import annotations

import _codecs
import _signal  # type: ignore[import-not-found]
import _socket
import errno
import gc
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LARGEST = 1 << 18
"""The maximum length of a message; a longer request comes in a file, whose descriptor comes with the message."""

ZYGOTE_MESSAGE = 1 << 16

COMPACT_BYTES = 1 << 16
"""A longer journal is emptied before a container that the node sends to an idle launcher: the node has recorded
everything that ended before."""

LONGEST_JOURNAL = 1 << 18
"""With a longer journal, no container follows at once: the next one comes to an idle launcher."""

LEFT_BYTES = 1 << 22
"""How much memory, mostly page cache, a container may leave to the next one in its slot. The kernel would
reclaim it when the next container needs it, but it counts in that container's figures."""

LASTING_PEAK_BYTES = 8 << 20
"""A higher peak that cannot be reset ends the use of a cgroup: it would hide the next container's peak."""

SHORT_MS = 3
"""How long the report of a container's start is held back: a shorter container is reported by one message,
and containers that short usually come in large numbers."""

IGNORED = (1, 2, 3, 10, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27, 29, 30)
"""The numbers of the signals that a launcher ignores, since a container may signal every process that it can
reach: HUP, INT, QUIT, USR1, USR2, PIPE and all others that neither stop a process nor report a fault.
Containers do not inherit this."""

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 1, 32, 4096, 16384, 1 << 19
_PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 24, 36, 38
_RTLD_NOW = 2
REAP_ROUNDS = 2000
"""How often a launcher without a cgroup kills what its container has left, a millisecond apart, before the node is
told. On a busy host a killed process needs many rounds until it has ended and left its own children to the launcher."""
_DROPPED = (2, 16, 17, 19, 21, 22)
"""DAC_READ_SEARCH (open files by handle), SYS_MODULE, SYS_RAWIO, SYS_PTRACE (others' /proc/PID/root),
SYS_ADMIN (mounts and namespaces), SYS_BOOT: with these, root could undo what ``confine`` does."""

_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_UNPROTECTED = b"-1000"
IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30}
IDLE_CLASS = 3 << 13
"""The number of ioprio_set(2), for which the C library has no function, before that of ioprio_get(2); and its idle
class."""
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
"""The number of keyctl(2)."""
SHELL = "/bin/sh"
_SHORT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a container without the variable PATH finds its command, as in dash."""


ACCOUNT = 5
"""The place of the account in a request (``slots.slot.message_of``), after the id and the time."""
WEIGHTS = ("cpu.shares", "cpu.weight", "cpu.weight.nice")
COUNTED = (
    *("procs", "tasks", "threads", "usage", "usage_in_bytes", "failcnt", "peak"),
    *("cpu.pressure", "io.pressure", "irq.pressure", "memory.pressure"),
)
"""The files of a cgroup's weight; and how the names of files end that can be written and change by themselves
(cgroup-v1/*.rst, cgroup-v2.rst). All other files that can be read and written are limits, known here or not."""


class NotStartedError(Exception):
    """A container cannot begin: its exit code, the reason, and the errno if the node may be at fault; ``ours``: the
    node is at fault."""

    def __init__(self, code: int, why: str, number: int = 0, ours: bool = False) -> None:
        super().__init__(code, why, number, ours)


class CrowdedError(Exception):
    """The kernel allows no more processes in this cgroup: the container can be started by one that joins the
    cgroup later."""


def confine(read_only: list[str]) -> bool:
    """Make these directories read-only for this process and all its descendants, so that none of them can undo it,
    or gain privileges from a program. What the kernel refuses is skipped: `yopp doctor` tests what is in force.

    Returns whether the kernel refused nothing.
    """
    call = _calls()
    if call is None:
        return False
    if call("unshare", _CLONE_NEWNS) != 0:
        return False  # not root's node: its containers may start setuid programs like any process
    # What the host mounts later stays visible here. Below a chroot this call fails, and mounts made here
    # would reach the host.
    if call("mount", None, b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        return False
    refused = call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for directory in read_only:
        path = os.fsencode(directory)
        refused |= call("mount", path, path, None, _MS_BIND | _MS_REC, None)
        refused |= call("mount", None, path, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY, None)
    for capability in _DROPPED:
        refused |= call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    return refused == 0


def _calls() -> Callable[..., int] | None:
    """A function that calls functions of the C library by name; None if Python has no _ctypes."""
    try:
        import _ctypes  # 0.6 ms; ctypes itself takes 10
    except ImportError:
        return None
    library = _ctypes.dlopen(None, _RTLD_NOW)  # type: ignore[arg-type]  # this program itself

    def call(name: str, *arguments: object) -> int:
        function = _ctypes.dlsym(library, name)
        return int(_ctypes.call_function(function, arguments))

    return call


def io_priority() -> Callable[..., int]:
    """A function that returns this process's class and priority of I/O, or sets them to its argument; 0 where this
    kernel's numbers are not known."""
    number = IOPRIO_SET.get(os.uname().machine)
    call = _calls() if number else None
    if number is None or call is None:
        return lambda *value: 0
    return lambda *value: call("syscall", number + (not value), 1, 0, *value)


def leave_keyring() -> None:
    """Begin a session keyring of this process's own: whoever inherits one has its keys, whatever the user. Raises
    OSError if there are keyrings and it stays in its own."""
    number, call = KEYCTL.get(os.uname().machine), _calls()
    if number and call is not None:
        before = call("syscall", number, 0, -3, 0)  # KEYCTL_GET_KEYRING_ID of KEY_SPEC_SESSION_KEYRING
        if call("syscall", number, 1, None) < 0 <= before:  # KEYCTL_JOIN_SESSION_KEYRING, a new one
            raise OSError(errno.EDQUOT, "it keeps the keys of its starter's session (keyctl)")


def zygote(control: _socket.socket, files: int, read_only: list[str]) -> None:
    """Fork a launcher for each message, which brings the launcher's socket, until the other end is closed.

    ``files`` is the soft limit on open files, 0 to keep the present one; ``read_only`` as in ``confine``.
    """
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # launchers need no reaping
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if files:
        import resource  # containers have this limit, and launchers need no more

        resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    confined = bool(read_only) and confine(read_only)
    _calls()  # loaded once for all launchers
    gc.disable()
    gc.freeze()
    while True:
        message, ancillary, _, _ = control.recvmsg(
            ZYGOTE_MESSAGE, _socket.CMSG_SPACE(12), _socket.MSG_CMSG_CLOEXEC
        )
        if not message:
            return
        rights = ancillary[0][2]
        fd, *ahead = (int.from_bytes(rights[at : at + 4], sys.byteorder) for at in range(0, len(rights), 4))
        try:
            child = os.fork()
        except OSError as error:
            os.write(fd, marshal.dumps(("refused", f"cannot fork: {error.strerror}", error.errno)))
            child = -1
        if child == 0:
            control.close()
            try:
                launcher(fd, ahead, root, confined, *marshal.loads(message))
            finally:
                os._exit(0)
        for one in (fd, *ahead):
            os.close(one)


def launcher(
    fd: int,
    ahead: list[int],
    root: int,
    confined: bool,
    journal_path: str,
    joins: list[str],
    gauges: list[tuple[str, str, float] | None],
    reaps: bool,
) -> None:
    """Join the cgroup, then start the containers that are sent, until the other end of the socket is closed.

    ``ahead`` are the sockets of the container that follows. ``confined`` is passed on to the node: whether the
    containers are kept from changing cgroups. ``root`` is the root directory from before ``confine``: below it,
    cgroups and the journal can be written. Without ``joins``, the launcher is outside. ``gauges`` as in ``Figures``.
    With ``reaps``, for hosts without cgroups, orphans of a container become children of the launcher, which ends them
    after the command.
    """
    before = f"/proc/self/fd/{root}"
    commands = _socket.socket(fileno=fd)
    os.setsid()
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    for number in IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    try:
        for path in joins:
            _write(before + path, b"0")
        pid, start = os.getpid(), _start_of(os.getpid())
        if _is_alone(commands):
            return  # its node has died: the journal of this name may belong to the next run
        figures = Figures(before, gauges, Limits([before + os.path.dirname(path) for path in joins]))
        journal = JournalFile(before + journal_path, b"launcher %d %d\n" % (pid, start))
        shield = Shield()
        if joins:
            os.close(root)
            root = -1
        if reaps and (call := _calls()) is not None:
            call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except OSError as error:
        path = (error.filename or journal_path).removeprefix(before)
        os.write(fd, marshal.dumps(("refused", f"{path}: {error.strerror}", error.errno)))
        return
    slot = Launcher(
        commands, [_socket.socket(fileno=one) for one in ahead], journal, figures, shield, root, reaps
    )
    _tell(fd, ("ready", pid, start, confined, figures.memory, figures.resets_peak))
    slot.serve()


class Launcher:
    """Runs one container after another. ``root`` is -1 for a launcher in a cgroup; the rest as in ``launcher``."""

    def __init__(
        self,
        commands: _socket.socket,
        ahead: list[_socket.socket],
        journal: JournalFile,
        figures: Figures,
        shield: Shield,
        root: int,
        reaps: bool,
    ) -> None:
        self._root = root
        self._reaps = reaps
        self._commands = commands
        self._fd = commands.fileno()
        self._ahead = ahead
        self._journal = journal
        self._figures = figures
        self._shield = shield
        self._room = bytearray(LARGEST)
        self._may_follow = False
        self._generation = 0

    def serve(self) -> None:
        """Start the containers that are sent, until the other end of the socket is closed."""
        either = select.poll()
        either.register(self._commands, select.POLLIN)
        for one in self._ahead:
            either.register(one, select.POLLIN)
        while True:
            if self._may_follow:
                either.poll()  # the one that follows may come a moment too late
            request = self._following()
            if request is None:
                flags = _socket.MSG_CMSG_CLOEXEC | (_socket.MSG_DONTWAIT if self._may_follow else 0)
                try:
                    length, carried, *_ = self._commands.recvmsg_into(
                        [self._room], _socket.CMSG_SPACE(4), flags
                    )
                except BlockingIOError:  # the node has taken it back
                    continue
                if not length:
                    return
                self._generation += 1
                request = _request_in(carried[0][2]) if carried else self._request(length)
            while request is not None:
                request = self._run(*request)

    def _request(self, length: int) -> tuple:  # type: ignore[type-arg]
        request: tuple = marshal.loads(memoryview(self._room)[:length])  # type: ignore[type-arg]
        return request

    def _run(self, name: str, queued_at: int, *request: object) -> tuple | None:  # type: ignore[type-arg]
        """Run one container, and return the request for the one that follows, None for none. ``queued_at`` is not
        0 if it has followed another one itself."""
        journal = self._journal
        self._may_follow = False  # nothing follows one that cannot begin: the node takes it back
        own = request[ACCOUNT] is None
        base = self._figures.begin(own and queued_at == 0)
        line = begin_line(name, base, queued_at)
        try:
            journal.begin(line, follows=queued_at > 0)
        except OSError as error:
            why = f"cannot write its journal: {error.strerror}"
            self._tell("failed", name, 125, why, error.errno or 0, True)
            return None
        begun = time.monotonic()  # before its first instruction: it has run for no longer than is reported
        try:
            pid = _start(self._shield, self._root, *request)  # type: ignore[arg-type]
        except CrowdedError as error:
            journal.unbegin(len(line))
            os.chdir("/")
            self._tell("crowded", name, *error.args)
            return None
        except NotStartedError as error:
            journal.note(b"end %d\n" % error.args[0])
            os.chdir("/")
            self._tell("failed", name, *error.args)
            return None
        start = _start_of(pid)
        journal.note(b"pid %d %d\n" % (pid, start))
        short = _ends_soon(pid)
        if not short:
            self._tell("started", name, pid, start, base, begun)
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)) and ended.si_pid != pid:
            os.waitpid(ended.si_pid, 0)  # an orphan of the container
        silent = _has_written_nothing(pid, request[3])
        _, status, used = os.wait4(pid, 0)
        seconds = time.monotonic() - begun
        code = status >> 8 if status & 127 == 0 else 128 + (status & 127)
        journal.note(b"end %d\n" % code)
        if self._reaps:
            _end_children()
        figures = self._figures.end(own)
        if self._root >= 0:
            figures = (used.ru_utime + used.ru_stime, *figures[1:])
        self._may_follow = self._figures.clean and not journal.is_long
        following = self._following()
        told = code, figures, "" if following is None else following[0], silent
        if short:
            self._tell("ran", name, pid, start, base, seconds, *told)
        else:
            self._tell("ended", name, *told)
        os.chdir("/")
        return following

    def _following(self) -> tuple | None:  # type: ignore[type-arg]
        """The request for the container that follows, if the last one has left nothing that the node has to end
        or to reclaim."""
        if not self._may_follow:
            return None
        try:
            length = receiver_of(self._ahead, self._generation).recv_into(self._room, 0, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        if not length or _is_alone(self._commands):
            return None  # its node has died: the container waits for the next run
        return self._request(length)

    def _tell(self, *message: object) -> None:
        _tell(self._fd, message)


def sender_of(ahead: Sequence[_socket.socket], generation: int) -> _socket.socket:
    """The end to which to send what follows a container of that generation."""
    return ahead[generation % 2]


def receiver_of(ahead: Sequence[_socket.socket], generation: int) -> _socket.socket:
    """The end from which to receive what follows a container of that generation."""
    return ahead[1 - generation % 2]


def is_limit(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a cgroup's directory is a file of a limit."""
    return entry.stat().st_mode & 0o170600 == 0o100600 and not entry.name.endswith(COUNTED)


class Limits:
    """What limits a launcher and its container: files of its cgroup in each hierarchy, what was made below it, and what
    a process inherits. Root's own containers can change all of that, by a user namespace (cgroup_namespaces(7)); a kill
    by the OOM killer changes it, too."""

    def __init__(self, groups: list[str]) -> None:
        """Open the files, and the directories ``groups``."""
        own = (f"/proc/self/{name}" for name in ("limits", "cgroup"))
        self._weights, self._files = list[int](), [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in own]
        for entry in (entry for group in groups for entry in os.scandir(group) if is_limit(entry)):
            files = self._weights if entry.name in WEIGHTS else self._files
            files.append(os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC))
        self._groups = [os.open(group, os.O_PATH | os.O_CLOEXEC) for group in groups]
        self._io_priority = io_priority()
        #: as the node wants them
        self.sent = self.now()

    def changed(self) -> int:
        """Whether they have changed since: 1 only the weight, which the node may have done, 2 others."""
        now = self.now()
        return 2 if not now or now[1:] != self.sent[1:] else int(now != self.sent)

    def now(self) -> tuple[object, ...]:
        """What they are; empty if that is not known."""
        nested = [os.fstat(fd).st_nlink for fd in self._groups]
        inherited = os.sched_getaffinity(0), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
        try:
            texts = [[os.pread(fd, 4096, 0) for fd in files] for files in (self._weights, self._files)]
        except OSError:
            return ()
        return (*texts, nested, inherited, self._io_priority())


class Figures:
    """What the kernel counts in a launcher's cgroup: seconds of CPU and of throttling, bytes of memory and their
    peak, OOM kills, processes, OOMs at its limit, refused forks; 0 for what it does not count.

    ``gauges`` are these eight: file, the word before the figure, the unit to divide it by; or None. The launcher
    reads them and not the node: it knows the moments when a container begins and ends.
    """

    def __init__(self, before: str, gauges: list[tuple[str, str, float] | None], limits: Limits) -> None:
        """Open the files, below ``before``."""
        self._limits = limits
        opened: dict[str, int] = {}
        self._gauges: list[tuple[int, bytes, float]] = []
        for gauge in gauges:
            path, word, unit = gauge or ("", "", 1)
            if path not in opened:
                opened[path] = _open_gauge(before + path) if path else -1
            self._gauges.append((opened[path], word.encode() + b" " if word else b"", unit))
        self._peak = self._gauges[3][0]
        #: whether the kernel counts the peak from zero for each container
        self.resets_peak = self._reset()
        self._last: tuple[float, ...] | None = None
        self.memory = self._read()[2]
        #: whether the last container has left no process, no more than LEFT_BYTES, no lasting peak, and its limits
        self.clean = True

    def begin(self, sent: bool) -> tuple[float, ...]:
        """The figures with which a container begins; its peak is 0 if it counts from zero. ``sent``: its limits are as
        the node wants them, and it may change them."""
        if sent:
            self._limits.sent = self._limits.now()
        figures = self._last or self._read()
        if self._peak >= 0 and self._reset():
            figures = (*figures[:3], 0, *figures[4:])
        return figures

    def end(self, own: bool) -> tuple[float, ...]:
        """The figures with which it ends, and what of its limits has changed, or may still be changed by what it has
        left; only containers of the node's ``own`` user can change them."""
        figures = self._read()
        changed = self._limits.changed() if own and (figures[5] == 1 or self._gauges[5][0] < 0) else 2 * own
        self.clean = (
            figures[5] == 1
            and not changed
            and figures[2] <= self.memory + LEFT_BYTES
            and (self.resets_peak or figures[3] <= LASTING_PEAK_BYTES)
        )
        # What is left is ended by the node, and counts until then.
        self._last = figures if self.clean else None
        return (*figures, changed)

    def _reset(self) -> bool:
        try:
            os.write(self._peak, b"0\n")  # possible on v1, and on v2 since Linux 6.12
        except OSError:
            return self._peak < 0
        return True

    def _read(self) -> tuple[float, ...]:
        found: list[float] = []
        texts: dict[int, bytes] = {}
        for fd, word, unit in self._gauges:
            figure: float = 0
            if fd >= 0:
                try:
                    text = texts.get(fd) or texts.setdefault(fd, os.pread(fd, 4096, 0))
                    figure = int(text.split(word, 1)[1].split(None, 1)[0] if word else text)
                except (OSError, ValueError, IndexError):
                    figure = 0
            found.append(figure / unit if unit != 1 else figure)
        return tuple(found)


def _open_gauge(path: str) -> int:
    """A descriptor of a file of figures; -1 if this kernel has none."""
    for mode in (os.O_RDWR, os.O_RDONLY):
        try:
            return os.open(path, mode | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
    return -1


def begin_line(name: str, base: tuple[float, ...], queued_at: int = 0) -> bytes:
    """The line of a journal for a container that begins with these figures (``Figures``); ``queued_at`` if it
    follows another one: when its node queued it, in epoch milliseconds."""
    word = f"next {queued_at}" if queued_at else "begin"
    figures = f"{word} {float(base[0])!r} {float(base[1])!r} {int(base[4])} {int(base[3])} "
    return figures.encode() + _codecs.unicode_escape_encode(name)[0] + b"\n"


def _request_in(rights: bytes) -> tuple:  # type: ignore[type-arg]
    """The request in the file whose descriptor came with a message."""
    fd = int.from_bytes(rights[:4], sys.byteorder)
    try:
        request: tuple = marshal.loads(os.pread(fd, os.fstat(fd).st_size, 0))  # type: ignore[type-arg]
    finally:
        os.close(fd)
    return request


def _end_children() -> None:
    """SIGKILL to all children of this process, orphans of its container, and to the orphans of these, until none is
    left. One that keeps forking, or that the kernel does not end, is left to the node."""
    own = os.getpid()
    for _ in range(REAP_ROUNDS):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            with open(f"/proc/{own}/task/{own}/children", "rb") as listed:
                for pid in listed.read().split():
                    os.kill(int(pid), _signal.SIGKILL)
        except ChildProcessError:
            return
        except OSError:
            return  # the node looks itself
        time.sleep(0.001)


def _has_written_nothing(pid: int, out: object) -> bool:
    """Whether a child that has ended, if its output is empty, has lost none: there is room for output, or it has tried
    no write(2), and neither has any child that it has waited for."""
    try:
        room = os.statvfs(out)  # type: ignore[arg-type]
        if room.f_bavail * room.f_frsize >= 4096:  # as for ``watching/outputs.py``
            return True
        with open(f"/proc/{pid}/io", "rb") as counted:
            return b"\nsyscw: 0\n" in counted.read()
    except OSError:
        return False


def _ends_soon(pid: int) -> bool:
    """Whether a child ends within SHORT_MS: one message then reports its whole life, and wakes the node once."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:  # no file descriptor is free
        return False
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(SHORT_MS))
    finally:
        os.close(fd)


def _is_alone(commands: _socket.socket) -> bool:
    """Whether the other end of the socket is closed."""
    try:
        return not commands.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


class JournalFile:
    """The file of a launcher's journal. A line is written whole or not at all, even if the file system is full."""

    def __init__(self, path: str, header: bytes) -> None:
        """Begin the file with its header. Raises OSError."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._length = 0
        self._append(header)
        self._header_length = self._length

    @property
    def is_long(self) -> bool:
        """Whether it should be emptied soon, or misses a line."""
        return self._missed or self._length > LONGEST_JOURNAL

    def begin(self, line: bytes, *, follows: bool = False) -> None:
        """Note that a container begins. Raises OSError if the line cannot be written: then the container must
        not begin.

        The file is also emptied after a line that found no room: that makes some. It is not emptied if the
        container ``follows`` one whose end the node may not have recorded yet.
        """
        if not follows and (self._missed or self._length > COMPACT_BYTES):
            self._anew()
        self._append(line)

    def unbegin(self, length: int) -> None:
        """Remove the last line, of that length: its container has not begun after all. Raises OSError."""
        os.ftruncate(self._fd, self._length - length)
        self._length -= length

    def note(self, line: bytes) -> None:
        """Note what became of the container. If there is no room, the node still gets the message, unless it
        dies first."""
        try:  # noqa: SIM105 (contextlib takes 10 ms to import)
            self._append(line)
        except OSError:
            pass  # ``_missed`` is set

    def _anew(self) -> None:
        # The header stays: a journal without it names no launcher, and containers that begin next would
        # belong to none.
        self._missed = True
        self._length = self._header_length
        os.ftruncate(self._fd, self._length)

    def _append(self, line: bytes) -> None:
        self._missed = True
        written = os.write(self._fd, line)
        if written < len(line):  # the next line would continue this one
            os.ftruncate(self._fd, self._length)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._length += written
        self._missed = False


def _tell(fd: int, message: tuple[object, ...]) -> None:
    try:  # noqa: SIM105 (contextlib takes 10 ms to import)
        os.write(fd, marshal.dumps(message))  # type: ignore[arg-type]
    except OSError:
        pass  # the node has died: its next run reads the journal


class Shield:
    """Protects a launcher from the OOM killer, as far as that is permitted; what it starts inherits the score, and the
    class of I/O, that its container is to have. Nothing else runs in between."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self._own = os.pread(self._fd, 16, 0).strip()
        if self._write(_UNPROTECTED):
            self._own = _UNPROTECTED
        self._io_priority = io_priority()
        self._own_io, self._idle = self._io_priority(), False

    def up(self) -> None:
        """Protect this process from now on."""
        self._write(self._own)
        if self._idle:
            self._io_priority(self._own_io)

    def down(self, score: int, idle: bool) -> None:
        """Take what the process has that is started next: a score that is too low to be permitted stays as it is."""
        self._write(b"%d" % score)
        self._idle = idle
        if idle:
            self._io_priority(IDLE_CLASS)

    def _write(self, score: bytes) -> bool:
        try:
            return os.pwrite(self._fd, score, 0) > 0
        except OSError:
            return False


def _start(
    shield: Shield,
    root: int,
    command: list[str],
    environment: dict[str, str],
    directory: str,
    out: str,
    err: str,
    account: tuple[int, int, list[int], bool] | None = None,
    umask: int = -1,
    score: int = 0,
    idle: bool = False,
    joins: Sequence[str] = (),
    idle_cpu: bool = False,
) -> int:
    """Start the command, and return its pid once it has begun; ``idle`` is the class of I/O, ``idle_cpu`` that of the
    CPU. ``root`` as in ``Launcher``. Raises NotStartedError or CrowdedError."""
    if account is not None or joins or idle_cpu:
        place = root, joins, idle_cpu
        return _fork(place, shield, score, idle, account, command, environment, directory, out, err, umask)
    stdout = stderr = before = -1
    try:
        _enter(directory)
        stdout = _open(out)
        stderr = stdout if err == out else _open(err)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, stdout, 1),
            (os.POSIX_SPAWN_DUP2, stderr, 2),
        ]
        program = _find(command[0], environment)
        if umask >= 0:
            before = os.umask(umask)
        shield.down(score, idle)
        if program:
            try:
                return os.posix_spawn(
                    program, command, environment, file_actions=actions, setsid=True, setsigdef=IGNORED
                )
            except OSError as error:
                _leave_to_a_shell(error, command)
        # A shell reports what is wrong, on the container's own standard error and by its exit code; it also
        # runs a script without an interpreter line.
        words = [SHELL, "-c", 'exec "$@"', SHELL, *command]
        return os.posix_spawn(SHELL, words, environment, file_actions=actions, setsid=True, setsigdef=IGNORED)
    except ValueError as error:  # a NUL in a word or a path, an = in a variable's name
        raise _failure(command, error) from None
    except OSError as error:
        if error.errno == errno.EAGAIN and root < 0:
            raise CrowdedError(error.strerror) from None
        raise _failure(command, error) from None
    finally:
        shield.up()
        if before >= 0:
            os.umask(before)
        for fd in {stdout, stderr} - {-1}:
            os.close(fd)


def _fork(
    place: tuple[int, Sequence[str], bool], shield: Shield, score: int, idle: bool, *request: object
) -> int:
    """Start the command from a forked process, which joins its cgroups, takes the rights of its user, and opens the
    output files itself. ``place``: the root directory, the files to join below it, and whether the process has the
    idle class of the CPU."""
    reading, writing = os.pipe()  # a successful exec closes them
    shield.down(score, idle)
    pid = -1
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        if error.errno == errno.EAGAIN and place[0] < 0:
            raise CrowdedError(error.strerror) from None
        raise NotStartedError(125, f"no process can be started: {error.strerror}", error.errno or 0) from None
    finally:
        if pid != 0:
            shield.up()
    if pid == 0:
        try:
            os.setsid()
            _settle(*place)
            become(*request)  # type: ignore[arg-type]
        except NotStartedError as error:
            os.write(writing, marshal.dumps(error.args))
        finally:
            os._exit(125)
    os.close(writing)
    try:
        told = os.read(reading, LARGEST)
    finally:
        os.close(reading)
    if told:
        os.waitpid(pid, 0)
        raise NotStartedError(*marshal.loads(told))
    return pid


def _settle(root: int, joins: Sequence[str], idle_cpu: bool) -> None:
    """Join these cgroups, and the idle class of the CPU. Raises NotStartedError."""
    for path in joins:
        try:
            _write(f"/proc/self/fd/{root}{path}", b"0")  # zero means the process that writes
        except OSError as error:
            raise NotStartedError(
                125, f"cannot join {path}: {error.strerror}", error.errno or 0, True
            ) from None
    if root >= 0:
        os.close(root)
    if idle_cpu:
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:
            os.nice(19)


def become(
    account: tuple[int, int, list[int], bool] | None,
    command: list[str],
    environment: dict[str, str],
    directory: str,
    out: str,
    err: str,
    umask: int,
) -> None:
    """Turn this process into the command, run as that user, with that umask unless it is -1.

    Raises NotStartedError if it cannot. Everything after the change of the user is done with that user's rights.
    """
    try:
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_DFL)
        if account is not None:
            uid, gid, groups, strict = account
            call = _calls() if strict else None  # that user may not be able to read what Python loads for it
            leave_keyring()
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            if call is not None:
                call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    except OSError as error:
        raise NotStartedError(125, f"cannot change to user {uid}: {error.strerror}") from None
    try:
        _output_to(out, err)
        _enter(directory)
        if umask >= 0:
            os.umask(umask)
        program = _find(command[0], environment)
        if program:
            try:
                os.execve(program, command, environment)
            except OSError as error:
                _leave_to_a_shell(error, command)
        os.execve(SHELL, [SHELL, "-c", 'exec "$@"', SHELL, *command], environment)
    except (OSError, ValueError) as error:  # as in ``_start``
        raise _failure(command, error) from None


def _failure(command: list[str], error: OSError | ValueError) -> NotStartedError:
    """That and why a command cannot be started. A message has no room for a long name."""
    ours = isinstance(error, OSError) and error.errno != errno.E2BIG
    why = error.strerror if isinstance(error, OSError) else error
    number = error.errno or 0 if ours and isinstance(error, OSError) else 0
    return NotStartedError(125 if ours else 126, f"cannot start {command[0][:1000]!r}: {why}", number)


def _leave_to_a_shell(error: OSError, command: list[str]) -> None:
    """A shell would report an error of the command in its own words. Raises NotStartedError or OSError if it cannot:
    the command is too long, or the kernel lacks what every command needs."""
    if error.errno == errno.E2BIG:
        raise _failure(command, error) from None
    if error.errno in _SHORT:
        raise error


def _output_to(out: str, err: str) -> None:
    """Make standard input empty, and these files standard output and error. Raises NotStartedError."""
    for path in {out, err}:
        _make_directories(os.path.dirname(path))
    stdout = _open(out)
    stderr = stdout if err == out else _open(err)
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    for fd, to in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, to)
    for fd in {nothing, stdout, stderr}:
        if fd > 2:
            os.close(fd)


def _make_directories(path: str) -> None:
    try:
        os.makedirs(path, 0o750, exist_ok=True)
    except OSError as error:
        raise NotStartedError(125, f"cannot make {path}: {error.strerror}") from None


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise NotStartedError(126, f"no working directory {directory!r}") from None
    except OSError:
        raise NotStartedError(126, f"the working directory {directory!r} cannot be entered") from None


def _open(path: str) -> int:
    try:
        # An earlier run may have left a FIFO there, whose reader must not be waited for.
        fd = os.open(path, _OUTPUT, 0o640)
    except OSError as error:
        raise NotStartedError(125, f"cannot write {path}: {error.strerror}", error.errno or 0) from None
    os.set_blocking(fd, True)
    return fd


def _find(name: str, environment: dict[str, str]) -> str:
    """The file of a command, as a shell finds it in the container's own PATH; "" if there is none."""
    if "/" in name:
        return name
    for folder in environment.get("PATH", DEFAULT_PATH).split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return ""


def _start_of(pid: int) -> int:
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(fd, 4096).rpartition(b")")[2].split()[19])
    finally:
        os.close(fd)


def _write(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


if __name__ == "__main__":
    zygote(_socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
