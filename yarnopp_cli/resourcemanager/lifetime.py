"""The end of the cluster: on request, with its last job, or never by itself.

An ending RM refuses new work, sends SHUTDOWN to its nodes, waits a bounded time for them to unregister, and asks its
daemon to stop.
"""

from __future__ import annotations

from ..errors import ConnectionFailedError, InvalidStateError, ShuttingDownError
from ..machine.calls import CallReceived, StopDaemon
from ..records.client_protocol import (
    SetLifetimeRequest,
    SetLifetimeResponse,
    ShutdownClusterRequest,
    ShutdownClusterResponse,
)
from ..records.reports import ON_DEMAND, STAY
from .app_manager import RMAppManager
from .commands import ForgetState
from .context import RMContext
from .due import Due, DueKind
from .services.client_rm_service import ClientRMService
from .services.resource_tracker_service import ResourceTrackerService

FIRST_JOB_WITHIN = 10.0
"""Seconds that an on-demand cluster waits for its first job."""
ENDING_GRACE = 5.0
"""Seconds that nodes have to end their containers and unregister."""
_IDLE, _ENDING = Due(DueKind.IDLE), Due(DueKind.ENDING)


class Lifetime:
    """Decides when the cluster ends, and ends it."""

    def __init__(
        self,
        context: RMContext,
        manager: RMAppManager,
        tracker: ResourceTrackerService,
        clients: ClientRMService,
    ) -> None:
        self._rm = context
        self._manager = manager
        self._tracker = tracker
        self._clients = clients
        self._stopped = False
        self._reason = ""
        if context.lifetime == ON_DEMAND:
            identity = context.identity
            started_at = identity.began_at_ms / 1000 - identity.wall_offset
            context.deadlines.set(_IDLE, started_at + FIRST_JOB_WITHIN)

    def set_lifetime(self, request: SetLifetimeRequest) -> SetLifetimeResponse:
        """Make the cluster stay, or end with its last job."""
        if request.lifetime not in (STAY, ON_DEMAND):
            raise InvalidStateError(
                f"a cluster's lifetime cannot be {request.lifetime!r}", because=f"it is {STAY} or {ON_DEMAND}"
            )
        if self._rm.ending:
            raise ShuttingDownError("the cluster is shutting down")
        self._rm.lifetime = request.lifetime
        self._rm.deadlines.clear(_IDLE)
        if request.lifetime == ON_DEMAND and not self._rm.applications_started:
            self._rm.deadlines.set(_IDLE, self._rm.now + FIRST_JOB_WITHIN)
        return SetLifetimeResponse(self._clients.info())

    def shutdown(self, call: CallReceived, request: ShutdownClusterRequest) -> None:
        """End the cluster. A second call gets the same answer."""
        pids = [self._rm.identity.pid]
        pids += [
            node.registration.pid
            for node in self._rm.nodes.values()
            if node.usable and not node.unregistered and node.registration.pid > 0
        ]
        self._rm.reply(call.call_id, ShutdownClusterResponse(tuple(pids)))
        if self._rm.ending:
            return
        self._tracker.keep_containers = request.keep_containers
        if not request.keep_containers:
            for app in list(self._rm.live.values()):
                self._manager.kill(app, "Application killed by the cluster's shutdown.")
        self._begin_to_end("it was asked to end")

    def check(self) -> None:
        """Begin to end after the last job, and stop when the last node has unregistered; called at the end of each
        step."""
        if self._rm.ending:
            self._stop_if_alone()
            return
        if self._rm.lifetime != ON_DEMAND or not self._rm.applications_started:
            return
        if self._rm.live or self._rm.unheard or self._rm.containers_kept:
            self._rm.deadlines.clear(_IDLE)
        elif _IDLE not in self._rm.deadlines:
            linger = self._rm.settings.on_demand_linger_ms / 1000
            if linger > 0:
                self._rm.deadlines.set(_IDLE, self._rm.now + linger)
            else:
                self._begin_to_end("its last job has ended")

    def idle_for_long(self) -> None:
        """No job came in time."""
        in_use = self._rm.live or self._rm.unheard or self._rm.containers_kept
        if self._rm.lifetime == ON_DEMAND and not in_use and not self._rm.ending:
            reason = "its last job has ended" if self._rm.applications_started else "no job was submitted"
            self._begin_to_end(reason)

    def _begin_to_end(self, reason: str) -> None:
        self._rm.ending = True
        self._reason = reason
        self._rm.deadlines.clear(_IDLE)
        self._rm.deadlines.set(_ENDING, self._rm.now + ENDING_GRACE)
        for node in self._rm.nodes.values():
            self._tracker.answer(node)
        self._clients.waits.check()
        self._stop_if_alone()

    def _stop_if_alone(self) -> None:
        if not any(node.connected and not node.unregistered for node in self._rm.nodes.values()):
            self.stop()

    def stop(self) -> None:
        """Stop the daemon: the last node has unregistered, or the time to unregister has passed."""
        if self._stopped:
            return
        self._stopped = True
        self._rm.deadlines.clear(_ENDING)
        for app in self._rm.live.values():
            held = app.attempt.held
            if held is not None:
                self._rm.forget_held(app.attempt)
                # A master whose container is kept waits for the next RM process, and its job waits, too.
                waits = self._tracker.keep_containers and not app.unmanaged
                kind = ConnectionFailedError if waits else ShuttingDownError
                self._rm.refuse(held.call_id, kind("the cluster has ended", because=self._reason))
        if not self._tracker.keep_containers:
            self._rm.changes.commands.append(ForgetState())
        self._rm.changes.commands.append(StopDaemon(self._reason))
