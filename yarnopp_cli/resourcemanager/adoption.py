"""Containers that this RM process did not grant: a node's DistributedScheduler or a previous RM process allocated
them.

The RM learns of such a container from the DistributedScheduler's report, or from the node that runs it. The node may
be first: a start waits neither for the report nor for an RM that is down. The second message finds the container
known.
"""

from __future__ import annotations

from typing import Final

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus, ContainerState, ContainerStatus, ExecutionType, Resource

from ..allocation.asks import AskKey, key_for
from ..allocation.cluster_node import Claim
from ..errors import InvalidIdError, InvalidTokenError
from ..machine.tokens import CONTAINER_TOKEN, resource_of, verify
from ..records.ids import ContainerId
from ..records.reports import GONE
from ..records.requests import Container
from .container_ledger import LOST, ContainerLedger
from .context import RMContext, Unreported
from .due import Due, DueKind
from .entities import RMAppAttempt, RMContainer, RMNode
from .lives import AttemptState

BY_DISTRIBUTED_SCHEDULER = "by its node's DistributedScheduler"
HEARTBEATS_WAITED_FOR = 2
"""The number of heartbeats after which a node has reported every container that it was asked to start."""
MASTERS_NUMBER = 1
"""The number of the master's container in an attempt whose master has a container."""
REMOTE_ID_START: Final = (1 << 40) - 1
"""The first number of a container allocated at a node; they go down, the RM's own go up from 1.

YARN's are negative, and its printed ids keep 40 bits of them: the same numbers.
"""
_REMOTE_FROM: Final = 1 << 39


class Adoption:
    """Enters such containers into the books, for the attempts that own them."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger

    def reported(self, attempt: RMAppAttempt, reported: Container) -> None:
        """A DistributedScheduler reports a container that it has allocated for ``attempt``.

        Raises InvalidTokenError unless the report holds a container token of this cluster for this attempt.
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
            # The node has not registered with this RM process, and may have the container or its exit status.
            self._rm.expected[container_id] = Unreported(
                attempt, node_id, reported.priority, reported=reported
            )
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
        # The claim that the container will have at its node, as far as the RM knows.
        claim = Claim.FREE if node.load.fits_free(resource) else Claim.QUEUE
        self._adopt(container_id, attempt, node, resource, ask_key, claim)

    def tell_of_remote(self, attempt: RMAppAttempt) -> None:
        """Report to the master of ``attempt`` the remote containers that no node has reported.

        The AMRMProxy may have died before it reported its allocations to the master. A master recognises a repeated
        container by its id."""
        for container in attempt.containers.values():
            if container.status is None and not container.is_am and _is_remote(container.id, attempt):
                attempt.allocated.put_new(container.id, (container, container.container()))

    def observed(self, node: RMNode, status: ContainerStatus) -> RMContainer | None:
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

    def expected(self, node: RMNode, status: ContainerStatus) -> RMContainer | None:
        """``node`` reports a container that this RM process does not know. Adopt the container if it is expected, or
        if it belongs to a live application whose master is outside the RM; else return None. If its attempt has ended,
        the container is ended, and its task gets no other container until then."""
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
            self._ledger.enter(container, None, BY_DISTRIBUTED_SCHEDULER)
        else:
            self._ledger.enter(container, None, "by an earlier ResourceManager", counted=True)
            container.allocated_at_ms = status.queued_at_ms or container.allocated_at_ms
        if status.state is not ContainerState.DONE:
            attempt.app.count_earlier(size, status, self._rm.now_ms)
            if attempt.ended:
                self._ledger.observe(container, status)
                self._ledger.end_at_node(container, Cause(CauseKind.RESOURCEMANAGER), "Its attempt had ended")
        return container

    def ended_unknown(self, status: ContainerStatus) -> None:
        """A node reports the end of an unknown container: a previous RM process granted it to an attempt that has
        ended, or the DistributedScheduler of that attempt did."""
        app = self._rm.live.get(status.application_id)
        if status.exit_code != 0 or app is None or app.hosted or self._rm.find_container(status.container_id):
            return
        if ContainerId.parse(status.container_id).application_attempt_id != app.attempt.record:
            self._ledger.ended_untold(app, status)

    def _unexpected(self, node: RMNode, status: ContainerStatus) -> Unreported | None:
        """The owner of a container without a record. A previous RM process granted it to a master outside the RM, or
        the DistributedScheduler of an ended attempt allocated it and did not report it."""
        app = self._rm.live.get(status.application_id)
        if app is None or app.hosted or self._rm.find_container(status.container_id) is not None:
            return None
        parsed = ContainerId.parse(status.container_id)
        attempt = app.attempt_of(parsed)
        is_am = attempt is not app.attempt and parsed.container_id == MASTERS_NUMBER
        if app.recovered and app.context.keep_containers_across_attempts and not is_am:
            attempt = app.attempt
        if attempt is app.attempt:
            return Unreported(attempt, node.node_id) if app.recovered else None
        if attempt is None or status.state is ContainerState.DONE:
            return None
        return Unreported(attempt, node.node_id, is_am=is_am)

    def ending(self, attempt: RMAppAttempt, earlier: dict[ContainerId, str]) -> tuple[str, ...]:
        """The containers of earlier attempts that have not ended.

        ``earlier`` are the containers that this attempt's master names, with their nodes. A named container may still
        run if its node has not registered since the RM was restarted, or if a DistributedScheduler allocated it and
        neither the scheduler nor the node has reported it.
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
                rm.expected.setdefault(container_id, Unreported(owner, node_id))
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
        """Enter an opportunistic container that a DistributedScheduler allocated on ``node`` into the books."""
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
        return self._ledger.enter(container, claim, BY_DISTRIBUTED_SCHEDULER)


def _is_remote(container_id: str, attempt: RMAppAttempt) -> bool:
    """Whether ``container_id`` belongs to ``attempt`` and is in the number range of the DistributedSchedulers."""
    try:
        parsed = ContainerId.parse(container_id)
    except InvalidIdError:
        return False
    return (
        parsed.application_attempt_id == attempt.record
        and _REMOTE_FROM <= parsed.container_id <= REMOTE_ID_START
    )
