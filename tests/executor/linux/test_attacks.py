"""What a container may try against its own end: each attack is made, and the container ends all the same."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, KillContainer
from executor.core.events import ContainerExited
from executor.linux.cgroups.base import GroupDriver
from executor.settings import ExecutorSettings

from .node import a_group, a_node, a_spec, running, soon
from .test_limits_live import MODES, without_freezer

pytestmark = [
    pytest.mark.cgroup,
    pytest.mark.skipif(os.geteuid() != 0, reason="a container writes groups as root only"),
]

ENDS_WITHIN = 5.0
"""Seconds from the order to kill to the report of the end."""

PRELUDE = """
import os, signal, sys, time
for number in range(1, 32):
    if number not in (9, 17, 19):
        signal.signal(number, signal.SIG_IGN)
groups = sys.argv[1:]  # its own, in each hierarchy
def group(path, *processes):
    os.makedirs(path, exist_ok=True)
    for process in processes:
        with open(path + "/cgroup.procs", "w") as file:
            file.write(str(process))
def freeze(path):
    for name, word in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
        if os.path.exists(f"{path}/{name}"):
            with open(f"{path}/{name}", "w") as file:
                file.write(word)
def attacked(*pids):
    with open("pids.new", "w") as file:
        print(os.getpid(), *pids, file=file)
    os.rename("pids.new", "pids")
def stay():
    while True:
        time.sleep(1000)
"""

ATTACKS = {
    "freezes a group of its own with a child in it": """
child = os.fork()
if not child:
    stay()
for one in groups:
    group(one + "/inner", child)
    freeze(one + "/inner")
attacked(child)
stay()
""",
    "freezes itself in a group of its own": """
if os.fork():
    stay()
for one in groups:
    group(one + "/inner", os.getppid())
    freeze(one + "/inner")
attacked(os.getppid())
stay()
""",
    "freezes its parent": """
for one in groups:
    group(one + "/inner", os.getppid())
    freeze(one + "/inner")
attacked()
stay()
""",
    "freezes itself and its parent beside its own group": """
parent = os.getppid()
if os.fork():
    stay()
for one in groups:
    if os.path.exists(one + "/freezer.state"):
        group(os.path.dirname(one) + "/other", parent, os.getppid())
        freeze(os.path.dirname(one) + "/other")
attacked(os.getppid())
stay()
""",
    "stops its parent": """
os.kill(os.getppid(), signal.SIGSTOP)
attacked()
stay()
""",
    "stops its parent and ends": """
os.kill(os.getppid(), signal.SIGSTOP)
attacked()
""",
    "makes a thousand groups in each other": """
for one in groups:
    os.chdir(one)
    for _ in range(1200):
        os.mkdir("g")
        os.chdir("g")
    with open("cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
os.chdir(os.environ["PWD"])
attacked()
stay()
""",
    "makes its group threaded": """
for one in groups:
    if os.path.exists(one + "/cgroup.type"):
        group(one + "/inner")
        with open(one + "/inner/cgroup.type", "w") as file:
            file.write("threaded")
        group(one + "/inner", os.getpid())
attacked()
stay()
""",
    "forks without end": """
attacked()
while True:
    try:
        if not os.fork():
            os.setsid()
    except OSError:
        pass
""",
}


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GroupDriver]:
    proc = without_freezer(tmp_path) if request.param == "hybrid" else "/proc"
    with a_group(ExecutorSettings(), proc=proc) as driver:
        if not isinstance(driver, GroupDriver):
            pytest.skip(f"NOT TESTED: {driver.describe()}")
        yield driver


@pytest.mark.parametrize("attack", list(ATTACKS))
@pytest.mark.timeout(60)
@pytest.mark.parametrize("slots", [1, 0], ids=["slot", "shim"])
def test_it_ends_and_the_next_one_starts(
    tmp_path: Path, cgroups: GroupDriver, slots: int, attack: str
) -> None:
    parents = sorted(set(cgroups.describe().locations.values()))
    script = PRELUDE + f"own = {'yopp-slot-1' if slots else 'c1'!r}\n"
    script += "groups = [f'{one}/{own}' for one in groups]\n" + ATTACKS[attack]

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            await node.launch(a_spec("c1", sys.executable, "-S", "-E", "-c", script, *parents))
            written = tmp_path / "work" / "c1" / "pids"
            await soon(written.exists, "it has attacked")
            pids = [int(word) for word in written.read_text().split()]
            node.executor.perform(KillContainer("c1", force=True))
            await soon(lambda: node.found(ContainerExited, "c1"), "its end", ENDS_WITHIN)
            assert not any(running(pid) for pid in pids)
            node.executor.perform(CleanUpContainer("c1"))
            exited = await node.run(a_spec("c2", "sh", "-c", "exit 3"))
            assert exited.exit_code == 3

    asyncio.run(scenario())
