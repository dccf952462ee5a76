"""Slots: containers that are born in groups made before them, one after the other in the same ones."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from executor.core.commands import (
    CleanUpContainer,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    PauseContainer,
    SetLimits,
    StoreContainer,
)
from executor.core.events import ContainerExited, ContainerLaunchFailed, ContainerRecovered
from executor.errors import CgroupError
from executor.linux import pausing
from executor.linux.cgroups import CgroupDriver, NoCgroups
from executor.linux.cgroups.base import GroupDriver
from executor.linux.cgroups.slots import SLOT_PREFIX
from executor.linux.procfs import ProcessStat, read_stat
from executor.linux.slots import making, pool
from executor.linux.slots.journals import Journal, journals, read_journal
from executor.linux.slots.making import Slots
from executor.linux.slots.mounts import reach_others
from executor.linux.slots.pool import most_slots
from executor.records import CgroupLimits, ContainerRecord, ContainerSpec, ContainerState
from executor.settings import ExecutorSettings

from .node import Node, a_group, a_node, a_spec, running, soon
from .test_limits_live import HOG, MIB, MODES, without_freezer

pytestmark = pytest.mark.cgroup
SETTINGS = ExecutorSettings(pooled_groups=1)
"""One slot, which each container has after the one before."""
FURNISHING = ExecutorSettings(pooled_groups=1, prepared_containers=2)


@pytest.fixture(params=MODES)
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GroupDriver]:
    proc = without_freezer(tmp_path) if request.param == "hybrid" else "/proc"
    with a_group(SETTINGS, proc=proc) as driver:
        if not isinstance(driver, GroupDriver) or not driver.enforces_memory:
            pytest.skip(f"NOT TESTED: no memory controller: {driver.describe()}")
        yield driver


@dataclass
class Pooled:
    """One slot, as seen from outside."""

    node: Node

    @property
    def journal(self) -> Journal:
        (path,) = journals(str(self.node.directory / "state"))
        return read_journal(path)

    @property
    def launcher(self) -> int:
        return self.journal.launcher


async def ended(node: Node, name: str, script: str, limits: CgroupLimits | None = None) -> ContainerExited:
    """Run a shell's script to its end, and clean up after it."""
    exited = await node.run(a_spec(name, "sh", "-c", script), limits)
    node.executor.perform(CleanUpContainer(name))
    return exited


def groups(cgroups: GroupDriver) -> set[str]:
    """The slots that there are."""
    return {
        entry.name
        for parent in cgroups.describe().locations.values()
        for entry in os.scandir(parent)
        if entry.is_dir()
    }


def test_one_after_the_other_in_the_same_group(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert groups(cgroups) == set(), "none before the first container"
            launchers = set()
            for number in range(5):
                name = f"c{number}"
                assert (await ended(node, name, f"cat /proc/self/cgroup; exit {number}")).exit_code == number
                assert f"/{SLOT_PREFIX}1\n" in node.output(name).decode()
                launchers.add(Pooled(node).launcher)
            assert len(launchers) == 1 and groups(cgroups) == {f"{SLOT_PREFIX}1"}
            assert os.listdir(tmp_path / "work") == []

    asyncio.run(scenario())
    assert os.listdir(tmp_path / "state") == []


def test_the_start_of_a_short_one_is_told_with_its_end(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            for number in range(200):
                exited = await node.run(a_spec(f"c{number}", "/bin/true"))
                if exited.launched is not None:  # it was not too slow for that
                    break
            assert exited.launched is not None
            assert exited.exit_code == 0 and exited.launched.pid and exited.launched.cgroup
            slow = await node.run(a_spec("slow", "sleep", "0.1"))
            assert slow.launched is None

    asyncio.run(scenario())


def test_the_first_one_finds_the_slot_that_was_made_for_it(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            node.executor.expect_containers()
            node.executor.expect_containers()
            assert groups(cgroups) == {f"{SLOT_PREFIX}1"}
            assert (await ended(node, "c1", "cat /proc/self/cgroup; exit 3")).exit_code == 3
            assert f"/{SLOT_PREFIX}1\n" in node.output("c1").decode()
            assert groups(cgroups) == {f"{SLOT_PREFIX}1"}

    asyncio.run(scenario())
    assert os.listdir(tmp_path / "state") == []


def test_a_slot_that_was_made_for_nobody_leaves_nothing(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            node.executor.expect_containers()

    asyncio.run(scenario())
    assert os.listdir(tmp_path / "state") == []


def waits(node: Node, *specs: ContainerSpec) -> None:
    for spec in specs:
        node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.SCHEDULED)))


def made(path: Path) -> set[str]:
    """The containers that have both their directories."""
    return set(os.listdir(path / "work")) & {one.name for one in (path / "logs").glob("*")}


def test_what_waits_has_its_directories_and_begins_in_them(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, FURNISHING) as node:
            specs = [a_spec(f"c{number}", "sh", "-c", "echo here; touch $PWD/mine") for number in range(4)]
            waits(node, *specs)
            await soon(lambda: made(tmp_path) == {"c0", "c1"}, "the first two have their directories")
            place = (tmp_path / "work" / "c0").stat().st_ino
            assert (await node.run(specs[0])).exit_code == 0 and node.output("c0") == b"here\n"
            assert (tmp_path / "work" / "c0").stat().st_ino == place and (tmp_path / "work/c0/mine").exists()
            await soon(lambda: made(tmp_path) == {"c0", "c1", "c2"}, "the next one has, too")
            os.rmdir(tmp_path / "work" / "c1")
            assert (await node.run(specs[1])).exit_code == 0, "somebody took its directory away"
            running = ContainerRecord(specs[1], ContainerState.RUNNING)
            node.executor.perform(StoreContainer(running))
            assert (tmp_path / "work/c1/mine").exists(), "it is in use"

    asyncio.run(scenario())
    assert set(os.listdir(tmp_path / "logs")) == {"c0", "c1"}, "what has not begun has left nothing"


def test_what_ends_while_it_waits_for_a_slot_leaves_nothing(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, FURNISHING) as node:
            spec = a_spec("c1", "true", files={"input": "x"})
            waits(node, spec)
            await soon(lambda: (tmp_path / "work/c1/input").exists(), "it has its directory")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.DONE)))
            assert not (tmp_path / "work" / "c1").exists() and not os.listdir(tmp_path / "logs")
            assert node.events == []

    asyncio.run(scenario())


