"""YARN's properties of a node and its sizes: what each changes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from executor.core.events import UsageSampled
from executor.core.limits import cgroup_limits
from executor.linux.cgroups import discover
from executor.linux.cgroups import groups as cgroups_groups
from executor.linux.procfs import virtual_bytes
from executor.linux.watching.host import HostLimits
from executor.records import (
    ContainerState,
    ContainerUsage,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
)
from executor.settings import ExecutorSettings
from tests.core.rm_harness import Cluster, Node
from tests.executor.core.world import G, World
from tests.executor.linux.node import Node as HostNode
from tests.executor.linux.node import a_group, a_node, a_spec, soon
from yarnopp_cli.cluster.capacity import (
    Machine,
    NodeSizeRequest,
    counted_machine,
    plan,
    plan_capacity,
    share_host,
    size_of_node,
)
from yarnopp_cli.masters import commands
from yarnopp_cli.nodemanager.link import ResourceManagerLink
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.tracker_protocol import NodeHeartbeatResponse
from yarnopp_cli.resourcemanager.services.resource_tracker_service import (
    busy_part,
    busy_part_of_all,
    scaled_interval,
)
from yarnopp_cli.settings.declarations import (
    ApplicationSettings,
    HardwareSettings,
    NodeManagerSettings,
    ResourceManagerSettings,
)
from yarnopp_cli.settings.loading import load

MIB = 1 << 20
MACHINE = Machine(16384, 8.0)


# -- sizes ---------------------------------------------------------------------------------------------------


def test_hardware_that_is_not_to_be_detected_has_yarns_constants() -> None:
    host = HostLimits(16.0, 65536 * MIB, 16, 65536 * MIB)
    node = NodeManagerSettings()
    assert share_host(host, node, HardwareSettings(), NodeSizeRequest()).nodes[0] == Resource(
        65536 - 2048, 16
    )
    fixed = HardwareSettings(detect_capabilities=False)
    assert share_host(host, node, fixed, NodeSizeRequest()).nodes[0] == Resource(8192, 8)
    assert share_host(host, node, fixed, NodeSizeRequest(memory_mb=1024)).nodes[0] == Resource(1024, 8)
    assert size_of_node(512, fixed, 8192) == 512


def test_threads_of_one_core_count_once_where_logical_processors_are_no_cores() -> None:
    counted = counted_machine(MACHINE, HardwareSettings(count_logical_processors=False), 2.0)
    assert plan(counted, NodeSizeRequest()).nodes[0].vcores == 4
    assert any("count as one core" in word for word in counted.because)
    assert counted_machine(MACHINE, HardwareSettings(), 2.0) == MACHINE
    alone = counted_machine(MACHINE, HardwareSettings(count_logical_processors=False), 1.0)
    assert alone.cores == 8


def test_a_core_makes_as_many_vcores_as_the_multiplier_says() -> None:
    counted = counted_machine(MACHINE, HardwareSettings(pcores_vcores_multiplier=2.5))
    assert plan(counted, NodeSizeRequest()).nodes == (Resource(16384 - 1638, 20),)
    assert plan(counted, NodeSizeRequest(vcores=20)).warnings == (), "they are not promised twice"
    assert (
        plan(counted_machine(MACHINE, HardwareSettings(pcores_vcores_multiplier=0.5)), NodeSizeRequest())
        .nodes[0]
        .vcores
        == 4
    )


def test_the_share_of_the_cores_and_the_reserve_of_memory() -> None:
    host = HostLimits(8.0, 16384 * MIB, 8, 16384 * MIB)
    settings = NodeManagerSettings(percentage_physical_cpu_limit=50, system_reserved_memory_mb=4096)
    assert share_host(host, settings, HardwareSettings(), NodeSizeRequest()).nodes[0] == Resource(12288, 4)


# -- memory --------------------------------------------------------------------------------------------------


def use(**figures: int) -> ContainerUsage:
    return ContainerUsage(**figures)  # type: ignore[arg-type]


def measured(world: World, usage: ContainerUsage, container_id: str = "c0") -> None:
    world.tell(UsageSampled({container_id: usage}))


def test_without_the_memory_cgroup_memory_is_looked_at() -> None:
    size = Resource(1024, 1)
    with_cgroup = cgroup_limits(size, G, ExecutorSettings(), node_vcores=4, physical_cores=4)
    without = cgroup_limits(size, G, ExecutorSettings(memory_enabled=False), node_vcores=4, physical_cores=4)
    assert (with_cgroup.memory_max, without.memory_max) == (1024 * MIB, None)
    for enabled, exit_status in ((False, -104), (True, -1000)):
        world = World(memory_enabled=enabled)
        world.schedule("c0", G, 512)
        measured(world, use(memory_bytes=1100 * MIB))
        assert world.status("c0").exit_status == exit_status


def test_virtual_memory_is_checked_where_that_is_on_and_by_its_ratio() -> None:
    """YARN's rule (7.1): beyond twice the limit at once, beyond the limit in the second round."""
    for enabled, ratio, virtual, rounds, ended in (
        (False, 2.1, 99999, 3, False),
        (True, 2.1, 512 * 2.1 * 2 + 1, 1, True),
        (True, 2.1, 512 * 2.1 * 2 - 1, 1, False),
        (True, 2.1, 512 * 2.1 + 1, 2, True),
        (True, 2.1, 512 * 2.1 - 1, 5, False),
        (True, 4.0, 512 * 2.1 + 1, 5, False),
    ):
        world = World(vmem_check_enabled=enabled, vmem_pmem_ratio=ratio)
        world.schedule("c0", G, 512)
        for turn in range(rounds):
            assert world.state("c0") is ContainerState.RUNNING, f"round {turn}"
            measured(world, use(memory_bytes=10 * MIB, virtual_bytes=int(virtual * MIB)))
        status = world.status("c0")
        assert (status.exit_status == -103) == ended, (ratio, virtual)
        if ended:
            assert "beyond the 'VIRTUAL' memory limit" in status.diagnostics
            assert f"of {512 * ratio:.1f} MB virtual memory used. Killing container." in status.diagnostics


