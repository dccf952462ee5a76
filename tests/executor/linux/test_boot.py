"""After a reboot, the processes that records name are others: they are never signalled, nor taken for containers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from executor.linux.cgroups import discover
from executor.linux.container_executor import LinuxContainerExecutor
from executor.linux.procfs import boot_id, is_alive, read_stat
from executor.linux.store import BOOT, StateStore
from executor.records import ContainerRecord, ContainerSpec, ContainerState, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.cluster.cleanup import live_records
from yarnopp_cli.cluster.rundir import RunDir

Found = TypeVar("Found")


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any container."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def record_of(process: subprocess.Popen[bytes], container_id: str = "c1") -> ContainerRecord:
    found = read_stat(process.pid)
    assert found is not None
    spec = ContainerSpec(container_id, ("sleep", "100"), Resource(1, 1))
    return ContainerRecord(spec, ContainerState.RUNNING, pid=process.pid, process_start=found.start)


def written_before_the_reboot(directory: Path, record: ContainerRecord) -> None:
    store = StateStore(directory)
    store.store(record)
    store.close()
    (directory / BOOT).write_text("00000000-0000-0000-0000-000000000000\n")


def started(tmp_path: Path, begin: Callable[[LinuxContainerExecutor], Found]) -> Found:
    """What a node finds that starts and ends."""

    async def scenario() -> Found:
        settings = ExecutorSettings(cgroups_mount="none")
        node = LinuxContainerExecutor(
            settings,
            post=lambda event: pytest.fail(f"{event}"),
            work_dir=tmp_path / "work",
            log_dir=tmp_path / "logs",
            state_dir=tmp_path / "state",
            cgroups=discover(settings, group="test-boot"),
        )
        found = begin(node)
        await node.close()
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize("discards", [False, True])
def test_a_process_with_the_same_pid_and_start_time_is_left_alone(
    tmp_path: Path, innocent: subprocess.Popen[bytes], discards: bool
) -> None:
    record = record_of(innocent)
    written_before_the_reboot(tmp_path / "state", record)
    journal = tmp_path / "state" / "yopp-slot-1.journal"
    journal.write_text(f"launcher {record.pid} {record.process_start}\nbegin 0.0 0.0 0 0 c2\n")
    if discards:
        started(tmp_path, LinuxContainerExecutor.discard)
    else:
        (found,) = started(tmp_path, LinuxContainerExecutor.recover)
        assert (found.alive, found.exit_code, found.record.pid, found.rebooted) == (False, None, 0, True)
    after = read_stat(innocent.pid)
    assert after is not None and after.state not in "TtZX" and is_alive(record.pid, record.process_start)
    assert (tmp_path / "state" / BOOT).read_text().strip() == boot_id()


def test_what_is_known_of_launchers_is_forgotten_with_the_boot(
    tmp_path: Path, innocent: subprocess.Popen[bytes]
) -> None:
    record = record_of(innocent)
    written_before_the_reboot(tmp_path / "state", record)
    journal = tmp_path / "state" / "yopp-slot-1.journal"
    journal.write_text(f"launcher {record.pid} {record.process_start}\nbegin 0.0 0.0 0 0 c1\n")
    for _ in range(2):  # the second one starts in the same boot as the first
        (found,) = started(tmp_path, LinuxContainerExecutor.recover)
        assert not found.alive and is_alive(record.pid, record.process_start)


def test_the_note_of_the_boot_is_replaced_as_a_whole(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    (tmp_path / BOOT).write_text("that of before\n")
    before = tmp_path / "before"
    before.hardlink_to(tmp_path / BOOT)
    store.note_boot()
    assert (tmp_path / BOOT).read_text() == boot_id() + "\n"
    assert before.read_text() == "that of before\n", "who reads it meanwhile sees the old one whole"
    assert sorted(os.listdir(tmp_path)) == ["before", BOOT]


def test_down_ends_no_process_of_another_boot(tmp_path: Path, innocent: subprocess.Popen[bytes]) -> None:
    run_dir = RunDir.of(str(tmp_path / "run"))
    run_dir.prepare()
    directory = Path(run_dir.records_dir(45454))
    written_before_the_reboot(directory, record_of(innocent))
    assert live_records(run_dir) == ()
    (directory / BOOT).write_text(boot_id() + "\n")
    assert [one.pid for one in live_records(run_dir)] == [innocent.pid]


def test_records_of_this_boot_and_of_versions_without_one_keep_their_processes(tmp_path: Path) -> None:
    spec = ContainerSpec("c1", ("sleep", "100"), Resource(1, 1))
    for text in (None, boot_id()):
        store = StateStore(tmp_path / "state")
        store.store(ContainerRecord(spec, ContainerState.RUNNING, pid=7, process_start=8))
        if text is not None:
            store.note_boot()
        store.close()
        assert [one.pid for one in StateStore(tmp_path / "state").load_all(tidy=False)] == [7]
