"""Pauses on the real kernel: a container to which others leave no processor is paused all the same, and what was
stopped before a pause stays stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executor import ContainerState
from executor.linux.pausing import Stopping
from executor.linux.procfs import read_stat, standing

from .node import soon, until
from .test_weights import G, O, an_executor, driver_of, outside, spinner, used, weight

RELEASE = tuple(int(part) for part in os.uname().release.split(".")[:2])


@pytest.mark.skipif(
    RELEASE < (6, 6), reason="before Linux 6.6 who waits already is not helped by a greater weight"
)
@pytest.mark.parametrize("mechanism", ["signal", "freezer"])
def test_one_that_is_left_nothing_stops_in_time_each_time(tmp_path: Path, mechanism: str) -> None:
    async def scenario() -> None:
        async with an_executor(tmp_path, pause_mechanism=mechanism) as (executor, groups):
            # Each has the one processor for itself but for a five-hundredth, for which the next waits.
            guaranteed, starved = spinner(executor, G), spinner(executor, O)
            await soon(lambda: starved.status.state is ContainerState.RUNNING, "it runs", 20)
            with outside(2) as others:
                group = Path(groups[0], os.path.basename(driver_of(executor).path(starved.container_id)))
                for _ in range(6):
                    begun = used(others[0])
                    await soon(lambda begun=begun: used(others[0]) > begun + 0.2, "the others run", 20)
                    starved.pause()
                    await soon(lambda: starved.status.state is not ContainerState.RUNNING, "it is told", 20)
                    await soon(lambda: starved.status.state is not ContainerState.PAUSING, "it was tried", 20)
                    assert starved.status.state is ContainerState.PAUSED, starved.status
                    assert weight(str(group)) == 0 and weight(groups[0]) == 1, "for as long as it takes only"
                    starved.resume()
                    await soon(lambda: starved.status.state is ContainerState.RUNNING, "it goes on", 20)
                guaranteed.kill(force=True)
                await soon(lambda: weight(groups[0]) == 0, "the node weighs nothing", 5)
                starved.pause()  # now the whole node waits
                await soon(lambda: starved.status.state is ContainerState.PAUSED, "it stands", 5)
                await soon(lambda: weight(groups[0]) == 0, "the node weighs nothing again", 5)
            starved.kill(force=True)

    asyncio.run(scenario())


def state(pid: int) -> str:
    found = read_stat(pid)
    return "" if found is None else found.state


@contextmanager
def programs(*texts: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Python programs, in turn; each has the pid of the one before it as its argument."""
    made: list[subprocess.Popen[bytes]] = []
    try:
        for text in texts:
            words = [sys.executable, "-S", "-E", "-c", text, *(str(one.pid) for one in made[-1:])]
            made.append(subprocess.Popen(words, stdout=subprocess.PIPE))
        yield made
    finally:
        for one in made:
            one.kill()
            one.communicate()


def paused(pids: list[int]) -> Stopping:
    stopping = Stopping(lambda: pids)
    until(lambda: stopping.advance(0.1), "all stand")
    return stopping


STOPS = "import os, signal\nwhile True: os.kill(os.getpid(), signal.SIGSTOP)"
WAKES = "import os, signal, sys\nwhile True: os.kill(int(sys.argv[1]), signal.SIGCONT)"
TRACES = """import ctypes, os, signal
trace = ctypes.CDLL(None).ptrace
traced = os.fork()
if not traced:
    trace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(traced, 0)
print(traced, flush=True)
_, status = os.waitpid(traced, 0)
print(os.WSTOPSIG(status), flush=True)"""


def test_who_was_stopped_is_left_and_whoever_wakes_it_is_stopped_first() -> None:
    with programs(STOPS, WAKES) as (stops, wakes):
        pids = [stops.pid, wakes.pid]
        for _ in range(30):
            stopping = paused(pids)
            assert all(map(standing, pids)), "one that was found stopped has been continued"
            assert {pid for pid, _ in stopping.left} <= {stops.pid}
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def test_one_that_a_tracer_of_the_container_holds_is_left_and_that_of_another_is_not() -> None:
    with programs(TRACES) as (tracer,):
        assert tracer.stdout is not None
        traced = int(tracer.stdout.readline())
        until(lambda: state(traced) == "t", "it is traced")
        stopping = paused([traced, tracer.pid])
        assert [pid for pid, _ in stopping.left] == [traced]
        assert paused([traced]).left == ()
        for pid in (traced, tracer.pid):
            os.kill(pid, signal.SIGCONT)
