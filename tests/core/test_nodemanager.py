"""The NodeManager's machine: literal times, no daemon, no wire."""

from __future__ import annotations

from typing import Any

import pytest

from executor.core import commands as do
from executor.core import events as happened
from executor.core.outcome import RESUMED
from executor.core.scheduler import ContainerScheduler
from executor.records import (
    ContainerExitStatus,
    ContainerQueuingLimit,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    ContainerUsage,
    ExecutionType,
    Resource,
    ResourceUtilization,
)
from executor.settings import ExecutorSettings
from yarnopp_cli.errors import (
    ConnectionFailedError,
    ContainerNotFoundError,
    InvalidStateError,
    NotYetSupportedError,
    ShuttingDownError,
    YoppError,
)
from yarnopp_cli.machine import tokens
from yarnopp_cli.machine.calls import CallReceived, ConnectionLost, Reply, ReplyError, StopDaemon
from yarnopp_cli.nodemanager.events import (
    AnnounceReady,
    AnswerByCopy,
    CopyAnswered,
    NodeStopRequested,
)
from yarnopp_cli.nodemanager.machine import NodeManager
from yarnopp_cli.nodemanager.reports import NodeDescription
from yarnopp_cli.records.client_protocol import GetNewApplicationRequest
from yarnopp_cli.records.container_protocol import (
    GetContainerStatusesRequest,
    GetNodeInfoRequest,
    GetUsageTracesRequest,
    PauseContainerRequest,
    ResumeContainerRequest,
    SignalContainerRequest,
    StartContainerRequest,
    StartContainersRequest,
    StopContainersRequest,
    UpdateContainersRequest,
)
from yarnopp_cli.records.requests import Container, ContainerLaunchContext, Token
from yarnopp_cli.records.tracker_protocol import (
    ContainerToStart,
    ContainerToUpdate,
    LaunchTemplate,
    NodeAnswer,
    NodeHeartbeatRequest,
    NodeHeartbeatResponse,
    NodeQuestion,
    RegisterNodeManagerRequest,
    RegisterNodeManagerResponse,
    TaskToStart,
    UnRegisterNodeManagerRequest,
)
from yarnopp_cli.settings.declarations import NodeManagerSettings

from .node_harness import CONNECT, CONNECTED, UNREGISTERED, answered, lost, refused

KEY = b"k" * 32
NODE = "host1:45454"
APP = "application_1_0001"
DONE, RUNNING = ContainerState.DONE, ContainerState.RUNNING


def cid(number: int) -> str:
    return f"container_1_0001_01_{number:06d}"


def token(number: int, *, key: bytes = KEY, **changed: Any) -> Token:
    payload: dict[str, Any] = {
        "container_id": cid(number),
        "node_id": NODE,
        "application_id": APP,
        "attempt_id": "appattempt_1_0001_000001",
        "user": "ann",
        "memory": 1024,
        "vcores": 1,
        "execution_type": "OPPORTUNISTIC",
        "priority": 0,
        "version": 0,
        "expires_ms": 2_000_000_000_000,
    }
    return tokens.sign(key, tokens.CONTAINER_TOKEN, payload | changed)


def to_start(
    number: int, command: tuple[str, ...] = ("sleep", "10"), **changed: Any
) -> StartContainerRequest:
    return StartContainerRequest(token(number, **changed), ContainerLaunchContext(command))


class World:
    """A node whose time the test sets, and whose commands it looks at. Every step is validated."""

    def __init__(
        self,
        *,
        recovery: bool = True,
        queue: int = 10,
        periodic: bool = False,
        wall_offset: float = 1_000_000.0,
    ) -> None:
        self.now = 100.0
        self.machine = NodeManager(
            NODE,
            "unix:/run/yopp/nm-45454.sock",
            Resource(4096, 2),
            ExecutorSettings(max_queue_length=queue, group_weights=False),
            NodeManagerSettings(
                recovery_enabled=recovery, heartbeat_mode="periodic" if periodic else "event-driven"
            ),
            physical_cores=2,
            wall_offset=wall_offset,
            log_dir="/logs",
            facts=NodeDescription(pid=77, version="9.9", cgroups="v2", warnings=("weak",)),
        )
        self.commands: list[Any] = []
        self.calls = 0

    def tell(self, event: Any, at: float | None = None) -> list[Any]:
        """Post an event; what came of it (also kept in ``commands``)."""
        self.now = self.now if at is None else at
        new = self.machine.handle(event, self.now)
        for command in of(do.RevokeNext, new):
            if command.ends:  # it has not begun
                new += self.machine.handle(happened.ContainerExited(command.container_id, None), self.now)
        self.machine.validate()
        self.commands += new
        return new

    def until(self, at: float) -> list[Any]:
        """Let time pass; all deadlines up to ``at`` are served when they are due."""
        new: list[Any] = []
        for _ in range(1000):
            due = self.machine.next_deadline()
            if due is None or due > at:
                self.now = at
                self.commands += new
                return new
            self.now = max(due, self.now)
            new += self.machine.advance(self.now)
            self.machine.validate()
        raise AssertionError(f"a deadline at {self.machine.next_deadline()} never goes away")

    def call(self, request: Any, connection: int = 1) -> Any:
        """The response; raises what it was refused with. None while it is held."""
        self.calls += 1
        for command in self.tell(CallReceived(self.calls, connection, request)):
            if isinstance(command, Reply) and command.call_id == self.calls:
                return command.response
            if isinstance(command, ReplyError) and command.call_id == self.calls:
                raise command.error
        return None

    def start(self, *requests: StartContainerRequest) -> Any:
        return self.call(StartContainersRequest(tuple(requests)))

    def register(self, **response: Any) -> list[Any]:
        """From birth to the first heartbeat."""
        assert self.tell(happened.RecoveryCompleted()) == [CONNECT]
        (register,) = self.tell(CONNECTED)
        assert isinstance(register.request, RegisterNodeManagerRequest)
        return self.tell(answered(registered(**response)))

    def answer(self, at: float | None = None, **response: Any) -> list[Any]:
        """Answer the oldest heartbeat that is without an answer."""
        sequence = self.unanswered[0]
        self.now = self.now if at is None else at
        new = self.tell(answered(NodeHeartbeatResponse(sequence, **response), sequence))
        self.answered.add(sequence)
        return new

    answered: set[int]

    @property
    def unanswered(self) -> list[int]:
        if not hasattr(self, "answered"):
            self.answered = set()
        sent = [command.sequence for command in of(NodeHeartbeatRequest, self.commands)]
        return [sequence for sequence in sent if sequence not in self.answered]

    def launched(self, number: int) -> list[Any]:
        return self.tell(happened.ContainerLaunched(cid(number), 1000 + number, 5))

    def exited(self, number: int, code: int | None = 0) -> list[Any]:
        return self.tell(happened.ContainerExited(cid(number), code))

    def status(self, number: int) -> ContainerStatus:
        status = self.machine.scheduler.status(cid(number))
        assert status is not None
        return status

    def run_one(self, number: int = 1, **changed: Any) -> None:
        assert self.start(to_start(number, **changed)).started == (cid(number),)
        self.launched(number)


