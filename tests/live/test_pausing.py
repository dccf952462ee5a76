"""Pausing on real daemons (YARN-5292): to make room and on request, by signals and by the freezer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from executor.light import replace
from executor.linux.procfs import read_stat, standing
from executor.records import ContainerUsage
from yarnopp_cli.client.local import LocalClient
from yarnopp_cli.cluster.processes import ProcessId, wait_for_end
from yarnopp_cli.records.reports import ContainerReport

from .conftest import ROOT, Yopp, processes_of, wait_until

pytestmark = pytest.mark.live

PAUSE = str(ROOT / "configs" / "pause.toml")
MECHANISM = "yopp.nodemanager.pause-mechanism"
COUNT = "echo start >> $1; i=0; while [ $i -lt 200000 ] || [ ! -e $2 ]; do i=$((i+1)); done; echo counted"
UNTIL = "while [ ! -e $0 ]; do sleep 0.05; done"
"""Runs until a file is there: nothing here ends by itself before a slow machine has looked at it."""
RUNNING_LIMIT = 8
"""Seconds; a busy machine takes some of them to make a call."""

PAUSES = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"
"""The calm of other tests asks for killing."""


PATIENT = "-Dyarn.nodemanager.sleep-delay-before-sigkill.ms=10000"
"""Who is told to end has its say on a slow machine, too."""


def start(mechanism: str) -> tuple[str, ...]:
    """What starts a node of 2 vcores and 1024 MB that makes room by this kind of pausing."""
    sizes = ("--vcores", "2", "--memory", "1024")
    return "up", "--conf", PAUSE, f"-D{MECHANISM}={mechanism}", f"-D{PAUSES}=true", PATIENT, *sizes


@pytest.fixture(params=["signal", "freezer"])
def pausing(yopp: Yopp, request: pytest.FixtureRequest) -> Yopp:
    """A node of 2 vcores and 1024 MB that pauses to make room."""
    up = yopp(*start(request.param), code=None)
    if up.returncode and "freezer" in up.stderr:
        pytest.skip("this host has no freezer")
    assert up.returncode == 0, up.stderr
    return yopp


@pytest.fixture
def client(pausing: Yopp) -> Iterator[LocalClient]:
    """What asks the cluster of ``pausing`` without a process for each call."""
    with LocalClient(str(pausing.run_dir / "rm.sock")) as one:
        yield one


def states(yopp: Yopp) -> dict[str, str]:
    return {c["id"]: c["yopp"]["state"] for c in yopp.containers("-a")}


def one_running(yopp: Yopp) -> dict[str, Any]:
    """The document of the only container, once it runs."""
    return dict(
        wait_until(
            lambda: next(iter(c for c in yopp.containers() if c["yopp"]["state"] == "RUNNING"), None),
            what="it runs",
        )
    )


def members(container: dict[str, Any]) -> list[int]:
    """The processes of a container, by its cgroup."""
    return processes_of(container["yopp"]["cgroup"])


def reports(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The document that ``yopp run --json`` printed."""
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return dict(json.loads(out)["app"])


def test_a_list_of_all_has_what_the_rm_granted_and_what_nodes_know(
    pausing: Yopp, client: LocalClient
) -> None:
    """It is put together of both, without what only their nodes know being sent twice."""
    job = pausing.start("run", "-q", "-O", "-n", "3", "--memory", "100", "--priority", "2", "sleep", "60")
    wait_until(lambda: sorted(states(pausing).values()) == ["QUEUED", "RUNNING", "RUNNING"], what="two run")

    def settled(reports: tuple[ContainerReport, ...]) -> list[ContainerReport]:
        return [replace(one, usage=ContainerUsage()) for one in reports]

    together = client.containers(nodes=client.nodes())
    assert settled(together) == settled(client.containers()) and len(together) == 3
    assert [one.task for one in together] == [1, 2, 3] and all(one.command for one in together)
    assert all(report.submitted_at_ms for report in together) and together[0].pid
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)


