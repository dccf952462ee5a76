"""The commands of the ResourceManager: answers to calls, and what its daemon writes to files."""

from __future__ import annotations

from dataclasses import dataclass

from executor.core.cell import MachineCrashed

from ..machine.calls import Reply, ReplyError, StopDaemon
from ..records.history import ApplicationHistory, HistoryEvent
from ..records.state import RemoveRecords, StoreRecord


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
)
"""All commands that a ResourceManager may return."""
