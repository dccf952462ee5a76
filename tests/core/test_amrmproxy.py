"""The AMRMProxy's machine between a master and a ResourceManager's machine: literal times, no daemons.

The RM is the real one; the test carries the calls, and may cut the connection.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from typing import Any

import pytest

from executor.records import ContainerState, ExecutionType, Resource
from yarnopp_cli.errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    InvalidResourceRequestError,
    InvalidStateError,
    InvalidTokenError,
    YoppError,
)
from yarnopp_cli.machine.calls import CallReceived, ConnectionLost, Reply, ReplyError
from yarnopp_cli.nodemanager.events import (
    CallUpstream,
    CloseUpstream,
    ConnectUpstream,
    StoredPipeline,
    StorePipelines,
    UpstreamAnswered,
    UpstreamConnected,
    UpstreamLost,
    UpstreamRefused,
)
from yarnopp_cli.nodemanager.proxy.amrmproxy import AMRMProxyService
from yarnopp_cli.nodemanager.proxy.distributed_scheduler import DistributedScheduler
from yarnopp_cli.nodemanager.proxy.interceptors import (
    DefaultRequestInterceptor,
    RequestInterceptor,
    ThrottleInterceptor,
)
from yarnopp_cli.records.distributed_protocol import DistributedSchedulingAllocateRequest
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import (
    AM_RESYNC,
    SCHEDULER_ADDRESS_VARIABLE,
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    Container,
    ContainerLaunchContext,
    ResourceRequest,
    TaskAssignment,
    Token,
)
from yarnopp_cli.settings.declarations import NodeManagerSettings

from .rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, asks, done, status
from .test_rm_recovery import Kept

KEY = b"p" * 32
ADDRESS = "unix:/run/yopp/am-1.sock"


class World:
    """An RM, its nodes, one proxy and one application whose master is the test."""

    def __init__(
        self,
        *chain: Any,
        distributed: bool = True,
        nodes: int = 2,
        grace_ms: int = 2000,
        kind: type[Cluster] = Cluster,
        **settings: Any,
    ) -> None:
        self.cluster = kind(client_am_grace_ms=grace_ms)
        self.cluster.context.distributed = distributed
        self.nodes = [self.cluster.node(f"h{number}:{number}") for number in range(1, nodes + 1)]
        for node in self.nodes:
            node.beat()
        self.cluster.at(1.5)
        self.node_settings = NodeManagerSettings(distributed_scheduling_enabled=distributed, **settings)
        default = (
            (DistributedScheduler, DefaultRequestInterceptor) if distributed else (DefaultRequestInterceptor,)
        )
        self.chain = chain or default
        self.up = True
        self.log: list[CallUpstream] = []
        self.stored: tuple[StoredPipeline, ...] = ()
        self.answers: dict[int, Any] = {}
        self.made: dict[str, int] = {}
        self.open: dict[str, int] = {}
        self.waiting: dict[int, CallUpstream] = {}
        self.calls = 0
        self.proxy = self.new_proxy()
        self.connection = 7
        submission = ApplicationSubmissionContext(application_id="", name="job", unmanaged=True)
        response = self.cluster.ask(SubmitApplicationRequest(submission), self.cluster.connection())
        self.app, self.attempt, self.token = response.application_id, response.attempt_id, response.am_token
        self.rm_token: Token = response.am_token
        self.response_id = 0

    def new_proxy(self) -> AMRMProxyService:
        proxy = AMRMProxyService(
            "h1:1", ADDRESS, self.node_settings, self.cluster.settings, interceptors=self.chain, key=KEY,
            wall_offset=1_765_400_000.0, stored=self.stored,
        )  # fmt: skip
        proxy.registered(self.cluster.context.container_key)
        return proxy

    # -- the wire --------------------------------------------------------------------------------------

    def perform(self, commands: list[Any]) -> None:
        for command in commands:
            match command:
                case Reply(call_id, response):
                    assert call_id not in self.answers
                    self.answers[call_id] = response
                case ReplyError(call_id, error):
                    assert call_id not in self.answers
                    self.answers[call_id] = error
                case ConnectUpstream(attempt):
                    assert attempt not in self.open
                    if self.up:
                        self.open[attempt] = self.cluster.connection()
                        self.event(UpstreamConnected(attempt))
                    else:
                        self.event(UpstreamLost(attempt, "refused"))
                case CloseUpstream(attempt):
                    self.waiting.clear()
                    self.cluster.lose(self.open.pop(attempt))
                case CallUpstream():
                    self.log.append(command)
                    number = self.cluster.send(command.request, self.open[command.attempt_id])
                    self.waiting[number] = command
                case StorePipelines(pipelines):
                    self.stored = pipelines
        self.deliver()

    def deliver(self) -> None:
        """Hand the RM's answers over."""
        for number, call in list(self.waiting.items()):
            if number in self.waiting and self.cluster.answered(number):
                del self.waiting[number]
                try:
                    answer = self.cluster.take(number)
                except YoppError as error:
                    self.event(UpstreamRefused(call, error))
                else:
                    self.event(UpstreamAnswered(call, answer))

    def event(self, event: Any) -> None:
        self.perform(self.proxy.handle(event, self.cluster.now))
        self.proxy.validate()

    def cut(self) -> None:
        """The RM is away."""
        self.up = False
        self.waiting.clear()
        for attempt in list(self.open):
            self.cluster.lose(self.open.pop(attempt))
            self.event(UpstreamLost(attempt, "gone"))

    def at(self, time: float) -> None:
        """Let the time pass at both."""
        while True:
            due = self.proxy.next_deadline()
            rm = self.cluster.rm.next_deadline()
            following = min(one for one in (due, rm, time) if one is not None)
            if following >= time:
                break
            self.cluster.at(max(following, self.cluster.now) + 1e-6)
            self.perform(self.proxy.advance(self.cluster.now))
        self.cluster.at(time)
        self.perform(self.proxy.advance(time))

    # -- the master ------------------------------------------------------------------------------------

    def send(self, request: Any, connection: int | None = None) -> int:
        self.calls += 1
        call = CallReceived(self.calls, self.connection if connection is None else connection, request)
        self.event(call)
        return self.calls

    def take(self, call: int) -> Any:
        answer = self.answers.pop(call, None)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, AllocateResponse):
            self.response_id = max(self.response_id, answer.response_id)
        return answer

    def register(self) -> Any:
        response = self.take(self.send(RegisterApplicationMasterRequest(self.attempt, self.token)))
        if response is not None:
            self.token = response.token
        return response

    def call(self, *requests: ResourceRequest, wait_ms: int = 1000, **more: Any) -> int:
        request = AllocateRequest(
            self.attempt, self.token, self.response_id, asks=requests, wait_ms=wait_ms, **more
        )
        return self.send(request)

    def allocate(self, *requests: ResourceRequest, **more: Any) -> AllocateResponse:
        answer = self.take(self.call(*requests, **more))
        assert isinstance(answer, AllocateResponse), "not answered at once"
        return answer

    def reports(self) -> list[str]:
        """The containers that the RM was told of, in all."""
        return [
            container.id
            for call in self.log
            if isinstance(call.request, DistributedSchedulingAllocateRequest)
            for container in call.request.allocated_containers
        ]


