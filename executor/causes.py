"""Why a container is paused, resumes or has ended: a value, set where it is decided and reported everywhere.

A ``Cause`` is stored with the container's record, and goes with its status and its report to the history and the REST
API. People read sentences instead: YARN's diagnostics come from ``core/outcome.py``, explanations from the views. No
program reads a sentence back.

Decisions: reasons-are-data.
"""

from __future__ import annotations

import enum

from .hints import TypeGuard
from .light import QuickEnum, Record

ENDED_WELL = "It ended by itself with exit code 0 before it was killed."
"""Added to why a container was to be killed, if it completed its work all the same."""


class CauseKind(enum.StrEnum, metaclass=QuickEnum):
    """The kinds of causes. The comment above each names the fields of ``Cause`` that belong to it."""

    # Of a pause; also of an end if pausing is impossible or not wanted.
    #: a user asked for it; ``by``
    PERSON = "PERSON"
    #: a guaranteed container needs the room; ``for_container``, and ``for_memory`` or ``for_resource`` if a
    #: pause would not have sufficed
    MAKE_ROOM = "MAKE_ROOM"
    #: its node was made smaller than what its containers hold; ``for_memory`` or ``for_resource`` if a pause would
    #: not have sufficed
    NODE_RESIZED = "NODE_RESIZED"
    #: processes outside yopp need the CPU; ``cores``
    OUTSIDE_CPU = "OUTSIDE_CPU"
    #: guaranteed containers use the CPU that the container had borrowed
    LENT_CPU = "LENT_CPU"
    #: the host runs out of memory; ``measured`` bytes are available, ``limit`` must stay available
    MACHINE_MEMORY = "MACHINE_MEMORY"
    #: other containers use the memory that the container had borrowed
    LENT_MEMORY = "LENT_MEMORY"

    #: opportunistic containers may not run at this time of day; ``until_ms``
    OUTSIDE_WINDOW = "OUTSIDE_WINDOW"

    #: its pause was ended, and it waits for room; ``by``, empty if it was paused because of pressure
    RESUMED = "RESUMED"

    # Of a refusal: a request was not fulfilled.
    #: a pause failed, and the container still runs; ``text``
    PAUSE_FAILED = "PAUSE_FAILED"
    #: its node has no room for the new type or size; ``version`` of the update
    UPDATE_REFUSED = "UPDATE_REFUSED"

    #: the kernel refused a part of a change, or a resume; ``text``
    CHANGE_FAILED = "CHANGE_FAILED"

    # Of an end that its node decided, or noticed.
    #: refused on arrival: the queue is full
    QUEUE_FULL = "QUEUE_FULL"
    #: shed to keep the queue length that the ResourceManager asks for
    SHED = "SHED"
    #: its node can never run it
    TOO_LARGE = "TOO_LARGE"
    #: ended by the kernel's OOM killer; ``measured`` bytes used at the peak, ``limit`` allowed
    OOM_KILLED = "OOM_KILLED"
    #: measured above its memory limit; ``measured`` and ``limit`` in bytes
    OVER_MEMORY = "OVER_MEMORY"
    #: measured above its virtual memory limit; ``measured`` and ``limit`` in bytes
    OVER_VIRTUAL_MEMORY = "OVER_VIRTUAL_MEMORY"
    #: wrote more output than is allowed; ``measured`` and ``limit`` in bytes
    EXCESS_LOGS = "EXCESS_LOGS"
    #: has more in its private directory than is allowed; ``measured`` and ``limit`` in bytes
    EXCESS_DISK = "EXCESS_DISK"
    #: ran for longer than ``limit`` milliseconds
    TIMED_OUT = "TIMED_OUT"
    #: could not be started; ``text``
    LAUNCH_FAILED = "LAUNCH_FAILED"
    #: its node could not start it, because disk space, memory or processes are short; ``text``
    NODE_FAULT = "NODE_FAULT"
    #: its processes are gone, and left no exit code
    LOST = "LOST"
    #: ended by the kernel's OOM killer while it was within its limit: memory of the machine, or of a group above it,
    #: ran out; ``measured`` bytes used at the peak, ``limit`` allowed, 0 for no limit
    HOST_OOM = "HOST_OOM"

    # Of an end by itself, in which something was lost.
    #: the OOM killer had ended ``measured`` of its processes; ``limit`` bytes were allowed
    PROCESSES_KILLED = "PROCESSES_KILLED"
    #: its limit of processes had kept ``measured`` from being started
    FORKS_REFUSED = "FORKS_REFUSED"
    #: a file system refused writes while it ran, and its output may be incomplete; ``text``
    OUTPUT_LOST = "OUTPUT_LOST"

    # Of an end that the cluster decided.
    #: its application master ended it
    MASTER = "MASTER"
    #: its application master released it
    RELEASED = "RELEASED"
    #: its application has ended
    APPLICATION_ENDED = "APPLICATION_ENDED"
    #: the ResourceManager ended it; ``text``
    RESOURCEMANAGER = "RESOURCEMANAGER"
    #: the ResourceManager preempted it for its queue, or for another user's share; ``text``
    PREEMPTED = "PREEMPTED"
    #: it was allocated, but not started in time
    EXPIRED = "EXPIRED"
    #: its node was stopped; ``text``
    NODE_STOPPED = "NODE_STOPPED"
    #: its node is drained
    NODE_DRAINED = "NODE_DRAINED"
    #: its node is lost, or no longer knows it
    NODE_LOST = "NODE_LOST"


