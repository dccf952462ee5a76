"""Promotion, demotion and resize of granted containers (YARN's ``RMServerUtils`` and
``ContainerUpdateContext``).

What gives back is done at once; what needs room is done as soon as its own node has it. Each change is one
version of the container and one new token, which its master takes to the node (or the RM does, where
``yarn.resourcemanager.auto-update.containers`` says so).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from executor.records import ExecutionType, Resource

from ..records.requests import (
    ContainerUpdateType,
    UpdateContainerError,
    UpdateContainerRequest,
    UpdatedContainer,
)
from ..records.tracker_protocol import ContainerToUpdate
from .applications import RMAppAttempt
from .asks import normalise
from .containers import RMContainer
from .context import RMContext

INVALID_CONTAINER_ID = "INVALID_CONTAINER_ID"
INCORRECT_CONTAINER_VERSION_ERROR = "INCORRECT_CONTAINER_VERSION_ERROR"
UPDATE_OUTSTANDING_ERROR = "UPDATE_OUTSTANDING_ERROR"
RESOURCE_OUTSIDE_ALLOWED_RANGE = "RESOURCE_OUTSIDE_ALLOWED_RANGE"
INVALID_EXECUTION_TYPE = "INVALID_EXECUTION_TYPE"

_ORDER = (
    ContainerUpdateType.PROMOTE_EXECUTION_TYPE,
    ContainerUpdateType.INCREASE_RESOURCE,
    ContainerUpdateType.DEMOTE_EXECUTION_TYPE,
    ContainerUpdateType.DECREASE_RESOURCE,
)
_TARGETS = {
    ContainerUpdateType.PROMOTE_EXECUTION_TYPE: ExecutionType.GUARANTEED,
    ContainerUpdateType.DEMOTE_EXECUTION_TYPE: ExecutionType.OPPORTUNISTIC,
}


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A granted wish that waits for room: what the container is to become."""

    container: RMContainer
    update_type: ContainerUpdateType
    execution_type: ExecutionType
    resource: Resource

    def needs(self) -> Resource:
        """What its node must have free beyond what guaranteed containers have of it."""
        if self.execution_type is ExecutionType.OPPORTUNISTIC:
            return Resource()
        if self.container.execution_type is ExecutionType.OPPORTUNISTIC:
            return self.resource
        return (self.resource - self.container.resource).at_least_zero()


class ContainerUpdates:
    """Takes update requests in, refuses wrong ones with YARN's words, carries the others out."""

    def __init__(self, context: RMContext) -> None:
        self._context = context
        self._refused = 0

    def request(self, attempt: RMAppAttempt, requests: Iterable[UpdateContainerRequest], now: float) -> None:
        """Take the updates of one allocate call in: promotions, increases, demotions, decreases."""
        accepted: list[tuple[UpdateContainerRequest, PendingUpdate]] = []
        seen: set[str] = set()
        for request in requests:
            reason = self._fault(attempt, request, seen)
            seen.add(request.container_id)
            if reason:
                self._refuse(attempt, request, reason)
            elif (update := self._update(attempt, request)) is not None:
                accepted.append((request, update))
        accepted.sort(key=lambda pair: _ORDER.index(pair[0].update_type))
        for request, update in accepted:
            if request.update_type in (
                ContainerUpdateType.DEMOTE_EXECUTION_TYPE,
                ContainerUpdateType.DECREASE_RESOURCE,
            ):
                attempt.updates.pop(request.container_id, None)
                self._carry_out(update, now)
            else:
                attempt.updates[request.container_id] = update
                self._context.scheduler.dirty = True

    def grant(self, now: float) -> None:
        """Carry out every pending update whose node has room now, the oldest of each attempt first."""
        for app in self._context.live.values():
            attempt = app.attempt
            for update in list(attempt.updates.values()):
                node = update.container.node
                if node.usable and (node.fits_guaranteed(update.needs())):
                    del attempt.updates[update.container.id]
                    self._carry_out(update, now)

    def _fault(self, attempt: RMAppAttempt, request: UpdateContainerRequest, seen: set[str]) -> str:
        """YARN's word for what is wrong with a request, in YARN's order of checking; "" for nothing."""
        container = attempt.containers.get(request.container_id)
        if container is None or container.is_am or container.released:
            return INVALID_CONTAINER_ID
        if request.container_version != container.version:
            return INCORRECT_CONTAINER_VERSION_ERROR
        if request.container_id in seen:
            return UPDATE_OUTSTANDING_ERROR
        target = _TARGETS.get(request.update_type)
        if target is not None:
            if request.execution_type not in (None, target):
                return INVALID_EXECUTION_TYPE
            pending = attempt.updates.get(request.container_id)
            if pending is not None and target is ExecutionType.GUARANTEED:
                return UPDATE_OUTSTANDING_ERROR
            return ""
        settings = self._context.settings
        maximum = Resource(settings.maximum_allocation_mb, settings.maximum_allocation_vcores)
        size = request.capability
        if size is None or size.memory < 0 or size.vcores < 0 or not size.fits_in(maximum):
            return RESOURCE_OUTSIDE_ALLOWED_RANGE
        wanted, now_has = normalise(size, settings), container.resource
        grows = request.update_type is ContainerUpdateType.INCREASE_RESOURCE
        if not (now_has.fits_in(wanted) if grows else wanted.fits_in(now_has)):
            return RESOURCE_OUTSIDE_ALLOWED_RANGE
        return "" if wanted.fits_in(container.node.total) else RESOURCE_OUTSIDE_ALLOWED_RANGE

    def _update(self, attempt: RMAppAttempt, request: UpdateContainerRequest) -> PendingUpdate | None:
        """What a faultless request amounts to; None where the container is already so."""
        container = attempt.containers[request.container_id]
        target = _TARGETS.get(request.update_type, container.execution_type)
        resource = container.resource
        if request.capability is not None and request.update_type not in _TARGETS:
            resource = normalise(request.capability, self._context.settings)
        if target is container.execution_type and resource == container.resource:
            return None
        return PendingUpdate(container, request.update_type, target, resource)

    def _refuse(self, attempt: RMAppAttempt, request: UpdateContainerRequest, reason: str) -> None:
        container = attempt.containers.get(request.container_id)
        self._refused += 1
        attempt.update_errors.put(
            str(self._refused),
            UpdateContainerError(reason, request, container.version if container else -1),
        )
        self._context.touch(attempt)

    def _carry_out(self, update: PendingUpdate, now: float) -> None:
        container = update.container
        context, attempt = self._context, container.attempt
        context.containers.retype(container, update.execution_type, update.resource, now)
        attempt.updated.put(container.id, UpdatedContainer(update.update_type, container.container()))
        context.touch(attempt)
        if context.settings.auto_update_containers:
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
            context.touch_node(container.node)
