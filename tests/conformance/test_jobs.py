"""Conformance cases L1 to L4 and M: what jobs make of opportunistic containers, under YARN's rules and ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from executor.records import ExecutionType, Resource
from tests.core.masters.driver import ended, job
from tests.core.masters.test_common import begin, finish_of
from tests.live.conftest import Yopp
from yarnopp_cli.jobs import halton
from yarnopp_cli.masters import commands, pi
from yarnopp_cli.records.jobs import JobSpec, TaskSpec, TaskState
from yarnopp_cli.records.master_protocol import FinishApplicationMasterRequest
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.settings.declarations import ApplicationSettings
from yarnopp_cli.settings.loading import load

from .yarn_node import RULES

O = ExecutionType.OPPORTUNISTIC  # noqa: E741 - the letter of the conformance cases
RULE = load([str(RULES)], (), environ={"HOME": "/nonexistent"}, state_dir="/nonexistent").settings(
    ApplicationSettings
)
TEN = 10


@pytest.mark.live
@pytest.mark.parametrize(
    ("case", "percent"), [("testAllOpportunisticMaps", 4), ("testHalfOpportunisticMaps", 2)]
)
def test_l1_mr_opportunistic_maps(yopp: Yopp, tmp_path: Path, case: str, percent: int) -> None:
    """Four maps of which YARN's counter makes the first 4 and the first 2 opportunistic, through the AMRMProxy."""
    site = tmp_path / "site.toml"
    site.write_text(
        "[yarn.nodemanager]\ndistributed-scheduling.enabled = true\namrmproxy.enabled = true\n"
        'amrmproxy.address = "127.0.0.1:0"\n'
    )
    yopp("up", "--vcores", "4", "--memory", "2048", "--conf", str(RULES), "--conf", str(site))
    out = yopp(
        "pi", "--conf", str(RULES), f"-Dmapreduce.job.num-opportunistic-maps-percent={percent}", "4", "1000"
    ).stdout
    assert (
        out.splitlines()[-1] == f"Estimated value of Pi is {pi.estimate(halton.count_inside(0, 4000), 4000)}"
    )
    maps = [c for c in yopp.containers("-a") if c["yopp"]["priority"] in (19, 20)]
    assert [c["executionType"] for c in maps].count("OPPORTUNISTIC") == percent
    assert len(maps) == 4 and all(c["exitCode"] == 0 for c in maps)


@pytest.mark.parametrize("exit_status", [-108, -100, -102])
def test_l2_killed_attempts_are_run_again_and_do_not_count(exit_status: int) -> None:
    script, (first, _) = begin(job(2, max_attempts=1, fail_fast=True))
    commands = script.news(completed=(ended(first, exit_status),))
    assert not [
        c for c in commands if isinstance(getattr(c, "request", None), FinishApplicationMasterRequest)
    ], "with one attempt it would be over"
    assert script.master.tally.counts[TaskState.FAILED] == 0


def test_l2_zero_completes_and_another_code_fails() -> None:
    script, (first, second) = begin(job(2))
    script.news(completed=(ended(first, 0),))
    finish = finish_of(script.news(completed=(ended(second, 3),)))
    assert finish.request.final_status is FinalApplicationStatus.FAILED
    tally = script.master.tally.counts
    assert (tally[TaskState.SUCCEEDED], tally[TaskState.FAILED]) == (1, 1)


@pytest.mark.parametrize(
    ("maps", "percent", "opportunistic"),
    [
        (50, 40, set(range(40))),
        (100, 40, set(range(40))),
        (150, 40, set(range(40)) | set(range(100, 140))),
        (10, 40, set(range(10))),
        (50, 0, set()),
        (50, 100, set(range(50))),
    ],
)
def test_l3_opportunistic_map_selection(maps: int, percent: int, opportunistic: set[int]) -> None:
    assert RULE.opportunistic_maps == "FIRST_OF_HUNDRED"
    plan = pi.plan(maps, 10, "/d", ("p",), replace(RULE, num_opportunistic_maps_percent=percent))
    chosen = {task.number - 1 for task in plan.phases[0].tasks if task.execution_type is O}
    assert chosen == opportunistic
    ours = pi.opportunistic_maps(maps, percent, ApplicationSettings().opportunistic_maps)
    assert sum(ours) == maps * percent // 100, "by default the percentage is one"


@pytest.mark.parametrize(
    ("maps", "samples", "inside", "outside", "printed"),
    [
        (1, 1, 1, 0, "4.00000000000000000000"),
        (4, 10, 34, 6, "3.40000000000000000000"),
        (10, 10, 80, 20, "3.20000000000000000000"),
        (2, 100, 156, 44, "3.12000000000000000000"),
        (10, 100, 787, 213, "3.14800000000000000000"),
        (50, 100, 3927, 1073, "3.14160000000000000000"),
        (16, 1000, 12570, 3430, "3.14250000000000000000"),
    ],
)
def test_l4_pi_results(maps: int, samples: int, inside: int, outside: int, printed: str) -> None:
    counted = sum(halton.count_inside(index * samples, samples) for index in range(maps))
    assert (counted, maps * samples - counted) == (inside, outside)
    assert pi.estimate(inside, maps * samples) == printed


@pytest.mark.live
def test_m_dshell_with_enforce_execution_type(yopp: Yopp) -> None:
    yopp("up", "--vcores", "4", "--memory", "2048", "--conf", str(RULES))
    job = yopp(
        "dshell", "--detach", "--num_containers", "2", "--master_memory", "512", "--master_vcores", "2",
        "--container_memory", "128", "--container_vcores", "1", "--shell_command", "ls",
        "--container_type", "OPPORTUNISTIC", "--enforce_execution_type",
    ).stdout.split()[-1]  # fmt: skip
    yopp("wait", job)
    found = yopp.containers("-a")
    assert len(found) == 3
    masters = [c for c in found if c["yopp"]["am"]]
    assert [(c["executionType"], c["totalMemoryNeededMB"]) for c in masters] == [("GUARANTEED", 512)]
    assert [c["executionType"] for c in found if c not in masters] == ["OPPORTUNISTIC"] * 2


def shell_of_ten(settings: ApplicationSettings) -> JobSpec:
    job = commands.plan_shell(TaskSpec(1, Resource(128, 1), O), TEN, shell_command="ls")
    return commands.under(job, settings)


def test_m_accounting_one_killed_fails_the_job_under_yarns_rule() -> None:
    script, ids = begin(shell_of_ten(RULE))
    script.news(completed=(ended(ids[0], -108, "shed"),))
    finish = finish_of(script.news(completed=tuple(ended(one, 0) for one in ids[1:])))
    assert finish.request.final_status is FinalApplicationStatus.FAILED
    assert finish.request.diagnostics.startswith(
        "Diagnostics., total=10, completed=10, allocated=10, failed=1"
    )


def test_m_accounting_one_lost_is_replaced_under_both() -> None:
    for settings in (RULE, ApplicationSettings()):
        script, ids = begin(shell_of_ten(settings))
        script.news(completed=(ended(ids[0], -100, "lost"), *(ended(one, 0) for one in ids[1:])))
        asked = script.master.tally.counts[TaskState.SUCCEEDED]
        assert asked == 9 and script.master.tally.counts[TaskState.FAILED] == 0


def test_m_accounting_here_the_killed_one_comes_back() -> None:
    script, ids = begin(shell_of_ten(ApplicationSettings()))
    script.news(completed=(ended(ids[0], -108, "shed"), *(ended(one, 0) for one in ids[1:])))
    assert script.master.tally.counts[TaskState.FAILED] == 0
    assert script.master.tally.noted["preempted"] == 1
