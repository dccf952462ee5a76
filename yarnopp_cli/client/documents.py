"""Converts YARN's REST documents into our reports, so that the same tables show them. Pure.

A field that a version of YARN does not have yet keeps its default; a field of another type than YARN's raises
a ValueError with its name. Fields that only yopp has are read from the object ``yopp``, if there is one.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from executor.light import replace
from executor.reasons import by_rule
from executor.records import (
    MEMORY_MB,
    MIB,
    VCORES,
    ContainerState,
    ContainerUsage,
    ExecutionType,
    OpportunisticContainersStatus,
    Others,
    Resource,
    ResourceUtilization,
    counted,
)

from ..errors import InvalidIdError
from ..records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from ..records.reports import (
    ApplicationAttemptReport,
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    JobSummary,
    NodeReport,
    NodeState,
    QueueReport,
    QueueUserReport,
    YarnApplicationState,
)
from ..views.applications import COUNTS, SUMMARY

Document = Mapping[str, Any]
EnumT = TypeVar("EnumT", bound=enum.StrEnum)
_INVALID_EXIT = -1000
_SHELL_FAILED = re.compile(
    r"Application Failure: desired = (\d{1,9}), completed = (\d{1,9}), allocated = \d+, failed = (\d{1,9}), "
    r"diagnostics = .{,2000}?Exit code: (\d{1,3})\b",
    re.DOTALL,
)
"""The diagnostics of Hadoop's distributed shell, with the exit code of its first failed container."""
_LOG_HEAD = re.compile(rb"\n*Container: [^\n]*\n(?:[^\n]*\n){0,5}?LogLength:(\d{1,18})\nLogContents:\n")
_LOG_END = b"End of LogType:"
_NODE_STATES = {
    **{one.value: one for one in ContainerState},
    **dict.fromkeys(
        ("RELAUNCHING", "REINITIALIZING", "REINITIALIZING_AWAITING_KILL"), ContainerState.RUNNING
    ),
    **dict.fromkeys(
        (
            "EXITED_WITH_SUCCESS",
            "EXITED_WITH_FAILURE",
            "CONTAINER_RESOURCES_CLEANINGUP",
            "LOCALIZATION_FAILED",
        ),
        ContainerState.KILLING,
    ),
    "LOCALIZED": ContainerState.SCHEDULED,
    "CONTAINER_CLEANEDUP_AFTER_KILL": ContainerState.DONE,
    "COMPLETE": ContainerState.DONE,
}
"""Our state for each state of YARN's ContainerImpl and of the RM's ContainerState."""


def members(document: Document, plural: str, singular: str) -> list[Document]:
    """The objects of ``{"apps": {"app": […]}}``: none for null, and one if YARN omits the brackets.

    YARN also omits the outer name if its answer is a bare set: the containers of an attempt.
    """
    if plural not in document and isinstance(document.get(singular), list | dict):
        document = {plural: document}
    outer = document.get(plural)
    if outer is None or outer == "":
        return []
    inner = _table(document, plural).get(singular)
    found = [] if inner is None else inner if isinstance(inner, list) else [inner]
    if not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{plural}.{singular} is not a list of objects")
    return found


def member(document: Document, name: str) -> Document:
    """The object of ``{"app": {…}}``. Raises ValueError."""
    if not isinstance(document.get(name), dict):
        raise ValueError(f"it has no {name}")
    return _table(document, name)


def is_ours(document: Document) -> bool:
    """Whether the document is from a yopp cluster, which reports more than YARN does."""
    return isinstance(document.get("yopp"), dict)


