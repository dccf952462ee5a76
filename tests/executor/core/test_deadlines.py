"""When something is due: in order, as last set, and without a memory of what was moved or cleared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from executor.core.machine import SWEEP_ABOVE, Deadlines, beat

KEYS = st.sampled_from("abcdef")


@given(st.lists(st.tuples(KEYS, st.none() | st.integers(0, 20)), max_size=300))
def test_deadlines_are_served_in_order_of_time_and_as_last_set(steps: list[tuple[str, int | None]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    model: dict[str, int] = {}
    for key, time in steps:
        if time is None:
            deadlines.clear(key)
            model.pop(key, None)
        else:
            deadlines.set(key, time)
            model[key] = time
        assert deadlines.next() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
    served = []
    while (key_due := deadlines.pop_due(20)) is not None:
        served.append(model.pop(key_due))
    assert served == sorted(served) and not model


def test_a_deadline_that_is_moved_all_the_time_costs_no_memory() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for time in range(10_000):
        deadlines.set("a", time)
        deadlines.ensure("b", 5)
    assert len(deadlines._heap) < 200
    assert deadlines.pop_due(4) is None and deadlines.pop_due(5) == "b"


def test_deadlines_that_are_cleared_do_not_pile_up() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for number in range(20 * SWEEP_ABOVE):
        deadlines.set(number, 10**6 - number)
        deadlines.clear(number)
        assert len(deadlines._heap) <= SWEEP_ABOVE + 2
    assert deadlines.next() is None


def test_regular_tasks_meet_at_multiples_of_their_period() -> None:
    assert beat(7.002, 1.0) == 8.0
    assert beat(7.0, 1.0) == 8.0
    assert beat(7.002, 5.0) == 10.0
    assert beat(7.6, 1.0) == 8.1, "no sooner than after half a period"
    assert beat(8.1, 1.0) == 9.0
    assert beat(1.0, 0.0) == 1.0
