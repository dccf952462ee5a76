"""What holds for every command: the common options, ranges and `all`, filters, -w, text that was typed."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from executor.records import ContainerState
from yarnopp_cli.cli.frame.naming import is_container
from yarnopp_cli.cli.tree import root
from yarnopp_cli.records import container_protocol as nm
from yarnopp_cli.records.client_protocol import ApplicationResponse
from yarnopp_cli.records.reports import NodeState, QueueReport

from .fake import Cluster, app_id, container, container_id, node

Cli = Callable[..., Any]


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that lead to it."""
    if not hasattr(command, "commands"):
        return [(path, command)]
    return [leaf for name, one in command.commands.items() for leaf in leaves(one, (*path, name))]


@pytest.mark.parametrize(
    ("typed", "message", "meant"),
    [
        ("app -lst", "no such option: -lst", "did you mean -list? "),
        ("kill 1", "no such command: kill", "did you mean `yopp app kill` or `yopp container kill`? "),
        ("stop", "no such command: stop", "did you mean `yopp down`? "),
        ("cancel 3", "no such command: cancel", "did you mean `yopp app kill` or `yopp container kill`? "),
        ("ls", "no such command: ls", "did you mean `yopp ps` or `yopp app list`? "),
        ("sbatch job.sh", "no such command: sbatch", "did you mean `yopp run`? "),
        ("ps --file x", "no such option: --file", ""),
        ("run --memroy 3 true", "no such option: --memroy", "did you mean --memory? "),
        ("node lst", "no such command: lst", "did you mean `yopp node list`? "),
        ("rnu", "no such command: rnu", "did you mean `yopp run`? "),
        ("frobnicate", "no such command: frobnicate", ""),
        ("ps -J", "no such option: -J", ""),
    ],
)
def test_what_may_have_been_meant(cli: Cli, typed: str, message: str, meant: str) -> None:
    result = cli(*typed.split())
    assert result.code == 2 and result.err.startswith(f"error: {message}\n")
    assert result.err.splitlines()[-1].startswith(f"  hint: {meant}`yopp ")


@pytest.mark.parametrize("typed", ["", "run", "node list"])
def test_help_is_a_word_too(cli: Cli, typed: str) -> None:
    asked = cli("help", *typed.split())
    assert asked.code == 0 and asked.out == cli(*typed.split(), "--help").out


@pytest.mark.parametrize(
    ("typed", "message", "command"),
    [
        ("run -n", "option '-n' requires an argument", "run"),
        ("run --opportunistic=yes true", "option '--opportunistic' does not take a value", "run"),
        ("node list --limit", "option '--limit' requires an argument", "node list"),
    ],
)
def test_the_command_whose_option_was_typed_is_named(
    cli: Cli, typed: str, message: str, command: str
) -> None:
    result = cli(*typed.split())
    assert result.code == 2 and result.err.startswith(f"error: {message}\n")
    assert result.err.endswith(
        f"  hint: `{' '.join(('yopp', *command.split(), '--help'))}` lists its options and arguments\n"
    )


EVERY = leaves(root())
COMMON = {"--conf", "--define", "--run-dir", "--quiet", "--verbose", "--color", "--no-progress", "--yes"}
NO_DATA = {"man", "completion", "rm run", "nm run"}
NO_END = {"man", "completion", "rm run", "nm run"}


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])
def test_every_command_takes_every_common_option(path: tuple[str, ...], command: Any) -> None:
    has = {spelling for option in command.params for spelling in option.opts}
    names = {path[0], " ".join(path)}
    assert has >= COMMON
    assert {"-D", "-q", "-v", "-y"} <= has
    assert names & NO_END or "--timeout" in has
    assert names & NO_DATA or {"--json", "--output", "-o"} <= has
    spellings = [spelling for option in command.params for spelling in option.opts]
    assert sorted(spellings) == sorted(set(spellings))


def test_options_without_an_effect_are_taken_and_not_shown(cli: Cli, cluster: Cluster) -> None:
    assert cli("node", "list", "-y", "--no-progress", "-q").code == 0
    assert cli("config", "path", "-v", "--color", "never", "--run-dir", "/nowhere").code == 0
    assert cli("rm", "status", "-Dno.such=1").code == 78
    shown = cli("node", "list", "--help").out
    assert "--timeout" in shown
    assert "--no-progress" not in shown
    assert "--yes" not in shown


