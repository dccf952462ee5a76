"""Real processes under a LinuxContainerExecutor: without cgroups anywhere, with them where they can be
written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import (
    CleanUpContainer,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    PauseContainer,
    ReportStatus,
    ResumeContainer,
    SetLimits,
    SignalContainer,
    StoreContainer,
)
from executor.core.events import (
    ContainerExited,
    ContainerLaunched,
    ContainerLaunchFailed,
    ContainerPaused,
    ContainerResumed,
    UsageSampled,
)
from executor.linux.cgroups import CgroupDriver
from executor.linux.cgroups.slots import SLOT_PREFIX
from executor.linux.procfs import is_alive, read_stat, standing
from executor.linux.store import StateStore
from executor.linux.watching.wall_clock import wall_offset
from executor.records import (
    CgroupLimits,
    ContainerRecord,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    Resource,
)
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, running, soon, until

MODES = ["none", pytest.param("v1", marks=pytest.mark.cgroup), pytest.param("auto", marks=pytest.mark.cgroup)]


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest) -> Iterator[CgroupDriver]:
    settings = ExecutorSettings(cgroups_mount=request.param)
    try:
        with a_group(settings) as driver:
            if request.param != "none" and driver.mode == "none":
                pytest.skip(f"no cgroup can be written here: {driver.describe()}")
            yield driver
    except Exception as error:
        if type(error).__name__ == "CgroupUnavailableError":
            pytest.skip(str(error))
        raise


@pytest.fixture
def no_cgroups() -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(cgroups_mount="none")) as driver:
        yield driver


STOPS_A_CHILD = "sleep 1000 & echo $! >stopped; kill -STOP $!; echo $$ >pid; while :; do sleep 0.01; done"


def state(pid: int) -> str:
    found = read_stat(pid)
    return "" if found is None else found.state


async def pid_in(node: Node, container_id: str, name: str = "pid") -> int:
    """A pid that the container wrote into a file of its private directory."""
    path = node.directory / "work" / container_id / name

    def written() -> int | None:
        text = path.read_text() if path.exists() else ""
        return int(text) if text.endswith("\n") else None

    found: int = await soon(written, f"the pid in {path}")
    return found


def test_a_command_runs_and_its_end_is_told(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            exited = await node.run(a_spec("c1", "sh", "-c", "echo $CONTAINER_ID; pwd; exit 7"))
            assert exited.exit_code == 7
            kinds = [type(event) for event in node.events]
            assert kinds == [ContainerLaunched, ContainerExited]
            private = tmp_path / "work" / "c1"
            assert node.output("c1").decode().split() == ["c1", str(private)]
            node.executor.perform(CleanUpContainer("c1"))
            left = [name for name in os.listdir(tmp_path / "state") if not name.startswith(SLOT_PREFIX)]
            assert left == [], "no record"
            await soon(lambda: not private.exists(), "its directory goes")
            assert (tmp_path / "logs" / "c1" / "stdout").exists()

    asyncio.run(scenario())


def test_files_of_the_container_and_what_it_leaves(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            spec = a_spec("c1", "./job", files={"job": "#!/bin/sh\nmkdir -p a/b; echo done\n"})
            assert (await node.run(spec)).exit_code == 0
            assert node.output("c1") == b"done\n"
            node.executor.perform(CleanUpContainer("c1"))
            await soon(lambda: not (tmp_path / "work" / "c1").exists(), "the private directory goes")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"working_directory": "/no/such/directory"}, 126),
        ({"files": {"../escape": "x"}}, 125),
        ({"log_directory": "/proc/none"}, 125),
        ({"environment": {"A=B": "x"}}, 126),
    ],
)
def test_what_cannot_be_started_is_told(
    tmp_path: Path, no_cgroups: CgroupDriver, fields: dict[str, object], code: int
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            node.executor.perform(LaunchContainer(a_spec("c1", "true", **fields), CgroupLimits()))
            failed = await node.told(ContainerLaunchFailed, "c1")
            assert failed.exit_code == code and failed.reason
            node.executor.perform(CleanUpContainer("c1"))

    asyncio.run(scenario())
    assert os.listdir(tmp_path / "work") == []


@pytest.mark.parametrize("name", ["../c", "a/b", "", ".", "x\0y"])
def test_ids_that_lead_elsewhere(tmp_path: Path, no_cgroups: CgroupDriver, name: str) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            spec = a_spec(name, "true")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            assert isinstance(node.events[0], ContainerLaunchFailed)

    asyncio.run(scenario())
    assert os.listdir(tmp_path / "work") == os.listdir(tmp_path / "state") == []


def test_what_cannot_be_written_down_is_not_started(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            spec = a_spec("c1", "true")
            os.mkdir(tmp_path / "state" / "journal.new")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            (failed,) = node.events
            assert isinstance(failed, ContainerLaunchFailed) and "journal" in failed.reason
            os.rmdir(tmp_path / "state" / "journal.new")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            assert (await node.run_again(spec)).exit_code == 0
            node.executor.perform(ForgetContainer("c1"))
            assert StateStore(tmp_path / "state").load_all(tidy=False) == []

    asyncio.run(scenario())


def test_sigterm_then_its_code(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            script = "trap 'exit 9' TERM; echo $$ > pid; while :; do sleep 0.01; done"
            await node.launch(a_spec("c1", "sh", "-c", script))
            await pid_in(node, "c1")
            node.executor.perform(KillContainer("c1"))
            assert (await node.told(ContainerExited, "c1")).exit_code == 9

    asyncio.run(scenario())


@pytest.mark.parametrize("force", [False, True])
def test_killed_before_it_has_begun(tmp_path: Path, cgroups: CgroupDriver, force: bool) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            for number in range(5):
                launched = await node.launch(a_spec(f"c{number}", "sleep", "1000"))
                node.executor.perform(KillContainer(f"c{number}", force))
                exited = await node.told(ContainerExited, f"c{number}")
                assert exited.exit_code == (137 if force else 143)
                assert not is_alive(launched.pid, launched.process_start)

    asyncio.run(scenario())


def test_nothing_outlives_its_container(tmp_path: Path, cgroups: CgroupDriver) -> None:
    """A double fork into a session of its own, and one that ignores SIGTERM, end with their container."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            orphan = "(setsid sh -c 'echo $$ > orphan; trap : TERM HUP; while :; do sleep 1000; done' &); "
            stubborn = "sh -c 'trap : TERM; echo $$ > stubborn; while :; do sleep 1000; done' & "
            wait = "until [ -s orphan ] && [ -s stubborn ]; do sleep 0.01; done; exit 3"
            await node.launch(a_spec("c1", "sh", "-c", orphan + stubborn + wait))
            left = [await pid_in(node, "c1", "orphan"), await pid_in(node, "c1", "stubborn")]
            exited = await node.told(ContainerExited, "c1")
            assert exited.exit_code == 3
            assert [pid for pid in left if running(pid)] == []
            assert cgroups.processes("c1") == []

    asyncio.run(scenario())


