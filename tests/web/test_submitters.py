"""Other users of the host submit to root's cluster over REST: as themselves, never as root, and only what is theirs."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import ROOT, Yopp, wait_until

from .conftest import WebCluster, started

pytestmark = [pytest.mark.live, pytest.mark.skipif(os.geteuid() != 0, reason="needs other users")]
APPS = "/ws/v1/cluster/apps"
OTHER, THIRD = "nobody", "daemon"
_AS = """
import encodings.idna, json, os, pwd, sys, urllib.error, urllib.request
entry = pwd.getpwnam(sys.argv[1])
os.setgroups([]); os.setgid(entry.pw_gid); os.setuid(entry.pw_uid)
for method, url, body in json.loads(sys.stdin.read()):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        answer = urllib.request.urlopen(request, timeout=20)
        print(json.dumps([answer.status, answer.read().decode()]))
    except urllib.error.HTTPError as error:
        print(json.dumps([error.code, error.read().decode()]))
"""


def asks(user: str, *requests: tuple[str, str, Any]) -> list[tuple[int, str]]:
    """The statuses and bodies that a user's requests are answered with."""
    words = [sys.executable, "-I", "-c", _AS, user]
    ended = subprocess.run(
        words, input=json.dumps(requests), capture_output=True, text=True, timeout=60, check=True
    )
    return [tuple(json.loads(line)) for line in ended.stdout.splitlines()]


@pytest.fixture
def open_web(yopp: Yopp, place: Path) -> WebCluster:
    """Root's cluster, to which all may submit."""
    directories = (f"-Dyarn.nodemanager.{one}-dirs={place / one}" for one in ("local", "log"))
    return started(yopp, "--vcores", "2", "--memory", "1024", "-Dyopp.webapp.submitters=all", *directories)


def submitted(web: WebCluster, user: str, command: str, **more: Any) -> tuple[int, str]:
    """Submit a command as a user; the status of the answer, and the application's id."""
    ((status, text),) = asks(user, ("POST", f"{web.rm.url}{APPS}/new-application", None))
    assert status == 200, text
    application = json.loads(text)["application-id"]
    spec = {"commands": {"command": command}, **more}
    body = {"application-id": application, "application-name": "theirs", "am-container-spec": spec,
            "priority": 2**31 - 1, "resource": {"memory": 64, "vCores": 1}}  # fmt: skip
    ((status, text),) = asks(user, ("POST", f"{web.rm.url}{APPS}", body))
    return status, application if status == 202 else text


def test_what_another_user_submits_runs_as_that_user_who_reads_its_output(open_web: WebCluster) -> None:
    entry, web = pwd.getpwnam(OTHER), open_web
    pid = (web.yopp.run_dir / "rm.pid").read_text().strip()
    status, job = submitted(web, OTHER, f"id -u; id -g; echo $HOME; kill -0 {pid} || echo refused; exit 3")
    assert status == 202, job
    wait_until(lambda: web.rm.get(f"{APPS}/{job}").json["app"]["state"] == "FINISHED", what="its end")
    app = web.rm.get(f"{APPS}/{job}").json["app"]
    assert (app["user"], app["finalStatus"], app["priority"]) == (OTHER, "FAILED", 0), "not before root's"
    (container,) = web.yopp.containers("--app", job, "--state", "all")
    url = f"{web.nm.url}/ws/v1/node/containers/{container['id']}/logs"
    (listed, shown, third) = (
        *asks(OTHER, ("GET", url, None), ("GET", f"{url}/stdout", None)),
        asks(THIRD, ("GET", f"{url}/stdout", None))[0],
    )
    assert listed[0] == 200 and "stdout" in listed[1]
    assert shown == (200, f"{entry.pw_uid}\n{entry.pw_gid}\n{entry.pw_dir}\nrefused\n")
    assert third[0] == 403
    assert web.nm.get(f"/ws/v1/node/containers/{container['id']}/logs/stdout").status == 200, "root reads all"


def a_python_for_all() -> str:
    """A Python of this version, whose modules all users can read; "" if there is none."""
    found = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        found
        if os.path.exists(found) and as_other(found, "-c", "import yarnopp_cli.cli.app").returncode == 0
        else ""
    )


