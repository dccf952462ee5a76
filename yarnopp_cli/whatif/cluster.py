"""The placement of a job by a copy of the ResourceManager's machine, to which the job is submitted. Pure.

The nodes of the copy have no news: their heartbeats repeat their last reports. The copy's answers to heartbeats are
the orders that the real nodes would get.
"""

from __future__ import annotations

from typing import Any

from executor.light import made_of, replace
from executor.reasons import by_rule

from ..allocation.asks import normalise
from ..errors import InvalidResourceRequestError, YoppError
from ..machine.calls import CallReceived, Reply, ReplyError
from ..records.explanation import ForeseeJobRequest, Holders, JobForecast, Reason, ReasonCode
from ..records.job_protocol import SubmitApplicationRequest, SubmitApplicationResponse, SubmitJobRequest
from ..records.reports import GONE, NodeState
from ..records.requests import ContainerLaunchContext
from ..records.tracker_protocol import NodeHeartbeatRequest, NodeHeartbeatResponse, NodeOrders
from ..resourcemanager.commands import Placement
from ..resourcemanager.entities import RMApp
from ..resourcemanager.machine import ResourceManager

_FIRST_CALL = 1 << 60
"""The copy's own calls have greater numbers than all others."""
_MOST_BEATS = 20
_VAIN = (ReasonCode.TOO_BIG, ReasonCode.NO_NODE)
_UNUSABLE = (ReasonCode.NODE_DRAINING, ReasonCode.NODE_UNUSABLE)


def place(rm: ResourceManager, call: CallReceived, now: float) -> Placement:
    """The placement of the containers of a job if it were submitted by this call; ``rm`` is a copy, and cannot be used
    again."""
    request: ForeseeJobRequest = call.request
    settings = rm.context.settings
    sizes = dict.fromkeys(task.resource for phase in request.job.phases for task in phase.tasks)
    rounded = {size: normalise(size, settings) for size in sizes}
    rest = JobForecast(rounded=tuple((one, size) for one, size in rounded.items() if one != size))
    copy, master = _Copy(rm, call, now), None
    try:
        if request.detached and (request.job.pi is not None or not _hosts(rm)):
            master = copy.submit_master(request)
            if master.attempt.am_container is None:
                return Placement(rest=_outstanding(rm, master, replace(rest, later=request.job.size + 1)))
        app = copy.submit(request)
    except InvalidResourceRequestError as error:
        why = by_rule(ReasonCode.TOO_BIG.value, _told(error))
        return Placement(rest=replace(rest, impossible=request.job.phases[0].size, because=why))
    except YoppError as error:
        return Placement(rest=replace(rest, refused=_told(error)))
    end = rm.hosting.end_of(app.id)[1]
    if end is not None:
        told = end.message or end.diagnostics
        return Placement(rest=replace(rest, refused=f"{told}: {end.because}" if end.because else told))
    if master is not None:
        app.attempt.am_container = master.attempt.am_container  # No container of the job has room there.
    granted: dict[str, int] = {}
    for container in app.attempt.containers.values():
        granted[container.node.node_id] = granted.get(container.node.node_id, 0) + 1
    rest = _outstanding(rm, app, replace(rest, later=request.job.size - sum(granted.values())))
    return Placement(
        app.id, {name: tuple(told) for name, told in copy.orders.items() if name in granted}, granted, rest
    )


def _hosts(rm: ResourceManager) -> bool:
    return rm.context.settings.hosted_masters and not rm.context.distributed


def _told(error: YoppError) -> str:
    return f"{error.message}: {error.because}" if error.because else error.message