def registered(**changed: Any) -> RegisterNodeManagerResponse:
    facts: dict[str, Any] = {"action": "NORMAL", "container_token_key": KEY.hex(), "secret": "s3"}
    return RegisterNodeManagerResponse(**(facts | changed))


def of(kind: type, commands: list[Any]) -> list[Any]:
    """The commands of this kind, or the calls with requests of it."""
    return [
        one for one in commands if isinstance(one, kind) or isinstance(getattr(one, "request", None), kind)
    ]


def beats(commands: list[Any]) -> list[NodeHeartbeatRequest]:
    return [command.request for command in of(NodeHeartbeatRequest, commands)]


def told(request: NodeHeartbeatRequest) -> dict[str, str]:
    return {status.container_id[-2:]: status.state.value for status in request.containers}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def node() -> World:
    """Registered, with a first heartbeat waiting at the RM."""
    world = World()
    world.register()
    assert len(world.unanswered) == 1
    return world


# -- registration and heartbeats -----------------------------------------------------------------------------


def test_it_registers_with_what_it_has_and_announces_itself_once(world: World) -> None:
    world.tell(happened.RecoveryCompleted())
    (register,) = of(RegisterNodeManagerRequest, world.tell(CONNECTED))
    assert register.request.node_id == NODE
    assert register.request.resource == Resource(4096, 2)
    assert register.request.pid == 77
    first, beat = world.tell(answered(registered(heartbeat_interval_ms=500)))
    assert first == AnnounceReady()
    assert (beat.request.secret, beat.request.wait_ms) == ("s3", 1500)
    world.tell(lost("gone"))
    world.until(101.0)
    world.tell(CONNECTED)
    assert AnnounceReady() not in world.tell(answered(registered()))


def test_nothing_is_said_before_recovery_is_complete(world: World) -> None:
    record = ContainerRecord(happened_spec(1), RUNNING, pid=9, process_start=1, sequence=3)
    assert world.tell(happened.ContainerRecovered(record, alive=True)) == [
        command for command in world.commands if isinstance(command, do.StoreContainer)
    ]
    world.tell(happened.RecoveryCompleted())
    (register,) = of(RegisterNodeManagerRequest, world.tell(CONNECTED))
    assert [status.container_id for status in register.request.containers] == [cid(1)]
    assert register.request.containers[0].state is RUNNING
    assert register.request.running_applications == (APP,)


def happened_spec(number: int) -> ContainerSpec:
    return ContainerSpec(
        cid(number), ("sleep", "9"), Resource(1024, 1), ExecutionType.OPPORTUNISTIC, application_id=APP
    )


def test_a_change_is_told_at_once_and_at_most_two_heartbeats_are_unanswered(node: World) -> None:
    before = len(node.commands)
    node.start(to_start(1))
    (beat,) = beats(node.commands[before:])
    assert told(beat) == {"01": "LAUNCHING"}
    # The first waits at the RM, the second is on its way: the third and fourth change go together.
    assert beats(node.launched(1)) == []
    assert beats(node.exited(1, 7)) == []
    (beat,) = beats(node.answer())
    assert told(beat) == {"01": "DONE"}
    assert beat.containers[0].exit_status == 7
    assert beats(node.answer()) == []
    assert len(node.unanswered) == 1


def test_the_first_measurement_of_a_node_is_told_at_once(node: World) -> None:
    before = len(node.commands)
    for megabytes in (700, 800):
        node.tell(happened.UsageSampled({}, ResourceUtilization(megabytes, 0.5)))
    (beat,) = beats(node.commands[before:])
    assert beat.node_utilization == ResourceUtilization(700, 0.5)


def test_a_question_is_answered_by_a_copy_and_the_answer_told_at_once(node: World) -> None:
    question = NodeQuestion(7, "application_1_0001")
    assert of(AnswerByCopy, node.answer(questions=(question,))) == [AnswerByCopy(question)]
    told = NodeAnswer(7, waiting=3)
    (beat,) = beats(node.tell(CopyAnswered(told)))
    assert beat.answers == (told,)
    node.answer()
    assert all(not beat.answers for beat in beats(node.answer())), "once"


