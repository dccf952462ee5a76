"""A container that begins in the moment in which another one ends, without its node; and all that may come between."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from executor.core.commands import (
    CleanUpContainer,
    Command,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    LaunchNext,
    PauseContainer,
    RevokeNext,
    SetLimits,
    SignalContainer,
    StoreContainer,
)
from executor.core.events import ContainerExited, ContainerLaunched, ContainerLaunchFailed, Event
from executor.linux.cgroups.base import GroupDriver
from executor.linux.launcher import COMPACT_BYTES, LONGEST_JOURNAL
from executor.records import CgroupLimits, ContainerRecord, ContainerSpec, ContainerState
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, running, soon, until
from .test_limits_live import MIB, MODES, hog, without_freezer
from .test_pool import Pooled, _made_of, groups

pytestmark = pytest.mark.cgroup
SETTINGS = ExecutorSettings(pooled_groups=1, prepared_containers=2)
LIMITS = CgroupLimits(pids_max=200)
QUEUED_AT_MS = 1_800_000_000_000


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GroupDriver]:
    proc = without_freezer(tmp_path) if request.param == "hybrid" else "/proc"
    with a_group(SETTINGS, proc=proc) as driver:
        if not isinstance(driver, GroupDriver) or not driver.enforces_memory:
            pytest.skip(f"NOT TESTED: no memory controller: {driver.describe()}")
        yield driver


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        asyncio.run(test(**fixtures))

    return run


class Pair:
    """``first`` runs until ``let_end``; ``second`` follows it, and says that it has begun in the file ``began``."""

    def __init__(self, node: Node, directory: Path) -> None:
        self.node = node
        self.go, self.began = directory / "go", directory / "began"

    async def begin(
        self, first: str = "exit 3", second: str = "exit 4", limits: CgroupLimits = LIMITS, **fields: str
    ) -> None:
        await self.node.run(a_spec("c0", "true"), LIMITS)  # the slot is there
        self.perform(CleanUpContainer("c0"))
        wait = f"until [ -e {self.go} ]; do sleep 0.005; done; {first}"
        self.store(a_spec("first", "sh", "-c", wait), ContainerState.LAUNCHING)
        await self.node.launch(a_spec("first", "sh", "-c", wait), LIMITS)
        self.second = a_spec("second", "sh", "-c", f"echo x >> {self.began}; {second}", **fields)
        self.store(self.second, ContainerState.SCHEDULED)
        self.perform(LaunchNext(self.second, limits, "first", QUEUED_AT_MS))

    def perform(self, *commands: Command) -> None:
        for command in commands:
            self.node.executor.perform(command)

    def store(self, spec: ContainerSpec, state: ContainerState) -> None:
        self.perform(StoreContainer(ContainerRecord(spec, state, queued_at_ms=QUEUED_AT_MS)))

    @property
    def follows(self) -> bool:
        return self.node.executor._pool.follows("second") is not None

    def let_end(self) -> None:
        self.go.touch()

    def let_begin_unheard(self, *, fails: bool = False) -> None:
        """The second one has begun, or has not been able to, and this node's loop has heard nothing."""
        self.let_end()
        if not fails:
            until(self.began.exists, "it has begun")
        else:
            until(lambda: Pooled(self.node).journal.begun[-1].code == 126, "it has not begun")
        assert self.node.found(ContainerExited, "first") is None

    async def has_followed(self, code: int = 4) -> None:
        assert (await self.node.told(ContainerExited, "first")).following == "second"
        launched = await self.node.told(ContainerLaunched, "second")
        exited = await self.node.told(ContainerExited, "second")
        assert exited.exit_code == code and launched.pid
        assert self.began.read_text() == "x\n"
        names = [
            one.container_id
            for one in self.node.events
            if isinstance(one, ContainerExited | ContainerLaunched)
        ]
        assert names[-6:] == ["c0", "c0", "first", "first", "second", "second"]

    async def slot_serves_on(self) -> None:
        for name in ("first", "second"):
            self.perform(CleanUpContainer(name), ForgetContainer(name))
        assert (await self.node.run(a_spec("last", "sh", "-c", "exit 9"), LIMITS)).exit_code == 9
        work = self.node.directory / "work"
        await soon(lambda: {one.name for one in work.iterdir()} <= {"last"}, "nothing is left of them")


@asynccontextmanager
async def a_pair(tmp_path: Path, cgroups: GroupDriver, *scripts: str, **fields: Any) -> AsyncIterator[Pair]:
    """Two containers of a node with one slot (``Pair.begin``)."""
    async with a_node(tmp_path, cgroups, SETTINGS) as node:
        pair = Pair(node, tmp_path)
        await pair.begin(*scripts, **fields)
        yield pair


