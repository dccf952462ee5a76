"""Masters that live in the RM: submission, starts, ends, watchers, and what goes wrong."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from executor.causes import Cause, CauseKind
from executor.records import (
    ContainerExitStatus,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    Resource,
    counted,
)
from yarnopp_cli.errors import (
    AccessDeniedError,
    ApplicationNotFoundError,
    InvalidResourceRequestError,
    MastersNotHostedError,
    UsageError,
)
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.records.client_protocol import (
    GetContainersRequest,
    KillApplicationRequest,
    UpdateApplicationPriorityRequest,
)
from yarnopp_cli.records.explanation import Explanation
from yarnopp_cli.records.history import EventKind, GetEventsRequest
from yarnopp_cli.records.job_protocol import (
    GetJobRequest,
    StopJobRequest,
    SubmitApplicationResponse,
    SubmitJobRequest,
    WatchJobRequest,
    WatchJobResponse,
)
from yarnopp_cli.records.jobs import JobSpec, PhaseSpec, Sweep, TaskReport, TaskSpec, TaskState, from_rows
from yarnopp_cli.records.methods import MOST_TEXT
from yarnopp_cli.records.reports import FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.records.requests import ApplicationSubmissionContext
from yarnopp_cli.records.tracker_protocol import TaskToStart
from yarnopp_cli.resourcemanager.hosting import past
from yarnopp_cli.rpc.codec import encode_response
from yarnopp_cli.rpc.wire import MAX_LINE_BYTES
from yarnopp_cli.views.explain.explanations import sentences

from .rm_harness import GUARANTEED, OPPORTUNISTIC, SMALL, Cluster, Node

DONE, RUNNING, SCHEDULED = ContainerState.DONE, ContainerState.RUNNING, ContainerState.SCHEDULED


class Job:
    """A hosted job and its client, which follows it as the real one does."""

    def __init__(
        self,
        cluster: Cluster,
        count: int = 1,
        *,
        attached: bool = True,
        kind: ExecutionType = OPPORTUNISTIC,
        size: Resource = SMALL,
        submitted: ApplicationSubmissionContext | None = None,
        **plan: Any,
    ) -> None:
        self.cluster = cluster
        self.connection = cluster.connection()
        self.spec = plan_run(("true",), TaskSpec(1, size, kind), count, **plan)
        request = SubmitJobRequest(submitted or ApplicationSubmissionContext("", "job"), self.spec, attached)
        response: SubmitApplicationResponse = cluster.ask(request, self.connection)
        assert response.am_token is None
        self.id = response.application_id
        self.position = self.notices = 0
        self.tasks: dict[int, TaskReport] = {}
        self.told: list[TaskReport] = []

    def watch(self, *, wait_ms: int = 60_000, **more: Any) -> int:
        request = WatchJobRequest(self.id, self.position, self.notices, wait_ms, **more)
        return self.cluster.send(request, self.connection)

    def hear(self, call_id: int) -> WatchJobResponse:
        response: WatchJobResponse = self.cluster.take(call_id)
        assert response is not None, "the watch was not answered"
        self.position, self.notices = response.position, response.notices
        for report in from_rows(response.tasks):
            self.tasks[report.planned_number] = report
            self.told.append(report)
        return response

    def state(self) -> YarnApplicationState:
        return self.cluster.app(self.id).state


def said(
    start: TaskToStart, state: ContainerState = RUNNING, exit_status: int = -1000, **more: Any
) -> ContainerStatus:
    """What a node says of a task's container."""
    return ContainerStatus(
        start.container_id, state, start.execution_type, start.resource, exit_status=exit_status, **more
    )


def cluster_with(count: int = 1, **settings: Any) -> tuple[Cluster, list[Node]]:
    cluster = Cluster(**settings)
    return cluster, [cluster.node(f"h{number}:1") for number in range(1, count + 1)]


