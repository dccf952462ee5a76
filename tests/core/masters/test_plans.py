"""The plans of run, dshell and pi: what they ask for, and what they refuse."""

from __future__ import annotations

import itertools

import pytest

from executor.records import ExecutionType, Resource
from yarnopp_cli.errors import UsageError
from yarnopp_cli.masters import commands, pi
from yarnopp_cli.records.ids import job_id
from yarnopp_cli.records.jobs import TaskSpec
from yarnopp_cli.settings.declarations import ApplicationSettings

ONE = TaskSpec(1, Resource(512, 1))


@pytest.mark.parametrize(
    ("maps", "percent", "count"),
    [
        (50, 40, 20),
        (100, 40, 40),
        (10, 40, 4),
        (50, 0, 0),
        (50, 100, 50),
        (3, 50, 2),
        (7, 1, 0),
        (1, 50, 1),
        (4, 2, 0),
    ],
)
def test_the_percentage_of_opportunistic_maps_is_exact(maps: int, percent: int, count: int) -> None:
    assert sum(pi.opportunistic_maps(maps, percent)) == count


@pytest.mark.parametrize(("maps", "percent"), [(50, 40), (97, 33), (200, 10), (60, 90)])
def test_opportunistic_maps_are_spread_evenly(maps: int, percent: int) -> None:
    kinds = pi.opportunistic_maps(maps, percent)
    places = [index for index, opportunistic in enumerate(kinds) if opportunistic]
    gaps = {after - before for before, after in itertools.pairwise(places)}
    assert max(gaps) - min(gaps) <= 1
    half = sum(kinds[: maps // 2])
    assert abs(half - sum(kinds) / 2) <= 1


def test_pi_has_mapreduces_priorities() -> None:
    job = pi.plan(
        5, 10, "/jobs/x", ("python", "halton.py"), ApplicationSettings(num_opportunistic_maps_percent=40)
    )
    maps, reduce = job.phases
    kinds = [(task.execution_type, task.priority) for task in maps.tasks]
    assert kinds.count((ExecutionType.OPPORTUNISTIC, 19)) == 2
    assert kinds.count((ExecutionType.GUARANTEED, 20)) == 3
    assert (maps.retry_priority, maps.retry_guaranteed, maps.max_attempts) == (5, True, 4)
    assert [(task.execution_type, task.priority) for task in reduce.tasks] == [(ExecutionType.GUARANTEED, 10)]
    assert maps.command + maps.tasks[3].arguments == (
        "python", "halton.py", "map", "/jobs/x/part3", "/jobs/x/part-m-00003",
    )  # fmt: skip
    assert reduce.command == ("python", "halton.py", "reduce", "/jobs/x", "5")
    assert pi.map_input(3, 10) == "30 10\n"


@pytest.mark.parametrize(
    ("inside", "total", "printed"),
    [(1, 1, "4.00000000000000000000"), (34, 40, "3.40000000000000000000"), (3927, 5000, "3.14160000000000000000"),
     (12570, 16000, "3.14250000000000000000"), (1, 3, "1.33333333333333333333"), (2, 3, "2.66666666666666666667")],
)  # fmt: skip
def test_the_estimate_has_twenty_decimals_half_up(inside: int, total: int, printed: str) -> None:
    assert pi.estimate(inside, total) == printed


@pytest.mark.parametrize(
    ("maps", "samples"), [(0, 1), (1, 0), (-3, 5), (10**6, 1), (2, 2**53), (100_000, 10**12)]
)
def test_sizes_that_make_no_sense_are_refused(maps: int, samples: int) -> None:
    with pytest.raises(UsageError) as caught:
        pi.check_size(maps, samples)
    assert caught.value.exit_code == 2 and caught.value.hint
    pi.check_size(50, 100)
    pi.check_size(1, 2**53)


def test_names_of_jobs() -> None:
    assert job_id("application_1765400000000_0007") == "job_1765400000000_0007"
    job = commands.plan_run(("/usr/bin/sleep", "10"), ONE, 2, retries=1)
    assert job.name == "sleep"
    (phase,) = job.phases
    assert (phase.max_attempts, phase.number_variable, phase.environment) == (
        2,
        "YOPP_TASK",
        {"YOPP_TASKS": "2"},
    )
    assert [task.number for task in phase.each()] == [1, 2]


def test_a_shell_command_and_its_arguments_are_one_line_for_the_shell() -> None:
    job = commands.plan_shell(ONE, shell_command="echo a;", shell_args=("echo", "$YARN_SHELL_ID"))
    (phase,) = job.phases
    assert phase.command == ("bash", "-c", "echo a; echo $YARN_SHELL_ID")
    assert (phase.number_variable, phase.number_by_allocation) == ("YARN_SHELL_ID", True)
    assert phase.max_attempts == 1


def test_a_script_is_localised_and_run_with_the_shell() -> None:
    (phase,) = commands.plan_shell(ONE, shell_script="echo $1\n", shell_args=("x",)).phases
    assert phase.files == {"ExecScript.sh": "echo $1\n"}
    assert phase.command == ("bash", "-c", "exec bash ./ExecScript.sh x")


@pytest.mark.parametrize(
    ("policy", "codes", "retries", "attempts", "kept"),
    [(0, (), 5, 1, ()), (1, (), 2, 3, ()), (1, (4,), 2, 3, ()), (2, (4, 5), 2, 3, (4, 5)), (2, (), 2, 1, ()),
     (1, (), -1, 2**31, ())],
)  # fmt: skip
def test_container_retry_policies(
    policy: int, codes: tuple[int, ...], retries: int, attempts: int, kept: tuple[int, ...]
) -> None:
    retry = commands.ContainerRetryContext(policy, codes, retries)
    (phase,) = commands.plan_shell(ONE, shell_command="x", retry=retry).phases
    assert (phase.max_attempts, phase.retry_codes) == (attempts, kept)


@pytest.mark.parametrize(
    "given", [{}, {"shell_command": "a", "shell_script": "b"}, {"shell_command": "a", "argv": ("b",)}]
)
def test_exactly_one_thing_is_run(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        commands.plan_shell(ONE, **given)  # type: ignore[arg-type]
