"""The RM's next life goes on with what the last one wrote: at every write, with hosted masters and with others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from bench.world import IDENTITY
from executor.records import ContainerExitStatus, ContainerState, ContainerStatus, ExecutionType, Resource
from yarnopp_cli.errors import ApplicationNotFoundError, InvalidIdError, InvalidStateError
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.records.admin_protocol import DrainNodesRequest, ResumeNodesRequest
from yarnopp_cli.records.client_protocol import (
    GetApplicationAttemptsRequest,
    GetClusterInfoRequest,
    GetNewApplicationRequest,
    KillApplicationRequest,
    SettleLostRequest,
    UpdateApplicationTagsRequest,
    UpdateApplicationTimeoutsRequest,
)
from yarnopp_cli.records.history import EventKind, GetEventsRequest, GetMapReduceJobRequest, HistoryEvent
from yarnopp_cli.records.ids import ApplicationId, ContainerId
from yarnopp_cli.records.job_protocol import (
    GetJobRequest,
    StopJobRequest,
    SubmitApplicationRequest,
    SubmitJobRequest,
    WatchJobRequest,
    WatchJobResponse,
)
from yarnopp_cli.records.jobs import JOB_FILE, JobSpec, PhaseSpec, TaskSpec, TaskState, from_rows
from yarnopp_cli.records.master_protocol import FinishApplicationMasterRequest
from yarnopp_cli.records.reports import FinalApplicationStatus, NodeState, YarnApplicationState
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    Container,
    ContainerLaunchContext,
    MapReduceJob,
    TaskAssignment,
)
from yarnopp_cli.records.state import (
    KINDS,
    Kind,
    RemoveRecords,
    Stored,
    StoredCluster,
    StoredTask,
    StoreRecord,
    key_of,
)
from yarnopp_cli.records.tracker_protocol import NodeHeartbeatResponse, TaskToStart
from yarnopp_cli.resourcemanager.adoption import BY_DISTRIBUTED_SCHEDULER, REMOTE_ID_START
from yarnopp_cli.resourcemanager.commands import ForgetState, KeepEvents, KeepHistory
from yarnopp_cli.resourcemanager.context import RMContext
from yarnopp_cli.resourcemanager.machine import ResourceManager
from yarnopp_cli.settings.loading import read_queues

from .rm_harness import GUARANTEED, OPPORTUNISTIC, SMALL, Cluster, Master, Node, asks, done, status

DONE, RUNNING = ContainerState.DONE, ContainerState.RUNNING


class Died(Exception):
    """The RM was killed in this step."""


class Kept(Cluster):
    """A cluster whose RM can die, and be followed by another that reads its records.

    It dies in the step of the write ``dies_at``: before anything else of that step is performed, or right ``after``.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(recovery_enabled=True, **more)
        self.records: dict[tuple[Kind, str], Stored] = {}
        self.events: list[HistoryEvent] = []
        self.writes = 0
        self.dies_at = -1
        self.after = False
        self.forgot = False

    def _take(self, commands: Iterable[Any]) -> None:
        commands = list(commands)
        written = [one for one in commands if isinstance(one, StoreRecord | RemoveRecords)]
        kept = [one for one in commands if isinstance(one, KeepHistory)]
        assert commands[: len(kept + written)] == kept + written, (
            "a history, and what says that it is kept, come first"
        )
        super()._take(kept)
        for one in written:
            self._keep(one)
        self.forgot |= any(isinstance(one, ForgetState) for one in commands)
        dies = bool(written) and self.writes == self.dies_at
        self.writes += bool(written)
        if dies and not self.after:
            raise Died
        for one in commands:
            if isinstance(one, KeepEvents):
                self.events += one.events
        super()._take(commands[len(kept) :])
        if dies:
            raise Died

    def _keep(self, command: StoreRecord | RemoveRecords) -> None:
        if isinstance(command, StoreRecord):
            self.records[KINDS[type(command.record)], key_of(command.record)] = command.record
            return
        for kind, key in list(self.records):
            if kind is command.kind and (key == command.key or key.startswith(f"{command.key}/")):
                del self.records[kind, key]

    def restart(self, **identity: Any) -> None:
        """Another life. Whoever was connected is not; calls without an answer get none."""
        cluster = self.records.get((Kind.CLUSTER, ""))
        assert isinstance(cluster, StoredCluster)
        old = self.context
        self.context = RMContext(
            self.settings,
            replace(IDENTITY, started_at_ms=IDENTITY.cluster_timestamp + 1, properties={}, **identity),
            rng=random.Random(1),
            secret=bytes.fromhex(cluster.secret),
            lifetime=old.lifetime,
            heartbeat_wait=old.heartbeat_wait,
            distributed=old.distributed,
        )
        self.rm = ResourceManager(self.context, read_queues)
        self._answers.clear()
        self.dies_at = -1
        self._take(self.rm.recover(list(self.records.values()), self.now, self.events))


class Host:
    """A node whose containers survive the RM. It counts what began and what ended well, by task."""

    def __init__(self, cluster: Kept, name: str, began: Counter[int], ended: Counter[int]) -> None:
        self.cluster = cluster
        self.node = Node(cluster, name, Resource(4096, 3))
        self.began = began
        self.ended = ended
        self.tasks: dict[str, TaskToStart] = {}
        self.unheard: dict[str, ContainerStatus] = {}
        """What changed, or has ended and is not acknowledged."""

    def register(self) -> None:
        self.node.statuses = {**{key: self.status(one) for key, one in self.tasks.items()}, **self.ends()}
        self.node.running_applications = tuple(
            {one.template_id.partition("/")[0] for one in self.tasks.values()}
        )
        answer = self.node.register()
        for container_id in answer.containers_to_cleanup:
            self.tasks.pop(container_id, None)

    def ends(self) -> dict[str, ContainerStatus]:
        return {key: one for key, one in self.unheard.items() if one.state is DONE}

    def status(self, task: TaskToStart, state: ContainerState = RUNNING, **more: Any) -> ContainerStatus:
        application_id = task.template_id.partition("/")[0]
        return ContainerStatus(
            task.container_id,
            state,
            task.execution_type,
            task.resource,
            application_id=application_id,
            **more,
        )

    def beat(self) -> None:
        answer = self.node.beat(*self.unheard.values())
        if answer.action != "NORMAL":
            self.register()
            return
        for container_id in answer.completed_acknowledged:
            self.unheard.pop(container_id, None)
        self.unheard = self.ends()
        for container_id in answer.containers_to_cleanup:
            if (task := self.tasks.pop(container_id, None)) is not None:
                self._end(task, int(ContainerExitStatus.KILLED_BY_RESOURCEMANAGER))
        for task in answer.tasks_to_start:
            if task.container_id not in self.tasks and task.container_id not in self.unheard:
                self.tasks[task.container_id] = task
                self.began[task.number] += 1
                self.unheard[task.container_id] = self.status(task)

    def end_one(self, exit_status: int = 0) -> None:
        if self.tasks:
            task = self.tasks.pop(next(iter(self.tasks)))
            self.ended[task.number] += exit_status == 0
            self._end(task, exit_status)

    def _end(self, task: TaskToStart, exit_status: int) -> None:
        code = exit_status if exit_status >= 0 else None
        self.unheard[task.container_id] = self.status(task, DONE, exit_status=exit_status, exit_code=code)


