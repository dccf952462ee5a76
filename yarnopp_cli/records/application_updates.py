"""ApplicationClientProtocol, what changes an application while it lives: the end of its lifetime, its tags."""

from __future__ import annotations

from executor.light import dataclass

from .reports import ApplicationReport


@dataclass(frozen=True, slots=True)
class UpdateApplicationTimeoutsRequest:
    """Let a live application end at ``expires_at_ms`` (epoch milliseconds); 0 for never.

    ``dry_run`` changes nothing.
    """

    application_id: str
    expires_at_ms: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class UpdateApplicationTimeoutsResponse:
    """As it is now."""

    application: ApplicationReport


@dataclass(frozen=True, slots=True)
class UpdateApplicationTagsRequest:
    """Let a live application have these tags and no others. ``dry_run`` changes nothing."""

    application_id: str
    tags: tuple[str, ...]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class UpdateApplicationTagsResponse:
    """As it is now."""

    application: ApplicationReport


METHODS: dict[str, tuple[type, type]] = {
    "updateApplicationTags": (UpdateApplicationTagsRequest, UpdateApplicationTagsResponse),
    "updateApplicationTimeouts": (UpdateApplicationTimeoutsRequest, UpdateApplicationTimeoutsResponse),
}
"""Method -> (request, response)."""
