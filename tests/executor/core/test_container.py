"""The table of transitions: each pair in it, and that every other is refused; clocks, story, record."""

from __future__ import annotations

from itertools import product

import pytest

from executor.core import commands, events
from executor.core.container import TRANSITIONS, Container
from executor.core.transitions import STORY_LENGTH
from executor.errors import InvalidTransitionError
from executor.light import replace
from executor.records import ContainerState, ExecutionType, Resource

from .world import a_spec

TRIGGERS = (
    commands.LaunchContainer,
    commands.PauseContainer,
    commands.ResumeContainer,
    commands.KillContainer,
    events.ContainerLaunched,
    events.ContainerLaunchFailed,
    events.ContainerPaused,
    events.ContainerPauseFailed,
    events.ContainerResumed,
    events.ContainerExited,
)
DESIGNED = {
    "SCHEDULED": {"LaunchContainer": "LAUNCHING", "KillContainer": "DONE"},
    "LAUNCHING": {
        "ContainerLaunched": "RUNNING",
        "ContainerLaunchFailed": "DONE",
        "KillContainer": "KILLING",
    },
    "RUNNING": {"PauseContainer": "PAUSING", "KillContainer": "KILLING", "ContainerExited": "DONE"},
    "PAUSING": {
        "ContainerPaused": "PAUSED",
        "ContainerPauseFailed": "RUNNING",
        "KillContainer": "KILLING",
        "ContainerExited": "DONE",
    },
    "PAUSED": {"ResumeContainer": "RESUMING", "KillContainer": "KILLING", "ContainerExited": "DONE"},
    "RESUMING": {"ContainerResumed": "RUNNING", "KillContainer": "KILLING", "ContainerExited": "DONE"},
    "KILLING": {
        "ContainerExited": "DONE",
        "ContainerLaunchFailed": "DONE",
        "ContainerLaunched": "KILLING",
        "ContainerPaused": "KILLING",
        "ContainerPauseFailed": "KILLING",
        "ContainerResumed": "KILLING",
    },
    "DONE": {},
}


def in_state(state: ContainerState) -> Container:
    return Container(a_spec("c"), sequence=1, state=state)


def test_the_table_has_a_row_for_every_state_and_no_unknown_trigger() -> None:
    assert set(TRANSITIONS) == set(ContainerState)
    assert {trigger for row in TRANSITIONS.values() for trigger in row} == set(TRIGGERS)


@pytest.mark.parametrize(("state", "trigger"), list(product(ContainerState, TRIGGERS)))
def test_each_designed_pair_moves_and_every_other_is_refused(state: ContainerState, trigger: type) -> None:
    container = in_state(state)
    expected = DESIGNED[state.value].get(trigger.__name__)
    if expected is None:
        with pytest.raises(InvalidTransitionError) as refusal:
            container.move(trigger, 1.0, 1000)
        assert (refusal.value.container_id, refusal.value.state) == ("c", state.value)
        assert container.state is state
    else:
        container.move(trigger, 1.0, 1000)
        assert container.state.value == expected


def test_done_can_be_reached_from_everywhere_and_left_to_nowhere() -> None:
    reaching = {ContainerState.DONE}
    while more := {s for s, row in TRANSITIONS.items() if set(row.values()) & reaching} - reaching:
        reaching |= more
    assert reaching == set(ContainerState)
    assert not TRANSITIONS[ContainerState.DONE]


def test_a_refusal_tells_the_story_of_the_container() -> None:
    container = in_state(ContainerState.SCHEDULED)
    container.move(commands.LaunchContainer, 1.5, 0)
    container.move(events.ContainerLaunched, 2.25, 0)
    with pytest.raises(InvalidTransitionError) as refusal:
        container.move(events.ContainerLaunched, 3.0, 0)
    told = str(refusal.value)
    assert "c is RUNNING, which cannot take ContainerLaunched" in told
    assert "1.500 SCHEDULED --LaunchContainer--> LAUNCHING" in told
    assert "2.250 LAUNCHING --ContainerLaunched--> RUNNING" in told


def test_the_story_is_bounded() -> None:
    container = in_state(ContainerState.RUNNING)
    for cycle in range(STORY_LENGTH):
        for trigger in (
            commands.PauseContainer,
            events.ContainerPaused,
            commands.ResumeContainer,
            events.ContainerResumed,
        ):
            container.move(trigger, float(cycle), 0)
    assert len(container.story) == STORY_LENGTH


def test_paused_time_is_not_running_time() -> None:
    container = in_state(ContainerState.LAUNCHING)
    steps = (
        (events.ContainerLaunched, 10.0),
        (commands.PauseContainer, 13.0),
        (events.ContainerPaused, 14.0),
        (commands.ResumeContainer, 100.0),
        (events.ContainerResumed, 101.0),
    )
    for trigger, now in steps:
        container.move(trigger, now, round(now * 1000))
    assert container.ran_seconds(103.0) == pytest.approx(4.0 + 2.0)
    container.move(events.ContainerExited, 104.0, 104_000)
    assert container.ran_seconds(500.0) == pytest.approx(7.0)


def test_needs_follow_what_is_allocated() -> None:
    container = Container(a_spec("c", memory=512, vcores=2), sequence=1)
    assert container.needed == Resource(512, 2)
    container.allocated = Resource(512, 0)
    assert container.needed == Resource(0, 2)


def test_diagnostics_keep_their_end() -> None:
    container = in_state(ContainerState.RUNNING)
    container.say("first", 100)
    container.say("", 100)
    container.say("second", 100)
    assert container.diagnostics == "first\nsecond"
    container.say("x" * 95, 100)
    assert len(container.diagnostics) == 100
    assert container.diagnostics == "cond\n" + "x" * 95


def test_a_status_has_the_beginning_of_a_very_long_command() -> None:
    for command, shown in (
        (("echo", "x" * 4092), ("echo", "x" * 4092)),
        (("echo", "x" * 4093, "y"), ("echo", "x" * 4092 + "…")),
    ):
        assert Container(replace(a_spec("c"), command=command), sequence=1).status().command == shown


def test_a_change_of_type_is_in_the_record() -> None:
    container = in_state(ContainerState.RUNNING)
    container.change(version=3, execution_type=ExecutionType.GUARANTEED, resource=Resource(1, 2))
    spec = container.record().spec
    assert (spec.version, spec.execution_type, spec.resource) == (
        3,
        ExecutionType.GUARANTEED,
        Resource(1, 2),
    )
