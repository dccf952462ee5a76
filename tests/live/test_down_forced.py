"""`yopp down --force` ends the daemons whatever has become of their run directory, and says what it cannot remove."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnopp_cli.cluster.processes import ProcessId, wait_for_end

from .conftest import Yopp, a_yopp

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts"),
]


class Mounting(Yopp):
    """Its commands have a mount namespace of their own, in which the run directory is a file system of 8 MB."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.run_dir.mkdir(mode=0o700)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        assert self.holder.stdout is not None and self.holder.stdout.readline() == b"\n"
        self.mount("-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(self.run_dir))

    @property
    def inside(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt"]

    @property
    def command(self) -> list[str]:
        return [*self.inside, *super().command]

    def mount(self, *words: str) -> None:
        subprocess.run([*self.inside, "mount", *words], check=True)

    def sh(self, script: str) -> None:
        """Run a script in the home directory as this mount namespace sees it, which a ``cwd`` would not be."""
        subprocess.run([*self.inside, "sh", "-c", f"cd {self.home} && {script}"], check=True)

    def close(self) -> list[str]:
        self("down", "--force", code=None)
        self.holder.communicate()
        return super().close()


@pytest.fixture
def mounting() -> Iterator[Mounting]:
    with a_yopp(Mounting) as program:
        program("up", "--vcores", "1", "--memory", "512")
        program("run", "--detach", "sleep", "1234")
        yield program


def read_only(yopp: Mounting) -> None:
    yopp.mount("--bind", str(yopp.run_dir), str(yopp.run_dir))
    yopp.mount("-o", "remount,bind,ro", str(yopp.run_dir))


def empty_and_read_only(yopp: Mounting) -> None:
    yopp.mount("-t", "tmpfs", "-o", "ro,mode=700", "tmpfs", str(yopp.run_dir))


def no_lock_and_read_only(yopp: Mounting) -> None:
    yopp.sh("rm run/lock; ln -s elsewhere run/lock")
    read_only(yopp)


def full(yopp: Mounting) -> None:
    yopp.sh(
        "rm run/lock run/*.pid; head -c 9m /dev/zero > run/full || :; : > run/rm.pid; : > run/nm-45454.pid"
    )


def elsewhere(yopp: Mounting) -> None:
    yopp.sh("mkdir other && mount -n --move run other && rmdir run")


def open_to_others(yopp: Mounting) -> None:
    yopp.sh("chmod 777 run && rm run/*.pid")


@pytest.mark.parametrize(
    "change", [read_only, empty_and_read_only, no_lock_and_read_only, full, elsewhere, open_to_others]
)
def test_the_daemons_end(mounting: Mounting, change: object) -> None:
    files = Path(f"/proc/{mounting.holder.pid}/root{mounting.run_dir}").glob("*.pid")
    daemons = [process for file in files if (process := ProcessId.of(int(file.read_text())))]
    assert len(daemons) == 2
    for process in daemons:
        process.send(signal.SIGSTOP)  # else one whose socket is gone ends by itself
    assert callable(change)
    change(mounting)
    ended = mounting("down", "--force", code=None)
    assert "ended rm, nm-45454" in ended.stdout, ended.stderr
    assert not wait_for_end(daemons, 0)
    stays = change in (read_only, no_lock_and_read_only)
    assert ended.returncode == (stays or change is open_to_others), ended.stderr
    assert ("cannot be removed" in ended.stderr) == stays
    assert ("its mode 0777 gives others access" in ended.stderr) == (change is open_to_others)


@pytest.mark.parametrize("how", [(), ("--force",)])
def test_force_asks_nothing_and_an_error_is_no_question(cluster: Yopp, how: tuple[str, ...]) -> None:
    cluster("run", "--detach", "sleep", "1234")
    ended = cluster("down", *how, code=0 if how else 2)
    if not how:
        assert ended.stderr.startswith(
            "error: nothing was changed\n  because: there is no terminal for the question"
        )
