"""Root enters a container of another user: its programs have no terminal of root's, and all else is as before."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from executor.linux.launcher import KEYCTL
from tests.executor.linux.test_accounts import with_a_key
from tests.patience import PATIENCE

from .conftest import Yopp, a_yopp, wait_until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may enter containers of others"),
    pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="others cannot run the attack"),
]
OTHER = "nobody"
PYTHON = "/usr/bin/python3"
ATTACK = """
import ctypes, fcntl, os, sys
if ctypes.CDLL(None).syscall(int(sys.argv[2]), 10, -3, b"user", b"yopp-test", 0) > 0:
    print("ROOTS key")
roots = os.stat(sys.argv[1]).st_rdev
found = list(range(256))
for path in ("/dev/tty", sys.argv[1], *("/proc/self/fd/%d" % one for one in range(20))):
    for how in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
        try:
            found.append(os.open(path, how | os.O_NONBLOCK))
        except OSError:
            pass
for one in found:
    for code, word in [(0x5412, bytes([key])) for key in b"injected\\n"] + [(0x541c, b"\\2")]:
        try:
            if os.fstat(one).st_rdev == roots:
                print("ROOTS")
            fcntl.ioctl(one, code, word)
        except OSError:
            pass
print(*(line for line in open("/proc/self/status") if "NoNewPrivs" in line))
print("attacked")
"""
"""Opens what it can reach, and types into each terminal (TIOCSTI, TIOCLINUX); the argument is root's terminal."""


class Window:
    """A terminal in which a script of root's runs."""

    def __init__(self, yopp: Yopp, script: str) -> None:
        self.shown = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            with_a_key()
            os.chdir(yopp.home)
            words = " ".join(map(shlex.quote, yopp.command))
            os.execve("/bin/sh", ["sh", "-c", script.replace("YOPP", words)], yopp.environment)
        self.name = os.readlink(f"/proc/{self.pid}/fd/0")

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> str:
        """Wait until it shows this; all that it has shown since the last call."""
        return self._read(lambda: text in self.shown, text)

    def end(self) -> str:
        """What it shows until its script has ended."""
        ended: list[bool] = []
        return self._read(lambda: bool(ended), "the end", ended)

    def _read(self, enough: Callable[[], bool], what: str, ended: list[bool] | None = None) -> str:
        deadline = time.monotonic() + 30 * PATIENCE
        while not enough():
            assert time.monotonic() < deadline, f"no {what!r} in {self.shown!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode(errors="replace").replace("\r", "")
                except OSError:  # no process has the other side open
                    assert ended is not None, f"ended without {what!r}: {self.shown!r}"
                    ended.append(True)
        shown, self.shown = self.shown, ""
        return shown


@contextmanager
def window(yopp: Yopp, script: str) -> Iterator[Window]:
    found = Window(yopp, script)
    try:
        yield found
    finally:
        os.close(found.master)
        os.kill(found.pid, signal.SIGKILL)
        os.waitpid(found.pid, 0)


@pytest.fixture(scope="module")
def yopp() -> Iterator[Yopp]:
    """A cluster of root's that serves other users, with a container of one."""
    with a_yopp(Yopp) as program:
        place = program.home / "place"
        place.mkdir()
        directories = (f"-Dyarn.nodemanager.{one}-dirs={place / one}" for one in ("local", "log"))
        program("up", "--vcores", "2", "--memory", "1024", *directories)
        program("run", "-d", "-q", "--user", OTHER, "--memory", "64", "sleep", "600")
        wait_until(lambda: program.containers("--state", "RUNNING"), what="it runs")
        yield program


@pytest.mark.parametrize("how", ["at the terminal", "from a pipe", "into a pipe", "as JSON", "from nothing"])
def test_who_is_entered_types_nothing_into_roots_terminal(yopp: Yopp, how: str) -> None:
    inside = f"container shell-into last -- {PYTHON} -I -c {shlex.quote(ATTACK)} $ROOTS {KEYCTL[os.uname().machine]}"
    script = {
        "at the terminal": f"YOPP {inside}",
        "from a pipe": f"echo | YOPP {inside}",
        "into a pipe": f"YOPP {inside} | cat",
        "as JSON": f"YOPP {inside.replace('last', 'last --json', 1)}",
        "from nothing": f"YOPP {inside} </dev/null",
    }[how]
    with window(
        yopp, f"ROOTS=$(tty); exec 7<>/dev/tty 8>&1; {script}; echo ended $?; read -r line; echo read $line"
    ) as roots:
        shown = roots.until("ended 0")
        assert "attacked" in shown and "ROOTS" not in shown
        assert "NoNewPrivs: 1" in " ".join(shown.split())
        roots.type("honest\n")
        assert "read honest" in roots.end()


def test_a_shell_at_a_terminal_of_its_own_is_as_at_roots(yopp: Yopp) -> None:
    with window(
        yopp, "stty rows 33 cols 77; YOPP container shell-into last -- sh; echo ended $?; stty -a"
    ) as roots:
        roots.type("PS1=; echo here $(stty size) $(id -un)\n")
        assert "here 33 77 nobody" in roots.until("nobody\n")
        roots.resize(44, 99)
        roots.type("until [ \"$(stty size)\" = '44 99' ]; do :; done; echo si''zed\n")
        roots.until("sized")
        roots.type("sleep 100\n")
        wait_until(lambda: sleeps(roots.pid), what="it sleeps")
        roots.type("\x03")
        roots.type("echo co''de $?\n")
        roots.until("code 130")
        roots.type("seq 100000 | tr -d '\\n' | fold -w 50 | tail -n 1; exit 7\n")
        shown = roots.until("ended 7") + roots.end()
        assert "99999100000" in shown
        assert " echo " in shown, "root's terminal is as before"


def sleeps(parent: int) -> bool:
    return any(one.cmdline() == ["sleep", "100"] for one in psutil.Process(parent).children(recursive=True))
