"""Countable resources, such as GPUs, at a node: what fits, who waits, who is ended for them, what a pause keeps."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.causes import Cause, CauseKind
from executor.core import recovery, victims
from executor.core.commands import KillContainer, LaunchContainer, PauseContainer
from executor.core.devices import shared
from executor.core.estimates import Running, Waiting, expected_starts
from executor.core.events import (
    ContainerPauseRequested,
    ContainerRecovered,
    ContainerResumeRequested,
    ContainerScheduled,
    ContainerUpdated,
)
from executor.core.scheduler import ContainerScheduler
from executor.light import replace
from executor.linux.environment import device_variables
from executor.records import ContainerRecord, ContainerState, ExecutionType, Resource, counted
from executor.settings import ExecutorSettings

from .recovering import Finding, reconcile
from .world import EPOCH, G, O, World, a_spec

GPU, LICENCE = "yarn.io/gpu", "license"
amounts = st.dictionaries(st.sampled_from([GPU, LICENCE, "board"]), st.integers(-3, 3))
resources = st.builds(
    lambda memory, vcores, more: Resource(memory, vcores, counted(more)),
    st.integers(-4, 4),
    st.integers(-4, 4),
    amounts,
)


def of(memory: int = 512, vcores: int = 1, gpus: int = 0, licences: int = 0) -> Resource:
    return Resource(memory, vcores, counted({GPU: gpus, LICENCE: licences}))


def a_world(total: Resource, **settings: object) -> World:
    settings.setdefault("max_queue_length", 10)
    machine = ContainerScheduler(
        total, ExecutorSettings(**settings), physical_cores=total.vcores, wall_offset=EPOCH
    )
    return World(machine)


def arrive(world: World, name: str, resource: Resource, kind: ExecutionType = O) -> None:
    world.tell(ContainerScheduled(replace(a_spec(name, kind), resource=resource)))


# -- arithmetic


@given(resources, resources)
def test_each_type_is_counted_for_itself(one: Resource, other: Resource) -> None:
    names = ["memory-mb", "vcores", GPU, LICENCE, "board"]
    for name in names:
        mine, theirs = one.amount(name), other.amount(name)
        assert (one + other).amount(name) == mine + theirs
        assert (one - other).amount(name) == mine - theirs
        assert (one * 3).amount(name) == mine * 3
        assert one.lesser(other).amount(name) == min(mine, theirs)
        assert one.greater(other).amount(name) == max(mine, theirs)
        assert one.at_least_zero().amount(name) == max(0, mine)
    assert one.is_negative == any(one.amount(name) < 0 for name in names)
    assert one + other - other == one, "equal amounts are one value, however they came about"
    asked = [name for name in names if name in ("memory-mb", "vcores") or one.amount(name)]
    assert one.fits_in(other) == all(one.amount(name) <= other.amount(name) for name in asked)


def test_it_reads_as_yarn_writes_it() -> None:
    assert str(of(1024, 2, gpus=1)) == "<memory:1024, vCores:2, yarn.io/gpu: 1>"
    assert str(Resource(1024, 2)) == "<memory:1024, vCores:2>"
    assert hash(of(gpus=1)) == hash(of(gpus=1)) != hash(of())


# -- what fits, and who waits


def test_one_without_a_gpu_overtakes_one_that_waits_for_it() -> None:
    world = a_world(of(4096, 4, gpus=1))
    arrive(world, "a", of(gpus=1))
    arrive(world, "b", of(gpus=1))
    arrive(world, "c", of())
    assert world.states("a", "b", "c") == ["RUNNING", "SCHEDULED", "RUNNING"]
    status = world.machine.opportunistic_status()
    assert (status.others_used, status.queued_others) == (of(gpus=1).others, of(gpus=1).others)
    world.exit("a")
    assert world.state("b") is ContainerState.RUNNING


def test_more_than_the_node_has_can_never_run_there() -> None:
    world = a_world(of(4096, 4, gpus=1))
    arrive(world, "a", of(gpus=2))
    assert world.status("a").cause == Cause(CauseKind.TOO_LARGE)
    assert "yarn.io/gpu: 2" in world.status("a").diagnostics


def test_by_resources_a_gpu_that_is_promised_is_not_promised_again() -> None:
    world = a_world(of(4096, 4, gpus=1), admission="BY_RESOURCES")
    arrive(world, "a", of(gpus=1))
    arrive(world, "b", of(gpus=1))
    arrive(world, "c", of())
    assert world.status("b").cause == Cause(CauseKind.QUEUE_FULL)
    assert world.states("a", "c") == ["RUNNING", "RUNNING"]


def test_a_resized_container_keeps_what_is_counted() -> None:
    world = a_world(of(4096, 4, gpus=1))
    arrive(world, "a", of(gpus=1))
    world.tell(ContainerUpdated("a", 1, None, of(1024, 1, gpus=1)))
    assert world.machine.allocated == of(1024, 1, gpus=1)


def test_who_takes_no_gpu_may_overtake_one_that_waits_for_it_for_ever() -> None:
    world = a_world(of(4096, 4, gpus=1), max_overtakes=2)
    arrive(world, "holder", of(gpus=1))
    arrive(world, "waiter", of(512, 2, gpus=1))
    for number in range(5):
        arrive(world, f"plain{number}", of())
        assert world.state(f"plain{number}") is ContainerState.RUNNING
        world.exit(f"plain{number}")
    arrive(world, "last", of(512, 3))
    world.exit("holder")
    assert world.states("waiter", "last") == ["SCHEDULED", "RUNNING"]
    arrive(world, "small", of(512, 1))
    assert world.state("small") is ContainerState.SCHEDULED, (
        "now it waits for vcores, and was overtaken enough"
    )
    world.exit("last")
    assert world.states("waiter", "small") == ["RUNNING", "RUNNING"]


# -- preemption


def test_only_the_holder_is_ended_for_a_gpu() -> None:
    world = a_world(of(4096, 8, gpus=1))
    arrive(world, "holder", of(gpus=1))
    arrive(world, "newer", of())
    arrive(world, "g", of(gpus=1), G)
    assert world.states("holder", "newer", "g") == ["DONE", "RUNNING", "RUNNING"]


def test_none_is_ended_where_all_would_not_suffice() -> None:
    world = a_world(of(4096, 8, gpus=1))
    arrive(world, "first", of(gpus=1), G)
    arrive(world, "o", of())
    arrive(world, "g", of(gpus=1), G)
    assert world.states("first", "o", "g") == ["RUNNING", "RUNNING", "SCHEDULED"]


@pytest.mark.parametrize("policy", ["MINIMAL", "NEWEST_FIRST", "LEAST_WORK_LOST"])
def test_under_pausing_the_holder_is_killed_and_says_why(policy: str) -> None:
    world = a_world(of(4096, 8, gpus=1), use_pause_for_preemption=True, preemption_policy=policy)
    arrive(world, "holder", of(gpus=1))
    arrive(world, "g", of(gpus=1), G)
    assert world.states("holder", "g") == ["DONE", "RUNNING"]
    assert world.status("holder").cause == Cause(CauseKind.MAKE_ROOM, for_container="g", for_resource=GPU)
    assert "its yarn.io/gpu is needed" in world.status("holder").diagnostics


@pytest.mark.parametrize("policy", ["MINIMAL", "NEWEST_FIRST", "LEAST_WORK_LOST"])
def test_under_pausing_the_holder_is_left_if_that_is_set(policy: str) -> None:
    world = a_world(
        of(4096, 8, gpus=1), use_pause_for_preemption=True, paused_resources="keep", preemption_policy=policy
    )
    arrive(world, "holder", of(gpus=1))
    arrive(world, "newer", of())
    arrive(world, "g", of(gpus=1), G)
    assert world.states("holder", "newer", "g") == ["RUNNING", "RUNNING", "SCHEDULED"], (
        "nobody stands in vain"
    )
    world.exit("holder")
    assert world.states("newer", "g") == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize("policy", ["MINIMAL", "LEAST_WORK_LOST"])
def test_one_that_waits_for_a_kept_gpu_does_not_delay_guaranteed_ones_that_need_none(policy: str) -> None:
    world = a_world(
        of(4096, 2, gpus=2), use_pause_for_preemption=True, paused_resources="keep", preemption_policy=policy
    )
    arrive(world, "older", of(gpus=1))
    arrive(world, "holder", of(gpus=1))
    arrive(world, "g", of(gpus=1), G)
    arrive(world, "cpu", of(), G)
    assert world.states("older", "holder", "g", "cpu") == ["RUNNING", "PAUSED", "SCHEDULED", "RUNNING"]
    world.exit("older")
    assert world.state("g") is ContainerState.RUNNING
    world.exit("cpu")
    assert world.states("holder", "g") == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize("policy", ["FIFO", "FIFO_BACKFILL"])
@pytest.mark.parametrize("vcores", [1, 8])
def test_a_paused_holder_that_is_left_goes_on_so_that_its_gpu_comes_back(policy: str, vcores: int) -> None:
    world = a_world(
        of(4096, 8, gpus=2), use_pause_for_preemption=True, paused_resources="keep", queue_policy=policy
    )
    arrive(world, "holder", of(gpus=1))
    world.tell(ContainerPauseRequested("holder"))
    arrive(world, "g", of(512, vcores, gpus=2), G)
    assert world.states("holder", "g") == ["PAUSED", "SCHEDULED"], "a person wants it to stand"
    world.tell(ContainerResumeRequested("holder"))
    assert world.states("holder", "g") == ["RUNNING", "SCHEDULED"]
    world.exit("holder")
    assert world.state("g") is ContainerState.RUNNING


def test_a_paused_holder_keeps_its_gpu_and_resumes_with_it() -> None:
    world = a_world(of(4096, 2, gpus=1), use_pause_for_preemption=True)
    arrive(world, "holder", of(512, 2, gpus=1))
    arrive(world, "g", of(512, 2), G)
    assert world.states("holder", "g") == ["PAUSED", "RUNNING"]
    arrive(world, "other", of(512, 0, gpus=1))
    assert world.state("other") is ContainerState.SCHEDULED, "the device is not free"
    world.exit("g")
    assert world.states("holder", "other") == ["RUNNING", "SCHEDULED"]


def test_a_new_nm_finds_a_paused_holder_with_its_gpu() -> None:
    spec = replace(a_spec("a"), resource=of(512, 1, gpus=1))
    record = ContainerRecord(spec, ContainerState.PAUSED, paused_memory=100)
    event = ContainerRecovered(record, alive=True, stopped=True)
    assert recovery.holding(event) == of(100, 0, gpus=1)


gains = st.lists(
    st.builds(lambda m, v, g, n: of(m, v, g, n), *(st.integers(0, 3) for _ in range(4))), max_size=6
)


@given(gains, st.builds(lambda m, v, g: of(m, v, g), *(st.integers(0, 4) for _ in range(3))))
def test_the_fewest_that_suffice_are_taken_for_any_types(found: list[Resource], short: Resource) -> None:
    chosen = victims.fewest(found, short)

    def enough(indices: tuple[int, ...] | list[int]) -> bool:
        return short.fits_in(sum((found[index] for index in indices), Resource()))

    sizes = [n for n in range(len(found) + 1) if any(map(enough, combinations(range(len(found)), n)))]
    if not sizes or sizes[0] == 0:
        assert chosen == []
    else:
        assert enough(chosen) and len(chosen) == sizes[0]


def test_both_steps_where_a_gpu_and_vcores_are_short() -> None:
    world = a_world(of(4096, 2, gpus=1), use_pause_for_preemption=True)
    arrive(world, "plain", of(512, 1))
    arrive(world, "holder", of(512, 1, gpus=1))
    arrive(world, "g", of(512, 2, gpus=1), G)
    assert world.states("plain", "holder", "g") == ["PAUSED", "DONE", "RUNNING"]
    kinds = [type(one) for one in world.commands if isinstance(one, KillContainer | PauseContainer)]
    assert sorted(kind.__name__ for kind in kinds) == ["KillContainer", "PauseContainer"]


# -- estimates


def test_who_waits_for_a_gpu_starts_when_its_holder_ends() -> None:
    running = [Running(5.0, of(100, 1)), Running(60.0, of(100, 1, gpus=1))]
    line = [Waiting(1.0, of(100, 1, gpus=1), of(100, 1, gpus=1)), Waiting(1.0, of(100, 1), of(100, 1))]
    assert expected_starts(of(1000, 4), running, line) == [60.0, 60.0]
    assert expected_starts(of(1000, 4), [], line)[0] == math.inf


# -- devices


def a_world_of_gpus(ids: str, **settings: object) -> World:
    """A node that knows its GPUs one by one."""
    devices = tuple(ids.split(","))
    settings.setdefault("max_queue_length", 10)
    machine = ContainerScheduler(
        of(8192, 8, gpus=len(devices)),
        ExecutorSettings(**settings),
        physical_cores=8,
        wall_offset=EPOCH,
        devices=devices,
    )
    return World(machine)


def devices_of(world: World, *names: str) -> list[tuple[str, ...]]:
    return [world.status(name).devices for name in names]


def test_each_has_gpus_of_its_own_the_first_free_ones_first() -> None:
    world = a_world_of_gpus("0:0,1:1,3:5")
    arrive(world, "a", of(gpus=1))
    arrive(world, "b", of(gpus=2))
    arrive(world, "plain", of())
    arrive(world, "c", of(gpus=1))
    assert devices_of(world, "a", "b", "plain", "c") == [("0:0",), ("1:1", "3:5"), (), ()]
    (launch,) = [
        one for one in world.commands if isinstance(one, LaunchContainer) and one.spec.container_id == "b"
    ]
    assert launch.spec.devices == ("1:1", "3:5"), "who starts it is told"
    assert world.records["b"].spec.devices == ("1:1", "3:5"), "and its record says so before"
    world.exit("a")
    assert devices_of(world, "a", "c") == [("0:0",), ("0:0",)], "an ended one still says what it had"


def test_a_paused_holder_keeps_its_very_gpu() -> None:
    world = a_world_of_gpus("0:0,1:1", use_pause_for_preemption=True)
    arrive(world, "holder", of(512, 8, gpus=1))
    arrive(world, "g", of(512, 8, gpus=1), G)
    assert world.states("holder", "g") == ["PAUSED", "RUNNING"]
    assert devices_of(world, "holder", "g") == [("0:0",), ("1:1",)]
    world.exit("g")
    assert world.states("holder") == ["RUNNING"] and devices_of(world, "holder") == [("0:0",)]


def test_a_new_nm_gives_none_to_two() -> None:
    world = a_world_of_gpus("0:0,1:1")
    arrive(world, "a", of(gpus=1))
    arrive(world, "b", of(gpus=1))
    arrive(world, "waits", of(gpus=1))
    world.exit("a")
    assert devices_of(world, "waits") == [("0:0",)]
    records = dict(world.records)
    again = a_world_of_gpus("0:0,1:1")
    alive = {name: Finding(alive=True) for name in ("b", "waits")}
    again.tell(*reconcile([records["b"], records["waits"]], alive))
    arrive(again, "new", of(gpus=1))
    assert devices_of(again, "b", "waits", "new") == [("1:1",), ("0:0",), ()]
    assert again.state("new") is ContainerState.SCHEDULED
    again.exit("b")
    assert devices_of(again, "new") == [("1:1",)]


def test_one_that_had_not_begun_when_its_nm_died_is_given_what_is_free_then() -> None:
    spec = replace(a_spec("a"), resource=of(gpus=1), devices=("0:0",))
    record = ContainerRecord(spec, ContainerState.LAUNCHING)
    world = a_world_of_gpus("0:0,1:1")
    other = replace(spec, container_id="b")
    running = ContainerRecord(other, ContainerState.RUNNING, pid=7, started_at_ms=1)
    world.tell(*reconcile([record, running], {"b": Finding(alive=True)}))
    assert devices_of(world, "a", "b") == [("1:1",), ("0:0",)]


def test_a_device_that_is_allowed_no_more_stays_with_who_has_it() -> None:
    spec = replace(a_spec("a"), resource=of(gpus=1), devices=("1:1",))
    record = ContainerRecord(spec, ContainerState.RUNNING, pid=7, started_at_ms=1)
    world = a_world_of_gpus("0:0,2:2")
    world.tell(*reconcile([record], {"a": Finding(alive=True)}))
    arrive(world, "b", of(gpus=1))
    arrive(world, "c", of(gpus=1))
    assert devices_of(world, "a", "b", "c") == [("1:1",), ("0:0",), ()]


def test_a_guaranteed_one_that_is_forced_to_start_waits_for_a_gpu_all_the_same() -> None:
    world = a_world_of_gpus("0:0", force_start_guaranteed=True, max_queue_length=0)
    arrive(world, "a", of(gpus=1), G)
    arrive(world, "b", of(gpus=1), G)
    assert world.states("a", "b") == ["RUNNING", "SCHEDULED"]
    world.exit("a")
    assert devices_of(world, "b") == [("0:0",)]


@pytest.mark.parametrize(
    ("nodes", "parts"), [(1, ["0 1 2"]), (2, ["0 1", "2"]), (4, ["0", "1", "2", ""]), (3, ["0", "1", "2"])]
)
def test_the_gpus_of_a_machine_are_divided_between_its_nodes(nodes: int, parts: list[str]) -> None:
    assert shared(["0", "1", "2"], nodes) == [tuple(part.split()) for part in parts]


@pytest.mark.parametrize(
    ("devices", "vendor", "expected"),
    [
        (("0:0", "2:3"), "nvidia", {"CUDA_VISIBLE_DEVICES": "0,2", "NVIDIA_VISIBLE_DEVICES": "0,2"}),
        ((), "nvidia", {"CUDA_VISIBLE_DEVICES": "-1", "NVIDIA_VISIBLE_DEVICES": "void"}),
        (("1:1", "2:3"), "amd", {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0,1"}),
        ((), "amd", {"ROCR_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_the_variables_that_tell_a_container_its_gpus(
    devices: tuple[str, ...], vendor: str, expected: dict[str, str]
) -> None:
    assert device_variables(devices, vendor) == expected
