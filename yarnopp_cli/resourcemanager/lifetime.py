"""When the cluster ends: never by itself, with its last job, or because somebody says so.

An ending RM refuses new work, sends SHUTDOWN to its nodes, waits a bounded time for them to unregister, and
asks its daemon to stop.
"""

from __future__ import annotations

from ..errors import InvalidStateError, ShuttingDownError
from ..machine.calls import CallReceived, StopDaemon
from ..records.client_protocol import (
    SetLifetimeRequest,
    SetLifetimeResponse,
    ShutdownClusterRequest,
    ShutdownClusterResponse,
)
from .app_manager import RMAppManager
from .context import RMContext
from .due import Due, DueKind
from .services.client_rm_service import ClientRMService
from .services.resource_tracker_service import ResourceTrackerService

STAY, ON_DEMAND = "stay", "on-demand"
FIRST_JOB_WITHIN = 10.0
"""Seconds that an on-demand cluster waits for the job it was started for."""
ENDING_GRACE = 5.0
"""Seconds that nodes have to end their containers and unregister."""
_IDLE, _ENDING = Due(DueKind.IDLE), Due(DueKind.ENDING)


class Lifetime:
    """The cluster's end."""

    def __init__(
        self,
        context: RMContext,
        manager: RMAppManager,
        tracker: ResourceTrackerService,
        clients: ClientRMService,
    ) -> None:
        self._context = context
        self._manager = manager
        self._tracker = tracker
        self._clients = clients
        self._stopped = False
        self._reason = ""
        if context.lifetime == ON_DEMAND:
            context.deadlines.set(_IDLE, context.identity.started_at + FIRST_JOB_WITHIN)

    def set_lifetime(self, request: SetLifetimeRequest, now: float) -> SetLifetimeResponse:
        """Make the cluster stay, or end with its last job."""
        if request.lifetime not in (STAY, ON_DEMAND):
            raise InvalidStateError(
                f"a cluster's lifetime cannot be {request.lifetime!r}", because=f"it is {STAY} or {ON_DEMAND}"
            )
        if self._context.ending:
            raise ShuttingDownError("the cluster is shutting down")
        self._context.lifetime = request.lifetime
        self._context.deadlines.clear(_IDLE)
        if request.lifetime == ON_DEMAND and not self._context.applications_started:
            self._context.deadlines.set(_IDLE, now + FIRST_JOB_WITHIN)
        return SetLifetimeResponse(self._clients.info(now))

    def shutdown(self, call: CallReceived, request: ShutdownClusterRequest, now: float) -> None:
        """End everything. A second call only tells again who is ending."""
        context = self._context
        pids = [context.identity.pid]
        pids += [
            node.registration.pid
            for node in context.nodes.values()
            if node.usable and not node.unregistered and node.registration.pid > 0
        ]
        context.reply(call.call_id, ShutdownClusterResponse(tuple(pids)))
        if context.ending:
            return
        self._tracker.keep_containers = request.keep_containers
        if not request.keep_containers:
            for app in list(context.live.values()):
                self._manager.kill(app, "Application killed by the cluster's shutdown.", now)
        self._begin_to_end("it was asked to end", now)

    def check(self, now: float) -> None:
        """At the end of each step: begin to end with the last job, and stop when the last node has gone."""
        context = self._context
        if context.ending:
            self._stop_if_alone(now)
            return
        if self._context.lifetime != ON_DEMAND or not context.applications_started:
            return
        if context.live:
            context.deadlines.clear(_IDLE)
        elif _IDLE not in context.deadlines:
            linger = context.settings.on_demand_linger_ms / 1000
            if linger > 0:
                context.deadlines.set(_IDLE, now + linger)
            else:
                self._begin_to_end("its last job has ended", now)

    def idle_for_long(self, now: float) -> None:
        """No job came in time."""
        if self._context.lifetime == ON_DEMAND and not self._context.live and not self._context.ending:
            reason = "its last job has ended" if self._context.applications_started else "no job came"
            self._begin_to_end(reason, now)

    def ended_too_slowly(self, now: float) -> None:
        """Nodes had their time to unregister."""
        self._stop(now)

    def _begin_to_end(self, reason: str, now: float) -> None:
        context = self._context
        context.ending = True
        self._reason = reason
        context.deadlines.clear(_IDLE)
        context.deadlines.set(_ENDING, now + ENDING_GRACE)
        for node in context.nodes.values():
            self._tracker.answer(node)
        self._clients.end_waits(now)
        self._stop_if_alone(now)

    def _stop_if_alone(self, now: float) -> None:
        if not any(node.connected and not node.unregistered for node in self._context.nodes.values()):
            self._stop(now)

    def _stop(self, now: float) -> None:
        if self._stopped:
            return
        self._stopped = True
        context = self._context
        context.deadlines.clear(_ENDING)
        self._clients.end_waits(now)
        for app in context.live.values():
            held = app.attempt.held
            if held is not None:
                app.attempt.held = None
                context.refuse(held.call_id, ShuttingDownError("the cluster has ended", because=self._reason))
        context.changes.commands.append(StopDaemon(self._reason))
