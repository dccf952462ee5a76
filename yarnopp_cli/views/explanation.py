"""An explanation as lines and as JSON."""

from __future__ import annotations

from typing import Any

from ..records.explanation import Explanation


def document(found: Explanation) -> dict[str, Any]:
    """The object of ``yopp explain --json``."""
    return {
        "id": found.id,
        "kind": found.kind,
        "state": found.state,
        "since": found.since_ms,
        "waits": found.waits,
        "satisfiable": found.satisfiable,
        "can_ever": found.satisfiable,
        "sentence": found.sentence,
        "reasons": [
            {
                "code": reason.code.value,
                "text": reason.text,
                "resource": reason.resource,
                "needs": reason.needs,
                "free": reason.free,
                "total": reason.total,
                "by": list(reason.by),
            }
            for reason in found.reasons
        ],
        "position": found.position,
        "queueLength": found.queue_length,
        "queueLimit": found.queue_limit,
        "estimatedStart": found.estimated_start_ms,
        "estimatedLast": found.estimated_last_ms,
        "estimate": found.estimate,
        "outlived": list(found.outlived),
        "waitedSinceSubmitMs": _known(found.waited_since_submit_ms),
        "waitedSinceEligibleMs": _known(found.waited_since_eligible_ms),
        "actions": [{"command": one.command, "effect": one.effect} for one in found.actions],
    }


def _known(milliseconds: int) -> int | None:
    return milliseconds if milliseconds >= 0 else None


def lines(found: Explanation) -> list[str]:
    """One sentence a line, and what can be typed."""
    told = found.sentence.replace(". ", ".\n").split("\n")
    told = [told[0], *(f"  {line}" for line in told[1:])]
    return told + [f"  `{one.command}`: {one.effect}" for one in found.actions]
