"""What a container may try against its own end: each attack is made, and the container ends all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.core.commands import CleanUpContainer, KillContainer, LaunchNext
from executor.core.events import ContainerExited, ContainerLaunched
from executor.linux.cgroups.base import GroupDriver
from executor.linux.context import LiveContainer
from executor.linux.ending import Ender
from executor.linux.slots import pool
from executor.records import CgroupLimits, ContainerSpec
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
@pytest.mark.parametrize("slots", [1, 0], ids=["slot", "outside"])
def test_it_ends_and_the_next_one_starts(
    tmp_path: Path, cgroups: GroupDriver, slots: int, attack: str
) -> None:
    parents = sorted(set(cgroups.describe().locations.values()))
    script = PRELUDE + f"own = {'yopp-slot-1' if slots else 'c1'!r}\n"
    script += "groups = [f'{one}/{own}' for one in groups]\n" + ATTACKS[attack]

    async def scenario() -> None:
        async with a_node(
            tmp_path, cgroups, ExecutorSettings(pooled_groups=slots, confined_containers=False)
        ) as node:
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


def test_a_kill_that_is_still_under_way_does_not_end_the_next_one(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ends what forks without end may be slower than the launcher is with its report."""
    begun, go_on = threading.Event(), threading.Event()
    reported: list[str] = []
    asked: list[str] = []
    tell_end, listed, kill = Ender.has_ended, cgroups.processes, cgroups.kill

    def has_ended(self: Ender, held: LiveContainer, *rest: Any) -> None:
        tell_end(self, held, *rest)
        reported.append(held.container_id)

    def processes(container_id: str) -> list[int]:
        asked.append(container_id)
        return listed(container_id) if len(asked) > 1 else []

    def slow_kill(container_id: str) -> None:
        begun.set()
        go_on.wait(20)
        kill(container_id)

    monkeypatch.setattr(Ender, "has_ended", has_ended)

    async def scenario() -> None:
        settings = ExecutorSettings(pooled_groups=1, confined_containers=False)
        async with a_node(tmp_path, cgroups, settings) as node:
            try:
                await node.launch(a_spec("c1", "sleep", "60"))
                await soon(lambda: node.found(ContainerLaunched, "c1"), "its start")
                monkeypatch.setattr(cgroups, "processes", processes)
                monkeypatch.setattr(cgroups, "kill", slow_kill)
                node.executor.perform(KillContainer("c1", force=True))
                await soon(begun.is_set, "the kill")
                for pid in listed("c1"):
                    os.kill(pid, signal.SIGKILL)
                await soon(lambda: "c1" in reported, "the launcher's report")
                assert not node.found(ContainerExited, "c1"), "the next one could be in the slot by now"
            finally:
                go_on.set()
            await soon(lambda: node.found(ContainerExited, "c1"), "its end", ENDS_WITHIN)
            node.executor.perform(CleanUpContainer("c1"))
            assert (await node.run(a_spec("c2", "sh", "-c", "exit 3"))).exit_code == 3

    asyncio.run(scenario())