def application(document: Document) -> ApplicationReport:
    """An AppInfo."""
    ours = _table(document, "yopp")
    counts = _table(ours, "containers")
    application_id = _id(document, "id", ApplicationId)
    opportunistic = _table(ours, "opportunistic")
    report = ApplicationReport(
        application_id=application_id,
        name=_text(document, "name"),
        user=_text(document, "user"),
        queue=_text(document, "queue"),
        application_type=_text(document, "applicationType"),
        state=_member(document, "state", YarnApplicationState, YarnApplicationState.NEW),
        final_status=_member(
            document, "finalStatus", FinalApplicationStatus, FinalApplicationStatus.UNDEFINED
        ),
        progress=_number(document, "progress") / 100,
        diagnostics=_text(document, "diagnostics"),
        priority=_whole(document, "priority"),
        tags=tuple(filter(None, _text(document, "applicationTags").split(","))),
        current_attempt_id=_text(ours, "currentAttempt"),
        am_container_id=_text(ours, "amContainer"),
        am_node_id=_text(document, "masterNodeId") or _text(document, "amHostHttpAddress"),
        unmanaged=document.get("unmanagedApplication") is True,
        hosted=ours.get("hostedMaster") is True,
        postponed=ours.get("postponed") is True,
        begin_at_ms=_whole(ours, "beginAt"),
        after=tuple(map(str, waits)) if isinstance(waits := ours.get("after"), list) else (),
        deadline_at_ms=_whole(ours, "deadlineAt"),
        submitted_at_ms=_whole(document, "startedTime"),
        started_at_ms=_whole(document, "launchTime"),
        finished_at_ms=_whole(document, "finishedTime"),
        allocated=Resource(
            max(0, _whole(document, "allocatedMB")), max(0, _whole(document, "allocatedVCores"))
        ),
        containers_running=max(0, _whole(document, "runningContainers")),
        containers_preempted=_whole(document, "numNonAMContainerPreempted"),
        memory_seconds=_whole(document, "memorySeconds"),
        vcore_seconds=_whole(document, "vcoreSeconds"),
        log_directory=_text(ours, "logDirectory") or _text(document, "amContainerLogs"),
        results=_text(ours, "results"),
        command_line=_text(ours, "command"),
        summary=_summary(ours, _text(document, "diagnostics")),
        opportunistic_allocated_total=_whole(opportunistic, "allocated"),
        promoted_total=_whole(opportunistic, "promoted"),
        guaranteed_allocated_total=_whole(_table(ours, "guaranteed"), "allocated"),
    )
    if not counts:
        return report
    numbers: dict[str, Any] = {field: _whole(counts, key) for field, key in COUNTS.items()}
    return replace(report, **numbers)


_WORDS = ("paused_for", "first_failure")


def _summary(ours: Document, diagnostics: str) -> JobSummary | None:
    """The counts and the exit code of a job's master; for a failed distributed shell of Hadoop, from its
    diagnostics."""
    if not (counted := _table(ours, "summary")):
        if not (said := _SHELL_FAILED.match(diagnostics)):
            return None
        total, completed, failed, code = (int(one) for one in said.groups())
        return JobSummary(total=total, completed=completed, failed=failed, exit_code=code)
    told: dict[str, Any] = {
        field: (_text if field in _WORDS else _whole)(counted, key) for field, key in SUMMARY.items()
    }
    return JobSummary(**told, exit_code=_whole(ours, "exit", -1))


def attempt(document: Document, application_id: str) -> ApplicationAttemptReport:
    """An AppAttemptInfo. Before Hadoop 3.0 it has no full id."""
    attempt_id = _text(document, "appAttemptId")
    if not attempt_id:
        parsed = ApplicationId.parse(application_id)
        attempt_id = str(ApplicationAttemptId(parsed, _whole(document, "id")))
    return ApplicationAttemptReport(
        attempt_id=attempt_id,
        state=_text(document, "appAttemptState"),
        am_container_id=_text(document, "containerId"),
        diagnostics=_text(document, "diagnosticsInfo"),
        started_at_ms=_whole(document, "startTime"),
        finished_at_ms=_whole(document, "finishedTime"),
        am_node_id=_text(document, "nodeId"),
        am_http_address=_text(document, "nodeHttpAddress"),
    )


