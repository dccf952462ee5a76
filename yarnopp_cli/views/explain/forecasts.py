"""What would become of a job, as lines and as JSON. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from ...explain.forecast import Forecast, Place
from ...records.explanation import Reason, ReasonCode
from ...records.jobs import JobSpec
from ..text import vcores
from .reasons import text

_REFUSED = "opportunistic containers are switched off on this cluster"


def document(job: JobSpec, found: Forecast | None) -> dict[str, Any]:
    """The object of ``--dry-run --json``; ``found`` None where a cluster would be started for the job."""
    running, forecast = found is not None, found or Forecast()
    return {
        "name": job.name,
        "type": job.application_type,
        "phases": [
            {"name": phase.name, "tasks": len(phase.tasks), "command": list(phase.command)}
            for phase in job.phases
        ],
        "cluster": "running" if running else "would be started",
        "refused": _REFUSED if forecast.refused else "",
        "nodes": [
            {
                "node": one.node_id,
                "starts": one.starts,
                "preempting": one.preempting,
                "queued": one.queued,
                "ahead": one.ahead,
                "reasons": [reason.code.value for reason in one.reasons],
            }
            for one in forecast.places
        ],
        "waiting": forecast.waiting,
        "held": forecast.held,
        "heldReasons": [reason.code.value for reason in forecast.unusable],
        "impossible": forecast.impossible,
        "later": forecast.later,
    }


def lines(job: JobSpec, kinds: str, found: Forecast | None) -> Iterable[str]:
    """The same for people; ``kinds`` are its tasks by type, in words."""
    first = job.phases[0]
    sizes = sorted({task.resource for task in first.tasks})
    size = " or ".join(f"{one.memory} MB, {vcores(one.vcores)}" for one in sizes)
    yield f"{job.name}: {kinds}, of {size}"
    if first.command:
        yield f"  command: {shlex.join(first.command)}"
    if found is None:
        yield "  no cluster is running: one would be started for it, and end with it"
    elif found.refused:
        yield f"  would be refused: {_REFUSED}"
    else:
        for one in found.places:
            yield f"  {one.node_id}: {_what(one)}"
            yield from (f"    {text(reason)}" for reason in one.reasons)
        if found.waiting > found.held:
            yield f"  {found.waiting - found.held} would wait for a node with room"
        if found.held:
            yield f"  {found.held} would wait: {held_text(found.unusable)}"
        if found.impossible:
            why = (
                text(found.because)
                if found.because
                else "no node is large enough, or none is where they must go"
            )
            yield f"  {found.impossible} could never run: {why}"
        if found.later:
            yield f"  {found.later} more when these have ended"


def held_text(reasons: Sequence[Reason]) -> str:
    """Why nodes take nothing new, and what makes those that are drained take it again."""
    told = "; ".join(text(reason) for reason in reasons[:3])
    drained = [name for one in reasons if one.code is ReasonCode.NODE_DRAINING for name in one.by]
    return f"{told} (`yopp node resume {drained[0]}`)" if drained else told


def _what(place: Place) -> str:
    parts = [f"{place.starts} would start at once"] if place.starts else []
    if place.preempting:
        parts[0] += f" ({place.preempting} of them take room from opportunistic containers)"
    if place.queued:
        behind = f", behind {place.ahead} there" if place.ahead else ""
        parts.append(f"{place.queued} would queue{behind}")
    return ", ".join(parts) or "none"
