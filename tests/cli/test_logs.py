"""``yopp logs``: of running and of ended clusters, whole, from the end, and as it grows."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from executor.records import ContainerState, ContainerStatus, ExecutionType, Resource
from yarnopp_cli.cli.frame.options import BadValueError, beginning, coming, moment
from yarnopp_cli.jobs.logfiles import Stream
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary, YarnApplicationState

from .fake import Cluster, app_id, application, container, container_id

Cli = Callable[..., Any]


def write(run_dir: Path, app: int, number: int, stdout: bytes = b"", stderr: bytes = b"") -> Path:
    """The log directory of one container, where a cluster of ``run_dir`` puts it."""
    directory = run_dir / "state" / "logs" / app_id(app) / container_id(app, number)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stdout").write_bytes(stdout)
    (directory / "stderr").write_bytes(stderr)
    return directory


@pytest.fixture
def logged(cluster: Cluster) -> Cluster:
    """Application 1 (ended) has one container with output, application 2 two."""
    cluster.applications = [
        dataclasses.replace(
            one,
            log_directory=str(cluster.run_dir / "state" / "logs" / one.application_id),
            summary=one.summary and dataclasses.replace(one.summary, total=1),
        )
        for one in cluster.applications
    ]
    cluster.containers = [
        dataclasses.replace(
            one, log_directory=str(cluster.run_dir / "state" / "logs" / one.application_id / one.container_id)
        )
        for one in cluster.containers
    ]
    write(cluster.run_dir, 1, 1, b"one\ntwo\nthree", b"oops\n")
    write(cluster.run_dir, 2, 1, b"first\n")
    write(cluster.run_dir, 2, 2, b"second\n", b"alas\n")
    return cluster


def test_in_every_form(cli: Cli, logged: Cluster) -> None:
    rows = [line.split("\t") for line in cli("logs", "2", "-o", "tsv").out.splitlines()]
    assert rows[0] == ["id", "stream", "t", "line"]
    assert sorted((row[0], row[1], row[3]) for row in rows[1:]) == [
        (container_id(2, 1), "stdout", "first"),
        (container_id(2, 2), "stderr", "alas"),
        (container_id(2, 2), "stdout", "second"),
    ]
    write(logged.run_dir, 1, 1, b"a\tb\x1b[1m\n")
    assert cli("logs", "1", "-o", "tsv").out.splitlines()[1].endswith("\ta\\tb\\e[1m")
    assert cli("logs", "2", "-o", "name").out.split() == [container_id(2, 1), container_id(2, 2)]
    assert cli("logs", "1", "-q").out == "a\tb\x1b[1m\n", "-q silences what is said beside it"
    assert [json.loads(line)["line"] for line in cli("logs", "1", "-o", "jsonl").out.splitlines()] == [
        "a\tb\x1b[1m"
    ]


def test_one_container_is_raw(cli: Cli, logged: Cluster) -> None:
    write(logged.run_dir, 1, 1, b"\x1b[1mbold\x1b[0m\n")
    assert cli("logs", container_id(1, 1)).out == "\x1b[1mbold\x1b[0m\n"
    assert cli("logs", "1.1").out == cli("logs", "1").out


def test_stdout_comes_before_stderr_and_either_can_be_had_alone(cli: Cli, logged: Cluster) -> None:
    assert cli("logs", "1").out == "one\ntwo\nthreeoops\n"
    assert cli("logs", "1", "--stderr").out == "oops\n"
    assert cli("logs", "1", "--stdout").out == "one\ntwo\nthree"
    assert cli("logs", "-applicationId", app_id(1), "-log_files", "stderr").out == "oops\n"


def test_several_containers_are_told_apart(cli: Cli, logged: Cluster) -> None:
    assert cli("logs", "last").out.splitlines() == ["[1] first", "[2] second", "[2] alas"]
    assert cli("logs", "2", "--no-prefix").out.splitlines() == ["first", "second", "alas"]
    lines = [json.loads(line) for line in cli("logs", "2", "--json").out.splitlines()]
    assert [(one["id"], one["stream"], one["line"]) for one in lines] == [
        (container_id(2, 1), "stdout", "first"),
        (container_id(2, 2), "stdout", "second"),
        (container_id(2, 2), "stderr", "alas"),
    ]
    now = time.time()
    assert all(abs(one["t"] / 1000 - now) < 600 for one in lines)


def test_a_task_of_several_keeps_its_number_where_the_others_wrote_nothing(cli: Cli, logged: Cluster) -> None:
    write(logged.run_dir, 2, 2)
    logged.applications = [
        dataclasses.replace(one, summary=JobSummary(total=2)) for one in logged.applications
    ]
    assert cli("logs", "2").out == "[1] first\n"
    assert cli("logs", "2", "--no-prefix").out == cli("logs", "2.1").out == "first\n"
    logged.applications = [
        dataclasses.replace(one, summary=JobSummary(total=1)) for one in logged.applications
    ]
    assert cli("logs", "2").out == "first\n", "the other one was an earlier try"


def test_a_master_keeps_its_log_to_itself_while_its_job_goes_well(cli: Cli, logged: Cluster) -> None:
    logged.containers = [
        dataclasses.replace(one, is_am=one.container_id == container_id(2, 1)) for one in logged.containers
    ]
    write(logged.run_dir, 2, 1, b"result\n", b"what the master did\n")
    assert cli("logs", "2").out.splitlines() == ["[am] result", "[2] second", "[2] alas"]
    assert cli("logs", "2", "--am").out.splitlines() == ["result", "what the master did"]
    assert "what the master did" in cli("logs", "2", "--stderr").out
    assert "what the master did" in cli("logs", "2.1").out
    write(logged.run_dir, 2, 1, b"", b"what the master did\n")
    assert cli("logs", "2").out.splitlines() == ["second", "alas"]
    logged.applications = [
        dataclasses.replace(
            one, state=YarnApplicationState.FINISHED, final_status=FinalApplicationStatus.FAILED
        )
        for one in logged.applications
    ]
    assert cli("logs", "2").out.splitlines()[0] == "[am] what the master did"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, ""), (1, "three"), (2, "two\nthree"), (3, "one\ntwo\nthree"), (99, "one\ntwo\nthree")],
)
def test_tail(cli: Cli, logged: Cluster, count: int, expected: str) -> None:
    assert cli("logs", "1", "--stdout", "--tail", str(count)).out == expected


def test_bytes_and_the_list_of_files(cli: Cli, logged: Cluster) -> None:
    whole = cli("logs", "1.1", "--stdout", "--no-prefix").out
    assert whole
    assert cli("logs", "1.1", "--stdout", "--bytes", "3").out == whole[:3]
    assert cli("logs", "1.1", "--stdout", "--bytes=-3").out == whole[-3:]
    assert cli("logs", "-containerId", container_id(1, 1), "-size", "-3", "--stdout").out == whole[-3:]
    ended = cli("logs", "1.1", "--files", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["containerLogInfo"]
    assert {one["fileName"] for one in found} <= {"stdout", "stderr"}
    assert {one["container"] for one in found} == {container_id(1, 1)}
    assert found[0]["fileSize"] == str(len(whole.encode()))
    assert cli("logs", "1.1", "-f", "--files").code == 2


def test_timestamps_since_and_copies(cli: Cli, logged: Cluster, tmp_path: Path) -> None:
    line = cli("logs", "1", "--stderr", "--timestamps").out
    assert line.endswith(" oops\n")
    assert line[4] == "-"
    assert line[10] == "T"
    old = logged.run_dir / "state" / "logs" / app_id(1) / container_id(1, 1) / "stdout"
    os.utime(old, (1000, 1000))
    assert cli("logs", "1", "--since", "1h").out == "oops\n"
    assert cli("logs", "1", "--out", str(tmp_path / "copy")).code == 0
    assert (tmp_path / "copy" / container_id(1, 1) / "stderr").read_bytes() == b"oops\n"
    (tmp_path / "file").write_text("")
    refused = cli("logs", "1", "--out", str(tmp_path / "file"))
    assert refused.code == 1
    assert "cannot copy" in refused.err


def test_the_exit_code_can_be_had(cli: Cli, logged: Cluster) -> None:
    assert cli("logs", "1").code == 0
    assert cli("logs", "1", "--exit-code").code == 3
    assert cli("logs", "1.1", "--exit-code").code == 3


def test_no_output_is_no_error(cli: Cli, logged: Cluster) -> None:
    logged.applications.append(application(3))
    ended = cli("logs", "last")
    assert (ended.code, ended.out) == (0, "")
    assert "no output yet" in ended.err


def test_logs_of_a_cluster_that_has_ended(cli: Cli, run_dir: Path) -> None:
    assert cli("logs", "last").code == 69
    write(run_dir, 1, 2, b"old\n")
    write(run_dir, 2, 2, b"new\n")
    write(run_dir, 10, 1, b"newest\n")
    assert cli("logs", "last").out == "newest\n"
    assert cli("logs", "2").out == "new\n"
    assert cli("logs", "-f", "1.2").out == "old\n"
    assert cli("logs", container_id(2, 2)).out == "new\n"
    assert cli("logs", "3").code == 66
    assert cli("logs", "3.3").code == 66
    assert cli("logs", app_id(5)).code == 66


def test_logs_of_what_this_cluster_never_knew_are_found_on_disk(cli: Cli, logged: Cluster) -> None:
    write(logged.run_dir, 9, 1, b"of before\n")
    assert cli("logs", app_id(9)).out == "of before\n"
    assert cli("logs", "9").out == "of before\n"
    assert cli("logs", "77").code == 66


def test_follow_waits_for_a_queued_container_and_ends_with_it(cli: Cli, logged: Cluster) -> None:
    """Nothing while it is queued, then all it writes, then the end."""
    log = logged.run_dir / "state" / "logs" / app_id(3) / container_id(3, 1)
    logged.applications.append(
        application(3, log_directory=str(log.parent), summary=JobSummary(total=1), unmanaged=True)
    )
    logged.containers.append(container(3, 1, state=ContainerState.SCHEDULED, log_directory=str(log)))
    reached: list[str] = []

    def life() -> None:
        wait_for(lambda: len(logged.asked("getContainers")) >= 3)
        reached.append("queued")
        log.mkdir(parents=True)
        (log / "stdout").write_bytes(b"hel")
        logged.containers[-1] = container(
            3, 1, state=ContainerState.RUNNING, log_directory=str(log), started_at_ms=5
        )
        before = len(logged.asked("getContainers"))
        wait_for(lambda: len(logged.asked("getContainers")) >= before + 2)
        with (log / "stdout").open("ab") as file:
            file.write(b"lo\nlast words")
        logged.containers[-1] = container(
            3,
            1,
            state=ContainerState.DONE,
            exit_status=0,
            exit_code=0,
            log_directory=str(log),
            started_at_ms=5,
        )
        logged.applications[-1] = application(
            3,
            log_directory=str(log.parent),
            state=YarnApplicationState.FINISHED,
            final_status=FinalApplicationStatus.SUCCEEDED,
            summary=JobSummary(total=1, completed=1, exit_code=0),
        )

    thread = threading.Thread(target=life)
    thread.start()
    ended = cli("logs", "-f", "3")
    thread.join(10)
    assert reached == ["queued"]
    assert (ended.code, ended.out) == (0, "hello\nlast words")
    assert "still queued" in ended.err


def test_follow_of_several_interleaves_by_line(cli: Cli, logged: Cluster) -> None:
    written = write(logged.run_dir, 2, 1, b"first\n")

    def end() -> None:
        wait_for(lambda: len(logged.asked("getContainers")) >= 2)
        with (written / "stdout").open("ab") as log:  # a file that is made anew is read from its start
            log.write(b"more\n")
        logged.statuses = {
            one: ContainerStatus(
                one, ContainerState.DONE, ExecutionType.OPPORTUNISTIC, Resource(), exit_status=0
            )
            for one in logged.statuses
        }
        logged.containers[1:] = [
            dataclasses.replace(one, state=ContainerState.DONE, exit_status=0)
            for one in logged.containers[1:]
        ]
        logged.applications[1] = dataclasses.replace(
            logged.applications[1], state=YarnApplicationState.FINISHED
        )

    thread = threading.Thread(target=end)
    thread.start()
    ended = cli("logs", "-f", "last")
    thread.join(10)
    assert sorted(ended.out.splitlines()) == ["[1] first", "[1] more", "[2] alas", "[2] second"]


def test_follow_ends_when_the_cluster_does(cli: Cli, logged: Cluster) -> None:
    def end() -> None:
        wait_for(lambda: len(logged.asked("getContainers")) >= 4)
        logged.close()
        (logged.run_dir / "rm.sock").unlink()

    thread = threading.Thread(target=end)
    thread.start()
    ended = cli("logs", "-f", "2.1")
    thread.join(10)
    assert (ended.code, ended.out) == (0, "first\n")
    assert ended.err == "the cluster has ended: its output is no longer followed\n"


def wait_for(condition: Callable[[], bool]) -> None:
    """Until ``condition``, or fail after 10 s."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_control_sequences_stay_away_from_a_terminal(logged: Cluster) -> None:
    import pty

    write(logged.run_dir, 1, 1, b"\x1b]0;pwned\x07text\tx\xff\n")
    main, other = pty.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "yarnopp_cli", "logs", "1.1"], stdout=other, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()}, timeout=30,
    )  # fmt: skip
    os.close(other)
    shown = os.read(main, 4096)
    os.close(main)
    assert ended.returncode == 0, ended.stderr
    assert shown == b"\\e]0;pwned\\x07text\tx\\xff\r\n" or shown == b"\\e]0;pwned\\x07text    x\\xff\r\n"


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_tail_of_large_files_is_exact(tmp_path: Path, size: int) -> None:
    path = tmp_path / "stdout"
    lines = [f"{number:07d}".encode() for number in range(size // 8)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    for count in (1, 7, 10_000, 10**6):
        stream = Stream("c", "stdout", str(path))
        stream.skip_to_tail(count)
        assert list(stream.lines(ended=True)) == lines[max(0, len(lines) - count) :]


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * (5 << 20))
    stream = Stream("c", "stdout", str(path))
    pieces = list(stream.lines(ended=True))
    assert sum(map(len, pieces)) == 5 << 20
    assert max(map(len, pieces)) < 2 << 20


def test_what_is_no_plain_file_is_neither_followed_nor_waited_for(
    cli: Cli, logged: Cluster, tmp_path: Path
) -> None:
    """A container may put anything in the place of its output; that of the others is still shown."""
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    directory = write(logged.run_dir, 2, 1)
    (directory / "stdout").unlink()
    (directory / "stdout").symlink_to(secret)
    (directory / "stderr").unlink()
    os.mkfifo(directory / "stderr")
    for options in ([], ["--tail", "5"], ["--bytes", "9"], ["--files"], ["--timestamps"], ["--json"]):
        shown = cli("logs", app_id(2), *options).out
        assert ("second" in shown or "--files" in options) and "secret" not in shown, options
    cli("logs", app_id(2), "--out", str(tmp_path / "copy"))
    copied = sorted(path.name for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert copied == ["stderr", "stdout"]
    (directory / "stderr").unlink()
    (directory / "stderr").mkdir()
    assert "second" in cli("logs", app_id(2)).out


def test_since_takes_a_duration_or_a_time() -> None:
    now = time.time() * 1000
    assert abs(moment("10m") - (now - 600_000)) < 5000
    assert moment("2026-01-31T12:00:00Z") == 1769860800000
    assert moment("2026-01-31T13:00:00+01:00") == 1769860800000
    for wrong in ("soon", "2026-13-01", "0001-01-01", "-5"):
        with pytest.raises(BadValueError):
            moment(wrong)


def test_times_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.mktime((2026, 1, 31, 12, 0, 0, 0, 0, -1))
    monkeypatch.setattr("time.time", lambda: now)
    for text, hours in (("+2h", 2), ("19:00", 7), ("07:00:30", 19 + 30 / 3600), ("12:00", 24)):
        assert coming(text) == round((now + hours * 3600) * 1000), text
    later = 1_769_864_400_000
    assert coming("2026-01-31T13:00:00Z") == beginning("2026-01-31T13:00:00Z") == later
    assert coming("now") == now * 1000 and beginning("now") == beginning("+0s") == 0
    for wrong in (
        "",
        "2h",
        "24:00",
        "7:60",
        "yesterday",
        "+",
        "+x",
        "2026-13-01",
        "2026-01-30",
        "2020-01-01T10:00",
    ):
        with pytest.raises(BadValueError):
            coming(wrong)
    monkeypatch.setattr("time.time", lambda: later / 1000 + 59)
    assert beginning("2026-01-31T13:00:00Z") == 0, "a script's word for now"
    monkeypatch.setattr("time.time", lambda: later / 1000 + 61)
    with pytest.raises(BadValueError, match="is in the past"):
        beginning("2026-01-31T13:00:00Z")


def test_follow_says_what_is_asked_for_and_not_granted_yet(cli: Cli, logged: Cluster) -> None:
    running = application(
        3, summary=JobSummary(total=1), unmanaged=True, pending_containers=1, opportunistic_pending=0
    )
    logged.applications.append(running)

    def end() -> None:
        wait_for(lambda: len(logged.asked("getContainers")) >= 4)
        logged.applications[-1] = dataclasses.replace(
            running, state=YarnApplicationState.FINISHED, final_status=FinalApplicationStatus.SUCCEEDED
        )

    thread = threading.Thread(target=end)
    thread.start()
    ended = cli("logs", "-f", "3")
    thread.join(10)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "waiting: 1 not granted yet\n", "once"


def test_follow_tells_the_masters_lines_from_those_of_the_only_container(cli: Cli, logged: Cluster) -> None:
    write(logged.run_dir, 3, 1, stderr=b"task 1 FAILED\n")
    log = write(logged.run_dir, 3, 2, b"hello\n")
    ended = {"state": ContainerState.DONE, "exit_status": 3, "exit_code": 3, "started_at_ms": 5}
    logged.containers += [container(3, 1, is_am=True, **ended), container(3, 2, **ended)]
    failed = application(
        3, state=YarnApplicationState.FINISHED, final_status=FinalApplicationStatus.FAILED,
        summary=JobSummary(total=1, completed=1, exit_code=3), log_directory=str(log.parent),
    )  # fmt: skip
    logged.applications.append(failed)
    assert sorted(cli("logs", "-f", "3").out.splitlines()) == ["[am] task 1 FAILED", "hello"]
