"""A node, and a whole cluster, in a cgroup whose ``pids.max`` is reached: a real cgroup, with room for none, one,
two or more processes.

Whatever the node can still start, its container ends with its own exit code, or costs no try. The last process that
there is room for may be a zygote, a launcher, or its child.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, LaunchContainer
from executor.core.events import ContainerExited, ContainerLaunchFailed
from executor.linux.cgroups import discover
from executor.linux.cgroups.files import Mount, read_mounts
from executor.records import CgroupLimits, ContainerExitStatus
from executor.settings import ExecutorSettings
from tests.executor.linux.node import Node, a_node, a_spec, soon, until
from tests.live.conftest import Yopp, a_yopp, wait_until

from .test_no_process_left import a_life, reports

pytestmark = [pytest.mark.timeout(120), pytest.mark.cgroup]

TROUBLE = "trouble"
"""The file of a life which says why it had no slots."""
ABORTED = int(ContainerExitStatus.ABORTED)


class FullGroup:
    """A cgroup ``top`` with the limit, below it ``daemons``, which a node joins, and the cgroups of its containers."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def join(self) -> None:
        (self.top / "daemons" / "cgroup.procs").write_text("0")

    def close(self) -> None:
        """Let nothing more start in it, whatever ends."""
        (self.top / "pids.max").write_text("1")

    def leave_room(self, processes: int | None) -> None:
        """Let this process start so many more, once all that it had started are gone; None for any number."""
        if processes is None:
            (self.top / "pids.max").write_text("max")
            return
        # Python's count: the kernel lists a thread that was joined until it has ended, which leaves room for one more.
        threads = threading.active_count
        until(lambda: int((self.top / "pids.current").read_text()) == threads(), "it is alone in its cgroup")
        (self.top / "pids.max").write_text(str(threads() + processes))


def controllers_of(mount: Mount) -> Collection[str]:
    listed = Path(mount.point, "cgroup.controllers")  # of v2, where v1 has not taken them
    return listed.read_text().split() if listed.exists() else mount.controllers


def removed(group: Path) -> bool:
    """Remove the cgroup of the daemons, and with v2 that in which a node puts itself."""
    for one in (group / "yopp-self", group):
        with contextlib.suppress(OSError):
            one.rmdir()
    return not group.exists()


@pytest.fixture
def full() -> Iterator[FullGroup]:
    mounts = read_mounts("/proc", "/sys/fs/cgroup")
    name = f"yopp-test-{os.getpid()}"
    try:
        mount = next(Path(one.point) for one in mounts if "pids" in controllers_of(one))
        top = mount / name
        (top / "daemons").mkdir(parents=True)
        if not (top / "pids.max").exists():  # v2
            (mount / "cgroup.subtree_control").write_text("+pids")
    except (StopIteration, OSError) as error:
        pytest.skip(f"NOT TESTED: no writable pids controller: {error}")
    try:
        yield FullGroup(top)
    finally:
        until(lambda: removed(top / "daemons"), "nothing is left of the node")
        for one in mounts:  # what the driver made above the node's own groups
            for path in (Path(one.point, name, "containers"), Path(one.point, name)):
                with contextlib.suppress(FileNotFoundError):
                    path.rmdir()


async def outcome(node: Node, name: str) -> ContainerExited | ContainerLaunchFailed:
    found: ContainerExited | ContainerLaunchFailed = await soon(
        lambda: node.found(ContainerLaunchFailed, name) or node.found(ContainerExited, name), f"{name} ends"
    )
    return found


async def outcome_of_one(node: Node, full: FullGroup) -> str:
    node.executor.perform(LaunchContainer(a_spec("c1", "sh", "-c", "exit 5"), CgroupLimits()))
    end = await outcome(node, "c1")
    full.leave_room(None)
    if isinstance(end, ContainerExited) and not end.node_fault:
        assert end.exit_code == 5, end
        return "runs"
    if isinstance(end, ContainerLaunchFailed):
        assert end.node_status == ABORTED, end
    node.executor.perform(CleanUpContainer("c1"))
    await soon(lambda: reports(node) == [""], "the node is well again")
    assert (await node.run_again(a_spec("c1", "sh", "-c", "exit 5"))).exit_code == 5
    return "waits"


async def life(directory: Path, full: FullGroup, slots: int, room: int) -> str:
    """One container starts, or does not, with so much room. Returns which."""
    settings = ExecutorSettings(pooled_groups=slots, cgroups_hierarchy=f"{full.top.name}/containers")
    cgroups = discover(settings, group="node")
    cgroups.create_parent()
    try:
        async with a_node(directory, cgroups, settings) as node:
            full.leave_room(room)
            found = await outcome_of_one(node, full)
            (directory / TROUBLE).write_text(node.executor._pool.trouble)
            return found
    finally:
        full.leave_room(None)
        assert cgroups.stale_groups() == []
        cgroups.remove_parent()


