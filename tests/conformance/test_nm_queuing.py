"""A, A' and B: ``TestContainerSchedulerQueuing`` and its kin, by the ids of the cases.

Those with ``either`` hold under YARN's rules and under yopp's own; the others under YARN's, and at the end what differs
under yopp's own: there the docstring says how.
"""

from __future__ import annotations

import pytest

from executor.core.commands import KillContainer, LaunchContainer, SetLimits
from executor.core.events import QueuingLimitReceived, RecoveryCompleted
from executor.records import (
    ContainerQueuingLimit,
    ContainerState,
    ExecutionType,
    Resource,
)
from tests.executor.core.world import G, O, World

from .yarn_node import FULL, KILLED, PAUSED, SHED, yarn_node


@pytest.fixture
def world() -> World:
    return yarn_node()


@pytest.fixture(params=[yarn_node, World], ids=["yarn", "yopp"])
def either(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


def limit(length: int) -> QueuingLimitReceived:
    return QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=length))


def test_a1_start_multiple_containers(either: World) -> None:
    either.schedule("c0", G, 1024)
    either.schedule("c1", O, 1024)
    assert either.states("c0", "c1") == ["RUNNING", "RUNNING"]
    assert either.queued() == (0, 0)


def test_a2_queue_multiple_containers(world: World) -> None:
    """Both are larger than the node, and wait."""
    world.schedule("c0", G, 3072)
    world.schedule("c1", O, 3072)
    world.advance(5)
    assert world.states("c0", "c1") == ["SCHEDULED", "SCHEDULED"]
    assert world.queued() == (1, 1)
    assert world.machine.opportunistic_status().wait_queue_length == 2


def test_a3_start_and_queue_multiple_containers(either: World) -> None:
    either.schedule("c0", O, 2048)
    either.schedule("c1", O, 1024)
    either.schedule("c2", O, 1024)
    assert either.states("c0", "c1", "c2") == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    assert either.queued() == (0, 2)
    assert [either.status(c).position for c in ("c0", "c1", "c2")] == [0, 1, 2]


def test_a4_the_opportunistic_queue_is_full(either: World) -> None:
    either.schedule("c0", G, 2048)
    for number in range(1, 12):
        either.schedule(f"c{number}", O, 2048)
    assert either.state("c0") is ContainerState.RUNNING
    assert either.states(*(f"c{n}" for n in range(1, 11))) == ["SCHEDULED"] * 10
    refused = either.status("c11")
    assert (refused.state, refused.exit_status, refused.diagnostics) == (ContainerState.DONE, -108, FULL)
    assert either.queued() == (0, 10)


def test_a5_kill_opportunistic_for_guaranteed_container(either: World) -> None:
    either.schedule("c0", O, 2048)
    either.schedule("c1", O, 2048)
    either.schedule("c2", G, 2048)
    killed = either.status("c0")
    assert (killed.state, killed.exit_status, killed.exit_code) == (ContainerState.DONE, -108, 143)
    assert KILLED in killed.diagnostics
    assert either.states("c1", "c2") == ["SCHEDULED", "RUNNING"]
    assert either.queued() == (0, 1)
    either.exit("c2")
    assert either.state("c1") is ContainerState.RUNNING
    assert either.queued() == (0, 0)


def test_a6_pause_opportunistic_for_guaranteed_container() -> None:
    world = yarn_node(use_pause_for_preemption=True)
    world.schedule("c0", O, 2048)
    world.schedule("c1", G, 2048)
    assert PAUSED in world.status("c0").diagnostics
    assert world.states("c0", "c1") == ["PAUSED", "RUNNING"]
    assert world.queued() == (0, 1)
    world.exit("c1")
    assert world.queued() == (0, 0)
    world.exit("c0")
    assert [state.value for state in world.history["c0"]] == [
        "LAUNCHING", "RUNNING", "PAUSING", "PAUSED", "RESUMING", "RUNNING", "DONE",
    ]  # fmt: skip
    assert world.status("c0").exit_status == 0


def test_a6_a_paused_one_waits_behind_what_is_queued_and_takes_a_place() -> None:
    world = yarn_node(use_pause_for_preemption=True, max_queue_length=2)
    world.schedule("c0", O, 2048)
    world.schedule("c1", O, 2048)
    world.schedule("c2", G, 2048)
    assert world.queued() == (0, 2)
    world.schedule("c3", O, 512)
    assert world.status("c3").diagnostics == FULL
    world.exit("c2")
    assert world.states("c0", "c1") == ["PAUSED", "RUNNING"]
    world.exit("c1")
    assert world.state("c0") is ContainerState.RUNNING


