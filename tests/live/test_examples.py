"""Every example of every manual page is typed, as it stands there, into a shell beside a live cluster."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.cli.table import TABLE
from yarnopp_cli.manual import pages
from yarnopp_cli.manual.roff import Literal

from .conftest import ROOT, Yopp, a_yopp, wait_until

FOREGROUND = "a daemon in the foreground: test_lifecycle.py runs it"
SERVICE = "it needs a systemd: tests/lifecycle/test_service.py has one"
SKIPPED = {
    "yopp service install": SERVICE,
    "yopp service install --nodes 2 --memory 4G --dry-run": SERVICE,
    "yopp service remove": SERVICE,
    "yopp service remove -y": SERVICE,
    "yopp service status": SERVICE,
    "yopp service status --json": SERVICE,
    "yopp rm run": FOREGROUND,
    "exec yopp rm run --run-dir /run/yopp": FOREGROUND,
    "yopp nm run": FOREGROUND,
    "yopp nm run 45454 --memory 2G --vcores 2": FOREGROUND,
}
ENDLESS = ("events -f", "ps -w", "logs -f", "wait ", "node drain 45455", "nm drain 45455")
"""What goes on until somebody ends it, or until jobs have ended that take long here: it is ended after a while."""
PATIENCE = "2"
CODES = {"yopp doctor": {0, 1}, "yopp doctor --fix": {0, 1}}
DISTURB_JOBS = (
    " kill",
    " signal",
    "container pause",
    "container resume",
    "container demote",
    "container resize",
    "app lifetime",
    "app queue",
)
"""After these the jobs are looked at again, and started anew where they are not what they were."""
DISTURB_NODES = (
    "yopp up", "yopp down", "rm start", "rm stop", "rm restart", "nm start", "nm stop", "nm restart", "node resize",
    "update-node-resource",
    "refresh-nodes", "refresh-queues", "node drain", "node resume", "nm drain", "nm resume",
    "node resource",
)  # fmt: skip
"""After these the cluster is looked at again, and made anew where it is not what it was."""
ALONE = ("man", "completion", "version", "config", "doctor")
"""These need no cluster."""
NODE = (8, 2048)
CONF = """
[yarn.scheduler.capacity]
root.queues = "default,prod,dev"
root.default.capacity = 50
root.prod.capacity = 25
root.dev.capacity = 25
root.dev.queues = "web"
"""
"""The manual's cluster has queues."""


def examples(name: str) -> list[str]:
    blocks = dict(pages.named_page(name).sections)["DESCRIPTION"]
    return [line for block in blocks if isinstance(block, Literal) for line in block.lines]


def on_the_path(yopp: Yopp) -> dict[str, str]:
    """The environment of a shell that finds `yopp`."""
    folder = yopp.home / "bin"
    folder.mkdir()
    program = folder / "yopp"
    shell = shutil.which("bash")  # which hands on the variables that are functions of bash
    program.write_text(f'#!{shell or "/bin/sh"}\nexec {sys.executable} -m yarnopp_cli "$@"\n')
    program.chmod(0o755)
    return {**yopp.environment, "PATH": f"{folder}:{yopp.environment['PATH']}"}


