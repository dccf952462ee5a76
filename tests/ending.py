"""SIGTERM and SIGHUP end a run of the tests as Ctrl-C does: fixtures end what they started, then pytest ends.

Without this a killed pytest leaves its clusters running. The signal becomes a ``KeyboardInterrupt`` in a test, but
never in the middle of a fixture's setup or teardown: there it waits for the end, because a teardown that is interrupted
is not done again. With xdist the main process passes the signal on and waits until its workers have torn down; each of
them does the same. Only the first signal counts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import pytest

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
WORKERS_SECONDS: Final = 90.0
"""How long workers may take to tear down: ``yopp down`` has 30 s in a fixture, and a test may have two clusters."""


class Ending:
    """The plugin, one for each process of a run."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._signal: int | None = None
        """What was received and is not raised yet."""
        self._ended = False
        self._fixtures = 0
        """How many setups and teardowns are under way."""
        self._workers: list[Any] = []
        self._take_signals()

    def _take_signals(self) -> None:
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if (
            os.getpid() != self._pid
        ):  # a child that has not executed its program: it dies as any other process
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self._ended:
            return
        self._ended = True
        self._signal = number
        self._raise_between_fixtures()

    def _raise_between_fixtures(self) -> None:
        if self._signal is not None and not self._fixtures:
            name, self._signal = signal.Signals(self._signal).name, None
            raise KeyboardInterrupt(name)

    @contextlib.contextmanager
    def _undisturbed(self) -> Generator[None]:
        self._fixtures += 1
        try:
            yield
        finally:
            self._fixtures -= 1
        self._raise_between_fixtures()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Take the signals again: asyncio leaves SIGTERM at its default after a test that handled it."""
        self._take_signals()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, Any, Any]:
        with self._undisturbed():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        with self._undisturbed():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None, Any, Any]:
        """The last teardowns, in the main process after those of all workers."""
        self._ended = True
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self._end_workers(WORKERS_SECONDS)
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        self._workers.append(node)

    def _end_workers(self, seconds: float) -> None:
        """xdist gives interrupted workers a few seconds, and then kills them. Who needs longer than ours is named."""
        pids = {node: node.gateway._rinfo().pid for node in self._workers if not node._down}
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while left := {node: pid for node, pid in pids.items() if not node._down}:
            if time.monotonic() > deadline:
                who = ", ".join(f"{node.gateway.id} (process {pid})" for node, pid in left.items())
                sys.stderr.write(
                    f"\nNOT ENDED: {who} not within {seconds:g} s: what their fixtures have started may be left\n"
                )
                return
            time.sleep(0.02)
