"""Containers of other users on root's node: they run as these users, never as root, and what is theirs is theirs."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.commands import CleanUpContainer, LaunchContainer
from executor.core.events import ContainerLaunchFailed
from executor.errors import CannotLaunchError
from executor.light import replace
from executor.linux import launcher
from executor.linux.cgroups.base import CgroupDriver
from executor.linux.owners.accounts import Account, Accounts, refuse_unreachable
from executor.linux.owners.users import look_up
from executor.linux.watching.health import node_status, os_error_of
from executor.records import CgroupLimits, ContainerExitStatus
from executor.settings import ExecutorSettings
from tests.shortage import none_free
from tests.strangers import NOBODY_UID

from .node import a_group, a_node, a_spec

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes as another user")
OTHER = "nobody"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users may enter."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture(params=["slot", "outside", "no cgroups"])
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    """The three ways in which containers are started."""
    if request.param == "no cgroups":
        return ExecutorSettings(cgroups_mount="none")
    return ExecutorSettings(pooled_groups=int(request.param == "slot"))


@pytest.fixture
def cgroups(settings: ExecutorSettings) -> Iterator[CgroupDriver]:
    with a_group(settings) as driver:
        yield driver


@as_root
def test_a_user_who_cannot_be_looked_up_for_want_of_descriptors_is_not_taken_for_none() -> None:
    """pwd(3) says the same of both; and a user has no fewer groups for that, neither now nor later."""
    accounts = Accounts(ExecutorSettings(min_user_id=0))
    with none_free(), pytest.raises(CannotLaunchError) as refused:
        accounts.of(OTHER)
    found = os_error_of(refused.value)
    assert found is not None and node_status(found.errno or 0) == ContainerExitStatus.ABORTED, refused.value
    entry = pwd.getpwnam(OTHER)
    with none_free(), pytest.raises(OSError, match="Too many open files"):
        look_up(lambda: os.getgrouplist(OTHER, entry.pw_gid))
    account = accounts.of(OTHER)
    assert account is not None and (account.uid, account.groups) == (
        entry.pw_uid,
        tuple(os.getgrouplist(OTHER, entry.pw_gid)),
    )
    with pytest.raises(CannotLaunchError, match="no user with that name") as refused:
        accounts.of("no-such-user")
    assert os_error_of(refused.value) is None, "that is not the node's fault"


LOOKS = """
import ctypes, os, sys
node, victim, state = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def attempt(what, action):
    try:
        action()
        print("done:", what)
    except OSError as error:
        print("refused:", what, error.strerror)
print("ids", os.getresuid(), os.getresgid(), sorted(os.getgroups()))
print("home", os.environ["HOME"], os.environ["USER"])
print("script", open("script").read())
open("made", "w").close()
open(os.environ["LOG_DIRS"] + "/more", "w").close()
attempt("signals the node", lambda: os.kill(node, 0))
attempt("signals its parent", lambda: os.kill(os.getppid(), 0))
def key():
    if ctypes.CDLL(None).syscall(int(sys.argv[4]), 10, -3, b"user", b"yopp-test", 0) < 0:  # KEYCTL_SEARCH
        raise OSError
attempt("has a key of root's session", key)
attempt("becomes root", lambda: os.setuid(0))
attempt("reads root's file", lambda: open(victim))
attempt("reads the records", lambda: os.listdir(state))
for line in open("/proc/self/mountinfo"):
    if " - cgroup" in line:
        group = line.split()[4]
        for name in ("cgroup.procs", "tasks"):
            if os.path.exists(f"{group}/{name}"):
                attempt("leaves its group", lambda: open(f"{group}/{name}", "w").write("0"))
for line in open("/proc/self/status"):
    if line.startswith(("NoNewPrivs", "CapEff", "CapPrm")):
        print(line.strip().replace("\\t", " "))