def test_a_master_in_a_client_shows_the_rms_token_once_and_gets_the_proxys() -> None:
    world = World()
    response = world.register()
    assert response.token.kind == "AMRMProxyToken"
    assert response.opportunistic_enabled
    with pytest.raises(InvalidTokenError):  # useless at the RM directly
        world.cluster.ask(AllocateRequest(world.attempt, world.token))
    with pytest.raises(InvalidTokenError):  # and the RM's is of no more use here
        world.take(world.send(AllocateRequest(world.attempt, world.rm_token)))


def test_a_forged_registration_is_refused_by_the_rm_and_leaves_nothing() -> None:
    world = World()
    forged = replace(world.rm_token, password="00" * 32)
    with pytest.raises(InvalidTokenError):
        world.take(world.send(RegisterApplicationMasterRequest(world.attempt, forged)))
    assert not world.proxy.applications
    world.register()
    with pytest.raises(InvalidTokenError):  # nor does it disturb a master that is there
        world.take(world.send(RegisterApplicationMasterRequest(world.attempt, forged), 99))
    assert world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated


def test_a_master_of_this_node_is_forced_through() -> None:
    world = World()
    context = ContainerLaunchContext(
        ("am",), {"APPLICATION_ATTEMPT_ID": world.attempt, "A": "b"},
        files={"am-token.json": json.dumps(asdict(world.rm_token)), "job.json": "{}"},
    )  # fmt: skip
    forced = world.proxy.force_through(context)
    token = Token(**json.loads(forced.files["am-token.json"]))
    assert token.kind == "AMRMProxyToken"
    assert forced.environment == {
        "APPLICATION_ATTEMPT_ID": world.attempt,
        "A": "b",
        SCHEDULER_ADDRESS_VARIABLE: ADDRESS,
    }
    assert forced.files["job.json"] == "{}"
    world.perform(world.proxy.flush())
    assert world.stored[0].token == world.rm_token
    world.token = token
    assert world.register().token == token
    assert world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated


