"""Containers that are made ready while they wait: they run as any other, or leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from executor.core.commands import CleanUpContainer, ForgetContainer, StoreContainer
from executor.core.events import ContainerExited
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.procfs import children
from executor.linux.shim import shims_of
from executor.records import CgroupLimits, ContainerRecord, ContainerSpec, ContainerState, ExecutionType
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, running, soon, until
from .test_limits_live import HOG, MIB
from .test_recovery import Crashed

MODES = ["none", pytest.param("auto", marks=pytest.mark.cgroup)]
SETTINGS = ExecutorSettings(prepared_containers=2, pooled_groups=0)


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(cgroups_mount=request.param)) as driver:
        yield driver


def store(node: Node, spec: ContainerSpec, state: ContainerState = ContainerState.SCHEDULED) -> None:
    node.executor.perform(StoreContainer(ContainerRecord(spec, state)))


def shims(node: Node, container_id: str) -> list[int]:
    found = shims_of(str(node.directory / "state"))
    return [one.pid for one in found.get(str(node.directory / "state" / f"{container_id}.exit1"), [])]


async def ready(node: Node, *containers: str) -> None:
    """Wait until shells wait at the gate for these, in their groups."""

    def all_wait() -> bool:
        for name in containers:
            found = [child for shim in shims(node, name) for child in children(shim)]
            if len(found) != 1 or (node.cgroups.mode != "none" and node.cgroups.processes(name) != found):
                return False
            if Path(f"/proc/{found[0]}/stat").read_text().rpartition(")")[2].split()[0] != "S":
                return False
        return True

    await soon(all_wait, f"{containers} are ready")


async def nothing_left(node: Node, container_id: str) -> None:
    left = [node.directory / "work" / container_id, node.directory / "logs" / container_id]
    await soon(lambda: not shims(node, container_id), "its shim ends")
    await soon(lambda: container_id not in node.cgroups.stale_groups(), "its group goes")
    await soon(lambda: not any(path.exists() for path in left), "its directories go")


async def launched_when_ready(node: Node, spec: ContainerSpec, **limits: Any) -> ContainerExited:
    """Let it wait, then start the very process that waits, and tell its end."""
    store(node, spec)
    await ready(node, spec.container_id)
    (shim,) = shims(node, spec.container_id)
    assert not list((node.directory / "state").glob(f"{spec.container_id}.exit*")), "it has not begun"
    store(node, spec, ContainerState.LAUNCHING)
    assert (await node.launch(spec, CgroupLimits(pids_max=200, **limits))).pid == shim
    return await node.told(ContainerExited, spec.container_id)


LOOK = """
import json, os, resource, signal, sys
status = open("/proc/self/status").read().splitlines()
print(json.dumps({
    "environment": dict(os.environ), "cwd": os.getcwd(), "umask": os.umask(0),
    "limits": [resource.getrlimit(n) for n in range(16)], "nice": os.nice(0), "stdin": sys.stdin.read(),
    "files": sorted(os.listdir("/proc/self/fd")),
    "in": os.readlink("/proc/self/fd/0"), "out": os.readlink("/proc/self/fd/1"),
    "masks": [line for line in status if line.startswith("Sig") and "Q" not in line],
    "leads": os.getpgrp() == os.getsid(0) == os.getppid(), "arguments": sys.argv[1:],
}, sort_keys=True))
"""


def test_a_container_made_ready_sees_what_any_other_sees(tmp_path: Path, cgroups: CgroupDriver) -> None:
    environment = {
        "A": "two\nlines", "EMPTY": "", "IFS": ":", "_": "last", "odd.name": "dots", "OLDPWD": "/gone",
        "YOPP_SHIM_WORD": "mine", "YOPP_SHIM_EXIT_FILE": "mine too", "BYTES": os.fsdecode(b"\xff"),
    }  # fmt: skip
    words = ("", "--gate", "--begin", "--", "a'b", "$(touch x)", "*")
    command = (sys.executable, "-S", "-E", "-c", LOOK, *words)

    async def scenario() -> None:
        old = os.umask(0o027)
        try:
            async with a_node(tmp_path, cgroups, SETTINGS) as node:
                spec = a_spec("c1", *command, environment=environment, files={"input": "x"})
                assert (await launched_when_ready(node, spec)).exit_code == 0, node.output("c1", "stderr")
                prepared = node.output("c1")
                node.executor.perform(CleanUpContainer("c1"))
                node.executor.perform(ForgetContainer("c1"))
                await soon(lambda: not (tmp_path / "work" / "c1").exists(), "it is cleaned up")
                await soon(lambda: "c1" not in cgroups.stale_groups(), "and its group")
                assert (await node.run_again(spec)).exit_code == 0, (
                    "started in full, nobody having made it ready"
                )
                assert node.output("c1") == prepared and b"two" in prepared and b"mine too" in prepared
        finally:
            os.umask(old)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 7", 7), ("kill -KILL $$", 137), ("setsid sleep 1000 & exit 3", 3), ("no-such-command", 127)],
)
def test_its_exit_code_is_its_own(tmp_path: Path, cgroups: CgroupDriver, script: str, code: int) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert (await launched_when_ready(node, a_spec("c1", "sh", "-c", script))).exit_code == code
            assert cgroups.processes("c1") == [], "what it left behind has ended"

    asyncio.run(scenario())


@pytest.mark.cgroup
def test_limits_hold_from_the_first_instruction_and_figures_are_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with a_group(ExecutorSettings()) as cgroups:
            if not cgroups.enforces_memory:
                pytest.skip("NOT TESTED: no memory controller")
            async with a_node(tmp_path, cgroups, SETTINGS) as node:
                hog = a_spec("hog", sys.executable, "-S", "-E", "-c", HOG)
                ended = await launched_when_ready(node, hog, memory_max=64 * MIB)
                assert ended.exit_code == 137 and ended.usage.oom_kills == 1
                assert ended.usage.memory_peak_bytes > 60 * MIB
                modest = await launched_when_ready(node, a_spec("modest", "true"), memory_max=64 * MIB)
                assert modest.exit_code == 0 and modest.usage.oom_kills == 0
                assert 0 < modest.usage.memory_peak_bytes < 8 * MIB and modest.usage.cpu_seconds < 0.5

    asyncio.run(scenario())


def test_what_ends_while_it_waits_leaves_nothing(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "touch", str(tmp_path / "ran"), files={"input": "x"})
            store(node, spec)
            await ready(node, "c1")
            store(node, spec, ContainerState.DONE)
            await nothing_left(node, "c1")
            assert not (tmp_path / "ran").exists() and node.events == []

    asyncio.run(scenario())


def test_only_so_many_of_each_type_are_ready(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            low = [a_spec(f"o{n}", "true", execution_type=ExecutionType.OPPORTUNISTIC) for n in range(4)]
            for spec in low:
                store(node, spec)
            await ready(node, "o0", "o1")
            store(node, a_spec("g0", "true"))
            await ready(node, "g0")
            assert not shims(node, "o2") and not shims(node, "o3")
            store(node, low[0], ContainerState.LAUNCHING)
            assert (await node.run(low[0])).exit_code == 0
            await ready(node, "o2")
            assert not shims(node, "o3")

    asyncio.run(scenario())


def test_none_is_made_ready_where_that_is_switched_off(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(prepared_containers=0)) as node:
            store(node, a_spec("c1", "true"))
            await asyncio.sleep(0)  # the turn of the loop in which it would be
            await asyncio.sleep(0)
            assert not (tmp_path / "work" / "c1").exists() and not shims(node, "c1")
            assert (await node.run(a_spec("c1", "true"))).exit_code == 0

    asyncio.run(scenario())


def test_one_that_changes_while_it_waits_runs_as_it_is_then(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "sh", "-c", "echo $WHICH", environment={"WHICH": "old"})
            store(node, spec)
            await ready(node, "c1")
            changed = replace(spec, environment={"WHICH": "new"})
            store(node, changed, ContainerState.LAUNCHING)
            assert (await node.run(changed)).exit_code == 0
            assert node.output("c1") == b"new\n"

    asyncio.run(scenario())


def test_a_working_directory_that_was_replaced_is_the_new_one(tmp_path: Path, cgroups: CgroupDriver) -> None:
    (tmp_path / "there").mkdir()

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "cat", "word", working_directory=str(tmp_path / "there"))
            store(node, spec)
            await ready(node, "c1")
            (tmp_path / "there").rename(tmp_path / "away")
            (tmp_path / "there").mkdir()
            (tmp_path / "there" / "word").write_text("new")
            store(node, spec, ContainerState.LAUNCHING)
            assert (await node.run(spec)).exit_code == 0
            assert node.output("c1") == b"new"

    asyncio.run(scenario())


@pytest.mark.parametrize("whom", ["the shim", "the shell in the group"])
def test_one_whose_shell_was_killed_is_started_all_the_same(
    tmp_path: Path, cgroups: CgroupDriver, whom: str
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "echo", "ran")
            store(node, spec)
            await ready(node, "c1")
            (shim,) = shims(node, "c1")
            (child,) = children(shim)
            os.kill(shim if whom == "the shim" else child, signal.SIGKILL)
            await soon(lambda: not shims(node, "c1"), "its shim has ended")
            store(node, spec, ContainerState.LAUNCHING)
            assert (await node.run(spec)).exit_code == 0
            assert node.output("c1") == b"ran\n"
            await soon(lambda: not running(child), "the killed one's child ends, too")

    asyncio.run(scenario())


def test_a_node_that_is_killed_leaves_none_that_could_begin(tmp_path: Path) -> None:
    left = Crashed(tmp_path, "auto", 0)
    try:
        exit_file = str(tmp_path / "state" / "queued.exit1")
        until(lambda: shims_of(str(tmp_path / "state")).get(exit_file), "the one that waits is made ready")
        left.wait_and_kill()
        until(lambda: exit_file not in shims_of(str(tmp_path / "state")), "its shell ends by itself")
        assert not os.path.exists(exit_file), "it never began"

        async def scenario() -> None:
            driver = discover(left.settings, group=left.group)
            node = Node(tmp_path, driver, SETTINGS)
            found = {event.record.spec.container_id: event for event in node.executor.recover()}
            assert not found["queued"].alive and found["queued"].exit_code is None
            assert "queued" not in driver.stale_groups(), "its figures begin anew"
            assert not (tmp_path / "work" / "queued").exists()
            assert (await node.run(found["queued"].record.spec)).exit_code == 11
            await node.executor.close()

        asyncio.run(scenario())
    finally:
        left.clean()


def test_a_code_that_cannot_be_written_down_is_told_by_the_shim_itself(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "sh", "-c", f"rm {tmp_path}/state/c1.exit1; exit 7")
            assert (await launched_when_ready(node, spec)).exit_code == 7

    asyncio.run(scenario())
