"""Runs a command beside a container's own: in its cgroups, environment and directory, and never longer than it.

For a person who wants to look around in a running container. This module ends all descendants of the command,
even those that left its session (PR_SET_CHILD_SUBREAPER); what ends the container's cgroup ends them, too.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pwd
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence

from ..errors import CannotLaunchError, reason_of
from ..light import Record
from ..records import shell_code
from .cgroups.files import CGROUP_ROOT, read_mounts, read_paths
from .launcher import leave_keyring
from .processes import set_no_new_privileges, set_parent_death_signal, set_subreaper
from .procfs import author, children, send
from .terminals import Terminal

GRACE_SECONDS = 0.5
"""How long the node has to end the processes in the cgroup of an ended container, before this process does."""

PATIENCE_SECONDS = 1.0
"""How long a command that was asked to end has before it gets the next signal."""

POLL_MS = 200

_HANDED_ON = (signal.SIGTERM, signal.SIGHUP)
_FOR_THE_COMMAND = (signal.SIGINT, signal.SIGQUIT)


class Place(Record):
    """A container as seen from outside: its command's pid, the files to join its cgroups by, its environment
    and directory at the start, and its user."""

    pid: int
    join: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    uid: int


class Outcome(Record):
    """How a command ended: its exit code, 128+n for signal n; ``container_ended`` if the end of the container
    ended it."""

    code: int
    container_ended: bool = False


def place_of(pid: int, name: str, *, group: str = "", proc: str = "/proc", root: str = CGROUP_ROOT) -> Place:
    """The container ``name``, whose command is ``pid``; ``group`` is the name of its cgroup if that differs.

    Raises OSError if the container is gone, belongs to another user, or nobody knows to whom (``author``): a setuid
    program may be root by now, in an environment of its caller's choice.
    """
    environment = _environment(pid, proc)
    if (uid := author(pid, proc=proc)) is None:
        raise PermissionError(errno.EPERM, "it runs a setuid program")
    directory = environment.get("PWD", "")
    if not os.path.isdir(directory):
        directory = os.readlink(f"{proc}/{pid}/cwd")
    return Place(
        pid,
        tuple(
            os.path.join(path, "cgroup.procs") for path in groups_of(pid, group or name, proc=proc, root=root)
        ),
        environment,
        directory,
        uid,
    )


def _environment(pid: int, proc: str) -> dict[str, str]:
    """The environment that the command was started with, unless the command has changed it."""
    with open(f"{proc}/{pid}/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs if key}


def groups_of(pid: int, name: str, *, proc: str, root: str) -> list[str]:
    """The cgroup directories of a process that are the container's: ``name`` is a component of their path."""
    mounts = read_mounts(proc, root)
    groups = []
    for controller, path in read_paths(proc, pid).items():
        parts = path.split("/")
        if name not in parts:
            continue
        if controller:  # the container may have made cgroups below its own, which do not matter here
            path = "/".join(parts[: parts.index(name) + 1])
        for mount in mounts:
            of_this = controller in mount.controllers if controller else mount.version == 2
            directory = mount.directory_of(path) if of_this else None
            if directory is not None and os.path.isdir(directory):
                groups.append(directory)
                break
    return list(dict.fromkeys(groups))


def run_in(place: Place, command: Sequence[str], *, stdout: int = 1) -> Outcome:
    """Run a command in the container, on our own terminal or pipes, and wait for it and for all processes
    that it leaves. A command of another user gets a terminal of its own, and gains no privileges from a program.

    Its output goes to our descriptor ``stdout``. The calling process must have no other children. Raises
    CannotLaunchError, with the exit code of a shell, if the command cannot be started.
    """
    try:
        watched = os.pidfd_open(place.pid)
    except OSError as error:
        raise _gone(error) from error
    set_subreaper(True)
    try:
        with _signals() as received, _terminal_kept():
            terminal = Terminal(place.uid, stdout)
            child = _start(place, watched, command, stdout, terminal)
            terminal.begin()
            if terminal.is_own:
                for number in _FOR_THE_COMMAND:  # the keyboard's signals do not reach another session
                    signal.signal(number, lambda got, _: os.killpg(child, got))
            try:
                return _wait(child, watched, received)
            finally:
                _end_children()
                terminal.end()
    finally:
        _end_children()
        set_subreaper(False)
        os.close(watched)


