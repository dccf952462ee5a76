"""How containers yield: to the OOM killer, in I/O, and without cgroups for the CPU. Real processes, real memory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import (
    CleanUpContainer,
    KillContainer,
    PauseContainer,
    ResumeContainer,
    SetLimits,
    SignalContainer,
    StoreContainer,
)
from executor.core.events import ContainerChangeFailed, ContainerExited, ContainerPaused, ContainerResumed
from executor.core.limits import cgroup_limits
from executor.errors import CgroupUnavailableError
from executor.linux import yielding
from executor.linux.cgroups import CgroupDriver
from executor.records import ContainerRecord, ContainerState, ExecutionType, Resource
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, running, soon, until

G, O = ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC  # noqa: E741
MIB = 1 << 20
KINDS = {"none": {"cgroups_mount": "none"}, "outside": {"pooled_groups": 0}, "slot": {"pooled_groups": 2}}
SELF = "cat /proc/self/oom_score_adj; ionice -p $$; chrt -p $$ | head -1"
"""What a command sees of itself in its first instructions."""


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    return ExecutorSettings(**KINDS[request.param])


@pytest.fixture
def cgroups(settings: ExecutorSettings) -> Iterator[CgroupDriver]:
    with a_group(settings) as driver:
        if settings.cgroups_mount != "none" and driver.mode == "none":
            pytest.skip("no cgroup can be written here")
        yield driver


def limits_of(kind: ExecutionType, settings: ExecutorSettings, memory: int = 256) -> object:
    return cgroup_limits(Resource(memory, 1), kind, settings, node_vcores=2, physical_cores=2)


def of_process(pid: int) -> tuple[str, str, int]:
    score = Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    io = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=True).stdout.split(
        ":"
    )[0]
    return score, io.strip(), os.sched_getscheduler(pid)


def test_a_command_has_its_score_and_its_classes_from_its_first_instruction(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    own = Path("/proc/self/oom_score_adj").read_text().strip()

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, settings) as node:
            for number, kind in enumerate((O, G, O)):
                name = f"c{number}"
                end = await node.run(a_spec(name, "sh", "-c", SELF, execution_type=kind))
                assert end.exit_code == 0, node.output(name, "stderr")
                score, io, policy = node.output(name).decode().splitlines()
                assert score == ("1000" if kind is O else max(own, "0", key=int))
                assert io.startswith("idle") == (kind is O)
                assert policy.endswith("SCHED_IDLE") == (kind is O and cgroups.mode == "none")
                node.executor.perform(CleanUpContainer(name))
            launched = await node.launch(a_spec("c9", "sleep", "1000", execution_type=O))
            reporter = node.executor._held["c9"].launcher[0]
            assert reporter != launched.pid and int(of_process(reporter)[0]) <= int(own), (
                "a launcher is not the first to die"
            )

    asyncio.run(scenario())


def test_what_is_prepared_has_them_too_and_a_setting_changes_them(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    lower = ExecutorSettings(
        cgroups_mount=settings.cgroups_mount,
        pooled_groups=settings.pooled_groups,
        opportunistic_oom_score_adj=300,
        opportunistic_idle=False,
    )

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, lower) as node:
            spec = a_spec("c1", "sh", "-c", SELF, execution_type=O)
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.SCHEDULED)))
            await soon((tmp_path / "work" / "c1").exists, "it is prepared")
            assert (await node.run(spec)).exit_code == 0
            score, io, policy = node.output("c1").decode().splitlines()
            assert score == "300" and not io.startswith("idle") and policy.endswith("SCHED_OTHER")

    asyncio.run(scenario())


def test_a_promotion_takes_them_from_all_its_processes_and_a_demotion_gives_them_back(
    tmp_path: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, settings) as node:
            script = "sleep 1000 & setsid sleep 1000 & wait"
            await node.launch(a_spec("c1", "sh", "-c", script, execution_type=O))
            await soon(lambda: len(cgroups.processes("c1")) == 3, "all three run")
            for kind in (G, O, G):
                node.executor.perform(SetLimits("c1", limits_of(kind, settings)))
                seen = {of_process(pid) for pid in cgroups.processes("c1")}
                idle = os.SCHED_IDLE if kind is O and cgroups.mode == "none" else os.SCHED_OTHER
                assert seen == {("1000" if kind is O else "0", "idle" if kind is O else "none", idle)}
            assert node.found(ContainerChangeFailed, "c1") is None

    asyncio.run(scenario())


def test_what_a_promotion_cannot_undo_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ordinary user, whom the kernel does not let leave SCHED_IDLE, nor change a process of root."""
    program = (
        "import os, resource, subprocess, sys, time\nfrom executor.linux import yielding\n"
        "resource.setrlimit(resource.RLIMIT_NICE, (0, 0)); os.setgid(65534); os.setuid(65534)\n"
        "one = subprocess.Popen(['sleep', '100'])\n"
        "print(yielding.change(lambda: [one.pid], 1000, idle=True, for_cpu=True))\n"
        "print(yielding.change(lambda: [one.pid], 0, idle=False, for_cpu=True))\n"
        "print(yielding.change(lambda: [int(sys.argv[1])], 0, idle=False, for_cpu=False)); one.kill()"
    )
    if os.geteuid() != 0:
        pytest.skip("needs root")
    root = Path(yielding.__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", program, "1"],
        capture_output=True,
        text=True,
        cwd=root,
        env={"PYTHONPATH": str(root)},
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "",
        "its class of the CPU (SCHED_IDLE)",
        "its class of I/O (ioprio_set)",
    ], ended.stderr


