"""Start the process of a container under its shim, know it again, and notice its end.

The shim (``shim.sh``) is our child and the command's parent. It leads a session of its own, and its pid
together with its start time is the identity of the container's process: it lives exactly as long as the
command and a moment more, and is there from the start. The command's own pid is its only child
(``command_pid``).
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from ..errors import LaunchError
from .procfs import children, is_alive, read_stat, send, standing, start_time

LOG = logging.getLogger(__name__)

SHELL = "/bin/sh"
SHIM = os.fspath(Path(__file__).with_name("shim.sh"))

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHELL_OWN = frozenset({"IFS", "PPID", "OPTIND", "YOPP_SHIM_EXIT_FILE", "YOPP_SHIM_WORD"})
"""What a shell does not take from its environment but sets by itself; and what the shim sets."""
_SHELL_VARIABLES = ("SHLVL", "OLDPWD", "_", "PWD")
"""What shells other than dash add to the environment by themselves."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """All that starting one process takes. ``join`` are the ``cgroup.procs`` (v1: ``tasks``) files it enters before it
    begins.
    """

    container_id: str
    command: tuple[str, ...]
    environment: dict[str, str]
    working_directory: str
    stdout: str
    stderr: str
    exit_file: str
    join: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launched:
    """The identity of what was started: the shim's pid, and its start time in clock ticks after boot."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process. ``cpu_seconds`` of it and its children, where it was ours; ``signal`` is what
    ended it, 0 where it ended by itself or was not ours; ``exit_code`` is its own, None unless it was ours and
    ended by itself.

    The kernel's maximum of resident memory is no use here: a child born by vfork begins with its parent's.
    """

    cpu_seconds: float = 0.0
    signal: int = 0
    exit_code: int | None = None


@dataclass(slots=True)
class Prepared:
    """A process that has entered its groups, or is about to, and does not begin before ``release``.

    ``gate`` is the file descriptor that it waits at. Once that is closed, as it is when this process ends, it
    never begins, and ends by itself.
    """

    request: LaunchRequest
    launched: Launched
    gate: int

    def release(self) -> bool:
        """Let it begin; whether that could be said to it."""
        try:
            os.write(self.gate, b"\n")
            return True
        except OSError as error:
            LOG.debug("%s is gone: %s", self.request.container_id, error.strerror)
            return False
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let it end without having begun, if it was not released."""
        gate, self.gate = self.gate, -1
        if gate >= 0:
            os.close(gate)


class Launcher(Protocol):
    """Starts processes in groups. The shim is one way."""

    def launch(self, request: LaunchRequest) -> Launched:
        """Start it. LaunchError, with ``exit_code`` as a shell would say it, where it cannot be started."""

    def prepare(self, request: LaunchRequest) -> Prepared:
        """Start it up to the point where it would begin. Raises as ``launch``."""


class CannotLaunchError(LaunchError):
    """A container could not be started. ``exit_code``: 127 not found, 126 not executable, 125 anything of
    ours.
    """

    def __init__(self, message: str, exit_code: int = 125, *, because: str = "", hint: str = "") -> None:
        super().__init__(message, because=because, hint=hint)
        self.exit_code = exit_code


class ShimLauncher:
    """Starts each container under a shell of its own."""

    def __init__(self) -> None:
        self._clean = os.path.basename(os.path.realpath(SHELL)) == "dash"

    def launch(self, request: LaunchRequest) -> Launched:
        """Start the shim. It finds out whether the command exists: 126 or 127 is its exit code then."""
        # The exit file first: who cannot enter a group has an exit code, 125.
        return self._start(request, ("--begin", *request.join), subprocess.DEVNULL)

    def prepare(self, request: LaunchRequest) -> Prepared:
        """Start the shim, whose child enters the groups and waits at a pipe."""
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise _launch_error(request, error) from error
        try:
            launched = self._start(request, (*request.join, "--gate", "--begin"), reading)
        except LaunchError:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return Prepared(request, launched, writing)

    def _start(self, request: LaunchRequest, steps: tuple[str, ...], stdin: int) -> Launched:
        check_command(request)
        command = self._exact(request.command, request.environment)
        arguments = [SHELL, SHIM, request.exit_file, *steps, "--", *command]
        stdout = _open_log(request.stdout)
        try:
            stderr = _open_log(request.stderr) if request.stderr != request.stdout else os.dup(stdout)
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=request.working_directory,
                    env=request.environment,
                    start_new_session=True,
                    close_fds=True,
                )
            except (OSError, ValueError) as error:
                raise _launch_error(request, error) from error
            finally:
                os.close(stderr)
        finally:
            os.close(stdout)
        # We wait for it by pidfd and wait4, never through this object: it must not complain when it is
        # dropped.
        process.returncode = 0
        return Launched(process.pid, start_time(process.pid) or 0)

    def _exact(self, command: tuple[str, ...], environment: dict[str, str]) -> list[str]:
        """The command, behind ``env`` where the shell would change the environment on its way through."""
        odd = [
            f"{name}={value}"
            for name, value in environment.items()
            if name in _SHELL_OWN or not _IDENTIFIER.match(name)
        ]
        added: list[str] = []
        if not self._clean:
            added = [word for name in _SHELL_VARIABLES if name not in environment for word in ("-u", name)]
        return ["/usr/bin/env", *added, *odd, *command] if odd or added else list(command)


