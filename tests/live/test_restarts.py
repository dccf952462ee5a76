"""The RM and the nodes watch each other: one that dies is started again, one that was stopped is not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from yarnopp_cli.cluster import lifecycle
from yarnopp_cli.cluster.processes import ProcessId, wait_for_end
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.cluster.state import read_watched, running_configuration
from yarnopp_cli.records.client_protocol import WaitForNodesRequest
from yarnopp_cli.records.reports import STAY
from yarnopp_cli.rpc.blocking import Connection

from ..patience import PATIENCE
from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live
NM = "nm-45454"
ON = "-Dyopp.daemons.restart.enabled=true"
KEPT = "-Dyarn.resourcemanager.recovery.enabled=true"
NOT_KEPT = "-Dyarn.resourcemanager.recovery.enabled=false"
SOON = 10.0
"""A deadline in seconds: a daemon is there again in less than one where the machine has time."""


def up(yopp: Yopp, *more: str) -> RunDir:
    yopp("up", "--vcores", "2", "--memory", "1024", ON, *more)
    return RunDir.of(str(yopp.run_dir))


def kill(run_dir: RunDir, *names: str) -> None:
    """End these daemons by SIGKILL. All are stopped first, else one could restart another that dies before it."""
    processes = [daemon.process for daemon in run_dir.daemons() if daemon.name in names]
    assert len(processes) == len(names)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            process.send(number)
    assert not wait_for_end(processes, 10)


def back(run_dir: RunDir, name: str) -> ProcessId:
    """The daemon's process, once it is there and watched."""

    def watched() -> ProcessId | None:
        daemon = run_dir.daemon(name)
        text = run_dir.read(f"{name}.watched") or ""
        return daemon.process if daemon is not None and f'"pid": {daemon.process.pid},' in text else None

    found = wait_until(watched, SOON, f"{name} is started again")
    assert isinstance(found, ProcessId)
    return found


def events(yopp: Yopp, kind: str) -> list[dict[str, Any]]:
    lines = yopp("events", "--since", "0", "--json").stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def helpers(run_dir: RunDir) -> list[int]:
    """The processes that are starting a daemon of this run directory again."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            found += [process.pid] if "restart" in line and run_dir.path in line else []
    return found


def test_a_node_that_is_killed_is_back_and_its_job_ends(yopp: Yopp) -> None:
    run_dir = up(yopp)
    go = yopp.home / "go"
    script = f"until [ -e {go} ]; do sleep 0.02; done; echo done"
    job = yopp.start("run", "-O", "-n", "2", "--memory", "64", "--", "sh", "-c", script)
    wait_until(lambda: len(yopp.containers()) == 2)
    for _ in range(2):
        kill(run_dir, NM)
        back(run_dir, NM)
    go.touch()
    out, err = job.communicate(timeout=60)
    assert (job.returncode, out.count("done")) == (0, 2), err
    told = wait_until(lambda: [one for one in events(yopp, "DaemonRestarted") if one["data"]["tries"] == 2])
    assert told[0]["node"].endswith(":45454") and told[0]["data"]["daemon"] == NM


def test_an_rm_that_is_killed_is_back_and_says_what_it_knows(yopp: Yopp) -> None:
    run_dir = up(yopp, KEPT)
    job = yopp("run", "-q", "-d", "-n", "40", "--memory", "64", "--", "sleep", "0.1").stdout.strip()
    kill(run_dir, "rm")
    back(run_dir, "rm")
    assert yopp("wait", job, timeout=60).returncode == 0
    (told,) = wait_until(lambda: events(yopp, "DaemonRestarted"), what="it is told")
    assert (told["data"]["daemon"], "are lost" in told["why"]) == ("rm", False)
    assert "rm (process" in Path(run_dir.log_file(NM)).read_text()


def test_without_a_kept_state_the_rm_is_back_all_the_same_and_says_what_is_lost(yopp: Yopp) -> None:
    run_dir = up(yopp, NOT_KEPT)
    kill(run_dir, "rm")
    back(run_dir, "rm")
    (told,) = wait_until(lambda: events(yopp, "DaemonRestarted"))
    assert "its applications are lost" in told["why"]
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"


def test_of_two_nodes_one_starts_the_rm_and_the_rm_the_other_node(yopp: Yopp) -> None:
    run_dir = up(yopp, "--nodes", "2")
    kill(run_dir, "rm", NM)
    back(run_dir, "rm")
    back(run_dir, NM)
    wait_until(lambda: yopp("status", code=None).returncode == 0, what="all serve")


def test_a_node_that_dies_while_up_waits_for_it_is_restarted_meanwhile(
    yopp: Yopp, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = up(yopp, "--nodes", "2")
    stopped, configuration = run_dir.daemon("nm-45455"), running_configuration(run_dir)
    assert stopped is not None and configuration is not None
    stopped.process.send(signal.SIGSTOP)
    kill(run_dir, "rm")
    back(run_dir, "rm")  # and this RM does not know the stopped node

    class Deadly(Connection):
        def call(self, request: Any, **more: Any) -> Any:
            if isinstance(request, WaitForNodesRequest):
                kill(run_dir, "nm-45455")
                back(run_dir, "nm-45455")
            return super().call(request, **more)

    monkeypatch.setattr(lifecycle, "Connection", Deadly)
    assert lifecycle.ensure_cluster(configuration, run_dir, lifetime=STAY).info.nodes_running == 2


LOSING = f"""
import signal, sys, time
from pathlib import Path
from yarnopp_cli.cluster import launching, lifecycle
from yarnopp_cli.cluster.launching import Launch
from yarnopp_cli.cluster.state import running_configuration
from yarnopp_cli.cluster.processes import wait_for_end
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.records.reports import STAY
run_dir, finish, begin, spawn = RunDir.of(sys.argv[1]), Launch.finish, Launch.begin, launching._spawn
known = Path(run_dir.path, "{NM}.log").stat().st_size

