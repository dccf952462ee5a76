"""YARN's flaky tests slept and hoped: YARN-5377, 8244, 9427, 9474, 9599, 9819, 10255, 10256 and 8011.

Here the machines' tests say what time it is; a test that does wait for the world polls for what it waits for.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MACHINES = [
    path
    for folder in ("core", "executor/core", "executor/scenarios", "views", "settings", "conformance")
    for path in sorted((TESTS / folder).rglob("*.py"))
]


def sleeps_outside_of_polling(tree: ast.Module) -> list[int]:
    """Lines of calls of ``sleep`` that are not the pause of a loop with a deadline."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    polled = {
        id(call)
        for loop in loops
        if any(
            isinstance(node, ast.Assert | ast.Raise) or "deadline" in ast.dump(node)
            for node in ast.walk(loop)
        )
        for call in ast.walk(loop)
        if isinstance(call, ast.Call)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and id(node) not in polled
    ]


CLOCKS = {"monotonic", "perf_counter", "time", "process_time", "thread_time"}


def spans_with_an_upper_bound(tree: ast.AST) -> list[int]:
    """Lines of asserts that work took less than some time, which a busy machine breaks.

    A comparison of a clock with a deadline inside a loop is a poll, and no such assert.
    """
    polls = {id(node) for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and id(node) not in polls
        for compared in ast.walk(node.test)
        if isinstance(compared, ast.Compare) and isinstance(compared.ops[0], ast.Lt | ast.LtE)
        for part in ast.walk(compared.left)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in CLOCKS
    ]


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_asserts_that_something_was_quick(path: Path) -> None:
    assert spans_with_an_upper_bound(ast.parse(path.read_text())) == []


def test_there_are_tests_to_look_at() -> None:
    assert len(MACHINES) > 35
    quick = "assert time.monotonic() - begun < 5\nwhile 1:\n    assert time.monotonic() - begun < 9"
    assert spans_with_an_upper_bound(ast.parse(quick)) == [1]
    assert sleeps_outside_of_polling(ast.parse("import time\ntime.sleep(1)")) == [2]
    polling = "while not done():\n    assert now() < deadline\n    time.sleep(0.01)"
    assert sleeps_outside_of_polling(ast.parse(polling)) == []


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: str(path.relative_to(TESTS)))
def test_yarn_flaky_no_test_of_a_machine_sleeps_and_hopes(path: Path) -> None:
    assert sleeps_outside_of_polling(ast.parse(path.read_text())) == []
