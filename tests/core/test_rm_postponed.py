"""Applications that begin at a time or after others, and those that have a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from executor.records import ContainerState
from yarnopp_cli.errors import ApplicationNotFoundError, NotYetSupportedError, UsageError
from yarnopp_cli.records.client_protocol import KillApplicationRequest
from yarnopp_cli.records.explanation import ReasonCode, ReasonKind
from yarnopp_cli.records.job_protocol import StopJobRequest, SubmitApplicationRequest
from yarnopp_cli.records.reports import FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.records.requests import ANY_END, FAILED, OK, ApplicationSubmissionContext
from yarnopp_cli.records.tracker_protocol import TaskToStart
from yarnopp_cli.resourcemanager.postponed import UNKNOWN, judge
from yarnopp_cli.views.applications import exit_code
from yarnopp_cli.views.explain.explanations import sentences

from .rm_harness import GUARANTEED, SMALL, TIMESTAMP, Cluster, Node
from .test_rm_hosting import Job, cluster_with, said

ACCEPTED, RUNNING, KILLED = (
    YarnApplicationState.ACCEPTED,
    YarnApplicationState.RUNNING,
    YarnApplicationState.KILLED,
)
A, B = "application_1_0001", "application_1_0002"


def later(**more: Any) -> ApplicationSubmissionContext:
    return ApplicationSubmissionContext("", "job", **more)


def after(*parents: tuple[Job | str, str]) -> ApplicationSubmissionContext:
    named = [(one if isinstance(one, str) else one.id, how) for one, how in parents]
    return later(after=tuple(f"{one}:{how}" for one, how in named))


def end(job: Job, node: Node, code: int = 0, starts: Sequence[TaskToStart] = ()) -> list[TaskToStart]:
    """Let all of a job's tasks run and end; what the node is to start then."""
    starts = [
        one for one in (*starts, *node.beat().tasks_to_start) if one.container_id.startswith(prefix(job))
    ]
    node.beat(*map(said, starts))
    return list(
        node.beat(*[said(one, ContainerState.DONE, code, exit_code=code) for one in starts]).tasks_to_start
    )


def prefix(job: Job) -> str:
    return job.id.replace("application", "container")


# -- the decision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "how", "left", "never"),
    [
        (OK, "", True, False),
        (OK, OK, False, False),
        (OK, FAILED, False, True),
        (FAILED, OK, False, True),
        (FAILED, FAILED, False, False),
        (ANY_END, OK, False, False),
        (ANY_END, FAILED, False, False),
        (ANY_END, UNKNOWN, False, False),
        (OK, UNKNOWN, False, True),
        (FAILED, UNKNOWN, False, True),
        (ANY_END, "", True, False),
    ],
)
def test_what_the_end_of_one_means_for_another(condition: str, how: str, left: bool, never: bool) -> None:
    one = f"{A}:{condition}"
    found = judge(0, (one,), 0, lambda _: how)
    assert found.left == ((one,) if left else ()) and bool(found.never) is never
    assert A in found.never or not never


def test_all_of_several_and_the_time_are_waited_for() -> None:
    ended = {A: OK, B: ""}
    found = judge(1000, (f"{A}:ok", f"{B}:any"), 999, ended.__getitem__)
    assert found.left == (f"{B}:any",) and not found.due and not found.never
    assert judge(1000, (), 1000, ended.__getitem__).due
    ended |= {A: FAILED}
    assert judge(1000, (f"{A}:ok", f"{B}:any"), 999, ended.__getitem__).never, (
        "it is told before the others end"
    )


# -- begin -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attached", [True, False])
def test_a_job_begins_at_its_time_and_costs_nothing_before(attached: bool) -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, 2, attached=attached, submitted=later(begin_at_ms=TIMESTAMP + 60_000))
    cluster.at(59.9)
    app = cluster.app(job.id)
    assert app.state is ACCEPTED and app.postponed and app.begin_at_ms == TIMESTAMP + 60_000
    assert app.diagnostics == "It has not begun: it waits for 2025-12-10T20:54:20.000Z."
    assert not app.pending_containers and not node.beat().tasks_to_start and not cluster.containers()
    cluster.at(60)
    assert job.state() is RUNNING and not cluster.app(job.id).diagnostics
    assert len(node.beat().tasks_to_start) == 2