class World:
    """Two hosts and a job of twelve tasks; task 5 fails at first."""

    def __init__(self, *, attached: bool = False, kind: ExecutionType = OPPORTUNISTIC) -> None:
        self.cluster = Kept()
        self.began: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self.hosts = [Host(self.cluster, f"h{n}:1", self.began, self.ended) for n in (1, 2)]
        self.failures = 1
        self.id = ""
        self.spec = plan_run(("true",), TaskSpec(1, SMALL, kind), 12, retries=3, name="night")
        self.attached = attached

    def submit(self) -> None:
        request = SubmitJobRequest(ApplicationSubmissionContext("", "night"), self.spec, self.attached)
        self.id = self.cluster.ask(request, self.cluster.connection()).application_id

    def turn(self) -> None:
        for host in self.hosts:
            host.beat()
            failing = next((key for key, one in host.tasks.items() if one.number == 5), None)
            if failing is not None and self.failures:
                self.failures -= 1
                host._end(host.tasks.pop(failing), 1)
            else:
                host.end_one()
        self.cluster.at(self.cluster.now + 0.5)

    def watch(self) -> WatchJobResponse:
        response: WatchJobResponse = self.cluster.take(
            self.cluster.send(WatchJobRequest(self.id, wait_ms=0), self.cluster.connection())
        )
        return response

    def finish(self) -> WatchJobResponse:
        for _ in range(200):
            if self.cluster.app(self.id).state is not YarnApplicationState.RUNNING:
                return self.watch()
            self.turn()
        raise AssertionError(f"the job goes on: {self.watch()}")


def live_through(dies_at: int, *, after: bool, kind: ExecutionType) -> World | None:
    """The job's life with an RM that dies once; None where it came to its end before."""
    world = World(kind=kind)
    cluster = world.cluster
    cluster.dies_at, cluster.after = dies_at, after
    try:
        for host in world.hosts:
            host.register()
        world.submit()
        world.finish()
    except Died:
        pass
    else:
        return None
    cluster.now += 1.0
    cluster.restart()
    for host in world.hosts:
        host.register()
    if not world.id:  # it died before it had answered: the job is there all the same, or was never taken in
        apps = list(cluster.context.applications)
        if not apps:
            return world
        (world.id,) = apps
    end = world.finish().end
    assert end is not None and end.exit_code == 0, end
    return world


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", list(ExecutionType))
def test_killed_at_any_write_each_task_ends_well_once(after: bool, kind: ExecutionType) -> None:
    lived = 0
    while (world := live_through(lived, after=after, kind=kind)) is not None:
        lived += 1
        if world.id:
            assert world.ended == Counter(range(1, 13)), f"write {lived - 1}"
            assert world.cluster.app(world.id).final_status is FinalApplicationStatus.SUCCEEDED
            assert not [key for kind, key in world.cluster.records if kind is Kind.TASK]
    assert lived >= 15, "each container's start and end is a write"


def test_killed_again_and_again() -> None:
    world = World()
    cluster, draw = world.cluster, random.Random(7)
    for host in world.hosts:
        host.register()
    world.submit()
    lives = 1
    for _ in range(200):
        if cluster.app(world.id).state is not YarnApplicationState.RUNNING:
            break
        cluster.dies_at, cluster.after = cluster.writes + draw.randrange(3), draw.random() < 0.5
        try:
            world.turn()
        except Died:
            lives += 1
            cluster.now += 0.5
            cluster.restart()
            for host in draw.sample(world.hosts, 2):
                host.register()
    assert lives > 5 and world.ended == Counter(range(1, 13))
    attempts = cluster.ask(GetApplicationAttemptsRequest(world.id)).attempts
    assert len(attempts) == lives
    assert {one.state for one in attempts[:-1]} == {"FAILED"}
    assert {one.diagnostics for one in attempts[:-1]} == {"The ResourceManager was restarted."}


def under_way(*, attached: bool = False, kind: ExecutionType = OPPORTUNISTIC) -> World:
    """A job whose first tasks run on both nodes."""
    world = World(attached=attached, kind=kind)
    for host in world.hosts:
        host.register()
    world.submit()
    world.turn()
    return world


def test_what_still_runs_is_not_tried_again_and_what_is_gone_is() -> None:
    world = under_way()
    cluster, (first, second) = world.cluster, world.hosts
    ran = {one.number for one in first.tasks.values()}
    gone = {one.number for one in second.tasks.values()}
    unheard = set(range(1, 13)) - ran - gone
    assert ran and gone and unheard, "of an end that was not told yet, a node tells when it registers"
    cluster.restart()
    first.register()
    assert world.watch().counts["RUNNING"] == len(ran)
    assert world.watch().counts["STARTING"] == len(gone) + len(second.ends()), "of these nobody knows yet"
    second.tasks.clear()
    second.register()
    assert not cluster.context.expected and (world.watch().lost, world.watch().preempted) == (len(gone), 0)
    end = world.finish().end
    assert end is not None and end.exit_code == 0
    assert all(world.began[number] == 1 for number in ran - {5})
    assert all(world.began[number] == 2 for number in gone - {5})


