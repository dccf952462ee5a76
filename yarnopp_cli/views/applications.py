"""Applications and their attempts as tables and as YARN's AppInfo documents."""

from __future__ import annotations

from executor.hints import Any
from executor.records import Resource

from ..records.ids import numbered
from ..records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    FinalApplicationStatus,
    JobSummary,
    YarnApplicationState,
    flaws_text,
    plain_diagnostics,
)
from ..records.requests import ResourceRequest, waits_for
from ..records.times import timestamp
from .cluster import logs_link, timeout_document, usage_document
from .columns import ID, MEGABYTES, NUMBER, PERCENT, SPAN, STATE, TIME, Column, Noun, or_dash
from .resources import entries_document, resource_document
from .text import SHED, span

_KILLED_CODE = 143
_UNASSIGNED = "UNASSIGNED"


def exit_code(report: ApplicationReport) -> int | None:
    """The exit code of an ended application's job; None while it is live.

    If it has none of its own: 143 (SIGTERM) if it was killed, like the exit code of its client; else 1.
    """
    if report.state not in FINAL_STATES:
        return None
    succeeded = report.final_status is FinalApplicationStatus.SUCCEEDED
    code = report.summary.exit_code if report.summary is not None else -1
    if code > 0 or (code == 0 and succeeded):
        return code
    if report.state is YarnApplicationState.KILLED or report.final_status is FinalApplicationStatus.KILLED:
        return _KILLED_CODE
    return 0 if succeeded and report.state is YarnApplicationState.FINISHED else 1


def elapsed_ms(report: ApplicationReport, now_ms: int) -> int:
    """How long the application has run, or ran; 0 if it has not started."""
    begin = report.started_at_ms or report.submitted_at_ms
    return max(0, (report.finished_at_ms or now_ms) - begin) if begin else 0


def _since_submitted_ms(report: ApplicationReport, now_ms: int) -> int:
    """YARN's elapsed time, which counts from ``startedTime``, the time of submission."""
    begin = report.submitted_at_ms or report.started_at_ms
    return max(0, (report.finished_at_ms or now_ms) - begin) if begin else 0


def counts_text(report: ApplicationReport) -> str:
    """The application's containers by state, in words; states without containers are left out."""
    told = {word: getattr(report, field) for field, word in COUNTS.items()}
    told["preempted"] -= told["shed"]
    counted = [(told[word], word) for word in ("running", *(word for word in told if word != "running"))]
    return ", ".join(f"{number} {word}" for number, word in counted if number) or "none"


def work_text(report: ApplicationReport, now_ms: int) -> str:
    """The application's containers by state, or the conditions for which it waits before it begins."""
    return waits_for(report.begin_at_ms, report.after, now_ms) if report.postponed else counts_text(report)


def diagnostics_text(report: ApplicationReport) -> str:
    """Why the application waits or ended, for users."""
    told = plain_diagnostics(report.diagnostics, report.summary)
    return told or (flaws_text(report.summary) if report.summary is not None else "")


def columns(now_ms: int) -> tuple[Column[ApplicationReport], ...]:
    """The columns of ``app list``; ``now_ms`` is the epoch time to which running times are counted."""
    return (
        Column(
            "id",
            "APPLICATION",
            lambda app: app.application_id,
            short=lambda app: numbered(app.application_id),
            kind=ID,
        ),
        Column("name", "NAME", lambda app: app.name, flexible=True),
        Column("type", "TYPE", lambda app: app.application_type, spare=1),
        Column("user", "USER", lambda app: app.user, wide=True),
        Column("queue", "QUEUE", lambda app: app.queue, wide=True),
        Column("state", "STATE", lambda app: app.state.value, kind=STATE),
        Column("final", "FINAL", lambda app: app.final_status.value),
        Column("exit", "EXIT", exit_code, lambda app: or_dash(exit_code(app)), kind=NUMBER, spare=4),
        Column("progress", "PROGRESS", _percent_done, progress_text, kind=PERCENT, spare=2),
        Column("elapsed", "TIME", lambda app: elapsed_ms(app, now_ms), kind=SPAN, spare=3),
        Column("containers", "CONTAINERS", lambda app: work_text(app, now_ms), flexible=True),
        Column("memory", "MEM", lambda app: app.allocated.memory, kind=MEGABYTES, wide=True),
        Column("vcores", "VC", lambda app: app.allocated.vcores, kind=NUMBER, wide=True),
        Column("priority", "PRIORITY", lambda app: app.priority, kind=NUMBER, wide=True),
        Column("tags", "TAGS", lambda app: ",".join(app.tags), flexible=True, wide=True),
        Column("started", "STARTED", lambda app: app.started_at_ms, kind=TIME, wide=True),
        Column("finished", "FINISHED", lambda app: app.finished_at_ms, kind=TIME, wide=True),
        Column("command", "COMMAND", lambda app: app.command_line, flexible=True, wide=True, ours=True),
    )


