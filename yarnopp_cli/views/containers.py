"""Containers as a table and as the NodeManager's ContainerInfo documents, execution type first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from executor.causes import CauseKind, paused_for
from executor.hints import TYPE_CHECKING, Any
from executor.light import Record, pattern
from executor.records import (
    MIB,
    PREEMPTION_STATUSES,
    SUB_STATES,
    ContainerExitStatus,
    ContainerState,
    Resource,
    exit_status_name,
)

from ..errors import EXIT_TIMEOUT, EXIT_TRY_AGAIN
from ..records.ids import dotted
from ..records.reports import ContainerReport
from ..records.times import timestamp
from .cluster import cause_document
from .columns import ID, MEGABYTES, NUMBER, SPAN, STATE, TIME, Column, Noun, or_dash
from .resources import others_document
from .text import megabytes, others_named, size_text, span

if TYPE_CHECKING:
    from executor.settings import ExecutorSettings

_FLAWS = {CauseKind.PROCESSES_KILLED: "oom", CauseKind.FORKS_REFUSED: "pids", CauseKind.OUTPUT_LOST: "output"}
_INVALID = int(ContainerExitStatus.INVALID)
_SHOWN = {ContainerState.SCHEDULED: "QUEUED"}
_KILL_CODE = 137
_LEAST_MS = 10
"""The accuracy of start and end times, in milliseconds: they are times of the node's messages."""
_PLAIN = pattern(r"[\w@%+=:,./-]+")


class NodeFacts(Record):
    """The facts about a node that determine the limits of its containers.

    ``cgroups`` is "v1", "v2", "hybrid" or "none"; ``physical_cores`` is the number of cores that its vcores
    stand for.
    """

    cgroups: str
    total: Resource
    physical_cores: int
    settings: ExecutorSettings


def shown_state(report: ContainerReport) -> str:
    """The state in yopp's words: QUEUED, RUNNING, PAUSED, DONE, KILLED, …; ALLOCATED before its node reports
    it.
    """
    if report.state is None:
        return "ALLOCATED"
    if report.state is ContainerState.DONE and report.exit_status < 0:
        return "KILLED"
    return _SHOWN.get(report.state, report.state.value)


def _state_cell(report: ContainerReport) -> str:
    """The state; for a paused container with the cause in a word: ``PAUSED (load)``."""
    paused = report.cause is not None and report.state is ContainerState.PAUSED
    word = paused_for(report.cause).lower() if paused and report.cause is not None else ""
    return f"{shown_state(report)} ({word})" if word else shown_state(report)


def is_live(report: ContainerReport) -> bool:
    """Whether a container has not ended."""
    return report.state is not ContainerState.DONE


def shell_code(report: ContainerReport) -> int | None:
    """The exit code as in a shell; None while it is live, 75 if it was preempted or never ran, 124 if it took too
    long, 137 if it was killed.
    """
    if is_live(report):
        return None
    if report.exit_status == EXIT_TIMEOUT:
        return EXIT_TIMEOUT  # Its own exit code is then that of the ending signal.
    if report.exit_status in PREEMPTION_STATUSES:
        return EXIT_TRY_AGAIN
    if report.exit_code is not None:
        return report.exit_code
    return report.exit_status if report.exit_status >= 0 else _KILL_CODE


def since_ms(report: ContainerReport) -> int:
    """The time when the container's present state began, in epoch milliseconds; 0 if not known."""
    if report.state is ContainerState.DONE:
        return report.finished_at_ms
    if report.state in (ContainerState.PAUSING, ContainerState.PAUSED):
        return report.paused_at_ms or report.started_at_ms
    if report.state in (ContainerState.SCHEDULED, ContainerState.LAUNCHING):
        return report.queued_at_ms or report.allocated_at_ms
    return report.resumed_at_ms or report.started_at_ms or report.queued_at_ms or report.allocated_at_ms


def time_ms(report: ContainerReport, now_ms: int) -> int:
    """The time for which a container has run, or ran; for a waiting one, for which it has waited. -1 if not known."""
    ended = report.state is ContainerState.DONE
    begin = (
        report.started_at_ms
        if ended
        else report.started_at_ms or report.queued_at_ms or report.allocated_at_ms
    )
    end = report.finished_at_ms if ended else now_ms
    return max(0, end - begin) if begin and end else -1


