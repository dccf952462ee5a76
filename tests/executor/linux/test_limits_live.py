"""Limits and figures on the real kernel, by whatever cgroups the host offers (v1, v2 or hybrid).

Self-contained: no network, one processor is enough, pytest and the package are all it needs. Run on a
cgroup v2 kernel it tests v2. Every group is made under a name of its own and removed, whatever happens.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, KillContainer, PauseContainer, SetLimits
from executor.core.events import ContainerExited, ContainerPaused
from executor.errors import CgroupError
from executor.linux.cgroups import CgroupDriver, V2Driver, discover
from executor.linux.cgroups.files import UnifiedFiles, at, read_mounts
from executor.linux.cgroups.v2 import enable_controllers
from executor.linux.procfs import read_stat
from executor.records import CgroupLimits
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, running, soon, until

pytestmark = pytest.mark.cgroup

MIB = 1 << 20
MODES = (
    ["auto", "hybrid"]
    if {mount.version for mount in read_mounts("/proc", "/sys/fs/cgroup")} == {1, 2}
    else ["auto"]
)
"""``hybrid``: no v1 freezer to be had, so that the bare v2 mount beside v1 freezes and kills."""

SPIN = "while :; do :; done"


def hog(mebibytes: int) -> str:
    """A program that holds so much, and touches no page that it does not hold.

    In user-mode Linux on a slow machine a page costs up to 0.3 ms, and 200 MiB so 15 s.
    """
    return f"""
block = b"x" * (1 << 20)
held = []
for _ in range({mebibytes}):
    held.append(bytearray(block))
print("survived", flush=True)
"""


HOG = hog(200)


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CgroupDriver]:
    settings = ExecutorSettings()
    proc = without_freezer(tmp_path) if request.param == "hybrid" else "/proc"
    try:
        chosen = discover(settings, group="test-asking", proc=proc)
    except CgroupError as error:
        pytest.skip(f"NOT TESTED: {error}")
    if not {"cpu", "memory", "pids"} <= set(chosen.describe().controllers):
        pytest.skip(f"NOT TESTED: no writable cpu, memory and pids controllers: {chosen.describe()}")
    assert (chosen.mode == "hybrid") == (request.param == "hybrid")
    with a_group(settings, proc=proc) as driver:
        yield driver


def without_freezer(directory: Path) -> str:
    """What /proc says of mounts and groups, with no v1 freezer in it."""
    (directory / "proc" / "self").mkdir(parents=True)
    for name in ("mountinfo", "cgroup"):
        lines = Path("/proc/self", name).read_text().splitlines(keepends=True)
        kept = [line for line in lines if not re.search(r"[:,]freezer\b", line)]
        (directory / "proc" / "self" / name).write_text("".join(kept))
    return str(directory / "proc")


def cpu_used(cgroups: CgroupDriver, container_id: str) -> float:
    return cgroups.usage(container_id, 0.0).cpu_seconds


async def cores_used(cgroups: CgroupDriver, names: list[str], seconds: float) -> list[float]:
    """How many cores each container had in a stretch of time, by the kernel's own count."""
    before, begun = [cpu_used(cgroups, name) for name in names], time.monotonic()
    await asyncio.sleep(seconds)
    after, lasted = [cpu_used(cgroups, name) for name in names], time.monotonic() - begun
    return [(late - early) / lasted for early, late in zip(before, after, strict=True)]


async def spinning(node: Node, names: list[str]) -> None:
    await soon(lambda: all(cpu_used(node.cgroups, name) > 0.05 for name in names), "they spin")


