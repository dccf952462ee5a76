"""The document's quick guide, on real daemons: its commands verbatim, and what they promise."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time

import pytest

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live


PI = (
    "hadoop jar share/hadoop/mapreduce/hadoop-mapreduce-examples-3.4.0-SNAPSHOT.jar"
    ' pi -Dmapreduce.job.num-opportunistic-maps-percent="40" 50 100'
)
DSHELL = (
    "yarn org.apache.hadoop.yarn.applications.distributedshell.Client -jar"
    " share/hadoop/yarn/hadoop-yarn-applications-distributedshell-3.4.0-SNAPSHOT.jar.jar"
    " -shell_command sleep -shell_args 3 -num_containers 10 -container_type OPPORTUNISTIC"
)


def verbatim(yopp: Yopp, line: str) -> subprocess.CompletedProcess[str]:
    """A line as it is typed into bash, with the aliases of the README."""
    program = shlex.join(yopp.command)
    script = (
        f"shopt -s expand_aliases\nalias hadoop={shlex.quote(program)} yarn={shlex.quote(program)}\n{line}\n"
    )
    return subprocess.run(
        ["bash", "-c", script], env=yopp.environment, cwd=yopp.home, capture_output=True, text=True, timeout=120,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def counted(yopp: Yopp) -> dict[str, int]:
    """Live task containers by shown state."""
    states: dict[str, int] = {}
    for container in yopp.containers():
        state = container["yopp"]["state"]
        states[state] = states.get(state, 0) + 1
    return states


def test_the_documents_pi_command_verbatim_with_no_cluster_running(yopp: Yopp) -> None:
    ended = verbatim(yopp, PI)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[:2] == ["Number of Maps  = 50", "Samples per Map = 100"]
    assert lines[2:52] == [f"Wrote input for Map #{number}" for number in range(50)]
    assert lines[52] == "Starting Job"
    assert re.fullmatch(r"Job Finished in \d+(\.\d+)? seconds", lines[53])
    assert lines[54:] == ["Estimated value of Pi is 3.14160000000000000000"]
    assert "20 opportunistic" in ended.stderr
    assert "31 guaranteed" in ended.stderr or "30 guaranteed" in ended.stderr
    wait_until(lambda: not yopp.leftovers(), what="the on-demand cluster ended itself")
    assert yopp("status", code=3)


def test_the_documents_dshell_command_verbatim(cluster: Yopp) -> None:
    begun = time.monotonic()
    cluster("ps")
    if (call := time.monotonic() - begun) > 0.6:
        pytest.skip(f"a call takes {call:.1f} s now: too slow for four looks at what lasts three seconds")
    job = subprocess.Popen(
        ["bash", "-c", "exec " + DSHELL.replace("yarn ", shlex.join(cluster.command) + " ", 1)],
        env=cluster.environment, cwd=cluster.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    cluster.started.append(job)
    wait_until(lambda: counted(cluster) == {"RUNNING": 2, "QUEUED": 8}, what="2 run and 8 queue")
    listing = cluster.look("ps")
    assert listing.count("QUEUED") == 8
    assert listing.count("RUNNING") == 2
    node = cluster.json("node", "list")["nodes"]["node"][0]
    assert (node["numRunningOpportContainers"], node["numQueuedContainers"]) == (2, 8)
    guaranteed = cluster("run", "-G", "echo", "at once")  # at once: one of the others is preempted for it
    assert guaranteed.stdout == "at once\n"
    _, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    app = cluster.json("app", "list", "-a")["apps"]["app"][0]
    assert app["finalStatus"] == "SUCCEEDED"
    assert app["yopp"]["containers"]["preempted"] == 1
    done = [c for c in cluster.containers("-a", "--app", app["id"]) if c["exitCode"] == 0]
    assert len(done) == 10
    assert [c for c in cluster.containers("-a", "--app", app["id"]) if c["exitCode"] == -108]


@pytest.mark.parametrize(
    ("maps", "samples", "estimate"),
    [
        (1, 1, "4.00000000000000000000"),
        (4, 10, "3.40000000000000000000"),
        (10, 100, "3.14800000000000000000"),
    ],
)
def test_pi_of_other_sizes_gives_hadoops_digits(shared: Yopp, maps: int, samples: int, estimate: str) -> None:
    assert (
        shared("pi", str(maps), str(samples)).stdout.splitlines()[-1]
        == f"Estimated value of Pi is {estimate}"
    )


def test_output_exit_code_environment_and_directory_are_the_callers(shared: Yopp) -> None:
    ended = shared(
        "run", "sh", "-c", "pwd; echo $COLOUR; echo oops >&2; exit 7", code=7, env={"COLOUR": "green"}
    )
    assert ended.stdout == f"{os.path.realpath(shared.home)}\ngreen\n"
    assert "oops" in ended.stderr
    assert shared("logs", "last").stdout.splitlines()[:2] == [os.path.realpath(shared.home), "green"]
    assert shared("wait", "last", code=7)


def test_what_cannot_be_started_is_refused_before_anything_is(yopp: Yopp) -> None:
    missing = yopp("run", "no-such-command-here", code=127)
    assert missing.stderr.splitlines()[0].startswith("error: ")
    assert len(missing.stderr.strip().splitlines()) == 3
    (yopp.home / "plain").write_text("not a program")
    assert "plain" in yopp("run", "./plain", code=126).stderr
    assert not yopp.leftovers()
    assert not (yopp.run_dir / "rm.sock").exists()


def test_a_container_larger_than_any_node_is_refused_and_says_what_there_is(shared: Yopp) -> None:
    ended = shared("run", "--memory", "1P", "true", code=None)
    assert ended.returncode not in (0, None)
    assert "1024" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 3
    assert not shared.containers()


def test_ctrl_c_stops_the_job_and_leaves_nothing(shared: Yopp) -> None:
    job = shared.start("run", "-n", "4", "-O", "sleep", "300")
    wait_until(lambda: counted(shared) == {"RUNNING": 2, "QUEUED": 2}, what="the job is under way")
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=20)
    assert job.returncode == 130, err
    assert not shared.containers()
    assert shared.json("app", "list", "-a", "--sort", "id")["apps"]["app"][-1]["finalStatus"] == "KILLED"


def test_kill_of_the_client_ends_its_job(shared: Yopp) -> None:
    job = shared.start("run", "-n", "4", "-O", "sleep", "300")
    wait_until(lambda: counted(shared) == {"RUNNING": 2, "QUEUED": 2}, what="the job is under way")
    job.kill()
    job.communicate()
    wait_until(lambda: not shared.containers(), what="its containers are gone")
    app = shared.json("app", "list", "-a", "--sort", "id")["apps"]["app"][-1]
    assert app["finalStatus"] in ("FAILED", "KILLED")
    assert "client" in app["diagnostics"]


def test_containers_outlive_their_nm_and_are_found_again(cluster: Yopp) -> None:
    gate = cluster.home / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo done"
    job = cluster.start("run", "-n", "3", "-O", "sh", "-c", script)
    wait_until(lambda: counted(cluster) == {"RUNNING": 2, "QUEUED": 1}, what="the job is under way")
    before = {c["id"]: c["yopp"]["pid"] for c in cluster.containers()}
    nm = cluster.json("status")["clusterInfo"]["yopp"]["nms"][0]["pid"]
    os.kill(nm, signal.SIGKILL)
    cluster("up", "--vcores", "2", "--memory", "1024")
    wait_until(
        lambda: {c["id"]: c["yopp"]["pid"] for c in cluster.containers()} == before, what="all found again"
    )
    gate.touch()
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    assert out.count("done") == 3


def test_a_killed_container_of_a_job_is_told_as_it_is(shared: Yopp) -> None:
    job = shared.start("run", "sleep", "300")
    container = wait_until(
        lambda: [c for c in shared.containers() if c["yopp"]["state"] == "RUNNING"], what="it runs"
    )[0]
    os.kill(container["yopp"]["pid"], signal.SIGKILL)
    job.communicate(timeout=20)
    assert job.returncode == 137


def test_what_a_detached_job_is_promised_holds(yopp: Yopp) -> None:
    alone = yopp("run", "--detach", "echo", "hi")
    app = alone.stdout.strip()
    assert f"`yopp logs -f {app}`" in alone.stderr and "yopp wait" not in alone.stderr
    assert "hi" in yopp("logs", "-f", app).stdout
    wait_until(lambda: not yopp.leftovers(), what="its cluster has ended with it")
    assert "hi" in yopp("logs", app).stdout
    yopp("up", "--vcores", "1", "--memory", "1024")
    told = yopp("run", "--detach", "echo", "hi")
    assert f"`yopp wait {told.stdout.strip()}`" in told.stderr
    yopp("wait", told.stdout.strip())


def test_detached_jobs_survive_their_client(shared: Yopp) -> None:
    app = shared("run", "--detach", "-n", "2", "-O", "sh", "-c", "sleep 1; exit 5", "-q").stdout
    app = app or shared("app", "list", "-a", "-q").stdout.splitlines()[-1]
    assert shared("wait", app.strip(), timeout=40, code=5)
    assert shared.json("app", "status", app.strip())["app"]["yopp"]["exit"] == 5


def test_up_is_idempotent_and_refuses_other_settings(cluster: Yopp) -> None:
    pid = cluster.json("status")["clusterInfo"]["yopp"]["rm"]["pid"]
    cluster("up", "--vcores", "2", "--memory", "1024")
    assert cluster.json("status")["clusterInfo"]["yopp"]["rm"]["pid"] == pid
    refused = cluster("up", "--vcores", "1", "--memory", "1024", code=1)
    assert "vcores" in refused.stderr
    cluster("down")
    cluster("down")
    assert not cluster.leftovers()
