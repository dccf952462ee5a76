"""Containers that nodes' DistributedSchedulers have allocated: how the RM comes to know of them ("remotely allocated").

Two ways lead here. The scheduler reports what it has allocated; or the node where such a container arrived speaks of
it first, since a start does not wait for a report (nor for an RM that is down). Whichever comes second finds it known.
Allocates nothing.
"""

from __future__ import annotations

from typing import Any, Final

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus, ContainerState, ContainerStatus, ExecutionType, Resource

from ...allocation.load_monitor import Claim, ClusterNode
from ...errors import InvalidIdError, InvalidTokenError
from ...machine.tokens import CONTAINER_TOKEN, verify
from ...records.ids import ContainerId
from ...records.reports import NodeState
from ...records.requests import Container
from ..apps.applications import AttemptState, RMAppAttempt
from ..context import RMContext
from ..nodes.nodes import RMNode
from .containers import LOST, RMContainer

REMOTE_ID_START: Final = (1 << 40) - 1
"""The first number of a container allocated at a node; they go down, the RM's own go up from 1.

YARN's are negative, and its printed ids keep 40 bits of them: the same numbers.
"""
_REMOTE_FROM: Final = 1 << 39


def adopt_reported(context: RMContext, attempt: RMAppAttempt, reported: Container, now: float) -> None:
    """A DistributedScheduler says that it has allocated this for ``attempt``.

    Raises InvalidTokenError unless it holds a token of this cluster for that very attempt.
    """
    payload = verify(context.container_key, reported.token, CONTAINER_TOKEN, now_ms=0)
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
    resource = _resource(payload)
    ask_key = (reported.priority, reported.allocation_request_id, resource.memory, resource.vcores)
    ledger = context.containers
    known = ledger.live.get(container_id) or ledger.finished.get(container_id)
    if known is not None:
        known.priority, known.allocation_request_id, known.ask_key = ask_key[0], ask_key[1], ask_key
        return
    node = context.nodes.get(str(payload.get("node_id")))
    if node is None or node.state in (NodeState.LOST, NodeState.SHUTDOWN):
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
                finished_at_ms=context.ms(now),
            ),
        )
        context.touch(attempt)
        return
    ledger.adopt(container_id, attempt, node, resource, ask_key, _claim(node.load, resource), now)


def adopt_observed(
    context: RMContext, node: RMNode, status: ContainerStatus, now: float
) -> RMContainer | None:
    """``node`` speaks of a container the RM has not heard of: take it in if a DistributedScheduler must have
    allocated it for a living attempt. None if it belongs to nobody."""
    if not context.distributed or status.execution_type is not ExecutionType.OPPORTUNISTIC:
        return None
    app = context.live.get(status.application_id)
    if app is None or app.ended or app.attempt.state is not AttemptState.RUNNING:
        return None
    attempt, container_id = app.attempt, status.container_id
    ledger = context.containers
    if not is_remote(container_id, attempt) or container_id in ledger.finished or container_id in ledger.live:
        return None
    size = status.resource
    return ledger.adopt(container_id, attempt, node, size, (0, 0, size.memory, size.vcores), None, now)


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


def _resource(payload: dict[str, Any]) -> Resource:
    return Resource(int(payload["memory"]), int(payload["vcores"]))


def _claim(load: ClusterNode, resource: Resource) -> Claim:
    """What it will find at its node, as far as the RM knows."""
    fits = resource.memory <= load.free_memory and resource.vcores <= load.free_vcores
    return Claim.FREE if fits else Claim.QUEUE
