"""Every example of every manual page is typed, as it stands there, into a shell beside a live cluster."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from yarnopp_cli import manual
from yarnopp_cli.cli.table import TABLE
from yarnopp_cli.roff import Literal

from .conftest import ROOT, Yopp, wait_until

FOREGROUND = "a daemon in the foreground: test_lifecycle.py runs it"
SKIPPED = {
    "yopp rm run": FOREGROUND,
    "exec yopp rm run --run-dir /run/yopp": FOREGROUND,
    "yopp nm run": FOREGROUND,
    "yopp nm run 45454 --memory 2G --vcores 2": FOREGROUND,
}
ENDLESS = ("events -f", "ps -w", "logs -f", "wait ", "yopp top", "node drain 45455")
"""What goes on until somebody ends it, or until jobs have ended that take a minute here: it is ended after a while."""
CODES = {
    "yopp rmadmin refresh-queues": {0, 1},
    "yopp rmadmin -refreshQueues": {0, 1},
    "yopp doctor": {0, 1},
    "yopp doctor --fix": {0, 1},
}
FRESH = (
    "yopp down", "rm stop", "rm restart", "nm start", "nm stop", "nm restart", "node resize --vcores",
    "update-node-resource",
    " kill", " signal", "refresh-nodes", "node drain",
)  # fmt: skip
"""After these the cluster is made anew."""


ALONE = ("man", "completion", "version", "config", "doctor")
"""These need no cluster."""


def examples(name: str) -> list[str]:
    blocks = dict(manual.named_page(name).sections)["DESCRIPTION"]
    return [line for block in blocks if isinstance(block, Literal) for line in block.lines]


def prepare(yopp: Yopp) -> None:
    """Two nodes, two jobs that have ended, and two that live: 3 and 4, with containers that run."""
    yopp("down", "-y", "--force", code=None)
    (yopp.home / "exclude").write_text("45455\n")
    exclude = f"yarn.resourcemanager.nodes.exclude-path={yopp.home}/exclude"
    yopp("up", "--nodes", "2", "--vcores", "8", "--memory", "640", "-D", exclude)
    for _ in range(2):
        yopp("run", "true")
    for _ in range(2):
        yopp("run", "-d", "-n", "2", "-O", "--memory", "32", "sleep", "60")
    wait_until(lambda: len(yopp.containers("--state", "RUNNING")) == 6, what="two masters, four tasks")


def typed(yopp: Yopp, line: str) -> str:
    """The line with what is only true of the manual's own cluster replaced, and less patience."""
    line = line.replace("host1:45454", f"{socket.gethostname()}:45454").replace(
        "/etc/hadoop/", f"{yopp.home}/"
    )
    if line == "yopp down":  # which asks where something lives
        yopp("app", "kill", "all", "-y")
    if line in ("yopp nm stop", "yopp nm restart"):  # which are for the only node
        yopp("nm", "stop", "45455")
    if "appattempt_" in line:
        apps = yopp.json("app", "list")["apps"]["app"]
        line = re.sub(r"appattempt_\d+_\d+_\d+", apps[0]["yopp"]["currentAttempt"], line)
    line = line.replace("--memory 2G --vcores 2 -- make", "--memory 128 --vcores 2 -- make")
    line = (
        line.replace("--memory 2G", "--memory 256").replace("-d 5", "-d 0.2").replace("sleep 10", "sleep 1")
    )
    return line.replace("45454 4096 8", "45454 512 8").replace("up --nodes 2 --memory 1024", "up")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [entry.name for entry in TABLE])
def test_the_examples_of_a_page(yopp: Yopp, name: str) -> None:
    folder = yopp.home / "bin"
    folder.mkdir()
    program = folder / "yopp"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m yarnopp_cli "$@"\n')
    program.chmod(0o755)
    (yopp.home / "configs").symlink_to(ROOT / "configs")
    (yopp.home / "Makefile").write_text("all:\n\t@true\n")
    (yopp.home / "yarn-site.xml").write_text("<configuration></configuration>\n")
    environment = {**yopp.environment, "PATH": f"{folder}:{yopp.environment['PATH']}"}
    if (plots := importlib.util.find_spec("matplotlib")) is not None and plots.origin:
        environment["PYTHONPATH"] += f":{Path(plots.origin).parent.parent}"  # wherever it is installed
    prepared, failed = False, []
    for line in examples(name):
        if line in SKIPPED or not runs_here(line):
            continue
        if not prepared and name not in ALONE:
            prepare(yopp)
            prepared = True
        endless = any(word in line for word in ENDLESS)
        shell = "bash" if "bash" in line else "sh"
        words = (
            ["timeout", "4", shell, "-c", typed(yopp, line)] if endless else [shell, "-c", typed(yopp, line)]
        )
        ended = subprocess.run(
            words, env=environment, cwd=yopp.home, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        allowed = CODES.get(line, {0}) | ({124} if endless else set())
        if ended.returncode not in allowed or "Traceback" in ended.stderr:
            failed.append(f"{line}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}")
        if "--json" in line and not endless and ended.returncode == 0:
            for part in ended.stdout.splitlines():
                json.loads(part)
        if any(word in line for word in FRESH):
            prepared = False
    assert not failed, "\n".join(failed)


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