def node_first(launch):
    launch._specs = launch._specs[::-1]
    begin(launch)

def until(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)

def process(name):
    return run_dir.daemon(name).process

def after_the_node(run_dir, order):
    if order.name == "rm":
        log = Path(run_dir.path, "{NM}.log")
        until(lambda: b"no connection" in log.read_bytes()[known:], "the node has not looked for its RM")
        process("{NM}").send(signal.SIGSTOP)
    return spawn(run_dir, order)

def before_the_node(run_dir, order):
    begun = spawn(run_dir, order)
    if order.name == "rm":
        until(lambda: run_dir.daemon("rm") is not None, "the RM has not begun")
        process("rm").send(signal.SIGSTOP)
    return begun

def losing(launch, name=""):
    if name:
        process("{NM}").send(signal.SIGSTOP)
        process("rm").send(signal.SIGCONT)
    else:
        rm = process("rm")
        rm.send(signal.SIGKILL)
        wait_for_end([rm], 10)
        process("{NM}").send(signal.SIGCONT)
    finish(launch, name)

Launch.finish, launching._spawn = losing, before_the_node
if sys.argv[2] == "late":
    Launch.begin, launching._spawn = node_first, after_the_node
lifecycle.ensure_cluster(running_configuration(run_dir), run_dir, lifetime=STAY)
"""
"""Starts a cluster again, whose node cannot register before the RM is killed: one of the two is stopped from the moment
at which the other begins. A "late" RM begins when the node has found that there is none."""


@pytest.mark.parametrize("rm", ["early", "late"])
def test_an_rm_that_dies_while_up_waits_for_the_nodes_is_restarted_meanwhile(yopp: Yopp, rm: str) -> None:
    run_dir = up(yopp)
    kill(run_dir, "rm", NM)
    starter = subprocess.run(
        [sys.executable, "-c", LOSING, run_dir.path, rm], env=yopp.environment, cwd=yopp.home, text=True,
        capture_output=True, timeout=60 * PATIENCE,
    )  # fmt: skip
    assert starter.returncode == 0, starter.stderr
    (told,) = events(yopp, "DaemonRestarted")
    assert told["data"]["daemon"] == "rm"
    assert yopp("status").returncode == 0


def test_a_command_that_comes_while_the_rm_is_restarted_waits_for_it(yopp: Yopp) -> None:
    run_dir = up(yopp)
    with run_dir.lock():  # which the restart waits for
        kill(run_dir, "rm")
        looks = yopp.start("ps")
        assert looks.stderr is not None and "retrying" in looks.stderr.readline()
    out, err = looks.communicate(timeout=60)
    assert (looks.returncode, "no containers live" in out + err) == (0, True), err
    assert "available again" in err


def test_a_node_is_restarted_although_the_rm_dies_that_restarts_it(yopp: Yopp) -> None:
    run_dir = up(yopp)
    with run_dir.lock():
        kill(run_dir, NM)
        wait_until(lambda: helpers(run_dir), what="the RM restarts it")
        kill(run_dir, "rm")
        assert not run_dir.daemons()
    back(run_dir, NM)
    back(run_dir, "rm")
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"


def test_one_that_was_stopped_stays_so(yopp: Yopp) -> None:
    run_dir = up(yopp)
    yopp("nm", "stop")
    yopp("nm", "start")
    for name in (NM, "rm"):
        daemon = run_dir.daemon(name)
        assert daemon is not None
        daemon.process.send(signal.SIGTERM)
        assert not wait_for_end([daemon.process], 20)
        assert run_dir.read(f"{name}.watched") is None
        assert not helpers(run_dir) and run_dir.daemon(name) is None
    assert not run_dir.daemons()


@pytest.mark.parametrize("name", ["rm", NM])
def test_down_while_one_is_started_again_leaves_nothing(yopp: Yopp, name: str) -> None:
    for _ in range(3):
        run_dir = up(yopp)
        kill(run_dir, name)
        yopp("down", "-y", "--force")
        wait_until(lambda: not helpers(run_dir), what="nobody starts anything any more")  # noqa: B023
        assert not run_dir.daemons()
    assert not [one for one in os.listdir(run_dir.path) if one.endswith((".watched", ".pid", ".sock"))]


def test_stopping_one_that_is_being_started_again_takes_that_back(yopp: Yopp) -> None:
    run_dir = up(yopp)
    with run_dir.lock():
        kill(run_dir, NM)
        wait_until(lambda: helpers(run_dir), what="somebody waits for the lock to start it")
        stopping = yopp.start("nm", "stop", "45454")
        (
            run_dir.path and Path(run_dir.path, f"{NM}.watched")
        ).unlink()  # as the one does that gets the lock first
    assert stopping.wait(30) == 0
    wait_until(lambda: not helpers(run_dir))
    assert run_dir.daemon(NM) is None


def test_a_run_directory_that_was_wiped_gets_nothing_back(yopp: Yopp) -> None:
    run_dir = up(yopp)
    nodes = [daemon.process for daemon in run_dir.daemons()]
    for path in Path(run_dir.path).iterdir():
        if not path.is_dir():
            path.unlink(missing_ok=True)  # a daemon may just replace it
    nodes[0].send(signal.SIGKILL)
    assert not wait_for_end(nodes[:1], 10)
    nodes[1].send(signal.SIGTERM)
    assert not wait_for_end(nodes[1:], 20)
    assert not helpers(run_dir) and not os.path.exists(run_dir.rm_socket)


def test_tries_are_bounded_and_a_person_may_try_again(yopp: Yopp) -> None:
    run_dir = up(yopp, "-Dyopp.daemons.restart.max-tries=2")
    site = run_dir.read("site.json")
    assert site is not None
    run_dir.write("site.json", "garbled")
    kill(run_dir, NM)
    (told,) = wait_until(lambda: events(yopp, "DaemonGivenUp"), 20)
    assert told["data"] == {"daemon": NM, "by": "by rm", "tries": 2}
    assert "site.json" in told["why"] or "configuration" in told["why"]
    run_dir.write("site.json", site)
    yopp("nm", "start")
    assert yopp("run", "-O", "echo", "there").stdout == "there\n"


def test_what_was_started_again_gives_containers_the_limits_and_descriptors_of_people(yopp: Yopp) -> None:
    run_dir = up(yopp)
    look = "import os, resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), sorted(os.listdir('/proc/self/fd')))"
    words = ("run", "-O", "--", sys.executable, "-c", look)
    before = yopp(*words).stdout
    held = len(os.listdir(f"/proc/{run_dir.daemon(NM).process.pid}/fd"))  # type: ignore[union-attr]
    kill(run_dir, NM)
    process = back(run_dir, NM)
    assert yopp(*words).stdout == before
    # No more than the first one, but for what it holds at the moment: nothing was inherited.
    wait_until(
        lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= held + 4, what="it has no more files open"
    )


def test_with_false_nobody_is_started_again(yopp: Yopp) -> None:
    yopp("up", "--vcores", "2", "--memory", "1024", "-Dyopp.daemons.restart.enabled=false")
    run_dir = RunDir.of(str(yopp.run_dir))
    kill(run_dir, NM)
    wait_until(lambda: events(yopp, "NodeSilent"), what="the RM knows that its connection is lost")
    assert not helpers(run_dir) and run_dir.daemon(NM) is None and run_dir.read(f"{NM}.watched") is None


def test_an_rm_that_no_node_restarts_any_more_is_not_waited_for(yopp: Yopp) -> None:
    most = "-Dyopp.daemons.restart.max-tries=3"
    front = yopp.start("up", "--foreground", "--vcores", "2", "--memory", "1024", ON, most)
    run_dir = RunDir.of(str(yopp.run_dir))
    assert front.stdout is not None and front.stdout.readline().startswith("up: rm ")
    wait_until(lambda: run_dir.read(f"{NM}.watched"), what="its node serves")
    daemon = run_dir.daemon("rm")
    assert daemon is not None
    place = yopp.run_dir / "state" / "rm"
    moved = place.rename(yopp.home / "moved")
    place.touch()  # so none can start
    os.kill(daemon.process.pid, signal.SIGKILL)
    _, err = front.communicate(timeout=60 * PATIENCE)
    assert front.returncode == 1 and "error: the ResourceManager has ended" in err
    wait_until(
        lambda: (found := read_watched(run_dir, "rm")) is not None and found.given_up, what="it gives up"
    )
    place.unlink()
    moved.rename(place)
    assert yopp("ps", code=69).returncode == 69


def test_daemons_of_a_cluster_in_the_foreground_restart_each_other_and_its_command_goes_on(
    yopp: Yopp,
) -> None:
    front = yopp.start("up", "--foreground", "--vcores", "2", "--memory", "1024", ON)
    run_dir = RunDir.of(str(yopp.run_dir))
    assert front.stdout is not None and front.stdout.readline().startswith("up: rm "), "it has started all"
    wait_until(lambda: run_dir.read(f"{NM}.watched"), what="its node serves")
    kill(run_dir, NM)
    back(run_dir, NM)
    kill(run_dir, "rm")
    back(run_dir, "rm")
    assert front.poll() is None
    front.terminate()
    _, err = front.communicate(timeout=30)
    assert front.returncode == 0 and "SIGTERM: ending the cluster" in err
    assert run_dir.daemon("rm") is None and not helpers(run_dir)
