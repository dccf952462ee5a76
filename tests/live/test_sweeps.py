"""Sweeps on real daemons: different command lines as one job."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(shared: Yopp) -> Yopp:
    return shared


def test_each_task_of_a_sweep_runs_its_own_line(cluster: Yopp, tmp_path: Path) -> None:
    words = ("run", "-O", "sh", "-c", 'echo "$0 $YOPP_TASK/$YOPP_TASKS [$YOPP_ARGS]"', "{2}{1}")
    swept = cluster(*words, ":::", "a b", "c", ":::", "1", "2")
    assert sorted(swept.stdout.splitlines()) == [
        "[1] 1a b 1/4 [a b 1]", "[2] 2a b 2/4 [a b 2]", "[3] 1c 3/4 [c 1]", "[4] 2c 4/4 [c 2]",
    ]  # fmt: skip
    lines = tmp_path / "lines"
    lines.write_text("echo 'one  word'\n\n# nothing\nsh -c 'exit 3'\n")
    ended = cluster("run", "--from", str(lines), code=3)
    assert ended.stdout == "[1] one  word\n" and "task 2 ended with exit code 3" in ended.stderr
    lines.write_text("echo $YOPP_TASK | tr 0-9 a-j\n" * 3)
    assert sorted(cluster("run", "--shell", "--from", str(lines)).stdout.split()[1::2]) == ["b", "c", "d"]
    indices = cluster("run", "--array", "5-50:15", "printenv", "YOPP_TASK").stdout
    assert sorted(indices.splitlines()) == ["[20] 20", "[35] 35", "[50] 50", "[5] 5"]


def test_nothing_runs_where_one_line_cannot(cluster: Yopp, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"touch {tmp_path}/ran\nno-such-program\n")
    refused = cluster("run", "--from", str(lines), code=127)
    assert refused.stderr.startswith(f"error: line 2 of {lines}: command not found: no-such-program")
    empty = cluster("run", "--shell", ":::", f"touch {tmp_path}/ran", "", code=2)
    assert empty.stderr.startswith("error: value 2 after ::: cannot be run")
    lines.write_text(f"{tmp_path}/ran\n{'x' * 100_000}\n")
    long = cluster("run", "touch", "{}{}", "::::", str(lines), code=2)
    assert long.stderr.startswith(f"error: line 2 of {lines} cannot be run")
    assert not list(tmp_path.glob("ran*"))


def test_tasks_read_their_file_or_their_piece_of_what_is_piped_in(cluster: Yopp, tmp_path: Path) -> None:
    for name, lines in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.txt").write_text("x\n" * lines)
    counted = cluster(
        "run", "--stdin", f"{tmp_path}/{{1}}.txt", "-C", str(tmp_path), "wc", "-l", ":::", "a", "b"
    )
    assert sorted(counted.stdout.splitlines()) == ["[1] 1", "[2] 2"]
    piped = cluster("run", "-O", "--pipe", "--block", "100L", "wc", "-l", input="line\n" * 1234)
    assert sorted(line.split()[1] for line in piped.stdout.splitlines()) == ["100"] * 12 + ["34"]
    assert not (cluster.run_dir / "state" / "jobs").exists(), "the pieces are removed"
    assert "that no longer exist" in cluster("rerun", "last", code=2).stderr
    missing = cluster(
        "run", "--stdin", f"{tmp_path}/{{1}}.txt", "touch", f"{tmp_path}/ran", ":::", "a", "c", code=2
    )
    assert "c.txt, which task 2 reads, cannot be read" in missing.stderr and not (tmp_path / "ran").exists()
    for words in (("-d",), ("--stdin", "a.txt"), ("--shell",)):
        assert "exclude each other" in cluster("run", "--pipe", *words, "cat", input="x\n", code=2).stderr
    assert "would read the standard input" in cluster("run", "cat", input="x\n", code=2).stderr


def test_input_that_comes_while_its_job_runs_is_told_to_be_unread(cluster: Yopp, tmp_path: Path) -> None:
    ran, come = tmp_path / "ran", tmp_path / "come"
    job = cluster.start(
        "run", "sh", "-c", f"touch {ran}; until [ -e {come} ]; do sleep 0.02; done", stdin=subprocess.PIPE
    )
    wait_until(ran.exists, what="it runs")
    assert job.stdin is not None
    job.stdin.write("late\n")
    job.stdin.flush()
    come.touch()
    told = job.communicate(timeout=20)[1]
    assert job.returncode == 0 and "the standard input was not read" in told


def test_a_sweep_goes_on_by_its_log_and_its_output_is_in_files(yopp: Yopp, tmp_path: Path) -> None:
    yopp("up", "--vcores", "2", "--memory", "1024")
    log, good = tmp_path / "log", tmp_path / "good"
    script = f"echo out; [ $0 != b ] || [ -e {good} ]"
    words = ("run", "-O", "--joblog", str(log), "-C", str(tmp_path), "--results", "{job}/{1}")

    def rows() -> list[tuple[str, ...]]:
        lines = log.read_text().splitlines()[1:]
        return sorted((one[0], one[6], one[8]) for one in (line.split("\t") for line in lines))

    yopp(*words, "sh", "-c", script, ":::", "a", "b", code=1)
    assert [row[:2] for row in rows()] == [("1", "0"), ("2", "1")]
    assert [float(line.split("\t")[2]) > 1.7e9 for line in log.read_text().splitlines()[1:]] == [True] * 2
    good.touch()
    told = yopp(*words, "--resume", "sh", "-c", script, ":::", "a", "b")
    assert f"there is nothing to run: {log} already contains all tasks" in told.stderr
    yopp(*words, "--resume-failed", "sh", "-c", script, ":::", "a", "b", "c")
    assert [row[:2] for row in rows()] == [("1", "0"), ("2", "0"), ("2", "1"), ("3", "0")]
    found = {one.name: one.read_text() for one in tmp_path.glob("application_*/*") if one.suffix != ".err"}
    assert found == dict.fromkeys("abc", "out\n")
    detached = yopp(
        "run", "-q", "-d", "-n", "2", "-C", str(tmp_path), "--results", "d", "echo", "x"
    ).stdout.strip()
    yopp("wait", detached)
    assert [(tmp_path / "d" / task / "stdout").read_text() for task in "12"] == ["x\n"] * 2
    for more in ((), ("-f",)):
        silent = yopp("logs", detached, *more)
        assert silent.stdout == "" and f"the output is in {tmp_path}/d/{{task}}/stdout" in silent.stderr
    assert yopp.json("app", "status", detached)["app"]["yopp"]["results"] == f"{tmp_path}/d/{{task}}/stdout"
    yopp("down", "-y")
    container = detached.replace("application", "container") + "_01_000001"
    for named in (detached, container):
        silent = yopp("logs", named)
        assert silent.stdout == "" and f"the output is in {tmp_path}/d/{{task}}/stdout" in silent.stderr


def test_a_job_is_run_again_or_what_failed_of_it_or_some_tasks(cluster: Yopp, tmp_path: Path) -> None:
    good = tmp_path / "good"
    script = f"echo $YOPP_TASK $SECRET $0; [ $0 != b ] || [ -e {good} ]"
    words = ("run", "-q", "-O", "-e", "SECRET=s", "--name", "again", "sh", "-c", script, ":::", "a", "b", "c")
    first = cluster(*words, code=1).stdout.strip()
    good.touch()
    told = cluster("rerun", "again", "--failed")
    assert told.stdout == "[2] 2 s b\n"
    assert "there is nothing to run" in cluster("rerun", "last", "--failed").stderr
    whole = cluster("rerun", first)
    assert sorted(whole.stdout.splitlines()) == ["[1] 1 s a", "[2] 2 s b", "[3] 3 s c"]
    some = cluster("rerun", "last", "--task", "1,3", "-d", "-q").stdout.strip()
    cluster("wait", some)
    assert sorted(cluster("logs", some).stdout.splitlines()) == ["[1] 1 s a", "[3] 3 s c"]
    missing = cluster("rerun", "last", "--task", "2", code=2).stderr
    assert "has no task 2" in missing and "its tasks are 1, 3\n" in missing
    running = cluster("run", "-q", "-d", "sleep", "100").stdout.strip()
    assert "has not ended" in cluster("rerun", running, "--failed", code=2).stderr
    cluster("app", "kill", running)


def test_what_linux_just_takes_runs(cluster: Yopp, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("x" * 131_061 + "\n")  # YOPP_ARGS has the most bytes that it can have
    words = ("sh", "-c", "echo $# ${#1} ${#YOPP_ARGS}", "sh", *["{}"] * 14)
    assert cluster("run", *words, "::::", str(lines)).stdout == "14 131061 131061\n"


def test_a_task_has_one_number_everywhere(cluster: Yopp, tmp_path: Path) -> None:
    script = f"echo $YOPP_TASK; [ -e {tmp_path}/$YOPP_TASK ] || {{ touch {tmp_path}/$YOPP_TASK; exit 3; }}"
    shown = cluster("run", "--array", "7,9", "--retries", "1", "--shell", script).stdout
    assert sorted(shown.split()) == ["7", "7", "9", "9", "[7]", "[7]", "[9]", "[9]"]
    listed = cluster.json("ps", "-a", "--app", "last")["containers"]["container"]
    assert sorted(one["yopp"]["task"] for one in listed) == [7, 7, 9, 9]
    assert sorted(cluster("logs", "last").stdout.split()) == sorted(shown.split())


def test_a_bound_and_a_halt(cluster: Yopp, tmp_path: Path) -> None:
    # each looks whether another one runs beside it, and would be in its way
    script = f"mkdir {tmp_path}/only || exit 9; sleep 0.05; rmdir {tmp_path}/only"
    cluster("run", "-n", "4", "-O", "--max-running", "1", "--shell", script)
    ended = cluster("run", "-n", "50", "--max-running", "1", "--halt", "soon,fail=2", "false", code=1)
    assert " (halted: 2 of 50 tasks failed): 2 failed, 48 stopped" in ended.stderr


def test_the_log_of_a_detached_job_is_written_afterwards(cluster: Yopp, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    words = ("-O", "--retries", "1", "--shell", "[ {} != b ]", ":::", "a", "b", "c")
    job = cluster("run", "-q", "-d", *words).stdout.strip()
    cluster("wait", job, "--joblog", log, code=1)
    rows = [line.split("\t") for line in Path(log).read_text().splitlines()[1:]]
    assert sorted((row[0], row[6], row[8]) for row in rows) == [
        ("1", "0", "[ a != b ]"), ("2", "1", "[ b != b ]"), ("3", "0", "[ c != b ]"),
    ]  # fmt: skip
    again = cluster("run", "--joblog", log, "--resume-failed", *words, code=1)
    assert "1 failed" in again.stderr and len(Path(log).read_text().splitlines()) == 5
    assert "is for one job" in cluster("wait", "last", job, "--joblog", log, code=2).stderr
    pi = cluster("pi", "-q", "2", "10").stdout.strip()
    assert "it is a `pi` job" in cluster("wait", pi, "--joblog", log, code=2).stderr


def test_a_job_log_is_one_jobs_and_no_name_of_a_file_is_too_long(cluster: Yopp, tmp_path: Path) -> None:
    log, over = tmp_path / "log", tmp_path / "over"
    words = ("run", "-O", "--joblog", str(log), "sh", "-c", f"until [ -e {over} ]; do sleep 0.02; done")
    first = cluster.start(*words)
    wait_until(lambda: cluster.containers("--state", "RUNNING"), what="it runs")
    refused = cluster(*words, code=2)
    assert "another job is writing it" in refused.stderr and len(log.read_text().splitlines()) == 1
    over.touch()
    assert first.wait(30) == 0 and len(log.read_text().splitlines()) == 2
    piped = cluster("run", "-O", "--joblog", "/dev/stdout", "true", ":::", "a", "b").stdout.splitlines()
    assert piped[0].startswith("Seq\t") and sorted(line[0] for line in piped[1:]) == ["1", "2"]
    os.mkfifo(tmp_path / "fifo")
    assert "without a reader" in cluster("run", "--joblog", str(tmp_path / "fifo"), "true", code=2).stderr
    assert "no space left" in cluster("run", "--joblog", "/dev/full", "true", code=2).stderr
    long = cluster(
        "run", "--results", f"{tmp_path}/r/{{1}}", "touch", str(log) + "2", ":::", "x" * 300, code=2
    )
    assert "a name of 300 bytes" in long.stderr and not (tmp_path / "r").exists()


def test_output_is_in_the_order_of_the_tasks_and_a_dry_run_has_their_commands(cluster: Yopp) -> None:
    words = ("--shell", "sleep 0.{}; printf {}", ":::", "6", "1", "3")
    assert cluster("run", "-O", "-k", "--no-prefix", *words).stdout == "613"
    assert cluster("rerun", "last", "-k").stdout == "[1] 6\n[2] 1\n[3] 3\n"
    told = cluster("run", "-O", "--dry-run", *words).stdout.splitlines()
    assert "    2: sleep 0.1; printf 1" in told
    plan = json.loads(cluster("run", "--dry-run", "--json", "--results", "x", "echo", ":::", "a b").stdout)
    assert plan["dryRun"]["commands"] == [{"task": 1, "command": ["echo", "a b"]}]
    assert (
        "and 5 more, which --json lists"
        in cluster("run", "--dry-run", "true", ":::", *"123456789012345").stdout
    )


def test_columns_and_values_with_ends_of_lines(cluster: Yopp, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("foo\tbar\nbaz \t quux\n")
    swept = cluster("run", "-O", "-k", "--colsep", r"\t", "--from", str(table), "echo", "{2}", "{1}").stdout
    assert swept == "[1] bar foo\n[2] quux baz\n"
    nul = cluster("run", "-O", "-0", "--from", "-", "printf", "<%s>", input="a\nb\0c").stdout
    assert sorted(nul.splitlines()) == ["[1] <a", "[1] b>", "[2] <c>"]


def test_what_is_not_utf_8_is_input_and_output_but_no_argument(cluster: Yopp, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"a\xff\n")
    refused = cluster("run", "echo", "\udcff", code=2).stderr.splitlines()
    assert len(refused) == 3 and "is not UTF-8" in refused[0] and "--stdin, may hold any bytes" in refused[2]
    cluster("run", "-C", str(tmp_path), "--results", "r", "--stdin", "bytes", "cat")
    assert (tmp_path / "r" / "1" / "stdout").read_bytes() == b"a\xff\n"


def test_a_job_log_has_the_times_of_the_node(cluster: Yopp, tmp_path: Path) -> None:
    cluster("run", "-O", "-n", "3", "--joblog", str(tmp_path / "log"), "sleep", "0.3")
    lines = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()[1:]]
    logged = sorted((float(began), float(ran)) for _, _, began, ran, *_ in lines)
    listed = cluster("ps", "-a", "--app", "last", "--json").stdout
    known = [one["yopp"] for one in json.loads(listed)["containers"]["container"] if one["yopp"]["task"]]
    times = sorted((one["startedAt"] / 1000, (one["finishedAt"] - one["startedAt"]) / 1000) for one in known)
    assert logged == times and len(times) == 3
    cluster("run", "-O", "-n", "40", "--joblog", str(tmp_path / "short"), "sleep", "0.05")
    short = [float(line.split("\t")[3]) for line in (tmp_path / "short").read_text().splitlines()[1:]]
    assert len(short) == 40 and min(short) >= 0.05, "no task has run for less than it took"