def test_timeout_ends_any_command_with_124(
    cli: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = cli("ps", "-w", "3600", "--timeout", "0.3")
    assert ended.code == 124
    assert ended.err.splitlines() == [
        "error: not done within 0.3 s",
        "  because: --timeout (or YOPP_TIMEOUT) is 0.3 s",
        "  hint: use a longer --timeout",
    ]
    assert json.loads(cli("ps", "--timeout", "0", "--json").err)["yopp"]["exit"] == 124
    monkeypatch.setenv("YOPP_TIMEOUT", "300ms")
    assert cli("stats", "-n", "0", "-d", "30").code == 124
    assert cli("wait", app_id(2)).code == 124
    assert cli("ps", "-q", "--timeout", "20").code == 0  # the option goes before the variable
    monkeypatch.setenv("YOPP_TIMEOUT", "soon")
    assert cli("ps").code == 2


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("app", "status", "1-2"), [app_id(1), app_id(2)]),
        (("app", "status", "2-9"), [app_id(2)]),
        (("app", "status", "2,1"), [app_id(2), app_id(1)]),
        (("container", "status", "2.1-2"), [container_id(2, 1), container_id(2, 2)]),
        (("container", "status", "2.2-2.7"), [container_id(2, 2)]),
        (("container", "status", "all"), [container_id(2, 1), container_id(2, 2)]),
        (("app", "status", "all"), [app_id(2)]),
        (("node", "status", "45454-45455"), ["host1:45454", "host1:45455"]),
        (("queue", "status", "all"), ["default"]),
    ],
)
def test_ranges_and_all_are_those_that_there_are(
    cli: Cli, cluster: Cluster, words: tuple[str, ...], found: list[str]
) -> None:
    assert cli(*words, "-q").out.split() == found


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("app", "status", "7-9"), 66),
        (("app", "status", "1,7"), 66),
        (("container", "status", "2.7-9"), 66),
        (("container", "status", "2-1"), 2),
        (("container", "status", "1.2-2.3"), 2),
        (("app", "priority", "1-2", "5"), 2),
        (("attempt", "list", "all"), 0),
    ],
)
def test_a_range_of_nothing_is_66_and_one_for_a_single_place_is_2(
    cli: Cli, cluster: Cluster, words: tuple[str, ...], code: int
) -> None:
    assert cli(*words).code == code


def test_what_a_range_for_a_single_place_means_is_counted(cli: Cli, cluster: Cluster) -> None:
    refused = cli("app", "priority", "1-2", "5").err
    assert refused.startswith("error: 1-2 matches 2 applications; exactly one is needed\n")


def test_which_words_mean_containers() -> None:
    assert [word for word in ("2.1-2", "2.1-2.3", "1-3", "3", "all") if is_container(word)] == [
        "2.1-2",
        "2.1-2.3",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("container", "pause"),
        ("container", "kill"),
        ("container", "signal"),
        ("container", "promote"),
        ("container", "resize", "--vcores", "2"),
        ("app", "kill"),
        ("node", "drain"),
        ("node", "resize", "--vcores", "2"),
    ],
)
def test_all_is_asked_for_before_anything_is_changed(
    cli: Cli, cluster: Cluster, words: tuple[str, ...]
) -> None:
    cluster.containers = [
        replace(one, state=ContainerState.RUNNING, started_at_ms=1) for one in cluster.containers
    ]
    ended = cli(*words, "all")
    assert ended.code == 2
    told, because, hint = ended.err.splitlines()
    assert told == "error: nothing was changed" and hint == "  hint: -y answers yes"
    assert because.startswith("  because: there is no terminal for the question: ") and because.endswith("?")
    changing = {"pauseContainer", "stopContainers", "signalContainer", "updateContainer", "drainNodes"}
    asked = {name for name, _ in (*cluster.rm.asked, *cluster.nm.asked)}
    assert not asked & (changing | {"forceKillApplication", "updateNodeResource"})


def test_nothing_is_changed_where_one_of_several_has_ended(cli: Cli, cluster: Cluster) -> None:
    ended = replace(container(2, 3), state=ContainerState.DONE, exit_code=0)
    cluster.containers = [*cluster.containers, ended]
    assert cli("container", "signal", "2.1", "2.3").code == 1
    assert cluster.asked("signalContainer") == []


