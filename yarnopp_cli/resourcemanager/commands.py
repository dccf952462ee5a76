"""The commands of the ResourceManager: answers, and what its daemon is to write down."""

from __future__ import annotations

from dataclasses import dataclass

from executor.core.cell import MachineCrashed

from ..machine.calls import Reply, ReplyError, StopDaemon
from ..records.history import ApplicationHistory, HistoryEvent
from ..records.state import RemoveRecords, StoreRecord


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """What is remembered of an ended application is to be written down, and the oldest of these may go. This comes
    before the record that says so. ``if_missing``: it ended in an earlier life of the RM, which remembered more of it.
    """

    history: ApplicationHistory
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class KeepEvents:
    """Write these events down before they are reported, where the RM keeps its state."""

    events: tuple[HistoryEvent, ...]


@dataclass(frozen=True, slots=True)
class KeepCrash:
    """A hosted master has ended by a bug of its own: the story is to be written down."""

    application_id: str
    crash: MachineCrashed


@dataclass(frozen=True, slots=True)
class ForgetState:
    """The cluster has ended in order: the next RM begins with nothing."""


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
"""Everything that a ResourceManager may answer with."""