def test_a_container_in_a_slot_sees_what_any_other_sees(tmp_path: Path, cgroups: GroupDriver) -> None:
    look = (
        "import json, os, resource, signal, sys\n"
        "status = open('/proc/self/status').read().splitlines()\n"
        "print(json.dumps({'environment': dict(os.environ), 'cwd': os.getcwd(), 'umask': os.umask(0),\n"
        " 'limits': [resource.getrlimit(n) for n in range(16)], 'nice': os.nice(0), 'in': sys.stdin.read(),\n"
        " 'oom': open('/proc/self/oom_score_adj').read(), 'arguments': sys.argv[1:],\n"
        " 'files': sorted(os.listdir('/proc/self/fd')),\n"
        " 'targets': [os.readlink(f'/proc/self/fd/{n}') for n in range(3)],\n"
        " 'masks': [int(line.split()[1], 16) & ~(3 << 31) for line in status if line.startswith('Sig')\n"
        " and 'Q' not in line],\n"  # glibc's posix_spawn ignores its own two signals, 32 and 33
        " 'own session': os.getsid(0) in (os.getpid(), os.getppid())}, sort_keys=True))\n"
    )
    environment = {
        "A": "two\nlines",
        "EMPTY": "",
        "IFS": ":",
        "odd.name": "dots",
        "BYTES": os.fsdecode(b"\xff"),
    }
    spec = a_spec("c1", sys.executable, "-S", "-E", "-c", look, "", "a'b", "$(x)", environment=environment)

    async def seen(settings: ExecutorSettings) -> bytes:
        async with a_node(tmp_path, cgroups, settings) as node:
            assert (await node.run(spec)).exit_code == 0, node.output("c1", "stderr")
            return node.output("c1")

    pooled, alone = asyncio.run(seen(SETTINGS)), asyncio.run(seen(ExecutorSettings(pooled_groups=0)))
    assert json.loads(pooled) == json.loads(alone)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("no-such-command-anywhere",), 127),
        (("/no/such/file",), 127),
        (("/etc/passwd",), 126),
        (("/tmp",), 126),
        (("./plain",), 5),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("sh", "-c", "kill -SEGV $$"), 139),
    ],
)
def test_codes_are_those_of_a_shell(
    tmp_path: Path, cgroups: GroupDriver, command: tuple[str, ...], code: int
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            exited = await node.run(a_spec("c1", *command, files={"plain": "exit 5\n"}))
            assert exited.exit_code == code
            assert bool(node.output("c1", "stderr")) == (code in (126, 127))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "code", "word"),
    [
        ({"working_directory": "/no/such/directory"}, 126, "no working directory"),
        ({"log_directory": "/proc/none"}, 125, "/proc/none"),
        ({"environment": {"A=B": "x"}}, 126, "cannot start"),
        ({"command": ("a\0b",)}, 126, "cannot start"),
        ({"command": ("-n",)}, 127, "not found"),
    ],
)
def test_what_cannot_be_started_is_told_and_the_slot_serves_on(
    tmp_path: Path, cgroups: GroupDriver, fields: dict[str, object], code: int, word: str
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "true", **{key: one for key, one in fields.items() if key != "command"})
            if "command" in fields:
                spec = a_spec("c1", *fields["command"])  # type: ignore[misc]
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            failed = await node.told(ContainerLaunchFailed, "c1")
            assert failed.exit_code == code and word in failed.reason
            assert (await ended(node, "c2", "exit 4")).exit_code == 4

    asyncio.run(scenario())


