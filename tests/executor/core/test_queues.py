"""Order, bounded overtaking, paused ones, and that none of it depends on the length of the queue."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from executor.core.applications import Applications
from executor.core.container import Container
from executor.core.queues import ContainerQueue, OpportunisticQueue, QueueOrder
from executor.core.tracker import Room
from executor.records import ContainerState, Resource

from .world import a_spec


def waiting(sequence: int, memory: int = 100, vcores: int = 1) -> Container:
    return Container(a_spec(f"c{sequence}", memory=memory, vcores=vcores), sequence)


def paused(sequence: int, memory: int = 100, vcores: int = 1) -> Container:
    container = waiting(sequence, memory, vcores)
    container.state = ContainerState.PAUSED
    container.allocated = Resource(memory, 0)
    return container


def fitting(queue: OpportunisticQueue, spare: Resource) -> Container | None:
    found = queue.next_fitting(Room(spare), now_ms=0)
    return found if isinstance(found, Container) else None


def start(queue: OpportunisticQueue, container: Container) -> None:
    queue.remove(container)
    queue.started(container)
    queue.validate()


def test_first_in_first_out_with_its_sum() -> None:
    queue = ContainerQueue()
    for sequence in (1, 2, 3):
        queue.add(waiting(sequence, memory=sequence * 100))
    assert [container.sequence for container in queue] == [1, 2, 3]
    assert queue.needed == Resource(600, 3)
    second = next(container for container in queue if container.sequence == 2)
    queue.remove(second)
    assert (len(queue), second in queue) == (2, False)
    assert queue.needed == Resource(400, 2)
    queue.validate()


def test_one_that_comes_back_finds_its_place() -> None:
    queue = ContainerQueue()
    for sequence in (5, 2, 9, 1):
        queue.add(waiting(sequence))
    assert [container.sequence for container in queue] == [1, 2, 5, 9]
    queue.validate()


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_arrivals_in_any_order_stand_in_theirs(order: list[int], leave: set[int]) -> None:
    queue = ContainerQueue()
    here: dict[int, Container] = {}
    for sequence in order:
        here[sequence] = waiting(sequence)
        queue.add(here[sequence])
        if sequence in leave:
            queue.remove(here.pop(sequence))
        assert [container.sequence for container in queue] == sorted(here)
    queue.validate()


def test_a_large_one_is_overtaken_so_often_and_no_more() -> None:
    queue = OpportunisticQueue(max_overtakes=2, order=QueueOrder(Applications()))
    large, small = waiting(1, vcores=4), [waiting(sequence) for sequence in (2, 3, 4)]
    for container in (large, *small):
        queue.add(container)
    for expected in small[:2]:
        assert fitting(queue, Resource(1000, 1)) is expected
        start(queue, expected)
    assert queue.overtaken(large) == 2
    assert fitting(queue, Resource(1000, 1)) is None
    assert fitting(queue, Resource(1000, 4)) is large
    start(queue, large)
    assert fitting(queue, Resource(1000, 1)) is small[2]


def test_a_bound_of_zero_is_yarns_strict_order() -> None:
    queue = OpportunisticQueue(max_overtakes=0, order=QueueOrder(Applications()))
    queue.add(waiting(1, vcores=4))
    queue.add(waiting(2))
    assert fitting(queue, Resource(1000, 1)) is None


def test_a_paused_one_goes_first_by_arrival_and_takes_no_place() -> None:
    queue = OpportunisticQueue(max_overtakes=100, order=QueueOrder(Applications()))
    early, late = paused(1), waiting(2)
    queue.add(late)
    queue.add(early)
    assert len(queue) == 1
    assert queue.paused == [early]
    assert queue.in_order(0) == [early, late]
    # it needs its vcores alone, for it has kept its memory
    assert fitting(queue, Resource(0, 1)) is early
    start(queue, early)
    assert fitting(queue, Resource(0, 1)) is None
    assert fitting(queue, Resource(100, 1)) is late


def test_a_later_pause_does_not_count_what_had_started_before() -> None:
    queue = OpportunisticQueue(max_overtakes=1, order=QueueOrder(Applications()))
    blocked, others = waiting(1, vcores=9), [waiting(sequence) for sequence in (3, 4)]
    queue.add(blocked)
    queue.add(others[0])
    start(queue, others[0])
    victim = paused(2, vcores=2)
    queue.add(victim)
    assert (queue.overtaken(blocked), queue.overtaken(victim)) == (1, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "start", "drop"]), st.integers(1, 4), st.integers(1, 4)),
        max_size=40,
    ),
    st.integers(0, 3),
)
def test_it_behaves_as_a_queue_that_counts_each_overtaking(
    steps: list[tuple[str, int, int]], bound: int
) -> None:
    """Against a plain list in which each start counts up all that it passes."""
    queue, model, counts = OpportunisticQueue(bound, order=QueueOrder(Applications())), [], {}
    for number, (step, vcores, memory) in enumerate(steps):
        if step == "add":
            container = waiting(number, memory=memory, vcores=vcores)
            queue.add(container)
            model.append(container)
            counts[container] = 0
        elif step == "drop" and model:
            queue.remove(model.pop(vcores % len(model)))
        elif step == "start":
            spare = Resource(memory, vcores)
            expected = None
            for container in model:
                if container.needed.fits_in(spare):
                    expected = container
                    break
                if counts[container] >= bound:
                    break
            assert fitting(queue, spare) is expected
            if expected is not None:
                for earlier in model[: model.index(expected)]:
                    counts[earlier] += 1
                model.remove(expected)
                start(queue, expected)
        queue.validate()
        assert list(queue) == model
        assert [queue.overtaken(container) for container in model] == [counts[c] for c in model]