_MORE: tuple[Column[ApplicationReport], ...] = (
    Column("submitted", "", lambda app: app.submitted_at_ms, kind=TIME),
    Column("running", "", lambda app: app.containers_running, kind=NUMBER),
    Column("queued", "", lambda app: app.containers_queued, kind=NUMBER),
    Column("paused", "", lambda app: app.containers_paused, kind=NUMBER),
    Column("memoryMB", "", lambda app: app.allocated.memory, kind=NUMBER),
)
"""Further columns of pages and ``yopp top``."""

PAGE: tuple[tuple[str, str], ...] = (
    ("ID", "id"), ("User", "user"), ("Name", "name"), ("Application Type", "type"),
    ("Application Tags", "tags"), ("Queue", "queue"), ("Application Priority", "priority"),
    ("StartTime", "submitted"), ("LaunchTime", "started"), ("FinishTime", "finished"), ("State", "state"),
    ("FinalStatus", "final"), ("Running Containers", "running"), ("Queued Containers", "queued"),
    ("Paused Containers", "paused"), ("Allocated CPU VCores", "vcores"), ("Allocated Memory MB", "memoryMB"),
    ("Progress", "progress"),
)  # fmt: skip
"""The columns of YARN's page of applications that apply to one host, with queued and paused containers beside
the running: titles and column keys.
"""


def by_key(now_ms: int) -> dict[str, Column[ApplicationReport]]:
    """All columns by their keys, including those of pages and ``yopp top``."""
    return {column.key: column for column in (*columns(now_ms), *_MORE)}


def _percent_done(app: ApplicationReport) -> float:
    return round(100 * app.progress, 1)


def progress_text(app: ApplicationReport) -> str:
    """The application's progress in whole percent."""
    return f"{100 * app.progress:.0f}%"


SUMMARY = {
    field: field
    for field in (
        *("total", "completed", "failed", "guaranteed", "opportunistic", "queued", "preempted", "shed"),
        *("lost", "promoted", "upgraded", "awaited", "waited", "paused", "retried"),
    )
} | {
    "wait_ms_total": "waitMsTotal",
    "wait_ms_max": "waitMsMax",
    "paused_ms_total": "pausedMsTotal",
    "paused_for": "pausedFor",
    "processes_killed": "processesKilled",
    "forks_refused": "forksRefused",
    "output_lost": "outputLost",
    "first_failure": "firstFailure",
}
"""A master's counts: the field of ``JobSummary``, and its key below ``yopp.summary``."""
COUNTS = {
    "containers_queued": "queued",
    "containers_running": "running",
    "containers_paused": "paused",
    "pending_containers": "pending",
    "containers_done": "done",
    "containers_killed": "killed",
    "containers_failed": "failed",
    "containers_preempted": "preempted",
    "containers_shed": "shed",
    "containers_lost": "lost",
}
"""An application's containers by state: the field of its report, and its key below ``yopp.containers``."""


