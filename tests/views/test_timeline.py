"""Events become lines of time, and these become figures and a page."""

from __future__ import annotations

from executor.light import replace
from yarnopp_cli.records.history import EventKind, HistoryEvent
from yarnopp_cli.records.reports import ApplicationReport, FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.report import timeline
from yarnopp_cli.report.page import page
from yarnopp_cli.report.timeline import GRANTED, PAUSED, QUEUED, RUNNING, Segment

O, G = "OPPORTUNISTIC", "GUARANTEED"  # noqa: E741 - the letters that people use for them
BASE = 1_000_000


def event(t: int, kind: str, container: str = "c1", **numbers: int) -> HistoryEvent:
    words = {"executionType": O} if kind == "Allocated" else {}
    if kind == "Promoted":
        words = {"executionType": G}
    if kind in ("Allocated", "Promoted"):
        numbers = {"memoryMB": 512, "vcores": 1, **numbers}
    return HistoryEvent(
        t, BASE + t, EventKind(f"Container{kind}"), "n:1", "a1", container, "", words, numbers
    )


def spans(line: timeline.ContainerLine) -> list[tuple[str, int, int, str]]:
    return [(one.state, one.begin - BASE, one.end - BASE, one.execution_type) for one in line.segments]


def test_a_life_with_everything_in_it() -> None:
    [line] = timeline.lines(
        [
            event(0, "Allocated"),
            event(1, "Acquired"),
            event(10, "Queued", at=BASE + 5),
            event(110, "Started", at=BASE + 105, waitedMs=100),
            event(200, "Paused", at=BASE + 195),
            event(300, "Promoted"),
            event(310, "Resumed"),
            event(500, "Completed", exitStatus=0, at=BASE + 490, cpuMs=77, peakMB=9),
        ],
        BASE + 999,
    )
    assert spans(line) == [
        (GRANTED, 0, 5, O),
        (QUEUED, 5, 105, O),
        (RUNNING, 105, 195, O),
        (PAUSED, 195, 300, O),
        (PAUSED, 300, 310, G),
        (RUNNING, 310, 490, G),
    ]
    assert (line.outcome, line.waited_ms, line.spent(RUNNING), line.cpu_ms) == ("ok", 105, 270, 77)


def test_a_queue_that_was_never_told_of_and_one_that_lives() -> None:
    quick, lives = timeline.lines(
        [
            event(0, "Allocated"),
            event(0, "Allocated", "c2"),
            event(50, "Started", at=BASE + 50, waitedMs=40),
            event(60, "Preempted", exitStatus=-102, at=BASE + 60),
            event(70, "Queued", "c2", at=BASE + 70),
            event(80, "Queued", "stranger", at=1),
        ],
        BASE + 100,
    )
    assert spans(quick) == [(GRANTED, 0, 10, O), (QUEUED, 10, 50, O), (RUNNING, 50, 60, O)]
    assert quick.outcome == "preempted"
    assert spans(lives)[-1] == (QUEUED, 70, 100, O) and lives.outcome == ""


def test_lost_containers_have_the_reason_and_another_life_of_the_rm_begins_no_new_line() -> None:
    told = [
        event(0, "Allocated"),
        event(5, "Started", at=BASE + 5),
        event(90, "Allocated"),
        event(91, "Started", at=BASE + 5),
    ]
    lost = replace(event(95, "Aborted", exitStatus=-100, at=BASE + 95), why="The machine was restarted.")
    [line] = timeline.lines([*told, lost], BASE + 99)
    assert (line.outcome, line.spent(GRANTED), line.spent(RUNNING)) == ("aborted", 5, 90)
    assert timeline.losses([line, line]) == ["2 x The machine was restarted."]


def test_times_never_go_back() -> None:
    [line] = timeline.lines(
        [event(100, "Allocated"), event(110, "Started", at=BASE + 20), event(120, "Completed", at=BASE + 30)],
        BASE,
    )
    assert all(one.end > one.begin for one in line.segments)


