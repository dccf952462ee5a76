"""How a container's end is told, and its diagnostics: the only place that makes sentences of causes. Pure functions.

The sentences that YARN's users and tests know are kept to the letter; the others are our own. People read them;
programs read the ``Cause``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..causes import Cause, CauseKind
from ..records import ContainerExitStatus, ContainerState, ContainerUsage, Resource
from .container import Container

QUEUE_FULL = "Opportunistic container queue is full."
KILLED_TO_MAKE_ROOM = "Container Killed to make room for Guaranteed Container."
PAUSED_TO_MAKE_ROOM = "Container Paused to make room for Guaranteed Container"
KILLED_FOR_ITS_MEMORY = f"{KILLED_TO_MAKE_ROOM} Memory was short, and pausing would not have freed enough."
"""Where pausing was allowed, and killing was needed all the same."""
LENT_CPU_IN_USE = "Container paused: guaranteed containers use the CPU that it had on loan."
RESUMED = "Container resumed: it goes on as soon as there is room."
"""Of one that a person paused and resumed, until it runs again."""
DEQUEUED = "Container De-queued to meet NM queuing limits."

EXECUTOR_FAILURE = 125
"""Exit code of a container that the executor itself could not run, as ``env`` and ``docker run`` have it."""
TIMED_OUT = 124
"""Exit status of a container that ran into its time limit, as ``timeout`` has it."""
SIGKILLED = 137
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a container ended. ``cause`` is None where it ended by itself; ``sentence`` is added to its diagnostics."""

    exit_status: int
    exit_code: int | None
    sentence: str = ""
    cause: Cause | None = None


def outcome_of_exit(container: Container, exit_code: int | None, usage: ContainerUsage) -> Outcome:
    """What to report of a container whose processes are gone.

    Who ended it decides first; then the kernel's OOM killer; a container that left no code at all is lost
    (ABORTED), and says nothing about its work; else its own code is its status.
    """
    if container.killed_as is not None:
        return Outcome(container.killed_as, exit_code, cause=container.cause)
    if usage.oom_kills > 0 and exit_code in (None, SIGKILLED):
        peak = max(usage.memory_peak_bytes, usage.memory_bytes)
        cause = Cause(CauseKind.OOM_KILLED, measured=peak, limit=container.resource.memory * MIB)
        status = int(ContainerExitStatus.KILLED_EXCEEDED_PMEM)
        return Outcome(status, SIGKILLED, killed_by_kernel(container, usage), cause)
    if exit_code is None:
        sentence = "Container lost: its processes are gone and left no exit code."
        return Outcome(int(ContainerExitStatus.ABORTED), None, sentence, Cause(CauseKind.LOST))
    if exit_code == 0:
        return Outcome(0, 0)
    sentence = f"Exit code {exit_code}"
    if usage.oom_kills > 0:
        ended = f"The kernel ended {usage.oom_kills} of its processes"
        sentence += f". {ended} for the memory limit of {_limit(container)}."
    return Outcome(exit_code, exit_code, sentence)


def killed_by_kernel(container: Container, usage: ContainerUsage) -> str:
    """The diagnostics of a container that the kernel's OOM killer ended, with limit and peak."""
    peak = max(usage.memory_peak_bytes, usage.memory_bytes)
    return (
        f"{_named(container)} went beyond the 'PHYSICAL' memory limit. Peak usage: {peak / MIB:.1f} MB of "
        f"{_limit(container)} physical memory used. Killed by the kernel."
    )


def killed_by_monitor(container: Container, usage: ContainerUsage) -> str:
    """The diagnostics of a container that a measurement found over its memory (YARN's sentence)."""
    excess = usage.memory_bytes - container.resource.memory * MIB
    return (
        f"{_named(container)} is running {excess}B beyond the 'PHYSICAL' memory limit. Current usage: "
        f"{usage.memory_bytes / MIB:.1f} MB of {_limit(container)} physical memory used. Killing container."
    )


def larger_than_node(resource: Resource, total: Resource) -> str:
    """The diagnostics of a container that this node can never run."""
    return f"Container asks for {resource}, and this node has {total} in all: it can never run here."


