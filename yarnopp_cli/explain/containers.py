"""Why a container waits, when it may start, and whether it ever can.

Pure functions over reports: the ResourceManager answers with them from what it knows, and the command line from the
nodes' fresher figures. They describe the rules of the schedulers; they decide nothing. What they say of the time to
come is ``estimates``' and marked so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from executor.core.estimates import Node
from executor.core.outcome import RESUMED
from executor.records import ContainerState, ExecutionType, Resource

from ..records.explanation import Explanation, Reason, ReasonCode, Suggestion
from ..records.reports import ContainerReport, NodeReport, NodeState
from .estimates import BY_NODE, OF_NODE, Durations, Expected, Start, beyond, lane, ran_ms, starts
from .waited import waited
from .words import (  # fmt: skip
    amount,
    are,
    begins,
    begun,
    by_type,
    capital,
    count,
    held_by,
    names,
    ordinal,
    short,
    span,
    waited_text,
)

_RUNS = (ContainerState.RUNNING, ContainerState.LAUNCHING, ContainerState.PAUSING, ContainerState.KILLING)
_STANDS = (ContainerState.PAUSED, ContainerState.RESUMING)
_BY_PERSON = "by a person"
_UNDER_PRESSURE = ("processes outside yopp", "memory left")


class WhyPaused(enum.Enum):
    """For whose sake a container stands still."""

    PERSON = "PERSON"
    PRESSURE = "PRESSURE"
    ROOM = "ROOM"
    RESUMED = "RESUMED"
    """A person paused it and resumed it, and there was no room any more."""


@dataclass(frozen=True, slots=True)
class NodeSight:
    """A node and the live containers on it; ``finished`` are ended ones, for the estimates.

    ``fresh``: places in the queue are as they are now. The ResourceManager is not told of each step of a queue, and
    goes by arrival.
    """

    node: NodeReport
    live: Sequence[ContainerReport]
    finished: Sequence[ContainerReport] = ()
    fresh: bool = True

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
                (one.position or 1 << 30) if self.fresh else 0,
                one.waiting_since_ms or one.queued_at_ms,
                one.container_id,
            ),
        )

    def free(self) -> Resource:
        """What nobody has. A paused container keeps its memory and gives its vcores back."""
        used = sum_of(one.resource for one in self.running())
        kept = sum(one.resource.memory for one in self.paused())
        return (self.node.total - used - Resource(kept, 0)).at_least_zero()

    def free_for(self, kind: ExecutionType) -> Resource:
        """What a container of that type could start on: opportunistic ones may be lent more, or have to leave
        something to the rest of the machine.
        """
        free = self.free()
        if kind is ExecutionType.GUARANTEED:
            return free
        status = self.node.opportunistic
        return (free + Resource(status.lent_memory, status.lent_vcores)).at_least_zero()

    def pressed(self) -> bool:
        """Whether the machine is so busy that opportunistic containers may not have what nobody has."""
        status = self.node.opportunistic
        return status.lent_vcores < 0 or status.lent_memory < 0

    def line(self) -> list[ContainerReport]:
        """All that wait here and will go on by themselves, in the order in which they are likely to."""
        queue = self.queued()
        stand = [one for one in self.paused() if why_paused(one) in (WhyPaused.ROOM, WhyPaused.RESUMED)]
        first = [one for one in queue if one.execution_type is ExecutionType.GUARANTEED]
        return [*first, *sorted(stand, key=lambda one: one.paused_at_ms), *queue[len(first) :]]

    def lane(self, durations: Durations, now_ms: int) -> Node:
        """As the estimates want it."""
        free = self.free_for(ExecutionType.OPPORTUNISTIC)
        return lane(free, self.running(), self.line(), durations, now_ms)


def sum_of(resources: Iterable[Resource]) -> Resource:
    """All of them together."""
    total = Resource()
    for one in resources:
        total = total + one
    return total


def why_paused(report: ContainerReport) -> WhyPaused:
    """For whose sake it stands still, by the last thing that was said of it."""
    last = report.diagnostics.strip().rpartition("\n")[2]
    if last == RESUMED:
        return WhyPaused.RESUMED
    if _BY_PERSON in last:
        return WhyPaused.PERSON
    return WhyPaused.PRESSURE if any(words in last for words in _UNDER_PRESSURE) else WhyPaused.ROOM


def explain_container(report: ContainerReport, sight: NodeSight | None, now_ms: int) -> Explanation:
    """What is the matter with one container. ``sight`` is its node's, None where the node is unknown."""
    identifier = report.container_id
    if report.state is ContainerState.DONE:
        return _simple(report, _ended_text(report, now_ms), now_ms, state="DONE", since=report.finished_at_ms)
    if sight is None or sight.node.state in (NodeState.LOST, NodeState.SHUTDOWN):
        text = (
            f"{identifier} is on {report.node_id}, which has gone: its application will ask for another one."
        )
        reason = Reason(ReasonCode.NODE_LOST, f"{report.node_id} has gone")
        actions = (Suggestion("yopp up", "starts what is missing of the cluster again"),)
        return Explanation(
            identifier, "container", "LOST", text, satisfiable=False, waits=True, reasons=(reason,), actions=actions
        )  # fmt: skip
    if report.state is None:
        return _not_started(report, sight.node, now_ms)
    if report.state is ContainerState.SCHEDULED:
        return _queued(report, sight, now_ms)
    if report.state in _STANDS:
        return _paused(report, sight, now_ms)
    since = begun(report)
    for_how_long = f" for {span(now_ms - since)}" if since else ""
    if report.resumed_at_ms:
        for_how_long += f", since it was resumed (started {span(now_ms - report.started_at_ms)} ago)"
    text = f"{identifier} is {report.state.value} on {report.node_id}{for_how_long}: it waits for nothing."
    if report.execution_type is ExecutionType.OPPORTUNISTIC and report.state is ContainerState.RUNNING:
        text += " Being opportunistic, it gives way when a guaranteed container needs its room."
    text += f" {waited_text(waited(report, now_ms), 'It had waited', is_am=report.is_am)}"
    return _simple(report, text.rstrip(), now_ms, state=report.state.value, since=since)


