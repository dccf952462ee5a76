"""Reports of many tasks as columns."""

from __future__ import annotations

import json

from executor.records import ExecutionType
from yarnopp_cli.records.jobs import TaskReport, TaskRows, TaskState, as_rows, from_rows
from yarnopp_cli.rpc.plain import decode, encode

ANY, SURE = ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED


def test_rows_come_back_as_they_went() -> None:
    reports = [
        TaskReport(0, 1, TaskState.ASKED, ANY),
        TaskReport(
            1, 7, TaskState.FAILED, SURE, "container_1", "n:1", 3, 3, "bad", 1, 2, 3, "f", 30, 512, 9, 10, 11
        ),
    ]
    wire = json.loads(json.dumps(encode(as_rows(reports))))
    assert from_rows(decode(TaskRows, wire)) == reports


def test_what_is_the_default_for_all_is_left_out() -> None:
    rows = as_rows([TaskReport(0, number, TaskState.RUNNING, ANY) for number in (1, 2)])
    assert [getattr(rows, name) for name in ("number", "node_id", "exit_code")] == [(1, 2), (), ()]
    assert from_rows(as_rows([])) == []
