"""What people see of a job while it runs: words and a bar."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yarnopp_cli.jobs.progress import RemainingTime, bar, elapsed_text, states_text, where_text
from yarnopp_cli.masters.tasks import Tally
from yarnopp_cli.records.jobs import TaskState
from yarnopp_cli.records.reports import ApplicationReport, FinalApplicationStatus, YarnApplicationState
from yarnopp_cli.views.text import number_of


def tally(paused: int = 0, preempted: int = 0, **counts: int) -> Tally:
    made = Tally(sum(counts.values()))
    made.counts[TaskState.WAITING] = 0
    for name, number in counts.items():
        made.counts[TaskState[name]] = number
    made.paused, made.noted["preempted"] = paused, preempted
    return made


def test_words_tell_paused_from_running_and_count_preemptions() -> None:
    text = states_text(tally(paused=2, preempted=3, RUNNING=5, QUEUED=4, SUCCEEDED=1))
    assert text == "3 running, 2 paused, 4 queued, 1 ok, 3 preempted"
    busy = tally(paused=2, RUNNING=2)
    busy.paused_for = "LOAD"
    assert states_text(busy) == "2 paused (load)"
    held = tally(RUNNING=1, QUEUED=3)
    held.queued_for = "WINDOW"
    assert states_text(held) == "1 running, 3 queued (window)"
    assert states_text(tally(RUNNING=1)) == "1 running"
    some = tally(preempted=3, RUNNING=1)
    some.noted["shed"] = 2
    some.noted["lost"] = 4
    assert states_text(some) == "1 running, 1 preempted, 2 given back by a full queue, 4 lost"
    assert states_text(tally(paused=9, RUNNING=1)) == "1 paused", (
        "news of pauses may be older than those of ends"
    )


@pytest.mark.parametrize("cells", [8, 24, 60])
def test_a_bar_has_its_width_and_a_cell_for_each_state(cells: int) -> None:
    pieces = bar(tally(paused=1, RUNNING=2, QUEUED=500, SUCCEEDED=100_000, FAILED=1), cells)
    text = "".join(piece for piece, _ in pieces)
    assert len(text) == cells
    assert set(text) == set("=x>pq")
    assert text[0] == "=" and text[-1] == "q"


def test_the_time_left_runs_down_until_the_next_end_and_grows_where_none_comes() -> None:
    pace = RemainingTime()
    waiting = tally(RUNNING=2, QUEUED=8)
    assert pace.left(waiting, 59) is None, "nothing is known yet"
    told = tally(RUNNING=2, QUEUED=6, SUCCEEDED=2)
    # two at a time, a minute each: eight are left, which take four minutes
    assert [pace.left(told, at) for at in (60, 90, 119)] == [240, 210, 181]
    assert [pace.left(told, at) for at in (400, 600)] == [600, 900], "they take longer than the first ones"
    last = tally(RUNNING=2, SUCCEEDED=7, FAILED=1)
    assert [pace.left(last, at) for at in (240, 270, 400)] == [60, 30, 0]
    assert pace.left(tally(SUCCEEDED=9, FAILED=1), 300) is None
    assert [elapsed_text(12.7, left) for left in (None, 0.4, 40.2, 200)] == [
        "12 s", "12 s", "12 s, about 40 s left", "12 s, about 3 min 20 s left",
    ]  # fmt: skip


def test_a_bar_without_room_or_tasks_is_none() -> None:
    assert bar(tally(RUNNING=1, QUEUED=1, SUCCEEDED=1), 2) == []
    assert bar(tally(), 10) == []


def test_where_a_job_that_was_just_submitted_is() -> None:
    report = ApplicationReport(
        "application_1_0001", "job", "ada", "default", "YARN", YarnApplicationState.ACCEPTED,
        FinalApplicationStatus.UNDEFINED,
    )  # fmt: skip
    assert where_text(report) == "ACCEPTED: `yopp explain application_1_0001` shows what it waits for"
    runs = replace(
        report, state=YarnApplicationState.RUNNING, am_node_id="h:1", containers_running=3, containers_queued=8,
        log_directory="/l/a",
    )  # fmt: skip
    assert (
        where_text(runs) == "RUNNING, its master on h:1; containers: 2 running, 8 queued; output under /l/a"
    )
    asks = replace(runs, am_node_id="", hosted=True, containers_queued=0, pending_containers=4)
    assert "containers: 3 running, 4 pending;" in where_text(asks)
    later = replace(report, postponed=True, diagnostics="It has not begun: it waits for 3 to succeed.")
    assert where_text(later) == "ACCEPTED: It has not begun: it waits for 3 to succeed."
    ended = replace(runs, state=YarnApplicationState.FINISHED, final_status=FinalApplicationStatus.SUCCEEDED)
    assert where_text(replace(ended, diagnostics="Diagnostics.")) == "FINISHED SUCCEEDED already"
    failed = {"final_status": FinalApplicationStatus.FAILED, "diagnostics": "it cannot\n  because: no room"}
    assert where_text(replace(ended, **failed)) == "FINISHED FAILED already: it cannot; because: no room"
    killed = {"state": YarnApplicationState.KILLED, "final_status": FinalApplicationStatus.KILLED}
    assert where_text(replace(runs, **killed, diagnostics="It can never begin.")) == (
        "KILLED already: It can never begin."
    )


def test_numbers_and_what_they_count() -> None:
    assert [number_of(number, "vcore") for number in (0, 1, 2)] == ["0 vcores", "1 vcore", "2 vcores"]