def test_the_rm_may_hold_the_heartbeat_of_a_node_without_containers_for_three_intervals(node: World) -> None:
    before = len(node.commands)
    node.run_one()
    node.answer()
    node.exited(1)
    node.answer()
    node.answer()
    assert [beat.wait_ms for beat in beats(node.commands[before:])] == [1000, 1000, 3000]


def test_ends_are_repeated_until_acknowledged_and_then_forgotten(node: World) -> None:
    node.run_one()
    node.answer()
    node.exited(1)
    node.answer()
    assert do.ForgetContainer(cid(1)) not in node.commands
    node.start(to_start(2))
    node.answer()
    assert {"01": "DONE"}.items() <= told(beats(node.commands)[-1]).items()
    new = node.answer(completed_acknowledged=(cid(1),))
    assert do.ForgetContainer(cid(1)) in new
    node.exited(2) if node.status(2).state is RUNNING else node.launched(2)
    while len(node.unanswered) > 1:
        node.answer()
    assert "01" not in told(beats(node.commands)[-1])
    # It stays known to people for a while.
    assert node.call(GetContainerStatusesRequest((cid(1),))).statuses[0].state is DONE


def test_an_idle_node_always_has_one_heartbeat_waiting_at_the_rm(node: World) -> None:
    for second in range(1, 5):
        (beat,) = beats(node.answer(at=100.0 + second))
        assert beat.containers == ()
        assert beat.response_id == len(beats(node.commands)) - 1
    assert node.machine.next_deadline() is None


def test_an_rm_that_does_not_hold_heartbeats_is_not_flooded(node: World) -> None:
    for _ in range(100):
        if not node.unanswered:
            break
        node.answer()
    assert len(beats(node.commands)) < 10
    assert beats(node.until(100.9)) == []
    assert len(beats(node.until(101.1))) == 1
    # Held again: the next one goes at once.
    assert len(beats(node.answer(at=101.9))) == 1


def two_run_and_all_is_told(node: World) -> None:
    """The RM holds one heartbeat, and has heard of nothing for a while."""
    node.launched(1)
    node.launched(2)
    node.until(100.5)
    while len(node.unanswered) > 1:
        node.answer()
    node.until(100.6)


def test_while_containers_queue_news_go_together_and_else_at_once(node: World) -> None:
    for number in range(1, 6):  # two run, three queue
        node.start(to_start(number))
    two_run_and_all_is_told(node)
    assert len(node.unanswered) == 1 and node.machine.scheduler.queue_length == 3
    assert beats(node.exited(1)) == []  # the first news after a while: the next one starts first
    assert node.machine.next_deadline() == pytest.approx(100.604)
    (beat,) = beats(node.until(100.604))
    assert told(beat) == {"01": "DONE", "03": "LAUNCHING"}
    node.answer(at=100.605)
    assert beats(node.launched(3)) == beats(node.exited(3)) == []
    assert node.machine.next_deadline() == pytest.approx(100.612)  # of opportunistic ones alone: two gaps
    assert beats(node.until(100.6115)) == []
    (beat,) = beats(node.until(100.613))
    assert told(beat) == {"01": "DONE", "03": "DONE", "04": "LAUNCHING"}
    node.answer()
    node.answer()
    node.launched(4)
    assert node.machine.scheduler.queue_length == 1
    (beat,) = beats(node.exited(4))  # the last one starts: nothing queues any more
    assert told(beat)["05"] == "LAUNCHING"


def test_while_containers_queue_news_of_a_guaranteed_one_waits_for_one_gap_only(node: World) -> None:
    node.start(to_start(1, execution_type="GUARANTEED"))
    for number in range(2, 6):  # one runs, three queue
        node.start(to_start(number))
    two_run_and_all_is_told(node)
    assert beats(node.exited(2)) == []
    assert len(beats(node.until(100.604))) == 1
    node.answer(at=100.605)
    assert beats(node.launched(3)) == []
    assert node.machine.next_deadline() == pytest.approx(100.612)
    assert beats(node.exited(1)) == []
    assert node.machine.next_deadline() == pytest.approx(100.608)
    (beat,) = beats(node.until(100.609))
    assert told(beat)["01"] == "DONE"


def test_periodic_heartbeats_wait_for_their_interval() -> None:
    node = World(periodic=True)
    node.register()
    node.answer(at=100.01)
    node.start(to_start(1))
    node.launched(1)
    assert beats(node.until(100.99)) == []
    (beat,) = beats(node.until(101.01))
    assert told(beat) == {"01": "RUNNING"}
    assert beat.wait_ms == 0


def test_usage_of_running_containers_goes_with_heartbeats_at_most_once_a_second(node: World) -> None:
    node.tell(happened.UsageSampled({}, ResourceUtilization(1, 0.1)))  # the first one is told at once
    while len(node.unanswered) > 1:
        node.answer()
    node.run_one()
    node.answer(at=100.2)
    usage = {cid(1): ContainerUsage(cpu_seconds=1.0, memory_bytes=500, sampled_at=101.0)}
    assert beats(node.tell(happened.UsageSampled(usage, ResourceUtilization(9, 0.5)), at=101.0)) == []
    while node.unanswered:
        (*_, last) = beats(node.answer(at=101.2)) or [None]
        if last is not None:
            break
    assert last is not None
    assert last.containers[0].usage.memory_bytes == 500
    assert last.node_utilization == ResourceUtilization(9, 0.5)
    usage = {cid(1): ContainerUsage(cpu_seconds=2.5, memory_bytes=600, sampled_at=102.0)}
    node.tell(happened.UsageSampled(usage), at=101.5)
    (beat,) = beats(node.answer(at=101.9))
    assert beat.containers == ()
    assert beat.containers_utilization == ResourceUtilization(600, 1.5)


