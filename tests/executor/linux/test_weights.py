"""What a node's groups weigh beside processes outside, as files and on the real kernel (v1, v2 or hybrid).

On the kernel all that compete are put on one processor, so that what others do on this machine changes what each gets,
but not by how much one gets more than the other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest

from executor import ContainerState, ExecutionType, Executor, ExecutorSettings, Job, Resource
from executor.core.limits import SHARES, WEIGHT
from executor.errors import CgroupError, CgroupWriteError
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.cgroups.files import KernelFiles
from executor.linux.cgroups.weights import GroupWeights, weighed_groups
from executor.linux.procfs import runnable_threads

from ...patience import PATIENCE
from .node import soon, until

G, O = ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC  # noqa: E741 - the letters of the conformance cases
PROCESSOR = max(os.sched_getaffinity(0))
SPIN = f"import os; os.sched_setaffinity(0, [{PROCESSOR}])\nwhile True: pass"


def test_yopps_groups_are_those_from_the_hierarchys_own_down() -> None:
    def groups(hierarchy: str) -> tuple[str, ...]:
        relative = f"{hierarchy}/key/nm-1".strip("/")
        return weighed_groups("/base", relative, hierarchy)

    assert groups("/yarn") == ("/base/yarn/key/nm-1", "/base/yarn/key", "/base/yarn")
    assert groups("/system/yarn/") == (
        "/base/system/yarn/key/nm-1",
        "/base/system/yarn/key",
        "/base/system/yarn",
    )
    assert groups("/") == ("/base/key/nm-1", "/base/key")


class Tree:
    """Groups as files: two nodes of one cluster and one of another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for node in ("a/nm-1", "a/nm-2", "b/nm-1"):
            (root / "yarn" / node).mkdir(parents=True)
        for group in ("", *self.groups()):
            self.file(group).write_text("1024\n")

    def groups(self) -> list[str]:
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_dir()]

    def file(self, group: str) -> Path:
        return self.root / group / "cpu.shares"

    def __call__(self, group: str) -> int:
        return int(self.file(group).read_text())

    def node(self, name: str) -> GroupWeights:
        return GroupWeights(weighed_groups(str(self.root), f"yarn/{name}", "/yarn"), "cpu.shares", SHARES)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_each_level_is_the_sum_of_those_below(tree: Tree) -> None:
    nodes = [tree.node(name) for name in ("a/nm-1", "a/nm-2", "b/nm-1")]
    for node in nodes:
        node.set(0)
    assert {group: tree(group) for group in tree.groups()} == dict.fromkeys(tree.groups(), 2)
    nodes[0].set(2)
    nodes[1].set(1)
    nodes[2].set(4)
    assert (tree("yarn/a/nm-1"), tree("yarn/a"), tree("yarn/b"), tree("yarn")) == (2048, 3072, 4096, 7168)
    nodes[0].set(0)
    assert (tree("yarn/a/nm-1"), tree("yarn/a"), tree("yarn")) == (2, 1024, 5120)
    assert tree("") == 1024, "what is above is not ours"


def test_several_clusters_weigh_no_more_than_the_machine_or_the_largest(tree: Tree) -> None:
    def node(name: str) -> GroupWeights:
        return GroupWeights(weighed_groups(str(tree.root), f"yarn/{name}", "/yarn"), "cpu.shares", SHARES, 2)

    node("a/nm-1").set(1)
    node("b/nm-1").set(1)
    assert tree("yarn") == 2048
    node("a/nm-2").set(1)
    assert (tree("yarn/a"), tree("yarn")) == (2048, 2048), (
        "three would outweigh a process on each of two cores"
    )
    node("b/nm-1").set(4)
    assert tree("yarn") == 4096, "what one cluster alone has been promised stays"


def test_nothing_is_written_that_is_so_already(tree: Tree) -> None:
    node = tree.node("a/nm-1")
    node.set(1)
    for group in tree.groups():
        os.utime(tree.file(group), ns=(0, 0))  # whoever writes it makes it younger
    before = {group: tree.file(group).stat().st_mtime_ns for group in tree.groups()}
    node.set(1)
    assert before == {group: tree.file(group).stat().st_mtime_ns for group in tree.groups()}