def test_a_job_starts_with_its_nodes_next_answer_and_ends_with_its_last_container() -> None:
    cluster, (node,) = cluster_with()
    held = node.send(wait_ms=1000)
    job = Job(cluster, 2)
    beat = node.take(held)
    assert beat is not None and not beat.containers_to_start
    assert [start.number for start in beat.tasks_to_start] == [1, 2]
    assert [template.number_variable for template in beat.templates] == ["YOPP_TASK"]
    assert beat.templates[0].context.command == ("true",) and beat.templates[0].user == "ada"
    assert job.state() is YarnApplicationState.RUNNING
    first, second = beat.tasks_to_start
    assert first.container_id.endswith("_000001"), "as in a foreground job, no container is its master's"
    watch = job.watch()
    assert not cluster.answered(watch)
    node.beat(said(first), said(second))
    told = job.hear(watch)
    assert told.counts == {"RUNNING": 2} and job.tasks[1].node_id == "h1:1"
    watch = job.watch()
    node.beat(said(first, DONE, 0), said(second, DONE, 3, exit_code=3))
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 3
    assert told.end.final_status is FinalApplicationStatus.FAILED
    assert {number: task.exit_code for number, task in job.tasks.items()} == {1: 0, 2: 3}
    assert job.state() is YarnApplicationState.FINISHED


def test_a_client_that_is_late_hears_of_every_container() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, 1, retries=1)
    (first,) = node.beat().tasks_to_start
    (second,) = node.beat(said(first, DONE, 1, exit_code=1)).tasks_to_start
    node.beat(said(second, DONE, 1, exit_code=1))
    told = job.hear(job.watch())
    assert told.end is not None and told.end.exit_code == 1
    assert [one.container_id for one in job.told] == [first.container_id, second.container_id]


def test_what_a_job_runs_is_kept_when_its_tasks_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "MOST_PAST_TASKS", 9)
    cluster, (node,) = cluster_with()

    def ran(count: int, *bad: int) -> Job:
        job = Job(cluster, count, kind=GUARANTEED, environment={"SECRET": "x"})
        starts = node.beat().tasks_to_start
        assert not cluster.ask(GetJobRequest(job.id)).ended
        while starts:
            starts = node.beat(*(said(one, DONE, int(one.number in bad)) for one in starts)).tasks_to_start
        return job

    first = ran(4, 2)
    for kept in (True, False):
        told = cluster.ask(GetJobRequest(first.id))
        assert (told.succeeded, told.ended) == ((1, 1, 3, 4), True)
        assert told.job == first.spec and told.context.name == "job"
        if kept:
            cluster.lose(first.connection)
            cluster.at(100)
    second = ran(5)
    cluster.lose(second.connection)
    cluster.at(200)
    assert cluster.ask(GetJobRequest(first.id)).job == first.spec, "nine tasks in all"
    third = ran(1)
    cluster.lose(third.connection)
    cluster.at(300)
    with pytest.raises(ApplicationNotFoundError, match="no longer known"):
        cluster.ask(GetJobRequest(first.id))
    large = ran(10)
    cluster.lose(large.connection)
    cluster.at(400)
    with pytest.raises(ApplicationNotFoundError, match="no longer known"):
        cluster.ask(GetJobRequest(large.id))
    assert cluster.ask(GetJobRequest(second.id)).succeeded == (1, 5)


def test_how_it_shows() -> None:
    cluster, _ = cluster_with()
    job = Job(cluster)
    app = cluster.app(job.id)
    assert app.unmanaged and app.hosted and not app.am_container_id and not app.am_node_id
    events = cluster.ask(GetEventsRequest()).events
    (started,) = [one for one in events if one.kind is EventKind.ATTEMPT_STARTED]
    assert started.words["master"] == "ResourceManager"


def test_a_template_goes_to_a_node_once_on_a_connection() -> None:
    cluster, (node,) = cluster_with()
    Job(cluster, 2, kind=GUARANTEED)
    first = node.beat()
    assert len(first.templates) == 1 and len(first.tasks_to_start) == 2
    assert not node.beat(*map(said, first.tasks_to_start)).templates
    again = node.beat(*[said(one, DONE, 0) for one in first.tasks_to_start])
    assert not again.tasks_to_start
    Job(cluster, 4, kind=GUARANTEED)
    assert len(node.beat().templates) == 1, "another job's is another one"


def test_tasks_with_very_long_values_come_in_as_many_answers_as_they_need() -> None:
    cluster = Cluster()
    node = cluster.node("h1:1", Resource(100_000, 100))
    values = tuple(f"{number}" * 60_000 for number in range(1, 81))
    job = Job(cluster, 80, kind=GUARANTEED, sweep=Sweep((values,)))
    started: list[int] = []
    while (beat := node.beat()).tasks_to_start:
        assert len(encode_response(1, beat)) < MAX_LINE_BYTES
        started += [task.number for task in beat.tasks_to_start]
    assert started == list(range(1, 81)), "each once"
    assert job.state() is YarnApplicationState.RUNNING


