"""Promotion, demotion and resize of granted containers (YARN's ``RMServerUtils`` and
``ContainerUpdateContext``).

An update that frees resources takes effect at once; an update that needs room takes effect when its node has room.
Each change makes a new version of the container and a new token. The master sends the token to the node, or the RM
does (with ``yarn.resourcemanager.auto-update.containers``).

Decisions: updates-through-the-rm.
"""

from __future__ import annotations

from collections.abc import Iterable

from executor.light import replace
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
_GIVE_BACK = _ORDER[2:]
_TARGETS = {
    ContainerUpdateType.PROMOTE_EXECUTION_TYPE: ExecutionType.GUARANTEED,
    ContainerUpdateType.DEMOTE_EXECUTION_TYPE: ExecutionType.OPPORTUNISTIC,
}


class ContainerUpdates:
    """Accepts update requests, refuses wrong ones with YARN's messages, and performs the others."""

    def __init__(self, context: RMContext, ledger: ContainerLedger) -> None:
        self._rm = context
        self._ledger = ledger
        self._refused = 0
        #: attempts with updates that wait for room; those that have none any more are found out later
        self._waiting: dict[str, RMAppAttempt] = {}

    def request(self, attempt: RMAppAttempt, requests: Iterable[UpdateContainerRequest]) -> None:
        """Accept the updates of one allocate call: promotions, increases, demotions, decreases."""
        accepted: list[PendingUpdate] = []
        seen: set[str] = set()
        for request in requests:
            if fault := self._fault(attempt, request, seen):
                self._refuse(attempt, request, fault)
            elif (update := self._update(attempt, request)) is not None:
                accepted.append(update)
            seen.add(request.container_id)
        for update in sorted(accepted, key=lambda one: _ORDER.index(one.update_type)):
            self._settle(update, update.update_type in _GIVE_BACK)

    def change(self, request: ChangeContainerRequest) -> ChangeContainerResponse:
        """Perform an update for a user, by the same rules. The RM sends it to the node, and a refusal is an error.

        The master is notified as of its own updates. Raises InvalidStateError, ContainerNotFoundError.
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
        if update is not None and not _node_has_room(update):
            fault = RESOURCE_OUTSIDE_ALLOWED_RANGE
        if fault:
            because, hint = _explained(fault, container, wish)
            text = f"{fault}: container {container.id} is not updated"
            raise InvalidStateError(text, because=because, hint=hint)
        done = update is None or self._may_be_made_now(update)
        if update is not None:
            self._settle(replace(update, by_person=True), done)
        return ChangeContainerResponse(
            container_report(container),
            version=container.version if done else container.version + 1,
            pending=not done,
        )

    def grant(self, nodes: Iterable[RMNode] | None = None) -> None:
        """Perform every pending update whose node has room now, the oldest of each attempt first.

        ``nodes`` are the nodes to examine, all by default.
        """
        if not self._waiting:
            return
        among = None if nodes is None else {node.node_id for node in nodes}
        self._waiting = {name: one for name, one in self._waiting.items() if one.updates}
        for attempt in sorted(self._waiting.values(), key=lambda one: one.app.number):
            for update in list(attempt.updates.values()):
                looked_at = among is None or update.container.node.node_id in among
                if looked_at and self._has_room(update):
                    self._settle(update, at_once=True)

    def _has_room(self, update: PendingUpdate) -> bool:
        """Whether the node and the queue of the container have room for an update."""
        node, needs = update.container.node, update.needs()
        if not node.usable or needs == Resource():
            return node.usable
        return node.fits_guaranteed(needs) and not self._rm.scheduler.refuses(update.container.app, needs)

    def _may_be_made_now(self, update: PendingUpdate) -> bool:
        """Whether an update may be performed now: without held heartbeats, an update that needs room waits for the
        heartbeat of its node."""
        spoke = self._rm.heartbeat_wait or update.container.node.node_id in self._rm.changes.beating
        return self._has_room(update) and (spoke or update.needs() == Resource())

    def _settle(self, update: PendingUpdate, at_once: bool) -> None:
        """Perform an update at once, or let it wait for room. It replaces an earlier update of the container."""
        container, attempt = update.container, update.container.attempt
        if not at_once:
            attempt.updates[container.id] = update
            self._waiting[attempt.id] = attempt
            self._rm.changes.guaranteed = True
            return
        attempt.updates.pop(container.id, None)
        self._ledger.retype(container, update.execution_type, update.resource)
        attempt.updated.put(container.id, UpdatedContainer(update.update_type, container.container()))
        self._rm.news_for_master(attempt)
        if self._rm.settings.auto_update_containers or update.by_person:
            self._ledger.deliver_update(container)

    def _fault(self, attempt: RMAppAttempt, request: UpdateContainerRequest, seen: set[str]) -> str:
        """YARN's error code for a request, in YARN's order of checks; "" if the request is valid."""
        container = attempt.containers.get(request.container_id)
        if container is None or container.is_am or container.released:
            return INVALID_CONTAINER_ID
        if request.container_version != container.version:
            return INCORRECT_CONTAINER_VERSION_ERROR
        if request.container_id in seen:
            return UPDATE_OUTSTANDING_ERROR
        if (target := _TARGETS.get(request.update_type)) is not None:
            if request.execution_type not in (None, target):
                return INVALID_EXECUTION_TYPE
            pending = request.container_id in attempt.updates
            return UPDATE_OUTSTANDING_ERROR if pending and target is ExecutionType.GUARANTEED else ""
        size, has = request.capability, container.resource
        # A container keeps its countable resources, GPUs or licences, from its start to its end.
        if size is None or size.is_negative or size.others not in ((), has.others):
            return RESOURCE_OUTSIDE_ALLOWED_RANGE
        size = replace(size, others=())
        if not size.fits_in(self._rm.maximum_allocation):
            return RESOURCE_OUTSIDE_ALLOWED_RANGE
        size = replace(size, others=has.others)
        wanted = normalise(size, self._rm.settings)
        grows = request.update_type is ContainerUpdateType.INCREASE_RESOURCE
        right_way = has.fits_in(wanted) if grows else wanted.fits_in(has)
        return "" if right_way and wanted.fits_in(container.node.total) else RESOURCE_OUTSIDE_ALLOWED_RANGE

    def _update(self, attempt: RMAppAttempt, request: UpdateContainerRequest) -> PendingUpdate | None:
        """The update for a valid request; None if the container is already in the requested state."""
        container = attempt.containers[request.container_id]
        target = _TARGETS.get(request.update_type, container.execution_type)
        resource = container.resource
        if request.capability is not None and request.update_type not in _TARGETS:
            resource = replace(
                normalise(request.capability, self._rm.settings), others=container.resource.others
            )
        if target is container.execution_type and resource == container.resource:
            return None
        return PendingUpdate(container, request.update_type, target, resource)

    def _refuse(self, attempt: RMAppAttempt, request: UpdateContainerRequest, fault: str) -> None:
        container = attempt.containers.get(request.container_id)
        self._refused += 1
        error = UpdateContainerError(fault, request, container.version if container else -1)
        attempt.update_errors.put(str(self._refused), error)
        self._rm.news_for_master(attempt)


def _node_has_room(update: PendingUpdate) -> bool:
    """Whether an opportunistic container may grow now: no container is preempted for it."""
    container = update.container
    if update.execution_type is ExecutionType.GUARANTEED or container.is_guaranteed:
        return True
    growth = (update.resource - container.resource).at_least_zero()
    if growth == Resource() or container.phase not in (Phase.RUNNING, Phase.PAUSED):
        return True
    return container.node.load.fits_free(growth)


def _explained(fault: str, container: RMContainer, wish: UpdateContainerRequest) -> tuple[str, str]:
    """The reason why a user's request is refused, and a hint."""
    target, node = _TARGETS.get(wish.update_type), container.node
    look = f"`yopp container status {container.id}` shows its present state"
    if container.is_am:
        app = container.app.id
        return (
            "it is its application's master",
            f"`yopp ps --app {app}` shows the containers that it manages",
        )
    if container.released:
        return "it is being killed", look
    if fault == INCORRECT_CONTAINER_VERSION_ERROR:
        return f"its version is {container.version}, not {wish.container_version}", look
    if fault == UPDATE_OUTSTANDING_ERROR:
        because = "an earlier update is still waiting for room on its node"
        return because, f"`yopp explain {container.id}` shows what it waits for"
    if fault == INVALID_EXECUTION_TYPE and target is not None:
        other = next(one for one in ExecutionType if one is not target)
        return f"target should be {target.value} and original should be {other.value}", look
    free = node.load.free
    because = f"it has {container.resource} and its node {node.total}, of which {free} is free"
    return because, f"`yopp node status {node.node_id}` shows what is in use there"