def test_waiting_counts_from_eligible_and_from_submission() -> None:
    """The second waited for its grant, too: 40 of its 70 ms since it was asked for."""
    found = timeline.lines(
        [
            event(0, "Allocated", submittedAt=BASE - 100, eligibleAt=BASE),
            event(10, "Started", at=BASE + 10),
            event(40, "Allocated", "c2", submittedAt=BASE - 100, eligibleAt=BASE),
            event(70, "Started", "c2", at=BASE + 70),
            event(80, "Allocated", "c3"),
            event(85, "Started", "c3", at=BASE + 85),
        ],
        BASE + 90,
    )
    assert timeline.waits(found) == [10, 70, 5], "without the times, from its grant"
    numbers = timeline.figures(found, 1)
    assert numbers["waitedMs"]["max"] == 30
    assert numbers["waitedSinceEligibleMs"] == {"median": 10, "mean": 28, "p95": 70, "max": 70}
    assert numbers["waitedSinceSubmitMs"]["max"] == 170
    lines = timeline.document(found)
    assert [one["waitedSinceEligibleMs"] for one in lines] == [10, 70, 5]
    assert [one["waitedSinceSubmitMs"] for one in lines] == [110, 170, 5]


def test_load_waits_and_figures() -> None:
    found = [
        timeline.ContainerLine(
            "c1", "n", O, 512, 2, [Segment(QUEUED, 0, 10, O), Segment(RUNNING, 10, 30, O)], "ok"
        ),
        timeline.ContainerLine("c2", "n", O, 512, 1, [Segment(RUNNING, 20, 30, O)], "failed"),
        timeline.ContainerLine("c3", "n", O, 512, 1, [Segment(QUEUED, 0, 40, O)], "shed"),
    ]
    assert timeline.load(found, O) == [(10, 2), (20, 3), (30, 0)]
    assert timeline.waits(found) == [10, 0], "who never ran has not waited for its start"
    numbers = timeline.figures(found, 4)
    assert (numbers["elapsedMs"], numbers["containers"], numbers["ran"]) == (40, 3, 2)
    assert numbers["outcomes"] == {"ok": 1, "failed": 1, "preempted": 0, "shed": 1, "aborted": 0}
    assert numbers["utilisation"] == round((20 * 2 + 10) / (40 * 4), 4)
    assert timeline.figures([], 0)["utilisation"] is None


def test_the_page_executes_nothing_that_it_is_told() -> None:
    evil = "<script>alert(1)</script>\x1b[31m&"
    app = ApplicationReport(
        "application_1_0001",
        evil,
        evil,
        "default",
        "YARN",
        YarnApplicationState.FINISHED,
        FinalApplicationStatus.SUCCEEDED,
        diagnostics=evil,
        command_line=evil,
    )
    line = timeline.ContainerLine(evil, evil, evil, 1, 1, [Segment(RUNNING, 0, 10, O)], evil)
    text = page(app, (), [line], timeline.figures([line], 1), [(evil, evil, "<svg></svg>")], [evil])
    assert "<script" not in text and "\x1b" not in text
    assert text.startswith("<!DOCTYPE html>") and "http" not in text.replace("http-equiv", "")


def test_the_page_says_each_waiting_time_since_when_and_as_what() -> None:
    line = timeline.ContainerLine(
        "c", "n", O, 1, 1, [Segment(QUEUED, 5000, 9000, O), Segment(RUNNING, 9000, 10_000, O)],
        submitted=1000, eligible=3000,
    )  # fmt: skip
    app = ApplicationReport(
        "a", "job", "me", "default", "YOPP", YarnApplicationState.RUNNING, FinalApplicationStatus.UNDEFINED
    )
    text = page(app, (), [line], timeline.figures([line], 1), ())
    assert (
        "<dt>Waited since eligible: median, 95 %, longest</dt><dd>6.0 s, 6.0 s, 6.0 s</dd>"
        in text.replace("\u00a0", " ")
    )
    assert (
        "<dt>Waited since submitted: median, 95 %, longest</dt><dd>8.0 s, 8.0 s, 8.0 s</dd>"
        in text.replace("\u00a0", " ")
    )