def test_very_long_templates_come_in_as_many_answers_as_they_need() -> None:
    cluster = Cluster()
    node = cluster.node("h1:1", Resource(100_000, 100))
    for _ in range(3):
        Job(cluster, 2, kind=GUARANTEED, environment={"A": "\1" * (MOST_TEXT - 100)})
    started: list[str] = []
    while (beat := node.beat()).tasks_to_start:
        assert len(encode_response(1, beat)) < MAX_LINE_BYTES and len(beat.templates) <= 1
        started += [task.template_id for task in beat.tasks_to_start]
    assert len(started) == 6 and len(set(started)) == 3


def test_what_was_sent_over_a_lost_connection_is_sent_again_until_the_node_speaks_of_it() -> None:
    cluster, (node,) = cluster_with()
    Job(cluster, 3)
    first = node.beat()
    assert not node.beat().tasks_to_start, "on one connection it is said once"
    cluster.lose(node.connection)
    node.statuses = {first.tasks_to_start[0].container_id: said(first.tasks_to_start[0])}
    node.register()
    again = node.beat()
    assert [one.number for one in again.tasks_to_start] == [2, 3]
    assert len(again.templates) == 1, "a new process of the node has none"


def test_a_start_that_a_node_refuses_is_a_failed_task() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster)
    (start,) = node.beat().tasks_to_start
    watch = job.watch()
    node.beat(said(start, DONE, 125, exit_code=125, diagnostics="it has no command"))
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 125
    assert job.tasks[1].diagnostics == "it has no command"


def test_a_retry_and_a_preempted_container_are_each_told() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, retries=1)
    (start,) = node.beat().tasks_to_start
    watch = job.watch()
    node.beat(said(start))
    job.hear(watch)
    (second,) = node.beat(said(start, DONE, ContainerExitStatus.PREEMPTED)).tasks_to_start
    assert second.container_id != start.container_id
    cluster.at(cluster.now + 1)
    job.hear(job.watch())
    assert [(one.state, one.container_id) for one in job.told[1:]] == [
        (TaskState.WAITING, start.container_id),
        (TaskState.STARTING, second.container_id),
    ]
    (third,) = node.beat(said(second, DONE, 1)).tasks_to_start
    watch = job.watch()
    node.beat(said(third, DONE, 0))
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 0 and told.preempted == 1


def test_news_of_a_larger_job_are_collected() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, 100)
    starts = node.beat().tasks_to_start
    cluster.at(1)
    job.hear(job.watch())
    watch = job.watch()
    node.beat(said(starts[0]))
    assert not cluster.answered(watch)
    node.beat(said(starts[1]))
    cluster.at(1.05)
    assert not cluster.answered(watch)
    cluster.at(1.2)
    job.hear(watch)
    assert [one.state for one in job.told[-2:]] == [TaskState.RUNNING] * 2


def test_very_many_tasks_come_in_pieces_and_full_ones_without_a_pause() -> None:
    cluster, _ = cluster_with()
    job = Job(cluster, 2500)
    cluster.at(1)
    pieces = []
    for _ in range(3):
        before, watch = len(job.told), job.watch()
        cluster.at(cluster.now + (0.1 if len(pieces) == 2 else 0))
        job.hear(watch)
        pieces.append(len(job.told) - before)
    assert pieces == [1000, 1000, 500]
    assert not cluster.answered(job.watch())


def test_a_watcher_without_rows_hears_of_the_end_alone() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster)
    watch = job.watch(tasks=False)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start))
    assert not cluster.answered(watch)
    node.beat(said(start, DONE, 0))
    told = job.hear(watch)
    assert told.end is not None and not told.tasks.state


def test_each_of_two_watchers_hears_of_a_pause() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start))
    heard = job.hear(job.watch())
    watches = [
        cluster.send(WatchJobRequest(job.id, heard.position, paused=heard.paused), cluster.connection())
        for _ in range(2)
    ]
    cluster.at(1)
    node.beat(said(start, ContainerState.PAUSED))
    cluster.at(2)
    for watch in watches:
        told = cluster.take(watch)
        assert told is not None and told.paused == 1


