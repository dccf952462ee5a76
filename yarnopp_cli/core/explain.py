"""Why a container waits, when it may start, and whether it ever can.

Pure functions over reports: the ResourceManager answers with them from what it knows, and the command line from the
nodes' fresher figures. They describe the rules of the schedulers; they decide nothing. Estimates take the median
running time of the application's containers that have ended (of all, where none has), and say so.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from executor.records import ContainerState, ExecutionType, Resource

from ..records.explanation import Explanation, Reason, ReasonCode, Suggestion
from ..records.reports import ContainerReport, NodeReport, NodeState

MOST_STEPS = 200_000
"""Looks at waiting containers that an estimate takes, at most: beyond that it says nothing."""
_RUNS = (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSING, ContainerState.KILLING)
_STANDS = (ContainerState.PAUSED, ContainerState.RESUMING)
_BY_PERSON = "by a person"


@dataclass(frozen=True, slots=True)
class NodeSight:
    """A node and the live containers on it; ``finished`` are ended ones, for the estimates."""

    node: NodeReport
    live: Sequence[ContainerReport]
    finished: Sequence[ContainerReport] = ()

    def running(self) -> list[ContainerReport]:
        """Those that have vcores and memory now."""
        return [one for one in self.live if one.state in _RUNS]

    def paused(self) -> list[ContainerReport]:
        """Those that stand still."""
        return [one for one in self.live if one.state in _STANDS]

    def queued(self) -> list[ContainerReport]:
        """Those that wait, in the order of the node's queue: guaranteed ones first, then by place, then by age."""
        waiting = [one for one in self.live if one.state is ContainerState.SCHEDULED]
        return sorted(
            waiting,
            key=lambda one: (
                one.execution_type is ExecutionType.OPPORTUNISTIC,
                one.position or 1 << 30,
                one.queued_at_ms,
                one.container_id,
            ),
        )

    def free(self) -> Resource:
        """What nobody has. A paused container keeps its memory and gives its vcores back."""
        used = sum_of(one.resource for one in self.running())
        kept = sum(one.resource.memory for one in self.paused())
        return (self.node.total - used - Resource(kept, 0)).at_least_zero()


def sum_of(resources: Iterable[Resource]) -> Resource:
    """All of them together."""
    total = Resource()
    for one in resources:
        total = total + one
    return total


def short(identifier: str) -> str:
    """An id as people say it in a sentence: ``…_000009``."""
    return "…_" + identifier.rpartition("_")[2]


def explain_container(report: ContainerReport, sight: NodeSight | None, now_ms: int) -> Explanation:
    """What is the matter with one container. ``sight`` is its node's, None where the node is unknown."""
    identifier = report.container_id
    if report.state is ContainerState.DONE:
        return _simple(report, _ended_text(report), state="DONE", since=report.finished_at_ms)
    if sight is None or sight.node.state in (NodeState.LOST, NodeState.SHUTDOWN):
        text = f"{identifier} is on {report.node_id}, which has gone."
        reason = Reason(ReasonCode.NODE_LOST, f"{report.node_id} has gone")
        return Explanation(
            identifier, "container", "LOST", text, satisfiable=False, waits=True, reasons=(reason,)
        )
    if report.state is None:
        return _not_started(report, now_ms)
    if report.state is ContainerState.SCHEDULED:
        return _queued(report, sight, now_ms)
    if report.state in _STANDS:
        return _paused(report, sight, now_ms)
    since = report.started_at_ms or report.queued_at_ms
    for_how_long = f" for {_span(now_ms - since)}" if since else ""
    text = f"{identifier} is {report.state.value} on {report.node_id}{for_how_long}: it waits for nothing."
    if report.execution_type is ExecutionType.OPPORTUNISTIC and report.state is ContainerState.RUNNING:
        text += " Being opportunistic, it gives way when a guaranteed container needs its room."
    return _simple(report, text, state=report.state.value, since=since)


def _simple(report: ContainerReport, text: str, *, state: str, since: int) -> Explanation:
    return Explanation(report.container_id, "container", state, text, since_ms=since)


def _ended_text(report: ContainerReport) -> str:
    why = " ".join(report.diagnostics.split())
    text = f"{report.container_id} has ended with exit status {report.exit_status}"
    return f"{text}: {why}" if why else f"{text}."


