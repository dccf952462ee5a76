"""Without cgroups orphans of containers become children of the executor: none of them stays as a zombie."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, KillContainer
from executor.core.events import ContainerExited
from executor.linux.procfs import read_stat, scan
from executor.linux.shim import set_subreaper
from executor.settings import ExecutorSettings

from .node import a_group, a_node, a_spec, soon


def dead_children() -> set[int]:
    """Zombies of this process."""
    return {pid for pid, entry in scan().items() if entry.parent == os.getpid() and entry.state == "Z"}


@pytest.mark.parametrize("ends", ["killed", "before"])
def test_an_orphan_leaves_no_zombie(tmp_path: Path, ends: str) -> None:
    """Of a session of its own that lives until it is killed, and of the container's session that ends before it."""
    script = {
        "killed": "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &); exec sleep 1000",
        "before": "(sh -c 'echo $$ > pid' &); exec sleep 1000",
    }[ends]

    async def scenario() -> None:
        with a_group(ExecutorSettings(cgroups_mount="none")) as driver:
            async with a_node(tmp_path, driver) as node:
                node.executor.start()
                other = subprocess.Popen(["true"])  # a child that is none of the executor's business
                before = dead_children() - {other.pid}
                await node.launch(a_spec("c1", "sh", "-c", script))
                written = tmp_path / "work" / "c1" / "pid"
                await soon(lambda: written.exists() and written.read_text().endswith("\n"), "its pid")
                orphan = int(written.read_text())
                await soon(
                    lambda: (found := read_stat(orphan)) is None or found.parent == os.getpid(), "ours"
                )
                await soon(lambda: other.pid in dead_children(), "the other child has ended")
                node.executor.perform(KillContainer("c1", force=True))
                await node.told(ContainerExited, "c1")
                node.executor.perform(CleanUpContainer("c1"))
                await soon(lambda: read_stat(orphan) is None, "nothing is left of the orphan")
                await soon(lambda: dead_children() - {other.pid} <= before, "no zombie")
                assert other.wait() == 0, "nobody else has waited for it"

    try:
        asyncio.run(scenario())
    finally:
        set_subreaper(False)
