"""Starts the process of a container under its shim, recognises it after a restart, and notices its end.

The shim (``shim.sh``) is our child and the command's parent. It leads a session of its own. Its pid and start
time identify the container's process: the shim exists from the start, and a moment longer than the command,
which is its only child (``command_pid``).

Decisions: shim.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import logging
import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..errors import LaunchError, reason_of
from ..light import Record
from ..regular import NotRegularError, read_regular
from . import exact, launcher, procfs
from .cgroups.files import leave_freezer
from .descriptors import limit_of_children
from .keeping import ABOVE_SHELL, KeptProgram, OpenProgram
from .procfs import PIDS, children, is_alive, read_bytes, send, standing, start_time, wait_until
from .yielding import idle_io

LOG = logging.getLogger(__name__)

SHELL = "/bin/sh"
CANNOT_FORK = 75
"""The exit code of a shim that could not fork the process of the command; there is no exit file then."""
CANNOT_BEGIN = 74
"""The exit code of a shim whose exit file could not be made, or whose process could not join a cgroup; there is no exit
file then, or it is empty."""
EXIT_CODES = range(256)
SHIM_NAME = "shim.sh"
SHIM = os.fspath(Path(__file__).with_name(SHIM_NAME))

_SHELL_VARIABLES = ("SHLVL", "OLDPWD", "_", "PWD")
"""Variables that shells other than dash add to the environment."""


class LaunchRequest(Record):
    """What is needed to start one process. ``join`` are the ``cgroup.procs`` (v1: ``tasks``) files that the
    process joins first."""

    container_id: str
    command: tuple[str, ...]
    environment: dict[str, str]
    working_directory: str
    stdout: str
    stderr: str
    exit_file: str
    join: tuple[str, ...] = ()
    account: tuple[int, int, list[int], bool] | None = None
    """The account to run as: uid, gid, groups, and whether the process is kept from gaining privileges
    (no_new_privs). None: this process's own."""
    umask: int = -1
    """That of the command; -1 for this process's own."""
    oom_score_adj: int = 0
    idle: bool = False
    """Its score for the OOM killer (proc(5)); whether it has the idle class of I/O, and without cgroups of the CPU."""


class Launched(Record):
    """The identity of the started process: the shim's pid, and its start time in clock ticks after boot."""

    pid: int
    start: int


class Ended(Record):
    """The end of a process. Only a child of ours has figures: ``cpu_seconds`` of it and its children, the
    ``signal`` that ended it or 0, and the ``exit_code`` if it ended by itself.

    The kernel's maximum of resident memory is useless here: a child of vfork begins with its parent's.
    """

    cpu_seconds: float = 0.0
    signal: int = 0
    exit_code: int | None = None


class CannotLaunchError(LaunchError):
    """A container could not be started. ``exit_code``: 127 not found, 126 not executable, 125 any failure of
    yopp."""

    def __init__(self, message: str, exit_code: int = 125, *, because: str = "", hint: str = "") -> None:
        super().__init__(message, because=because, hint=hint)
        self.exit_code = exit_code


