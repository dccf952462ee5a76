"""A run directory that somebody cleared or garbled leaves no daemon unseen, and stops no command."""

from __future__ import annotations

import os
import shutil

import psutil
import pytest

from yarnopp_cli.cluster.processes import wait_for_end
from yarnopp_cli.cluster.rundir import RunDir

from .conftest import Yopp, wait_until
from .test_trouble import daemon

pytestmark = pytest.mark.live
NM = "nm-45454"
NOTICED = 5.0
"""Seconds within which a daemon notices that its place was changed."""


def test_daemons_whose_files_were_removed_end_with_their_containers(cluster: Yopp) -> None:
    cluster("run", "--detach", "sleep", "1234")
    (container,) = wait_until(lambda: [one for one in cluster.containers() if one["yopp"]["pid"]])
    job = psutil.Process(container["yopp"]["pid"])
    processes = [one.process for one in RunDir.of(str(cluster.run_dir)).daemons()]
    for path in cluster.run_dir.iterdir():
        if not path.is_dir():
            path.unlink(missing_ok=True)  # a daemon may just replace it
    assert not wait_for_end(processes, 20)
    wait_until(lambda: not job.is_running(), what="its container has ended")
    assert not list(cluster.run_dir.glob("*.pid")) and not list(cluster.run_dir.glob("*.watched"))


@pytest.mark.parametrize("groups", ["-1", "0"])
def test_where_containers_start_in_a_run_directory_that_was_removed_the_next_cluster_starts(
    yopp: Yopp, groups: str
) -> None:
    # Containers start all the time, also while other programs need the CPU.
    properties = f"yopp.nodemanager.pooled-groups={groups}", "yopp.nodemanager.pressure.enabled=false"
    up = ("up", "--vcores", "2", "--memory", "1024", *(f"-D{one}" for one in properties))
    yopp(*up)
    job = yopp("run", "-q", "-d", "-O", "-n", "2000", "--memory", "64", "true").stdout.strip()
    wait_until(lambda: len(list((yopp.run_dir / "state" / "logs" / job).glob("*"))) > 5)
    processes = [one.process for one in RunDir.of(str(yopp.run_dir)).daemons()]
    # In one step: its owners still write to it.
    yopp.run_dir.rename(yopp.home / "removed")
    assert not wait_for_end(processes, 20)
    # Those that started in launchers of before have made their directories; no launcher begins without its journal.
    assert not yopp.run_dir.exists() or yopp.run_dir.stat().st_mode & 0o077 == 0
    (yopp.run_dir / "state" / "logs" / job).mkdir(parents=True, exist_ok=True)
    yopp.run_dir.chmod(0o700)
    yopp(*up)
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"
    yopp("down", "-y")


@pytest.mark.parametrize("change", ["remove", "garble", "fifo"])
@pytest.mark.parametrize("name", ["rm", NM])
def test_a_pid_file_that_was_changed_is_written_again(cluster: Yopp, name: str, change: str) -> None:
    path, pid = cluster.run_dir / f"{name}.pid", daemon(cluster, name)
    if change == "garble":
        path.write_text("[" * 5000)
    else:
        path.unlink()
    if change == "fifo":
        os.mkfifo(path)
    wait_until(lambda: path.is_file() and path.read_text() == f"{pid}\n", NOTICED, "it is as it was")
    assert cluster("status").returncode == 0
    assert "ended rm, nm-45454" in cluster("down", "-y").stdout


@pytest.mark.parametrize("kind", ["fifo", "directory", "deep", "bytes"])
def test_what_is_no_file_stops_no_command(yopp: Yopp, kind: str) -> None:
    run_dir = yopp.run_dir
    run_dir.mkdir(mode=0o700)
    names = [
        "rm.pid",
        f"{NM}.pid",
        "site.json",
        "nodes.json",
        "lock",
        "rm.http",
        "rm.log",
        "rm.sock",
        "rm.watched",
    ]
    for name in names:
        path = run_dir / name
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            (path / "theirs").mkdir(parents=True)
        else:
            path.write_bytes(b"[" * 100_000 if kind == "deep" else bytes(range(256)) * 10)
    yopp("doctor", code=None)
    yopp("down", "-y")
    yopp("up", "--vcores", "1", "--memory", "512")
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"
    assert "ended rm" in yopp("down", "-y").stdout


def test_plain_files_that_were_removed_come_back_and_the_cluster_is_as_it_was(yopp: Yopp) -> None:
    """As programs remove them that clean directories (tmpfiles.d)."""
    on = "-Dyopp.daemons.restart.enabled=true"
    yopp("up", "--vcores", "2", "--memory", "1024", on, "-Dyopp.resourcemanager.event-history.size=777")
    files = [path for path in yopp.run_dir.iterdir() if path.is_file()]
    texts = {path: path.read_text() for path in files if path.suffix != ".log" and path.name != "lock"}
    assert len(texts) > 10
    for path in files:
        path.unlink()
    refused = yopp("up", "--vcores", "1", code=1)
    assert "running with vcores=2, you asked for 1" in refused.stderr
    wait_until(lambda: all(path.is_file() for path in files), NOTICED, "they are back")
    assert {path: path.read_text() for path in texts} == texts
    assert {path.stat().st_mode & 0o777 for path in files} <= {0o600, 0o644}
    before = yopp.json("node", "list")["nodes"]["node"][0]
    process = RunDir.of(str(yopp.run_dir)).daemon(NM).process  # type: ignore[union-attr]
    psutil.Process(process.pid).kill()
    wait_until(
        lambda: (
            not process.alive()
            and yopp.json("status", code=None)["clusterInfo"]["yopp"]["state"] == "running"
        )
    )
    after = yopp.json("node", "list")["nodes"]["node"][0]
    assert [after[name] for name in ("id", "availMemoryMB", "availableVirtualCores")] == [
        before[name] for name in ("id", "availMemoryMB", "availableVirtualCores")
    ]
    (yopp.run_dir / "rest.token").write_text("")
    yopp("up")
    properties = yopp.json("status")["clusterInfo"]["yopp"]["properties"]
    assert properties["yopp.resourcemanager.event-history.size"] == "777"
    assert (yopp.run_dir / "rest.token").read_text() == "", "a token that was taken back stays so"


def test_a_state_directory_that_was_removed_is_made_again(yopp: Yopp) -> None:
    yopp("up", "--vcores", "1", "--memory", "512", "-Dyopp.nodemanager.pooled-groups=0")
    for turn in range(2):
        assert yopp("run", "-O", "echo", "there").stdout == "there\n"
        # In one step: its owners still write to it, and remove what has ended.
        shutil.rmtree((yopp.run_dir / "state").rename(yopp.run_dir / f"removed-{turn}"), ignore_errors=True)
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"