def test_what_is_no_masters_is_left_alone() -> None:
    context = ContainerLaunchContext(("sleep", "1"))
    assert World().proxy.force_through(context) is context


def test_opportunistic_asks_are_served_here_and_guaranteed_ones_by_the_rm() -> None:
    world = World()
    world.register()
    call = world.call(asks(3, execution_type=OPPORTUNISTIC), asks(1, allocation_request_id=1))
    mine = world.take(call)
    assert [one.execution_type for one in mine.allocated] == [OPPORTUNISTIC] * 3
    seen = [ask for sent in world.log[1:] for ask in sent.request.request.asks]
    assert {ask.execution_type_request.execution_type for ask in seen} == {GUARANTEED}
    theirs = world.allocate()
    assert [one.execution_type for one in theirs.allocated if one.id.endswith("_000001")] == [GUARANTEED]
    known = world.cluster.containers()
    assert len(known) == 4
    assert {one.node_id for one in known.values() if one.execution_type is OPPORTUNISTIC} == {"h1:1", "h2:2"}


def test_the_rm_knows_the_tasks_of_what_was_allocated_here_however_often_the_master_speaks() -> None:
    world = World()
    world.register()
    containers = world.allocate(asks(5, execution_type=OPPORTUNISTIC)).allocated
    for index, one in enumerate(containers):
        world.call(tasks=(TaskAssignment(one.id, index),), wait_ms=10_000)
    world.at(3)
    known = world.cluster.containers()
    assert [known[one.id].task for one in containers] == [1, 2, 3, 4, 5]


def test_what_was_allocated_is_told_until_it_is_acknowledged() -> None:
    world = World()
    world.register()
    first = world.allocate(asks(2, execution_type=OPPORTUNISTIC))
    world.response_id = 0  # as if the answer had been lost
    again = world.allocate(wait_ms=0)
    assert again.allocated == first.allocated
    assert not world.allocate(wait_ms=0).allocated


def test_an_ask_repeated_after_a_lost_answer_is_not_served_twice() -> None:
    world = World()
    world.register()
    ask = asks(2, execution_type=OPPORTUNISTIC)
    world.allocate(ask)
    world.response_id, world.connection = 0, 8
    assert len(world.allocate(ask).allocated) == 2, "the same two"
    world.at(3)
    assert len(world.cluster.containers()) == 2


def test_opportunistic_containers_while_the_rm_is_away_are_reported_when_it_is_back() -> None:
    world = World()
    world.register()
    world.cut()
    granted = world.allocate(
        asks(3, execution_type=OPPORTUNISTIC), asks(1, allocation_request_id=5)
    ).allocated
    assert len(granted) == 3
    assert not world.cluster.containers()
    later = world.call()
    world.at(2.0)
    assert world.take(later) is None, "held, not refused"
    world.up = True
    world.at(4.5)
    known = world.cluster.containers()
    assert {one.id for one in granted} <= known.keys()
    assert len(known) == 4, "and the guaranteed ask was not lost"
    assert sorted(set(world.reports())) == sorted(one.id for one in granted)