def test_filters_by_what_is_behind_a_row(cli: Cli, cluster: Cluster) -> None:
    cluster.queues = [
        QueueReport("root", path="root", leaf=False),
        QueueReport("default", path="root.default"),
        QueueReport("prod", path="root.prod", state="STOPPED"),
    ]
    cluster.applications = [replace(cluster.applications[0], queue="prod"), *cluster.applications[1:]]
    assert cli("app", "list", "-a", "-q", "--queue", "root.prod").out.split() == [app_id(1)]
    assert cli("app", "list", "-a", "-q", "--queue", "root").out.split() == [app_id(1), app_id(2)]
    assert cli("app", "list", "-a", "--queue", "nosuch").code == 66
    assert cli("app", "list", "-q", "--node", "45454").out.split() == [app_id(2)]
    assert cli("app", "list", "--node", "nosuch").code == 66
    assert cli("ps", "-q", "--queue", "default").out.split() == [container_id(2, 1), container_id(2, 2)]
    assert cli("ps", "-q", "--queue", "prod").out == ""
    assert cli("node", "list", "-q", "--app", "2").out == "host1:45454\n"
    assert cli("node", "list", "-q", "--app", "1").out == ""
    assert cli("queue", "list", "-q", "--state", "stopped").out == "prod\n"
    assert cli("queue", "list", "-q", "--app", "1").out == "prod\n"
    for nonsense in (("node", "list", "--type", "O"), ("queue", "list", "--tag", "a"), ("ps", "--rack", "a")):
        assert cli(*nonsense).code == 2
    assert cluster.nodes[0].state is NodeState.RUNNING


@pytest.mark.parametrize(
    "words", [("ps",), ("app", "list"), ("node", "list"), ("queue", "list"), ("attempt", "list", "2")]
)
def test_watched_in_a_pipe_each_table_has_its_time(
    cli: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    tables, sleep = itertools.count(1), time.sleep

    def pause(seconds: float) -> None:
        if next(tables) % 3 == 0:
            raise KeyboardInterrupt
        sleep(0.002)  # the clock's next millisecond

    monkeypatch.setattr("yarnopp_cli.cli.frame.session.time.sleep", pause)
    watched = cli(*words, "-w", "0.1")
    times = [line for line in watched.out.splitlines() if line[:2] == "20" and line.endswith("Z")]
    assert (watched.code, len(times)) == (130, 3)
    assert times == sorted(set(times))
    documents = cli(*words, "-w", "0.1", "--json").out.splitlines()
    assert len(documents) == 3
    assert all(isinstance(json.loads(one), dict) for one in documents)
    assert cli(*words, "-w", "0.01").code == 2


def test_a_change_that_is_only_tried_says_what_would_be(cli: Cli, cluster: Cluster) -> None:
    cluster.rm.handlers["updateApplicationTimeouts"] = lambda request: ApplicationResponse(
        next(one for one in cluster.applications if one.application_id == request.application_id)
    )
    for words, text in (
        (("1h",), "may run until 2"),
        (("1h", "--dry-run"), "would be allowed to run until 2"),
        (("unlimited",), "may run without a time limit"),
        (("unlimited", "--dry-run"), "would be allowed to run without a time limit"),
    ):
        ended = cli("app", "lifetime", "2", *words)
        assert ended.code == 0 and ended.out.startswith(f"{app_id(2)} {text}"), ended
    refused = cli("app", "lifetime", "2", "foo")
    assert refused.code == 2 and refused.err == (
        "error: invalid value for 'DUR'\n"
        "  because: 'foo' is not a duration; write 90s, 5m, 2h or 1h30m, or `unlimited`\n"
        "  hint: `yopp app lifetime --help` lists its options and arguments\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("app", "status", "a\nb"),
        ("node", "status", "x\x1b[31m\ny"),
        ("container", "kill", "x\ny"),
        ("wait", "q\r\n\tz"),
        ("queue", "status", "a\nb"),
        ("a\nb",),
        ("ps", "--a\nb"),
        ("ps", "--sort", "a\nb"),
        ("ps", "--state", "a\nb"),
        ("logs", "a\nb"),
        ("config", "get", "a\nb"),
        ("config", "set", "a\nb", "1"),
        ("app", "list", "--queue", "a\nb"),
        ("events", "--kind", "a\nb"),
        ("man", "a\nb"),
        ("container", "signal", "-s", "a\nb", "last"),
    ],
)
def test_what_was_typed_stands_escaped_in_its_error(
    cli: Cli, cluster: Cluster, words: tuple[str, ...]
) -> None:
    ended = cli(*words)
    assert ended.code in (2, 66, 78)
    assert len(ended.err.splitlines()) <= 3
    assert ended.err.startswith("error: ")
    assert all(character.isprintable() for line in ended.err.splitlines() for character in line)