def _not_started(report: ContainerReport, now_ms: int) -> Explanation:
    text = (
        f"{report.container_id} was granted on {report.node_id} {_span(now_ms - report.allocated_at_ms)} ago, "
        f"and its {'node' if report.is_am else 'master'} has not started it yet."
    )
    return Explanation(
        report.container_id,
        "container",
        "ALLOCATED",
        text,
        since_ms=report.allocated_at_ms,
        waits=True,
        reasons=(Reason(ReasonCode.AM_PENDING, "it has not been started at its node yet"),),
    )


def _queued(report: ContainerReport, sight: NodeSight, now_ms: int) -> Explanation:
    identifier, node, needs = report.container_id, sight.node, report.resource
    queue = sight.queued()
    ids = [one.container_id for one in queue]
    position = ids.index(identifier) + 1 if identifier in ids else report.position
    ahead = ids[: max(0, position - 1)]
    satisfiable = needs.fits_in(node.total)
    reasons: list[Reason] = []
    if not satisfiable:
        reasons.append(too_big(needs, [node.total], node.node_id))
    else:
        reasons += shortages(needs, sight.free(), node.total, sight.running(), sight.paused())
        if ahead:
            text = f"{_count(len(ahead), 'container')} {'stands' if len(ahead) == 1 else 'stand'} before it"
            reasons.append(Reason(ReasonCode.BEHIND, text, "containers", 1, 0, len(queue), tuple(ahead[:20])))
    if node.state is NodeState.DECOMMISSIONING:
        reasons.append(Reason(ReasonCode.NODE_DRAINING, f"{node.node_id} is being drained"))
    start, median = estimated_start(report, sight, now_ms) if satisfiable else (0, 0)
    since = report.queued_at_ms or report.allocated_at_ms
    first = f"{identifier} is QUEUED on {node.node_id} for {_span(now_ms - since)}"
    sentence = [f"{first}, {_ordinal(position)} of {len(queue)}." if position else f"{first}."]
    sentence += _needs_text(needs, sight, reasons)
    sentence.append(_limit_text(node))
    if start:
        sentence.append(
            f"It starts in about {_span(max(0, start - now_ms))} (median task {_span(median)}; estimate)."
        )
    elif satisfiable:
        why = (
            f"what runs has outlived the median task ({_span(median)})"
            if median
            else "nothing like it has ended yet"
        )
        sentence.append(f"When it starts cannot be said: {why}.")
    else:
        sentence.append("It can never start there.")
    actions = _ways_out(report, sight)
    if actions and actions[0].command.startswith("yopp container promote"):
        sentence.append(f"It would start now if it were guaranteed: `{actions[0].command}`.")
    return Explanation(
        identifier,
        "container",
        "QUEUED",
        " ".join(part for part in sentence if part),
        since_ms=since,
        satisfiable=satisfiable,
        waits=True,
        reasons=tuple(reasons),
        position=position,
        queue_length=len(queue),
        queue_limit=limit_of(node),
        estimated_start_ms=start,
        estimate="median-task-time" if start else "",
        actions=tuple(actions),
    )


def _paused(report: ContainerReport, sight: NodeSight, now_ms: int) -> Explanation:
    identifier = report.container_id
    why = " ".join(report.diagnostics.split())
    last = report.diagnostics.strip().rpartition("\n")[2]
    guaranteed = tuple(
        one.container_id for one in sight.running() if one.execution_type is ExecutionType.GUARANTEED
    )
    since = report.paused_at_ms
    sentence = f"{identifier} is PAUSED on {report.node_id} for {_span(now_ms - since)}"
    by_person = _BY_PERSON in last
    if by_person:
        reason = Reason(ReasonCode.PAUSED_BY_PERSON, "a person paused it")
        sentence += ": a person paused it, and nobody has resumed it."
        actions = (Suggestion(f"yopp container resume {identifier}", "goes on as soon as there is room"),)
    else:
        reason = Reason(
            ReasonCode.PAUSED_FOR,
            f"{_count(len(guaranteed), 'guaranteed container')} {'has' if len(guaranteed) == 1 else 'have'} its vcores",
            "vcores",
            report.resource.vcores,
            sight.free().vcores,
            sight.node.total.vcores,
            guaranteed[:20],
        )
        sentence += f": {why.rstrip('.')}." if why else ": it made room."
        wanted = report.resource.vcores
        sentence += (
            f" It goes on when {_count(wanted, 'vcore')} {'is' if wanted == 1 else 'are'} free"
            f" ({sight.free().vcores} now) and nothing else keeps it from running."
        )
        actions = (
            Suggestion(f"yopp container promote {identifier}", "goes on before all opportunistic ones"),
        )
    return Explanation(
        identifier,
        "container",
        "PAUSED",
        sentence,
        since_ms=since,
        waits=True,
        reasons=(reason,),
        actions=actions,
    )


