"""Starting daemons side by side: all of them, or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.cluster import launching
from yarnopp_cli.cluster.launching import DaemonSpec, Launch, daemon_environment
from yarnopp_cli.cluster.processes import ProcessId, end_processes
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.errors import EXIT_CONFIGURATION, EXIT_FAILURE, YoppError


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[RunDir]:
    made = RunDir.of(str(tmp_path / "run"))
    made.prepare()
    try:
        yield made
    finally:
        left = end_processes([daemon.process for daemon in made.daemons()], grace=5, force=True)
    assert not left


def start_daemons(run_dir: RunDir, orders: list[DaemonSpec], *, timeout: float) -> tuple[ProcessId, ...]:
    """Start all, or none."""
    launch = Launch(run_dir, orders, timeout=timeout)
    with launch.undone_on_failure(locked=True):
        launch.begin()
        launch.finish()
    return launch.processes


def order(run_dir: RunDir, name: str, behaviour: str) -> DaemonSpec:
    return DaemonSpec(name, "tests.lifecycle.fake_daemon", (run_dir.path, name, behaviour))


def seen(run_dir: RunDir, name: str) -> dict[str, Any]:
    """What the daemon found around itself."""
    found: dict[str, Any] = json.loads(Path(run_dir.path, f"{name}.seen").read_text())
    return found


def test_all_serve_in_sessions_of_their_own(run_dir: RunDir) -> None:
    started = start_daemons(
        run_dir, [order(run_dir, name, "serve") for name in ("rm", "nm-45454", "nm-45455")], timeout=20
    )
    assert [daemon.name for daemon in run_dir.daemons()] == ["rm", "nm-45454", "nm-45455"]
    assert tuple(daemon.process for daemon in run_dir.daemons()) == started
    for process, name in zip(started, ("rm", "nm-45454", "nm-45455"), strict=True):
        assert seen(run_dir, name) == {"pid": process.pid, "session": process.pid, "cwd": "/"}


def test_they_start_side_by_side(run_dir: RunDir) -> None:
    # The silent one gives nothing back, so only a start that does not wait for it lets the other be seen.
    with pytest.raises(YoppError, match="rm did not become ready"):
        start_daemons(
            run_dir, [order(run_dir, "rm", "silent"), order(run_dir, "nm-45454", "serve")], timeout=2
        )
    assert Path(run_dir.path, "nm-45454.seen").exists()


@pytest.mark.parametrize(
    ("behaviour", "message", "because", "code"),
    [
        ("refuse", "^no\n", "so", EXIT_CONFIGURATION),
        (
            "die",
            "nm-45454 did not start",
            "it ended with exit code 3; the last line of its log: the last straw",
            EXIT_FAILURE,
        ),
        ("silent", "nm-45454 did not become ready", "it has not reported for 3 s", EXIT_FAILURE),
        ("babble", "nm-45454 did not start", "it closed its pipe without a report", EXIT_FAILURE),
    ],
)
def test_one_that_fails_takes_the_others_with_it(
    run_dir: RunDir, behaviour: str, message: str, because: str, code: int
) -> None:
    with pytest.raises(YoppError, match=message) as refused:
        start_daemons(
            run_dir,
            [order(run_dir, "rm", "serve"), order(run_dir, "nm-45454", behaviour)],
            timeout=3 if behaviour == "silent" else 3600,  # the others are noticed at once
        )
    assert refused.value.because == because
    assert refused.value.exit_code == code
    assert run_dir.daemons() == ()
    assert not [name for name in os.listdir(run_dir.path) if name.endswith((".pid", ".sock"))]


def test_a_node_whose_rm_was_ended_is_not_waited_for(run_dir: RunDir) -> None:
    launch = Launch(run_dir, [order(run_dir, "nm-45454", "silent")], timeout=3600)
    launch.begin()
    with pytest.raises(YoppError, match="nm-45454 did not become ready") as refused:
        launch.finish()
    assert refused.value.because == "the ResourceManager has been ended"
    launch.take_back()
    assert run_dir.daemons() == ()


def test_what_ran_before_is_not_taken_back(run_dir: RunDir) -> None:
    (before,) = start_daemons(run_dir, [order(run_dir, "rm", "serve")], timeout=20)
    with pytest.raises(YoppError):
        start_daemons(run_dir, [order(run_dir, "nm-45454", "die")], timeout=20)
    daemons = run_dir.daemons()
    assert [daemon.process for daemon in daemons] == [before]
    assert os.path.exists(run_dir.rm_socket)


def test_a_signal_in_the_moment_of_a_start_leaves_no_daemon(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[subprocess.Popen[bytes]] = []

    def interrupted(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        began.append(genuine(*arguments, **named))
        signal.raise_signal(signal.SIGINT)
        return began[0]

    genuine = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_daemons(run_dir, [order(run_dir, "rm", "serve")], timeout=20)
    alive = began[0].poll() is None
    began[0].kill()
    assert not alive and not run_dir.daemons()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("resourcemanager --run-dir HERE", "rm"),
        ("nodemanager --run-dir HERE --port 45454 --ready-fd 3", "nm-45454"),
        ("nodemanager --run-dir HERE", ""),
        ("nodemanager --run-dir HERE --port", ""),
        ("nodemanager --run-dir HERE --port ../x", ""),
        ("nodemanager --run-dir HERE/x --port 45454", ""),
        ("restart --run-dir HERE --name rm", ""),
        ("resourcemanager", ""),
        ("", ""),
    ],
)
def test_only_the_arguments_of_a_daemon_name_it(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch, arguments: str, name: str
) -> None:
    """Any user can give a process the first words of them: that stopped `yopp down --force`."""
    words = f"x -P -m yarnopp_cli.daemons {arguments}".replace("HERE", run_dir.path).split()
    monkeypatch.setattr(launching, "read_bytes", lambda path: "".join(f"{word}\0" for word in words).encode())
    assert launching.daemon_of(1, run_dir) == name


def test_only_the_last_start_is_quoted_from_a_log(run_dir: RunDir) -> None:
    Path(run_dir.log_file("rm")).write_text("words of another life\n")
    with pytest.raises(YoppError) as refused:
        start_daemons(run_dir, [DaemonSpec("rm", "tests.lifecycle.no_such_module", ())], timeout=20)
    assert "No module named" in refused.value.because
    assert "another life" not in refused.value.because
    assert refused.value.hint == f"its log is {run_dir.log_file('rm')}"


def test_a_log_that_cannot_be_written(run_dir: RunDir) -> None:
    os.mkdir(run_dir.log_file("rm"))
    with pytest.raises(YoppError, match="cannot start rm") as refused:
        start_daemons(run_dir, [order(run_dir, "rm", "serve")], timeout=20)
    assert "rm.log" in refused.value.because
    assert run_dir.daemons() == ()


def test_this_package_is_importable_for_them_and_a_service_manager_is_not_theirs() -> None:
    environment = daemon_environment({"PYTHONPATH": "/x", "NOTIFY_SOCKET": "/run/n", "PATH": "/bin"})
    first, second = environment["PYTHONPATH"].split(os.pathsep)
    assert os.path.exists(os.path.join(first, "yarnopp_cli", "cluster", "launching.py"))
    assert second == "/x"
    assert "NOTIFY_SOCKET" not in environment