def test_another_life_of_the_rm_is_registered_with_once_and_hears_of_what_ended_meanwhile() -> None:
    world = World(kind=Kept, grace_ms=60_000)
    cluster = world.cluster
    assert isinstance(cluster, Kept)
    world.register()
    first = {one.id: one for one in world.allocate(asks(2, execution_type=OPPORTUNISTIC)).allocated}
    ended, runs = first.values()
    nodes = {node.name: node for node in world.nodes}
    nodes[ended.node_id].beat(status(ended))
    world.allocate()
    world.allocate(wait_ms=0)
    unheard = world.call()
    for _ in range(2):
        response = nodes[ended.node_id].beat(done(ended))
        assert ended.id not in response.completed_acknowledged, "its master has not fetched it"
    world.answers.pop(unheard, None)  # it is lost on its way
    world.cut()
    cluster.restart()
    nodes[ended.node_id].statuses = {ended.id: done(ended)}
    for node in world.nodes:
        node.register()
    late = status(runs)
    nodes[runs.node_id].beat(late)  # it was started after its node had registered
    assert runs.id not in nodes[runs.node_id].beat().containers_to_cleanup
    world.up = True
    held = world.call()
    world.at(cluster.now + 3)
    assert world.take(held).command == AM_RESYNC
    world.response_id = 0
    world.register()
    heard = world.allocate(asks(2, execution_type=OPPORTUNISTIC))
    assert not {one.id for one in heard.allocated} & first.keys()
    completed = heard.completed or world.allocate().completed
    assert [one.container_id for one in completed] == [ended.id]


@pytest.mark.parametrize("what", ["ended", "runs", "has not come yet", "its node never comes"])
def test_what_its_node_has_of_a_container_is_awaited_by_another_life_of_the_rm(what: str) -> None:
    """It was allocated while the RM was away; the master registers with the next RM before that node does."""
    world = World(kind=Kept, grace_ms=60_000, nodes=1)
    cluster, (node,) = world.cluster, world.nodes
    assert isinstance(cluster, Kept)
    world.register()
    world.cut()
    (one,) = world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated
    cluster.restart()
    world.up = True
    held = world.call()
    world.at(cluster.now + 3)
    assert world.take(held).command == AM_RESYNC
    world.response_id = 0
    world.register()
    world.call()
    world.at(cluster.now + 1)
    assert world.allocate(wait_ms=0).completed == (), "nobody knows that yet"
    if what == "its node never comes":
        held = world.call(wait_ms=3_600_000)
        world.at(cluster.now + cluster.settings.nm_expiry_interval_ms / 1000)
        (told,) = world.take(held).completed
        assert (told.container_id, told.exit_status) == (one.id, -100)
        return
    spoken = {"ended": done(one), "runs": status(one)}.get(what)
    node.statuses = {} if spoken is None else {one.id: spoken}
    node.register()
    if what == "has not come yet":
        assert not node.beat(status(one)).containers_to_cleanup
    if what != "ended":
        assert world.allocate(wait_ms=0).completed == ()
        node.beat(done(one))
    world.at(cluster.now + 1)
    world.call(wait_ms=0)
    world.at(cluster.now + 1)
    told = {ended for answer in world.answers.values() for ended in getattr(answer, "completed", ())}
    assert [(ended.container_id, ended.exit_status) for ended in told] == [(one.id, 0)]


def test_a_container_that_its_node_speaks_of_first_is_not_killed() -> None:
    world = World()
    world.register()
    world.cut()
    granted = world.allocate(asks(2, execution_type=OPPORTUNISTIC)).allocated
    node = next(one for one in world.nodes if one.name == granted[0].node_id)
    response = node.beat(status(granted[0]))
    assert not response.containers_to_cleanup
    known = world.cluster.containers()
    assert known[granted[0].id].state is ContainerState.RUNNING
    world.up = True
    world.call()
    world.at(4.0)
    assert len(world.cluster.containers()) == 2
    while world.take(world.call()) is not None:
        pass  # what is known already
    node.beat(done(granted[0]))
    world.deliver()
    ended = [one for answer in world.answers.values() for one in getattr(answer, "completed", ())]
    assert [one.container_id for one in ended] == [granted[0].id]


def test_a_strangers_container_is_still_killed() -> None:
    world = World()
    world.register()
    stranger = Container(
        "container_1_0009_01_1099511627775", "h1:1", "", Resource(100, 1), Token("", "", ""),
        execution_type=OPPORTUNISTIC,
    )  # fmt: skip
    response = world.nodes[0].beat(replace(status(stranger), application_id="application_1_0009"))
    assert response.containers_to_cleanup == (stranger.id,)


def test_the_rm_takes_no_forged_report() -> None:
    world = World()
    world.register()
    granted = world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated[0]
    forged = replace(granted, id=granted.id[:-1] + "4")
    request = AllocateRequest(world.attempt, world.rm_token)
    with pytest.raises(InvalidTokenError):
        world.cluster.ask(DistributedSchedulingAllocateRequest(request, (forged,)))