def test_a_node_that_never_comes_is_lost_like_any_other() -> None:
    world = under_way()
    cluster, (first, second) = world.cluster, world.hosts
    missing = len(second.tasks)
    world.hosts.remove(second)
    cluster.restart()
    first.register()
    cluster.at(cluster.now + cluster.settings.nm_expiry_interval_ms / 1000 - 1)
    first.beat()
    assert world.watch().counts.get("STARTING", 0) >= missing
    cluster.at(cluster.now + 2)
    end = world.finish().end
    assert end is not None and end.exit_code == 0 and not cluster.context.expected


def test_after_a_reboot_what_ran_is_told_as_lost_with_it() -> None:
    world = under_way()
    cluster = world.cluster
    for host in world.hosts:
        host.beat()
    lost = [one.number for host in world.hosts for one in host.tasks.values()]
    cluster.restart(boot_id="another")
    assert not cluster.context.rebooted, "the records know no boot id"
    cluster.restart(boot_id="a third one")
    assert cluster.context.rebooted
    for host in world.hosts:
        host.tasks.clear()
        host.register()
    response = world.watch()
    assert "the machine was restarted, and the job continues" in response.said[0]
    again = [one for one in from_rows(response.tasks) if one.losses and not one.preemptions]
    assert {one.planned_number for one in again} == set(lost)
    events = cluster.ask(GetEventsRequest()).events
    *_, recovered = [one for one in events if one.kind is EventKind.RESOURCEMANAGER_RECOVERED]
    assert recovered.words == {"reboot": "yes"} and recovered.numbers["containers"] == len(lost)
    end = world.finish().end
    assert end is not None and end.exit_code == 0


def test_a_client_that_has_to_stay_comes_back_or_its_job_ends() -> None:
    for returns in (True, False):
        world = under_way(attached=True)
        cluster = world.cluster
        cluster.restart()
        for host in world.hosts:
            host.register()
        if returns:
            cluster.send(WatchJobRequest(world.id, wait_ms=60_000), cluster.connection())
        for _ in range(6):
            world.turn()
        if returns:
            assert world.finish().end is not None
        state = cluster.app(world.id).final_status
        assert state is (FinalApplicationStatus.SUCCEEDED if returns else FinalApplicationStatus.FAILED)


def test_a_wish_to_stop_outlives_the_rm_and_so_do_ends_and_tags() -> None:
    world = under_way()
    cluster = world.cluster
    cluster.ask(UpdateApplicationTagsRequest(world.id, ("big",)))
    cluster.ask(StopJobRequest(world.id, "enough", 143))
    cluster.restart()
    app = cluster.app(world.id)
    assert app.state is YarnApplicationState.KILLED and app.tags == ("big",)
    end = world.watch().end
    assert end is not None and end.exit_code == 143
    for host in world.hosts:
        host.register()
        host.beat()
        assert not host.tasks, "its containers are ended"
    cluster.restart()
    app = cluster.app(world.id)
    assert app.state is YarnApplicationState.KILLED and app.diagnostics == "enough" and app.finished_at_ms
    assert cluster.ask(KillApplicationRequest(world.id)).application.state is YarnApplicationState.KILLED
    world.submit()
    assert world.id.endswith("_0002"), "numbers are not given out again"


def test_only_so_many_ended_applications_are_kept() -> None:
    cluster = Kept(max_completed_applications=2)
    for _ in range(4):
        master = cluster.master()
        cluster.ask(
            FinishApplicationMasterRequest(
                master.attempt_id, master.token, FinalApplicationStatus.SUCCEEDED, ""
            ),
            master.connection,
        )
    assert len([key for kind, key in cluster.records if kind is Kind.APPLICATION]) == 2
    assert len([key for kind, key in cluster.records if kind is Kind.LIFE]) == 2
    cluster.restart()
    assert [app.number for app in cluster.context.applications.values()] == [3, 4]


def test_memory_and_vcore_seconds_are_of_what_ran_before_between_and_after_lives() -> None:
    cluster = Kept()
    node = cluster.node()
    master = cluster.master()
    granted = master.allocate(asks(4, Resource(100, 1))).allocated

    def told(index: int, ended: float = 0.0, began: float = 10.0, **more: Any) -> ContainerStatus:
        make, ms = done if ended else status, cluster.context.ms
        more["finished_at_ms"] = ms(ended) if ended else 0
        state = make(granted[index], started_at_ms=ms(began), **more)
        return replace(state, application_id=master.app_id)

    def counted() -> tuple[int, int]:
        report = cluster.app(master.app_id)
        return report.memory_seconds, report.vcore_seconds

    cluster.at(10.0)
    node.beat(*map(told, range(3)))
    cluster.at(14.0)
    node.beat(told(0, 14.0, exit_code=0))
    assert counted() == (1200, 12)
    cluster.at(20.0)
    cluster.restart()
    master.register()
    cluster.at(23.0)
    assert counted() == (1200, 12), "as it was stored last"
    node.statuses = {one.container_id: one for one in (told(1), told(2, 22.0), told(3, 22.0, 21.0))}
    node.register()
    assert counted() == (1200 + 900 + 800 + 100, 30)
    cluster.at(25.0)
    node.beat(told(1, 25.0))
    assert counted() == (3200, 32)
    cluster.restart()
    assert counted() == (3200, 32)