@pytest.mark.parametrize(("wait_ms", "seconds"), [(500, 0.5), (5000, 5), (2**63 - 1, 5)])
def test_a_watch_is_answered_when_its_time_is_over(wait_ms: int, seconds: float) -> None:
    cluster, _ = cluster_with()
    job = Job(cluster)
    cluster.at(1)
    job.hear(job.watch())
    watch = job.watch(wait_ms=wait_ms)
    cluster.at(0.9 + seconds)
    assert not cluster.answered(watch)
    cluster.at(1 + seconds)
    assert not job.hear(watch).tasks.state


def test_an_attached_job_ends_with_its_client_after_the_grace() -> None:
    cluster, (node,) = cluster_with(client_am_grace_ms=2000)
    job = Job(cluster)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start))
    cluster.lose(job.connection)
    cluster.at(1.9)
    assert job.state() is YarnApplicationState.RUNNING
    cluster.at(2.1)
    app = cluster.app(job.id)
    assert app.state is YarnApplicationState.FAILED and "its client is gone" in app.diagnostics
    assert node.beat().applications_to_cleanup == (job.id,)


def test_who_follows_an_attached_job_again_keeps_it() -> None:
    cluster, _ = cluster_with(client_am_grace_ms=2000)
    job = Job(cluster)
    cluster.lose(job.connection)
    job.connection = cluster.connection()
    job.watch()
    cluster.at(10)
    assert job.state() is YarnApplicationState.RUNNING
    cluster.lose(job.connection)
    cluster.at(13)
    assert job.state() is YarnApplicationState.FAILED


def test_a_detached_job_outlives_its_client() -> None:
    cluster, (node,) = cluster_with(client_am_grace_ms=2000)
    job = Job(cluster, attached=False)
    cluster.lose(job.connection)
    cluster.at(60)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start, DONE, 0))
    assert job.state() is YarnApplicationState.FINISHED
    job.connection = cluster.connection()
    told = job.hear(job.watch())
    assert told.end is not None and told.end.exit_code == 0


def test_stop_ends_its_containers_first() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, 2)
    first, second = node.beat().tasks_to_start
    node.beat(said(first), said(second, SCHEDULED))
    cluster.ask(StopJobRequest(job.id, "interrupted by Ctrl-C", 130))
    beat = node.beat()
    assert set(beat.containers_to_cleanup) == {first.container_id, second.container_id}
    assert job.state() is YarnApplicationState.RUNNING
    killed = int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER)
    job.hear(job.watch())
    watch = job.watch()
    node.beat(said(first, DONE, killed), said(second, DONE, killed))
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 130
    assert told.end.final_status is FinalApplicationStatus.KILLED
    assert job.tasks[1].exit_status == ContainerExitStatus.KILLED_BY_APPMASTER
    app = cluster.app(job.id)
    assert (app.state, app.diagnostics) == (YarnApplicationState.KILLED, "interrupted by Ctrl-C")
    cluster.ask(StopJobRequest(job.id, "again", 130))


def test_a_killed_application_tells_its_watchers() -> None:
    cluster, _ = cluster_with()
    job = Job(cluster)
    watch = job.watch()
    cluster.ask(KillApplicationRequest(job.id, "enough"))
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 143 and told.end.message


def test_a_time_limit() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, timeout_ms=3000)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start))
    watch = job.watch()
    cluster.at(3)
    node.beat(said(start, DONE, ContainerExitStatus.KILLED_BY_RESOURCEMANAGER))
    cluster.at(3.2)
    while (told := job.hear(watch)).end is None:
        watch = job.watch()
    assert told.end.exit_code == 124


def test_a_promotion_is_delivered_to_the_node() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, promote=True)
    (start,) = node.beat().tasks_to_start
    (update,) = node.beat(said(start)).containers_to_update
    assert (update.container_id, update.execution_type) == (start.container_id, GUARANTEED)
    node.beat(said(start, DONE, 0, version=update.version))
    told = job.hear(job.watch())
    assert told.end is not None and told.end.summary.promoted == 1


def test_a_promotion_that_the_node_refuses_is_told_and_not_counted() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, promote=True)
    (start,) = node.beat().tasks_to_start
    (update,) = node.beat(said(start)).containers_to_update
    watch = job.watch(tasks=False)
    refusal = Cause(CauseKind.UPDATE_REFUSED, version=update.version)
    node.beat(said(start, version=start.version, refusal=refusal))
    cluster.at(1)
    told = job.hear(watch)
    assert told.said == (f"{start.container_id} could not be updated: its node has no room for it",)
    node.beat(said(start, DONE, 0, version=start.version, refusal=refusal))
    told = job.hear(job.watch())
    assert told.end is not None and told.end.exit_code == 0 and told.end.summary.promoted == 0
    assert told.said == ()


