"""Tables of pages that are given more than they show, and job pages, without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from executor.records import ContainerState, ExecutionType, Resource
from tests.cli.fake import node
from tests.tui.fake import cluster
from yarnopp_cli.records.history import MapReduceReport, TaskAttempt
from yarnopp_cli.records.reports import (
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    NodeState,
    YarnApplicationState,
)
from yarnopp_cli.records.requests import MapReduceJob
from yarnopp_cli.views.html import table
from yarnopp_cli.views.nodes import BY_KEY, PAGE
from yarnopp_cli.views.rest.mapreduce import JobView
from yarnopp_cli.views.text import of_megabytes
from yarnopp_cli.web.http import HttpError
from yarnopp_cli.web.pages.tables import (
    MOST_ROWS,
    MOST_TASKS,
    containers_table,
    map_reduce_section,
    nodes_table,
)
from yarnopp_cli.web.queries import nodes_in


def container(number: int, state: ContainerState, started: int = 0) -> ContainerReport:
    return ContainerReport(
        f"container_1_0001_01_{number:06d}", "application_1_0001", "h:1", ExecutionType.OPPORTUNISTIC, Resource(1, 1),
        state, started_at_ms=started,
    )  # fmt: skip


def test_of_too_many_containers_those_that_run_are_shown_first_and_it_is_said() -> None:
    ended = [container(number, ContainerState.DONE, 1) for number in range(400)]
    running = [container(400 + number, ContainerState.RUNNING, 1) for number in range(5)]
    queued = [container(500 + number, ContainerState.SCHEDULED) for number in range(300)]
    page = containers_table([*ended, *running, *queued], "none")
    shown = [int(one) for one in re.findall(r">container_1_0001_01_([0-9]+)<", page)]
    assert len(shown) == MOST_ROWS and shown == sorted(shown)
    assert set(range(400, 405)) <= set(shown) and set(range(500, 800)) <= set(shown)
    assert min(shown) == 400 - (MOST_ROWS - 305), "of those that ended, the last"
    assert f"{MOST_ROWS} of 705" in page
    assert " of " not in re.sub(r"<[^>]*>", "", containers_table(running, "none"))


def test_what_may_be_cut_is_whole_in_its_title_and_harmless() -> None:
    name = "a-very-long-name-<b>with markup</b>-" * 3
    page = table(("Name", "State"), [(name, "x")], empty="")
    assert page.count("title=") == 1 and "<b>" not in page and page.count("&lt;b&gt;") == 6


def test_a_part_and_its_whole_have_their_unit_once() -> None:
    assert of_megabytes(384, 2048) == "384 of 2048 MB"
    assert of_megabytes(384, 20480) == "384 MB of 20.0 GB"


def test_a_job_of_many_tasks_shows_the_first_and_how_far_all_are() -> None:
    app = ApplicationReport(
        "application_1_0001", "pi", "ada", "default", "MAPREDUCE", YarnApplicationState.RUNNING,
        FinalApplicationStatus.UNDEFINED,
    )  # fmt: skip
    tried = TaskAttempt(
        3, False, 0, "container_1_0001_01_000002", "h:1", ExecutionType.GUARANTEED, Resource(64, 1),
        state=ContainerState.RUNNING, started_at_ms=1000,
    )  # fmt: skip
    view = JobView(app, MapReduceReport(MapReduceJob(MOST_TASKS + 100), (tried,)), 5000)
    page = map_reduce_section(view, 5000)
    assert f"Maps: 0 of {MOST_TASKS + 100} done, 1 running, {MOST_TASKS + 99} waiting" in page
    assert f"The first {MOST_TASKS} of {MOST_TASKS + 101}." in page
    assert page.count("<tr>") == MOST_TASKS + 1 and ">m_000003</span>" in page


def test_the_nodes_page_has_yarns_columns_for_both_kinds_of_cluster() -> None:
    rows = cluster().nodes
    titles = re.findall(r"<th[^>]*>([^<]*)</th>", nodes_table(rows, opportunistic=True))
    assert titles == [title for title, _ in PAGE] and "Queued Containers" in titles
    plain = re.findall(r"<th[^>]*>([^<]*)</th>", nodes_table(rows, opportunistic=False))
    assert "Containers" in plain and "Mem Used" in plain and not any("(O)" in one for one in plain)
    assert all(key in BY_KEY for _, key in PAGE)


def test_yarns_pages_of_nodes_in_one_state() -> None:
    """/cluster/nodes/lost and its siblings."""
    runs, lost = node(Path("/"), "h:1"), node(Path("/"), "h:2", state=NodeState.LOST)
    assert nodes_in("lost", [runs, lost]) == [lost] and nodes_in("running", [runs, lost]) == [runs]
    assert nodes_in("all", [runs, lost]) == [runs, lost] and nodes_in("unhealthy", [runs, lost]) == []
    with pytest.raises(HttpError):
        nodes_in("sleepy", [runs, lost])
