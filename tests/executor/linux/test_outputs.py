"""Output that a full, read-only or failing file system refused while its container ran."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.events import ContainerExited
from executor.linux import launcher
from executor.linux.cgroups import CgroupDriver
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, soon
from .test_failing_disk import Disk
from .test_failing_disk import disk as disk
from .test_health import SLOTS, fill
from .test_health import small as small

FULL = "No space left on device"


@pytest.fixture
def cgroups(slots: int) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(pooled_groups=slots)) as driver:
        yield driver


async def waits(node: Node, name: str, script: str, place: Path, **fields: object) -> Path:
    """Launch a container that does this and waits; the file for which it waits."""
    go, begun = place / "go", place / "begun"
    script = f"{script}; : > {begun}; until [ -e {go} ]; do sleep 0.01; done"
    await node.launch(a_spec(name, "sh", "-c", script, **fields))
    await soon(begun.exists, "it has done so")
    return go


@SLOTS
@pytest.mark.parametrize("elsewhere", [False, True], ids=["logs", "results"])
def test_output_for_which_there_is_no_room_is_lost(
    small: Path, cgroups: CgroupDriver, slots: int, elsewhere: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with a_node(
            tmp_path if elsewhere else small, cgroups, ExecutorSettings(pooled_groups=slots)
        ) as node:
            for name, script in (
                ("c1", "seq 200000; :"),
                ("c2", "echo word; :"),
            ):  # of the second, all is lost
                where = {"log_directory": str(small / name)} if elsewhere else {}
                end = await node.run(a_spec(name, "sh", "-c", script, **where))
                assert (end.exit_code, end.output_lost) == (0, FULL)

    asyncio.run(scenario())


@SLOTS
def test_what_was_lost_is_told_although_there_is_room_at_the_end(
    small: Path, cgroups: CgroupDriver, slots: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        settings = ExecutorSettings(pooled_groups=slots, monitor_interval_ms=20)
        async with a_node(small, cgroups, settings) as node:
            node.executor.start()
            ballast = fill(small, inodes=False)
            ballast[0].write_bytes(bytes(100_000))
            go = await waits(node, "c1", "seq 200000 2>&-", tmp_path)
            await soon(lambda: node.executor._held["c1"].output_lost, "the node has seen it")
            ballast[0].unlink()
            go.touch()
            assert (await node.told(ContainerExited, "c1")).output_lost == FULL

    asyncio.run(scenario())


@SLOTS
def test_output_that_is_complete_is_not_lost_because_a_disk_is_full(
    small: Path, cgroups: CgroupDriver, slots: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            go = await waits(node, "c1", "echo word; echo error >&2", tmp_path)
            other = await node.run(a_spec("c2", "head", "-c", "8192", "/dev/zero"))
            assert other.output_lost == "", "there was room, and a trial shows that there still is"
            fill(small, inodes=False)
            go.touch()
            assert (await node.told(ContainerExited, "c1")).output_lost == ""
            if slots:
                assert (await node.run(a_spec("c3", "true"))).output_lost == "", "it has written nothing"

    asyncio.run(scenario())


@SLOTS
@pytest.mark.parametrize("where", ["", "2>&1", ">&2"], ids=["stdout", "both", "stderr"])
def test_a_short_write_that_finds_room_after_a_refused_one_hides_no_loss(
    small: Path, cgroups: CgroupDriver, slots: int, where: str
) -> None:
    """As on ext4, which frees a reserve of its own once the refused data is on the disk."""

    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            reserve = small / "reserve"
            reserve.write_bytes(bytes(4096))
            script = f"(seq 200000 2>&-; rm {reserve}; echo told) {where}; :"
            end = await node.run(a_spec("c1", "sh", "-c", script))
            assert (end.exit_code, end.output_lost) == (0, FULL)

    asyncio.run(scenario())


def test_room_of_less_than_a_block_is_no_room_for_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of ext4 may have 1024 bytes."""
    facts = list(os.statvfs(tmp_path))
    facts[1], facts[4] = 1024, 3  # f_frsize, f_bavail
    monkeypatch.setattr("os.statvfs", lambda path: os.statvfs_result(facts))
    assert not launcher._has_written_nothing(os.getpid(), str(tmp_path)), "this process has written"
    facts[4] = 4
    assert launcher._has_written_nothing(os.getpid(), str(tmp_path))


@SLOTS
@pytest.mark.parametrize("why", ["Read-only file system", "Input/output error"])
def test_output_on_a_disk_that_fails_is_lost(
    disk: Disk, cgroups: CgroupDriver, slots: int, why: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with a_node(disk.place, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            go = await waits(node, "c1", "echo word", tmp_path)
            (disk.becomes_read_only if why.startswith("Read-only") else disk.fails)()
            go.touch()
            end = await node.told(ContainerExited, "c1")
            assert (end.exit_code, end.output_lost) == (0, why)
        disk.repair()

    asyncio.run(scenario())
