"""The transition table as a document: ``docs/states.md``, which a test keeps current."""

from __future__ import annotations

from ..records import SUB_STATES, ContainerState
from . import commands
from .container import TRANSITIONS

_MEANINGS = {
    ContainerState.SCHEDULED: "It waits in a queue, or is about to start.",
    ContainerState.LAUNCHING: "It has its resources, and its process is being started.",
    ContainerState.RUNNING: "Its process exists.",
    ContainerState.PAUSING: "Its processes are being stopped; it holds all of its resources.",
    ContainerState.PAUSED: "Its processes stand still; it holds its memory and not its vcores.",
    ContainerState.RESUMING: "It has its vcores again, and its processes are being continued.",
    ContainerState.KILLING: "It was told to end, and holds its resources until it has.",
    ContainerState.DONE: "It has ended, and its end is reported.",
}


def states_document() -> str:
    """The Markdown of ``docs/states.md``: a diagram, what each state means, and every transition."""
    lines = [
        "# The states of a container",
        "",
        "Generated from the table in `executor/core/container.py`; a test tells when this is not current.",
        "Commands (given by the scheduler) are in italics, events (seen of the container) are not. What",
        "is not in this table is a bug.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> SCHEDULED",
    ]
    for state, row in TRANSITIONS.items():
        for following in dict.fromkeys(row.values()):
            triggers = ", ".join(t.__name__ for t, target in row.items() if target is following)
            if following is not state:
                lines.append(f"    {state.value} --> {following.value}: {triggers}")
    lines += ["    DONE --> [*]", "```", ""]
    lines += ["| state | YARN's sub-state | what it means |", "| --- | --- | --- |"]
    lines += [f"| {state.value} | {SUB_STATES[state].value} | {_MEANINGS[state]} |" for state in TRANSITIONS]
    lines += ["", "| from | by | to |", "| --- | --- | --- |"]
    for state, row in TRANSITIONS.items():
        for trigger, following in row.items():
            name = f"*{trigger.__name__}*" if hasattr(commands, trigger.__name__) else trigger.__name__
            lines.append(f"| {state.value} | {name} | {following.value} |")
    return "\n".join(lines) + "\n"