def is_over_memory(container: Container, usage: ContainerUsage) -> bool:
    """Whether a measurement is above the container's memory; one that asked for none has no limit."""
    return 0 < container.resource.memory * MIB < usage.memory_bytes


def must_end_for_memory(container: Container, usage: ContainerUsage) -> bool:
    """YARN's rule (``ContainersMonitorImpl``): over twice the limit at once, or over it in two rounds
    running.

    A process that has just forked counts twice for a moment, hence the patience.
    """
    if not is_over_memory(container, usage):
        return False
    return container.over_memory or usage.memory_bytes > 2 * container.resource.memory * MIB


def is_over_virtual(container: Container, usage: ContainerUsage, ratio: float) -> bool:
    """Whether a measurement is above the container's virtual memory: its memory times ``ratio``."""
    return 0 < int(container.resource.memory * MIB * ratio) < usage.virtual_bytes


def must_end_for_virtual_memory(container: Container, usage: ContainerUsage, ratio: float) -> bool:
    """The rule of ``must_end_for_memory``, for virtual memory."""
    if not is_over_virtual(container, usage, ratio):
        return False
    return container.over_virtual or usage.virtual_bytes > 2 * container.resource.memory * MIB * ratio


def killed_for_virtual_memory(container: Container, usage: ContainerUsage, limit: int) -> str:
    """The diagnostics of a container that a measurement found over its virtual memory of ``limit`` bytes (YARN's
    sentence)."""
    return (
        f"{_named(container)} is running {usage.virtual_bytes - limit}B beyond the 'VIRTUAL' memory limit. "
        f"Current usage: {usage.memory_bytes / MIB:.1f} MB of {_limit(container)} physical memory used; "
        f"{usage.virtual_bytes / MIB:.1f} MB of {limit / MIB:.1f} MB virtual memory used. Killing container."
    )


def _named(container: Container) -> str:
    return f"Container [pid={container.pid},containerID={container.container_id}]"


def _limit(container: Container) -> str:
    return f"{container.resource.memory} MB"


def memory_reclaimed(kept: int, before: int) -> str:
    """What became of the memory of a container that was paused where memory was short; both in MiB."""
    return (
        f"{before - kept} MB of its {before} MB of memory were reclaimed; it gets them back when it goes on."
    )


def diagnostics_of(cause: Cause, container: Container) -> str:
    """What is said of a container to people when it is paused, or ended, for ``cause``; of those causes that its node
    finds by itself. Of all others whoever asked for it says the sentence."""
    ends = container.state in (ContainerState.KILLING, ContainerState.DONE)
    match cause.kind:
        case CauseKind.MAKE_ROOM if cause.for_memory:
            return KILLED_FOR_ITS_MEMORY
        case CauseKind.MAKE_ROOM:
            return KILLED_TO_MAKE_ROOM if ends else PAUSED_TO_MAKE_ROOM
        case CauseKind.OUTSIDE_CPU:
            return f"Container paused: processes outside yopp want {cause.cores} of this machine's cores."
        case CauseKind.LENT_CPU:
            return LENT_CPU_IN_USE
        case CauseKind.LENT_MEMORY:
            done = "killed" if ends else "paused"
            return f"Container {done}: other containers use the memory that it had on loan."
        case CauseKind.MACHINE_MEMORY:
            return (
                "Container gives way, as opportunistic containers do first: this machine has "
                f"{cause.measured // MIB} MB of memory left, and {cause.limit // MIB} MB are to stay available."
            )
        case CauseKind.QUEUE_FULL:
            return QUEUE_FULL
        case CauseKind.SHED:
            return DEQUEUED
        case CauseKind.TIMED_OUT:
            return f"Container ran for longer than its limit of {cause.limit} ms."
        case CauseKind.OVER_MEMORY:
            return killed_by_monitor(container, container.usage)
        case CauseKind.OVER_VIRTUAL_MEMORY:
            return killed_for_virtual_memory(container, container.usage, cause.limit)
        case CauseKind.PAUSE_FAILED:
            return f"Container could not be paused: {cause.text}"
        case _:
            return ""
