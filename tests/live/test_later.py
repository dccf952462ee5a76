"""Jobs that begin later, in a real cluster: chains, times, deadlines and what they exit with."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Yopp, a_yopp, wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def cluster() -> Iterator[Yopp]:
    with a_yopp(Yopp) as program:
        program("up", "--vcores", "2", "--memory", "1024")
        yield program


def test_a_command_on_the_end_reads_the_jobs_document(cluster: Yopp, tmp_path: Path) -> None:
    count = f"cat >{tmp_path}/$FILE; exit 7"
    for words, code in ((("-d",), 0), ((), 3)):
        name = "detached" if words else "foreground"
        env = {"FILE": name}
        told = cluster(
            "run", *words, "--name", name, "--on-end", count, "sh", "-c", "exit 3", env=env, code=code
        )
        following = re.search(
            r"(application_\S+) runs the --on-end command once (application_\S+) has ended; "
            r"`(yopp wait \1)` shows how the command ends",
            told.stderr,
        )
        assert following is not None, told.stderr
        cluster(*following[3].split()[1:], code=7)
        document = json.loads((tmp_path / name).read_text())["app"]
        assert (document["id"], document["finalStatus"]) == (following[2], "FAILED")
        shown = cluster.json("app", "status", following[1])["app"]
        assert (shown["name"], shown["applicationTags"]) == (f"{name} (on-end)", "on-end")
        cluster("wait", "last", code=3)


def test_a_chain_a_time_and_a_deadline(cluster: Yopp, tmp_path: Path) -> None:
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3"
    first = cluster("run", "-q", "-d", "--", "sh", "-c", script).stdout.strip()
    never = cluster("run", "-q", "-d", "--after", first, "--", "true").stdout.strip()
    behind = cluster("run", "-q", "-d", "--after", never, "--", "true").stdout.strip()
    cleanup = cluster("run", "-q", "-d", "--after", f"{first}:failed", "--", "true").stdout.strip()
    waits = cluster.json("app", "status", behind)["app"]
    assert waits["state"] == "ACCEPTED" and waits["yopp"]["after"] == [f"{never}:ok"]
    assert f"It waits for {never} to succeed" in cluster("explain", behind).stdout
    (tmp_path / "go").touch()
    cluster("wait", never, behind, code=125)
    cluster("wait", cleanup)
    begun = time.time()
    assert cluster("run", "--begin", "+1s", "--", "echo", "here").stdout == "here\n"
    assert time.time() - begun >= 1
    cluster("run", "--deadline", "+5s", "--", "sleep", "60", code=124)
    cluster("run", "--after", "999", "--", "true", code=66)


def test_the_time_of_a_job_counts_from_its_submission_also_without_a_node(cluster: Yopp) -> None:
    cluster("node", "drain", "45454")
    typed = time.monotonic()
    told = cluster("run", "--timeout", "3s", "true", code=124).stderr
    assert time.monotonic() >= typed + 3
    cluster("node", "resume", "45454")
    assert "is drained, so the job waits" in told
    assert re.search(r"^stopped after [\d.]+ s", told, re.MULTILINE), told  # since it was submitted


def test_the_time_of_a_job_that_begins_later_counts_from_then(cluster: Yopp, tmp_path: Path) -> None:
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    first = cluster("run", "-q", "-d", "--", "sh", "-c", script).stdout.strip()
    second = cluster.start("run", "--after", first, "--timeout", "1", "echo", "here")
    wait_until(lambda: len(cluster.json("app", "list")["apps"]["app"]) == 2, what="it is submitted")
    submitted = time.monotonic()
    wait_until(lambda: time.monotonic() > submitted + 1.5, what="its time would be over")
    (tmp_path / "go").touch()
    assert second.communicate(timeout=30)[0] == "here\n" and second.returncode == 0
    begun = time.monotonic()
    cluster("run", "--begin", "+2s", "--timeout", "1", "sleep", "100", code=124)
    assert time.monotonic() >= begun + 3


def test_outside_the_window_opportunistic_containers_wait_and_guaranteed_ones_run() -> None:
    opens = time.localtime(time.time() + 3600)
    closes = time.localtime(time.time() + 7200)
    window = f"{opens.tm_hour:02}:{opens.tm_min:02}-{closes.tm_hour:02}:{closes.tm_min:02}"
    with a_yopp(Yopp) as yopp:
        wrong = yopp("up", "-Dyopp.nodemanager.opportunistic.window=evenings", code=78)
        assert "'evenings' is not a window of time" in wrong.stderr
        yopp("up", "--vcores", "2", "--memory", "1024", f"-Dyopp.nodemanager.opportunistic.window={window}")
        waits = yopp("run", "-q", "-d", "-O", "true").stdout.strip()
        wait_until(lambda: [one["yopp"]["state"] for one in yopp.containers()] == ["QUEUED"])
        assert yopp("run", "echo", "there").stdout == "there\n"
        assert "1/10 (window)" in yopp("node", "list").stdout
        stopped = yopp("run", "-O", "-n", "2", "--timeout", "1s", "true", code=124)
        assert "2 queued (window)" in stopped.stderr
        assert (
            "none runs before 2" in yopp("node", "status", yopp("node", "list", "-q").stdout.strip()).stdout
        )
        told = yopp("explain", waits).stdout
        assert "do not run before" in told and "the window for opportunistic containers is closed" in told
        there = yopp("explain", "45454").stdout
        assert "do not run before" in there and ".c1: it waits until then" in there
        yopp("app", "kill", waits)
