"""Which directory is meant, who may use it, and which daemons live in it."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnopp_cli.cluster.processes import ProcessId
from yarnopp_cli.cluster.rundir import SUN_PATH_BYTES, RunDir
from yarnopp_cli.cluster.state import forget_cluster, read_plan, running_configuration
from yarnopp_cli.errors import EXIT_FAILURE, EXIT_NOT_PERMITTED, YoppError

from ..strangers import NOBODY_UID

HOLDER = """
import fcntl, os, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(f"{os.getpid()}\\n")
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    made = RunDir.of(str(tmp_path / "run"))
    made.prepare()
    return made


@pytest.fixture
def holder(run_dir: RunDir) -> Iterator[subprocess.Popen[str]]:
    """A process that holds rm.pid as a living RM does."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", HOLDER, run_dir.pid_file("rm")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_order_of_precedence() -> None:
    environ = {"YOPP_RUN_DIR": "/var/tmp/y", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert RunDir.resolve("/srv/x", environ, 1000, "/home/u").path == "/srv/x"
    assert RunDir.resolve(None, environ, 1000, "/home/u").path == "/var/tmp/y"
    assert RunDir.resolve(None, {}, 0, "/root").path == "/run/yopp"
    assert RunDir.resolve(None, {}, 1000, "/home/u").path == "/home/u/.local/state/yopp/run"
    assert RunDir.resolve(None, {"XDG_RUNTIME_DIR": "/run/user/7"}, 1000, "/home/u") == RunDir.resolve(
        None, {}, 1000, "/home/u"
    )


def test_where_the_state_is() -> None:
    assert RunDir.resolve("/srv/x", {}, 0, "/root").state_dir == "/srv/x/state"
    assert RunDir.resolve(None, {}, 0, "/root").state_dir == "/var/lib/yopp"
    assert RunDir.resolve(None, {}, 1000, "/home/u").state_dir == "/home/u/.local/state/yopp"


def test_spelling_out_the_default_means_the_same_cluster() -> None:
    assert RunDir.resolve("/run/yopp/", {}, 0, "/root") == RunDir.resolve(None, {}, 0, "/root")


def test_no_home_and_nothing_named() -> None:
    with pytest.raises(YoppError, match="no run directory") as refused:
        RunDir.resolve(None, {}, 1000, "")
    assert "--run-dir" in refused.value.hint


def test_a_link_among_the_parents_names_the_same_cluster(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert RunDir.of(str(tmp_path / "link" / "run")) == RunDir.of(str(tmp_path / "real" / "run"))
    assert RunDir.of(str(tmp_path / "real" / "other")).key != RunDir.of(str(tmp_path / "real" / "run")).key


def test_a_relative_name_is_the_same_directory_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunDir.of("run").path == os.path.join(os.path.realpath(tmp_path), "run")


def test_it_is_made_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        RunDir.of(str(tmp_path / "run")).prepare()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700


def test_resolving_and_checking_make_nothing(tmp_path: Path) -> None:
    RunDir.of(str(tmp_path / "run")).check()
    assert RunDir.of(str(tmp_path / "run")).daemons() == ()
    assert list(tmp_path.iterdir()) == []


def test_an_open_directory_of_ours_is_closed_if_empty_and_refused_if_not(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir(mode=0o755)
    RunDir.of(str(path)).prepare()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    path.chmod(0o750)
    with pytest.raises(YoppError, match="refused") as refused:
        RunDir.of(str(path)).prepare()
    assert refused.value.exit_code == EXIT_NOT_PERMITTED
    assert "0750" in refused.value.because
    assert f"chmod 700 {path}" in refused.value.hint


def test_a_check_changes_no_mode(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    path.chmod(0o755)
    RunDir.of(str(path)).check()  # nothing is there, and nobody else can put anything there
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    path.chmod(0o775)
    with pytest.raises(YoppError, match="refused"):
        RunDir.of(str(path)).check()
    assert stat.S_IMODE(path.stat().st_mode) == 0o775
    RunDir.of(str(path)).check(closing=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_root_may_look_at_anybodys_and_does_nothing_else_there(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)
    RunDir.of(str(path)).check(guest=True)
    for use in (RunDir.prepare, RunDir.check):
        with pytest.raises(YoppError, match="refused"):
            use(RunDir.of(str(path)))
    path.chmod(0o755)
    RunDir.of(str(path)).check(guest=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    (path / "x").touch()
    with pytest.raises(YoppError, match="refused"):
        RunDir.of(str(path)).check(guest=True)


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to("real")
    for use in (RunDir.prepare, RunDir.check):
        with pytest.raises(YoppError, match="refused") as refused:
            use(RunDir.of(str(tmp_path / "run")))
        assert refused.value.exit_code == EXIT_NOT_PERMITTED
        assert str(tmp_path / "real") in refused.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", 65534, 65534)
    with pytest.raises(YoppError, match="refused") as refused:
        RunDir.of(str(tmp_path / "run")).prepare()
    assert refused.value.exit_code == EXIT_NOT_PERMITTED
    assert "65534" in refused.value.because


@pytest.mark.parametrize("path", ["/proc/yopp", "/dev/null/yopp", "/sys/yopp/run"])
def test_a_directory_that_cannot_be_is_a_three_part_error(path: str) -> None:
    with pytest.raises(YoppError, match="cannot use") as refused:
        RunDir.of(path).prepare()
    assert refused.value.exit_code == EXIT_FAILURE
    assert refused.value.because
    assert "--run-dir" in refused.value.hint


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(YoppError, match="refused") as refused:
        RunDir.of(str(tmp_path / "run")).prepare()
    assert "not a directory" in refused.value.because


def test_sockets_of_a_long_path_go_to_a_short_one_that_is_written_down(tmp_path: Path) -> None:
    longest = RunDir.of("/" + "x" * (SUN_PATH_BYTES - len("//nm-65535.sock")))
    assert longest.socket_dir == longest.path
    assert len(longest.nm_socket(65535).encode()) == SUN_PATH_BYTES
    deep = tmp_path.joinpath(*["d" * 60] * 3)
    made = RunDir.of(str(deep / "run"))
    assert len(made.nm_socket(65535).encode()) <= SUN_PATH_BYTES
    try:
        made.prepare()
        assert made.read("where") == made.socket_dir + "\n"
        assert stat.S_IMODE(os.stat(made.socket_dir).st_mode) == 0o700
        assert made.rm_socket.startswith(f"/tmp/yopp-{os.getuid()}/")
    finally:
        forget_cluster(made)
    assert not os.path.exists(made.socket_dir)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("part", ["parent", "directory"])
def test_a_socket_directory_of_somebody_else_is_refused(tmp_path: Path, part: str) -> None:
    """He may have made it in /tmp before the cluster was there, to be called in its daemons' place."""
    made = RunDir(str(tmp_path / "run"), str(tmp_path / "state"), str(tmp_path / "sockets" / "x"))
    made.prepare()
    made.check()
    path = tmp_path / "sockets" if part == "parent" else tmp_path / "sockets" / "x"
    os.chown(path, 65534, 65534)
    for use in (RunDir.check, RunDir.prepare):
        with pytest.raises(YoppError, match="the directory of the sockets") as refused:
            use(made)
        assert refused.value.exit_code == EXIT_NOT_PERMITTED


