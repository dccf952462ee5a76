"""Without cgroups orphans of containers become children of the executor: none of them stays as a zombie."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, KillContainer
from executor.core.events import ContainerExited
from executor.linux.cgroups import none
from executor.linux.processes import set_subreaper
from executor.linux.procfs import ProcessStat, Traces, read_stat, scan
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
                command = read_stat((await node.launch(a_spec("c1", "sh", "-c", script))).pid)
                assert command is not None
                written = tmp_path / "work" / "c1" / "pid"
                await soon(lambda: written.exists() and written.read_text().endswith("\n"), "its pid")
                orphan = int(written.read_text())
                await soon(
                    lambda: (found := read_stat(orphan)) is None or found.parent == command.parent,
                    "its launcher's",
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


ESCAPES = {
    "clears its environment and forks twice": """
import os, sys, time
def escape():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve("/bin/sh", ["sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"], {})
if not os.fork():
    escape()
""",
    "its first thread ends": """
import ctypes, os, threading, time
def lives():
    with open("pid.new", "w") as file:
        file.write(f"{os.getpid()}\\n")
    os.rename("pid.new", "pid")
    time.sleep(1000)
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    threading.Thread(target=lives).start()
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
""",
}
STAYS = "while True: time.sleep(1000)\n"
ENDS = "while not os.path.exists('pid'): time.sleep(0.01)\nos._exit(7)\n"


@pytest.mark.parametrize("escape", list(ESCAPES))
@pytest.mark.parametrize("end", ["killed", "ends"])
def test_nobody_outlives_its_container(tmp_path: Path, escape: str, end: str) -> None:
    script = ESCAPES[escape] + (STAYS if end == "killed" else ENDS)

    async def scenario() -> None:
        with a_group(ExecutorSettings(cgroups_mount="none")) as driver:
            async with a_node(tmp_path, driver) as node:
                node.executor.start()
                await node.launch(a_spec("c1", sys.executable, "-S", "-E", "-c", script))
                written = tmp_path / "work" / "c1" / "pid"
                await soon(written.exists, "it has escaped")
                pid = int(written.read_text())
                if end == "killed":
                    node.executor.perform(KillContainer("c1", force=True))
                exited = await node.told(ContainerExited, "c1")
                assert exited.exit_code == (137 if end == "killed" else 7)
                assert not os.path.exists(f"/proc/{pid}") or not any(
                    (found := read_stat(int(one))) and found.state not in "ZX"
                    for one in os.listdir(f"/proc/{pid}/task")
                )
                node.executor.perform(CleanUpContainer("c1"))

    try:
        asyncio.run(scenario())
    finally:
        set_subreaper(False)


def test_who_was_seen_belongs_to_it_also_after_the_end_of_its_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that left its session and cleared its environment, and that init has adopted."""

    def stat(pid: int, parent: int, session: int, start: int) -> ProcessStat:
        return ProcessStat(pid, "S", parent, session, session, 0, start, 0, False)

    # no process has these pids
    launcher, command, other, child = (1 << 22) - 1, 1 << 22, (1 << 22) + 1, (1 << 22) + 2
    table = {
        launcher: stat(launcher, 1, launcher, 4),
        command: stat(command, launcher, command, 5),
        other: stat(other, launcher, other, 6),
    }
    monkeypatch.setattr(none, "scan", lambda: table)
    driver = none.NoCgroups()
    driver.started("c1", Traces(command, 5, b"A=b", (), launcher))
    assert driver.processes("c1") == [command, other]
    table = {other: stat(other, 1, other, 6), child: stat(child, other, other, 7)}
    assert driver.processes("c1") == [other, child]
    table = {other: stat(other, 1, other, 8)}  # another process has its pid
    assert driver.processes("c1") == []
    table = {launcher: stat(launcher, 1, launcher, 9), other: stat(other, launcher, other, 10)}
    assert driver.processes("c1") == [], "another process has the launcher's pid"
