"""Random lives of a cluster: nodes that queue, run, crash and come again; masters that lose answers.

Every step is validated (``Cluster`` calls ``validate`` after each). At the end everything that was asked for has
been served, exactly once, and when all applications have ended nothing is left in any book.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from executor.records import GPU, PREEMPTION_STATUSES, ContainerStatus, Resource, counted
from yarnopp_cli.records.client_protocol import GetClusterInfoRequest, KillApplicationRequest
from yarnopp_cli.records.master_protocol import AllocateResponse
from yarnopp_cli.records.requests import (
    Container,
    ContainerUpdateType,
    UpdateContainerRequest,
)

from .rm_harness import GUARANTEED, OPPORTUNISTIC, Cluster, Master, Node, asks, done, queued, status

EXPIRY_S = 30.0
SIZES = (
    Resource(100, 1),
    Resource(300, 1),
    Resource(50, 2),
    Resource(10, 0),
    Resource(50, 1, counted({GPU: 1})),
    Resource(10, 0, counted({GPU: 2})),
)


@dataclass
class LivingNode:
    """A node that behaves: it starts what fits, queues what does not, refuses what its queue cannot hold."""

    node: Node
    running: dict[str, Container] = field(default_factory=dict)
    waiting: dict[str, Container] = field(default_factory=dict)
    unacknowledged: dict[str, ContainerStatus] = field(default_factory=dict)
    held: int = 0
    alive: bool = True

    def start(self, container: Container) -> None:
        if (
            container.id in self.running
            or container.id in self.waiting
            or container.id in self.unacknowledged
        ):
            return
        used = Resource()
        for other in self.running.values():
            used = used + other.resource
        if (used + container.resource).fits_in(self.node.total) or container.execution_type is GUARANTEED:
            self.running[container.id] = container
        elif len(self.waiting) < self.node.queue_capacity:
            self.waiting[container.id] = container
        else:
            self.unacknowledged[container.id] = done(container, -108)

    def end(self, container_id: str, exit_status: int) -> None:
        container = self.running.pop(container_id, None) or self.waiting.pop(container_id, None)
        if container is not None:
            self.unacknowledged[container_id] = done(container, exit_status)
        for waiting_id in list(self.waiting):
            candidate = self.waiting.pop(waiting_id)
            self.start(candidate)

    def tell(self) -> None:
        """Bring the harness's node up to what is true here."""
        self.node.statuses = {
            **{container_id: status(container) for container_id, container in self.running.items()},
            **{container_id: queued(container) for container_id, container in self.waiting.items()},
        }
        known = [*self.running, *self.waiting]
        self.node.running_applications = tuple(sorted({_application(container_id) for container_id in known}))

    def beat(self, wait_ms: int) -> None:
        self.take()
        self.tell()
        news = (*self.node.statuses.values(), *self.unacknowledged.values())
        self.held = self.node.send(*news, wait_ms=wait_ms)
        self.take()

    def take(self) -> None:
        """Do what an answer says, if there is one."""
        response = self.node.take(self.held) if self.held else None
        if response is None:
            return
        self.held = 0
        if response.action == "RESYNC":
            self.come_again()
            return
        for container_id in response.completed_acknowledged:
            self.unacknowledged.pop(container_id, None)
        for start in response.containers_to_start:
            self.start(start.container)
        for container_id in response.containers_to_cleanup:
            self.end(container_id, -106)
        for application_id in response.applications_to_cleanup:
            for container_id in [*self.running, *self.waiting]:
                if _application(container_id) == application_id:
                    self.end(container_id, -107)

    def come_again(self) -> None:
        self.tell()
        self.node.statuses.update(self.unacknowledged)
        response = self.node.register()
        assert response.action == "NORMAL"
        self.held = 0
        for container_id in response.containers_to_cleanup:
            self.end(container_id, -106)


