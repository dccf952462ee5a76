"""Values that contradict each other, and features that this version lacks."""

from __future__ import annotations

import pytest

from yarnopp_cli.cluster.reloading import HOSTED_MASTERS, setting_differences
from yarnopp_cli.settings.rules import DISTRIBUTED, OPPORTUNISTIC, QUEUE_LENGTH, SCHEDULER_ADDRESS

from .conftest import Load, Problems, Write

QUEUING = "yarn.resourcemanager.nm-container-queuing"


@pytest.mark.parametrize(
    ("defines", "message", "because"),
    [
        (
            [f"{QUEUING}.min-queue-length=16"],
            f"-D: {QUEUING}.min-queue-length is more than {QUEUING}.max-queue-length",
            f"{QUEUING}.min-queue-length = 16 (-D) and {QUEUING}.max-queue-length = 15 (default)",
        ),
        (
            ["yarn.scheduler.maximum-allocation-mb=512"],
            "-D: yarn.scheduler.minimum-allocation-mb is more than yarn.scheduler.maximum-allocation-mb",
            "yarn.scheduler.minimum-allocation-mb = 1024 (default) and "
            "yarn.scheduler.maximum-allocation-mb = 512 (-D)",
        ),
        (
            ["yarn.scheduler.minimum-allocation-vcores=5"],
            "-D: yarn.scheduler.minimum-allocation-vcores is more than "
            "yarn.scheduler.maximum-allocation-vcores",
            "yarn.scheduler.minimum-allocation-vcores = 5 (-D) and "
            "yarn.scheduler.maximum-allocation-vcores = 4 (default)",
        ),
        (
            ["yarn.nodemanager.resource.memory-mb=512"],
            "-D: yarn.scheduler.minimum-allocation-mb is more than yarn.nodemanager.resource.memory-mb",
            "yarn.scheduler.minimum-allocation-mb = 1024 (default) and "
            "yarn.nodemanager.resource.memory-mb = 512 (-D)",
        ),
        (
            ["yarn.nodemanager.resource.cpu-vcores=0"],
            "-D: yarn.scheduler.minimum-allocation-vcores is more than yarn.nodemanager.resource.cpu-vcores",
            "yarn.scheduler.minimum-allocation-vcores = 1 (default) and "
            "yarn.nodemanager.resource.cpu-vcores = 0 (-D)",
        ),
        (
            ["yarn.nm.liveness-monitor.expiry-interval-ms=1000"],
            "-D: every node would be lost between two heartbeats",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms = 1000 (default) and "
            "yarn.nm.liveness-monitor.expiry-interval-ms = 1000 (-D)",
        ),
        (
            [
                "yarn.nodemanager.sleep-delay-before-sigkill.ms=5000",
                "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms=5000",
            ],
            "-D: a container that waits for others to be killed would expire before they have ended",
            "yarn.nodemanager.sleep-delay-before-sigkill.ms = 5000 (-D) and "
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms = 5000 (-D)",
        ),
    ],
)
def test_a_contradiction_is_refused(
    problems_of: Problems, defines: list[str], message: str, because: str
) -> None:
    (problem,) = problems_of(defines=defines)
    assert problem.message == message
    assert problem.because == because
    assert problem.hint and problem.exit_code == 78


def test_the_values_next_to_a_contradiction_are_fine(problems_of: Problems) -> None:
    assert not problems_of(
        defines=[
            f"{QUEUING}.min-queue-length=15",
            "yarn.scheduler.maximum-allocation-mb=1024",
            "yarn.scheduler.minimum-allocation-vcores=4",
            "yarn.nodemanager.resource.memory-mb=-1",
            "yarn.nm.liveness-monitor.expiry-interval-ms=1001",
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms=251",
        ]
    )


def test_a_contradiction_between_two_files_names_both_lines(problems_of: Problems, write: Write) -> None:
    first = write("a.toml", f"\n{QUEUING}.min-queue-length = 9\n")
    second = write("b.toml", f"\n\n{QUEUING}.max-queue-length = 8\n")
    (problem,) = problems_of([first, second])
    assert problem.message.startswith(f"{second}:3: ")
    assert f"(9 ({first}:2)" in problem.because.replace("= 9", "(9")


def test_distributed_scheduling_needs_opportunistic_allocation(problems_of: Problems) -> None:
    problems = problems_of(defines=[f"{DISTRIBUTED}=true"])
    assert problems[0].message == (
        "-D: opportunistic container allocation has to be enabled when distributed scheduling is enabled."
    )
    assert problems[0].hint == f"set {OPPORTUNISTIC} = true"


def test_a_queue_without_opportunistic_allocation_is_a_warning(load_with: Load, write: Write) -> None:
    path = write("a.toml", f"{QUEUE_LENGTH} = 10\n")
    (warning,) = load_with([path]).warnings
    assert warning.startswith(f"{QUEUE_LENGTH} = 10 ({path}:1) has no effect: {OPPORTUNISTIC} is false")
    assert load_with([path], [f"{OPPORTUNISTIC}=true"]).warnings == ()
    assert load_with([path], [f"{QUEUE_LENGTH}=0"]).warnings == ()


def test_opportunistic_allocation_without_a_queue_is_allowed(load_with: Load) -> None:
    configuration = load_with(defines=[f"{OPPORTUNISTIC}=true"])
    assert configuration.value(QUEUE_LENGTH) == 0
    assert configuration.warnings == ()


def test_the_settings_of_a_job_alone_are_no_difference_to_those_of_a_running_cluster(load_with: Load) -> None:
    running = load_with()
    assert not setting_differences(running, load_with(defines=[f"{SCHEDULER_ADDRESS}=localhost:8049"]))
    assert not setting_differences(running, load_with(defines=[f"{HOSTED_MASTERS}=false"]))
    (told,) = setting_differences(running, load_with(defines=[f"{OPPORTUNISTIC}=true"]))
    assert told == f"running with {OPPORTUNISTIC}=false, you asked for true (-D)"
