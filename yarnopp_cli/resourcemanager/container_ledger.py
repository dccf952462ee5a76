"""Changes of containers: grants, adoptions, nodes' reports, updates and ends (YARN's ``RMContainerImpl``).

``ContainerLedger`` is the only place that moves counts and resources between applications, nodes, queues and the
history. It decides nothing.
"""

from __future__ import annotations

from executor.causes import ENDED_WELL, Cause, CauseKind, of_kind
from executor.light import replace
from executor.records import (
    PREEMPTION_STATUSES,
    ContainerExitStatus,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    Resource,
)

from ..allocation.asks import Ask
from ..allocation.cluster_node import Claim
from ..errors import InvalidStateError
from ..machine.tokens import container_token, machine_ms
from ..records.container_protocol import FailedContainer, UpdateContainersResponse
from ..records.ids import ContainerId
from ..records.tracker_protocol import ContainerToUpdate
from .context import RMContext
from .due import Due, DueKind
from .entities import RMApp, RMAppAttempt, RMContainer, RMNode
from .lives import CONTAINERS, AttemptEvent, AttemptState, ContainerEvent, Phase
from .metrics import PerSecond

_TOLD = {
    ContainerState.SCHEDULED: ContainerEvent.QUEUED,
    ContainerState.LAUNCHING: ContainerEvent.QUEUED,
    ContainerState.RUNNING: ContainerEvent.RUNS,
    ContainerState.PAUSING: ContainerEvent.RUNS,
    ContainerState.KILLING: ContainerEvent.RUNS,
    ContainerState.PAUSED: ContainerEvent.PAUSED,
    ContainerState.RESUMING: ContainerEvent.PAUSED,
}
STORED_SECONDS = 1.0
"""The longest time, in seconds, of ended containers' resource usage that is lost if the ResourceManager dies."""
_NOT_SEEN_RUNNING = (Phase.ALLOCATED, Phase.QUEUED)
_ON_REQUEST = frozenset(
    {
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
NUMBERS_AHEAD = 1000
"""The number of container ids that are reserved at once for a master outside the RM, so that few records are
written."""
ENDING_PATIENCE = 60.0
"""Seconds after which a container counts as ended although its node has not reported the end."""


class ContainerLedger:
    """Changes the books of all containers. ``assigned`` counts the containers of the last second."""

    def __init__(self, context: RMContext) -> None:
        self._rm = context
        self.assigned = PerSecond()
        self._sequence = 0

    def grant(
        self,
        attempt: RMAppAttempt,
        ask: Ask,
        node: RMNode,
        execution_type: ExecutionType,
        claim: Claim | None = None,
    ) -> RMContainer:
        """Allocate one container of ``ask`` on ``node``."""
        attempt.last_container += 1
        if attempt.last_container > attempt.numbers_taken and not attempt.app.hosted:
            attempt.numbers_taken = attempt.last_container + NUMBERS_AHEAD
            self._rm.changes.lives[attempt.app.id] = attempt.app
        submitted_at_ms, is_am = attempt.app.submitted_at_ms, ask is attempt.am_ask
        container = RMContainer(
            str(ContainerId(attempt.record, attempt.last_container)),
            attempt,
            node,
            ask.resource,
            execution_type,
            ask.key,
            asked_type=ask.execution_type,
            counted=ask.execution_type is ExecutionType.OPPORTUNISTIC,
            is_am=is_am,
            strict=not ask.relax,
            waiting_since_ms=max(ask.waiting_since_ms, submitted_at_ms) if ask.is_aged else 0,
            eligible_at_ms=max(ask.waiting_since_ms if ask.is_aged else ask.asked_ms, submitted_at_ms),
        )
        return self.enter(container, claim, "for its application's master" if is_am else "")

    def enter(
        self, container: RMContainer, claim: Claim | None, why: str, *, counted: bool = False
    ) -> RMContainer:
        """Enter a new container into all books.

        It expires unless its node reports it in time; its token is valid until then. ``counted``: the stored totals of
        its application include it.
        """
        app, node = container.app, container.node
        self._sequence += 1
        container.sequence, container.allocated_at_ms = self._sequence, self._rm.now_ms
        self._sign(container)
        self.assigned.count(self._rm.now)
        self._rm.live_containers[container.id] = container
        container.attempt.containers[container.id] = container
        app.nodes.add(node.node_id)
        app.counts[Phase.ALLOCATED] += 1
        self._charge(container, 1)
        if not container.is_guaranteed and claim is not None:
            node.load.claim(container.id, claim, container.resource)
        self._rm.monitor.refresh(node.load)
        if not container.is_am and not counted:
            app.guaranteed_allocated_total += container.is_guaranteed
            app.opportunistic_allocated_total += not container.is_guaranteed
        self._rm.history.allocated(
            container.subject,
            container.execution_type,
            container.resource,
            why,
            submitted_at_ms=app.submitted_at_ms,
            eligible_at_ms=container.eligible_at_ms,
        )
        expiry = self._rm.now + self._rm.allocation_expiry
        self._rm.deadlines.set(Due(DueKind.UNCLAIMED, container.id), expiry)
        return container

    def _sign(self, container: RMContainer) -> None:
        """Give a container a new token for its present state.

        Containers of a hosted master need no token: the RM itself starts and changes them."""
        if container.app.hosted:
            return
        container.token = container_token(
            self._rm.container_key,
            container.container(),
            attempt_id=container.attempt.id,
            application_id=container.app.id,
            user=container.app.user,
            expires_ms=machine_ms(self._rm.now + self._rm.allocation_expiry),
            waiting_since_ms=container.waiting_since_ms,
            application_priority=container.app.context.priority,
        )

    def observe(self, container: RMContainer, status: ContainerStatus) -> None:
        """A node has reported a container that has not ended."""
        if container.status is None:
            self._claimed(container)
            if container.delivers and status.version < container.version:
                # The container was started with a token from before the update.
                self.deliver_update(container)
        self._rm.history.observed(container.subject, container.status, status)
        container.status = status
        if container.update_calls:
            self._answer_updates(container, status)
        self._move(container, _TOLD[status.state])
        attempt = container.attempt
        if container.is_am:
            if container.phase is Phase.RUNNING and attempt.state is AttemptState.ALLOCATED:
                self._rm.move(attempt, AttemptEvent.LAUNCHED)
            return
        if status.state is ContainerState.SCHEDULED:
            if not container.started_told:
                attempt.queued.put_new(container.id, container.id)
                self._rm.news_for_master(attempt)
        elif status.state is not ContainerState.LAUNCHING and not container.started_told:
            container.started_told = True
            attempt.started.put(container.id, container.id)
            self._rm.news_for_master(attempt)

    def complete(self, container: RMContainer, status: ContainerStatus) -> None:
        """A container has ended: release its resources and notify its master."""
        app, attempt = container.app, container.attempt
        status = _with_our_cause(container, status)
        if container.status is None:
            self._claimed(container)
        self._rm.deadlines.clear(Due(DueKind.UNENDED, container.id))
        if container.phase in _NOT_SEEN_RUNNING:
            app.count_earlier(container.resource, status, self._rm.now_ms)
        if self._rm.now - app.stored_at >= STORED_SECONDS:
            self._rm.changes.lives[app.id] = app  # The usage of ended containers is reported only once.
        self._rm.history.ended(container.subject, container.status, status)
        container.status = status
        container.finished_at_ms = self._rm.now_ms
        if (tasks := self._rm.task_books.get(app.id)) is not None:
            tasks.ended(container)
            self._rm.changes.books[app.id] = tasks
        if container.update_calls:
            self._answer_updates(container, status)
        self._move(container, _ended_as(container, status))
        if container.phase is Phase.PREEMPTED:
            ran = status.finished_at_ms - status.started_at_ms if status.started_at_ms > 0 else 0
            app.count_preempted(container, ran / 1000)
            app.containers_shed += status.was_shed
        if container.counted:
            self._rm.metrics.ended()
        del self._rm.live_containers[container.id], attempt.containers[container.id]
        self._give_back(container)
        container.node.forget_start(container.id)
        self._rm.monitor.refresh(container.node.load)
        attempt.updates.pop(container.id, None)
        self._rm.changes.guaranteed = True
        finished = self._rm.finished_containers
        finished[container.id] = container
        while len(finished) > self._rm.settings.max_retained_containers:
            finished.popitem(last=False)
        if container.is_am:
            self._rm.changes.masters_ended.append(container)
        elif not attempt.ended:
            attempt.completed.put(container.id, status)
            self._rm.news_for_master(attempt)
        else:
            self.ended_untold(app, status)

    def ended_untold(self, app: RMApp, status: ContainerStatus) -> None:
        """A container has ended after its master, which received no report of the end.

        A later attempt that has registered is notified. If the exit code was 0, every later attempt is notified when
        it registers, also after a restart of the RM.
        """
        if app.ended:
            return
        if status.exit_code == 0 and status.container_id not in app.ended_well:
            app.ended_well += (status.container_id,)
            self._rm.changes.lives[app.id] = app
        if app.attempt.state is AttemptState.RUNNING:
            app.attempt.completed.put(status.container_id, status)
            self._rm.news_for_master(app.attempt)

    def abort(
        self,
        container: RMContainer,
        cause: Cause,
        diagnostics: str,
        exit_status: ContainerExitStatus = ContainerExitStatus.ABORTED,
    ) -> None:
        """The RM itself declares a container ended; ``diagnostics`` explains the cause to users."""
        known = container.status or ContainerStatus(
            container.id,
            ContainerState.DONE,
            container.execution_type,
            container.resource,
            application_id=container.app.id,
            user=container.app.user,
            version=container.version,
        )
        status = replace(
            known,
            state=ContainerState.DONE,
            position=0,
            exit_status=int(exit_status),
            diagnostics=diagnostics,
            cause=cause,
            finished_at_ms=self._rm.now_ms,
        )
        self.complete(container, status)

    def end_at_node(
        self,
        container: RMContainer,
        cause: Cause,
        diagnostics: str,
        ended_as: ContainerExitStatus | None = None,
    ) -> None:
        """Let the node end a container; a container that the node never reported ends at once.

        ``ended_as`` is its exit status; its master receives ``cause``. The resources are free when the node reports
        the end, or at the latest after ENDING_PATIENCE seconds.
        """
        container.ended_for, container.ended_as = cause, ended_as
        container.node.to_cleanup.put_new(container.id, container.id)
        self._rm.news_for_node(container.node)
        if container.status is None:
            self.abort(container, cause, diagnostics)
        else:
            self._rm.deadlines.set(Due(DueKind.UNENDED, container.id), self._rm.now + ENDING_PATIENCE)

    def unclaimed(self, container_id: str) -> None:
        """An allocated container was not started at its node in time."""
        container = self._rm.live_containers.get(container_id)
        if container is not None and container.status is None:
            self.end_at_node(container, Cause(CauseKind.EXPIRED), EXPIRED)

    def unended(self, container_id: str) -> None:
        """The node of a container that was to end has not reported the end in time."""
        if (container := self._rm.live_containers.get(container_id)) is not None:
            cause = container.ended_for or Cause(CauseKind.RESOURCEMANAGER)
            self.abort(container, cause, "Its node did not report its end")

    def retype(self, container: RMContainer, execution_type: ExecutionType, resource: Resource) -> None:
        """Give a container another type or size; its version increases by one."""
        was = container.execution_type
        self._rm.history.changed(container.subject, was, execution_type, resource)
        if execution_type is ExecutionType.GUARANTEED and was is not execution_type:
            container.promoted_at_ms = self._rm.now_ms
            container.app.promoted_total += 1
        self._give_back(container)
        container.execution_type, container.resource = execution_type, resource
        container.version += 1
        self._sign(container)
        self._charge(container, 1)
        self._rm.monitor.refresh(container.node.load)
        self._rm.changes.guaranteed = True

    def deliver_update(self, container: RMContainer) -> None:
        """Send the update to the node directly, instead of through its master."""
        container.delivers = True
        container.node.to_update.put(
            container.id,
            ContainerToUpdate(
                container.id,
                container.version,
                container.execution_type,
                container.resource,
                container.token,
            ),
        )
        self._rm.news_for_node(container.node)

    def _answer_updates(self, container: RMContainer, status: ContainerStatus) -> None:
        """Answer the hosted master's update calls that the node has decided: updated or refused. An update that came
        too late is neither."""
        refusal = status.refusal
        refused = refusal.version if of_kind(refusal, CauseKind.UPDATE_REFUSED) else -1
        waiting = []
        for version, call_id in container.update_calls:
            if status.version >= version:
                answer = UpdateContainersResponse((container.id,))
            elif version <= refused:
                because = "its node has no room for it"
                failed = FailedContainer(container.id, InvalidStateError.exception, because)
                answer = UpdateContainersResponse((), (failed,))
            elif status.state is ContainerState.DONE:
                answer = UpdateContainersResponse(())
            else:
                waiting.append((version, call_id))
                continue
            self._rm.reply(call_id, answer)
        container.update_calls = tuple(waiting)

    def _claimed(self, container: RMContainer) -> None:
        """The node has reported the container, or it has ended without being started: its expiry is cleared, and
        reports count it."""
        self._rm.deadlines.clear(Due(DueKind.UNCLAIMED, container.id))
        container.node.load.release_claim(container.id)
        container.node.forget_start(container.id)

    def _move(self, container: RMContainer, event: ContainerEvent) -> None:
        """Let a container take the transition of ``event``. A state that its node reports again is no transition."""
        was = container.phase
        if CONTAINERS.rows[was].get(event) is was:
            return
        self._rm.move(container, event)
        if Phase.PAUSED in (was, container.phase) and not container.attempt.ended:
            self._rm.news_for_master(container.attempt)  # The master counts its paused containers.

    def _give_back(self, container: RMContainer) -> None:
        self._charge(container, -1)
        container.node.load.release_claim(container.id)

    def _charge(self, container: RMContainer, sign: int) -> None:
        """Charge a container's resource to its node, queue and application (1), or give it back (-1)."""
        app, resource = container.app, container.resource
        container.node.change(container, sign)
        if container.phase is Phase.RUNNING:
            app.change_running(container, self._rm.now, sign)
        if container.is_guaranteed:
            app.guaranteed = app.guaranteed + resource * sign
            self._rm.scheduler.change_used(app, resource, sign, master=container.is_am)
        else:
            app.opportunistic_live += sign
            self._rm.shares.change(app, resource, sign)


def _with_our_cause(container: RMContainer, status: ContainerStatus) -> ContainerStatus:
    """The node's status of a container that the RM or its master has ended, with that cause."""
    aborted, cause = int(ContainerExitStatus.ABORTED), container.ended_for
    if container.released:
        cause = Cause(CauseKind.RELEASED)
        return replace(status, exit_status=aborted, diagnostics=RELEASED, cause=cause)
    if cause is None or status.exit_status not in _ENDED_BY_US:
        return status
    if container.ended_as is None:
        return replace(status, cause=cause)
    if status.exit_code == 0 and container.ended_as in PREEMPTION_STATUSES:
        return replace(status, exit_status=0, diagnostics=f"{cause.text}. {ENDED_WELL}", cause=None)
    return replace(status, exit_status=int(container.ended_as), diagnostics=cause.text, cause=cause)


def _ended_as(container: RMContainer, status: ContainerStatus) -> ContainerEvent:
    if container.released or status.exit_status in _ON_REQUEST:
        return ContainerEvent.KILLED
    if status.exit_status == ContainerExitStatus.SUCCESS:
        return ContainerEvent.FINISHED
    if status.exit_status == ContainerExitStatus.ABORTED or of_kind(status.cause, CauseKind.NODE_FAULT):
        return ContainerEvent.LOST
    return ContainerEvent.PREEMPTED if status.exit_status in PREEMPTION_STATUSES else ContainerEvent.FAILED