def test_the_rm_refuses_the_distributed_protocol_where_it_is_off() -> None:
    world = World()
    world.cluster.context.distributed = False
    with pytest.raises(InvalidStateError, match="Distributed Scheduling is not enabled"):
        world.register()


def test_without_distributed_scheduling_the_proxy_only_passes_on() -> None:
    world = World(distributed=False)
    world.register()
    first = world.call(asks(2, execution_type=OPPORTUNISTIC), asks(1, allocation_request_id=1))
    answer = world.take(first)
    assert {one.execution_type for one in answer.allocated} == {GUARANTEED, OPPORTUNISTIC}
    assert {sent.request.METHOD for sent in world.log} == {"registerApplicationMaster", "allocate"}


def test_an_ask_that_no_node_could_serve_is_refused_here() -> None:
    world = World()
    world.register()
    sent = len(world.log)
    with pytest.raises(InvalidResourceRequestError):
        world.allocate(asks(1, Resource(1 << 19, 1), OPPORTUNISTIC))
    assert len(world.log) == sent


def test_an_error_of_the_rm_reaches_the_master() -> None:
    world = World()
    world.register()
    with pytest.raises(InvalidResourceRequestError):
        world.allocate(asks(1, Resource(1 << 19, 1), GUARANTEED))


def test_a_newer_call_answers_the_older_without_news() -> None:
    world = World()
    world.register()
    first = world.call()
    assert world.take(first) is None
    second = world.call()
    assert world.take(first) == AllocateResponse(0)
    world.at(3.0)
    assert world.take(second) is not None, "its time was up"


def test_the_end_of_the_master_is_seen_by_the_rm() -> None:
    world = World()
    world.register()
    world.call()
    world.event(ConnectionLost(world.connection))
    assert not world.open
    world.at(10.0)
    assert world.cluster.app(world.app).final_status is FinalApplicationStatus.FAILED


def test_a_master_that_connects_again_goes_on() -> None:
    world = World()
    world.register()
    world.call()
    world.event(ConnectionLost(world.connection))
    world.connection = 8
    assert world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated
    world.at(10.0)
    assert world.cluster.app(world.app).final_status is FinalApplicationStatus.UNDEFINED


def test_finishing_ends_the_pipeline() -> None:
    world = World()
    world.register()
    finish = FinishApplicationMasterRequest(world.attempt, world.token, FinalApplicationStatus.SUCCEEDED)
    assert world.take(world.send(finish)).is_unregistered
    assert not world.proxy.applications
    assert world.stored == ()
    assert not world.open
    with pytest.raises(ApplicationNotFoundError, match="pipeline is not initialized for app"):
        world.take(world.call())


def test_an_application_that_was_killed_is_forgotten() -> None:
    world = World()
    world.register()
    waiting = world.call()
    world.perform(world.proxy.application_ended(world.app))
    assert not world.proxy.applications
    with pytest.raises(ApplicationNotFoundError):
        world.take(waiting)


def test_the_news_of_the_end_may_overtake_the_answer_to_the_farewell() -> None:
    world = World()
    world.register()
    finish = FinishApplicationMasterRequest(world.attempt, world.token, FinalApplicationStatus.SUCCEEDED)
    deliver, world.deliver = world.deliver, lambda: None  # type: ignore[method-assign]
    call = world.send(finish)
    world.perform(world.proxy.application_ended(world.app))
    assert world.take(call) is None
    deliver()
    assert world.take(call).is_unregistered
    assert not world.proxy.applications


def test_a_farewell_does_not_wait_for_ever() -> None:
    world = World()
    world.register()
    world.cut()
    finish = FinishApplicationMasterRequest(world.attempt, world.token, FinalApplicationStatus.SUCCEEDED)
    call = world.send(finish)
    world.at(8.0)
    with pytest.raises(ConnectionFailedError):
        world.take(call)