def _request(ask: ResourceRequest) -> dict[str, Any]:
    """One ResourceRequestInfo."""
    wanted = ask.execution_type_request
    return {
        "priority": ask.priority,
        "allocationRequestId": ask.allocation_request_id,
        "resourceName": ask.resource_name,
        "capability": resource_document(ask.capability),
        "numContainers": ask.num_containers,
        "relaxLocality": ask.relax_locality,
        "nodeLabelExpression": ask.node_label_expression,
        "executionTypeRequest": {
            "executionType": wanted.execution_type.value,
            "enforceExecutionType": wanted.enforce,
        },
    }


def _resource_info(app: ApplicationReport) -> dict[str, Any] | None:
    """A ResourcesInfo of the only partition; as in YARN, null for an ended application."""
    if app.state in FINAL_STATES:
        return None
    pending = sum((one.capability * one.num_containers for one in app.usage.requests), Resource())
    return usage_document(app.usage.guaranteed, app.usage.master, pending=resource_document(pending))


def document(app: ApplicationReport, now_ms: int) -> dict[str, Any]:
    """One AppInfo."""
    usage = app.usage
    preempted = (usage.preempted_memory_seconds, usage.preempted_vcore_seconds)
    return {
        "id": app.application_id,
        "user": app.user,
        "name": app.name,
        "queue": app.queue,
        "state": app.state.value,
        "finalStatus": app.final_status.value,
        "progress": round(100 * app.progress, 2),
        "trackingUI": _tracking(app),
        "trackingUrl": _tracking_url(app),
        "diagnostics": app.diagnostics,
        "clusterId": _number(app.application_id, 1),
        "applicationType": app.application_type,
        "applicationTags": ",".join(app.tags),
        "priority": app.priority,
        "startedTime": app.submitted_at_ms or app.started_at_ms,
        "launchTime": app.started_at_ms,
        "finishedTime": app.finished_at_ms,
        "elapsedTime": _since_submitted_ms(app, now_ms),
        "amContainerLogs": logs_link(usage.am_http_address, app.am_container_id, app.user),
        "amHostHttpAddress": usage.am_http_address,
        "amRPCAddress": "",
        "masterNodeId": app.am_node_id,
        "allocatedMB": app.allocated.memory,
        "allocatedVCores": app.allocated.vcores,
        "reservedMB": 0,
        "reservedVCores": 0,
        "runningContainers": app.containers_running,
        "memorySeconds": app.memory_seconds,
        "vcoreSeconds": app.vcore_seconds,
        "queueUsagePercentage": round(usage.queue_percent, 2),
        "clusterUsagePercentage": round(usage.cluster_percent, 2),
        "resourceSecondsMap": entries_document(app.memory_seconds, app.vcore_seconds),
        "preemptedResourceMB": usage.preempted.memory,
        "preemptedResourceVCores": usage.preempted.vcores,
        "numNonAMContainerPreempted": app.containers_preempted - usage.preempted_masters,
        "numAMContainerPreempted": usage.preempted_masters,
        "preemptedMemorySeconds": preempted[0],
        "preemptedVcoreSeconds": preempted[1],
        "preemptedResourceSecondsMap": entries_document(*preempted),
        "resourceRequests": [_request(one) for one in usage.requests],
        "logAggregationStatus": "DISABLED",
        "unmanagedApplication": app.unmanaged,
        "appNodeLabelExpression": usage.node_label_expression,
        "amNodeLabelExpression": usage.node_label_expression,
        "resourceInfo": _resource_info(app),
        "timeouts": {"timeout": [timeout_document(app, now_ms)]},
        "yopp": _ours(app),
    }


def _ours(app: ApplicationReport) -> dict[str, Any]:
    """The facts that YARN's AppInfo does not have."""
    summary = app.summary
    return {
        "containers": {key: getattr(app, field) for field, key in COUNTS.items()},
        "exit": exit_code(app),
        "opportunistic": {
            "asked": app.opportunistic_allocated_total + app.opportunistic_pending,
            "allocated": app.opportunistic_allocated_total,
            "promoted": app.promoted_total,
        },
        "guaranteed": {"allocated": app.guaranteed_allocated_total},
        "summary": summary and {key: getattr(summary, field) for field, key in SUMMARY.items()},
        "command": app.command_line,
        "currentAttempt": app.current_attempt_id,
        "attempts": app.attempts,
        "amContainer": app.am_container_id,
        "hostedMaster": app.hosted,
        "postponed": app.postponed,
        "beginAt": app.begin_at_ms,
        "after": list(app.after),
        "deadlineAt": app.deadline_at_ms,
        "logDirectory": app.log_directory,
        "results": app.results,
    }


