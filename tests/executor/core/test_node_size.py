"""A node that is given another size while containers are on it."""

from __future__ import annotations

from executor.causes import Cause, CauseKind
from executor.core.commands import SetLimits
from executor.core.events import ContainerUpdated, NodeResized
from executor.records import ContainerState, Resource

from .world import G, O, World


def test_a_larger_node_starts_what_waits() -> None:
    world = World(vcores=1)
    world.schedule("c0", O, 512)
    world.schedule("c1", O, 512)
    assert world.states("c0", "c1") == ["RUNNING", "SCHEDULED"]
    world.tell(NodeResized(Resource(2048, 2)))
    assert world.states("c0", "c1") == ["RUNNING", "RUNNING"]
    assert world.machine.total == Resource(2048, 2)


def test_a_smaller_node_takes_from_opportunistic_containers_and_never_from_guaranteed_ones() -> None:
    world = World()
    world.schedule("g0", G, 1024)
    world.schedule("o0", O, 512)
    world.schedule("o1", O, 512)
    world.tell(NodeResized(Resource(1536, 4)))
    assert world.states("g0", "o0") == ["RUNNING", "RUNNING"]
    assert (world.status("o1").state, world.status("o1").exit_status) == (ContainerState.DONE, -108)
    world.tell(NodeResized(Resource(1024, 4)))
    assert world.states("g0", "o0") == ["RUNNING", "DONE"]
    world.tell(NodeResized(Resource(512, 1)))
    assert world.states("g0") == ["RUNNING"]


def test_who_gives_way_to_a_smaller_node_is_told_so() -> None:
    world = World(vcores=2, use_pause_for_preemption=True)
    for name in ("o0", "o1"):
        world.schedule(name, O, 512)
    world.tell(NodeResized(Resource(2048, 1)))
    assert world.states("o0", "o1") == ["RUNNING", "PAUSED"]
    paused = world.status("o1")
    assert (paused.cause, paused.stood_for) == (Cause(CauseKind.NODE_RESIZED), "RESIZE")
    assert paused.diagnostics == "Container paused: its node was made smaller."
    world.tell(NodeResized(Resource(2048, 2)))
    assert (world.states("o1"), world.status("o1").cause) == (["RUNNING"], None)
    world.tell(NodeResized(Resource(512, 2)))
    ended = world.status("o1")
    assert ended.state is ContainerState.DONE and ended.cause == Cause(
        CauseKind.NODE_RESIZED, for_memory=True
    )
    assert "Container killed: its node was made smaller." in ended.diagnostics


def test_who_gives_way_to_one_that_grew_on_a_smaller_node_makes_room_for_it() -> None:
    world = World(vcores=2, use_pause_for_preemption=True)
    world.schedule("g", G, 512)
    world.schedule("o", O, 512)
    world.tell(NodeResized(Resource(1024, 2)))
    world.tell(ContainerUpdated("g", version=1, resource=Resource(512, 2)))
    assert world.states("g", "o") == ["RUNNING", "PAUSED"]
    assert world.status("o").cause == Cause(CauseKind.MAKE_ROOM)


def test_nothing_is_ended_in_vain() -> None:
    world = World()
    world.schedule("g0", G, 1024)
    world.schedule("o0", O, 512)
    world.tell(NodeResized(Resource(512, 4)))
    assert world.states("g0", "o0") == ["RUNNING", "RUNNING"], "ending it would not make the node suffice"


def test_one_that_waits_and_can_never_start_now_is_given_back() -> None:
    world = World()
    world.schedule("g0", G, 2048)
    world.schedule("o0", O, 1024)
    world.schedule("o1", O, 256)
    world.tell(NodeResized(Resource(512, 4)))
    assert world.states("g0", "o1") == ["RUNNING", "SCHEDULED"]
    assert (world.status("o0").state, world.status("o0").exit_status) == (ContainerState.DONE, -108)


def test_strict_limits_follow_the_size() -> None:
    world = World(strict_resource_usage=True)
    world.schedule("c0", O, 512)
    before = world.machine._limits(world.machine._live["c0"]).cpu_quota_us
    commands = world.tell(NodeResized(Resource(2048, 8)))
    [limits] = [one.limits for one in commands if isinstance(one, SetLimits)]
    assert before is not None and limits.cpu_quota_us == before // 2
