"""G1, G2, G10, G13 and G15 of what is wrong in YARN's own implementation: none of them happens here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from executor.core.commands import KillContainer, PauseContainer, ResumeContainer
from executor.core.events import ContainerExited, ContainerPaused, ContainerResumed
from executor.linux.procfs import standing
from executor.records import ContainerState, Resource
from executor.settings import ExecutorSettings
from tests.core.rm_harness import OPPORTUNISTIC, Cluster, asks
from tests.executor.core.world import G, O, World
from tests.executor.linux.node import a_group, a_node, a_spec, soon
from yarnopp_cli.settings.declarations import NodeManagerSettings, ResourceManagerSettings
from yarnopp_cli.settings.loading import examine, load

from .yarn_node import FULL, yarn_node

COUNTING = 'i=0; while [ ! -e "$0" ]; do i=$((i+1)); echo $i > count; sleep 0.01; done; echo ended after $i'


def test_g1_pausing_really_stops_processes_and_loses_no_work(tmp_path: Path) -> None:
    """YARN's Linux executors throw UnsupportedOperationException, and the container is killed instead."""

    async def scenario() -> None:
        with a_group(ExecutorSettings()) as driver:
            async with a_node(tmp_path, driver) as node:
                over = tmp_path / "over"
                await node.launch(a_spec("c0", "sh", "-c", COUNTING, str(over)))
                file = tmp_path / "work" / "c0" / "count"

                def count() -> int:
                    text = file.read_text() if file.exists() else ""
                    return int(text) if text.endswith("\n") else 0

                await soon(lambda: count() > 3, "it counts")
                node.executor.perform(PauseContainer("c0"))
                await node.told(ContainerPaused, "c0")
                stood = file.read_text()
                pids = driver.processes("c0")
                assert pids and all(standing(pid) for pid in pids)
                assert node.found(ContainerExited, "c0") is None
                assert file.read_text() == stood
                node.executor.perform(ResumeContainer("c0"))
                await node.told(ContainerResumed, "c0")
                before = count()
                await soon(lambda: count() > before + 3, "it goes on counting")
                over.touch()
                ended = await node.told(ContainerExited, "c0")
                assert ended.exit_code == 0
                said = node.output("c0").decode()
                assert said.startswith("ended after ") and said.count("\n") == 1, "one life, not two"
                assert int(said.split()[-1]) > before

    asyncio.run(scenario())


def test_g2_a_pause_gives_back_vcores_and_no_memory_that_is_still_held() -> None:
    ours = World(use_pause_for_preemption=True, vcores=1)
    ours.schedule("c0", O, 1024, 1)
    ours.schedule("g", G, 512, 1)
    assert ours.states("c0", "g") == ["PAUSED", "RUNNING"]
    assert ours.machine.allocated == Resource(1536, 1), "both memories count, and one vcore"
    ours.schedule("g2", G, 1024, 0)
    assert ours.state("c0") is ContainerState.DONE, "what no pause can give is had by a kill"
    assert ours.machine.allocated.memory <= 2048
    yarns = yarn_node(use_pause_for_preemption=True, vcores=1)
    yarns.schedule("c0", O, 1024, 1)
    yarns.schedule("g", G, 2048, 1)
    assert yarns.states("c0", "g") == ["PAUSED", "RUNNING"]
    assert yarns.machine.allocated == Resource(2048, 1), "3 GB are promised on 2"
    assert not [command for command in yarns.commands if isinstance(command, KillContainer)]


def test_g10_one_key_of_two_sizes_fails_no_call() -> None:
    cluster = Cluster()
    cluster.node("h1:1", Resource(8192, 8))
    master = cluster.master()
    response = master.allocate(asks(1, Resource(512, 1), OPPORTUNISTIC))
    assert len(response.allocated) == 1
    response = master.allocate(
        asks(2, Resource(512, 1), OPPORTUNISTIC), asks(1, Resource(1024, 2), OPPORTUNISTIC)
    )
    assert sorted(one.resource.memory for one in response.allocated) == [512, 512, 1024]


def test_g13_the_shipped_site_switches_both_sides_on_and_one_side_alone_is_told() -> None:
    environ = {"HOME": "/nonexistent"}
    site = load((), (), environ=environ, state_dir="/s")
    assert site.settings(ResourceManagerSettings).opportunistic_enabled
    assert site.settings(ExecutorSettings).max_queue_length > 0
    alone = "yarn.nodemanager.opportunistic-containers-max-queue-length=5"
    one_sided = examine(["/dev/null"], [alone], environ=environ, state_dir="/s")
    assert any("has no effect" in warning for warning in one_sided.warnings)
    wrong = examine(
        ["/dev/null"],
        ["yarn.nodemanager.distributed-scheduling.enabled=true"],
        environ=environ,
        state_dir="/s",
    )
    assert wrong.problems and wrong.configuration is None
    assert NodeManagerSettings().distributed_scheduling_enabled is False


def test_g13_the_other_side_alone_rejects_nothing_that_can_run() -> None:
    """The RM's flag on, the node's queue 0: what fits runs. YARN's node refuses every one."""
    for world, ended in ((World(max_queue_length=0), False), (yarn_node(max_queue_length=0), True)):
        world.schedule("c0", O, 512)
        status = world.status("c0")
        assert (status.state is ContainerState.DONE, status.diagnostics == FULL) == (ended, ended)


@pytest.mark.parametrize("sizes", [(1,), (100, 200, 300), (1023, 1)])
def test_g15_opportunistic_memory_is_told_exactly(sizes: tuple[int, ...]) -> None:
    world = World()
    for number, size in enumerate(sizes):
        world.schedule(f"c{number}", O, size)
    assert world.machine.opportunistic_status().memory_used == sum(sizes)
    world.exit("c0")
    assert world.machine.opportunistic_status().memory_used == sum(sizes[1:])