def _outstanding(rm: ResourceManager, app: RMApp, found: JobForecast) -> JobForecast:
    """The part of a job that is requested and not granted, with the reasons."""
    for asked in rm.explaining.asked(app.attempt, why=True):
        found = replace(found, later=found.later - asked.number)
        vain = [one for one in asked.reasons if one.code in _VAIN]
        unusable = tuple(one for one in asked.reasons if one.code in _UNUSABLE)
        if vain:
            found = replace(found, impossible=found.impossible + asked.number, because=vain[0])
            continue
        # Containers of the job itself exist only in the copy.
        why = () if unusable else tuple(_without(one, app.id) for one in asked.reasons)
        found = replace(
            found,
            waiting=found.waiting + asked.number,
            held=found.held + asked.number * bool(unusable),
            unusable=tuple(dict.fromkeys((*found.unusable, *unusable))),
            why=tuple(dict.fromkeys((*found.why, *why))),
        )
    return found


def _without(reason: Reason, application_id: str) -> Reason:
    mark = application_id.removeprefix("application") + "_"
    named = any(mark in one for one in (*reason.by, reason.holders.oldest))
    return replace(reason, by=(), holders=Holders()) if named else reason


class _Copy:
    """A copy of the RM, and its ``orders`` for the nodes, by node id."""

    def __init__(self, rm: ResourceManager, call: CallReceived, now: float) -> None:
        self.orders: dict[str, list[NodeOrders]] = {}
        self._rm, self._call, self._now = rm, call, now
        self._last = _FIRST_CALL
        nodes = rm.context.nodes.values()
        self._beats = {node.held.call_id: node.node_id for node in nodes if node.held is not None}

    def submit(self, request: ForeseeJobRequest) -> RMApp:
        """Submit the job with a hosted master, to begin now. Raises the errors of the submission."""
        context = self._rm.context
        context.settings, context.distributed = replace(context.settings, hosted_masters=True), False
        submission = replace(request.context, begin_at_ms=0, after=(), deadline_at_ms=0, key="")
        return self._take_in(SubmitJobRequest(submission, request.job, attached=False))

    def submit_master(self, request: ForeseeJobRequest) -> RMApp:
        """Submit an application for the container of the job's master."""
        spec = ContainerLaunchContext(("master",))
        submission = replace(
            request.context, begin_at_ms=0, after=(), unmanaged=False, am_container_spec=spec, key=""
        )
        return self._take_in(SubmitApplicationRequest(submission))

    def _take_in(self, request: SubmitApplicationRequest | SubmitJobRequest) -> RMApp:
        response: SubmitApplicationResponse = self._ask(request)
        for _ in range(_MOST_BEATS):
            if not self._beat():
                break
        return self._rm.context.applications[response.application_id]

    def _beat(self) -> bool:
        """Make a heartbeat of each node. Returns whether one of the answers had orders."""
        told = sum(map(len, self.orders.values()))
        for node in list(self._rm.context.nodes.values()):
            if node.connected and node.state not in GONE:
                beat = NodeHeartbeatRequest(
                    node.node_id,
                    node.secret,
                    node.response_id,
                    opportunistic=node.load.status,
                    node_utilization=node.node_utilization,
                    containers_utilization=node.containers_utilization,
                    wait_ms=60_000,
                    healthy=node.state is not NodeState.UNHEALTHY,
                    health_report=node.health_report,
                    http_address=node.registration.http_address,
                )
                self._beats[self._last + 1] = node.node_id
                self._ask(beat, node.connection_id)
        return sum(map(len, self.orders.values())) > told

    def _ask(self, request: object, connection_id: int | None = None) -> Any:
        """The answer to a call, None if there is none yet. Raises the error of a refusal."""
        self._last += 1
        connection = self._call.connection_id if connection_id is None else connection_id
        event = replace(self._call, call_id=self._last, connection_id=connection, request=request)
        answer: Any = None
        for command in self._rm.handle(event, self._now):
            match command:
                case Reply(call_id, NodeHeartbeatResponse() as response) if call_id in self._beats:
                    if response.tasks_to_start or response.containers_to_start:
                        self.orders.setdefault(self._beats[call_id], []).append(made_of(NodeOrders, response))
                case Reply(call_id, response) if call_id == self._last:
                    answer = response
                case ReplyError(call_id, error) if call_id == self._last:
                    raise error
        return answer
