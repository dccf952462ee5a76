"""Properties of allocation in bursts and of rebalancing over time, on random clusters."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from executor.records import OpportunisticContainersStatus, Resource
from yarnopp_cli.allocation.cluster_node import Claim, ClusterNode
from yarnopp_cli.allocation.load_comparators import FreeThenQueueLength
from yarnopp_cli.allocation.load_monitor import NodeQueueLoadMonitor
from yarnopp_cli.settings.declarations import ResourceManagerSettings

SIZES = [Resource(64, 1), Resource(256, 1), Resource(128, 2)]


def a_monitor(
    nodes_used: int, sigma: float = 1.0, minimum: int = 5, maximum: int = 15
) -> NodeQueueLoadMonitor:
    return NodeQueueLoadMonitor(
        ResourceManagerSettings(
            nodes_used=nodes_used,
            queue_limit_stdev=sigma,
            min_queue_length=minimum,
            max_queue_length=maximum,
        )
    )


a_load = st.tuples(st.integers(1, 8), st.integers(0, 8), st.integers(0, 12), st.integers(0, 12))


@settings(max_examples=150, deadline=None)
@given(
    loads=st.lists(a_load, min_size=1, max_size=12),
    nodes_used=st.integers(1, 12),
    burst=st.lists(st.sampled_from(SIZES), min_size=1, max_size=60),
    sort_first=st.booleans(),
)
def test_a_burst_between_two_sortings_leaves_no_idle_node_out_and_piles_up_nowhere(
    loads: list[tuple[int, int, int, int]], nodes_used: int, burst: list[Resource], sort_first: bool
) -> None:
    monitor, policy = a_monitor(nodes_used), FreeThenQueueLength()
    nodes: list[ClusterNode] = []
    for number, (vcores, used, queued, capacity) in enumerate(loads):
        node = ClusterNode(f"h{number}:1", f"h{number}", "/r", (), Resource(128 * vcores, vcores))
        node.guaranteed = Resource(128 * min(used, vcores), min(used, vcores))
        node.status = OpportunisticContainersStatus(
            queued=min(queued, capacity), wait_queue_length=min(queued, capacity), queue_capacity=capacity
        )
        node.recompute()
        monitor.update(node)
        nodes.append(node)
        if sort_first and number % 5 == 4:
            monitor.compute()  # the later ones are not in this sorting
    for number, size in enumerate(burst):
        fits = {node.node_id: policy.fit(node, size) for node in nodes}
        found = monitor.select(size)
        if found is None:
            assert not any(isinstance(one, Claim) for one in fits.values()), "somebody has room"
            continue
        node, claim = found
        assert claim is fits[node.node_id]
        if claim is Claim.QUEUE:
            assert Claim.FREE not in fits.values(), "an idle node was left out"
            if nodes_used >= len(nodes):
                others = [one.queue_length for one in nodes if fits[one.node_id] is Claim.QUEUE]
                assert node.queue_length == min(others), "another queue is shorter"
        node.claim(f"c{number}", claim, size)
        monitor.refresh(node)
        assert node.queue_room >= 0


@dataclass(eq=False)
class Work:
    """One container's work: when it began to wait, how long it runs, how often it was shed."""

    since: int
    seconds: int
    shed: int = 0


@dataclass
class SimulatedNode:
    """A node that runs ``load.total.vcores`` at a time; its queue is ordered by age. It sheds as the real one
    does: the newest that were not moved before, then the newest of the others."""

    load: ClusterNode
    capacity: int
    running: list[list[int]] = field(default_factory=list)
    queue: list[Work] = field(default_factory=list)

    def arrive(self, work: Work) -> None:
        self.queue.append(work)
        self.queue.sort(key=lambda one: one.since)
        self.start()

    def start(self) -> None:
        while self.queue and len(self.running) < self.load.total.vcores:
            self.running.append([self.queue.pop(0).seconds])

    def second(self) -> None:
        for one in self.running:
            one[0] -= 1
        self.running = [one for one in self.running if one[0] > 0]
        self.start()

    def report(self) -> None:
        for container_id in list(self.load.claims):
            self.load.release_claim(container_id)
        queued = len(self.queue)
        self.load.status = OpportunisticContainersStatus(
            running=len(self.running),
            memory_used=64 * len(self.running),
            vcores_used=len(self.running),
            queued=queued,
            wait_queue_length=queued,
            queue_capacity=self.capacity,
            queued_memory=64 * queued,
            queued_vcores=queued,
        )
        self.load.recompute()


