"""Starts daemons in parallel, waits until all of them serve, and ends them if one fails to start.

A daemon reports on a pipe: one byte when it serves, or one JSON object with the reason why it cannot. If the
pipe ends without either, the daemon has died, and the last line of its log is given as the reason. There is
no polling.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from executor.light import Record
from executor.linux.procfs import read_bytes
from executor.regular import open_regular

from .. import __file__ as PACKAGE_FILE
from ..errors import YoppError, reason_of
from ..machine.life import Plan
from .notifying import SOCKET
from .processes import ENDING, ProcessId, end_processes
from .rundir import RunDir
from .state import may_get_rm

DAEMONS = "yarnopp_cli.daemons"
WATCHED = "--watched"
"""The argument of daemons that other daemons restart if they die."""
READY = b"1"
LOG_TAIL_BYTES = 4096
END_GRACE_SECONDS = 3.0
ALONE_SECONDS = 3
"""How long a starting node may be without an RM; `yopp rm restart` takes less."""
_ANSWER_LIMIT = 65536
_LOOK_MS = 10
_LOG = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_outliving: list[subprocess.Popen[bytes]] = []
"""The daemons that outlive this process; kept because Popen warns when the object of a running process
is dropped."""


class DaemonSpec(Record):
    """One daemon to start: its name in the run directory (``rm``, ``nm-<port>``), its module, and
    the module's arguments."""

    name: str
    module: str
    arguments: tuple[str, ...]


class _Starting:
    """A daemon between its start and its report. ``log_from`` is the offset in the log at which this
    start begins."""

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], pipe: int, log_path: str, log_from: int
    ) -> None:
        self.name = name
        self.process = process
        self.identity = ProcessId.of(process.pid)
        self.pipe = open(pipe, "rb", buffering=0)  # noqa: SIM115  until it reports, or is taken back
        self.log_path = log_path
        self.log_from = log_from
        self.answer = bytearray()


def daemon_spec(run_dir: RunDir, name: str, plan: Plan, *more: str) -> DaemonSpec:
    """The RM of a run directory, or a node of the plan, with ``more`` arguments."""
    arguments: tuple[str, ...] = ("resourcemanager", "--run-dir", run_dir.path)
    for node in plan.nodes:
        if node.name == name:
            sizes = {"port": node.port, "memory": node.memory, "vcores": node.vcores}
            arguments = ("nodemanager", "--run-dir", run_dir.path)
            arguments += tuple(word for key, size in sizes.items() for word in (f"--{key}", str(size)))
            arguments += ("--gpus", ",".join(node.gpus)) if node.gpus else ()
    return DaemonSpec(name, DAEMONS, (*arguments, "--lifetime", plan.lifetime, *more))


def command_line(spec: DaemonSpec) -> list[str]:
    """The command that starts the daemon: this interpreter, with ``-P`` so that no module is imported from
    the current directory."""
    return [sys.executable, "-P", "-m", spec.module, *spec.arguments]


