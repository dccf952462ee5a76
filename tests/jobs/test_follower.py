"""Following a job whose master the RM hosts, against a server that says what the test wants."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.records import ExecutionType
from yarnopp_cli.errors import ConnectionFailedError
from yarnopp_cli.jobs import follower
from yarnopp_cli.jobs.watching import Left, SignalWatch
from yarnopp_cli.masters import ends
from yarnopp_cli.masters.ends import EndMaster, StopRequested
from yarnopp_cli.masters.tasks import Tally
from yarnopp_cli.records.job_protocol import (
    JobEnd,
    StopJobRequest,
    StopJobResponse,
    WatchJobRequest,
    WatchJobResponse,
)
from yarnopp_cli.records.jobs import TaskReport, TaskState, as_rows
from yarnopp_cli.records.reports import FinalApplicationStatus, JobSummary
from yarnopp_cli.rpc.blocking import Connection

from .fake import APPLICATION, FakeCluster

SUCCEEDED, KILLED = FinalApplicationStatus.SUCCEEDED, FinalApplicationStatus.KILLED


def news(
    position: int, *tasks: TaskReport, said: tuple[str, ...] = (), end: JobEnd | None = None, **counts: int
) -> WatchJobResponse:
    return WatchJobResponse(position, len(said), as_rows(tasks), said, counts, end=end)


def task(number: int, state: TaskState, code: int | None = None) -> TaskReport:
    return TaskReport(0, number, state, ExecutionType.OPPORTUNISTIC, f"container_{number}", exit_code=code)


def ended(code: int = 0, status: FinalApplicationStatus = SUCCEEDED, **more: str) -> JobEnd:
    return JobEnd(code, status, "", JobSummary(total=2), **more)


class FakeHost(FakeCluster):
    """Tells ``script`` piece by piece; then a watch is held until the job is stopped."""

    def __init__(self, directory: Path, script: list[WatchJobResponse], **more: Any) -> None:
        self.script = script
        self.asked: list[WatchJobRequest] = []
        self.stops: list[StopJobRequest] = []
        self.answers_stops = True
        self.watch: tuple[socket.socket, int] | None = None
        super().__init__(directory, [], **more)

    def _on_watchJob(self, client: socket.socket, call_id: int, request: WatchJobRequest) -> Any:
        self.asked.append(request)
        if self.script:
            return self.script.pop(0)
        if self.stops and self.answers_stops:
            return news(9, end=ended(self.stops[0].exit_code, self.stops[0].final_status))
        self.watch = (client, call_id)
        return None

    def _on_stopJob(self, client: socket.socket, call_id: int, request: StopJobRequest) -> Any:
        self.stops.append(request)
        if self.watch is not None and self.answers_stops:
            end = ended(request.exit_code, request.final_status)
            self._reply(*self.watch, news(9, end=end))
        return StopJobResponse()


class Recorder:
    """An observer of ``job`` that only remembers; ``when_running`` is called once something runs."""

    job: follower.JobFollower

    def __init__(self, when_running: Callable[[], None] = lambda: None) -> None:
        self.tasks: list[TaskReport] = []
        self.said: list[str] = []
        self.reasons: list[str] = []
        self.wanted: StopRequested | None = None
        self.when_running = when_running

    def task_changed(self, task: TaskReport) -> None:
        self.tasks.append(task)
        if task.state is TaskState.RUNNING:
            self.when_running()

    def notice(self, text: str) -> None:
        self.said.append(text)

    def stopping(self, reason: str) -> None:
        self.reasons.append(reason)

    def tick(self, now: float) -> float | None:
        return None

    def stop_wanted(self) -> StopRequested | None:
        return self.wanted


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="yl") as made:
        yield Path(made)


def follow(host: FakeHost, observer: Recorder, tally: Tally | None = None, **more: Any) -> EndMaster:
    with SignalWatch() as signals, Connection(host.address) as connection:
        job = follower.JobFollower(connection, APPLICATION, tally or Tally(2), observer, signals, **more)
        observer.job = job
        try:
            return job.run()
        finally:
            if job.rm is not None:
                job.rm.close()


def test_what_is_told_reaches_the_observer_and_the_tally(directory: Path) -> None:
    host = FakeHost(
        directory,
        [
            news(2, task(1, TaskState.RUNNING), task(2, TaskState.QUEUED), RUNNING=1, QUEUED=1),
            news(3, task(2, TaskState.FAILED, 3), said=("careful",), RUNNING=1, FAILED=1),
            news(4, task(1, TaskState.SUCCEEDED, 0), SUCCEEDED=1, FAILED=1, end=ended(3)),
        ],
    )
    observer, tally = Recorder(), Tally(2)
    end = follow(host, observer, tally)
    host.close()
    assert (end.exit_code, end.error) == (3, None)
    assert [one.position for one in host.asked] == [0, 2, 3]
    assert [one.notices for one in host.asked] == [0, 0, 1]
    assert [one.state.value for one in observer.tasks] == ["RUNNING", "QUEUED", "FAILED", "SUCCEEDED"]
    assert observer.said == ["careful"]
    assert tally.counts[TaskState.FAILED] == 1 and [one.number for one in tally.failures] == [2]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_the_job(directory: Path, number: signal.Signals, code: int) -> None:
    host = FakeHost(directory, [news(1, task(1, TaskState.RUNNING), RUNNING=1)])
    observer = Recorder(lambda: os.kill(os.getpid(), number))
    end = follow(host, observer)
    host.close()
    assert (end.exit_code, end.final_status) == (code, KILLED)
    assert [one.reason for one in host.stops] == observer.reasons and len(observer.reasons) == 1


def test_under_nohup_a_closed_terminal_stops_nothing(directory: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = news(1, task(1, TaskState.RUNNING), RUNNING=1)
        host = FakeHost(
            directory, [running, news(2, task(1, TaskState.SUCCEEDED, 0), SUCCEEDED=1, end=ended(0))]
        )
        observer = Recorder(lambda: os.kill(os.getpid(), signal.SIGHUP))
        end = follow(host, observer)
        host.close()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "as before"
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (end.exit_code, observer.reasons, host.stops) == (0, [], [])


def test_a_second_ctrl_c_leaves_at_once(directory: Path) -> None:
    host = FakeHost(directory, [news(1, task(1, TaskState.RUNNING), RUNNING=1)])
    host.answers_stops = False

    class Impatient(Recorder):
        def stopping(self, reason: str) -> None:
            super().stopping(reason)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Left):
        follow(host, Impatient(lambda: os.kill(os.getpid(), signal.SIGINT)))
    host.close()


def test_what_the_observer_wants_is_asked_for_once(directory: Path) -> None:
    host = FakeHost(directory, [news(1, task(1, TaskState.RUNNING), RUNNING=1)])
    observer = Recorder()
    observer.wanted = StopRequested("its output is no longer read", 141)
    end = follow(host, observer)
    host.close()
    assert end.exit_code == 141 and len(host.stops) == 1


def test_after_a_lost_connection_it_goes_on_where_it_was(directory: Path) -> None:
    host = FakeHost(
        directory,
        [
            news(1, task(1, TaskState.RUNNING), RUNNING=1),
            news(2, task(1, TaskState.SUCCEEDED, 0), end=ended()),
        ],
        hang_up_after=2,
    )
    end = follow(host, Recorder())
    host.close()
    assert end.exit_code == 0
    assert [one.position for one in host.asked] == [0, 1]


def test_a_resourcemanager_that_stays_away_ends_it_with_the_reason(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its patience ends when the observer has been told, however long that takes."""
    monkeypatch.setattr(ends, "TELL_SECONDS", 0.1)

    class Told(Recorder):
        def notice(self, text: str) -> None:
            super().notice(text)
            self.job._loss.patience = 0.0

    host = FakeHost(directory, [news(1, task(1, TaskState.RUNNING), RUNNING=1)])

    def gone() -> None:
        host.close()
        os.unlink(f"{directory}/rm.sock")

    observer = Told(gone)
    end = follow(host, observer)
    assert isinstance(end.error, ConnectionFailedError) and end.exit_code == end.error.exit_code
    (told,) = observer.said
    assert "`yopp up` starts what is missing" in told


def test_how_it_failed_comes_as_an_error(directory: Path) -> None:
    end = ended(143, KILLED, message="the ResourceManager ended it", because="so", hint="ask")
    host = FakeHost(directory, [news(0, end=end)])
    found = follow(host, Recorder(), rows=False)
    host.close()
    assert found.error is not None and found.error.exit_code == 143
    assert str(found.error) == "the ResourceManager ended it\n  because: so\n  hint: ask"
    assert not host.asked[0].tasks