class ShimLauncher:
    """Starts each container under a shell of its own."""

    def __init__(self, *, reaps: bool = False, read_only: tuple[str, ...] = ()) -> None:
        """With ``reaps``, for hosts without cgroups, the orphans of a container become children of its shim,
        which ends them after the command. Containers can only read the directories ``read_only``, as far as
        the kernel can enforce that, and none of them can undo it."""
        self._read_only = read_only
        self._enter, self._exactly = OpenProgram(launcher), OpenProgram(exact)
        self._first = ("--reaps",) if reaps else ()
        self._in_child = partial(_prctl, PR_SET_CHILD_SUBREAPER, 1) if reaps else None
        self._shim = KeptProgram(SHIM)
        self._clean = os.path.basename(os.path.realpath(SHELL)) == "dash"

    def launch(self, request: LaunchRequest) -> Launched:
        """Start the shim. If the command cannot be executed, 126 or 127 is its exit code."""
        # Make the exit file first: what cannot be made keeps nothing from being repeated.
        return self._start(request, ("--begin", *request.join))

    def _start(self, request: LaunchRequest, steps: tuple[str, ...]) -> Launched:
        check_command(request)
        limit = limit_of_children()
        given = (f"--files={limit}",) if limit else ()
        without_cgroups = bool(self._first)
        idle = ("--idle",) if request.idle and without_cgroups else ()
        state = os.path.dirname(request.exit_file)
        told, inherited = -1, list[int]()
        if request.account is not None or self._read_only:
            told = self._entry_file(request)
        try:
            shim = self._shim.at(state)
            if told >= 0:
                command = [sys.executable, "-I", "-S", self._enter.path, launcher.ENTER, str(told)]
                environment: dict[str, str] = {}
                inherited = [told, self._enter.descriptor]
            else:
                command, environment, inherited = self._exact(request.command, request.environment)
                # the last step: the shim's own file has the mode that the node gives it
                steps += (f"--umask={request.umask:o}",) if request.umask >= 0 else ()
            arguments = [
                SHELL,
                shim,
                request.exit_file,
                *self._first,
                *given,
                f"--oom={request.oom_score_adj}",
                *idle,
                *steps,
                "--",
                *command,
            ]
            return self._run(request, arguments, environment, inherited)
        except OSError as error:
            raise _launch_error(request, error) from error
        finally:
            if told >= 0:
                os.close(told)

    def _entry_file(self, request: LaunchRequest) -> int:
        """A file with everything that ``launcher.enter`` needs: neither the shell, which runs as root, nor a
        command line, which everybody may read, gets a variable of the container. Raises LaunchError."""
        own = request.account is None
        out, err = ("", "") if own else (request.stdout, request.stderr)
        try:
            _check_strings(request)
            words = (list(request.command), dict(request.environment), request.working_directory, out, err)
            content = marshal.dumps((list(self._read_only), request.account, *words, request.umask))
            made = os.memfd_create("yopp-container")
            try:
                found = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, ABOVE_SHELL)
            finally:
                os.close(made)
            try:
                with open(found, "wb", closefd=False) as file:
                    file.write(content)
            except OSError:
                os.close(found)
                raise
        except (OSError, ValueError) as error:
            raise _launch_error(request, error) from error
        return found

    def _run(
        self,
        request: LaunchRequest,
        arguments: list[str],
        environment: dict[str, str],
        inherited: list[int],
    ) -> Launched:
        own = request.account is None  # another user opens its output itself
        stdout = _open_log(request.stdout if own else os.devnull)
        try:
            stderr = _open_log(request.stderr) if own and request.stderr != request.stdout else os.dup(stdout)
            try:
                with idle_io(request.idle):
                    process = subprocess.Popen(
                        arguments,
                        stdin=subprocess.DEVNULL,
                        stdout=stdout,
                        stderr=stderr,
                        cwd=request.working_directory if own else "/",
                        env=environment,
                        start_new_session=True,
                        close_fds=True,
                        pass_fds=inherited,
                        preexec_fn=self._in_child,
                    )
            except ValueError as error:
                raise _launch_error(request, error) from error
            finally:
                os.close(stderr)
        finally:
            os.close(stdout)
        # Its end is awaited by pidfd and wait4, never through this object, which must not warn when it is dropped.
        process.returncode = 0
        return Launched(process.pid, start_time(process.pid) or 0)

    def _exact(
        self, command: tuple[str, ...], environment: dict[str, str]
    ) -> tuple[list[str], dict[str, str], list[int]]:
        """The command, the environment for its shim, and the descriptors that it inherits. If the shell would change
        that environment, a program that restores it is put before the command."""
        odd = exact.odd_in(environment)
        added: list[str] = []
        if not self._clean:
            added = [word for name in _SHELL_VARIABLES if name not in environment for word in ("-u", name)]
        words = ["/usr/bin/env", *added, *command] if added else list(command)
        if not odd:
            return words, environment, []
        if any(not name or "=" in name for name in odd):
            return words, environment, []  # the kernel refuses to execute with these
        carried = environment | {exact.CARRIER: exact.packed(odd, environment)}
        program = [sys.executable, "-I", "-S", "-Xutf8", self._exactly.path]
        return [*program, *words], carried, [self._exactly.descriptor]


