"""Kernel files and discovery on made-up hosts: a temporary directory stands for /sys/fs/cgroup and /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from executor.errors import CgroupError, CgroupUnavailableError, CgroupWriteError
from executor.linux.cgroups import NoCgroups, V1Driver, V2Driver, discover
from executor.linux.cgroups.discovery import writable
from executor.linux.cgroups.files import (
    CpuFiles,
    KernelFiles,
    Mount,
    PidsFiles,
    UnifiedFiles,
    at,
    figures,
    group_processes,
    number,
    read_mounts,
    read_paths,
)
from executor.linux.cgroups.gauges import Gauge, Gauges, read_gauge
from executor.linux.cgroups.slots import SlotGroup
from executor.linux.watching.host import host_limits
from executor.records import CgroupLimits, ContainerUsage
from executor.settings import ExecutorSettings

AUTO = ExecutorSettings()


class Host:
    """A made-up host: its mounts, and the cgroups that this process runs in."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "sys"
        self.proc = directory / "proc"
        (self.proc / "self").mkdir(parents=True)
        self.root.mkdir()
        self.mountinfo: list[str] = ["20 1 0:5 / /proc rw shared:1 - proc proc rw"]
        self.own: list[str] = []
        self.save()

    def mount(self, name: str, fstype: str, options: str = "rw", own: str = "/", flags: str = "rw") -> Path:
        point = self.root / name
        (point / own.strip("/")).mkdir(parents=True, exist_ok=True)
        escaped = str(point).replace(" ", "\\040")
        self.mountinfo.append(f"30 20 0:9 / {escaped} {flags},nosuid - {fstype} cgroup {options}")
        controllers = "" if fstype == "cgroup2" else options.removeprefix("rw,")
        self.own.append(f"{len(self.own)}:{controllers}:{own}")
        self.save()
        return point

    def save(self) -> None:
        (self.proc / "self" / "mountinfo").write_text("\n".join(self.mountinfo) + "\n")
        (self.proc / "self" / "cgroup").write_text("\n".join(self.own) + "\n")

    def discover(self, settings: ExecutorSettings = AUTO, **more: object):  # type: ignore[no-untyped-def]
        return discover(settings, group="cluster/nm-1", root=str(self.root), proc=str(self.proc), **more)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def v2_group(path: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    (path / "cgroup.controllers").write_text(controllers + "\n")
    (path / "cgroup.subtree_control").write_text("\n")
    (path / "cgroup.procs").write_text("")
    return path


def test_values_are_read_and_written_as_the_kernel_spells_them(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("max\n")
    pids = at(str(tmp_path), PidsFiles)
    assert pids.max is None
    pids.max = 17
    assert (tmp_path / "pids.max").read_text() == "17"
    pids.max = None
    assert (tmp_path / "pids.max").read_text() == "max"

    unified = at(str(tmp_path), UnifiedFiles)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert unified.cpu_max == (None, 100_000)
    unified.cpu_max = (50_000, 100_000)
    assert (tmp_path / "cpu.max").read_text() == "50000 100000"
    unified.freeze = True
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert unified.controllers == ("cpu", "memory")


def test_a_figure_is_found_by_its_word_and_in_its_unit(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 3\noom_kill 2\n")
    assert read_gauge(Gauge(str(events), "oom_kill")) == 2
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert read_gauge(Gauge(str(tmp_path / "memory.oom_control"), "oom_kill")) == 1
    (tmp_path / "cpuacct.usage").write_text("1500000000\n")
    assert read_gauge(Gauge(str(tmp_path / "cpuacct.usage"), unit=1e9)) == 1.5
    assert (
        read_gauge(Gauge(str(tmp_path / "gone")))
        == read_gauge(Gauge(str(events), "swapped"))
        == read_gauge(None)
        == 0
    )


def test_long_lists_of_processes_are_read_whole(tmp_path: Path) -> None:
    pids = list(range(100_000, 140_000))
    (tmp_path / "cgroup.procs").write_text("0\n" + "\n".join(map(str, pids)) + "\n")
    assert group_processes(str(tmp_path)) == pids


def test_processes_of_groups_below_count(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "cgroup.procs").write_text("5\n")
    (tmp_path / "inner" / "cgroup.procs").write_text("6\n7\n")
    assert sorted(group_processes(str(tmp_path))) == [5, 6, 7]


def test_a_group_that_is_not_there_has_no_figures_and_no_processes(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert group_processes(gone) == []
    assert number(at(gone, CpuFiles), "shares") == 0
    assert figures(at(gone, UnifiedFiles), "events") == {}


def test_a_refused_write_says_which_value_and_file(tmp_path: Path) -> None:
    with pytest.raises(CgroupWriteError) as error:
        at(str(tmp_path / "gone"), CpuFiles).shares = 5
    assert str(tmp_path / "gone" / "cpu.shares") in str(error.value)
    assert "5" in error.value.message and error.value.because == "no such group"


def test_mounts_are_read_with_escapes_roots_and_flags(host: Host, tmp_path: Path) -> None:
    host.mount("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    host.mount("with space", "cgroup", "rw,memory", flags="ro")
    mounts = read_mounts(str(host.proc), str(host.root))
    assert [mount.controllers for mount in mounts] == [("cpu", "cpuacct"), ("memory",)]
    assert [mount.read_only for mount in mounts] == [False, True]
    assert mounts[1].point == str(host.root / "with space")
    assert read_paths(str(host.proc))["cpuacct"] == "/"
    assert read_mounts(str(host.proc), str(tmp_path / "elsewhere")) == ()


def test_a_mount_that_shows_a_part_of_its_hierarchy() -> None:
    mount = Mount("/sys/fs/cgroup/cpu", "/docker/abc", 1, ("cpu",), False)
    assert mount.directory_of("/docker/abc") == "/sys/fs/cgroup/cpu"
    assert mount.directory_of("/docker/abc/x") == "/sys/fs/cgroup/cpu/x"
    assert mount.directory_of("/other") is None


def test_v1_goes_below_its_own_cgroup_in_each_hierarchy(host: Host) -> None:
    cpu = host.mount("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct", own="/system/yopp")
    memory = host.mount("memory", "cgroup", "rw,memory")
    driver = host.discover()
    assert isinstance(driver, V1Driver)
    report = driver.describe()
    assert report.mode == "v1"
    assert report.locations["cpu"] == f"{cpu}/system/yopp/hadoop-yarn/cluster/nm-1"
    assert report.locations["memory"] == f"{memory}/hadoop-yarn/cluster/nm-1"
    assert any("number of processes" in sentence for sentence in report.weaker)
    driver.create_parent()
    joins = driver.create("c1", CgroupLimits(cpu_shares=512, memory_max=1 << 26, pids_max=9))
    assert joins == (
        f"{cpu}/system/yopp/hadoop-yarn/cluster/nm-1/c1/tasks",
        f"{memory}/hadoop-yarn/cluster/nm-1/c1/tasks",
    ), "a joined mount is joined once"
    group = Path(joins[0]).parent
    assert (group / "cpu.shares").read_text() == "512"
    assert (Path(joins[1]).parent / "memory.limit_in_bytes").read_text() == str(1 << 26)
    assert driver.stale_groups() == ["c1"]
    assert [entry.name for entry in cpu.iterdir()] == ["system"], "the probes are gone"


def test_a_hybrid_host_joins_no_v2_group_where_v1_does_it_all(host: Host) -> None:
    for name in ("cpu", "cpuacct", "memory", "pids", "freezer"):
        host.mount(name, "cgroup", f"rw,{name}")
    v2_group(host.mount("unified", "cgroup2"), "")
    driver = host.discover()
    assert driver.mode == "v1" and driver.can_freeze
    assert set(driver.bases) == {"cpu", "cpuacct", "memory", "pids", "freezer"}
    assert driver.describe().weaker == ()


@pytest.mark.parametrize("missing", ["freezer", "cpuacct"])
def test_a_hybrid_host_freezes_and_counts_by_v2_what_v1_cannot(host: Host, missing: str) -> None:
    for name in {"cpu", "cpuacct", "memory", "pids", "freezer"} - {missing}:
        host.mount(name, "cgroup", f"rw,{name}")
    v2_group(host.mount("unified", "cgroup2"), "")
    driver = host.discover()
    assert driver.mode == "hybrid" and driver.can_freeze
    assert set(driver.bases) == {"cpu", "memory", "pids", "unified"}
    assert driver.describe().weaker == ()
    only_v1 = host.discover(ExecutorSettings(cgroups_mount="v1"))
    assert only_v1.mode == "v1" and "unified" not in only_v1.bases


def test_v2_hands_its_controllers_down_every_level(host: Host) -> None:
    point = v2_group(host.mount("", "cgroup2"))
    # A made-up kernel: what is handed down shows in every group made below.
    for level in ("hadoop-yarn", "hadoop-yarn/cluster", "hadoop-yarn/cluster/nm-1"):
        (point / level).mkdir()
        v2_group(point / level)
    driver = host.discover()
    assert isinstance(driver, V2Driver)
    assert driver.describe().controllers == ("cpu", "memory", "pids")
    driver.create_parent()
    for level in ("", "hadoop-yarn", "hadoop-yarn/cluster", "hadoop-yarn/cluster/nm-1"):
        assert (point / level / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_v2_limits(tmp_path: Path) -> None:
    group = tmp_path / "h" / "c1"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("max 100000")
    (group / "memory.max").write_text("max")
    (group / "memory.swap.max").write_text("max")
    driver = V2Driver(str(tmp_path), "h", ("cpu", "memory", "pids"))
    driver.set_limits(
        "c1", CgroupLimits(cpu_weight=200, cpu_quota_us=1, cpu_period_us=9, memory_max=7, memory_low=6)
    )
    texts = {path.name: path.read_text() for path in group.iterdir()}
    assert texts == {
        "cpu.weight": "200",
        "cpu.max": "1 9",
        "memory.max": "7",
        "memory.low": "6",
        "memory.swap.max": "0",
        "pids.max": "max",
    }


def test_v2_without_all_controllers_says_what_is_weaker(host: Host) -> None:
    v2_group(host.mount("", "cgroup2"), "memory pids")
    report = host.discover().describe()
    assert report.controllers == ("memory", "pids")
    assert "cpu" in report.weaker[0] and report.hints


@pytest.mark.parametrize("flags", ["ro", ""])
def test_nothing_that_can_be_written(host: Host, flags: str) -> None:
    if flags:
        host.mount("memory", "cgroup", "rw,memory", flags=flags)
    driver = host.discover()
    assert isinstance(driver, NoCgroups)
    report = driver.describe()
    assert report.mode == "none" and not driver.enforces_memory and not driver.can_freeze
    assert any("polling" in sentence for sentence in report.weaker)
    assert ("cannot be written" if flags else "no cgroup file system") in report.weaker[0]
    assert "cgroups: none" in str(report)


@pytest.mark.parametrize("uid", [0, 1000])
def test_what_cannot_be_written_is_told_once_with_one_line_to_type(
    host: Host, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    for controllers in ("cpu,cpuacct", "memory", "pids"):
        host.mount(controllers.partition(",")[0], "cgroup", f"rw,{controllers}", flags="ro")
    if uid == 0:
        host.mount("unified", "cgroup2", flags="ro")
    report = host.discover().describe()
    assert "cgroup v1 cpu, cpuacct, memory, pids cannot be written" in report.weaker[uid == 0]
    (hint,) = report.hints
    if uid == 0:  # only the mount keeps root from writing
        assert hint.count("remount,bind,rw") == 1 and hint.count("/cpu ") == 1 and "/unified " in hint
        assert "chown" not in hint
    else:
        assert hint.count("mkdir") == 1 and hint.count("cpu/") == 2  # once to make it, once to give it away
        assert "chown 1000 " in hint


def test_a_version_that_was_asked_for_and_is_not_there(host: Host) -> None:
    host.mount("memory", "cgroup", "rw,memory")
    with pytest.raises(CgroupUnavailableError):
        host.discover(ExecutorSettings(cgroups_mount="v2"))
    assert host.discover(ExecutorSettings(cgroups_mount="none")).mode == "none"


def test_a_node_that_comes_back_from_elsewhere_finds_its_groups(host: Host, tmp_path: Path) -> None:
    point = host.mount("memory", "cgroup", "rw,memory", own="/first")
    remember = tmp_path / "bases"
    first = host.discover(remember=remember)
    assert first.bases == {"memory": f"{point}/first"}
    host.own = ["4:memory:/second"]
    (point / "second").mkdir()
    host.save()
    assert host.discover(remember=remember).bases == first.bases
    os.rmdir(point / "first")
    assert host.discover(remember=remember).bases == {"memory": f"{point}/second"}
    remember.write_text("{nonsense")
    assert host.discover(remember=remember).bases == {"memory": f"{point}/second"}


@pytest.mark.parametrize("name", ["..", "../x", "a/../../b"])
def test_names_that_lead_elsewhere_are_refused(host: Host, name: str) -> None:
    host.mount("memory", "cgroup", "rw,memory")
    with pytest.raises(CgroupError):
        discover(AUTO, group=name, root=str(host.root), proc=str(host.proc))
    with pytest.raises(CgroupError):
        host.discover().create(name if "/" in name else "..", CgroupLimits())


class Written(list[tuple[str, object]]):
    """Which files were written, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(
            KernelFiles, "set_property", lambda files, name, value: self.append((name.decode(), value))
        )


@pytest.mark.parametrize(
    ("now", "wanted", "first"),
    [
        (1 << 26, 1 << 27, "memory.memsw.limit_in_bytes"),
        (1 << 27, 1 << 26, "memory.limit_in_bytes"),
        (1 << 26, None, "memory.memsw.limit_in_bytes"),
    ],
)
def test_v1_memory_and_swap_are_written_in_an_allowed_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: int, wanted: int | None, first: str
) -> None:
    group = tmp_path / "h" / "c1"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(str(now))
    (group / "memory.memsw.limit_in_bytes").write_text(str(now))
    written = Written(monkeypatch)
    V1Driver({"memory": str(tmp_path)}, "h").set_limits("c1", CgroupLimits(memory_max=wanted))
    names = [name for name, _ in written if "limit_in_bytes" in name and "soft" not in name]
    assert names[0] == first and len(names) == 2
    assert {value for name, value in written if name in names} == {-1 if wanted is None else wanted}


def test_v1_quota_is_lifted_before_its_period_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h" / "c1").mkdir(parents=True)
    written = Written(monkeypatch)
    driver = V1Driver({"cpu": str(tmp_path)}, "h")
    driver.set_limits("c1", CgroupLimits(cpu_shares=1, cpu_quota_us=1_000_000, cpu_period_us=500_000))
    assert written == [
        ("cpu.shares", 2),
        ("cpu.cfs_quota_us", -1),
        ("cpu.cfs_period_us", 500_000),
        ("cpu.cfs_quota_us", 1_000_000),
    ]


def test_no_memory_limit_leaves_memory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "h" / "c1"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("9223372036854771712")
    written = Written(monkeypatch)
    V1Driver({"memory": str(tmp_path)}, "h").set_limits("c1", CgroupLimits(memory_max=None))
    assert written == []


def test_capacity_is_what_the_cgroups_above_us_leave(host: Host) -> None:
    cpu = host.mount("cpu", "cgroup", "rw,cpu", own="/a/b")
    memory = host.mount("memory", "cgroup", "rw,memory", own="/a/b")
    free = host_limits(root=str(host.root), proc=str(host.proc))
    assert free.cores == len(os.sched_getaffinity(0))
    assert free.memory_bytes == free.physical_memory_bytes
    (cpu / "a" / "cpu.cfs_quota_us").write_text("50000")
    (cpu / "a" / "cpu.cfs_period_us").write_text("100000")
    (memory / "a" / "memory.limit_in_bytes").write_text(str(128 << 20))
    (memory / "a" / "b" / "memory.limit_in_bytes").write_text(str(2**63 - 4096))
    found = host_limits(root=str(host.root), proc=str(host.proc))
    assert (found.cores, found.memory_bytes) == (0.5, 128 << 20)
    assert len(found.because) == 2


def test_capacity_below_v2(host: Host) -> None:
    point = host.mount("", "cgroup2", own="/a")
    (point / "a" / "cpu.max").write_text("25000 100000")
    (point / "a" / "memory.max").write_text(str(64 << 20))
    found = host_limits(root=str(host.root), proc=str(host.proc))
    assert (found.cores, found.memory_bytes) == (0.25, 64 << 20)


def test_v2_tells_what_a_container_has_used(tmp_path: Path) -> None:
    group = tmp_path / "node" / "c1"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("5\n6\n")
    (group / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 9\nthrottled_usec 500000\n")
    (group / "memory.current").write_text("4096\n")
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    driver = V2Driver(str(tmp_path), "node", ("cpu", "memory", "pids"))
    first = driver.usage("c1", 7.0)
    assert first == ContainerUsage(
        2.5, 4096, 4096, throttled_seconds=0.5, oom_kills=1, processes=2, sampled_at=7.0
    )
    # Without memory.peak the highest sample counts.
    (group / "memory.current").write_text("1024\n")
    assert driver.usage("c1", 8.0).memory_peak_bytes == 4096
    (group / "memory.peak").write_text("8192\n")
    assert driver.usage("c1", 9.0).memory_peak_bytes == 8192
    assert driver.cpu_seconds("/node/c1") == 2.5
    (group / "cgroup.procs").write_text("")
    (group / "pids.events").write_text("max 7\n")
    ended = driver.usage("c1", 9.0)
    assert (ended.limit_ooms, ended.refused_forks) == (1, 7)
    assert driver.usage("gone", 9.0) == ContainerUsage(sampled_at=9.0, limit_ooms=0)


def test_v1_tells_what_a_container_has_used(tmp_path: Path) -> None:
    for name in ("cpu", "memory"):
        (tmp_path / name / "node" / "c1").mkdir(parents=True)
        (tmp_path / name / "node" / "c1" / "cgroup.procs").write_text("5\n")
    cpu, memory = (tmp_path / name / "node" / "c1" for name in ("cpu", "memory"))
    (cpu / "cpuacct.usage").write_text("2500000000\n")
    (cpu / "cpu.stat").write_text("nr_periods 2\nthrottled_time 500000000\n")
    (memory / "memory.usage_in_bytes").write_text("1024\n")
    (memory / "memory.max_usage_in_bytes").write_text("4096\n")
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    bases = {
        "cpu": str(tmp_path / "cpu"),
        "cpuacct": str(tmp_path / "cpu"),
        "memory": str(tmp_path / "memory"),
    }
    driver = V1Driver(bases, "node")
    assert driver.usage("c1", 7.0) == ContainerUsage(
        2.5, 1024, 4096, throttled_seconds=0.5, oom_kills=1, processes=1, sampled_at=7.0
    )
    assert driver.cpu_seconds("node/c1") == 2.5
    assert V1Driver({"memory": bases["memory"]}, "node").cpu_seconds("node") is None


@pytest.mark.parametrize("count", [0, 1, 5, 2000])
def test_a_slot_lists_its_processes_however_many_there_are(tmp_path: Path, count: int) -> None:
    pids = range(1000, 1000 + count)
    (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in (0, 7, *pids)))
    slot = SlotGroup("yopp-slot-1", (str(tmp_path),), Gauges())
    slot.launcher = 7
    assert slot.processes() == list(pids)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "cgroup.procs").write_text("8\n")
    assert slot.processes() == [*pids, 8] and slot.nested


def test_what_a_probe_of_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """The topmost cgroup could not be removed any more. Others are not touched, nor is a probe with something below."""
    for name in ("yopp-probe-1-0", "yopp-probe-7-3", "yopp-probe-8-0/in-use", "nm-1"):
        (tmp_path / name).mkdir(parents=True)
    assert writable(str(tmp_path), "key/nm-2")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["nm-1", "yopp-probe-8-0"]
