"""What masters and people may ask of a node's containers: YARN's ContainerManagementProtocol.

The NodeManager decides when a call is served; this says what comes of it. Pure, like all of ``core``.
"""

from __future__ import annotations

from collections.abc import Callable

from executor.causes import Cause, CauseKind, of_kind
from executor.core.events import (
    ContainerKillRequested,
    ContainerPauseRequested,
    ContainerResumeRequested,
    ContainerScheduled,
    ContainerSignalRequested,
    ContainerUpdated,
    Event,
)
from executor.core.scheduler import ContainerScheduler
from executor.records import ContainerState, ContainerStatus

from ..errors import InvalidStateError, YoppError
from ..records import container_protocol as protocol
from ..records.requests import Token
from . import calls as node_calls
from .calls import Grant
from .containers import NodeContainers

BY_PERSON = "Container paused by a person."
BY_MASTER = "Container killed by the ApplicationMaster."


class ContainerService:
    """Serves the calls about containers.

    ``pass_event`` hands an event to ``scheduler`` and takes what comes of it.
    """

    def __init__(
        self,
        node_id: str,
        log_dir: str,
        scheduler: ContainerScheduler,
        containers: NodeContainers,
        pass_event: Callable[[Event], None],
    ) -> None:
        self._node_id = node_id
        self._log_dir = log_dir
        self._scheduler = scheduler
        self._containers = containers
        self._pass = pass_event

    def start_containers(
        self, request: protocol.StartContainersRequest, key: bytes, now_ms: int
    ) -> protocol.StartContainersResponse:
        """Each that is granted arrives.

        One that is here already counts as started: its answer may have been lost.
        """
        started: list[str] = []
        refused: list[protocol.FailedContainer] = []
        for item in request.containers:
            try:
                grant = node_calls.verified_grant(key, item.token, self._node_id, now_ms)
                if self._scheduler.status(grant.container_id) is None:
                    self._check_wanted(grant)
                    spec = node_calls.spec_of(grant, item.launch_context, self._log_dir)
                    self._pass(ContainerScheduled(spec))
                started.append(grant.container_id)
            except YoppError as error:
                refused.append(node_calls.failed(node_calls.claimed_id(item.token), error))
        return protocol.StartContainersResponse(tuple(started), tuple(refused))

    def _check_wanted(self, grant: Grant) -> None:
        if grant.application_id in self._containers.ended_applications:
            raise InvalidStateError(
                f"container {grant.container_id} is refused", because=f"{grant.application_id} has ended"
            )
        if grant.container_id in self._containers.withdrawn:
            raise InvalidStateError(
                f"container {grant.container_id} is refused", because="the ResourceManager has withdrawn it"
            )

    def update_containers(
        self, request: protocol.UpdateContainersRequest, key: bytes, now_ms: int
    ) -> protocol.UpdateContainersResponse:
        """Promotions, demotions and resizes that the RM granted, each applied at once or refused."""
        updated: list[str] = []
        refused: list[protocol.FailedContainer] = []
        for token in request.tokens:
            try:
                updated.append(self._update_container(token, key, now_ms))
            except YoppError as error:
                refused.append(node_calls.failed(node_calls.claimed_id(token), error))
        return protocol.UpdateContainersResponse(tuple(updated), tuple(refused))

    def _update_container(self, token: Token, key: bytes, now_ms: int) -> str:
        grant = node_calls.verified_grant(key, token, self._node_id, now_ms)
        before = self._live_status(grant.container_id)
        same = (grant.version, grant.execution_type, grant.resource)
        if same == (before.version, before.execution_type, before.resource):
            return grant.container_id  # the RM has delivered it already
        if grant.version <= before.version:
            raise InvalidStateError(
                f"container {grant.container_id} is not updated",
                because=f"it has version {before.version} already, the token {grant.version}",
            )
        self._pass(ContainerUpdated(grant.container_id, grant.version, grant.execution_type, grant.resource))
        after = self._scheduler.status(grant.container_id)
        if after is None or after.version != grant.version:
            because = "this node has no room for it" if after is not None else "it has ended"
            raise InvalidStateError(f"container {grant.container_id} is not updated", because=because)
        return grant.container_id

    def stop_containers(
        self, request: protocol.StopContainersRequest, user: str
    ) -> protocol.StopContainersResponse:
        """Those that are here end, or have ended."""
        cause = Cause(CauseKind.PERSON, by=user) if request.by_person else Cause(CauseKind.MASTER)
        stopped: list[str] = []
        refused: list[protocol.FailedContainer] = []
        known = [one for one in request.container_ids if self._scheduler.status(one) is not None]
        for container_id in self._containers.waiting_first(known):
            diagnostics = request.diagnostics or BY_MASTER
            self._pass(ContainerKillRequested(container_id, request.exit_status, diagnostics, cause=cause))
        for container_id in request.container_ids:
            if self._scheduler.status(container_id) is not None:
                stopped.append(container_id)
            else:
                error = node_calls.not_here(container_id, self._node_id)
                refused.append(node_calls.failed(container_id, error))
        return protocol.StopContainersResponse(tuple(stopped), tuple(refused))

    def container_statuses(
        self, request: protocol.GetContainerStatusesRequest
    ) -> protocol.GetContainerStatusesResponse:
        """As they stand now, with their places in the queue and the last measurement of their use."""
        if not request.container_ids:
            statuses = self._scheduler.statuses()
            if not request.finished:
                statuses = [one for one in statuses if one.state is not ContainerState.DONE]
            return protocol.GetContainerStatusesResponse(tuple(statuses))
        found: list[ContainerStatus] = []
        missing: list[protocol.FailedContainer] = []
        for container_id in request.container_ids:
            status = self._scheduler.status(container_id)
            if status is not None:
                found.append(status)
            else:
                error = node_calls.not_here(container_id, self._node_id)
                missing.append(node_calls.failed(container_id, error))
        return protocol.GetContainerStatusesResponse(tuple(found), tuple(missing))

    def signal_container(self, request: protocol.SignalContainerRequest) -> protocol.ContainerStatusResponse:
        """A signal to every process of a live container. Raises YoppError where there is none."""
        status = self._live_status(request.container_id)
        if not 1 <= request.signal <= 64:
            raise InvalidStateError(
                f"{request.signal} is no signal",
                because="signals are 1 to 64",
                hint="`yopp container signal --signal TERM` ends it in order",
            )
        self._pass(ContainerSignalRequested(request.container_id, request.signal))
        return protocol.ContainerStatusResponse(status)

    def pause_container(
        self, request: protocol.PauseContainerRequest, user: str
    ) -> protocol.ContainerStatusResponse:
        """Begin to pause a container, whatever its type; one that is paused already stays so from now on."""
        container_id = request.container_id
        status = self._live_status(container_id)
        if status.state is ContainerState.SCHEDULED:
            raise InvalidStateError(
                f"container {container_id} cannot be paused",
                because="it waits in a queue",
                hint=f"`yopp container kill {container_id}` takes it out of the queue",
            )
        if status.state is ContainerState.KILLING:
            raise InvalidStateError(
                f"container {container_id} cannot be paused",
                because="it is being ended",
                hint=f"`yopp container status {container_id}` shows its end",
            )
        if not self._scheduler.is_held(container_id):
            self._pass(ContainerPauseRequested(container_id, request.diagnostics or BY_PERSON, by=user))
        return protocol.ContainerStatusResponse(self._status_now(container_id))

    def resume_container(
        self, request: protocol.ResumeContainerRequest, user: str
    ) -> protocol.ContainerStatusResponse:
        """Let a container go on that a person paused. Raises InvalidStateError for any other."""
        container_id = request.container_id
        status = self._live_status(container_id)
        if not self._scheduler.is_held(container_id):
            paused = status.state in (ContainerState.PAUSING, ContainerState.PAUSED)
            if paused and of_kind(status.cause, CauseKind.RESUMED):
                return protocol.ContainerStatusResponse(status)  # it waits for room
            reason = "it made room for a guaranteed container, and goes on by itself as soon as there is room for it"
            if self._scheduler.gives_way(container_id):
                reason = "the machine is busy with higher-priority work; it resumes by itself"
            raise InvalidStateError(
                f"container {container_id} cannot be resumed",
                because=reason if paused else f"it is not paused: it is {status.state.value}",
                hint="`yopp container promote` makes it guaranteed" if paused else "",
            )
        self._pass(ContainerResumeRequested(container_id, by=user))
        return protocol.ContainerStatusResponse(self._status_now(container_id))

    def _status_now(self, container_id: str) -> ContainerStatus:
        status = self._scheduler.status(container_id)
        if status is None:
            raise node_calls.not_here(container_id, self._node_id)
        return status

    def _live_status(self, container_id: str) -> ContainerStatus:
        status = self._scheduler.status(container_id)
        if status is None:
            raise node_calls.not_here(container_id, self._node_id)
        if status.state is ContainerState.DONE:
            raise InvalidStateError(
                f"container {container_id} has ended",
                because="what has ended cannot be changed",
                hint=f"`yopp container status {container_id}` shows how it ended",
            )
        return status