class Stage:
    """One cluster for all pages: two nodes, two jobs that have ended, and two that live, with containers that run."""

    def __init__(self, yopp: Yopp) -> None:
        self.yopp = yopp
        self.nodes_known = self.jobs_known = False
        (yopp.home / "configs").symlink_to(ROOT / "configs")
        training = yopp.home / "train.py"
        training.write_text("#!/bin/sh\nexit 0\n")
        training.chmod(0o755)
        (yopp.home / "Makefile").write_text("all:\n\t@true\n")
        (yopp.home / "yarn-site.xml").write_text("<configuration></configuration>\n")
        (yopp.home / "exclude").write_text("45455\n")
        (yopp.home / "queues.toml").write_text(CONF)
        self.environment = on_the_path(yopp)
        if (plots := importlib.util.find_spec("matplotlib")) is not None and plots.origin:
            self.environment["PYTHONPATH"] += (
                f":{Path(plots.origin).parent.parent}"  # wherever it is installed
            )

    def set(self) -> None:
        """Have everything as it was before the last line."""
        if not self.nodes_known and not self._nodes_stand():
            self.jobs_known = False
            self.yopp("down", "-y", "--force", code=None)
            exclude = f"yarn.resourcemanager.nodes.exclude-path={self.yopp.home}/exclude"
            vcores, memory = map(str, NODE)
            self.yopp("up", "--nodes", "2", "--vcores", vcores, "--memory", memory, "-D", exclude)
            self.yopp("run", "--memory", "32", "-n", "2", "-O", "true")
        self.nodes_known = True
        if not self.jobs_known and len(self._running()) != 4:
            self.yopp("app", "kill", "all", "-y", code=None)
            jobs = [
                self.yopp.start("run", "-d", "-n", "2", "-O", "--memory", "32", "sleep", "6000")
                for _ in range(2)
            ]
            assert [job.wait(30) for job in jobs] == [0, 0]
            wait_until(lambda: len(self._running()) == 4, what="four tasks")
        self.jobs_known = True

    def _nodes_stand(self) -> bool:
        if not (self.yopp.run_dir / "rm.sock").exists():
            return False
        if not {"default", "prod", "web"} <= {one["queueName"] for one in self._queues()}:
            return False
        for drained in [one["id"] for one in self._nodes() if one["state"].startswith("DECOMMISSION")]:
            self.yopp("node", "resume", drained, code=None)
        nodes = self._nodes()
        sizes = [(one["totalResource"]["vCores"], one["totalResource"]["memory"]) for one in nodes]
        ports = [one["id"].rpartition(":")[2] for one in nodes if one["state"] == "RUNNING"]
        return sorted(ports) == ["45454", "45455"] and sizes == [NODE, NODE]

    def _nodes(self) -> list[dict[str, Any]]:
        found = self.yopp.json("node", "list")["nodes"]  # null where there is none
        return list(found["node"]) if found else []

    def _queues(self) -> list[dict[str, str]]:
        return list(self.yopp.json("queue", "list")["queues"]["queue"])

    def _running(self) -> list[str]:
        return [one["id"] for one in self.yopp.containers("--state", "RUNNING")]

    def typed(self, line: str) -> str:
        """The line with what is only true of the manual's own cluster replaced, and less patience."""
        yopp = self.yopp
        line = line.replace("host1:45454", f"{socket.gethostname()}:45454").replace(
            "/etc/hadoop/", f"{yopp.home}/"
        )
        if line == "yopp down":  # which asks where something lives
            yopp("app", "kill", "all", "-y")
        if line in ("yopp nm stop", "yopp nm restart"):  # which are for the only node
            yopp("nm", "stop", "45455")
        if line == "yopp nm resume":  # which is for the only one that is drained
            yopp("nm", "drain", "45455", "--no-wait")
        if "refresh-queues --conf" in line:  # whose queues are others than those of the jobs
            yopp("app", "kill", "all", "-y")
        if re.search(r"appattempt_| 3\b", line):
            newest = yopp.json("app", "list")["apps"]["app"][-1]
            line = re.sub(r"appattempt_\d+_\d+_\d+", newest["yopp"]["currentAttempt"], line)
            line = re.sub(r" 3(\.2)?(?= |$)", rf" {int(newest['id'].rpartition('_')[2])}\1", line)
        if "container resume" in line:  # what nobody paused cannot be resumed
            yopp("container", "pause", line.split()[-1])
        line = line.replace("--memory 2G --vcores 2 -- make", "--memory 128 --vcores 2 -- make")
        line = (
            line.replace("--memory 2G", "--memory 256")
            .replace("-d 5", "-d 0.2")
            .replace("sleep 10", "sleep 1")
        )
        line = line.replace("config set yarn", "config set --conf my.toml yarn")
        line = line.replace("config unset", "config unset --conf my.toml")
        return line.replace("45454 4096 8", "45454 512 8").replace("up --nodes 2 --memory 1024", "up")

    def type(self, line: str) -> str:
        """Type a line into a shell; what is wrong with its end, "" for nothing."""
        endless = any(word in line for word in ENDLESS)
        words = ["bash" if "bash" in line else "sh", "-c", self.typed(line)]
        ended = subprocess.run(
            ["timeout", PATIENCE, *words] if endless else words, env=self.environment, cwd=self.yopp.home,
            capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if "container signal" in line and ended.returncode == 0:  # a sleep ends with each, a moment later
            wait_until(lambda: len(self._running()) < 4, what="the container has ended")
        self.nodes_known &= "--dry-run" in line or not any(word in line for word in DISTURB_NODES)
        self.jobs_known &= self.nodes_known and not any(word in line for word in DISTURB_JOBS)
        allowed = CODES.get(line, {0}) | ({124} if endless else set())
        if ended.returncode not in allowed or "Traceback" in ended.stderr:
            return f"{line}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        if "--json" in line and not endless and ended.returncode == 0:
            for part in ended.stdout.splitlines():
                json.loads(part)
        return ""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with a_yopp(Yopp) as program:
        program.environment["YOPP_CONF"] = f"{program.environment['YOPP_CONF']}:{program.home}/queues.toml"
        yield Stage(program)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [entry.name for entry in TABLE])
def test_the_examples_of_a_page(stage: Stage, name: str) -> None:
    failed = []
    for line in examples(name):
        if line in SKIPPED or not runs_here(line):
            continue
        if name not in ALONE:
            stage.set()
        failed.append(stage.type(line))
    assert not any(failed), "\n".join(filter(None, failed))


def runs_here(line: str) -> bool:
    """Whether what the example needs beside yopp is on this machine."""
    if "make" in line and shutil.which("make") is None:
        return False
    if ("zsh" in line or "source" in line) and not line.endswith((".bash", "_yopp", ".fish")):
        return False
    if line.startswith("yopp report") and "--json" not in line:
        return importlib.util.find_spec("matplotlib") is not None
    return True


def test_hardly_anything_is_skipped() -> None:
    every = [line for entry in TABLE for line in examples(entry.name)]
    assert len(every) > 100
    assert len([line for line in every if line in SKIPPED]) == len(SKIPPED)