def test_a_promotion_that_comes_after_the_end_is_neither_counted_nor_told() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, promote=True)
    (start,) = node.beat().tasks_to_start
    (update,) = node.beat(said(start)).containers_to_update
    assert update.version > start.version
    node.beat(said(start, DONE, 0, version=start.version))
    told = job.hear(job.watch())
    assert told.end is not None and told.end.summary.promoted == 0 and told.said == ()


def test_a_bug_in_a_master_ends_its_job_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, (node,) = cluster_with()
    well, ill = Job(cluster), Job(cluster)
    mine, other = node.beat().tasks_to_start

    def broken(self: JobMaster, *arguments: Any) -> None:
        raise RuntimeError("oops")

    watch = ill.watch()
    with monkeypatch.context() as patched:
        patched.setattr(JobMaster, "_on_completed", broken)
        patched.setattr(JobMaster, "validate", lambda self: None)
        node.beat(said(other, DONE, 0))
    told = ill.hear(watch)
    assert told.end is not None and told.end.exit_code == 1 and "RuntimeError: oops" in told.end.because
    assert cluster.app(ill.id).state is YarnApplicationState.FAILED
    (kept,) = cluster.crashes
    assert kept.application_id == ill.id and kept.crash.history
    node.beat(said(mine, DONE, 0))
    assert well.state() is YarnApplicationState.FINISHED


def test_the_end_of_the_cluster_is_told() -> None:
    from yarnopp_cli.records.client_protocol import ShutdownClusterRequest

    cluster, _ = cluster_with()
    job = Job(cluster)
    watch = job.watch()
    cluster.ask(ShutdownClusterRequest())
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 143


def test_a_large_job_asks_for_some_of_its_tasks_first() -> None:
    cluster, _ = cluster_with()
    job = Job(cluster, 30_000, size=Resource(1, 0), kind=GUARANTEED)
    job.connection = cluster.connection()
    app = cluster.app(job.id)
    assert app.pending_containers + app.containers_allocated < 30_000