def a_hog(mebibytes: int) -> list[str]:
    program = f"import time\nheld = bytearray({mebibytes} << 20)\nheld[::4096] = b'x' * len(held[::4096])\n"
    return [sys.executable, "-S", "-E", "-c", program + "print('holds', flush=True)\ntime.sleep(1000)"]


@pytest.mark.cgroup
@pytest.mark.parametrize("turn", range(5))
def test_when_memory_above_ends_the_container_goes_and_the_outsider_stays(tmp_path: Path, turn: int) -> None:
    """A group of 300 MB has them both; the outsider is the larger one."""
    name = f"test-{os.getpid()}-{time.monotonic_ns():x}"
    settings = ExecutorSettings(pooled_groups=turn % 2, cgroups_hierarchy="/" + name)
    try:
        stack = contextlib.ExitStack()
        driver = stack.enter_context(a_group(settings))
    except CgroupUnavailableError as error:
        pytest.skip(str(error))
    with stack:
        places = driver.describe().locations
        if "memory" not in driver.describe().controllers:
            pytest.skip("needs the memory controller")
        above = Path(places.get("memory") or places["unified"]).parent
        assert above.name == name
        (above / "outsider").mkdir()
        for file in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max"):
            if (above / file).exists():
                (above / file).write_text(str(300 * MIB))
        joins = above / "outsider" / "cgroup.procs"
        outsider = subprocess.Popen(
            a_hog(170), stdout=subprocess.PIPE, preexec_fn=lambda: joins.write_text(str(os.getpid()))
        )
        try:
            assert outsider.stdout is not None and outsider.stdout.readline() == b"holds\n"
            asyncio.run(_ends_for_others(tmp_path, driver, settings))
            assert outsider.poll() is None and running(outsider.pid)
        finally:
            outsider.kill()
            outsider.communicate()
            until(lambda: not joins.read_text(), "its group is empty")
            (above / "outsider").rmdir()


async def _ends_for_others(directory: Path, driver: CgroupDriver, settings: ExecutorSettings) -> None:
    async with a_node(directory, driver, settings) as node:
        end = await node.run(a_spec("c1", *a_hog(160), execution_type=O), limits_of(O, settings, 400))  # type: ignore[arg-type]
        assert (end.exit_code, end.usage.oom_kills) == (137, 1)
        assert end.usage.memory_peak_bytes < 399 * MIB


# ---- errors of the kernel

ERRORS = [errno.EIO, errno.ENODEV, errno.ENOENT, errno.EBUSY, errno.EINVAL, errno.EPERM]


@pytest.mark.parametrize("number", ERRORS)
def test_an_error_of_the_kernel_is_told_and_ends_no_node(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what lists processes, as cgroup.procs does: at a resume, a signal, a change of limits and a kill."""
    failed: list[str] = []

    def fails(*_: object) -> list[int]:
        failed.append("")
        raise OSError(number, os.strerror(number), "/sys/fs/cgroup/x/cgroup.procs")

    async def scenario(driver: CgroupDriver) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(str(what)))
        async with a_node(tmp_path, driver, ExecutorSettings(cgroups_mount="none")) as node:
            await node.launch(a_spec("c1", "sleep", "1000"))
            await soon(lambda: driver.processes("c1"), "it runs")
            node.executor.perform(PauseContainer("c1"))
            await node.told(ContainerPaused, "c1")
            with monkeypatch.context() as broken:
                broken.setattr(driver, "processes", fails)
                node.executor.perform(SignalContainer("c1", 10))
                assert os.strerror(number) in (await node.told(ContainerChangeFailed, "c1")).reason
                node.executor.perform(SetLimits("c1", limits_of(G, ExecutorSettings())))  # type: ignore[arg-type]
                node.executor.perform(ResumeContainer("c1"))
                told = await soon(lambda: _told(node, 3), "each is told once")
                await soon(lambda: len(failed) > 6, "the resume is repeated")
                assert len(_told(node, 3)) == len(told) and node.found(ContainerResumed, "c1") is None
                node.executor.perform(KillContainer("c1", force=False))
            await node.told(ContainerExited, "c1")
        assert not any(failed), failed

    with a_group(ExecutorSettings(cgroups_mount="none")) as driver:
        asyncio.run(scenario(driver))


def _told(node: Node, least: int) -> list[ContainerChangeFailed]:
    found = [one for one in node.events if isinstance(one, ContainerChangeFailed)]
    return found if len(found) >= least else []
