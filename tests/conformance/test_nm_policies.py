"""B, C, D and E: start without a queue, queueing by resources, the fit test, recovery; by the cases' ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from executor.core.commands import LaunchContainer
from executor.core.events import ContainerRecovered, RecoveryCompleted
from executor.core.tracker import ResourceUtilizationTracker
from executor.linux.store import StateStore, encode
from executor.records import ContainerRecord, ContainerState, ExecutionType, Resource
from tests.executor.core.world import G, O, World, a_spec

from .yarn_node import FULL, yarn_node


def test_b1_guaranteed_is_forced_to_start_where_opportunistic_is_off() -> None:
    world = yarn_node(vcores=1, max_queue_length=0)
    world.schedule("c0", G, 2048, 4)
    assert world.state("c0") is ContainerState.RUNNING
    world.exit("c0")
    assert world.queued() == (0, 0)
    assert world.machine.allocated == Resource()


def test_b1_also_beside_what_runs() -> None:
    world = yarn_node(vcores=1, max_queue_length=0)
    world.schedule("c0", G, 2048, 1)
    world.schedule("c1", G, 512, 1)
    assert world.states("c0", "c1") == ["RUNNING", "RUNNING"]
    assert world.machine.available == Resource()


def test_b1_is_not_forced_by_resources() -> None:
    world = yarn_node(vcores=1, max_queue_length=0, admission="BY_RESOURCES")
    world.schedule("c0", G, 2048, 1)
    world.schedule("c1", G, 512, 1)
    assert world.states("c0", "c1") == ["RUNNING", "SCHEDULED"]


@pytest.fixture
def by_resources() -> World:
    return yarn_node(vcores=8, admission="BY_RESOURCES")


def test_c1_refused_when_no_resources_are_available(by_resources: World) -> None:
    world = by_resources
    world.schedule("c0", G, 2048)
    world.schedule("c1", O, 2048)
    assert world.states("c0", "c1") == ["RUNNING", "DONE"]
    assert world.status("c1").diagnostics == FULL
    assert world.status("c1").exit_status == -108
    assert world.queued() == (0, 0)


def test_c2_runs_when_resources_are_available(by_resources: World) -> None:
    world = by_resources
    for number in range(8):
        world.schedule(f"c{number}", O, 512)
    assert world.states(*(f"c{n}" for n in range(4))) == ["RUNNING"] * 4
    for number in range(4, 8):
        assert world.state(f"c{number}") is ContainerState.DONE
        assert world.status(f"c{number}").diagnostics == FULL
    assert world.queued() == (0, 0)


def test_c_what_waits_counts_as_well(by_resources: World) -> None:
    """Beside a guaranteed one that waits for a dying one, nothing is taken that does not fit with both."""
    world = by_resources
    world.answers = False
    world.schedule("c0", O, 512)
    world.schedule("c1", G, 2048)
    world.schedule("c2", O, 512)
    assert world.queued() == (1, 0)
    assert world.status("c2").diagnostics == FULL


def test_c_the_queue_length_does_not_count_and_is_told_as_none(by_resources: World) -> None:
    assert by_resources.machine.opportunistic_status().queue_capacity == 0


def test_d1_has_resources_available() -> None:
    tracker = ResourceUtilizationTracker(Resource(1024, 8))
    asked = Resource(512, 4)
    fits = []
    for _ in range(3):
        fits.append(tracker.fits(asked))
        if fits[-1]:
            tracker.acquire(G, asked)
    assert fits == [True, True, False]


RECOVERED = [
    # case, state, type, running; what is queued of both types and allocated (MB, vcores): by YARN, and by yopp
    ("E1", "SCHEDULED", G, 0, (1, 0, (0, 0)), (1, 0, (0, 0))),
    ("E2", "SCHEDULED", O, 0, (0, 1, (0, 0)), (0, 1, (0, 0))),
    ("E3", "PAUSED", G, 0, (1, 0, (0, 0)), (1, 0, (1024, 0))),  # yopp's keeps its memory
    ("E4", "PAUSED", O, 0, (0, 1, (0, 0)), (0, 0, (1024, 0))),  # and is counted apart from the queue
    ("E5", "RUNNING", G, 1, (0, 0, (1024, 4)), (0, 0, (1024, 4))),
    ("E6", "RUNNING", O, 1, (0, 0, (1024, 4)), (0, 0, (1024, 4))),
    ("E9", "DONE", G, 0, (0, 0, (0, 0)), (0, 0, (0, 0))),
    ("E10", "DONE", O, 0, (0, 0, (0, 0)), (0, 0, (0, 0))),
]
Book = tuple[int, int, tuple[int, int]]


@pytest.mark.parametrize("by_yarns_rules", [True, False])
@pytest.mark.parametrize(("case", "state", "kind", "running", "yarn", "yopp"), RECOVERED)
def test_e_recovery(
    case: str, state: str, kind: ExecutionType, running: int, yarn: Book, yopp: Book, by_yarns_rules: bool
) -> None:
    make = yarn_node if by_yarns_rules else World
    guaranteed, opportunistic, allocated = yarn if by_yarns_rules else yopp
    world = make(memory=8192, vcores=10)
    assert (world.queued(), world.machine.allocated) == ((0, 0), Resource())
    record = ContainerRecord(a_spec("c0", kind, 1024, 4), ContainerState(state), pid=5, sequence=1)
    world.tell(ContainerRecovered(record, alive=state in ("PAUSED", "RUNNING"), stopped=state == "PAUSED"))
    assert world.queued() == (guaranteed, opportunistic), case
    assert world.machine.allocated == Resource(*allocated)
    assert world.states("c0").count("RUNNING") == running
    assert not world.given(LaunchContainer), "nothing starts before RecoveryCompleted"
    world.tell(RecoveryCompleted())
    assert world.state("c0") is (ContainerState.DONE if state == "DONE" else ContainerState.RUNNING)


@pytest.mark.parametrize("kind", [G, O])
def test_e7_e8_what_was_only_asked_for_is_not_there(kind: ExecutionType) -> None:
    """A container that was asked for and not taken in has no record here."""
    world = yarn_node(vcores=10)
    world.tell(RecoveryCompleted())
    assert (world.machine.allocated, world.queued(), world.machine.statuses()) == (Resource(), (0, 0), [])


@pytest.mark.parametrize(("case", "state"), [("E11", "SCHEDULED"), ("E12", "PAUSED")])
def test_e11_e12_a_record_without_a_type_brings_nothing_back(case: str, state: str, tmp_path: Path) -> None:
    record = ContainerRecord(a_spec("c0", O, 1024, 4), ContainerState(state), pid=5, sequence=1)
    values = json.loads(encode(record))
    del values["spec"]["execution_type"]
    (tmp_path / "c0.json").write_text(json.dumps(values) + "\n")
    store = StateStore(tmp_path)
    assert store.load_all() == [], case
    assert len(store.complaints) == 1