def test_a_full_node_of_spinners_pauses_for_a_guaranteed_one_and_goes_on(pausing: Yopp) -> None:
    starts, enough, over = (pausing.home / name for name in ("starts", "enough", "over"))
    job = pausing.start(
        "run", "--json", "-O", "-n", "2", "--memory", "200", "sh", "-c", COUNT, "sh", str(starts), str(enough)
    )
    wait_until(lambda: list(states(pausing).values()).count("RUNNING") == 2, what="both spin")
    guaranteed = pausing.start("run", "--vcores", "2", "--memory", "100", "sh", "-c", UNTIL, str(over))

    def both_paused() -> list[dict[str, Any]]:
        found = [c for c in pausing.containers() if c["yopp"]["state"] == "PAUSED"]
        return found if len(found) == 2 else []

    paused = wait_until(both_paused, what="both are paused")
    assert all("Paused to make room for Guaranteed Container" in c["diagnostics"] for c in paused)
    used = [c["yopp"]["used"]["cpuSeconds"] for c in paused]
    over.touch()
    assert guaranteed.wait(timeout=30) == 0
    enough.touch()
    app = reports(job)
    assert app["yopp"]["summary"]["preempted"] == 0
    assert starts.read_text() == "start\n" * 2, "none was started again"
    logs = sorted(Path(app["yopp"]["logDirectory"]).glob("*/stdout"))
    assert [path.read_text() for path in logs] == ["counted\n"] * 2
    ended = [c for c in pausing.containers("-a") if c["executionType"] == "OPPORTUNISTIC"]
    assert all(c["yopp"]["used"]["cpuSeconds"] >= min(used) for c in ended), "it went on where it was"


FAMILY = "i=0; while [ $i -lt 50 ]; do sleep 300 & i=$((i+1)); done; echo ready > $1; wait"


def test_twenty_rounds_with_fifty_children_lose_and_leave_none(pausing: Yopp, client: LocalClient) -> None:
    ready = pausing.home / "ready"
    pausing.start("run", "-O", "sh", "-c", FAMILY, "sh", str(ready))
    wait_until(ready.exists, what="the children are there")
    container = one_running(pausing)
    family = sorted(members(container))
    assert len(family) == 51
    report = client.container(container["id"])
    for turn in range(20):
        client.pause_container(report)
        wait_until(lambda: client.container(report.container_id).state == "PAUSED", what="paused")
        if _mechanism(pausing) == "signal":
            assert all(standing(pid) for pid in family), f"turn {turn}: one still runs"
        client.resume_container(report)
        wait_until(lambda: client.container(report.container_id).state == "RUNNING", what="runs")
        assert sorted(members(container)) == family, f"turn {turn}: one is lost"
    stopped = [pid for pid in family if psutil.Process(pid).status() == psutil.STATUS_STOPPED]
    assert stopped == []


def _mechanism(yopp: Yopp) -> str:
    """What the running cluster pauses by."""
    return "freezer" if '"freezer"' in (yopp.run_dir / "site.json").read_text() else "signal"


FORKING = "echo ready > $1; while :; do (sleep 0.001 & sleep 0.001 & wait); done"


def test_the_hundredth_pause_of_a_program_that_forks_meanwhile(pausing: Yopp, client: LocalClient) -> None:
    ready = pausing.home / "ready"
    pausing.start("run", "-O", "sh", "-c", FORKING, "sh", str(ready))
    wait_until(ready.exists, what="it forks")
    report = client.container(one_running(pausing)["id"])
    for _ in range(100):
        client.pause_container(report)
        wait_until(lambda: client.container(report.container_id).state == "PAUSED", what="paused")
        client.resume_container(report)
        wait_until(lambda: client.container(report.container_id).state == "RUNNING", what="runs")
    client.pause_container(report)
    wait_until(lambda: client.container(report.container_id).state == "PAUSED", what="paused")
    first = next_usage(client, report.container_id)
    assert next_usage(client, report.container_id).cpu_seconds <= first.cpu_seconds + 0.05, "nobody runs on"


def next_usage(client: LocalClient, container_id: str) -> ContainerUsage:
    """The next measurement that the node makes of it."""
    before = client.container(container_id).usage.sampled_at
    wait_until(lambda: client.container(container_id).usage.sampled_at > before, what="a sample")
    return client.container(container_id).usage


def test_people_pause_and_resume_and_paused_time_does_not_count(pausing: Yopp) -> None:
    over = pausing.home / "over"
    job = pausing.start(
        "run", "--container-timeout", f"{RUNNING_LIMIT}s", "sh", "-c", f"{UNTIL}; echo done", str(over)
    )
    container = one_running(pausing)["id"]
    said = pausing("container", "pause", container).stdout
    assert said == f"{container} PAUSED\n"
    document = pausing.json("container", "status", container)["container"]
    assert document["yopp"]["subState"] == "PAUSED" and "by the user" in document["diagnostics"]
    since = document["yopp"]["pausedSince"] / 1000
    wait_until(lambda: time.time() > since + RUNNING_LIMIT + 0.2, what="more than its time limit has passed")
    assert pausing.json("container", "resume", container)["container"]["yopp"]["state"] == "RUNNING"
    over.touch()
    assert job.wait(timeout=20) == 0
    pausing("container", "pause", container, code=1)
    pausing("run", "--container-timeout", "300ms", "sleep", "30", code=124)
    assert pausing("wait", "last.1", code=124).stdout.endswith("exit 124\n")


