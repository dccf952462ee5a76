"""Victims: the fewest that suffice, the newest of those, all or nothing; pausing where it helps."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from executor.core import victims
from executor.core.applications import Applications
from executor.core.commands import KillContainer, PauseContainer
from executor.core.container import Container, Pause
from executor.core.reclaim import PreemptionPolicy, Reclaimable, reclaimable
from executor.records import ContainerState, Resource
from executor.settings import ExecutorSettings

from .world import a_spec

MINIMAL = PreemptionPolicy(ExecutorSettings(), Applications())


def running(*sizes: tuple[int, int], pausable: bool = True) -> list[Reclaimable]:
    """Named a, b, c, … from the newest on; (memory, vcores) each."""
    return [
        Reclaimable(chr(97 + index), Resource(*size), Resource(0, size[1] if pausable else 0))
        for index, size in enumerate(sizes)
    ]


def killed(*names: str) -> list[KillContainer | PauseContainer]:
    return [KillContainer(name) for name in names]


def paused(*names: str) -> list[KillContainer | PauseContainer]:
    return [PauseContainer(name) for name in names]


@pytest.mark.parametrize(
    ("sizes", "short", "names"),
    [
        ([(512, 1)] * 4, (0, 0), ""),
        ([(512, 1)] * 4, (512, 0), "a"),
        ([(512, 1)] * 4, (513, 0), "ab"),
        ([(512, 1)] * 4, (0, 3), "abc"),
        ([(512, 1)] * 4, (0, 5), ""),
        ([(512, 1), (512, 1), (2048, 1)], (2048, 0), "c"),
        ([(512, 1), (2048, 1), (2048, 1)], (2000, 0), "b"),
        ([(512, 4), (2048, 1)], (2048, 4), "ab"),
        ([(900, 1), (100, 3), (500, 2), (500, 2)], (1000, 4), "ab"),
        ([(900, 1), (100, 2), (500, 2), (500, 2)], (1000, 4), "cd"),
        ([(0, 3), (2048, 0), (512, 1)], (100, 0), "b"),
        ([], (1, 0), ""),
    ],
)
def test_the_smallest_set_and_the_newest(
    sizes: list[tuple[int, int]], short: tuple[int, int], names: str
) -> None:
    assert MINIMAL.plan(running(*sizes), Resource(*short), can_pause=False) == killed(*names)


def test_vcores_are_had_by_pausing() -> None:
    assert MINIMAL.plan(running((512, 1), (512, 1)), Resource(0, 1), can_pause=True) == paused("a")


def test_memory_is_had_by_killing_under_either_policy() -> None:
    assert MINIMAL.plan(running((512, 1), (512, 1)), Resource(512, 0), can_pause=True) == killed("a")


def test_who_is_not_needed_for_memory_is_paused_and_the_older_is_spared() -> None:
    steps = MINIMAL.plan(running((512, 1), (512, 1)), Resource(512, 2), can_pause=True)
    assert steps == [KillContainer("a"), PauseContainer("b")]


def test_what_cannot_be_paused_is_killed_only_if_it_must_be() -> None:
    mixed = [Reclaimable("a", Resource(512, 1)), Reclaimable("b", Resource(512, 1), Resource(0, 1))]
    assert MINIMAL.plan(mixed, Resource(0, 1), can_pause=True) == paused("b")
    assert MINIMAL.plan(mixed, Resource(0, 2), can_pause=True) == [KillContainer("a"), PauseContainer("b")]


def covers(candidates: tuple[Reclaimable, ...], short: Resource) -> bool:
    return short.fits_in(sum((candidate.by_kill for candidate in candidates), Resource()))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=7),
    st.tuples(st.integers(0, 14), st.integers(0, 8)),
)
@example([(3, 1), (1, 3), (2, 2), (4, 0), (0, 4)], (7, 7))
def test_no_smaller_and_no_newer_set_would_do(
    sizes: list[tuple[int, int]], shortage: tuple[int, int]
) -> None:
    """Against all subsets."""
    candidates, short = running(*sizes), Resource(*shortage)
    chosen = [step.container_id for step in MINIMAL.plan(candidates, short, can_pause=False)]
    expected: tuple[Reclaimable, ...] = ()
    if short != Resource():
        for count in range(1, len(candidates) + 1):
            fitting = [group for group in combinations(candidates, count) if covers(group, short)]
            if fitting:
                expected = fitting[0]
                break
    assert chosen == [candidate.container_id for candidate in expected]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 4)), min_size=1, max_size=30),
    st.tuples(st.integers(0, 20_000), st.integers(0, 40)),
)
def test_the_quick_way_suffices_and_takes_nobody_in_vain(
    sizes: list[tuple[int, int]], shortage: tuple[int, int]
) -> None:
    """Beyond EXACT_EFFORT the set need not be the smallest, but each of its members is needed."""
    short = Resource(*shortage)
    gains = [Resource(min(m, short.memory), min(v, short.vcores)) for m, v in sizes]
    if short == Resource() or not short.fits_in(sum(gains, Resource())):
        return
    chosen = victims._greedy(gains, short)
    assert short.fits_in(sum((gains[index] for index in chosen), Resource()))
    for left_out in chosen:
        rest = sum((gains[index] for index in chosen if index != left_out), Resource())
        assert not short.fits_in(rest)


def test_a_thousand_alike_are_chosen_at_once_and_newest_first() -> None:
    candidates = [Reclaimable(f"c{index}", Resource(100, 1)) for index in range(1000)]
    steps = MINIMAL.plan(candidates, Resource(0, 500), can_pause=False)
    assert steps == [KillContainer(f"c{index}") for index in range(500)]


@pytest.mark.parametrize(
    ("state", "by_kill", "by_pause"),
    [
        (ContainerState.LAUNCHING, (512, 2), 2),
        (ContainerState.RUNNING, (512, 2), 2),
        (ContainerState.RESUMING, (512, 2), 2),
        (ContainerState.PAUSING, (512, 0), 0),
        (ContainerState.PAUSED, (512, 0), 0),
        (ContainerState.KILLING, (0, 0), 0),
    ],
)
def test_what_each_state_can_still_give(
    state: ContainerState, by_kill: tuple[int, int], by_pause: int
) -> None:
    container = Container(a_spec("c", memory=512, vcores=2), sequence=1, state=state)
    container.allocated = Resource(512, 0 if state is ContainerState.PAUSED else 2)
    container.pause = Pause() if state in (ContainerState.PAUSING, ContainerState.PAUSED) else None
    offered = reclaimable(container)
    assert (offered.by_kill, offered.by_pause) == (Resource(*by_kill), Resource(0, by_pause))


def test_whom_a_pause_failed_for_is_not_paused_again() -> None:
    container = Container(a_spec("c"), sequence=1, state=ContainerState.RUNNING, allocated=Resource(512, 1))
    container.unpausable = True
    assert reclaimable(container) == Reclaimable("c", Resource(512, 1))