def _tracking(app: ApplicationReport) -> str:
    """YARN's word for the target of the tracking URL: UNASSIGNED before the master has registered."""
    if app.state in FINAL_STATES:
        return "History"
    running = app.state is YarnApplicationState.RUNNING and app.tracking_url
    return "ApplicationMaster" if running else _UNASSIGNED


def where_without_container(report: ApplicationReport | ApplicationAttemptReport) -> str:
    """The place where a master without a container runs, in words."""
    return "hosted by the ResourceManager" if report.hosted else "in its client"


def _tracking_url(app: ApplicationReport) -> str:
    return app.tracking_url if _tracking(app) != _UNASSIGNED else ""


def _number(identifier: str, place: int) -> int:
    """The number at a position of an id; 0 if there is none."""
    parts = identifier.split("_")
    return int(parts[place]) if len(parts) > 1 and parts[place].isdigit() else 0


def fields(app: ApplicationReport, now_ms: int) -> list[tuple[str, str]]:
    """The output of ``app status``: YARN's fields in YARN's order, then those that YARN does not have."""
    memory, cpu = app.memory_seconds, app.vcore_seconds
    guaranteed, opportunistic = app.guaranteed_allocated_total, app.opportunistic_allocated_total
    lines = [
        ("Application-Id", app.application_id),
        ("Application-Name", app.name),
        ("Application-Type", app.application_type),
        ("User", app.user),
        ("Queue", app.queue),
        ("Application Priority", str(app.priority)),
        ("Start-Time", timestamp(app.submitted_at_ms or app.started_at_ms)),
        ("Launch-Time", timestamp(app.started_at_ms)),
        ("Finish-Time", timestamp(app.finished_at_ms)),
        ("Elapsed", span(elapsed_ms(app, now_ms))),
        ("Progress", progress_text(app)),
        ("State", app.state.value),
        ("Final-State", app.final_status.value),
        ("Exit", or_dash(exit_code(app))),
        ("Tracking-URL", _tracking_url(app) or "N/A"),
        ("AM Host", app.am_node_id or (where_without_container(app) if app.unmanaged else "N/A")),
        ("Aggregate Resource Allocation", f"{memory} MB-seconds, {cpu} vcore-seconds"),
        ("Containers", counts_text(app)),
        ("Allocated", f"{guaranteed} guaranteed, {opportunistic} opportunistic"),
    ]
    if app.summary is not None and app.summary.completed:
        lines.append(("Ran", summary_text(app.summary)))
    if app.postponed and app.begin_at_ms > now_ms:
        lines.append(("Begins", timestamp(app.begin_at_ms)))
    if app.deadline_at_ms:
        lines.append(("Deadline", timestamp(app.deadline_at_ms)))
    if app.tags:
        lines.append(("Application Tags", ",".join(app.tags)))
    if app.results:
        lines.append(("Results", app.results))
    lines += [
        ("Command", app.command_line),
        ("Logs", app.log_directory),
        ("Diagnostics", diagnostics_text(app)),
    ]
    return lines


def summary_text(summary: JobSummary) -> str:
    """The outcome of a job's containers, in one line."""
    mean = summary.wait_ms_total / summary.completed if summary.completed else 0
    return (
        f"{summary.opportunistic} opportunistic, {summary.guaranteed} guaranteed; "
        f"{summary.awaited} of them waited to be granted, {summary.queued} of them queued, "
        f"{summary.preempted - summary.shed} preempted, {summary.shed} {SHED}, {summary.promoted} promoted; "
        f"waited {span(mean)} on average, {span(summary.wait_ms_max)} at most, from request to start"
        + (f"; {summary.lost} lost and requested again" if summary.lost else "")
        + (f"; {summary.retried} failed and tried again" if summary.retried else "")
        + (f"; {pauses_text(summary)}" if summary.paused else "")
        + (f"; {told}" if (told := flaws_text(summary)) else "")
    )


