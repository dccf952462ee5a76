"""What is refused before anything is submitted, and with which code; the texts about a job; a `pi` job's
files.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from executor.records import ExecutionType, Resource
from yarnopp_cli.cli.jobs.variables import assignments
from yarnopp_cli.cluster import clientfiles
from yarnopp_cli.errors import UsageError, YoppError
from yarnopp_cli.jobs import commands, pifiles, progress
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.tasks import Tally, Task
from yarnopp_cli.records.jobs import TaskReport, TaskSpec, TaskState
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary


def test_a_client_blanks_the_values_in_its_own_command_line() -> None:
    program = (
        "from yarnopp_cli.cli.jobs.variables import assignments\n"
        "print(assignments(['A=hunter2', 'B=hunter', 'C=', 'D']))\n"
        "print(repr(open('/proc/self/cmdline').read()))"
    )
    words = ["run", "-e", "A=hunter2", "--env=B=hunter", "-eC=", "-eD", "--", "echo", "hunter2"]
    told = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    variables, line = told.stdout.splitlines()
    assert variables == str({"A": "hunter2", "B": "hunter", "C": "", "D": ""})
    assert ast.literal_eval(line).rstrip("\0").split("\0")[-9:] == [
        *("run", "-e", "A=.......", "--env=B=......", "-eC=", "-eD", "--", "echo", "hunter2")
    ]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name, mode in (("tool", 0o755), ("plain", 0o644)):
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    return tmp_path


def test_commands_are_found_as_a_shell_finds_them(here: Path) -> None:
    environment = {"PATH": f"/nonexistent:{here}/bin"}
    assert commands.find_command("tool", environment, "/") == f"{here}/bin/tool"
    assert commands.find_command("bin/tool", {"PATH": ""}, str(here)) == f"{here}/bin/tool"
    assert commands.find_command("tool", {"PATH": "bin"}, str(here)) == f"{here}/bin/tool"
    assert commands.find_command("sh", {}, "/").endswith("/sh")


@pytest.mark.parametrize(
    ("command", "code"),
    [("nosuch", 127), ("./nosuch", 127), ("bin/tool/x", 127), ("", 127), ("bin", 127), ("./bin", 126),
     ("bin/plain", 126), ("plain", 126)],
)  # fmt: skip
def test_what_cannot_be_run_has_dockers_codes(here: Path, command: str, code: int) -> None:
    with pytest.raises(YoppError) as caught:
        commands.find_command(command, {"PATH": f"{here}/bin"}, str(here))
    assert caught.value.exit_code == code
    assert caught.value.because and caught.value.hint


def test_a_script_whose_interpreter_is_not_there_is_said_to_be_one(here: Path) -> None:
    script = here / "bi"
    script.write_text("#!/nosuch/interpreter -x\necho hello\n")
    script.chmod(0o755)
    with pytest.raises(YoppError) as caught:
        commands.find_command("./bi", {}, str(here))
    assert caught.value.exit_code == 127
    assert caught.value.because == "its first line names /nosuch/interpreter, which does not exist"
    script.write_text("#! /bin/sh\r\necho hello\r\n")
    with pytest.raises(YoppError) as caught:
        commands.find_command("./bi", {}, str(here))
    assert caught.value.because == "its first line names /bin/sh\r, which does not exist"
    script.chmod(0o644)
    with pytest.raises(YoppError) as caught:
        commands.find_command("./bi", {}, str(here))
    assert caught.value.hint == f"chmod +x {here}/bi"


def test_text_that_is_not_utf8_is_refused_and_variables_are_left_out() -> None:
    odd = os.fsdecode(b"caf\xe9")
    with pytest.raises(UsageError) as caught:
        commands.check_text(["fine", odd], "the argument")
    assert caught.value.exit_code == 2 and "script" in caught.value.hint
    assert commands.portable_environment({"A": "1", "B": odd, odd: "2"}) == ({"A": "1"}, ["B", "caf\\udce9"])


def test_working_directories(here: Path) -> None:
    assert commands.check_directory(str(here / "bin" / "..")) == str(here)
    for wrong in (here / "nosuch", here / "bin" / "tool"):
        with pytest.raises(UsageError) as caught:
            commands.check_directory(str(wrong))
        assert caught.value.because and caught.value.hint


# --- texts --------------------------------------------------------------------------------------------------


def tally(**counts: int) -> Tally:
    job = plan_run(("x",), TaskSpec(1, Resource(1, 1)), sum(counts.values()))
    made = Tally(sum(counts.values()))
    tasks = iter(Task.all_of(0, job.phases[0]))
    for name, count in counts.items():
        for _ in range(count):
            made.move(next(tasks), TaskState[name])
    return made


def test_where_a_job_stands() -> None:
    job = plan_run(("x",), TaskSpec(1, Resource(1, 1), ExecutionType.OPPORTUNISTIC), 10)
    states = progress.states_text(tally(RUNNING=2, QUEUED=8))
    assert states == "2 running, 8 queued"
    assert progress.first_line("application_1_0001", job, 1, states) == (
        "application_1_0001  10 opportunistic on 1 node: 2 running, 8 queued"
    )
    assert progress.states_text(tally(WAITING=1, ASKED=2, KILLED=1)) == "3 waiting, 1 stopped"


def test_how_a_job_ended() -> None:
    done = progress.end_line(FinalApplicationStatus.SUCCEEDED, 51.23, tally(SUCCEEDED=10), "")
    assert done == "done in 51.2 s: 10 ok"
    failed = progress.end_line(FinalApplicationStatus.FAILED, 200, tally(SUCCEEDED=8, FAILED=2), "x")
    assert failed == "failed after 3 min 20 s: 8 ok, 2 failed"
    stopped = progress.end_line(FinalApplicationStatus.KILLED, 1, tally(KILLED=2), "interrupted")
    assert stopped == "stopped after 1.0 s (interrupted): 2 stopped"
    early = progress.end_line(FinalApplicationStatus.KILLED, 1, tally(WAITING=2), "interrupted")
    assert early == "stopped after 1.0 s, before it had begun (interrupted)"


def test_who_waited_and_for_how_long() -> None:
    summary = JobSummary(
        total=10,
        completed=10,
        opportunistic=8,
        guaranteed=2,
        queued=4,
        wait_ms_total=8000,
        wait_ms_max=3000,
        preempted=1,
    )
    assert progress.summary_line(summary) == (
        "ran 8 opportunistic, 2 guaranteed, 4 queued (waited 2.0 s on average, 3.0 s at most), "
        "1 preempted and requested again"
    )
    awaited = JobSummary(guaranteed=3, queued=2, awaited=1, waited=3, wait_ms_total=3300, wait_ms_max=3000)
    assert progress.summary_line(awaited) == (
        "ran 0 opportunistic, 3 guaranteed, 1 waited to be granted, 2 queued (waited 1.1 s on average, 3.0 s at most), "
        "0 preempted"
    )
    assert progress.summary_line(JobSummary(guaranteed=1)) == ""
    paused = JobSummary(opportunistic=2, paused=2, paused_ms_total=80_000, paused_for="LOAD")
    assert progress.summary_line(paused).endswith(
        "2 paused, 1m 20s in total, because of the load of other programs"
    )
    both, shed = (
        JobSummary(opportunistic=9, preempted=3, shed=2),
        JobSummary(opportunistic=9, preempted=1, shed=1),
    )
    assert progress.summary_line(both).endswith(
        ", 1 preempted and 2 given back by a full queue and requested again"
    )
    assert progress.summary_line(shed).endswith(", 1 given back by a full queue and requested again")
    retried = JobSummary(opportunistic=9, retried=2)
    assert progress.summary_line(retried).endswith(", 0 preempted, 2 failed and tried again")
    lost = JobSummary(opportunistic=9, preempted=1, lost=2)
    assert progress.summary_line(lost).endswith(", 1 preempted and 2 lost and requested again")
    assert "0 queued, 0 preempted" in progress.summary_line(JobSummary(guaranteed=1), always=True)


def test_failures_say_what_happened_and_where_to_look() -> None:
    def report(number: int, **more: object) -> TaskReport:
        return TaskReport(0, number, TaskState.FAILED, ExecutionType.GUARANTEED, f"c{number}", **more)  # type: ignore[arg-type]

    failures = [report(3, exit_code=7, diagnostics="Exit code 7"),
                report(1, exit_code=137, exit_status=-104, memory_mb=64, diagnostics="peak 65 MB")]  # fmt: skip
    assert progress.failure_lines(failures, 5, "/logs") == [
        "task 1 was OOM-killed: 64 MB limit (peak 65 MB); output in /logs/c1",
        "task 3 ended with exit code 7; output in /logs/c3",
    ]
    sentence = report(4, exit_code=143, diagnostics="It ran for too long.")
    assert progress.failure_lines([sentence], 5, "/logs")[0].endswith(
        ": It ran for too long; output in /logs/c4"
    )
    assert progress.failure_lines(failures[:1], 1, "/logs") == ["the container ended with exit code 7"]
    many = [report(number, exit_code=1) for number in range(30)]
    assert progress.failure_lines(many, 30, "/l")[-1] == "and 20 more failed"


# --- a pi job's files


def test_a_pi_directory_is_private_filled_and_gone(tmp_path: Path) -> None:
    parent = tmp_path / "jobs"
    directory = pifiles.PiDirectory(str(parent), 1765400000000)
    assert os.path.basename(directory.path).startswith("QuasiMonteCarlo_1765400000000_")
    assert os.stat(directory.path).st_mode & 0o777 == 0o700
    assert list(directory.write_inputs(3, 10)) == [0, 1, 2]
    assert Path(directory.path, "part2").read_text() == "20 10\n"
    with pytest.raises(YoppError):
        pifiles.read_result(directory.path)
    for damaged in ("0 0", "-1 3", "1"):
        Path(directory.path, "reduce-out").write_text(f"{damaged}\n")
        with pytest.raises(YoppError, match="left no result"):
            pifiles.read_result(directory.path)
    Path(directory.path, "reduce-out").write_text("34 6\n")
    assert pifiles.read_result(directory.path) == (34, 6)
    directory.remove()
    directory.remove()
    assert not parent.exists()


def test_directories_of_dead_clients_are_removed_and_no_others(tmp_path: Path) -> None:
    alive = pifiles.PiDirectory(str(tmp_path), 1)
    piped, dead_pipe = (clientfiles.ClientDirectory(str(tmp_path), f"pipe_{number}") for number in (1, 2))
    dead_pipe._unlock()
    handed_over = pifiles.PiDirectory(str(tmp_path), 2)
    handed_over.hand_over()
    dead = pifiles.PiDirectory(str(tmp_path), 3)
    dead._unlock()
    (tmp_path / "other").mkdir()
    clientfiles.clear_abandoned(str(tmp_path))
    assert os.path.isdir(piped.path) and not os.path.exists(dead_pipe.path)
    piped.remove()
    assert os.path.isdir(alive.path) and os.path.isdir(handed_over.path) and (tmp_path / "other").is_dir()
    assert not os.path.exists(dead.path)
    clientfiles.clear_handed_over(str(tmp_path))
    assert (
        os.path.isdir(alive.path) and not os.path.exists(handed_over.path) and (tmp_path / "other").is_dir()
    )
    alive.remove()


def test_a_pi_directory_that_cannot_be_is_an_error_of_three_lines(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(YoppError) as caught:
        pifiles.PiDirectory(str(tmp_path / "file" / "jobs"), 1)
    assert caught.value.because and caught.value.hint


def test_a_command_line_tells_of_variables_the_names_only() -> None:
    given = ["TOKEN=hunter2", "A=", "B", "TOKEN=older", "URL=http://x?a=b"]
    argv = [
        "run",
        "-e",
        "TOKEN=hunter2",
        "-eTOKEN=older",
        "--env=URL=http://x?a=b",
        "-e",
        "A=",
        "-Oe",
        "B",
        "-n",
        "2",
    ]
    command = ["sh", "-c", "DATA_TOKEN=hunter2x exec prog --mode=hunter2", "X=1"]
    assert commands.without_values([*argv, *command], given) == [
        "run", "-e", "TOKEN=...", "-eTOKEN=...", "--env=URL=...", "-e", "A=", "-Oe", "B", "-n", "2", *command,
    ]  # fmt: skip


def test_what_is_refused_of_a_variable_does_not_tell_its_value() -> None:
    for word in ("=hunter2", "NAME=hunter2\0", "NAME=hunter2\udcff", "N\udcff=hunter2"):
        with pytest.raises(UsageError) as refused:
            assignments([word])
        assert "hunter2" not in f"{refused.value} {refused.value.because} {refused.value.hint}"
