"""The driver: order, time, and what happens when a machine has a bug."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from executor.driver import READ_SECONDS, Driver
from executor.runner import MachineRunner, write_crash_report


class Echo:
    """A machine that answers an event with what the test says, and has deadlines."""

    def __init__(self) -> None:
        self.handled: list[tuple[str, float]] = []
        self.advanced: list[float] = []
        self.answers: dict[str, list[str]] = {}
        self.deadline: float | None = None
        self.validated = 0

    def handle(self, event: str, now: float) -> list[str]:
        if event == "bug":
            raise ValueError("impossible")
        self.handled.append((event, now))
        return self.answers.get(event, [])

    def next_deadline(self) -> float | None:
        return self.deadline

    def advance(self, now: float) -> list[str]:
        self.advanced.append(now)
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            return ["due"]
        return []

    def validate(self) -> None:
        self.validated += 1


def test_what_is_posted_while_performing_waits_its_turn() -> None:
    machine, performed = Echo(), []
    machine.answers = {"a": ["post b", "post c", "last of a"], "b": ["of b"]}

    def perform(command: str) -> None:
        performed.append(command)
        if command.startswith("post "):
            driver.post(command.removeprefix("post "))

    driver = Driver(machine, perform, clock=lambda: 5.0, validate=True)
    driver.post("a")
    assert performed == ["post b", "post c", "last of a", "of b"]
    assert machine.handled == [("a", 5.0), ("b", 5.0), ("c", 5.0)]
    assert machine.validated == 3


def test_a_step_is_given_the_time_and_its_commands_are_performed() -> None:
    performed: list[str] = []
    driver = Driver(Echo(), performed.append, clock=lambda: 7.0)
    driver.step(lambda now: [f"at {now}"])
    assert performed == ["at 7.0"]


class Loop:
    """As much of a loop as a driver needs: timers that the test fires."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def call_later(self, delay: float, call: Callable[[], None]) -> Loop:
        self.set.append((delay, call))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def test_one_timer_follows_the_next_deadline() -> None:
    machine, loop, now = Echo(), Loop(), [100.0]
    driver = Driver(machine, lambda command: None, clock=lambda: now[0])
    driver.loop = loop  # type: ignore[assignment]
    driver.post("nothing")
    assert loop.set == []
    machine.deadline = 103.0
    driver.post("a")
    driver.post("b")
    assert [delay for delay, _ in loop.set] == [3.0], "an unchanged deadline sets no second timer"
    machine.deadline = 101.0
    driver.post("c")
    assert [delay for delay, _ in loop.set] == [3.0, 1.0] and loop.cancelled == 1
    machine.deadline = None
    driver.post("d")
    assert loop.cancelled == 2
    machine.deadline = 90.0
    driver.post("late already")
    assert loop.set[-1][0] == 0.0
    driver.close()
    assert loop.cancelled == 3
    driver.post("after the end")
    assert machine.handled[-1][0] == "late already"


def test_a_timer_that_fires_early_is_set_again() -> None:
    machine, loop, now, performed = Echo(), Loop(), [0.0], []
    driver = Driver(machine, performed.append, clock=lambda: now[0])
    driver.loop = loop  # type: ignore[assignment]
    machine.deadline = 2.0
    driver.post("a")
    now[0] = 1.9
    loop.set[-1][1]()
    assert performed == [] and round(loop.set[-1][0], 3) == 0.1
    now[0] = 2.0
    loop.set[-1][1]()
    assert performed == ["due"] and machine.advanced == [1.9, 2.0]


def test_a_process_that_did_not_run_reads_before_it_does_what_is_due() -> None:
    machine, loop, now, performed = Echo(), Loop(), [0.0], []
    driver = Driver(machine, performed.append, clock=lambda: now[0])
    driver.loop = loop  # type: ignore[assignment]
    machine.deadline = 2.0
    driver.post("a")
    now[0] = 60.0
    loop.set[-1][1]()
    assert performed == [] and loop.set[-1][0] == READ_SECONDS
    driver.post("what had arrived")
    now[0] = 63.0  # it did not run again: what is due is not put off for ever
    loop.set[-1][1]()
    assert machine.handled[-1] == ("what had arrived", 60.0) and machine.advanced == [63.0]
    machine.deadline = 70.0
    driver.post("b")
    now[0] = 70.4
    loop.set[-1][1]()
    assert machine.advanced == [63.0, 70.4]


def test_timers_on_a_real_loop() -> None:
    async def scenario() -> None:
        machine, due = Echo(), asyncio.Event()
        driver = Driver(machine, lambda command: due.set())
        machine.deadline = asyncio.get_running_loop().time() + 0.02
        driver.post("a")
        await asyncio.wait_for(due.wait(), 5)
        driver.close()

    asyncio.run(scenario())


def test_a_bug_is_written_down_told_and_not_carried_on(tmp_path: Path) -> None:
    machine = Echo()
    told: list[tuple[BaseException, Path | None]] = []
    driver = Driver(
        machine,
        lambda command: None,
        clock=lambda: 1.5,
        crash_dir=tmp_path / "crashes",
        on_crash=lambda error, path: told.append((error, path)),
    )
    driver.post("before")
    with pytest.raises(ValueError, match="impossible"):
        driver.post("bug")
    ((error, path),) = told
    assert driver.crash is error and path is not None
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("event") for line in lines] == ["'before'", "'bug'", None]
    assert lines[0]["at"] == 1.5
    assert lines[-1]["error"] == "ValueError" and "handle" in lines[-1]["traceback"]
    driver.post("after")
    assert machine.handled == [("before", 1.5)]


def test_a_report_that_cannot_be_written_does_not_hide_the_bug(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert write_crash_report(tmp_path / "file", ValueError("x"), []) is None


def test_a_loop_of_ones_own_asks_when_and_advances() -> None:
    machine, performed, now = Echo(), [], [1.0]
    runner: MachineRunner[str, str] = MachineRunner(machine, performed.append, clock=lambda: now[0])
    machine.deadline = 4.0
    machine.answers = {"a": ["of a"]}
    runner.post("a")
    assert runner.next_deadline() == 4.0
    runner.advance()
    assert performed == ["of a"], "too early"
    now[0] = 4.5
    runner.advance()
    assert performed == ["of a", "due"] and machine.advanced == [1.0, 4.5]
    runner.close()
    runner.post("b")
    assert runner.next_deadline() is None and [event for event, _ in machine.handled] == ["a"]


def test_a_loop_of_ones_own_has_the_story_of_a_crash(tmp_path: Path) -> None:
    runner: MachineRunner[str, str] = MachineRunner(Echo(), lambda _: None, crash_dir=tmp_path)
    runner.post("before")
    with pytest.raises(ValueError, match="impossible"):
        runner.post("bug")
    (report,) = tmp_path.glob("crash-*.jsonl")
    told = [json.loads(line) for line in report.read_text().splitlines()]
    assert [one["event"] for one in told[:2]] == ["'before'", "'bug'"] and told[-1]["error"] == "ValueError"
    assert isinstance(runner.crash, ValueError)
