"""JobMaster against a misbehaving RM and node:

whatever they do, every task ends, once, and nothing is left over.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.causes import Cause, CauseKind
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.records.jobs import Halt, JobSpec, PhaseSpec, TaskState
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.records.state import StoredTask

from .driver import ATTEMPT, TOKEN, World, tasks

FULL = Cause(CauseKind.QUEUE_FULL)


def two_phases(count: int, **fields: object) -> JobSpec:
    maps = PhaseSpec("map", tasks(count), ("m",), max_attempts=100, **fields)  # type: ignore[arg-type]
    return JobSpec("job", "MAPREDUCE", (maps, PhaseSpec("reduce", tasks(1), ("r",), max_attempts=100)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 12),
    loses=st.sampled_from([0.0, 0.1, 0.3]),
    refuses=st.sampled_from([0.0, 0.05]),
    promote=st.booleans(),
)
def test_every_task_ends_once_whatever_the_world_does(
    seed: int, count: int, loses: float, refuses: float, promote: bool
) -> None:
    rng = random.Random(seed)
    master = JobMaster(two_phases(count, promote=promote), ATTEMPT, TOKEN)

    def outcome(_: str) -> tuple[int, Cause | None]:
        return rng.choice(
            [
                (0, None),
                (0, None),
                (0, None),
                (1, None),
                (-108, FULL),
                (-108, None),
                (-100, None),
                (-102, None),
            ]
        )

    world = World(master, rng, outcome, loses=loses, refuses=refuses)
    end = world.run()
    if not refuses:
        assert end.exit_code == 0 and end.final_status is FinalApplicationStatus.SUCCEEDED
        assert end.summary.completed == count + 1 and end.summary.failed == 0
    assert end.summary.completed == end.summary.total == count + 1
    assert end.summary.guaranteed + end.summary.opportunistic <= count + 1
    # whatever lives on at the node is not the master's any more: it was given back
    assert not world.live - world.released


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 8), when=st.integers(0, 60))
def test_a_stop_at_any_moment_leaves_nothing(seed: int, count: int, when: int) -> None:
    rng = random.Random(seed)
    world = World(JobMaster(two_phases(count), ATTEMPT, TOKEN), rng, lambda _: (0, None))
    world._do(world.master.handle(m.MasterStarted(), 0.0))
    for step in range(5000):
        if world.end is not None:
            break
        if step == when:
            world._do(world.master.handle(m.StopRequested("interrupted", 130), world.now))
        world._step()
    assert world.end is not None
    assert world.end.exit_code in (0, 130)
    assert not world.live - world.released
    assert not world.asked


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 12),
    most=st.integers(0, 4),
    failures=st.integers(1, 4),
    at_once=st.booleans(),
)
def test_a_job_that_halts_leaves_nothing_and_keeps_to_its_bound(
    seed: int, count: int, most: int, failures: int, at_once: bool
) -> None:
    rng = random.Random(seed)
    phase = PhaseSpec("run", tasks(count), ("true",), max_attempts=2)
    job = JobSpec("job", "YARN", (phase,), max_running=most, halt=Halt(failures, at_once))
    outcomes = [(0, None), (1, None), (-102, None), (-108, FULL)]
    world = World(JobMaster(job, ATTEMPT, TOKEN), rng, lambda _: rng.choice(outcomes), loses=0.1)
    check = world.master.validate

    def validate() -> None:
        check()
        assert not most or len(world.master._by_container) + len(world.master._rm.asks) <= most

    world.master.validate = validate  # type: ignore[method-assign]
    end = world.run()
    assert not world.live - world.released and not world.asked
    assert end.final_status is (
        FinalApplicationStatus.FAILED if end.summary.failed else FinalApplicationStatus.SUCCEEDED
    )
    assert end.summary.completed == count or end.summary.failed >= failures


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 10),
    most=st.integers(0, 4),
    loses=st.sampled_from([0.0, 0.2]),
)
def test_tasks_end_once_whenever_their_earlier_containers_end(
    seed: int, count: int, most: int, loses: float
) -> None:
    rng = random.Random(seed)
    past = tuple(
        StoredTask(ATTEMPT, 0, number, TaskState.WAITING, f"earlier_{number}_{earlier}", "h1:1")
        for number in range(1, count + 1)
        for earlier in range(rng.randint(0, 2))
    )
    late = [one.container_id for one in past if rng.random() < 0.7]
    rng.shuffle(late)
    ending = tuple(one for one in late if rng.random() < 0.5)
    phase = PhaseSpec("run", tasks(count), ("true",), max_attempts=100)
    master = JobMaster(JobSpec("job", "YARN", (phase,), max_running=most), ATTEMPT, TOKEN)
    outcomes = [(0, None), (1, None), (-102, None), (-108, FULL)]
    world = World(master, rng, lambda _: rng.choice(outcomes), loses=loses, past=past, ending=ending)
    world.earlier = {one: rng.choice([0, 0, 143]) for one in late}
    check = master.validate

    def validate() -> None:
        check()
        running = {task.number for task in master._by_container.values()}
        assert not running & {int(one.split("_")[1]) for one in ending if one in world.earlier}

    master.validate = validate  # type: ignore[method-assign]
    end = world.run()
    assert end.exit_code == 0 and end.final_status is FinalApplicationStatus.SUCCEEDED
    assert end.summary.completed == end.summary.total == count


@pytest.mark.parametrize("count", [2000])
def test_many_tasks_cost_each_the_same(count: int) -> None:
    rng = random.Random(1)
    master = JobMaster(JobSpec("job", "YARN", (PhaseSpec("run", tasks(count), ("true",)),)), ATTEMPT, TOKEN)
    master.validate = lambda: None  # type: ignore[method-assign]
    world = World(master, rng, lambda _: (0, None))
    end = world.run(200_000)
    assert end.summary.completed == count
