"""What `yopp doctor` finds, and that it changes nothing unless it is told to."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executor.light import replace
from executor.linux.cgroups import discover
from executor.linux.cgroups.base import GroupDriver
from executor.linux.cgroups.discovery import writing_hint
from executor.linux.cgroups.groups import remove_upwards
from executor.settings import ExecutorSettings
from yarnopp_cli import __version__
from yarnopp_cli.cli.lifecycle.up import AUTO_PORTS
from yarnopp_cli.cluster.doctor import Check, examine_host, exit_code
from yarnopp_cli.cluster.doctor.host import clock_at, raising
from yarnopp_cli.cluster.inspection import other_version
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.records.reports import ClusterInfo

NO_CGROUPS = "yopp.nodemanager.cgroups.mode=none"


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    return RunDir.of(str(tmp_path / "run"))


def examined(
    run_dir: RunDir, *defines: str, fix: bool = False, conf: tuple[str, ...] = ()
) -> dict[str, Check]:
    """The checks by name, the worst of each. Without cgroups, unless told otherwise: they take time."""
    defines = defines or ("yopp.nodemanager.cgroups.mode=none",)
    environ = {"HOME": os.path.dirname(run_dir.path)}
    found: dict[str, Check] = {}
    for check in examine_host(run_dir, conf, defines, environ, fix=fix):
        if check.name not in found or exit_code([check]) > exit_code([found[check.name]]):
            found[check.name] = check
    return found


@pytest.mark.parametrize(
    ("hard", "uid", "typed"),
    [
        (64, 0, "ulimit -n 1024"),
        (4096, 0, "ulimit -n 4096"),
        (4096, 1000, "ulimit -n 4096"),
        (
            64,
            1000,
            "`* hard nofile 1024` in /etc/security/limits.conf, as root; then log in again and `ulimit -n 1024`",
        ),
        (resource.RLIM_INFINITY, 1000, "ulimit -n unlimited"),
    ],
)
def test_what_raises_a_limit_raises_it(hard: int, uid: int, typed: str) -> None:
    assert raising("ulimit -n", hard, 1024, uid) == typed


def test_root_is_not_told_to_be_root() -> None:
    told = writing_hint(["/sys/fs/cgroup/cpu"], "yopp", 0)
    assert (
        "root" not in told and "chown" not in told and "mount -o remount,bind,rw /sys/fs/cgroup/cpu" in told
    )
    told = writing_hint(["/c/cpu", "/c/memory"], "yopp", 0)
    assert "`for each in /c/cpu /c/memory; do mount -o remount,bind,rw $each; done`" in told, (
        "mount takes one directory"
    )
    assert "chown 1000 /sys/fs/cgroup/cpu/yopp" in writing_hint(["/sys/fs/cgroup/cpu"], "yopp", 1000)


def test_it_makes_nothing(run_dir: RunDir) -> None:
    checks = examined(run_dir)
    assert not os.path.exists(run_dir.path)
    assert checks["packages"].status == "ok"
    assert checks["run directory"].found == f"{run_dir.path} (nothing is running)"


def test_every_warning_and_failure_says_why(run_dir: RunDir) -> None:
    for check in examined(run_dir).values():
        assert check.status == "ok" or check.why, check


def test_exit_codes() -> None:
    fine, weak, broken = Check("a", "ok", ""), Check("b", "warn", ""), Check("c", "fail", "")
    assert exit_code([]) == exit_code([fine]) == 0
    assert exit_code([fine, weak]) == 1
    assert exit_code([broken, weak, fine]) == 2


def test_without_cgroups_it_says_what_is_weaker(run_dir: RunDir) -> None:
    check = examined(run_dir)["cgroups"]
    assert (check.status, check.found) == ("warn", "none")
    assert "polling" in check.why


@pytest.mark.cgroup
def test_limits_are_tried_on_real_processes_and_nothing_is_left(run_dir: RunDir) -> None:
    hierarchy = f"/yopp-test-{os.getpid()}"
    checks = examined(run_dir, f"yarn.nodemanager.linux-container-executor.cgroups.hierarchy={hierarchy}")
    if checks["cgroups"].found == "none":
        pytest.skip("no writable cgroups here")
    assert checks["kill"].status == "ok"
    for name in ("CPU quota", "memory limit", "freeze"):
        assert name not in checks or checks[name].status == "ok", checks[name]
    assert not list(Path("/sys/fs/cgroup").glob(f"*{hierarchy}"))
    assert not list(Path("/sys/fs/cgroup").glob(f"*/*{hierarchy}"))


def told(check: Check) -> tuple[str, str, str]:
    """The three lines of a warning."""
    assert check.status == "warn" and check.why and check.fix, check
    return check.found, check.why, check.fix


SLOTS = "yopp.nodemanager.pooled-groups=10"


def test_slots_without_groups(run_dir: RunDir) -> None:
    found, why, fix = told(examined(run_dir, NO_CGROUPS, SLOTS)["slots"])
    assert found == "none can be created: no cgroups can be used here"
    assert "a cgroup of its own" in why and fix == "or accept this: -Dyopp.nodemanager.pooled-groups=0"
    check = examined(run_dir, NO_CGROUPS, "yopp.nodemanager.pooled-groups=0")["slots"]
    held = "containers cannot change" if os.geteuid() == 0 else "containers can change their own limits"
    assert check.status == "ok" and check.found.startswith(
        f"none: yopp.nodemanager.pooled-groups = 0; {held}"
    )


@pytest.fixture
def hierarchy(run_dir: RunDir) -> Iterator[str]:
    """A property that has groups of a name of its own; those are gone afterwards."""
    name = f"/yopp-test-{os.getpid()}"
    yield f"yarn.nodemanager.linux-container-executor.cgroups.hierarchy={name}"
    left = [*Path("/sys/fs/cgroup").glob(f"*{name}"), *Path("/sys/fs/cgroup").glob(f"*/*{name}")]
    for group in left:
        remove_upwards(str(group.parent), group.name)
    assert not any(group.exists() for group in left)


@contextmanager
def a_node_group(run_dir: RunDir, hierarchy: str) -> Iterator[GroupDriver]:
    """The groups of a node that runs, as far as its pid file says."""
    driver = discover(
        ExecutorSettings(cgroups_hierarchy=hierarchy.split("=")[1]), group=run_dir.nm_group(45454)
    )
    if not isinstance(driver, GroupDriver) or "pids" not in driver.describe().controllers:
        pytest.skip("no writable cgroups here")
    driver.create_parent()
    run_dir.prepare()
    with open(run_dir.pid_file("nm-45454"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(f"{os.getpid()}\n")
        held.flush()
        try:
            yield driver
        finally:
            driver.remove_parent()


@pytest.mark.cgroup
def test_slots_where_there_may_be_no_more_processes(run_dir: RunDir, hierarchy: str) -> None:
    with a_node_group(run_dir, hierarchy) as driver:
        locations = driver.describe().locations
        group = locations.get("pids") or locations["unified"]
        assert examined(run_dir, hierarchy, SLOTS)["slots (nm-45454)"].status == "ok"
        for full in (group, os.path.dirname(group)):
            Path(full, "pids.max").write_text("1")
            found, why, fix = told(examined(run_dir, hierarchy, SLOTS)["slots (nm-45454)"])
            assert found.startswith("none can be created: ") and f"pids.max of {full} is reached" in found
            assert "a cgroup of its own" in why and f"`echo max > {full}/pids.max`" in fix
            Path(full, "pids.max").write_text("max")
        assert not [entry for entry in os.scandir(group) if entry.is_dir()], "nothing is left"


@pytest.mark.cgroup
def test_a_slot_with_a_process_of_somebody_else(run_dir: RunDir, hierarchy: str) -> None:
    with a_node_group(run_dir, hierarchy) as driver, subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            slot, joins = driver.make_slot("yopp-slot-1")
            for path in joins:
                Path(path).write_text(str(stranger.pid))
            checks = examined(run_dir, hierarchy, SLOTS)
            found, why, fix = told(checks["slots (nm-45454)"])
            assert found.endswith(f"is not used: it contains processes that are not yopp's: {stranger.pid}")
            assert "share" in why
            (move,) = re.findall("`(.*)`", fix)
            subprocess.run(["sh", "-c", move], check=True, stdout=subprocess.DEVNULL)
            assert stranger.poll() is None
            assert examined(run_dir, hierarchy, SLOTS)["slots (nm-45454)"].status == "ok"
        finally:
            stranger.kill()
            stranger.wait()
            assert driver.remove("yopp-slot-1", 2.0)
            slot.close()


def test_a_broken_configuration_is_told_and_the_rest_is_examined(run_dir: RunDir, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('yarn.nodemanager.opportunistic-containers-max-queue-length = "many"\n')
    checks = examined(run_dir, "yopp.nodemanager.cgroups.mode=none", conf=(str(site),))
    assert checks["configuration"].status == "fail"
    assert f"{site}:1" in checks["configuration"].found
    assert checks["run directory"].status == "ok"


def test_opportunistic_containers_without_a_queue(run_dir: RunDir) -> None:
    checks = examined(
        run_dir,
        "yopp.nodemanager.cgroups.mode=none",
        "yarn.resourcemanager.opportunistic-container-allocation.enabled=true",
        "yarn.nodemanager.opportunistic-containers-max-queue-length=0",
    )
    assert checks["configuration"].status == "warn"
    assert "max-queue-length=10" in checks["configuration"].fix


def test_a_run_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to("real")
    check = examined(RunDir.of(str(tmp_path / "run")))["run directory"]
    assert check.status == "fail"
    assert "symbolic link" in check.why


def test_a_port_that_is_taken(run_dir: RunDir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        check = examined(
            run_dir, "yopp.nodemanager.cgroups.mode=none", f"yarn.resourcemanager.address={taken}"
        )
        assert check["address"].status == "fail"
    check = examined(run_dir, "yopp.nodemanager.cgroups.mode=none", f"yarn.resourcemanager.address={taken}")
    assert check["address"].status == "ok"


def test_ports_of_the_pages_are_looked_at(run_dir: RunDir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"localhost:{server.getsockname()[1]}"
        check = examined(
            run_dir, f"yarn.nodemanager.webapp.address={taken}", "yarn.resourcemanager.webapp.address="
        )
        assert check["nm pages"].status == "fail" and str(os.getpid()) in check["nm pages"].why
        assert check["rm pages"].found == "none: yarn.resourcemanager.webapp.address is empty"
    check = examined(
        run_dir, f"yarn.nodemanager.webapp.address={taken}", "yarn.resourcemanager.webapp.address="
    )
    assert check["nm pages"].status == "ok"


def test_ports_that_are_chosen_at_the_start_and_those_of_a_running_cluster(run_dir: RunDir) -> None:
    checks = examined(run_dir, *AUTO_PORTS)
    for what in ("rm pages", "nm pages"):
        assert (checks[what].status, checks[what].found) == (
            "ok",
            "a free port of localhost, chosen at the start",
        )
    run_dir.prepare()
    with open(run_dir.pid_file("rm"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(f"{os.getpid()}\n")
        held.flush()
        Path(run_dir.http_file("rm")).write_text("localhost:4711\n")
        assert examined(run_dir)["rm pages"].found == f"http://localhost:4711 (process {os.getpid()})"
        Path(run_dir.http_file("rm")).unlink()
        assert examined(run_dir)["rm pages"].found == "none: web pages are disabled"


def test_the_amrmproxys_port(run_dir: RunDir) -> None:
    assert "AMRMProxy port" not in examined(run_dir)
    distributed = "yarn.nodemanager.distributed-scheduling.enabled=true"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        address = f"yarn.nodemanager.amrmproxy.address=0.0.0.0:{port}"
        check = examined(run_dir, NO_CGROUPS, distributed, address)["AMRMProxy port"]
        assert check.status == "warn" and str(os.getpid()) in check.why and "Unix socket" in check.why
    assert examined(run_dir, NO_CGROUPS, distributed, address)["AMRMProxy port"].status == "ok"


def test_a_node_that_up_would_refuse(run_dir: RunDir) -> None:
    check = examined(run_dir, NO_CGROUPS, "yarn.nodemanager.resource.memory-mb=9999999")["node size"]
    assert check.status == "fail" and "lower yarn.nodemanager.resource.memory-mb" in check.fix
    assert examined(run_dir)["node size"].status == "ok"


def test_a_clock_that_went_back_or_was_never_set(run_dir: RunDir) -> None:
    assert examined(run_dir)["clock"].status == "ok"
    never = clock_at(run_dir, 100_000.0)
    assert (never.status, never.found) == ("warn", "1970-01-02T03:46:40Z") and "never set" in never.why
    run_dir.prepare()
    Path(run_dir.log_file("rm")).touch()
    back = clock_at(run_dir, time.time() - 3600)
    assert back.status == "warn" and "files are 3600 s in the future" in back.why


def test_disks_are_named_by_what_is_on_them(run_dir: RunDir) -> None:
    assert "disk (state, logs, local)" in examined(run_dir)


def test_leftovers_are_told_and_removed_only_on_request(run_dir: RunDir) -> None:
    run_dir.prepare()
    Path(run_dir.rm_socket).touch()
    Path(run_dir.pid_file("nm-45454")).write_text("1\n")
    for _ in range(2):
        check = examined(run_dir)["leftovers"]
        assert check.status == "warn"
        assert check.found == "nm-45454.pid, rm.sock"
        assert "--fix" in check.fix
    assert examined(run_dir, fix=True)["leftovers"].status == "ok"
    assert examined(run_dir)["leftovers"].found == "none"
    assert not os.path.exists(run_dir.rm_socket)


def test_daemons_of_another_version_are_told() -> None:
    told = ClusterInfo(0, 0, 0, "0.0.9", "stay", "/r", "")
    assert other_version(None, ()) == other_version(replace(told, version=__version__), ()) == []
    (warning,) = other_version(told, ())
    assert "0.0.9" in warning and __version__ in warning and "yopp down --keep-containers" in warning
