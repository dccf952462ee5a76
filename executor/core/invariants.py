"""The invariants of the collections of a ContainerScheduler after every step. Assertions only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..records import ExecutionType, Resource
from .container import (
    DONE,
    KILLING,
    LAUNCHING,
    PAUSED,
    PAUSING,
    RESUMING,
    SCHEDULED,
    Container,
    ContainerDeadline,
    DeadlineKind,
)
from .machine import Deadlines
from .queues import ContainerQueue, OpportunisticQueue
from .tracker import ResourceUtilizationTracker


def check(
    tracker: ResourceUtilizationTracker,
    *,
    live: Mapping[str, Container],
    active: Mapping[str, Container],
    ended: Iterable[Mapping[str, Container]],
    guaranteed: ContainerQueue,
    opportunistic: OpportunisticQueue,
    deadlines: Deadlines[ContainerDeadline],
) -> None:
    """Raises AssertionError, naming the container, if an invariant is violated."""
    for execution_type in ExecutionType:
        held = (c.allocated for c in active.values() if c.execution_type is execution_type)
        assert tracker.allocated_to(execution_type) == sum(held, Resource()), execution_type
    assert tracker.unallocated == tracker.total - sum((c.allocated for c in active.values()), Resource())
    for container_id, container in live.items():
        assert container_id == container.container_id
        assert container.state is not DONE, f"{container_id} is live and done"
        assert (container.state is SCHEDULED) == (container_id not in active), container_id
        _check_allocation(container)
        _check_place(container, guaranteed, opportunistic)
        _check_intent(container)
        _check_deadlines(container, deadlines)
    assert active.keys() <= live.keys(), "something holds resources and is not live"
    for containers in ended:
        for container_id, container in containers.items():
            assert container.state is DONE and container_id not in live, (
                f"{container_id} has ended and is live"
            )
            assert container.allocated == Resource(), container_id
    assert all(due.container_id in live for due in deadlines), (
        "something is due for a container that has ended"
    )
    guaranteed.validate()
    opportunistic.validate()
    waiting = len(guaranteed) + sum(1 for _ in opportunistic) + len(opportunistic.paused)
    assert waiting == sum(container.is_waiting for container in live.values()), "a queue holds a stranger"


def _name(container: Container) -> str:
    return f"{container.container_id} ({container.state.value})"


def _check_allocation(container: Container) -> None:
    expected = container.resource
    if container.state is SCHEDULED:
        expected = Resource()
    elif container.state is PAUSED:
        kept = min(container.allocated.memory, container.resource.memory)
        expected = Resource(kept, 0, container.resource.others)
    elif container.state is KILLING:
        expected = container.allocated  # it may have been paused when its end was decided
    assert container.allocated == expected, (
        f"{container.container_id} holds {container.allocated}, not {expected}"
    )


def _check_place(container: Container, guaranteed: ContainerQueue, opportunistic: OpportunisticQueue) -> None:
    in_guaranteed, in_opportunistic = container in guaranteed, container in opportunistic
    waits_there = container.is_waiting and not container.is_opportunistic
    waits_here = container.is_waiting and container.is_opportunistic
    assert (in_guaranteed, in_opportunistic) == (waits_there, waits_here), (
        f"{_name(container)} ({container.execution_type.value}) is in the wrong place"
    )


def _check_intent(container: Container) -> None:
    """What is paused, or is to be, has a Pause; what is being ended has a Kill. Each has its cause."""
    state, pause = container.state, container.pause
    if pause is None:
        assert state not in (PAUSING, PAUSED), f"{_name(container)} is paused for nothing"
    else:
        allowed = (LAUNCHING, RESUMING) if pause.pending else (PAUSING, PAUSED)
        assert state in allowed, f"{_name(container)}: {pause}"
        assert container.cause is not None or not (pause.held_by or pause.gives_way_to), (
            f"{_name(container)} says no cause"
        )
        assert not (pause.makes_room and state is PAUSED), f"{_name(container)} has made room already"
    assert (container.kill is not None) == (state is KILLING), f"{_name(container)}: {container.kill}"


def _check_deadlines(container: Container, deadlines: Deadlines[ContainerDeadline]) -> None:
    def is_due(kind: DeadlineKind) -> bool:
        return ContainerDeadline(container.container_id, kind) in deadlines

    if container.state is KILLING:
        force_due = is_due(DeadlineKind.FORCE_KILL)
        assert force_due != (container.kill is not None and container.kill.forced), (
            f"{container.container_id} is being killed without a deadline for SIGKILL"
        )
    if container.makes_room:
        assert is_due(DeadlineKind.PAUSE), f"{container.container_id} is paused without an end"
