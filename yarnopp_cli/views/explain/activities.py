"""YARN's documents of scheduler activities (ActivitiesInfo, AppActivitiesInfo), for the present state. Pure.

``date`` is the time of the answer in Java's format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executor.light import replace

from ...records.reports import FINAL_STATES, ApplicationReport
from ...records.scheduler_protocol import (
    ApplicationActivity,
    GetActivitiesResponse,
    NodeActivity,
    RequestActivity,
)
from .reasons import text

ACTIONS = ("refresh", "get")
ACCEPTED, SKIPPED = "ACCEPTED", "SKIPPED"


def _nodes(nodes: Sequence[NodeActivity], *, grouped: bool) -> list[dict[str, Any]]:
    """One entry per node, or with ``grouped`` one per state and diagnostic."""
    groups: dict[tuple[str, str], list[str]] = {}
    every = []
    for one in nodes:
        state, why = ACCEPTED, "there is room: others are served first"
        if one.reason is not None:
            state, why = SKIPPED, text(replace(one.reason, where="this node"))
        every.append({"nodeId": one.node_id, "allocationState": state, "diagnostic": why})
        groups.setdefault((state, why), []).append(one.node_id)
    if not grouped:
        return every
    return [
        {"allocationState": state, "diagnostic": why, "count": len(names), "nodeIds": names}
        for (state, why), names in groups.items()
    ]


def _request(one: RequestActivity, *, grouped: bool) -> dict[str, Any]:
    what = f"{one.outstanding} {one.execution_type.value} of {one.resource}"
    return {
        "requestPriority": one.priority,
        "allocationRequestId": one.allocation_request_id,
        "allocationState": SKIPPED,
        "diagnostic": f"{what}: {text(one.limit)}" if one.limit is not None else f"{what} wait",
        "children": _nodes(one.nodes, grouped=grouped),
    }


def _skipped(**names: Any) -> dict[str, Any]:
    return {**names, "allocationState": SKIPPED, "diagnostic": "", "children": []}


def cluster(answer: GetActivitiesResponse, node_id: str, date: str, *, grouped: bool) -> dict[str, Any]:
    """YARN's answer to ``GET …/scheduler/activities``: the tree of queues, their waiting applications and the
    requests of these.
    """
    waiting = [app for app in answer.applications if app.requests]
    found: dict[str, Any] = {"nodeId": node_id} if node_id else {}
    found |= {"timestamp": answer.at_ms, "dateTime": date}
    if not waiting:
        return {"activities": {**found, "diagnostic": "nothing is requested", "allocations": []}}
    root = _skipped(name="root")
    for app in waiting:
        at = root
        for name in app.queues[1:]:
            below = next((one for one in at["children"] if one["name"] == name), None)
            if below is None:
                below = _skipped(name=name)
                at["children"].append(below)
            at = below
        asks = [_request(one, grouped=grouped) for one in app.requests]
        at["children"].append(
            _skipped(name=app.application_id, appPriority=app.priority) | {"children": asks}
        )
    allocation = {"partition": "", "updatedContainerId": "", "finalAllocationState": SKIPPED, "root": root}
    return {"activities": {**found, "allocations": [allocation]}}


def application(
    report: ApplicationReport,
    answer: GetActivitiesResponse,
    date: str,
    *,
    grouped: bool,
    priorities: frozenset[int],
    request_ids: frozenset[int],
    actions: frozenset[str],
) -> dict[str, Any]:
    """YARN's answer to ``GET …/scheduler/app-activities/{id}``. An empty filter matches all."""
    found: dict[str, Any] = {
        "applicationId": report.application_id,
        "timestamp": answer.at_ms,
        "dateTime": date,
    }
    if actions == {"refresh"}:
        return {"appActivities": {**found, "diagnostic": "Successfully notified actions: refresh"}}
    app: ApplicationActivity | None = answer.applications[0] if answer.applications else None
    requests = [
        one
        for one in (app.requests if app is not None else ())
        if (not priorities or one.priority in priorities)
        and (not request_ids or one.allocation_request_id in request_ids)
    ]
    if app is None or not requests:
        why = f"{report.application_id} has ended" if report.state in FINAL_STATES else "nothing is requested"
        return {"appActivities": {**found, "diagnostic": why, "allocations": []}}
    allocation = {
        "queueName": app.queues[-1],
        "appPriority": str(app.priority),
        "timestamp": answer.at_ms,
        "dateTime": date,
        "allocationState": SKIPPED,
        "requestAllocation": [_request(one, grouped=grouped) for one in requests],
    }
    return {"appActivities": {**found, "allocations": [allocation]}}