def _simple(report: ContainerReport, text: str, now_ms: int, *, state: str, since: int) -> Explanation:
    times = waited(report, now_ms)
    return Explanation(
        report.container_id,
        "container",
        state,
        text,
        since_ms=since,
        waited_since_submit_ms=times.since_submit,
        waited_since_eligible_ms=times.since_eligible,
    )


def _ended_text(report: ContainerReport, now_ms: int) -> str:
    why = " ".join(report.diagnostics.split())
    text = f"{report.container_id} has ended with exit status {report.exit_status}"
    told = waited_text(
        waited(report, now_ms), "It had waited" if report.started_at_ms else "It waited in vain"
    )
    return f"{text}{f': {why}' if why else ''}".rstrip(".") + f". {told}".rstrip()


def _not_started(report: ContainerReport, node: NodeReport, now_ms: int) -> Explanation:
    text = (
        f"{report.container_id} was granted on {report.node_id} {span(now_ms - report.allocated_at_ms)} ago, "
        f"and its {'node' if report.is_am else 'master'} has not started it yet."
    )
    reasons = [Reason(ReasonCode.AM_PENDING, "it has not been started at its node yet"), *unusable(node)]
    text += "".join(f" {capital(one.text)}." for one in reasons[1:])
    times = waited(report, now_ms)
    return Explanation(
        report.container_id,
        "container",
        "ALLOCATED",
        f"{text} {waited_text(times, is_am=report.is_am)}".rstrip(),
        since_ms=report.allocated_at_ms,
        waits=True,
        reasons=tuple(reasons),
        actions=(Suggestion(f"yopp app kill {report.application_id}", "ends its application"),),
        waited_since_submit_ms=times.since_submit,
        waited_since_eligible_ms=times.since_eligible,
    )