def test_who_is_not_paused_by_a_person_is_not_resumed_by_one(pausing: Yopp) -> None:
    pausing.start("run", "-O", "--memory", "100", "sleep", "300")
    container = one_running(pausing)["id"]
    refused = pausing("container", "resume", container, code=1)
    assert "it is not paused" in refused.stderr
    guaranteed = pausing.start("run", "--vcores", "2", "--memory", "100", "sleep", "300")
    wait_until(lambda: states(pausing)[container] == "PAUSED", what="it makes room")
    refused = pausing("container", "resume", container, code=1)
    assert "made room for a guaranteed container" in refused.stderr
    pausing("container", "pause", container)  # from now on it is a person's
    guaranteed.send_signal(signal.SIGINT)
    guaranteed.communicate(timeout=20)
    assert states(pausing)[container] == "PAUSED"
    pausing("container", "resume", container)
    assert states(pausing)[container] == "RUNNING"


def test_a_paused_one_is_killed_and_another_promoted(pausing: Yopp) -> None:
    ready = pausing.home / "ready"  # a shell that runs has not set its trap yet
    trap = "trap 'echo told; exit 9' TERM; echo ready >> $0; while :; do sleep 0.05; done"
    job = pausing.start("run", "-O", "--memory", "100", "-n", "2", "sh", "-c", trap, str(ready))
    wait_until(
        lambda: ready.exists() and len(ready.read_text().split()) == 2, what="both have set their trap"
    )
    wait_until(lambda: list(states(pausing).values()).count("RUNNING") == 2, what="both run")
    first, second = sorted(states(pausing))
    pausing("container", "pause", first)
    pausing("container", "kill", first)
    ended = pausing.json("container", "status", first)["container"]
    assert ended["yopp"]["exit"] == 9, "it was told politely, and could answer"
    guaranteed = pausing.start("run", "--vcores", "1", "--memory", "100", "sleep", "300")
    other = pausing.start("run", "--vcores", "1", "--memory", "100", "sleep", "300")
    wait_until(lambda: states(pausing)[second] == "PAUSED", what="the other makes room")
    guaranteed.send_signal(signal.SIGINT)
    guaranteed.communicate(timeout=20)
    pausing("container", "promote", second)
    wait_until(lambda: states(pausing)[second] == "RUNNING", what="it goes on as a guaranteed one")
    assert pausing.json("container", "status", second)["container"]["executionType"] == "GUARANTEED"
    for process in (other, job):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_a_paused_one_survives_its_nodemanager(pausing: Yopp) -> None:
    over = pausing.home / "over"
    job = pausing.start(
        "run", "-O", "-n", "1", "--memory", "100", "sh", "-c", f"{UNTIL}; echo done", str(over)
    )
    container = one_running(pausing)
    pausing("container", "pause", container["id"])
    family = members(container)
    next_node(pausing)
    wait_until(lambda: states(pausing)[container["id"]] == "PAUSED", what="found again as paused")
    assert members(container) == family
    pausing("container", "resume", container["id"])
    over.touch()
    assert job.communicate(timeout=30)[0] == "done\n" and job.returncode == 0


def next_node(pausing: Yopp) -> None:
    """Kill the node, and start the next one."""
    node = pausing.json("status", code=None)["clusterInfo"]["yopp"]
    found = ProcessId.of(_pid_of_node(node))
    assert found is not None
    found.send(signal.SIGKILL)
    assert not wait_for_end([found], 10)
    pausing(*start(_mechanism(pausing)))


STOPS_A_CHILD = "sleep 1000 & echo $! $$ >$0; kill -STOP $!; until [ -e $0.over ]; do :; done"


@pytest.mark.parametrize("pool", ["-1", "0"], ids=["slots", "shims"])
def test_what_a_job_has_stopped_stays_so_after_a_pause_of_it_also_by_another_node(
    yopp: Yopp, pool: str
) -> None:
    yopp(*start("signal"), f"-Dyopp.nodemanager.pooled-groups={pool}")
    told = yopp.home / "told"
    job = yopp.start("run", "-O", "--memory", "100", "sh", "-c", STOPS_A_CHILD, str(told))
    pids = wait_until(
        lambda: told.exists() and told.read_text().endswith("\n") and told.read_text(), what="a child"
    )
    stopped, shell = map(int, pids.split())
    container = one_running(yopp)
    for restarted in (False, True, True):
        wait_until(lambda: state_of(stopped) == "T" and state_of(shell) != "T", what="only the child stands")
        yopp("container", "pause", container["id"])
        assert {state_of(pid) for pid in (stopped, shell)} == {"T"}
        if restarted:
            next_node(yopp)
            wait_until(lambda: states(yopp)[container["id"]] == "PAUSED", what="found again as paused")
        yopp("container", "resume", container["id"])
        wait_until(lambda: state_of(shell) != "T", what="it goes on")
        assert state_of(stopped) == "T"
    Path(f"{told}.over").touch()
    os.kill(stopped, signal.SIGKILL)
    assert job.wait(timeout=30) == 0