def check_command(request: LaunchRequest) -> None:
    """Refuse a command that no shell could start, in a shell's own words. Raises CannotLaunchError."""
    check_words(request.command)
    if request.account is not None:
        return  # whether that user may enter it is checked with that user's rights
    if not os.path.isdir(request.working_directory):
        raise CannotLaunchError(f"no working directory {request.working_directory!r}", 126)
    if not os.access(request.working_directory, os.X_OK):
        raise CannotLaunchError(f"the working directory {request.working_directory!r} cannot be entered", 126)


def _check_strings(request: LaunchRequest) -> None:
    """Raise ValueError for strings that execve(2) cannot take."""
    words = (*request.command, *request.environment, *request.environment.values())
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    if any(not name or "=" in name for name in request.environment):
        raise ValueError("illegal environment variable name")


def check_words(command: tuple[str, ...]) -> None:
    """Refuse words that are not a command. Raises CannotLaunchError."""
    if not command:
        raise CannotLaunchError("no command was given", 127)
    if not command[0] or command[0].startswith("-"):
        raise CannotLaunchError(f"{command[0]!r}: command not found", 127)


def _open_log(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # An earlier run may have left a FIFO there, whose reader we must not wait for, or a link, which may
        # lead anywhere.
        descriptor = os.open(path, flags | os.O_NONBLOCK, 0o640)
    except OSError as error:
        raise CannotLaunchError(f"cannot write {path}", because=reason_of(error)) from error
    os.set_blocking(descriptor, True)
    return descriptor


def _launch_error(request: LaunchRequest, error: OSError | ValueError) -> CannotLaunchError:
    ours = isinstance(error, OSError) and error.errno != errno.E2BIG
    return CannotLaunchError(
        f"cannot start {request.command[0]!r}", 125 if ours else 126, because=reason_of(error)
    )


def command_pid(shim: int) -> int | None:
    """The pid of a shim's command; None before it exists, after its end, or if ``shim`` is not a shim."""
    found = children(shim) if exit_file_of(shim) else ()
    return found[0] if found else None


class ExitFile(Record):
    """The content of an exit file: the shim's own pid, 0 before it began, and the exit code, None while there
    is none."""

    pid: int = 0
    exit_code: int | None = None


def read_exit_file(path: str) -> ExitFile | None:
    """The content of an exit file, None if there is no file. A line counts once it has its newline,
    and a number that is no pid or no exit code counts as none: a container of the same user may have written it.

    Raises OSError if the file exists but cannot be read now.
    """
    try:
        text = read_regular(path, most=1 << 12)
    except FileNotFoundError:
        return None
    except NotRegularError:
        text = b""  # the container has replaced it: the exit code is unknown
    pid, code, *_ = (*(int(line) for line in text.split(b"\n")[:-1] if line.isdigit()), -1, -1)
    return ExitFile(pid if pid in PIDS else 0, code if code in EXIT_CODES else None)


def is_shim(pid: int, exit_file: str) -> bool:
    """Whether that process is the shim of this exit file: its pid may belong to another process by now."""
    return exit_file_of(pid) == exit_file != ""


def exit_file_of(pid: int) -> str:
    """The exit file of the shim with that pid, which may not exist yet; "" if the process is not a shim of ours."""
    path = _exit_file_in_arguments(pid)
    return path if path and procfs.is_ours(pid) else ""


def _exit_file_in_arguments(pid: int) -> str:
    """The exit file in the arguments of a shim: of this program, or of another installation that an upgrade left
    running. "" for arguments of anything else. Any user can give them to a process."""
    words = read_bytes(f"/proc/{pid}/cmdline", 8192).split(b"\0", 3)
    is_one = len(words) == 4 and words[1].rpartition(b"/")[2] == os.fsencode(SHIM_NAME)
    return os.fsdecode(words[2]) if is_one else ""


def claim_exit_file(path: str) -> bool:
    """Make the exit file before any shim can: then a shim that was started but has not begun never begins."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


RETRY_SECONDS = 0.1
"""The delay before a retry of what failed because file descriptors or memory were short."""


class ExitWatcher:
    """Calls back when processes end, children or not: by one pidfd in the loop for each, without threads or
    polling."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._fds: dict[int, int] = {}

    def watch(self, pid: int, start: int, ended: Callable[[Ended], None], *, is_child: bool = False) -> None:
        """Call ``ended`` once, from the loop, when that process has ended; soon, if it has ended already.

        ``is_child``: it is our child and was not waited for, so its pid cannot belong to another process.
        """
        try:
            fd = _pidfd_of(pid, None if is_child else start)
        except OSError as error:
            LOG.warning("cannot watch %d yet: %s", pid, error.strerror)
            again = partial(self.watch, pid, start, ended, is_child=is_child)
            self._loop.call_later(RETRY_SECONDS, again)
            return
        if fd < 0:
            self._loop.call_soon(ended, Ended())
            return
        self._fds[pid] = fd
        self._loop.add_reader(fd, self._readable, pid, ended)

    def _readable(self, pid: int, ended: Callable[[Ended], None]) -> None:
        self._forget(pid)
        ended(reap(pid))

    def _forget(self, pid: int) -> None:
        fd = self._fds.pop(pid, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)

    def close(self) -> None:
        """Stop watching; the processes continue."""
        for pid in list(self._fds):
            self._forget(pid)


def _pidfd_of(pid: int, start: int | None) -> int:
    """A pidfd of exactly that process, or of whichever has that pid if ``start`` is None; -1 if it has ended. Raises
    OSError if that cannot be known now."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    same = False
    try:
        same = start is None or is_alive(pid, start)
    finally:
        if not same:
            os.close(fd)
    return fd if same else -1


def reap(pid: int) -> Ended:
    """Wait for a child that has ended. Returns how it ended, and what it and its children used; ``Ended()``
    if it is not our child, or still runs."""
    try:
        found, status, used = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Ended()
    if found == 0:
        return Ended()
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    return Ended(used.ru_utime + used.ru_stime, ended_by, code)


def kill_identified(pid: int, start: int) -> None:
    """Send SIGKILL to exactly that process, and to no other one that has its pid by now."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if is_alive(pid, start):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            leave_freezer(pid)
    except OSError as error:
        LOG.debug("cannot kill %d: %s", pid, error)
    finally:
        os.close(fd)


def kill_shim(pid: int, start: int) -> None:
    """Send SIGKILL to a shim and to the child that it has just started, which may not have joined its cgroup yet."""
    if not is_alive(pid, start):
        return
    send(pid, signal.SIGSTOP)
    wait_until(lambda: standing(pid), 1.0)
    # A stopped shim starts no further child.
    for child in children(pid):
        send(child, signal.SIGKILL)
    kill_identified(pid, start)
    wait_until(lambda: not is_alive(pid, start), 1.0)


def shims_of(state_directory: str) -> dict[str, list[procfs.ProcessStat]]:
    """The running shims of the exit files in a directory, by exit file.

    They are found by their command lines, which name the file from the start; the file itself is made later. Processes
    that are not ours are left out, and logged.
    """
    found: dict[str, list[procfs.ProcessStat]] = {}
    others: list[procfs.ProcessStat] = []
    prefix = state_directory.rstrip("/") + "/"
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        entry = procfs.read_stat(pid) if _exit_file_in_arguments(pid).startswith(prefix) else None
        # Read again: the start time is now known, and the process may be another one than before.
        path = _exit_file_in_arguments(pid)
        # A shim's child has the same command line until it begins, but does not lead the session.
        if entry is not None and entry.session == pid and path.startswith(prefix):
            (found.setdefault(path, []) if procfs.is_ours(pid) else others).append(entry)
    if others:
        first = [one.pid for one in others[:9]]
        LOG.warning("%d processes look like shims, but are not ours, and stay: %s", len(others), first)
    return found


PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


_LIBRARY = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> bool:
    return bool(_LIBRARY.prctl(option, argument, 0, 0, 0) == 0)


def set_parent_death_signal(number: int) -> bool:
    """Have the kernel send this process a signal when its parent ends (prctl(2)). Returns whether that worked."""
    return _prctl(PR_SET_PDEATHSIG, number)


def set_subreaper(on: bool) -> bool:
    """Let orphans of our children become our children, or init's again (prctl(2)). Returns whether that worked.

    For hosts without cgroups: an orphan then stays below this process in the table of processes.
    """
    return _prctl(PR_SET_CHILD_SUBREAPER, int(on))


def set_no_new_privileges() -> bool:
    """Keep this process and its descendants from gaining privileges from a program (prctl(2)). Returns whether that
    worked."""
    return _prctl(PR_SET_NO_NEW_PRIVS, 1)
