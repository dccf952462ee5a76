"""What every daemon does at its start and its end: the pipe, the pid file, the log, signals, systemd."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import signal
import socket
from pathlib import Path
from unittest import mock

import pytest

from executor.linux.procfs import boot_id
from yarnopp_cli.cluster.lifecycle import start_again
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.cluster.state import has_died, write_watched
from yarnopp_cli.daemons import process
from yarnopp_cli.daemons.process import DaemonProcess, argument_parser, read_site
from yarnopp_cli.errors import YoppError
from yarnopp_cli.machine.restarts import Watched
from yarnopp_cli.records.container_protocol import GetNodeInfoRequest

from ..executor.linux.node import soon
from ..executor.linux.test_descriptors import none_free
from .conftest import NM, PORT, Cluster, Started, wait_for

pytestmark = pytest.mark.live


def test_a_second_start_says_who_is_there_already(cluster: Cluster) -> None:
    first = cluster.rm().ready()
    second = cluster.rm()
    error = json.loads(second.word())
    assert error["error"] == "rm is already running"
    assert str(first.process.pid) in error["because"]
    assert second.wait() == error["exit"] == 1
    # And the first one's files are still there.
    assert {"rm.sock", "rm.pid"} <= cluster.files()
    assert cluster.run_dir.daemon("rm") is not None
    cluster.connect()


def test_the_pid_file_names_the_living_daemon_and_nobody_else(cluster: Cluster) -> None:
    Path(cluster.run_dir.pid_file("rm")).write_text("1\n")
    assert cluster.run_dir.daemon("rm") is None
    rm = cluster.rm().ready()
    found = cluster.run_dir.daemon("rm")
    assert found is not None
    assert found.process.pid == rm.process.pid
    rm.send(signal.SIGKILL)
    rm.wait()
    assert cluster.run_dir.daemon("rm") is None


def test_sockets_and_pid_files_of_a_killed_daemon_do_not_stand_in_the_way(cluster: Cluster) -> None:
    rm = cluster.rm().ready()
    rm.send(signal.SIGKILL)
    rm.wait()
    assert {"rm.sock", "rm.pid"} <= cluster.files()
    again = cluster.rm().ready()
    again.send(signal.SIGINT)
    assert again.wait() == 0
    assert not {"rm.sock", "rm.pid"} & cluster.files()


def test_somebody_who_only_looks_does_not_keep_a_daemon_from_starting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cluster.run_dir.pid_file("rm")
    looking = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(looking, fcntl.LOCK_SH)
    waits: list[float] = []

    def looked_enough(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.close(looking)

    monkeypatch.setattr("yarnopp_cli.daemons.process.time.sleep", looked_enough)
    daemon = DaemonProcess(
        "rm", cluster.run_dir, argument_parser("rm").parse_args(["--run-dir", cluster.run_dir.path])
    )
    daemon.take_lock()
    assert len(waits) == 3
    assert Path(path).read_text() == f"{os.getpid()}\n"
    daemon.release_lock()
    assert not os.path.exists(path)


def test_who_cannot_be_seen_is_neither_dead_nor_stopped_nor_cleared_away(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a free descriptor, or memory: a daemon stays, and others are asked about again later."""
    run_dir = cluster.run_dir
    socket_path, cleared = Path(run_dir.rm_socket), list[str]()
    arguments = argument_parser("rm").parse_args(["--run-dir", run_dir.path, "--watched"])

    async def scenario() -> None:
        daemon = DaemonProcess("rm", run_dir, arguments)
        daemon.restarts = True
        daemon.take_lock()
        daemon.begin_watch()
        write_watched(run_dir, NM, Watched(1 << 22, 1, boot_id()))  # no process has that pid
        socket_path.touch()
        monkeypatch.setattr(process, "PLACE_SECONDS", 0.01)
        daemon.keep_place(run_dir.rm_socket, cleared.append)
        blind = mock.patch.object(os, "lstat", side_effect=OSError(errno.ENOMEM, "no memory"))
        with none_free(), blind as looked:
            assert daemon.is_watched and daemon.may_restart
            with pytest.raises(OSError):
                has_died(run_dir, NM)
            before = looked.call_count
            await soon(lambda: looked.call_count >= before + 3, "it is looked for, in vain")
        assert not cleared and has_died(run_dir, NM) is not None
        socket_path.unlink()
        await soon(lambda: cleared, "it is missed")
        assert cleared == [f"{socket_path} was removed"]
        daemon.end_watch()
        daemon.release_lock()

    asyncio.run(scenario())