def command_text(report: ContainerReport) -> str:
    """The container's command as one line, with the quotes that a shell needs."""
    return " ".join(
        word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'" for word in report.command
    )


def _measured_mb(amount: int) -> str:
    """A size in bytes as MB, with one decimal for small sizes."""
    return megabytes(round(amount / MIB, 1))


def _memory_text(report: ContainerReport) -> str:
    used = report.usage.memory_bytes if is_live(report) else report.usage.memory_peak_bytes
    return f"{_measured_mb(used) if used else '-'} / {megabytes(report.resource.memory)}"


def _known_status(report: ContainerReport) -> int | None:
    return None if report.exit_status == _INVALID else report.exit_status


def _exit_cell(report: ContainerReport) -> str:
    status = _known_status(report)
    flaw = _FLAWS.get(report.cause.kind) if report.cause is not None else None
    told = or_dash(status) if status is None else exit_status_text(status)
    return f"{told} ({flaw})" if flaw else told


def exit_status_text(status: int) -> str:
    """``-105 KILLED_BY_APPMASTER``, and the number of an exit code."""
    return f"{status} {exit_status_name(status)}" if status < 0 else str(status)


def columns(now_ms: int) -> tuple[Column[ContainerReport], ...]:
    """The columns of ``container list`` and ``ps``; ``now_ms`` is the time to which durations are counted."""
    return (
        Column(
            "id",
            "CONTAINER",
            lambda one: one.container_id,
            short=lambda one: dotted(one.container_id),
            kind=ID,
        ),
        Column(
            "type",
            "TYPE",
            lambda one: one.execution_type.value,
            short=lambda one: one.execution_type.value[0],
        ),
        Column("state", "STATE", shown_state, _state_cell, kind=STATE),
        Column("position", "POS", lambda one: one.position, _position, kind=NUMBER, spare=8, ours=True),
        Column("node", "NODE", lambda one: one.node_id, short=_port, spare=3),
        Column("time", "TIME", lambda one: time_ms(one, now_ms), kind=SPAN, spare=6),
        Column("cpu", "CPU", _cpu_seconds, _cpu_text, kind=NUMBER, spare=4, ours=True),
        Column("memory", "MEM", _used_mb, _memory_text, kind=MEGABYTES, spare=2, ours=True),
        Column("vcores", "VC", lambda one: one.resource.vcores, kind=NUMBER, spare=1),
        Column("resources", "RESOURCES", lambda one: others_named(one.resource), wide=True),
        Column(
            "exit",
            "EXIT",
            _known_status,
            _exit_cell,
            short=lambda one: or_dash(_known_status(one)),
            spare=5,
        ),
        Column(
            "task",
            "TASK",
            lambda one: one.task,
            lambda one: or_dash(one.task),
            kind=NUMBER,
            spare=7,
            ours=True,
        ),
        Column("command", "COMMAND", command_text, flexible=True, ours=True),
        Column("app", "APPLICATION", lambda one: one.application_id, wide=True),
        Column("yarnState", "YARN STATE", _yarn_state, wide=True, ours=True),
        Column("user", "USER", lambda one: one.user, wide=True),
        Column("pid", "PID", lambda one: one.pid, _pid, kind=NUMBER, wide=True, ours=True),
        Column("priority", "PRIORITY", lambda one: one.priority, kind=NUMBER, wide=True),
        Column("why", "WHY", _why, flexible=True, wide=True, ours=True),
        Column("since", "SINCE", since_ms, kind=TIME, wide=True),
        Column("throttled", "THROTTLED", throttled_ms, kind=SPAN, wide=True, ours=True),
        Column("started", "STARTED", lambda one: one.started_at_ms, kind=TIME, wide=True),
        Column("finished", "FINISHED", lambda one: one.finished_at_ms, kind=TIME, wide=True),
        Column("diagnostics", "DIAGNOSTICS", lambda one: one.diagnostics.strip(), flexible=True, wide=True),
    )


