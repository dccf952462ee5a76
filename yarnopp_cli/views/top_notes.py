"""What ``yopp top`` says below its tables: the row under the cursor, in full. Pure."""

from __future__ import annotations

from executor.records import ContainerState

from ..explain.snapshot import is_waiting
from ..records.history import HistoryEvent
from ..records.reports import FINAL_STATES, ApplicationReport, ContainerReport, NodeReport, NodeState
from .applications import counts_text
from .cells import ACCENT, BAD, DIM, GOOD, STRONG, WARN, Cell, short_span, state_cell
from .containers import command_text, exit_text, is_live, shown_state
from .events import details, subject
from .explain.reasons import why
from .nodes import state_text
from .picture import Picture
from .text import number_of, timestamp, vcores

Told = tuple[Cell, ...]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def of_node(node: NodeReport, picture: Picture) -> Told:
    """Its state in full, since when it is silent, what its queue may hold, its health."""
    told = [Cell(node.node_id, STRONG), Cell(" "), state_cell(state_text(node))]
    status = node.opportunistic
    if node.state is NodeState.DECOMMISSIONING:
        left = node.num_containers + status.running + status.queued
        told.append(
            Cell(
                f", gets nothing new; {number_of(left, 'container')} {'is' if left == 1 else 'are'} left",
                WARN,
            )
        )
    elif node.state is NodeState.DECOMMISSIONED:
        told.append(Cell(", drained: `n` uses it again", DIM))
    if not node.connected and node.state is NodeState.RUNNING:
        age = short_span(picture.taken_at_ms - node.last_heartbeat_ms)
        told.append(Cell(f" for {age}: what is shown is from then", WARN))
    if node.health_report:
        told.append(Cell(f"  {node.health_report}", WARN))
    if node.state in (NodeState.RUNNING, NodeState.DECOMMISSIONING):
        asked = f", the RM asks for {node.queue_limit} at most" if node.queue_limit >= 0 else ""
        told.append(Cell(f"  {status.queued} of {status.queue_capacity} queued{asked}"))
        if status.paused:
            told.append(Cell(f"  {status.paused} paused", WARN))
        total = f"  {vcores(node.total.vcores)}, {node.total.memory} MB"
        told.append(Cell(total + (f", labels {','.join(node.labels)}" if node.labels else ""), DIM))
    return tuple(told)


def of_container(one: ContainerReport, picture: Picture) -> Told:
    """Its id in full, why it waits or how it ended, and what it runs."""
    told = [Cell(one.container_id, STRONG)]
    if not is_live(one):
        good = one.exit_status == 0
        last = _last_line(one.diagnostics)
        ended = f" ended: {exit_text(one)}"
        told.append(Cell(ended, GOOD if good else BAD))
        if last and not good:
            told.append(Cell(f" {last}"))
    elif is_waiting(one):
        told += [Cell(f" {shown_state(one)}: "), _why(one, picture)]
    told.append(Cell(f"  {command_text(one)}", DIM))
    return tuple(told)


def _why(one: ContainerReport, picture: Picture) -> Cell:
    return Cell(why(one, picture), WARN if one.state is not ContainerState.SCHEDULED else "")


def of_waiting(one: ContainerReport, picture: Picture) -> Told:
    """Why it waits, first of all."""
    node = picture.node(one.node_id)
    queued = f", number {one.position} in the queue of {one.node_id}" if one.position and node else ""
    return (
        _why(one, picture),
        Cell(queued),
        Cell(f"  {one.container_id}", STRONG),
        Cell(f"  {command_text(one)}", DIM),
    )


def of_application(app: ApplicationReport, picture: Picture) -> Told:
    """Its id in full, whose it is, its containers in words, and how it ended."""
    told = [
        Cell(app.application_id, STRONG),
        Cell(f" {app.name}", ACCENT),
        Cell(f"  {app.user}, queue {app.queue}"),
        Cell(f"  {counts_text(app)}"),
    ]
    last = _last_line(app.diagnostics)
    if last and (app.state in FINAL_STATES or not app.containers_running):
        told.append(Cell(f"  {last}", WARN))
    return tuple(told)


def of_event(event: HistoryEvent, picture: Picture) -> Told:
    """The whole event, and its day: the row has the time."""
    return (
        Cell(f"{event.kind.value} ", STRONG),
        Cell(details(event)),
        Cell(f"  {subject(event)}  "),
        Cell(timestamp(event.t)[:10], DIM),
    )
