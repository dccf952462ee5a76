"""Distributed allocation with real daemons: two NMs with an AMRMProxy each, jobs that go through them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.linux.procfs import read_stat
from yarnopp_cli.jobs.taskrecords import TaskRecords
from yarnopp_cli.records.ids import ContainerId

from ..ports import free_port
from .conftest import ROOT, Yopp, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

CONFIGS = ROOT / "configs"
ADDRESS = "yarn.nodemanager.amrmproxy.address"
FIRST_REMOTE = 1 << 39


@pytest.fixture
def port() -> int:
    """A TCP port of loopback that is free."""
    return free_port()


def up(yopp: Yopp, port: int, *more: str, env: dict[str, str] | None = None) -> None:
    yopp(
        "up", "--nodes", "2", "--vcores", "1", "--memory", "1024",
        "--conf", str(CONFIGS / "distributed.toml"), f"-D{ADDRESS}=0.0.0.0:{port}", *more, env=env,
    )  # fmt: skip


def through(port: int) -> tuple[str, ...]:
    """The client's side, as the document has it."""
    return (
        "--conf", str(CONFIGS / "distributed-client.toml"),
        f"-Dyarn.resourcemanager.scheduler.address=localhost:{port}",
    )  # fmt: skip


def number(container: dict[str, object]) -> int:
    return int(str(container["id"]).rsplit("_", 1)[1])


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A daemon that answers nobody for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_job_on_two_nodes_through_the_proxy_killing_nothing(yopp: Yopp, port: int) -> None:
    # Without a limit on the queues: shedding is rebalancing's, and tested elsewhere.
    up(yopp, port, "-Dyarn.resourcemanager.nm-container-queuing.min-queue-length=15")
    document = _json(
        yopp, "run", "--json", *through(port), "-n", "20", "-O", "--memory", "16", "--", "sleep", "0.1"
    )
    tasks = document["app"]["yopp"]["tasks"]
    assert [task["state"] for task in tasks] == ["SUCCEEDED"] * 20
    assert sum(task["preemptions"] for task in tasks) == 0
    assert set(Counter(task["node"] for task in tasks)) == {f"{_host()}:45454", f"{_host()}:45455"}
    assert all(int(task["container"].rsplit("_", 1)[1]) > FIRST_REMOTE for task in tasks)
    containers = yopp.containers("-a")
    assert len(containers) == 20
    assert {one["id"]: one["yopp"]["task"] for one in containers} == {
        one["container"]: one["task"] for one in tasks
    }
    mixed = _json(yopp, "run", "--json", *through(port), "-n", "3", "--memory", "16", "--", "true")["app"][
        "yopp"
    ]["tasks"]
    assert all(int(task["container"].rsplit("_", 1)[1]) < FIRST_REMOTE for task in mixed), "the RM's own"


def test_a_detached_jobs_master_is_forced_through_its_nodes_proxy(yopp: Yopp, port: int) -> None:
    up(yopp, port)
    application = yopp(
        "run", "--detach", "--conf", str(CONFIGS / "distributed.toml"), "-n", "6", "-O", "--memory", "16",
        "--", "sleep", "0.1",
    ).stdout.strip()  # fmt: skip
    yopp("wait", application)
    containers = yopp.containers("-a")
    assert len(containers) == 7
    assert sum(number(one) > FIRST_REMOTE for one in containers) == 6


def test_a_job_whose_master_was_in_a_container_is_run_again(yopp: Yopp, port: int) -> None:
    up(yopp, port)
    good = yopp.home / "good"
    line = f"echo {{}}; [ {{}} != b ] || [ -e {good} ]"
    job = yopp("run", "-q", "-d", "-O", "--memory", "16", "--shell", line, ":::", *"abc").stdout.strip()
    yopp("wait", job, code=1)
    good.touch()
    assert yopp("rerun", job, "--failed").stdout == "[2] b\n"
    in_client = yopp("run", "-q", *through(port), "-O", "--memory", "16", "true").stdout.strip()
    refused = yopp("rerun", in_client, code=66).stderr
    assert "ran in its client" in refused and "hint: type the command again: yopp run -q " in refused