def test_completion_offers_last_only_where_there_is_something(cli: Cli, cluster: Cluster) -> None:
    assert cli("completion", "words", "app", "kill", "").out.split() == ["last", app_id(2)]
    assert cli("completion", "words", "app", "queue", "last", "").out == "default\n"
    assert cli("completion", "words", "queue", "status", "").out == "default\n"
    assert cli("completion", "words", "nm", "drain", "h").out.split() == ["host1:45454", "host1:45455"]
    assert cli("completion", "words", "config", "set", "yopp.run.m").out == "yopp.run.memory-mb\n"
    assert cli("completion", "words", "app", "status", "--y").out == ""  # what does nothing is not offered
    cluster.close()
    for path in cluster.run_dir.glob("*.sock"):
        path.unlink()
    assert cli("completion", "words", "app", "kill", "").out == ""
    assert cli("completion", "words", "--run-dir", "/nowhere", "logs", "l").out == ""


def test_metrics_of_all_leave_out_a_node_that_does_not_answer(cli: Cli, cluster: Cluster) -> None:
    counts = dict.fromkeys(("launched", "completed", "failed", "killed"), 0)
    cluster.nm.handlers["getNodeFigures"] = lambda _: nm.GetNodeFiguresResponse(counts)
    cluster.nodes = [node(cluster.run_dir, "host1:45455"), node(cluster.run_dir)]
    ended = cli("metrics", "all")
    assert ended.code == 0
    assert 'node="host1:45454"' in ended.out and "host1:45455" not in ended.out
    assert ended.err == "warning: node host1:45455 is not running: its metrics are left out\n"
    assert cli("metrics", "45455").code == 69
    cluster.nodes = cluster.nodes[:1]
    assert cli("metrics", "all").code == 69


def test_a_job_that_would_begin_later_says_when_and_after_which(cli: Cli, cluster: Any) -> None:
    told = cli("run", "--dry-run", "--after", "2:any", "--begin", "2099-01-31T12:00:00Z", "--", "true")
    assert told.code == 0, told.err
    assert "it would not begin before 2099-01-31T12:00:00.000Z" in told.out
    assert f"it would wait for {app_id(2)} (any) before it begins" in told.out
    document = json.loads(cli("run", "--json", "--dry-run", "--after", "2", "--", "true").out)["dryRun"]
    assert document["after"] == [f"{app_id(2)}:ok"] and document["beginAt"] == 0
    for word, code, said in (
        ("99:ok", 66, "no application 99"),
        ("99", 66, "no application 99"),
        ("2:maybe", 2, "'maybe' is not a condition"),
        (":maybe", 66, "no application :maybe"),
    ):
        refused = cli("run", "--dry-run", "--after", word, "--", "true")
        assert refused.code == code and said in refused.err, refused.err


@pytest.mark.parametrize(
    ("typed", "because"),
    [
        ("run -n 3x true", "'3x' is not a whole number"),
        ("stats -n x", "'x' is not a whole number"),
        (f"run --vcores {10**20} true", f"{10**20} is larger than any number"),
        (f"run --retries {10**20} true", f"{10**20} is larger than any number"),
        (f"run --memory {10**20}G true", f"'{10**20}G' is larger than any memory"),
        ("events --since nope", "'nope' is neither a duration nor a time; write 10m or 2026-01-31T12:00:00Z"),
        ("run --array 1-100000000000 true", "a task's number has 9 digits at most"),
    ],
)
def test_a_value_that_is_none_is_refused_before_anything_is_asked(cli: Cli, typed: str, because: str) -> None:
    refused = cli(*typed.split())
    assert refused.code == 2
    lines = refused.err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "  because", "  hint"]
    assert lines[1].startswith(f"  because: {because}"), refused.err