def shortages(
    needs: Resource,
    free: Resource,
    total: Resource,
    running: Sequence[ContainerReport],
    paused: Sequence[ContainerReport],
) -> list[Reason]:
    """What is missing of vcores and of memory, and who has it; the oldest first."""
    found = []
    oldest = sorted(running, key=lambda one: one.started_at_ms or one.queued_at_ms)
    if needs.vcores > free.vcores:
        by = tuple(one.container_id for one in oldest if one.resource.vcores)
        found.append(
            Reason(
                ReasonCode.NO_VCORES,
                f"it needs {_count(needs.vcores, 'vcore')}, and {free.vcores} of {total.vcores} are free",
                "vcores",
                needs.vcores,
                free.vcores,
                total.vcores,
                by[:20],
            )
        )
    if needs.memory > free.memory:
        by = tuple(one.container_id for one in (*oldest, *paused) if one.resource.memory)
        found.append(
            Reason(
                ReasonCode.NO_MEMORY,
                f"it needs {needs.memory} MB, and {free.memory} of {total.memory} MB are free",
                "memoryMB",
                needs.memory,
                free.memory,
                total.memory,
                by[:20],
            )
        )
    return found


def too_big(needs: Resource, totals: Sequence[Resource], where: str) -> Reason:
    """Nothing that is there can ever hold it."""
    largest = max(totals, key=lambda one: (needs.memory <= one.memory, needs.vcores <= one.vcores, one))
    memory = needs.memory > largest.memory
    return Reason(
        ReasonCode.TOO_BIG,
        f"it needs {needs}, and {where} has {largest} in all",
        "memoryMB" if memory else "vcores",
        needs.memory if memory else needs.vcores,
        0,
        largest.memory if memory else largest.vcores,
    )


def limit_of(node: NodeReport) -> int:
    """How many opportunistic containers may wait at a node: what it holds, or less if the RM says so."""
    capacity, limit = node.opportunistic.queue_capacity, node.queue_limit
    return min(capacity, limit) if limit >= 0 else capacity


def _limit_text(node: NodeReport) -> str:
    told = f" (the ResourceManager asks it to keep {node.queue_limit})" if node.queue_limit >= 0 else ""
    return f"Its node lets {limit_of(node)} opportunistic containers wait{told}."


def _needs_text(needs: Resource, sight: NodeSight, reasons: Sequence[Reason]) -> list[str]:
    free = sight.free()
    text = (
        f"It needs {_count(needs.vcores, 'vcore')}, {needs.memory} MB; "
        f"free: {_count(free.vcores, 'vcore')}, {free.memory} MB"
    )
    codes = {reason.code for reason in reasons}
    if ReasonCode.TOO_BIG in codes:
        return [f"{text}, and the node has no more than {sight.node.total}."]
    missing = [
        word
        for code, word in ((ReasonCode.NO_VCORES, "a vcore"), (ReasonCode.NO_MEMORY, "memory"))
        if code in codes
    ]
    if missing:
        held = _held_text(sight, ["memory"] if missing == ["memory"] else ["vcores"])
        return [f"{text}: it waits for {' and '.join(missing)}{held}."]
    if ReasonCode.BEHIND in codes:
        return [f"{text}: there is room for it, and others are before it."]
    return [f"{text}: there is room for it, it starts at any moment."]


def _held_text(sight: NodeSight, dimensions: Sequence[str]) -> str:
    # A master may hold no vcore at all.
    running = [one for one in sight.running() if any(getattr(one.resource, name) for name in dimensions)]
    counts = [
        (sum(1 for one in running if one.execution_type is kind), kind.value.lower())
        for kind in (ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC)
    ]
    parts = [f"{number} {word}" for number, word in counts if number]
    if not parts:
        return ""
    return f", held by {' and '.join(parts)} container{'s' if len(running) > 1 else ''}"


def _ways_out(report: ContainerReport, sight: NodeSight) -> list[Suggestion]:
    actions = []
    if report.execution_type is ExecutionType.OPPORTUNISTIC:
        left = sight.node.total - sight.node.used
        if report.resource.fits_in(left.at_least_zero()):
            actions.append(
                Suggestion(
                    f"yopp container promote {report.container_id}", "starts before all opportunistic ones"
                )
            )
    actions.append(Suggestion(f"yopp container kill {report.container_id}", "is taken out of the queue"))
    return actions


