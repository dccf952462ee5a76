"""The small parts under the ResourceManager: deadlines, mailboxes, asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from executor.records import Resource
from yarnopp_cli.allocation.asks import AskTable, levels, normalise
from yarnopp_cli.machine.mailbox import Mailbox
from yarnopp_cli.resourcemanager.metrics import OpportunisticSchedulerMetrics

from .rm_harness import SETTINGS, asks

KEYS = st.sampled_from("abcdef")


def test_a_mailbox_repeats_until_acknowledged() -> None:
    box: Mailbox[int] = Mailbox()
    box.put("a", 1)
    assert box.take(1) == (1,) and box.fresh == 0
    box.put("b", 2)
    assert box.fresh == 1 and box.take(2) == (1, 2)
    box.acknowledge(1)
    assert box.take(3) == (2,)
    box.send_again()
    assert box.fresh == 1
    box.acknowledge(2)
    assert len(box) == 0 and box.fresh == 0
    box.validate()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), KEYS),
            st.tuples(st.just("drop"), KEYS),
            st.tuples(st.just("take"), st.just("")),
            st.tuples(st.just("lose"), st.just("")),
            st.tuples(st.just("receive"), st.just("")),
        ),
        max_size=60,
    )
)
def test_nothing_put_into_a_mailbox_is_lost_whatever_answers_are(steps: list[tuple[str, str]]) -> None:
    box: Mailbox[tuple[str, int]] = Mailbox()
    answers: dict[int, tuple[tuple[str, int], ...]] = {}
    received: set[tuple[str, int]] = set()
    current: dict[str, tuple[str, int]] = {}
    number = last = version = 0
    for step, key in steps:
        if step == "put":
            version += 1
            current[key] = (key, version)
            box.put(key, current[key])
        elif step == "drop":
            current.pop(key, None)
            box.drop(key)
        elif step == "take":
            number += 1
            answers[number] = box.take(number)
        elif step == "lose":
            answers.clear()
            box.send_again()
        elif answers:
            last, items = max(answers.items())
            received.update(items)
            box.acknowledge(last)
        box.validate()
    received.update(box.take(number + 1))
    assert set(current.values()) <= received


def test_asks_of_one_shape_stand_together_and_the_important_first() -> None:
    table = AskTable()
    for number, priority in enumerate((20, 5, 20, 5)):
        table.put(asks(2, priority=priority, allocation_request_id=number), Resource(100, 1))
    groups = table.groups()
    assert [[ask.key[1] for ask in group.values()] for group in groups] == [[1, 3], [0, 2]]
    assert table.outstanding == 8
    first = next(iter(groups[0].values()))
    table.take(first, "*")
    table.take(first, "*")
    assert [ask.key[1] for ask in table.groups()[0].values()] == [3]
    table.put(asks(0, priority=20, allocation_request_id=0), Resource(100, 1))
    assert table.outstanding == 4 and len(table) == 2


def test_places_are_tried_from_near_to_far() -> None:
    table = AskTable()
    for name in ("/r1", "h1", "*"):
        table.put(asks(2, resource_name=name), Resource(100, 1))
    [ask] = table
    assert levels(ask) == [("h1",), ("/r1",), ("*",)] and ask.outstanding == 2
    table.take(ask, "h1")
    assert ask.locations == {"/r1": 2, "h1": 1}
    table.take(ask, "h1")
    assert len(table) == 0


def test_places_alone_are_an_ask_of_their_own() -> None:
    table = AskTable()
    for name, number in (("h1", 2), ("h2", 1), ("/r1", 3)):
        table.put(asks(number, resource_name=name, relax_locality=False), Resource(100, 1))
    [ask] = table
    assert ask.outstanding == 3 and not ask.relax


@given(st.integers(0, 5000), st.integers(0, 20))
def test_a_normalised_size_holds_what_was_asked_for(memory: int, vcores: int) -> None:
    asked = Resource(memory, vcores)
    given_size = normalise(asked, SETTINGS)
    assert asked.fits_in(given_size)
    assert normalise(given_size, SETTINGS) == given_size


class _Place:
    def names(self, location: str) -> bool:
        return location in ("host1", "/rack1")


def test_opportunistic_metrics_tell_localities_and_waits() -> None:
    metrics = OpportunisticSchedulerMetrics()
    metrics.asked("a", "k", 10.0)
    metrics.granted("a", "k", {"host1": 1, "/rack1": 1}, _Place(), 3, 10.5)
    metrics.granted("a", "k", {"/rack1": 1, "host2": 1}, _Place(), 2, 11.0)
    metrics.granted("a", "k", {}, _Place(), 1, 12.0)
    assert (metrics.node_local, metrics.rack_local, metrics.off_switch) == (1, 1, 1)
    told = metrics.figures(Resource(), 0)
    assert (told.allocated, told.waits, told.percentiles()[50], told.percentiles()[99]) == (3, 3, 1000, 2000)
    metrics.ended()
    assert metrics.figures(Resource(), 0).live == 2
    metrics.granted("a", "k", {}, _Place(), 1, 13.0)
    assert metrics.waits == 3, "the ask was served before: nothing is known of this one"
