"""What one attempt of a master writes down of its tasks is what the next one reads."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor.records import ContainerExitStatus, Resource
from yarnopp_cli.jobs.taskrecords import FILE_NAME, TaskRecords
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.resuming import settled
from yarnopp_cli.masters.tasks import Task
from yarnopp_cli.records.jobs import TaskSpec, TaskState
from yarnopp_cli.records.requests import Container, Token

APPLICATION = "application_1_0001"


def tasks(count: int) -> list[Task]:
    return list(Task.all_of(0, plan_run(("true",), TaskSpec(1, Resource(10, 1)), count).phases[0]))


def test_the_last_word_of_each_counts(tmp_path: Path) -> None:
    first, second, third = tasks(3)
    records = TaskRecords(os.fspath(tmp_path), APPLICATION)
    assert records.read() == ()
    for state in (TaskState.WAITING, TaskState.ASKED, TaskState.QUEUED, TaskState.RUNNING):
        first.state = state
        records.note(first)
    assert not (tmp_path / FILE_NAME).exists(), "nothing that the plan does not say"
    first.attempts, first.exit_status, first.state = 1, int(ContainerExitStatus.ABORTED), TaskState.WAITING
    records.note(first)
    first.state, first.exit_code, first.exit_status = TaskState.SUCCEEDED, 0, 0
    second.state, second.exit_code, second.exit_status = TaskState.FAILED, 3, 3
    for task in (first, second, third):
        records.note(task)
    records.close()
    found = {one.number: one for one in TaskRecords(os.fspath(tmp_path), APPLICATION).read()}
    assert {number: one.state for number, one in found.items()} == {
        first.number: TaskState.SUCCEEDED,
        second.number: TaskState.FAILED,
    }
    assert (found[first.number].attempts, found[second.number].exit_code) == (1, 3)
    assert TaskRecords(os.fspath(tmp_path), "application_1_0002").read() == (), "another's"


def test_what_had_a_container_when_its_attempt_ended_waits_and_says_which(tmp_path: Path) -> None:
    first, second = tasks(2)
    records = TaskRecords(os.fspath(tmp_path), APPLICATION)
    for task, container_id in ((first, "container_1_0001_01_000002"), (second, "container_1_0001_01_000003")):
        task.container = Container(container_id, "h1:1", "", Resource(10, 1), Token("", "", ""))
        task.state = TaskState.STARTING
        records.note(task)
    records.close()
    past = TaskRecords(os.fspath(tmp_path), APPLICATION).read()
    assert {one.state for one in past} == {TaskState.WAITING}
    found = {one.number: one for one in settled(past, ["container_1_0001_01_000003"])}
    assert (found[first.number].state, found[first.number].container_id) == (TaskState.WAITING, "")
    ended = found[second.number]
    assert (ended.state, ended.exit_code, ended.exit_status) == (TaskState.SUCCEEDED, 0, 0)


def test_a_task_has_ended_well_if_any_of_its_containers_has(tmp_path: Path) -> None:
    (task,) = tasks(1)
    records = TaskRecords(os.fspath(tmp_path), APPLICATION)
    for attempt in (1, 2):
        container_id = f"container_1_0001_{attempt:02d}_000002"
        task.container = Container(container_id, "h1:1", "", Resource(10, 1), Token("", "", ""))
        task.state = TaskState.STARTING
        records.note(task)
    past = TaskRecords(os.fspath(tmp_path), APPLICATION).read()
    assert [one.state for one in settled(past, [])] == [TaskState.WAITING]
    (ended,) = settled(past, ["container_1_0001_01_000002"])
    assert (ended.state, ended.container_id) == (TaskState.SUCCEEDED, "container_1_0001_01_000002")
    task.state, task.exit_code, task.exit_status = TaskState.FAILED, 3, 3
    records.note(task)
    records.close()
    past = TaskRecords(os.fspath(tmp_path), APPLICATION).read()
    assert [one.state for one in settled(past, [])] == [TaskState.FAILED]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 2000), garbage=st.binary(max_size=60))
def test_a_file_that_was_cut_or_garbled_costs_only_what_was_there(
    tmp_path: Path, cut: int, garbage: bytes
) -> None:
    path = tmp_path / FILE_NAME
    path.unlink(missing_ok=True)
    records = TaskRecords(os.fspath(tmp_path), APPLICATION)
    first, second = tasks(2)
    first.state, first.exit_code, first.exit_status = TaskState.SUCCEEDED, 0, 0
    records.note(first)
    path.write_bytes(path.read_bytes()[:cut] + garbage)
    second.state, second.exit_code, second.exit_status = TaskState.FAILED, 3, 3
    records.note(second)
    records.close()
    assert second.number in {one.number for one in TaskRecords(os.fspath(tmp_path), APPLICATION).read()}
