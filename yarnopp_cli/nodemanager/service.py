"""Calls of masters and users about a node's containers: YARN's ContainerManagementProtocol.

The NodeManager decides when a call is served; this module performs it: it checks tokens, starts, changes and ends
containers, and refuses invalid requests (ContainerManagerImpl). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from executor.causes import Cause, CauseKind, of_kind
from executor.core.events import (
    ContainerPauseRequested,
    ContainerResumeRequested,
    ContainerScheduled,
    ContainerSignalRequested,
    ContainerUpdated,
    Event,
)
from executor.core.scheduler import ContainerScheduler
from executor.light import made_of
from executor.records import ContainerSpec, ContainerState, ContainerStatus, ExecutionType

from ..errors import ContainerNotFoundError, InvalidStateError, InvalidTokenError, YoppError
from ..machine import tokens
from ..records import container_protocol as protocol
from ..records.requests import ContainerLaunchContext, Token
from .containers import NodeContainers

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")

BY_USER = "Container paused by the user."
BY_MASTER = "Container killed by the ApplicationMaster."
_NO_PAUSE = {
    ContainerState.SCHEDULED: ("it is queued", "`yopp container kill {}` removes it from the queue"),
    ContainerState.KILLING: ("it is being killed", "`yopp container status {}` shows its end"),
}
"""The states in which a container cannot be paused: the reason, and a hint."""


def verified_grant(key: bytes, token: Token, node_id: str, now_ms: int) -> ContainerSpec:
    """The grant of ``token`` on this node: a container without a command.

    Raises InvalidTokenError if the token is forged, expired or another node's.
    """
    payload = tokens.verify(key, token, tokens.CONTAINER_TOKEN, now_ms=now_ms)
    try:
        if payload["node_id"] != node_id:
            raise InvalidTokenError(
                f"container {payload['container_id']} was not granted on this node",
                because=f"its token is for {payload['node_id']}, and this is {node_id}",
                hint="a token is valid only at its node; the master has to request a container again",
            )
        return ContainerSpec(
            container_id=str(payload["container_id"]),
            command=(),
            application_id=str(payload["application_id"]),
            user=str(payload.get("user", "")),
            resource=tokens.resource_of(payload),
            execution_type=ExecutionType(payload["execution_type"]),
            priority=int(payload.get("priority", 0)),
            version=int(payload.get("version", 0)),
            waiting_since_ms=int(payload.get("waiting_since_ms", 0)),
            application_priority=int(payload.get("application_priority", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidTokenError(
            "a container token is incomplete",
            because=repr(error),
            hint="the daemons may be of different versions: `yopp down`, then `yopp up`",
        ) from None


def spec_of(grant: ContainerSpec, context: ContainerLaunchContext, log_dir: str) -> ContainerSpec:
    """The container for the executor. Raises InvalidStateError for an impossible launch context."""
    check_context(context)
    return made_of(
        ContainerSpec,
        grant,
        context,
        log_directory=f"{log_dir}/{grant.application_id}/{grant.container_id}",
        timeout_ms=max(context.timeout_ms, 0),
        duration_hint_ms=max(context.duration_hint_ms, 0),
    )


def check_context(context: ContainerLaunchContext) -> None:
    """Raise InvalidStateError if no process could be started from ``context`` on any machine."""
    problem = ""
    texts = (*context.command, *context.environment, *context.environment.values(), *context.files)
    if not context.command or not context.command[0]:
        problem = "it has no command"
    elif any("\0" in text for text in (*texts, context.working_directory or "")):
        problem = "it has a NUL byte, which an argument, variable or path cannot contain"
    elif any(not name or "=" in name for name in context.environment):
        problem = "the name of an environment variable is empty or has an equals sign"
    elif not -1 <= context.umask <= 0o777:
        problem = f"its umask {context.umask} is not from 0 to 0777"
    elif any(not name or "/" in name or name in (".", "..") for name in context.files):
        problem = "the name of a file to be written is not a plain name"
    if problem:
        raise InvalidStateError(
            "the launch context cannot be run",
            because=problem,
            hint="the application's master must correct it",
        )


def claimed_id(token: Token) -> str:
    """The container id in a token, whether or not the token is genuine, so that a refusal can name it; else ""."""
    try:
        claim: Any = json.loads(token.identifier)
    except (ValueError, RecursionError):
        return ""
    found = claim.get("container_id", "") if isinstance(claim, dict) else ""
    return found if isinstance(found, str) else ""


def _each(
    items: Iterable[ItemT], act: Callable[[ItemT], DoneT], id_of: Callable[[ItemT], str] = str
) -> tuple[tuple[DoneT, ...], tuple[protocol.FailedContainer, ...]]:
    """The results of ``act`` for the items, and the items that it refuses, named by ``id_of``."""
    done: list[DoneT] = []
    refused: list[protocol.FailedContainer] = []
    for item in items:
        try:
            done.append(act(item))
        except YoppError as error:
            message = f"{error.message}: {error.because}" if error.because else error.message
            refused.append(protocol.FailedContainer(id_of(item), error.exception, message))
    return tuple(done), tuple(refused)


class ContainerService:
    """Serves the calls about containers.

    ``pass_event`` hands an event to ``scheduler`` and collects its commands.
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
        """Start the granted containers.

        A container that is here already counts as started: the answer may have been lost.
        """

        def start(item: protocol.StartContainerRequest) -> str:
            grant = verified_grant(key, item.token, self._node_id, now_ms)
            if self._scheduler.status(grant.container_id) is None:
                self._check_wanted(grant)
                self._pass(ContainerScheduled(spec_of(grant, item.launch_context, self._log_dir)))
            return grant.container_id

        done = _each(request.containers, start, lambda item: claimed_id(item.token))
        return protocol.StartContainersResponse(*done)

    def _check_wanted(self, grant: ContainerSpec) -> None:
        because = ""
        if grant.application_id in self._containers.ended_applications:
            because = f"{grant.application_id} has ended"
        elif grant.container_id in self._containers.withdrawn:
            because = "the ResourceManager has withdrawn it"
        if because:
            raise InvalidStateError(f"container {grant.container_id} is refused", because=because)

    def update_containers(
        self, request: protocol.UpdateContainersRequest, key: bytes, now_ms: int
    ) -> protocol.UpdateContainersResponse:
        """Promotions, demotions and resizes that the RM granted: each is applied at once or refused."""

        def update(token: Token) -> str:
            grant = verified_grant(key, token, self._node_id, now_ms)
            self._update_container(grant, self._live_status(grant.container_id))
            return grant.container_id

        return protocol.UpdateContainersResponse(*_each(request.tokens, update, claimed_id))

    def _update_container(self, grant: ContainerSpec, before: ContainerStatus) -> None:
        same = (grant.version, grant.execution_type, grant.resource)
        if same == (before.version, before.execution_type, before.resource):
            return  # The RM has delivered the update already.
        if grant.version <= before.version:
            because = f"it already has version {before.version}; the token has {grant.version}"
            raise InvalidStateError(f"container {grant.container_id} is not updated", because=because)
        self._pass(ContainerUpdated(grant.container_id, grant.version, grant.execution_type, grant.resource))
        after = self._scheduler.status(grant.container_id)
        if after is None or after.version != grant.version:
            because = "this node has no room for it" if after is not None else "it has ended"
            raise InvalidStateError(f"container {grant.container_id} is not updated", because=because)

    def stop_containers(
        self, request: protocol.StopContainersRequest, user: str
    ) -> protocol.StopContainersResponse:
        """End the containers that are on this node; ended ones count as stopped."""
        cause = Cause(CauseKind.PERSON, by=user) if request.by_person else Cause(CauseKind.MASTER)
        diagnostics = request.diagnostics or BY_MASTER
        here, missing = _each(request.container_ids, self._status_now)
        known = [status.container_id for status in here]
        for event in self._containers.kills(known, request.exit_status, cause, diagnostics):
            self._pass(event)
        return protocol.StopContainersResponse(tuple(known), missing)

    def container_statuses(
        self, request: protocol.GetContainerStatusesRequest
    ) -> protocol.GetContainerStatusesResponse:
        """The present statuses, with the last measurement of usage; for waiting containers, their place and the
        reason."""
        _, failed = _each(request.container_ids, self._status_now)
        statuses = self._scheduler.statuses(request.container_ids, finished=request.finished)
        return protocol.GetContainerStatusesResponse(tuple(statuses), failed)

    def signal_container(self, request: protocol.SignalContainerRequest) -> ContainerStatus:
        """Send a signal to every process of a live container. Raises YoppError if it is not live."""
        status = self._live_status(request.container_id)
        if not 1 <= request.signal <= 64:
            raise InvalidStateError(
                f"{request.signal} is not a signal",
                because="signals are 1 to 64",
                hint="`yopp container signal --signal TERM` ends it gracefully",
            )
        self._pass(ContainerSignalRequested(request.container_id, request.signal))
        return status

    def pause_container(self, request: protocol.PauseContainerRequest, user: str) -> ContainerStatus:
        """Begin to pause a container of either type; a paused container stays paused until a user resumes it."""
        container_id = request.container_id
        status = self._live_status(container_id)
        if (why := _NO_PAUSE.get(status.state)) is not None:
            because, hint = why
            raise InvalidStateError(
                f"container {container_id} cannot be paused", because=because, hint=hint.format(container_id)
            )
        if not self._scheduler.is_held(container_id):
            self._pass(ContainerPauseRequested(container_id, request.diagnostics or BY_USER, by=user))
        return self._status_now(container_id)

    def resume_container(self, request: protocol.ResumeContainerRequest, user: str) -> ContainerStatus:
        """Resume a container that a user paused. Raises InvalidStateError for any other."""
        container_id = request.container_id
        status = self._live_status(container_id)
        if not self._scheduler.is_held(container_id):
            paused = status.state in (ContainerState.PAUSING, ContainerState.PAUSED)
            if paused and of_kind(status.cause, CauseKind.RESUMED):
                return status  # It waits for room.
            reason = "it made room for a guaranteed container; it resumes by itself when there is room"
            if self._scheduler.gives_way(container_id):
                reason = "the machine is busy with higher-priority work; it resumes by itself"
            hint = f"`yopp container promote {container_id}` makes it guaranteed"
            if status.state is ContainerState.SCHEDULED:
                reason = "it is not paused: it is QUEUED, and starts by itself when there is room"
                if status.execution_type is ExecutionType.GUARANTEED:
                    hint = f"`yopp explain {container_id}` shows why it waits"
            elif not paused:
                reason = f"it is not paused: it is {status.state.value}"
                hint = f"`yopp container pause {container_id}` pauses it"
            raise InvalidStateError(f"container {container_id} cannot be resumed", because=reason, hint=hint)
        self._pass(ContainerResumeRequested(container_id, by=user))
        return self._status_now(container_id)

    def _status_now(self, container_id: str) -> ContainerStatus:
        status = self._scheduler.status(container_id)
        if status is None:
            raise ContainerNotFoundError(
                f"Container {container_id} is not handled by this NodeManager ({self._node_id})",
                because="it never ran on this node, or ended long ago",
                hint=f"`yopp container status {container_id}` shows what the ResourceManager knows about it",
                sought=container_id,
            )
        return status

    def _live_status(self, container_id: str) -> ContainerStatus:
        status = self._status_now(container_id)
        if status.state is ContainerState.DONE:
            raise InvalidStateError(
                f"container {container_id} has ended",
                because="an ended container cannot be changed",
                hint=f"`yopp container status {container_id}` shows how it ended",
            )
        return status
