"""The commands of the ResourceManager: answers to calls, what its daemon writes to files, and copies of itself."""

from __future__ import annotations

from dataclasses import dataclass

from executor.core.cell import MachineCrashed
from executor.light import Record, field

from ..machine.calls import CallReceived, Reply, ReplyError, StopDaemon
from ..records.explanation import JobForecast
from ..records.history import ApplicationHistory, HistoryEvent
from ..records.state import RemoveRecords, StoreRecord
from ..records.tracker_protocol import NodeOrders


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """Write the history of an ended application to a file; the oldest files may be removed. The command precedes the
    record that confirms it. ``if_missing``: write only if there is no file. The application ended in a previous RM
    process, which remembered more of it.
    """

    history: ApplicationHistory
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class KeepEvents:
    """Store these events before they are reported, if the RM keeps its state."""

    events: tuple[HistoryEvent, ...]


@dataclass(frozen=True, slots=True)
class KeepCrash:
    """A hosted master has ended by a bug of its own: write the events before the crash to a file."""

    application_id: str
    crash: MachineCrashed


@dataclass(frozen=True, slots=True)
class ForgetState:
    """The cluster has ended in order: the next RM process starts without records."""


@dataclass(frozen=True, slots=True)
class PlaceByCopy:
    """Let a copy of this machine place the job of a call. Ends in JobPlaced."""

    call: CallReceived


@dataclass(frozen=True, slots=True)
class JobPlaced:
    """An event: the placements of a copy for the job of the call. ``failed`` is the reason why there is no copy."""

    call: CallReceived
    placement: Placement | None = None
    failed: str = ""


class Placement(Record):
    """The placement of a job's containers: the orders for each node, by id, and the number of the job's containers
    there; ``rest`` is the part of the forecast that needs no node.
    """

    application_id: str = ""
    orders: dict[str, tuple[NodeOrders, ...]] = field(default_factory=dict)
    granted: dict[str, int] = field(default_factory=dict)
    rest: JobForecast = JobForecast()


Command = (
    Reply
    | ReplyError
    | StopDaemon
    | KeepHistory
    | KeepEvents
    | KeepCrash
    | StoreRecord
    | RemoveRecords
    | ForgetState
    | PlaceByCopy
)
"""All commands that a ResourceManager may return."""
