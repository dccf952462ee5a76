"""What dead nodes left is cleared: processes, groups, records and directories, theirs and nobody else's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from executor.linux import launcher
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.slots.zygotes import Zygote
from executor.linux.store import StateStore
from executor.records import CgroupLimits, ContainerRecord, ContainerSpec, ContainerState, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.cluster import cleanup
from yarnopp_cli.cluster.processes import ProcessId
from yarnopp_cli.cluster.rundir import RunDir

from ..strangers import NOBODY_UID

HIERARCHY = f"/yopp-test-{os.getpid()}"
ENDED = (0, -9)
"""A shim ends by itself if it sees the end of what it leads before its own turn comes (SIGKILL)."""
Leave = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    made = RunDir.of(str(tmp_path / "run"))
    made.prepare()
    return made


@pytest.fixture
def where(tmp_path: Path) -> cleanup.Places:
    return cleanup.Places(HIERARCHY, str(tmp_path / "run" / "state" / "nm-local-dir"))


@pytest.fixture
def leave(run_dir: RunDir, where: cleanup.Places) -> Iterator[Leave]:
    """Leaves a container as a dead node does: a process with a child, a record, a private directory."""
    left: list[subprocess.Popen[str]] = []

    def make(container_id: str, port: int = 45454, *, start: int = 0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["/bin/sh", "-c", "sleep 60 & echo $!; wait"],
            start_new_session=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        left.append(process)
        identity = ProcessId.of(process.pid)
        assert identity is not None
        spec = ContainerSpec(container_id, ("sleep", "60"), Resource(64, 1))
        store = StateStore(os.path.join(run_dir.nm_state_dir(port), "containers"))
        store.store(ContainerRecord(spec, ContainerState.RUNNING, process.pid, start or identity.start))
        store.close()
        os.makedirs(os.path.join(where.local_dirs, f"{run_dir.key}-nm-{port}", container_id))
        return process

    try:
        yield make
    finally:
        for process in left:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.communicate()


def child_of(process: subprocess.Popen[str]) -> ProcessId:
    assert process.stdout is not None
    found = ProcessId.of(int(process.stdout.readline()))
    assert found is not None
    return found


def test_a_container_and_all_that_it_started(run_dir: RunDir, where: cleanup.Places, leave: Leave) -> None:
    process = leave("container_1_0001_01_000002")
    child = child_of(process)
    assert [item.spec.container_id for item in cleanup.records(run_dir)] == ["container_1_0001_01_000002"]
    assert cleanup.known_ports(run_dir, where) == {45454}
    cleared = cleanup.clear(run_dir, where)
    assert cleared == cleanup.Cleared(("container_1_0001_01_000002",))
    assert process.wait(timeout=10) in ENDED
    assert not child.alive()
    assert os.listdir(run_dir.state_dir) == []
    assert cleanup.clear(run_dir, where) == cleanup.Cleared()


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(
    run_dir: RunDir, where: cleanup.Places, leave: Leave
) -> None:
    process = leave("container_1_0001_01_000002", start=1)
    assert cleanup.clear(run_dir, where).containers == ()
    assert process.poll() is None
    assert os.listdir(run_dir.state_dir) == []


def test_only_the_nodes_that_are_named(run_dir: RunDir, where: cleanup.Places, leave: Leave) -> None:
    first, second = leave("container_1_0001_01_000002"), leave("container_1_0001_01_000003", 45455)
    cleared = cleanup.clear(run_dir, where, ports=frozenset({45455}))
    assert cleared.containers == ("container_1_0001_01_000003",)
    assert second.wait(timeout=10) in ENDED
    assert first.poll() is None
    assert cleanup.known_ports(run_dir, where) == {45454}


def test_a_stopped_zygote_whose_node_is_dead(run_dir: RunDir, where: cleanup.Places) -> None:
    """It is in no group and no record, also where its node's directory is lost; and another node's is left alone."""
    mine, others = (run_dir.nm_state_dir(45454), f"{run_dir.state_dir}-of-others/nm-45454")
    zygotes = [Zygote((), launcher.__file__, os.path.join(place, "containers")) for place in (mine, others)]
    first, second = (zygote._process for zygote in zygotes)
    try:
        for process in (first, second):
            process.send_signal(signal.SIGSTOP)
        assert cleanup.known_ports(run_dir, where) == {45454}
        cleanup.clear(run_dir, where, ports=frozenset({45455}))
        assert first.poll() is None, "another node's is meant"
        cleanup.clear(run_dir, where)
        assert first.wait(timeout=10) == -signal.SIGKILL
        assert second.poll() is None
    finally:
        for zygote in zygotes:
            zygote._process.kill()
            zygote.close()


def test_records_that_cannot_be_read_stop_nothing(
    run_dir: RunDir, where: cleanup.Places, leave: Leave
) -> None:
    process = leave("container_1_0001_01_000002")
    with Path(run_dir.nm_state_dir(45454), "containers", "journal").open("a") as journal:
        journal.write("garbled\n")
    assert cleanup.clear(run_dir, where).containers == ("container_1_0001_01_000002",)
    assert process.wait(timeout=10) in ENDED
    assert os.listdir(run_dir.state_dir) == []


def test_output_and_what_others_keep_in_the_same_place_stays(
    run_dir: RunDir, where: cleanup.Places, leave: Leave
) -> None:
    leave("container_1_0001_01_000002")
    logs = Path(run_dir.state_dir, "logs", "application_1_0001")
    logs.mkdir(parents=True)
    other = Path(where.local_dirs, "0badcafe-nm-45454")
    other.mkdir()
    cleanup.clear(run_dir, where)
    assert logs.is_dir()
    assert other.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
def test_nothing_of_another_user_is_ended_or_removed(
    run_dir: RunDir, where: cleanup.Places, leave: Leave
) -> None:
    """Neither a process that has the id of a container in its environment, nor a directory in the place of a node."""
    container_id = "container_1_0001_01_000002"
    process = leave(container_id)
    theirs = subprocess.Popen(
        ["sleep", "60"], env={"CONTAINER_ID": container_id}, start_new_session=True, user=NOBODY_UID, extra_groups=[]
    )  # fmt: skip
    ours = subprocess.Popen(["sleep", "60"], env={"CONTAINER_ID": container_id}, start_new_session=True)
    other = Path(where.local_dirs, f"{run_dir.key}-nm-45455", "kept")
    other.mkdir(parents=True)
    os.chown(other.parent, NOBODY_UID, NOBODY_UID)
    Path(run_dir.nm_state_dir(45455)).mkdir()
    try:
        cleared = cleanup.clear(run_dir, where)
        assert process.wait(timeout=10) in ENDED and ours.wait(timeout=10) == -9
        assert theirs.poll() is None and other.is_dir()
        assert [one for one in cleared.problems if str(other.parent) in one]
    finally:
        for one in (theirs, ours):
            one.kill()
            one.wait()


@pytest.mark.parametrize(
    "noted", ['{"cpu": "/etc"}', "[]", "{", '{"cpu": "/sys/fs/cgroup/../../../tmp"}', '{"cpu": 7}']
)
def test_noted_places_outside_of_cgroups_are_not_believed(run_dir: RunDir, noted: str) -> None:
    state = Path(run_dir.nm_state_dir(45454))
    state.mkdir(parents=True)
    (state / "cgroups.json").write_text(noted)
    assert cleanup.groups(run_dir, HIERARCHY) == ()


@pytest.fixture
def driver(run_dir: RunDir) -> Iterator[CgroupDriver]:
    settings = ExecutorSettings(cgroups_hierarchy=HIERARCHY)
    remember = Path(run_dir.nm_state_dir(45454), "cgroups.json")
    remember.parent.mkdir(parents=True)
    chosen = discover(settings, group=run_dir.nm_group(45454), remember=remember)
    if chosen.mode == "none":
        pytest.skip("no writable cgroups here")
    chosen.create_parent()
    try:
        yield chosen
    finally:
        for container_id in chosen.stale_groups():
            chosen.kill(container_id)
            chosen.remove(container_id, 2.0)
        chosen.remove_parent()


@pytest.mark.cgroup
def test_groups_go_with_all_that_runs_in_them(
    run_dir: RunDir, where: cleanup.Places, driver: CgroupDriver
) -> None:
    joined = driver.create("container_1_0001_01_000002", CgroupLimits())
    script = 'for file do echo 0 > "$file"; done; setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $!; wait'
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *joined], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        orphan = child_of(process)
        if driver.can_freeze:
            driver.freeze("container_1_0001_01_000002")
        # No record at all: the node died before it wrote one down, or it was lost.
        assert cleanup.known_ports(run_dir, where) == {45454}
        assert not cleanup.groups(RunDir.of(run_dir.path + "2"), HIERARCHY)
        cleared = cleanup.clear(run_dir, where)
        assert cleared.problems == ()
        assert {os.path.basename(group) for group in cleared.cgroups} == {"nm-45454"}
        assert process.wait(timeout=10) in ENDED
        assert not orphan.alive()
        assert cleanup.groups(run_dir, HIERARCHY) == ()
        for base in set(driver.bases.values()):
            assert not os.path.exists(base + HIERARCHY)
    finally:
        if process.poll() is None:
            driver.thaw("container_1_0001_01_000002")
            process.kill()
        process.communicate()


@pytest.mark.cgroup
def test_the_level_of_a_node_that_was_killed_while_it_removed_its_groups_goes(
    run_dir: RunDir, where: cleanup.Places, driver: CgroupDriver
) -> None:
    one, *others = sorted({os.path.dirname(place) for place in driver.describe().locations.values()})
    os.rmdir(os.path.join(one, "nm-45454"))
    assert all(f"{parent}/nm-45454" in cleanup.groups(run_dir, HIERARCHY) for parent in others)
    assert cleanup.clear(run_dir, where).problems == ()
    assert not any(map(os.path.exists, (one, *others)))