def test_opportunistic_containers_while_the_rm_answers_nobody(yopp: Yopp, port: int) -> None:
    up(yopp, port)
    rm = next(one for one in _daemons(yopp) if one[0] == "rm")[1]
    process = yopp.start(
        "run", *through(port), "-n", "2", "--memory", "16", "-O", "--",
        "sh", "-c", "echo ran > $0/$YOPP_TASK; while [ ! -e $0/go ]; do sleep 0.05; done", str(yopp.home),
    )  # fmt: skip
    ran = [Path(yopp.home, name) for name in ("1", "2")]
    wait_until(lambda: all(path.exists() for path in ran), what="both tasks run")
    sockets = sorted(Path(yopp.run_dir).glob("am-*.sock"))
    assert len(sockets) == 2
    from executor.records import ExecutionType, Resource
    from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
    from yarnopp_cli.records.master_protocol import AllocateRequest, RegisterApplicationMasterRequest
    from yarnopp_cli.records.requests import (
        ApplicationSubmissionContext,
        ExecutionTypeRequest,
        ResourceRequest,
    )
    from yarnopp_cli.rpc.blocking import Connection

    with Connection(str(yopp.run_dir / "rm.sock")) as client, Connection(f"localhost:{port}") as proxy:
        context = ApplicationSubmissionContext(application_id="", name="held", unmanaged=True)
        made = client.call(SubmitApplicationRequest(context))
        registered = proxy.call(RegisterApplicationMasterRequest(made.attempt_id, made.am_token))
        wanted = ResourceRequest(
            4, Resource(16, 1), execution_type_request=ExecutionTypeRequest(ExecutionType.OPPORTUNISTIC)
        )
        with stopped(rm):
            answer = proxy.call(
                AllocateRequest(made.attempt_id, registered.token, asks=(wanted,), wait_ms=5000)
            )
            assert len(answer.allocated) == 4
        granted = {one.id for one in answer.allocated}
        wait_until(lambda: granted <= {str(one["id"]) for one in yopp.containers()}, what="they are reported")
    Path(yopp.home, "go").touch()
    assert process.wait(30) == 0


def test_opportunistic_containers_while_the_rm_is_dead(yopp: Yopp, port: int) -> None:
    from executor.records import ExecutionType, Resource
    from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
    from yarnopp_cli.records.master_protocol import AllocateRequest, RegisterApplicationMasterRequest
    from yarnopp_cli.records.requests import (
        ApplicationSubmissionContext,
        ExecutionTypeRequest,
        ResourceRequest,
    )
    from yarnopp_cli.rpc.blocking import Connection

    up(yopp, port)
    yopp("run", *through(port), "--memory", "16", "-O", "--", "true")  # so the list of nodes is there
    rm = next(one for one in _daemons(yopp) if one[0] == "rm")[1]
    with Connection(str(yopp.run_dir / "rm.sock")) as client, Connection(f"localhost:{port}") as proxy:
        context = ApplicationSubmissionContext(application_id="", name="held", unmanaged=True)
        made = client.call(SubmitApplicationRequest(context))
        registered = proxy.call(RegisterApplicationMasterRequest(made.attempt_id, made.am_token))
        os.kill(rm, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{rm}").exists(), what="it is dead")
        wanted = ResourceRequest(
            4, Resource(16, 1), execution_type_request=ExecutionTypeRequest(ExecutionType.OPPORTUNISTIC)
        )
        granted: set[str] = set()
        request = AllocateRequest(made.attempt_id, registered.token, asks=(wanted,), wait_ms=1000)

        def all_granted() -> bool:
            nonlocal request
            answer = proxy.call(request)
            granted.update(one.id for one in answer.allocated)
            request = AllocateRequest(
                made.attempt_id, registered.token, response_id=answer.response_id, wait_ms=1000
            )
            return len(granted) == 4

        wait_until(all_granted, what="four are allocated")


def test_a_third_interceptor_of_ones_own_and_the_throttle(yopp: Yopp, port: int) -> None:
    text = (ROOT / "docs" / "interceptors.md").read_text()
    documented = text.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in documented.splitlines() if line.strip()]) <= 10
    (yopp.home / "polite.py").write_text(documented)
    pipeline = "yarn.nodemanager.amrmproxy.interceptor-class.pipeline"
    up(
        yopp, port, f"-D{pipeline}=ThrottleInterceptor,polite.AtMostTen,DefaultRequestInterceptor",
        env={"PYTHONPATH": f"{yopp.home}:{ROOT}"},
    )  # fmt: skip
    job = yopp.start("run", *through(port), "-n", "15", "-O", "--memory", "16", "--", "true")
    wait_until(lambda: len(_ended(yopp)) == 10, what="ten are allocated, and have run")
    [first] = yopp.json("app", "list")["apps"]["app"]
    assert first["state"] == "RUNNING", "it waits for the others"
    # Whoever asks after that is served, so the ten are all that the job gets.
    yopp("run", *through(port), "-O", "--memory", "16", "--", "true")
    assert len(_ended(yopp)) == len(yopp.containers("-a")) == 11
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    assert job.returncode == 130
    assert len(yopp.containers("-a")) == 11


