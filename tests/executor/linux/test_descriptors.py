"""How many files a node and its containers may have open, and a node that has none left to open."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import (
    CleanUpContainer,
    Command,
    KillContainer,
    LaunchContainer,
    PauseContainer,
    ResumeContainer,
    SetLimits,
    SignalContainer,
    StoreContainer,
)
from executor.core.events import ContainerExited, ContainerLaunchFailed
from executor.linux import descriptors
from executor.linux.cgroups import CgroupDriver
from executor.linux.slots.journals import journals, read_journal
from executor.records import CgroupLimits, ContainerRecord, ContainerState
from executor.settings import ExecutorSettings

from ...shortage import none_free
from .node import a_group, a_node, a_spec, running, soon

SLOTS = pytest.mark.parametrize("slots", [0, 1], ids=["outside", "slot"])


@pytest.fixture
def soft() -> Iterator[int]:
    """This process may open few files by its soft limit."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    try:
        yield 500
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
        descriptors._before = 0


@pytest.fixture
def cgroups(slots: int) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(pooled_groups=slots)) as driver:
        yield driver


@SLOTS
def test_a_node_may_open_more_files_than_its_containers(
    tmp_path: Path, soft: int, cgroups: CgroupDriver, slots: int
) -> None:
    descriptors.raise_limit()
    now, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert now == min(descriptors.MOST, hard) > soft

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            script = "ulimit -S -n; ulimit -H -n"
            assert (await node.run(a_spec("c1", "sh", "-c", script))).exit_code == 0
            assert node.output("c1").decode().split() == [str(soft), str(hard)]

    asyncio.run(scenario())


@SLOTS
def test_without_a_free_descriptor_nothing_is_lost_and_the_node_lives(
    tmp_path: Path, cgroups: CgroupDriver, slots: int
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            await node.launch(a_spec("c1", "sleep", "1000"))
            new = a_spec("c2", "true")
            record = ContainerRecord(new, ContainerState.LAUNCHING)
            commands: list[Command] = [
                StoreContainer(record), LaunchContainer(new, CgroupLimits()), SetLimits("c1", CgroupLimits()),
                SignalContainer("c1", 0), PauseContainer("c1"), ResumeContainer("c1"), KillContainer("c1"),
                KillContainer("c1", force=True), CleanUpContainer("c2"),
            ]  # fmt: skip
            with none_free():
                for command in commands:
                    node.executor.perform(command)
                    await asyncio.sleep(0)
            failed = await node.told(ContainerLaunchFailed, "c2")
            assert failed.node_status, failed
            await node.told(ContainerExited, "c1")

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [1], ids=["slot"])
def test_what_had_begun_in_a_slot_does_not_begin_again_where_its_journal_cannot_be_read(
    tmp_path: Path, cgroups: CgroupDriver, slots: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its launcher is killed while no file can be opened: neither is its journal, nor the list of its processes."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            launched = await node.launch(a_spec("c1", "sh", "-c", f"echo x >> {tmp_path}/began; sleep 1000"))
            await soon(lambda: (tmp_path / "began").exists(), "it runs")
            (path,) = journals(str(tmp_path / "state"))
            launcher = read_journal(path).launcher
            with none_free():
                os.kill(launcher, signal.SIGKILL)
                await soon(lambda: not node.executor._pool._slots.all, "its launcher's end is noticed")
                await soon(lambda: caplog.text.count("cannot be read yet") >= 3, "it is tried in vain")
                assert node.found(ContainerExited, "c1") is None, "it lives"
            assert (await node.told(ContainerExited, "c1")).exit_code == 128 + signal.SIGKILL
            assert not running(launched.pid)
            assert (tmp_path / "began").read_text() == "x\n"

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [1], ids=["slot"])
def test_what_has_begun_does_not_begin_again_without_its_journal(
    tmp_path: Path, cgroups: CgroupDriver, slots: int
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            await node.launch(a_spec("c1", "sh", "-c", f"echo x >> {tmp_path}/began; sleep 1000"))
            await soon(lambda: (tmp_path / "began").exists(), "it runs")
            (path,) = journals(str(tmp_path / "state"))
            launcher = read_journal(path).launcher
            os.unlink(path)
            os.kill(launcher, signal.SIGKILL)
            assert (await node.told(ContainerExited, "c1")).exit_code == 128 + signal.SIGKILL
            assert (tmp_path / "began").read_text() == "x\n"

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0], ids=["outside"])
def test_what_comes_later_never_overwrites_what_came_after_it(
    tmp_path: Path, cgroups: CgroupDriver, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            executor, order = node.executor, list[ContainerState]()
            told, write = executor._preparer.gone, executor._write_down
            faults = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

            def gone(container_id: str) -> None:
                if faults:
                    raise faults.pop()
                told(container_id)

            def write_down(record: ContainerRecord) -> None:
                order.append(record.state)
                write(record)

            monkeypatch.setattr(executor._preparer, "gone", gone)
            monkeypatch.setattr(executor, "_write_down", write_down)
            one, another = a_spec("c1", "true"), a_spec("c2", "true")
            executor.perform(StoreContainer(ContainerRecord(one, ContainerState.RUNNING)))
            executor.perform(StoreContainer(ContainerRecord(one, ContainerState.KILLING)))
            executor.perform(StoreContainer(ContainerRecord(another, ContainerState.PAUSED)))
            await soon(lambda: len(order) == 4, "all are written")
            assert order == [
                ContainerState.RUNNING, ContainerState.PAUSED, ContainerState.RUNNING, ContainerState.KILLING,
            ]  # fmt: skip
            assert executor._late == {}

    asyncio.run(scenario())