def test_a_time_that_has_passed_is_now() -> None:
    cluster, _ = cluster_with()
    cluster.at(10)
    assert Job(cluster, submitted=later(begin_at_ms=TIMESTAMP + 9_000)).state() is RUNNING


def test_a_job_with_a_master_of_its_own_begins_at_its_time() -> None:
    cluster, (node,) = cluster_with()
    app = cluster.submit(begin_at_ms=TIMESTAMP + 60_000, timeout_ms=30_000)
    assert not node.beat().containers_to_start and cluster.app(app).state is ACCEPTED
    cluster.at(60)
    assert len(node.beat().containers_to_start) == 1
    cluster.at(89)
    assert cluster.app(app).state is ACCEPTED, "its own time counts from when it began"
    cluster.at(91)
    assert cluster.app(app).state is KILLED


def test_the_follower_is_told_what_it_waits_for() -> None:
    cluster, (node,) = cluster_with()
    first = Job(cluster)
    second = Job(cluster, submitted=after((first, OK)))
    watch = second.watch()
    cluster.at(1)
    told = second.hear(watch)
    assert told.said == (f"{second.id} has not begun: it waits for {first.id} to succeed.",)
    starts = end(first, node)
    end(second, node, starts=starts)
    answer = second.hear(second.watch())
    assert answer.end is not None and answer.end.exit_code == 0


# -- after -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "code", "begins"),
    [
        (OK, 0, True),
        (OK, 3, False),
        (FAILED, 0, False),
        (FAILED, 3, True),
        (ANY_END, 0, True),
        (ANY_END, 3, True),
    ],
)
def test_one_begins_when_another_has_ended_as_it_should(condition: str, code: int, begins: bool) -> None:
    cluster, (node,) = cluster_with()
    first = Job(cluster)
    second = Job(cluster, submitted=after((first, condition)))
    app = cluster.app(second.id)
    assert app.state is ACCEPTED and app.postponed and app.after == (f"{first.id}:{condition}",)
    end(first, node, code)
    app = cluster.app(second.id)
    assert not app.postponed
    if begins:
        assert app.state is RUNNING and app.after == ()
    else:
        assert (
            app.state is KILLED
            and app.final_status is FinalApplicationStatus.KILLED
            and exit_code(app) == 125
        )
        assert app.diagnostics.startswith(f"It can never begin: {first.id} has ")
        watched = second.hear(second.watch())
        assert (
            watched.end is not None
            and watched.end.exit_code == 125
            and "has not begun" in watched.end.message
        )


def test_a_chain_ends_with_its_first_link() -> None:
    cluster, (node,) = cluster_with()
    first = Job(cluster)
    chain = [first]
    for _ in range(3):
        chain.append(Job(cluster, attached=False, submitted=after((chain[-1], OK))))
    consoled = Job(cluster, attached=False, submitted=after((chain[-1], FAILED)))
    end(first, node, 1)
    assert [cluster.app(one.id).state for one in chain[1:]] == [KILLED] * 3
    assert all(exit_code(cluster.app(one.id)) == 125 for one in chain[1:])
    assert consoled.state() is RUNNING, "what waits for a failure begins"


def test_several_are_all_waited_for() -> None:
    cluster, (node,) = cluster_with()
    first, second = Job(cluster), Job(cluster)
    third = Job(cluster, submitted=after((first, OK), (second, ANY_END)))
    starts = node.beat().tasks_to_start
    node.beat(*map(said, starts))
    by_job = {
        job: [one for one in starts if one.container_id.startswith(prefix(job))] for job in (first, second)
    }
    node.beat(*[said(one, ContainerState.DONE, 0) for one in by_job[first]])
    assert third.state() is ACCEPTED and cluster.app(third.id).after == (f"{second.id}:any",)
    node.beat(*[said(one, ContainerState.DONE, 7, exit_code=7) for one in by_job[second]])
    assert third.state() is RUNNING


def test_one_that_had_ended_already() -> None:
    cluster, (node,) = cluster_with()
    first = Job(cluster)
    end(first, node)
    assert Job(cluster, submitted=after((first, OK))).state() is RUNNING
    never = Job(cluster, submitted=after((first, FAILED)))
    assert never.state() is KILLED and exit_code(cluster.app(never.id)) == 125


