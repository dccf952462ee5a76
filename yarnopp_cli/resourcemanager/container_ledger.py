"""Changes of containers: granted, adopted, reported by their nodes, updated, ended (YARN's ``RMContainerImpl``).

``ContainerLedger`` is the only place that moves counts and resources between applications, nodes, queues and the
history. It decides nothing.
"""

from __future__ import annotations

from typing import Final

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

from ..allocation.asks import Ask, AskKey, key_for
from ..allocation.cluster_node import Claim
from ..errors import InvalidIdError, InvalidStateError, InvalidTokenError
from ..machine.tokens import CONTAINER_TOKEN, container_token, machine_ms, resource_of, verify
from ..records.container_protocol import FailedContainer, UpdateContainersResponse
from ..records.ids import ContainerId
from ..records.reports import GONE
from ..records.requests import Container
from ..records.tracker_protocol import ContainerToUpdate
from .context import Due, DueKind, Expected, RMContext
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
BY_DISTRIBUTED_SCHEDULER = "by its node's DistributedScheduler"
HEARTBEATS_WAITED_FOR = 2
"""After so many heartbeats, a node has reported what it was asked to start before."""
MASTERS_NUMBER = 1
"""An attempt's first container is its master's, where that has one."""
REMOTE_ID_START: Final = (1 << 40) - 1
"""The first number of a container allocated at a node; they go down, the RM's own go up from 1.

YARN's are negative, and its printed ids keep 40 bits of them: the same numbers.
"""
_REMOTE_FROM: Final = 1 << 39
LOST = "Container released on a *lost* node"
NUMBERS_AHEAD = 1000
"""The number of container ids that are reserved at once for a master elsewhere, so that they are rarely stored."""
ENDING_PATIENCE = 60.0
"""Seconds after which a container that its node must end counts as ended without a report."""


