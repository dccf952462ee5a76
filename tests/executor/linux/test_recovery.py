"""A node is killed with -9, and another finds its containers: nothing lost, nothing run twice, no code made
up.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, StoreContainer
from executor.core.events import (
    ContainerExited,
    ContainerKillRequested,
    ContainerRecovered,
    ContainerResumeRequested,
    RecoveryCompleted,
)
from executor.core.scheduler import ContainerScheduler
from executor.driver import Driver
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.container_executor import LinuxContainerExecutor
from executor.linux.processes import kill_launcher
from executor.linux.procfs import ProcessStat, read_stat
from executor.linux.slots.journals import journal_path
from executor.linux.slots.marks import marked_below
from executor.linux.store import BOOT
from executor.records import ContainerRecord, ContainerState, ContainerStatus
from executor.settings import ExecutorSettings

from .crashing_node import SPECS, TOTAL
from .node import Node, a_group, a_node, a_spec, running, soon, until

ROOT = Path(__file__).parents[3]


class Crashed:
    """What is left of a node that was killed."""

    def __init__(self, directory: Path, mode: str, pooled: int = 20) -> None:
        self.directory = directory
        self.settings = ExecutorSettings(cgroups_mount=mode, max_queue_length=10, pooled_groups=pooled)
        self.group = f"test-{os.getpid()}-{time.monotonic_ns():x}"
        program = "tests.executor.linux.crashing_node"
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, directory, mode, self.group, str(pooled)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
        )

    def wait_and_kill(self, first: Callable[[], None] = lambda: None) -> None:
        """``first`` is done before it is killed."""
        try:
            until(
                lambda: (self.directory / "ready").exists() or self.process.poll() is not None,
                "the node is ready",
            )
            assert self.process.poll() is None, self.process.communicate()[1].decode()
            first()
        finally:
            self.process.kill()
            self.process.communicate()

    def pid(self, container_id: str) -> int:
        return int((self.directory / "work" / container_id / "pid").read_text())

    def parent(self, container_id: str) -> int:
        """The launcher of a container that runs."""
        found = read_stat(self.pid(container_id))
        assert found is not None
        return found.parent

    def let_go(self, container_id: str) -> None:
        (self.directory / "work" / container_id / "go").write_text("")

    def clean(self) -> None:
        """Whatever the test came to: no process and no group stays."""
        for one in marked_below(str(self.directory / "state")):
            kill_launcher(one.pid, one.start)
        driver = discover(self.settings, group=self.group)
        for container_id in driver.stale_groups():
            driver.kill(container_id)
            driver.remove(container_id, 2.0)
        driver.remove_parent()


@pytest.fixture(params=["none", pytest.param("auto", marks=pytest.mark.cgroup)])
def crashed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Crashed]:
    left = Crashed(tmp_path, request.param)
    try:
        left.wait_and_kill()
        yield left
    finally:
        left.clean()


def test_containers_outlive_their_node_and_are_found_again(crashed: Crashed) -> None:
    pids = {
        name: crashed.pid(name)
        for name in ("runs", "ends-meanwhile", "loses-its-launcher", "paused", "fills")
    }
    crashed.let_go("ends-meanwhile")
    until(lambda: not running(pids["ends-meanwhile"]), "it ends while no node is there")
    parent = crashed.parent("loses-its-launcher")
    os.kill(parent, signal.SIGKILL)
    until(lambda: not running(parent), "its launcher dies")

    async def scenario() -> None:
        ended: dict[str, ContainerStatus] = {}

        def report(status: ContainerStatus) -> None:
            if status.state is ContainerState.DONE:
                ended[status.container_id] = status

        machine = ContainerScheduler(
            TOTAL, crashed.settings, physical_cores=2, wall_offset=time.time() - time.monotonic()
        )
        driver = Driver(machine, lambda command: linux.perform(command), validate=True)
        cgroups = discover(crashed.settings, group=crashed.group)
        linux = LinuxContainerExecutor(
            crashed.settings,
            post=driver.post,
            work_dir=crashed.directory / "work",
            log_dir=crashed.directory / "logs",
            state_dir=crashed.directory / "state",
            cgroups=cgroups,
            report=report,
        )
        found = {event.record.spec.container_id: event for event in linux.recover()}
        assert set(found) == {spec.container_id for spec in SPECS} | {"fills"}
        truth = {name: (event.alive, event.stopped, event.exit_code) for name, event in found.items()}
        assert truth == {
            "runs": (True, False, None),
            "fills": (True, False, None),
            "paused": (True, True, None),
            "ends-meanwhile": (False, False, 7),
            "loses-its-launcher": (False, False, None),
            "queued": (False, False, None),
        }
        assert not running(pids["loses-its-launcher"]), "what outlived its launcher was ended"
        there = discover(crashed.settings, group=crashed.group).stale_groups()
        assert len(there) in (0, 3), "the groups of those that run, and no others"
        for event in found.values():
            driver.post(event)
        driver.post(RecoveryCompleted())
        linux.start()

        assert ended["ends-meanwhile"].exit_status == 7
        assert ended["loses-its-launcher"].exit_code is None and ended["loses-its-launcher"].exit_status < 0
        status = machine.status("paused")
        assert status is not None and status.state is ContainerState.PAUSED
        for name in ("runs", "fills"):
            status = machine.status(name)
            assert status is not None and status.state is ContainerState.RUNNING
            assert status.pid == pids[name]

        crashed.let_go("runs")
        await soon(lambda: "runs" in ended, "the adopted one ends")
        assert ended["runs"].exit_status == 5, "the code of a process that was never our child"
        driver.post(ContainerResumeRequested("paused"))
        crashed.let_go("paused")
        driver.post(ContainerKillRequested("fills", -105, "enough"))
        await soon(lambda: set(ended) == set(found), "all end")
        assert ended["paused"].exit_status == 9
        assert ended["queued"].exit_status == 11
        assert ended["fills"].exit_status == -105
        assert machine.statuses() and not any(running(pid) for pid in pids.values())

        driver.step(lambda _: machine.forget(list(ended)))
        await linux.close()
        driver.close()
        linux.remove_everything()
        assert not (crashed.directory / "work").exists() and not (crashed.directory / "state").exists()

    asyncio.run(scenario())


@pytest.mark.cgroup
def test_a_stopped_zygote_ends_with_the_next_node_and_no_launcher_that_has_a_container_does(
    tmp_path: Path,
) -> None:
    """A stopped one does not see that its node is dead, and is in no group and no record."""
    left = Crashed(tmp_path, "auto")
    state = str(tmp_path / "state")
    zygotes: list[int] = []

    def stop_zygote() -> None:
        zygotes.extend(one.pid for one in marked_below(state) if one.parent == left.process.pid)
        for pid in zygotes:
            os.kill(pid, signal.SIGSTOP)

    async def scenario() -> None:
        async with a_node(tmp_path, discover(left.settings, group=left.group), left.settings) as node:
            found = {event.record.spec.container_id: event for event in node.executor.recover()}
            await soon(lambda: not running(zygotes[0]), "it is ended")
            left.let_go("runs")
            assert found["runs"].alive and found["fills"].alive
            assert (await node.told(ContainerExited, "runs")).exit_code == 5
            node.executor.discard()

    try:
        left.wait_and_kill(stop_zygote)
        if not zygotes:
            pytest.skip("NOT TESTED: no slots on this host")
        until(
            lambda: (found := read_stat(zygotes[0])) is None or found.parent != left.process.pid, "an orphan"
        )
        assert running(zygotes[0]), "it outlives its node"
        asyncio.run(scenario())
        assert not list(marked_below(state))
    finally:
        for one in marked_below(state):
            os.kill(one.pid, signal.SIGKILL)
        left.clean()


def test_what_has_no_record_is_ended_and_removed(crashed: Crashed) -> None:
    pids = {name: crashed.pid(name) for name in ("runs", "paused", "fills")}
    (crashed.directory / "state" / "journal").unlink()
    (crashed.directory / "work" / "foreign").mkdir()

    async def scenario() -> None:
        cgroups = discover(crashed.settings, group=crashed.group)
        linux = LinuxContainerExecutor(
            crashed.settings,
            post=lambda event: pytest.fail(f"{event}"),
            work_dir=crashed.directory / "work",
            log_dir=crashed.directory / "logs",
            state_dir=crashed.directory / "state",
            cgroups=cgroups,
        )
        assert linux.recover() == []
        assert not any(running(pid) for pid in pids.values())
        assert os.listdir(crashed.directory / "work") == []
        assert os.listdir(crashed.directory / "state") == [BOOT]
        assert cgroups.stale_groups() == []
        await linux.close()

    asyncio.run(scenario())


@pytest.fixture
def no_cgroups() -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(cgroups_mount="none")) as driver:
        yield driver


def launching(container_id: str) -> ContainerRecord:
    return ContainerRecord(
        a_spec(container_id, "sh", "-c", "echo $$ > pid; exec sleep 1000"), ContainerState.LAUNCHING
    )


def test_a_crash_between_the_start_and_writing_its_pid_down(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    """The record says LAUNCHING and knows no pid, but the container runs: it is found, not started again."""

    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            record = launching("c1")
            node.executor.perform(StoreContainer(record))
            launched = await node.launch(record.spec)
            node.lets_go()
            second = Node(tmp_path, no_cgroups, ExecutorSettings())
            (found,) = second.executor.recover()
            assert found.alive and found.record.pid == launched.pid
            assert found.record.process_start == launched.process_start
            await second.executor.close()

    asyncio.run(scenario())


def test_a_crash_before_the_start_starts_it_again(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    """No launcher has begun it, and none ever will: a launcher that has begun nothing ends with its node."""

    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            record = launching("c1")
            node.executor.perform(StoreContainer(record))
            (found,) = node.executor.recover()
            assert (found.alive, found.exit_code, found.record.pid) == (False, None, 0)
            assert running((await node.launch(record.spec)).pid)

    asyncio.run(scenario())


def test_a_container_whose_journal_is_gone_is_found_by_its_record_and_its_code_is_unknown(
    tmp_path: Path, no_cgroups: CgroupDriver
) -> None:
    """Somebody has removed the journal, or an earlier version started the container without one."""

    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            spec = a_spec("c1", "sh", "-c", "until [ -e go ]; do sleep 0.005; done; exit 4")
            launched = await node.launch(spec)
            record = ContainerRecord(spec, ContainerState.RUNNING, launched.pid, launched.process_start)
            node.executor.perform(StoreContainer(record))
            node.lets_go()
            for path in (tmp_path / "state").glob("*.journal"):
                path.unlink()
            second = Node(tmp_path, no_cgroups, ExecutorSettings())
            (found,) = second.executor.recover()
            assert found.alive and running(launched.pid)
            (tmp_path / "work" / "c1" / "go").write_text("")
            exited = await second.told(ContainerExited, "c1")
            assert exited.exit_code is None
            await second.executor.close()

    asyncio.run(scenario())


def test_an_end_in_a_slot_that_comes_while_the_node_looks(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    """Its launcher was seen at work, and then wrote the end and was gone."""

    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            with subprocess.Popen(["sleep", "1000"]) as launcher:
                stat = read_stat(launcher.pid)
                assert stat is not None
                journal = Path(journal_path(os.fspath(tmp_path / "state"), "yopp-slot-1"))
                told = f"launcher {launcher.pid} {stat.start}\nbegin 0 0 0 0 c1\npid {launcher.pid} {stat.start}\n"
                journal.write_text(told)
                node.executor._finder.survey()
                with journal.open("a") as file:
                    file.write("end 7\n")
                launcher.kill()
            record = ContainerRecord(a_spec("c1", "true"), ContainerState.RUNNING, launcher.pid, stat.start)
            found, held = node.executor._finder.find(record)
            assert (found.alive, found.exit_code, held) == (False, 7, None)

    asyncio.run(scenario())


def test_a_record_that_is_done_is_told_and_cleaned_up(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            spec = a_spec("c1", "sh", "-c", "exit 3")
            launched = await node.launch(spec)
            await node.told(ContainerExited, "c1")
            begun = launched.pid, launched.process_start
            record = ContainerRecord(spec, ContainerState.DONE, *begun, exit_status=3)
            node.executor.perform(StoreContainer(record))
            node.dies()
            second = Node(tmp_path, no_cgroups, ExecutorSettings())
            (found,) = second.executor.recover()
            assert isinstance(found, ContainerRecovered) and found.record == record and not found.alive
            assert os.listdir(tmp_path / "work") == []
            second.executor.perform(CleanUpContainer("c1"))
            assert {*os.listdir(tmp_path / "state")} == {"journal", BOOT}
            await second.executor.close()

    asyncio.run(scenario())


def test_a_pid_that_was_given_to_another_process(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    """Whoever has the pid now, and its children, are left alone."""

    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            script = "sleep 1000 & echo $!; wait"
            other = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
            try:
                assert other.stdout is not None
                child = int(other.stdout.readline())
                record = ContainerRecord(
                    a_spec("c1", "true"), ContainerState.RUNNING, pid=other.pid, process_start=1
                )
                node.executor.perform(StoreContainer(record))
                (found,) = node.executor.recover()
                assert not found.alive and found.exit_code is None
                assert running(other.pid) and running(child)
            finally:
                os.killpg(other.pid, signal.SIGKILL)
                other.communicate()

    asyncio.run(scenario())


def test_an_exit_that_comes_while_the_node_looks(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    """Found alive, ended right after: the end is told after the finding, from the loop."""

    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            spec = a_spec("c1", "sh", "-c", "echo $$ > pid; until [ -e go ]; do sleep 0.005; done; exit 4")
            launched = await node.launch(spec)
            await soon((tmp_path / "work" / "c1" / "pid").exists, "it runs")
            node.executor.perform(
                StoreContainer(
                    ContainerRecord(spec, ContainerState.RUNNING, launched.pid, launched.process_start)
                )
            )
            node.dies()
            second = Node(tmp_path, no_cgroups, ExecutorSettings())
            (found,) = second.executor.recover()
            (tmp_path / "work" / "c1" / "go").write_text("")
            until(lambda: not running(launched.pid), "it ends while the loop is held up")
            assert found.alive and second.events == []
            exited = await second.told(ContainerExited, "c1")
            assert exited.exit_code == 4
            second.executor.perform(CleanUpContainer("c1"))
            await second.executor.close()
            shutil.rmtree(tmp_path / "state")

    asyncio.run(scenario())


@pytest.mark.parametrize("state", [ContainerState.PAUSING, ContainerState.PAUSED, ContainerState.RESUMING])
def test_a_pause_or_resume_that_a_crash_interrupted_leaves_nothing_stopped_but_what_was(
    tmp_path: Path, no_cgroups: CgroupDriver, state: ContainerState
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            script = "sleep 1000 & echo $! >first; sleep 1000 & echo $! >second; wait"
            spec = a_spec("c1", "sh", "-c", script)
            launched = await node.launch(spec)
            first, second = (tmp_path / "work" / "c1" / name for name in ("first", "second"))
            await soon(lambda: second.exists() and second.read_text(), "it has two children")
            pids = [int(one.read_text()) for one in (first, second)]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
                await soon(lambda pid=pid: stat_of(pid).state == "T", "it is stopped")
            left = () if state is ContainerState.PAUSING else ((pids[0], stat_of(pids[0]).start),)
            record = ContainerRecord(spec, state, launched.pid, launched.process_start, left=left)
            node.executor.perform(StoreContainer(record))
            node.lets_go()
            later = Node(tmp_path, no_cgroups, ExecutorSettings())
            (found,) = later.executor.recover()
            assert found.alive and not found.stopped
            await soon(lambda: stat_of(pids[1]).state != "T", "the other one goes on")
            await soon(
                lambda: (stat_of(pids[0]).state == "T") == bool(left), "only what was stopped before stays so"
            )
            await later.executor.close()

    asyncio.run(scenario())


def stat_of(pid: int) -> ProcessStat:
    found = read_stat(pid)
    assert found is not None
    return found