def test_one_that_is_forgotten_meanwhile_was_heard_of_when_it_ended() -> None:
    cluster, (node,) = cluster_with(max_completed_applications=1)
    first = Job(cluster)
    last = Job(cluster, submitted=later(after=(f"{first.id}:ok",), begin_at_ms=TIMESTAMP + 60_000))
    end(first, node)
    for _ in range(3):
        end(Job(cluster), node)
    with pytest.raises(ApplicationNotFoundError):
        cluster.app(first.id)
    cluster.at(60)
    assert last.state() is RUNNING


def test_one_that_is_forgotten_at_once_was_heard_of_all_the_same() -> None:
    cluster, (node,) = cluster_with(max_completed_applications=0)
    first = Job(cluster)
    last = Job(cluster, submitted=after((first, OK)))
    end(first, node)
    assert last.state() is RUNNING


def test_whatever_one_waits_for_its_sentence_is_one() -> None:
    cluster, _ = cluster_with()
    parents = [Job(cluster, attached=False) for _ in range(40)]
    last = Job(cluster, submitted=after(*[(one, ANY_END) for one in parents]))
    for one in parents:
        told = cluster.app(last.id).diagnostics
        assert parents[39].id in told or "others" in told
        assert len(told) < 400
        cluster.ask(KillApplicationRequest(one.id))
    assert last.state() is RUNNING


# -- ends ------------------------------------------------------------------------------------------------------


def test_one_that_waits_can_be_killed() -> None:
    cluster, (node,) = cluster_with()
    job = Job(cluster, submitted=later(begin_at_ms=TIMESTAMP + 60_000))
    watch = job.watch()
    cluster.at(1)
    job.hear(watch)
    watch = job.watch()
    cluster.ask(KillApplicationRequest(job.id))
    told = job.hear(watch)
    assert told.end is not None and told.end.exit_code == 143
    assert job.state() is KILLED and exit_code(cluster.app(job.id)) == 143
    cluster.at(61)
    assert job.state() is KILLED and not node.beat().tasks_to_start


def test_ctrl_c_and_a_client_that_goes() -> None:
    cluster, _ = cluster_with()
    job = Job(cluster, submitted=later(begin_at_ms=TIMESTAMP + 600_000))
    watch = job.watch()
    cluster.ask(StopJobRequest(job.id, "interrupted", 130))
    assert job.state() is KILLED and exit_code(cluster.app(job.id)) == 130
    told = job.hear(watch)
    assert told.end is not None and (told.end.exit_code, told.end.message) == (130, ""), "that is no error"
    gone = Job(cluster, submitted=later(begin_at_ms=TIMESTAMP + 600_000))
    stays = Job(cluster, attached=False, submitted=later(begin_at_ms=TIMESTAMP + 600_000))
    for one in (gone, stays):
        cluster.lose(one.connection)
    cluster.at(300)
    assert gone.state() is YarnApplicationState.FAILED and stays.state() is ACCEPTED


def test_the_cluster_stays_for_one_that_waits_and_ends_with_it() -> None:
    cluster = Cluster(lifetime="on-demand")
    node = cluster.node()
    first = Job(cluster, attached=False)
    job = Job(cluster, attached=False, submitted=later(begin_at_ms=TIMESTAMP + 60_000))
    end(first, node)
    cluster.at(59)
    assert cluster.stopped is None and job.state() is ACCEPTED


@pytest.mark.parametrize("begins", [True, False])
def test_a_deadline(begins: bool) -> None:
    """It ends the job, whether that runs or waits."""
    cluster, (node,) = cluster_with()
    first = Job(cluster)
    due = TIMESTAMP + 60_000
    job = Job(cluster, submitted=later(deadline_at_ms=due, after=() if begins else (f"{first.id}:ok",)))
    starts = node.beat().tasks_to_start
    node.beat(*map(said, starts))
    cluster.at(59)
    assert job.state() is (RUNNING if begins else ACCEPTED)
    cluster.at(60)
    ended = [cid for beat in [node.beat()] for cid in beat.containers_to_cleanup]
    if begins:
        (own,) = [one for one in starts if one.container_id.startswith(prefix(job))]
        assert own.container_id in str(ended)
        node.beat(said(own, ContainerState.DONE, -105))
    watched = job.hear(job.watch())
    while watched.end is None:
        watched = job.hear(job.watch())
    assert watched.end.exit_code == 124
    assert exit_code(cluster.app(job.id)) == 124
    assert first.state() is RUNNING