def by_key(now_ms: int) -> dict[str, Column[ContainerReport]]:
    """All columns by their keys, including the one of pages."""
    allocated = Column[ContainerReport]("allocated", "", lambda one: one.resource.memory, kind=MEGABYTES)
    return {column.key: column for column in (*columns(now_ms), allocated)}


def _port(report: ContainerReport) -> str:
    """The shortest name of the node that can be typed: its port, in which all nodes of a host differ."""
    return report.node_id.rpartition(":")[2]


def _position(report: ContainerReport) -> str:
    return str(report.position or "-")


def _why(report: ContainerReport) -> str:
    from .explain.reasons import briefly

    return briefly(report.why)


def _why_document(report: ContainerReport) -> list[dict[str, str]]:
    """Why it waits, according to its node."""
    if not report.why:
        return []
    from .explain.reasons import text

    return [{"code": one.code, "text": text(one, of=report.application_id)} for one in report.why]


def _pid(report: ContainerReport) -> str:
    return str(report.pid or "-")


def _cpu_seconds(report: ContainerReport) -> float:
    return round(report.usage.cpu_seconds, 3)


def _cpu_text(report: ContainerReport) -> str:
    return f"{report.usage.cpu_seconds:.1f} s" if report.usage.cpu_seconds else "-"


def _used_mb(report: ContainerReport) -> int:
    return report.usage.memory_bytes // MIB


def throttled_ms(report: ContainerReport) -> int:
    """The time for which the kernel has throttled the container's CPU, in milliseconds."""
    return round(report.usage.throttled_seconds * 1000)


def mean_cores(report: ContainerReport, wall_ms: int) -> float:
    """The cores that it has used on average over ``wall_ms`` since its start. A shorter time than the node can measure
    counts as ``_LEAST_MS``: otherwise a container that ends at once would show a multiple of the machine's cores."""
    return report.usage.cpu_seconds * 1000 / max(wall_ms, _LEAST_MS) if report.started_at_ms else 0.0


def _yarn_state(report: ContainerReport) -> str:
    """YARN's state at the NM; yopp's LAUNCHING is SCHEDULED there."""
    if report.state is None:
        return "NEW"
    return "SCHEDULED" if report.state is ContainerState.LAUNCHING else report.state.value


def limits_document(report: ContainerReport, facts: NodeFacts | None) -> dict[str, Any] | None:
    """The limits that the node sets for the container; None if the node is not known. ``cpuQuota`` is in
    cores, null for none.

    ``cpuShares`` is cpu.shares on cgroup v1, cpu.weight on v2, null without cgroups.
    """
    if facts is None:
        return None
    from executor.core.limits import cgroup_limits

    limits = cgroup_limits(
        report.resource,
        report.execution_type,
        facts.settings,
        node_vcores=facts.total.vcores,
        physical_cores=facts.physical_cores,
        least_vcores=1 if report.is_am else 0,
    )
    found: dict[str, Any] = {"cpuQuota": None, "cpuShares": None, "memoryMB": None, "pids": None}
    if limits.memory_max is not None:
        found["memoryMB"] = limits.memory_max // MIB
    if facts.cgroups == "none":
        return found
    if limits.cpu_quota_us is not None:
        found["cpuQuota"] = round(limits.cpu_quota_us / limits.cpu_period_us, 3)
    shares = limits.cpu_weight if facts.cgroups == "v2" else limits.cpu_shares
    return found | {"cpuShares": shares, "pids": limits.pids_max}