# -- estimates -------------------------------------------------------------------------------------------


def median_ms(report: ContainerReport, finished: Sequence[ContainerReport]) -> int:
    """The median running time of the application's ended containers, of all if it has none; 0 for unknown."""
    ran = [one for one in finished if one.started_at_ms and one.exit_status >= 0 and not one.is_am]
    own = [one for one in ran if one.application_id == report.application_id]
    times = [max(0, one.finished_at_ms - one.started_at_ms) for one in own or ran]
    return round(statistics.median(times)) if times else 0


def estimated_start(report: ContainerReport, sight: NodeSight, now_ms: int) -> tuple[int, int]:
    """When a queued container will probably start, and the task time that was reckoned with; 0 for unknown.

    All that run are taken to run for the median in all, and those that wait start in the queue's order, backfilled.
    Where it would have to wait for one that has outlived the median nothing can be said: (0, median).
    """
    median = median_ms(report, sight.finished)
    if median <= 0:
        return 0, 0
    free = sight.free()
    ends: list[tuple[int, int, Resource]] = []
    for number, one in enumerate(sight.running()):
        began = one.started_at_ms or now_ms
        if not one.is_am:
            place = -1 - number if began + median < now_ms else number  # below 0: it has outlived the median
            heapq.heappush(ends, (max(now_ms, began + median), place, one.resource))
    waiting = sight.queued()
    clock, number = now_ms, len(ends)
    for _ in range(MOST_STEPS // (1 + len(waiting))):
        left = []
        for one in waiting:
            if not one.resource.fits_in(free):
                left.append(one)
                continue
            if one.container_id == report.container_id:
                return clock, median
            free = free - one.resource
            number += 1
            heapq.heappush(ends, (clock + median, MOST_STEPS + number, one.resource))
        if not ends:
            return 0, 0
        waiting = left
        clock, place, resource = heapq.heappop(ends)
        if place < 0:
            return 0, median
        free = free + resource
    return 0, 0


# -- nodes -----------------------------------------------------------------------------------------------


def explain_node(sight: NodeSight, now_ms: int) -> Explanation:
    """What a node has, who has it, and what waits there."""
    node, free, queue = sight.node, sight.free(), sight.queued()
    running, paused = sight.running(), sight.paused()
    by_type = {kind: sum(1 for one in running if one.execution_type is kind) for kind in ExecutionType}
    sentence = (
        f"{node.node_id} is {node.state.value}{'' if node.connected else ' and silent'}: "
        f"{by_type[ExecutionType.GUARANTEED]} guaranteed and {by_type[ExecutionType.OPPORTUNISTIC]} opportunistic "
        f"containers run, {len(queue)} wait, {len(paused)} are paused. "
        f"Free: {_count(free.vcores, 'vcore')}, {free.memory} MB of {node.total.vcores} and {node.total.memory}. "
        f"{_limit_text(node)}"
    )
    reasons = list(_node_reasons(node))
    if queue:
        first = queue[0]
        reasons += shortages(first.resource, free, node.total, running, paused)
        sentence += f" First in its queue is {short(first.container_id)}" + (
            f": {reasons[-1].text}." if reasons else "."
        )
    return Explanation(
        node.node_id,
        "node",
        node.state.value,
        sentence,
        since_ms=node.last_heartbeat_ms,
        satisfiable=node.state in (NodeState.RUNNING, NodeState.UNHEALTHY, NodeState.DECOMMISSIONING),
        waits=bool(queue),
        reasons=tuple(reasons),
        queue_length=len(queue),
        queue_limit=limit_of(node),
    )


def _node_reasons(node: NodeReport) -> Iterable[Reason]:
    if node.state is NodeState.DECOMMISSIONING:
        yield Reason(ReasonCode.NODE_DRAINING, "it is being drained: nothing new comes here")
    elif node.state is NodeState.LOST:
        yield Reason(ReasonCode.NODE_LOST, "it has been silent for too long")
    elif node.state is not NodeState.RUNNING or not node.connected:
        told = node.health_report or f"it is {node.state.value}" + ("" if node.connected else " and silent")
        yield Reason(ReasonCode.NODE_UNUSABLE, told)


# -- words -----------------------------------------------------------------------------------------------


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _span(milliseconds: float) -> str:
    """A duration in a sentence, no finer than people ask for."""
    seconds = max(0.0, milliseconds) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