"""


def with_a_key() -> int:
    """Begin a session keyring with a key; the number of keyctl(2)."""
    number = launcher.KEYCTL[os.uname().machine]
    keys = ctypes.CDLL(None)
    assert (
        keys.syscall(number, 1, None) > 0 and keys.syscall(number - 2, b"user", b"yopp-test", b"x", 1, -3) > 0
    )
    return number


@as_root
def test_a_container_of_another_user_has_that_users_rights_and_no_more(
    place: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    victim = place / "victim"
    victim.write_text("ours\n")
    victim.chmod(0o600)
    entry = pwd.getpwnam(OTHER)

    async def scenario() -> None:
        async with a_node(place, cgroups, settings) as node:
            words = (str(os.getpid()), str(victim), str(place / "state"), str(with_a_key()))
            traces = place / "traces"
            traces.mkdir()
            traces.chmod(0o777)
            # The loader of each program that sees these variables writes a file: none of root's may.
            loader = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(traces / "trace")}
            spec = a_spec(
                "c1", "python3", "-c", LOOKS, *words,
                user=OTHER, files={"script": "localised"}, environment=loader, application_id="application_1_0001",
            )  # fmt: skip
            exited = await node.run(spec)
            logs = place / "logs" / "application_1_0001" / "c1"
            said = (logs / "stdout").read_text()
            assert exited.exit_code == 0, (logs / "stderr").read_text()
            groups = sorted(os.getgrouplist(OTHER, entry.pw_gid))
            assert f"ids {(entry.pw_uid,) * 3} {(entry.pw_gid,) * 3} {groups}" in said
            assert f"home {entry.pw_dir} {OTHER}" in said and "script localised" in said
            assert "done:" not in said and said.count("refused:") >= 5
            assert "NoNewPrivs: 1" in said and "CapEff: 0000000000000000" in said
            for path in (
                logs,
                logs / "stdout",
                logs / "more",
                place / "work" / "c1",
                place / "work" / "c1" / "script",
            ):
                assert path.stat().st_uid == NOBODY_UID, path
            assert logs.parent.stat().st_uid == 0 and not logs.parent.stat().st_mode & stat.S_IWGRP
            assert not (logs.stat().st_mode | logs.parent.stat().st_mode) & stat.S_IRWXO
            owners = {path.stat().st_uid for path in traces.iterdir()}
            assert owners == {NOBODY_UID}, "no program of root's had the container's variables"
            node.executor.perform(CleanUpContainer("c1"))
            failed = await node.run(a_spec("c2", "no-such-command", user=OTHER, environment={"PATH": "/bin"}))
            assert failed.exit_code == 127 and b"no-such-command" in node.output("c2", "stderr")

    asyncio.run(scenario())


@as_root
def test_links_that_it_leaves_in_its_log_directory_are_not_followed(
    place: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    victim = place / "victim"
    victim.write_text("ours\n")
    plant = f"cd $LOG_DIRS && rm stdout && ln -s {victim} stdout"

    async def scenario() -> None:
        async with a_node(place, cgroups, settings) as node:
            assert (await node.run(a_spec("c1", "sh", "-c", plant, user=OTHER))).exit_code == 0
            node.executor.perform(CleanUpContainer("c1"))
            node.events.clear()
            node.executor.perform(LaunchContainer(a_spec("c1", "echo", "theirs", user=OTHER), CgroupLimits()))
            while not node.events:
                await asyncio.sleep(0.01)
            failed = node.found(ContainerLaunchFailed, "c1")
            if failed is None:
                ended = await node.run(a_spec("c2", "true", user=OTHER))
                assert ended.exit_code == 0
            assert victim.read_text() == "ours\n" and victim.stat().st_uid == 0

    asyncio.run(scenario())


@as_root
def test_an_output_directory_that_was_asked_for_is_made_with_that_users_rights(
    place: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    async def scenario() -> None:
        async with a_node(place, cgroups, settings) as node:
            spec = a_spec("c1", "true", user=OTHER, log_directory=str(place / "forbidden"))
            node.executor.perform(LaunchContainer(spec, CgroupLimits()))
            while not node.events:
                await asyncio.sleep(0.01)
            assert (await node.run(a_spec("c2", "true", user=OTHER))).exit_code == 0
            assert not (place / "forbidden").exists()

    asyncio.run(scenario())


@as_root
def test_everything_runs_as_one_user_where_that_is_asked_for(
    place: Path, cgroups: CgroupDriver, settings: ExecutorSettings
) -> None:
    limited = replace(settings, limit_users=True)

    async def scenario() -> None:
        async with a_node(place, cgroups, limited) as node:
            assert (await node.run(a_spec("c1", "id", "-un"))).exit_code == 0
            assert node.output("c1") == b"nobody\n"

    asyncio.run(scenario())


@as_root
@pytest.mark.parametrize(
    ("user", "because"),
    [
        ("nobody-of-that-name", "no user with that name"),
        ("0", "no user with that name"),
        ("daemon", "below yopp.nodemanager.linux-container-executor.min-user-id"),
        ("bin", "banned-users names this user"),
        ("no\0body", "no user with that name"),
    ],
)
def test_who_may_run_no_container_gets_none_as_root_either(user: str, because: str) -> None:
    with pytest.raises(CannotLaunchError, match=because):
        Accounts(ExecutorSettings()).of(user)


@as_root
def test_the_nodes_own_user_stays_as_it_is_and_the_lists_of_users_are_kept_to() -> None:
    assert Accounts(ExecutorSettings()).of("") is Accounts(ExecutorSettings()).of("root") is None
    with pytest.raises(CannotLaunchError, match="banned-users"):
        Accounts(ExecutorSettings(banned_users="alice, root")).of("")
    allowed = Accounts(ExecutorSettings(allowed_system_users="daemon")).of("daemon")
    assert allowed is not None and allowed.uid == 1 and allowed.strict


def test_a_place_that_a_user_cannot_reach_is_told(tmp_path: Path) -> None:
    account = Account("alice", 4242, 4242, (4242,), "/")
    tmp_path.chmod(0o711)
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o700)
    facts = os.stat("/")

    def stat_of(path: str) -> os.stat_result:
        return os.stat(path) if path.startswith(str(tmp_path)) else facts

    refuse_unreachable(account, str(tmp_path), stat_of)
    with pytest.raises(CannotLaunchError, match="cannot reach") as caught:
        refuse_unreachable(account, str(tmp_path / "work"), stat_of)
    assert "0700" in caught.value.because and "local-dirs" in caught.value.hint


@pytest.mark.parametrize(("directory", "out"), [("/tmp\0x", ""), ("/tmp", "/tmp/a\0b")])
def test_a_path_with_a_nul_byte_is_told_and_nothing_begins(
    place: Path, cgroups: CgroupDriver, settings: ExecutorSettings, directory: str, out: str
) -> None:
    async def scenario() -> None:
        async with a_node(place, cgroups, settings) as node:
            request = node.executor._starter._requests.of(a_spec("c1", "echo", "begun", user=OTHER))
            odd = replace(request, working_directory=directory, stdout=out or request.stdout)
            node.executor._starter._requests.of = lambda spec: odd  # type: ignore[method-assign]
            node.executor.perform(LaunchContainer(a_spec("c1", "true", user=OTHER), CgroupLimits()))
            failed = await node.told(ContainerLaunchFailed, "c1")
            assert failed.exit_code == 126 and failed.reason.startswith("cannot start 'echo': ")

    asyncio.run(scenario())