def test_another_life_of_the_node_goes_on_where_the_last_one_was() -> None:
    world = World()
    world.register()
    first = world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated[0]
    world.waiting.clear()
    world.cluster.lose(world.open.pop(world.attempt))
    world.proxy = world.new_proxy()
    world.perform(world.proxy.nodes_changed(world.cluster.context.nodes_for_scheduling(), 2.0))
    world.connection = 8
    second = world.allocate(asks(1, execution_type=OPPORTUNISTIC, allocation_request_id=2)).allocated
    mine = [one for one in second if one.allocation_request_id == 2]
    assert len(mine) == 1
    assert mine[0].id != first.id
    world.at(2.5)
    assert {first.id, mine[0].id} <= world.cluster.containers().keys()


@pytest.mark.parametrize("heard", [True, False])
def test_another_life_of_the_node_does_not_know_which_answers_of_the_rm_arrived(heard: bool) -> None:
    """Two of five guaranteed containers had room. Whether the master knows of them or not, it gets five."""
    world = World(nodes=1)
    (node,) = world.nodes
    world.register()
    lacks, known = 5, dict[str, Container]()

    def take(answer: AllocateResponse | None) -> None:
        nonlocal lacks
        for container in answer.allocated if answer is not None else ():
            lacks -= container.id not in known and lacks > 0
            known[container.id] = container

    call = world.call(asks(lacks, Resource(2000, 0)))
    world.at(2.0)
    if heard:
        take(world.take(call))
        assert lacks == 3
    world.answers.clear()
    world.waiting.clear()
    world.cluster.lose(world.open.pop(world.attempt))
    world.proxy = world.new_proxy()
    world.connection += 1
    call = world.call(asks(lacks, Resource(2000, 0)))
    for second in range(3, 9):
        node.beat(*(done(one) for one in known.values()))
        world.at(float(second))
        if call in world.answers:
            take(world.take(call))
            call = world.call()
    assert lacks == 0


def test_no_two_lives_of_the_node_give_the_same_id() -> None:
    """However many there are: the RM would take the second container for the first, which has ended."""
    world = World()
    world.register()
    given = [world.allocate(asks(1, execution_type=OPPORTUNISTIC)).allocated[0].id]
    for life in range(2, 6):
        world.waiting.clear()
        world.cluster.lose(world.open.pop(world.attempt))
        world.proxy = world.new_proxy()
        world.perform(world.proxy.nodes_changed(world.cluster.context.nodes_for_scheduling(), float(life)))
        world.connection += 1
        new = world.allocate(asks(1, execution_type=OPPORTUNISTIC, allocation_request_id=life)).allocated
        given += [one.id for one in new if one.allocation_request_id == life]
        world.at(life + 0.5)
    assert len(given) == len(set(given)) == 5
    assert set(given) <= world.cluster.containers().keys()


def test_the_throttle_delays_and_loses_nothing() -> None:
    world = World(
        ThrottleInterceptor, DistributedScheduler, DefaultRequestInterceptor, amrmproxy_calls_per_second=10
    )
    world.register()
    numbers = [
        world.call(asks(1, execution_type=OPPORTUNISTIC, allocation_request_id=number))
        for number in range(12)
    ]
    assert sum(number in world.answers for number in numbers) == 10, "a second's worth at once"
    start = world.cluster.now
    world.at(start + 0.05)
    assert numbers[10] not in world.answers
    world.at(start + 0.25)
    assert numbers[10] in world.answers
    assert numbers[11] in world.answers
    world.at(start + 1)
    assert len(world.cluster.containers()) == 12


class OnlyTwo(RequestInterceptor):
    """An interceptor of somebody's own."""

    def forward(self, request: AllocateRequest, now: float) -> AllocateRequest:
        asks = (replace(ask, num_containers=min(ask.num_containers, 2)) for ask in request.asks)
        return replace(request, asks=tuple(asks))

    def answer(self, response: AllocateResponse, now: float) -> AllocateResponse:
        return replace(response, num_nodes=77)


def test_an_interceptor_of_ones_own_sees_requests_and_responses() -> None:
    world = World(OnlyTwo, DistributedScheduler, DefaultRequestInterceptor)
    world.register()
    answer = world.allocate(asks(9, execution_type=OPPORTUNISTIC))
    assert len(answer.allocated) == 2
    assert answer.num_nodes == 77


