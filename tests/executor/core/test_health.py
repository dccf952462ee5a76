"""A node that can start no container for want of disk space, memory or processes."""

from __future__ import annotations

from executor.causes import Cause, CauseKind
from executor.core.commands import KillContainer, LaunchContainer, PauseContainer
from executor.core.events import (
    ContainerExited,
    ContainerLaunched,
    ContainerLaunchFailed,
    NodeHealthChanged,
)
from executor.records import ContainerExitStatus, ContainerState

from .world import G, O, World

DISKS = int(ContainerExitStatus.DISKS_FAILED)
FULL = "cannot write /w/c1: No space left on device"


def ill(**settings: object) -> World:
    """One container runs, one could not be started for the node's fault, and nothing else holds anything."""
    world = World(memory=2048, vcores=2, answers=False, max_queue_length=10, **settings)
    world.schedule("runs", O)
    world.tell(ContainerLaunched("runs", 1, 1))
    world.schedule("c1", O)
    world.tell(ContainerLaunchFailed("c1", FULL, node_status=DISKS))
    return world


def test_what_the_node_could_not_start_is_no_failure_of_the_container() -> None:
    world = ill()
    status = world.status("c1")
    assert (status.state, status.exit_status, status.exit_code) == (ContainerState.DONE, DISKS, None)
    assert status.cause == Cause(CauseKind.NODE_FAULT, text=FULL) and FULL in status.diagnostics
    assert world.machine.health_report == FULL


def test_what_the_node_let_not_begin_after_its_launch_is_no_failure_either() -> None:
    world = World(memory=2048, vcores=2, answers=False)
    for name in ("c1", "c2"):
        world.schedule(name, O)
        world.tell(ContainerLaunched(name, 1, 1))
    world.tell(ContainerExited("c1", None, node_fault="no process"))
    status = world.status("c1")
    assert (status.exit_status, status.exit_code) == (int(ContainerExitStatus.ABORTED), None)
    assert status.cause == Cause(CauseKind.NODE_FAULT, text="no process")
    assert world.machine.health_report == "no process"
    world.stop("c2")
    world.tell(ContainerExited("c2", None, node_fault="no process"))
    assert world.status("c2").exit_status == int(ContainerExitStatus.KILLED_BY_APPMASTER)


def test_nothing_starts_until_the_node_is_well_and_nobody_gives_way_in_vain() -> None:
    world = ill()
    world.schedule("c2", O)
    world.schedule("g", G, vcores=2)
    assert not world.given(LaunchContainer) and not world.given(KillContainer) + world.given(PauseContainer)
    assert world.states("runs", "c2", "g") == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    world.exit("runs")
    assert not world.given(LaunchContainer)
    world.tell(NodeHealthChanged(""))
    assert [one.spec.container_id for one in world.given(LaunchContainer)] == ["g"]


def test_a_look_at_the_disks_may_find_it_first() -> None:
    world = World(memory=2048, vcores=2)
    world.tell(NodeHealthChanged("/w: Read-only file system"))
    world.schedule("g", G)
    assert world.state("g") is ContainerState.SCHEDULED
    world.tell(NodeHealthChanged(""))
    assert world.state("g") is ContainerState.RUNNING


def test_without_the_checker_nobody_would_say_that_it_is_well_again() -> None:
    world = ill(disk_health_enabled=False)
    assert world.status("c1").exit_status == DISKS and world.machine.health_report == ""
    world.schedule("c2", O)
    assert world.given(LaunchContainer)