def test_what_one_leaves_ends_before_the_next_begins(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            left = "for n in 1 2 3; do (trap '' TERM HUP; setsid sh -c 'echo $$; exec sleep 1000' &); done; "
            left += "until [ $(wc -l <$LOG_DIRS/stdout) = 3 ]; do sleep 0.01; done"
            assert (await ended(node, "c1", left)).exit_code == 0
            pids = [int(word) for word in node.output("c1").split()]
            assert len(pids) == 3 and not any(running(pid) for pid in pids)
            await ended(node, "c2", "cat /proc/self/cgroup")
            assert f"/{SLOT_PREFIX}1\n" not in node.output("c2").decode(), "they may have changed its limits"

    asyncio.run(scenario())


def test_figures_and_limits_are_each_containers_own(tmp_path: Path, cgroups: GroupDriver) -> None:
    small, large = CgroupLimits(memory_max=64 * MIB, pids_max=20), CgroupLimits(memory_max=512 * MIB)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            hog = await node.run(a_spec("hog", sys.executable, "-S", "-E", "-c", HOG), small)
            assert (hog.exit_code, hog.usage.oom_kills) == (137, 1)
            assert 60 * MIB <= hog.usage.memory_peak_bytes <= 64 * MIB
            spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
            spun = await ended(node, "spins", spin, small)
            assert spun.usage.oom_kills == 0 and spun.usage.cpu_seconds > 0.02
            assert 0 < spun.usage.memory_peak_bytes < 12 * MIB
            modest = await ended(node, "modest", "true", small)
            assert modest.usage.cpu_seconds < spun.usage.cpu_seconds
            assert 0 < modest.usage.memory_peak_bytes < 12 * MIB
            fine = await node.run(a_spec("fine", sys.executable, "-S", "-E", "-c", HOG), large)
            assert (fine.exit_code, fine.usage.oom_kills) == (0, 0)
            assert fine.usage.memory_peak_bytes > 190 * MIB
            last = await node.run(a_spec("last", sys.executable, "-S", "-E", "-c", HOG), small)
            assert (last.exit_code, last.usage.oom_kills) == (137, 1)

    asyncio.run(scenario())


def test_files_that_one_has_read_do_not_count_for_the_next(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            first = await ended(node, "c1", "head -c 30000000 /dev/zero > big; cat big > /dev/null")
            assert first.usage.memory_peak_bytes > 25 * MIB
            second = await ended(node, "c2", "true")
            assert second.usage.memory_peak_bytes < 12 * MIB

    asyncio.run(scenario())


def test_output_on_a_tmpfs_does_not_count_for_the_next(cgroups: GroupDriver) -> None:
    """Its pages stay charged to the group that wrote them, and the kernel cannot take them back."""
    if "/dev/shm tmpfs " not in Path("/proc/mounts").read_text():
        pytest.skip("NOT TESTED: /dev/shm is no tmpfs here")

    async def scenario(place: Path) -> None:
        async with a_node(place, cgroups, SETTINGS) as node:
            first = await ended(node, "c1", "head -c 30000000 /dev/zero")
            assert first.usage.memory_peak_bytes > 25 * MIB
            await soon(lambda: f"{SLOT_PREFIX}1" not in groups(cgroups), "the slot has gone")
            second = await ended(node, "c2", "cat /proc/self/cgroup")
            assert f"/{SLOT_PREFIX}2\n" in node.output("c2").decode()
            assert second.usage.memory_peak_bytes < 12 * MIB

    kept = mock.patch.object(making, "IDLE_SECONDS", 1000.0)  # no slot goes because nobody needs it
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place, kept:
        asyncio.run(scenario(Path(place)))


def test_limits_that_change_while_it_runs_hold_for_it_alone(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            limits = CgroupLimits(memory_max=64 * MIB)
            waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
            await node.launch(a_spec("c1", sys.executable, "-S", "-E", "-c", waits + HOG), limits)
            node.executor.perform(SetLimits("c1", CgroupLimits(memory_max=512 * MIB)))
            (tmp_path / "work" / "c1" / "go").write_text("")
            assert (await node.told(ContainerExited, "c1")).exit_code == 0
            exited = await node.run(a_spec("c2", sys.executable, "-S", "-E", "-c", HOG), limits)
            assert exited.exit_code == 137

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["its container kills all it can", "somebody kills it"])
def test_a_launcher_that_is_killed_tells_the_truth(tmp_path: Path, cgroups: GroupDriver, how: str) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            script = "(setsid sleep 1000 &); echo $$ > pid; exec sleep 1000"
            if how.startswith("its"):
                script = "(setsid sleep 1000 &); echo $$ > pid; kill -KILL $PPID; exec sleep 1000"
            launched = await node.launch(a_spec("c1", "sh", "-c", script))
            if how.startswith("somebody"):
                await soon((tmp_path / "work" / "c1" / "pid").exists, "it runs")
                os.kill(Pooled(node).launcher, signal.SIGKILL)
            exited = await node.told(ContainerExited, "c1")
            assert exited.exit_code == 137 and not running(launched.pid)
            assert cgroups.processes("c1") == []
            node.executor.perform(CleanUpContainer("c1"))
            assert (await ended(node, "c2", "exit 3")).exit_code == 3, "in another slot"

    asyncio.run(scenario())


def test_a_launcher_that_was_stopped_is_continued(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            await node.launch(a_spec("c1", "sh", "-c", "until [ -e go ]; do sleep 0.01; done; exit 6"))
            os.kill(Pooled(node).launcher, signal.SIGSTOP)
            (tmp_path / "work" / "c1" / "go").write_text("")
            assert (await node.told(ContainerExited, "c1")).exit_code == 6
            os.kill(Pooled(node).launcher, signal.SIGSTOP)
            assert (await ended(node, "c2", "exit 4")).exit_code == 4, "nor does it keep the next one waiting"

    asyncio.run(scenario())


def test_the_launcher_is_spared_and_signals_do_not_end_it(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            await node.launch(a_spec("c1", "sleep", "1000"))
            launcher = Pooled(node).launcher
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT):
                os.kill(launcher, number)
            own = Path("/proc/self/oom_score_adj").read_text().strip()
            asked = subprocess.run(["sh", "-c", "echo -1000 >/proc/self/oom_score_adj"], capture_output=True)
            score = Path(f"/proc/{launcher}/oom_score_adj").read_text().strip()
            assert score == ("-1000" if asked.returncode == 0 else own)
            node.executor.perform(KillContainer("c1"))
            assert (await node.told(ContainerExited, "c1")).exit_code == 143
            assert running(launcher)

    asyncio.run(scenario())


def test_a_group_made_in_a_slot_goes_with_it(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(making, "LAST_SECONDS", 0.1)
    monkeypatch.setattr(pool, "CHECK_SECONDS", 0.05)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            await node.launch(a_spec("c1", "sleep", "1000"))
            os.mkdir(os.path.join(cgroups.path("c1"), "inner"))
            node.executor.perform(KillContainer("c1", force=True))
            await node.told(ContainerExited, "c1")
            assert (await ended(node, "c2", "cat /proc/self/cgroup")).exit_code == 0
            await soon(
                lambda: f"{SLOT_PREFIX}1" not in groups(cgroups), "the group goes with all that is in it"
            )

    asyncio.run(scenario())


def test_slots_that_nobody_needs_go(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(pool, "CHECK_SECONDS", 0.05)
    looks: list[Slots] = []
    remove_idle = Slots.remove_idle
    monkeypatch.setattr(Slots, "remove_idle", lambda slots: looks.append(slots) or remove_idle(slots))

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=10)) as node:
            await node.launch(a_spec("stays", "sh", "-c", "until [ -e go ]; do sleep 0.01; done; exit 7"))
            assert (await ended(node, "c1", "true")).exit_code == 0
            await soon(lambda: len(groups(cgroups)) == 1, "that of the one that runs stays")
            (tmp_path / "work" / "stays" / "go").write_text("")
            assert (await node.told(ContainerExited, "stays")).exit_code == 7
            await soon(lambda: len(groups(cgroups)) == 1, "all but the last one go")
            looks.clear()
            await soon(lambda: len(looks) >= 3, "it is looked at")
            assert len(groups(cgroups)) == 1, "that stays for longer"
            monkeypatch.setattr(making, "LAST_SECONDS", 0.1)
            await soon(lambda: not groups(cgroups), "all go")
            assert (await ended(node, "c2", "exit 3")).exit_code == 3, "and come again"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "reaches"),
    [(b"shared:1", True), (b"shared:7 master:1", True), (b"master:1", False), (b"", False), (None, False)],
)
def test_mounts_reach_others_where_the_root_is_shared(fields: bytes | None, reaches: bool) -> None:
    told = b"30 20 0:25 / /sys rw shared:2 - sysfs sysfs rw\n"
    if fields is not None:
        told += b"20 1 254:0 / / rw,relatime " + fields + b" - ext4 /dev/vda rw\n"
    assert reach_others(told) is reaches


@pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: only a root's node has launchers with mounts of their own"
)
def test_what_is_mounted_is_there_and_what_is_unmounted_is_free(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CHECK_SECONDS", 0.05)
    place = tmp_path / "mounted"
    place.mkdir()

    def seen_by_launchers() -> list[int]:
        found = (launcher_of(path) for path in journals(str(tmp_path / "state")))
        return [
            one.pid for one in found if one and str(place) in Path(f"/proc/{one.pid}/mountinfo").read_text()
        ]

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert (await ended(node, "c1", "true")).exit_code == 0
            subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
            try:
                (place / "data").write_text("there")
                assert (await ended(node, "c2", f"cat {place}/data")).exit_code == 0
                assert node.output("c2") == b"there"
            finally:
                subprocess.run(["umount", place], check=True)
            await soon(lambda: not seen_by_launchers(), "no launcher keeps it")
            assert (await ended(node, "c3", f"test ! -e {place}/data")).exit_code == 0

    asyncio.run(scenario())


def test_no_more_slots_than_are_allowed(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        go = tmp_path / "go"
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=2)) as node:
            for number in range(4):
                waiting = f"until [ -e {go} ]; do sleep 0.05; done; exit {number}"
                await node.launch(a_spec(f"c{number}", "sh", "-c", waiting))
            found = groups(cgroups)
            assert len([name for name in found if name.startswith(SLOT_PREFIX)]) == 2
            assert {"c2", "c3"} <= found, "the others have groups of their own"
            go.touch()
            for number in range(4):
                assert (await node.told(ContainerExited, f"c{number}")).exit_code == number

    asyncio.run(scenario())


