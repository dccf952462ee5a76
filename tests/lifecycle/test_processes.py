"""Processes by pid and start time: told apart, waited for, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from yarnopp_cli.cluster.processes import ProcessId, end_processes, wait_for_end

STUBBORN = (
    "import signal, sys; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); sys.stdin.read()"
)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", STUBBORN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "deaf\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def known(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> ProcessId:
    found = ProcessId.of(process.pid)
    assert found is not None
    return found


def test_a_pid_of_another_time_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    now = known(sleeper)
    assert now.alive()
    before = ProcessId(now.pid, now.start - 1)
    assert not before.alive()
    assert before.open() is None
    assert not before.send(signal.SIGKILL)
    assert sleeper.poll() is None
    assert wait_for_end([before], 5) == ()


def test_a_zombie_does_not_live(sleeper: subprocess.Popen[bytes]) -> None:
    process = known(sleeper)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive()
    assert ProcessId.of(sleeper.pid) is None


def test_waiting_is_bounded_and_ends_with_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    process = known(sleeper)
    assert wait_for_end([process], 0.05) == (process,)
    sleeper.terminate()
    assert wait_for_end([process], 3600) == ()


def test_ending_in_order_and_by_force(
    sleeper: subprocess.Popen[bytes], stubborn: subprocess.Popen[str]
) -> None:
    processes = [known(sleeper), known(stubborn)]
    assert end_processes(processes, grace=1.0, force=False) == (processes[1],)
    assert end_processes(processes, grace=0.05, force=True) == ()
    assert end_processes(processes, grace=0.05, force=True) == ()


def test_a_stopped_process_takes_its_end_too(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    stopped = known(sleeper)
    assert end_processes([stopped], grace=3600, force=False) == (), "by SIGTERM and SIGCONT, not by patience"
    assert not stopped.alive()
