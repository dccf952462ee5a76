"""A node on a small file system that is full, or has no inodes left."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from executor.core.commands import CleanUpContainer, ForgetContainer, LaunchContainer, StoreContainer
from executor.core.events import ContainerExited, ContainerLaunchFailed, NodeHealthChanged
from executor.linux import launcher
from executor.linux.cgroups import CgroupDriver
from executor.linux.context import ExecutorContext
from executor.linux.watching import health
from executor.linux.watching.health import node_status
from executor.records import CgroupLimits, ContainerExitStatus, ContainerRecord, ContainerState
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, soon

DISKS = int(ContainerExitStatus.DISKS_FAILED)
SLOTS = pytest.mark.parametrize("slots", [0, 1], ids=["outside", "slot"])


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory of 512 KB and 200 inodes."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k,nr_inodes=200,mode=700", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def cgroups(slots: int) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(pooled_groups=slots)) as driver:
        yield driver


def fill(place: Path, *, inodes: bool) -> list[Path]:
    """Leave no room; what has to go for it to be there again."""
    made = [place / "ballast"]
    with open(made[0], "wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while not inodes:
            ballast.write(bytes(4096))
    with contextlib.suppress(OSError):
        while inodes:
            made.append(place / f"inode-{len(made)}")
            made[-1].touch()
    return [path for path in made if path.exists()]


def health_of(node: Node) -> list[str]:
    return [one.report for one in node.events if isinstance(one, NodeHealthChanged)]


@SLOTS
@pytest.mark.parametrize("inodes", [False, True], ids=["space", "inodes"])
def test_a_full_disk_is_the_nodes_fault_until_there_is_room(
    small: Path, cgroups: CgroupDriver, slots: int, inodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.05)

    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            assert (await node.run(a_spec("c1", "sh", "-c", "exit 0"))).exit_code == 0
            node.executor.perform(CleanUpContainer("c1"))
            ballast = fill(small, inodes=inodes)
            spec = a_spec("c2", "sh", "-c", "exit 4", files={"f": "x" * 8192})
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            failed = await node.told(ContainerLaunchFailed, "c2")
            assert failed.node_status == DISKS and "no space left" in failed.reason
            assert "\n" not in failed.reason, "it is the node's report"
            assert health_of(node) == []
            for path in ballast:
                path.unlink()
            await soon(lambda: health_of(node) == [""], "it is well again")
            assert (await node.run(a_spec("c3", "sh", "-c", "exit 5"))).exit_code == 5

    asyncio.run(scenario())


@SLOTS
@pytest.mark.parametrize("free", range(8))
def test_what_never_began_for_want_of_a_file_is_the_nodes_fault_and_costs_no_try(
    small: Path, cgroups: CgroupDriver, slots: int, free: int
) -> None:
    """The last file that it needs is the journal of its launcher, or a line of it."""

    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            assert (await node.run(a_spec("c1", "true"))).exit_code == 0
            node.executor.perform(CleanUpContainer("c1"))
            await soon(lambda: not (small / "work" / "c1").exists(), "nothing is removed any more")
            ballast = fill(small, inodes=True)
            for path in ballast[len(ballast) - free :]:
                path.unlink()
            node.executor.perform(LaunchContainer(a_spec("c2", "sh", "-c", "exit 5"), CgroupLimits()))
            end = await soon(
                lambda: node.found(ContainerLaunchFailed, "c2") or node.found(ContainerExited, "c2"),
                "c2 has ended",
            )
            if isinstance(end, ContainerLaunchFailed):
                assert end.node_status == DISKS
            else:
                assert (end.exit_code, end.node_fault) == (5, "") or (
                    end.exit_code is None and end.node_fault
                )
            fill(small, inodes=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [1])
def test_a_launcher_that_cannot_write_its_journal_is_the_nodes_fault_wherever_the_output_goes(
    small: Path, cgroups: CgroupDriver, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=1)) as node:
            for number in range(200):
                name = f"c{number}"
                spec = a_spec(name, "true", log_directory=str(tmp_path / "logs"))
                node.executor.perform(LaunchContainer(spec, CgroupLimits()))
                failed = await soon(
                    lambda n=name: node.found(ContainerExited, n) or node.found(ContainerLaunchFailed, n),
                    name,
                )
                if isinstance(failed, ContainerLaunchFailed):
                    break
                node.executor.perform(CleanUpContainer(name))
                fill(small, inodes=False)
            assert failed.node_status == DISKS and "cannot write its journal" in failed.reason

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0])
def test_what_cannot_join_its_cgroup_is_the_nodes_fault(
    tmp_path: Path, cgroups: CgroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(cgroups), "_join_file", lambda *_: "cgroup.none")

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=0)) as node:
            node.executor.perform(LaunchContainer(a_spec("c1", "true"), CgroupLimits()))
            failed = await node.told(ContainerLaunchFailed, "c1")
            assert failed.node_status < 0 and "cgroup.none" in failed.reason

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0])
def test_the_few_inodes_that_a_trial_needs_are_no_room_for_a_container(
    small: Path, cgroups: CgroupDriver
) -> None:
    """The node was healthy again each second, and unhealthy with the next container."""

    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=0)) as node:
            ballast = fill(small, inodes=True)
            for path in ballast[:4]:
                path.unlink()
            assert node.executor._health.problem_of(str(small)) == "only 4 more files can be created"
            for path in ballast[4:16]:
                path.unlink()
            assert node.executor._health.problem_of(str(small)) == ""

    asyncio.run(scenario())


@SLOTS
def test_files_for_which_there_is_never_room_are_their_containers_fault(
    small: Path, cgroups: CgroupDriver, slots: int
) -> None:
    """It was tried without end: the node has room for the little that a trial takes."""

    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            for size, name in (
                (600_000, "c1"),
                (300_000, "c2"),
            ):  # too large for its record; for its record and itself
                spec = a_spec(name, "true", files={"f": "x" * size})
                node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
                node.executor.perform(LaunchContainer(spec, CgroupLimits()))
                failed = await node.told(ContainerLaunchFailed, name)
                assert (failed.node_status, failed.exit_code) == (0, 125)
                assert f"its files have {size} bytes" in failed.reason and "no space left" in failed.reason
                node.executor.perform(CleanUpContainer(name))
                node.executor.perform(ForgetContainer(name))
            assert (await node.run(a_spec("c3", "sh", "-c", "exit 5"))).exit_code == 5
            assert health_of(node) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0])
@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_where_nothing_can_be_forked_it_is_the_nodes_fault(
    tmp_path: Path, cgroups: CgroupDriver, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.05)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=0)) as node:
            with mock.patch("subprocess.Popen", side_effect=OSError(number, os.strerror(number))) as forks:
                node.executor.perform(LaunchContainer(a_spec("c1", "true"), CgroupLimits()))
                failed = await node.told(ContainerLaunchFailed, "c1")
                assert failed.node_status == int(ContainerExitStatus.ABORTED)
                await soon(lambda: forks.call_count >= 3, "it is tried")
                assert health_of(node) == []
            await soon(lambda: health_of(node) == [""], "it is well again")

    asyncio.run(scenario())


@SLOTS
def test_a_disk_that_is_full_when_a_container_fails_is_found_at_once(
    small: Path, cgroups: CgroupDriver, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the next regular look, two minutes later, each container that printed something failed there."""
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.05)

    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            fills = f"head -c 600000 /dev/zero > {small}/ballast; exit 3"
            assert (await node.run(a_spec("c1", "sh", "-c", fills))).exit_code == 3
            (report,) = await soon(lambda: health_of(node), "it is found")
            assert report.startswith(str(small)) and "No space left on device" in report
            (small / "ballast").unlink()
            await soon(lambda: health_of(node)[1:] == [""], "it is well again")
            assert (await node.run(a_spec("c2", "sh", "-c", "exit 4"))).exit_code == 4
            assert len(health_of(node)) == 2

    asyncio.run(scenario())