def document(report: ContainerReport, now_ms: int, facts: NodeFacts | None = None) -> dict[str, Any]:
    """The NodeManager's ContainerInfo; yopp's own fields and the node's measurements are under ``yopp``."""
    usage = report.usage
    wall_ms = time_ms(report, now_ms) if report.started_at_ms else 0
    since_eligible, since_submit = _waits_ms(report, now_ms)
    return {
        "id": report.container_id,
        "state": _yarn_state(report),
        "exitCode": report.exit_status,
        "diagnostics": report.diagnostics,
        "user": report.user,
        "totalMemoryNeededMB": report.resource.memory,
        "totalVCoresNeeded": report.resource.vcores,
        "executionType": report.execution_type.value,
        "containerLogsLink": f"file://{report.log_directory}" if report.log_directory else "",
        "nodeId": report.node_id,
        "containerLogFiles": ["stdout", "stderr"] if report.started_at_ms else [],
        "yopp": {
            "state": shown_state(report),
            "subState": SUB_STATES[report.state].value if report.state is not None else None,
            "exit": shell_code(report),
            "exitStatus": None if report.exit_status == _INVALID else exit_status_name(report.exit_status),
            "app": report.application_id,
            "am": report.is_am,
            "task": report.task,
            "priority": report.priority,
            "resources": others_document(report.resource.others),
            "devices": list(report.devices),
            "pid": report.pid or None,
            "command": list(report.command),
            "submittedAt": report.submitted_at_ms,
            "eligibleAt": report.eligible_at_ms,
            "allocatedAt": report.allocated_at_ms,
            "queuedSince": report.queued_at_ms,
            "startedAt": report.started_at_ms,
            "finishedAt": report.finished_at_ms,
            "pausedSince": report.paused_at_ms,
            "cause": cause_document(report.cause),
            "refusal": cause_document(report.refusal),
            "promotedAt": report.promoted_at_ms,
            "preemptions": report.preemptions,
            "waitedSinceSubmitMs": since_submit if since_submit >= 0 else None,
            "waitedSinceEligibleMs": since_eligible if since_eligible >= 0 else None,
            "expectedMs": report.duration_hint_ms,
            "position": report.position,
            "why": _why_document(report),
            "cgroup": report.cgroup,
            "logDirectory": report.log_directory,
            "limits": limits_document(report, facts),
            "used": {
                "cpuSeconds": round(usage.cpu_seconds, 3),
                "cpuPercent": round(100 * mean_cores(report, wall_ms), 1),
                "rssMB": round(usage.memory_bytes / MIB, 1),
                "peakMB": round(usage.memory_peak_bytes / MIB, 1),
                "throttledMs": throttled_ms(report),
                "oomKills": usage.oom_kills,
                "refusedForks": usage.refused_forks,
                "processes": usage.processes,
            },
        },
    }


def documents(
    reports: Sequence[ContainerReport], now_ms: int, facts: Mapping[str, NodeFacts] | None = None
) -> dict[str, Any]:
    """YARN's answer to ``GET /ws/v1/node/containers``; as in YARN, null if there are no containers."""
    known = facts or {}
    return CONTAINERS.documents([document(one, now_ms, known.get(one.node_id)) for one in reports])


def fields(report: ContainerReport, now_ms: int, facts: NodeFacts | None = None) -> list[tuple[str, str]]:
    """The output of ``container status``, execution type first."""
    usage, size = report.usage, report.resource
    now = "" if report.state is ContainerState.DONE else f"{_measured_mb(usage.memory_bytes)} now, "
    peak = _measured_mb(usage.memory_peak_bytes)
    throttled = f", throttled for {span(usage.throttled_seconds * 1000)}" if usage.throttled_seconds else ""
    logs = report.log_directory
    lines = [
        ("Execution-Type", report.execution_type.value),
        ("Container-Id", report.container_id),
        ("State", _state_line(report, now_ms)),
        ("YARN-State", _yarn_line(report)),
        ("Application-Id", report.application_id + (" (its master)" if report.is_am else "")),
        ("Task", "" if report.task is None else str(report.task)),
        ("Node", report.node_id),
        ("User", report.user),
        ("Command", command_text(report)),
        ("Pid", _pid(report)),
        ("Resource", size_text(size)),
        ("GPUs", ", ".join(report.devices)),
        ("Limits", _limits_line(report, facts)),
        ("CPU-Used", f"{usage.cpu_seconds:.2f} s{throttled}"),
        ("Memory-Used", f"{now}{peak} at most, {usage.oom_kills} OOM kills"),
        ("Exit-Status", exit_text(report)),
        ("Allocated", timestamp(report.allocated_at_ms)),
        ("Queued", timestamp(report.queued_at_ms)),
        ("Started", timestamp(report.started_at_ms)),
        ("Promoted", timestamp(report.promoted_at_ms) if report.promoted_at_ms else ""),
        ("Waited", waits_text(report, *_waits_ms(report, now_ms), span)),
        ("Finished", timestamp(report.finished_at_ms)),
        ("Expected", f"{span(report.duration_hint_ms)}, as declared" if report.duration_hint_ms else ""),
        ("Logs", f"{logs}/stdout\n{logs}/stderr" if logs else "-"),
        ("Cgroup", report.cgroup or "-"),
        ("Diagnostics", report.diagnostics.strip()),
    ]
    return [(name, value) for name, value in lines if value or name == "Diagnostics"]