def test_a7_queue_shedding(either: World) -> None:
    either.schedule("c0", G, 2048)
    for number in range(1, 7):
        either.schedule(f"c{number}", O, 512)
    assert either.queued() == (0, 6)
    either.tell(limit(2))
    assert either.queued() == (0, 2)
    assert either.states("c1", "c2") == ["SCHEDULED", "SCHEDULED"]
    for number in range(3, 7):
        status = either.status(f"c{number}")
        assert (status.state, status.exit_status, status.diagnostics) == (ContainerState.DONE, -108, SHED)


def test_a7_paused_ones_are_passed_over_and_not_counted() -> None:
    world = yarn_node(use_pause_for_preemption=True)
    world.schedule("c0", O, 2048)
    world.schedule("c1", G, 2048)
    for number in range(2, 5):
        world.schedule(f"c{number}", O, 512)
    assert world.queued() == (0, 4)
    world.tell(limit(1))
    assert world.states("c0", "c2", "c3", "c4") == ["PAUSED", "SCHEDULED", "DONE", "DONE"]
    assert world.queued() == (0, 2)


def test_a8_dequeued_after_its_am_stops_it(either: World) -> None:
    either.schedule("c0", G, 2048)
    either.schedule("c1", O, 512)
    either.schedule("c2", O, 512)
    either.stop("c2")
    assert either.queued() == (0, 1)
    assert either.status("c2").exit_status == -105


def test_a11_stop_queued_container(either: World) -> None:
    either.schedule("c0", G, 2048)
    either.schedule("c1", O, 512)
    either.schedule("c2", O, 512)
    assert either.queued() == (0, 2)
    either.stop("c1")
    assert either.states("c0", "c1", "c2") == ["RUNNING", "DONE", "SCHEDULED"]
    assert either.queued() == (0, 1)
    assert not either.given(KillContainer), "nothing of it runs"


def test_a12_promotion_of_a_queued_container(either: World) -> None:
    either.schedule("c0", O, 2048)
    either.schedule("c1", O, 1024)
    assert either.queued() == (0, 1)
    either.update("c1", G, 1024, 1, version=1)
    assert either.states("c0", "c1") == ["DONE", "RUNNING"]
    status = either.status("c1")
    assert (status.execution_type, status.version) == (G, 1)
    assert either.queued() == (0, 0)
    [launch] = either.given(LaunchContainer)
    assert launch.spec.container_id == "c1"
    assert launch.limits.cpu_shares == 1024


def test_a13_demotion_of_a_running_container(either: World) -> None:
    either.schedule("c0", G, 512)
    either.update("c0", O, 512, 1, version=1)
    status = either.status("c0")
    assert (status.state, status.execution_type, status.version) == (ContainerState.RUNNING, O, 1)
    [written] = either.given(SetLimits)
    assert (written.limits.cpu_shares, written.limits.memory_low) == (2, 0)


def test_a_2_both_start_in_order(either: World) -> None:
    either.schedule("c0", G, 2048)
    either.schedule("c1", O, 1024)
    either.schedule("c2", O, 512)
    either.exit("c0")
    assert [launch.spec.container_id for launch in either.given(LaunchContainer)] == ["c1", "c2"]


def test_a_4_guaranteed_before_opportunistic(either: World) -> None:
    either.schedule("c0", G, 2048)
    either.schedule("c1", G, 2048)
    either.schedule("c2", O, 512)
    either.exit("c0")
    assert either.states("c1", "c2") == ["RUNNING", "SCHEDULED"]


def test_a_5_the_limit_of_the_rm_does_not_refuse(either: World) -> None:
    either.schedule("c0", G, 2048)
    either.tell(limit(5))
    for number in range(1, 10):
        either.schedule(f"c{number}", O, 512)
    either.tell(limit(15))
    either.schedule("c10", O, 512)
    assert either.queued() == (0, 10)
    either.tell(limit(5))
    assert either.queued() == (0, 5)


def test_a_7_with_no_queue_all_are_refused() -> None:
    world = yarn_node(max_queue_length=0)
    world.schedule("c0", O, 128)
    refused = world.status("c0")
    assert (refused.state, refused.exit_status, refused.diagnostics) == (ContainerState.DONE, -108, FULL)


def test_a_8_killed_although_it_cannot_suffice(world: World) -> None:
    world.schedule("c0", O, 1024)
    world.schedule("c1", G, 4096)
    assert world.states("c0", "c1") == ["DONE", "SCHEDULED"]
    assert KILLED in world.status("c0").diagnostics
    world.schedule("c2", O, 512)
    assert world.state("c2") is ContainerState.SCHEDULED, (
        "nobody starts beside it, to be killed in vain again"
    )


