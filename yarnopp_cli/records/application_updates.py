"""ApplicationClientProtocol, the calls that change an application while it lives: queue, priority, lifetime."""

from __future__ import annotations

from executor.light import dataclass

from .reports import ApplicationReport


@dataclass(frozen=True, slots=True)
class MoveApplicationAcrossQueuesRequest:
    """Move a live application to another queue."""

    application_id: str
    target_queue: str


@dataclass(frozen=True, slots=True)
class MoveApplicationAcrossQueuesResponse:
    """As it is now."""

    application: ApplicationReport


@dataclass(frozen=True, slots=True)
class UpdateApplicationPriorityRequest:
    """Give a live application another priority; a larger number is more important, as in YARN."""

    application_id: str
    priority: int


@dataclass(frozen=True, slots=True)
class UpdateApplicationPriorityResponse:
    """As it is now."""

    application: ApplicationReport


@dataclass(frozen=True, slots=True)
class UpdateApplicationTimeoutsRequest:
    """Let a live application end at ``expires_at_ms`` (epoch milliseconds); 0 for never."""

    application_id: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class UpdateApplicationTimeoutsResponse:
    """As it is now."""

    application: ApplicationReport


METHODS: dict[str, tuple[type, type]] = {
    "moveApplicationAcrossQueues": (MoveApplicationAcrossQueuesRequest, MoveApplicationAcrossQueuesResponse),
    "updateApplicationPriority": (UpdateApplicationPriorityRequest, UpdateApplicationPriorityResponse),
    "updateApplicationTimeouts": (UpdateApplicationTimeoutsRequest, UpdateApplicationTimeoutsResponse),
}
"""Method -> (request, response)."""
