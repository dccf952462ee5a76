"""The end of what is under way, and the namespace of a node that root does not run."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from executor.errors import CgroupError
from executor.linux import context as contexts
from executor.linux import launcher
from executor.linux.cgroups.groups import KILL_DEADLINE_SECONDS, kill_until_empty
from executor.linux.cgroups.none import NoCgroups
from executor.linux.context import ExecutorContext


def a_context() -> ExecutorContext:
    loop = asyncio.get_running_loop()
    return ExecutorContext(NoCgroups(), mock.Mock(), loop=loop, post=mock.Mock(), clock=loop.time)


def test_the_end_does_not_wait_for_what_the_system_never_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CLOSE_SECONDS", 0.05)
    work = mock.AsyncMock(side_effect=OSError(errno.EMFILE, os.strerror(errno.EMFILE)))

    async def scenario() -> None:
        context = a_context()
        context.spawn_until_done(work)
        await asyncio.wait_for(context.finish(), 5)

    asyncio.run(scenario())
    assert work.await_count >= 2


def test_an_executor_that_has_ended_hurries_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CLOSE_SECONDS", 0.01)

    async def scenario() -> None:
        context = a_context()
        await context.finish()
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, later.set)
        await later.wait()
        assert context.cgroups.kill_seconds == KILL_DEADLINE_SECONDS

    asyncio.run(scenario())


def test_a_kill_does_not_give_up_on_those_who_need_the_cpu_to_end() -> None:
    """On a busy host one with the least weight may wait for it for seconds. Here each is followed by another."""
    spinners: list[subprocess.Popen[str]] = []

    def processes() -> list[int]:
        if (not spinners or spinners[-1].poll() is not None) and len(spinners) < 4:
            words = [sys.executable, "-I", "-S", "-c", "print(flush=True)\nwhile True: pass"]
            spinners.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            with spinners[-1].stdout as said:  # type: ignore[union-attr]
                said.readline()
        return [spinners[-1].pid] if spinners[-1].poll() is None else []

    try:
        kill_until_empty("c1", processes, patience=lambda: 0.0)
        assert [one.wait(20) for one in spinners] == [-signal.SIGKILL] * 4
    finally:
        for one in spinners:
            one.kill()
            one.wait()


def test_a_kill_gives_up_on_those_who_do_not_end() -> None:
    """Nobody can be made to sleep uninterruptibly here: a zombie, which its parent does not collect, does not end
    either."""
    child = os.fork()
    if not child:
        os._exit(0)
    try:
        with pytest.raises(CgroupError, match="1 processes of c1 do not end"):
            kill_until_empty("c1", lambda: [child], patience=lambda: 0.0)
    finally:
        os.waitpid(child, 0)


TRY = """
import _ctypes, os, runpy, sys
confine = runpy.run_path(sys.argv[1])["confine"]
if os.getuid() == 0:
    os.setresuid(65534, 65534, 65534)
confine([sys.argv[2]])
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")))
"""


def test_containers_of_a_node_that_root_does_not_run_may_gain_privileges(tmp_path: Path) -> None:
    before = Path("/proc/self/status").read_text(encoding="utf-8").partition("NoNewPrivs:")[2].split()[0]
    command = [sys.executable, "-I", "-S", "-c", TRY, launcher.__file__, str(tmp_path)]
    tried = subprocess.run(command, capture_output=True, text=True, check=True)
    assert tried.stdout.split() == [before]


def test_where_mounts_would_be_the_hosts_nothing_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def call(name: str, arguments: tuple[object, ...]) -> int:
        called.append(name)
        return -1 if name == "mount" else 0

    kernel = mock.Mock(dlsym=lambda library, name: name, call_function=call)
    monkeypatch.setitem(sys.modules, "_ctypes", kernel)
    launcher.confine(["/sys/fs/cgroup"])
    assert called == ["unshare", "mount"]