def daemon_of(pid: int, run_dir: RunDir) -> str:
    """The name of the daemon of this run directory that a process is by its arguments; "" for any other process."""
    words = read_bytes(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")[1:]
    ours = words[:6] == ["-P", "-m", DAEMONS, *words[3:4], "--run-dir", run_dir.path]
    match words[3:4] + words[6:8] if ours else []:
        case ["resourcemanager", *_]:
            return "rm"
        case ["nodemanager", "--port", port] if port.isascii() and port.isdecimal():
            return f"nm-{port}"
    return ""


def daemon_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, with a PYTHONPATH by which this package can be imported if it is
    not installed."""
    environment = {name: value for name, value in environ.items() if name != SOCKET}
    root = os.path.dirname(os.path.dirname(os.path.abspath(PACKAGE_FILE)))
    # A site directory is on the path anyway; naming it would put it before the standard library.
    if os.path.basename(root) not in ("site-packages", "dist-packages"):
        known = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(
            [root, *(path for path in known if path and path != root)]
        )
    return environment


class Launch:
    """A start of daemons: ``begin`` runs under the lock of the run directory, ``finish`` may run without it.

    So a starting node that waits for its RM does not delay a restart of the RM, which needs the lock as well. A launch
    that fails is undone (``undone_on_failure``): its daemons are ended, with ``grace``, and ``undo`` is called.
    """

    def __init__(
        self,
        run_dir: RunDir,
        specs: Sequence[DaemonSpec],
        *,
        timeout: float,
        undo: Callable[[], object] = lambda: None,
        grace: float = END_GRACE_SECONDS,
    ) -> None:
        self._run_dir = run_dir
        self._specs = specs
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._undo = undo
        self._grace = grace
        self._starting: list[_Starting] = []

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The processes that it started."""
        return tuple(one.identity for one in self._starting if one.identity is not None)

    def begin(self) -> None:
        """Start all; returns when each holds its pid file or has reported. Raises YoppError if one cannot be
        started."""
        for spec in self._specs:
            with _signals_held():
                self._starting.append(_spawn(self._run_dir, spec))
        for one in self._starting:
            poller = select.poll()
            poller.register(one.pipe, select.POLLIN)
            while time.monotonic() < self._deadline and self._run_dir.daemon(one.name) is None:
                if poller.poll(_LOOK_MS):
                    break

    def finish(self, name: str = "") -> None:
        """Wait until the daemon ``name`` serves, or all of them. Raises YoppError with the reason of the first that
        fails."""
        for one in self._starting:
            if not one.pipe.closed and name in ("", one.name):
                _await_answer(self._run_dir, one, self._deadline, self._timeout)
                one.pipe.close()
        if not name:
            for one in self._starting:
                one.process.returncode = 0  # this process does not wait for the daemon any more
                _outliving.append(one.process)

    def take_back(self) -> None:
        """End the daemons, and remove their files. Call it under the lock."""
        # One that served and died may have been restarted.
        again = [self._run_dir.daemon(one.name) for one in self._starting if one.pipe.closed]
        restarted = [daemon.process for daemon in again if daemon is not None]
        end_processes([*dict.fromkeys((*self.processes, *restarted))], grace=self._grace, force=True)
        for one in self._starting:
            one.pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(timeout=0.1)
        self._run_dir.remove_stale_files()

    @contextlib.contextmanager
    def undone_on_failure(self, *, locked: bool = False) -> Iterator[None]:
        """If the body fails, undo the launch under the lock of the run directory, which the caller holds if
        ``locked``; without the lock if another process keeps it, or the directory was removed."""
        with contextlib.ExitStack() as failing:
            failing.callback(self._undo_all, locked)
            yield
            failing.pop_all()

    def _undo_all(self, locked: bool) -> None:
        with contextlib.ExitStack() as undoing:
            if not locked:
                with contextlib.suppress(YoppError):
                    undoing.enter_context(self._run_dir.lock())
            undoing.callback(self._undo)
            undoing.callback(self.take_back)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Signals that interrupt the caller do so after the body: until a process is known here, or holds its pid file,
    nobody could end it. A mask would do, were it not inherited by the process."""
    held: list[int] = []
    here = threading.current_thread() is threading.main_thread()
    handlers = {
        number: handler for number in ENDING if here and callable(handler := signal.getsignal(number))
    }
    for number in handlers:
        signal.signal(number, lambda given, _: held.append(given))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for received in held:
            signal.raise_signal(received)


def _spawn(run_dir: RunDir, spec: DaemonSpec) -> _Starting:
    log_path = run_dir.log_file(spec.name)
    readable, writable = os.pipe()
    try:
        log = os.open(log_path, _LOG, 0o600)
        os.set_blocking(log, True)
        try:
            log_from = os.fstat(log).st_size
            process = subprocess.Popen(
                [*command_line(spec), "--ready-fd", str(writable)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=daemon_environment(os.environ),
                pass_fds=(writable,),
                start_new_session=True,
            )
        finally:
            os.close(log)
    except OSError as error:
        os.close(readable)
        raise YoppError(
            f"cannot start {spec.name}",
            because=reason_of(error) + (f" ({error.filename})" if error.filename else ""),
            hint="`yopp doctor` checks what this host allows",
        ) from error
    finally:
        os.close(writable)
    return _Starting(spec.name, process, readable, log_path, log_from)


def _await_answer(run_dir: RunDir, one: _Starting, deadline: float, timeout: float) -> None:
    """Wait for a daemon's report that it serves. Raises YoppError if it cannot, has died, takes too long, or
    is a node whose RM has been ended."""
    poller = select.poll()
    poller.register(one.pipe, select.POLLIN)
    alone = 0
    while alone < ALONE_SECONDS:
        left = max(0.0, deadline - time.monotonic())
        if not poller.poll(min(1.0, left) * 1000):
            if not left:
                break
            alone = 0 if may_get_rm(run_dir) else alone + 1
            continue
        data = one.pipe.read(4096)
        one.answer += data
        if one.answer.startswith(READY):
            return
        if not data or len(one.answer) >= _ANSWER_LIMIT:
            raise _refusal(one)
    late = f"it has not reported for {timeout:.3g} s{_tail(one)}"
    raise YoppError(
        f"{one.name} did not become ready",
        because=late if alone < ALONE_SECONDS else "the ResourceManager has been ended",
        hint=f"its log is {one.log_path}",
    )


def _refusal(one: _Starting) -> YoppError:
    try:
        said = json.loads(bytes(one.answer))
        return YoppError(
            str(said["error"]),
            because=str(said.get("because", "")),
            hint=str(said.get("hint", "")),
            exit_code=int(said.get("exit", 1)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    try:
        code: int | None = one.process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        code = None
    how = "it closed its pipe without a report" if code is None else f"it ended with exit code {code}"
    return YoppError(
        f"{one.name} did not start", because=f"{how}{_tail(one)}", hint=f"its log is {one.log_path}"
    )


def _tail(one: _Starting) -> str:
    """The last line that a daemon logged, for an error's ``because``; "" if it logged nothing."""
    try:
        with open(open_regular(one.log_path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(one.log_from if one.log_from <= size else 0, size - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return f"; the last line of its log: {said[-1]}" if said else ""