@pytest.mark.parametrize("kind", ["hosted", "managed", "unmanaged", "with its id"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_submission_that_was_not_answered_is_the_same_in_the_next_life(kind: str, taken: bool) -> None:
    world = World()
    cluster = world.cluster
    for host in world.hosts:
        host.register()
    context = ApplicationSubmissionContext(
        "",
        "night",
        unmanaged=kind == "unmanaged",
        am_container_spec=ContainerLaunchContext(("am",)),
        key="a key",
    )
    if kind == "with its id":
        given = cluster.ask(GetNewApplicationRequest()).application_id
        context = replace(context, application_id=given, key="")
    request = SubmitJobRequest(context, world.spec) if kind == "hosted" else SubmitApplicationRequest(context)
    cluster.dies_at, cluster.after = cluster.writes, taken
    with pytest.raises(Died):
        cluster.send(request, cluster.connection())
    cluster.restart()
    answers = [cluster.ask(request, cluster.connection()) for _ in range(2)]
    assert {one.application_id for one in answers} == set(cluster.context.applications)
    assert len({(one.application_id, one.attempt_id, one.am_token) for one in answers}) == 1
    with pytest.raises(InvalidStateError, match="has already been submitted"):
        cluster.ask(request, cluster.connection(), user="eve", uid=1001)
    others = replace(request, context=replace(context, key="another", application_id=""))
    other = cluster.ask(others, cluster.connection())
    assert len(cluster.context.applications) == 2
    cluster.ask(KillApplicationRequest(other.application_id))
    if kind == "hosted":
        world.id = answers[0].application_id
        world.watch()  # its client goes on
        world.finish()
        assert world.ended == Counter(range(1, 13)) and world.began.total() == 13
    else:
        cluster.ask(KillApplicationRequest(answers[0].application_id))
    cluster.restart()
    again = cluster.ask(request, cluster.connection())
    assert again.application_id == answers[0].application_id, "also when it has ended"
    assert len(cluster.context.applications) == 2
    assert cluster.app(again.application_id).finished_at_ms


def test_a_submission_is_forgotten_with_its_application() -> None:
    cluster = Kept(max_completed_applications=1)
    first, second = (cluster.submit(key=key) for key in ("one", "two"))
    assert cluster.submit(key="one") == first
    for app_id in (first, second):
        cluster.ask(KillApplicationRequest(app_id))
    assert cluster.context.submissions == {"two": second}


def test_a_master_elsewhere_registers_again_and_keeps_its_containers() -> None:
    cluster = Kept()
    node = cluster.node()
    master = cluster.master()
    (granted,) = master.allocate(asks(1)).allocated
    node.statuses[granted.id] = ContainerStatus(
        granted.id, RUNNING, GUARANTEED, SMALL, application_id=master.app_id
    )
    cluster.restart()
    answer = master.allocate()
    assert answer.command == "AM_RESYNC" and not answer.allocated
    node.register()
    again = master.register()
    assert [one.id for one in again.containers_from_previous_attempts] == [granted.id]
    app = cluster.context.live[master.app_id]
    assert app.guaranteed_allocated_total == 1, "the life that granted it has counted it"
    master.response_id = 0
    node.beat(replace(node.statuses[granted.id], state=DONE, exit_status=0))
    assert [one.container_id for one in master.allocate().completed] == [granted.id]
    (other,) = master.allocate(asks(1)).allocated
    assert int(other.id.rpartition("_")[2]) > int(granted.id.rpartition("_")[2]) + 1


@pytest.mark.parametrize("deaths", ["none", "before", "between", "after", "everywhere"])
def test_each_later_attempt_is_told_what_ended_well_after_its_predecessor(deaths: str) -> None:
    """Whenever the RM dies: before the next attempt has registered, or before the last container has ended."""
    cluster = Kept(max_attempts=3)
    node = cluster.node()
    app_id = cluster.submit()
    masters = list[Container]()

    def beat(*statuses: ContainerStatus) -> None:
        for start in node.beat(
            *(replace(one, application_id=app_id) for one in statuses)
        ).containers_to_start:
            masters.append(start.container)
            beat(status(start.container))

    def restart(when: str) -> None:
        if deaths in (when, "everywhere"):
            cluster.restart()
            node.register()

    def master() -> Master:
        attempt = cluster.context.live[app_id].attempt
        return Master(cluster, app_id, attempt.id, attempt.token, cluster.connection())

    beat()
    first = master()
    assert first.register().ended_well == ()
    ran = first.allocate(asks(4, Resource(10, 0))).allocated
    unheard, late, later, failed = ran
    beat(*map(status, ran))
    beat(done(unheard, exit_code=0))
    beat(done(masters[0], 137, exit_code=137))
    beat(done(failed, 1, exit_code=1))
    restart("before")
    beat(done(late, -105, exit_code=0))
    restart("between")
    second = master()
    terms = second.register()
    assert set(terms.ended_well) == {unheard.id, late.id}
    assert terms.ending == (later.id,)
    assert not second.allocate().completed
    held = second.send(wait_ms=60_000)
    restart("after")
    beat(done(later, -105, exit_code=0))
    if deaths in ("after", "everywhere"):
        assert set(second.register().ended_well) == {unheard.id, late.id, later.id}
    else:
        told = second.take(held)
        assert told is not None and [one.container_id for one in told.completed] == [later.id]
        assert not second.allocate().completed
    beat(done(masters[1], 137))
    assert set(master().register().ended_well) == {unheard.id, late.id, later.id}
    assert len(masters) == cluster.app(app_id).attempts == 3


@pytest.mark.parametrize("comes", ["at once", "later", "with its end", "without it", "never"])
def test_what_a_dead_masters_proxy_allocated_and_nobody_reported_is_ending(comes: str) -> None:
    """Its node reports it only after the next master has registered: as running, as ended, or never."""
    cluster = Kept(max_attempts=3, nm_expiry_interval_ms=10_000)
    cluster.context.distributed = True
    home = cluster.node("h1:1")
    app_id = cluster.submit()
    (start,) = home.beat().containers_to_start
    away = cluster.node("h2:1")
    home.beat(replace(status(start.container), application_id=app_id))
    remote = str(ContainerId(ContainerId.parse(start.container.id).application_attempt_id, REMOTE_ID_START))
    ran = Container(remote, "h2:1", "", Resource(10, 0), execution_type=OPPORTUNISTIC)

    to_cleanup = list[str]()

    def beat(*statuses: ContainerStatus) -> None:
        response = away.beat(*(replace(one, application_id=app_id) for one in statuses))
        to_cleanup.extend(response.containers_to_cleanup)

    (again,) = home.beat(replace(done(start.container, 137), application_id=app_id)).containers_to_start
    home.beat(replace(status(again.container), application_id=app_id))
    attempt = cluster.context.live[app_id].attempt
    second = Master(cluster, app_id, attempt.id, attempt.token, cluster.connection())
    if comes == "at once":
        beat(status(ran))
    assert second.register({remote: "h2:1", f"{remote[:-1]}4": "h3:1"}).ending == (remote,)
    if comes == "never":
        cluster.at(cluster.now + 9)
        home.beat()
        assert not second.allocate().completed
        cluster.at(cluster.now + 2)
    elif comes == "with its end":
        beat(done(ran, exit_code=0))
    else:
        beat()
        assert not second.allocate().completed, "it may be starting"
        if comes == "later":
            beat(status(ran))
        beat()
        if comes != "without it":
            beat()
            assert to_cleanup == [remote] and not second.allocate().completed
            beat(done(ran, -105, exit_code=0))
    (told,) = second.allocate().completed
    assert (told.container_id, told.exit_code == 0) == (remote, comes not in ("without it", "never"))
    beat() if comes != "never" else None
    assert not cluster.context.expected and not cluster.context.unreported
    assert not [one for one in cluster.context.live_containers if one == remote]
    allocated = [
        one.why for one in cluster.context.history.of_application(app_id) if one.container == remote
    ][:1]
    assert allocated == ([] if comes in ("without it", "never") else [BY_DISTRIBUTED_SCHEDULER])


@pytest.mark.parametrize("comes", ["first", "later", "without it", "never"])
@pytest.mark.parametrize("registered", [True, False])
def test_what_an_earlier_attempt_still_runs_is_ending_in_the_next_life(comes: str, registered: bool) -> None:
    """Its node comes before or after the next master, which had registered with the last RM or had not; or it comes
    without the container, or never."""
    cluster = Kept(max_attempts=3, nm_expiry_interval_ms=10_000)
    home = cluster.node("h1:1")
    app_id = cluster.submit()
    (start,) = home.beat().containers_to_start
    away = cluster.node("h2:1")

    def beat(node: Node, *statuses: ContainerStatus) -> NodeHeartbeatResponse:
        return node.beat(*(replace(one, application_id=app_id) for one in statuses))

    def master() -> Master:
        attempt = cluster.context.live[app_id].attempt
        return Master(cluster, app_id, attempt.id, attempt.token, cluster.connection())

    beat(home, status(start.container))
    first = master()
    first.register()
    (ran,) = first.allocate(replace(asks(1), resource_name="h2", relax_locality=False)).allocated
    beat(away, status(ran))
    (again,) = beat(home, done(start.container, 137)).containers_to_start
    beat(home, status(again.container))
    second, earlier = master(), {ran.id: "h2:1"}
    with pytest.raises(InvalidIdError):
        second.register({**earlier, "c1": "h2:1"})
    if registered:
        assert second.register(earlier).ending == (ran.id,)
    cluster.restart()
    home.register()
    if comes == "first":
        away.register()
    assert second.register(earlier).ending == (ran.id,), "it may still run"
    second.response_id = 0
    if comes == "later":
        away.register()
    if comes in ("first", "later"):
        assert ran.id in away.beat().containers_to_cleanup
        assert not second.allocate().completed
        assert cluster.containers(application_id=app_id)[ran.id].node_id == "h2:1"
        beat(away, done(ran, -105, exit_code=0))
    elif comes == "without it":
        away.statuses.clear()
        away.register()
    else:
        cluster.at(cluster.now + 9)
        home.beat()
        assert not second.allocate().completed
        cluster.at(cluster.now + 2)
    (told,) = second.allocate().completed
    assert (told.container_id, told.exit_code == 0) == (ran.id, comes in ("first", "later"))
    assert second.register(earlier).ending == ()


def test_a_container_of_a_distributed_scheduler_that_ends_well_before_the_rm_knows_it_is_told() -> None:
    cluster = Kept()
    node = cluster.node()
    app_id = cluster.submit()
    (start,) = node.beat().containers_to_start
    node.beat(status(start.container))
    attempt = cluster.context.live[app_id].attempt
    Master(cluster, app_id, attempt.id, attempt.token, cluster.connection()).register()
    node.beat(done(start.container, 137))
    remote = str(ContainerId(attempt.record, REMOTE_ID_START))
    node.beat(
        ContainerStatus(remote, DONE, OPPORTUNISTIC, SMALL, exit_status=0, exit_code=0, application_id=app_id)
    )
    attempt = cluster.context.live[app_id].attempt
    told = Master(cluster, app_id, attempt.id, attempt.token, cluster.connection()).register()
    assert told.ended_well == (remote,)


def test_a_master_that_unregisters_without_having_registered_again_has_ended() -> None:
    cluster = Kept()
    cluster.node()
    master = cluster.master()
    cluster.restart()
    request = FinishApplicationMasterRequest(
        master.attempt_id, master.token, FinalApplicationStatus.SUCCEEDED, ""
    )
    cluster.ask(request, master.connection)
    assert cluster.app(master.app_id).state is YarnApplicationState.FINISHED


@pytest.mark.parametrize("deaths", [1, 2, 3])
@pytest.mark.parametrize("found", [True, False])
def test_a_masters_container_is_found_or_another_attempt_begins(found: bool, deaths: int) -> None:
    cluster = Kept()
    node = cluster.node()
    app_id = cluster.submit()
    (start,) = node.beat().containers_to_start
    status = ContainerStatus(start.container.id, RUNNING, GUARANTEED, SMALL, application_id=app_id)
    node.beat(status)
    for _ in range(deaths):
        cluster.restart()
    if not found:
        node.statuses.clear()
    node.register()
    app = cluster.app(app_id)
    if found:
        assert app.am_container_id == start.container.id and app.attempts == 1
        assert not node.beat().containers_to_start
        return
    assert app.attempts == 2
    (again,) = node.beat().containers_to_start
    assert again.container.id != start.container.id


def test_the_failures_of_its_masters_are_counted_over_all_lives() -> None:
    cluster = Kept(max_attempts=2)
    node = cluster.node()
    app_id = cluster.submit()
    for left in (1, 0):
        (start,) = node.beat().containers_to_start
        node.beat(status(start.container))
        node.beat(done(start.container, 1, exit_code=1))
        assert cluster.app(app_id).state is (
            YarnApplicationState.ACCEPTED if left else YarnApplicationState.FAILED
        )
        cluster.restart()
        node.register()
    assert "failed 2 times" in cluster.app(app_id).diagnostics


def test_a_master_that_comes_before_its_node_is_known_to_every_life() -> None:
    cluster = Kept()
    node = cluster.node()
    app_id = cluster.submit()
    (start,) = node.beat().containers_to_start
    node.beat(ContainerStatus(start.container.id, RUNNING, GUARANTEED, SMALL, application_id=app_id))
    attempt = cluster.context.live[app_id].attempt
    master = Master(cluster, app_id, attempt.id, attempt.token, cluster.connection())
    master.register()
    for _ in range(2):
        cluster.restart()
        master.register()
    node.register()
    assert cluster.app(app_id).am_container_id == start.container.id
    assert not node.beat().containers_to_start


def test_a_drained_node_stays_drained_until_it_is_resumed() -> None:
    cluster = Kept()
    node = cluster.node()
    cluster.ask(DrainNodesRequest((node.name,)))
    cluster.restart()
    node.register()
    assert cluster.context.node(node.name).state is NodeState.DECOMMISSIONED
    cluster.ask(ResumeNodesRequest((node.name,)))
    cluster.restart()
    node.register()
    assert cluster.context.node(node.name).state is NodeState.RUNNING


@pytest.mark.parametrize("written", [True, False])
def test_events_go_on_with_the_next_number_or_above_all_that_were_told(written: bool) -> None:
    cluster = Kept()
    cluster.node()
    before = cluster.context.history.last
    told = cluster.ask(GetEventsRequest(since=0)).events
    assert [event.seq for event in cluster.events] == list(range(1, before + 1))
    if not written:
        cluster.events.clear()
    cluster.restart()
    answer = cluster.ask(GetEventsRequest(since=0))
    numbers = [event.seq for event in answer.events]
    recovered = EventKind.RESOURCEMANAGER_RECOVERED
    if written:
        assert answer.events[: len(told)] == told and numbers == list(range(1, numbers[-1] + 1))
        assert answer.events[len(told)].kind is recovered
    else:
        assert answer.events[0].kind is recovered and numbers[0] > before


def test_events_of_another_state_are_not_those_of_this_one() -> None:
    cluster = Kept()
    cluster.node()
    cluster.events[-1] = replace(cluster.events[-1], seq=10**9)
    cluster.restart()
    events = cluster.ask(GetEventsRequest(since=0)).events
    assert events[0].kind is EventKind.RESOURCEMANAGER_RECOVERED and events[0].seq < 10**9


def test_what_ended_is_kept_where_the_rm_dies_before_its_last_container_has_ended() -> None:
    cluster = Kept()
    node = cluster.node()
    master = cluster.master()
    (granted,) = master.allocate(asks(1)).allocated
    node.beat(ContainerStatus(granted.id, RUNNING, GUARANTEED, SMALL, application_id=master.app_id))
    cluster.ask(KillApplicationRequest(master.app_id))
    assert not cluster.kept
    for _ in range(2):
        cluster.restart()
        (kept,) = cluster.kept
        assert kept.application.application_id == master.app_id and kept.application.finished_at_ms
        assert kept.application.state is YarnApplicationState.KILLED


def test_the_number_of_applications_that_were_submitted_never_goes_down() -> None:
    cluster = Kept(max_completed_applications=2)
    cluster.ask(GetNewApplicationRequest())  # which nobody submits
    for _ in range(4):
        cluster.ask(KillApplicationRequest(cluster.submit()))
    cluster.submit(application_id=cluster.ask(GetNewApplicationRequest()).application_id)
    for _ in range(2):
        info = cluster.ask(GetClusterInfoRequest())
        assert (info.applications_finished, info.applications_pending) == (4, 1)
        cluster.restart()


def test_without_recovery_nothing_is_written() -> None:
    cluster = Kept()
    cluster.context.keeps_state = False
    cluster.node()
    cluster.master()
    assert not cluster.records


def test_a_cluster_that_ends_in_order_is_forgotten() -> None:
    cluster = Kept(lifetime="on-demand")
    master = cluster.master()
    request = FinishApplicationMasterRequest(
        master.attempt_id, master.token, FinalApplicationStatus.SUCCEEDED, ""
    )
    cluster.ask(request, master.connection)
    assert cluster.forgot and cluster.stopped is not None


def test_a_task_of_a_later_phase_and_one_that_failed_for_good() -> None:
    phases = (
        PhaseSpec("first", (TaskSpec(1, SMALL, count=2),), ("true",)),
        PhaseSpec("second", (TaskSpec(1, SMALL, count=2),), ("true",), number_by_allocation=True),
    )
    cluster = Kept()
    node = cluster.node()
    job = JobSpec("two", "YARN", phases)
    app_id = cluster.ask(
        SubmitJobRequest(ApplicationSubmissionContext("", "two"), job, False), cluster.connection()
    ).application_id
    tasks = node.beat().tasks_to_start

    def said(task: TaskToStart, code: int) -> ContainerStatus:
        return ContainerStatus(
            task.container_id, DONE, task.execution_type, task.resource, exit_status=code, exit_code=code
        )

    tasks = node.beat(said(tasks[0], 0), said(tasks[1], 3)).tasks_to_start
    assert [task.number for task in tasks] == [1, 2] and tasks[0].template_id.endswith("/1")
    node.beat(said(tasks[0], 0))
    node.statuses[tasks[1].container_id] = replace(said(tasks[1], 0), state=RUNNING, exit_status=-1000)
    stored = [one for one in cluster.records.values() if isinstance(one, StoredTask)]
    assert Counter(one.state for one in stored) == {
        TaskState.SUCCEEDED: 2,
        TaskState.FAILED: 1,
        TaskState.STARTING: 1,
    }
    cluster.restart()
    node.register()
    node.beat(said(tasks[1], 0))
    response = cluster.take(cluster.send(WatchJobRequest(app_id, wait_ms=0), cluster.connection()))
    assert response.end is not None and response.end.exit_code == 3
    summary = response.end.summary
    assert (summary.total, summary.completed, summary.failed) == (4, 4, 1)


def test_what_a_job_has_run_is_known_to_every_later_life() -> None:
    cluster = Kept()
    node = cluster.node()
    phase = PhaseSpec("run", (TaskSpec(1, SMALL, count=4),), ("true",), environment={"SECRET": "x"})
    submitted = SubmitJobRequest(
        ApplicationSubmissionContext("", "mine"), JobSpec("j", "YARN", (phase,)), False
    )
    app_id = cluster.ask(submitted, cluster.connection()).application_id
    tasks = node.beat().tasks_to_start
    while tasks:
        codes = [(one, int(one.number == 2)) for one in tasks]
        ends = [
            ContainerStatus(
                one.container_id, DONE, one.execution_type, one.resource, exit_status=code, exit_code=code
            )
            for one, code in codes
        ]
        tasks = node.beat(*ends).tasks_to_start
    for _ in range(2):
        cluster.restart()
        told = cluster.ask(GetJobRequest(app_id))
        assert (told.job, told.succeeded, told.ended) == (submitted.job, (1, 1, 3, 4), True)
        assert told.context.name == "mine"


def test_the_job_of_a_master_in_a_container_is_in_its_files_and_one_in_a_client_is_not_known() -> None:
    cluster = Kept()
    cluster.node()
    master = ContainerLaunchContext(command=("true",), files={JOB_FILE: "{}"})
    contexts = [
        ApplicationSubmissionContext("", "inside", am_container_spec=master),
        ApplicationSubmissionContext("", "client", unmanaged=True, command_line="yopp run true"),
    ]
    inside, outside = (
        cluster.ask(SubmitApplicationRequest(one), cluster.connection()).application_id for one in contexts
    )
    cluster.restart()
    told = cluster.ask(GetJobRequest(inside))
    assert told.job is None and told.context.am_container_spec == master and not told.ended
    with pytest.raises(ApplicationNotFoundError, match="no longer known") as caught:
        cluster.ask(GetJobRequest(outside))
    assert caught.value.hint == "type the command again: yopp run true"


def test_a_job_that_is_to_begin_later_begins_in_the_next_life() -> None:
    world = World()
    cluster = world.cluster
    for host in world.hosts:
        host.register()
    begin_at_ms = cluster.context.ms(10.0)
    context = ApplicationSubmissionContext("", "later", begin_at_ms=begin_at_ms, timeout_ms=60_000)
    world.id = cluster.ask(SubmitJobRequest(context, world.spec, False), cluster.connection()).application_id
    cluster.restart()
    for host in world.hosts:
        host.register()
        host.beat()
    app = cluster.app(world.id)
    assert app.state is YarnApplicationState.ACCEPTED and app.attempts == 1 and not world.began
    cluster.at(10.0)
    assert cluster.app(world.id).state is YarnApplicationState.RUNNING
    world.turn()
    cluster.restart()
    for host in world.hosts:
        host.register()
    assert cluster.app(world.id).attempts == 2 and world.began
    end = world.finish().end
    assert end is not None and end.exit_code == 0 and world.ended == Counter(range(1, 13))


@pytest.mark.parametrize("dies", [False, True], ids=["in one life", "in the next life"])
def test_the_end_of_a_lifetime_that_somebody_names_before_a_job_begins_is_that_moment(dies: bool) -> None:
    world = World()
    cluster = world.cluster
    context = ApplicationSubmissionContext(
        "", "later", begin_at_ms=cluster.context.ms(10.0), timeout_ms=60_000
    )
    world.id = cluster.ask(SubmitJobRequest(context, world.spec, False), cluster.connection()).application_id
    end = cluster.context.ms(30.0)
    cluster.ask(UpdateApplicationTimeoutsRequest(world.id, end))
    if dies:
        cluster.restart()
    cluster.at(11.0)
    app = cluster.app(world.id)
    assert app.state is YarnApplicationState.RUNNING and app.timeout_at_ms == end
    cluster.at(31.0)
    assert cluster.app(world.id).state is YarnApplicationState.KILLED


def test_the_time_that_a_job_waited_for_another_is_none_of_its_own_in_the_next_life() -> None:
    world = World()
    cluster = world.cluster
    parent = cluster.master()
    spec = replace(world.spec, timeout_ms=60_000)
    context = ApplicationSubmissionContext("", "later", timeout_ms=60_000, after=(f"{parent.app_id}:any",))
    world.id = cluster.ask(SubmitJobRequest(context, spec, False), cluster.connection()).application_id
    cluster.at(100)
    cluster.ask(KillApplicationRequest(parent.app_id))
    assert cluster.app(world.id).timeout_at_ms == cluster.context.ms(160.0)
    cluster.at(110)
    cluster.restart()
    cluster.at(150)
    app = cluster.app(world.id)
    assert app.state is YarnApplicationState.RUNNING and app.timeout_at_ms == cluster.context.ms(160.0)
    cluster.at(170)
    assert cluster.app(world.id).state is not YarnApplicationState.RUNNING


def test_an_id_of_an_earlier_life_is_taken_as_that_wrote_it_alone() -> None:
    cluster = Kept()
    running = cluster.submit()
    unused = cluster.ask(GetNewApplicationRequest()).application_id
    cluster.restart()
    foreign = running.replace(str(IDENTITY.cluster_timestamp), "5")
    zero = running.replace("_0001", "_0000")
    for one in (running.replace("_0001", "_00001"), foreign, zero):
        with pytest.raises(InvalidStateError, match="was not given out by this cluster"):
            cluster.submit(application_id=one)
    assert list(cluster.context.applications) == [running]
    assert cluster.submit(application_id=unused) == unused


def test_containers_of_both_lives_are_known_by_their_tasks() -> None:
    world = World(kind=GUARANTEED)
    cluster, planned = world.cluster, dict[str, int]()

    def look() -> None:
        for host in world.hosts:
            planned.update((key, one.number) for key, one in host.tasks.items())

    for host in world.hosts:
        host.register()
    world.submit()
    for _ in range(2):
        world.turn()
        look()
    cluster.restart()
    for host in world.hosts:
        host.register()
    for _ in range(3):
        world.turn()
        look()
    told = {key: one.task for key, one in cluster.containers(finished=True).items()}
    assert {key.rsplit("_", 2)[1] for key in planned} == {"01", "02"}
    shown = {key: told[key] for key in planned if key in told}
    assert len(shown) > 5 and shown == {key: planned[key] for key in shown}
    world.finish()
    (kept,) = cluster.kept
    assert kept.tasks and len(kept.later_tasks) == 1 and set(kept.later_tasks[0]) <= set(range(1, 13))


def test_the_tasks_of_a_mapreduce_job_that_had_ended_are_those_that_were_kept() -> None:
    cluster = Kept()
    master = cluster.master(map_reduce=MapReduceJob(2))
    cluster.ask(KillApplicationRequest(master.app_id))
    (kept,) = cluster.kept
    assert kept.map_reduce is not None
    request = GetMapReduceJobRequest(master.app_id)
    before = cluster.ask(request).report
    cluster.restart()
    assert cluster.ask(request).report == before is None, "it is read from what was kept"


def told_attempts(cluster: Kept, app_id: str) -> list[tuple[int, bool, int, ContainerState | None, int]]:
    report = cluster.ask(GetMapReduceJobRequest(app_id)).report
    assert report is not None
    return [(one.index, one.is_reduce, one.number, one.state, one.exit_status) for one in report.attempts]


def test_the_tasks_of_a_living_mapreduce_job_are_known_to_every_later_life() -> None:
    cluster = Kept()
    node = cluster.node()
    master = cluster.master(map_reduce=MapReduceJob(3))
    first, second, third = master.allocate(asks(3)).allocated
    master.allocate(tasks=[TaskAssignment(one.id, index) for index, one in enumerate((first, second, third))])
    began = {"started_at_ms": 5}
    node.beat(done(first, 1, finished_at_ms=9, **began), status(second, **began), status(third, **began))
    before = told_attempts(cluster, master.app_id)
    assert before == [(0, False, 0, DONE, 1), (1, False, 0, RUNNING, -1000), (2, False, 0, RUNNING, -1000)]
    node.statuses = {second.id: status(second, **began)}
    for _ in range(2):
        cluster.restart()
        assert len(told_attempts(cluster, master.app_id)) == 3, "also before the node has come"
        node.register()
        told = told_attempts(cluster, master.app_id)
        assert told == [*before[:2], (2, False, 0, DONE, int(ContainerExitStatus.ABORTED))]
        assert cluster.containers()[second.id].task == 2
    master.register()
    master.response_id = 0
    (again,) = master.allocate(asks(1)).allocated
    master.allocate(tasks=(TaskAssignment(second.id, 1), TaskAssignment(again.id, 2)))
    assert told_attempts(cluster, master.app_id)[3][:3] == (2, False, 1), "its second attempt"
    assert [kind for kind, _ in cluster.records].count(Kind.ATTEMPT) == 4
    cluster.ask(KillApplicationRequest(master.app_id))
    cluster.restart()
    (kept,) = cluster.kept
    assert kept.map_reduce is not None and len(kept.map_reduce.attempts) == 4
    assert {one.state for one in kept.map_reduce.attempts} == {DONE}
    assert Kind.ATTEMPT not in [kind for kind, _ in cluster.records]


def test_the_tasks_of_a_hosted_pi_job_are_known_to_the_next_life() -> None:
    world = World(kind=GUARANTEED)
    cluster = world.cluster
    for host in world.hosts:
        host.register()
    world.spec = replace(world.spec, map_reduce=MapReduceJob(12))
    context = ApplicationSubmissionContext("", "pi", map_reduce=MapReduceJob(12))
    world.id = cluster.ask(SubmitJobRequest(context, world.spec, False), cluster.connection()).application_id
    for _ in range(2):
        world.turn()
    before = told_attempts(cluster, world.id)
    cluster.restart()
    for host in world.hosts:
        host.register()
    assert 0 < len(before) < 12
    assert [one[:3] for one in told_attempts(cluster, world.id)[: len(before)]] == [one[:3] for one in before]
    world.finish()
    report = cluster.kept[-1].map_reduce
    assert {one.index for one in report.attempts if one.exit_status == 0} == set(range(12))
    assert not [key for kind, key in cluster.records if kind is Kind.ATTEMPT]


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "adopted"])
@pytest.mark.parametrize("another", [True, False], ids=["all lost", "some lost"])
def test_containers_of_lost_applications_are_kept_until_somebody_decides(another: bool, ends: bool) -> None:
    world = under_way(kind=ExecutionType.GUARANTEED)
    cluster, (host, _) = world.cluster, world.hosts
    running = set(host.tasks)
    stored = cluster.records[Kind.CLUSTER, ""]
    assert running and isinstance(stored, StoredCluster)
    number = stored.last_application
    cluster.records = {(Kind.CLUSTER, ""): replace(stored, lost_until=number, adopted=False)}
    moved = {"cluster_timestamp": IDENTITY.cluster_timestamp + 5} if another else {}

    def seen() -> tuple[int, Resource, bool]:
        info = cluster.ask(GetClusterInfoRequest())
        return info.containers_kept, cluster.context.nodes[host.node.name].used, bool(info.lost)

    cluster.restart(**moved)
    for _ in range(2):  # it registers twice, as after RESYNC
        host.register()
        host.beat()
    assert set(host.tasks) == running, "none was ended"
    held = Resource(SMALL.memory, SMALL.vcores) * len(running)
    assert seen() == (len(running), held, True)
    assert cluster.ask(SettleLostRequest(ends)).containers == len(running)
    assert seen() == (len(running), held, ends)
    cluster.restart(**moved)
    host.register()
    assert seen()[2] == ends, "an adoption is remembered"
    cluster.ask(SettleLostRequest(ends))
    host.beat()
    assert bool(running & set(host.tasks)) != ends
    while running & set(host.tasks):
        host.end_one()
    host.beat()
    assert seen() == (0, Resource(), False)
    world.submit()
    assert another or ApplicationId.parse(world.id).id == number + 1, "no id is used again"
