"""The machine restarts: every process ends at once, what is in memory is gone, and the kernel has another boot id."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from executor.linux.store import BOOT

from .conftest import Yopp, wait_until
from .test_gpus import ALLOWED, TYPES, gpus

pytestmark = pytest.mark.live

GRACE = "-Dyopp.resourcemanager.client-am-grace-ms=1000"
EARLIER = "11111111-2222-3333-4444-555555555555"


def up(yopp: Yopp) -> None:
    words = ("-Dyarn.resourcemanager.recovery.enabled=true", GRACE, TYPES, f"-D{ALLOWED}={gpus(1)}")
    yopp("up", "--vcores", "4", "--memory", "2048", *words)


def reboot(yopp: Yopp, *kept: str) -> None:
    """What a restart of the machine leaves: files of an earlier boot on disk, of the run directory ``kept``."""

    def processes() -> list[str]:
        found = [line.split()[1].rstrip(":") for line in yopp.leftovers() if line.startswith("process ")]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for one in yopp.started:
            one.poll()
        return found

    wait_until(lambda: not processes(), what="every process has ended")
    for path in yopp.run_dir.iterdir():
        if path.name not in ("state", *kept):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for written in yopp.run_dir.glob(f"state/nm-*/containers/{BOOT}"):
        written.write_text(EARLIER + "\n")
    with (
        contextlib.closing(sqlite3.connect(yopp.run_dir / "state" / "rm" / "state.db")) as database,
        database,
    ):
        ((document,),) = database.execute("SELECT document FROM record WHERE kind = 'cluster'")
        changed = json.dumps(json.loads(document) | {"boot_id": EARLIER}).encode()
        database.execute("UPDATE record SET document = ? WHERE kind = 'cluster'", (changed,))


def began(log: Path) -> Counter[str]:
    return Counter(log.read_text().split() if log.exists() else [])


def test_what_waited_begins_and_what_ran_is_lost_with_the_machine_and_runs_again(yopp: Yopp) -> None:
    log, go = yopp.home / "log", yopp.home / "go"
    values = yopp.home / "values"
    values.write_text("a\nb\nc\n")
    up(yopp)

    def run(*words: str) -> str:
        return yopp("run", "-q", "-d", "--memory", "64", *words).stdout.strip()

    until = f"until [ -e {go} ]; do sleep 0.02; done"
    some = f"echo $YOPP_TASK >> {log}; [ $YOPP_TASK -le 2 ] || {until}"
    work = run("-n", "6", "--max-running", "2", "--retries", "0", "--", "sh", "-c", some)
    gpu = run("--gpus", "1", "--", "sh", "-c", f"{until}; echo device $CUDA_VISIBLE_DEVICES")
    # b begins after the end of a has been heard of
    half = f"[ {{}} != b ] || touch {yopp.home}/half; [ {{}} = a ] || {until}; echo {{}}"
    sweep = run("--from", str(values), "--max-running", "1", "--retries", "0", "--", "sh", "-c", half)
    small = ("-Dmapreduce.map.memory.mb=64", "-Dmapreduce.reduce.memory.mb=64")
    pi = yopp("pi", "-q", "-d", *small, "3", "3000000").stdout.strip()
    after = run("--after", work, "--", "true")
    late = run("--after", work, "--deadline", "+2s", "--", "true")
    begins = run("--begin", "+2s", "--", "true")
    opportunistic = run("-O", "--retries", "0", "-n", "2", "--", "sh", "-c", until)
    followed = yopp.start("run", "--name", "followed", "--memory", "64", "--", "sh", "-c", until)
    wait_until(lambda: len(began(log)) == 4 and (yopp.home / "half").exists(), what="half of them have ended")
    wait_until(lambda: "followed" in yopp.look("app", "list"), what="all jobs are there")
    running = [one["id"] for one in yopp.containers() if one["yopp"]["state"] == "RUNNING"]
    ran = [one for one in running if pi.removeprefix("application") not in one]  # a map may end meanwhile
    assert len(ran) >= 3
    reboot(yopp)
    assert followed.returncode == -signal.SIGKILL
    up(yopp)
    told = yopp("events", "-n", "500").stdout.splitlines()
    for container in ran:
        (end,) = (line for line in told if f"ContainerAborted          {container}" in line)
        assert "Container lost: the machine was restarted while it ran." in end
    assert "its deadline has passed" in yopp("wait", late, code=124).stderr
    (gone,) = (one for one in yopp.json("app", "list", "-a")["apps"]["app"] if one["name"] == "followed")
    yopp("wait", gone["id"], code=None)
    go.touch()
    yopp("wait", work, gpu, sweep, pi, after, begins, opportunistic, timeout=120)
    assert began(log) == Counter({"1": 1, "2": 1, "3": 2, "4": 2, "5": 1, "6": 1})
    assert yopp("logs", gpu).stdout.count("device 0") == 1
    assert sorted(line[-1] for line in yopp("logs", sweep).stdout.splitlines()) == ["a", "b", "c"]
    told = yopp.json("app", "status", gone["id"])["app"]
    assert (told["finalStatus"], told["diagnostics"]) == (
        "FAILED",
        "its client is gone: it was a foreground job",
    )
    report = (yopp.home / yopp("report", work).stdout.strip()).read_text()
    assert "the machine was restarted while it ran" in report


@pytest.mark.parametrize("kept", [(), ("site.json", "nodes.json")])
def test_a_job_after_it_starts_the_cluster_that_was_up_or_one_for_itself(
    yopp: Yopp, kept: tuple[str, ...]
) -> None:
    up(yopp)
    waiting = yopp("run", "-q", "-d", "--begin", "+2s", "--", "true").stdout.strip()
    reboot(yopp, *kept)
    said = yopp("run", "--memory", "64", "--", "echo", "there")
    assert said.stdout == "there\n"
    told = (
        "stays until `yopp down`"
        if kept
        else "which goes on with 1 stored application, and ends after the last"
    )
    assert told in said.stderr
    assert "SUCCEEDED" in yopp("wait", waiting).stdout, "it goes on in both"
    if not kept:
        wait_until(lambda: yopp("status", code=None).returncode == 3, what="it has ended")