def test_a_strict_quota_holds_two_spinners_to_half_a_core(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            # YARN's spelling of half a core: a quota of 0.5 s in a period of 1 s is coarse, so a finer one
            # here.
            limits = CgroupLimits(cpu_quota_us=25_000, cpu_period_us=50_000)
            await node.launch(a_spec("c1", "sh", "-c", f"({SPIN}) & {SPIN}"), limits)
            await spinning(node, ["c1"])
            (cores,) = await cores_used(cgroups, ["c1"], 1.5)
            assert cores <= 0.6, f"{cores:.2f} cores"
            if cores > 0.45:  # on a busy machine it may never have come up to its quota
                assert cgroups.usage("c1", 0.0).throttled_seconds > 0
            # Lifted while it runs.
            node.executor.perform(SetLimits("c1", CgroupLimits()))
            throttled = cgroups.usage("c1", 0.0).throttled_seconds
            await soon(lambda: cpu_used(cgroups, "c1") > 1.0, "it goes on")
            assert cgroups.usage("c1", 0.0).throttled_seconds <= throttled + 0.1

    asyncio.run(scenario())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor cannot show more than one core")
def test_a_strict_vcore_is_one_core_and_not_two(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            limits = CgroupLimits(cpu_quota_us=1_000_000, cpu_period_us=1_000_000)
            await node.launch(a_spec("c1", "sh", "-c", f"({SPIN}) & {SPIN}"), limits)
            # The kernel's clock of periods runs already: the first quota may be followed at once by the second one.
            await soon(lambda: cpu_used(node.cgroups, "c1") > 1.05, "it is past its first quota")
            (cores,) = await cores_used(cgroups, ["c1"], 3.0)
            assert cores <= 1.2, f"{cores:.2f} cores"

    asyncio.run(scenario())


def test_weights_share_a_processor(tmp_path: Path, cgroups: CgroupDriver) -> None:
    """A guaranteed and an opportunistic spinner on one processor: nearly all is the guaranteed one's."""

    async def scenario() -> None:
        pin: tuple[str, ...] = ()
        if shutil.which("taskset"):
            pin = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
        if not pin and len(os.sched_getaffinity(0)) > 1:
            pytest.skip("NOT TESTED: no taskset to put both on one processor")
        async with a_node(tmp_path, cgroups) as node:
            await node.launch(a_spec("o", *pin, "sh", "-c", SPIN), CgroupLimits(cpu_shares=2, cpu_weight=1))
            await spinning(node, ["o"])
            await node.launch(
                a_spec("g", *pin, "sh", "-c", SPIN), CgroupLimits(cpu_shares=1024, cpu_weight=100)
            )
            await spinning(node, ["g"])
            guaranteed, opportunistic = await cores_used(cgroups, ["g", "o"], 1.5)
            assert guaranteed > 8 * opportunistic, f"{guaranteed:.3f} and {opportunistic:.3f} cores"

    asyncio.run(scenario())


def test_over_its_memory_it_dies_and_its_neighbour_lives(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            limits = CgroupLimits(memory_max=64 * MIB, memory_low=57 * MIB, pids_max=50)
            neighbour = await node.launch(a_spec("neighbour", "sleep", "1000"), limits)
            await node.launch(a_spec("hog", sys.executable, "-S", "-E", "-c", HOG), limits)
            exited = await node.told(ContainerExited, "hog")
            assert exited.exit_code == 137
            assert exited.usage.oom_kills == 1
            assert 60 * MIB <= exited.usage.memory_peak_bytes <= 64 * MIB
            assert b"survived" not in node.output("hog")
            assert running(neighbour.pid) and cgroups.usage("neighbour", 0.0).oom_kills == 0
            assert node.found(ContainerExited, "neighbour") is None

    asyncio.run(scenario())


def test_a_process_that_dies_for_memory_is_told_of_a_container_that_ends_well_and_of_no_other(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            limits = CgroupLimits(memory_max=64 * MIB, pids_max=50)
            hogs = a_spec("c1", "sh", "-c", f"{sys.executable} -S -E -c '{hog(200)}'; exit 0")
            exited = await node.run(hogs, limits)
            assert (exited.exit_code, exited.usage.oom_kills) == (0, 1)
            assert exited.usage.limit_ooms in (-1, 1)
            node.executor.perform(CleanUpContainer("c1"))
            exited = await node.run(a_spec("c2", "true"), limits)
            assert (exited.usage.oom_kills, exited.usage.limit_ooms) in ((0, 0), (0, -1))

    asyncio.run(scenario())


def test_memory_that_runs_out_above_is_not_at_the_limit_of_a_container(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    """All containers of the node may have 100 MB together."""

    async def scenario() -> None:
        cgroups.create_parent(CgroupLimits(memory_max=100 * MIB))
        async with a_node(tmp_path, cgroups) as node:
            limits = CgroupLimits(memory_max=400 * MIB, pids_max=50)
            exited = await node.run(a_spec("c1", sys.executable, "-S", "-E", "-c", hog(200)), limits)
            assert (exited.exit_code, exited.usage.oom_kills) == (137, 1)
            assert exited.usage.limit_ooms in (-1, 0) and exited.usage.memory_peak_bytes < 399 * MIB

    asyncio.run(scenario())


def test_a_raised_limit_lets_it_live(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + hog(100)
            await node.launch(
                a_spec("c1", sys.executable, "-S", "-E", "-c", waits), CgroupLimits(memory_max=64 * MIB)
            )
            node.executor.perform(SetLimits("c1", CgroupLimits(memory_max=400 * MIB)))
            (tmp_path / "work" / "c1" / "go").write_text("")
            exited = await node.told(ContainerExited, "c1")
            assert (exited.exit_code, exited.usage.oom_kills) == (0, 0), node.output("c1", "stderr")
            assert exited.usage.memory_peak_bytes > 100 * MIB, "more than the first limit"
            # Lowered again, in the other order; nothing refuses it.
            cgroups.create("c2", CgroupLimits(memory_max=400 * MIB))
            cgroups.set_limits("c2", CgroupLimits(memory_max=32 * MIB))
            assert cgroups.remove("c2", 1.0)

    asyncio.run(scenario())


def test_the_number_of_processes_is_bounded(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            forks = """
import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0:
            time.sleep(1000)
        made += 1
except BlockingIOError:
    print(made, flush=True)
"""
            exited = await node.run(
                a_spec("c1", sys.executable, "-S", "-E", "-c", forks), CgroupLimits(pids_max=20)
            )
            assert exited.exit_code == 0, node.output("c1", "stderr")
            assert int(node.output("c1")) == 19, "itself and nineteen more"
            assert exited.usage.refused_forks == 1
            node.executor.perform(CleanUpContainer("c1"))
            assert (await node.run(a_spec("c2", "true"))).usage.refused_forks == 0
            assert cgroups.processes("c1") == []

    asyncio.run(scenario())


def test_frozen_and_killed(tmp_path: Path, cgroups: CgroupDriver) -> None:
    """A tree that forks all the time stands still when frozen, and dies frozen or not, with its code told."""

    async def scenario() -> None:
        forks = "echo $$ > pid; while :; do sh -c 'sh -c : & setsid sh -c : & wait'; done"
        async with a_node(tmp_path, cgroups) as node:
            await node.launch(a_spec("c1", "sh", "-c", f"({forks}) & {forks}"))
            await soon((tmp_path / "work" / "c1" / "pid").exists, "it runs")
            for _ in range(3):
                await asyncio.to_thread(cgroups.freeze, "c1")
                assert cgroups.frozen("c1")
                members, used = sorted(cgroups.processes("c1")), cpu_used(cgroups, "c1")
                await asyncio.sleep(0.05)
                assert sorted(cgroups.processes("c1")) == members
                assert cpu_used(cgroups, "c1") - used < 0.011
                cgroups.thaw("c1")
                await soon(lambda used=used: cpu_used(cgroups, "c1") > used, "it goes on")
            await asyncio.to_thread(cgroups.freeze, "c1")
            node.executor.perform(KillContainer("c1", force=True))
            exited = await node.told(ContainerExited, "c1")
            assert exited.exit_code == 137 and cgroups.processes("c1") == []

    asyncio.run(scenario())


def test_a_paused_container_uses_nothing_and_is_killed(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            await node.launch(a_spec("c1", "sh", "-c", f"({SPIN}) & {SPIN}"))
            await spinning(node, ["c1"])
            node.executor.perform(PauseContainer("c1"))
            await node.told(ContainerPaused, "c1")
            (cores,) = await cores_used(cgroups, ["c1"], 0.3)
            assert cores < 0.05
            node.executor.perform(KillContainer("c1"))
            assert (await node.told(ContainerExited, "c1")).exit_code == 143

    asyncio.run(scenario())


def test_a_launcher_outside_is_in_no_group_and_everything_else_inside(
    tmp_path: Path, cgroups: CgroupDriver
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=0)) as node:
            launched = await node.launch(a_spec("c1", "sh", "-c", "setsid sleep 1000 & sleep 1000 & wait"))
            await soon(lambda: len(cgroups.processes("c1")) == 3, "three processes")
            assert launched.pid in cgroups.processes("c1")
            own, command = Path("/proc/self/cgroup").read_text(), read_stat(launched.pid)
            assert command is not None and Path(f"/proc/{command.parent}/cgroup").read_text() == own
            for pid in cgroups.processes("c1"):
                paths = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
                assert len([path for path in paths if path.endswith("/c1")]) == len(cgroups.bases)

    asyncio.run(scenario())


def test_a_group_made_inside_a_container_goes_with_it(tmp_path: Path, cgroups: CgroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            await node.launch(a_spec("c1", "sleep", "1000"))
            (pid,) = await soon(lambda: cgroups.processes("c1"), "it is in its group")
            inner = os.path.join(cgroups.path("c1"), "inner", "most")
            os.makedirs(inner)
            if not isinstance(cgroups, V2Driver):
                Path(inner, "cgroup.procs").write_text(str(pid))
                assert cgroups.processes("c1") == [pid]
            node.executor.perform(KillContainer("c1", force=True))
            await node.told(ContainerExited, "c1")
            node.executor.perform(CleanUpContainer("c1"))
            await soon(lambda: not cgroups.stale_groups(), "all of it goes, in every hierarchy")

    asyncio.run(scenario())


def test_making_a_group_again_keeps_it_and_limits_of_all_together_hold(cgroups: CgroupDriver) -> None:
    cgroups.create_parent(CgroupLimits(memory_max=512 * MIB, pids_max=100))
    first = cgroups.create("c1", CgroupLimits(memory_max=64 * MIB))
    assert cgroups.create("c1", CgroupLimits(memory_max=32 * MIB)) == first
    assert cgroups.stale_groups() == ["c1"]
    assert cgroups.remove("c1", 1.0) and cgroups.remove("c1", 1.0)


def test_reading_the_figures_of_a_container_is_a_few_system_calls(cgroups: CgroupDriver) -> None:
    """The node reads those of all its containers once a second. On a slow kernel each call takes its time, so they are
    counted: the time that they take here says nothing about another machine."""
    cgroups.create("c1", CgroupLimits(memory_max=64 * MIB))
    cgroups.usage("c1", 0.0)  # some files stay open from the first reading on
    calls: Counter[str] = Counter()

    def note(_: object, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__module__", "") == "posix":
            calls[getattr(function, "__name__", "")] += 1

    sys.setprofile(note)
    try:
        cgroups.usage("c1", 0.0)
    finally:
        sys.setprofile(None)
    del calls["fspath"]  # no system call
    opened, read = calls["open"], calls["read"] + calls["pread"]
    assert cgroups.remove("c1", 1.0)
    assert read >= 4, f"processor, memory, its peak, processes: {calls}"
    assert opened <= 7 and read <= 7 and sum(calls.values()) <= 22, "with what only an ended one is asked for"


DELEGATED = """
import os, sys
from executor.linux.cgroups import discover
from executor.settings import ExecutorSettings
from executor.records import CgroupLimits
driver = discover(ExecutorSettings(cgroups_mount="v2"), group="inside")
driver.create_parent()
driver.create("c1", CgroupLimits(memory_max=1 << 26))
print(driver.path("c1"))
assert driver.remove("c1", 1.0)
driver.remove_parent()
again = discover(ExecutorSettings(cgroups_mount="v2"), group="inside")
assert again.bases == driver.bases, (again.bases, driver.bases)
"""


def test_v2_moves_itself_to_a_leaf_of_its_delegated_group(cgroups: CgroupDriver, tmp_path: Path) -> None:
    """In a group of its own, as systemd's Delegate=yes gives it, the containers go below that group."""
    if not isinstance(cgroups, V2Driver):
        pytest.skip("NOT TESTED: needs cgroup v2 with controllers")
    (join,) = cgroups.create("delegated", CgroupLimits())
    group = os.path.dirname(join)
    done = subprocess.run(
        ["sh", "-c", 'echo 0 > "$1" && exec "$2" -c "$3"', "sh", join, sys.executable, DELEGATED],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{group}/hadoop-yarn/inside/c1"
    assert "memory" in at(group, UnifiedFiles).subtree_control
    until(lambda: cgroups.remove("delegated"), "the leaf is empty and goes too")


LEAVES = """
import subprocess, sys
from executor.linux.cgroups.discovery import enter_leaf
from executor.settings import ExecutorSettings
enter_leaf(ExecutorSettings(cgroups_mount="none"))
assert not open("/proc/self/cgroup").read().strip().endswith("/yopp-self")
enter_leaf(ExecutorSettings())
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""


def test_v2_daemons_of_a_delegated_group_start_in_its_leaf(cgroups: CgroupDriver) -> None:
    """As the children of a systemd service: beside their parent, each can hand the controllers down."""
    if not isinstance(cgroups, V2Driver):
        pytest.skip("NOT TESTED: needs cgroup v2 with controllers")
    (join,) = cgroups.create("service", CgroupLimits())
    group = os.path.dirname(join)
    done = subprocess.run(
        [
            "sh",
            "-c",
            'echo 0 > "$1" && exec "$2" -c "$3" "$4"',
            "sh",
            join,
            sys.executable,
            LEAVES,
            DELEGATED,
        ],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{group}/hadoop-yarn/inside/c1"
    until(lambda: cgroups.remove("service"), "the leaf is empty and goes too")


def test_v2_says_whose_processes_keep_a_group_from_having_groups_below_it(cgroups: CgroupDriver) -> None:
    if not isinstance(cgroups, V2Driver):
        pytest.skip("NOT TESTED: needs cgroup v2 with controllers")
    (join,) = cgroups.create("taken", CgroupLimits())
    group = os.path.dirname(join)
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            Path(join).write_text(str(stranger.pid))
            with pytest.raises(CgroupError) as refused:
                enable_controllers(group, ("memory",))
            assert str(stranger.pid) in refused.value.because
            (move,) = re.findall("`(.*)`", refused.value.hint)
            subprocess.run(["sh", "-c", move], check=True)
            enable_controllers(group, ("memory",))
        finally:
            stranger.kill()
    assert cgroups.remove("taken", 2.0)


def test_without_cgroups_a_victim_of_the_oom_killer_is_told_from_other_kills(tmp_path: Path) -> None:
    """Somebody else's memory cgroup ends it, as memory of the host would."""
    mount = next((m for m in read_mounts("/proc", "/sys/fs/cgroup") if "memory" in m.controllers), None)
    if mount is None or os.geteuid() != 0:
        pytest.skip("needs the memory controller of cgroup v1")
    group = Path(mount.point, f"test-{os.getpid()}-{time.monotonic_ns():x}")
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + hog(100)

    async def scenario(driver: CgroupDriver) -> None:
        async with a_node(tmp_path, driver) as node:
            launched = await node.launch(a_spec("c1", sys.executable, "-S", "-E", "-c", waits))
            (group / "cgroup.procs").write_text(str(launched.pid))
            (tmp_path / "work" / "c1" / "go").touch()
            exited = await node.told(ContainerExited, "c1")
            assert (exited.exit_code, exited.usage.oom_kills, exited.usage.limit_ooms) == (137, 1, 0)
            node.executor._ender.note_oom_kills()
            exited = await node.run(a_spec("c2", "sh", "-c", "kill -9 $$"))
            assert (exited.exit_code, exited.usage.oom_kills) == (137, 0)

    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(20 * MIB))
        with a_group(ExecutorSettings(cgroups_mount="none")) as driver:
            asyncio.run(scenario(driver))
    finally:
        until(lambda: not (group / "tasks").read_text(), "it is empty")
        group.rmdir()