def test_nodes_leave_each_others_containers_alone(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    """Two nodes without cgroups have a container of the same name; the orphans of one are not the other's."""

    async def scenario() -> None:
        with a_group(ExecutorSettings(cgroups_mount="none")) as other_cgroups:
            async with (
                a_node(tmp_path / "a", no_cgroups) as node,
                a_node(tmp_path / "b", other_cgroups) as other,
            ):
                orphan = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000"
                await node.launch(a_spec("c1", "sh", "-c", orphan))
                await other.launch(a_spec("c1", "sh", "-c", orphan))
                here, there = await pid_in(node, "c1"), await pid_in(other, "c1")
                node.executor.perform(KillContainer("c1", force=True))
                await node.told(ContainerExited, "c1")
                assert not running(here) and running(there)

    asyncio.run(scenario())


def test_a_tree_that_forks_without_end_dies(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            forker = "f() { sleep 0.02 & sh -c : & wait %2; }; echo $$ > pid; while :; do f; done"
            both = f"({forker}) & ({forker.replace('pid', 'pid2')}) & wait"
            await node.launch(a_spec("c1", "sh", "-c", both))
            await pid_in(node, "c1", "pid2")
            node.executor.perform(KillContainer("c1", force=True))
            assert (await node.told(ContainerExited, "c1")).exit_code == 137
            assert cgroups.processes("c1") == []

    asyncio.run(scenario())


def test_a_killed_parent_takes_its_container_with_it(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            launched = await node.launch(a_spec("c1", "sh", "-c", "echo $$ > pid; exec sleep 1000"))
            inner = await pid_in(node, "c1")
            assert launched.pid == inner
            above = read_stat(inner)
            assert above is not None
            os.kill(above.parent, signal.SIGKILL)
            exited = await node.told(ContainerExited, "c1")
            assert exited.exit_code == 137, "the signal that ended it"
            assert not running(inner)
            assert (await node.run(a_spec("c2", "sh", "-c", "exit 3"))).exit_code == 3

    asyncio.run(scenario())


def test_pause_and_resume(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            worker = (
                "echo $$ > pid; i=0; while :; do i=$((i+1)); echo $i > count.new; mv count.new count; done"
            )
            await node.launch(a_spec("c1", "sh", "-c", worker))
            await pid_in(node, "c1")
            count = tmp_path / "work" / "c1" / "count"
            await soon(count.exists, "the first count")
            node.executor.perform(PauseContainer("c1"))
            await node.told(ContainerPaused, "c1")
            members = cgroups.processes("c1")
            assert members and all(standing(pid) for pid in members)
            stopped_at = count.read_text()
            cpu = cgroups.usage("c1", 0.0).cpu_seconds
            await asyncio.sleep(0.1)
            assert count.read_text() == stopped_at
            assert cgroups.usage("c1", 0.0).cpu_seconds <= cpu + 0.011
            node.executor.perform(ResumeContainer("c1"))
            await node.told(ContainerResumed, "c1")
            await soon(lambda: count.read_text() != stopped_at, "it counts on")

    asyncio.run(scenario())


def test_a_resume_wakes_nobody_whom_the_container_had_stopped(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            await node.launch(a_spec("c1", "sh", "-c", STOPS_A_CHILD))
            stopped, shell = [await pid_in(node, "c1", name) for name in ("stopped", "pid")]
            await soon(lambda: state(stopped) == "T", "it is stopped")
            for _ in range(3):
                node.events.clear()
                node.executor.perform(PauseContainer("c1"))
                left = (await node.told(ContainerPaused, "c1")).left
                assert [pid for pid, _ in left] == [stopped]
                node.executor.perform(ResumeContainer("c1"))
                await node.told(ContainerResumed, "c1")
                await soon(lambda: state(shell) == "S", "it goes on")
                assert state(stopped) == "T"
            node.executor.perform(KillContainer("c1"))
            assert (await node.told(ContainerExited, "c1")).exit_code == 143

    asyncio.run(scenario())


def test_a_forking_tree_stands_still(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            tree = "echo $$ > pid; while :; do sh -c 'sh -c : & wait'; done"
            await node.launch(a_spec("c1", "sh", "-c", tree))
            await pid_in(node, "c1")
            for turn in range(5):
                node.events.clear()
                node.executor.perform(PauseContainer("c1"))
                await node.told(ContainerPaused, "c1")
                members = sorted(cgroups.processes("c1"))
                await asyncio.sleep(0.02)
                assert sorted(cgroups.processes("c1")) == members, f"turn {turn}: somebody forked on"
                node.executor.perform(ResumeContainer("c1"))
                await node.told(ContainerResumed, "c1")
            node.executor.perform(KillContainer("c1", force=True))
            assert (await node.told(ContainerExited, "c1")).exit_code == 137

    asyncio.run(scenario())


@pytest.mark.parametrize("force", [False, True])
def test_a_paused_container_ends(tmp_path: Path, cgroups: CgroupDriver, force: bool) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            await node.launch(
                a_spec("c1", "sh", "-c", "trap 'exit 9' TERM; echo $$ > pid; while :; do sleep 0.01; done")
            )
            await pid_in(node, "c1")
            node.executor.perform(PauseContainer("c1"))
            await node.told(ContainerPaused, "c1")
            node.executor.perform(KillContainer("c1", force))
            assert (await node.told(ContainerExited, "c1")).exit_code == (137 if force else 9)

    asyncio.run(scenario())


def test_a_signal_reaches_every_process(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            waits = "trap 'echo got >> got; wait; exit 0' USR1; echo $$ > $1; while :; do sleep 0.01; done"
            both = "sh wait pid1 & . ./wait"
            await node.launch(a_spec("c1", "sh", "-c", both, "sh", "pid2", files={"wait": waits}))
            await pid_in(node, "c1", "pid1")
            await pid_in(node, "c1", "pid2")
            node.executor.perform(SignalContainer("c1", signal.SIGUSR1))
            got = tmp_path / "work" / "c1" / "got"
            await soon(lambda: got.exists() and got.read_text() == "got\ngot\n", "both got it")

    asyncio.run(scenario())


def test_commands_about_unknown_or_ended_containers_do_nothing(
    tmp_path: Path, no_cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            await node.run(a_spec("ended", "true"))
            count = len(node.events)
            for name in ("ended", "unknown"):
                for command in (
                    SignalContainer(name, signal.SIGTERM),
                    PauseContainer(name),
                    ResumeContainer(name),
                    KillContainer(name),
                    KillContainer(name, force=True),
                    SetLimits(name, CgroupLimits()),
                    ForgetContainer(name),
                    CleanUpContainer(name),
                    CleanUpContainer(name),
                ):
                    node.executor.perform(command)
            assert len(node.events) == count

    asyncio.run(scenario())


def test_a_second_launch_is_none(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            spec = a_spec("c1", "sleep", "1000")
            await node.launch(spec)
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            assert [type(event) for event in node.events] == [ContainerLaunched]

    asyncio.run(scenario())


def test_paused_before_it_has_begun(tmp_path: Path, cgroups: CgroupDriver) -> None:
    """At once after the launch the shim has no child yet: the pause waits for it, and loses no work."""

    async def scenario() -> None:
        go = tmp_path / "go"
        async with a_node(tmp_path, cgroups) as node:
            for number in range(5):
                name = f"c{number}"
                waiting = f"until [ -e {go} ]; do sleep 0.01; done; exit 6"
                await node.launch(a_spec(name, "sh", "-c", waiting))
                node.executor.perform(PauseContainer(name))
                await node.told(ContainerPaused, name)
                assert node.found(ContainerExited, name) is None
                node.executor.perform(ResumeContainer(name))
            go.touch()
            for number in range(5):
                assert (await node.told(ContainerExited, f"c{number}")).exit_code == 6

    asyncio.run(scenario())


def test_an_end_is_told_even_without_a_free_file_descriptor(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, no_cgroups) as node:
            script = "echo $$ > pid; until [ -e go ]; do sleep 0.01; done; exit 6"
            launched = await node.launch(a_spec("c1", "sh", "-c", script))
            await pid_in(node, "c1")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            taken: list[int] = []
            (tmp_path / "work" / "c1" / "go").write_text("")
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
                with contextlib.suppress(OSError):
                    while True:
                        taken.append(os.dup(0))
                # No condition can be looked at without a descriptor: this stretch is there to fail in.
                await asyncio.sleep(0.3)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for fd in taken:
                    os.close(fd)
            assert (await node.told(ContainerExited, "c1")).exit_code == 6
            assert not is_alive(launched.pid, launched.process_start)

    asyncio.run(scenario())


def test_usage_is_sampled_for_all_in_one_event(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        settings = ExecutorSettings(monitor_interval_ms=50)
        async with a_node(tmp_path, cgroups, settings) as node:
            node.executor.start()
            await node.launch(a_spec("spins", "sh", "-c", "while :; do :; done"))
            await node.launch(a_spec("sleeps", "sleep", "1000"))

            def measured() -> UsageSampled | None:
                for event in node.events:
                    if isinstance(event, UsageSampled) and set(event.usages) == {"spins", "sleeps"}:
                        spins, sleeps = event.usages["spins"], event.usages["sleeps"]
                        if spins.cpu_seconds > 0.1 and sleeps.processes == 1 and sleeps.memory_peak_bytes:
                            return event
                return None

            event = await soon(measured, "a sample in which one spins and one sleeps")
            assert event.usages["sleeps"].cpu_seconds < 0.1
            assert event.usages["spins"].memory_bytes <= event.usages["spins"].memory_peak_bytes
            assert event.node.memory_bytes > 1 << 20 and event.node.cpu >= 0

    asyncio.run(scenario())


def test_status_reports_go_to_whoever_wants_them(tmp_path: Path, no_cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        told: list[ContainerStatus] = []
        async with a_node(tmp_path, no_cgroups, report=told.append) as node:
            status = ContainerStatus("c1", ContainerState.DONE, ExecutionType.GUARANTEED, Resource(1, 1))
            node.executor.perform(ReportStatus(status))
        assert told == [status]

    asyncio.run(scenario())


def test_a_start_is_reported_with_a_time_before_the_first_instruction(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            for number in range(6):
                name = f"c{number}"
                launched = await node.launch(a_spec(name, "sh", "-c", "date +%s.%N; sleep 0.02"))
                await node.told(ContainerExited, name)
                assert launched.began is not None
                assert launched.began + wall_offset() <= float(node.output(name)) + 0.0002  # two clocks

    asyncio.run(scenario())


def test_what_had_ended_before_a_kill_could_reach_it_has_ended_by_itself(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            for name, script in (
                ("c1", "exit 3"),
                ("c2", "trap 'exit 3' TERM; echo; while :; do sleep 0.01; done"),
            ):
                launched = await node.launch(a_spec(name, "sh", "-c", script))
                if name == "c1":  # the loop hears of the end after this
                    until(lambda pid=launched.pid: not running(pid), "it has ended")
                else:
                    await soon(lambda: node.output("c2"), "its trap is set")
                node.executor.perform(KillContainer(name, force=False))
                told = await node.told(ContainerExited, name)
                assert (told.exit_code, told.by_itself) == (3, name == "c1")

    asyncio.run(scenario())