class Simulation:
    """A cluster in steps of one second: news, sorting, limits, and what was shed is placed anew after
    ``delay`` seconds."""

    def __init__(self, rng: random.Random, vcores: list[int], delay: int, sigma: float, minimum: int) -> None:
        self.rng = rng
        self.monitor = a_monitor(10, sigma, minimum)
        self.delay = delay
        self.now = 0
        self.placed = 0
        self.sheds: list[Work] = []
        self.returning: list[tuple[int, Work]] = []
        self.nodes = {}
        for number, count in enumerate(vcores):
            load = ClusterNode(f"h{number}:1", f"h{number}", "/r", (), Resource(64 * count, count))
            self.nodes[load.node_id] = SimulatedNode(load, 40)

    def place(self, work: Work) -> SimulatedNode | None:
        found = self.monitor.select(Resource(64, 1))
        if found is None:
            return None
        load, claim = found
        self.placed += 1
        load.claim(f"c{self.placed}", claim, Resource(64, 1))
        self.monitor.refresh(load)
        node = self.nodes[load.node_id]
        node.arrive(work)
        return node

    def step(self) -> int:
        """One second; how many were shed in it."""
        self.now += 1
        due = [work for at, work in self.returning if at <= self.now]
        self.returning = [(at, work) for at, work in self.returning if at > self.now]
        for work in due:
            assert self.place(work) is not None, "what was shed found no room"
        for node in self.nodes.values():
            node.second()
            node.report()
            self.monitor.update(node.load)
        before = {name: len(node.queue) for name, node in self.nodes.items()}
        self.monitor.compute()
        count = 0
        for name, node in self.nodes.items():
            limit = self.monitor.tell_limit(name).max_queue_length
            if limit >= 0:
                excess = max(0, len(node.queue) - limit)
                newest = sorted(range(len(node.queue)), key=lambda at: (node.queue[at].shed > 0, -at))
                victims = [node.queue[at] for at in newest[:excess]]
                node.queue = [work for work in node.queue if work not in victims]
                count += len(victims)
                room = sum(
                    max(0, 15 - before[other]) + other_node.load.total.vcores
                    for other, other_node in self.nodes.items()
                    if other != name
                )
                assert len(victims) <= room
                for work in victims:
                    work.shed += 1
                    self.sheds.append(work)
                    self.returning.append((self.now + self.delay, work))
        return count


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vcores=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    delay=st.integers(0, 3),
    sigma=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    minimum=st.sampled_from([0, 2, 5]),
    pile=st.integers(0, 40),
    arrivals=st.integers(0, 4),
)
def test_rebalancing_is_stable_no_container_is_moved_to_and_fro(
    seed: int, vcores: list[int], delay: int, sigma: float, minimum: int, pile: int, arrivals: int
) -> None:
    """One node begins with a long queue, and work goes on arriving for a while: containers that are shed find
    room, and hardly any is shed more than once (of 16,000 sheds in 1,200 such runs one container was shed four
    times, with a minimum of 0)."""
    rng = random.Random(seed)
    simulation = Simulation(rng, vcores, delay, sigma, minimum)
    for number in range(pile):
        simulation.nodes["h0:1"].arrive(Work(number - pile, rng.randint(1, 8)))
    for node in simulation.nodes.values():
        node.report()
        simulation.monitor.update(node.load)
    for _ in range(60):
        for _ in range(rng.randint(0, arrivals) if simulation.now < 30 else 0):
            simulation.place(Work(simulation.now, rng.randint(1, 8)))
        simulation.step()
    times = Counter(id(work) for work in simulation.sheds)
    assert max(times.values(), default=0) <= (3 if minimum else 6), "to and fro"


def test_a_cluster_without_news_of_work_comes_to_rest() -> None:
    simulation = Simulation(random.Random(3), [2, 2, 2], delay=1, sigma=1.0, minimum=2)
    for number in range(38):
        simulation.nodes["h0:1"].arrive(Work(number - 100, 1_000))
    shed = []
    for _ in range(30):
        shed.append(simulation.step())
    assert sum(shed) >= 15
    assert shed[-15:] == [0] * 15, "at rest"
    lengths = [len(node.queue) for node in simulation.nodes.values()]
    assert max(lengths) - min(lengths) <= 6, lengths
