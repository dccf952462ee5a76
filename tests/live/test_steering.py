"""explain, events, stats, drains, dry runs and reports over real daemons."""

from __future__ import annotations

import json
import os
import signal
import time
from html.parser import HTMLParser
from typing import Any

import pytest

from .conftest import ROOT, Yopp, wait_until


def stream(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def busy(yopp: Yopp, number: int = 4, seconds: int = 60) -> None:
    """A job of one-vcore containers, two of which run."""
    yopp.start("run", "-n", str(number), "-O", "--memory", "64", "sleep", str(seconds))
    wait_until(lambda: len(yopp.containers("--state", "RUNNING")) == 2, what="two running")
    wait_until(lambda: len(yopp.containers("--state", "QUEUED")) == number - 2, what="the others queued")


def test_explain_says_why_one_queues_and_what_would_help(cluster: Yopp) -> None:
    busy(cluster)
    queued = cluster.containers("--state", "QUEUED")
    found = cluster.json("explain", queued[1]["id"])["explain"]
    assert (found["state"], found["position"], found["queueLength"]) == ("QUEUED", 2, 2)
    assert found["can_ever"] is True and found["waits"] is True
    [vcores] = [one for one in found["reasons"] if one["code"] == "NO_VCORES"]
    assert (vcores["needs"], vcores["free"], vcores["total"], len(vcores["by"])) == (1, 0, 2, 2)
    text = cluster("explain", queued[0]["id"]).stdout
    assert "1st of 2" in text and f"yopp container promote {queued[0]['id']}" in text
    cluster("container", "promote", queued[0]["id"])
    assert cluster.json("explain", queued[0]["id"])["explain"]["waits"] is False
    assert cluster.json("explain", "last")["explain"]["kind"] == "application"
    assert cluster.json("explain", "45454")["explain"]["kind"] == "node"
    assert cluster("explain", "99", code=66).stdout == ""


def test_an_estimate_comes_true(cluster: Yopp) -> None:
    """Against the time that the tasks themselves take: estimates are no better than that."""
    cluster("run", "-n", "2", "-O", "--memory", "64", "sleep", "2")
    process = cluster.start("run", "-n", "4", "-O", "--memory", "64", "sleep", "2")
    queued = wait_until(lambda: cluster.containers("--state", "QUEUED"), what="two queued")
    found = json.loads(cluster.look("explain", queued[-1]["id"], "--json"))["explain"]
    assert found["estimate"] == "median-node-time", "of another job, on the same node"
    process.communicate(timeout=60)
    ended = {one["id"]: one["yopp"] for one in cluster.containers("-a")}
    longest = max(times["finishedAt"] - times["startedAt"] for times in ended.values())
    assert abs(ended[queued[-1]["id"]]["startedAt"] - found["estimatedStart"]) < 1500 + longest - 2000


def test_events_are_followed_and_resumed_without_a_gap(cluster: Yopp) -> None:
    follower = cluster.start("events", "-f", "--json", "--since", "0")
    cluster("run", "-n", "3", "-O", "--memory", "64", "true")
    every = stream(cluster("events", "--json", "--since", "0").stdout)
    assert [one["seq"] for one in every] == list(range(1, len(every) + 1))
    kinds = [one["kind"] for one in every]
    for kind in (
        "NodeAdded",
        "ApplicationSubmitted",
        "ContainerAllocated",
        "ContainerStarted",
        "ApplicationFinished",
    ):
        assert kind in kinds
    assert kinds.count("ContainerCompleted") == 3
    middle = every[len(every) // 2]["seq"]
    rest = stream(cluster("events", "--json", "--since", str(middle)).stdout)
    assert [one["seq"] for one in rest] == list(range(middle + 1, len(every) + 1))
    container = next(one["container"] for one in every if one["kind"] == "ContainerStarted")
    of_one = stream(cluster("events", "--json", "--container", container).stdout)
    assert {one["container"] for one in of_one} == {container} and len(of_one) >= 4
    assert cluster("events", "--kind", "nonsense", code=2).stdout == ""
    assert follower.stdout is not None
    seen: list[Any] = []
    deadline = time.monotonic() + 20
    while len(seen) < len(every) and time.monotonic() < deadline:
        seen.append(json.loads(follower.stdout.readline()))
    assert seen == every
    follower.terminate()


def test_stats_are_lines_with_times_and_measure_what_runs(cluster: Yopp) -> None:
    cluster.start("run", "--memory", "64", "sh", "-c", "while :; do :; done")
    wait_until(lambda: cluster.containers("--state", "RUNNING"), what="it runs")
    samples = stream(cluster("stats", "-n", "3", "-d", "1.2", "--json").stdout)
    assert len(samples) == 3
    assert [one["t"] for one in samples] == sorted(one["t"] for one in samples)
    [container] = samples[-1]["containers"]
    assert container["cpuPercent"] > 5 and container["limitMB"] == 64 and container["vcores"] == 1
    assert 0 < container["cpuPercent"] <= 100 * (os.cpu_count() or 1)
    header, *rows = cluster("stats", "-o", "tsv").stdout.splitlines()
    assert header.split("\t")[:3] == ["t", "id", "type"] and len(rows) == 2


def test_a_drain_waits_for_what_runs_and_a_resume_takes_new_work(cluster: Yopp) -> None:
    script = f"until [ -e {cluster.home}/go ]; do sleep 0.05; done"
    job = cluster.start("run", "-n", "2", "-O", "--memory", "64", "sh", "-c", script)
    wait_until(lambda: len(cluster.containers("--state", "RUNNING")) == 2, what="both run")
    plan = cluster("node", "drain", "45454", "--dry-run")
    assert "would be DECOMMISSIONING" in plan.stdout
    assert cluster.json("node", "status", "45454")["node"]["state"] == "RUNNING"
    drain = cluster.start("node", "drain", "45454")
    wait_until(
        lambda: cluster.json("node", "status", "45454")["node"]["state"] == "DECOMMISSIONING",
        what="it drains",
    )
    assert drain.poll() is None and len(cluster.containers("--state", "RUNNING")) == 2
    (cluster.home / "go").touch()
    assert job.wait(30) == 0
    assert "DECOMMISSIONED" in drain.communicate(timeout=30)[0] and drain.returncode == 0
    given_up = cluster.start("run", "-d", "--memory", "64", "true")
    begun = wait_until(
        lambda: (cluster.json("app", "list")["apps"] or {}).get("app"), what="it was submitted"
    )
    given_up.send_signal(signal.SIGINT)
    out, err = given_up.communicate(timeout=30)
    assert (given_up.returncode, out, f"ended {begun[0]['id']}" in err) == (130, "", True)
    assert cluster.json("app", "status", begun[0]["id"])["app"]["state"] == "KILLED"
    waiting = cluster.start("run", "--memory", "64", "true")
    app = wait_until(lambda: (cluster.json("app", "list")["apps"] or {}).get("app"), what="it was submitted")
    # it is listed a moment before its master has asked for its container
    wait_until(lambda: cluster.json("explain", app[0]["id"])["explain"]["waits"], what="it waits")
    assert waiting.poll() is None
    cluster("node", "resume", "45454")
    assert waiting.wait(30) == 0
    cluster("node", "resize", "--vcores", "1", "45454")
    assert cluster.json("node", "status", "45454")["node"]["totalResource"]["vCores"] == 1
    assert (
        cluster("node", "resize", "--vcores", "9000", "45454", "--dry-run").stderr.count("promised on") == 1
    )
    for words in (("node", "resize", "--memory", "999T"), ("rmadmin", "-updateNodeResource")):
        more = ("1047527424", "1") if words[0] == "rmadmin" else ()
        assert "cannot be promised" in cluster(*words, "45454", *more, code=1).stderr
    assert cluster("rmadmin", "-getServiceState").stdout == "active\n"


def test_a_drain_that_does_not_wait_ends_a_master_and_not_its_job(cluster: Yopp) -> None:
    own_container = "-Dyopp.resourcemanager.hosted-masters=false"
    cluster("run", own_container, "-d", "-n", "1", "--memory", "32", "sleep", "60")
    wait_until(lambda: len(cluster.containers("--state", "RUNNING")) == 2, what="the master and its task")
    assert "DECOMMISSIONED" in cluster("node", "drain", "45454", "--kill-after", "0.1s").stdout
    app = cluster.json("app", "status", "last")["app"]
    assert (app["state"], app["finalStatus"]) == ("ACCEPTED", "UNDEFINED")
    cluster("node", "resume", "45454")
    wait_until(
        lambda: len(cluster.containers("--state", "RUNNING")) == 2, what="another master and the task again"
    )
    attempts = cluster.json("attempt", "list", "last")
    assert len(attempts["appAttempts"]["appAttempt"]) == 2
    cluster("app", "kill", "last")


def test_a_dry_run_says_what_then_happens_and_changes_nothing(cluster: Yopp) -> None:
    words = ["-n", "5", "-O", "--memory", "64", "sleep", "30"]
    before = cluster("events", "--json", "--since", "0").stdout
    plan = json.loads(cluster("run", "--dry-run", "--json", *words).stdout)["dryRun"]
    assert cluster("events", "--json", "--since", "0").stdout == before
    [node] = plan["nodes"]
    assert (node["starts"], node["queued"], plan["waiting"]) == (2, 3, 0)
    cluster.start("run", *words)
    wait_until(lambda: len(cluster.containers("--state", "RUNNING")) == node["starts"], what="as forecast")
    wait_until(lambda: len(cluster.containers("--state", "QUEUED")) == node["queued"], what="as forecast")
    told = cluster("app", "kill", "all", "--dry-run").stdout
    assert "would be killed" in told and len(cluster.containers()) == 5
    assert (
        cluster("run", "--dry-run", "--memory", "900G", "true", code=1).stdout.count("could never run") == 1
    )


def test_a_dry_run_starts_no_cluster(yopp: Yopp) -> None:
    assert "no cluster is running" in yopp("run", "--dry-run", "true").stdout
    assert "no cluster is running" in yopp("pi", "--dry-run", "2", "10").stdout
    assert "no cluster is running" in yopp("dshell", "--dry-run", "--shell-command", "date").stdout
    assert not (yopp.run_dir / "rm.sock").exists()


class Page(HTMLParser):
    """What a page refers to, and its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_a_report_stands_alone_and_outlives_its_cluster(cluster: Yopp) -> None:
    cluster("run", "-n", "5", "-O", "--memory", "64", "sleep", "0.3")
    figures = cluster.json("report", "last")["report"]
    assert (figures["containers"], figures["ran"], figures["outcomes"]["ok"]) == (5, 5, 5)
    states = {part["state"] for line in figures["lines"] for part in line["segments"]}
    assert {"queued", "running"} <= states
    assert all(one["begin"] <= one["end"] for line in figures["lines"] for one in line["segments"])
    cluster("down", "-y")
    assert cluster.json("report", "last")["report"] == figures
    matplotlib = pytest.importorskip("matplotlib", reason="Matplotlib is not here: no picture was drawn")
    paths = f"{ROOT}:{os.path.dirname(os.path.dirname(matplotlib.__file__))}"
    path = cluster("report", "last", "--out", "page.html", env={"PYTHONPATH": paths}).stdout.strip()
    page = Page()
    text = (cluster.home / path).read_text()
    page.feed(text)
    assert page.tags.count("svg") == 3 and page.tags.count("script") == 0
    assert all(link.startswith("#") for link in page.links), "it refers to nothing beside itself"
    assert figures["lines"][0]["id"] in text