@in_loop
async def test_it_begins_in_the_same_slot_with_output_and_figures_of_its_own(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_node(tmp_path, cgroups, SETTINGS) as node:
        pair = Pair(node, tmp_path)
        await node.run(a_spec("c00", "true"), LIMITS)
        pair.perform(CleanUpContainer("c00"))
        (slot,) = node.executor._pool._slots.all
        mebibytes = 40 if slot.group.resets_peak else 0  # else the slot is of no use to the next one
        uses = f"{sys.executable} -S -E -c '{hog(mebibytes)}'; echo one; exit 3"
        await pair.begin(uses if mebibytes else "echo one; exit 3", "cat /proc/self/cgroup; exit 4")
        launcher = Pooled(node).launcher
        assert pair.follows
        pair.let_end()
        await pair.has_followed()
        first, second = [await node.told(ContainerExited, name) for name in ("first", "second")]
        assert first.exit_code == 3 and node.output("first").endswith(b"one\n")
        assert first.usage.memory_peak_bytes > mebibytes * MIB
        assert second.usage.memory_peak_bytes < 12 * MIB
        assert first.usage.cpu_seconds > 0 < second.usage.cpu_seconds < 5
        assert Pooled(node).launcher == launcher
        assert slot.group.name.encode() in node.output("second")
        await pair.slot_serves_on()


@pytest.mark.parametrize("ends", [False, True])
@in_loop
async def test_one_that_is_taken_back_does_not_begin(
    tmp_path: Path, cgroups: GroupDriver, ends: bool
) -> None:
    async with a_pair(tmp_path, cgroups) as pair:
        node = pair.node
        pair.perform(RevokeNext("second", ends=ends))
        assert not pair.follows and (node.found(ContainerExited, "second") is not None) == ends
        pair.let_end()
        exited = await node.told(ContainerExited, "first")
        assert (exited.exit_code, exited.following) == (3, "") and not pair.began.exists()
        node.events.clear()
        assert (await node.run(pair.second, LIMITS)).exit_code == 4
        assert pair.began.read_text() == "x\n"
        await pair.slot_serves_on()


@pytest.mark.parametrize(
    "command",
    [
        PauseContainer("first"),
        KillContainer("first"),
        SignalContainer("first", signal.SIGURG),
        SetLimits("first", CgroupLimits(pids_max=100)),
    ],
)
@in_loop
async def test_whatever_is_done_to_the_first_takes_it_back(
    tmp_path: Path, cgroups: GroupDriver, command: Command
) -> None:
    async with a_pair(tmp_path, cgroups) as pair:
        node = pair.node
        assert pair.follows
        pair.perform(command)
        assert not pair.follows
        pair.perform(KillContainer("first", force=True))
        assert (await node.told(ContainerExited, "first")).following == ""
        assert not pair.began.exists()
        await pair.slot_serves_on()


@pytest.mark.parametrize(
    "late",
    [
        RevokeNext("second"),
        PauseContainer("first"),
        KillContainer("first", force=True),
        SignalContainer("first", signal.SIGKILL),
        SetLimits("first", CgroupLimits(memory_max=64 * MIB)),
        LaunchNext(a_spec("second", "false"), LIMITS, "first", QUEUED_AT_MS),
    ],
    ids=lambda one: type(one).__name__,
)
@in_loop
async def test_what_comes_too_late_does_not_hit_the_one_that_has_begun(
    tmp_path: Path, cgroups: GroupDriver, late: Command
) -> None:
    async with a_pair(tmp_path, cgroups, second="sleep 0.2; exit 4") as pair:
        pair.let_begin_unheard()
        pair.perform(late)
        await pair.has_followed()
        await pair.slot_serves_on()


@in_loop
async def test_one_that_is_to_start_when_it_has_begun_is_started_once(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=2)) as node:
        pair = Pair(node, tmp_path)
        await pair.begin(second="sleep 0.1; exit 4")
        pair.let_begin_unheard()
        pair.store(pair.second, ContainerState.LAUNCHING)
        pair.perform(LaunchContainer(pair.second, CgroupLimits(pids_max=77)))
        launched = await node.told(ContainerLaunched, "second")
        pids = [Path(place, os.path.basename(launched.cgroup), "pids.max") for place in _places(cgroups)]
        assert {one.read_text() for one in pids if one.exists()} <= {"78\n"}, (
            "and has the limits of its start"
        )
        await pair.has_followed()
        await pair.slot_serves_on()


def _places(cgroups: GroupDriver) -> set[str]:
    return set(cgroups.describe().locations.values())


