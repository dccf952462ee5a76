"""A node whose user has as many processes as RLIMIT_NPROC allows: a real node and the kernel's limit, in a process of
its own.

``test_health.py`` has the errors of the call alone.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from executor.core.commands import LaunchContainer
from executor.core.events import ContainerExited, ContainerLaunched, ContainerLaunchFailed, NodeHealthChanged
from executor.linux import launcher
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.slots.marks import marked_below
from executor.linux.watching import health
from executor.records import CgroupLimits, ContainerExitStatus
from executor.settings import ExecutorSettings
from tests.executor.linux.node import Node, a_node, a_spec, soon
from tests.strangers import NOBODY_UID

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user"),
]


async def live(
    directory: Path, cgroups: CgroupDriver, settings: ExecutorSettings, limit: Callable[[bool], None]
) -> None:
    """One container runs while none can be started. Nothing of it is lost, and what came then starts later."""
    async with a_node(directory, cgroups, settings) as node:
        assert (await node.run(a_spec("before", "sh", "-c", "exit 3"))).exit_code == 3
        go, begun = directory / "go", directory / "begun"
        os.mkfifo(go)
        script = f"exec < {go}; : > {begun}; read line; exit 4"
        await node.launch(a_spec("meanwhile", "sh", "-c", script))
        writing = os.open(go, os.O_RDWR)
        await soon(begun.exists, "its own process runs")
        limit(True)
        node.executor.perform(LaunchContainer(a_spec("after", "sh", "-c", "exit 5"), CgroupLimits()))
        failed = await node.told(ContainerLaunchFailed, "after")
        assert failed.node_status == int(ContainerExitStatus.ABORTED), failed
        os.write(writing, b"\n")
        os.close(writing)
        assert (await node.told(ContainerExited, "meanwhile")).exit_code == 4
        assert reports(node) == [], "it does not believe itself to be well"
        limit(False)
        await soon(lambda: reports(node) == [""], "it is well again")
        assert node.found(ContainerLaunched, "after") is None
        assert (await node.run_again(a_spec("after", "sh", "-c", "exit 5"))).exit_code == 5


def reports(node: Node) -> list[str]:
    return [one.report for one in node.events if isinstance(one, NodeHealthChanged)]


def a_life(begin: Callable[[], None], life: Callable[[], None]) -> int:
    """Run it in a process of its own; how that ended, as ``waitpid`` says it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            health.AGAIN_SECONDS = 0.05
            begin()
            life()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of another user, below directories that all may enter."""
    made = Path(tempfile.mkdtemp(prefix="yopp-test-"))
    os.chown(made, NOBODY_UID, NOBODY_UID)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def test_as_many_processes_as_its_user_may_have(place: Path) -> None:
    if any(not one.stat().st_mode & stat.S_IXOTH for one in Path(health.__file__).resolve().parents):
        pytest.skip("NOT TESTED: no other user can run this Python: its source is closed to others")
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("NOT TESTED: no Python that other users can run")
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    settings = ExecutorSettings(cgroups_mount="none")

    def become_another() -> None:
        sys.executable, launcher.__cached__ = python, ""  # of another version, perhaps
        os.setgroups([])
        os.setgid(NOBODY_UID)
        os.setuid(NOBODY_UID)

    def limit(on: bool) -> None:
        for pid in (os.getpid(), *(one.pid for one in marked_below(str(place)))):
            resource.prlimit(pid, resource.RLIMIT_NPROC, (1 if on else most, most))

    def life() -> None:
        asyncio.run(live(place, discover(settings, group="none"), settings, limit))

    assert a_life(become_another, life) == 0
