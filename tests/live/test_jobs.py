"""`yopp run`, `yopp dshell` and `yopp pi` on real daemons:

output, exit codes, refusals, ends of every kind.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(shared: Yopp) -> Yopp:
    return shared


def running(yopp: Yopp) -> int:
    return sum(c["yopp"]["state"] == "RUNNING" for c in yopp.containers())


def last_app(yopp: Yopp) -> dict:
    return dict(yopp.json("app", "list", "-a", "--sort", "id")["apps"]["app"][-1])


def read_terminal(primary: int, looked_at: Callable[[bytes], None] = lambda seen: None) -> str:
    """All that comes out of a terminal until its other end is closed; ``looked_at`` is told what it is so far."""
    seen = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([primary], [], [], 0.2)[0]:
            try:
                piece = os.read(primary, 65536)
            except OSError:  # the other end has been closed
                break
            if not piece:
                break
            seen += piece
            looked_at(seen)
    os.close(primary)
    return seen.decode()


def bash(yopp: Yopp, line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `yopp` is this program."""
    script = f'yopp() {{ {shlex.join(yopp.command)} "$@"; }}\nset -o pipefail\n{line}\n'
    return subprocess.run(
        ["bash", "-c", script], env=yopp.environment, cwd=yopp.home, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_lines_of_several_containers_are_marked_and_the_highest_code_is_the_jobs(cluster: Yopp) -> None:
    ended = cluster(
        "run", "-n", "3", "-O", "sh", "-c", "echo I am $YOPP_TASK of $YOPP_TASKS; exit $YOPP_TASK", code=3
    )
    assert sorted(ended.stdout.splitlines()) == [f"[{n}] I am {n} of 3" for n in (1, 2, 3)]
    assert re.search(r"^application_\d+_\d{4}  3 opportunistic on 1 node", ended.stderr, re.M)
    assert re.search(r"^failed after [\d.]+ s: 3 failed$", ended.stderr, re.M)
    assert "task 2 ended with exit code 2" in ended.stderr
    plain = cluster("run", "-n", "2", "--no-prefix", "printf", "x")
    assert plain.stdout == "xx"
    assert "\x1b" not in ended.stderr + plain.stderr


def test_containers_have_the_callers_home_unless_told_of_another(cluster: Yopp) -> None:
    words = ("sh", "-c", 'echo "$HOME $LOGNAME"')
    mine = {"HOME": "/caller", "LOGNAME": "me"}
    assert cluster("run", *words, env=mine).stdout == "/caller me\n"
    assert cluster("run", "-e", "HOME=/x", *words, env=mine).stdout == "/x me\n"


def test_quiet_prints_the_id_and_json_the_document(cluster: Yopp) -> None:
    quiet = cluster("run", "-q", "echo", "not shown")
    assert re.fullmatch(r"application_\d+_\d{4}\n", quiet.stdout) and quiet.stderr == ""
    ended = cluster("run", "--json", "-n", "2", "sh", "-c", "exit 4", code=4)
    app = json.loads(ended.stdout)["app"]
    assert (app["finalStatus"], app["yopp"]["exit"]) == ("FAILED", 4)
    assert [task["exit"] for task in app["yopp"]["tasks"]] == [4, 4]
    refused = cluster("run", "--json", "nosuch", code=127)
    assert refused.stdout == "" and json.loads(refused.stderr)["yopp"]["exit"] == 127


def test_a_reader_that_goes_away_ends_the_job_quietly(cluster: Yopp) -> None:
    ended = bash(
        cluster,
        "yopp run -n 2 -O sh -c 'while :; do echo line; sleep 0.01; done' 2>err | head -1; cat err >&2",
    )
    assert ended.stdout.endswith("line\n") and ended.stdout.count("\n") == 1
    assert "Traceback" not in ended.stderr and "error" not in ended.stderr
    wait_until(lambda: not cluster.containers(), what="its containers are gone")
    assert last_app(cluster)["state"] == "KILLED"


def test_a_slow_reader_gets_everything(cluster: Yopp) -> None:
    ended = bash(cluster, "yopp run seq 1 200000 2>/dev/null | (sleep 1; md5sum); seq 1 200000 | md5sum")
    first, second = ended.stdout.split("\n")[:2]
    assert first == second


def test_a_closed_stdout_is_an_error_of_three_lines_or_quiet(cluster: Yopp) -> None:
    assert bash(cluster, "yopp run true >&-; echo $? >&2").stderr == "0\n"
    for stream, because in (("&-", "it is closed"), ("/dev/full", "no space left on device")):
        ended = bash(cluster, f"yopp run echo hello >{stream}; echo $? >&2")
        first, second, third, code = ended.stderr.splitlines()
        assert (first, second) == ("error: cannot write to standard output", f"  because: {because}")
        logs = Path(third.split()[-1])
        assert [file.read_text() for file in logs.glob("*/stdout")] == ["hello\n"]
        assert code == "1"
    assert bash(cluster, "yopp run sh -c 'echo hello; exit 7' >/dev/full; echo $? >&2").stderr.endswith("7\n")
    assert not cluster.containers()


def test_what_is_asked_wrongly_is_refused_with_its_code(cluster: Yopp) -> None:
    for arguments, code in (
        (("run", "-O", "-G", "true"), 2),
        (("run", "-n", "0", "true"), 2),
        (("run", "-n", "99999999", "true"), 2),
        (("run", "--memory", "-5", "true"), 2),
        (("run", "--vcores", "-1", "true"), 2),
        (("run", "--cwd", "/nonexistent", "true"), 2),
        (("run", "--env", "=x", "true"), 2),
        (("run", "--node", "elsewhere:1", "true"), 66),
        (("run", "--vcores", "9", "true"), 1),
        (("run", b"\xff\xfe"), 2),
        (("run", "-Dyarn.nosuch=1", "true"), 78),
        (("dshell",), 2),
        (("dshell", "--shell-command", "a", "--shell-script", "b"), 2),
        (("dshell", "--shell-script", "/nonexistent"), 127),
        (("dshell", "--shell-command", "true", "--container-type", "odd"), 2),
        (("dshell", "--shell-command", "true", "--queue", "nosuch"), None),
        (("pi", "0", "5"), 2),
        (("pi", "1000000", "5"), 2),
        (("pi", "5", "99999999999999999"), 2),
        (("pi", "--opportunistic-percent", "101", "5", "5"), 2),
    ):
        ended = cluster(*arguments, code=code)
        assert ended.returncode != 0 and ended.stdout == "", arguments
        assert ended.stderr.startswith("error: "), (arguments, ended.stderr)
        assert len(ended.stderr.strip().splitlines()) <= 3, (arguments, ended.stderr)
    assert not cluster.containers()


def test_a_time_limit_ends_the_job_with_124(cluster: Yopp) -> None:
    ended = cluster("run", "-n", "4", "-O", "--timeout", "1s", "sleep", "300", code=124)
    assert "time limit of 1 s" in ended.stderr
    assert not cluster.containers()


def test_a_failing_container_is_run_again_as_often_as_asked(cluster: Yopp, tmp_path: Path) -> None:
    count = tmp_path / "count"
    line = f"echo x >> {count}; test $(wc -l < {count}) -ge 3"
    cluster("run", "--retries", "1", "sh", "-c", line, code=1)
    assert count.read_text().count("x") == 2
    cluster("run", "--retries", "1", "sh", "-c", line)


def test_dshell_numbers_its_containers_and_localises_its_script(cluster: Yopp) -> None:
    script = cluster.home / "script.sh"
    script.write_text('echo $COLOUR $1 $2 from $YARN_SHELL_ID; test -z "$SECRET"\n')
    ended = cluster(
        "dshell", "-shell_script", str(script), "-shell_args", "a", "b", "-shell_env", "COLOUR=red",
        "-num_containers", "3", "-container_type", "OPPORTUNISTIC", "-log_properties", "x", env={"SECRET": "1"},
    )  # fmt: skip
    assert ended.stdout == ""
    assert "--log-properties has no effect" in ended.stderr
    app = last_app(cluster)
    logs = sorted(Path(app["yopp"]["logDirectory"]).glob("*/stdout"))
    assert sorted(path.read_text() for path in logs) == [f"red a b from {n}\n" for n in (1, 2, 3)]
    assert app["yopp"]["logDirectory"] in ended.stderr
    shown = cluster("dshell", "--shell-command", "echo", "--shell-args", "hi", "--follow")
    assert shown.stdout == "hi\n"


def test_dshell_retries_and_hadoops_exit_codes(cluster: Yopp, tmp_path: Path) -> None:
    count = tmp_path / "count"
    line = f"echo x >> {count}; test $(wc -l < {count}) -ge 3 || exit 9"
    options = (
        "-container_retry_policy",
        "2",
        "-container_retry_error_codes",
        "8,9",
        "-container_max_retries",
        "5",
    )
    cluster("dshell", "-shell_command", line, *options)
    assert count.read_text().count("x") == 3
    cluster("dshell", "-shell_command", "exit 9", code=9)
    cluster("dshell", "-shell_command", "exit 9", code=2, env={"YOPP_HADOOP_EXIT": "1"})
    cluster("dshell", code=255, env={"YOPP_HADOOP_EXIT": "1"})


def test_a_detached_pi_prints_its_lines_into_its_masters_log(cluster: Yopp) -> None:
    app = cluster("pi", "--detach", "4", "10", "-q").stdout.strip()
    cluster("wait", app, timeout=40)
    logs = Path(cluster.json("app", "status", app)["app"]["yopp"]["logDirectory"])
    wait_until(
        lambda: any(
            "Estimated value of Pi is 3.40000000000000000000" in p.read_text() for p in logs.glob("*/stdout")
        ),
        what="the estimate in the master's log",
    )
    wait_until(lambda: not list(cluster.home.rglob("QuasiMonteCarlo_*")), what="the job's files are gone")


def test_pi_leaves_no_files_and_clears_those_of_a_killed_client(cluster: Yopp) -> None:
    job = cluster.start("pi", "40", "20000000")
    wait_until(lambda: running(cluster) == 2, what="maps run")
    assert len(list(cluster.home.rglob("part39"))) == 1
    job.kill()
    job.communicate()
    wait_until(lambda: not cluster.containers(), what="its containers are gone")
    ended = cluster("pi", "--json", "4", "10")
    assert json.loads(ended.stdout)["app"]["yopp"]["pi"] == {
        "estimate": "3.40000000000000000000",
        "inside": 34,
        "total": 40,
    }
    assert not list(cluster.home.rglob("QuasiMonteCarlo_*"))


def test_a_failed_map_fails_the_job_as_in_hadoop(cluster: Yopp) -> None:
    ended = cluster(
        "pi", "-Dmapreduce.map.memory.mb=1", "-Dmapreduce.map.maxattempts=2", "2", "10", code=None
    )
    if ended.returncode == 0:
        pytest.skip("nothing here holds a process to 1 MB")
    assert re.search(r"^Job job_\d+_\d{4} failed!$", ended.stdout, re.M)
    assert "Estimated" not in ended.stdout
    assert not list(cluster.home.rglob("QuasiMonteCarlo_*"))


def test_a_job_that_somebody_kills_says_so(cluster: Yopp) -> None:
    job = cluster.start("run", "-n", "3", "-O", "sleep", "300")
    wait_until(lambda: running(cluster) == 2, what="it runs")
    cluster("app", "kill", last_app(cluster)["id"], "-y", code=None)
    _out, err = job.communicate(timeout=20)
    assert job.returncode == 143
    assert err.splitlines()[-1].startswith(("error: ", "  ")) and "Traceback" not in err


def test_jobs_without_a_cluster_share_one_and_leave_nothing(yopp: Yopp) -> None:
    jobs = [yopp.start("run", "sh", "-c", "sleep 0.5; echo done") for _ in range(3)]
    results = [job.communicate(timeout=60) for job in jobs]
    assert [(job.returncode, out) for job, (out, _) in zip(jobs, results, strict=True)] == [(0, "done\n")] * 3
    assert 1 <= sum("started one for this job" in err for _, err in results) <= 2
    wait_until(lambda: not yopp.leftovers(), what="all of it is gone")
    again = [yopp("run", "-q", "true") for _ in range(2)]
    assert all(ended.stdout.startswith("application_") for ended in again)
    wait_until(lambda: not yopp.leftovers(), what="it is gone again")


def test_starting_a_cluster_can_be_forbidden(yopp: Yopp) -> None:
    ended = yopp("run", "-Dyopp.on-demand.enabled=false", "true", code=69)
    assert ended.stderr.splitlines()[-1].strip() == "hint: yopp up"
    assert not yopp.leftovers()


def test_ctrl_c_while_a_cluster_is_started_leaves_nothing(yopp: Yopp) -> None:
    for reached in ("lock", "rm.pid", "rm.sock", "nm-45454.sock"):
        wait_until(lambda: not (yopp.run_dir / "rm.pid").exists(), what="the one before has cleared up")
        (yopp.run_dir / "lock").unlink(missing_ok=True)
        job = yopp.start("run", "-n", "2", "-O", "sleep", "300")
        step = yopp.run_dir / reached
        wait_until(step.exists, what=f"the start has come to {reached}")
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=30)
        assert job.returncode in (130, -signal.SIGINT)
        wait_until(lambda: not yopp.leftovers(), what="all of it is gone")