def _waits_ms(report: ContainerReport, now_ms: int) -> tuple[int, int]:
    """The time for which a container has waited since it was eligible, and since its submission; -1 if it is not
    known."""
    return report.waited_ms(report.eligible_at_ms, now_ms), report.waited_ms(report.submitted_at_ms, now_ms)


def waits_text(
    report: ContainerReport | None, eligible_ms: int, submitted_ms: int, told: Callable[[float], str]
) -> str:
    """Both waiting times, formatted by ``told``; "" if neither is known. A master has only one: the submission itself
    requests it.
    """
    parts = []
    if eligible_ms >= 0 and not (report is not None and report.is_am):
        parts.append(f"{told(eligible_ms)} since it was eligible (requested by its master)")
    if submitted_ms >= 0:
        parts.append(f"{told(submitted_ms)} since its application was submitted")
    return ", ".join(parts)


def _state_line(report: ContainerReport, now_ms: int) -> str:
    state = shown_state(report)
    if report.paused_at_ms and state == "PAUSED":
        since = timestamp(report.paused_at_ms)
        return f"{state} since {since} ({span(max(0, now_ms - report.paused_at_ms))})"
    if state == "QUEUED" and report.position:
        return f"{state}, number {report.position} in its queue"
    return state


def _yarn_line(report: ContainerReport) -> str:
    state = report.state
    return "NEW" if state is None else f"{_yarn_state(report)} (sub-state {SUB_STATES[state].value})"


def _limits_line(report: ContainerReport, facts: NodeFacts | None) -> str:
    limits = limits_document(report, facts)
    if limits is None:
        return "unknown: its node does not answer"
    parts = [f"memory {limits['memoryMB']} MB" if limits["memoryMB"] is not None else "memory unlimited"]
    if facts is not None and facts.cgroups == "none":
        return f"{parts[0]} (by polling: no cgroups here)"
    parts.append(f"CPU {limits['cpuQuota']} cores at most" if limits["cpuQuota"] else "no CPU quota")
    name = "weight" if facts is not None and facts.cgroups == "v2" else "shares"
    parts.append(f"CPU {name} {limits['cpuShares']}")
    if limits["pids"]:
        parts.append(f"{limits['pids']} processes")
    return ", ".join(parts)


def exit_text(report: ContainerReport) -> str:
    """The exit status with YARN's (or the signal's) name; "-" while the container is live."""
    if report.exit_status == _INVALID:
        return "-"
    text, name = str(report.exit_status), exit_status_name(report.exit_status)
    named = text if name == text else f"{text} ({name})"
    own_code = report.exit_code is not None and report.exit_code != report.exit_status
    return f"{named}, exit code {report.exit_code}" if own_code else named


CONTAINERS: Noun[ContainerReport] = Noun(
    "container",
    "containers",
    identity=lambda one: one.container_id,
    columns=columns,
    document=document,
    fields=fields,
    states=(
        *("ALL", "ALLOCATED", "QUEUED", "SCHEDULED", "LAUNCHING", "RUNNING", "PAUSING", "PAUSED", "RESUMING"),
        *("KILLING", "DONE", "KILLED"),
    ),
    ours=frozenset(
        {
            *(
                "YARN-State",
                "Task",
                "Command",
                "Pid",
                "Limits",
                "CPU-Used",
                "Memory-Used",
                "Allocated",
                "Queued",
            ),
            *("Started", "Promoted", "Waited", "Finished", "Expected", "Cgroup"),
        }
    ),
)
