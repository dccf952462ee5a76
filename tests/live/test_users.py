"""Jobs of other users in root's cluster: they run as those users, whose output is theirs to read."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from yarnopp_cli.cli.jobs.variables import surroundings_of
from yarnopp_cli.errors import YoppError

from .conftest import Yopp

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may submit for others"),
]
OTHER = "nobody"
_AS = """
import os, pwd, sys, warnings
entry = pwd.getpwnam(sys.argv[1])
os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid)); os.setgid(entry.pw_gid); os.setuid(entry.pw_uid)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def as_user(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user of the host."""
    return subprocess.run(
        [sys.executable, "-I", "-c", _AS, name, *words], cwd="/", capture_output=True, text=True
    )


@pytest.fixture
def users(yopp: Yopp, place: Path) -> Yopp:
    """A cluster of root's that serves other users."""
    directories = (f"-Dyarn.nodemanager.{one}-dirs={place / one}" for one in ("local", "log"))
    yopp("up", "--vcores", "2", "--memory", "1024", *directories)
    return yopp


def test_a_job_runs_as_the_user_for_whom_root_submits_it(users: Yopp, place: Path) -> None:
    entry = pwd.getpwnam(OTHER)
    script = 'id -u; id -g; echo "$HOME $USER $SECRET,$A"; pwd; kill -0 $1 || echo refused; echo theirs >made; cat made'
    pid = (users.run_dir / "rm.pid").read_text().strip()
    words = ("run", "--user", OTHER, "-e", "A=a", "-n", "2", "sh", "-c", script, "sh", pid)
    said = users(*words, env={"SECRET": "s3cret"}).stdout
    expected = [str(entry.pw_uid), str(entry.pw_gid), f"{entry.pw_dir} {OTHER} ,a", "refused", "theirs"]
    for task in (1, 2):
        lines = [
            line.removeprefix(f"[{task}] ") for line in said.splitlines() if line.startswith(f"[{task}] ")
        ]
        assert [line for line in lines if not line.startswith("/") or line == expected[2]] == expected
    (app,) = users.json("app", "list", "--state", "all")["apps"]["app"]
    assert app["user"] == OTHER and app["finalStatus"] == "SUCCEEDED"
    logs = sorted((place / "log" / app["id"]).iterdir())
    assert len(logs) == 2 and {one.stat().st_uid for one in logs} == {entry.pw_uid}
    read = as_user(OTHER, "cat", str(logs[0] / "stdout"))
    assert read.returncode == 0 and "theirs" in read.stdout, "its user reads its output"
    stranger = as_user("daemon", "cat", str(logs[0] / "stdout"))
    assert stranger.returncode != 0 and stranger.stdout == "", "and no other does"
    assert "theirs" in users("logs", app["id"]).stdout


def test_a_user_who_gets_no_container_is_told_and_nothing_runs(users: Yopp, place: Path) -> None:
    refused = users("run", "--user", "daemon", "touch", str(place / "ran"), code=None)
    assert (
        refused.returncode not in (0, 1) and "min-user-id" in refused.stderr + users("logs", code=None).stderr
    )
    unknown = users("run", "--user", "nobody-of-that-name", "true", code=2)
    assert "there is no user" in unknown.stderr
    named = users("run", "touch", str(place / "ran"), code=None, env={"HADOOP_USER_NAME": "ada"})
    assert named.returncode not in (0, 1)
    assert not (place / "ran").exists()


def test_where_other_users_cannot_go_their_containers_are_refused(cluster: Yopp) -> None:
    """The run directory is closed; its default places for containers are in it."""
    refused = cluster("run", "--user", OTHER, "true", code=None)
    assert refused.returncode == 125 and "cannot reach" in refused.stderr and "local-dirs" in refused.stderr
    assert cluster("run", "id", "-u").stdout == "0\n", "root's own run"


def test_only_root_runs_containers_as_another_user() -> None:
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(pwd.getpwnam(OTHER).pw_uid)
        try:
            surroundings_of("root", [], None)
        except YoppError as error:
            os._exit(error.exit_code)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 77
