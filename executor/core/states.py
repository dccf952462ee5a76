"""The table of transitions as a document: the part of ``docs/states.md`` that is the node's."""

from __future__ import annotations

from ..records import SUB_STATES
from . import commands
from .container import CONTAINER_TABLE


def container_states() -> list[str]:
    """A diagram, what each state means and is called in YARN's reports, and every transition."""
    return CONTAINER_TABLE.document(
        emphasised=lambda trigger: hasattr(commands, trigger.__name__),
        shown_as=("YARN's sub-state", {state: found.value for state, found in SUB_STATES.items()}),
    )