def test_a_restart_that_has_to_wait_for_too_long_says_for_what(cluster: Cluster) -> None:
    run_dir = cluster.run_dir
    write_watched(run_dir, NM, Watched(1 << 22, 1, boot_id()))  # no process has that pid
    with run_dir.lock(), pytest.raises(YoppError, match=f"process {os.getpid()} has held"):
        start_again(run_dir, NM, "rm", timeout=0.1)


def test_a_daemon_without_a_site_says_so(cluster: Cluster) -> None:
    os.unlink(cluster.run_dir.site_file)
    error = json.loads(cluster.rm().word())
    assert "site.json" in error["error"]
    assert "yopp up" in error["hint"]


def test_a_damaged_site_is_a_configuration_error(cluster: Cluster) -> None:
    cluster.run_dir.write("site.json", "{")
    started = cluster.nm()
    error = json.loads(started.word())
    assert error["exit"] == 78
    assert started.wait() == 78
    assert f"{NM}.pid" not in cluster.files()


def test_wrong_arguments_are_usage_errors(cluster: Cluster) -> None:
    for arguments in (("--port", "0"), ("--port", "x"), ("--dance",), ()):
        started = cluster.start("nodemanager", *arguments)
        assert started.word() == b""
        assert started.wait() == 2
        assert "usage" in started.stderr()


def test_a_daemon_of_another_name_is_a_usage_error(cluster: Cluster) -> None:
    started = cluster.start("timelineserver")
    assert started.word() == b"" and started.wait() == 2
    assert "usage" in started.stderr()


def test_a_node_that_the_machine_cannot_hold_is_refused(cluster: Cluster) -> None:
    cluster.rm().ready()
    started = cluster.nm(memory=1 << 40, vcores=-1)
    error = json.loads(started.word())
    assert "cannot be promised" in error["error"]
    assert started.wait() == error["exit"]


def test_a_node_of_no_given_size_takes_what_there_is(cluster: Cluster) -> None:
    cluster.rm().ready()
    cluster.nm(memory=-1, vcores=-1).ready()
    total = cluster.node().call(GetNodeInfoRequest()).total
    assert 1 <= total.vcores <= len(os.sched_getaffinity(0))
    physical_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    assert 32 <= total.memory < physical_mb


def test_a_state_directory_that_cannot_be_made_is_an_error_and_nothing_stays(cluster: Cluster) -> None:
    cluster.rm().ready()
    Path(cluster.run_dir.nm_state_dir(PORT)).write_text("in the way")
    started = cluster.nm()
    error = json.loads(started.word())
    assert error["error"].startswith("cannot write")
    assert started.wait() == 1
    assert not {f"{NM}.sock", f"{NM}.pid"} & cluster.files()


def test_hangups_are_ignored_and_containers_do_not_inherit_that(cluster: Cluster) -> None:
    rm = cluster.rm().ready()
    rm.send(signal.SIGHUP)
    wait_for(lambda: "SIGHUP is ignored" in cluster.log("rm"))
    assert rm.process.poll() is None
    status = Path(f"/proc/{rm.process.pid}/status").read_text()
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
    assert not ignored >> (signal.SIGHUP - 1) & 1


def test_systemd_is_told(cluster: Cluster) -> None:
    path = os.path.join(cluster.run_dir.path, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(15)
        rm = cluster.start("resourcemanager", environment={"NOTIFY_SOCKET": path}).ready()
        assert systemd.recv(200).startswith(b"READY=1\n")
        rm.send(signal.SIGTERM)
        assert systemd.recv(200) == b"STOPPING=1"
    assert rm.wait() == 0


def test_the_log_tells_the_life_of_a_daemon_and_is_private(cluster: Cluster) -> None:
    rm = cluster.rm().ready()
    rm.send(signal.SIGTERM)
    rm.wait()
    log = cluster.log("rm")
    assert [word in log for word in ("rm starts", "rm is ready", "rm ends: SIGTERM")] == [True] * 3
    assert rm.stderr() == ""


def test_a_log_may_go_to_standard_error(cluster: Cluster) -> None:
    rm = cluster.rm("--log-to-stderr").ready()
    rm.send(signal.SIGTERM)
    rm.wait()
    assert "rm is ready" in rm.stderr()
    assert "rm.log" not in cluster.files()


def test_a_run_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    started = Started("resourcemanager", "--run-dir", str(tmp_path / "none"))
    error = json.loads(started.word())
    assert error["because"] == "no such file or directory"
    started.close()


def test_a_site_that_is_not_there_names_its_file(tmp_path: Path) -> None:
    run_dir = RunDir.of(str(tmp_path / "r"))
    with pytest.raises(YoppError, match=r"site\.json"):
        read_site(run_dir)
