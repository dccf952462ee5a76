"""What is read without typer is what typer reads, for every command; the rest is left to typer."""

from __future__ import annotations

import enum
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarnopp_cli.cli import tree
from yarnopp_cli.cli.frame import typed
from yarnopp_cli.cli.frame.argv import rewrite
from yarnopp_cli.cli.frame.command import REGISTERED, Command, added, own_parameters
from yarnopp_cli.cli.frame.reading import Parameter
from yarnopp_cli.cli.table import COMMANDS
from yarnopp_cli.cli.words import given as given_values
from yarnopp_cli.cli.words import load, understood
from yarnopp_cli.errors import YoppError

pytestmark = pytest.mark.pure

for _name in COMMANDS:
    load(_name)
EVERY = list(REGISTERED.values())
IDS = [one.path for one in EVERY]


def plain(value: Any) -> Any:
    """A value as commands use it: typer hands the frame its own forms of lists and words."""
    if isinstance(value, tuple):
        return list(value) or None
    return value.value if isinstance(value, enum.Enum) else value


def by_typer(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]] | None:
    """The command and the values that typer reads; None for what it refuses, or shows help for."""
    taken: list[tuple[str, dict[str, Any]]] = []

    def take(one: Command, values: dict[str, Any]) -> None:
        taken.append((one.path, {name: plain(value) for name, value in values.items()}))

    monkeypatch.setattr(typed, "run_with", take)
    try:
        tree.call(argv)
    except (YoppError, SystemExit):
        return None
    return taken[0] if taken else None


def here(argv: list[str]) -> tuple[str, dict[str, Any]] | None:
    """The same as it is read here."""
    found = understood(argv)
    return (
        None if found is None else (found[0].path, {name: plain(value) for name, value in found[1].items()})
    )


@pytest.mark.parametrize("command", EVERY, ids=IDS)
def test_the_examples_of_a_command_are_read_here(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YOPP_TIMEOUT", raising=False)
    for line in command.examples:
        (typed_here, *_) = [one for one in line.split("|") if f"yopp {command.path}" in one] or [""]
        if not typed_here or any(mark in line for mark in "$>"):
            continue
        words = shlex.split(typed_here.partition("yopp ")[2])
        found = here(rewrite(words))
        assert found is not None, line
        assert found == by_typer(rewrite(words), monkeypatch)


_TYPED = "x 1 0 -1 2.5 10m 512M json wide yarn a=b a,b - -- last -x RUNNING highest never --json -q -vv -Da=b 1e3 1_0"
_WORDS = st.sampled_from([*_TYPED.split(), "--state", "-n5", "", "ä b", " 7 "])


def a_use(parameter: Parameter) -> st.SearchStrategy[list[str]]:
    """One way to type an option, right or wrong."""
    if not parameter.spellings:
        return _WORDS.map(lambda word: [word])
    named = st.sampled_from([piece for one in parameter.declared.spellings for piece in one.split("/")])
    good = st.just("1")
    if isinstance(parameter.kind, type) and issubclass(parameter.kind, enum.Enum):
        good = st.sampled_from([one.value for one in parameter.kind])
    text = good | _WORDS
    if not parameter.takes_value:
        return named.map(lambda name: [name]) | st.tuples(named, text).map(lambda two: [f"{two[0]}={two[1]}"])
    return (
        st.tuples(named, text).map(list)
        | st.tuples(named, text).map(lambda two: ["=".join(two)])
        | st.tuples(named, text).map(lambda two: ["".join(two)])
    )


@pytest.mark.parametrize("command", EVERY, ids=IDS)
def test_typer_reads_the_same(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YOPP_TIMEOUT", raising=False)
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)  # both read `10m` at the same time
    parameters = [*own_parameters(command), *added(command)]
    uses = st.one_of([a_use(one) for one in parameters]) | _WORDS.map(lambda word: [word])

    @settings(max_examples=30, deadline=None, database=None)
    @given(st.lists(uses, max_size=5))
    def same(used: list[list[str]]) -> None:
        argv = [*command.path.split(), *(word for use in used for word in use)]
        found = here(argv)
        if found is not None:
            assert found == by_typer(argv, monkeypatch)
            assert rewrite(argv) == argv or here(rewrite(argv)) == found

    same()


@pytest.mark.parametrize("command", EVERY, ids=IDS)
def test_what_is_needed_and_no_more_is_read_here(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOPP_TIMEOUT", "5m")
    arguments = [one for one in own_parameters(command) if not one.spellings]
    for count in range(len(arguments) + 3):
        argv = [*command.path.split(), *["1"] * count]
        found, wanted = here(argv), by_typer(argv, monkeypatch)
        assert found == wanted
        if wanted is not None:
            assert "timeout" not in wanted[1] or wanted[1]["timeout"] is not None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-h"],
        ["--version"],
        ["nothing"],
        ["node"],
        ["node", "--help"],
        ["node", "list", "-h"],
        ["node", "list", "--nothing"],
        ["node", "list", "--json=1"],
        ["node", "list", "x"],
        ["node", "list", "-o", "yaml"],
        ["node", "list", "--limit"],
        ["node", "list", "--limit", "-1"],
        ["app", "list", "-appStates", "ALL"],
        ["wait"],
        ["run", "-n", "0", "true"],
        ["run", "-n", "x", "true"],
        ["run", "--memory", "much", "true"],
    ],
)
def test_what_is_left_to_typer(words: list[str]) -> None:
    assert understood(words) is None


def test_what_a_job_runs_is_not_read() -> None:
    found = understood(["run", "-On", "3", "--env=A=B", "ls", "-l", "--", "--json"])
    assert found is not None
    values = found[1]
    assert (values["opportunistic"], values["count"], values["env"]) == (True, 3, ["A=B"])
    assert values["command"] == ["ls", "-l", "--", "--json"]
    assert values["json"] is False


HEAVY = {
    "typer", "typing", "msgspec", "tomli", "dataclasses", "inspect", "asyncio", "subprocess", "socket", "pathlib",
    "platform", "shutil", "ast", "logging",
}  # fmt: skip
"""Modules that cost a command milliseconds, and that none of these needs."""
NO_START = "-Dyopp.on-demand.enabled=false"


@pytest.mark.parametrize(
    "words", ["node list", "ps", "app list", "container status last", f"run -q {NO_START} true"]
)
def test_a_short_command_imports_no_more_than_it_needs(words: str, run_dir: Path) -> None:
    program = (
        "import sys\nfrom yarnopp_cli.cli.app import run\n"
        f"assert run({words.split()!r}) == 69, 'no cluster runs'\n"
        "print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(ended.stdout.split())


def test_a_job_that_starts_a_cluster_imports_little_more(run_dir: Path) -> None:
    program = (
        "import sys\nfrom yarnopp_cli.cluster import lifecycle\nfrom yarnopp_cli.cli.app import run\n"
        "def begin(*_): raise lifecycle.YoppError('not here', exit_code=69)\n"
        "lifecycle.Launch.begin = begin\n"
        "assert run(['run', '-q', 'true']) == 69\n"
        "print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0 and "not here" in ended.stderr, ended.stderr
    loaded = ended.stdout.split()
    assert "yarnopp_cli.cluster.cleanup" in loaded, "leftovers of dead nodes were looked for"
    assert (HEAVY | {"psutil"}).difference({"subprocess"}).isdisjoint(loaded)


def test_values_are_told_from_the_words_alone() -> None:
    assert given_values([], "-o") == []
    assert given_values(["ps", "-o", "json", "--output=tsv", "-o"], "-o", "--output") == ["json", "tsv", ""]