def test_the_types_of_containers_that_the_rm_counts() -> None:
    world = World()
    world.register()
    world.allocate(asks(2, execution_type=OPPORTUNISTIC))
    world.at(2.0)
    types = {one.execution_type for one in world.cluster.containers().values()}
    assert types == {ExecutionType.OPPORTUNISTIC}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_wire_does_every_ask_is_served_once(seed: int) -> None:
    """Calls, cuts of the connection to the RM and of the master's in any order; at the end all is told and known."""
    rng = random.Random(seed)
    world = World(nodes=3, grace_ms=1_000_000)
    world.register()
    granted: set[str] = set()
    waiting: list[int] = []
    wanted = 0
    for step in range(60):
        match rng.randrange(5):
            case 0:
                kind = rng.choice((OPPORTUNISTIC, GUARANTEED))
                count = rng.randrange(1, 3) if wanted < 30 else 0
                if count:
                    wanted += count if kind is OPPORTUNISTIC else 0
                    ask = asks(count, Resource(10, 0), kind, allocation_request_id=step)
                    waiting.append(world.call(ask, wait_ms=rng.choice((0, 500))))
            case 1:
                waiting.append(world.call(wait_ms=rng.choice((0, 500))))
            case 2 if world.up:
                world.cut()
            case 2 | 3:
                world.up = True
            case 4:
                world.at(world.cluster.now + rng.random())
        for number in list(waiting):
            if number in world.answers:
                waiting.remove(number)
                granted |= {
                    one.id for one in world.take(number).allocated if one.execution_type is OPPORTUNISTIC
                }
    world.up = True
    for _ in range(20):
        number = world.call(wait_ms=0)
        world.at(world.cluster.now + 1.5)
        granted |= {one.id for one in world.take(number).allocated if one.execution_type is OPPORTUNISTIC}
    known = {
        one.container_id for one in world.cluster.containers().values() if one.execution_type is OPPORTUNISTIC
    }
    assert len(granted) == wanted
    assert known == granted
    (scheduler,) = (one for one in world.proxy._pipelines.values() if one.distributed is not None)
    assert scheduler.distributed is not None
    assert not scheduler.distributed.unreported


@pytest.mark.parametrize("seed", range(12))
def test_whenever_the_node_dies_every_ask_is_served(seed: int) -> None:
    """The master says again what it has no answer to, as ``AMRMClient`` does, and knows each container by its id."""
    rng = random.Random(seed)
    world = World(nodes=3, grace_ms=1_000_000)
    world.register()
    lacks: dict[int, int] = {}
    kinds = {step: rng.choice((OPPORTUNISTIC, GUARANTEED)) for step in range(60)}
    granted: list[str] = []
    of_the_node: dict[str, int] = {}
    waiting: list[int] = []

    def hear() -> None:
        for number in [one for one in waiting if one in world.answers]:
            waiting.remove(number)
            for container in world.take(number).allocated:
                if container.execution_type is OPPORTUNISTIC:
                    request = of_the_node.setdefault(container.id, container.allocation_request_id)
                    assert request == container.allocation_request_id, "one id, one container"
                if container.id not in granted and lacks.get(container.allocation_request_id, 0):
                    lacks[container.allocation_request_id] -= 1
                    granted.append(container.id)

    def ask(step: int) -> ResourceRequest:
        return asks(lacks[step], Resource(10, 0), kinds[step], allocation_request_id=step)

    for step in range(60):
        match rng.randrange(4):
            case 0:
                lacks[step] = rng.randrange(1, 3)
                waiting.append(world.call(ask(step), wait_ms=rng.choice((0, 500))))
            case 1:
                waiting.append(world.call(wait_ms=0))
            case 2:
                world.at(world.cluster.now + rng.random())
            case 3:
                waiting.clear()  # and what was answered and not heard is lost
                world.answers.clear()
                world.waiting.clear()
                for attempt in list(world.open):
                    world.cluster.lose(world.open.pop(attempt))
                world.proxy = world.new_proxy()
                nodes = world.cluster.context.nodes_for_scheduling()
                world.perform(world.proxy.nodes_changed(nodes, world.cluster.now))
                world.connection += 1
                again = [ask(one) for one, count in lacks.items() if count]
                waiting.append(world.call(*again, wait_ms=0))
        hear()
    for _ in range(10):
        waiting.append(world.call(wait_ms=0))
        world.at(world.cluster.now + 1.5)
        hear()
    assert sum(lacks.values()) == 0
    assert set(granted) <= world.cluster.containers().keys(), "the RM knows each"