def _start(place: Place, watched: int, command: Sequence[str], stdout: int, terminal: Terminal) -> int:
    """Start the command, and return its pid once it has begun. Raises CannotLaunchError."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _become(place, watched, command, stdout, writing, terminal)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        problem = told.read().decode(errors="replace")
    if not problem:
        return child
    os.waitpid(child, 0)
    number, _, what = problem.partition(" ")
    error = OSError(int(number), os.strerror(int(number)))
    if what == "enter":
        raise _gone(error)
    code = 127 if error.errno == errno.ENOENT else 126
    if what == "directory":
        raise _launch_error(f"cannot enter {place.directory}", 126, error)
    raise _launch_error(f"cannot run {command[0]!r}", code, error)


def _become(
    place: Place, watched: int, command: Sequence[str], stdout: int, told: int, terminal: Terminal
) -> None:
    """Join the container and execute the command; never returns. A failure is written to ``told``."""
    step = "enter"
    try:
        for path in place.join:
            with open(path, "w") as file:
                file.write("0")
        signal.pidfd_send_signal(watched, 0)  # if it has ended, its cgroup may be another container's by now
        if stdout != 1:
            os.dup2(stdout, 1)
        if terminal.is_own:
            terminal.enter(told)
            leave_keyring()
            if not set_no_new_privileges():
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            entry = pwd.getpwuid(place.uid)
            os.initgroups(entry.pw_name, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(place.uid)
        set_parent_death_signal(signal.SIGKILL)
        step = "directory"
        os.chdir(place.directory)
        for number in (*_HANDED_ON, *_FOR_THE_COMMAND, signal.SIGPIPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        step = "run"
        os.execvpe(command[0], list(command), place.environment)
    except KeyError:
        os.write(told, f"{errno.EPERM} {step}".encode())
    except (OSError, ValueError) as error:
        code = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(told, f"{code} {step}".encode())
    finally:
        os._exit(125)


def _wait(child: int, watched: int, received: list[int]) -> Outcome:
    """Wait until the command or the container has ended."""
    own = os.pidfd_open(child)
    kill_at = math.inf  # when the node should have ended everything in the cgroup
    harder = [signal.SIGHUP, signal.SIGKILL]  # a shell at a terminal ignores SIGTERM
    next_at = 0.0
    try:
        poll = select.poll()
        poll.register(own, select.POLLIN)
        poll.register(watched, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(POLL_MS)}
            now = time.monotonic()
            if own in ready:
                return _outcome(child, container_ended=watched in ready or kill_at < math.inf)
            if watched in ready:
                poll.unregister(watched)
                kill_at = now + GRACE_SECONDS
            if now >= kill_at:
                send(child, signal.SIGKILL)
            elif received and now >= next_at:
                send(child, received.pop(0))
                send(child, signal.SIGCONT)
                received += [harder.pop(0)] if harder else []
                next_at = now + PATIENCE_SECONDS
    finally:
        os.close(own)


def _outcome(child: int, *, container_ended: bool) -> Outcome:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Outcome(shell_code(code), container_ended and code < 0)


def _end_children() -> None:
    """Send SIGKILL to all processes that the command has left, until none is left."""
    while left := children(os.getpid()):
        for pid in left:
            send(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Leave the keyboard's signals to the command; collect those that are meant for this process."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (*_HANDED_ON, *_FOR_THE_COMMAND)}
    for number in _FOR_THE_COMMAND:
        signal.signal(number, signal.SIG_IGN)
    for number in _HANDED_ON:
        signal.signal(number, lambda got, _: received.append(got))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Restore the terminal afterwards, even if a shell was killed while a line was edited."""
    import termios

    try:
        attributes = termios.tcgetattr(0)
    except (OSError, termios.error):
        yield
        return
    try:
        yield
    finally:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(OSError, termios.error):
            os.tcsetpgrp(0, os.getpgrp())
            termios.tcsetattr(0, termios.TCSADRAIN, attributes)
        signal.signal(signal.SIGTTOU, before if before is not None else signal.SIG_DFL)


def _gone(error: OSError) -> CannotLaunchError:
    if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENODEV):
        return _launch_error("the container has ended", 1, None)
    return _launch_error("the container's cgroup cannot be entered", 125, error)


def _launch_error(message: str, code: int, error: OSError | None) -> CannotLaunchError:
    return CannotLaunchError(message, code, because=reason_of(error) if error is not None else "")


def shell_of(environment: Mapping[str, str]) -> str:
    """The shell for an interactive user: bash if there is one."""
    for directory in environment.get("PATH", os.defpath).split(os.pathsep):
        if os.access(os.path.join(directory, "bash"), os.X_OK):
            return "bash"
    return "sh"
