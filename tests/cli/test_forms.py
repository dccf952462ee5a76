"""The forms of output, one rule for all commands: what tsv, jsonl, -q and --columns mean, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from yarnopp_cli.cli.tree import root
from yarnopp_cli.records import explanation, history
from yarnopp_cli.records.reports import QueueReport
from yarnopp_cli.rpc.methods import methods_of

from .fake import Cluster, app_id

Cli = Callable[..., Any]

LISTINGS = {
    ("ps",): "containers.container",
    ("container", "list"): "containers.container",
    ("app", "list"): "apps.app",
    ("node", "list"): "nodes.node",
    ("queue", "list"): "queues.queue",
    ("attempt", "list", "last"): "appAttempts.appAttempt",
}
"""Every command with --columns, and where its JSON document has the rows."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command that does something, by what is typed."""
    below = getattr(command, "commands", None)
    if below is None:
        return {words: command}
    return {path: leaf for name in list(below) for path, leaf in leaves(below[name], (*words, name)).items()}


COMMANDS = leaves(root())


def options(command: Any) -> set[str]:
    """All the options of a command, as they are typed."""
    return {name for one in command.params for name in one.opts}


WORDS = {"DUR": "5m"}
"""What is valid for an argument, by its name in the help; else ``last``."""


def arguments(command: Any) -> list[str]:
    """A word for each argument that has to be there."""
    words = []
    for one in command.params:
        if one.param_type_name == "argument" and one.required:
            choices = getattr(one.type, "choices", None)
            word = "1" if one.type.name.startswith("int") else WORDS.get(one.human_readable_name, "last")
            words.append(str(choices[0]) if choices else word)
    return words


@pytest.fixture
def rich(cluster: Cluster) -> Cluster:
    """A cluster with something of each kind."""
    cluster.queues = [QueueReport("root"), QueueReport("default", parent="root")]
    return cluster


def test_every_listing_is_here() -> None:
    with_columns = {words for words, command in COMMANDS.items() if "--columns" in options(command)}
    assert {words[:2] for words in LISTINGS} == with_columns


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_tsv_is_the_tables_cells(cli: Cli, rich: Cluster, words: tuple[str, ...]) -> None:
    """The same rows, columns and texts, but for the blanks; under keys that do not change."""
    every = ["-a"] if "-a" in options(COMMANDS[words[:2]]) else []
    for more in ([], ["--sort", "-" + keys_of(cli, words)[0]]):
        table = cli(*words, *every, *more).out.splitlines()
        rows = [line.split("\t") for line in cli(*words, *every, *more, "-o", "tsv").out.splitlines()]
        assert len(rows) == len(table) > 1
        assert {len(row) for row in rows} == {len(rows[0])}
        for row, line in zip(rows[1:], table[1:], strict=True):
            assert steady(" ".join(row)) == steady(line)
    wide = cli(*words, *every, "-o", "wide").out.splitlines()
    chosen = cli(*words, *every, "-o", "tsv", "--columns", ",".join(wide_keys(cli, words))).out.splitlines()
    assert [steady(" ".join(line.split("\t"))) for line in chosen[1:]] == [steady(line) for line in wide[1:]]


def steady(text: str) -> list[str]:
    """The words of a line without what counts on between two calls."""
    found = text.split()
    return [word for word, after in zip(found, [*found[1:], ""], strict=True) if not is_time(word, after)]


def is_time(word: str, after: str) -> bool:
    return after in ("s", "ms") or (word[:-1].isdigit() and word[-1] in "smhd") or word in ("s", "ms")


def keys_of(cli: Cli, words: tuple[str, ...]) -> list[str]:
    return list(cli(*words, "-o", "tsv").out.splitlines()[0].split("\t"))


