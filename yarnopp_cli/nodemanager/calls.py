"""What a NodeManager makes of the requests of masters: tokens to container specs and updates
(ContainerManagerImpl).

Pure functions; they raise YoppError for what the caller did wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from executor.records import ContainerSpec, ExecutionType, Resource

from ..errors import ContainerNotFoundError, InvalidStateError, InvalidTokenError, YoppError
from ..machine import tokens
from ..records.container_protocol import FailedContainer
from ..records.requests import Container, ContainerLaunchContext, Token


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
        raise InvalidTokenError("a container token lacks what it should say", because=repr(error)) from None


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
        raise InvalidStateError("the launch context cannot be run", because=problem)


def failed(container_id: str, error: YoppError) -> FailedContainer:
    """How one container of several is refused."""
    message = f"{error.message}: {error.because}" if error.because else error.message
    return FailedContainer(container_id, error.exception, message)


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
        f"Container {container_id} is not handled by this NodeManager ({node_id})", sought=container_id
    )
