"""events, explain, stats and the administrators' commands over the wire, against canned answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from yarnopp_cli.records import admin_protocol, explanation, history
from yarnopp_cli.records.explanation import Explanation, Reason, ReasonKind
from yarnopp_cli.records.history import EventKind, GetEventsResponse, HistoryEvent
from yarnopp_cli.rpc.methods import methods_of

from .fake import TIMESTAMP, Cluster, app_id

Cli = Callable[..., Any]


@pytest.fixture
def told(cluster: Cluster) -> Cluster:
    """A cluster with five events, of which it remembers those from 3 on."""
    every = [
        HistoryEvent(number, TIMESTAMP + number, EventKind.NODE_ADDED, "host1:45454", why="a\x1b[31m\tb")
        for number in range(3, 8)
    ]

    def events(request: history.GetEventsRequest) -> GetEventsResponse:
        found = [event for event in every if event.seq > request.since]
        found = found[-request.limit :] if request.newest else found[: request.limit]
        return GetEventsResponse(tuple(found), found[-1].seq if found else 7, 3, TIMESTAMP)

    cluster.rm.methods = {
        **cluster.rm.methods,
        **methods_of(history, explanation, admin_protocol),
    }
    cluster.rm.handlers["getEvents"] = events
    return cluster


def test_events_in_every_form(cli: Cli, told: Cluster) -> None:
    assert [json.loads(line)["seq"] for line in cli("events", "-n", "2", "--json").out.splitlines()] == [6, 7]
    assert cli("events", "-q", "-n", "2").out == "host1:45454\nhost1:45454\n"
    rows = cli("events", "-o", "tsv", "-n", "2").out.splitlines()
    assert rows[0].split("\t") == ["seq", "t", "kind", "subject", "details"]
    assert [row.split("\t")[0] for row in rows[1:]] == ["6", "7"]
    wide = cli("events", "-o", "wide", "-n", "1").out
    assert wide.endswith("  node=host1:45454\n")
    text = cli("events").out
    assert len(text.splitlines()) == 5 and "NodeAdded" in text and "\x1b" not in text
    assert cli("events", "-n", "0").out == ""


def test_what_was_forgotten_is_told(cli: Cli, told: Cluster) -> None:
    ended = cli("events", "--since", "1", "--json")
    assert [json.loads(line)["seq"] for line in ended.out.splitlines()] == [3, 4, 5, 6, 7]
    assert "1 events before 3 are no longer kept" in ended.err
    assert cli("events", "--since", "5").err == ""


def test_the_numbers_of_another_life_begin_anew(cli: Cli, told: Cluster) -> None:
    ended = cli("events", "--since", "900", "--json")
    assert "the ResourceManager was replaced" in ended.err
    assert len(ended.out.splitlines()) == 5


@pytest.mark.parametrize("since", ["soon", "2026-13-01T00:00", "-5", "1.2.3"])
def test_times_that_are_none(cli: Cli, told: Cluster, since: str) -> None:
    assert cli("events", f"--since={since}").code == 2


def test_kinds_by_part_of_their_name(cli: Cli, told: Cluster) -> None:
    cli("events", "--kind", "containerp,NodeLost", "-n", "1")
    [asked] = [request for method, request in told.rm.asked if method == "getEvents"]
    assert set(asked.kinds) == {
        EventKind.CONTAINER_PAUSED, EventKind.CONTAINER_PREEMPTED, EventKind.CONTAINER_PROMOTED, EventKind.NODE_LOST,
    }  # fmt: skip


def test_a_kind_matches_from_the_beginning_of_a_word(cli: Cli, told: Cluster) -> None:
    cli("events", "--kind", "shed,end", "-n", "1")
    [asked] = [request for method, request in told.rm.asked if method == "getEvents"]
    assert set(asked.kinds) == {EventKind.CONTAINER_SHED, EventKind.ATTEMPT_ENDED}
    assert cli("events", "--kind", "inished").code == 2


def test_explain_of_an_application_in_every_form(cli: Cli, told: Cluster) -> None:
    reasons = (Reason(ReasonKind.USER_LIMIT, "vcores", 1, 0, 2, where="root.a\x1b", detail="ada"),)
    told.rm.handlers["explain"] = lambda request: Explanation(
        request.id, "application", "RUNNING", satisfiable=False, waits=True, reasons=reasons
    )
    text = cli("explain", "2").out
    first, second = text.splitlines()
    assert first == f"{app_id(2)} is RUNNING: no containers."
    assert second.startswith("  User ada uses 0 vcores") and "queue root.a\\e" in second
    document = json.loads(cli("explain", "2", "--json").out)["explain"]
    assert document["can_ever"] is False and document["satisfiable"] is False and document["id"] == app_id(2)
    assert cli("explain", "2", "-q").out == f"{app_id(2)}\n"
    header, row = cli("explain", "2", "-o", "tsv").out.splitlines()
    assert header.split("\t") == ["id", "state", "satisfiable", "reasons", "estimatedStart"]
    assert row.split("\t") == [app_id(2), "RUNNING", "false", "USER_LIMIT", "-"]
    assert cli("explain", "nothing-of-the-kind").code == 66


def test_stats_of_canned_figures(cli: Cli, cluster: Cluster) -> None:
    ended = cli("stats", "-d", "0.1", "-n", "2", "--json")
    samples = [json.loads(line) for line in ended.out.splitlines()]
    assert len(samples) == 2 and samples[0]["node"]["id"] == "host1:45454"
    assert samples[0]["containers"] and all(one["limitMB"] for one in samples[0]["containers"])
    assert cli("stats", "-d", "0").code == 2
    assert cli("stats", "no-such-thing", "-d", "0.1").code == 66
    assert "TIME" in cli("stats", "-d", "0.1").out.splitlines()[0]


def test_stats_of_what_has_ended_are_its_last(cli: Cli, cluster: Cluster) -> None:
    ended = cli("stats", "1", "-d", "0.1", "--json")
    assert f"{app_id(1)} has no live containers" in ended.err
    [sample] = [json.loads(line) for line in ended.out.splitlines()]
    assert [(one["id"][-6:], one["state"]) for one in sample["containers"]] == [("000001", "DONE")]
    assert sample["node"]["id"] == "host1:45454"
    assert cli("stats", "1", "-d", "0.1", "-q").err == ""
    cluster.containers = [one for one in cluster.containers if one.application_id != app_id(1)]
    none = cli("stats", "1", "-d", "0.1", "--json")
    assert f"{app_id(1)} has had no container" in none.err
    assert [json.loads(line) | {"t": 0} for line in none.out.splitlines()] == [
        {"t": 0, "node": None, "containers": []}
    ]


def test_following_events_for_a_time_ends_with_124(cli: Cli, told: Cluster) -> None:
    ended = cli("events", "-f", "--since", "5", "--timeout", "50ms", "--json")
    assert ended.code == 124
    assert [json.loads(line)["seq"] for line in ended.out.splitlines()] == [6, 7]
    assert json.loads(ended.err)["yopp"]["exit"] == 124
    assert cli("events", "--since", "5", "--timeout", "50ms").code == 0, "nothing was waited for"


def test_an_exclude_file_that_is_not_there(cli: Cli, cluster: Cluster, run_dir: Any) -> None:
    ended = cli("rmadmin", "-refreshNodes", "--exclude", f"{run_dir}/none")
    assert ended.code == 78 and "cannot read" in ended.err
    assert cli("rmadmin", "-refreshNodes").code == 78
    assert cli("rmadmin", "-updateNodeResource", "45454", "1", "1", "5000").code == 2


def test_a_dry_run_of_kill_ends_nothing(cli: Cli, cluster: Cluster) -> None:
    assert "would be killed" in cli("app", "kill", "2", "--dry-run").out
    assert "would be killed" in cli("container", "kill", "all", "--dry-run").out
    methods = {method for method, _ in cluster.rm.asked}
    assert "forceKillApplication" not in methods
