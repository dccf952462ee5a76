"""The other ways of ``yopp up``: in the foreground until a signal, and behind the caller's back (``--no-wait``)."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cluster.capacity import plan_capacity
from ...cluster.ending import TERM_SECONDS, take_down
from ...cluster.inspection import join
from ...errors import EXIT_INTERRUPTED, InvalidStateError, YoppError
from ..frame.context import Context
from ..frame.output import Printer

if TYPE_CHECKING:
    from ...cluster.capacity import Wish

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def refuse_running(context: Context) -> None:
    """Raise InvalidStateError where there are daemons already: who stays in front of them would end them."""
    if context.run_dir.exists() and (daemons := context.run_dir.daemons()):
        raise InvalidStateError(
            "a cluster runs here already",
            because=f"{daemons[0].name} is process {daemons[0].process.pid}, and --foreground ends what it began",
            hint="`yopp down` first, or leave out --foreground",
        )


def stay(context: Context, printer: Printer) -> int:
    """Wait for a signal and end the cluster, or until it has been ended; the exit code."""
    daemon = context.run_dir.daemon("rm")
    try:
        watched = -1 if daemon is None else os.pidfd_open(daemon.process.pid)
    except ProcessLookupError:
        watched = -1
    received: list[int] = []
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {number: signal.getsignal(number) for number in _ENDING}
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        for number in _ENDING:
            signal.signal(number, lambda got, _: received.append(got))
        if watched >= 0:
            printer.note("in the foreground: Ctrl-C or SIGTERM ends the cluster")
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        if watched >= 0:
            poll.register(watched, select.POLLIN)
            while not received and not any(fd == watched for fd, _ in poll.poll()):
                os.read(reading, 64)
        if received:
            name = signal.Signals(received[0]).name
            printer.note(f"{name}: ending the cluster")
            take_down(context.run_dir, force=True, timeout=TERM_SECONDS)
            return EXIT_INTERRUPTED if received[0] == signal.SIGINT else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(previous)
        for descriptor in (reading, writing, *([watched] if watched >= 0 else [])):
            os.close(descriptor)
    if os.path.exists(context.run_dir.nodes_file) and context.run_dir.daemons():
        raise YoppError(
            "the ResourceManager has ended",
            because="nobody told this command to end it",
            hint=f"its log is {context.run_dir.log_file('rm')}; `yopp up` starts it again, `yopp down` ends the nodes",
        )
    printer.note("the cluster has been ended")
    return 0


def begin_behind(context: Context, wish: Wish, words: Sequence[str]) -> str | None:
    """Have another process start the cluster; the file that it writes to, None where there is one that serves.

    ``words`` are the arguments of ``up``. What can be known to be wrong is refused here. Raises YoppError.
    """
    from ...cluster.launching import daemon_environment

    joined = join(context.run_dir) if context.run_dir.exists() else None
    if joined is not None and joined.info.nodes_running:
        return None
    context.run_dir.prepare()
    if joined is None:
        plan_capacity(context.configuration, wish)
    path = context.run_dir.log_file("up")
    try:
        log = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "yarnopp_cli", "up", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=daemon_environment(os.environ),
                start_new_session=True,
            )
        finally:
            os.close(log)
    except OSError as error:
        raise YoppError(
            "the cluster was not started",
            because=(error.strerror or str(error)).lower(),
            hint="`yopp doctor` looks at what this host allows",
        ) from None
    process.returncode = 0  # it is not ours to wait for
    return path