def test_resync_registers_again_with_everything_and_old_answers_mean_nothing(node: World) -> None:
    node.run_one(1)
    node.run_one(2)
    node.exited(2, 3)
    old = node.unanswered[-1]
    node.answer(action="RESYNC")
    (register,) = of(RegisterNodeManagerRequest, node.until(100.2))
    assert {status.container_id: status.state for status in register.request.containers} == {
        cid(1): RUNNING,
        cid(2): DONE,
    }
    assert node.tell(answered(NodeHeartbeatResponse(9, action="SHUTDOWN"), old)) == []
    (beat,) = beats(node.tell(answered(registered(secret="s4"))))
    assert (beat.secret, beat.response_id) == ("s4", 0)


def test_an_rm_that_always_says_resync_is_asked_ever_more_rarely(node: World) -> None:
    registrations = 0
    for _ in range(20):
        node.tell(refused(of(NodeHeartbeatRequest, node.commands)[-1], YoppError("no")))
        registrations += len(of(RegisterNodeManagerRequest, node.until(node.now + 1.0)))
        node.tell(answered(registered()))
    assert registrations == 20
    assert node.now > 115.0


def test_a_lost_connection_is_retried_with_backoff_and_containers_go_on(node: World) -> None:
    node.run_one()
    new = node.tell(lost("closed"))
    assert new == []
    gaps = []
    for _ in range(7):
        before = node.now
        due = node.machine.next_deadline()
        assert due is not None
        assert node.until(due) == [CONNECT]
        gaps.append(round(node.now - before, 3))
        node.tell(lost("refused"))
    assert gaps == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert node.status(1).state is RUNNING
    node.until(node.now + 3600)
    assert node.status(1).state is RUNNING
    node.tell(CONNECTED)
    assert of(RegisterNodeManagerRequest, node.commands)[-1].request.containers[0].container_id == cid(1)


def test_a_new_node_tries_quickly_at_first_and_gives_up_after_a_bound(world: World) -> None:
    world.tell(happened.RecoveryCompleted())
    attempts = 0
    for _ in range(1000):
        attempts += 1
        if of(StopDaemon, world.tell(lost("no such file"))):
            break
        world.until(world.machine.next_deadline() or 0.0)
        if of(StopDaemon, world.commands):
            break
    assert 129.9 < world.now < 131.1
    assert attempts > 200


def test_a_node_of_an_on_demand_cluster_ends_itself_when_its_rm_is_gone(node: World) -> None:
    node.run_one()
    node.answer(lifetime="on-demand")
    node.tell(lost("closed"))
    assert of(do.KillContainer, node.until(105.1)) == [], "it may be back: this node may have been stopped"
    assert of(do.KillContainer, [*node.tell(lost("refused")), *node.until(105.2)]) == [
        do.KillContainer(cid(1))
    ]
    assert of(StopDaemon, node.exited(1, 143))


def test_registration_with_cleanup_kills_what_belongs_to_nobody(node: World) -> None:
    node.run_one(1)
    node.run_one(2)
    node.exited(2)
    node.tell(lost("closed"))
    node.until(100.1)
    node.tell(CONNECTED)
    new = node.tell(answered(registered(containers_to_cleanup=(cid(1), cid(2)))))
    assert of(do.KillContainer, new) == [do.KillContainer(cid(1))]
    assert told(beats(new)[-1])["02"] == "DONE", "the RM may not have heard of its end"
    node.exited(1, 143)
    assert node.status(1).exit_status == ContainerExitStatus.KILLED_BY_RESOURCEMANAGER


def test_a_refused_first_registration_ends_the_node_and_touches_no_container(world: World) -> None:
    record = ContainerRecord(happened_spec(1), RUNNING, pid=9, process_start=1)
    world.tell(happened.ContainerRecovered(record, alive=True))
    world.tell(happened.RecoveryCompleted())
    world.tell(CONNECTED)
    new = world.tell(answered(RegisterNodeManagerResponse("SHUTDOWN", diagnostics="it is there twice")))
    assert new == [StopDaemon("it is there twice")]
    assert world.machine.has_containers


def test_an_rm_that_is_ending_is_asked_again_later(world: World) -> None:
    world.tell(happened.RecoveryCompleted())
    world.tell(CONNECTED)
    assert (
        world.tell(refused(of(RegisterNodeManagerRequest, world.commands)[-1], ShuttingDownError("ending")))
        == []
    )
    assert of(RegisterNodeManagerRequest, world.until(100.2))


# -- what the RM wants ---------------------------------------------------------------------------------------


def test_masters_are_started_from_the_heartbeat_response_without_a_token(node: World) -> None:
    container = Container(
        cid(1), NODE, "unix:/x", Resource(128, 0), Token("", "", ""), execution_type=ExecutionType.GUARANTEED
    )
    start = ContainerToStart(container, ContainerLaunchContext(("am",), {"A": "b"}), APP, "ann")
    (launch,) = of(do.LaunchContainer, node.answer(containers_to_start=(start,)))
    assert launch.spec.command == ("am",)
    assert launch.spec.environment == {"A": "b"}
    assert launch.spec.log_directory == f"/logs/{APP}/{cid(1)}"
    assert launch.spec.execution_type is ExecutionType.GUARANTEED
    assert of(do.LaunchContainer, node.answer(containers_to_start=(start,))) == []