ROOM = frozenset({CauseKind.MAKE_ROOM, CauseKind.NODE_RESIZED})
"""What the container held is taken; it resumes as soon as there is room."""

CPU_PRESSURE = frozenset({CauseKind.OUTSIDE_CPU, CauseKind.LENT_CPU})
"""Higher-priority work needs the CPU; the container resumes when that is over."""

MEMORY_PRESSURE = frozenset({CauseKind.MACHINE_MEMORY, CauseKind.LENT_MEMORY})
"""Higher-priority work needs the memory; the container resumes when that is over."""

WINDOW = frozenset({CauseKind.OUTSIDE_WINDOW})
"""The container resumes when the window for opportunistic containers opens."""

STANDS_BACK = CPU_PRESSURE | MEMORY_PRESSURE | WINDOW
"""Causes that end by themselves, by measurement or by the clock."""


FLAWS = frozenset({CauseKind.PROCESSES_KILLED, CauseKind.FORKS_REFUSED, CauseKind.OUTPUT_LOST})
"""The container ended by itself, and something was lost."""


class Cause(Record):
    """A reason: a kind, and the fields that belong to it, as ``CauseKind`` says; the others are empty.

    ``by`` is the user who asked; ``for_container`` the id of the container that needs the room;
    ``for_resource`` the countable resource type that a pause would not have freed; ``cores`` how many cores
    processes outside yopp need; ``until_ms`` (epoch) when the container may continue; ``measured`` and
    ``limit`` what was found and what was allowed; ``version`` that of an update; ``text`` what the operating
    system or the ResourceManager reported, for people.
    """

    kind: CauseKind
    by: str = ""
    for_container: str = ""
    for_memory: bool = False
    for_resource: str = ""
    cores: int = 0
    measured: int = 0
    limit: int = 0
    version: int = 0
    until_ms: int = 0
    text: str = ""


def of_kind(cause: Cause | None, *kinds: CauseKind) -> TypeGuard[Cause]:
    """Whether ``cause`` is set, and of one of these kinds."""
    return cause is not None and cause.kind in kinds


_PAUSED_FOR = {
    CauseKind.PERSON: "PERSON",
    CauseKind.MAKE_ROOM: "GUARANTEED",
    CauseKind.NODE_RESIZED: "RESIZE",
    CauseKind.OUTSIDE_CPU: "LOAD",
    CauseKind.LENT_CPU: "GUARANTEED",
    CauseKind.MACHINE_MEMORY: "MEMORY",
    CauseKind.LENT_MEMORY: "MEMORY",
    CauseKind.OUTSIDE_WINDOW: "WINDOW",
}


def paused_for(cause: Cause) -> str:
    """The category in which jobs count paused time: LOAD of processes outside yopp, MEMORY, GUARANTEED
    containers, the RESIZE of a node, a closed WINDOW of time, or a PERSON; "" for other causes."""
    return _PAUSED_FOR.get(cause.kind, "")