def _ended(yopp: Yopp) -> list[dict[str, Any]]:
    return [one for one in yopp.containers("-a") if one["state"] == "DONE"]


def test_an_interceptor_that_is_not_there_is_refused_when_the_node_starts(yopp: Yopp, port: int) -> None:
    pipeline = "yarn.nodemanager.amrmproxy.interceptor-class.pipeline"
    ended = yopp(
        "up", "--conf", str(CONFIGS / "distributed.toml"), f"-D{ADDRESS}=localhost:{port}",
        f"-D{pipeline}=no.such.Thing,DefaultRequestInterceptor", code=78,
    )  # fmt: skip
    assert "names no.such.Thing, which is not an interceptor" in ended.stderr


def test_distributed_without_opportunistic_is_refused_with_yarns_sentence(yopp: Yopp) -> None:
    ended = yopp(
        "up", "-Dyarn.nodemanager.distributed-scheduling.enabled=true",
        "-Dyarn.resourcemanager.opportunistic-container-allocation.enabled=false", code=78,
    )  # fmt: skip
    assert (
        "opportunistic container allocation has to be enabled when distributed scheduling is enabled."
        in ended.stderr
    )


def _json(yopp: Yopp, *args: str) -> Any:
    """The document of a command whose last arguments are another's."""
    return json.loads(yopp(*args).stdout)


def _host() -> str:
    return socket.gethostname()


def _daemons(yopp: Yopp) -> list[tuple[str, int]]:
    return [
        (path.stem, int(path.read_text())) for path in yopp.run_dir.glob("*.pid") if path.read_text().strip()
    ]


def test_a_detached_job_outlives_the_death_of_its_nodes_proxy(yopp: Yopp, port: int) -> None:
    up(yopp, port)
    application = yopp(
        "run", "--detach", "--conf", str(CONFIGS / "distributed.toml"), "-n", "8", "-O", "--memory", "16",
        "--", "sh", "-c", f"echo $YOPP_TASK >> {yopp.home}/ran; sleep 0.7",
    ).stdout.strip()  # fmt: skip
    wait_until(lambda: any(number(one) > FIRST_REMOTE for one in yopp.containers()), what="a task is there")
    for name, pid in _daemons(yopp):
        if name.startswith("nm-"):
            os.kill(pid, signal.SIGKILL)
    up(yopp, port)
    yopp("wait", application)
    # Not by the containers: one whose node died before it had begun anything is lost, and its task has another.
    ran = (yopp.home / "ran").read_text().split()
    assert len(ran) == len(set(ran)) == 8, f"none was lost, and none run twice: {ran}"
    ended = [one["exitCode"] for one in yopp.containers("-a") if number(one) > FIRST_REMOTE]
    assert ended.count(0) == 8, ended


