"""`yopp top` over real daemons, in a real terminal (tmux): what is seen, what keys do, and the RM killed and back."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from yarnopp_cli.client.local import LocalClient

from .conftest import Yopp, wait_until

TMUX = shutil.which("tmux")
pytestmark = pytest.mark.live


class Terminal:
    """A tmux of its own, with one pane in which one command runs."""

    def __init__(self, yopp: Yopp, *command: str, size: tuple[int, int] = (100, 30), env: str = "") -> None:
        assert TMUX is not None
        self.folder = Path(tempfile.mkdtemp(prefix="yt"))
        self._base = [TMUX, "-S", str(self.folder / "s"), "-f", "/dev/null"]
        words = " ".join([env, sys.executable, "-m", "yarnopp_cli", *command]).strip()
        self._code = self.folder / "code"
        self._environment = yopp.environment | {"TERM": "xterm-256color"}
        line = f"{words}; echo $? > {self._code}.new; mv {self._code}.new {self._code}; sleep 600"
        self.tmux("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), line)

    @property
    def pid(self) -> int:
        """The process of the command."""
        shell = psutil.Process(int(self.tmux("list-panes", "-F", "#{pane_pid}")))
        return next(one.pid for one in shell.children(recursive=True) if "yarnopp_cli" in one.cmdline())

    def tmux(self, *words: str) -> str:
        ended = subprocess.run(
            [*self._base, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return ended.stdout.strip("\n")

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", *names)

    def sees(self, *words: str, timeout: float = 30) -> str:
        deadline = time.monotonic() + timeout
        while not all(word in (screen := self.screen) for word in words):
            assert time.monotonic() < deadline, f"not within {timeout} s: {words} in\n{screen}"
            time.sleep(0.05)
        return screen

    def ended(self) -> int:
        """Wait for the end of the command: its exit code."""
        wait_until(self._code.exists, 20, "the end of yopp top")
        return int(self._code.read_text())

    def close(self) -> None:
        subprocess.run([*self._base, "kill-server"], capture_output=True, timeout=20)
        shutil.rmtree(self.folder)


@pytest.fixture
def terminals(yopp: Yopp) -> Iterator[list[Terminal]]:
    """Terminals that are closed before the cluster is looked through for leftovers."""
    if TMUX is None:
        pytest.skip("tmux is not here: yopp top was not tried in a real terminal (apt install tmux)")
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


def test_it_watches_and_steers_a_real_cluster(cluster: Yopp, terminals: list[Terminal]) -> None:
    cluster("run", "-O", "-n", "4", "--memory", "64", "--detach", "sh", "-c", "echo hello from $$; sleep 300")
    top = Terminal(cluster, "top")
    terminals.append(top)
    top.sees("LIVE", "1 node", "RUNNING", "2 O", "2 queued")
    top.keys("2")
    top.sees("Containers (4)", "QUEUED", "sh -c")
    top.keys("C", "/", "RUNNING", "Space", "!_000002", "Enter")
    top.sees("filter: RUNNING !_000002", "Containers (1 of 4)")
    top.keys("Enter")
    top.sees("Execution-Type OPPORTUNISTIC", "hello from", "CPU-Used")
    top.keys("l")
    top.sees("Log", "hello from", "FOLLOW")
    top.keys("Escape", "")
    top.sees("Execution-Type")
    top.keys("p")
    top.sees("PAUSED")
    states = [one["yopp"]["state"] for one in cluster.containers()]
    assert states.count("PAUSED") == 1
    top.keys("r")
    top.sees("will resume when there is room")  # its vcore went to one that was queued
    top.keys("C-k")
    top.sees("Its work is lost", "y yes")
    top.keys("y")
    wait_until(
        lambda: any(one["exitCode"] == -105 for one in cluster.containers("-a")), 20, "one container killed"
    )
    top.keys("4")
    top.sees("Queue (", "waits for a vcore")
    top.keys("5")
    top.sees("ContainerCompleted")
    top.keys("q")
    assert top.ended() == 0


def test_the_rm_is_killed_and_comes_back(cluster: Yopp, terminals: list[Terminal]) -> None:
    top = Terminal(cluster, "top", "--interval", "0.5")
    terminals.append(top)
    top.sees("LIVE", "1 node")
    os.kill(int((cluster.run_dir / "rm.pid").read_text().split()[0]), signal.SIGKILL)
    top.sees("LOST since", "RUNNING")
    top.keys("2")
    top.sees("Containers", "LOST since")
    cluster("up", "--vcores", "2", "--memory", "1024")
    top.sees("LIVE", timeout=40)
    top.keys("1")
    top.sees("RUNNING")
    os.kill(top.pid, signal.SIGTERM)
    assert top.ended() == 143


def test_a_small_terminal_and_no_colours(cluster: Yopp, terminals: list[Terminal]) -> None:
    top = Terminal(cluster, "top", "--readonly", size=(80, 24), env="NO_COLOR=1")
    terminals.append(top)
    top.sees("READONLY", "LIVE", "Run G Run O  Queue Mem G Mem O VC G VC O CPU% Mem%")
    coloured = top.tmux("capture-pane", "-p", "-e")
    assert "\x1b[38;5;2m" not in coloured and "\x1b[32m" not in coloured
    for width, height in ((20, 5), (200, 50), (33, 9), (80, 24)):
        top.tmux("resize-window", "-x", str(width), "-y", str(height))
    top.sees("READONLY", "Mem%")
    top.keys("q")
    assert top.ended() == 0


def test_no_input_ends_it(cluster: Yopp, terminals: list[Terminal]) -> None:
    """Bytes that are not UTF-8, typed and pasted, and a sequence that no terminal sends."""
    top = Terminal(cluster, "top", env="LC_ALL=C.UTF-8")
    terminals.append(top)
    top.sees("LIVE", "1 node")
    top.keys("2", "/")
    for text in (b"\xfc", b"\x1b[200~a\xff\xfeq\x1b[201~", b"\x1b[9999999999u", b"\xe2\x82"):
        top.keys("-H", *(f"{byte:x}" for byte in text))
    top.keys("z", "Enter")
    top.sees("\N{REPLACEMENT CHARACTER}")
    os.kill(top.pid, signal.SIGINT)
    assert top.ended() == 130


@pytest.mark.parametrize("before", ["", "trap '' HUP;"])
def test_it_ends_with_its_terminal(cluster: Yopp, terminals: list[Terminal], before: str) -> None:
    """A window is closed, a connection lost; with SIGHUP and, below nohup, without."""
    terminal = Terminal(cluster, "top", env=before)
    terminals.append(terminal)
    terminal.sees("Nodes (1)", "LIVE")
    process = psutil.Process(terminal.pid)
    shell = process.parent()
    assert shell is not None
    try:
        terminal.tmux("kill-server")
        process.wait(15)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):  # with SIGHUP ignored the pane's shell goes on, too
            for one in [shell, *shell.children(recursive=True)]:
                one.kill()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_without_a_terminal_it_prints_a_frame_and_ends(cluster: Yopp) -> None:
    cluster("run", "-O", "-n", "3", "--memory", "64", "--detach", "sleep", "300")
    expected = ["QUEUED", "RUNNING", "RUNNING"]
    wait_until(
        lambda: sorted(one["yopp"]["state"] for one in cluster.containers()) == expected, what="two run"
    )
    ended = cluster("top", "-d", "0.2", timeout=30)
    assert "\x1b" not in ended.stdout and "RUNNING" in ended.stdout and "QUEUED" in ended.stdout
    assert len([line for line in ended.stdout.splitlines() if line.endswith("sleep 300")]) == 3
    document = json.loads(cluster("top", "--json", "-d", "0.2").stdout)
    assert {"top", "nodes", "apps", "containers"} <= set(document)
    lines = cluster("top", "--json", "-n", "2", "-d", "0.2").stdout.splitlines()
    assert len(lines) == 2 and all("top" in json.loads(line) for line in lines)
    assert cluster("top", "-delay", "0.2", "-rows", "1").stdout.count("more containers") == 1


def test_nodes_remember_the_last_minute(cluster: Yopp) -> None:
    cluster("run", "-O", "-n", "1", "--memory", "64", "--detach", "sleep", "300")
    with LocalClient(str(cluster.run_dir / "rm.sock")) as client:
        wait_until(lambda: len(client.containers()) == 1, 20, "it is allocated")
        (node,) = client.nodes()
        (name,) = [one.container_id for one in client.containers()]

        def measured() -> bool:
            told = client.usage_traces(node, (name,))
            return (
                set(told.containers) == {name} and len(told.containers[name]) >= 6 and len(told.machine) >= 6
            )

        wait_until(measured, 20, "two measurements")
        told = client.usage_traces(node, (name,))
    for numbers in (told.containers[name], told.machine):
        assert len(numbers) % 3 == 0 and all(number >= 0 for number in numbers)
        assert sorted(numbers[::3]) == list(numbers[::3])
    assert all(memory < 64 << 20 for memory in told.containers[name][2::3])
    assert all(memory > 64 << 20 for memory in told.machine[2::3])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look at somebody else's cluster")
def test_root_sees_somebody_elses_cluster_readonly(cluster: Yopp, terminals: list[Terminal]) -> None:
    owner = os.stat(cluster.run_dir)
    os.chown(cluster.run_dir, 65534, -1)
    try:
        top = Terminal(cluster, "top")
        terminals.append(top)
        assert "Drain" not in top.sees("READONLY", "LIVE")
        top.keys("2")
        assert "Kill" not in top.sees("Containers (")
        top.keys("q")
        assert top.ended() == 0
        assert "belongs to user 65534" in cluster("ps", code=77).stderr
    finally:
        os.chown(cluster.run_dir, owner.st_uid, -1)


def test_without_a_cluster_it_says_so(yopp: Yopp) -> None:
    ended = yopp("top", code=69)
    assert "yopp up" in ended.stderr
    assert "at least 0.1 s" in yopp("top", "--interval", "0", code=2).stderr
