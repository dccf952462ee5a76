"""Every refusal says what happened, why, and what to type next: three lines."""

from __future__ import annotations

import ast
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .fake import Cluster

Cli = Callable[..., Any]
PACKAGE = Path(__file__).resolve().parent.parent.parent / "yarnopp_cli"
FILES = [
    *sorted((PACKAGE / "cli").rglob("*.py")),
    *(
        PACKAGE / name
        for name in (
            "client/local.py",
            "cluster/launching.py",
            "cluster/lifecycle.py",
            "machine/life.py",
            "records/ids.py",
            "resourcemanager/container_updates.py",
            "nodemanager/service.py",
            "resourcemanager/services/admin_service.py",
            "resourcemanager/services/queue_service.py",
        )
    ),
]
OTHERS = {
    "ValueError",
    "KeyError",
    "AssertionError",
    "OSError",
    "TypeError",
    "PermissionError",
    "OutputClosedError",
    "BadValueError",  # the frame makes the three lines of it
    "UpdateContainerError",
}
# What no person can do anything about, or never sees: a bug's one line; refusals of a master by a node.
SPARED = {
    "this is a bug",
    "container {grant.container_id} is",
    "this ResourceManager cannot read the properties",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_error_that_is_made_has_all_three(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        if not node.func.id.endswith("Error") or node.func.id in OTHERS:
            continue
        named = {keyword.arg for keyword in node.keywords}
        said = ast.unparse(node.args[0])
        if not any(words in said for words in SPARED):
            assert {"because", "hint"} <= named, f"{file.name}:{node.lineno}: {said}"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("nosuch", 2),
        ("ps --nosuch", 2),
        ("ps --limit x", 2),
        ("ps --type Z", 2),
        ("ps --state NOSUCH", 2),
        ("ps --sort nosuch", 2),
        ("ps --columns nosuch", 2),
        ("ps --columns id -q", 2),
        ("ps --watch 0.01", 2),
        ("ps -o nosuch", 2),
        ("ps --node nosuch", 66),
        ("ps --queue nosuch", 66),
        ("--conf /nosuch ps", 78),
        ("-D nosuch=1 ps", 78),
        ("-D nosuch ps", 78),
        ("app status -", 2),
        ("app status 99", 66),
        ("app status application_x", 2),
        ("app status application_1_0001", 66),
        ("app kill", 2),
        ("app kill all", 2),
        ("app list --type G", 2),
        ("app list --state X", 2),
        ("app lifetime 1 0s", 2),
        ("attempt status appattempt_x", 2),
        ("attempt list 99", 66),
        ("node status nosuch", 66),
        ("node resize last", 2),
        ("container signal last TERM", 2),
        ("queue status nosuch", 66),
        ("container status container_x", 2),
        ("container status 99.1", 66),
        ("container resize 1.1", 2),
        ("container -signal 1.1 BAD", 2),
        ("container signal --signal BAD 1.1", 2),
        ("man nosuch", 66),
        ("man container nosuch", 66),
        ("man run nosuch", 66),
        ("config get nosuch", 78),
        ("config check /nosuch", 78),
        ("logs nosuch", 66),
        ("logs --daemon nosuch", 2),
        ("wait nosuch", 66),
        ("wait last --for NOSUCH", 2),
        ("explain nosuch", 66),
        ("events --since nosuch", 2),
        ("run -n 0 true", 2),
        ("run", 2),
        ("run --timeout x true", 2),
        ("run --memory x true", 2),
        ("run --deadline 2020-01-01T00:00Z true", 2),
        ("run --begin +2h --deadline +1h true", 2),
        ("dshell", 2),
        ("pi 0 10", 2),
        ("pi --opportunistic-percent 200 1 1", 2),
        ("engine use local --rm http://x", 2),
        ("jar", 2),
        ("jar x.jar", 2),
        ("--daemon nosuch", 2),
    ],
)  # fmt: skip
def test_refusals_are_three_lines(
    cli: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, words: str, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    ended = cli(*words.split())
    lines = ended.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "  because", "  hint"], ended.err
    assert all(line.partition(": ")[2].strip() for line in lines), ended.err
    assert ended.code == code


def test_a_bad_yopp_output_is_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOPP_OUTPUT", "bad")
    ended = cli("ps")
    assert ended.code == 2
    assert [line.split(":")[0] for line in ended.err.splitlines()] == ["error", "  because", "  hint"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may submit for others")
@pytest.mark.parametrize(
    ("user", "why"), [("nobody", "is not accessible to others"), ("daemon", "min-user-id")]
)
def test_no_cluster_is_started_for_a_user_who_gets_no_container(
    cli: Cli, run_dir: Path, user: str, why: str
) -> None:
    refused = cli("run", "--user", user, "true")
    assert refused.code == 125 and why in refused.err and len(refused.err.splitlines()) == 3
    assert not (run_dir / "rm.log").exists()