def test_of_many_that_stop_their_launchers_each_has_its_turn(
    tmp_path: Path, cgroups: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MOST_LOOKS", 1)
    monkeypatch.setattr(pool, "CHECK_SECONDS", 0.01)

    async def scenario() -> None:
        settings = ExecutorSettings(pooled_groups=0, confined_containers=False)
        async with a_node(tmp_path, cgroups, settings) as node:
            await node.launch(a_spec("waits", "sleep", "1000"))
            names = [f"c{number}" for number in range(3)]
            for name in names:
                await node.launch(a_spec(name, "sh", "-c", "kill -STOP $PPID; exit 3"))
            for name in names:
                assert (await node.told(ContainerExited, name)).exit_code == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("slots", [1, 0], ids=["slot", "outside"])
def test_one_that_stops_who_waits_for_it_has_ended_when_it_ends(
    tmp_path: Path, cgroups: GroupDriver, slots: int
) -> None:
    async def scenario() -> None:
        settings = ExecutorSettings(pooled_groups=slots, confined_containers=False)
        async with a_node(tmp_path, cgroups, settings) as node:
            await node.launch(a_spec("c1", "sh", "-c", "sleep 0.1; kill -STOP $PPID; exit 3"))
            assert (await node.told(ContainerExited, "c1")).exit_code == 3

    asyncio.run(scenario())


FORGERIES = """
import os, sys
own, state = sys.argv[1:]
mounts = [line.split()[4] for line in open("/proc/self/mountinfo") if " - cgroup" in line]
groups = {}
for line in open("/proc/self/cgroup"):
    _, names, path = line.rstrip().split(":", 2)
    for mount in mounts:
        if os.path.basename(mount) in (names, "memory" if "memory" in names else names) or not names:
            groups[mount] = mount + path
def attempt(what, path, text, flags=os.O_WRONLY):
    try:
        fd = os.open(path, flags)
        os.write(fd, text)
        print("done:", what, path, flush=True)
    except FileNotFoundError:
        pass
    except OSError as error:
        print("refused:", what, error.strerror, flush=True)
def everything():
    for mount, group in groups.items():
        attempt("leaves its group", mount + "/cgroup.procs", b"0")
        for name in ("memory.limit_in_bytes", "memory.max", "memory.memsw.limit_in_bytes", "pids.max", "cpu.weight"):
            attempt("raises its limit", f"{group}/{name}", b"1000000000")
        try:
            os.mkdir(group + "/inner")
            print("done: makes a group", flush=True)
        except OSError as error:
            print("refused: makes a group", error.strerror, flush=True)
    attempt("forges its record", f"{state}/{own}.exit1", b"1\\n0\\n", os.O_WRONLY | os.O_CREAT)
    for name in os.listdir(state):
        attempt("forges its record", f"{state}/{name}", b"end 0\\n", os.O_WRONLY | os.O_APPEND)
everything()
for mount in [*mounts, state]:
    print(os.system(f"mount -o remount,bind,rw {mount} 2>/dev/null && echo done: mounts"), flush=True)
    print(os.system(f"umount {mount} 2>/dev/null && echo done: unmounts"), flush=True)
attempt("goes by another's root", f"/proc/1/root{state}/forged", b"x", os.O_WRONLY | os.O_CREAT)
attempt("goes by its parent's root", f"/proc/{os.getppid()}/root{state}/forged", b"x", os.O_WRONLY | os.O_CREAT)
print(os.system("nsenter -t 1 -m true 2>/dev/null && echo done: enters"), flush=True)
everything()
for line in open("/proc/self/status"):
    if line.startswith("NoNewPrivs"):
        print(line, flush=True)
"""


@pytest.mark.parametrize("slots", [1, 0], ids=["slot", "outside"])
def test_it_changes_neither_its_limits_nor_its_group_nor_its_record(
    tmp_path: Path, cgroups: GroupDriver, slots: int
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=slots)) as node:
            state = os.fspath(tmp_path / "state")
            spec = a_spec("c1", sys.executable, "-S", "-E", "-c", FORGERIES, "c1", state)
            exited = await node.run(spec, CgroupLimits(memory_max=64 << 20))
            said = node.output("c1").decode()
            assert exited.exit_code == 0, node.output("c1", "stderr")
            assert "done" not in said
            assert said.count("refused: leaves its group") >= 2 and "NoNewPrivs:\t1" in said
            assert "refused: forges its record" in said and "refused: goes by another's root" in said
            assert not (tmp_path / "state" / "forged").exists()

    asyncio.run(scenario())


OWN_MOUNTS = """
import ctypes, os, resource, sys, tempfile
lines = open("/proc/self/cgroup").readlines()
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x20000 | 0x2000000):  # CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWCGROUP
    sys.exit(9)
with open("/proc/self/uid_map", "w") as file:
    file.write("0 0 1")
places = []
for line in lines:  # its own groups are the roots of what it mounts
    _, names, path = line.rstrip().split(":", 2)
    place = tempfile.mkdtemp(dir=".")
    if "/yopp-slot-" in path:
        kind = b"cgroup" if names else b"cgroup2"
        assert not libc.mount(b"none", place.encode(), kind, 0, names.encode() or None), names
        places.append(place)
def write(*texts):
    for name, text in texts:
        for place in places:
            if os.path.exists(f"{place}/{name}"):
                with open(f"{place}/{name}", "w") as file:
                    file.write(text)
                print("done", flush=True)
"""
CHANGES = {
    "memory": "write(('memory.memsw.limit_in_bytes', '-1'), ('memory.limit_in_bytes', '-1'), ('memory.max', 'max'))",
    "the OOM killer": "write(('memory.oom_control', '1'), ('memory.oom.group', '1'))",
    "memory that is kept": "write(('memory.soft_limit_in_bytes', '99999744'), ('memory.low', '99999744'))",
    "processes": "write(('pids.max', 'max'))",
    "its share of the CPU": "write(('cpu.shares', '99999'), ('cpu.weight', '9999'))",
    "its quota": "write(('cpu.cfs_quota_us', '-1'), ('cpu.max', 'max'))",
    "who is told of its end": "write(('notify_on_release', '1'), ('cgroup.max.descendants', '7'))",
    "what groups below begin with": "write(('cgroup.clone_children', '1'), ('cgroup.max.depth', '1'))",
    "a period": "write(('cpu.rt_period_us', '900000'), ('cpu.max', '90000 90000'))",
    "a group below": "print([os.mkdir(f'{place}/inner') for place in places] and 'done', flush=True)",
    "files": "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (50, 50)); print('done', flush=True)",
    "processors": "os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))}); print('done', flush=True)",
    "priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19); print('done', flush=True)",
    "priority of I/O": "os.system(f'ionice -c3 -p {os.getppid()}') or print('done', flush=True)",
    "what it leaves": "os.fork() or os.execlp('sleep', 'sleep', '60'); print('done', flush=True)",
}
"""What one of root's containers can change for itself, by cgroup file systems of its own, and for its launcher."""
LOOK = """
import os
from executor.linux.launcher import is_limit
print(os.popen("ionice").read(), sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0))
print(open("/proc/self/limits").read())
for line in open("/proc/self/cgroup"):
    _, names, path = line.rstrip().split(":", 2)
    for place in (f"/sys/fs/cgroup/{names}{path}", f"/sys/fs/cgroup/{names}/..{path}", f"/sys/fs/cgroup{path}"):
        if "/yopp-slot-" in path and os.path.exists(place + "/cgroup.procs"):
            for one in sorted(os.scandir(place), key=lambda one: one.name):
                if one.is_dir() or is_limit(one):
                    print(one.name, open(one).read() if one.is_file() else "")
            break
"""


