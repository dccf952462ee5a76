"""Changes to an application that lives: its queue, its priority, the end of its lifetime (``ClientRMService``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import InvalidStateError, UsageError
from ..records import application_updates as protocol
from .applications import RMApp
from .calls import CallReceived
from .context import RMContext

LARGEST_PRIORITY = 2**31 - 1


class ApplicationUpdates:
    """``find`` gives an application by its id, or raises; ``check_queue`` raises for a queue that is not there."""

    def __init__(
        self, context: RMContext, find: Callable[[str], RMApp], check_queue: Callable[[str], None]
    ) -> None:
        self._context = context
        self._find = find
        self._check_queue = check_queue

    def move(
        self, call: CallReceived, request: protocol.MoveApplicationAcrossQueuesRequest, now: float
    ) -> None:
        """To another queue."""
        app = self._live(request.application_id)
        self._check_queue(request.target_queue)
        app.context = replace(app.context, queue=request.target_queue)
        self._context.scheduler.dirty = True
        self._context.reply(call.call_id, protocol.MoveApplicationAcrossQueuesResponse(app.report(now)))

    def prioritise(
        self, call: CallReceived, request: protocol.UpdateApplicationPriorityRequest, now: float
    ) -> None:
        """Another place in the order of applications."""
        if abs(request.priority) > LARGEST_PRIORITY:
            raise UsageError(f"a priority of {request.priority} is out of bounds")
        app = self._live(request.application_id)
        app.context = replace(app.context, priority=request.priority)
        self._context.scheduler.dirty = True
        self._context.reply(call.call_id, protocol.UpdateApplicationPriorityResponse(app.report(now)))

    def limit_lifetime(
        self, call: CallReceived, request: protocol.UpdateApplicationTimeoutsRequest, now: float
    ) -> None:
        """Another end of its lifetime."""
        context = self._context
        app = self._live(request.application_id)
        key = ("timeout", app.id)
        if request.expires_at_ms <= 0:
            context.deadlines.clear(key)
            app.context = replace(app.context, timeout_ms=0)
        else:
            moment = request.expires_at_ms / 1000 - context.identity.wall_offset
            if moment <= now:
                raise InvalidStateError(
                    "the expiry time is in the past", because="an application cannot end before now"
                )
            context.deadlines.set(key, moment)
            app.context = replace(app.context, timeout_ms=request.expires_at_ms - app.submitted_ms)
        context.reply(call.call_id, protocol.UpdateApplicationTimeoutsResponse(app.report(now)))

    def _live(self, application_id: str) -> RMApp:
        app = self._find(application_id)
        if app.ended:
            raise InvalidStateError(
                f"Application {app.id} cannot be changed", because=f"it is {app.state.value}"
            )
        return app