def _queued(report: ContainerReport, sight: NodeSight, now_ms: int) -> Explanation:
    identifier, node = report.container_id, sight.node
    queue = sight.queued()
    ids = [one.container_id for one in queue]
    position = ids.index(identifier) + 1 if identifier in ids else report.position
    reasons = queue_reasons(report, sight, ids[: max(0, position - 1)])
    satisfiable = never_here(report, sight) is None
    times = waited(report, now_ms)
    since = report.queued_at_ms or report.allocated_at_ms
    first = f"{identifier} is QUEUED on {node.node_id} for {span(now_ms - since)}"
    sentence = [f"{first}, {ordinal(position)} of {len(queue)}." if position else f"{first}."]
    sentence.append(needs_text(report, sight, reasons, now_ms))
    sentence += [f"{capital(one.text)}." for one in reasons if one.code in _ABOUT_NODE]
    sentence.append(limit_text(node))
    sentence.append(waited_text(times, is_am=report.is_am))
    start = estimated_start(report, sight, now_ms) if satisfiable else None
    if not satisfiable:
        sentence.append("It can never start there.")
    elif start is not None:
        sentence.append(f"It {begins(start, report.application_id)}.")
    else:
        sentence.append(f"When it starts cannot be said: {unknown_because(reasons, sight, report, now_ms)}.")
    found = Explanation(
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
        actions=tuple(ways_out(report, sight)),
        waited_since_submit_ms=times.since_submit,
        waited_since_eligible_ms=times.since_eligible,
    )
    return estimated(found, start, start, now_ms)


_ABOUT_NODE = (
    ReasonCode.NODE_DRAINING, ReasonCode.NODE_UNUSABLE, ReasonCode.NODE_LOST, ReasonCode.PRESSURE,
)  # fmt: skip


def queue_reasons(report: ContainerReport, sight: NodeSight, ahead: Sequence[str]) -> list[Reason]:
    """Why one that queues does not start: what is missing, who is before it, what is the matter with its node."""
    node, needs = sight.node, report.resource
    if (never := never_here(report, sight)) is not None:
        return [never]
    free = sight.free()
    reasons = shortages(needs, free, node.total, sight.running(), sight.paused())
    if not reasons and not needs.fits_in(left := sight.free_for(report.execution_type)):
        reasons.append(_pressure(needs, left, node.total))
    if ahead:
        text = f"{count(len(ahead), 'container')} {are(len(ahead), 'stands', 'stand')} before it"
        length = len(sight.queued())
        reasons.append(Reason(ReasonCode.BEHIND, text, "containers", 1, 0, length, tuple(ahead[:20])))
    return [*reasons, *unusable(node)]


def _pressure(needs: Resource, left: Resource, total: Resource) -> Reason:
    text = (
        f"the rest of this machine is busy, and opportunistic containers leave it what it needs: {amount(left)} "
        "are theirs now"
    )
    if needs.vcores > left.vcores:
        return Reason(ReasonCode.PRESSURE, text, "vcores", needs.vcores, left.vcores, total.vcores)
    return Reason(ReasonCode.PRESSURE, text, "memoryMB", needs.memory, left.memory, total.memory)


def beyond_text(sight: NodeSight, of: str, now_ms: int) -> str:
    """Which container on a node has run beyond all that is known; "" for none."""
    durations = Durations(sight.finished)
    for one in sorted(sight.running(), key=begun):
        expected = durations.of(one)
        if not one.is_am and beyond(one, expected, now_ms):
            where = "its node's median" if expected.basis == OF_NODE else "the median in this cluster"
            ran = f"{short(one.container_id, of)} has run {span(ran_ms(one, now_ms))}"
            return f"{ran}, and {where} is {span(expected.ms)}; `yopp run --expect 30s …` helps"
    return ""


def unknown_because(reasons: Sequence[Reason], sight: NodeSight, report: ContainerReport, now_ms: int) -> str:
    """Why there is no estimate."""
    if any(one.code is ReasonCode.PRESSURE for one in reasons) or sight.pressed():
        return "that is up to the rest of this machine"
    if told := beyond_text(sight, report.application_id, now_ms):
        return told
    if not Durations(sight.finished).of(report).ms:
        return (
            "nothing like it has ended yet, and nobody declared how long it runs (`yopp run --expect 30s …`)"
        )
    return "it waits for containers of which nobody knows how long they run"


def estimated(found: Explanation, first: Start | None, last: Start | None, now_ms: int) -> Explanation:
    """The explanation with when the first and the last may start."""
    best = last or first
    if best is None:
        return found
    return replace(
        found,
        estimated_start_ms=now_ms + first.in_ms if first is not None else 0,
        estimated_last_ms=now_ms + last.in_ms if last is not None else 0,
        estimate=best.expected.basis,
        outlived=best.outlived,
    )


