"""What all daemons share: arguments, configuration, pid file, log, signals, readiness, the end.

The process that starts a daemon passes it a pipe (``--ready-fd``): the daemon writes one byte "1" when it
serves, or one JSON object with the parts of an error; the pipe closes without either if the daemon died.
systemd is notified as well, if NOTIFY_SOCKET is set. SIGTERM and SIGINT request a clean end, SIGHUP is
ignored. A daemon never daemonises itself: its starter detaches it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, Protocol

from executor.core.machine import beat
from executor.errors import ExecutorError
from executor.linux.descriptors import raise_limit
from executor.regular import open_regular, set_strange_aside

from ..cluster.notifying import notify
from ..cluster.rundir import SITE, RunDir
from ..errors import EXIT_BUG, EXIT_FAILURE, YoppError, reason_of
from ..records.reports import ON_DEMAND, STAY
from ..rpc.crowd import Bounds
from ..settings.declarations import DaemonSettings, IpcSettings
from ..settings.loading import Configuration
from .kept_files import KeptFiles

LOG = logging.getLogger(__name__)

LOG_BYTES: Final = 5 * 1024 * 1024
LOG_FILES: Final = 3
"""The largest size of a log, and the number of older ones that are kept."""
LOCK_SECONDS: Final = 0.5
"""How long to try to lock the pid file: a command that checks the lock holds it for a moment."""
PLACE_SECONDS: Final = 2.0
"""How often a daemon checks that commands can find it."""
AGAIN_SECONDS: Final = 0.5
"""How soon it checks again when a file is missing."""
GARBAGE: Final = (20_000, 20, 50)
"""The thresholds of gc: how many new objects cause a collection, and how often older ones are collected.
Hardly any garbage is in cycles."""


def argument_parser(name: str) -> argparse.ArgumentParser:
    """The parser for the arguments of all daemons."""
    parser = argparse.ArgumentParser(prog=f"python -m yarnopp_cli.daemons {name}", allow_abbrev=False)
    parser.add_argument("--run-dir", required=True, metavar="DIR", help="the run directory, with site.json")
    parser.add_argument(
        "--ready-fd", type=int, default=-1, metavar="FD", help="write to this descriptor when serving"
    )
    parser.add_argument("--log-to-stderr", action="store_true", help="log to standard error, not to a file")
    parser.add_argument("--announce", action="store_true", help="print a line of JSON when serving")
    parser.add_argument("--validate", action="store_true", help="check every invariant after each step")
    parser.add_argument("--lifetime", choices=(STAY, ON_DEMAND), default=STAY, help="of the cluster")
    parser.add_argument("--watched", action="store_true", help="other daemons restart it if it dies")
    parser.add_argument("--restarted-by", default="", metavar="NAME", help="the daemon that restarted it")
    parser.add_argument("--died", type=int, default=0, metavar="PID", help="its previous process, which died")
    parser.add_argument("--tries", type=int, default=0, metavar="N", help="how often it has been restarted")
    return parser


class DaemonProcess:
    """The process of one daemon.

    ``name`` is ``rm`` or ``nm-<port>``; ``arguments`` are those parsed by ``argument_parser``.
    """

    def __init__(self, name: str, run_dir: RunDir, arguments: argparse.Namespace) -> None:
        self.name = name
        self.run_dir = run_dir
        self.arguments = arguments
        self.is_ready = False
        self._ready_fd: int = arguments.ready_fd
        self._lock = -1
        self._stopped = asyncio.Event()
        self._exit_code = 0
        self._watched = self._ending = False
        self._files = KeptFiles(run_dir, name)
        self.restarts = False
        """Whether the daemons of this cluster restart each other."""

    # -- the end ---------------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """End the daemon, because its machine has ended. If it was never ready, report ``reason`` as a
        failed start."""
        LOG.info("%s ends: %s", self.name, reason)
        self.end_watch()
        if not self.is_ready:
            self._exit_code = EXIT_FAILURE
            self.announce_failure(YoppError(f"{self.name} did not start", because=reason))
        self._stopped.set()

    def crashed(self, error: BaseException, report: Path | None) -> None:
        """End at once after a bug in the machine, and change nothing. Containers keep running."""
        LOG.critical("%s crashed: %s (report: %s)", self.name, error, report)
        self._exit_code = EXIT_BUG
        if not self.is_ready:
            self.announce_failure(YoppError(f"{self.name} crashed", because=str(error), exit_code=EXIT_BUG))
        self._stopped.set()

    @property
    def has_crashed(self) -> bool:
        """Whether the daemon has crashed."""
        return self._exit_code == EXIT_BUG

    async def until_stopped(self) -> int:
        """Wait until the daemon ends; its exit code."""
        await self._stopped.wait()
        notify("STOPPING=1")
        return self._exit_code

    def on_signals(self, asked_to_end: Callable[[str], None], *more: signal.Signals) -> None:
        """Call ``asked_to_end`` with the signal's name on SIGTERM, SIGINT and ``more``; the daemon is not
        restarted then.

        An exception in a task counts as a crash.
        """

        def asked(name: str) -> None:
            self.end_watch()
            asked_to_end(name)

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, *more):
            loop.add_signal_handler(number, asked, number.name)
        # This handler does nothing; SIG_IGN would be inherited by every container.
        loop.add_signal_handler(signal.SIGHUP, LOG.info, "SIGHUP is ignored")
        # So would be what the starter ignores (nohup, a shell's background job) or blocks. Python restores in its
        # children what itself ignores.
        for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        loop.set_exception_handler(self._loop_exception)

    def _loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            # A peer closed its connection during a write, or a socket got no descriptor: not a bug.
            LOG.warning("%s", context.get("message"), exc_info=error)
            return
        if self.has_crashed:
            return
        LOG.critical("%s", context.get("message"), exc_info=error)
        self.crashed(error, None)

    # -- restarts --------------------------------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Whether other daemons restart this process if it dies: only after it serves, and until it is
        asked to end."""
        from ..cluster.state import read_surely

        try:
            found = read_surely(self.run_dir, self.name) if self._watched else None
        except OSError:
            return True  # unchanged: the file cannot be read now
        return found is not None and found.pid == os.getpid()

    @property
    def may_restart(self) -> bool:
        """Whether this daemon may restart others: not while it ends, nor after its run directory
        was cleared."""
        if not self.restarts or self._ending or not self._has_place():
            return False
        return self.is_watched or not self._watched

    def begin_watch(self) -> None:
        """Let other daemons restart this one from now on if it dies, if it was started with ``--watched``."""
        if not (self.restarts and self.arguments.watched):
            return
        from ..cluster.state import watch_this_process

        try:
            watch_this_process(self.run_dir, self.name)
        except YoppError as error:
            LOG.warning("%s will not be restarted if it dies: %s", self.name, error)
        else:
            self._watched = True
        self._files.look()

    def end_watch(self) -> None:
        """Mark this daemon as ending on purpose: it must not be restarted."""
        if self.is_watched:
            from ..cluster.state import forget_watched

            forget_watched(self.run_dir, self.name)
        self._watched = False
        self._ending = True

    # -- readiness -------------------------------------------------------------------------------------

    def announce_ready(self) -> None:
        """Report to the starter and to systemd that this daemon serves."""
        if self.is_ready:
            return
        self.is_ready = True
        LOG.info("%s is ready", self.name)
        self.begin_watch()
        self._tell_starter(b"1")
        if self.arguments.announce:
            self._say_ready()
        notify("READY=1", f"MAINPID={os.getpid()}")

    def _say_ready(self) -> None:
        """Print one line for the user of a daemon in the foreground with ``--json``."""
        path = self.run_dir.rm_socket if self.name == "rm" else self.run_dir.nm_socket(int(self.name[3:]))
        document = {
            "daemon": {
                "name": self.name,
                "state": "RUNNING",
                "pid": os.getpid(),
                "address": f"unix:{path}",
                "run_dir": self.run_dir.path,
                "http": self.run_dir.http_address(self.name),
            }
        }
        with contextlib.suppress(OSError):  # the daemon does not end if the reader has gone
            os.write(1, json.dumps(document, separators=(",", ":")).encode() + b"\n")

    def announce_failure(self, error: YoppError | ExecutorError) -> None:
        """Report to the starter why this daemon does not serve."""
        document = {
            "error": error.message,
            "because": error.because,
            "hint": error.hint,
            "exit": error.exit_code if isinstance(error, YoppError) else EXIT_FAILURE,
        }
        self._tell_starter(json.dumps(document).encode())

    def _tell_starter(self, message: bytes) -> None:
        if self._ready_fd < 0:
            return
        with contextlib.suppress(OSError):  # the starter may have ended
            os.write(self._ready_fd, message)
            os.close(self._ready_fd)
        self._ready_fd = -1

    # -- lock and log ----------------------------------------------------------------------------------

    def take_lock(self) -> None:
        """Lock the pid file and write this process's pid into it.

        Raises YoppError if another daemon holds it.
        """
        path = self.run_dir.pid_file(self.name)
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                raise YoppError(f"cannot write {path}", because=reason_of(error)) from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                os.close(descriptor)
                if time.monotonic() >= deadline:
                    raise YoppError(
                        f"{self.name} is already running", because=f"process {holder} holds {path}"
                    ) from None
                time.sleep(0.005)  # flock(2) has no timeout
                continue
            if _is_still(descriptor, path):
                break
            os.close(descriptor)  # the file was removed between opening and locking
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock = descriptor

    def keep_place(self, socket: str, cleared: Callable[[str], None]) -> None:
        """Check regularly that commands find this process; a pid file that was removed or changed, and other files that
        were removed, are written again.

        If its ``socket`` was removed, or another process holds its pid file, no command can reach it:
        then ``cleared`` must end it.
        """

        listening = _identity(socket)

        def is_gone() -> bool:
            try:
                return _identity(socket) != listening
            except OSError as error:  # a check that fails now is no reason to end
                LOG.warning("%s cannot be looked at: %s", socket, reason_of(error))
                return False

        def look() -> None:
            if self._ending:
                return
            if why := f"{socket} was removed" if is_gone() else self._lost_place():
                LOG.error("%s can no longer be reached: %s", self.name, why)
                cleared(why)
            else:
                for handler in logging.getLogger().handlers:
                    if isinstance(handler, RotatingFileHandler) and not os.path.exists(handler.baseFilename):
                        handler.close()  # the next line opens it again
                now = (loop := asyncio.get_running_loop()).time()
                loop.call_at(now + AGAIN_SECONDS if self._files.look() else beat(now, PLACE_SECONDS), look)

        look()

    def _has_place(self) -> bool:
        """Whether the pid file is that of this process; True if that cannot be checked now."""
        try:
            return _is_still(self._lock, self.run_dir.pid_file(self.name))
        except OSError:
            return True

    def _lost_place(self) -> str:
        """Restore the pid file if needed. Returns why commands cannot find this process, "" if they can."""
        path = self.run_dir.pid_file(self.name)
        pid = f"{os.getpid()}\n".encode()
        try:
            if not _is_still(self._lock, path):
                set_strange_aside(path)
                descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(descriptor)
                    return f"another process holds {path}"
                os.close(self._lock)
                self._lock = descriptor
            if os.pread(self._lock, 64, 0) != pid:
                LOG.warning("%s was removed or changed: writing it again", path)
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, pid, 0)
        except OSError as error:
            LOG.warning("%s cannot be written again: %s", path, reason_of(error))
        return ""

    def release_lock(self) -> None:
        """Remove the pid file and release its lock."""
        if self._lock < 0:
            return
        if self._has_place():
            with contextlib.suppress(OSError):
                os.unlink(self.run_dir.pid_file(self.name))
        os.close(self._lock)
        self._lock = -1

    def start_log(self) -> None:
        """Log to the run directory (or stderr), with limited size. Raises YoppError if the log cannot
        be written."""
        handler: logging.Handler
        if self.arguments.log_to_stderr:
            handler = logging.StreamHandler()
        else:
            path = self.run_dir.log_file(self.name)
            try:
                handler = RotatingFileHandler(
                    path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8", errors="replace"
                )
            except OSError as error:
                raise YoppError(f"cannot write {path}", because=reason_of(error)) from None
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        logging.raiseExceptions = False  # a full disk must not end the daemon


