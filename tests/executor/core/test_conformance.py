"""The cases of Hadoop's own tests, by their ids, under our decisions (design.md 11).

Where a decision differs from YARN the docstring says how. A', B and O are in other files or at the end.
"""

from __future__ import annotations

import pytest

from executor.core.commands import KillContainer, LaunchContainer, SetLimits
from executor.core.events import ContainerRecovered, QueuingLimitReceived, RecoveryCompleted
from executor.records import (
    ContainerQueuingLimit,
    ContainerRecord,
    ContainerState,
    ExecutionType,
    Resource,
)

from .world import G, O, World, a_spec

FULL = "Opportunistic container queue is full."
KILLED = "Container Killed to make room for Guaranteed Container."
PAUSED = "Container Paused to make room for Guaranteed Container"
SHED = "Container De-queued to meet NM queuing limits."


@pytest.fixture
def world() -> World:
    return World()


def test_a1_start_multiple_containers(world: World) -> None:
    world.schedule("c0", G, 1024)
    world.schedule("c1", O, 1024)
    assert world.states("c0", "c1") == ["RUNNING", "RUNNING"]
    assert world.queued() == (0, 0)


def test_a2_queue_multiple_containers(world: World) -> None:
    """YARN lets what is larger than the node wait for ever, so there both wait behind something here."""
    world.schedule("busy", G, 2048)
    world.schedule("c0", G, 1536)
    world.schedule("c1", O, 1536)
    assert world.states("c0", "c1") == ["SCHEDULED", "SCHEDULED"]
    assert world.queued() == (1, 1)


def test_a2_larger_than_the_node_ends_at_once(world: World) -> None:
    for container_id, kind in (("c0", G), ("c1", O)):
        world.schedule(container_id, kind, 3072)
        status = world.status(container_id)
        assert (status.state, status.exit_status, status.exit_code) == (ContainerState.DONE, 125, 125)
        assert "<memory:3072, vCores:1>" in status.diagnostics
        assert "<memory:2048, vCores:4>" in status.diagnostics
    assert world.queued() == (0, 0)


def test_a3_start_and_queue_multiple_containers(world: World) -> None:
    world.schedule("c0", O, 2048)
    world.schedule("c1", O, 1024)
    world.schedule("c2", O, 1024)
    assert world.states("c0", "c1", "c2") == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    assert world.queued() == (0, 2)
    assert [world.status(c).position for c in ("c0", "c1", "c2")] == [0, 1, 2]


def test_a4_the_opportunistic_queue_is_full(world: World) -> None:
    world.schedule("c0", G, 2048)
    for number in range(1, 12):
        world.schedule(f"c{number}", O, 2048)
    assert world.states(*(f"c{n}" for n in range(1, 11))) == ["SCHEDULED"] * 10
    refused = world.status("c11")
    assert (refused.state, refused.exit_status, refused.diagnostics) == (ContainerState.DONE, -108, FULL)
    assert world.queued() == (0, 10)


def test_a5_kill_opportunistic_for_guaranteed_container(world: World) -> None:
    world.schedule("c0", O, 2048)
    world.schedule("c1", O, 2048)
    world.schedule("c2", G, 2048)
    killed = world.status("c0")
    assert (killed.state, killed.exit_status, killed.exit_code) == (ContainerState.DONE, -108, 143)
    assert KILLED in killed.diagnostics
    assert world.states("c1", "c2") == ["SCHEDULED", "RUNNING"]
    assert world.queued() == (0, 1)
    world.exit("c2")
    assert world.states("c1", "c2") == ["RUNNING", "DONE"]
    assert world.queued() == (0, 0)


def test_a6_pause_opportunistic_for_guaranteed_container() -> None:
    """A pause gives back vcores and no memory, so vcores are short here; and a paused one is not queued."""
    world = World(vcores=1, use_pause_for_preemption=True)
    world.schedule("c0", O, 1024)
    world.schedule("c1", G, 1024)
    assert PAUSED in world.status("c0").diagnostics
    assert world.states("c0", "c1") == ["PAUSED", "RUNNING"]
    assert world.queued() == (0, 0)
    assert world.machine.opportunistic_status().paused == 1
    world.exit("c1")
    assert world.state("c0") is ContainerState.RUNNING
    world.exit("c0")
    assert [state.value for state in world.history["c0"]] == [
        "LAUNCHING", "RUNNING", "PAUSING", "PAUSED", "RESUMING", "RUNNING", "DONE",
    ]  # fmt: skip
    assert world.status("c0").exit_status == 0


def test_a7_queue_shedding(world: World) -> None:
    world.schedule("c0", G, 2048)
    for number in range(1, 7):
        world.schedule(f"c{number}", O, 512)
    assert world.queued() == (0, 6)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=2)))
    assert world.queued() == (0, 2)
    assert world.states("c1", "c2") == ["SCHEDULED", "SCHEDULED"]
    for number in range(3, 7):
        status = world.status(f"c{number}")
        assert (status.state, status.exit_status, status.diagnostics) == (ContainerState.DONE, -108, SHED)


def test_a7_no_limit_sheds_nothing(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 512)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit()))
    assert world.queued() == (0, 1)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=0)))
    assert world.queued() == (0, 0)


def test_a7_paused_ones_are_not_shed_and_not_counted() -> None:
    world = World(vcores=1, use_pause_for_preemption=True)
    world.schedule("c0", O, 512)
    world.schedule("c1", G, 512)
    world.schedule("c2", O, 512)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=1)))
    assert world.states("c0", "c1", "c2") == ["PAUSED", "RUNNING", "SCHEDULED"]


def test_a8_dequeued_after_its_am_stops_it(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 512)
    world.schedule("c2", O, 512)
    world.stop("c2")
    assert world.queued() == (0, 1)
    assert world.status("c2").exit_status == -105


