"""A and A': ``TestContainerSchedulerQueuing``, by the ids of the cases, under YARN's rules.

The same under yopp's own decisions is in ``tests/executor/core/test_conformance.py``.
"""

from __future__ import annotations

import pytest

from executor.core.commands import KillContainer, LaunchContainer, SetLimits
from executor.core.events import QueuingLimitReceived
from executor.records import ContainerQueuingLimit, ContainerState
from tests.executor.core.world import G, O, World

from .yarn_node import FULL, KILLED, PAUSED, SHED, yarn_node


@pytest.fixture
def world() -> World:
    return yarn_node()


def limit(length: int) -> QueuingLimitReceived:
    return QueuingLimitReceived(ContainerQueuingLimit(max_queue_length=length))


def test_a1_start_multiple_containers(world: World) -> None:
    world.schedule("c0", G, 1024)
    world.schedule("c1", O, 1024)
    assert world.states("c0", "c1") == ["RUNNING", "RUNNING"]
    assert world.queued() == (0, 0)


def test_a2_queue_multiple_containers(world: World) -> None:
    """Both are larger than the node, and wait."""
    world.schedule("c0", G, 3072)
    world.schedule("c1", O, 3072)
    world.advance(5)
    assert world.states("c0", "c1") == ["SCHEDULED", "SCHEDULED"]
    assert world.queued() == (1, 1)
    assert world.machine.opportunistic_status().wait_queue_length == 2


def test_a3_start_and_queue_multiple_containers(world: World) -> None:
    world.schedule("c0", O, 2048)
    world.schedule("c1", O, 1024)
    world.schedule("c2", O, 1024)
    assert world.states("c0", "c1", "c2") == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    assert world.queued() == (0, 2)


def test_a4_the_opportunistic_queue_is_full(world: World) -> None:
    world.schedule("c0", G, 2048)
    for number in range(1, 12):
        world.schedule(f"c{number}", O, 2048)
    assert world.state("c0") is ContainerState.RUNNING
    assert world.states(*(f"c{n}" for n in range(1, 11))) == ["SCHEDULED"] * 10
    refused = world.status("c11")
    assert (refused.state, refused.exit_status, refused.diagnostics) == (ContainerState.DONE, -108, FULL)
    assert world.queued() == (0, 10)


def test_a5_kill_opportunistic_for_guaranteed_container(world: World) -> None:
    world.schedule("c0", O, 2048)
    world.schedule("c1", O, 2048)
    world.schedule("c2", G, 2048)
    killed = world.status("c0")
    assert (killed.state, killed.exit_status) == (ContainerState.DONE, -108)
    assert KILLED in killed.diagnostics
    assert world.states("c1", "c2") == ["SCHEDULED", "RUNNING"]
    assert world.queued() == (0, 1)
    world.exit("c2")
    assert world.state("c1") is ContainerState.RUNNING
    assert world.queued() == (0, 0)


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


def test_a7_queue_shedding(world: World) -> None:
    world.schedule("c0", G, 2048)
    for number in range(1, 7):
        world.schedule(f"c{number}", O, 512)
    assert world.queued() == (0, 6)
    world.tell(limit(2))
    assert world.queued() == (0, 2)
    assert world.states("c1", "c2") == ["SCHEDULED", "SCHEDULED"]
    for number in range(3, 7):
        status = world.status(f"c{number}")
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


def test_a8_dequeued_after_its_am_stops_it(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 512)
    world.schedule("c2", O, 512)
    world.stop("c2")
    assert world.queued() == (0, 1)


def test_a11_stop_queued_container(world: World) -> None:
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 512)
    world.schedule("c2", O, 512)
    assert world.queued() == (0, 2)
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
    assert launch.spec.container_id == "c1"


def test_a13_demotion_of_a_running_container(world: World) -> None:
    world.schedule("c0", G, 512)
    world.update("c0", O, 512, 1, version=1)
    status = world.status("c0")
    assert (status.state, status.execution_type, status.version) == (ContainerState.RUNNING, O, 1)
    assert len(world.given(SetLimits)) == 1


def test_a_2_both_start_in_order(world: World) -> None:
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
    for number in range(1, 10):
        world.schedule(f"c{number}", O, 512)
    world.tell(limit(15))
    world.schedule("c10", O, 512)
    assert world.queued() == (0, 10)
    world.tell(limit(5))
    assert world.queued() == (0, 5)


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
