"""Why a container stands still, goes on or has ended: a value, decided once and told everywhere.

Whoever decides something about a container makes a ``Cause``. It is stored with the container's record, and travels
with its status and its report, to the history and to the REST API. People read sentences instead: YARN's diagnostics
come from ``core/outcome.py``, explanations from the views. No program reads a sentence back.
"""

from __future__ import annotations

import enum
from typing import TypeGuard

from .light import dataclass


class CauseKind(enum.StrEnum):
    """What kind of cause it is. After each, the fields of ``Cause`` that belong to it."""

    # Of a pause, and of an end as well where pausing is not possible or not wanted.
    #: a person asked for it; ``by``
    PERSON = "PERSON"
    #: a guaranteed container needs the room; ``for_container``, and ``for_memory`` where pausing would not have done
    MAKE_ROOM = "MAKE_ROOM"
    #: processes outside yopp want the CPU; ``cores``
    OUTSIDE_CPU = "OUTSIDE_CPU"
    #: guaranteed containers use the CPU that it had on loan
    LENT_CPU = "LENT_CPU"
    #: the memory of the machine runs out; ``measured`` bytes are available, and ``limit`` are to stay so
    MACHINE_MEMORY = "MACHINE_MEMORY"
    #: other containers use the memory that it had on loan
    LENT_MEMORY = "LENT_MEMORY"

    #: whoever or whatever paused it has let it go, and it waits for room; ``by``, empty where pressure is over
    RESUMED = "RESUMED"

    # Of a refusal: what was asked of a container was not done.
    #: a pause failed, and it runs on; ``text``
    PAUSE_FAILED = "PAUSE_FAILED"
    #: its node has no room for the type or the size that it was to get; ``version``, that of the update
    UPDATE_REFUSED = "UPDATE_REFUSED"

    # Of an end that its node decided, or found.
    #: refused on arrival: the queue is full
    QUEUE_FULL = "QUEUE_FULL"
    #: given up to keep to the queue length that the ResourceManager asks for
    SHED = "SHED"
    #: its node can never run it
    TOO_LARGE = "TOO_LARGE"
    #: ended by the kernel's OOM killer; ``measured`` bytes used at the peak, ``limit`` allowed
    OOM_KILLED = "OOM_KILLED"
    #: measured above its memory; ``measured`` and ``limit`` in bytes
    OVER_MEMORY = "OVER_MEMORY"
    #: measured above its virtual memory; ``measured`` and ``limit`` in bytes
    OVER_VIRTUAL_MEMORY = "OVER_VIRTUAL_MEMORY"
    #: ran for longer than ``limit`` milliseconds
    TIMED_OUT = "TIMED_OUT"
    #: could not be started; ``text``
    LAUNCH_FAILED = "LAUNCH_FAILED"
    #: its processes are gone and left no exit code
    LOST = "LOST"

    # Of an end that the cluster decided.
    #: its master ended it
    MASTER = "MASTER"
    #: its master gave it back
    RELEASED = "RELEASED"
    #: its application has ended
    APPLICATION_ENDED = "APPLICATION_ENDED"
    #: the ResourceManager ended it; ``text``
    RESOURCEMANAGER = "RESOURCEMANAGER"
    #: the ResourceManager preempted it for its queue, or for another user's share; ``text``
    PREEMPTED = "PREEMPTED"
    #: it was granted and nobody started it
    EXPIRED = "EXPIRED"
    #: its node was stopped; ``text``
    NODE_STOPPED = "NODE_STOPPED"
    #: its node is drained
    NODE_DRAINED = "NODE_DRAINED"
    #: its node is gone, or does not know it any more
    NODE_LOST = "NODE_LOST"


CPU_PRESSURE = frozenset({CauseKind.OUTSIDE_CPU, CauseKind.LENT_CPU})
"""The processors are busy with what has a better claim to them; it goes on when that is over."""

MEMORY_PRESSURE = frozenset({CauseKind.MACHINE_MEMORY, CauseKind.LENT_MEMORY})
"""Memory is needed by what has a better claim to it; it goes on when that is over."""

PRESSURE = CPU_PRESSURE | MEMORY_PRESSURE
"""What a measurement led to, and not a decision of the cluster or of a person."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why: a kind, and what belongs to it, as ``CauseKind`` says. Fields that do not belong to it are empty.

    ``by`` is the user who asked; ``for_container`` the id of the container that needs the room; ``cores`` how many
    cores processes outside yopp want; ``measured`` and ``limit`` what was found and what was allowed; ``version`` that
    of an update; ``text`` what the operating system or the ResourceManager said of it, for people.
    """

    kind: CauseKind
    by: str = ""
    for_container: str = ""
    for_memory: bool = False
    cores: int = 0
    measured: int = 0
    limit: int = 0
    version: int = 0
    text: str = ""


def of_kind(cause: Cause | None, *kinds: CauseKind) -> TypeGuard[Cause]:
    """Whether there is a cause, of one of these kinds."""
    return cause is not None and cause.kind in kinds


_PAUSED_FOR = {
    CauseKind.PERSON: "PERSON",
    CauseKind.MAKE_ROOM: "GUARANTEED",
    CauseKind.OUTSIDE_CPU: "LOAD",
    CauseKind.LENT_CPU: "GUARANTEED",
    CauseKind.MACHINE_MEMORY: "MEMORY",
    CauseKind.LENT_MEMORY: "MEMORY",
}


def paused_for(cause: Cause) -> str:
    """A cause in the four words that jobs count paused time by: LOAD of processes outside, MEMORY, GUARANTEED
    containers or a PERSON; "" where it is no cause of a pause."""
    return _PAUSED_FOR.get(cause.kind, "")
