"""The pure side of ``yopp top``: pictures out of characters, rates, reasons, consequences."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from executor.reasons import MEMORY, VCORES, Reason, ReasonKind, by_rule, too_big
from executor.records import ContainerState, ExecutionType, Resource
from tests.tui.fake import NOW, cluster, container, container_id, node
from yarnopp_cli.explain.snapshot import Picture
from yarnopp_cli.records.reports import NodeState
from yarnopp_cli.views.columns import matches
from yarnopp_cli.views.explain import consequences
from yarnopp_cli.views.explain.reasons import briefly, text, why
from yarnopp_cli.views.text import fitted, short_megabytes, short_span, width
from yarnopp_cli.views.top import lines as frame
from yarnopp_cli.views.top import sampling as spark
from yarnopp_cli.views.top.lines import first_line, second_line
from yarnopp_cli.views.top.sampling import SAMPLES, History
from yarnopp_cli.views.top.tables import NODE_COLUMNS


@given(st.lists(st.integers(0, 10_000), max_size=8), st.integers(0, 60))
def test_a_bar_is_full_and_forgets_nobody(counts: list[int], cells: int) -> None:
    given_ = spark.shares(counts, cells)
    if sum(counts):
        assert sum(given_) == cells
        if cells >= sum(1 for count in counts if count):
            assert all(bool(share) == bool(count) for share, count in zip(given_, counts, strict=True))
    else:
        assert not any(given_)


@given(st.lists(st.floats(0, 1e6), max_size=80), st.integers(0, 70), st.floats(0.001, 1e6))
def test_a_sparkline_has_its_width_and_the_newest_at_the_right(
    values: list[float], cells: int, highest: float
) -> None:
    drawn = spark.sparkline(values, cells, highest)
    assert len(drawn) == cells and len(drawn.strip()) == min(cells, len(values))
    if cells and values and values[-1] >= highest:
        assert drawn[-1] == spark.LEVELS[-1]


@given(st.text(), st.integers(0, 30), st.booleans())
def test_a_fitted_text_has_exactly_its_cells(text: str, cells: int, right: bool) -> None:
    assert width(fitted(text, cells, right=right)) == cells or width(text) != len(text)


def test_short_figures_fit_into_five_cells() -> None:
    for milliseconds in (0, 999, 99_000, 100_000, 5_999_000, 6_000_000, 172_799_000, 10**11):
        assert len(short_span(milliseconds)) <= 5
    assert [short_span(ms) for ms in (-1, 119_999, 120_000, 7_199_999, 7_200_000)] == [
        "-", "119s", "2m", "119m", "2h"
    ]  # fmt: skip
    for amount in (0, 0.4, 9.94, 9.96, 512, 999.4, 1024, 101_000, 900_000):
        assert len(short_megabytes(amount)) <= 5, amount
    assert [short_megabytes(amount) for amount in (0.4, 512, 8192)] == ["0.4M", "512M", "8.0G"]


def usage(report: object, cpu: float, at: float) -> object:
    return dataclasses.replace(  # type: ignore[type-var]
        report,
        usage=dataclasses.replace(report.usage, cpu_seconds=cpu, sampled_at=at),  # type: ignore[attr-defined]
    )


def test_rates_lie_between_two_measurements_of_the_node_not_of_ours() -> None:
    history = History()
    one = container(1, 6)
    name = one.container_id

    def see(cpu: float, at: float) -> None:
        history.add(Picture(NOW, cluster().info, containers=(usage(one, cpu, at),)))  # type: ignore[arg-type]

    see(10.0, 5.0)
    assert history.cores(name) is None
    see(10.0, 5.0)  # we looked again before it measured again
    assert history.cores(name) is None and len(history.memory(name)) == 1
    see(11.0, 7.0)
    assert history.cores(name) == 0.5
    see(0.2, 0.5)  # its node began a new life
    assert history.cores(name) is None
    for step in range(200):
        see(0.2 + step, 1.0 + step)
    assert len(history.cpu(name)) == SAMPLES and history.cores(name) == 1.0
    history.add(Picture(NOW, cluster().info))
    assert history.cores(name) is None and not history.cpu(name)


def test_who_waits_is_told_for_what() -> None:
    vcore, memory = (
        Reason(ReasonKind.SHORT, VCORES, 1, 0, 4),
        Reason(ReasonKind.SHORT, MEMORY, 4000, 2048, 4096),
    )
    queued, here = dataclasses.replace(container(1, 2), why=(vcore,)), node()
    assert why(queued, here) == "waits for a vcore (0 free)"
    assert why(queued, here, 12) == "no vcore free"
    assert why(dataclasses.replace(queued, state=ContainerState.RUNNING), here) == ""
    never = too_big(Resource(1, 9), [("", Resource(1, 4))], ReasonKind.TOO_BIG_HERE)
    assert why(dataclasses.replace(queued, why=(never,)), here).startswith("never")
    assert why(queued, None) == "its node is gone"
    assert why(queued, node(state=NodeState.UNHEALTHY)) == "its node is UNHEALTHY"
    assert (
        why(dataclasses.replace(queued, why=(Reason(ReasonKind.NEXT),)), here) == "next: there is room for it"
    )
    behind = Reason(ReasonKind.BEHIND, number=2)
    assert why(dataclasses.replace(queued, why=(behind,)), here) == "behind 2 in the queue"
    assert "master" in why(dataclasses.replace(queued, state=None), here)
    hungry = dataclasses.replace(queued, why=(vcore, memory))
    assert why(hungry, here) == "waits for a vcore (0 free) and 4000 MB of memory (2048 MB free)"
    assert why(dataclasses.replace(queued, why=()), here) == "its node has not said why"
    assert why(dataclasses.replace(queued, state=ContainerState.RESUMING), here) == "resumes in a moment"


def test_each_reason_has_words_in_full_and_in_sixteen_cells_and_an_unknown_rule_its_own() -> None:
    for kind in ReasonKind:
        one = Reason(
            kind, VCORES, 1, 0, 2, by=(container_id(1, 2),), rule="AT_MOST", detail="at most two run"
        )
        paused = dataclasses.replace(container(1, 2, state=ContainerState.PAUSED), why=(one,))
        assert text(one) and why(paused, node()) and one.code, kind
    told = {
        ReasonKind.BY_PERSON: "paused by user",
        ReasonKind.MADE_ROOM: "made room",
        ReasonKind.NODE_RESIZED: "node is smaller",
        ReasonKind.OUTSIDE_CPU: "machine is busy",
        ReasonKind.MACHINE_MEMORY: "memory is short",
    }
    for kind, short in told.items():
        assert briefly((Reason(kind, VCORES),), 16) == short
    rule = by_rule("MAX_RUNNING", "at most 2 opportunistic containers run here")
    assert (rule.code, text(rule)) == ("MAX_RUNNING", "at most 2 opportunistic containers run here")
    assert (briefly((rule,)), briefly((rule,), 16)) == (rule.detail, "max running")


def test_who_gives_way_for_a_promotion_is_what_the_nodes_have_told() -> None:
    full = node(used=Resource(0, 0), total=Resource(16384, 6))
    running = tuple(
        container(1, number, node_id=full.node_id, state=ContainerState.RUNNING, resource=Resource(512, 2),
                  execution_type=ExecutionType.OPPORTUNISTIC, started_at_ms=NOW - 1000 * number)
        for number in (11, 12, 13)
    )  # fmt: skip
    waits = container(1, 2, node_id=full.node_id, resource=Resource(512, 3))
    gives_way = {container_id(1, 13): "kill", container_id(1, 11): "kill"}
    picture = Picture(NOW, cluster().info, (full,), (*running, waits), gives_way=gives_way)
    told = consequences.promote([waits], picture)
    assert "will kill container 1.c13 and container 1.c11" in told and "1.c12" not in told
    both = dataclasses.replace(picture, gives_way={container_id(1, 13): "pause", container_id(1, 11): "kill"})
    told = consequences.promote([waits], both)
    assert "will pause container 1.c13." in told and "will kill container 1.c11." in told
    big = dataclasses.replace(waits, resource=Resource(512, 9))
    told = consequences.promote([big], dataclasses.replace(picture, containers=(*running, big)))
    assert "waits until a guaranteed container ends" in told and "To make room" not in told


def test_what_killing_costs_is_said() -> None:
    picture = cluster()
    queued, running = container(1, 2), container(1, 6)
    assert "No work is lost" in consequences.kill_containers([queued], picture)
    told = consequences.kill_containers([running], picture)
    assert told.startswith("Kill container 1.c6 (opportunistic, running 45s, of application _0001)?")
    assert "Its work is lost" in told
    both = consequences.kill_containers([queued, running], picture)
    assert both.startswith("Kill 2 containers (1 has run): ")
    assert "master" in consequences.kill_containers([dataclasses.replace(running, is_am=True)], picture)
    assert "and 2 more" in consequences.kill_containers(
        [container(1, number) for number in range(5)], picture
    )


def test_filter_words_all_have_to_be_there_and_not_the_excluded_ones() -> None:
    one = node()
    assert matches(one, NODE_COLUMNS, ["running", "HOST1"], one.node_id)
    assert not matches(one, NODE_COLUMNS, ["running", "!host1"], one.node_id)
    assert not matches(one, NODE_COLUMNS, ["lost"], one.node_id)
    assert matches(one, NODE_COLUMNS, ["!"], "a!b")


@given(st.integers(1, 250))
def test_the_header_has_the_width_of_the_screen(cells: int) -> None:
    picture = cluster()
    history = History()
    history.add(picture)
    line = first_line("/run/yopp", picture, [], cells)
    if cells >= 70:
        assert sum(width(one.text) for one in line) <= cells + 1
        assert sum(width(one.text) for one in second_line(picture, history, cells)) <= cells + 1


def test_a_plain_frame_cuts_nothing() -> None:
    picture = cluster()
    history = History()
    history.add(picture)
    lines = frame.frame_lines(picture, history)
    text = "\n".join(lines)
    assert "/usr/bin/env simulate --step 12" in text and "…" not in text
    assert all(one.container_id[-7:] in text for one in picture.containers)
    few = "\n".join(frame.frame_lines(picture, history, rows=2))
    assert "(10 more containers)" in few and "_000003" not in few
    document = frame.frame_document(picture, history)
    assert len(document["containers"]["container"]) == 12 and document["top"]["t"] == NOW