def test_a_job_that_has_stopped_itself_is_found_running_and_stays_as_it_is(yopp: Yopp) -> None:
    yopp(*start("signal"))
    job = yopp.start("run", "-O", "--memory", "100", "sh", "-c", "kill -STOP $$; exit 7")
    container = one_running(yopp)
    (pid,) = wait_until(lambda: [one for one in members(container) if state_of(one) == "T"], what="it stands")
    next_node(yopp)
    wait_until(lambda: states(yopp)[container["id"]] == "RUNNING", what="found again")
    for verb in ("pause", "resume"):
        yopp("container", verb, container["id"])
        assert state_of(pid) == "T"
    os.kill(pid, signal.SIGCONT)
    assert job.wait(timeout=30) == 7


def state_of(pid: int) -> str:
    found = read_stat(pid)
    return "" if found is None else found.state


def _pid_of_node(document: dict[str, Any]) -> int:
    return int(next(node["pid"] for node in document["nms"]))


HOLDER = """
import os, time
kept = bytearray({mb} << 20)
open({held!r}, "w").close()
while not os.path.exists({over!r}):
    time.sleep(0.05)
"""


def _limit(container: dict[str, Any]) -> int:
    folder = Path(container["yopp"]["cgroup"])
    for name in ("memory.limit_in_bytes", "memory.max"):
        if (folder / name).exists():
            return int((folder / name).read_text()) >> 20
    pytest.skip("no memory cgroup here")


def test_unused_memory_is_reclaimed_where_memory_is_short(pausing: Yopp) -> None:
    held, over = pausing.home / "held", pausing.home / "over"
    program = HOLDER.format(mb=50, held=str(held), over=str(over))
    job = pausing.start("run", "--json", "-O", "--memory", "800", "python3", "-c", program)
    wait_until(held.exists, what="it holds its memory")
    container = one_running(pausing)
    assert _limit(container) == 800
    wait_until(
        lambda: (
            pausing.json("container", "status", container["id"])["container"]["yopp"]["used"]["rssMB"] > 50
        ),
        what="its memory has been measured",
    )
    pausing("run", "--memory", "600", "true")
    over.touch()
    app = reports(job)
    assert app["yopp"]["summary"]["preempted"] == 0
    ended = pausing.json("container", "status", container["id"])["container"]
    assert "were reclaimed" in ended["diagnostics"] and ended["yopp"]["used"]["oomKills"] == 0


def test_used_memory_costs_the_container_its_life(pausing: Yopp) -> None:
    held = pausing.home / "held"
    program = HOLDER.format(mb=150, held=str(held), over="/nonexistent")
    job = pausing.start("run", "-O", "--memory", "800", "python3", "-c", program)
    wait_until(held.exists, what="it holds its memory")
    container = one_running(pausing)["id"]
    wait_until(
        lambda: pausing.json("container", "status", container)["container"]["yopp"]["used"]["rssMB"] > 150,
        what="its memory has been measured",
    )
    pausing("run", "--memory", "900", "true")
    ended = pausing.json("container", "status", container)["container"]
    assert ended["exitCode"] == -108
    assert "Killed to make room for Guaranteed Container." in ended["diagnostics"]
    assert "pausing would not have freed enough" in ended["diagnostics"]
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)


def test_the_shipped_site_makes_room_by_pausing(yopp: Yopp) -> None:
    yopp.watch_pressure()
    yopp("up", "--vcores", "1", "--memory", "512", "-Dyopp.nodemanager.pressure.enabled=false")
    over = yopp.home / "over"
    job = yopp.start("run", "-O", "--memory", "64", "sh", "-c", f"{UNTIL}; echo whole", str(over))
    wait_until(lambda: yopp.containers("--state", "RUNNING", "--type", "O"), what="it runs")
    assert yopp("run", "-G", "--memory", "64", "echo", "at once").stdout == "at once\n"
    over.touch()
    out, said = job.communicate(timeout=60)
    assert (job.returncode, out) == (0, "whole\n"), said
    summary = yopp.json("app", "list", "-a", "--sort", "id")["apps"]["app"]
    assert sorted(
        (app["yopp"]["summary"]["preempted"], app["yopp"]["summary"]["paused"]) for app in summary
    ) == [(0, 0), (0, 1)]
