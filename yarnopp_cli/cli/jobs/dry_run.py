"""``--dry-run`` of jobs: what would run, where it would go, whether it would queue. Nothing is submitted or started."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from executor.records import Resource

from ...errors import EXIT_FAILURE, ConnectionFailedError
from ...explain.dry_run import Forecast, Place, forecast
from ...jobs.progress import kinds_text
from ...records.explanation import Reason, ReasonCode
from ...views.text import number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...records.jobs import JobSpec
    from ..frame.output import Printer
    from ..frame.session import Session

_MINIMUM_MB = "yarn.scheduler.minimum-allocation-mb"
_MINIMUM_VCORES = "yarn.scheduler.minimum-allocation-vcores"


def tell(session: Session, job: JobSpec, master: Resource | None = None) -> int:
    """Print what would happen to ``job``; the exit code, 1 where it would be refused. ``master`` is the size of a
    detached job's master, None where it runs in the client."""
    found: Forecast | None = None
    printer = session.printer
    try:
        info = session.client.cluster_info()
        known = info.properties
        least = Resource(int(known.get(_MINIMUM_MB, "1024")), int(known.get(_MINIMUM_VCORES, "1")))
        nodes = session.client.nodes()
        found = forecast(
            job,
            nodes,
            session.client.containers(nodes=nodes),
            opportunistic=info.opportunistic_enabled,
            minimum=least,
            master=master,
        )
    except ConnectionFailedError:
        pass  # a cluster would be started for it
    if printer.is_json:
        printer.document({"dryRun": _document(job, found)})
    else:
        _say(printer, job, found)
    return EXIT_FAILURE if found is not None and (found.refused or found.impossible) else 0


def _document(job: JobSpec, found: Forecast | None) -> dict[str, Any]:
    return {
        "name": job.name,
        "type": job.application_type,
        "phases": [
            {"name": phase.name, "tasks": len(phase.tasks), "command": list(phase.command)}
            for phase in job.phases
        ],
        "cluster": "running" if found is not None else "would be started",
        "refused": found.refused if found is not None else "",
        "nodes": []
        if found is None
        else [
            {
                "node": one.node_id,
                "starts": one.starts,
                "preempting": one.preempting,
                "queued": one.queued,
                "ahead": one.ahead,
                "reasons": [reason.code.value for reason in one.reasons],
            }
            for one in found.places
        ],
        "waiting": found.waiting if found is not None else 0,
        "held": found.held if found is not None else 0,
        "heldReasons": [] if found is None else [reason.code.value for reason in found.unusable],
        "impossible": found.impossible if found is not None else 0,
        "later": found.later if found is not None else 0,
    }


def _say(printer: Printer, job: JobSpec, found: Forecast | None) -> None:
    first = job.phases[0]
    sizes = sorted({task.resource for task in first.tasks})
    size = " or ".join(f"{one.memory} MB, {number_of(one.vcores, 'vcore')}" for one in sizes)
    printer.text(f"{job.name}: {kinds_text(job)}, of {size}")
    if first.command:
        printer.text(f"  command: {shlex.join(first.command)}")
    if found is None:
        printer.text("  no cluster is running: one would be started for it, and end with it")
    elif found.refused:
        printer.text(f"  would be refused: {found.refused}")
    else:
        for one in found.places:
            printer.text(f"  {one.node_id}: {_what(one)}")
            for reason in one.reasons:
                printer.text(f"    {reason.text}")
        if found.waiting > found.held:
            printer.text(f"  {found.waiting - found.held} would wait for a node with room")
        if found.held:
            printer.text(f"  {found.held} would wait: {held_text(found.unusable)}")
        if found.impossible:
            why = found.because or "no node is large enough, or none is where they must go"
            printer.text(f"  {found.impossible} could never run: {why}")
        if found.later:
            printer.text(f"  {found.later} more when these have ended")
    printer.note("nothing was changed")


def held_text(reasons: Sequence[Reason]) -> str:
    """Why nodes take nothing new, and what makes those that are drained take it again."""
    told = "; ".join(reason.text for reason in reasons[:3])
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
