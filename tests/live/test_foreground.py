"""`yopp up --foreground`: what a service manager hears of it, and what it does at a signal."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from ..patience import PATIENCE
from .conftest import Yopp, wait_until

pytestmark = pytest.mark.live
SMALL = ("--memory", "256", "--vcores", "1")
QUEUES = '[yarn.scheduler.capacity]\nroot.queues = "{}"\n'


def test_up_in_the_foreground_ends_the_cluster_with_its_signal(yopp: Yopp) -> None:
    front = yopp.start("up", "--foreground", "--memory", "256", "--vcores", "1")
    assert front.stdout is not None
    assert front.stdout.readline().startswith("up: rm ")
    assert "already running here" in yopp("up", "--foreground", code=1).stderr
    front.send_signal(signal.SIGTERM)
    _, err = front.communicate(timeout=20)
    told = "SIGTERM: ending the cluster; the next `yopp up` continues its applications"
    assert (front.returncode, err.splitlines()[-1]) == (0, told)
    yopp("status", code=3)


def test_applications_survive_sigterm_and_run_with_the_next_start(yopp: Yopp) -> None:
    """Containers end with the service, in order: their tasks run again, and that is none of their tries."""
    roomy = ("--nodes", "2", "--memory", "1024", "--vcores", "4")
    front = yopp.start("up", "--foreground", *roomy)
    assert front.stdout is not None
    assert front.stdout.readline().startswith("up: rm ")
    log, go = yopp.home / "log", yopp.home / "go"
    until = f"trap 'echo ended >> {log}; exit 1' TERM; echo began >> {log}; until [ -e {go} ]; do sleep 0.02; done"

    def run(*words: str) -> str:
        return yopp("run", "-q", "-d", "--memory", "64", *words).stdout.strip()

    def said(word: str) -> int:
        return log.read_text().split().count(word) if log.exists() else 0

    begins = run("--begin", "+2s", "--", "cat", "/dev/null")
    memory = ("-Dmapreduce.map.memory.mb=64", "-Dmapreduce.reduce.memory.mb=64")
    pi = yopp("pi", "-q", "-d", *memory, "2", "3000000").stdout.strip()
    work = run("-O", "-n", "3", "--retries", "0", "--", "sh", "-c", until)
    mastered = run("-Dyopp.resourcemanager.hosted-masters=false", "--retries", "0", "--", "sh", "-c", until)
    wait_until(lambda: said("began") == 4, what="all tasks run")
    front.send_signal(signal.SIGTERM)
    front.communicate(timeout=30 * PATIENCE)
    assert (front.returncode, said("ended")) == (0, 4), "they heard of it"
    yopp.started.remove(front)
    assert not yopp.leftovers()
    yopp("status", code=3)

    again = yopp.start("up", "--foreground", *roomy)
    assert again.stdout is not None
    assert again.stdout.readline().startswith("up: rm ")
    wait_until(lambda: said("began") == 8, what="their tasks run again")
    go.touch()
    yopp("wait", begins, pi, work, mastered)
    assert (said("began"), said("ended")) == (8, 4)
    again.send_signal(signal.SIGINT)
    _, err = again.communicate(timeout=30 * PATIENCE)
    assert err.splitlines()[-1] == "SIGINT: ending the cluster"
    yopp("up", *roomy)
    assert not yopp.json("app", "list", "-a")["apps"], "Ctrl-C is `yopp down`"


class Manager:
    """A service manager's socket: a file, or with @ an abstract name."""

    def __init__(self, yopp: Yopp, kind: str) -> None:
        self.address = f"@yopp-test-{os.getpid()}" if kind == "abstract" else str(yopp.home / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.socket.bind(self.address.replace("@", "\0"))
        self.socket.settimeout(30 * PATIENCE)
        yopp.environment["NOTIFY_SOCKET"] = self.address

    def hears(self) -> dict[str, str]:
        """The next message."""
        lines = self.socket.recv(4096).decode().splitlines()
        return dict(line.partition("=")[::2] for line in lines)


@pytest.fixture
def manager(yopp: Yopp, request: pytest.FixtureRequest) -> Iterator[Manager]:
    made = Manager(yopp, getattr(request, "param", "file"))
    with made.socket:
        yield made
        yopp.environment.pop("NOTIFY_SOCKET")


@pytest.mark.parametrize("manager", ["file", "abstract"], indirect=True)
def test_a_service_manager_hears_when_it_is_ready_and_when_it_ends(yopp: Yopp, manager: Manager) -> None:
    front = yopp.start("up", "--foreground", "--nodes", "2", *SMALL)
    ready = manager.hears()
    assert (ready["READY"], "nm " in ready["STATUS"]) == ("1", True)
    assert "MAINPID" not in ready, "this very command is the service"
    nodes = yopp.json("status")["clusterInfo"]["yopp"]["nms"]
    assert [node["state"] for node in nodes] == ["RUNNING", "RUNNING"]
    front.send_signal(signal.SIGTERM)
    assert manager.hears()["STOPPING"] == "1"
    front.communicate(timeout=30 * PATIENCE)
    assert front.returncode == 0
    yopp("status", code=3)


def test_at_sighup_the_queues_are_read_again_and_the_service_manager_waits(
    yopp: Yopp, manager: Manager
) -> None:
    site = yopp.home / "queues.toml"
    site.write_text(QUEUES.format("default"))
    others = yopp.environment["YOPP_CONF"]
    yopp.environment["YOPP_CONF"] = f"{others}:{site}"
    front = yopp.start("up", "--foreground", *SMALL)
    yopp.environment["YOPP_CONF"] = others
    manager.hears()
    site.write_text(QUEUES.format("default,prod") + "root.default.capacity = 60\nroot.prod.capacity = 40\n")
    before = time.monotonic_ns() // 1000
    front.send_signal(signal.SIGHUP)
    reloading = manager.hears()
    assert reloading["RELOADING"] == "1"
    assert before <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    ready = manager.hears()
    assert (ready["READY"], "added root.prod" in ready["STATUS"]) == ("1", True), ready
    assert "prod" in {one["queueName"] for one in yopp.json("queue", "list")["queues"]["queue"]}

    site.write_text(QUEUES.format("default") + "root.default.capacity = 101\n")
    front.send_signal(signal.SIGHUP)
    assert manager.hears()["RELOADING"] == "1"
    assert "not reloaded" in manager.hears()["STATUS"]
    assert "prod" in {one["queueName"] for one in yopp.json("queue", "list")["queues"]["queue"]}

    site.write_text(QUEUES.format("default,prod") + "[yarn.nodemanager]\npmem-check-enabled = false\n")
    site.write_text(
        site.read_text().replace("[yarn.n", "root.default.capacity = 50\nroot.prod.capacity = 50\n[yarn.n")
    )
    front.send_signal(signal.SIGHUP)
    assert manager.hears()["RELOADING"] == "1"
    assert manager.hears()["READY"] == "1"
    front.send_signal(signal.SIGTERM)
    assert manager.hears()["STOPPING"] == "1"
    _, err = front.communicate(timeout=30 * PATIENCE)
    assert "yarn.nodemanager.pmem-check-enabled" in err
    assert "it takes effect at the next start" in err


def test_the_foreground_goes_on_with_the_next_rm(yopp: Yopp) -> None:
    front = yopp.start("up", "--foreground", *SMALL)
    assert front.stdout is not None
    assert front.stdout.readline().startswith("up: rm ")
    first = yopp.json("status")["clusterInfo"]["yopp"]["rm"]["pid"]
    yopp("rm", "restart")
    assert yopp.json("status")["clusterInfo"]["yopp"]["rm"]["pid"] != first
    assert front.poll() is None
    front.send_signal(signal.SIGTERM)
    _, err = front.communicate(timeout=30 * PATIENCE)
    assert (front.returncode, "SIGTERM: ending the cluster" in err) == (0, True)
    yopp("status", code=3)


def test_a_service_that_is_started_again_finds_its_daemons(yopp: Yopp, manager: Manager) -> None:
    front = yopp.start("up", "--foreground", *SMALL)
    manager.hears()
    ours = yopp.json("status")["clusterInfo"]["yopp"]
    front.kill()
    front.wait()
    again = yopp.start("up", "--foreground", *SMALL)
    assert manager.hears()["READY"] == "1"
    found = yopp.json("status")["clusterInfo"]["yopp"]
    assert (found["rm"]["pid"], found["nms"][0]["pid"]) == (ours["rm"]["pid"], ours["nms"][0]["pid"])
    os.kill(found["rm"]["pid"], signal.SIGKILL)
    _, err = again.communicate(timeout=30 * PATIENCE)
    assert (again.returncode, "the ResourceManager has ended" in err) == (1, True)
    assert manager.hears() == {"STOPPING": "1"}
    yopp.start("up", "--foreground", *SMALL)
    assert manager.hears()["READY"] == "1", "a new ResourceManager for the node that is there"
    found = yopp.json("status")["clusterInfo"]["yopp"]
    assert found["nms"][0]["pid"] == ours["nms"][0]["pid"]


def test_a_service_that_lost_all_daemons_fails_and_starts_as_it_was(yopp: Yopp, manager: Manager) -> None:
    front = yopp.start("up", "--foreground", "--nodes", "2", *SMALL)
    manager.hears()
    found = yopp.json("status")["clusterInfo"]["yopp"]
    for daemon in (found["rm"], *found["nms"]):
        os.kill(daemon["pid"], signal.SIGKILL)
    _, err = front.communicate(timeout=30 * PATIENCE)
    assert (front.returncode, "the ResourceManager has ended" in err) == (1, True)
    assert manager.hears() == {"STOPPING": "1"}
    yopp.start("up", "--foreground")
    assert manager.hears()["READY"] == "1"
    assert len(yopp.json("status")["clusterInfo"]["yopp"]["nms"]) == 2


def test_a_service_that_cannot_start_is_never_ready(yopp: Yopp, manager: Manager) -> None:
    front = yopp.start("up", "--foreground", "--memory", "99999999")
    _, err = front.communicate(timeout=30 * PATIENCE)
    assert (front.returncode != 0, "hint" in err) == (True, True)
    manager.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.hears()


def test_a_signal_while_it_starts_leaves_nothing(yopp: Yopp) -> None:
    front = yopp.start("up", "--foreground", "--nodes", "3", "--memory", "64", "--vcores", "1")
    wait_until(lambda: (yopp.run_dir / "rm.pid").exists(), what="the first daemon")
    front.send_signal(signal.SIGTERM)
    front.communicate(timeout=30 * PATIENCE)
    assert front.returncode == 0
    assert not yopp.leftovers()