# -- a wall clock that steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [50, -30])
def test_a_time_of_people_is_kept_although_their_clock_steps(step: int) -> None:
    """It is set, or the machine sleeps: what is to begin or to have ended at a time does so by the new clock, and what
    is to take so long is not touched."""
    cluster, (node,) = cluster_with()
    lasts = Job(cluster, attached=False, timeout_ms=200_000)
    begins = Job(cluster, attached=False, submitted=later(begin_at_ms=TIMESTAMP + 60_000))
    waits = later(deadline_at_ms=TIMESTAMP + 80_000, after=(f"{lasts.id}:ok",))
    ends = Job(cluster, attached=False, submitted=waits)
    (own,) = node.beat().tasks_to_start
    node.beat(said(own))
    cluster.at(5)
    cluster.set_clock(step)
    cluster.at(59 - step)
    assert begins.state() is ACCEPTED
    cluster.at(60 - step)
    assert begins.state() is RUNNING
    assert ends.state() is ACCEPTED
    cluster.at(79 - step)
    assert ends.state() is ACCEPTED
    cluster.at(80 - step)
    assert exit_code(cluster.app(ends.id)) == 124
    assert cluster.app(ends.id).finished_at_ms == TIMESTAMP + 80_000
    cluster.at(199)
    assert not node.beat().containers_to_cleanup
    cluster.at(200)
    assert node.beat().containers_to_cleanup == (own.container_id,)


def test_a_time_that_a_step_of_the_clock_has_passed_has_come() -> None:
    cluster, _ = cluster_with()
    job = Job(cluster, attached=False, submitted=later(begin_at_ms=TIMESTAMP + 60_000))
    cluster.set_clock(3600)
    assert job.state() is RUNNING


# -- refusals --------------------------------------------------------------------------------------------------


def test_what_cannot_be_waited_for_is_refused_and_nothing_is_taken_in() -> None:
    cluster, _ = cluster_with()
    first = Job(cluster)
    with pytest.raises(ApplicationNotFoundError):
        Job(cluster, submitted=after((f"application_{TIMESTAMP}_0099", OK)))
    with pytest.raises(UsageError):
        Job(cluster, submitted=after((first, "maybe")))
    with pytest.raises(UsageError):
        Job(cluster, submitted=later(deadline_at_ms=TIMESTAMP))
    with pytest.raises(UsageError):
        Job(cluster, submitted=later(begin_at_ms=TIMESTAMP + 9000, deadline_at_ms=TIMESTAMP + 8000))
    with pytest.raises(NotYetSupportedError) as caught:
        cluster.ask(SubmitApplicationRequest(later(unmanaged=True, after=(f"{first.id}:ok",))))
    assert "--detach" in caught.value.hint
    assert Job(cluster).id.endswith("_0002"), "no id was used"


# -- explain ---------------------------------------------------------------------------------------------------


def test_explain_says_why_and_until_when() -> None:
    cluster, _ = cluster_with()
    first = Job(cluster, kind=GUARANTEED, size=SMALL)
    job = Job(
        cluster,
        submitted=later(
            after=(f"{first.id}:ok",),
            begin_at_ms=TIMESTAMP + 7_200_000,
            deadline_at_ms=TIMESTAMP + 10_800_000,
        ),
    )
    found = cluster.explain(job.id)
    assert [one.kind for one in found.reasons] == [ReasonKind.BEGINS_AT, ReasonKind.AFTER]
    assert {one.code for one in found.reasons} == {ReasonCode.NOT_BEGUN}
    assert found.waits and found.satisfiable and found.state == "ACCEPTED"
    told = "\n".join(sentences(found))
    assert "It does not begin before 2025-12-10T22:53:20.000Z (in 2.0 h)." in told
    assert f"It waits for {first.id} to succeed before it begins" in told
    assert "It will be ended at 2025-12-10T23:53:20.000Z, its deadline (in 3.0 h)." in told