def test_multibyte_names_are_counted_in_bytes() -> None:
    assert RunDir.of("/" + "ü" * 60).socket_dir != "/" + "ü" * 60


def test_files_are_replaced_whole_and_private(run_dir: RunDir) -> None:
    run_dir.write("site.json", "one")
    run_dir.write("site.json", "two")
    assert run_dir.read("site.json") == "two"
    assert stat.S_IMODE(os.stat(run_dir.site_file).st_mode) == 0o600
    assert sorted(os.listdir(run_dir.path)) == ["site.json", "state"]
    assert run_dir.read("nodes.json") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_said_and_leaves_no_half_file(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", small], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr!r}")
    try:
        run_dir = RunDir.of(str(small / "run"))
        run_dir.prepare()
        run_dir.write("site.json", "old")
        with pytest.raises(YoppError, match="cannot write") as refused:
            run_dir.write("site.json", "x" * 100_000)
        assert refused.value.because == "no space left on device"
        assert "free some space" in refused.value.hint
        assert run_dir.read("site.json") == "old"
        assert sorted(os.listdir(run_dir.path)) == ["site.json", "state"]
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_daemon_lives_while_it_holds_its_pid_file(run_dir: RunDir, holder: subprocess.Popen[str]) -> None:
    daemon = run_dir.daemon("rm")
    assert daemon is not None
    assert daemon.process == ProcessId.of(holder.pid)
    assert run_dir.daemons() == (daemon,)
    Path(run_dir.rm_socket).touch()
    assert run_dir.remove_stale_files() == ()
    holder.kill()
    holder.wait()
    assert run_dir.daemon("rm") is None
    assert run_dir.daemons() == ()
    assert run_dir.remove_stale_files() == (run_dir.pid_file("rm"), run_dir.rm_socket)
    assert os.listdir(run_dir.path) == ["state"]


