"""Every container the RM has allocated: granted, spoken of by its node, ended (YARN's ``RMContainerImpl``).

``ContainerLedger`` is the only place where containers change state, and so the only one that moves counts and
resources between applications, nodes and the history. It decides nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from executor.causes import Cause, CauseKind
from executor.records import (
    PREEMPTION_STATUSES,
    ContainerExitStatus,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    Resource,
)

from ...allocation.asks import Ask, AskKey
from ...allocation.load_monitor import Claim
from ...machine.tokens import CONTAINER_TOKEN, container_token
from ...records.ids import ContainerId
from ...records.reports import ContainerReport
from ...records.requests import Container, Token
from ...records.tracker_protocol import ContainerToUpdate
from ..apps.applications import AttemptEvent, AttemptState, Phase
from ..metrics import PerSecond

if TYPE_CHECKING:
    from ..apps.applications import RMApp, RMAppAttempt
    from ..context import RMContext
    from ..nodes.nodes import RMNode


_PHASES = {
    ContainerState.SCHEDULED: Phase.QUEUED,
    ContainerState.LAUNCHING: Phase.QUEUED,
    ContainerState.RUNNING: Phase.RUNNING,
    ContainerState.PAUSING: Phase.RUNNING,
    ContainerState.KILLING: Phase.RUNNING,
    ContainerState.PAUSED: Phase.PAUSED,
    ContainerState.RESUMING: Phase.PAUSED,
}
_NOT_SEEN_RUNNING = (Phase.ALLOCATED, Phase.QUEUED)
_ON_REQUEST = frozenset(
    {
        ContainerExitStatus.SUCCESS,
        ContainerExitStatus.KILLED_BY_APPMASTER,
        ContainerExitStatus.KILLED_BY_RESOURCEMANAGER,
        ContainerExitStatus.KILLED_AFTER_APP_COMPLETION,
    }
)
_ENDED_BY_US = frozenset(
    {
        ContainerExitStatus.ABORTED,
        ContainerExitStatus.KILLED_BY_APPMASTER,
        ContainerExitStatus.KILLED_BY_RESOURCEMANAGER,
    }
)
RELEASED = "Container released by application"
EXPIRED = "Container expired since it was unused"
LOST = "Container released on a *lost* node"
ENDING_PATIENCE = 60.0
"""Seconds after which a container that its node was told to end is taken to have ended unreported."""


@dataclass(slots=True, eq=False)
class RMContainer:
    """One container. ``allocated_at`` in seconds, monotonic, ``sequence`` the order of allocation;
    ``status`` is what its node said last.

    ``ask_key`` is the ask it answered, ``asked_type`` that ask's type, ``counted`` whether the metrics of
    opportunistic containers know it. ``released`` ones are ended at their master's wish; ``preempted_for`` is why the
    RM has taken one from its application, ``preempted_as`` the exit status of that; ``ended_for`` is why it has told
    the node to end one. ``delivers``: the RM itself tells
    the node what it has become. ``waiting_since_ms``: when its work began to wait, as another container. ``strict``:
    the ask named the only places that will do. ``acquired``: its master has been given it. ``preemptions`` counts how
    often it had to make room, paused or killed. ``eligible_ms``: when it was asked for, or its work first was.
    """

    id: str
    app: RMApp
    attempt: RMAppAttempt
    node: RMNode
    resource: Resource
    execution_type: ExecutionType
    priority: int
    allocation_request_id: int
    token: Token
    ask_key: AskKey
    allocated_at: float
    sequence: int
    is_am: bool = False
    version: int = 0
    phase: Phase = Phase.ALLOCATED
    status: ContainerStatus | None = None
    asked_type: ExecutionType = ExecutionType.GUARANTEED
    counted: bool = False
    released: bool = False
    preempted_for: str = ""
    preempted_as: ContainerExitStatus = ContainerExitStatus.PREEMPTED
    ended_for: Cause | None = None
    delivers: bool = False
    started_told: bool = False
    finished_ms: int = 0
    waiting_since_ms: int = 0
    strict: bool = False
    acquired: bool = False
    promoted_ms: int = 0
    preemptions: int = 0
    eligible_ms: int = 0

    def container(self) -> Container:
        """As its master and its node know it."""
        registration = self.node.registration
        return Container(
            id=self.id,
            node_id=self.node.node_id,
            node_address=registration.address,
            resource=self.resource,
            token=self.token,
            priority=self.priority,
            execution_type=self.execution_type,
            allocation_request_id=self.allocation_request_id,
            version=self.version,
            node_http_address=registration.http_address,
        )

    def report(self, wall_offset: float) -> ContainerReport:
        """As people see it."""
        status = self.status
        report = ContainerReport(
            container_id=self.id,
            application_id=self.app.id,
            node_id=self.node.node_id,
            execution_type=self.execution_type,
            resource=self.resource,
            priority=self.priority,
            user=self.app.user,
            allocated_at_ms=int((self.allocated_at + wall_offset) * 1000),
            finished_at_ms=self.finished_ms,
            version=self.version,
            is_am=self.is_am,
            promoted_at_ms=self.promoted_ms,
            preemptions=self.preemptions,
            submitted_at_ms=self.app.submitted_ms,
            eligible_at_ms=self.eligible_ms,
        )
        if status is None:
            return report
        return replace(
            report,
            state=status.state,
            **status.facts()
            | {
                "user": report.user,
                "version": report.version,
                "finished_at_ms": status.finished_at_ms or self.finished_ms,
            },
        )


class ContainerLedger:
    """All live containers, and the last ended ones (bounded by ``yopp.resourcemanager.max-retained-
    containers``).
    """

    def __init__(self, context: RMContext) -> None:
        self._context = context
        self.live: dict[str, RMContainer] = {}
        self.finished: OrderedDict[str, RMContainer] = OrderedDict()
        self.assigned = PerSecond()
        self._sequence = 0

    def find(self, container_id: str) -> RMContainer | None:
        """A live one, or one of the last that ended."""
        return self.live.get(container_id) or self.finished.get(container_id)

    def grant(
        self,
        attempt: RMAppAttempt,
        ask: Ask,
        node: RMNode,
        execution_type: ExecutionType,
        now: float,
        claim: Claim | None = None,
    ) -> RMContainer:
        """Allocate one container of ``ask`` on ``node``; its token is good until it expires unclaimed."""
        attempt.last_container += 1
        self._sequence += 1
        container_id = str(ContainerId(attempt.record, attempt.last_container))
        container = RMContainer(
            id=container_id,
            app=attempt.app,
            attempt=attempt,
            node=node,
            resource=ask.resource,
            execution_type=execution_type,
            priority=ask.request.priority,
            allocation_request_id=ask.request.allocation_request_id,
            token=_NO_TOKEN,
            ask_key=ask.key,
            asked_type=ask.request.execution_type_request.execution_type,
            counted=ask.request.execution_type_request.execution_type is ExecutionType.OPPORTUNISTIC,
            allocated_at=now,
            sequence=self._sequence,
            is_am=ask is attempt.am_ask,
            strict=not ask.relax,
            waiting_since_ms=max(ask.waiting_since_ms, attempt.app.submitted_ms) if ask.is_aged else 0,
            eligible_ms=max(ask.waiting_since_ms if ask.is_aged else ask.asked_ms, attempt.app.submitted_ms),
        )
        container.token = self.token_for(container, now)
        self._take(container, claim, now, "for its application's master" if container.is_am else "")
        return container

    def adopt(
        self,
        container_id: str,
        attempt: RMAppAttempt,
        node: RMNode,
        resource: Resource,
        ask_key: AskKey,
        claim: Claim | None,
        now: float,
    ) -> RMContainer:
        """Take in an opportunistic container that a DistributedScheduler allocated on ``node``."""
        self._sequence += 1
        container = RMContainer(
            id=container_id,
            app=attempt.app,
            attempt=attempt,
            node=node,
            resource=resource,
            execution_type=ExecutionType.OPPORTUNISTIC,
            priority=ask_key[0],
            allocation_request_id=ask_key[1],
            token=_NO_TOKEN,
            ask_key=ask_key,
            counted=True,
            allocated_at=now,
            sequence=self._sequence,
            eligible_ms=self._context.ms(now),
        )
        container.token = self.token_for(container, now)
        self._context.metrics.adopted()
        self._take(container, claim, now, "by its node's DistributedScheduler")
        return container

    def _take(self, container: RMContainer, claim: Claim | None, now: float, why: str) -> None:
        """Enter a new container into every book. Its node has to speak of it before it expires."""
        context, app, node = self._context, container.app, container.node
        container_id, execution_type = container.id, container.execution_type
        self.assigned.count(now)
        self.live[container_id] = container
        container.attempt.containers[container_id] = container
        node.take(container)
        app.nodes.add(node.node_id)
        app.count(Phase.ALLOCATED, 1)
        if execution_type is ExecutionType.GUARANTEED:
            self._guaranteed(container, 1)
        else:
            self._opportunistic(container, 1)
            if claim is not None:
                node.load.claim(container_id, claim, container.resource)
        context.monitor.refresh(node.load)
        if not container.is_am:
            app.count_granted(execution_type)
        context.history.allocated(
            container_id,
            app.id,
            node.node_id,
            execution_type,
            container.resource,
            why,
            submitted_ms=app.submitted_ms,
            eligible_ms=container.eligible_ms,
        )
        context.deadlines.set(("unclaimed", container_id), now + context.allocation_expiry)

    def token_for(self, container: RMContainer, now: float) -> Token:
        """The signed facts of a container, as its node is to enforce them."""
        context = self._context
        return container_token(
            context.container_key,
            container_id=container.id,
            node_id=container.node.node_id,
            attempt_id=container.attempt.id,
            application_id=container.app.id,
            user=container.app.user,
            resource=container.resource,
            execution_type=container.execution_type,
            priority=container.priority,
            version=container.version,
            waiting_since_ms=container.waiting_since_ms,
            expires_ms=context.ms(now + context.allocation_expiry),
        )

    def observe(self, container: RMContainer, status: ContainerStatus, now: float) -> None:
        """Its node speaks of a container that has not ended."""
        if container.status is None:
            self._claimed(container)
            if container.delivers and status.version < container.version:
                self.deliver_update(container)  # it was started by a token older than the update
        self._context.history.observed(container.app.id, container.node.node_id, container.status, status)
        container.status = status
        self._move(container, _PHASES[status.state], now)
        attempt = container.attempt
        if container.is_am:
            if container.phase is Phase.RUNNING and attempt.state is AttemptState.ALLOCATED:
                attempt.move(AttemptEvent.LAUNCHED)
            return
        if status.state is ContainerState.SCHEDULED:
            if not container.started_told:
                attempt.queued.put_new(container.id, container.id)
                self._context.touch(attempt)
        elif status.state is not ContainerState.LAUNCHING and not container.started_told:
            container.started_told = True
            attempt.started.put(container.id, container.id)
            self._context.touch(attempt)

    def complete(self, container: RMContainer, status: ContainerStatus, now: float) -> None:
        """A container has ended: everything it had is given back, its master is told."""
        context, app, attempt, node = self._context, container.app, container.attempt, container.node
        if container.ended_for is not None and status.exit_status in _ENDED_BY_US:
            status = replace(status, cause=container.ended_for)
        if container.released:
            status = replace(
                status,
                exit_status=int(ContainerExitStatus.ABORTED),
                diagnostics=RELEASED,
                cause=Cause(CauseKind.RELEASED),
            )
        elif container.preempted_for and status.exit_status in _ENDED_BY_US:
            status = replace(
                status, exit_status=int(container.preempted_as), diagnostics=container.preempted_for
            )
        if container.status is None:
            self._claimed(container)
        context.deadlines.clear(("unended", container.id))
        if container.phase in _NOT_SEEN_RUNNING and status.started_at_ms > 0:
            # It began and ended between two heartbeats.
            seconds = (status.finished_at_ms - status.started_at_ms) / 1000
            app.add_seconds(container.resource, seconds)
        context.history.ended(app.id, node.node_id, container.status, status)
        container.status = status
        container.finished_ms = context.ms(now)
        if app.tasks is not None:
            app.tasks.ended(container, context.identity.wall_offset)
        self._move(container, _final_phase(container, status), now)
        if container.phase is Phase.PREEMPTED:
            ran = status.finished_at_ms - status.started_at_ms if status.started_at_ms > 0 else 0
            app.count_preempted(container, ran / 1000)
            app.shed += status.was_shed
        if container.execution_type is ExecutionType.GUARANTEED:
            self._guaranteed(container, -1)
        else:
            self._opportunistic(container, -1)
        if container.counted:
            context.metrics.ended()
        del self.live[container.id], attempt.containers[container.id]
        node.give_back(container)
        node.to_start.drop(container.id)
        context.monitor.refresh(node.load)
        attempt.updates.pop(container.id, None)
        context.scheduler.dirty = True
        self.finished[container.id] = container
        while len(self.finished) > context.settings.max_retained_containers:
            self.finished.popitem(last=False)
        if container.is_am:
            context.masters_ended.append(container)
        elif not attempt.ended:
            attempt.completed.put(container.id, status)
            context.touch(attempt)

    def abort(
        self,
        container: RMContainer,
        now: float,
        cause: Cause,
        diagnostics: str,
        exit_status: ContainerExitStatus = ContainerExitStatus.ABORTED,
    ) -> None:
        """The RM itself says that a container has ended; ``diagnostics`` tells people the cause."""
        known = container.status
        facts = ContainerStatus(
            container.id,
            ContainerState.DONE,
            container.execution_type,
            container.resource,
            application_id=container.app.id,
            user=container.app.user,
            version=container.version,
        )
        if known is not None:
            facts = replace(known, state=ContainerState.DONE, position=0)
        self.complete(
            container,
            replace(
                facts,
                exit_status=int(exit_status),
                diagnostics=diagnostics,
                cause=cause,
                finished_at_ms=self._context.ms(now),
            ),
            now,
        )

    def end_at_node(self, container: RMContainer, now: float, cause: Cause, diagnostics: str) -> None:
        """Have the node end a container; what it never spoke of has ended at once.

        The node's word is awaited, since until then its resources are not free; but not for ever.
        """
        context = self._context
        container.ended_for = cause
        container.node.to_cleanup.put_new(container.id, container.id)
        context.touch_node(container.node)
        if container.status is None:
            self.abort(container, now, cause, diagnostics)
        else:
            context.deadlines.set(("unended", container.id), now + ENDING_PATIENCE)

    def retype(
        self, container: RMContainer, execution_type: ExecutionType, resource: Resource, now: float
    ) -> None:
        """Give a container another type or size, one version up."""
        was = (container.execution_type, container.resource)
        self._context.history.changed(
            container.id, container.app.id, container.node.node_id, was, (execution_type, resource)
        )
        if execution_type is ExecutionType.GUARANTEED and was[0] is not execution_type:
            container.promoted_ms = self._context.history.now_ms
            container.app.promoted_total += 1
        if container.execution_type is ExecutionType.GUARANTEED:
            self._guaranteed(container, -1)
            container.node.change_used(container.resource, -1)
        else:
            self._opportunistic(container, -1)
            container.node.load.release_claim(container.id)
        running = container.phase is Phase.RUNNING
        if running:
            container.app.change_running(container, now, -1)
        container.execution_type = execution_type
        container.resource = resource
        container.version += 1
        container.token = self.token_for(container, now)
        if running:
            container.app.change_running(container, now, 1)
        if execution_type is ExecutionType.GUARANTEED:
            self._guaranteed(container, 1)
            container.node.change_used(resource, 1)
        else:
            self._opportunistic(container, 1)
        self._context.monitor.refresh(container.node.load)
        self._context.scheduler.dirty = True

    def deliver_update(self, container: RMContainer) -> None:
        """Tell its node what the container has become, instead of leaving that to its master."""
        container.delivers = True
        update = ContainerToUpdate(
            container.id,
            container.version,
            container.execution_type,
            container.resource,
            container.token,
        )
        container.node.to_update.put(container.id, update)
        self._context.touch_node(container.node)

    def _claimed(self, container: RMContainer) -> None:
        """The node knows of it (or it ended unclaimed): it does not expire, and reports count it now."""
        self._context.deadlines.clear(("unclaimed", container.id))
        container.node.load.release_claim(container.id)
        container.node.to_start.drop(container.id)

    def _move(self, container: RMContainer, phase: Phase, now: float) -> None:
        if phase is container.phase:
            return
        app = container.app
        if phase is Phase.PAUSED or phase is Phase.PREEMPTED:
            container.preemptions += 1
        if Phase.PAUSED in (phase, container.phase) and not container.attempt.ended:
            self._context.touch(container.attempt)  # its master counts them
        if container.phase is Phase.RUNNING:
            app.change_running(container, now, -1)
        if phase is Phase.RUNNING:
            app.change_running(container, now, 1)
        app.count(container.phase, -1)
        app.count(phase, 1)
        container.phase = phase

    def _guaranteed(self, container: RMContainer, sign: int) -> None:
        resource = container.resource
        app = container.app
        app.guaranteed = app.guaranteed + resource if sign > 0 else app.guaranteed - resource
        self._context.scheduler.change_used(app, resource, sign, master=container.is_am)

    def _opportunistic(self, container: RMContainer, sign: int) -> None:
        container.app.opportunistic_live += sign
        self._context.shares.change(container.app, container.resource, sign)


_NO_TOKEN = Token(CONTAINER_TOKEN, "{}", "")


def _final_phase(container: RMContainer, status: ContainerStatus) -> Phase:
    if container.released or status.exit_status in _ON_REQUEST:
        return Phase.DONE
    return Phase.PREEMPTED if status.exit_status in PREEMPTION_STATUSES else Phase.FAILED
