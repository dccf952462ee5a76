"""A NodeManager is killed before or after any of its messages, to the RM or to a master. Its processes go on,
some of them end meanwhile, and its next life recovers what it had stored: each task ends well once.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.world import Actor
from executor.core import commands as ec
from executor.core import events as ee
from executor.light import replace
from executor.records import ContainerRecord, ExecutionType, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.machine.calls import Reply, ReplyError
from yarnopp_cli.nodemanager import events as ne
from yarnopp_cli.records.jobs import TaskSpec

from .faulty_wire import BadCluster, BadNode, Faults
from .rm_harness import SETTINGS

pytestmark = pytest.mark.pure

MESSAGES = ne.CallUpstream | Reply | ReplyError
AWAY_SECONDS = 0.1
"""Processes that end within this time of its death end before its next life begins."""
LIMIT = 1500


class MortalNode(BadNode):
    """It dies at its message number ``dies_at``: before it, so it is never sent, or ``after`` it."""

    def __init__(self, *arguments: Any) -> None:
        self.records: dict[str, ContainerRecord] = {}
        self.codes: dict[str, int] = {}
        self.messages, self.dies_at, self.after, self.died = 0, -1, False, False
        super().__init__(*arguments)

    def _live(self, pid: int) -> Actor:
        life = super()._live(pid)

        def perform(command: Any) -> None:
            if self.actor is life:  # what an earlier life still wants is never done
                self._do(command)

        life._perform = perform
        return life

    def _do(self, command: Any) -> None:
        match command:
            case ec.StoreContainer(record):
                self.records[record.spec.container_id] = record
            case ec.ForgetContainer(container_id):
                self.records.pop(container_id, None)
        dies = isinstance(command, MESSAGES) and self.messages == self.dies_at
        self.messages += isinstance(command, MESSAGES)
        if not dies or self.after:
            self._perform(command)
        if dies:
            self._die()

    def _exit(self, container_id: str, end: float, code: int) -> None:
        if self._ends.get(container_id) == end:
            self.codes[container_id] = code
        super()._exit(container_id, end, code)

    def _die(self) -> None:
        self.died = True
        earlier, self.actor = self.actor, self._live(2000)
        for wire in list(self._bad.wires):
            if wire is self.wire or wire._target is earlier:
                wire.cut_off()
        self.wire = None
        for container_id, end in list(self._ends.items()):
            if end <= self._world.now + AWAY_SECONDS:
                del self._ends[container_id]
                self.codes[container_id] = 0
                self._bad.ended_well(self.tasks[container_id])
        for container_id, record in list(self.records.items()):
            stopped = container_id in self._left
            alive = stopped or container_id in self._ends
            code = None if alive else self.codes.get(container_id)
            self.actor.tell(ee.ContainerRecovered(record, alive, stopped=stopped, exit_code=code))
        self.actor.tell(ee.RecoveryCompleted())


def lived_through(dies_at: int, *, after: bool, hosted: bool, pausing: bool) -> bool:
    """Whether the node died at that message, after which all was well."""
    cluster = BadCluster(Faults(late=0.0), replace(SETTINGS, client_am_grace_ms=20_000), seed=1)
    settings = ExecutorSettings(max_queue_length=10, use_pause_for_preemption=pausing)
    for index in range(2):
        node = MortalNode(cluster, index, Resource(2048, 2), settings)
        cluster.nodes[node.address] = node
        node.dies_at, node.after = dies_at if index == 0 else -1, after
        node.actor.tell(ee.RecoveryCompleted())
    for number, memory, kind in ((10, 100, ExecutionType.OPPORTUNISTIC), (4, 800, ExecutionType.GUARANTEED)):
        cluster.submit_job(number, TaskSpec(1, Resource(memory, 1), kind), hosted=hosted)
    cluster.run(LIMIT)
    assert not cluster.problems(), f"message {dies_at}"
    assert all(end.exit_code == 0 for end in cluster.ends.values()), f"message {dies_at}"
    return any(isinstance(node, MortalNode) and node.died for node in cluster.nodes.values())


@pytest.mark.parametrize("pausing", [False, True], ids=["killing", "pausing"])
@pytest.mark.parametrize("hosted", [True, False], ids=["masters in the RM", "masters in clients"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_message_each_task_ends_well_once(after: bool, hosted: bool, pausing: bool) -> None:
    deaths = 0
    while lived_through(deaths, after=after, hosted=hosted, pausing=pausing):
        deaths += 1
    assert deaths >= 20
