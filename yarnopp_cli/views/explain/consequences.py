"""The effect of an action on containers, applications or nodes, and the forecast of a job, in words. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from executor.records import ContainerState

from ...errors import EXIT_CANNOT_START
from ...explain.preemptions import Promotion, promotion
from ...explain.snapshot import Picture
from ...records.explanation import JobForecast, NodeForecast, Reason, ReasonCode
from ...records.ids import dotted, short_id, suffix
from ...records.jobs import JobSpec
from ...records.reports import (
    FINAL_STATES,
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    NodeReport,
    is_waiting,
)
from ...records.requests import FAILED, OK, ApplicationSubmissionContext, never_after
from ...records.times import timestamp
from ..applications import counts_text
from ..containers import shown_state, time_ms
from ..resources import resource_document
from ..text import are, listed, megabytes, short_span, size_text, vcores
from .reasons import text

_NAMED = 3
MOST_COMMANDS = 10
"""At most this many commands of a sweep are shown."""


def _description(report: ContainerReport, now_ms: int) -> str:
    """A container's type, its state and for how long, and its application."""
    span_ms = time_ms(report, now_ms)
    if report.state is ContainerState.PAUSED and report.paused_at_ms:
        span_ms = max(0, now_ms - report.paused_at_ms)
    kind, state = report.execution_type.value.lower(), shown_state(report).lower()
    return f"{kind}, {state} {short_span(span_ms)}, of application {suffix(report.application_id)}"


def _names(reports: Sequence[ContainerReport]) -> str:
    """Names that can be typed: the last digits alone are the same in different applications."""
    named = [f"container {dotted(one.container_id)}" for one in reports[:_NAMED]]
    return listed(named, len(reports) - _NAMED)


def _question(verb: str, reports: Sequence[ContainerReport], now_ms: int, about: str = "") -> str:
    if len(reports) == 1:
        return f"{verb} container {dotted(reports[0].container_id)} ({_description(reports[0], now_ms)})?"
    return f"{verb} {len(reports)} containers{about}: {_names(reports)}?"


