"""The value of a variable reaches its container, and nobody else: whatever shows, keeps or logs a job has its name."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Yopp, wait_until

from .conftest import Site, WebCluster, started

pytestmark = pytest.mark.live

NAME, VALUE = "SECRET_NAME", "hunter2secret"
ASSIGNED = f"{NAME}={VALUE}"
SHOW = f"echo got ${{#{NAME}}}"
GOT = f"got {len(VALUE)}"
APPS = "/ws/v1/cluster/apps"


@pytest.fixture
def cluster(yopp: Yopp) -> WebCluster:
    """Its directories are where all users may look."""
    places = [f"-Dyarn.nodemanager.{name}-dirs={yopp.home}/{name}" for name in ("local", "log")]
    return started(yopp, "--vcores", "8", "--memory", "2048", *places)


def submit(web: WebCluster, command: str) -> str:
    application = str(web.rm("POST", f"{APPS}/new-application").json["application-id"])
    environment: dict[str, Any] = {"entry": [{"key": NAME, "value": VALUE}]}
    spec = {"commands": {"command": command}, "environment": environment}
    answer = web.rm("POST", APPS, {"application-id": application, "am-container-spec": spec})
    assert answer.status == 202 and VALUE not in str(answer)
    return application


def holders(folder: Path) -> list[tuple[Path, bool]]:
    """The files that have the value in them, and whether their modes, and those of their directories, let others in."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a daemon has just replaced or removed it
            if path.is_file() and VALUE.encode() in path.read_bytes():
                modes = path.stat().st_mode & 0o077, path.parent.stat().st_mode & 0o077
                found.append((path, all(modes)))
    return found


def test_nobody_is_told_the_value_of_a_variable(cluster: WebCluster) -> None:
    web, yopp = cluster, cluster.yopp
    told: dict[str, str] = {}

    def keep(what: str, *words: str, code: int | None = 0) -> str:
        ended = yopp(*words, code=code)
        told[what] = ended.stdout + ended.stderr
        return ended.stdout

    def look(site: Site, path: str) -> None:
        for accept in ("application/json", "text/html", "application/xml"):
            told[f"{path} {accept}"] = site.get(path, Accept=accept).body.decode()

    shell = ("sh", "-c", SHOW)
    assert GOT in keep("foreground", "run", "-v", "-n", "2", "-e", ASSIGNED, *shell)
    keep("dshell", "dshell", "-shell_command", SHOW, "-shell_env", ASSIGNED, "-num_containers", "1")
    keep("dry run", "run", "--dry-run", "-e", ASSIGNED, *shell)
    keep("failed", "run", f"-e{ASSIGNED}", "sh", "-c", "exit 3", code=3)
    keep("json", "run", "--json", f"--env={ASSIGNED}", *shell)
    long = f"{SHOW}; sleep 600"
    living = [
        json.loads(keep("detached", "run", "--json", "-d", "-e", ASSIGNED, "sh", "-c", long))["app"]["id"],
        keep(
            "detached dshell", "dshell", "-q", "-d", "--shell-command", long, "--shell-env", ASSIGNED
        ).split()[-1],
        submit(web, long),
    ]
    for app in living:
        wait_until(lambda app=app: GOT in yopp("logs", app).stdout, what="it has got the value")
    held = holders(yopp.home)
    assert held, "what daemons need to run it"
    assert [path for path, others in held if others] == []
    commands = [
        "ps -a -o wide",
        "app list -a -o wide",
        "app list -a --json",
        "container list -a --json",
        "status --json",
    ]
    apps = [one["id"] for one in yopp.json("app", "list", "-a")["apps"]["app"]]
    assert len(apps) == 7
    for app in apps:
        commands += [f"app status {app}"]
        for path in (f"{APPS}/{app}", f"/cluster/app/{app}", f"{APPS}/{app}/appattempts"):
            look(web.rm, path)
    for container in (one["id"] for one in yopp.containers("-a")):
        look(web.nm, f"/ws/v1/node/containers/{container}")
        look(web.nm, f"/node/container/{container}")
    for path in (APPS, "/cluster", "/cluster/apps", "/ws/v1/cluster/scheduler/activities", "/jmx"):
        look(web.rm, path)
    for path in (
        "/ws/v1/node/apps",
        "/ws/v1/node/containers",
        "/node/allContainers",
        "/node/allApplications",
    ):
        look(web.nm, path)
    for command in commands:
        keep(command, *command.split(), code=None)
    assert [what for what, text in told.items() if VALUE in text] == []
    assert f"{NAME}=..." in told["app list -a --json"]
    for app in living:
        yopp("app", "kill", app)
    yopp("report", apps[0], "--out", str(yopp.home / "report.html"))
    yopp("events", apps[0], code=None)
    yopp("down", "-y")
    assert holders(yopp.home) == []