@pytest.mark.parametrize("slots", [0, 2], ids=["outside", "slots"])
def test_a_full_pids_cgroup_is_the_nodes_fault(tmp_path: Path, full: FullGroup, slots: int) -> None:
    said = tmp_path / "log"

    def rooms() -> None:
        logging.basicConfig(filename=said, level=logging.WARNING, force=True)
        outcomes = []
        for room in itertools.count():
            outcomes.append(asyncio.run(life(tmp_path / str(room), full, slots, room)))
            if outcomes[-1] == "runs":
                break
        assert outcomes[:2] == ["waits", "waits"], outcomes

    try:
        assert a_life(full.join, rooms) == 0
    finally:
        print(said.read_text() if said.exists() else "")
    troubles = [
        one.read_text() for one in sorted(tmp_path.glob(f"*/{TROUBLE}"), key=lambda one: int(one.parent.name))
    ]
    # The last one has slots, or was so short of room that none could be made.
    assert all(troubles[:-1]) if slots else not any(troubles)
    slotless = said.read_text().count("no slot can be created")
    assert slotless == len(list(filter(None, troubles))), "it is said once in each life"
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("slots", [2], ids=["slots"])
def test_what_finds_its_slot_full_starts_elsewhere(tmp_path: Path, full: FullGroup, slots: int) -> None:
    settings = ExecutorSettings(pooled_groups=slots, cgroups_hierarchy=f"{full.top.name}/containers")
    limits = CgroupLimits(pids_max=200)

    async def scenario() -> None:
        cgroups = discover(settings, group="node")
        cgroups.create_parent()
        try:
            async with a_node(tmp_path, cgroups, settings) as node:
                assert (await node.run(a_spec("c1", "true"), limits)).exit_code == 0
                pool = node.executor._pool
                for name in ("c2", "c3", "c4", "c5"):
                    await soon(
                        lambda: pool._slots.idle and len(pool._slots.idle) == len(pool._slots.all),
                        "all slots wait",
                    )
                    for slot in pool._slots.idle:
                        (full.top / "containers" / "node" / slot.group.name / "pids.max").write_text("1")
                    assert (await node.run(a_spec(name, "sh", "-c", "exit 5"), limits)).exit_code == 5
                    if not node.executor._held[name].inside:  # else another slot was made meanwhile
                        break
                else:
                    pytest.fail("each has found a slot with room")
                assert reports(node) == []
        finally:
            cgroups.remove_parent()

    asyncio.run(scenario())


def test_a_whole_cluster_whose_pids_cgroup_is_full_loses_nothing_and_goes_on_when_there_is_room(
    full: FullGroup,
) -> None:
    """The RM, two nodes and their containers can start neither a process nor a thread while tasks run and wait."""
    with contextlib.ExitStack() as held:
        yopp = held.enter_context(a_yopp(Yopp))
        hierarchy = (
            f"-Dyarn.nodemanager.linux-container-executor.cgroups.hierarchy=/{full.top.name}/containers"
        )
        yopp(
            "up", "--nodes", "2", "--vcores", "1", "--memory", "512", hierarchy,
            "-Dyopp.nodemanager.prepared-containers=0",  # those have their processes
            preexec_fn=full.join,
        )  # fmt: skip
        ran, gates = yopp.home / "ran", [yopp.home / f"go{number}" for number in range(1, 9)]
        for gate in gates:  # a task starts no process itself
            os.mkfifo(gate)
        line = f"echo $YOPP_TASK >> {ran}; read line < {yopp.home}/go$YOPP_TASK"
        job = yopp("run", "-qd", "-O", "-n", "8", "--memory", "16", "sh", "-c", line).stdout.strip()

        def begun() -> list[str]:
            return ran.read_text().split() if ran.exists() else []

        def ill() -> list[str]:
            nodes = yopp.json("node", "list", "--state", "UNHEALTHY")["nodes"] or {"node": ()}
            return [one["healthReport"] for one in nodes["node"]]

        wait_until(lambda: len(begun()) == 2, what="each node runs one")
        full.close()
        for gate in gates:  # what is written to a FIFO stays in it while it is open here
            ends = os.open(gate, os.O_RDWR)
            held.callback(os.close, ends)
            os.write(ends, b"\n")
        wait_until(lambda: len(ill()) == 2, what="neither can start the next one")
        assert all(one.endswith(f": pids.max of {full.top} is reached") for one in ill()), ill()
        assert f"pids.max of {full.top} is reached" in yopp("explain", job).stdout
        assert len(begun()) == 2 and yopp.json("app", "status", job)["app"]["state"] == "RUNNING"
        full.leave_room(None)
        yopp("wait", job)
        assert Counter(begun()) == Counter(str(number) for number in range(1, 9)), (
            "none is lost, none run twice"
        )
