"""Which pid a container is shown with. Its shim is a shell that runs a file of that name, above real commands."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.linux.procfs import children
from executor.linux.shim import SHIM_NAME
from executor.records import ContainerState, ContainerStatus, ExecutionType
from yarnopp_cli.daemons.command_pids import CommandPids
from yarnopp_cli.records.container_protocol import GetContainerStatusesResponse

from .conftest import wait_for

TWO_COMMANDS = "sleep 600; sleep 601"


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / SHIM_NAME).write_text(TWO_COMMANDS)
    process = subprocess.Popen(["sh", str(tmp_path / SHIM_NAME), str(tmp_path / "exit")])
    yield process
    found = children(process.pid)
    process.kill()
    process.wait()
    for pid in found:
        subprocess.run(["kill", str(pid)], check=True)


def shown(pids: CommandPids, pid: int, ago: float, **more: int) -> int:
    """The pid that a running container of this pid, which began so many seconds ago, is shown with."""
    began = int((time.time() - ago) * 1000)
    status = ContainerStatus(
        "c1", ContainerState.RUNNING, ExecutionType.GUARANTEED, pid=pid, started_at_ms=began, **more
    )
    (told,) = pids.told(GetContainerStatusesResponse((status,))).statuses
    assert told.started_at_ms == began
    return told.pid


def commands_of(shim: subprocess.Popen[bytes]) -> int:
    """The pid of the only child."""
    (pid,) = wait_for(lambda: children(shim.pid), what="its command")
    return int(pid)


@pytest.mark.parametrize("ago", [0.0, 60.0])
def test_the_commands_pid_is_shown_and_remembered_once_it_must_have_begun(
    shim: subprocess.Popen[bytes], ago: float
) -> None:
    pids = CommandPids()
    first = commands_of(shim)
    assert shown(pids, shim.pid, ago) == first
    subprocess.run(["kill", str(first)], check=True)
    second = wait_for(lambda: [pid for pid in children(shim.pid) if pid != first], what="the next")[0]
    assert shown(pids, shim.pid, ago) == (first if ago else second)


def test_what_has_no_shim_or_has_ended_keeps_its_pid(shim: subprocess.Popen[bytes]) -> None:
    pids = CommandPids()
    command = commands_of(shim)
    assert shown(pids, command, 60.0) == command
    assert shown(pids, 0, 60.0) == 0
    assert shown(pids, shim.pid, 60.0, finished_at_ms=1) == shim.pid
