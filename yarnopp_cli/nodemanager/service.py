"""What masters and people may ask of a node's containers: YARN's ContainerManagementProtocol.

The NodeManager decides when a call is served; this says what comes of it: what a token grants, which container
arrives, changes or ends, and what is refused (ContainerManagerImpl). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
from executor.records import ContainerSpec, ContainerState, ContainerStatus, ExecutionType, Resource

from ..errors import ContainerNotFoundError, InvalidStateError, InvalidTokenError, YoppError
from ..machine import tokens
from ..records import container_protocol as protocol
from ..records.requests import Container, ContainerLaunchContext, Token
from .containers import NodeContainers

BY_PERSON = "Container paused by a person."
BY_MASTER = "Container killed by the ApplicationMaster."


@dataclass(frozen=True, slots=True)
class Grant:
    """What a verified container token says."""

    container_id: str
    application_id: str
    user: str
    resource: Resource
    execution_type: ExecutionType
    priority: int
    version: int
    waiting_since_ms: int = 0
    least_vcores: int = 0


def verified_grant(key: bytes, token: Token, node_id: str, now_ms: int) -> Grant:
    """What ``token`` grants on this node.

    Raises InvalidTokenError if it is forged, expired or another node's.
    """
    payload = tokens.verify(key, token, tokens.CONTAINER_TOKEN, now_ms=now_ms)
    try:
        if payload["node_id"] != node_id:
            raise InvalidTokenError(
                f"container {payload['container_id']} was not granted on this node",
                because=f"its token is for {payload['node_id']}, and this is {node_id}",
                hint="a token serves the node that it was granted for; the master asks the ResourceManager again",
            )
        return Grant(
            container_id=str(payload["container_id"]),
            application_id=str(payload["application_id"]),
            user=str(payload.get("user", "")),
            resource=Resource(int(payload["memory"]), int(payload["vcores"])),
            execution_type=ExecutionType(payload["execution_type"]),
            priority=int(payload.get("priority", 0)),
            version=int(payload.get("version", 0)),
            waiting_since_ms=int(payload.get("waiting_since_ms", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidTokenError(
            "a container token lacks what it should say",
            because=repr(error),
            hint="the daemons may be of different versions: `yopp down`, then `yopp up`",
        ) from None


def granted_by(container: Container, application_id: str, user: str) -> Grant:
    """What a container that the RM itself hands over grants: it needs no token. It is a master, and weighs a vcore."""
    return Grant(
        container_id=container.id,
        application_id=application_id,
        user=user,
        resource=container.resource,
        execution_type=container.execution_type,
        priority=container.priority,
        version=container.version,
        least_vcores=1,
    )


def spec_of(grant: Grant, context: ContainerLaunchContext, log_dir: str) -> ContainerSpec:
    """What the executor is to run. Raises InvalidStateError for a launch context that nothing could run."""
    check_context(context)
    return ContainerSpec(
        container_id=grant.container_id,
        command=context.command,
        resource=grant.resource,
        execution_type=grant.execution_type,
        priority=grant.priority,
        environment=context.environment,
        working_directory=context.working_directory,
        files=context.files,
        log_directory=f"{log_dir}/{grant.application_id}/{grant.container_id}",
        application_id=grant.application_id,
        user=grant.user,
        version=grant.version,
        timeout_ms=max(context.timeout_ms, 0),
        duration_hint_ms=max(context.duration_hint_ms, 0),
        waiting_since_ms=grant.waiting_since_ms,
        own_account=context.own_account,
        least_vcores=grant.least_vcores,
    )


def check_context(context: ContainerLaunchContext) -> None:
    """Raise InvalidStateError if no process could be started from ``context``, whatever the machine."""
    problem = ""
    texts = (*context.command, *context.environment, *context.environment.values(), *context.files)
    if not context.command or not context.command[0]:
        problem = "it names no command"
    elif any("\0" in text for text in (*texts, context.working_directory or "")):
        problem = "it has a NUL byte, which no argument, variable or path can hold"
    elif any(not name or "=" in name for name in context.environment):
        problem = "the name of an environment variable is empty or has an equals sign"
    elif any(not name or "/" in name or name in (".", "..") for name in context.files):
        problem = "the name of a file to be written is not a plain name"
    if problem:
        raise InvalidStateError(
            "the launch context cannot be run", because=problem, hint="the master that made it has to mend it"
        )


def failed(container_id: str, error: YoppError) -> protocol.FailedContainer:
    """How one container of several is refused."""
    message = f"{error.message}: {error.because}" if error.because else error.message
    return protocol.FailedContainer(container_id, error.exception, message)


def claimed_id(token: Token) -> str:
    """The container id that a token, forged or not, speaks of, so that its refusal can name it; else ""."""
    try:
        claim: Any = json.loads(token.identifier)
    except (ValueError, RecursionError):
        return ""
    found = claim.get("container_id", "") if isinstance(claim, dict) else ""
    return found if isinstance(found, str) else ""


def not_here(container_id: str, node_id: str) -> ContainerNotFoundError:
    """YARN's refusal for a container of which this node knows nothing."""
    return ContainerNotFoundError(
        f"Container {container_id} is not handled by this NodeManager ({node_id})",
        because="it never came to this node, or ended here long ago",
        hint=f"`yopp container status {container_id}` shows what the ResourceManager knows of it",
        sought=container_id,
    )


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
                grant = verified_grant(key, item.token, self._node_id, now_ms)
                if self._scheduler.status(grant.container_id) is None:
                    self._check_wanted(grant)
                    spec = spec_of(grant, item.launch_context, self._log_dir)
                    self._pass(ContainerScheduled(spec))
                started.append(grant.container_id)
            except YoppError as error:
                refused.append(failed(claimed_id(item.token), error))
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
                refused.append(failed(claimed_id(token), error))
        return protocol.UpdateContainersResponse(tuple(updated), tuple(refused))

    def _update_container(self, token: Token, key: bytes, now_ms: int) -> str:
        grant = verified_grant(key, token, self._node_id, now_ms)
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
                error = not_here(container_id, self._node_id)
                refused.append(failed(container_id, error))
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
                error = not_here(container_id, self._node_id)
                missing.append(failed(container_id, error))
        return protocol.GetContainerStatusesResponse(tuple(found), tuple(missing))

    def signal_container(self, request: protocol.SignalContainerRequest) -> ContainerStatus:
        """A signal to every process of a live container. Raises YoppError where there is none."""
        status = self._live_status(request.container_id)
        if not 1 <= request.signal <= 64:
            raise InvalidStateError(
                f"{request.signal} is no signal",
                because="signals are 1 to 64",
                hint="`yopp container signal --signal TERM` ends it in order",
            )
        self._pass(ContainerSignalRequested(request.container_id, request.signal))
        return status

    def pause_container(self, request: protocol.PauseContainerRequest, user: str) -> ContainerStatus:
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
        return self._status_now(container_id)

    def resume_container(self, request: protocol.ResumeContainerRequest, user: str) -> ContainerStatus:
        """Let a container go on that a person paused. Raises InvalidStateError for any other."""
        container_id = request.container_id
        status = self._live_status(container_id)
        if not self._scheduler.is_held(container_id):
            paused = status.state in (ContainerState.PAUSING, ContainerState.PAUSED)
            if paused and of_kind(status.cause, CauseKind.RESUMED):
                return status  # it waits for room
            reason = "it made room for a guaranteed container, and goes on by itself as soon as there is room for it"
            if self._scheduler.gives_way(container_id):
                reason = "the machine is busy with higher-priority work; it resumes by itself"
            raise InvalidStateError(
                f"container {container_id} cannot be resumed",
                because=reason if paused else f"it is not paused: it is {status.state.value}",
                hint="`yopp container promote` makes it guaranteed" if paused else "",
            )
        self._pass(ContainerResumeRequested(container_id, by=user))
        return self._status_now(container_id)

    def _status_now(self, container_id: str) -> ContainerStatus:
        status = self._scheduler.status(container_id)
        if status is None:
            raise not_here(container_id, self._node_id)
        return status

    def _live_status(self, container_id: str) -> ContainerStatus:
        status = self._scheduler.status(container_id)
        if status is None:
            raise not_here(container_id, self._node_id)
        if status.state is ContainerState.DONE:
            raise InvalidStateError(
                f"container {container_id} has ended",
                because="what has ended cannot be changed",
                hint=f"`yopp container status {container_id}` shows how it ended",
            )
        return status
