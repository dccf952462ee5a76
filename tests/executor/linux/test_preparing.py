"""Containers whose directories are made while they wait: they run as any other, or leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from executor.core.commands import StoreContainer
from executor.linux.cgroups import CgroupDriver, discover
from executor.records import ContainerRecord, ContainerSpec, ContainerState, ExecutionType
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, soon, until
from .test_recovery import Crashed

MODES = ["none", pytest.param("auto", marks=pytest.mark.cgroup)]
SETTINGS = ExecutorSettings(prepared_containers=2, pooled_groups=0)


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(cgroups_mount=request.param)) as driver:
        yield driver


def store(node: Node, spec: ContainerSpec, state: ContainerState = ContainerState.SCHEDULED) -> None:
    node.executor.perform(StoreContainer(ContainerRecord(spec, state)))


async def ready(node: Node, *containers: str) -> None:
    """Wait until these have directories."""
    paths = [node.directory / place / name for name in containers for place in ("work", "logs")]
    await soon(lambda: all(path.exists() for path in paths), f"{containers} are ready")


def test_what_ends_while_it_waits_leaves_nothing(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "touch", str(tmp_path / "ran"), files={"input": "x"})
            store(node, spec)
            await ready(node, "c1")
            assert "c1" not in cgroups.stale_groups(), "it gets its group when it starts"
            store(node, spec, ContainerState.DONE)
            left = [node.directory / "work" / "c1", node.directory / "logs" / "c1"]
            await soon(lambda: not any(path.exists() for path in left), "its directories go")
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
            assert not (tmp_path / "work" / "o2").exists() and not (tmp_path / "work" / "o3").exists()
            store(node, low[0], ContainerState.LAUNCHING)
            assert (await node.run(low[0])).exit_code == 0
            await ready(node, "o2")
            assert not (tmp_path / "work" / "o3").exists()

    asyncio.run(scenario())


def test_none_is_made_ready_where_that_is_switched_off(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(prepared_containers=0)) as node:
            store(node, a_spec("c1", "true"))
            assert node.executor._preparer._filling is None
            assert (await node.run(a_spec("c1", "true"))).exit_code == 0

    asyncio.run(scenario())


def test_one_that_changes_while_it_waits_runs_as_it_is_then(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec(
                "c1", "sh", "-c", "echo $WHICH; cat f", environment={"WHICH": "old"}, files={"f": "1"}
            )
            store(node, spec)
            await ready(node, "c1")
            changed = replace(spec, environment={"WHICH": "new"}, files={"f": "2"})
            store(node, changed, ContainerState.LAUNCHING)
            assert (await node.run(changed)).exit_code == 0, node.output("c1", "stderr")
            assert node.output("c1") == b"new\n2"

    asyncio.run(scenario())


def test_directories_that_were_removed_meanwhile_are_made_again(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "pwd")
            store(node, spec)
            await ready(node, "c1")
            (tmp_path / "work" / "c1").rmdir()
            store(node, spec, ContainerState.LAUNCHING)
            assert (await node.run(spec)).exit_code == 0
            assert node.output("c1") == b"%s/work/c1\n" % bytes(tmp_path)

    asyncio.run(scenario())


def test_what_a_killed_node_has_made_is_removed_and_runs_once(tmp_path: Path) -> None:
    left = Crashed(tmp_path, "auto", 0)
    try:
        until(lambda: (tmp_path / "work" / "queued").exists(), "the one that waits is made ready")
        left.wait_and_kill()

        async def scenario() -> None:
            driver = discover(left.settings, group=left.group)
            node = Node(tmp_path, driver, SETTINGS)
            found = {event.record.spec.container_id: event for event in node.executor.recover()}
            assert not found["queued"].alive and found["queued"].exit_code is None
            assert not (tmp_path / "work" / "queued").exists()
            assert (await node.run(found["queued"].record.spec)).exit_code == 11
            await node.executor.close()

        asyncio.run(scenario())
    finally:
        left.clean()