def test_a_look_from_before_a_failed_start_does_not_find_the_node_healthy() -> None:
    """It has forked nothing, as a look does that follows a failure."""
    told: list[str] = []
    asked: list[bool] = []
    goes_on = threading.Event()

    def find(*, forks: bool) -> str:
        asked.append(forks)
        assert goes_on.wait(10)
        return ""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        context = mock.Mock(spec=ExecutorContext, loop=loop, spawn=loop.create_task)
        settings = ExecutorSettings(disk_health_interval_ms=60_000)
        checker = health.HealthChecker(context, settings, {}, lambda event: told.append(event.report))
        with mock.patch.object(checker, "_find", find), mock.patch.object(health, "AGAIN_SECONDS", 0.05):
            checker.has_failed()
            await soon(lambda: asked == [False], "it looks")
            checker.suspect("no process can be started")
            goes_on.set()
            await soon(lambda: told == [""], "the next look finds it healthy")
            checker.stop()
        assert asked[:2] == [False, True]

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0])
def test_the_disks_are_looked_at_regularly(small: Path, cgroups: CgroupDriver) -> None:
    settings = ExecutorSettings(pooled_groups=0, disk_health_interval_ms=20)

    async def scenario() -> None:
        async with a_node(small, cgroups, settings) as node:
            node.executor.start()
            ballast = fill(small, inodes=False)
            (report,) = await soon(lambda: health_of(node), "it is found")
            assert report.startswith(str(small)) and "No space left on device" in report
            for path in ballast:
                path.unlink()
            await soon(lambda: health_of(node)[1:] == [""], "it is well again")

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0])
@pytest.mark.parametrize(
    ("settings", "report"),
    [
        ({"disk_most_used_percentage": 20.0}, "used space above threshold of 20%"),
        ({"disk_least_free_mb": 1}, "free space below limit of 1MB"),
        ({}, ""),
    ],
)
def test_limits_of_disks_are_yarns(
    small: Path, cgroups: CgroupDriver, settings: dict[str, Any], report: str
) -> None:
    async def scenario() -> None:
        async with a_node(small, cgroups, ExecutorSettings(pooled_groups=0, **settings)) as node:
            (small / "some").write_bytes(bytes(200_000))
            assert node.executor._health.problem_of(str(small)) == report

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [0])
def test_logs_that_somebody_sent_elsewhere_are_not_the_nodes(
    tmp_path: Path, small: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=0)) as node:
            (small / "logs").mkdir()
            fill(small, inodes=True)
            spec = a_spec("c1", "true", log_directory=str(small / "logs"))
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            assert (await node.told(ContainerLaunchFailed, "c1")).node_status == 0

    asyncio.run(scenario())


def test_which_errors_are_the_nodes() -> None:
    aborted = int(ContainerExitStatus.ABORTED)
    assert {node_status(one) for one in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)} == {DISKS}
    assert {node_status(one) for one in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)} == {aborted}
    assert {node_status(one) for one in (0, errno.ENOENT, errno.EACCES, errno.E2BIG)} == {0}


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(errno.ENOMEM, 125, errno.ENOMEM), (errno.ENFILE, 125, errno.ENFILE), (errno.E2BIG, 126, 0)],
)
def test_what_the_kernel_lacks_for_every_command_is_not_left_to_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int, told: int
) -> None:
    """A shell would make a failure of the command of it, 126."""

    def refuses(program: str, *_: Any, **__: Any) -> int:
        assert program != launcher.SHELL
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_spawn", refuses)
    monkeypatch.setattr(os, "chdir", lambda _: None)
    out = str(tmp_path / "out")
    with pytest.raises(launcher.NotStartedError) as failed:
        launcher._start(mock.Mock(), -1, ["true"], {"PATH": os.environ["PATH"]}, "/", out, out)
    assert (failed.value.args[0], failed.value.args[2]) == (code, told)