@in_loop
async def test_one_that_is_to_end_has_ended_or_begins_and_is_told_again(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_pair(tmp_path, cgroups, second="exec sleep 1000") as pair:
        node = pair.node
        pair.let_begin_unheard()
        pair.perform(RevokeNext("second", ends=True), KillContainer("second"))
        assert node.found(ContainerExited, "second") is None
        await node.told(ContainerLaunched, "second")
        pair.perform(KillContainer("second"))
        await pair.has_followed(143)
        pair.perform(RevokeNext("unknown", ends=True))
        assert node.found(ContainerExited, "unknown").exit_code is None  # type: ignore[union-attr]
        await pair.slot_serves_on()


@in_loop
async def test_it_waits_for_the_node_where_the_first_leaves_a_process(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_pair(
        tmp_path, cgroups, f"trap '' TERM; sleep 1000 & echo $! > {tmp_path}/left; exit 3"
    ) as pair:
        node = pair.node
        pair.let_end()
        assert (await node.told(ContainerExited, "first")).following == ""
        assert not pair.began.exists() and not pair.follows
        assert not running(int((tmp_path / "left").read_text()))
        assert (await node.run(pair.second, LIMITS)).exit_code == 4
        await pair.slot_serves_on()


@in_loop
async def test_one_with_other_limits_does_not_follow(tmp_path: Path, cgroups: GroupDriver) -> None:
    async with a_pair(tmp_path, cgroups, limits=CgroupLimits(pids_max=100)) as pair:
        node = pair.node
        assert not pair.follows
        pair.let_end()
        assert (await node.told(ContainerExited, "first")).following == ""
        assert (await node.run(pair.second)).exit_code == 4
        await pair.slot_serves_on()


@in_loop
async def test_one_that_cannot_begin_is_told_and_the_slot_serves_on(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_pair(tmp_path, cgroups, working_directory=str(tmp_path / "nowhere")) as pair:
        node = pair.node
        pair.let_end()
        failed = await node.told(ContainerLaunchFailed, "second")
        assert failed.exit_code == 126 and "nowhere" in failed.reason
        assert (await node.told(ContainerExited, "first")).following == "second"
        await pair.slot_serves_on()


@in_loop
async def test_nothing_follows_one_that_cannot_begin(tmp_path: Path, cgroups: GroupDriver) -> None:
    """The third one is sent in the moment in which the node hears that the second is beginning."""
    async with a_pair(tmp_path, cgroups, working_directory=str(tmp_path / "nowhere")) as pair:
        node = pair.node
        third, post, sent = a_spec("third", "sh", "-c", "exit 5"), node.executor._context.post, []

        def posted(event: Event) -> None:
            post(event)
            if isinstance(event, ContainerExited) and event.following == "second":
                pair.perform(LaunchNext(third, LIMITS, "second", QUEUED_AT_MS))
                sent.append(node.executor._pool.follows("third") is not None)

        node.executor._context.post = posted
        pair.let_begin_unheard(fails=True)
        assert (await node.told(ContainerLaunchFailed, "second")).exit_code == 126
        assert sent == [True] and node.executor._pool.follows("third") is None
        assert (await node.run(third, LIMITS)).exit_code == 5
        pair.perform(CleanUpContainer("third"))
        await pair.slot_serves_on()


@in_loop
async def test_with_its_launcher_dies_the_one_that_runs_and_the_other_one_waits_on(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_pair(tmp_path, cgroups) as pair:
        node = pair.node
        os.kill(Pooled(node).launcher, signal.SIGKILL)
        exited = await node.told(ContainerExited, "first")
        assert (exited.exit_code, exited.following) == (137, "")
        assert not pair.follows and not pair.began.exists()
        assert (await node.run(pair.second, LIMITS)).exit_code == 4
        await pair.slot_serves_on()


@in_loop
async def test_a_launcher_that_dies_after_it_has_begun_the_next_tells_the_truth_of_both(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_pair(tmp_path, cgroups, second="sleep 1000") as pair:
        node = pair.node
        launcher = Pooled(node).launcher
        pair.let_begin_unheard()
        os.kill(launcher, signal.SIGKILL)
        await pair.has_followed(137)
        assert (await node.told(ContainerExited, "first")).exit_code == 3
        await pair.slot_serves_on()


async def recovered(tmp_path: Path, cgroups: GroupDriver) -> tuple[Node, dict[str, tuple[bool, int | None]]]:
    """A second node, and what it finds of both: whether they are alive, and their codes."""
    second = Node(tmp_path, type(cgroups)(*_made_of(cgroups)), SETTINGS)
    found = {one.record.spec.container_id: one for one in second.executor.recover()}
    states = {name: one.record.state for name, one in found.items()}
    assert (states["second"] is ContainerState.SCHEDULED) == (
        not found["second"].alive and found["second"].exit_code is None
    )
    return second, {name: (one.alive, one.exit_code) for name, one in found.items()}


async def end(node: Node, cgroups: GroupDriver) -> None:
    for name in ("first", "second"):
        node.executor.perform(KillContainer(name, force=True))
        await soon(lambda name=name: node.executor._to_act_on(name) is None, f"{name} has ended")  # type: ignore[misc]
        node.executor.perform(CleanUpContainer(name))
        node.executor.perform(ForgetContainer(name))
    await node.executor.close()
    await soon(lambda: not groups(cgroups), "no group is left")


@pytest.mark.parametrize("first_ends", ["before the node is back", "after"])
@in_loop
async def test_after_the_death_of_its_node_it_does_not_begin(
    tmp_path: Path, cgroups: GroupDriver, first_ends: str
) -> None:
    async with a_pair(tmp_path, cgroups) as pair:
        node = pair.node
        launcher = Pooled(node).launcher
        assert pair.follows
        node.dies()
        if first_ends == "after":
            second, found = await recovered(tmp_path, cgroups)
            assert found == {"first": (True, None), "second": (False, None)}
            pair.let_end()
            assert (await second.told(ContainerExited, "first")).exit_code == 3
        else:
            pair.let_end()
            await soon(lambda: not running(launcher), "its launcher ends with it")
            second, found = await recovered(tmp_path, cgroups)
            assert found == {"first": (False, 3), "second": (False, None)}
        await soon(lambda: not running(launcher), "its launcher ends with it")
        assert not pair.began.exists()
        await end(second, cgroups)


@pytest.mark.parametrize("lasts", ["0", "1000"])
@in_loop
async def test_one_that_had_begun_when_its_node_died_does_not_begin_again(
    tmp_path: Path, cgroups: GroupDriver, lasts: str
) -> None:
    """Its record says that it waits; the journal knows better."""
    async with a_pair(tmp_path, cgroups, second=f"sleep {lasts}; exit 4") as pair:
        node = pair.node
        launcher = Pooled(node).launcher
        pair.let_begin_unheard()
        node.dies()
        if lasts == "0":
            await soon(lambda: not running(launcher), "its launcher ends with it")
        second, found = await recovered(tmp_path, cgroups)
        assert found == {"first": (False, 3), "second": (False, 4) if lasts == "0" else (True, None)}
        assert pair.began.read_text() == "x\n"
        await end(second, cgroups)


@in_loop
async def test_an_earlier_container_of_the_same_name_is_not_taken_for_it(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    async with a_pair(tmp_path, cgroups) as pair:
        node = pair.node
        pair.let_end()
        await pair.has_followed()
        again = ContainerRecord(pair.second, ContainerState.SCHEDULED, queued_at_ms=QUEUED_AT_MS + 5)
        pair.perform(StoreContainer(again))
        node.dies()
        second, found = await recovered(tmp_path, cgroups)
        assert found["second"] == (False, None)
        await end(second, cgroups)


@in_loop
async def test_a_node_that_ends_in_order_takes_it_back(tmp_path: Path, cgroups: GroupDriver) -> None:
    async with a_pair(tmp_path, cgroups) as pair:
        node = pair.node
        await node.executor.close()
        assert not pair.follows
        node.executor._held.clear()
        node.events.clear()
        second, found = await recovered(tmp_path, cgroups)
        assert found == {"first": (True, None), "second": (False, None)}
        pair.let_end()
        assert (await second.told(ContainerExited, "first")).exit_code == 3
        assert not pair.began.exists()
        await end(second, cgroups)


@in_loop
async def test_a_long_line_ends_each_with_its_own_code_and_its_journal_is_bounded(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    """Each of them is sent when the one before it is known to have begun, as a node does."""
    async with a_node(tmp_path, cgroups, SETTINGS) as node:
        await node.run(a_spec("c0", "true"), LIMITS)
        count, followed = 400, 0
        specs = [a_spec(f"c{number}", "sh", "-c", f"exit {number % 100}") for number in range(count)]
        for number in range(1, count):
            name, before = f"c{number}", f"c{number - 1}"
            if number > 1 and (await node.told(ContainerExited, before)).following == name:
                followed += 1
            else:
                node.executor.perform(LaunchContainer(specs[number], LIMITS))
            node.executor.perform(CleanUpContainer(before))
            if number + 1 < count:
                node.executor.perform(LaunchNext(specs[number + 1], LIMITS, name, QUEUED_AT_MS))
        await node.told(ContainerExited, f"c{count - 1}")
        ends = [one for one in node.events if isinstance(one, ContainerExited)]
        assert [(one.container_id, one.exit_code) for one in ends[1:]] == [
            (f"c{number}", number % 100) for number in range(1, count)
        ]
        assert followed > count / 4
        (journal,) = (node.directory / "state").glob("*.journal")
        assert journal.stat().st_size < LONGEST_JOURNAL + COMPACT_BYTES
        assert len(Pooled(node).journal.begun) <= count