def _paused(report: ContainerReport, sight: NodeSight, now_ms: int) -> Explanation:
    identifier = report.container_id
    why = " ".join(report.diagnostics.strip().rpartition("\n")[2].split())
    since, times, of = report.paused_at_ms, waited(report, now_ms), report.application_id
    sentence = f"{identifier} is PAUSED on {report.node_id} for {span(now_ms - since)}"
    start: Start | None = None
    match why_paused(report):
        case WhyPaused.PERSON:
            reason = Reason(ReasonCode.PAUSED_BY_PERSON, "a person paused it")
            sentence += ": a person paused it, and nobody has resumed it."
            actions = [Suggestion(f"yopp container resume {identifier}", "goes on as soon as there is room")]
        case WhyPaused.PRESSURE:
            free = sight.free_for(report.execution_type)
            reason = Reason(
                ReasonCode.PRESSURE,
                "processes outside yopp need its room",
                "vcores",
                report.resource.vcores,
                free.vcores,
                sight.node.total.vcores,
            )
            sentence += f": {why.rstrip('.')}. It goes on when they need less."
            actions = [Suggestion(f"yopp container promote {identifier}", "goes on beside them")]
        case WhyPaused.ROOM:
            reason = _made_room(report, sight)
            wanted, free = report.resource.vcores, sight.free()
            sentence += (
                f": {why.rstrip('.') or 'it made room'}. It goes on when {count(wanted, 'vcore')} "
                f"{are(wanted)} free ({free.vcores} now)"
                f"{held_by([one for one in sight.running() if one.resource.vcores], now_ms, of)}."
            )
            start = estimated_start(report, sight, now_ms)
            actions = _promotion(report, sight)
        case WhyPaused.RESUMED:
            reason = resumed_reason([report], sight)
            sentence += f": {reason.text}."
            start = estimated_start(report, sight, now_ms)
            actions = _promotion(report, sight)
    if start is not None:
        sentence += f" It {begins(start, of, 'goes on', 'go on')}."
    actions.append(Suggestion(f"yopp container kill {identifier}", "ends it; its work is lost"))
    found = Explanation(
        identifier,
        "container",
        "PAUSED",
        sentence,
        since_ms=since,
        waits=True,
        reasons=(reason, *unusable(sight.node)),
        actions=tuple(actions),
        waited_since_submit_ms=times.since_submit,
        waited_since_eligible_ms=times.since_eligible,
    )
    return estimated(found, start, start, now_ms)


def _promotion(report: ContainerReport, sight: NodeSight) -> list[Suggestion]:
    if not has_promise(report, sight.node):
        return []
    command = f"yopp container promote {report.container_id}"
    return [Suggestion(command, "goes on before all opportunistic ones")]


def resumed_reason(waiting: Sequence[ContainerReport], sight: NodeSight) -> Reason:
    """Why containers of one application that a person paused and resumed do not go on: who has their vcores, or what
    is the matter with their node's machine."""
    first, node = waiting[0], sight.node
    needs = Resource(0, first.resource.vcores)
    free, left = sight.free(), sight.free_for(first.execution_type)
    if found := shortages(needs, free, node.total, sight.running(), ()):
        lacks = needs.vcores - free.vcores
        text = f"resumed, and {are(len(waiting), 'waits', 'wait')} for {'a vcore' if lacks == 1 else f'{lacks} vcores'}"
        held = f"; held by {names(found[0].by, first.application_id)}" if found[0].by else ""
        return replace(found[0], text=text + held)
    if not needs.fits_in(left):
        pressure = _pressure(needs, left, node.total)
        return replace(pressure, text=f"resumed, and waits: {pressure.text}")
    ahead = [one for one in sight.queued() if one.execution_type is ExecutionType.GUARANTEED]
    text = "resumed, and goes on at any moment"
    if ahead:
        text = f"resumed, and waits behind {by_type(ahead)} that {are(len(ahead), 'waits', 'wait')} for room"
    return Reason(ReasonCode.BEHIND, text, by=tuple(one.container_id for one in ahead[:20]))