_PAUSED_FOR = {
    "LOAD": ", because of the load of other programs",
    "MEMORY": ", because memory was short",
    "WINDOW": ", outside the time window for opportunistic containers",
    "GUARANTEED": ", to make room for guaranteed containers",
    "RESIZE": ", because a node was made smaller",
    "PERSON": ", by a user",
}


def pauses_text(summary: JobSummary) -> str:
    """The number of paused containers, their total time, and the reason: ``2 paused, 80 s in all, by load of …``."""
    return f"{summary.paused} paused, {span(summary.paused_ms_total)} in total{_PAUSED_FOR.get(summary.paused_for, '')}"


ATTEMPT_COLUMNS: tuple[Column[ApplicationAttemptReport], ...] = (
    Column("id", "ATTEMPT", lambda attempt: attempt.attempt_id),
    Column("state", "STATE", lambda attempt: attempt.state, kind=STATE),
    Column("container", "AM CONTAINER", lambda attempt: attempt.am_container_id or "-"),
    Column("started", "STARTED", lambda attempt: attempt.started_at_ms, kind=TIME),
    Column("finished", "FINISHED", lambda attempt: attempt.finished_at_ms, kind=TIME),
    Column("diagnostics", "DIAGNOSTICS", lambda attempt: attempt.diagnostics, flexible=True),
)


def attempt_document(attempt: ApplicationAttemptReport) -> dict[str, Any]:
    """One AppAttemptInfo."""
    address, container = attempt.am_http_address, attempt.am_container_id
    return {
        "id": _number(attempt.attempt_id, -1),
        "startTime": attempt.started_at_ms,
        "finishedTime": attempt.finished_at_ms,
        "containerId": container,
        "nodeHttpAddress": address,
        "nodeId": attempt.am_node_id,
        "logsLink": logs_link(address, container, attempt.user),
        "blacklistedNodes": ", ".join(attempt.blacklist),
        "nodesBlacklistedBySystem": "",
        "appAttemptId": attempt.attempt_id,
        "exportPorts": "null",  # YARN writes this word if there are none.
        "appAttemptState": attempt.state,
        "diagnosticsInfo": attempt.diagnostics,
    }


def _attempt_fields(attempt: ApplicationAttemptReport) -> list[tuple[str, str]]:
    """The output of ``attempt status``."""
    return [
        ("ApplicationAttempt-Id", attempt.attempt_id),
        ("State", attempt.state),
        ("AMContainer", attempt.am_container_id or f"none: its master is {where_without_container(attempt)}"),
        ("Start-Time", timestamp(attempt.started_at_ms)),
        ("Finish-Time", timestamp(attempt.finished_at_ms)),
        ("Diagnostics", attempt.diagnostics),
    ]


FINALS = tuple(status.value for status in FinalApplicationStatus)
"""The values of the column FINAL."""

APPLICATIONS: Noun[ApplicationReport] = Noun(
    "app",
    "apps",
    identity=lambda app: app.application_id,
    columns=columns,
    document=document,
    fields=fields,
    states=("ALL", *(state.value for state in YarnApplicationState)),
    finals=FINALS,
    ours=frozenset({"Allocated", "Ran", "Begins", "Deadline", "Results", "Command"}),
)

ATTEMPTS: Noun[ApplicationAttemptReport] = Noun(
    "appAttempt",
    "appAttempts",
    identity=lambda attempt: attempt.attempt_id,
    columns=lambda now_ms: ATTEMPT_COLUMNS,
    document=lambda attempt, now_ms: attempt_document(attempt),
    fields=lambda attempt, now_ms: _attempt_fields(attempt),
    states=(
        "NEW",
        "SCHEDULED",
        "ALLOCATED",
        "LAUNCHED",
        "RUNNING",
        "FINISHING",
        "FINISHED",
        "FAILED",
        "KILLED",
    ),
)