def bounds_of(settings: IpcSettings) -> Bounds:
    """The limits on the connections of each server of a daemon."""
    return Bounds(
        most=settings.max_connections,
        idle_threshold=settings.idle_threshold,
        idle_seconds=2 * settings.max_idle_time_ms / 1000,  # twice, as Hadoop's server does
        per_address=settings.max_per_address,
        held_bytes=settings.max_held_mb << 20,
    )


class Daemon(Protocol):
    """A daemon; constructed while the event loop runs."""

    def __init__(self, process: DaemonProcess, configuration: Configuration) -> None:
        """Raises YoppError or ExecutorError if the daemon cannot start."""

    async def serve(self) -> int:
        """Serve until the daemon ends; its exit code. Raises as ``__init__``."""


def run(name: str, arguments: argparse.Namespace, daemon: type[Daemon]) -> int:
    """Run a daemon in this process, from the pid file and the configuration to the end; its exit code."""

    async def serve() -> int:
        return await daemon(process, configuration).serve()

    # A write to a starter that has ended, or to a closed terminal, must not end a daemon.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    gc.set_threshold(*GARBAGE)
    raise_limit()
    run_dir = RunDir.of(arguments.run_dir)
    process = DaemonProcess(name, run_dir, arguments)
    if arguments.ready_fd >= 0:
        os.set_inheritable(arguments.ready_fd, False)
    gc.freeze()  # imported objects live as long as this process: no collection visits them
    gc.enable()
    try:
        process.take_lock()
        process.start_log()
        configuration = read_site(run_dir)
        process.run_dir = RunDir.of(arguments.run_dir, state_dir=configuration.state_dir)
        process.restarts = configuration.settings(DaemonSettings).restart_enabled
        LOG.info("%s starts: process %d, run directory %s", name, os.getpid(), run_dir.path)
        return asyncio.run(serve())
    except (YoppError, ExecutorError) as error:
        process.announce_failure(error)
        LOG.error("%s did not start: %s", name, error)
        if arguments.announce and isinstance(error, YoppError):
            from ..views.cluster import error_document

            sys.stderr.write(json.dumps(error_document(error), separators=(",", ":")) + "\n")
        elif arguments.ready_fd < 0:
            sys.stderr.write(f"error: {error}\n")
        return error.exit_code if isinstance(error, YoppError) else EXIT_FAILURE
    finally:
        process.release_lock()


def read_site(run_dir: RunDir) -> Configuration:
    """The configuration with which the cluster runs. Raises YoppError."""
    text = run_dir.read(SITE)
    if text is None:
        raise YoppError(
            f"there is no {run_dir.site_file}",
            because="`yopp up` writes the cluster's configuration there",
            hint="start the cluster with `yopp up`",
        )
    return Configuration.from_json(text)


def _identity(path: str) -> tuple[int, int] | None:
    """The device and inode of a file, None if there is none. Raises OSError if that cannot be checked now."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _is_still(descriptor: int, path: str) -> bool:
    """Whether ``path`` is the very file open as ``descriptor``. Raises OSError if that cannot be
    checked now."""
    try:
        named = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    opened = os.fstat(descriptor)
    return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
