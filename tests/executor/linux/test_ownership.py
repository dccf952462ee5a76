"""Another user plants links and directories where a node's files go: nothing is written through them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import LaunchContainer
from executor.core.events import ContainerLaunchFailed
from executor.errors import CannotLaunchError
from executor.linux.cgroups.none import NoCgroups
from executor.linux.directories import Directories
from executor.records import CgroupLimits
from executor.settings import ExecutorSettings
from tests.strangers import NOBODY_UID

from .node import a_group, a_node, a_spec

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's files are made by root only")

_AS_NOBODY = """
import os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
exec(sys.argv[2])
"""


def as_nobody(code: str) -> None:
    """Run Python code as another user."""
    subprocess.run([sys.executable, "-I", "-c", _AS_NOBODY, str(NOBODY_UID), code], check=True, cwd="/")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users may enter."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture
def victim(place: Path) -> Path:
    """A file of ours that shall stay as it is."""
    path = place / "victim"
    path.write_text("ours\n")
    path.chmod(0o600)
    return path


def directories(place: Path) -> Directories:
    return Directories(place / "work", place / "logs", place / "state")


@as_root
@pytest.mark.parametrize("which", ["work", "logs", "state"])
@pytest.mark.parametrize("how", ["owner", "writable", "group", "above"])
def test_a_directory_in_which_another_user_has_a_hand_is_refused(place: Path, which: str, how: str) -> None:
    where = place / which
    if how == "above":
        place.chmod(0o777)
        as_nobody(f"os.mkdir({os.fspath(where)!r}, 0o755)")
        os.chown(where, 0, 0)
    else:
        where.mkdir()
        where.chmod({"owner": 0o755, "writable": 0o777, "group": 0o775}[how])
        os.chown(where, NOBODY_UID if how == "owner" else 0, NOBODY_UID if how == "group" else 0)
    with pytest.raises(PermissionError) as refused:
        directories(place)
    assert refused.value.filename == os.fspath(place if how == "above" else where)
    if how != "above":
        os.chown(where, 0, 0)
    for path in (where, place):
        path.chmod(0o755)
    directories(place)


@as_root
def test_a_directory_above_that_is_sticky_is_accepted(place: Path) -> None:
    place.chmod(0o1777)
    directories(place).prepare(a_spec("c1", "true", application_id="a1"))
    assert (place / "logs" / "a1" / "c1").is_dir()


@as_root
@pytest.mark.parametrize("planted", ["application", "container", "theirs"])
def test_a_link_that_another_user_planted_is_not_followed(place: Path, planted: str) -> None:
    """In a directory of logs that all may write, as /tmp is: another user is there before us."""
    (place / "logs").mkdir()
    (place / "logs").chmod(0o1777)
    (place / "secret").mkdir()
    logs = place / "logs" / "a1"
    code = {
        "application": f"os.symlink('../secret', {os.fspath(logs)!r})",
        "container": f"os.makedirs({os.fspath(logs)!r}); os.symlink('../../secret', {os.fspath(logs / 'c1')!r})",
        "theirs": f"os.makedirs({os.fspath(logs / 'c1')!r})",
    }[planted]
    as_nobody(code)
    made = directories(place)
    with pytest.raises(CannotLaunchError) as refused:
        made.prepare(a_spec("c1", "true", application_id="a1"))
    assert os.fspath(logs) in str(refused.value)
    assert list((place / "secret").iterdir()) == []
    made.prepare(a_spec("c2", "true", application_id="a2"))


@pytest.mark.parametrize("slots", [pytest.param(1, marks=pytest.mark.cgroup), 0], ids=["slot", "outside"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_never_written_through_a_link(
    tmp_path: Path, victim: Path, slots: int, stream: str
) -> None:
    logs = tmp_path / "logs" / "c1"
    logs.mkdir(parents=True)
    (logs / stream).symlink_to(victim)
    settings = ExecutorSettings(pooled_groups=slots)

    async def scenario(cgroups: object) -> None:
        async with a_node(tmp_path, cgroups, settings) as node:  # type: ignore[arg-type]
            node.executor.perform(LaunchContainer(a_spec("c1", "echo", "theirs"), CgroupLimits()))
            failed = await node.told(ContainerLaunchFailed, "c1")
            assert f"cannot write {logs / stream}" in failed.reason and failed.exit_code == 125
            assert (await node.run(a_spec("c2", "sh", "-c", "exit 3"))).exit_code == 3

    if slots:
        with a_group(settings) as cgroups:
            asyncio.run(scenario(cgroups))
    else:
        asyncio.run(scenario(NoCgroups()))
    assert victim.read_text() == "ours\n"
