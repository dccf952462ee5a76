"""Another user of the machine against root's cluster: each request is whole, and its sender gone before it is served.

The daemon is stopped while he acts, so that it finds what a busy one would.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import Yopp, wait_until
from tests.ports import free_port
from tests.strangers import HANG_UPS, NOBODY_UID, OWN_UID, Stranger, http_request, rpc_request

from .conftest import WebCluster

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(OWN_UID != 0, reason="only root can be somebody else"),
]
APPS = "/ws/v1/cluster/apps"
REFUSED = re.compile(r"refused a connection of user (-?\d+)")


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A daemon that does nothing for as long as this lasts."""
    os.kill(pid, signal.SIGSTOP)
    try:
        state = Path(f"/proc/{pid}/stat")
        wait_until(lambda: state.read_text().rpartition(") ")[2].startswith("T"), what="it is stopped")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def pid_of(yopp: Yopp, name: str) -> int:
    return int((yopp.run_dir / f"{name}.pid").read_text().split()[0])


def attack(pid: int, host: str, port: int, request: str, before_accept: bool = True) -> None:
    """Send the request in every way of hanging up, as another user; each has been taken from the socket."""
    for how in HANG_UPS:
        with contextlib.ExitStack() as late:
            if before_accept:
                late.enter_context(stopped(pid))
            stranger = Stranger(host, port, request, how)
            if not before_accept:
                late.enter_context(stopped(pid))
            stranger.send()
        stranger.answer()


@pytest.mark.parametrize("before_accept", [True, False])
def test_nobody_runs_or_kills_over_rest(web: WebCluster, before_accept: bool) -> None:
    job = web.yopp("run", "-q", "-d", "sleep", "600").stdout.split()[-1]
    web.yopp("wait", job, "--for", "RUNNING")
    promised = web.rm("POST", f"{APPS}/new-application").json["application-id"]
    spec = {"commands": {"command": f"id -u > {web.yopp.home}/proof"}}
    body = {"application-id": promised, "application-name": "mine", "am-container-spec": spec}
    rm, node = pid_of(web.yopp, "rm"), next(path.stem for path in web.yopp.run_dir.glob("nm-*.pid"))
    container = next(one["id"] for one in web.yopp.containers("--app", job) if not one["yopp"]["am"])
    kill = {"state": "KILLED"}
    for method, path, sent in (
        ("POST", APPS, body),
        ("PUT", f"{APPS}/{job}/state", kill),
        ("POST", f"/ws/v1/cluster/containers/{container}/signal/FORCEFUL_SHUTDOWN", None),
        ("PUT", f"{APPS}/{job}/priority", {"priority": 7}),
    ):
        attack(rm, web.rm.host, web.rm.port, http_request(method, path, sent), before_accept)
    log = http_request("GET", f"/ws/v1/node/containers/{container}/logs/stdout")
    attack(pid_of(web.yopp, node), web.nm.host, web.nm.port, log, before_accept)
    assert web.rm.get("/ws/v1/cluster/info").status == 200, "it has answered all that came before"
    assert web.rm.get(f"{APPS}/{job}").json["app"]["state"] == "RUNNING"
    assert web.rm.get(f"{APPS}/{job}").json["app"]["priority"] == 0
    assert web.rm.get(f"{APPS}/{promised}").status == 404
    assert not (web.yopp.home / "proof").exists()
    assert [one["id"] for one in web.yopp.containers("--app", job) if not one["yopp"]["am"]] == [container]
    assert web.rm("PUT", f"{APPS}/{job}/state", kill).json == {"state": "KILLED"}, "he who stays may"


@pytest.mark.parametrize("before_accept", [True, False])
def test_nobody_ends_a_cluster_over_tcp(yopp: Yopp, before_accept: bool) -> None:
    port = free_port()
    yopp("up", f"-Dyarn.resourcemanager.address=127.0.0.1:{port}")
    rm = pid_of(yopp, "rm")
    attack(rm, "127.0.0.1", port, rpc_request("shutdownCluster"), before_accept)
    has_heard_all(port)
    assert_refused(yopp, "rm")
    assert pid_of(yopp, "rm") == rm
    assert yopp.json("status")["clusterInfo"]["yopp"]["state"] == "running"


@pytest.mark.parametrize("before_accept", [True, False])
def test_nobody_reaches_the_resourcemanager_through_an_amrmproxy(yopp: Yopp, before_accept: bool) -> None:
    port = free_port()
    proxy = "-Dyarn.nodemanager.amrmproxy"
    yopp("up", f"{proxy}.enabled=true", f"{proxy}.address=127.0.0.1:{port}")
    name = next(path.stem for path in yopp.run_dir.glob("nm-*.pid"))
    token = {"kind": "YARN_AM_RM_TOKEN", "identifier": "e30=", "password": "AAAA"}
    register = rpc_request("registerApplicationMaster", attempt_id="appattempt_1_0001_000001", token=token)
    attack(pid_of(yopp, name), "127.0.0.1", port, register, before_accept)
    has_heard_all(port)
    assert_refused(yopp, name)
    assert "registerApplicationMaster" not in (yopp.run_dir / f"{name}.log").read_text()


def has_heard_all(port: int) -> None:
    """Wait for an answer: who called before has been heard then."""
    with socket.create_connection(("127.0.0.1", port), 20) as caller:
        caller.sendall(b"nonsense\n")
        assert caller.recv(4096)


def assert_refused(yopp: Yopp, name: str) -> None:
    """The daemon's log tells that the stranger was refused, and each user once a minute.

    One who hangs up before the daemon has accepted the connection is an unknown user (-1).
    """
    users = REFUSED.findall((yopp.run_dir / f"{name}.log").read_text())
    assert users and set(users) <= {"-1", str(NOBODY_UID)}
    assert len(users) == len(set(users)), "a user's refusals are logged once a minute"