def test_on_a_terminal_the_last_word_begins_a_line_of_its_own(cluster: Yopp) -> None:
    primary, secondary = pty.openpty()
    job = cluster.start("run", "printf", "no end of line", stdout=secondary, stderr=secondary)
    os.close(secondary)
    seen = read_terminal(primary)
    assert job.wait(30) == 0
    assert re.search(r"no end of line\r\n(.*\r\n)?done in", seen, re.S), seen


def test_on_a_terminal_progress_is_drawn_and_taken_away(cluster: Yopp) -> None:
    primary, secondary = pty.openpty()
    gate = cluster.home / "gate"  # the first two run until they have been seen
    script = f"until test -e {gate}; do sleep 0.05; done; echo out"
    job = cluster.start("run", "-n", "4", "-O", "sh", "-c", script, stdout=subprocess.PIPE, stderr=secondary)
    os.close(secondary)
    bar = r"\r\x1b\[K\[.*\] \d+ s  2 running, 2 queued"
    text = read_terminal(primary, lambda seen: gate.touch() if re.search(bar.encode(), seen) else None)
    out, _ = job.communicate(timeout=30)
    assert job.returncode == 0
    assert sorted(out.splitlines()) == [f"[{n}] out" for n in (1, 2, 3, 4)]
    assert re.search(bar, text), text
    assert text.rstrip().split("\r\x1b[K")[-1].lstrip().startswith("done in"), text


def test_a_detached_job_larger_than_any_node_is_refused_at_once(yopp: Yopp) -> None:
    yopp("up", "--vcores", "2", "--memory", "1024")
    refused = yopp("run", "--detach", "--memory", "2G", "true", code=1)
    assert "the largest node has <memory:1024, vCores:2>" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 3
    assert refused.stdout == ""
    assert not yopp.json("app", "list", "-a")["apps"]
