"""What the pictures of a report are drawn from; the drawing itself is looked at (scripts/screenshots)."""

from __future__ import annotations

import warnings

from yarnopp_cli.report.plots import _sampled, by_node, waits_svg
from yarnopp_cli.report.timeline import ContainerLine


def test_lines_of_a_node_stand_together_in_their_order() -> None:
    lines = [
        ContainerLine(str(number), f"host:{node}", "", 0, 0)
        for number, node in enumerate((9, 45455, 9, 45454, 45455))
    ]
    assert [(line.node, line.container) for line in by_node(lines)] == [
        ("host:9", "0"), ("host:9", "2"), ("host:45454", "3"), ("host:45455", "1"), ("host:45455", "4")
    ]  # fmt: skip


def test_a_step_function_is_read_at_each_moment() -> None:
    assert _sampled([(10, 2), (20, 0), (30, 5)], [5, 10, 15, 20, 29, 30, 99]) == [0, 2, 2, 0, 0, 5, 5]


def test_waiting_times_are_drawn_where_no_container_has_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # they would be shown above the answer of the command
        assert "<svg" in waits_svg([])
