"""The client's loop against a cluster of one thread: answers, lost connections, signals."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from executor.records import Resource
from yarnopp_cli.jobs.loop import MasterLoop
from yarnopp_cli.jobs.watching import Left, SignalWatch
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.records import jobs
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.records.master_protocol import AllocateResponse
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.rpc.blocking import Connection

from .fake import ATTEMPT, TOKEN, FakeCluster


class Recorder:
    """An observer that only remembers; ``when_running`` is called once something runs."""

    def __init__(self, when_running: Callable[[], None] | None = None) -> None:
        self.tasks: list[jobs.TaskReport] = []
        self.reasons: list[str] = []
        self.wanted: m.StopRequested | None = None
        self._when_running = when_running

    def task_changed(self, task: jobs.TaskReport) -> None:
        self.tasks.append(task)
        if task.state is jobs.TaskState.RUNNING and self._when_running is not None:
            call, self._when_running = self._when_running, None
            call()

    def notice(self, text: str) -> None:
        raise AssertionError(text)

    def stopping(self, reason: str) -> None:
        self.reasons.append(reason)

    def tick(self, now: float) -> float | None:
        return None

    def stop_wanted(self) -> m.StopRequested | None:
        wanted, self.wanted = self.wanted, None
        return wanted


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="yl") as made:
        yield Path(made)


def master(count: int) -> JobMaster:
    return JobMaster(plan_run(("true",), TaskSpec(1, Resource(10, 1)), count), ATTEMPT, TOKEN)


def run(
    cluster: FakeCluster, count: int, observer: Recorder, signals: SignalWatch | None = None
) -> m.EndMaster:
    with Connection(cluster.address) as connection:
        return MasterLoop(master(count), connection, observer, signals, validate=True).run()


def test_a_job_from_its_first_call_to_its_last(directory: Path) -> None:
    cluster = FakeCluster(directory, [0, 7, 0])
    observer = Recorder()
    end = run(cluster, 3, observer)
    cluster.close()
    assert (end.exit_code, end.final_status) == (7, FinalApplicationStatus.FAILED)
    assert cluster.calls[:2] == ["registerApplicationMaster", "allocate"]
    assert cluster.calls.count("startContainers") == 1
    assert cluster.finish is not None and cluster.finish.summary is not None
    assert cluster.finish.summary.exit_code == 7
    ends = {task.number: task.exit_code for task in observer.tasks if task.state in jobs.ENDED}
    assert ends == {1: 0, 2: 7, 3: 0}


def test_an_rm_that_is_not_running_yet_is_tried_again(directory: Path) -> None:
    clusters: list[FakeCluster] = []

    class Starter(Recorder):
        def tick(self, now: float) -> float | None:
            if not clusters:  # the first call has failed by now
                clusters.append(FakeCluster(directory, [0, 0]))
            return None

    loop = MasterLoop(master(2), f"unix:{directory}/rm.sock", Starter(), validate=True)
    assert loop.run().exit_code == 0
    assert loop.rm is not None
    loop.rm.close()
    clusters[0].close()


def test_a_preempted_container_comes_again(directory: Path) -> None:
    cluster = FakeCluster(directory, [-108, -100, 0])
    end = run(cluster, 1, Recorder())
    cluster.close()
    assert (end.exit_code, end.summary.preempted, end.summary.lost) == (0, 1, 1)


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
def test_a_connection_lost_at_any_call_is_made_again(directory: Path, after: int) -> None:
    cluster = FakeCluster(directory, [0, 0], hang_up_after=after)
    end = run(cluster, 2, _Tolerant())
    cluster.close()
    assert end.exit_code == 0


class _Tolerant(Recorder):
    def notice(self, text: str) -> None:
        assert "could not be told" in text


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_the_job_and_its_containers(
    directory: Path, number: signal.Signals, code: int
) -> None:
    cluster = FakeCluster(directory, [None, None])
    before = signal.getsignal(number)
    with SignalWatch() as signals:
        observer = Recorder(lambda: os.kill(os.getpid(), number))
        end = run(cluster, 2, observer, signals)
    cluster.close()
    assert (end.exit_code, end.final_status) == (code, FinalApplicationStatus.KILLED)
    assert len(cluster.stopped) == 2 and len(observer.reasons) == 1
    assert cluster.killed is not None and cluster.killed.diagnostics == observer.reasons[0]
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_leaves_at_once(directory: Path) -> None:
    cluster = FakeCluster(directory, [None])
    cluster._on_stopContainers = lambda *_: None  # type: ignore[method-assign]
    with SignalWatch() as signals:
        interrupt = threading.Event()

        class Impatient(Recorder):
            def stopping(self, reason: str) -> None:
                super().stopping(reason)
                interrupt.set()
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(Left):
            run(cluster, 1, Impatient(lambda: os.kill(os.getpid(), signal.SIGINT)), signals)
        assert interrupt.is_set()
    cluster.close()


def test_what_the_observer_wants_ends_the_job(directory: Path) -> None:
    cluster = FakeCluster(directory, [None])
    observer = Recorder()

    def enough() -> None:
        observer.wanted = m.StopRequested("nobody reads", 141)

    observer._when_running = enough
    end = run(cluster, 1, observer)
    cluster.close()
    assert (end.exit_code, end.diagnostics) == (141, "nobody reads")


def test_a_bug_of_the_master_leaves_the_story_of_its_last_events(directory: Path) -> None:
    cluster = FakeCluster(directory, [0])
    buggy = master(1)

    def handle(event: m.Event, now: float) -> list[m.Command]:
        if isinstance(event, m.Answered) and isinstance(event.response, AllocateResponse):
            raise ValueError("impossible")
        return JobMaster.handle(buggy, event, now)

    buggy.handle = handle  # type: ignore[method-assign]
    with Connection(cluster.address) as connection, pytest.raises(ValueError, match="impossible"):
        MasterLoop(buggy, connection, Recorder(), crash_dir=str(directory / "crashes")).run()
    cluster.close()
    [report] = (directory / "crashes").glob("crash-*.jsonl")
    assert "MasterStarted" in report.read_text() and "impossible" in report.read_text()