def kill_containers(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before containers are killed."""
    number, losing = len(reports), sum(1 for one in reports if one.started_at_ms)
    them = are(number, "it", "them")
    effect = [
        f"{are(losing, 'Its', 'Their')} work is lost."
        if losing
        else f"No work is lost: {are(number, 'it has', 'they have')} not run."
    ]
    masters = sum(1 for one in reports if one.is_am)
    if masters and number == 1:
        effect.append("It is its application's master: the application will try again, or fail.")
    elif masters:
        effect.append(f"{masters} of them are masters: their applications will try again, or fail.")
    else:
        effect.append(f"The application learns that a user killed {them}, and decides what to do.")
    lost = f" ({losing} {are(losing, 'has', 'have')} run)"
    return f"{_question('Kill', reports, picture.taken_at_ms, lost)}\n{' '.join(effect)}"


def promote(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before opportunistic containers become guaranteed."""
    question = _question("Promote", reports, picture.taken_at_ms)
    return f"{question}\n{promote_effect(promotion(reports, picture))}"


def promote_effect(found: Promotion) -> str:
    """The effect when opportunistic containers become guaranteed: which containers are preempted, or what the
    promotion waits for.
    """
    one = len(found.reports) == 1
    who = "it is" if one else "they are"
    effect = [f"Guaranteed, {who} never preempted for other containers of this node."]
    for each in found.preemptions:
        node = "its node" if one else "their node" if found.nodes == 1 else "a node of theirs"
        effect.append(f"To make room, {node} will {each.how} {_names(each.reports)}.")
    if found.unpromised and one:
        effect.append(
            "Its node has promised all its resources: the promotion waits until a guaranteed container ends."
        )
    elif found.unpromised:
        number = len(found.unpromised)
        effect.append(
            f"{number} exceed what the nodes can promise: they wait until guaranteed containers end."
        )
    elif not found.preemptions and any(is_waiting(report) for report in found.reports):
        starts = "It starts" if one else "Waiting ones start"
        effect.append(f"{starts} before all opportunistic ones, as soon as there is room.")
    elif not found.preemptions:
        effect.append(f"{'It runs' if one else 'They run'} already: nothing is preempted.")
    return " ".join(effect)


def demote(reports: Sequence[ContainerReport], picture: Picture) -> str:
    """The question before guaranteed containers become opportunistic."""
    return f"{_question('Demote', reports, picture.taken_at_ms)}\n{demote_effect(reports)}"


def demote_effect(reports: Sequence[ContainerReport]) -> str:
    """The effect when guaranteed containers become opportunistic."""
    if len(reports) == 1:
        return "It continues, but is preempted (paused or killed) when a guaranteed container needs its resources."
    return (
        "They continue, but are preempted (paused or killed) when guaranteed containers need their resources."
    )


def pause_effect(report: ContainerReport, starts: Sequence[str]) -> str:
    """The effect when a user pauses a running container: ``starts`` are the containers that get its vcores."""
    number = report.resource.vcores
    paused = f"All its processes are paused until `resume`; it keeps its {megabytes(report.resource.memory)}."
    if not number:
        return paused
    if not starts:
        return f"{paused} Its {vcores(number)} {are(number)} free for others meanwhile."
    named = listed([f"container {dotted(one)}" for one in starts[:_NAMED]], len(starts) - _NAMED)
    begin = are(len(starts), "starts, which is queued", "start, which are queued")
    return f"{paused} With its {vcores(number)}, {named} {begin}."


def drain(node: NodeReport) -> str:
    """The question before a node is drained."""
    running, queued = node.guaranteed_running + node.opportunistic.running, node.opportunistic.queued
    left = f"{running} running, {queued} queued" + (f", {node.paused} paused" if node.paused else "")
    return (
        f"Drain {node.node_id}?\nNothing new is scheduled on it. Its containers ({left}) run to their end; then it is "
        "DECOMMISSIONED. Press `n` again to use it again."
    )


def kill_applications(reports: Sequence[ApplicationReport]) -> str:
    """The question before applications are killed."""
    if len(reports) == 1:
        one = reports[0]
        question = f"Kill {short_id(one.application_id)} ({one.name})?"
        return f"{question}\nAll its containers end ({counts_text(one)}), and their work is lost."
    named = listed([short_id(one.application_id) for one in reports[:_NAMED]], len(reports) - _NAMED)
    return f"Kill {len(reports)} applications: {named}?\nAll their containers end, and their work is lost."


def job_document(
    job: JobSpec, found: JobForecast | None, commands: Iterable[tuple[int, Sequence[str]]] = ()
) -> dict[str, Any]:
    """The object of ``--dry-run --json``; ``found`` is None where a cluster would be started for the job.
    ``commands`` are the words of each task of a sweep, by task number.
    """
    running, forecast = found is not None, found or JobForecast()
    return {
        "name": job.name,
        "type": job.application_type,
        "phases": [
            {"name": phase.name, "tasks": phase.size, "command": list(phase.command)} for phase in job.phases
        ],
        "commands": [{"task": number, "command": list(words)} for number, words in commands],
        "cluster": "running" if running else "would be started",
        "refused": forecast.refused,
        "nodes": [
            {
                "node": one.node_id,
                "starts": one.starts,
                "preempting": one.preempting,
                "preempts": [{"id": name, "how": how} for how, ids in _gives_way(one) for name in ids],
                "queued": one.queued,
                "ahead": one.ahead,
                "reasons": [reason.code for reason in one.reasons],
                "unknown": one.unknown,
            }
            for one in forecast.nodes
        ],
        "waiting": forecast.waiting,
        "waitingReasons": [reason.code for reason in forecast.why],
        "held": forecast.held,
        "heldReasons": [reason.code for reason in forecast.unusable],
        "impossible": forecast.impossible,
        "later": forecast.later,
        "rounded": [
            {"asked": resource_document(asked), "allocated": resource_document(size)}
            for asked, size in forecast.rounded
        ],
    }


def how_ended(report: ApplicationReport) -> str:
    """How an application has ended for those that wait for it: OK or FAILED; "" if it has not."""
    if report.state not in FINAL_STATES:
        return ""
    return OK if report.final_status is FinalApplicationStatus.SUCCEEDED else FAILED


def why_never(submission: ApplicationSubmissionContext, ended: Mapping[str, str]) -> str:
    """Why a job could never begin; "" if it can. ``ended`` has, by id, how the others that it waits for have ended."""
    told = ((one, ended.get(one.rpartition(":")[0])) for one in submission.after)
    return next((why for one, how in told if how and (why := never_after(one, how))), "")


def later_document(submission: ApplicationSubmissionContext, ended: Mapping[str, str]) -> dict[str, Any]:
    """When a job would begin, after which other jobs, why it never would, and when it would be ended."""
    times = {"beginAt": submission.begin_at_ms, "deadlineAt": submission.deadline_at_ms}
    return {**times, "after": list(submission.after), "never": why_never(submission, ended)}


def later_lines(submission: ApplicationSubmissionContext, ended: Mapping[str, str]) -> Iterable[str]:
    """The same as text; empty for a job that would begin at once and has no deadline."""
    if never := why_never(submission, ended):
        yield f"  it would end at once with exit code {EXIT_CANNOT_START}, because it can never begin: {never}"
        return
    if submission.begin_at_ms:
        yield f"  it would not begin before {timestamp(submission.begin_at_ms)}; the placement above is as of now"
    for one in submission.after:
        parent, _, condition = one.rpartition(":")
        if ended.get(parent):
            continue
        yield f"  it would wait for {parent} ({condition}) before it begins"
    if submission.deadline_at_ms:
        yield f"  it would be ended at {timestamp(submission.deadline_at_ms)}"


def job_lines(
    job: JobSpec, kinds: str, found: JobForecast | None, commands: Iterable[tuple[int, Sequence[str]]] = ()
) -> Iterable[str]:
    """The forecast of a job as text; ``kinds`` are its tasks by type, in words, ``commands`` as in
    ``job_document``.
    """
    first = job.phases[0]
    sizes = sorted({task.resource for task in first.tasks})
    rounded = dict(found.rounded) if found is not None else {}
    size = " or ".join(
        f"{size_text(one)} (allocated as {size_text(rounded[one])}: yarn.scheduler.minimum-allocation-*)"
        if one in rounded
        else size_text(one)
        for one in sizes
    )
    yield f"{job.name}: {kinds}, of {size}"
    if first.command:
        yield f"  command: {shlex.join(first.command)}"
    for number, words in islice(commands, MOST_COMMANDS):
        line = words[-1] if first.sweep is not None and first.sweep.shell else shlex.join(words)
        yield f"    {number}: {line}"
    if first.sweep is not None and first.size > MOST_COMMANDS:
        yield f"    and {first.size - MOST_COMMANDS:,} more, which --json lists"
    if found is None:
        yield "  no cluster is running: the job would start one, which ends with it"
        return
    if found.refused:
        yield f"  would be refused: {found.refused}"
        return
    for one in found.nodes:
        yield f"  {one.node_id}: {_at(one)}"
        yield from (f"    {text(reason)}" for reason in one.reasons)
    if found.waiting > found.held:
        yield f"  {found.waiting - found.held} would wait for a node with room"
        yield from (f"    {text(reason)}" for reason in found.why)
    if found.held:
        yield f"  {found.held} would wait: {_held(found.unusable)}"
    if found.impossible:
        nowhere = "no node is large enough, or no node matches the request"
        yield f"  {found.impossible} could never run: {text(found.because) if found.because else nowhere}"
    if found.later:
        yield f"  {found.later} more after these have ended"


def _held(reasons: Sequence[Reason]) -> str:
    """Why nodes accept no new containers, and the command that puts drained ones back into use."""
    told = "; ".join(text(reason) for reason in reasons[:3])
    drained = [name for one in reasons if one.code == ReasonCode.NODE_DRAINING for name in one.by]
    return f"{told} (`yopp node resume {drained[0]}`)" if drained else told


def _gives_way(place: NodeForecast) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (("pause", place.paused), ("kill", place.killed))


def _at(place: NodeForecast) -> str:
    parts = [f"{place.starts} would start at once"] if place.starts else []
    if place.preempting:
        them = "it would preempt" if place.starts == 1 else f"{place.preempting} of them would preempt"
        parts[0] += f" ({them} opportunistic containers)"
    if place.queued:
        behind = f", behind {place.ahead} there" if place.ahead else ""
        parts.append(f"{place.queued} would queue{behind}")
    if place.unknown:
        parts.append(f"{place.unknown} would go there, and the node has not said what would become of them")
    return ", ".join(parts) or "none"