def node(document: Document) -> NodeReport:
    """A NodeInfo. Before Hadoop 3.0 it has nothing about opportunistic containers."""
    ours = _table(document, "yopp")
    used = Resource(_whole(document, "usedMemoryMB"), _whole(document, "usedVirtualCores"))
    free = Resource(_whole(document, "availMemoryMB"), _whole(document, "availableVirtualCores"))
    total = _table(document, "totalResource")
    measured = _table(document, "resourceUtilization")
    memory_o = _whole(ours, "usedMemoryOpportMB") or 1024 * _whole(document, "usedMemoryOpportGB")
    labels = document.get("nodeLabels") or []
    return NodeReport(
        node_id=_text(document, "id"),
        state=_member(document, "state", NodeState, NodeState.NEW),
        address=_text(ours, "address") or _text(document, "id"),
        http_address=_text(document, "nodeHTTPAddress"),
        rack=_text(document, "rack"),
        labels=tuple(str(one) for one in labels) if isinstance(labels, list) else (str(labels),),
        total=_size(total) if total else Resource(used.memory + free.memory, used.vcores + free.vcores),
        used=replace(used, others=_others(_table(document, "usedResource"))),
        num_containers=_whole(document, "numContainers"),
        guaranteed_paused=_whole(ours, "guaranteedPaused"),
        opportunistic=OpportunisticContainersStatus(
            running=_whole(document, "numRunningOpportContainers"),
            memory_used=memory_o,
            vcores_used=_whole(document, "usedVirtualCoresOpport"),
            others_used=_counts(ours, "usedResourcesOpport"),
            queued=_whole(document, "numQueuedContainers"),
            wait_queue_length=_whole(ours, "waitQueueLength"),
            queue_capacity=_whole(ours, "queueCapacity", -1),
            paused=_whole(ours, "paused"),
            estimated_queue_wait_ms=_whole(ours, "estimatedQueueWaitMs", -1),
            wait_estimates=_whole(ours, "queueWaitEstimates"),
            wait_error_ms=_whole(ours, "queueWaitErrorMs", -1),
            mean_wait_ms=_whole(ours, "meanQueueWaitMs", -1),
            shed=_whole(ours, "shedContainers"),
            closed_until_ms=_whole(ours, "opportunisticClosedUntil"),
        ),
        node_utilization=ResourceUtilization(
            _whole(measured, "nodePhysicalMemoryMB") * MIB,
            _number(measured, "nodeCPUUsage"),
            _number(ours, "load1", -1.0),
        ),
        containers_utilization=ResourceUtilization(
            _whole(measured, "aggregatedContainersPhysicalMemoryMB") * MIB,
            _number(measured, "containersCPUUsage"),
        ),
        queue_limit=_whole(ours, "queueLimit", -1),
        last_heartbeat_ms=_whole(document, "lastHealthUpdate"),
        health_report=_text(document, "healthReport"),
        version=_text(document, "version"),
        connected=ours.get("connected") is not False,
        pid=_whole(ours, "pid"),
    )


