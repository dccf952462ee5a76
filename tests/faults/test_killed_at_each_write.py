"""A node dies by SIGKILL at each call by which its records are written, and the next one goes on: real containers,
real processes. Nothing is lost, nothing that began runs twice, no code is made up, nothing is left.

``test_store.py`` does the same to the records alone, ``test_rm_recovery.py`` to the ResourceManager's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from executor.core.events import ContainerScheduled, RecoveryCompleted
from executor.core.scheduler import ContainerScheduler
from executor.driver import Driver
from executor.linux import journal
from executor.linux.cgroups import discover
from executor.linux.container_executor import LinuxContainerExecutor
from executor.linux.procfs import scan
from executor.records import ContainerSpec, ContainerState, ContainerStatus, ExecutionType, Resource
from executor.settings import ExecutorSettings
from tests.executor.linux.node import soon

CODES = {"first": 0, "second": 7, "third": 0}
TOTAL = Resource(1024, 2)
"""Of three containers one waits."""


class DyingOs:
    """What the journal sees of the operating system. At its call number ``dies_at`` the process dies, ``after`` it or
    before; 0 is never."""

    def __init__(self, dies_at: int, after: bool) -> None:
        self.dies_at, self.after, self.calls = dies_at, after, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._dying(real) if name in {"open", "write", "rename", "unlink", "ftruncate"} else real

    def _dying(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls == self.dies_at and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return real(*arguments)
            finally:
                if self.calls == self.dies_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        return call


async def live(directory: Path, settings: ExecutorSettings, group: str) -> None:
    """A life of the node, to its end in order: what the ResourceManager has not heard the end of, it is told again."""
    heard = directory / "heard"

    def report(status: ContainerStatus) -> None:
        if status.state is ContainerState.DONE and status.container_id not in ended:
            ended[status.container_id] = status.exit_status
            with open(heard, "a") as file:
                file.write(f"{status.container_id} {status.exit_status}\n")

    ended: dict[str, int] = {}
    if heard.exists():
        ended = {name: int(code) for name, code in map(str.split, heard.read_text().splitlines())}
    machine = ContainerScheduler(
        TOTAL, settings, physical_cores=2, wall_offset=time.time() - time.monotonic()
    )
    driver: Driver[Any, Any] = Driver(machine, lambda command: linux.perform(command), validate=True)
    linux = LinuxContainerExecutor(
        settings,
        post=driver.post,
        work_dir=directory / "work",
        log_dir=directory / "logs",
        state_dir=directory / "state",
        cgroups=discover(settings, group=group),
        report=report,
    )
    found = linux.recover()
    for event in found:
        driver.post(event)
    driver.post(RecoveryCompleted())
    linux.start()
    known = {event.record.spec.container_id for event in found} | set(ended)
    for name, code in CODES.items():
        if name not in known:
            script = f"echo {name} >> {directory}/ran; sleep 0.02; exit {code}"
            kind = ExecutionType.OPPORTUNISTIC if name == "third" else ExecutionType.GUARANTEED
            driver.post(ContainerScheduled(ContainerSpec(name, ("sh", "-c", script), Resource(64, 1), kind)))
    await soon(lambda: set(ended) == set(CODES), "all end")
    driver.step(lambda _: machine.forget(list(ended)))
    await linux.close()
    driver.close()
    linux.remove_everything()


def a_life(directory: Path, settings: ExecutorSettings, group: str, dies_at: int, after: bool) -> int:
    """Run it in a process of its own; how that ended, as ``waitpid`` says it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            journal.os = DyingOs(dies_at, after)  # type: ignore[attr-defined]
            asyncio.run(live(directory, settings, group))
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("mode", "pooled"),
    [
        ("none", 0),
        pytest.param("auto", 0, marks=pytest.mark.cgroup),
        pytest.param("auto", 3, marks=pytest.mark.cgroup),
    ],
    ids=["session", "outside", "slot"],
)
@pytest.mark.timeout(120)
def test_killed_at_each_write(tmp_path: Path, mode: str, pooled: int, after: bool) -> None:
    settings = ExecutorSettings(cgroups_mount=mode, max_queue_length=10, pooled_groups=pooled)
    deaths = 0
    for dies_at in itertools.count(1):
        directory = tmp_path / str(dies_at)
        directory.mkdir()
        group = f"test-{os.getpid()}-{time.monotonic_ns():x}"
        try:
            end = a_life(directory, settings, group, dies_at, after)
            died = os.WIFSIGNALED(end)
            deaths += died
            assert (a_life(directory, settings, group, 0, False) if died else end) == 0
        finally:
            driver = discover(settings, group=group)
            left = driver.stale_groups()
            for name in left:
                driver.kill(name)
                driver.remove(name, 2.0)
            driver.remove_parent()
        check(directory, dies_at)
        assert not left
        if not died:
            break
    assert deaths >= 10, "its records were written, and it died at each call"


def check(directory: Path, dies_at: int) -> None:
    """What must hold, wherever it died."""
    ran = Counter((directory / "ran").read_text().split())
    ends = {name: int(code) for name, code in map(str.split, (directory / "heard").read_text().splitlines())}
    assert set(ends) == set(CODES), f"call {dies_at}: each is told of"
    for name, code in CODES.items():
        assert ran[name] <= 1, f"call {dies_at}: {name} ran {ran[name]} times"
        if ends[name] >= 0:
            assert (ends[name], ran[name]) == (code, 1), f"call {dies_at}: {name}"
        else:
            assert ran[name] == 0, f"call {dies_at}: {name} ran, and is said to be lost: {ends[name]}"
    left = {name: os.listdir(directory / name) for name in ("state", "work") if (directory / name).exists()}
    assert left == {}, f"call {dies_at}"
    mark = os.fsencode(f"{directory}/")
    assert not [entry for entry in scan().values() if mark in cmdline(entry.pid)]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