def test_without_a_zygote_nothing_starts_and_the_node_is_at_fault(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), sys.executable)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            with monkeypatch.context() as patched:
                patched.setattr(making.Zygote, "__init__", refuses)
                node.executor.perform(LaunchContainer(a_spec("c1", "true"), CgroupLimits()))
                failed = await node.told(ContainerLaunchFailed, "c1")
                assert failed.node_status < 0 and sys.executable in failed.reason
            node.executor.perform(CleanUpContainer("c1"))
            assert (await node.run(a_spec("c2", "true"))).exit_code == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["no group", "no joining", "no process"])
def test_a_pool_that_cannot_be_made_is_said_once(
    tmp_path: Path,
    cgroups: GroupDriver,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuses(*_: object) -> None:
        raise CgroupError("the kernel says no")

    def other_files(name: str) -> object:
        slot, joins = make_slot(name)
        return slot, tuple(f"{path}/none" for path in joins)

    make_slot = cgroups.make_slot
    if what == "no group":
        monkeypatch.setattr(cgroups, "make_slot", refuses)
    elif what == "no joining":
        monkeypatch.setattr(cgroups, "make_slot", other_files)
    else:
        at_most(cgroups, "1")

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            for number in range(3):
                assert (await ended(node, f"c{number}", f"exit {number}")).exit_code == number
            await soon(lambda: not groups(cgroups), "nothing is left")

    asyncio.run(scenario())
    (said,) = [one.message for one in caplog.records if "no slot can be created" in one.message]
    if what == "no process":
        assert said.endswith(f": pids.max of {os.path.dirname(pids_file(cgroups))} is reached"), said


def test_where_there_are_no_groups_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, NoCgroups(), SETTINGS) as node:
            for number in range(3):
                assert (await ended(node, f"c{number}", f"exit {number}")).exit_code == number

    asyncio.run(scenario())
    (said,) = [one.message for one in caplog.records if "no slot can be created" in one.message]
    assert said.endswith(": no cgroups can be used here")