def test_a_master_that_nothing_could_run_ends_and_is_told(node: World) -> None:
    container = Container(cid(1), NODE, "unix:/x", Resource(128, 0), Token("", "", ""))
    start = ContainerToStart(container, ContainerLaunchContext(()), APP)
    (*_, beat) = beats(node.answer(containers_to_start=(start,)))
    assert told(beat) == {"01": "DONE"}
    assert beat.containers[0].exit_status == 125
    assert "has no command" in beat.containers[0].diagnostics


def task(number: int, *arguments: str, template: str = f"{APP}/0") -> TaskToStart:
    return TaskToStart(
        cid(number), template, number, Resource(64, 1), ExecutionType.OPPORTUNISTIC, arguments=arguments
    )


TEMPLATE = LaunchTemplate(
    f"{APP}/0", APP, "ann", ContainerLaunchContext(("echo",), {"A": "b"}, "/tmp", own_account=True), "NUMBER"
)


def test_tasks_of_hosted_masters_are_filled_into_their_template(node: World) -> None:
    new = node.answer(templates=(TEMPLATE,), tasks_to_start=(task(1), task(2, "x")))
    first, second = of(do.LaunchContainer, new)
    assert first.spec.environment == {"A": "b", "NUMBER": "1"} and first.spec.command == ("echo",)
    assert second.spec.environment == {"A": "b", "NUMBER": "2"} and second.spec.command == ("echo", "x")
    assert (second.spec.user, second.spec.working_directory, second.spec.own_account) == ("ann", "/tmp", True)
    assert second.spec.log_directory == f"/logs/{APP}/{cid(2)}" and second.spec.resource == Resource(64, 1)
    assert of(do.LaunchContainer, node.answer(tasks_to_start=(task(2, "x"),))) == [], "told twice"


def test_a_task_without_its_template_ends_and_is_told(node: World) -> None:
    (*_, beat) = beats(node.answer(tasks_to_start=(task(1, "rm"),)))
    assert told(beat) == {"01": "DONE"} and beat.containers[0].exit_status == 125


def test_a_template_is_forgotten_with_its_application_and_late_tasks_of_it_start_nothing(node: World) -> None:
    node.answer(templates=(TEMPLATE,))
    node.answer(applications_to_cleanup=(APP,))
    new = node.answer(templates=(TEMPLATE,), tasks_to_start=(task(1),))
    assert of(do.LaunchContainer, new) == []


def test_an_end_that_was_not_told_yet_is_told_after_a_cleanup_too(node: World) -> None:
    node.run_one(1)
    node.exited(1, 3)
    assert len(node.unanswered) == 2, "its end waits for one of these to be answered"
    new = node.answer(containers_to_cleanup=(cid(1),))
    assert told(beats(new)[-1]) == {"01": "DONE"}
    assert do.ForgetContainer(cid(1)) in node.answer(completed_acknowledged=(cid(1),))


def test_containers_to_cleanup_end_with_106_and_late_starts_of_them_are_refused(node: World) -> None:
    node.run_one(1)
    new = node.answer(containers_to_cleanup=(cid(1), cid(2)))
    assert of(do.KillContainer, new) == [do.KillContainer(cid(1))]
    node.exited(1, 143)
    assert node.status(1).exit_status == -106
    assert node.status(1).diagnostics.endswith("Container Killed by ResourceManager")
    (failed,) = node.start(to_start(2)).failed
    assert failed.container_id == cid(2)
    assert "withdrawn" in failed.message


def test_applications_to_cleanup_end_with_107_waiting_containers_first(node: World) -> None:
    node.start(*(to_start(number) for number in (1, 2, 3, 4)))
    node.launched(1)
    node.launched(2)
    assert node.status(3).state is ContainerState.SCHEDULED
    new = node.answer(applications_to_cleanup=(APP,))
    assert {kill.container_id for kill in of(do.KillContainer, new)} == {cid(1), cid(2)}
    assert of(do.LaunchContainer, new) == []
    node.exited(1, 143)
    assert of(do.LaunchContainer, node.exited(2, 143)) == []
    assert [node.status(number).exit_status for number in (1, 2, 3, 4)] == [-107] * 4
    while len(node.unanswered) > 1:
        node.answer()
    assert beats(node.commands)[-1].running_applications == ()
    (failed,) = node.start(to_start(5)).failed
    assert "has ended" in failed.message


def test_that_guaranteed_containers_wait_reaches_the_scheduler_and_ends_with_the_rm(node: World) -> None:
    for number in (1, 2):
        node.run_one(number, execution_type="GUARANTEED")
    node.start(to_start(3), to_start(4))
    node.answer(guaranteed_awaited=True)
    node.answer(guaranteed_awaited=None)
    node.exited(1, 0)
    assert node.status(3).state is ContainerState.SCHEDULED, "no news is no change"
    node.until(node.now + 0.2)
    assert node.status(3).state is not ContainerState.SCHEDULED, "for a moment only"
    node.tell(lost("gone"))
    node.exited(2, 0)
    assert node.status(4).state is not ContainerState.SCHEDULED