def check_command(request: LaunchRequest) -> None:
    """Refuse what no shell could start, in a shell's own terms. CannotLaunchError."""
    if not request.command:
        raise CannotLaunchError("no command was given", 127)
    name = request.command[0]
    if not name or name.startswith("-"):
        raise CannotLaunchError(f"{name!r}: command not found", 127)
    if not os.path.isdir(request.working_directory):
        raise CannotLaunchError(f"no working directory {request.working_directory!r}", 126)
    if not os.access(request.working_directory, os.X_OK):
        raise CannotLaunchError(f"the working directory {request.working_directory!r} cannot be entered", 126)


def _open_log(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    try:
        # An earlier run may have left a FIFO there: nobody here waits for its reader.
        descriptor = os.open(path, flags | os.O_NONBLOCK, 0o640)
    except OSError as error:
        raise CannotLaunchError(f"cannot write {path}", because=error.strerror or str(error)) from error
    os.set_blocking(descriptor, True)
    return descriptor


def _launch_error(request: LaunchRequest, error: OSError | ValueError) -> CannotLaunchError:
    if isinstance(error, OSError):
        because, code = (
            error.strerror or str(error),
            126 if error.errno == 7 else 125,
        )  # 7: the arguments are too long
    else:
        because, code = str(error), 126
    return CannotLaunchError(f"cannot start {request.command[0]!r}", code, because=because)


def command_pid(shim: int) -> int | None:
    """The pid of the command itself, None before it is there or after its end."""
    found = children(shim)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class ExitFile:
    """What the shim wrote: its own pid, 0 before it began; the exit code, None while there is none."""

    pid: int = 0
    exit_code: int | None = None


def read_exit_file(path: str) -> ExitFile | None:
    """What stands in an exit file; None where there is no file. A line counts once it has its newline.

    OSError where it cannot be read for now: that is not the same as not being there.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(256)
    except FileNotFoundError:
        return None
    lines = [line for line in text.split(b"\n")[:-1] if line.isdigit()]
    pid = int(lines[0]) if lines else 0
    return ExitFile(pid, int(lines[1]) if len(lines) > 1 else None)


def claim_exit_file(path: str) -> bool:
    """Make the exit file before any shim can: a shim that was started and has not begun will then never
    begin.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


RETRY_SECONDS = 0.1
"""When to try again what failed for want of file descriptors or memory."""


class ExitWatcher:
    """Calls back when processes end, ours or not: a pidfd in the loop for each, no thread, no polling."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._fds: dict[int, int] = {}

    def watch(self, pid: int, start: int, ended: Callable[[Ended], None], *, is_child: bool = False) -> None:
        """Call ``ended`` once when that process has ended, from the loop; soon, if it has already.

        ``is_child``: it is ours and was not waited for, so nobody else can have been given its pid.
        """
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._loop.call_soon(ended, Ended())
            return
        except OSError as error:
            LOG.warning("cannot watch %d yet: %s", pid, error.strerror)
            again = partial(self.watch, pid, start, ended, is_child=is_child)
            self._loop.call_later(RETRY_SECONDS, again)
            return
        if not is_child:
            found = read_stat(pid)
            if found is None or (start and found.start != start):
                # The pid is somebody else's by now.
                os.close(fd)
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
        """Watch nothing any more; the processes go on."""
        for pid in list(self._fds):
            self._forget(pid)


def reap(pid: int) -> Ended:
    """Collect a child that has ended, and what it and its children used; nothing if it is not ours."""
    try:
        found, status, used = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Ended()
    if found == 0:
        return Ended()
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    return Ended(used.ru_utime + used.ru_stime, ended_by, code)


def wait_until_gone(pid: int, start: int, seconds: float) -> bool:
    """Wait, in a worker thread, until a process has ended; whether it has."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while is_alive(pid, start):
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(0.01, pause * 2)
    return True


def kill_identified(pid: int, start: int) -> None:
    """SIGKILL that very process, and no other one that was given its pid since."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if is_alive(pid, start):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError as error:
        LOG.debug("cannot kill %d: %s", pid, error)
    finally:
        os.close(fd)


def kill_shim(pid: int, start: int) -> None:
    """SIGKILL a shim and what it has just started, which may not have reached its cgroup yet."""
    if not is_alive(pid, start):
        return
    send(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 1.0
    while not standing(pid) and time.monotonic() < deadline:
        time.sleep(0.0005)
    # It stands still, so it starts nobody else.
    for child in children(pid):
        send(child, signal.SIGKILL)
    kill_identified(pid, start)
    wait_until_gone(pid, start, 1.0)


def shims_of(state_directory: str) -> dict[str, list[int]]:
    """The shims that run for exit files in a directory: exit file -> pids.

    By their command lines, which name the file from the first instant on; the file itself comes later.
    """
    found: dict[str, list[int]] = {}
    prefix = os.fsencode(state_directory.rstrip("/") + "/")
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(8192).split(b"\0", 3)
        except OSError:
            continue
        # Its child has the same command line until it begins; the session tells them apart.
        if len(words) == 4 and words[1] == os.fsencode(SHIM) and words[2].startswith(prefix):
            entry = read_stat(int(name))
            if entry is not None and entry.session == entry.pid:
                found.setdefault(os.fsdecode(words[2]), []).append(entry.pid)
    return found


PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def set_parent_death_signal(number: int) -> bool:
    """Be sent a signal when our parent has ended (prctl(2)); whether it took."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) == 0)


def set_subreaper(on: bool) -> bool:
    """Let orphans of our children become our children, or init's again (prctl(2)); whether it took.

    A net for hosts without cgroups: an orphan then stays below us in the table of processes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0)