def container(document: Document, node_id: str = "") -> ContainerReport:
    """A ContainerInfo of a NodeManager, or the shorter one of the ResourceManager."""
    ours = _table(document, "yopp")
    of_node = "containerId" not in document
    container_id = _id(document, "id" if of_node else "containerId", ContainerId)
    exit_status = _whole(document, "exitCode" if of_node else "containerExitStatus", _INVALID_EXIT)
    word = _text(document, "state" if of_node else "containerState")
    command = ours.get("command")
    used = _table(ours, "used")
    return ContainerReport(
        container_id=container_id,
        application_id=str(ContainerId.parse(container_id).application_id),
        node_id=_text(document, "nodeId") or _text(document, "assignedNodeId") or node_id,
        execution_type=_member(document, "executionType", ExecutionType, ExecutionType.GUARANTEED),
        resource=Resource(
            _whole(document, "totalMemoryNeededMB" if of_node else "allocatedMB"),
            _whole(document, "totalVCoresNeeded" if of_node else "allocatedVCores"),
            _counts(ours, "resources") or _entries(document, "allocatedResources"),
        ),
        state=_NODE_STATES.get(word),
        exit_status=exit_status if _NODE_STATES.get(word) is ContainerState.DONE else _INVALID_EXIT,
        exit_code=exit_status if exit_status >= 0 and _NODE_STATES.get(word) is ContainerState.DONE else None,
        diagnostics=_text(document, "diagnostics" if of_node else "diagnosticsInfo"),
        priority=_whole(document, "priority") or _whole(ours, "priority"),
        user=_text(document, "user"),
        command=tuple(str(one) for one in command) if isinstance(command, list) else (),
        pid=_whole(ours, "pid"),
        position=_whole(ours, "position"),
        why=tuple(
            by_rule(_text(one, "code"), _text(one, "text")) for one in members({"yopp": ours}, "yopp", "why")
        ),
        allocated_at_ms=_whole(ours, "allocatedAt"),
        queued_at_ms=_whole(ours, "queuedSince"),
        started_at_ms=_whole(document, "startedTime") or _whole(ours, "startedAt"),
        finished_at_ms=_whole(document, "finishedTime") or _whole(ours, "finishedAt"),
        log_directory=_text(document, "containerLogsLink") or _text(document, "logUrl"),
        is_am=ours.get("am") is True,
        devices=tuple(map(str, devices)) if isinstance(devices := ours.get("devices"), list) else (),
        task=_whole(ours, "task") if isinstance(ours.get("task"), int) else None,
        usage=ContainerUsage(
            cpu_seconds=_number(used, "cpuSeconds"), memory_bytes=round(_number(used, "rssMB") * MIB)
        ),
    )


def queues(document: Document) -> list[tuple[QueueReport, Document]]:
    """The queues of ``GET …/scheduler`` with their documents, parents first. Raises ValueError for any
    scheduler but the CapacityScheduler: its documents differ."""
    info = _table(_table(document, "scheduler"), "schedulerInfo")
    kind = _text(info, "type")
    if "capacity" not in kind.lower():
        raise ValueError(
            f"its scheduler is {kind or 'not named'}; only the CapacityScheduler's queues are supported"
        )
    root = {"queueName": "root", **info}
    return list(_below(root, "", 1.0))


def _below(document: Document, parent: str, share: float) -> Iterator[tuple[QueueReport, Document]]:
    """A queue and those below it. ``share`` is the parent's share of the cluster, for versions that do not
    report absolute capacities."""
    ours, resources = _table(document, "yopp"), _table(document, "resourcesUsed")
    name = _text(document, "queueName")
    path = _text(document, "queuePath") or (f"{parent}.{name}" if parent else name)
    capacity, maximum = _number(document, "capacity"), _number(document, "maxCapacity")
    absolute = _number(document, "absoluteCapacity", capacity * share)
    below = members(document, "queues", "queue")
    promised, most = _table(ours, "guaranteed"), _table(ours, "maximum")
    opportunistic = _table(ours, "opportunistic")
    report = QueueReport(
        name=name,
        path=path,
        parent=parent,
        leaf=not below,
        state=_text(document, "state") or "RUNNING",
        capacity=capacity,
        maximum_capacity=maximum,
        absolute_capacity=absolute,
        absolute_maximum_capacity=_number(document, "absoluteMaxCapacity", maximum * share),
        used_capacity=_number(document, "usedCapacity"),
        absolute_used_capacity=_number(document, "absoluteUsedCapacity"),
        used=_size(resources),
        guaranteed=_size(promised),
        maximum=_size(most),
        applications=_whole(document, "numApplications"),
        running_applications=_whole(document, "numActiveApplications"),
        maximum_applications=_whole(document, "maxApplications"),
        pending_containers=_whole(document, "pendingContainers") or _whole(document, "numPendingContainers"),
        pending_guaranteed=_whole(ours, "pendingGuaranteed"),
        ordering_policy=_text(document, "orderingPolicyInfo"),
        user_limit_factor=_number(document, "userLimitFactor", 1.0),
        minimum_user_limit_percent=round(_number(document, "userLimit", 100)),
        preemption_disabled=document.get("preemptionDisabled") is not False,
        opportunistic=_size(opportunistic),
        opportunistic_containers=_whole(opportunistic, "containers"),
        users=tuple(_user(one) for one in members(document, "users", "user")),
    )
    yield report, document
    for one in below:
        yield from _below(one, path, absolute / 100)