@dataclass
class LivingMaster:
    """A master that counts: ``wanted`` by key is what it still lacks, ``done`` what has succeeded."""

    master: Master
    wanted: dict[tuple[bool, Resource, int], int] = field(default_factory=dict)
    keys: dict[str, tuple[bool, Resource, int]] = field(default_factory=dict)
    unstarted: dict[str, Container] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    changed: set[tuple[bool, Resource, int]] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    held: int = 0
    asked: int = 0
    succeeded: int = 0
    over: bool = False

    def want(self, opportunistic: bool, size: Resource, number: int, key_id: int) -> None:
        key = (opportunistic, size, key_id)
        self.wanted[key] = self.wanted.get(key, 0) + number
        self.asked += number
        self.changed.add(key)

    def call(self, wait_ms: int, **more: object) -> None:
        self.take()
        requests = [
            asks(
                self.wanted[key],
                key[1],
                OPPORTUNISTIC if key[0] else GUARANTEED,
                allocation_request_id=key[2],
            )
            for key in sorted(self.changed, key=str)
        ]
        self.changed.clear()
        self.held = self.master.send(*requests, wait_ms=wait_ms, **more)
        self.take()

    def take(self) -> None:
        response = self.master.take(self.held) if self.held else None
        if response is not None:
            self.held = 0
            self.read(response)

    def read(self, response: AllocateResponse) -> None:
        if response.command == "AM_SHUTDOWN":
            self.over = True
        for container in response.allocated:
            if container.id in self.keys:
                continue
            key = (
                container.execution_type is OPPORTUNISTIC,
                container.resource,
                container.allocation_request_id,
            )
            self.wanted[key] -= 1
            assert self.wanted[key] >= 0, f"{container.id} was not asked for"
            self.keys[container.id] = key
            self.unstarted[container.id] = self.containers[container.id] = container
        for update in response.updated:
            self.containers[update.container.id] = update.container
        for ended in response.completed:
            if ended.container_id in self.ended:
                continue
            self.ended.add(ended.container_id)
            self.unstarted.pop(ended.container_id, None)
            key = self.keys[ended.container_id]
            if ended.exit_status in PREEMPTION_STATUSES:
                self.wanted[key] += 1
                self.changed.add(key)
            else:
                self.succeeded += 1


def _application(container_id: str) -> str:
    _, timestamp, application, _, _ = container_id.split("_")
    return f"application_{timestamp}_{application}"