@pytest.mark.parametrize("follows", [False, True], ids=["next", "following"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_the_next_container_has_the_limits_that_the_node_gives_it(
    tmp_path: Path, cgroups: GroupDriver, change: str, follows: bool
) -> None:
    if change == "processors" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("NOT TESTED: there is one processor")
    limits = CgroupLimits(memory_max=256 << 20, pids_max=200, cpu_quota_us=90_000)
    root = Path(__file__).parents[3]
    wait = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"

    def looks(name: str) -> ContainerSpec:
        script = f"import sys\nsys.path.insert(0, {str(root)!r})\n{LOOK}"
        return a_spec(name, sys.executable, "-I", "-c", script)

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups, ExecutorSettings(pooled_groups=1)) as node:
            assert (await node.run(looks("c1"), limits)).exit_code == 0, node.output("c1", "stderr")
            changes = a_spec("c2", sys.executable, "-I", "-c", OWN_MOUNTS + CHANGES[change] + "\n" + wait)
            await node.launch(changes, limits)
            await soon(lambda: node.output("c2") or node.found(ContainerExited, "c2"), "it has changed it")
            if (early := node.found(ContainerExited, "c2")) is not None and early.exit_code == 9:
                pytest.skip("NOT TESTED: no user namespaces here")
            assert b"done" in node.output("c2"), node.output("c2", "stderr")
            if follows:
                node.executor.perform(LaunchNext(looks("c3"), limits, "c2", 1))
            (tmp_path / "go").touch()
            exited = await node.told(ContainerExited, "c2")
            assert (exited.exit_code, exited.following) == (0, "")
            assert (await node.run(looks("c3"), limits)).exit_code == 0
            assert node.output("c3").decode() == node.output("c1").decode()

    asyncio.run(scenario())


def test_a_launcher_that_a_container_has_moved_starts_nothing_more(
    tmp_path: Path, cgroups: GroupDriver
) -> None:
    """Such as one of an ordinary user's node, to whom the cgroups are delegated."""
    script = """
for line in open("/proc/self/cgroup"):
    names, path = line.rstrip().split(":", 2)[1:]
    place = f"/sys/fs/cgroup/{names}{path}/../tasks"
    if names == "memory" and "/yopp-slot-" in path:
        print(open(place, "w").write(str(os.getppid())))
"""
    look = a_spec("c2", "cat", "/proc/self/cgroup")

    async def scenario() -> None:
        async with a_node(
            tmp_path, cgroups, ExecutorSettings(pooled_groups=1, confined_containers=False)
        ) as node:
            moves = a_spec("c1", sys.executable, "-I", "-c", f"import os\n{script}")
            assert (await node.run(moves)).exit_code == 0, node.output("c1", "stderr")
            if not node.output("c1"):
                pytest.skip("NOT TESTED: v2 has no processes in a group that has others")
            assert (await node.run(look)).exit_code == 0
            assert ":memory:" in node.output("c2").decode()
            assert all(
                "/yopp-slot-" in one for one in node.output("c2").decode().splitlines() if ":memory:" in one
            )

    asyncio.run(scenario())


def test_one_that_is_not_confined_may_write_its_group(tmp_path: Path, cgroups: GroupDriver) -> None:
    """So the attacks above are not refused for another reason. No more than its own group is tried here."""
    script = (
        "echo 77 >$1/pids.max && cat $1/pids.max; echo end 0 >>$2/yopp-slot-1.journal && echo forged; exit 3"
    )

    async def scenario() -> None:
        settings = ExecutorSettings(pooled_groups=1, confined_containers=False)
        locations = cgroups.describe().locations
        own = f"{locations.get('pids', locations.get('unified'))}/yopp-slot-1"
        async with a_node(tmp_path, cgroups, settings) as node:
            spec = a_spec("c1", "sh", "-c", script, "sh", own, os.fspath(tmp_path / "state"))
            assert (await node.run(spec)).exit_code == 3
            assert node.output("c1") == b"77\nforged\n"

    asyncio.run(scenario())
