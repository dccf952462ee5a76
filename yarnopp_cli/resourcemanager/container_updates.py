"""Promotion, demotion and resize of granted containers (YARN's ``RMServerUtils`` and
``ContainerUpdateContext``).

What gives back is done at once; what needs room is done as soon as its own node has it. Each change is one
version of the container and one new token, which its master takes to the node (or the RM does, where
``yarn.resourcemanager.auto-update.containers`` says so).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from executor.records import ExecutionType, Resource

from ..allocation.asks import normalise
from ..errors import InvalidStateError
from ..records.client_protocol import ChangeContainerRequest, ChangeContainerResponse
from ..records.requests import (
    ContainerUpdateType,
    UpdateContainerError,
    UpdateContainerRequest,
    UpdatedContainer,
)
from .container_ledger import ContainerLedger
from .context import RMContext
from .entities import PendingUpdate, RMAppAttempt, RMContainer, RMNode
from .lives import Phase
from .reports import container_report

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


class ContainerUpdates:
    """Takes update requests in, refuses wrong ones with YARN's words, carries the others out."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger
        self._refused = 0

    def request(self, attempt: RMAppAttempt, requests: Iterable[UpdateContainerRequest]) -> None:
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
                self._carry_out(update)
            else:
                attempt.updates[request.container_id] = update
                self._rm.changes.guaranteed = True

    def change(self, request: ChangeContainerRequest) -> ChangeContainerResponse:
        """A person's update: the same rules, an error instead of a refusal, and the RM delivers it.

        Its master is told as of its own updates. Raises InvalidStateError, ContainerNotFoundError.
        """
        wish = request.update
        container = self._rm.container(wish.container_id)
        if container.id not in self._rm.live_containers:
            raise InvalidStateError(
                f"{INVALID_CONTAINER_ID}: container {container.id} is not updated",
                because="it has ended",
                hint=f"`yopp container status {container.id}` shows how it ended",
            )
        attempt = container.attempt
        if wish.container_version == -1:
            wish = replace(wish, container_version=container.version)
        fault = self._fault(attempt, wish, set())
        update = None if fault else self._update(attempt, wish)
        if not fault and update is not None and not self._node_has_room(update):
            fault = RESOURCE_OUTSIDE_ALLOWED_RANGE
        if fault:
            raise InvalidStateError(
                f"{fault}: container {container.id} is not updated",
                because=_explained(fault, container, wish),
                hint=_advice(fault, container),
            )
        pending = False
        if update is not None:
            update = replace(update, by_person=True)
            attempt.updates.pop(container.id, None)
            if self._has_room(update):
                self._carry_out(update)
            else:
                pending = True
                attempt.updates[container.id] = update
                self._rm.changes.guaranteed = True
        return ChangeContainerResponse(
            container_report(container),
            version=container.version + 1 if pending else container.version,
            pending=pending,
        )

    def _has_room(self, update: PendingUpdate) -> bool:
        """Whether an update may be made now. With the plain beat, only when its node has just spoken."""
        node = update.container.node
        gives_back = update.needs() == Resource()
        spoke = self._rm.heartbeat_wait or node.node_id in self._rm.changes.beating
        if gives_back or not node.usable:
            return node.usable
        refused = self._rm.scheduler.refuses(update.container.app, update.needs())
        return spoke and node.fits_guaranteed(update.needs()) and not refused

    def _node_has_room(self, update: PendingUpdate) -> bool:
        """Whether an opportunistic container may grow so far now: nothing is preempted for it."""
        container = update.container
        if update.execution_type is ExecutionType.GUARANTEED or container.execution_type is not (
            update.execution_type
        ):
            return True
        growth = (update.resource - container.resource).at_least_zero()
        if growth == Resource() or container.phase not in (Phase.RUNNING, Phase.PAUSED):
            return True
        return container.node.load.fits_free(growth)

    def grant(self, nodes: Iterable[RMNode] | None = None) -> None:
        """Carry out every pending update whose node has room now, the oldest of each attempt first.

        ``nodes`` are those that may be looked at, all by default.
        """
        among = None if nodes is None else {node.node_id for node in nodes}
        for app in self._rm.live.values():
            attempt = app.attempt
            for update in list(attempt.updates.values()):
                node = update.container.node
                if among is not None and node.node_id not in among:
                    continue
                refused = self._rm.scheduler.refuses(app, update.needs())
                if node.usable and node.fits_guaranteed(update.needs()) and not refused:
                    del attempt.updates[update.container.id]
                    self._carry_out(update)

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
        settings = self._rm.settings
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
            resource = normalise(request.capability, self._rm.settings)
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
        self._rm.news_for_master(attempt)

    def _carry_out(self, update: PendingUpdate) -> None:
        container = update.container
        attempt = container.attempt
        self._ledger.retype(container, update.execution_type, update.resource)
        attempt.updated.put(container.id, UpdatedContainer(update.update_type, container.container()))
        self._rm.news_for_master(attempt)
        if self._rm.settings.auto_update_containers or update.by_person:
            self._ledger.deliver_update(container)


def _explained(fault: str, container: RMContainer, wish: UpdateContainerRequest) -> str:
    """YARN's word for a refusal as a sentence for people."""
    target = _TARGETS.get(wish.update_type)
    if container.is_am:
        return "it is its application's master"
    if container.released:
        return "it is being ended"
    if fault == INCORRECT_CONTAINER_VERSION_ERROR:
        return f"it has version {container.version}, and not {wish.container_version}"
    if fault == UPDATE_OUTSTANDING_ERROR:
        return "an update of it is under way, and waits for room on its node"
    if fault == INVALID_EXECUTION_TYPE and target is not None:
        other = next(one for one in ExecutionType if one is not target)
        return f"target should be {target.value} and original should be {other.value}"
    return f"it has {container.resource} and its node {container.node.total}, of which {_free(container)} is free"


def _advice(fault: str, container: RMContainer) -> str:
    """What to type after a refusal."""
    app = container.app.id
    if container.is_am:
        return f"`yopp ps --app {app}` shows the containers that it looks after"
    if fault == RESOURCE_OUTSIDE_ALLOWED_RANGE:
        return f"`yopp node status {container.node.node_id}` shows what is in use there"
    if fault == UPDATE_OUTSTANDING_ERROR:
        return f"`yopp explain {container.id}` says what it waits for"
    return f"`yopp container status {container.id}` shows it as it is now"


def _free(container: RMContainer) -> Resource:
    load = container.node.load
    return Resource(load.free_memory, load.free_vcores)