class Life(RuleBasedStateMachine):
    """A cluster with up to four nodes and five applications."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(
            nm_expiry_interval_ms=int(EXPIRY_S * 1000),
            am_expiry_interval_ms=10_000_000,
            allocation_expiry_interval_ms=20_000,
            client_am_grace_ms=5_000_000,
            sorting_nodes_interval_ms=100,
            nodes_used=2,
            resource_types=GPU,
        )
        self.nodes: list[LivingNode] = []
        self.masters: list[LivingMaster] = []
        self.managed: list[str] = []

    def node(self, number: int) -> LivingNode:
        return self.nodes[number % len(self.nodes)]

    def master(self, number: int) -> LivingMaster:
        return self.masters[number % len(self.masters)]

    # -- beginnings ------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.nodes) < 4)
    @rule(memory=st.sampled_from((300, 1000)), vcores=st.integers(2, 4), queue=st.integers(0, 4))
    def a_node_comes(self, memory: int, vcores: int, queue: int) -> None:
        name = f"h{len(self.nodes) + 1}:1"
        node = self.cluster.node(name, Resource(memory, vcores, counted({GPU: 2})), queue_capacity=queue)
        self.nodes.append(LivingNode(node))

    @precondition(lambda self: len(self.masters) < 4)
    @rule(priority=st.integers(0, 1))
    def an_application_comes(self, priority: int) -> None:
        self.masters.append(LivingMaster(self.cluster.master(priority=priority)))

    @precondition(lambda self: len(self.managed) < 2)
    @rule()
    def a_managed_application_comes(self) -> None:
        self.managed.append(self.cluster.submit(am_resource=Resource(100, 0), max_attempts=2))

    # -- work ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.masters)
    @rule(
        who=st.integers(0, 3),
        opportunistic=st.booleans(),
        size=st.sampled_from(SIZES),
        number=st.integers(1, 6),
        key_id=st.integers(0, 2),
        wait_ms=st.sampled_from((0, 500, 60_000)),
    )
    def a_master_asks(
        self, who: int, opportunistic: bool, size: Resource, number: int, key_id: int, wait_ms: int
    ) -> None:
        master = self.master(who)
        if not master.over:
            master.want(opportunistic, size, number, key_id)
            master.call(wait_ms)

    @precondition(lambda self: self.masters)
    @rule(who=st.integers(0, 3), number=st.integers(1, 5))
    def a_master_starts_containers(self, who: int, number: int) -> None:
        master = self.master(who)
        master.take()
        for container_id in list(master.unstarted)[:number]:
            self._deliver(master.unstarted.pop(container_id))

    def _deliver(self, container: Container) -> None:
        for living in self.nodes:
            if living.node.name == container.node_id and living.alive:
                living.start(container)

    @precondition(lambda self: self.nodes)
    @rule(who=st.integers(0, 3), wait_ms=st.sampled_from((0, 1000)))
    def a_node_beats(self, who: int, wait_ms: int) -> None:
        if self.node(who).alive:
            self.node(who).beat(wait_ms)

    @precondition(lambda self: self.nodes)
    @rule(who=st.integers(0, 3), which=st.integers(0, 9), exit_status=st.sampled_from((0, 1, -108)))
    def a_container_ends(self, who: int, which: int, exit_status: int) -> None:
        living = self.node(who)
        if living.alive and living.running:
            living.end(list(living.running)[which % len(living.running)], exit_status)

    @precondition(lambda self: self.masters)
    @rule(who=st.integers(0, 3), which=st.integers(0, 9))
    def a_master_promotes(self, who: int, which: int) -> None:
        master = self.master(who)
        live = [one for one in master.containers.values() if one.id not in master.ended]
        if live and not master.over:
            one = live[which % len(live)]
            wish = UpdateContainerRequest(one.id, one.version, ContainerUpdateType.PROMOTE_EXECUTION_TYPE)
            master.call(0, updates=(wish,))

    # -- misfortune ------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((0.01, 0.5, 3.0, 21.0, 40.0)))
    def time_passes(self, seconds: float) -> None:
        self.cluster.at(self.cluster.now + seconds)

    @precondition(lambda self: self.masters)
    @rule(who=st.integers(0, 3), with_answer=st.booleans())
    def a_client_loses_its_connection(self, who: int, with_answer: bool) -> None:
        """And with it perhaps an answer that was on its way."""
        master = self.master(who)
        if not with_answer:
            master.take()
        elif master.held:
            self.cluster.take(master.held)
        master.held = 0
        self.cluster.lose(master.master.connection)
        master.master.connection = self.cluster.connection()

    @precondition(lambda self: self.nodes)
    @rule(who=st.integers(0, 3))
    def a_node_loses_its_connection(self, who: int) -> None:
        living = self.node(who)
        if living.alive:
            living.take()
            self.cluster.lose(living.node.connection)
            living.held = 0
            living.come_again()

    @precondition(lambda self: self.nodes)
    @rule(who=st.integers(0, 3), containers_survive=st.booleans())
    def a_node_dies(self, who: int, containers_survive: bool) -> None:
        living = self.node(who)
        if living.alive:
            living.alive = False
            self.cluster.lose(living.node.connection)
            living.held = 0
            if not containers_survive:
                living.running.clear()
                living.waiting.clear()
                living.unacknowledged.clear()

    @precondition(lambda self: self.nodes)
    @rule(who=st.integers(0, 3))
    def a_dead_node_comes_again(self, who: int) -> None:
        living = self.node(who)
        if not living.alive:
            living.alive = True
            living.come_again()

    @precondition(lambda self: self.masters)
    @rule(who=st.integers(0, 3))
    def an_application_is_killed(self, who: int) -> None:
        master = self.master(who)
        self.cluster.ask(KillApplicationRequest(master.master.app_id))
        master.over = True

    # -- always, and at the end ------------------------------------------------------------------------------

    @invariant()
    def guaranteed_containers_are_never_promised_twice(self) -> None:
        info = self.cluster.ask(GetClusterInfoRequest())
        assert info.used.fits_in(info.total)

    def teardown(self) -> None:
        if not self.nodes:
            self.a_node_comes(1000, 4, 4)
        for living in self.nodes:
            if not living.alive:
                living.alive = True
                living.come_again()
        self._run_to_the_end()
        for master in self.masters:
            if not master.over:
                assert master.succeeded == master.asked, f"{master.succeeded} of {master.asked} were served"
                master.master.finish()
        for app_id in self.managed:
            self.cluster.ask(KillApplicationRequest(app_id))
        self._run_to_the_end()
        assert self.cluster.containers() == {}
        info = self.cluster.ask(GetClusterInfoRequest())
        assert info.used == Resource()
        assert (info.containers_running, info.containers_queued, info.containers_paused) == (0, 0, 0)

    def _run_to_the_end(self) -> None:
        """Let everything that runs succeed, again and again, until nobody wants anything."""
        for _ in range(400):
            self.cluster.at(self.cluster.now + 0.2)
            for master in self.masters:
                if not master.over:
                    master.call(0)
                    for container_id in list(master.unstarted):
                        self._deliver(master.unstarted.pop(container_id))
            for living in self.nodes:
                living.beat(0)
                for container_id in list(living.running):
                    living.end(container_id, 0)
                living.beat(0)
            busy = any(living.running or living.waiting or living.unacknowledged for living in self.nodes)
            wanting = any(
                any(master.wanted.values()) or len(master.ended) < len(master.keys)
                for master in self.masters
                if not master.over
            )
            if not busy and not wanting and not self._masters_of_managed_run():
                return
            if wanting and not busy:
                # What was granted and lost on its way is taken back after its time.
                self.cluster.at(self.cluster.now + 1.0)
        raise AssertionError("it does not come to an end")

    def _masters_of_managed_run(self) -> bool:
        return any(not self.cluster.app(app_id).finished_at_ms for app_id in self.managed)


Life.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLife = Life.TestCase