def pids_file(cgroups: GroupDriver) -> str:
    """What bounds the number of processes in all of a node's groups."""
    locations = cgroups.describe().locations
    return (locations.get("pids") or locations["unified"]) + "/pids.max"


def at_most(cgroups: GroupDriver, number: str) -> None:
    Path(pids_file(cgroups)).write_text(number)


def test_one_that_finds_its_slot_full_begins_elsewhere_though_it_has_been_there_before(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may be started again under the same id: the journal of its slot tells of its first end."""
    monkeypatch.setattr(making, "UNUSABLE_SECONDS", 0.0)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert (await ended(node, "c1", "exit 3")).exit_code == 3
            at_most(cgroups, "1")
            node.events.clear()
            look = "while read -r line; do echo $line; done </proc/self/cgroup; exit 4"  # it cannot fork
            assert (await ended(node, "c1", look)).exit_code == 4
            assert SLOT_PREFIX not in node.output("c1").decode()
            at_most(cgroups, "max")
            assert (await ended(node, "c2", "cat /proc/self/cgroup; exit 5")).exit_code == 5
            assert SLOT_PREFIX in node.output("c2").decode(), "slots are used again"

    asyncio.run(scenario())


def test_a_slot_with_a_process_of_somebody_else_is_left_alone(
    tmp_path: Path, cgroups: GroupDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither charged to the next container nor ended with it; containers go elsewhere."""

    async def scenario() -> None:
        with subprocess.Popen(["sleep", "1000"]) as stranger:
            try:
                async with a_node(tmp_path, cgroups, SETTINGS) as node:
                    assert (await ended(node, "c1", "exit 3")).exit_code == 3
                    for location in set(cgroups.describe().locations.values()):
                        Path(location, f"{SLOT_PREFIX}1", "cgroup.procs").write_text(str(stranger.pid))
                    told = await ended(node, "c2", "cat /proc/self/cgroup; exit 4")
                    assert told.exit_code == 4 and told.usage.processes == 0
                    assert f"/{SLOT_PREFIX}2\n" in node.output("c2").decode()
                assert stranger.poll() is None and groups(cgroups) == {f"{SLOT_PREFIX}1"}
            finally:
                stranger.kill()

    asyncio.run(scenario())
    (said,) = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert f"the cgroup {SLOT_PREFIX}1 is kept: it contains processes that are not yopp's" in said


def launcher_of(path: str) -> ProcessStat | None:
    """The launcher that a journal names, if it lives."""
    return read_stat(read_journal(path).launcher)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_without_their_zygote_slots_serve_on_and_another_one_is_made(
    tmp_path: Path, cgroups: GroupDriver, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(making, "UNUSABLE_SECONDS", 0.1)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=3)) as node:
            await ended(node, "c0", "true")
            # The spare slot's launcher may be on its way.
            launcher = await soon(
                lambda: next(filter(None, map(launcher_of, journals(str(tmp_path / "state")))), None), "one"
            )
            os.kill(launcher.parent, how)
            monkeypatch.setattr(pool, "READY_SECONDS", 0.5)
            names = [f"c{number}" for number in range(1, 4)]
            go = tmp_path / "go"
            waiting = f"until [ -e {go} ]; do sleep 0.05; done; exit 6"
            await asyncio.gather(*(node.launch(a_spec(name, "sh", "-c", waiting)) for name in names))
            go.touch()
            for name in names:
                assert (await node.told(ContainerExited, name)).exit_code == 6
            await soon(lambda: not running(launcher.parent), "it is ended")
            await soon(lambda: node.executor._pool.used, "slots may be made again")
            monkeypatch.setattr(pool, "READY_SECONDS", 20.0)
            await asyncio.gather(*(node.launch(a_spec(name, "sleep", "1000")) for name in ("d1", "d2", "d3")))
            zygote = node.executor._pool._slots._zygote
            assert zygote is not None and zygote._process.pid != launcher.parent
            made = map(launcher_of, journals(str(tmp_path / "state")))
            assert zygote._process.pid in {one.parent for one in made if one is not None}

    asyncio.run(scenario())