def test_an_answer_without_news_is_no_event_for_the_scheduler(
    node: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes up to 250 times a second."""
    told: list[object] = []
    handle = ContainerScheduler.handle

    def noted(scheduler: ContainerScheduler, event: happened.Event, now: float) -> list[do.Command]:
        told.append(event)
        return handle(scheduler, event, now)

    monkeypatch.setattr(ContainerScheduler, "handle", noted)
    for waiting in (True, True, None, False, False):
        node.answer(guaranteed_awaited=waiting)
    assert [event.waiting for event in told if isinstance(event, happened.GuaranteedAwaited)] == [True, False]
    assert len(told) == 2


def test_a_queuing_limit_reaches_the_scheduler(node: World) -> None:
    node.start(*(to_start(number) for number in range(1, 7)))
    node.answer(queuing_limit=ContainerQueuingLimit(max_queue_length=1))
    shed = [number for number in range(1, 7) if node.status(number).state is DONE]
    assert len(shed) == 3
    assert {node.status(number).exit_status for number in shed} == {-108}


def test_updates_that_the_rm_delivers_are_applied(node: World) -> None:
    node.run_one(1)
    update = ContainerToUpdate(cid(1), 1, ExecutionType.GUARANTEED, Resource(1024, 1), token(1, version=1))
    assert of(do.SetLimits, node.answer(containers_to_update=(update,)))
    assert node.status(1).execution_type is ExecutionType.GUARANTEED


# -- calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forged", "says"),
    [
        (token(1, key=b"x" * 32), "not genuine"),
        (token(1, node_id="host2:45454"), "was not granted on this node"),
        (token(1, expires_ms=5), "expired"),
        (token(1, execution_type="SOON"), "is incomplete"),
        (tokens.sign(KEY, tokens.CONTAINER_TOKEN, {"a": 1}), "is incomplete"),
        (tokens.sign(KEY, tokens.AMRM_TOKEN, {"attempt_id": "x"}), "is wanted"),
        (Token(tokens.CONTAINER_TOKEN, "[" * 9999, "00"), "not genuine"),
    ],
)
def test_a_token_that_does_not_hold_starts_nothing(node: World, forged: Token, says: str) -> None:
    request = StartContainerRequest(forged, ContainerLaunchContext(("true",)))
    response = node.start(request, to_start(2))
    assert response.started == (cid(2),)
    (failed,) = response.failed
    assert says in failed.message
    assert failed.exception == "InvalidToken"
    assert node.machine.scheduler.status(cid(1)) is None


@pytest.mark.parametrize("step", [-86_400.0, 0.0, 1200.0, 86_400.0])
def test_tokens_expire_by_the_clock_of_this_boot_whatever_steps_the_wall_clock_makes(step: float) -> None:
    """The RM signed it before the step; the node was started again after it, or the host was suspended meanwhile."""
    expiry = tokens.machine_ms(100.0) + 600_000
    node = World(wall_offset=1_000_000.0 + step)
    node.register()
    assert node.start(to_start(1, expires_ms=expiry)).started == (cid(1),)
    node.until(701.0)
    (failed,) = node.start(to_start(2, expires_ms=expiry)).failed
    assert "expired" in failed.message


@pytest.mark.parametrize(
    "context",
    [
        ContainerLaunchContext(()),
        ContainerLaunchContext(("",)),
        ContainerLaunchContext(("a\0b",)),
        ContainerLaunchContext(("a",), {"A=B": "c"}),
        ContainerLaunchContext(("a",), {"": "c"}),
        ContainerLaunchContext(("a",), {"A": "\0"}),
        ContainerLaunchContext(("a",), working_directory="/\0"),
        ContainerLaunchContext(("a",), files={"../x": ""}),
        ContainerLaunchContext(("a",), files={"..": ""}),
    ],
)
def test_a_launch_context_that_nothing_could_run_is_refused(
    node: World, context: ContainerLaunchContext
) -> None:
    (failed,) = node.start(StartContainerRequest(token(1), context)).failed
    assert failed.container_id == cid(1)
    assert "cannot be run" in failed.message


def test_a_start_that_is_repeated_is_started_once(node: World) -> None:
    node.run_one(1)
    assert node.start(to_start(1)).started == (cid(1),)
    assert len(of(do.LaunchContainer, node.commands)) == 1
    node.exited(1)
    assert node.start(to_start(1)).started == (cid(1),)
    assert len(of(do.LaunchContainer, node.commands)) == 1


def test_a_full_queue_is_an_outcome_and_not_an_error() -> None:
    node = World(queue=1)
    node.register()
    assert len(node.start(*(to_start(number) for number in range(1, 5))).started) == 4
    assert node.status(4).exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER
    assert "queue is full" in node.status(4).diagnostics


def test_starts_wait_for_the_registration_that_brings_the_key(world: World) -> None:
    world.tell(happened.RecoveryCompleted())
    assert world.start(to_start(1)) is None
    assert world.call(StartContainersRequest((to_start(2),)), connection=2) is None
    world.tell(ConnectionLost(2))
    world.tell(CONNECTED)
    new = world.tell(answered(registered()))
    (reply,) = of(Reply, new)
    assert reply.response.started == (cid(1),)
    assert [launch.spec.container_id for launch in of(do.LaunchContainer, new)] == [cid(1)]


def test_starts_do_not_wait_for_ever(world: World) -> None:
    world.tell(happened.RecoveryCompleted())
    world.start(to_start(1))
    (refusal,) = of(ReplyError, world.until(110.1))
    assert isinstance(refusal.error, InvalidStateError)
    assert "not ready" in refusal.error.message


def test_stopping_says_who_and_why(node: World) -> None:
    node.start(*(to_start(number) for number in (1, 2, 3)))
    node.launched(1)
    node.launched(2)
    response = node.call(
        StopContainersRequest((cid(1), cid(3), cid(9)), -105, "Container killed by the user"),
    )
    assert response.stopped == (cid(1), cid(3))
    assert response.failed[0].container_id == cid(9)
    assert "is not handled by this NodeManager" in response.failed[0].message
    assert node.status(3).state is DONE
    node.exited(1, 143)
    assert node.status(1).exit_status == -105
    assert "Container killed by the user" in node.status(1).diagnostics
    node.call(StopContainersRequest((cid(2),)))
    node.exited(2, 143)
    assert "Container killed by the ApplicationMaster." in node.status(2).diagnostics
    assert node.call(StopContainersRequest((cid(2),))).stopped == (cid(2),)


def test_statuses_come_in_order_of_arrival_with_places_in_the_queue(node: World) -> None:
    node.start(*(to_start(number) for number in (3, 1, 2, 4)))
    node.launched(3)
    live = node.call(GetContainerStatusesRequest()).statuses
    assert [(status.container_id[-1], status.position) for status in live] == [
        ("3", 0),
        ("1", 0),
        ("2", 1),
        ("4", 2),
    ]
    node.exited(3)
    assert len(node.call(GetContainerStatusesRequest()).statuses) == 3
    assert len(node.call(GetContainerStatusesRequest(finished=True)).statuses) == 4
    assert node.call(GetContainerStatusesRequest((cid(8),))).failed


def test_signals_reach_live_containers_only(node: World) -> None:
    node.run_one(1)
    assert node.call(SignalContainerRequest(cid(1), 12)).state is RUNNING
    assert do.SignalContainer(cid(1), 12) in node.commands
    for number in (0, 65, -9):
        with pytest.raises(InvalidStateError, match="is not a signal"):
            node.call(SignalContainerRequest(cid(1), number))
    node.exited(1)
    with pytest.raises(InvalidStateError, match="has ended"):
        node.call(SignalContainerRequest(cid(1), 12))
    with pytest.raises(ContainerNotFoundError):
        node.call(SignalContainerRequest(cid(7), 12))


def test_updates_need_a_newer_token_and_room(node: World) -> None:
    node.run_one(1)
    promote = token(1, version=1, execution_type="GUARANTEED")
    assert node.call(UpdateContainersRequest((promote,))).updated == (cid(1),)
    assert node.status(1).execution_type is ExecutionType.GUARANTEED
    again = node.call(UpdateContainersRequest((promote,)))
    assert again.updated == (cid(1),), "what is so already needs no second token"
    (failed,) = node.call(UpdateContainersRequest((token(1, version=1, memory=9),))).failed
    assert "already has version 1" in failed.message
    too_large = token(1, version=2, execution_type="GUARANTEED", memory=99999)
    (failed,) = node.call(UpdateContainersRequest((too_large,))).failed
    assert "no room" in failed.message
    (failed,) = node.call(UpdateContainersRequest((token(5, version=1),))).failed
    assert failed.container_id == cid(5)


def test_people_pause_and_resume(node: World) -> None:
    node.run_one(1)
    node.start(to_start(2), to_start(3))
    with pytest.raises(InvalidStateError, match="is queued"):
        node.call(PauseContainerRequest(cid(3)))
    with pytest.raises(InvalidStateError, match="is not paused"):
        node.call(ResumeContainerRequest(cid(1)))
    with pytest.raises(InvalidStateError, match="it is QUEUED") as queued:
        node.call(ResumeContainerRequest(cid(3)))
    assert f"yopp container promote {cid(3)}" in queued.value.hint
    answer = node.call(PauseContainerRequest(cid(1)))
    assert answer.state is ContainerState.PAUSING
    assert do.PauseContainer(cid(1)) in node.commands
    node.tell(happened.ContainerPaused(cid(1)))
    assert node.call(PauseContainerRequest(cid(1))).state is ContainerState.PAUSED
    assert "paused by the user" in node.status(1).diagnostics
    node.launched(2)
    for _ in range(2):  # it waits for what 2 has: to resume it once more is no error
        answer = node.call(ResumeContainerRequest(cid(1)))
        assert answer.state is ContainerState.PAUSED
        assert answer.diagnostics == RESUMED
    node.exited(2)
    assert node.status(1).state is ContainerState.RESUMING
    with pytest.raises(ContainerNotFoundError):
        node.call(PauseContainerRequest(cid(7)))
    node.exited(1)
    with pytest.raises(InvalidStateError, match="has ended"):
        node.call(ResumeContainerRequest(cid(1)))


def test_the_node_tells_of_itself(node: World) -> None:
    node.run_one(1)
    info = node.call(GetNodeInfoRequest())
    assert (info.node_id, info.pid, info.cgroups, info.warnings) == (NODE, 77, "v2", ("weak",))
    assert info.allocated == Resource(1024, 1)
    assert info.started_at_ms == 1_000_100_000
    assert info.rm_connected
    node.tell(lost("x"))
    assert not node.call(GetNodeInfoRequest()).rm_connected


def test_the_node_tells_what_was_used_in_the_last_minute(node: World) -> None:
    node.run_one(1)
    for second in (1.0, 2.0):
        usage = ContainerUsage(cpu_seconds=second / 4, memory_bytes=7, sampled_at=node.now + second)
        node.tell(happened.UsageSampled({cid(1): usage}, ResourceUtilization(900, 1.5)))
        node.now += second
    told = node.call(GetUsageTracesRequest((cid(1), cid(9))))
    assert set(told.containers) == {cid(1)}
    assert told.containers[cid(1)][1::3] == (0.25, 0.5)
    assert told.machine[1::3] == (1.5, 1.5)


def test_an_unknown_request_is_refused(node: World) -> None:
    with pytest.raises(NotYetSupportedError):
        node.call(GetNewApplicationRequest())


# -- the end -------------------------------------------------------------------------------------------------


def test_shutdown_ends_containers_tells_the_rm_and_stops(node: World) -> None:
    node.start(*(to_start(number) for number in (1, 2, 3)))
    node.launched(1)
    node.launched(2)
    new = node.answer(action="SHUTDOWN", diagnostics="the cluster ends")
    assert {kill.container_id for kill in of(do.KillContainer, new)} == {cid(1), cid(2)}
    assert of(do.LaunchContainer, new) == []
    with pytest.raises(ShuttingDownError, match="the cluster ends"):
        node.start(to_start(4))
    node.exited(1, 143)
    new = node.exited(2, 143)
    (beat,) = beats(new)
    assert {status.exit_status for status in beat.containers} == {-107}
    (unregister,) = of(UnRegisterNodeManagerRequest, new)
    assert not unregister.request.keep_containers
    assert isinstance(new[-1].request, UnRegisterNodeManagerRequest)
    new = node.tell(UNREGISTERED)
    assert new[-1] == StopDaemon("the cluster ends")
    assert {forget.container_id for forget in of(do.ForgetContainer, new)} == {cid(1), cid(2), cid(3)}
    assert not node.machine.has_containers
    assert node.machine.next_deadline() is None


def test_shutdown_that_keeps_containers_stops_without_touching_them(node: World) -> None:
    node.run_one(1)
    new = node.answer(action="SHUTDOWN", keep_containers=True)
    assert of(do.KillContainer, new) == []
    assert of(UnRegisterNodeManagerRequest, new)[0].request.keep_containers
    with pytest.raises(ConnectionFailedError, match="is ending"):  # as of a node that is away: it comes back
        node.start(to_start(2))
    assert of(StopDaemon, node.until(101.1))
    assert node.machine.has_containers
    assert of(do.ForgetContainer, node.commands) == []


def test_where_nothing_would_find_them_again_containers_are_never_kept() -> None:
    node = World(recovery=False)
    node.register()
    node.run_one(1)
    new = node.tell(NodeStopRequested("SIGTERM was received", keep_containers=True))
    assert of(do.KillContainer, new) == [do.KillContainer(cid(1))]
    node.exited(1, 143)
    assert node.status(1).exit_status == ContainerExitStatus.ABORTED
    assert of(UnRegisterNodeManagerRequest, node.commands)[0].request.keep_containers is False


def test_containers_that_would_not_end_are_killed_and_the_end_is_bounded(node: World) -> None:
    node.run_one(1)
    node.tell(NodeStopRequested("stop"))
    node.until(100.3)
    assert do.KillContainer(cid(1), force=True) in node.commands
    assert of(StopDaemon, node.commands) == []
    node.until(109.5)
    (stop,) = of(StopDaemon, node.commands)
    assert "1 containers did not end" in stop.reason
    assert node.machine.has_containers


@pytest.mark.parametrize("trouble", ["none", "lost", "resync", "unheld"])
def test_a_node_that_waits_for_its_containers_to_end_sleeps_meanwhile(node: World, trouble: str) -> None:
    node.run_one(1)
    if trouble == "lost":
        node.tell(lost("closed"))
    elif trouble == "resync":
        node.tell(refused(of(NodeHeartbeatRequest, node.commands)[-1], YoppError("no")))
    node.tell(NodeStopRequested("stop"))
    while trouble == "unheld" and node.unanswered:
        node.answer()
    node.until(100.3)  # SIGKILL after SIGTERM
    due = node.machine.next_deadline()
    assert due is not None
    assert due > 105


def test_a_second_request_loses_patience(node: World) -> None:
    node.run_one(1)
    node.tell(NodeStopRequested("stop"))
    assert do.KillContainer(cid(1), force=True) in node.tell(NodeStopRequested("stop"))


def test_the_end_does_not_wait_for_an_rm_that_is_gone(node: World) -> None:
    node.run_one(1)
    node.answer(action="SHUTDOWN")
    node.exited(1, 143)
    assert of(UnRegisterNodeManagerRequest, node.commands)
    assert of(StopDaemon, node.tell(lost("closed")))


def test_a_node_without_an_rm_stops_at_once_when_asked(world: World) -> None:
    world.tell(happened.RecoveryCompleted())
    world.tell(lost("no such file"))
    assert world.tell(NodeStopRequested("stop")) == [StopDaemon("stop")]


# -- a node that can start nothing ---------------------------------------------------------------------------


def test_an_unhealthy_node_says_so_and_gives_back_what_has_not_begun(node: World) -> None:
    node.run_one(1)
    node.start(to_start(2), to_start(3))
    commands = node.tell(happened.ContainerLaunchFailed(cid(2), "no space", node_status=-101))
    node.answer()
    last = beats(node.commands)[-1]
    assert (last.healthy, last.health_report) == (False, "no space")
    statuses = {one.container_id[-2:]: one for beat in beats(node.commands) for one in beat.containers}
    assert (statuses["02"].exit_status, statuses["03"].exit_status) == (-101, -100)
    assert {one.cause.kind.value for name, one in statuses.items() if name != "01"} == {"NODE_FAULT"}
    assert not of(do.LaunchContainer, commands)
    node.start(to_start(4))
    assert node.status(4).state is DONE and node.status(4).exit_status == -100
    assert node.status(1).state is RUNNING, "what runs is not touched"
    node.tell(happened.NodeHealthChanged(""))
    while node.unanswered:
        node.answer(at=node.now + 0.01)
        if beats(node.commands)[-1].healthy:
            break
    assert beats(node.commands)[-1].healthy and beats(node.commands)[-1].health_report == ""
    node.run_one(5)
