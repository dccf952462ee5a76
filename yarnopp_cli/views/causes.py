"""Causes as documents. Pure."""

from __future__ import annotations

from typing import Any

from executor.causes import Cause


def document(cause: Cause | None) -> dict[str, Any] | None:
    """Its kind and the fields that belong to it; None where there is no cause."""
    if cause is None:
        return None
    facts: dict[str, Any] = {
        "by": cause.by,
        "forContainer": cause.for_container,
        "forMemory": cause.for_memory,
        "cores": cause.cores,
        "measured": cause.measured,
        "limit": cause.limit,
        "version": cause.version,
        "text": cause.text,
    }
    return {"kind": cause.kind.value} | {name: value for name, value in facts.items() if value}