@pytest.mark.parametrize("room", [0, 3])
def test_an_end_that_finds_no_room_spoils_no_journal(
    tmp_path: Path, cgroups: GroupDriver, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system fills up while a container runs: its end is told, and the next one has its own lines."""
    has_ended = pool.Pool._has_ended

    def unchanged(self: pool.Pool, slot: Any, code: int, figures: Any, *rest: Any) -> None:
        has_ended(self, slot, code, (*figures[:-1], 0), *rest)  # the limit below is no container's doing

    monkeypatch.setattr(pool.Pool, "_has_ended", unchanged)

    async def scenario() -> None:
        go = tmp_path / "go"
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            await node.launch(a_spec("c1", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; exit 137"))
            (path,) = journals(str(tmp_path / "state"))
            full = os.path.getsize(path) + room
            before = resource.prlimit(
                Pooled(node).launcher, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY)
            )
            go.touch()
            assert (await node.told(ContainerExited, "c1")).exit_code == 137
            node.executor.perform(CleanUpContainer("c1"))
            assert Pooled(node).journal.begun[-1].code is None and os.path.getsize(path) == full - room
            resource.prlimit(Pooled(node).launcher, resource.RLIMIT_FSIZE, before)
            await soon(lambda: node.executor._pool._slots.idle, "the slot is free")
            assert (await ended(node, "c2", "exit 4")).exit_code == 4
            assert [(one.container_id, one.code) for one in Pooled(node).journal.begun] == [("c2", 4)]

    asyncio.run(scenario())


def test_a_request_that_no_socket_takes_goes_the_other_way(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            words = ["x" * 100_000] * 5
            exited = await node.run(a_spec("c1", "sh", "-c", "exit $#", "sh", *words))
            assert exited.exit_code == 5
            assert (await ended(node, "c2", "exit 3")).exit_code == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [errno.EMSGSIZE, errno.ENOBUFS, errno.EAGAIN])
def test_a_request_that_the_kernel_refuses_begins_elsewhere_at_once(
    tmp_path: Path, cgroups: GroupDriver, number: int
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert (await ended(node, "c1", "true")).exit_code == 0
            (slot,) = node.executor._pool._slots.all
            sock, slot.sock = slot.sock, mock.Mock(wraps=slot.sock)
            slot.sock.send.side_effect = OSError(number, os.strerror(number))
            slot.sock.close.side_effect = sock.close
            assert (await node.run(a_spec("c2", "sh", "-c", "exit 4"))).exit_code == 4
            assert (await ended(node, "c3", "exit 5")).exit_code == 5

    asyncio.run(scenario())


def test_a_pause_that_comes_after_the_end_does_not_pause_the_next_one(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    """A short container ends by itself while a thread is about to stop what is in its slot, or to freeze it."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            go, asked, late = tmp_path / "go", threading.Event(), threading.Event()
            processes, freeze = cgroups.processes, cgroups.freeze

            def group_of(name: str) -> str:
                """The group that it has now, and the next one later."""
                found = os.path.basename(cgroups.path(name))
                asked.set()
                late.wait(30)
                return found

            def listed(name: str) -> list[int]:
                if name != "c1" or late.is_set():
                    return processes(name)
                if threading.current_thread() is threading.main_thread():
                    return []  # as if it had ended already
                group_of(name)
                return slot.group.processes()

            await node.launch(a_spec("c1", "sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; exit 3"))
            (slot,) = node.executor._pool._slots.all
            with (
                mock.patch.object(
                    pausing, "QUICK_SECONDS", 0.0
                ),  # so a thread makes each look after the first
                mock.patch.object(cgroups, "processes", listed),
                mock.patch.object(cgroups, "freeze", lambda name: freeze(group_of(name))),
            ):
                node.executor.perform(PauseContainer("c1"))
                await soon(asked.is_set, "a thread is about to do it")
                go.touch()
                assert (await node.told(ContainerExited, "c1")).exit_code == 3
                node.executor.perform(CleanUpContainer("c1"))
                await node.launch(a_spec("c2", "sh", "-c", "sleep 0.2; exit 4"))
                late.set()
                assert (await node.told(ContainerExited, "c2")).exit_code == 4

    asyncio.run(scenario())


def opened() -> list[str]:
    """The files that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return found


def test_a_launcher_that_dies_while_leftovers_are_ended(tmp_path: Path, cgroups: GroupDriver) -> None:
    """The end is told once, and no file stays open."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert (await ended(node, "c1", "true")).exit_code == 0
            launcher, held = Pooled(node).launcher, threading.Event()
            context = node.executor._context
            with mock.patch.object(
                context, "kill", lambda name: (held.wait(30), type(context).kill(context, name))
            ):
                await node.launch(a_spec("c2", "sh", "-c", "trap '' TERM; sleep 1000 & exit 3"))
                await soon(lambda: (Pooled(node).journal.begun[-1].code) == 3, "its process has ended")
                os.kill(launcher, signal.SIGKILL)
                await soon(lambda: not node.executor._pool._slots.all, "its launcher's end is noticed")
                held.set()
                await node.told(ContainerExited, "c2")
                await soon(lambda: not groups(cgroups), "its slot is gone")
            ends = [one for one in node.events if isinstance(one, ContainerExited)]
            assert [(one.container_id, one.exit_code) for one in ends] == [("c1", 0), ("c2", 3)]
            # a thread may still be reading the slot's journal, to remove it
            await soon(lambda: not [path for path in opened() if f"/{SLOT_PREFIX}" in path], "all are closed")

    asyncio.run(scenario())


def test_a_container_of_an_earlier_run_that_has_begun_nothing_else_begins(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    """The node dies when a launcher, stopped, has been told of a container: it is begun once, by either of them."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            assert (await ended(node, "c0", "true")).exit_code == 0
            launcher = Pooled(node).launcher
            os.kill(launcher, signal.SIGSTOP)
            spec = a_spec("c1", "sh", "-c", f"echo x >> {tmp_path}/began; exit 9")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            node.dies()
            second = Node(tmp_path, type(cgroups)(*_made_of(cgroups)), SETTINGS)
            (found,) = second.executor.recover()
            assert (found.alive, found.exit_code) == (False, None) and not running(launcher)
            assert (await second.run(spec)).exit_code == 9
            second.executor.perform(CleanUpContainer("c1"))
            second.executor.perform(ForgetContainer("c1"))
            assert (tmp_path / "began").read_text() == "x\n"
            await second.executor.close()

    asyncio.run(scenario())


def _made_of(cgroups: CgroupDriver) -> tuple[object, ...]:
    """The arguments of another driver of the same groups, as another process has it."""
    controllers = (cgroups._controllers,) if hasattr(cgroups, "_controllers") else ()
    first = cgroups._base if hasattr(cgroups, "_base") else cgroups.bases
    return (first, cgroups._relative, *controllers)  # type: ignore[attr-defined]


def test_many_at_a_time_end_each_with_its_own_code(tmp_path: Path, cgroups: GroupDriver) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=4)) as node:
            names = [f"c{number}" for number in range(12)]
            launched = await asyncio.gather(
                *(node.launch(a_spec(name, "sh", "-c", f"sleep 0.1; exit {name[1:]}")) for name in names)
            )
            assert len({one.pid for one in launched}) == len(names)
            for name in names:
                assert (await node.told(ContainerExited, name)).exit_code == int(name[1:])

    asyncio.run(scenario())


def test_an_end_that_a_node_has_not_taken_before_it_ends_in_order_is_known_to_the_next(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    """The event was on its way when the node stopped: nothing is written down of it but in the slot's journal."""

    async def scenario() -> None:
        node = Node(tmp_path, cgroups, SETTINGS)
        node.executor.start()
        for name, state, code in (("c1", ContainerState.LAUNCHING, 0), ("c2", ContainerState.DONE, 7)):
            spec = a_spec(name, "sh", "-c", f"echo x >> {tmp_path}/began; exit {code}")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            assert (await node.run(spec)).exit_code == code
            node.executor.perform(
                StoreContainer(ContainerRecord(spec, state, exit_status=code, exit_code=code))
            )
        await node.executor.close()
        second = Node(tmp_path, type(cgroups)(*_made_of(cgroups)), SETTINGS)
        first, _ = second.executor.recover()
        assert isinstance(first, ContainerRecovered)
        assert (first.record.spec.container_id, first.alive, first.exit_code) == ("c1", False, 0)
        for name in ("c1", "c2"):
            second.executor.perform(CleanUpContainer(name))
            second.executor.perform(ForgetContainer(name))
        await second.executor.close()
        second.executor.remove_everything()
        assert not list((tmp_path / "state").glob("*.journal")), "then nobody needs it"

    asyncio.run(scenario())


def test_one_that_has_begun_and_died_with_its_launcher_is_not_begun_again(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    """The node had not heard that it runs."""

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, SETTINGS) as node:
            spec = a_spec("c1", "sh", "-c", f"echo x >> {tmp_path}/began; sleep 1000")
            node.executor.perform(StoreContainer(ContainerRecord(spec, ContainerState.LAUNCHING)))
            launched = await node.launch(spec)
            await soon((tmp_path / "began").exists, "it runs")
            launcher = Pooled(node).launcher
            node.dies()
            os.kill(launcher, signal.SIGKILL)
            await soon(lambda: not running(launcher), "its launcher is dead")
            second = Node(tmp_path, type(cgroups)(*_made_of(cgroups)), SETTINGS)
            (found,) = second.executor.recover()
            assert (found.alive, found.exit_code) == (False, 137) and not running(launched.pid)
            second.executor.perform(CleanUpContainer("c1"))
            second.executor.perform(ForgetContainer("c1"))
            await second.executor.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("wanted", "release", "most"),
    [
        (-1, "6.6.0", 100), (-1, "6.18.44-fc", 100), (-1, "7.0-rc1", 100), (-1, "6.1.0-9-amd64", 0),
        (-1, "5.15.0", 0), (-1, "unknown", 0), (0, "6.6.0", 0), (3, "5.15.0", 3),
    ],
)  # fmt: skip
def test_how_many_slots_there_are_depends_on_the_kernel_where_nobody_says(
    wanted: int, release: str, most: int
) -> None:
    assert most_slots(wanted, release) == most