def test_the_next_attempt_of_a_master_runs_nothing_again_that_had_ended(yopp: Yopp, port: int) -> None:
    # A task that has said that it ran is not killed before it ends.
    up(yopp, port, "-Dyarn.nodemanager.sleep-delay-before-sigkill.ms=20000")
    ran = yopp.home / "ran"
    application = yopp(
        "run", "--detach", "--conf", str(CONFIGS / "distributed.toml"), "-n", "200", "-O", "--memory", "16",
        "--", "sh", "-c", f"sleep 0.01; trap '' TERM; echo $YOPP_TASK >> {ran}",
    ).stdout.strip()  # fmt: skip
    records = yopp.run_dir / "state" / "logs" / application / ".tasks"
    wait_until(
        lambda: records.exists() and records.read_text().count("SUCCEEDED") >= 40, what="some have ended"
    )
    _kill_master(application)
    yopp("wait", application)
    times = Counter(int(line) for line in ran.read_text().split())
    assert set(times) == set(range(1, 201)), "none is lost"
    again = [number for number, count in times.items() if count > 1]
    assert again == [], "nor run again, also where its master had not heard of its end"


@pytest.mark.parametrize("rm", ["lives", "dies later", "dies with it"])
def test_what_ends_well_after_the_next_attempt_has_registered_does_not_run_again(yopp: Yopp, rm: str) -> None:
    yopp(
        "up", "--vcores", "6", "--memory", "1024", "-Dyopp.daemons.restart.enabled=true",
        "-Dyopp.resourcemanager.hosted-masters=false",
        "-Dyarn.nodemanager.sleep-delay-before-sigkill.ms=50000",
    )  # fmt: skip
    ran, go = yopp.home / "ran", yopp.home / "go"
    application = yopp(
        "run", "--detach", "-Dyopp.resourcemanager.hosted-masters=false", "-n", "2", "--memory", "16",
        "--", "sh", "-c", f"trap '' TERM; echo $YOPP_TASK >> {ran}; until [ -e {go} ]; do sleep 0.02; done",
    ).stdout.strip()  # fmt: skip
    wait_until(lambda: ran.exists() and len(ran.read_text().split()) == 2, what="both run")

    def ids() -> set[str]:
        return {str(one["id"]) for one in yopp.containers()}

    first = ids()
    tasks = {one for one in first if not one.endswith("_000001")}
    if rm == "dies with it":
        _kill_rm(yopp)
    _kill_master(application)

    def states() -> list[str]:
        attempts = _json(yopp, "attempt", "list", application, "--json")["appAttempts"]["appAttempt"]
        return [one["appAttemptState"] for one in attempts]

    wait_until(lambda: states() == ["FAILED", "RUNNING"], what="the next attempt has registered")
    if rm == "dies later":
        _kill_rm(yopp)
        wait_until(lambda: states() == ["FAILED", "RUNNING"], what="it has registered again")
    wait_until(lambda: len(ids()) == 3 and len(ids() & first) == 2, what="a master and the same two tasks")
    go.touch()
    yopp("wait", application)
    assert sorted(ran.read_text().split()) == ["1", "2"]
    assert {str(one["id"]) for one in yopp.containers("-a") if number(one) > 1} == tasks, "no other"


