"""The outcome of a container, and its diagnostics: the only place that turns causes into sentences. Pure functions.

YARN's sentences are used verbatim; the others are yopp's. Sentences are for users; programs read the ``Cause``.
"""

from __future__ import annotations

from ..causes import ENDED_WELL, Cause, CauseKind
from ..light import Record
from ..records import MIB, PREEMPTION_STATUSES, ContainerExitStatus, ContainerState, ContainerUsage, Resource
from .container import Container

QUEUE_FULL = "Opportunistic container queue is full."
KILLED_TO_MAKE_ROOM = "Container Killed to make room for Guaranteed Container."
PAUSED_TO_MAKE_ROOM = "Container Paused to make room for Guaranteed Container"
KILLED_FOR_ITS_MEMORY = f"{KILLED_TO_MAKE_ROOM} Memory was short, and pausing would not have freed enough."
"""Where pausing was allowed, but killing was needed."""
NODE_MADE_SMALLER = "its node was made smaller."
LENT_CPU_IN_USE = "Container paused: guaranteed containers use the CPU that it had borrowed."
WINDOW_CLOSED = "Container paused: opportunistic containers do not run at this time of day."
RESUMED = "Container resumed: it runs again as soon as there is room."
"""Of a container that a person paused and resumed, until it runs again."""
DEQUEUED = "Container De-queued to meet NM queuing limits."

EXECUTOR_FAILURE = 125
"""Exit code of a container that the executor itself could not run, as with ``env`` and ``docker run``."""
TIMED_OUT = 124
"""Exit status of a container that reached its time limit, as with ``timeout``."""
OUTPUT_LOST = 74
"""Exit code of a container that ended with 0 and whose output may be incomplete: EX_IOERR of sysexits.h.
``cli/jobs/outputs.py`` has it, too."""
SIGKILLED = 137
BELOW_LIMIT_BYTES = MIB
"""A container whose peak is so far below its limit has not run out of memory at the limit."""


class Outcome(Record):
    """How a container ended. ``cause`` is None if it ended by itself; ``sentence`` is added to its diagnostics."""

    exit_status: int
    exit_code: int | None
    sentence: str = ""
    cause: Cause | None = None


def outcome_of_exit(
    container: Container,
    exit_code: int | None,
    usage: ContainerUsage,
    memory_max: int | None = None,
    *,
    output_lost: str = "",
    rebooted: bool = False,
) -> Outcome:
    """The outcome of a container whose processes are gone. ``memory_max`` is the kernel's limit of its memory in bytes,
    None for none; ``output_lost`` is why its output may be incomplete.

    The reason of a kill counts first; then the kernel's OOM killer; a container without an exit code is lost
    (ABORTED); else its own code is its status, but 0 is no success where output may be lost. A preempted container that
    ended with 0 before the kill has succeeded (``ContainerImpl``: KILLING + CONTAINER_EXITED_WITH_SUCCESS). An
    opportunistic one that failed after the OOM killer had ended a process of it within its limit has given way to the
    machine: it is preempted.
    """
    own_code = exit_code
    if output_lost and own_code == 0:
        exit_code = OUTPUT_LOST
    if exit_code == 0 and container.killed_as in PREEMPTION_STATUSES:
        return Outcome(0, 0, ENDED_WELL)
    if container.killed_as is not None:
        return Outcome(container.killed_as, exit_code, cause=container.cause)
    peak = max(usage.memory_peak_bytes, usage.memory_bytes)
    by_host = usage.oom_kills > 0 and _within_limit(usage, peak, memory_max)
    if by_host and own_code != 0 and (container.is_opportunistic or own_code in (None, SIGKILLED)):
        code = SIGKILLED if own_code is None else own_code
        preempted = int(ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER)
        sentence = (
            f"{_named(container)} lost {usage.oom_kills} of its processes to the kernel's OOM killer within its limit: "
            f"memory of this host, or of a group above, ran out. Peak usage: {peak / MIB:.1f} MB."
        )
        cause = Cause(CauseKind.HOST_OOM, measured=peak, limit=memory_max or 0)
        return Outcome(preempted if container.is_opportunistic else code, code, sentence, cause)
    if usage.oom_kills > 0 and exit_code in (None, SIGKILLED):
        sentence = (
            f"{_named(container)} went beyond the 'PHYSICAL' memory limit. Peak usage: {peak / MIB:.1f} MB of "
            f"{_limit(container)} physical memory used. Killed by the kernel."
        )
        cause = Cause(CauseKind.OOM_KILLED, measured=peak, limit=container.resource.memory * MIB)
        return Outcome(int(ContainerExitStatus.KILLED_EXCEEDED_PMEM), SIGKILLED, sentence, cause)
    if exit_code is None:
        sentence = "Container lost: its processes are gone without an exit code."
        if rebooted:
            sentence = "Container lost: the machine was restarted while it ran."
        return Outcome(int(ContainerExitStatus.ABORTED), None, sentence, Cause(CauseKind.LOST))
    said = [f"Exit code {exit_code}"] if exit_code else []
    causes: list[Cause] = []
    if output_lost:
        said.append(
            f"Its output may be incomplete: {output_lost}. Its command ended with exit code {own_code}"
        )
        causes.append(Cause(CauseKind.OUTPUT_LOST, text=output_lost))
    if usage.oom_kills > 0:
        why = (
            "memory of this host, or of a group above"
            if by_host
            else f"the memory limit of {_limit(container)}"
        )
        said.append(f"The kernel ended {usage.oom_kills} of its processes for {why}")
        causes.append(Cause(CauseKind.PROCESSES_KILLED, measured=usage.oom_kills, limit=memory_max or 0))
    if usage.refused_forks > 0:
        said.append(f"Its limit of processes refused {usage.refused_forks} new ones")
        causes.append(Cause(CauseKind.FORKS_REFUSED, measured=usage.refused_forks))
    sentence = ". ".join(said) + ("." if causes else "")
    return Outcome(exit_code, exit_code, sentence, causes[0] if causes else None)


