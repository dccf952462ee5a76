"""What looks like a container's or a node's and is not: processes of other users with its arguments or its
environment, and names that no container has. None of it is ended, removed, or counted."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import KillContainer, StoreContainer
from executor.core.events import ContainerExited
from executor.light import replace
from executor.linux.cgroups import CgroupDriver, discover, none
from executor.linux.joining import place_of
from executor.linux.procfs import ProcessStat, Traces, author, is_ours
from executor.linux.slots.marks import MARK, marked_below
from executor.linux.store import StateStore, encode
from executor.records import ContainerRecord, ContainerState
from executor.settings import ExecutorSettings

from ...strangers import NOBODY_UID
from .node import Node, a_group, a_node, a_spec, running, soon, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
WAITS = "read line"
BECOMES_ROOT = "import os, sys\nos.setresuid(0, 0, 0)\nsys.stdin.read()\n"
KINDS = ("another user's", "a setuid program of root's")


class Impostors:
    """Starts processes with arguments and an environment of their choice, which other users have chosen."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, kind: str, **environment: str) -> int:
        """A process that leads a session."""
        script = self.place / str(len(self._started)) / "script"
        script.parent.mkdir()
        script.write_text(WAITS if kind == KINDS[0] else BECOMES_ROOT)
        program = "/bin/sh"
        if kind == KINDS[1]:  # as sudo(8), which is root in every respect while it asks for the password
            program = os.fspath(script.with_name("setuid"))
            shutil.copy(os.path.realpath(sys.executable), program)
            os.chmod(program, 0o4755)
        process = subprocess.Popen(
            ["/bin/sh", os.fspath(script)], executable=program, user=NOBODY_UID, extra_groups=[],
            stdin=subprocess.PIPE, start_new_session=True, cwd="/", env=environment,
        )  # fmt: skip
        self._started.append(process)
        if kind == KINDS[1]:
            status = Path(f"/proc/{process.pid}/status")
            until(lambda: "Uid:\t0\t0\t0\t0" in status.read_text(), "it is root, as far as anybody sees")
        return process.pid

    def are_alive(self) -> bool:
        return all(one.poll() is None for one in self._started)

    def end(self) -> None:
        for one in self._started:
            one.kill()
            one.communicate()


@pytest.fixture
def impostors() -> Iterator[Impostors]:
    place = Path(tempfile.mkdtemp(prefix="yopp-test-"))
    place.chmod(0o755)
    made = Impostors(place)
    try:
        if os.statvfs(place).f_flag & os.ST_NOSUID:
            pytest.skip("NOT TESTED: setuid programs are not honoured in /tmp")
        yield made
    finally:
        made.end()
        shutil.rmtree(place)


@pytest.fixture(params=["none", pytest.param("auto", marks=pytest.mark.cgroup)])
def cgroups(request: pytest.FixtureRequest) -> Iterator[CgroupDriver]:
    with a_group(ExecutorSettings(cgroups_mount=request.param)) as driver:
        yield driver


def everything_in(directory: Path) -> list[str]:
    return sorted(str(one) for one in directory.rglob("*") if "/state" not in str(one))