def test_what_a_dead_masters_proxy_allocated_has_no_second_container_before_anybody_reports_it(
    yopp: Yopp, port: int
) -> None:
    """The proxy cannot: the RM restarted, and that master registers no more. Its node answers nobody for a while."""
    up(
        yopp, port, "--nodes", "1", "--vcores", "2", "-Dyopp.daemons.restart.enabled=true",
        "-Dyarn.nodemanager.sleep-delay-before-sigkill.ms=50000",
    )  # fmt: skip
    ran, go = yopp.home / "ran", yopp.home / "go"
    line = (
        f"trap '' TERM; echo $YOPP_TASK >> {ran}; until [ -e {go} -o -e {go}$YOPP_TASK ]; do sleep 0.02; done"
    )
    application = yopp(
        "run", "--detach", "--conf", str(CONFIGS / "distributed.toml"), "-n", "6", "--max-running", "2", "-O",
        "--memory", "16", "--", "sh", "-c", line,
    ).stdout.strip()  # fmt: skip

    def begun() -> set[int]:
        return {int(line) for line in ran.read_text().split()} if ran.exists() else set()

    def given() -> set[tuple[int, int, str]]:
        """Each task with a container, that one's attempt, and its node."""
        records = TaskRecords(str(yopp.run_dir / "state" / "logs" / application), application).read()
        return {
            (
                one.shown_number,
                ContainerId.parse(one.container_id).application_attempt_id.attempt_id,
                one.node_id,
            )
            for one in records
        }

    wait_until(lambda: begun() == {1, 2}, what="the first two run")
    yopp("nm", "start", "--memory", "64", "--vcores", "4")  # with more room, but too small for a master
    (master,) = _masters(application)
    os.kill(master, signal.SIGSTOP)  # what it is told waits for it
    Path(f"{go}1").touch()
    wait_until(lambda: len(_ended(yopp)) == 1, what="the RM knows that one has ended")
    _kill_rm(yopp)
    wait_until(lambda: _running_nodes(yopp) == 2, what="both nodes have registered again")
    daemons = dict(_daemons(yopp))
    with stopped(daemons["nm-45455"]):
        with stopped(daemons["rm"]):
            os.kill(master, signal.SIGCONT)
            third = 3, 1, f"{_host()}:45455"
            wait_until(lambda: third in given(), what="its proxy has allocated a container there")
            # It writes this down and sends the start in one turn of its loop, which is over once it sleeps.
            wait_until(lambda: _is_asleep(master), what="the node was told to start it")
            _kill_master(application)
        wait_until(lambda: any(attempt == 2 for _, attempt, _ in given()), what="the next attempt goes on")
    wait_until(lambda: 3 in begun(), what="the node has begun what it was told to")
    go.touch()
    yopp("wait", application)
    assert Counter(ran.read_text().split()) == Counter(str(number) for number in range(1, 7))


def _running_nodes(yopp: Yopp) -> int:
    return len((yopp.json("node", "list", "--state", "RUNNING")["nodes"] or {"node": ()})["node"])


def _kill_rm(yopp: Yopp) -> None:
    """Kill it; another is there then."""
    pid = dict(_daemons(yopp))["rm"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: dict(_daemons(yopp)).get("rm", pid) != pid, what="the next one is there")


def _is_asleep(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state == "S"


def _masters(application: str) -> list[int]:
    """The processes of its master's container."""
    masters = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"yarnopp_cli.daemons.applicationmaster" in _read(path)
        and f"/{application}/".encode() in _read(path.parent / "environ")
    ]
    assert masters
    return masters


def _kill_master(application: str) -> None:
    for pid in _masters(application):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_master_waits_for_the_next_cluster_where_its_container_is_kept(yopp: Yopp, port: int) -> None:
    up(yopp, port)
    ran, go = yopp.home / "ran", yopp.home / "go"
    application = yopp(
        "run", "--detach", "--conf", str(CONFIGS / "distributed.toml"), "-n", "6", "-O", "--memory", "16",
        "--", "sh", "-c", f"echo $YOPP_TASK >> {ran}; until [ -e {go} ]; do sleep 0.02; done",
    ).stdout.strip()  # fmt: skip
    for _ in range(2):
        wait_until(lambda: ran.exists() and len(ran.read_text().split()) == 2, what="two run")
        yopp("down", "--keep-containers", "-y")
        up(yopp, port)
    go.touch()
    yopp("wait", application)
    assert Counter(ran.read_text().split()) == Counter(str(number) for number in range(1, 7))
    attempts = _json(yopp, "attempt", "list", application, "--json")["appAttempts"]["appAttempt"]
    assert len(attempts) == 1


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