def _within_limit(usage: ContainerUsage, peak: int, memory_max: int | None) -> bool:
    """Whether memory did not run out at the container's own limit: its OOM killer's processes were ended for others."""
    if memory_max is None or usage.limit_ooms >= 0:
        return memory_max is None or usage.limit_ooms == 0
    return 0 < peak < memory_max - BELOW_LIMIT_BYTES


def larger_than_node(resource: Resource, total: Resource) -> str:
    """The diagnostics of a container that this node can never run."""
    return f"Container requests {resource}, but this node has {total} in all: it can never run here."


def must_end_for_memory(used: int, limit: int, was_over: bool) -> bool:
    """YARN's rule (``ContainersMonitorImpl``): over twice the limit, or over it in two measurements in a row.

    A process that has just forked counts twice for a moment, so one high measurement is tolerated. 0 means no limit.
    All in bytes.
    """
    return 0 < limit < used and (was_over or used > 2 * limit)


def _over_memory(container: Container) -> str:
    usage = container.usage
    excess = usage.memory_bytes - container.resource.memory * MIB
    return (
        f"{_named(container)} is running {excess}B beyond the 'PHYSICAL' memory limit. Current usage: "
        f"{usage.memory_bytes / MIB:.1f} MB of {_limit(container)} physical memory used. Killing container."
    )


def _over_virtual_memory(container: Container, limit: int) -> str:
    usage = container.usage
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
    """The diagnostics about the memory of a container that was paused while memory was short; both in MiB."""
    return (
        f"{before - kept} MB of its {before} MB of memory were reclaimed; it gets them back when it resumes."
    )


def diagnostics_of(cause: Cause, container: Container) -> str:
    """The diagnostics of a container that its node paused or ended for ``cause``.

    For all other causes, the request has its own sentence.
    """
    done = "killed" if container.state in (ContainerState.KILLING, ContainerState.DONE) else "paused"
    match cause.kind:
        case CauseKind.NODE_RESIZED:
            return f"Container {done}: {NODE_MADE_SMALLER}"
        case CauseKind.MAKE_ROOM if cause.for_resource:
            return (
                f"Container killed to make room for guaranteed container: its {cause.for_resource} is needed, which a "
                "paused container keeps."
            )
        case CauseKind.MAKE_ROOM if cause.for_memory:
            return KILLED_FOR_ITS_MEMORY
        case CauseKind.MAKE_ROOM:
            return KILLED_TO_MAKE_ROOM if done == "killed" else PAUSED_TO_MAKE_ROOM
        case CauseKind.OUTSIDE_CPU:
            return f"Container paused: processes outside yopp need {cause.cores} of this machine's cores."
        case CauseKind.OUTSIDE_WINDOW:
            return WINDOW_CLOSED
        case CauseKind.LENT_CPU:
            return LENT_CPU_IN_USE
        case CauseKind.LENT_MEMORY:
            return f"Container {done}: other containers use the memory that it had borrowed."
        case CauseKind.MACHINE_MEMORY:
            return (
                f"Container {done} to free memory of this host: {cause.measured // MIB} MB are available, and "
                f"{cause.limit // MIB} MB must stay available."
            )
        case CauseKind.QUEUE_FULL:
            return QUEUE_FULL
        case CauseKind.SHED:
            return DEQUEUED
        case CauseKind.TIMED_OUT:
            return f"Container ran for longer than its limit of {cause.limit} ms."
        case CauseKind.OVER_MEMORY:
            return _over_memory(container)
        case CauseKind.OVER_VIRTUAL_MEMORY:
            return _over_virtual_memory(container, cause.limit)
        case CauseKind.EXCESS_LOGS:
            return (
                f"{_named(container)} has written {cause.measured} bytes of logs, and {cause.limit} are allowed "
                "(yarn.nodemanager.container-log-monitor). Hint: write less, write to other files, or raise "
                "dir-size-limit-bytes and total-size-limit-bytes."
            )
        case CauseKind.EXCESS_DISK:
            return (
                f"{_named(container)} has {cause.measured} bytes in its own directory, and {cause.limit} are allowed "
                "(yopp.nodemanager.container-disk-monitor.size-limit-bytes). Hint: remove files that are not needed, "
                "or raise the limit."
            )
        case CauseKind.PAUSE_FAILED:
            return f"Container could not be paused: {cause.text}"
        case CauseKind.CHANGE_FAILED:
            return f"Container was not changed as ordered: {cause.text}"
        case _:
            return ""