def test_a11_stop_queued_container(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 512)
    world.schedule("c2", O, 512)
    world.stop("c1")
    assert world.states("c0", "c1", "c2") == ["RUNNING", "DONE", "SCHEDULED"]
    assert world.queued() == (0, 1)
    assert not world.given(KillContainer), "nothing of it runs"


def test_a12_promotion_of_a_queued_container(world: World) -> None:
    world.schedule("c0", O, 2048)
    world.schedule("c1", O, 1024)
    assert world.queued() == (0, 1)
    world.update("c1", G, 1024, 1, version=1)
    assert world.states("c0", "c1") == ["DONE", "RUNNING"]
    status = world.status("c1")
    assert (status.execution_type, status.version) == (G, 1)
    assert world.queued() == (0, 0)
    [launch] = world.given(LaunchContainer)
    assert launch.limits.cpu_shares == 1024


def test_a13_demotion_of_a_running_container(world: World) -> None:
    world.schedule("c0", G, 512)
    world.update("c0", O, version=1)
    status = world.status("c0")
    assert (status.state, status.execution_type, status.version) == (ContainerState.RUNNING, O, 1)
    [written] = world.given(SetLimits)
    assert (written.limits.cpu_shares, written.limits.memory_low) == (2, 0)


def test_a_2_all_that_fits_starts_in_order(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 1024)
    world.schedule("c2", O, 512)
    world.exit("c0")
    assert [launch.spec.container_id for launch in world.given(LaunchContainer)] == ["c1", "c2"]


def test_a_4_guaranteed_before_opportunistic(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", G, 2048)
    world.schedule("c2", O, 512)
    world.exit("c0")
    assert world.states("c1", "c2") == ["RUNNING", "SCHEDULED"]


def test_a_5_the_limit_of_the_rm_does_not_refuse(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=5)))
    for number in range(1, 10):
        world.schedule(f"c{number}", O, 512)
    world.schedule("c10", O, 512)
    assert world.queued() == (0, 10)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=5)))
    assert world.queued() == (0, 5)


def test_a_7_with_no_queue_what_fits_still_starts() -> None:
    """YARN kills every opportunistic container where the queue length is 0, on an idle node, too."""
    world = World(max_queue_length=0)
    world.schedule("c0", O, 128)
    assert world.state("c0") is ContainerState.RUNNING
    world.schedule("c1", O, 2048)
    assert (world.status("c1").exit_status, world.status("c1").diagnostics) == (-108, FULL)


def test_a_8_nobody_is_killed_in_vain(world: World) -> None:
    """YARN kills the opportunistic one although its room cannot suffice."""
    world.schedule("busy", G, 1024)
    world.schedule("c0", O, 1024)
    world.schedule("c1", G, 2048)
    assert world.states("c0", "c1") == ["RUNNING", "SCHEDULED"]
    world.exit("busy")
    assert world.states("c0", "c1") == ["DONE", "RUNNING"]


def test_b1_guaranteed_starts_where_opportunistic_is_off() -> None:
    """With queue length 0 a guaranteed one that fits starts, and one that does not fit yet waits."""
    world = World(vcores=1, max_queue_length=0)
    world.schedule("c0", G, 2048, 1)
    world.schedule("c1", G, 512, 1)
    assert world.states("c0", "c1") == ["RUNNING", "SCHEDULED"]
    assert world.queued() == (1, 0)


RECOVERED = [
    # case, state, type, queued guaranteed, queued opportunistic, running, allocated (MB, vcores)
    ("E1", "SCHEDULED", G, 1, 0, 0, (0, 0)),
    ("E2", "SCHEDULED", O, 0, 1, 0, (0, 0)),
    ("E3", "PAUSED", G, 1, 0, 0, (1024, 0)),  # YARN: nothing; a paused one keeps its memory here
    ("E4", "PAUSED", O, 0, 0, 0, (1024, 0)),  # YARN: queued; here it is counted apart
    ("E5", "RUNNING", G, 0, 0, 1, (1024, 4)),
    ("E6", "RUNNING", O, 0, 0, 1, (1024, 4)),
    ("E9", "DONE", G, 0, 0, 0, (0, 0)),
    ("E10", "DONE", O, 0, 0, 0, (0, 0)),
]


@pytest.mark.parametrize(
    ("case", "state", "kind", "guaranteed", "opportunistic", "running", "allocated"), RECOVERED
)
def test_e_recovery(
    case: str,
    state: str,
    kind: ExecutionType,
    guaranteed: int,
    opportunistic: int,
    running: int,
    allocated: tuple[int, int],
) -> None:
    world = World(vcores=10, memory=8192)
    record = ContainerRecord(a_spec("c0", kind, 1024, 4), ContainerState(state), pid=5, sequence=1)
    alive = state in ("PAUSED", "RUNNING")
    world.tell(ContainerRecovered(record, alive=alive, stopped=state == "PAUSED"))
    assert world.queued() == (guaranteed, opportunistic), case
    assert world.machine.allocated == Resource(*allocated)
    assert world.states("c0").count("RUNNING") == running
    assert not world.given(LaunchContainer), "nothing starts before RecoveryCompleted"
    world.tell(RecoveryCompleted())
    assert world.state("c0") is (ContainerState.DONE if state == "DONE" else ContainerState.RUNNING)


@pytest.mark.parametrize("kind", [G, O])
def test_e7_e8_nothing_recovered_is_nothing_there(kind: ExecutionType) -> None:
    world = World(vcores=10)
    world.tell(RecoveryCompleted())
    assert (world.machine.allocated, world.queued()) == (Resource(), (0, 0))
    world.schedule("c0", kind, 1024, 4)
    assert world.state("c0") is ContainerState.RUNNING