def log_files(document: Document) -> list[str]:
    """The names of a container's log files at a node; since Hadoop 3.0 in one object or in a list
    of objects."""
    outer = document.get("containerLogsInfo")
    return list(
        dict.fromkeys(
            str(one["fileName"])
            for info in (outer if isinstance(outer, list) else [outer])
            if isinstance(info, dict)
            for one in members({"files": info}, "files", "containerLogInfo")
            if one.get("fileName")
        )
    )


def log_text(body: bytes) -> bytes:
    """The output of a container, without the lines that Hadoop's NodeManagers put before and after it."""
    head = _LOG_HEAD.match(body)
    if head is None:
        return body
    length, rest = int(head[1]), body[head.end() :]
    if rest[length : length + 20].lstrip(b"\n").startswith(_LOG_END):
        return rest[:length]
    before, end, _ = rest.partition(b"\n" + _LOG_END)
    return before if end else rest.partition(_LOG_END)[0]


def _user(document: Document) -> QueueUserReport:
    used = _table(document, "resourcesUsed")
    beside = _table(_table(document, "yopp"), "opportunistic")
    return QueueUserReport(
        _text(document, "username"),
        _size(used),
        _whole(document, "numActiveApplications") + _whole(document, "numPendingApplications"),
        _size(beside),
    )


def _entries(document: Document, key: str) -> Others:
    """The entries of YARN's map by resource, except memory and vcores."""
    return _named(_table(document, key).get("entry"), "key")


def _size(document: Document) -> Resource:
    return Resource(_whole(document, "memory"), _whole(document, "vCores"), _others(document))


def _others(document: Document) -> Others:
    """The resource types of a ResourceInfo except memory and vcores; none before Hadoop 3.1."""
    return _named(_table(document, "resourceInformations").get("resourceInformation"), "name")


def _named(told: object, key: str) -> Others:
    """The amounts in a list of objects, or in the only one, whose names are under ``key``."""
    each = told if isinstance(told, list) else [told]
    named = {_text(one, key): _whole(one, "value") for one in each if isinstance(one, dict)}
    return counted({name: value for name, value in named.items() if name not in ("", MEMORY_MB, VCORES)})


def _counts(document: Document, key: str) -> Others:
    """Amounts by name."""
    table = _table(document, key)
    return counted({name: _whole(table, name) for name in table})


def _id(document: Document, key: str, kind: Any) -> str:
    text = _text(document, key)
    try:
        return str(kind.parse(text))
    except InvalidIdError:
        raise ValueError(f"{key} is not an id: {text[:60]!r}") from None


def _table(document: Document, key: str) -> Document:
    value = document.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} is not an object")
    return value


def _text(document: Document, key: str) -> str:
    value = document.get(key)
    if value is None:
        return ""
    if isinstance(value, dict | list):
        raise ValueError(f"{key} is not a string")
    return str(value)


def _number(document: Document, key: str, default: float = 0.0) -> float:
    value = document.get(key)
    if value is None or value == "":
        return default
    try:
        if isinstance(value, bool | dict | list):
            raise ValueError
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return default
        if number != number or abs(number) > 2**63:  # Java writes NaN and infinities as strings
            return default
        return number
    except ValueError:
        raise ValueError(f"{key} is not a number") from None


def _whole(document: Document, key: str, default: int = 0) -> int:
    return int(_number(document, key, default))


def _member(document: Document, key: str, kind: type[EnumT], default: EnumT) -> EnumT:
    """A member of an enumeration; the default for a word that only another version knows (FINISHING)."""
    word = _text(document, key).upper()
    return kind(word) if word in set(kind) else default