class ContainerLedger:
    """Writes to the books of all containers. ``assigned`` counts those of the last second."""

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
        return self._take(container, claim, "for its application's master" if is_am else "")

    # -- containers that nodes' DistributedSchedulers have allocated ("remotely allocated") ----------------------
    #
    # Two ways lead here. The scheduler reports what it has allocated; or the node where such a container arrived
    # speaks of it first, since a start does not wait for a report (nor for an RM that is down). Whichever comes second
    # finds it known.

    def adopt_reported(self, attempt: RMAppAttempt, reported: Container) -> None:
        """A DistributedScheduler says that it has allocated this for ``attempt``.

        Raises InvalidTokenError unless it holds a token of this cluster for that very attempt.
        """
        payload = verify(self._rm.container_key, reported.token, CONTAINER_TOKEN, now_ms=0)
        container_id = reported.id
        if (
            payload.get("container_id") != container_id
            or payload.get("attempt_id") != attempt.id
            or payload.get("execution_type") != ExecutionType.OPPORTUNISTIC.value
            or not _is_remote(container_id, attempt)
        ):
            raise InvalidTokenError(
                f"{container_id} was not allocated by a DistributedScheduler for {attempt.id}"
            )
        resource = resource_of(payload)
        ask_key = key_for(reported.priority, reported.allocation_request_id, resource)
        if (known := self._rm.find_container(container_id)) is not None:
            known.ask_key = ask_key
            return
        node_id = str(payload.get("node_id"))
        node = self._rm.nodes.get(node_id)
        if node is None and Due(DueKind.RECOVERY) in self._rm.deadlines:
            # It has not come in this life of the RM, and may have the container, or its end.
            self._rm.expected[container_id] = Expected(attempt, node_id, reported.priority, reported=reported)
            return
        if node is None or node.state in GONE:
            attempt.completed.put(
                container_id,
                ContainerStatus(
                    container_id,
                    ContainerState.DONE,
                    ExecutionType.OPPORTUNISTIC,
                    resource,
                    exit_status=int(ContainerExitStatus.ABORTED),
                    diagnostics=LOST,
                    cause=Cause(CauseKind.NODE_LOST),
                    application_id=attempt.app.id,
                    finished_at_ms=self._rm.now_ms,
                ),
            )
            self._rm.news_for_master(attempt)
            return
        # What it will find at its node, as far as the RM knows.
        claim = Claim.FREE if node.load.fits_free(resource) else Claim.QUEUE
        self._adopt(container_id, attempt, node, resource, ask_key, claim)

    def tell_of_remote(self, attempt: RMAppAttempt) -> None:
        """The AMRMProxy of ``attempt`` may have died before it told the master of what it allocated: the RM does, of
        what no node has spoken of. A master knows what it was told before by its id."""
        for container in attempt.containers.values():
            if container.status is None and not container.is_am and _is_remote(container.id, attempt):
                attempt.allocated.put_new(container.id, (container, container.container()))

    def adopt_observed(self, node: RMNode, status: ContainerStatus) -> RMContainer | None:
        """``node`` reports a container that the RM does not know: adopt it if a DistributedScheduler allocated it for
        a live attempt, else return None."""
        if not self._rm.distributed or status.execution_type is not ExecutionType.OPPORTUNISTIC:
            return None
        app = self._rm.live.get(status.application_id)
        if app is None or app.ended or app.attempt.state is not AttemptState.RUNNING:
            return None
        attempt, container_id = app.attempt, status.container_id
        if not _is_remote(container_id, attempt) or self._rm.find_container(container_id) is not None:
            return None
        size = status.resource
        return self._adopt(container_id, attempt, node, size, key_for(0, 0, size), None)

    def adopt_expected(self, node: RMNode, status: ContainerStatus) -> RMContainer | None:
        """``node`` has a container that this life of the RM does not know: adopt it if it is expected, or belongs to a
        live application whose master is elsewhere, else return None. If its attempt has ended, it is ended, and its
        task has no other until then."""
        expected = self._rm.expected.pop(status.container_id, None) or self._unexpected(node, status)
        if expected is None or expected.attempt.app.ended:
            return None
        attempt, size = expected.attempt, status.resource
        request = expected.reported.allocation_request_id if expected.reported is not None else 0
        container = RMContainer(
            status.container_id,
            attempt,
            node,
            size,
            status.execution_type,
            key_for(expected.priority, request, size),
            version=status.version,
            is_am=expected.is_am,
            acquired=True,
            eligible_at_ms=attempt.app.submitted_at_ms,
        )
        if expected.is_am:
            attempt.am_container = container
        elif (tasks := self._rm.task_books.get(attempt.app.id)) is not None:
            tasks.found(container)
        if _is_remote(container.id, attempt):
            self._take(container, None, BY_DISTRIBUTED_SCHEDULER)
        else:
            self._take(container, None, "by an earlier ResourceManager", counted=True)
            container.allocated_at_ms = status.queued_at_ms or container.allocated_at_ms
        if attempt.ended and status.state is not ContainerState.DONE:
            self.observe(container, status)
            self.end_at_node(container, Cause(CauseKind.RESOURCEMANAGER), "Its attempt had ended")
        return container

    def _unexpected(self, node: RMNode, status: ContainerStatus) -> Expected | None:
        """To whom a container belongs that no record names: an earlier life of the RM granted it to a master elsewhere,
        or the DistributedScheduler of an attempt that has ended did, and did not come to say so."""
        app = self._rm.live.get(status.application_id)
        if app is None or app.hosted or self._rm.find_container(status.container_id) is not None:
            return None
        parsed = ContainerId.parse(status.container_id)
        attempt = app.attempt_of(parsed)
        is_am = attempt is not app.attempt and parsed.container_id == MASTERS_NUMBER
        if app.recovered and app.context.keep_containers_across_attempts and not is_am:
            attempt = app.attempt
        if attempt is app.attempt:
            return Expected(attempt, node.node_id) if app.recovered else None
        if attempt is None or status.state is ContainerState.DONE:
            return None
        return Expected(attempt, node.node_id, is_am=is_am)

    def ending(self, attempt: RMAppAttempt, earlier: dict[ContainerId, str]) -> tuple[str, ...]:
        """The containers of earlier attempts that have not ended. ``earlier`` are those that this attempt's master
        names, with their nodes: one whose node has not come since the RM was restarted may still run there, and so may
        one that a DistributedScheduler allocated and neither it nor the node has reported.
        """
        app, rm = attempt.app, self._rm
        for parsed, node_id in earlier.items():
            owner, container_id = app.attempt_of(parsed), str(parsed)
            if app.hosted or owner in (None, attempt) or container_id in app.ended_well:
                continue
            if (node := rm.nodes.get(node_id)) is None:
                is_unknown = Due(DueKind.RECOVERY) in rm.deadlines
            else:
                is_unknown = rm.distributed and node.state not in GONE and _is_remote(container_id, owner)
                is_unknown = is_unknown and rm.find_container(container_id) is None
                if is_unknown:
                    rm.unreported[node_id] = HEARTBEATS_WAITED_FOR
            if is_unknown:
                rm.expected.setdefault(container_id, Expected(owner, node_id))
        live = [one.id for one in app.containers() if one.attempt is not attempt and not one.is_am]
        others = [
            name
            for name, one in rm.expected.items()
            if one.attempt.app is app and one.attempt is not attempt and not one.is_am
        ]
        return (*live, *others)

    def _adopt(
        self,
        container_id: str,
        attempt: RMAppAttempt,
        node: RMNode,
        resource: Resource,
        ask_key: AskKey,
        claim: Claim | None,
    ) -> RMContainer:
        """Take in an opportunistic container that a DistributedScheduler allocated on ``node``."""
        self._rm.metrics.adopted()
        container = RMContainer(
            container_id,
            attempt,
            node,
            resource,
            ExecutionType.OPPORTUNISTIC,
            ask_key,
            counted=True,
            eligible_at_ms=self._rm.now_ms,
        )
        return self._take(container, claim, BY_DISTRIBUTED_SCHEDULER)

    # -- what becomes of them ------------------------------------------------------------------------------------

    def _take(
        self, container: RMContainer, claim: Claim | None, why: str, *, counted: bool = False
    ) -> RMContainer:
        """Enter a new container into every book. Its node has to speak of it before it expires; so long its token is
        good. ``counted``: its application's stored totals include it.
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
        """Give a container a new token, with its facts as they are now. A hosted master needs none: the RM's own word
        starts and changes its containers."""
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
        """Its node speaks of a container that has not ended."""
        if container.status is None:
            self._claimed(container)
            if container.delivers and status.version < container.version:
                self.deliver_update(container)  # it was started by a token older than the update
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
        status = _as_we_ended_it(container, status)
        if container.status is None:
            self._claimed(container)
        self._rm.deadlines.clear(Due(DueKind.UNENDED, container.id))
        if container.phase in _NOT_SEEN_RUNNING and status.started_at_ms > 0:
            # It began and ended between two heartbeats.
            seconds = (status.finished_at_ms - status.started_at_ms) / 1000
            app.add_seconds(container.resource, seconds)
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
        """A container has ended whose master had ended before it was told. A later attempt that has registered is told;
        if the container ended well, so are all that register, in each life of the RM.
        """
        if app.ended:
            return
        if status.exit_code == 0 and status.container_id not in app.ended_well:
            app.ended_well += (status.container_id,)
            self._rm.changes.lives[app.id] = app
        if app.attempt.state is AttemptState.RUNNING:
            app.attempt.completed.put(status.container_id, status)
            self._rm.news_for_master(app.attempt)

    def ended_unknown(self, status: ContainerStatus) -> None:
        """A node reports the end of a container that the RM does not know: an earlier life granted it to an attempt
        that has ended, or that attempt's DistributedScheduler did."""
        app = self._rm.live.get(status.application_id)
        if status.exit_code != 0 or app is None or app.hosted or self._rm.find_container(status.container_id):
            return
        if ContainerId.parse(status.container_id).application_attempt_id != app.attempt.record:
            self.ended_untold(app, status)

    def abort(
        self,
        container: RMContainer,
        cause: Cause,
        diagnostics: str,
        exit_status: ContainerExitStatus = ContainerExitStatus.ABORTED,
    ) -> None:
        """The RM itself declares a container ended; ``diagnostics`` has the cause for users."""
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
        """Let the node end a container; one that the node never reported ends at once. ``ended_as`` is its exit
        status, and its master learns the cause.

        The node's word is awaited, since until then its resources are not free; but not for ever.
        """
        container.ended_for, container.ended_as = cause, ended_as
        container.node.to_cleanup.put_new(container.id, container.id)
        self._rm.news_for_node(container.node)
        if container.status is None:
            self.abort(container, cause, diagnostics)
        else:
            self._rm.deadlines.set(Due(DueKind.UNENDED, container.id), self._rm.now + ENDING_PATIENCE)

    def unclaimed(self, container_id: str) -> None:
        """A container that was allocated was never started at its node."""
        container = self._rm.live_containers.get(container_id)
        if container is not None and container.status is None:
            self.end_at_node(container, Cause(CauseKind.EXPIRED), EXPIRED)

    def unended(self, container_id: str) -> None:
        """A container that was to end at its node was never said to have ended."""
        if (container := self._rm.live_containers.get(container_id)) is not None:
            cause = container.ended_for or Cause(CauseKind.RESOURCEMANAGER)
            self.abort(container, cause, "Its node did not report its end")

    def retype(self, container: RMContainer, execution_type: ExecutionType, resource: Resource) -> None:
        """Give a container another type or size, one version up."""
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
        """Send the update to its node, instead of leaving that to its master."""
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
        """Tell its hosted master which updates the node has made or refused; of one that came too late, neither."""
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
        """The node knows of it (or it ended unclaimed): it does not expire, and reports count it now."""
        self._rm.deadlines.clear(Due(DueKind.UNCLAIMED, container.id))
        container.node.load.release_claim(container.id)
        container.node.forget_start(container.id)

    def _move(self, container: RMContainer, event: ContainerEvent) -> None:
        """Its node told ``event`` of it, or it has ended. What a node tells again is no transition."""
        was = container.phase
        if CONTAINERS.rows[was].get(event) is was:
            return
        self._rm.move(container, event)
        if Phase.PAUSED in (was, container.phase) and not container.attempt.ended:
            self._rm.news_for_master(container.attempt)  # its master counts them

    def _give_back(self, container: RMContainer) -> None:
        self._charge(container, -1)
        container.node.load.release_claim(container.id)

    def _charge(self, container: RMContainer, sign: int) -> None:
        """What it has is its node's, queue's and application's (1), or is theirs no more (-1)."""
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


def _as_we_ended_it(container: RMContainer, status: ContainerStatus) -> ContainerStatus:
    """What a node says of an end that the RM or its master wished, with that wish as the cause."""
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
        return ContainerEvent.FINISHED
    return ContainerEvent.PREEMPTED if status.exit_status in PREEMPTION_STATUSES else ContainerEvent.FAILED


def _is_remote(container_id: str, attempt: RMAppAttempt) -> bool:
    """Whether that is the id of a container of ``attempt`` from the DistributedSchedulers' range."""
    try:
        parsed = ContainerId.parse(container_id)
    except InvalidIdError:
        return False
    return (
        parsed.application_attempt_id == attempt.record
        and _REMOTE_FROM <= parsed.container_id <= REMOTE_ID_START
    )