@pytest.mark.parametrize("kind", KINDS)
def test_the_environment_of_a_launcher_proves_nothing(
    tmp_path: Path, cgroups: CgroupDriver, impostors: Impostors, kind: str
) -> None:
    """The next node takes no such process for a launcher of an earlier run."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").write_text("stays")

    async def scenario() -> None:
        async with a_node(tmp_path, cgroups) as node:
            runs = a_spec("c1", "sleep", "60")
            node.executor.perform(StoreContainer(ContainerRecord(runs, ContainerState.LAUNCHING)))
            begun = await node.launch(runs)
            record = ContainerRecord(runs, ContainerState.RUNNING, begun.pid, begun.process_start)
            node.executor.perform(StoreContainer(record))
            (tmp_path / "work" / "c2").mkdir()
            for _ in range(3):
                impostors.start(kind, **{MARK: os.path.realpath(tmp_path / "state")})
            before = everything_in(tmp_path)
            node.dies()
            after = discover(ExecutorSettings(cgroups_mount=cgroups.mode), group=group_of(cgroups))
            async with a_node(tmp_path, after) as later:
                found = {one.record.spec.container_id: one.alive for one in later.executor.recover()}
                assert found == {"c1": True} and running(begun.pid), "it runs on"
                assert impostors.are_alive()
                assert everything_in(tmp_path) == [one for one in before if not one.endswith("/c2")]
                later.executor.perform(KillContainer("c1", force=True))
                await later.told(ContainerExited, "c1")

    asyncio.run(scenario())


def group_of(cgroups: CgroupDriver) -> str:
    return os.path.basename(next(iter(cgroups.describe().locations.values()), "none"))


def test_a_process_of_ours_is_known_and_one_of_another_user_is_not(impostors: Impostors) -> None:
    for kind in KINDS:
        pid = impostors.start(kind)
        assert not is_ours(pid)
        assert author(pid) == (NOBODY_UID if kind == KINDS[0] else None)
    assert author(os.getpid()) == 0 and is_ours(os.getpid()) and author(1 << 22) is None


def test_a_python_with_file_capabilities_knows_its_own_processes(impostors: Impostors) -> None:
    """`yopp status` took its daemons for ended, and `yopp down` left them."""
    program, root = os.fspath(impostors.place / "python"), Path(__file__).parents[3]
    shutil.copy(os.path.realpath("/usr/bin/python3"), program)
    os.setxattr(
        program, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
    )  # NET_BIND_SERVICE
    script = "import os, sys; sys.path.insert(0, sys.argv[1]); from executor.linux import procfs as seen"
    script += "; print(seen.author(os.getpid()), seen.is_ours(os.getppid()), seen.author(1))"
    ended = subprocess.run(
        [program, "-I", "-c", script, os.fspath(root)], user=NOBODY_UID, extra_groups=[], capture_output=True, cwd="/",
    )  # fmt: skip
    if b"ModuleNotFoundError" in ended.stderr or b"SyntaxError" in ended.stderr:
        pytest.skip("NOT TESTED: others may not read this checkout, or have an older Python")
    assert ended.stdout.split() == [str(NOBODY_UID).encode(), b"False", b"0"], ended.stderr


def test_nobody_enters_a_container_that_runs_a_setuid_program_as_root(impostors: Impostors) -> None:
    """Root who entered it ran a shell as root, in an environment of the container's choice."""
    name = "container_1_0001_01_000001"
    assert place_of(impostors.start(KINDS[0], CONTAINER_ID=name, PWD="/"), name).uid == NOBODY_UID
    with pytest.raises(PermissionError, match="setuid program"):
        place_of(impostors.start(KINDS[1], CONTAINER_ID=name, PWD="/"), name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_in_the_environment_proves_nothing(tmp_path: Path, impostors: Impostors, kind: str) -> None:
    """Without cgroups, the memory of another user's process counted as the container's, and its end ended it."""

    async def scenario() -> None:
        with a_group(ExecutorSettings(cgroups_mount="none")) as cgroups:
            async with a_node(tmp_path, cgroups) as node:
                await node.launch(a_spec("c1", "sh", "-c", "setsid -f sleep 60; exec sleep 60"))
                await soon(lambda: len(cgroups.processes("c1")) == 2, "its own orphan is found")
                state = os.path.realpath(tmp_path / "state")
                pid = impostors.start(kind, LOCAL_DIRS=f"{tmp_path}/work/c1", **{MARK: state})
                assert pid not in cgroups.processes("c1") and len(cgroups.processes("c1")) == 2
                assert pid not in [one.pid for one in marked_below(state)]
                node.executor.perform(KillContainer("c1", force=True))
                await node.told(ContainerExited, "c1")
                assert impostors.are_alive()

    asyncio.run(scenario())


def test_an_orphan_of_the_user_as_whom_a_container_runs_is_its_own(
    tmp_path: Path, impostors: Impostors
) -> None:
    mark = {"LOCAL_DIRS": f"{tmp_path}/work/c1"}
    theirs = impostors.start(KINDS[0], **mark)
    driver = none.NoCgroups()
    driver.started("c1", Traces(1 << 22, 0, f"LOCAL_DIRS={tmp_path}/work/c1".encode(), (0, NOBODY_UID)))
    assert driver.processes("c1") == [theirs]
    driver.started("c1", Traces(1 << 22, 0, f"LOCAL_DIRS={tmp_path}/work/c1".encode(), (0,)))
    driver._seen.clear()
    assert driver.processes("c1") == []


def test_a_session_whose_number_was_given_anew_is_nobodys(
    impostors: Impostors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has ended, a process of another user had its pid, led a session, and has ended, too."""
    pid, leader = impostors.start(KINDS[0]), 1 << 22
    table = {pid: ProcessStat(pid, "S", 1, leader, leader, 0, 5, 0, False)}
    monkeypatch.setattr(none, "scan", lambda: table)
    driver = none.NoCgroups()
    driver.started("c1", Traces(leader, 4, b"A=b", (0,)))
    assert driver.processes("c1") == []


STRANGE = ("..", ".", "yopp-slot-7", "not one", "lost+found")


def test_what_has_no_containers_name_is_not_removed(
    tmp_path: Path, cgroups: CgroupDriver, caplog: pytest.LogCaptureFixture
) -> None:
    def names(directory: Path) -> set[str]:
        return {one.name for one in directory.iterdir()}

    async def scenario() -> None:
        node = Node(tmp_path, cgroups, ExecutorSettings(), is_id=lambda name: name in ("c1", "c2"))
        work, state = tmp_path / "work", tmp_path / "state"
        for name in STRANGE[2:]:
            (work / name).mkdir()
        begun = "".join(f"begin 0 0 0 0 {name}\n" for name in (*STRANGE, "c1"))
        (state / "yopp-slot-outside-1.journal").write_text(f"launcher 1 1\n{begun}")
        (work / "c2" / "full").mkdir(parents=True)
        groups = [Path(one) for one in cgroups.describe().locations.values()]
        for one in groups:
            for name in ("c1", "yopp-slot-8", "not one"):
                (one / name).mkdir(exist_ok=True)
        try:
            node.executor.recover()
            assert names(work) == set(STRANGE[2:])
            assert "yopp-slot-outside-1.journal" not in names(state)
            for one in groups:
                left = [entry.name for entry in one.iterdir() if entry.is_dir()]
                assert left == ["not one"], "a slot of an earlier run goes"
        finally:
            for one in groups:
                (one / "not one").rmdir() if (one / "not one").exists() else None
            await node.executor.close()

    asyncio.run(scenario())
    assert "not removed: ['.', '..', 'lost+found', 'not one', 'yopp-slot-7']" in caplog.text


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "yopp-slot-1"])
def test_a_record_of_no_containers_name_is_set_aside(tmp_path: Path, name: str) -> None:
    store = StateStore(tmp_path)
    good = ContainerRecord(a_spec("c1", "true"), ContainerState.DONE)
    store.store(good)
    store.store(replace_name(good, name))
    store.close()
    later = StateStore(tmp_path)
    assert [one.spec.container_id for one in later.load_all()] == ["c1"]
    assert any("cannot be a container's id" in one for one in later.complaints)
    later.close()
    if name == "..":
        (tmp_path / "...json").write_bytes(encode(replace_name(good, name)))
        assert [one.spec.container_id for one in StateStore(tmp_path).load_all(tidy=False)] == ["c1"]


def replace_name(record: ContainerRecord, name: str) -> ContainerRecord:
    return replace(record, spec=replace(record.spec, container_id=name))