def test_a_node_that_appears_meanwhile_is_seen(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only node of its cluster need not look again after it has written the sum, unless it no longer is."""
    mine, other = tree.node("b/nm-1"), tree.node("b/nm-2")
    settle, appears = mine._settle, iter([tree.root / "yarn/b/nm-2"])

    def late(group: str, wanted: int) -> bool:
        if group.endswith("yarn/b"):
            for path in appears:
                path.mkdir()
                tree.file("yarn/b/nm-2").write_text("1024\n")
                other.set(3)
        return settle(group, wanted)

    monkeypatch.setattr(mine, "_settle", late)
    mine.set(1)
    assert tree("yarn/b") == 4 * 1024


def test_what_another_did_meanwhile_is_seen(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node writes its weight, and the sum, between this one's reading and writing of the same sum."""
    mine, other = tree.node("a/nm-1"), tree.node("a/nm-2")
    other.set(0)
    mine.set(0)
    settle = mine._settle
    others = iter([3])

    def late(group: str, wanted: int) -> bool:
        if group.endswith("yarn/a"):
            for vcores in others:
                other.set(vcores)
        return settle(group, wanted)

    monkeypatch.setattr(mine, "_settle", late)
    mine.set(1)
    assert (tree("yarn/a"), tree("yarn")) == (4096, 4096 + 1024)


def test_groups_that_are_gone_are_passed_over(tree: Tree) -> None:
    node = tree.node("a/nm-1")
    for gone in ("yarn/b/nm-1", "yarn/b", "yarn/a"):
        tree.file(gone).unlink()
    node.set(3)
    assert (tree("yarn/a/nm-1"), tree("yarn")) == (3072, 2)


def test_what_the_kernel_refuses_stays_and_is_told_once(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = KernelFiles.set_property

    def refuse(files: KernelFiles, filename: bytes, value: object) -> None:
        if os.fsdecode(files.filepath(filename)).endswith("yarn/cpu.shares"):
            raise CgroupWriteError("cannot write it", because="Permission denied")
        write(files, filename, value)

    monkeypatch.setattr(KernelFiles, "set_property", refuse)
    node = tree.node("a/nm-1")
    with caplog.at_level(logging.INFO):
        node.set(3)
        node.set(4)
    assert (tree("yarn/a/nm-1"), tree("yarn")) == (4096, 1024), "an administrator's, say"
    assert [record.message for record in caplog.records] == [
        f"the weight of a group is still 1024: {CgroupWriteError('cannot write it', because='Permission denied')}"
    ]


# -- the real kernel


def weight(group: str) -> int:
    """In vcores of guaranteed containers; 0 for the least."""
    for file, scale in (("cpu.shares", SHARES), ("cpu.weight", WEIGHT)):
        path = Path(group, file)
        if path.exists():
            value = int(path.read_text())
            return 0 if value == scale.least else value // scale.per_vcore
    raise AssertionError(f"{group} has no weight")


@asynccontextmanager
async def an_executor(
    directory: Path, name: str = "one", hierarchy: str = "", **settings: object
) -> AsyncIterator[tuple[Executor, tuple[str, ...]]]:
    """With the groups that it weighs, below a hierarchy of its own."""
    node = ExecutorSettings(
        cgroups_hierarchy=hierarchy or f"/test-weights-{os.getpid()}-{time.monotonic_ns():x}",
        max_queue_length=10,
        **settings,  # type: ignore[arg-type]
    )
    driver = a_driver(node, name)
    weights = driver.weights()
    if weights is None:
        pytest.skip("NOT TESTED: no writable cpu controller")
    async with Executor(
        Resource(1024, 4), work_dir=directory / name, settings=node, cgroups=driver, validate=True
    ) as executor:
        yield executor, weights.groups


def a_driver(settings: ExecutorSettings, name: str) -> CgroupDriver:
    try:
        return discover(settings, group=f"key/{name}")
    except CgroupError as error:
        pytest.skip(f"NOT TESTED: {error}")


async def weighs(groups: tuple[str, ...], *vcores: int) -> None:
    await soon(lambda: [weight(group) for group in groups] == list(vcores), f"{groups} weigh {vcores}", 5)


def test_the_kernel_is_told_what_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path) as (one, groups):
            await weighs(groups, 0, 0, 0)
            first = one.submit(["sleep", "100"], resource=Resource(64, 2))
            await weighs(groups, 2, 2, 2)
            hierarchy = f"/{os.path.basename(groups[-1])}"
            async with an_executor(tmp_path, "two", hierarchy) as (two, others):
                assert groups[1:] == others[1:]
                second = two.submit(["sleep", "100"], resource=Resource(64, 1))
                await weighs(groups + others[:1], 2, 3, 3, 1)
                second.demote()
                await weighs(groups + others[:1], 2, 2, 2, 0)
                second.promote()
                await weighs(groups + others[:1], 2, 3, 3, 1)
            await weighs(groups, 2, 2, 2)
            first.kill(force=True)
            await first.wait()
            await weighs(groups, 0, 0, 0)
        assert not any(map(os.path.exists, groups))

    asyncio.run(scenario())


def test_who_wants_a_processor_is_told_from_who_sleeps() -> None:
    with outside(1) as (spinning,), subprocess.Popen(["sleep", "100"]) as sleeping:
        try:
            until(lambda: used(spinning) > 0.3, "its interpreter has started, and waits for no file any more")
            until(lambda: runnable_threads([sleeping.pid]) == 0, "it sleeps")
            assert runnable_threads([spinning.pid, sleeping.pid]) == 1
            spinning.suspend()
            until(lambda: runnable_threads([spinning.pid]) == 0, "it is stopped")
        finally:
            sleeping.kill()


@contextmanager
def outside(number: int) -> Iterator[list[psutil.Process]]:
    """So many processes that spin, each in a session of its own, as the kernel groups them by session."""
    started = [
        subprocess.Popen([sys.executable, "-S", "-E", "-c", SPIN], start_new_session=True)
        for _ in range(number)
    ]
    try:
        yield [psutil.Process(process.pid) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def spinner(executor: Executor, kind: ExecutionType) -> Job:
    return executor.submit(
        [sys.executable, "-S", "-E", "-c", SPIN], resource=Resource(128, 1), execution_type=kind
    )


def used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def compared(
    driver: CgroupDriver, jobs: list[Job], others: list[psutil.Process], enough: float
) -> tuple[float, float]:
    """The mean CPU seconds of these containers and of those outside, while all of them had ``enough`` together."""

    def now() -> tuple[float, float]:
        return (
            sum(driver.usage(job.container_id, 0.0).cpu_seconds for job in jobs) / len(jobs),
            sum(used(process) for process in others) / len(others),
        )

    def total(means: tuple[float, float]) -> float:
        return means[0] * len(jobs) + means[1] * len(others)

    before = now()
    await soon(lambda: total(now()) - total(before) > enough, "they run", 30)
    after = now()
    return after[0] - before[0], after[1] - before[1]


def idle_seconds() -> float:
    """Of the processor that all run on."""
    lines = Path("/proc/stat").read_text().splitlines()
    fields = next(line.split() for line in lines if line.startswith(f"cpu{PROCESSOR} "))
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def driver_of(executor: Executor) -> CgroupDriver:
    assert executor._cgroups is not None
    return executor._cgroups


@pytest.mark.parametrize("group_weights", [True, False])
def test_two_guaranteed_ones_have_what_two_processes_outside_have(
    tmp_path: Path, group_weights: bool
) -> None:
    """Alone it is all of yopp that has as much as one of them: half as much for each."""

    async def scenario() -> None:
        async with an_executor(tmp_path, group_weights=group_weights) as (executor, _):
            jobs = [spinner(executor, G), spinner(executor, G)]
            with outside(2) as others:
                await compared(driver_of(executor), jobs, others, 1.0)  # all are under way
                inside, each = await compared(driver_of(executor), jobs, others, 2.5)
            if group_weights:
                assert inside > 0.8 * each, f"{inside:.2f} s beside {each:.2f} s"
            else:
                assert inside < 0.7 * each, f"{inside:.2f} s beside {each:.2f} s"
            for job in jobs:
                job.kill(force=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("mechanism", ["signal", "freezer"])
def test_opportunistic_ones_get_what_one_process_leaves_and_stop_all_the_same(
    tmp_path: Path, mechanism: str
) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, pause_mechanism=mechanism) as (executor, _):
            driver = driver_of(executor)
            first, second = spinner(executor, O), spinner(executor, O)
            with outside(1) as others:
                await compared(driver, [first, second], others, 1.0)
                inside, each = await compared(driver, [first, second], others, 2.5)
                assert inside < 0.05 * each, f"{inside:.3f} s beside {each:.3f} s"
                # Before Linux 6.6 who had more than the little that it weighs has to wait for that long first, also for
                # what a host took from its guest meanwhile: a hundred times as long.
                first.pause()
                await soon(
                    lambda: first.status.state not in (ContainerState.LAUNCHING, ContainerState.PAUSING),
                    "it stands, or does not",
                    40,
                )
                assert first.status.state is ContainerState.PAUSED, first.status
                second.kill(force=True)
                await asyncio.wait_for(second.wait(), 20 * PATIENCE)
                first.resume()
                await soon(lambda: first.status.state is ContainerState.RUNNING, "it goes on", 5)
            begun, idle = time.monotonic(), idle_seconds()
            await asyncio.sleep(1.5)
            lasted = time.monotonic() - begun
            assert idle_seconds() - idle < 0.25 * lasted, "it has all that is left"
            first.kill(force=True)

    asyncio.run(scenario())
