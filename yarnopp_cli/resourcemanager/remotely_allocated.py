"""Containers that nodes' DistributedSchedulers have allocated: how the RM comes to know of them ("remotely allocated").

Two ways lead here. The scheduler reports what it has allocated; or the node where such a container arrived speaks of
it first, since a start does not wait for a report (nor for an RM that is down). Whichever comes second finds it known.
Allocates nothing.
"""

from __future__ import annotations

from typing import Final

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus, ContainerState, ContainerStatus, ExecutionType, Resource

from ..allocation.load_monitor import Claim
from ..errors import InvalidIdError, InvalidTokenError
from ..machine.tokens import CONTAINER_TOKEN, verify
from ..records.ids import ContainerId
from ..records.requests import Container
from .container_ledger import LOST, ContainerLedger
from .context import RMContext
from .entities import GONE, RMAppAttempt, RMContainer, RMNode
from .lives import AttemptState

REMOTE_ID_START: Final = (1 << 40) - 1
"""The first number of a container allocated at a node; they go down, the RM's own go up from 1.

YARN's are negative, and its printed ids keep 40 bits of them: the same numbers.
"""
_REMOTE_FROM: Final = 1 << 39


class RemotelyAllocated:
    """Takes them into the ledger."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger

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
            or not is_remote(container_id, attempt)
        ):
            raise InvalidTokenError(
                f"{container_id} was not allocated by a DistributedScheduler for {attempt.id}"
            )
        resource = Resource(int(payload["memory"]), int(payload["vcores"]))
        ask_key = (reported.priority, reported.allocation_request_id, resource.memory, resource.vcores)
        if (known := self._rm.find_container(container_id)) is not None:
            known.priority, known.allocation_request_id, known.ask_key = ask_key[0], ask_key[1], ask_key
            return
        node = self._rm.nodes.get(str(payload.get("node_id")))
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
        self._ledger.adopt(container_id, attempt, node, resource, ask_key, claim)

    def adopt_observed(self, node: RMNode, status: ContainerStatus) -> RMContainer | None:
        """``node`` speaks of a container the RM has not heard of: take it in if a DistributedScheduler must have
        allocated it for a living attempt. None if it belongs to nobody."""
        if not self._rm.distributed or status.execution_type is not ExecutionType.OPPORTUNISTIC:
            return None
        app = self._rm.live.get(status.application_id)
        if app is None or app.ended or app.attempt.state is not AttemptState.RUNNING:
            return None
        attempt, container_id = app.attempt, status.container_id
        if not is_remote(container_id, attempt) or self._rm.find_container(container_id) is not None:
            return None
        size = status.resource
        return self._ledger.adopt(container_id, attempt, node, size, (0, 0, size.memory, size.vcores), None)


def is_remote(container_id: str, attempt: RMAppAttempt) -> bool:
    """Whether that is the id of a container of ``attempt`` from the DistributedSchedulers' range."""
    try:
        parsed = ContainerId.parse(container_id)
    except InvalidIdError:
        return False
    return (
        parsed.application_attempt_id == attempt.record
        and _REMOTE_FROM <= parsed.container_id <= REMOTE_ID_START
    )