def swept(
    count: int, sources: tuple[tuple[str, ...], ...], linked: tuple[int, ...], *command: str
) -> tuple[PhaseSpec, ...]:
    return (PhaseSpec("x", (TaskSpec(1, SMALL, count=count),), command, sweep=Sweep(sources, linked=linked)),)


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        ((), "no tasks"),
        ((PhaseSpec("x", (), ("true",)),), "no tasks"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL, count=0),), ("true",)),), "less than 1"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL, count=10**7),), ("true",)),), "the limit"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL, count=3, step=2**63 - 1),), ("true",)),), "number is above"),
        (swept(2, (("a", "b"), ("c",)), (1,)), "linked"),
        (swept(1, (("a", "b"), ("c",)), (0,)), "linked"),
        (swept(1, (("a" * 10_000,),), (), *["{}"] * 1000), "characters"),
        (swept(1, (("a" * 10_000,),), (), "{}{2}{1}" * 1000), "characters"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL),), ("a" * MOST_TEXT,)),), "characters"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL),), ("a",), environment={"A": "a" * MOST_TEXT}),), "characters"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL),), ("a",), files={"a": "a" * MOST_TEXT}),), "characters"),
        ((PhaseSpec("x", (TaskSpec(1, SMALL, arguments=("a",) * (MOST_TEXT // 2)),), ("a",)),), "characters"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(phases: tuple[PhaseSpec, ...], why: str) -> None:
    cluster, _ = cluster_with()
    request = SubmitJobRequest(ApplicationSubmissionContext("", "job"), JobSpec("job", "YARN", phases))
    with pytest.raises(UsageError) as refusal:
        cluster.ask(request)
    assert why in refusal.value.because


def test_a_guest_has_a_bounded_number_of_jobs_and_of_tasks() -> None:
    cluster = Cluster(submitter_applications=2, submitter_tasks=10)
    job, big = (plan_run(("true",), TaskSpec(1, SMALL, OPPORTUNISTIC), count) for count in (6, 4))

    def submit(what: JobSpec, guest: bool = True, name: str = "", user: str = "ada") -> str:
        request = SubmitJobRequest(ApplicationSubmissionContext(name, "job"), what, attached=False)
        return str(cluster.ask(request, user=user, guest=guest).application_id)

    first = submit(job)
    with pytest.raises(AccessDeniedError, match="more tasks") as refusal:
        submit(job)
    assert refusal.value.because == "ada has 12 tasks with this job, and " + (
        "yopp.resourcemanager.submitter.maximum-tasks is 10"
    )
    submit(big)
    with pytest.raises(AccessDeniedError, match="more applications"):
        submit(big)
    assert submit(job, name=first) == first, "sent again"
    assert submit(job, guest=False, user="root") and submit(job, user="bob")
    cluster.ask(KillApplicationRequest(first), guest=True)
    assert submit(big)


def test_who_hears_of_an_end_alone_keeps_what_was_told_of_the_tasks() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, attached=False)
    (start,) = node.beat().tasks_to_start
    watch = job.watch()
    cluster.at(1)
    first = job.hear(watch)
    node.beat(said(start, DONE, 3, exit_code=3))
    cluster.at(100)  # its tasks are forgotten
    told = cluster.ask(WatchJobRequest(job.id, first.position, first.notices, attempt=first.attempt))
    assert told.end is not None and told.end.exit_code == 3 and first.attempt == 1
    assert (told.attempt, told.position) == (first.attempt, first.position), "it is no other life of the RM"


def test_explain_counts_the_tasks_that_a_jobs_bound_holds_back() -> None:
    cluster, (node,) = cluster_with()
    job, free = Job(cluster, 5, max_running=2), Job(cluster, 5)

    def held_back(one: Job) -> tuple[int, int]:
        found: Explanation = cluster.explain(one.id)
        assert found.waits is False or one is free
        told = "3 more tasks wait until others end: at most 2 may have a container (--max-running)."
        assert (told in sentences(found)) is (found.held_back == 3)
        return found.held_back, found.max_running

    assert (held_back(job), held_back(free)) == ((3, 2), (0, 0))
    first, *_ = starts = [
        one for one in node.beat().tasks_to_start if job.id.partition("_")[2] in one.container_id
    ]
    node.beat(*map(said, starts))
    node.beat(said(first, ContainerState.DONE, 0))
    assert held_back(job) == (2, 2)


def test_a_job_that_could_never_have_a_container_is_refused() -> None:
    cluster, _ = cluster_with()
    with pytest.raises(UsageError) as refusal:
        Job(cluster, max_running=-1)
    assert "below 0" in refusal.value.because and not cluster.context.applications


@pytest.mark.parametrize("attached", [True, False])
@pytest.mark.parametrize("size", [Resource(10**6, 1), Resource(512, 1, counted({"yarn.io/gpu": 4}))])
def test_a_job_that_no_node_can_hold_is_refused_before_it_has_an_id(attached: bool, size: Resource) -> None:
    cluster, _ = cluster_with()
    with pytest.raises(InvalidResourceRequestError):
        Job(cluster, attached=attached, size=size)
    assert not cluster.context.applications and not cluster.context.last_application


def test_an_on_demand_cluster_waits_until_a_suspended_client_has_heard_of_the_end() -> None:
    cluster, (node,) = cluster_with(lifetime="on-demand")
    job = Job(cluster)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start, DONE, 0))
    cluster.at(100)
    assert not cluster.context.ending
    told = job.hear(job.watch())
    assert told.end is not None and cluster.context.ending


def test_an_on_demand_cluster_waits_for_no_client_that_is_gone() -> None:
    cluster, (node,) = cluster_with(lifetime="on-demand")
    job = Job(cluster)
    (start,) = node.beat().tasks_to_start
    node.beat(said(start, DONE, 0))
    cluster.lose(job.connection)
    assert cluster.context.ending


def test_a_job_of_an_earlier_life_of_the_rm_is_said_to_have_ended_with_it() -> None:
    cluster, _ = cluster_with()
    with pytest.raises(ApplicationNotFoundError) as refusal:
        cluster.ask(WatchJobRequest("application_1_0001"))
    assert "the ResourceManager was restarted" in refusal.value.because


def test_where_masters_are_not_hosted_the_client_is_told_so() -> None:
    cluster, _ = cluster_with(hosted_masters=False)
    with pytest.raises(MastersNotHostedError):
        Job(cluster)
    master = cluster.master()
    with pytest.raises(ApplicationNotFoundError):
        cluster.ask(WatchJobRequest(master.app_id))


class LossyNode:
    """A node that does what it is told, and whose connection is lost now and then with an answer on its way."""

    def __init__(self, node: Node, draw: random.Random) -> None:
        self.node, self.draw = node, draw
        self.templates: set[str] = set()
        self.begun: Counter[str] = Counter()
        self.running: dict[str, TaskToStart] = {}
        self.news: dict[str, ContainerStatus] = {}

    def turn(self) -> None:
        for container_id in list(self.running):
            if self.draw.random() < 0.3:
                self.news[container_id] = said(self.running.pop(container_id), DONE, 0)
        answer = self.node.take(self.node.send(*self.news.values()))
        if self.draw.random() < 0.25:
            self.node.cluster.lose(self.node.connection)
            if self.draw.random() < 0.5:
                self.templates.clear()  # its process was started anew, with the containers' records
            self.node.statuses = {
                one: self.news.get(one) or said(start) for one, start in self.running.items()
            }
            self.node.statuses |= {one: status for one, status in self.news.items() if status.state is DONE}
            self.node.register()
            return
        assert answer is not None
        self.templates |= {one.template_id for one in answer.templates}
        for acknowledged in answer.completed_acknowledged:
            self.news.pop(acknowledged, None)
        self.news = {one: status for one, status in self.news.items() if status.state is DONE}
        for start in answer.tasks_to_start:
            assert start.template_id in self.templates, "a start without its template"
            if not self.begun[start.container_id]:
                self.begun[start.container_id] += 1
                self.running[start.container_id] = start
                self.news[start.container_id] = said(start)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_lost_each_task_runs_once_and_the_job_ends(seed: int) -> None:
    draw = random.Random(seed)
    cluster, nodes = cluster_with(2)
    lossy = [LossyNode(node, draw) for node in nodes]
    kind = draw.choice((GUARANTEED, OPPORTUNISTIC))
    jobs = [Job(cluster, 15, kind=kind, attached=False) for _ in range(2)]
    for _ in range(400):
        cluster.at(cluster.now + 0.05)
        for one in lossy:
            one.turn()
        if all(job.state() is YarnApplicationState.FINISHED for job in jobs):
            break
    for job in jobs:
        app = cluster.app(job.id)
        assert (app.state, app.final_status.value) == (YarnApplicationState.FINISHED, "SUCCEEDED")
        assert app.summary is not None and app.summary.completed == 15 and not app.summary.preempted
    assert sum(sum(one.begun.values()) for one in lossy) == 30


def test_a_container_is_known_by_its_task_after_a_retry_and_after_its_end() -> None:
    cluster, (node,) = cluster_with()
    held = node.send(wait_ms=1000)
    job = Job(cluster, numbers=(range(7, 9),), retries=1)
    beat = node.take(held)
    assert beat is not None
    first, second = beat.tasks_to_start
    beat = node.beat(said(first, DONE, 1, exit_code=1), said(second))
    assert beat is not None
    (again,) = beat.tasks_to_start or node.beat().tasks_to_start
    reports = cluster.ask(GetContainersRequest(job.id, finished=True)).containers
    assert {one.container_id: one.task for one in reports} == {
        first.container_id: 7, second.container_id: 8, again.container_id: 7,
    }  # fmt: skip
    node.beat(said(again, DONE, 0), said(second, DONE, 0))
    assert [one.tasks for one in cluster.kept] == [(7, 8, 7)]


def test_a_node_is_told_the_priority_of_an_application_and_when_it_changes() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, 8, submitted=ApplicationSubmissionContext("", "job", priority=3))
    starts = node.beat().tasks_to_start
    assert {one.application_priority for one in starts} == {3}
    answer = node.beat(*[said(one, SCHEDULED) for one in starts])
    assert not answer.application_priorities
    cluster.ask(UpdateApplicationPriorityRequest(job.id, 9, dry_run=True))
    assert not node.beat().application_priorities
    held = node.send(wait_ms=1000)
    cluster.ask(UpdateApplicationPriorityRequest(job.id, 9))
    told = node.take(held)
    assert told is not None, "it is told at once"
    assert [(one.application_id, one.priority) for one in told.application_priorities] == [(job.id, 9)]
    assert not node.beat().application_priorities, "once"
