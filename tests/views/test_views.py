"""The pure views: text helpers, columns, and the documents' arithmetic."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor.causes import Cause, CauseKind
from executor.records import (
    ContainerState,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
    ResourceUtilization,
)
from executor.settings import ExecutorSettings
from yarnopp_cli.records.history import EventKind, HistoryEvent
from yarnopp_cli.records.reports import ContainerReport, NodeReport, NodeState
from yarnopp_cli.records.times import timestamp
from yarnopp_cli.views import containers, nodes, text
from yarnopp_cli.views import events as events_view
from yarnopp_cli.views.columns import Column, choose, default_columns, sort
from yarnopp_cli.views.explain.consequences import drain

REPORT = ContainerReport(
    "container_1_0001_01_000002", "application_1_0001", "h:1", ExecutionType.GUARANTEED, Resource(64, 1)
)


@given(st.text())
def test_harmless_text_has_no_control_characters_and_says_the_same(value: str) -> None:
    shown = text.harmless(value)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    shown.encode()
    if value.isprintable() and not set("\u061c\u200e\u200f") & set(value):
        assert shown == value


@given(st.text(), st.integers(1, 30))
def test_shortened_text_fits(value: str, cells: int) -> None:
    shown = text.shorten(value, cells)
    assert text.width(shown) <= cells or text.width(value) <= cells
    if text.width(value) <= cells:
        assert shown == value


@given(st.integers(1, 253_402_300_799_999))
def test_timestamps_are_those_of_the_calendar(epoch_ms: int) -> None:
    moment = datetime.fromtimestamp(epoch_ms // 1000, tz=UTC).replace(microsecond=epoch_ms % 1000 * 1000)
    assert timestamp(epoch_ms) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@example("\x7f")
@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_harmless_line_of_json_is_the_same_value(value: object) -> None:
    shown = text.json_line(value).decode()
    assert json.loads(shown) == value
    assert not any(127 <= ord(character) < 160 for character in shown)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (-1, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (999.7, "1.0 s"),
        (1500, "1.5 s"),
        (59_900, "59.9 s"),
        (59_960, "1m 00s"),
        (303_000, "5m 03s"),
        (7_500_000, "2h 05m"),
        (277_200_000, "3d 05h"),
    ],
)
def test_spans(milliseconds: float, shown: str) -> None:
    assert text.span(milliseconds) == shown


def test_columns_are_chosen_and_sorted_by_key_or_title() -> None:
    columns: tuple[Column[tuple[str, int | None]], ...] = (
        Column("name", "NAME", lambda row: row[0]),
        Column("size", "SIZE NOW", lambda row: row[1], wide=True),
    )
    rows: list[tuple[str, int | None]] = [("b", 10), ("a", 9), ("c", None)]
    assert [row[0] for row in sort(rows, columns, "size")] == ["c", "a", "b"]
    assert [row[0] for row in sort(rows, columns, "-SIZE NOW,name")] == ["b", "a", "c"]
    assert [column.key for column in choose(columns, "size, Name")] == ["size", "name"]
    assert [column.key for column in default_columns(columns, wide=False)] == ["name"]
    with pytest.raises(KeyError, match="nope"):
        choose(columns, "name,nope")


@pytest.mark.parametrize(
    ("state", "status", "shown"),
    [
        (None, -1000, "ALLOCATED"),
        (ContainerState.SCHEDULED, -1000, "QUEUED"),
        (ContainerState.LAUNCHING, -1000, "LAUNCHING"),
        (ContainerState.PAUSED, -1000, "PAUSED"),
        (ContainerState.DONE, 0, "DONE"),
        (ContainerState.DONE, 7, "DONE"),
        (ContainerState.DONE, -108, "KILLED"),
    ],
)
def test_states_as_people_see_them(state: ContainerState | None, status: int, shown: str) -> None:
    report = dataclasses.replace(REPORT, state=state, exit_status=status)
    assert containers.shown_state(report) == shown
    assert containers.document(report, 0)["yopp"]["state"] == shown


def test_a_pause_says_for_what_it_is_in_a_word() -> None:
    state = next(column for column in containers.columns(0) if column.key == "state")

    def shown(cause: Cause | None, now: ContainerState = ContainerState.PAUSED) -> tuple[object, str]:
        report = ContainerReport("container_1", "app_1", "h:1", ExecutionType.OPPORTUNISTIC, Resource(1, 1),
                                 state=now, cause=cause)  # fmt: skip
        return state.value(report), state.cell(report)

    assert shown(Cause(CauseKind.OUTSIDE_CPU, cores=2)) == ("PAUSED", "PAUSED (load)")
    assert shown(Cause(CauseKind.MAKE_ROOM, for_container="c")) == ("PAUSED", "PAUSED (guaranteed)")
    assert shown(Cause(CauseKind.NODE_RESIZED)) == ("PAUSED", "PAUSED (resize)")
    assert shown(None) == ("PAUSED", "PAUSED")
    assert shown(Cause(CauseKind.RESUMED), ContainerState.RUNNING) == ("RUNNING", "RUNNING")


def test_times_count_from_where_the_state_began() -> None:
    queued = dataclasses.replace(
        REPORT, state=ContainerState.SCHEDULED, allocated_at_ms=100, queued_at_ms=200
    )
    assert containers.time_ms(queued, 1200) == 1000
    running = dataclasses.replace(queued, state=ContainerState.RUNNING, started_at_ms=700)
    assert containers.time_ms(running, 1200) == 500
    done = dataclasses.replace(running, state=ContainerState.DONE, finished_at_ms=900, exit_status=0)
    assert containers.time_ms(done, 1200) == 200
    never = dataclasses.replace(queued, state=ContainerState.DONE, finished_at_ms=900, exit_status=-108)
    assert containers.time_ms(never, 1200) == -1
    assert containers.since_ms(done) == 900


def test_commands_are_quoted_as_a_shell_needs_them() -> None:
    report = dataclasses.replace(REPORT, command=("sh", "-c", "echo 'a b'; exit 1", ""))
    assert containers.command_text(report) == "sh -c 'echo '\\''a b'\\''; exit 1' ''"


@pytest.mark.parametrize(
    ("cgroups", "strict", "expected"),
    [
        ("v1", False, {"cpuQuota": None, "cpuShares": 1024, "memoryMB": 64, "pids": 4096}),
        ("v2", False, {"cpuQuota": None, "cpuShares": 100, "memoryMB": 64, "pids": 4096}),
        ("hybrid", True, {"cpuQuota": 1.0, "cpuShares": 1024, "memoryMB": 64, "pids": 4096}),
        ("none", True, {"cpuQuota": None, "cpuShares": None, "memoryMB": 64, "pids": None}),
    ],
)
def test_limits(cgroups: str, strict: bool, expected: dict[str, object]) -> None:
    facts = containers.NodeFacts(
        cgroups, Resource(1024, 2), 2, ExecutorSettings(strict_resource_usage=strict)
    )
    assert containers.limits_document(REPORT, facts) == expected
    assert ("64 MB" in dict(containers.fields(REPORT, 0, facts))["Limits"]) is True


def test_a_nodes_figures_are_percentages_of_what_the_machine_has() -> None:
    report = NodeReport("h:1", NodeState.RUNNING, "unix:/x", total=Resource(1000, 2))
    assert nodes.document(report)["memUtilization"] == 0.0
    measured = ResourceUtilization(3 << 30, 1.0, 0.5, memory_total_bytes=12 << 30, cores=4)
    seen = nodes.document(dataclasses.replace(report, total=Resource(1024, 1), node_utilization=measured))
    assert (seen["memUtilization"], seen["cpuUtilization"]) == (25.0, 25.0), "of the machine, not of the node"
    assert nodes.document(dataclasses.replace(report, total=Resource()))["cpuUtilization"] == 0.0
    silent = dataclasses.replace(report, connected=False)
    assert nodes.state_text(silent) == "RUNNING (silent)"
    assert nodes.document(silent)["state"] == "RUNNING"


def test_a_paused_container_counts_as_paused_whatever_its_type() -> None:
    report = NodeReport(
        "h:1", NodeState.RUNNING, "unix:/x", num_containers=3, guaranteed_paused=1,
        opportunistic=OpportunisticContainersStatus(running=2, queued=1, queue_capacity=10, paused=1, lent_vcores=-1),
    )  # fmt: skip
    shown = {column.key: column.cell(report) for column in nodes.COLUMNS}
    assert (shown["runningG"], shown["runningO"], shown["paused"]) == ("2", "2", "2")
    told = dict(nodes.fields(report))
    assert (told["Containers"], told["Queued"]) == ("2 guaranteed, 2 opportunistic", "1/10, 2 paused")
    assert nodes.document(report)["numContainers"] == 3, "YARN counts what is allocated"
    assert "(4 running, 1 queued, 2 paused)" in drain(report)
    only = dataclasses.replace(report, guaranteed_paused=0)
    assert nodes.paused_text(only) == "1 (load)", "the load pauses no guaranteed container"
    assert dict(nodes.fields(only))["Queued"] == "1/10, 1 paused (load)"


def test_an_event_is_one_line_whatever_the_names_hold() -> None:
    submitted = HistoryEvent(
        1, 1765400000000, EventKind.APPLICATION_SUBMITTED, words={"name": "a\tb\n     2  forged\x1b[2J"}
    )
    assert events_view.line(submitted).endswith("  a\\tb\\n     2  forged\\e[2J")
    assert "\n" not in events_view.line(submitted, wide=True)


@pytest.mark.parametrize(
    ("status", "told"), [(-105, "exit -105 KILLED_BY_APPMASTER"), (7, "exit 7"), (0, "exit 0")]
)
def test_an_event_and_a_list_show_the_same_exit_status(status: int, told: str) -> None:
    """The exit code is the shell's; it is 143 for what ends on SIGTERM, whoever sends that."""
    ends = HistoryEvent(
        1, 2, EventKind.CONTAINER_COMPLETED, container="c", numbers={"exitStatus": status, "exitCode": 143}
    )
    assert events_view.details(ends) == told
    ended = dataclasses.replace(REPORT, state=ContainerState.DONE, exit_status=status, exit_code=143)
    [column] = choose(containers.columns(0), "exit")
    assert told == f"exit {column.cell(ended)}"
