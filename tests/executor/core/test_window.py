"""Windows of time for opportunistic containers: what is written, when they open and close, and what runs then."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from executor.causes import Cause, CauseKind
from executor.core.commands import KillContainer
from executor.core.events import (
    ContainerLaunched,
    ContainerPauseFailed,
    ContainerPauseRequested,
    ContainerResumeRequested,
    OpportunisticWindowChanged,
)
from executor.windows import next_change, parse

from .world import G, O, World

MONDAY = datetime(2026, 11, 23)
UNTIL = 1_700_050_000_000
CLOSED = Cause(CauseKind.OUTSIDE_WINDOW, until_ms=UNTIL)


def at(text: str, clock: str, day: int = 0) -> tuple[bool, str]:
    """Whether a window is open then, and when that changes: ``Tue 07:00``."""
    hours, minutes = map(int, clock.split(":"))
    is_open, change = next_change(
        parse(text), MONDAY + timedelta(days=day, hours=hours, minutes=minutes, seconds=30)
    )
    return is_open, f"{change:%a %H:%M}" if change is not None else ""


@pytest.mark.parametrize(
    ("text", "clock", "day", "expected"),
    [
        ("", "12:00", 0, (True, "")),
        ("19:00-07:00", "18:59", 0, (False, "Mon 19:00")),
        ("19:00-07:00", "19:00", 0, (True, "Tue 07:00")),
        ("19:00-07:00", "06:59", 0, (True, "Mon 07:00")),
        ("19:00-07:00", "07:00", 0, (False, "Mon 19:00")),
        ("08:00-12:00,13:00-17:00", "12:30", 2, (False, "Wed 13:00")),
        ("08:00-12:00, 12:00-17:00", "09:00", 2, (True, "Wed 17:00")),
        ("Mon-Fri 19:00-07:00, Sat-Sun 00:00-24:00", "19:00", 4, (True, "Mon 00:00")),
        ("Mon-Fri 19:00-07:00, Sat-Sun 00:00-24:00", "12:00", 4, (False, "Fri 19:00")),
        ("fri-mon 22:00-02:00", "12:00", 1, (False, "Fri 22:00")),
        ("Sun 23:00-01:00", "00:30", 0, (True, "Mon 01:00")),
        ("Mon 12:00-13:00", "13:00", 0, (False, "Mon 12:00")),
        ("00:00-24:00", "12:00", 0, (True, "")),
    ],
)
def test_when_a_window_is_open(text: str, clock: str, day: int, expected: tuple[bool, str]) -> None:
    assert at(text, clock, day) == expected


@pytest.mark.parametrize(
    "text", ["always", "19-07", "19:00", "7:0-8:00", "25:00-26:00", "12:60-13:00", "24:00-07:00", "08:00-08:00",
             "Mo 08:00-09:00", "Mon Tue 08:00-09:00", "Mon-", "19:00-07:00;"],
)  # fmt: skip
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is empty"):
        parse(text)


def close(world: World) -> None:
    world.tell(OpportunisticWindowChanged(UNTIL))


def open_up(world: World) -> None:
    world.tell(OpportunisticWindowChanged(0))


def test_what_runs_is_paused_and_goes_on_and_nothing_starts_meanwhile() -> None:
    world = World(vcores=4)
    world.schedule("o1", O)
    world.schedule("g1", G)
    close(world)
    world.schedule("o2", O)
    world.schedule("g2", G)
    assert world.states("o1", "g1", "o2", "g2") == ["PAUSED", "RUNNING", "SCHEDULED", "RUNNING"]
    status = world.status("o1")
    assert (status.cause, status.stood_for) == (CLOSED, "WINDOW")
    assert "do not run at this time of day" in status.diagnostics
    told = world.machine.opportunistic_status()
    assert (told.closed_until_ms, told.paused, told.lent_vcores) == (UNTIL, 1, -2)
    open_up(world)
    assert world.states("o1", "o2") == ["RUNNING", "RUNNING"]
    assert world.machine.opportunistic_status().closed_until_ms == 0


def test_a_demoted_one_stands_and_a_promoted_one_goes_on() -> None:
    world = World(vcores=4)
    close(world)
    world.schedule("g", G)
    world.update("g", O)
    assert world.state("g").value == "PAUSED"
    world.update("g", G)
    assert world.state("g").value == "RUNNING"


def test_a_person_s_pause_outlasts_the_window_and_the_window_a_person_s_resume() -> None:
    world = World(vcores=4)
    world.schedule("o", O)
    close(world)
    world.tell(ContainerPauseRequested("o", by="ann"))
    open_up(world)
    assert world.state("o").value == "PAUSED" and world.status("o").cause == Cause(CauseKind.PERSON, by="ann")
    close(world)
    world.tell(ContainerResumeRequested("o", by="ann"))
    assert world.state("o").value == "PAUSED"
    open_up(world)
    assert world.state("o").value == "RUNNING"


def test_one_that_cannot_be_paused_is_left_and_not_killed() -> None:
    world = World(vcores=4, answers=False)
    world.schedule("o", O)
    world.tell(ContainerLaunched("o", 1, 1))
    close(world)
    world.tell(ContainerPauseFailed("o", "it would not stop"))
    world.tell(OpportunisticWindowChanged(UNTIL))
    assert world.state("o").value == "RUNNING" and not world.given(KillContainer)
