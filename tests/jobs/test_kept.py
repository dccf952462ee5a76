"""What is kept of the tasks of a job: the log in GNU parallel's columns, going on by it, output in files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from executor.records import ContainerExitStatus, ContainerState, ExecutionType, Resource
from yarnopp_cli.cli.jobs.joblog import (
    HEADER,
    JobLog,
    JobLogLine,
    command_of,
    containers_in,
    lines_of,
    still_to_run,
    write_afterwards,
)
from yarnopp_cli.cli.jobs.kept import Outputs
from yarnopp_cli.cli.jobs.outputs import into_files
from yarnopp_cli.errors import UsageError
from yarnopp_cli.masters.commands import Tasks, plan_run
from yarnopp_cli.masters.sweeps import launch_of
from yarnopp_cli.records.history import ApplicationHistory, EventKind, HistoryEvent
from yarnopp_cli.records.jobs import Sweep, TaskReport, TaskSpec, TaskState
from yarnopp_cli.records.reports import (
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    YarnApplicationState,
)

GUARANTEED = ExecutionType.GUARANTEED


def swept(*values: str, command: tuple[str, ...] = ("echo",), shell: bool = False) -> Tasks:
    return Tasks(command, (range(1, len(values) + 1),), Sweep((values,), shell=shell))


def plain(number: int = 3) -> Tasks:
    return Tasks(("echo", "a b"), (range(1, number + 1),))


def ended(number: int, code: int = 0, container_id: str = "container_1", **times: int) -> TaskReport:
    state = TaskState.FAILED if code else TaskState.SUCCEEDED
    return TaskReport(0, number, state, GUARANTEED, container_id, "h1:1", code, **times)


def test_each_end_is_a_line_of_parallels(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / "container_1").mkdir()
    (tmp_path / "container_1" / "stdout").write_text("seven..")
    log = JobLog(str(path), swept("a", "b\tc\nd"), more=False)
    log.ended(ended(2, 137, started_at_ms=1_700_000_000_123, finished_at_ms=1_700_000_001_000), str(tmp_path))
    log.ended(ended(1, container_id="", started_at_ms=5, finished_at_ms=4), str(tmp_path))
    log.ended(ended(1), str(tmp_path))  # told a second time, by another life of the RM
    log.close()
    assert path.read_text() == (
        HEADER + "2\th1:1\t1700000000.123\t     0.877\t0\t7\t137\t9\techo 'b\\tc\\nd'\n"
        "1\th1:1\t0.005\t     0.000\t0\t0\t0\t0\techo a\n"
    )
    assert lines_of(str(path)) == {2: JobLogLine(137, 9, "echo 'b\\tc\\nd'"), 1: JobLogLine(0, 0, "echo a")}


def test_afterwards_the_last_end_of_each_task_is_a_line_whatever_order_its_containers_are_listed_in(
    tmp_path: Path,
) -> None:
    def container(task: int, status: int, finished_at_ms: int, code: int | None = None) -> ContainerReport:
        code = status if status >= 0 else code
        return ContainerReport(
            f"container_{task}_{finished_at_ms}",
            "application_1_0001",
            "h1:1",
            GUARANTEED,
            Resource(10, 1),
            ContainerState.DONE,
            task=task,
            exit_code=code,
            exit_status=status,
            finished_at_ms=finished_at_ms,
        )

    path, job = tmp_path / "log", plan_run(("true",), TaskSpec(1, Resource(10, 1)), 6)
    lost, killed = int(ContainerExitStatus.ABORTED), int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER)
    ran = [
        container(1, 0, 5),
        container(1, lost, 2),
        container(2, 0, 9),
        container(2, 3, 4),
        container(3, lost, 6),
        container(5, killed, 7, 0),
        container(6, killed, 8, 143),
    ]
    assert write_afterwards(str(path), job, [1, 2, 4, 5], ran) == 1, "of task 4 nothing is known any more"
    assert {number: line.exit_code for number, line in lines_of(str(path)).items()} == {1: 0, 2: 0, 5: 0}


def test_the_ends_of_containers_that_are_no_longer_known_are_in_the_kept_events() -> None:
    report = ApplicationReport(
        "application_1_0001", "", "", "default", "YARN", YarnApplicationState.FINISHED,
        FinalApplicationStatus.SUCCEEDED, log_directory="/logs",
    )  # fmt: skip

    def event(attempt: int, number: int, kind: EventKind, **numbers: int) -> HistoryEvent:
        name = f"container_1_0001_{attempt:02d}_{number:06d}"
        return HistoryEvent(1, 9, kind, "h1:1", report.application_id, name, numbers=numbers)

    events = (
        event(1, 1, EventKind.CONTAINER_COMPLETED, exitStatus=3, exitCode=3, at=900, ranMs=200, pausedMs=50),
        event(1, 2, EventKind.CONTAINER_STARTED, at=5),
        event(2, 2, EventKind.CONTAINER_ABORTED, exitStatus=-100, at=950),
        event(2, 1 << 39, EventKind.CONTAINER_COMPLETED, exitStatus=0, at=950),
        event(
            3, 1, EventKind.CONTAINER_COMPLETED, exitStatus=0, at=960
        ),  # no tasks of this attempt were kept
    )
    found = containers_in(ApplicationHistory(report, (), events, tasks=(7,), later_tasks=((-1, 8),)))
    assert [(one.task, one.exit_status, one.exit_code) for one in found] == [
        (7, 3, 3),
        (8, -100, None),
        (None, 0, None),
        (None, 0, None),
    ]
    first = found[0]
    assert (first.started_at_ms, first.finished_at_ms, first.node_id) == (650, 900, "h1:1")
    assert first.log_directory == "/logs/container_1_0001_01_000001"


def test_commands_are_told_as_they_were_typed() -> None:
    assert command_of(plain(), 1) == "echo 'a b'"
    assert command_of(swept("a b", command=("wc {} | cat",), shell=True), 1) == "wc 'a b' | cat"
    assert command_of(swept("true x", command=()), 1) == "true x"


def test_going_on_leaves_out_what_has_ended_or_ended_well(tmp_path: Path) -> None:
    path, tasks = str(tmp_path / "log"), swept(*"abcdef")
    log = JobLog(path, tasks, more=False)
    for number, code in ((1, 0), (4, 2), (5, 0)):
        log.ended(ended(number, code), "")
    log.close()
    assert still_to_run(tasks, path, failed=False).numbers == (range(2, 4), range(6, 7))
    assert still_to_run(tasks, path, failed=True).numbers == (range(2, 5), range(6, 7))
    with open(path, "a") as file:
        file.write("6\th1:1\t0.0")  # its writer was killed
    more = JobLog(path, tasks, more=True)
    more.ended(ended(4), "")
    more.close()
    assert Path(path).read_text().count("\n") == 5 and Path(path).read_text().endswith("\techo d\n")
    assert still_to_run(tasks, path, failed=True).numbers == (range(2, 4), range(6, 7)), (
        "the last line counts"
    )
    JobLog(path, tasks, more=False).close()
    assert Path(path).read_text() == HEADER, "another job begins anew"
    assert still_to_run(tasks, str(tmp_path / "none"), failed=False) == tasks


def test_a_log_of_other_commands_and_what_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = JobLog(str(path), swept("a"), more=False)
    log.ended(ended(1), "")
    log.close()
    with pytest.raises(UsageError, match="of other commands"):
        still_to_run(swept("b"), str(path), failed=False)
    for text in ("something\n", HEADER + "x\n", HEADER + "1\th\t0\t0\t0\t0\tno\t0\techo a\n"):
        path.write_text(text)
        with pytest.raises(UsageError, match="is not a job log"):
            lines_of(str(path))
    for place in (tmp_path, tmp_path / "none" / "log"):
        with pytest.raises(UsageError, match="cannot be written"):
            JobLog(str(place), plain(), more=False)


def test_what_cannot_be_asked_for_together() -> None:
    Outputs(joblog="log", resume=True).check(detach=False, piped=False)
    for kept, detach, piped in (
        (Outputs(resume=True), False, False),
        (Outputs(joblog="log"), True, False),
        (Outputs(joblog="log", resume_failed=True), False, True),
    ):
        with pytest.raises(UsageError):
            kept.check(detach=detach, piped=piped)


def run(tasks: Tasks, number: int, directory: Path) -> int:
    """Run what the container of a task would, as its node does it."""
    words, variables = tasks.command, {}
    if tasks.sweep is not None:
        words, variables = launch_of(tasks.command, tasks.sweep, number)
    known = {"PATH": "/usr/bin:/bin", "CONTAINER_ID": "container_e17_1700000000000_0007_01_000002"}
    env = {**known, "YOPP_TASK": str(number), **variables}
    return subprocess.run(words, env=env, cwd=directory, check=False, stdin=subprocess.DEVNULL).returncode


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("out", {"out/2/stdout": "b c\n", "out/2/stderr": "bad\n"}),
        ("out/", {"out/2/stdout": "b c\n", "out/2/stderr": "bad\n"}),
        ("x-{task}", {"x-2": "b c\n", "x-2.err": "bad\n"}),
        ("{#}.{1}", {"2.b c": "b c\n", "2.b c.err": "bad\n"}),
        (
            "o/{job}/$HOME '{task}'-{1}-{task}",
            {
                "o/application_1700000000000_0007/$HOME '2'-b c-2": "b c\n",
                "o/application_1700000000000_0007/$HOME '2'-b c-2.err": "bad\n",
            },
        ),
    ],
)
def test_output_goes_into_files(tmp_path: Path, pattern: str, files: dict[str, str]) -> None:
    script = 'echo "$0"; echo bad >&2; exit 3'
    tasks = into_files(swept("a", "b c", command=("sh", "-c", script)), pattern, str(tmp_path))
    assert tasks.command == ("sh", "-c", script), (
        "the program is still looked for, and the job named after it"
    )
    assert run(tasks, 2, tmp_path) == 3
    shown = tasks.results.replace("{job}", "application_1700000000000_0007").replace("{1}", "b c")
    shown = shown.replace("{task}", "2").replace("{#}", "2")
    assert shown == str(tmp_path / next(one for one in files if not one.endswith((".err", "stderr"))))
    found = {str(one.relative_to(tmp_path)): one.read_text() for one in tmp_path.rglob("*") if one.is_file()}
    assert found == files


def test_output_of_equal_tasks_and_of_lines_goes_into_files(tmp_path: Path) -> None:
    tasks = into_files(plain(), "{task}", str(tmp_path))
    assert tasks.name == "echo" and run(tasks, 3, tmp_path) == 0
    lines = into_files(swept("true", "echo 'x  y'", command=()), "{task}", str(tmp_path))
    assert run(lines, 2, tmp_path) == 0
    shell = into_files(swept("a b", command=("echo {} | tr a-b x-y",), shell=True), "{task}", str(tmp_path))
    assert run(shell, 1, tmp_path) == 0
    assert [(tmp_path / name).read_text() for name in "321"] == ["a b\n", "x  y\n", "x y\n"]


@pytest.mark.parametrize(
    ("tasks", "pattern", "told"),
    [
        (plain(), "one", ""),
        (plain(), "", "--results names no place for the output"),
        (swept("a", "b"), "", "--results names no place for the output"),
        (plain(), "one-{job}", "tasks 1 and 2 would both write one-{job}"),
        (plain(1), "one-{job}", ""),
        (swept("a", "b/../a"), "{1}", "tasks 1 and 2 would both write a"),
        (plain(), "{1}", "names values that tasks do not have"),
        (swept("a"), "{2}", "names values that tasks do not have"),
        (plain(), "{task}/", "is a directory for each task"),
        (plain(), "file/{task}", "file is not a directory"),
        (plain(), "file", "file is not a directory"),
    ],
)
def test_names_that_cannot_be(tmp_path: Path, tasks: Tasks, pattern: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    if not told:
        into_files(tasks, pattern, str(tmp_path))
        return
    with pytest.raises(UsageError) as refused:
        into_files(tasks, pattern, str(tmp_path))
    assert told in refused.value.message + (refused.value.because or "")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