def _made_room(report: ContainerReport, sight: NodeSight) -> Reason:
    """Guaranteed containers have what it had; where none has, others of its type."""
    running = sorted(sight.running(), key=begun)
    holders = [
        one for one in running if one.execution_type is ExecutionType.GUARANTEED and one.resource.vcores
    ]
    holders = holders or [one for one in running if one.resource.vcores]
    text = f"{by_type(holders)} {are(len(holders), 'has', 'have')} its vcores" if holders else "it made room"
    return Reason(
        ReasonCode.PAUSED_FOR,
        text,
        "vcores",
        report.resource.vcores,
        sight.free().vcores,
        sight.node.total.vcores,
        tuple(one.container_id for one in holders[:20]),
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
    oldest = sorted(running, key=begun)
    if needs.vcores > free.vcores:
        by = tuple(one.container_id for one in oldest if one.resource.vcores)
        found.append(
            Reason(
                ReasonCode.NO_VCORES,
                f"it needs {count(needs.vcores, 'vcore')}, and {free.vcores} of {total.vcores} "
                f"{are(free.vcores)} free",
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
        f"it needs {amount(needs)}, and {where} has {amount(largest)} in all",
        "memoryMB" if memory else "vcores",
        needs.memory if memory else needs.vcores,
        0,
        largest.memory if memory else largest.vcores,
    )


def beside_master(needs: Resource, master: Resource, total: Resource, where: str) -> Reason | None:
    """Why a container never fits on ``where`` beside its own application's master, which lives for as long as it; None
    where it does, or where the node is too small even without it."""
    left = (total - master).at_least_zero()
    if needs.fits_in(left) or not needs.fits_in(total):
        return None
    memory = needs.memory > left.memory
    holds, all_of, most = (
        (f"{master.memory} MB", f"{total.memory} MB", f"{left.memory} MB")
        if memory
        else (count(master.vcores, "vcore"), count(total.vcores, "vcore"), count(left.vcores, "vcore"))
    )
    text = (
        f"its own master holds {holds} of the {all_of} of {where}: ask for at most {most}, or run without -d"
    )
    if memory:
        return Reason(ReasonCode.TOO_BIG, text, "memoryMB", needs.memory, left.memory, total.memory)
    return Reason(ReasonCode.TOO_BIG, text, "vcores", needs.vcores, left.vcores, total.vcores)


def never_here(report: ContainerReport, sight: NodeSight) -> Reason | None:
    """Why one that waits at a node can never start there: too large for it, or for what its own master leaves of it."""
    node = sight.node
    if not report.resource.fits_in(node.total):
        return too_big(report.resource, [node.total], node.node_id)
    of = report.application_id
    master = sum_of(one.resource for one in sight.live if one.is_am and one.application_id == of)
    return None if report.is_am else beside_master(report.resource, master, node.total, node.node_id)


def unusable(node: NodeReport) -> list[Reason]:
    """Why a node takes nothing new, or does not move; nothing where it works."""
    if node.state in (NodeState.DECOMMISSIONING, NodeState.DECOMMISSIONED):
        word = "is being" if node.state is NodeState.DECOMMISSIONING else "has been"
        code, text = ReasonCode.NODE_DRAINING, f"{word} drained: nothing new comes there"
    elif node.state in (NodeState.LOST, NodeState.SHUTDOWN):
        lost = node.state is NodeState.LOST
        code, text = ReasonCode.NODE_LOST, "was silent for too long" if lost else "has ended"
    elif node.state is not NodeState.RUNNING or not node.connected:
        told = f"is {node.state.value}" if node.state is not NodeState.RUNNING else "is silent"
        because = f": {node.health_report}" if node.health_report else ""
        code, text = ReasonCode.NODE_UNUSABLE, f"{told}{because}"
    else:
        return []
    return [Reason(code, f"{node.node_id} {text}", by=(node.node_id,))]


def limit_of(node: NodeReport) -> int:
    """How many opportunistic containers may wait at a node: what it holds, or less if the RM says so."""
    capacity, limit = node.opportunistic.queue_capacity, node.queue_limit
    return min(capacity, limit) if limit >= 0 else capacity


def limit_text(node: NodeReport) -> str:
    """How long its queue may be."""
    told = f" (the ResourceManager asks it to keep {node.queue_limit})" if node.queue_limit >= 0 else ""
    return f"Its node lets {count(limit_of(node), 'opportunistic container')} wait{told}."


def needs_text(
    report: ContainerReport, sight: NodeSight, reasons: Sequence[Reason], now_ms: int, who: str = "It"
) -> str:
    """What one that queues needs against what is free, what of it is missing, and who has that."""
    needs, free = report.resource, sight.free()
    text = f"{who} needs {amount(needs)}; free: {amount(free)}"
    codes = {reason.code for reason in reasons}
    if ReasonCode.TOO_BIG in codes:
        if needs.fits_in(sight.node.total):
            return f"{text}. " + " ".join(f"{capital(one.text)}." for one in reasons)
        return f"{text}, and the node has no more than {amount(sight.node.total)}."
    missing = []
    if ReasonCode.NO_VCORES in codes:
        missing.append(
            "a vcore" if needs.vcores - free.vcores == 1 else f"{needs.vcores - free.vcores} vcores"
        )
    if ReasonCode.NO_MEMORY in codes:
        missing.append(f"{needs.memory - free.memory} MB of memory")
    if missing:
        vcores = ReasonCode.NO_VCORES in codes
        holders = [one for one in sight.running() if (one.resource.vcores if vcores else one.resource.memory)]
        if not vcores:
            holders += sight.paused()
        held = held_by(holders, now_ms, report.application_id)
        if report.execution_type is ExecutionType.GUARANTEED:
            return f"{text}: it waits until opportunistic containers have made room{held}."
        return f"{text}: it waits for {' and '.join(missing)}{held}."
    if ReasonCode.PRESSURE in codes:
        return f"{text}, but not for opportunistic containers."
    if ReasonCode.BEHIND in codes:
        return f"{text}: there is room for it, and others are before it."
    return f"{text}: there is room for it, it starts at any moment."


def has_promise(report: ContainerReport, node: NodeReport) -> bool:
    """Whether its node could promise it its resources now: guaranteed containers have not been promised them."""
    return node.state is NodeState.RUNNING and report.resource.fits_in(
        (node.total - node.used).at_least_zero()
    )


def ways_out(report: ContainerReport, sight: NodeSight) -> list[Suggestion]:
    """What can be typed about one that queues, and helps."""
    actions = []
    if report.execution_type is ExecutionType.OPPORTUNISTIC and has_promise(report, sight.node):
        promote = f"yopp container promote {report.container_id}"
        actions.append(
            Suggestion(promote, "starts it now, as a guaranteed one: before all opportunistic ones")
        )
    if not report.resource.fits_in(sight.node.total):
        actions.append(enlarge(sight.node, report.resource))
    actions.append(
        Suggestion(
            f"yopp container kill {report.container_id}", "takes it out of the queue; nothing of it ran"
        )
    )
    return actions


def enlarge(node: NodeReport, needs: Resource) -> Suggestion:
    """How a node is made large enough."""
    memory, vcores = max(node.total.memory, needs.memory), max(node.total.vcores, needs.vcores)
    command = f"yopp node resize --memory {memory} --vcores {vcores} {node.node_id}"
    return Suggestion(command, "makes the node large enough for it, where the machine is")


def estimated_start(report: ContainerReport, sight: NodeSight, now_ms: int) -> Start | None:
    """When one that waits at a node will probably start or go on; None where nothing can be said.

    Where nothing is known of how long containers run, its share of what the node itself says of its queue.
    """
    if report.execution_type is ExecutionType.OPPORTUNISTIC and sight.pressed():
        return None
    wanted = report.container_id
    found = starts(
        {sight.node.node_id: sight.lane(Durations(sight.finished), now_ms)}, (), frozenset((wanted,))
    )
    if wanted in found:
        return found[wanted][0]
    status, line = sight.node.opportunistic, [one.container_id for one in sight.line()]
    known = any(one.duration_hint_ms for one in sight.live) or bool(sight.finished)
    if known or status.estimated_queue_wait_ms <= 0 or wanted not in line:
        return None
    part = (line.index(wanted) + 1) / (len(line) + 1)
    return Start(round(status.estimated_queue_wait_ms * part), Expected(0, BY_NODE))