def as_other(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program as another user, with this source and what it needs."""
    entry = pwd.getpwnam(OTHER)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    return subprocess.run(
        words, user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], cwd="/", capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": ":".join([str(ROOT), *packages])},
    )  # fmt: skip


def test_another_users_yopp_runs_jobs_in_roots_cluster_and_shows_their_output(open_web: WebCluster) -> None:
    python = a_python_for_all()
    if not python:
        pytest.skip("NOT TESTED: no other user can run this Python")
    entry, there = pwd.getpwnam(OTHER), ("--engine", "yarn", "--rm", open_web.rm.url)
    yopp = (python, "-m", "yarnopp_cli")
    ran = as_other(*yopp, "run", *there, "-O", "-n", "2", "id", "-u")
    assert ran.returncode == 0, ran.stderr
    (app,) = open_web.rm.get(APPS).json["apps"]["app"]
    assert (app["user"], app["finalStatus"]) == (OTHER, "SUCCEEDED")
    told = as_other(*yopp, "logs", *there, app["id"])
    assert told.returncode == 0 and told.stdout.count(str(entry.pw_uid)) == 2, told
    roots = open_web.yopp("run", "-q", "-d", "sleep", "60").stdout.split()[-1]
    assert as_other(*yopp, "app", "kill", roots, *there, "-y").returncode == 77
    assert as_other(*yopp, "logs", *there, roots).stdout == ""
    assert open_web.rm.get(f"{APPS}/{roots}/state").json != {"state": "KILLED"}


def test_another_users_submission_is_bounded(open_web: WebCluster) -> None:
    status, said = submitted(open_web, OTHER, f": {'x' * 300_000}")
    assert status == 400 and "the limit is 262,144" in said
    assert submitted(open_web, OTHER, f": {'x' * 100_000}")[0] == 202


def test_another_user_changes_only_what_is_his(open_web: WebCluster) -> None:
    web = open_web
    roots = web.yopp("run", "-q", "-d", "sleep", "60").stdout.split()[-1]
    web.yopp("wait", roots, "--for", "RUNNING")
    (container,) = web.yopp.containers("--app", roots)[:1]
    status, his = submitted(web, OTHER, "sleep 60")
    assert status == 202, his
    killed = {"state": "KILLED"}
    answers = asks(
        OTHER,
        ("PUT", f"{web.rm.url}{APPS}/{roots}/state", killed),
        ("PUT", f"{web.rm.url}{APPS}/{roots}/queue", {"queue": "default"}),
        ("PUT", f"{web.rm.url}{APPS}/{his}/priority", {"priority": 9}),
        ("POST", f"{web.rm.url}/ws/v1/cluster/containers/{container['id']}/signal/FORCEFUL_SHUTDOWN", {}),
        ("GET", f"{web.nm.url}/ws/v1/node/containers/{container['id']}/logs/stdout", None),
        ("GET", f"{web.rm.url}/logs/rm.log", None),
    )
    assert [status for status, _ in answers] == [403] * 6, answers
    assert asks(THIRD, ("PUT", f"{web.rm.url}{APPS}/{his}/state", killed))[0][0] == 403
    assert web.rm.get(f"{APPS}/{roots}/state").json == {"state": "RUNNING"}
    assert asks(OTHER, ("PUT", f"{web.rm.url}{APPS}/{his}/state", killed))[0][0] == 200
    wait_until(lambda: web.rm.get(f"{APPS}/{his}/state").json == {"state": "KILLED"}, what="his own ends")


def test_another_users_master_and_a_system_users_command_never_run(open_web: WebCluster, place: Path) -> None:
    variables = {"entry": [{"key": "YOPP_REGISTERS_ITSELF", "value": "true"}]}
    status, said = submitted(open_web, OTHER, f"touch {place}/ran", environment=variables)
    assert status == 400 and "another user" in said
    status, job = submitted(open_web, THIRD, f"touch {place}/ran")
    assert status == 202
    web = open_web
    wait_until(lambda: web.rm.get(f"{APPS}/{job}").json["app"]["state"] == "FINISHED", what="its end")
    assert web.rm.get(f"{APPS}/{job}").json["app"]["finalStatus"] == "FAILED"
    assert not (place / "ran").exists()


def test_a_cluster_that_would_run_them_as_root_does_not_start(yopp: Yopp) -> None:
    who = "-Dyarn.nodemanager.linux-container-executor.nonsecure-mode"
    refused = yopp(
        "up", "-Dyopp.webapp.submitters=all", f"{who}.limit-users=true", f"{who}.local-user=root", code=None
    )
    assert refused.returncode != 0 and "would run as root" in refused.stderr
