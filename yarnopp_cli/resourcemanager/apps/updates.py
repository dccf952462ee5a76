"""Changes to an application that lives: the end of its lifetime, its tags (``ClientRMService``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...errors import InvalidStateError
from ...machine.calls import CallReceived
from ...records import client_protocol as protocol
from ..context import RMContext
from .applications import RMApp

MOST_TAGS = 10
LONGEST_TAG = 100


class ApplicationUpdates:
    """``find`` gives an application by its id, or raises."""

    def __init__(self, context: RMContext, find: Callable[[str], RMApp]) -> None:
        self._context = context
        self._find = find

    def limit_lifetime(
        self, call: CallReceived, request: protocol.UpdateApplicationTimeoutsRequest, now: float
    ) -> None:
        """Another end of its lifetime."""
        context = self._context
        app = self._live(request.application_id)
        key = ("timeout", app.id)
        moment = request.expires_at_ms / 1000 - context.identity.wall_offset
        if request.expires_at_ms > 0 and moment <= now:
            raise InvalidStateError(
                "the expiry time is in the past",
                because="an application cannot end before now",
                hint="name a time that is to come; `yopp app kill` ends it now",
            )
        report = replace(app.report(now), timeout_at_ms=max(0, request.expires_at_ms))
        if not request.dry_run and request.expires_at_ms <= 0:
            context.deadlines.clear(key)
            app.context = replace(app.context, timeout_ms=0)
        elif not request.dry_run:
            context.deadlines.set(key, moment)
            app.context = replace(app.context, timeout_ms=request.expires_at_ms - app.submitted_ms)
        context.reply(call.call_id, protocol.ApplicationResponse(report))

    def set_tags(
        self, call: CallReceived, request: protocol.UpdateApplicationTagsRequest, now: float
    ) -> None:
        """Other tags (no call of YARN's, which takes them at submission only)."""
        app = self._live(request.application_id)
        tags = tuple(dict.fromkeys(request.tags))
        _check_tags(tags)
        report = replace(app.report(now), tags=tags)
        if not request.dry_run:
            app.context = replace(app.context, tags=tags)
        self._context.reply(call.call_id, protocol.ApplicationResponse(report))

    def _live(self, application_id: str) -> RMApp:
        app = self._find(application_id)
        if app.ended:
            raise InvalidStateError(
                f"Application {app.id} cannot be changed",
                because=f"it is {app.state.value}",
                hint="`yopp app list` shows those that live",
            )
        return app


def _check_tags(tags: tuple[str, ...]) -> None:
    """YARN's bounds of tags (``ApplicationSubmissionContextPBImpl``). Raises InvalidStateError."""
    problem = ""
    if len(tags) > MOST_TAGS:
        problem = f"there are {len(tags)}, and {MOST_TAGS} are the most"
    for tag in tags:
        if len(tag) > LONGEST_TAG:
            problem = f"one has {len(tag)} characters, and {LONGEST_TAG} are the most"
        elif not tag or not tag.isascii() or not tag.isprintable() or "," in tag:
            problem = "a tag is printable ASCII without a comma, and not empty"
    if problem:
        raise InvalidStateError(
            "these cannot be the tags of an application",
            because=problem,
            hint="yopp app tags last nightly big",
        )