def test_a_pid_that_somebody_else_has_now_is_no_daemon(run_dir: RunDir) -> None:
    Path(run_dir.pid_file("nm-45454")).write_text(f"{os.getpid()}\n")
    assert run_dir.daemon("nm-45454") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
def test_a_process_of_another_user_is_no_daemon_though_the_file_names_it(
    run_dir: RunDir, holder: subprocess.Popen[str]
) -> None:
    """A locked file of a user who runs containers may name any process, and who ends that daemon would end it."""
    theirs = subprocess.Popen(["sleep", "60"], user=NOBODY_UID, extra_groups=[])
    try:
        Path(run_dir.pid_file("rm")).write_text(f"{theirs.pid}\n")
        assert run_dir.daemon("rm") is None
    finally:
        theirs.kill()
        theirs.wait()


@pytest.mark.parametrize("name", ["nm-00001", "nm-\u0664\u0665", "nm-1\n"])
def test_a_name_that_no_node_has_is_no_daemons(run_dir: RunDir, name: str) -> None:
    Path(run_dir.pid_file(name)).touch()
    assert run_dir.stale_files() == ()


@pytest.mark.parametrize("text", ["", "x", "-1", "99999999999999999999", "\0\0"])
def test_a_garbled_pid_file_is_no_daemon(run_dir: RunDir, text: str) -> None:
    Path(run_dir.pid_file("rm")).write_text(text)
    assert run_dir.daemon("rm") is None


def test_only_files_of_daemons_are_leftovers(run_dir: RunDir) -> None:
    kept = ["rm.log", "nm-1.pid.old", "other.sock", "nm-x.pid"]
    for name in [*kept, "nm-45454.pid", "nm-45454.sock"]:
        Path(run_dir.path, name).touch()
    run_dir.remove_stale_files()
    assert sorted(os.listdir(run_dir.path)) == sorted([*kept, "state"])


def test_the_lock_is_exclusive_and_says_who_has_it(run_dir: RunDir) -> None:
    assert not run_dir.is_changing()
    with run_dir.lock():
        assert run_dir.is_changing()
        with pytest.raises(YoppError, match="another yopp") as refused, run_dir.lock(timeout=0.05):
            pass
        assert f"process {os.getpid()}" in refused.value.because
    assert not run_dir.is_changing()
    with run_dir.lock(timeout=0.05):
        pass


def test_the_lock_is_waited_for(run_dir: RunDir) -> None:
    descriptor = os.open(run_dir.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    timer = threading.Timer(0.1, os.close, [descriptor])
    timer.start()
    with run_dir.lock(timeout=10):
        assert not timer.is_alive() or timer.finished.is_set()
    timer.join()


@pytest.mark.parametrize("name", ["rm.pid", "nm-45454.pid", "rm.http", "site.json", "nodes.json", "lock"])
@pytest.mark.parametrize("kind", ["fifo", "directory", "nested", "bytes"])
def test_what_is_no_file_of_ours_stops_nobody(run_dir: RunDir, name: str, kind: str) -> None:
    path = Path(run_dir.path, name)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "nested":
            path.write_bytes(b"[" * 100_000)
        case "bytes":
            path.write_bytes(b"\xff\xfe\0")
    assert (run_dir.daemons(), run_dir.is_changing()) == ((), False)
    assert kind == "nested" or run_dir.read(name) is None
    assert (read_plan(run_dir), running_configuration(run_dir)) == (None, None)
    run_dir.remove_stale_files()
    if kind != "directory":
        with run_dir.lock(timeout=1):
            run_dir.write("site.json", "{}")