def test_one_round_below_the_virtual_limit_forgives() -> None:
    world = World(vmem_check_enabled=True)
    world.schedule("c0", G, 512)
    for megabytes in (1200, 100, 1200, 100):
        measured(world, use(virtual_bytes=megabytes * MIB))
    assert world.state("c0") is ContainerState.RUNNING


def test_virtual_memory_is_judged_before_physical() -> None:
    world = World(vmem_check_enabled=True, memory_enabled=False)
    world.schedule("c0", G, 512)
    measured(world, use(memory_bytes=9999 * MIB, virtual_bytes=9999 * MIB))
    assert world.status("c0").exit_status == -103


def test_the_address_space_of_processes_is_their_own() -> None:
    program = (
        "import mmap, sys; kept = mmap.mmap(-1, 300 << 20); print('mapped', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"mapped\n"
        alone = virtual_bytes([child.pid])
        assert alone > 300 * MIB
        assert virtual_bytes([child.pid, child.pid]) == 2 * alone
    finally:
        child.communicate()
    assert virtual_bytes([child.pid]) == 0, "who has ended counts nothing"


# -- measuring and clearing up -------------------------------------------------------------------------------


def samples(node: HostNode, container_id: str) -> list[ContainerUsage]:
    """What was measured of a container that has processes."""
    found = [event.usages.get(container_id) for event in node.events if isinstance(event, UsageSampled)]
    return [usage for usage in found if usage is not None and usage.processes > 0]


def test_the_monitor_measures_virtual_memory_only_where_asked_and_nothing_where_switched_off(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        plain = ExecutorSettings(cgroups_mount="none", monitor_interval_ms=20)
        virtual, off = replace(plain, vmem_check_enabled=True), replace(plain, monitor_enabled=False)
        with a_group(plain) as first, a_group(plain) as second, a_group(plain) as third:
            async with (
                a_node(tmp_path / "off", first, settings=off) as silent,
                a_node(tmp_path / "plain", second, settings=plain) as usual,
                a_node(tmp_path / "virtual", third, settings=virtual) as curious,
            ):
                for node, name in ((silent, "c1"), (usual, "c2"), (curious, "c3")):
                    node.executor.start()
                    await node.launch(a_spec(name, "sleep", "60"))
                await soon(lambda: len(samples(usual, "c2")) > 4 and samples(curious, "c3"), "samples")
                assert samples(usual, "c2")[-1].virtual_bytes == 0
                assert samples(curious, "c3")[-1].virtual_bytes > MIB
                assert not [event for event in silent.events if isinstance(event, UsageSampled)]

    asyncio.run(scenario())


def test_the_pause_between_attempts_to_remove_a_cgroup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    group = tmp_path / "busy"
    (group / "held").mkdir(parents=True)
    (group / "held" / "file").touch()  # rmdir refuses, as for a group with a process
    clock, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(cgroups_groups.time, "sleep", sleep)
    monkeypatch.setattr(cgroups_groups.time, "monotonic", lambda: clock[0])
    for settings, longest in ((ExecutorSettings(cgroups_mount="none"), 0.02), (
        ExecutorSettings(cgroups_mount="none", delete_delay_ms=200), 0.2,
    )):  # fmt: skip
        pauses.clear()
        driver = discover(settings)
        assert not cgroups_groups.remove_groups((str(group),), 1.0, driver.delete_delay_seconds)
        assert max(pauses) == pytest.approx(longest)
    began = clock[0]
    assert not cgroups_groups.remove_groups((str(group),), 0.1, 0.02)
    assert 0.1 <= clock[0] - began < 0.13, "delete-timeout-ms bounds it"


def test_diagnostics_are_cut_from_the_front() -> None:
    world = World(diagnostics_maximum_size=120)
    world.schedule("c0", G, 512)
    for number in range(20):
        world.update("c0", None, 4096, 1, version=number + 2)
    said = world.status("c0").diagnostics
    assert 60 < len(said) <= 120 and said.endswith("no room for it.")


# -- heartbeats ----------------------------------------------------------------------------------------------

SCALED = ResourceManagerSettings(
    heartbeat_scaling=True, heartbeat_interval_min_ms=500, heartbeat_interval_max_ms=2000
)


@pytest.mark.parametrize(
    ("settings", "node", "cluster", "interval"),
    [
        (SCALED, 0.5, 0.5, 1000),
        (SCALED, 0.7, 0.5, 1200),
        (SCALED, 0.3, 0.5, 800),
        (replace(SCALED, heartbeat_slowdown_factor=3.0), 0.7, 0.5, 1600),
        (replace(SCALED, heartbeat_speedup_factor=2.0), 0.3, 0.5, 600),
        (replace(SCALED, heartbeat_speedup_factor=9.0), 0.0, 0.9, 500),
        (replace(SCALED, heartbeat_slowdown_factor=9.0), 1.0, 0.1, 2000),
        (replace(SCALED, heartbeat_scaling=False), 1.0, 0.0, 1000),
    ],
)
def test_intervals_follow_how_busy_a_node_is(
    settings: ResourceManagerSettings, node: float, cluster: float, interval: int
) -> None:
    assert scaled_interval(settings, node, cluster) == pytest.approx(interval, abs=1)


def test_busy_parts_are_parts() -> None:
    assert (busy_part(3.0, 4), busy_part(9.0, 4), busy_part(-1.0, 4), busy_part(1.0, 0)) == (
        0.75,
        1.0,
        0.0,
        0.0,
    )
    assert busy_part_of_all([(4.0, 4), (0.0, 4)]) == 0.5


def interval_told(node: Node, cpu: float) -> int:
    return node.beat(node_utilization=ResourceUtilization(0, cpu)).next_interval_ms


def test_the_rm_tells_each_node_its_interval_and_the_node_keeps_to_it() -> None:
    cluster = Cluster(
        heartbeat_wait=False,
        heartbeat_scaling=True,
        heartbeat_interval_min_ms=100,
        heartbeat_interval_max_ms=5000,
    )
    busy, idle = cluster.node("h1:1", Resource(4096, 4)), cluster.node("h2:1", Resource(4096, 4))
    interval_told(busy, 4.0)
    told = interval_told(idle, 0.0), interval_told(busy, 4.0)
    assert told == (500, 1500)
    link = ResourceManagerLink(periodic=True)
    link.registered(0.0, secret="s", interval=1.0)
    sequence = link.sent(0.0)
    link.answered(sequence, NodeHeartbeatResponse(1, next_interval_ms=told[1]), 0.1)
    link.sent(1.0)
    assert link.interval == 1.5 and link.wait_ms == 0
    plain = Cluster(heartbeat_wait=False).node()
    assert plain.beat().next_interval_ms == 0


# -- jobs ----------------------------------------------------------------------------------------------------


def test_a_retry_waits_at_least_the_minimum() -> None:
    def interval_ms(asked: int, least: int) -> int:
        retry = commands.ContainerRetryContext(1, maximum=3, interval_ms=asked)
        job = commands.plan_shell(TaskSpec(1, Resource(10, 1)), shell_command="false", retry=retry)
        settings = ApplicationSettings(retry_minimum_interval_ms=least)
        return commands.under(job, settings).phases[0].retry_interval_ms

    assert interval_ms(200, 1000) == 1000
    assert interval_ms(200, 100) == 200
    assert interval_ms(5000, 1000) == 5000


# -- what the RM computes, and when --------------------------------------------------------------------------


def test_the_nodes_are_sorted_and_counted_once_an_interval() -> None:
    for interval in (0.5, 3.0):
        cluster = Cluster(heartbeat_wait=False, sorting_nodes_interval_ms=round(interval * 1000))
        nodes = [cluster.node(name, Resource(4096, 4)) for name in ("h1:1", "h2:1")]

        def tell(waiting: int) -> None:
            for node in nodes:  # noqa: B023 - called within this turn only
                node.opportunistic = OpportunisticContainersStatus(
                    queued=waiting, wait_queue_length=waiting, queue_capacity=50
                )
                node.beat()

        tell(8)
        cluster.at(interval / 10)
        limit = cluster.context.monitor.limit
        assert limit().max_queue_length == 8
        tell(12)
        cluster.at(interval - 0.01)
        assert limit().max_queue_length == 8, "as it was when it was computed last"
        cluster.at(interval + 0.01)
        assert limit().max_queue_length == 12


def test_a_configured_size_is_the_nodes() -> None:
    defines = ["yarn.nodemanager.resource.memory-mb=96", "yarn.nodemanager.resource.cpu-vcores=1"]
    environ = {"HOME": "/nonexistent"}
    configuration = load((), defines, environ=environ, state_dir="/s")
    assert plan_capacity(configuration, NodeSizeRequest()).nodes == (Resource(96, 1),)
    assert plan_capacity(configuration, NodeSizeRequest(memory_mb=64)).nodes == (Resource(64, 1),), (
        "an option has precedence"
    )