def wide_keys(cli: Cli, words: tuple[str, ...]) -> list[str]:
    refused = cli(*words, "--columns", "nonsense")
    assert refused.code == 2
    return list(refused.err.strip().splitlines()[-1].partition("choose from ")[2].split(", "))


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_jsonl_has_the_objects_of_json_or_the_columns_chosen(
    cli: Cli, rich: Cluster, words: tuple[str, ...]
) -> None:
    found = json.loads(cli(*words, "--json").out)
    for key in LISTINGS[words].split("."):
        found = found[key]
    lines = [json.loads(line) for line in cli(*words, "-o", "jsonl").out.splitlines()]
    assert [one.keys() for one in lines] == [one.keys() for one in found] and lines
    first, second = keys_of(cli, words)[:2]
    flat = cli(*words, "-o", "jsonl", "--columns", f"{second},{first}").out.splitlines()
    assert [list(json.loads(line)) for line in flat] == [[second, first]] * len(lines)
    assert [str(json.loads(line)[first]) for line in flat] == cli(*words, "-q").out.split()


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_columns_go_with_what_has_columns(cli: Cli, rich: Cluster, words: tuple[str, ...]) -> None:
    rich.rm.asked.clear()
    for form in (("--json",), ("-o", "json"), ("-o", "name"), ("-q",)):
        ended = cli(*words, "--columns", "state", *form)
        assert (ended.code, ended.out) == (2, "") and "exclude each other" in ended.err, form
    for wrong in (("--columns", "nonsense"), ("--sort", "-nonsense"), ("--columns", "")):
        assert cli(*words, *wrong).code == 2
    assert rich.rm.asked == [], "it is refused before anything is asked"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_two_forms_at_once_are_refused_by_every_command(
    cli: Cli, rich: Cluster, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = COMMANDS[words]
    given = options(command)
    assert given >= {"--json", "-o"}, "every command has them"
    named = arguments(command)
    pairs = [("--json", "-o", "tsv")]
    if "-q" in given:
        pairs += [("-q", "--json"), ("-q", "-o", "jsonl"), ("-q", "-o", "tsv"), ("-q", "-o", "wide")]
    for name in ("start", "become", "end"):
        monkeypatch.setattr(
            f"yarnopp_cli.cluster.lifecycle.{name}", lambda *_, name=name, **__: pytest.fail(name)
        )
    rich.rm.asked.clear()
    for pair in pairs:
        ended = cli(*words, *pair, *named)
        assert (ended.code, ended.out) == (2, ""), (pair, ended)
        assert "exclude each other" in ended.err, (pair, ended.err)
    assert rich.rm.asked == []


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_quiet_is_the_form_name_whatever_the_environment_says(
    cli: Cli, rich: Cluster, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = cli(*words, "-o", "name").out
    assert ids and "\t" not in ids
    for form in ("json", "tsv", "wide"):
        monkeypatch.setenv("YOPP_OUTPUT", form)
        assert cli(*words, "-q").out == ids


def test_what_is_no_list_has_tabs_too(cli: Cli, rich: Cluster) -> None:
    rich.rm.methods = {**rich.rm.methods, **methods_of(history, explanation)}
    for words in (
        ("version",),
        ("config", "show"),
        ("config", "get", "yarn.acl.enable"),
        ("status",),
        ("doctor",),
    ):
        lines = cli(*words, "-o", "tsv").out.splitlines()
        assert len(lines) > 1 and len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0], words
    assert cli("version", "-o", "name").out == cli("version", "-q").out
    lines = cli("wait", "1", "-o", "tsv").out.splitlines()
    assert lines == ["id\tstate\tfinalStatus\texit", f"{app_id(1)}\tFINISHED\tFAILED\t3"]
    assert cli("wait", "1", "2", "--any", "-o", "name").out == f"{app_id(1)}\n"


def test_what_is_no_list_at_all_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("man", "ps"), ("completion", "zsh")):
        refused = cli(*words, "-o", "tsv")
        assert (refused.code, refused.out) == (2, "")
        monkeypatch.setenv("YOPP_OUTPUT", "tsv")
        assert cli(*words).code == 0, "a preference is none for what there is not"
        monkeypatch.delenv("YOPP_OUTPUT")
    page = json.loads(cli("man", "ps", "--json").out)["man"]
    assert (page["name"], page["section"]) == ("yopp-ps", "1") and page["text"].startswith("NAME\n")
    script = json.loads(cli("completion", "fish", "--json").out)["completion"]
    assert script["shell"] == "fish" and script["script"] == cli("completion", "fish").out


def test_a_wait_that_takes_too_long_still_says_how_far_it_came(cli: Cli, rich: Cluster) -> None:
    ended = cli("wait", "1", "2", "--timeout", "30ms", "--json")
    assert ended.code == 124
    found = json.loads(ended.out)
    assert found["exit"] == 124
    assert [(one["id"], one["state"], one["exit"]) for one in found["wait"]] == [
        (app_id(1), "FINISHED", 3),
        (app_id(2), "RUNNING", None),
    ]
    assert json.loads(ended.err)["yopp"]["exit"] == 124
    assert cli("wait", "2", "--timeout", "30ms").out == "", "people read it on stderr"
