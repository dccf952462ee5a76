"""Sweeps: what each task of a template runs, and the numbers that it has."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.records import Resource
from yarnopp_cli.masters import sweeps
from yarnopp_cli.masters.commands import plan_run
from yarnopp_cli.masters.tasks import Task
from yarnopp_cli.records.jobs import Sweep, TaskSpec
from yarnopp_cli.rpc import plain

ONE = TaskSpec(1, Resource(512, 1))


def run(command: str, *values: str, number: int = 7, shell: bool = False) -> tuple[str, ...]:
    return sweeps.filled(command.split(), values, number, shell=shell)


@pytest.mark.parametrize(
    ("command", "values", "expected"),
    [
        ("echo", ("a b",), ("echo", "a b")),
        ("echo", ("a", "b"), ("echo", "a", "b")),
        ("echo {} x", ("a", "b c"), ("echo", "a", "b c", "x")),
        ("echo n={}", ("a", "b"), ("echo", "n=a b")),
        ("echo {2}-{1}", ("a", "b"), ("echo", "b-a")),
        ("echo {#}", ("a",), ("echo", "7")),
        ("echo {} {.} {/} {//}", ("d.e/f.tar.gz",), ("echo", "d.e/f.tar.gz", "d.e/f.tar", "f.tar.gz", "d.e")),
        ("echo {.} {/} {//} {/.}", ("/a.b/c",), ("echo", "/a.b/c", "c", "/a.b", "c")),
        ("echo {.} {//}", ("c",), ("echo", "c", ".")),
        ("echo {2/.}", ("x", "/y/z.c"), ("echo", "z")),
        ("awk {print}", ("f",), ("awk", "{print}", "f")),
        ("", ("echo 'a b' c",), ("echo", "a b", "c")),
        ("", ("echo 'a",), ("echo 'a",)),
    ],
)  # fmt: skip
def test_replacement_strings_are_parallels(
    command: str, values: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert run(command, *values) == expected


@given(st.text("ab \t\"'\\#ä|", max_size=12))
def test_words_are_read_as_a_shell_reads_them(line: str) -> None:
    try:
        expected = shlex.split(line)
    except ValueError:
        with pytest.raises(ValueError):
            sweeps.words_of(line)
        return
    assert sweeps.words_of(line) == expected or not line.strip(" \t")


def test_values_are_quoted_for_the_shell_and_a_line_is_not() -> None:
    assert run("echo {} | wc -c", "it's", shell=True) == ("/bin/sh", "-c", "echo 'it'\"'\"'s' | wc -c")
    assert run("cat", "a b", "c", shell=True) == ("/bin/sh", "-c", "cat 'a b' c")
    assert run("", "echo $HOME | cat", shell=True) == ("/bin/sh", "-c", "echo $HOME | cat")


@pytest.mark.parametrize(
    "line",
    [
        "printf %s {}",
        "printf %s '{}'",
        'printf %s "{}"',
        "printf %s 'it'\\''s {}'",
        'printf %s "it\'s {} \\"{}\\""',
        "printf %s \\{}",
        'printf %s "\\{}"',
        "printf %s \\\\{}",
        'printf %s "$(printf %s {})"',
        "printf %s '\\' {}",
    ],
)
@pytest.mark.parametrize(
    "value", ["a;touch no", "$(touch no)", "`touch no`", "x';touch no;'", '";touch no;"', "a\ntouch no", "\\"]
)
def test_no_value_is_read_as_a_part_of_the_line(line: str, value: str, tmp_path: Path) -> None:
    command = sweeps.filled([line], [value], 1, shell=True)
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.iterdir()), "nothing of the value was run"
    if "'{" not in line and '"' not in line and "\\'" not in line and "\\\\" not in line:
        assert ended.stdout == value


def test_combinations_come_in_parallels_order_and_links_go_along() -> None:
    sweep = Sweep((("a", "b"), ("1", "2", "3"), ("x", "y", "z")), linked=(2,))
    assert sweep.size == 6
    assert [" ".join(sweeps.values_of(sweep, number)) for number in range(1, 7)] == [
        "a 1 x", "a 2 y", "a 3 z", "b 1 x", "b 2 y", "b 3 z",
    ]  # fmt: skip
    first = Sweep((("a", "b"), ("p", "q"), ("1", "2")), linked=(1,))
    assert [sweeps.values_of(first, number) for number in (1, 2, 3)] == [
        ("a", "p", "1"), ("a", "p", "2"), ("b", "q", "1"),
    ]  # fmt: skip
    assert sweeps.highest_source(["{1}", "x{12.}", "{#}"]) == 12


def test_tasks_keep_the_numbers_that_they_are_given() -> None:
    sweep = Sweep((("a", "b", "c", "d", "e"),))
    job = plan_run(("echo",), ONE, sweep=sweep, numbers=(range(2, 5, 2), range(5, 6)))
    (phase,) = job.phases
    tasks = list(Task.all_of(0, phase))
    assert (job.size, phase.environment) == (3, {"YOPP_TASKS": "3"})
    assert [task.number for task in tasks] == [one.number for one in phase.each()] == [2, 4, 5]
    assert [task.launch for task in tasks] == [
        (("echo", value), {"YOPP_ARGS": value}) for value in ("b", "d", "e")
    ]
    assert phase.context.command == (), "a template runs nothing by itself"
    assert plain.decode(type(job), plain.encode(job)) == job


@given(
    st.lists(st.sampled_from(["echo", "{}", "{1}x", "{#}", "{2/.}"]), max_size=3),
    st.lists(st.lists(st.text("aä' ", max_size=40_000), min_size=1, max_size=2), min_size=2, max_size=2),
    st.booleans(),
    st.integers(1, 5),
)
def test_what_is_not_refused_fits(
    command: list[str], sources: list[list[str]], shell: bool, times: int
) -> None:
    sources = [[value * times for value in source] for source in sources]
    sweep = Sweep(tuple(map(tuple, sources)), shell=shell)
    room = 200_000
    found = sweeps.unfit(command, sweep, range(1, sweep.size + 1), room)
    for number in range(1, found[0] if found else sweep.size + 1):
        words, variables = sweeps.launch_of(command, sweep, number)
        sizes = [len(text.encode()) for text in (*words, "YOPP_ARGS=" + variables["YOPP_ARGS"])]
        assert max(sizes) <= sweeps.LONGEST_WORD and sum(sizes) + 9 * len(sizes) <= room
        assert words[0]
