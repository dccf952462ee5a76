"""JobMaster: with literal times, one rule a test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from executor.causes import Cause, CauseKind
from executor.records import ExecutionType, Resource
from yarnopp_cli.errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    InvalidResourceRequestError,
)
from yarnopp_cli.masters import messages as m
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.ends import PATIENCE_SECONDS, retrying
from yarnopp_cli.masters.jobmaster import JobMaster
from yarnopp_cli.masters.resuming import stored_task
from yarnopp_cli.masters.tasks import Task
from yarnopp_cli.masters.waiting import WaitingTasks
from yarnopp_cli.records.client_protocol import KillApplicationRequest
from yarnopp_cli.records.container_protocol import (
    FailedContainer,
    StartContainersRequest,
    StartContainersResponse,
    StopContainersRequest,
    StopContainersResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from yarnopp_cli.records.jobs import Halt, JobSpec, PhaseSpec, Sweep, TaskSpec, TaskState
from yarnopp_cli.records.master_protocol import (
    AM_RESYNC,
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    FinishApplicationMasterResponse,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus, NodeReport, NodeState, plain_diagnostics
from yarnopp_cli.records.requests import ContainerUpdateType, ResourceRequest, UpdatedContainer
from yarnopp_cli.records.state import StoredTask
from yarnopp_cli.rpc.codec import encode_call
from yarnopp_cli.rpc.wire import MAX_LINE_BYTES

from ...steps import steps
from .driver import ATTEMPT, TOKEN, container, ended, job, only, registered, rm_answered, tasks

FULL = Cause(CauseKind.QUEUE_FULL)


class Script:
    """A master with one RM response after the other, as a test says them."""

    def __init__(self, spec: JobSpec, now: float = 0.0, past: Iterable[StoredTask] = ()) -> None:
        self.master = JobMaster(spec, ATTEMPT, TOKEN)
        self.now = now
        self._response = 0
        self._number = 1
        assert only(RegisterApplicationMasterRequest, self.tell(m.MasterStarted(tuple(past))))
        self.first = self.tell(registered())

    def tell(self, event: m.Event) -> list[m.Command]:
        commands = self.master.handle(event, self.now)
        self.master.validate()
        return commands

    def at(self, now: float) -> list[m.Command]:
        self.now = now
        commands = self.master.advance(now)
        self.master.validate()
        return commands

    def news(self, **fields: object) -> list[m.Command]:
        """An allocate answer with these fields."""
        self._response += 1
        return self.tell(rm_answered(AllocateResponse(self._response, **fields)))  # type: ignore[arg-type]

    def grant(self, asks: list[ResourceRequest]) -> tuple[list[str], list[m.Command]]:
        """Give all of these; the container ids, and what the master does with them."""
        grants = []
        for ask in asks:
            for _ in range(ask.num_containers):
                self._number += 1
                grants.append(container(self._number, ask))
        return [grant.id for grant in grants], self.news(allocated=tuple(grants))


def asks_of(commands: list[m.Command]) -> list[ResourceRequest]:
    return [ask for command in only(AllocateRequest, commands) for ask in command.request.asks]


def begin(spec: JobSpec) -> tuple[Script, list[str]]:
    """A job whose first asks have been granted and started."""
    script = Script(spec)
    ids, commands = script.grant(asks_of(script.first))
    for start in only(StartContainersRequest, commands):
        script.tell(m.Answered(start, StartContainersResponse(start.container_ids)))
    return script, ids


def finish_of(commands: list[m.Command]) -> m.CallRM:
    (finish,) = only(FinishApplicationMasterRequest, commands)
    return finish


def end_of(script: Script) -> m.EndMaster:
    (end,) = only(m.EndMaster, script.tell(rm_answered(FinishApplicationMasterResponse(True))))
    assert script.master.next_deadline() is None
    return end


def test_equal_tasks_are_one_ask_and_unequal_ones_are_not() -> None:
    (ask,) = asks_of(Script(job(3)).first)
    assert ask.num_containers == 3
    assert ask.execution_type_request.execution_type is ExecutionType.OPPORTUNISTIC
    mixed = (*tasks(2), *tasks(1, ExecutionType.GUARANTEED))
    spec = JobSpec("job", "YARN", (PhaseSpec("run", mixed, ("true",)),))
    assert [ask.num_containers for ask in asks_of(Script(spec).first)] == [2, 1]


def test_tasks_with_very_long_values_are_started_in_as_many_calls_as_they_need() -> None:
    values = tuple(f"{number}" * 60_000 for number in range(1, 81))
    script = Script(plan_run(("true",), TaskSpec(1, Resource(10, 1)), 80, sweep=Sweep((values,))))
    ids, commands = script.grant(asks_of(script.first))
    starts = only(StartContainersRequest, commands)
    assert [one for start in starts for one in start.container_ids] == ids
    assert all(len(encode_call(1, start.request)) < MAX_LINE_BYTES for start in starts)


def test_what_is_granted_is_started_in_one_call_a_node() -> None:
    script = Script(job(2, number_variable="N", environment={"A": "b"}))
    (ask,) = asks_of(script.first)
    here, there = container(2, ask), container(3, ask, node_id="host:45455", node_address="unix:/other")
    commands = script.news(allocated=(here, there))
    starts = only(StartContainersRequest, commands)
    assert [(start.node_address, start.container_ids) for start in starts] == [
        ("unix:/nm", (here.id,)),
        ("unix:/other", (there.id,)),
    ]
    contexts = [start.request.containers[0].launch_context for start in starts]
    assert [context.environment for context in contexts] == [{"A": "b", "N": "1"}, {"A": "b", "N": "2"}]
    assert contexts[0].command == ("true",)


def test_the_wait_for_a_grant_counts_as_the_wait_at_a_node_does() -> None:
    script, ids = begin(job(2))
    assert script.news(completed=(ended(ids[0], 0, wait_ms=700),)) is not None
    task = script.master._by_container[ids[1]]
    assert (task.asked_at, task.ask_wait_ms) == (0.0, 0)
    late = Script(job(1), now=10.0)
    late.now = 13.0
    (one,), commands = late.grant(asks_of(late.first))
    (start,) = only(StartContainersRequest, commands)
    late.tell(m.Answered(start, StartContainersResponse((one,))))
    late.news(completed=(ended(one, 0, wait_ms=700),))
    summary = late.master.tally.summary()
    assert (summary.awaited, summary.queued, summary.waited) == (1, 1, 1)
    assert (summary.wait_ms_total, summary.wait_ms_max) == (3700, 3700)


def test_one_allocate_call_is_always_waiting_and_a_second_one_only_with_something_to_say() -> None:
    script = Script(job(2))
    ids, commands = script.grant(asks_of(script.first))
    assert len(only(AllocateRequest, commands)) == 1
    (start,) = only(StartContainersRequest, commands)
    assert not only(AllocateRequest, script.tell(m.Answered(start, StartContainersResponse(tuple(ids)))))
    again = script.tell(m.Answered(start, StartContainersResponse((), (FailedContainer(ids[0], "X", "no"),))))
    assert [command.request.releases for command in only(AllocateRequest, again)] == [(ids[0],)]


def test_all_ended_with_zero_is_success() -> None:
    script, ids = begin(job(2))
    assert not only(FinishApplicationMasterRequest, script.news(completed=(ended(ids[0], 0),)))
    finish = finish_of(script.news(completed=(ended(ids[1], 0, wait_ms=700),)))
    assert finish.request.final_status is FinalApplicationStatus.SUCCEEDED
    end = end_of(script)
    assert (end.exit_code, end.error, end.diagnostics) == (0, None, "")
    assert (end.summary.completed, end.summary.opportunistic, end.summary.guaranteed) == (2, 2, 0)
    assert (end.summary.queued, end.summary.wait_ms_max, end.summary.wait_ms_total) == (1, 700, 700)


def test_the_highest_code_of_those_that_failed_for_good_is_the_jobs() -> None:
    script, ids = begin(job(3))
    script.news(completed=(ended(ids[0], 3, "Exit code 3"), ended(ids[1], 0)))
    finish = finish_of(script.news(completed=(ended(ids[2], 7),)))
    assert finish.request.final_status is FinalApplicationStatus.FAILED
    assert finish.request.diagnostics.startswith("Diagnostics., total=3, completed=3, allocated=3, failed=2")
    assert "task 1: Exit code 3" in finish.request.diagnostics
    ended_so = end_of(script)
    assert ended_so.exit_code == 7
    people = plain_diagnostics(ended_so.diagnostics, ended_so.summary)
    assert people == "2 of 3 tasks failed; task 1: Exit code 3"


@pytest.mark.parametrize(("rule", "code"), [("highest", 7), ("first", 5), ("any", 1)])
def test_another_rule_may_be_asked_for(rule: str, code: int) -> None:
    script, ids = begin(replace(job(4), exit_rule=rule))
    script.news(completed=(ended(ids[2], 0), ended(ids[1], 5)))
    script.news(completed=(ended(ids[3], 7), ended(ids[0], 6)))
    end = end_of(script)
    assert (end.exit_code, end.summary.exit_code) == (code, code)
    script, ids = begin(replace(job(1), exit_rule=rule))
    script.news(completed=(ended(ids[0], 0),))
    assert end_of(script).exit_code == 0


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [(-104, 137, 137), (-104, None, 137), (-105, 143, 143), (-105, 0, 143), (143, 143, 143), (127, 127, 127),
     (-106, None, 143), (-101, None, 125), (-9999, None, 125)],
)  # fmt: skip
def test_exit_codes_are_those_of_a_shell(status: int, code: int | None, expected: int) -> None:
    script, ids = begin(job(1))
    script.news(completed=(ended(ids[0], status, exit_code=code),))
    assert end_of(script).exit_code == expected


@pytest.mark.parametrize("status", [-100, -102, -108])
def test_preempted_shed_and_lost_containers_are_asked_for_again_at_no_cost(status: int) -> None:
    script, ids = begin(job(2, max_attempts=1))
    (ask,) = asks_of(script.news(completed=(ended(ids[0], status),)))
    assert ask.num_containers == 1
    again, _ = script.grant([ask])
    script.news(completed=(ended(ids[1], 0), ended(again[0], 0)))
    end = end_of(script)
    lost = int(status == -100)
    counted = (end.exit_code, end.summary.preempted, end.summary.lost, end.summary.failed)
    assert counted == (0, 1 - lost, lost, 0), "a loss is no preemption"
    assert (script.master._tasks[0].preemptions, script.master._tasks[0].losses) == (1 - lost, lost)


def test_losses_do_not_count_as_preemptions_of_which_there_may_be_so_many() -> None:
    spec = JobSpec("job", "YARN", job(1, max_attempts=1).phases, max_preemptions=2, preempted_is_failure=True)
    script, ids = begin(spec)
    for _ in range(9):
        ids, _ = script.grant(asks_of(script.news(completed=(ended(ids[0], -100),))))
    script.news(completed=(ended(ids[0], 0),))
    end = end_of(script)
    assert (end.exit_code, end.summary.lost, end.summary.preempted, end.summary.retried) == (0, 9, 0, 0)


def test_a_full_queue_is_asked_again_later_and_later() -> None:
    script, ids = begin(job(1))
    pauses = []
    for _ in range(8):
        refused = script.now
        assert not asks_of(script.news(completed=(ended(ids[0], -108, cause=FULL),)))
        due = script.master.next_deadline()
        assert due is not None
        pauses.append(round(due - refused, 3))
        assert not asks_of(script.at(due - 0.001))
        ids, _ = script.grant(asks_of(script.at(due)))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_what_its_node_could_not_start_is_asked_for_again_at_no_cost() -> None:
    spec = JobSpec("job", "YARN", job(1, max_attempts=1).phases, max_preemptions=2)
    script, ids = begin(spec)
    fault = Cause(CauseKind.NODE_FAULT, text="no space left on device")
    for status in (-101, -100, -101, -101):
        assert not asks_of(script.news(completed=(ended(ids[0], status, cause=fault),))), "not at once"
        due = script.master.next_deadline()
        assert due is not None
        ids, _ = script.grant(asks_of(script.at(due)))
    script.news(completed=(ended(ids[0], 0),))
    end = end_of(script)
    assert (end.exit_code, end.summary.preempted, end.summary.failed) == (0, 0, 0)


def test_who_is_shed_again_and_again_asks_later_and_later_until_it_ran() -> None:
    script, ids = begin(job(1))
    pauses = []
    for _ in range(4):
        shed = script.now
        commands = script.news(completed=(ended(ids[0], -108, "De-queued"),))
        due = script.master.next_deadline()
        pauses.append(0.0 if due is None else round(due - shed, 3))
        ids, _ = script.grant(asks_of(commands if due is None else script.at(due)))
    assert pauses == [0.0, 0.05, 0.1, 0.2]
    ids, _ = script.grant(asks_of(script.news(completed=(ended(ids[0], -102),))))
    assert asks_of(script.news(completed=(ended(ids[0], -108, "De-queued"),)))


def test_who_never_gets_through_fails_with_75_and_says_which_property_bounds_it() -> None:
    spec = JobSpec("job", "YARN", job(1).phases, max_preemptions=2)
    script, ids = begin(spec)
    for _ in range(2):
        ids, _ = script.grant(asks_of(script.news(completed=(ended(ids[0], -102),))))
    script.news(completed=(ended(ids[0], -102, "made room"),))
    end = end_of(script)
    assert end.exit_code == 75
    assert "yopp.am.max-preemptions-per-container = 2" in end.diagnostics and "made room" in end.diagnostics


def test_failures_are_tried_again_within_their_attempts_and_codes() -> None:
    script, ids = begin(job(1, max_attempts=2, retry_codes=(5, 6), retry_interval_ms=1500))
    assert not asks_of(script.news(completed=(ended(ids[0], 5),)))
    assert script.master.next_deadline() == 1.5
    ids, _ = script.grant(asks_of(script.at(1.5)))
    script.news(completed=(ended(ids[0], 6),))
    end = end_of(script)
    assert (end.exit_code, end.summary.retried, end.summary.failed) == (6, 1, 1)
    script, ids = begin(job(1, max_attempts=9, retry_codes=(5, 6)))
    script.news(completed=(ended(ids[0], 4),))
    assert end_of(script).exit_code == 4


def test_a_failed_map_is_tried_again_guaranteed_but_a_preempted_one_as_it_was() -> None:
    script, ids = begin(job(2, max_attempts=4, retry_guaranteed=True, retry_priority=5))
    (ask,) = asks_of(script.news(completed=(ended(ids[0], 1),)))
    assert ask.execution_type_request.execution_type is ExecutionType.GUARANTEED and ask.priority == 5
    (ask,) = asks_of(script.news(completed=(ended(ids[1], -108),)))
    assert ask.execution_type_request.execution_type is ExecutionType.OPPORTUNISTIC and ask.priority == 0


def test_fail_fast_stops_the_rest_and_fails_the_job() -> None:
    script, ids = begin(job(3, fail_fast=True))
    commands = script.news(completed=(ended(ids[0], 9, "Exit code 9"),))
    (stop,) = only(StopContainersRequest, commands)
    assert set(stop.request.container_ids) == set(ids[1:])
    finish = finish_of(script.news(completed=tuple(ended(i, -105) for i in ids[1:])))
    assert finish.request.final_status is FinalApplicationStatus.FAILED
    end = end_of(script)
    assert end.exit_code == 9 and "task 1 of the run failed: Exit code 9" in end.diagnostics


def test_the_next_phase_starts_when_the_first_has_ended() -> None:
    first, second = PhaseSpec("map", tasks(2), ("m",)), PhaseSpec("reduce", tasks(1), ("r",))
    script, ids = begin(JobSpec("job", "MAPREDUCE", (first, second)))
    assert not asks_of(script.news(completed=(ended(ids[0], 0),)))
    commands = script.news(completed=(ended(ids[1], 0),))
    _, commands = script.grant(asks_of(commands))
    (start,) = only(StartContainersRequest, commands)
    assert start.request.containers[0].launch_context.command == ("r",)


def test_numbers_by_allocation_count_every_container() -> None:
    script = Script(job(2, number_variable="YARN_SHELL_ID", number_by_allocation=True, max_attempts=2))
    ids, commands = script.grant(asks_of(script.first))
    ids, more = script.grant(asks_of(script.news(completed=(ended(ids[0], 1),))))
    numbers = [
        request.launch_context.environment["YARN_SHELL_ID"]
        for start in only(StartContainersRequest, commands + more)
        for request in start.request.containers
    ]
    assert numbers == ["1", "2", "3"]


def test_a_repeated_answer_changes_nothing() -> None:
    script = Script(job(2))
    (ask,) = asks_of(script.first)
    grant = container(2, ask)
    assert only(StartContainersRequest, script.news(allocated=(grant,)))
    repeated = script.news(allocated=(grant,))
    assert (
        not only(StartContainersRequest, repeated) and not only(AllocateRequest, repeated)[0].request.releases
    )
    script.news(completed=(ended(grant.id, 0),))
    script.news(completed=(ended(grant.id, 0),))
    assert script.master.tally.counts[TaskState.SUCCEEDED] == 1


def test_what_nobody_asked_for_is_given_back() -> None:
    script = Script(job(1))
    (ask,) = asks_of(script.first)
    commands = script.news(allocated=(container(2, ask), container(3, ask)))
    (allocate,) = only(AllocateRequest, commands)
    assert allocate.request.releases == ("container_1_0001_01_000003",)
    (start,) = only(StartContainersRequest, commands)
    assert start.container_ids == ("container_1_0001_01_000002",)


def test_stop_ends_what_lives_withdraws_what_is_asked_and_says_killed() -> None:
    script = Script(job(3))
    (ask,) = asks_of(script.first)
    grant = container(2, ask)
    script.news(allocated=(grant,), started=(grant.id,))
    commands = script.tell(m.StopRequested("interrupted", 130))
    assert [stop.request.container_ids for stop in only(StopContainersRequest, commands)] == [(grant.id,)]
    assert [(ask.allocation_request_id, ask.num_containers) for ask in asks_of(commands)] == [(1, 0)]
    late = script.news(allocated=(container(3, ask),))
    assert only(AllocateRequest, late)[0].request.releases == ("container_1_0001_01_000003",)
    commands = script.news(completed=(ended(grant.id, -105, exit_code=143),))
    (last,) = only(AllocateRequest, commands)
    assert last.request.summary is not None and last.request.summary.exit_code == 130
    assert last.request.progress == 0.0, "what was stopped is not done"
    (kill,) = only(KillApplicationRequest, commands)
    assert (kill.request.application_id, kill.request.diagnostics) == ("application_1_0001", "interrupted")
    end = end_of(script)
    assert (end.exit_code, end.final_status) == (130, FinalApplicationStatus.KILLED)


def test_stop_does_not_wait_for_ever() -> None:
    script, _ids = begin(job(1))
    (stop,) = only(StopContainersRequest, script.tell(m.StopRequested("interrupted", 130)))
    script.tell(m.Answered(stop, StopContainersResponse((), ())))
    assert not only(KillApplicationRequest, script.at(4.9))
    assert script.master.next_deadline() == 5.0
    assert only(KillApplicationRequest, script.at(5.0))
    assert end_of(script).exit_code == 130


def test_stop_before_the_rm_has_answered_takes_leave_at_once() -> None:
    master = JobMaster(job(1), ATTEMPT, TOKEN)
    master.handle(m.MasterStarted(), 0.0)
    commands = master.handle(m.StopRequested("interrupted", 130), 0.1)
    assert only(KillApplicationRequest, commands) and not only(AllocateRequest, commands)


@pytest.mark.parametrize("start_ms", [0, 500])
def test_the_time_limit_ends_the_job_with_124(start_ms: int) -> None:
    """What the start of its cluster took is a part of it."""
    script, ids = begin(JobSpec("job", "YARN", job(1).phases, timeout_ms=2000, start_ms=start_ms))
    over = 2.0 - start_ms / 1000
    assert script.master.next_deadline() == over
    assert only(StopContainersRequest, script.at(over))
    script.news(completed=(ended(ids[0], -105, exit_code=143),))
    end = end_of(script)
    assert end.exit_code == 124 and "2 s" in end.diagnostics


def test_the_time_limit_of_a_later_attempt_counts_from_the_first() -> None:
    spec = JobSpec("job", "YARN", job(1).phases, timeout_ms=9000, start_ms=500)
    second = JobMaster(spec, ATTEMPT, TOKEN)
    second.handle(m.MasterStarted(), 100.0)
    assert second.next_deadline() == 108.5, "until the RM has said when that was"
    second.handle(registered(elapsed_ms=7000), 100.0)
    assert second.next_deadline() == 101.5
    second.advance(101.5)
    second.handle(registered(elapsed_ms=8500), 101.5)
    assert second.next_deadline() != 101.5, "it passes once"


def test_a_refused_ask_is_the_jobs_error() -> None:
    script = Script(job(1))
    (allocate,) = only(AllocateRequest, script.first)
    commands = script.tell(
        m.CallFailed(allocate, InvalidResourceRequestError("too large", because="1024 MB"))
    )
    assert finish_of(commands).request.final_status is FinalApplicationStatus.FAILED
    end = end_of(script)
    assert end.exit_code == 1 and end.error is not None and end.error.because == "1024 MB"


def test_a_lost_rm_is_tried_again_with_all_that_is_outstanding() -> None:
    script = Script(job(3))
    (ask,) = asks_of(script.first)
    _ids, _ = script.grant([ResourceRequest(1, ask.capability, allocation_request_id=1)])
    (held,) = only(AllocateRequest, script.first)
    assert not only(AllocateRequest, script.tell(m.CallFailed(held, ConnectionFailedError("lost"))))
    due = script.master.next_deadline()
    assert due is not None
    (ask,) = asks_of(script.at(due))
    assert (ask.allocation_request_id, ask.num_containers) == (1, 2)


def test_an_rm_that_stays_away_is_given_up() -> None:
    script, _ids = begin(job(1))
    (held,) = only(AllocateRequest, script.first)
    event = m.CallFailed(held, ConnectionFailedError("lost the connection"))
    said = only(m.Notice, script.tell(event))
    assert not said, "a moment's absence is nobody's business"
    proxy = ConnectionFailedError("no AMRMProxy", hint="yopp -D x=true up")
    assert retrying(proxy) == "no AMRMProxy: retrying for 20 s (`yopp -D x=true up` starts what is missing)"
    while script.now < PATIENCE_SECONDS:
        due = script.master.next_deadline()
        assert due is not None
        for allocate in only(AllocateRequest, script.at(due)):
            failed = m.CallFailed(allocate, ConnectionFailedError("lost the connection"))
            said += only(m.Notice, script.tell(failed))
    assert [notice.text for notice in said] == [
        "lost the connection: retrying for 20 s (`yopp up` starts what is missing)"
    ]
    commands = script.at(script.now + 5.1)
    (finish,) = only(FinishApplicationMasterRequest, commands)
    (end,) = only(m.EndMaster, script.tell(m.CallFailed(finish, ConnectionFailedError("lost"))))
    assert end.exit_code == 69 and end.error is not None and not end.told


def given_up(script: Script, call: m.CallRM) -> list[m.Command]:
    """All that a master says from the first call that a lost RM did not answer, until it has ended without it."""
    lost, said = ConnectionFailedError("lost the connection"), list[m.Command]()
    unheard: list[m.CallRM] = [call]
    while not any(isinstance(command, m.EndMaster) for command in said):
        for one in unheard:
            said += script.tell(m.CallFailed(one, lost))
        due = script.master.next_deadline()
        commands = [] if due is None else script.at(due)
        unheard = [command for command in commands if isinstance(command, m.CallRM)]
        said += commands
    return said


def test_the_next_attempt_runs_what_one_killed_that_lost_the_rm() -> None:
    spec = job(4)
    script, ids = begin(replace(spec, max_running=2))
    records: dict[int, StoredTask] = {}

    def note(commands: list[m.Command]) -> None:
        for command in commands:
            if isinstance(command, m.TaskChanged):
                records[command.task.number] = stored_task("application_1_0001", command.task)

    note(script.news(completed=(ended(ids[0], 0),)))
    (held,) = only(AllocateRequest, script.news())
    commands = given_up(script, held)
    note(commands)
    (end,) = only(m.EndMaster, commands)
    assert (end.exit_code, end.told) == (69, False)
    assert [records[number].state for number in (3, 4)] == [TaskState.KILLED] * 2, "so it recorded them"
    second = JobMaster(spec, ATTEMPT, TOKEN)
    second.handle(m.MasterStarted(tuple(records.values())), 0.0)
    commands = second.handle(registered(), 0.0)
    second.validate()
    assert not only(FinishApplicationMasterRequest, commands)
    assert [ask.num_containers for ask in asks_of(commands)] == [3]


@pytest.mark.parametrize("has", ["nothing", "asked", "started", "running"])
def test_a_task_whose_earlier_container_ends_well_needs_no_other(has: str) -> None:
    """Whatever the task has by then, and also if another attempt gave it a second container meanwhile."""
    waits = has == "nothing"
    had = ((1, "c0"), (2, "c1"), (2, "c2")) if waits else ((1, "c1"), (1, "c2"))
    past = [StoredTask(ATTEMPT, 0, number, TaskState.WAITING, name, "h1:1") for number, name in had]
    script = Script(replace(job(2), max_running=1 if waits else 2), past=past)
    asked = asks_of(script.first)
    ids = script.grant(asked)[0] if has in ("started", "running") else []
    if has == "running":
        script.news(started=tuple(ids))
    commands = script.news(completed=(ended("c1", -105, exit_code=0),))
    (changed,) = only(m.TaskChanged, commands)
    record = stored_task(ATTEMPT, changed.task)
    assert (record.number, record.state, record.exit_code) == (had[-1][0], TaskState.SUCCEEDED, 0)
    assert (record.container_id, record.node_id) == ("c1", "h1:1")
    if ids:
        assert [call.request.releases for call in only(AllocateRequest, commands)] == [(ids[0],)]
    else:
        asked = asked if waits else asks_of(commands)
        assert sum(ask.num_containers for ask in asked) == 1
        ids, _ = script.grant(asked)
    script.news(completed=(ended("c1", -105, exit_code=0),))
    commands = script.news(completed=(ended(ids[-1], 0),))
    assert finish_of(commands).request.final_status is FinalApplicationStatus.SUCCEEDED


def test_what_ended_well_is_known_when_its_phase_begins_and_when_the_rm_is_asked_anew() -> None:
    phase = job(1).phases[0]
    spec = JobSpec("job", "YARN", (phase, phase))
    past = [StoredTask(ATTEMPT, number, 1, TaskState.WAITING, f"c{number}", "h1:1") for number in (0, 1)]
    script = Script(spec, past=past)
    script.news(completed=(ended("c1", -105, exit_code=0),))
    assert only(RegisterApplicationMasterRequest, script.news(command=AM_RESYNC))
    commands = script.tell(registered(ended_well=("c0",)))
    assert finish_of(commands).request.final_status is FinalApplicationStatus.SUCCEEDED
    assert [command.task.container.id for command in only(m.TaskChanged, commands)] == ["c0", "c1"]


def test_the_rm_is_told_which_earlier_containers_may_not_have_ended() -> None:
    """At first all that have no end; later, those of which the RM has said that they have not ended."""
    past = [
        StoredTask(ATTEMPT, 0, number, state, name, name and f"h{number}:1")
        for number, state, name in (
            (1, TaskState.WAITING, "c1"),
            (2, TaskState.WAITING, "c2"),
            (2, TaskState.SUCCEEDED, "c3"),
            (3, TaskState.KILLED, "c4"),
            (3, TaskState.WAITING, ""),
            (4, TaskState.WAITING, "c5"),
        )
    ]
    master = JobMaster(job(4), ATTEMPT, TOKEN)
    (first,) = only(RegisterApplicationMasterRequest, master.handle(m.MasterStarted(tuple(past)), 0.0))
    assert first.request.earlier == {"c1": "h1:1", "c4": "h3:1", "c5": "h4:1"}
    commands = master.handle(registered(ending=("c1", "c5")), 0.0)
    assert [ask.num_containers for ask in asks_of(commands)] == [1]
    ended_badly = AllocateResponse(1, completed=(ended("c5", -105),))
    assert [ask.num_containers for ask in asks_of(master.handle(rm_answered(ended_badly), 0.0))] == [1]
    resync = rm_answered(AllocateResponse(0, command=AM_RESYNC))
    (again,) = only(RegisterApplicationMasterRequest, master.handle(resync, 0.0))
    assert again.request.earlier == {"c1": "h1:1"}
    master.handle(registered(ending=("c1", "c4")), 0.0)  # c4 is news, and its task is asked for
    master.handle(rm_answered(AllocateResponse(1, completed=(ended("c4", -105),))), 0.0)
    master.validate()


def test_a_job_that_a_failure_ended_ends_with_its_next_attempt_too() -> None:
    script, ids = begin(job(2, fail_fast=True))
    (failed,) = only(m.TaskChanged, script.news(completed=(ended(ids[0], 4),)))[:1]
    records = [stored_task("application_1_0001", failed.task)]
    killed = only(m.TaskChanged, script.news(completed=(ended(ids[1], -105),)))
    records += [stored_task("application_1_0001", command.task) for command in killed]
    assert [one.state for one in records] == [TaskState.FAILED, TaskState.KILLED]
    second = JobMaster(job(2, fail_fast=True), ATTEMPT, TOKEN)
    second.handle(m.MasterStarted(tuple(records)), 0.0)
    commands = second.handle(registered(), 0.0)
    second.validate()
    assert not asks_of(commands)
    assert finish_of(commands).request.final_status is FinalApplicationStatus.FAILED


def test_who_is_not_known_any_more_ends_at_once() -> None:
    script, _ = begin(job(1))
    (held,) = only(AllocateRequest, script.first)
    (end,) = only(m.EndMaster, script.tell(m.CallFailed(held, ApplicationNotFoundError("no such app"))))
    assert end.exit_code == 66 and end.error is not None
    script, _ = begin(job(1))
    (end,) = only(m.EndMaster, script.news(command="AM_SHUTDOWN"))
    assert end.exit_code == 143


def test_a_restarted_rm_is_told_everything_again() -> None:
    script = Script(job(2))
    _ids, _ = script.grant([ResourceRequest(1, asks_of(script.first)[0].capability, allocation_request_id=1)])
    assert only(RegisterApplicationMasterRequest, script.news(command="AM_RESYNC"))
    (allocate,) = only(AllocateRequest, script.tell(registered()))
    assert allocate.request.response_id == 0
    assert [ask.num_containers for ask in allocate.request.asks] == [1]


def test_a_change_that_a_node_may_not_have_heard_is_told_again() -> None:
    """And no more once the container has ended."""
    script, (container_id,) = begin(job(1, promote=True))
    (allocate,) = only(AllocateRequest, script.news(started=(container_id,)))
    (request,) = allocate.request.updates
    changed = replace(script.master._by_container[container_id].container, version=1)  # type: ignore[type-var]
    (update,) = only(
        UpdateContainersRequest, script.news(updated=(UpdatedContainer(request.update_type, changed),))
    )
    failed = m.CallFailed(update, ConnectionFailedError("no node"))
    for _ in range(2):
        assert not only(m.Notice, script.tell(failed))
        due = script.master.next_deadline()
        assert due is not None
        assert only(UpdateContainersRequest, script.at(due)) == [update]
    script.tell(failed)
    script.news(completed=(ended(container_id, 0),))
    due = script.master.next_deadline()
    assert due is None or not only(UpdateContainersRequest, script.at(due))


def test_a_node_that_is_away_is_tried_again_and_then_given_up() -> None:
    script = Script(job(1))
    ids, commands = script.grant(asks_of(script.first))
    (start,) = only(StartContainersRequest, commands)
    starts = 0
    while script.now < 15:
        commands = script.tell(m.CallFailed(start, ConnectionFailedError("no node")))
        due = script.master.next_deadline()
        assert due is not None
        later = script.at(due)
        if not only(StartContainersRequest, later):
            break
        (start,) = only(StartContainersRequest, later)
        assert start.container_ids == tuple(ids)
        starts += 1
    assert starts > 20
    assert script.now == pytest.approx(10.2, abs=0.5)
    released = [i for a in only(AllocateRequest, commands) for i in a.request.releases]
    assert released == ids
    assert [ask.num_containers for ask in asks_of(later)] == [1]


def test_a_node_that_refuses_a_start_three_times_fails_the_task_with_125() -> None:
    script = Script(job(1))
    ids, commands = script.grant(asks_of(script.first))
    for _ in range(3):
        (start,) = only(StartContainersRequest, commands)
        failed = FailedContainer(ids[0], "InvalidToken", "the token has expired")
        commands = script.tell(m.Answered(start, StartContainersResponse((), (failed,))))
        if due := script.master.next_deadline():
            ids, commands = script.grant(asks_of(script.at(due)))
    end = end_of(script)
    assert end.exit_code == 125 and "the token has expired" in end.diagnostics


def test_promotion_is_asked_for_once_running_and_brought_to_the_node() -> None:
    script, ids = begin(job(1, promote=True))
    script.news(queued=(ids[0],))
    (allocate,) = only(AllocateRequest, script.news(started=(ids[0],)))
    (update,) = allocate.request.updates
    assert update.update_type is ContainerUpdateType.PROMOTE_EXECUTION_TYPE
    assert (update.container_id, update.container_version) == (ids[0], 0)
    assert not only(AllocateRequest, script.news(started=(ids[0],)))[0].request.updates
    changed = container(
        2, ResourceRequest(1, allocate.request.asks[0].capability if allocate.request.asks else tasks(1)[0].resource),
        id=ids[0], version=1, execution_type=ExecutionType.GUARANTEED,
    )  # fmt: skip
    granted = UpdatedContainer(ContainerUpdateType.PROMOTE_EXECUTION_TYPE, changed)
    (call,) = only(UpdateContainersRequest, script.news(updated=(granted,)))
    assert call.request.tokens == (changed.token,)
    script.tell(m.Answered(call, UpdateContainersResponse((ids[0],))))
    script.news(completed=(ended(ids[0], 0),))
    end = end_of(script)
    assert (end.summary.promoted, end.summary.guaranteed, end.summary.opportunistic) == (1, 1, 0)


def test_states_are_told_as_they_change() -> None:
    script = Script(job(1))
    ids, commands = script.grant(asks_of(script.first))
    seen = only(m.TaskChanged, script.first + commands)
    for fields in ({"queued": (ids[0],)}, {"started": (ids[0],)}, {"completed": (ended(ids[0], 0),)}):
        seen += only(m.TaskChanged, script.news(**fields))
    assert [change.report.state.value for change in seen] == [
        "ASKED", "STARTING", "QUEUED", "RUNNING", "SUCCEEDED",
    ]  # fmt: skip
    assert seen[-1].report.container_id == ids[0] and seen[-1].report.exit_code == 0


def test_it_says_when_a_node_it_may_wait_for_is_away_and_back() -> None:
    script, _ = begin(job(1))
    node = NodeReport("h1:1", NodeState.RUNNING, "unix:/nm.sock", total=Resource(1024, 1), used=Resource())

    def told(**changes: object) -> list[str]:
        changed = replace(node, **changes)  # type: ignore[arg-type]
        return [notice.text for notice in only(m.Notice, script.news(updated_nodes=(changed,)))]

    assert told() == [], "a node that comes is no trouble"
    [away] = told(connected=False)
    assert "h1:1 does not answer" in away and "yopp up" in away
    assert told() == ["node h1:1 answers again"]
    [lost] = told(connected=False, state=NodeState.LOST)
    assert "is lost" in lost


def test_no_more_than_may_run_at_once_are_asked_for() -> None:
    script = Script(replace(job(5, max_attempts=2), max_running=2))
    (ask,) = asks_of(script.first)
    assert ask.num_containers == 2
    assert script.master.next_deadline() is None, "nothing is due while nothing more may run"
    ids, _ = script.grant([ask])
    (ask,) = asks_of(script.news(completed=(ended(ids[0], 0),)))
    assert ask.num_containers == 1
    again = asks_of(script.news(completed=(ended(ids[1], 1),)))
    assert [one.num_containers for one in again] == [1], "one that is tried again counts, too"
    assert script.master.tally.counts[TaskState.ASKED] == 2


def lines_of_turns(waiting: int) -> int:
    """Lines executed in 50 turns of a job of which two containers run, and so many tasks wait."""
    script, ids = begin(replace(job(waiting), max_running=2))
    script.master.validate = lambda: None  # type: ignore[method-assign]

    def turns() -> None:
        for _ in range(50):
            new, _ = script.grant(asks_of(script.news(completed=(ended(ids.pop(0), 0),))))
            ids.extend(new)

    return steps(turns)


def test_a_turn_costs_the_same_however_many_tasks_wait_for_their_turn() -> None:
    few, many = lines_of_turns(100), lines_of_turns(2000)
    assert many < 1.1 * few, f"50 turns: {few} lines with 100 tasks, {many} with 2,000"


def test_one_that_is_tried_again_later_comes_after_those_that_are_due() -> None:
    waiting = WaitingTasks()
    first, second, third = Task.all_of(0, job(3).phases[0])
    waiting.add_later(first, 5.0)
    waiting.add((second, third))
    assert waiting.next_time() == 5.0 and len(waiting) == 3
    assert waiting.take(4.0, 1) == [second] and waiting.take(4.0, -1) == []
    assert waiting.take(5.0, 9) == [third, first]
    assert waiting.next_time() is None and not len(waiting)


def halted(now: bool) -> tuple[Script, list[str], list[m.Command]]:
    """A job of five tasks, of which two run and one is queued, after its first failure."""
    script, ids = begin(replace(job(5), halt=Halt(1, now), max_running=3))
    script.news(started=tuple(ids[:2]), queued=(ids[2],))
    return script, ids, script.news(completed=(ended(ids[0], 4),))


def test_a_job_that_halts_soon_lets_what_runs_end() -> None:
    script, ids, commands = halted(now=False)
    (stop,) = only(StopContainersRequest, commands)
    assert stop.request.container_ids == (ids[2],) and not asks_of(commands)
    assert script.master.tally.counts[TaskState.KILLED] == 2
    assert not only(FinishApplicationMasterRequest, script.news(completed=(ended(ids[2], -105),)))
    finish = finish_of(script.news(completed=(ended(ids[1], 0),))).request
    assert finish.final_status is FinalApplicationStatus.FAILED
    assert finish.diagnostics == "halted: 1 of 5 tasks failed"
    assert end_of(script).exit_code == 4
    counts = script.master.tally.counts
    assert (counts[TaskState.SUCCEEDED], counts[TaskState.FAILED], counts[TaskState.KILLED]) == (1, 1, 3)


def test_a_node_that_is_away_when_its_queued_containers_are_to_end_is_told_later() -> None:
    script, ids, commands = halted(now=False)
    (stop,) = only(StopContainersRequest, commands)
    script.tell(m.CallFailed(stop, ConnectionFailedError("no node")))
    due = script.master.next_deadline()
    assert due is not None
    assert [one.request.container_ids for one in only(StopContainersRequest, script.at(due))] == [(ids[2],)]


def test_what_is_queued_only_after_a_halt_does_not_run_either() -> None:
    script, ids = begin(replace(job(2), halt=Halt(1)))
    script.news(completed=(ended(ids[0], 4),))
    (stop,) = only(StopContainersRequest, script.news(queued=(ids[1],)))
    assert stop.request.container_ids == (ids[1],)
    assert finish_of(script.news(completed=(ended(ids[1], -105),)))
    assert script.master.tally.counts[TaskState.KILLED] == 1


def test_what_is_preempted_after_a_halt_is_not_asked_for_again() -> None:
    script, ids, _ = halted(now=False)
    script.news(completed=(ended(ids[2], -105),))
    commands = script.news(completed=(ended(ids[1], -102),))
    assert not asks_of(commands) and finish_of(commands)


def test_a_job_that_halts_now_ends_what_runs() -> None:
    script, ids, commands = halted(now=True)
    (stop,) = only(StopContainersRequest, commands)
    assert set(stop.request.container_ids) == {ids[1], ids[2]}
    finish = finish_of(script.news(completed=(ended(ids[1], -105), ended(ids[2], -105))))
    assert finish.request.final_status is FinalApplicationStatus.FAILED
    assert end_of(script).exit_code == 4