def test_the_newest_are_killed_first_and_no_more_than_it_takes(world: World) -> None:
    for number in range(4):
        world.schedule(f"c{number}", O, 512)
    world.schedule("g", G, 1024)
    assert world.states("c0", "c1", "c2", "c3", "g") == ["RUNNING", "RUNNING", "DONE", "DONE", "RUNNING"]


def test_one_already_chosen_counts_for_the_next(world: World) -> None:
    """Victims are not chosen twice: what is on its way back is expected."""
    world.answers = False
    for number in range(2):
        world.schedule(f"c{number}", O, 1024)
    world.schedule("g0", G, 512)
    world.schedule("g1", G, 512)
    assert [c.container_id for c in world.commands if isinstance(c, KillContainer)] == ["c1"]


def test_what_was_resumed_has_started_last() -> None:
    world = yarn_node(use_pause_for_preemption=True)
    world.schedule("c0", O, 1024)
    world.schedule("c1", O, 1024)
    world.schedule("g0", G, 2048)
    world.exit("g0")
    assert world.states("c0", "c1") == ["RUNNING", "RUNNING"]
    before = world.machine.status("c1")
    assert before is not None
    world.schedule("g1", G, 1024)
    # c1 was paused first, and so was resumed first: c0 started last
    assert world.states("c0", "c1", "g1") == ["PAUSED", "RUNNING", "RUNNING"]


def test_the_head_blocks_all_behind_it(world: World) -> None:
    world.schedule("c0", O, 1536)
    world.schedule("c1", O, 1024)
    world.schedule("c2", O, 256)
    assert world.states("c0", "c1", "c2") == ["RUNNING", "SCHEDULED", "SCHEDULED"]


def test_a2_queue_multiple_containers_here() -> None:
    """YARN lets what is larger than the node wait for ever, so there both wait behind something here."""
    world = World()
    world.schedule("busy", G, 2048)
    world.schedule("c0", G, 1536)
    world.schedule("c1", O, 1536)
    assert world.states("c0", "c1") == ["SCHEDULED", "SCHEDULED"]
    assert world.queued() == (1, 1)


def test_a2_larger_than_the_node_ends_at_once() -> None:
    world = World()
    for container_id, kind in (("c0", G), ("c1", O)):
        world.schedule(container_id, kind, 3072)
        status = world.status(container_id)
        assert (status.state, status.exit_status, status.exit_code) == (ContainerState.DONE, 125, 125)
        assert "<memory:3072, vCores:1>" in status.diagnostics
        assert "<memory:2048, vCores:4>" in status.diagnostics
    assert world.queued() == (0, 0)


def test_a6_pause_opportunistic_for_guaranteed_container_here() -> None:
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


def test_a7_no_limit_sheds_nothing() -> None:
    world = World()
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 512)
    world.tell(QueuingLimitReceived(ContainerQueuingLimit()))
    assert world.queued() == (0, 1)
    world.tell(limit(0))
    assert world.queued() == (0, 0)


def test_a7_paused_ones_are_not_shed_and_not_counted() -> None:
    world = World(vcores=1, use_pause_for_preemption=True)
    world.schedule("c0", O, 512)
    world.schedule("c1", G, 512)
    world.schedule("c2", O, 512)
    world.tell(limit(1))
    assert world.states("c0", "c1", "c2") == ["PAUSED", "RUNNING", "SCHEDULED"]


def test_a_7_with_no_queue_what_fits_still_starts() -> None:
    """YARN kills every opportunistic container where the queue length is 0, on an idle node, too."""
    world = World(max_queue_length=0)
    world.schedule("c0", O, 128)
    assert world.state("c0") is ContainerState.RUNNING
    world.schedule("c1", O, 2048)
    assert (world.status("c1").exit_status, world.status("c1").diagnostics) == (-108, FULL)


def test_a_8_nobody_is_killed_in_vain() -> None:
    """YARN kills the opportunistic one although its room cannot suffice."""
    world = World()
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


@pytest.mark.parametrize("kind", [G, O])
def test_e7_e8_nothing_recovered_is_nothing_there(kind: ExecutionType) -> None:
    world = World(vcores=10)
    world.tell(RecoveryCompleted())
    assert (world.machine.allocated, world.queued()) == (Resource(), (0, 0))
    world.schedule("c0", kind, 1024, 4)
    assert world.state("c0") is ContainerState.RUNNING
