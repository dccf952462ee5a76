"""The life of a cluster on real daemons: up, joined, refused, killed, cleared, on demand, down."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.cluster.launching import daemon_of
from yarnopp_cli.cluster.processes import ProcessId, wait_for_end
from yarnopp_cli.cluster.rundir import RunDir

from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live

SMALL = ("--vcores", "1", "--memory", "512")


def daemons(yopp: Yopp) -> dict[str, Any]:
    """What `yopp status --json` says of the daemons."""
    found: dict[str, Any] = yopp.json("status", code=None)["clusterInfo"]["yopp"]
    return found


def lives(pid: int) -> bool:
    """Whether it runs; what has ended and was not reaped yet does not."""
    return ProcessId.of(pid) is not None


def kill(pid: int) -> None:
    """kill -9, and wait until it has ended."""
    process = ProcessId.of(pid)
    assert process is not None
    process.send(signal.SIGKILL)
    assert not wait_for_end([process], 10)


def test_from_nothing_to_nothing(yopp: Yopp) -> None:
    assert yopp("status", code=3).stdout.startswith("stopped")
    assert yopp("down").stdout == "down: nothing was running\n"
    assert not yopp.run_dir.exists()
    said = yopp("up", *SMALL).stdout
    assert str(yopp.run_dir / "rm.sock") in said
    assert ":45454 (1 vcore, 512 MB)" in said
    assert yopp.run_dir.stat().st_mode & 0o777 == 0o700
    assert (yopp.run_dir / "site.json").stat().st_mode & 0o777 == 0o600
    first = daemons(yopp)
    assert yopp("status").returncode == 0
    assert yopp("up").stdout == said
    assert yopp("up", *SMALL).stdout == said
    assert daemons(yopp) == first
    assert "ended rm, nm-45454" in yopp("down").stdout
    assert yopp("status", code=3)
    assert yopp("down").stdout == "down: nothing was running\n"
    assert not yopp.leftovers()
    assert sorted(path.name for path in yopp.run_dir.iterdir()) == ["lock", "nm-45454.log", "rm.log", "state"]


def test_other_settings_are_refused_by_name_and_nothing_changes(yopp: Yopp) -> None:
    yopp("up", "--nodes", "2", *SMALL)
    first = daemons(yopp)
    queue = "yarn.nodemanager.opportunistic-containers-max-queue-length"
    refused = yopp("up", "--nodes", "3", "--memory", "768", f"-D{queue}=7", code=1)
    assert refused.stdout == ""
    error, because, hint = refused.stderr.splitlines()
    assert error == "error: the cluster is running with other settings"
    assert "running with nodes=2, you asked for 3" in because
    assert "running with memory=512, you asked for 768" in because
    assert f"running with {queue}=10, you asked for 7 (-D)" in because
    assert "yopp down" in hint
    assert "vcores" not in because
    others = [
        f"-Dyopp.nodemanager.pressure.{one}-ms=99" for one in ("sampling-interval", "quiet", "sustained")
    ]
    many = yopp("up", "--nodes", "3", "--memory", "768", f"-D{queue}=7", *others, code=1)
    assert many.stderr.count("running with ") == 1 + 5 and "; and 1 more" in many.stderr
    yopp("up", "--nodes", "2")
    assert daemons(yopp) == first
    assert [node["state"] for node in first["nms"]] == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--nodes", "0"), 2, "--nodes 0"),
        (("--memory", "999T"), 1, "cannot be promised"),
        (("--nodes", "1000"), 1, "1000 nodes"),
        (("--nodes", "1000", "--vcores", "1"), 1, "1000 nodes"),
        (("-Dyarn.nodemanager.vmem=1",), 78, "yarn.nodemanager.vmem"),
        (("--run-dir", "/proc/yopp"), 1, "/proc/yopp"),
    ],
)
def test_what_cannot_be_is_refused_in_three_lines_with_nothing_started(
    yopp: Yopp, arguments: tuple[str, ...], code: int, says: str
) -> None:
    refused = yopp("up", *arguments, code=code)
    lines = refused.stderr.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert says in lines[0]
    assert [line.split(":")[0].strip() for line in lines[1:]] in (["because", "hint"], ["hint"])
    assert yopp("status", code=3)
    assert not yopp.leftovers()


def test_more_vcores_than_cores_are_promised_with_a_warning(yopp: Yopp) -> None:
    said = yopp("up", "--vcores", "64", "--memory", "256")
    assert "warning: 64 vcores are promised" in said.stderr


def test_the_same_daemon_is_found_from_cron(cluster: Yopp) -> None:
    pid = daemons(cluster)["rm"]["pid"]
    bare = subprocess.run(
        ["env", "-i", f"PYTHONPATH={cluster.environment['PYTHONPATH']}", *cluster.command,
         "--version"], capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert bare.returncode == 0
    seen = subprocess.run(
        ["env", "-i", f"PYTHONPATH={cluster.environment['PYTHONPATH']}", *cluster.command,
         "status", "--json", "--run-dir", str(cluster.run_dir)],
        capture_output=True, text=True, timeout=30, cwd="/",
    )  # fmt: skip
    assert seen.returncode == 0, seen.stderr
    assert f'"pid":{pid}' in seen.stdout


def test_a_killed_rm_is_told_and_started_again(yopp: Yopp) -> None:
    yopp("up", *SMALL)
    before = daemons(yopp)
    kill(before["rm"]["pid"])
    told = yopp("status", code=4)
    assert "`yopp up` starts it, and continues its applications" in told.stderr
    assert yopp("rm", "status", code=3)
    yopp("up", *SMALL)
    after = daemons(yopp)
    assert after["rm"]["pid"] != before["rm"]["pid"]
    assert after["nms"] == before["nms"]
    assert yopp("run", "echo", "again").stdout == "again\n"


def test_a_killed_nm_comes_back_with_its_port_and_size(yopp: Yopp) -> None:
    yopp("up", "--nodes", "2", *SMALL)
    before = daemons(yopp)
    kill(before["nms"][1]["pid"])
    told = yopp("status", code=4)
    assert "45455" in told.stderr
    yopp("up")
    after = daemons(yopp)
    assert [node["node"] for node in after["nms"]] == [node["node"] for node in before["nms"]]
    assert [(node["memoryMB"], node["vcores"]) for node in after["nms"]] == [(512, 1), (512, 1)]
    assert after["nms"][0] == before["nms"][0]
    assert after["nms"][1]["pid"] != before["nms"][1]["pid"]


def test_down_clears_up_after_daemons_that_were_killed(yopp: Yopp) -> None:
    yopp("up", "--vcores", "2", "--memory", "1024")
    job = yopp.start("run", "-n", "2", "sleep", "300")
    running = wait_until(
        lambda: len(c := [c for c in yopp.containers() if c["yopp"]["state"] == "RUNNING"]) == 2 and c,
        what="both run",
    )
    seen = daemons(yopp)
    kill(seen["rm"]["pid"])
    kill(seen["nms"][0]["pid"])
    job.kill()
    job.communicate()
    pids = [container["yopp"]["pid"] for container in running]
    assert all(lives(pid) for pid in pids)
    told = yopp("status", code=3)
    assert "yopp down" in told.stderr
    assert "its 2 containers" in yopp("down", code=2).stderr
    assert "ended 2 containers left by dead nodes" in yopp("down", "-y").stdout
    wait_until(lambda: not any(lives(pid) for pid in pids), what="the containers are gone")
    assert not yopp.leftovers()
    assert yopp("status", code=3).stderr == ""


def test_up_after_everything_was_killed(yopp: Yopp) -> None:
    yopp("up", *SMALL)
    seen = daemons(yopp)
    kill(seen["rm"]["pid"])
    kill(seen["nms"][0]["pid"])
    assert (yopp.run_dir / "rm.sock").exists()
    yopp("up", *SMALL)
    assert yopp("run", "echo", "alive").stdout == "alive\n"


QUEUE = "yarn.nodemanager.opportunistic-containers-max-queue-length"


def all_killed(yopp: Yopp) -> dict[str, Any]:
    """A cluster of two nodes with an own property, all of whose daemons die; what status said of it before."""
    yopp("up", "--nodes", "2", *SMALL, f"-D{QUEUE}=7")
    seen = daemons(yopp)
    for daemon in (seen["rm"], *seen["nms"]):
        kill(daemon["pid"])
    return seen


def as_it_was(seen: dict[str, Any]) -> tuple[Any, ...]:
    nodes = [(one["node"], one["state"], one["memoryMB"], one["vcores"]) for one in seen["nms"]]
    return seen["lifetime"], seen["properties"], nodes


@pytest.mark.parametrize("words", ["up", f"run -D{QUEUE}=8 echo there"])
def test_a_cluster_that_lost_all_daemons_is_started_as_it_was(yopp: Yopp, words: str) -> None:
    yopp("up", "--nodes", "2", *SMALL, f"-D{QUEUE}=7")
    waiting = yopp("run", "-q", "-d", "--begin", "+1d", "true").stdout.strip()
    before = all_killed(yopp)
    said = yopp(*words.split())
    if words != "up":
        assert said.stdout == "there\n"
        first, second = said.stderr.splitlines()
        assert first == "restarted rm, nm-45454, nm-45455 of the cluster, which stays until `yopp down`"
        assert second.startswith("warning: the cluster was restarted as it was, and -D does not change: ")
        assert f"running with {QUEUE}=7, you asked for 8 (-D)" in second
    assert as_it_was(daemons(yopp)) == as_it_was(before)
    assert waiting in yopp("app", "list").stdout


def test_an_rm_that_is_started_alone_keeps_the_configuration_of_its_cluster(yopp: Yopp) -> None:
    before = all_killed(yopp)
    yopp("rm", "start")
    yopp("nm", "start")
    seen = daemons(yopp)
    assert as_it_was(seen) == as_it_was(before)
    for daemon in (seen["rm"], *seen["nms"]):
        kill(daemon["pid"])
    yopp("rm", "start", f"-D{QUEUE}=8")
    assert daemons(yopp)["properties"][QUEUE] == "8"


def test_up_with_other_options_starts_a_dead_cluster_with_those(yopp: Yopp) -> None:
    all_killed(yopp)
    yopp("up", "--nodes", "1", *SMALL)
    after = daemons(yopp)
    assert (len(after["nms"]), after["properties"][QUEUE]) == (1, "10")


@pytest.mark.parametrize("broken", ["rm", "nm"])
def test_a_start_that_fails_leaves_the_plan(yopp: Yopp, broken: str) -> None:
    """The RM fails while the command holds the lock, the nodes afterwards."""
    before = all_killed(yopp)
    path = yopp.run_dir / ("state/rm" if broken == "rm" else "state/nm-local-dir")
    moved = path.rename(yopp.home / "moved")
    path.symlink_to("/dev/null")
    files = {name: (yopp.run_dir / name).read_text() for name in ("site.json", "nodes.json")}
    for words in (("run", "true"), ("up",), ("up", "--nodes", "1", *SMALL)):
        refused = yopp(*words, code=None)
        assert refused.returncode not in (0, 70) and "hint: " in refused.stderr
        assert {name: (yopp.run_dir / name).read_text() for name in files} == files
        assert yopp("status", code=3)
        assert not [one for one in yopp.leftovers() if one.startswith("process ")]
    path.unlink()
    moved.rename(path)
    assert yopp("run", "echo", "there").stdout == "there\n"
    assert as_it_was(daemons(yopp)) == as_it_was(before)


def test_down_asks_where_containers_run(cluster: Yopp) -> None:
    cluster.start("run", "sleep", "300")
    wait_until(lambda: cluster.containers(), what="the job is under way")
    refused = cluster("down", code=2)
    assert "-y" in refused.stderr
    assert cluster("status").returncode == 0
    cluster("down", "-y")
    assert not [line for line in cluster.leftovers() if "sleep" not in line and " run " not in line]


def test_down_forces_a_daemon_that_hangs(yopp: Yopp) -> None:
    yopp("up", *SMALL)
    nm = daemons(yopp)["nms"][0]["pid"]
    os.kill(nm, signal.SIGSTOP)
    yopp("down", "--force", "--timeout", "1")
    assert not lives(nm)
    assert yopp("status", code=3)


def test_the_end_of_a_job_is_known_after_its_cluster_has_ended(yopp: Yopp) -> None:
    first, second = (yopp("run", "-q", "-d", "sh", "-c", f"exit {code}").stdout.strip() for code in (4, 0))
    wait_until(lambda: not yopp.leftovers(), what="the on-demand cluster has ended")
    assert yopp("wait", first, code=4).stdout == f"{first} FINISHED FAILED, exit 4\n"
    assert yopp("wait", first, second, code=4).stdout.count("FINISHED") == 2
    yopp("wait", "last")
    yopp("wait", "application_1_0009", code=69)
    yopp("up", *SMALL)
    third = yopp("run", "-q", "-d", "sh", "-c", "sleep 0.5; exit 5").stdout.strip()
    told = yopp("wait", first, third, code=5).stdout
    assert f"{first} FINISHED FAILED, exit 4" in told and f"{third} FINISHED FAILED, exit 5" in told
    yopp("wait", first, "--joblog", "log", code=66)


def test_two_jobs_at_the_same_moment_share_one_cluster_that_ends_itself(yopp: Yopp) -> None:
    jobs = [yopp.start("run", "--memory", "64", "sh", "-c", "sleep 0.5; echo done") for _ in range(2)]
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert (job.returncode, out) == (0, "done\n"), err
    wait_until(lambda: not yopp.leftovers(), what="the on-demand cluster has ended")
    assert (yopp.run_dir / "rm.log").read_text().count("is ready") in (
        1,
        2,
    )  # 2 if one came when it was ending
    assert yopp("status", code=3).stderr == ""


def test_up_makes_an_on_demand_cluster_stay(yopp: Yopp) -> None:
    job = yopp.start("run", "sh", "-c", "until test -e go; do sleep 0.05; done; echo done")
    wait_until(lambda: yopp("status", code=None).returncode == 0, what="its cluster runs")
    pid = daemons(yopp)["rm"]["pid"]
    yopp("up")
    assert daemons(yopp)["lifetime"] == "stay"
    (yopp.home / "go").touch()
    out, err = job.communicate(timeout=60)
    assert (job.returncode, out) == (0, "done\n"), err
    assert daemons(yopp)["rm"]["pid"] == pid


def test_single_daemons(yopp: Yopp) -> None:
    assert yopp("nm", "start", code=69)
    yopp("rm", "start")
    assert yopp("rm", "status")
    assert yopp("nm", "status", code=3)
    assert "no node" in yopp("status", code=4).stderr
    yopp("nm", "start", *SMALL)
    assert yopp("nm", "status")
    assert "already running" in yopp("nm", "start").stderr
    yopp("nm", "start", *SMALL)
    assert [node["node"].rpartition(":")[2] for node in daemons(yopp)["nms"]] == ["45454", "45455"]
    assert "which node" in yopp("nm", "stop", code=2).stderr
    yopp("nm", "stop", "45455")
    assert yopp("nm", "status", "45455", code=3)
    assert yopp("nm", "status", "45454")
    yopp("nm", "start", "45455")
    assert yopp("status")
    before = daemons(yopp)["rm"]["pid"]
    yopp("rm", "restart")
    assert daemons(yopp)["rm"]["pid"] != before
    assert yopp("status"), "the nodes have joined the new one"
    assert yopp("nm", "status", "12345", code=66)


def test_an_rm_of_its_own_stays_after_a_cluster_of_a_job(yopp: Yopp) -> None:
    yopp("run", "true")
    wait_until(lambda: not yopp.leftovers(), what="the on-demand cluster has ended")
    yopp("rm", "start")
    told = yopp("status", code=4)
    assert "no node" in told.stderr and "until `yopp down`" in told.stdout
    kill(daemons(yopp)["rm"]["pid"])
    yopp("rm", "start")
    yopp("nm", "start", *SMALL)
    kill(daemons(yopp)["rm"]["pid"])
    assert yopp("run", "echo", "there").stdout == "there\n"
    assert daemons(yopp)["lifetime"] == "stay"


def test_daemons_in_the_foreground(yopp: Yopp) -> None:
    rm = yopp.start("rm", "run")
    wait_until(lambda: (yopp.run_dir / "rm.sock").exists(), what="the RM listens")
    nm = yopp.start("nm", "run", *SMALL)
    wait_until(lambda: yopp("status", code=None).returncode == 0, what="the node has registered")
    seen = daemons(yopp)
    assert (seen["rm"]["pid"], seen["nms"][0]["pid"]) == (rm.pid, nm.pid)
    assert "already running" in yopp("rm", "run", code=1).stderr
    assert yopp("run", "echo", "here").stdout == "here\n"
    for process in (nm, rm):
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0
    assert yopp("status", code=3)


def test_containers_that_are_kept_are_told_and_ended_by_the_next_down(yopp: Yopp) -> None:
    yopp("up", "--vcores", "2", "--memory", "2048")
    yopp("run", "--detach", "-n", "2", "sleep", "300")
    running = wait_until(
        lambda: len(c := [c for c in yopp.containers() if c["yopp"]["state"] == "RUNNING"]) == 2 and c,
        what="both run",
    )
    yopp("down", "--keep-containers")
    pids = [container["yopp"]["pid"] for container in running if "sleep" in str(container)]
    assert pids
    assert all(lives(pid) for pid in pids)
    assert "containers are still running without a cluster" in yopp("status", code=3).stderr
    assert (
        "has not ended\n  because: it was RUNNING when its cluster stopped"
        in yopp("wait", "last", code=69).stderr
    )
    assert "was RUNNING when its cluster stopped" in yopp("explain", "last").stdout
    assert "ended" in yopp("down", "-y").stdout
    assert not any(lives(pid) for pid in pids)
    assert not yopp.leftovers()


def test_two_ups_at_the_same_moment(yopp: Yopp) -> None:
    both = [yopp.start("up", *SMALL) for _ in range(2)]
    said = []
    for one in both:
        out, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
        said.append(out)
    assert said[0] == said[1]
    assert (yopp.run_dir / "rm.log").read_text().count("is ready") == 1


def test_a_port_that_is_taken_is_refused_with_nothing_left(yopp: Yopp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused = yopp("up", *SMALL, f"-Dyarn.resourcemanager.address=127.0.0.1:{port}", code=None)
    assert refused.returncode not in (0, 70)
    assert str(port) in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 3
    assert yopp("status", code=3).stderr == ""
    assert not yopp.leftovers()
    assert not (yopp.run_dir / "nodes.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_starts_nothing(yopp: Yopp) -> None:
    small = yopp.home / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", small], check=False
    ).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        with open(small / "ballast", "wb") as ballast, contextlib.suppress(OSError):
            ballast.write(b"x" * 65536)
        refused = yopp("up", *SMALL, "--run-dir", str(small / "run"), code=1)
        assert "no space left on device" in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 3
        assert yopp("status", "--run-dir", str(small / "run"), code=3)
        assert not [line for line in yopp.leftovers() if str(small) in line]
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def fill(place: Path) -> None:
    """Leave no byte on a file system, until its file ``ballast`` is removed."""
    with open(place / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError) as full:
        while True:
            ballast.write(bytes(1 << 12))
    assert full.value.errno == errno.ENOSPC


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_disk_that_is_full_for_a_while_fails_no_task(yopp: Yopp) -> None:
    """Its node says that it is unhealthy, gets nothing, and is well again as soon as there is room."""
    small = yopp.home / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", str(small)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        places = [f"-Dyarn.nodemanager.{kind}-dirs={small}/{kind}" for kind in ("local", "log")]
        yopp("up", *SMALL, *places, "-Dyarn.nodemanager.disk-health-checker.interval-ms=500")
        job = yopp.start("run", "-n", "100", "--retries", "0", "--", "sleep", "0.1")
        wait_until(lambda: yopp.containers("--state", "RUNNING"), what="it runs")
        fill(small)
        ill = wait_until(
            lambda: [one for one in yopp.json("node", "list", "-a")["nodes"]["node"] if one["healthReport"]],
            what="its node is unhealthy",
        )
        assert ill[0]["state"] == "UNHEALTHY" and "No space left on device" in ill[0]["healthReport"]
        (small / "ballast").unlink()
        assert job.wait(60) == 0, job.communicate()
        told = yopp("events", "--json", "--since", "0").stdout.splitlines()
        kinds = [json.loads(line)["kind"] for line in told]
        assert [kind for kind in kinds if "ealthy" in kind] == ["NodeUnhealthy", "NodeHealthy"]
        yopp("down", "-y")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_what_cannot_be_stored_is_not_accepted(yopp: Yopp) -> None:
    """Only the submission that finds the disk full is accepted all the same, and stored once there is room."""
    small = yopp.run_dir / "state" / "rm"
    for directory in (yopp.run_dir, small.parent, small):
        directory.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", str(small)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yopp("up", *SMALL, "-Dyarn.resourcemanager.recovery.enabled=true")
        fill(small)
        later = ("run", "-q", "-d", "--begin", "+1h", "true")
        wait_until(lambda: yopp(*later, code=None).returncode, what="one is refused")
        refused = yopp(*later, code=1)
        assert "state.db" in refused.stderr and "Traceback" not in refused.stderr
        known = yopp("app", "list", "-q").stdout.split()
        (small / "ballast").unlink()
        known += yopp(*later).stdout.split()
        yopp("rm", "restart")
        assert yopp("app", "list", "-q").stdout.split() == known
        yopp("down", "-y")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.parametrize("then", ["up", "down"])
def test_a_daemon_whose_starter_was_killed_is_found_before_it_has_a_pid_file(yopp: Yopp, then: str) -> None:
    run_dir = RunDir.of(str(yopp.run_dir))

    def begun() -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if daemon_of(pid, run_dir)]

    for _ in range(3):
        starter = yopp.start("up", *SMALL)
        wait_until(begun, what="a daemon begins")
        starter.kill()
        starter.wait()
        for pid in begun() if then == "down" else ():
            os.kill(pid, signal.SIGSTOP)
        yopp(then, *(SMALL if then == "up" else ()))
        yopp("down")
        assert not begun()
