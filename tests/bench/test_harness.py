"""The arithmetic of the programs under bench/: what a figure is made of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import machine
from bench.cluster import stamps
from bench.harness import Rounds, Sample, Table, program, quantile, shown
from bench.model import utilisation, waiting
from bench.native import tool
from bench.slot_gap import gap_ms
from bench.utilisation import measured

pytestmark = pytest.mark.pure


def test_a_quantile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, share) for share in (0.01, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile([7.0], 0.99) == 7.0
    assert quantile([2.0, 1.0], 0.5) == 1.0


def test_cases_take_turns_and_the_first_round_is_not_counted() -> None:
    order: list[str] = []

    def case(name: str, *rates: float) -> Sample:
        order.append(name)
        return Sample({"rate": rates[order.count(name) - 1]})

    rounds = Rounds({"a": lambda: case("a", 9, 10, 40, 20), "b": lambda: case("b", 9, 5, 10, 1)}, 3)
    assert order == ["a", "b"] * 4
    assert rounds.values("a", "rate") == [10, 40, 20]
    assert rounds.median("a", "rate") == 20
    # of ratios within a round, not the ratio of medians: both are slow when the machine is
    assert rounds.ratio("a", "rate", "b") == 4
    assert rounds.median("a", "nothing") is None
    assert rounds.notes() == []


def test_a_case_that_cannot_run_is_left_out_and_a_disturbed_one_is_marked() -> None:
    rounds = Rounds({"no": lambda: None, "loud": lambda: Sample({"rate": 1.0}, others=1.5)}, 2, warm=False)
    assert list(rounds.samples) == ["loud"]
    assert len(rounds.samples["loud"]) == 2
    assert rounds.label("loud") == "loud ~"
    assert "1.5 cores" in rounds.notes()[0]


@pytest.mark.parametrize(("ends_with", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interrupted_program_tells_what_it_has(
    ends_with: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    left = iter([1.0, 2.0, 3.0])

    def case() -> Sample:
        for value in left:
            return Sample({"rate": value})
        raise ends_with

    def tables(given: object) -> Iterator[Table]:
        rounds = Rounds({"a": case, "b": case}, 9, warm=False, shows=True)
        rows = [(name, rounds.median(name, "rate")) for name in rounds.samples]
        yield Table("How fast?", ("runner", "a second"), rows, rounds.notes(), rounds.interrupted)
        raise AssertionError("there is no second table")

    try:
        ended = program("", tables, argv=[])
    except SystemExit as error:
        ended = int(str(error.code))
    assert ended == code
    out, progress = capsys.readouterr()
    assert "| a      |     2.00 |" in out and "| b      |     2.00 |" in out and "after 3 runs" in out
    assert [line.partition(" (")[0] for line in progress.splitlines()] == [
        "round 1 of 9: a: rate 1.00", "round 1 of 9: b: rate 2.00", "round 2 of 9: a: rate 3.00",
    ]  # fmt: skip
    left = iter([1.0])
    with pytest.raises(type(ends_with)):
        Rounds({"a": case}, 9)


def test_a_table_is_markdown_whose_columns_stand_below_each_other() -> None:
    table = Table(
        "How fast?", ("runner", "a second"), [("floor", 1806.4), ("yopp", 12.34), ("none",)], ["so"]
    )
    assert str(table).splitlines() == [
        "How fast?",
        "",
        "| runner | a second |",
        "|--------|---------:|",
        "| floor  |    1,806 |",
        "| yopp   |     12.3 |",
        "| none   |          |",
        "",
        "So.",
    ]
    assert table.document()["rows"] == [
        {"runner": "floor", "a second": 1806.4}, {"runner": "yopp", "a second": 12.34}, {"runner": "none"},
    ]  # fmt: skip
    assert shown(None) == "-"
    assert shown(-0.123) == "-0.12"


def test_a_program_prints_documents_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        program("text", lambda given: [Table(f"short {given.short}", ("a",))], argv=["--json", "--short"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["question"] == "short True"


def test_the_gap_is_idle_time_of_slots() -> None:
    assert gap_ms(10.2, 200, 0.1) == pytest.approx(2.0)
    # three tasks on two slots take two turns: the slot without a task in the second is not idle for want of one
    assert gap_ms(0.2, 3, 0.1) == 0


def test_the_model_agrees_with_what_is_known_of_it() -> None:
    """The published figures of such slots: 3 s and 1 s, both heartbeats alike, constant lengths."""
    for seconds, slow, fast in (
        (1, 27.3, 50.0),
        (2, 43.7, 66.7),
        (5, 64.2, 83.3),
        (10, 77.2, 90.9),
        (50, 94.3, 98),
    ):
        assert 100 * utilisation(seconds, 3, 3) == pytest.approx(slow, abs=1)
        assert 100 * utilisation(seconds, 1, 1) == pytest.approx(fast, abs=1)
        assert waiting(seconds, 1, 1) == seconds / (seconds + 1)
    assert utilisation(5, 0, 0) == 1
    queues = [utilisation(0.1, 1, 1, queue) for queue in range(30)]
    assert queues == sorted(queues)
    assert queues[-1] == pytest.approx(1, abs=0.01)


def test_utilisation_counts_what_lies_within_the_time() -> None:
    second = 10**9
    lines = [(0, 2 * second), (2 * second, 4 * second), (3 * second, 9 * second)]
    assert measured(lines, slots=2, begin=1.0, end=5.0) == (1 + 2 + 2) / 8
    assert measured([], slots=1, begin=0.0, end=1.0) == 0


def test_what_a_process_used_is_read_behind_its_name() -> None:
    fields = " ".join(["S", "42", *["0"] * 9, "100", "50", "30", "20", *["0"] * 10])
    found = machine.parse_stat(f"7 (a ) b) {fields}")
    assert found == (42, 150 / machine.TICK, 50 / machine.TICK)


def test_a_tree_is_the_roots_and_all_below_them() -> None:
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 9}
    assert machine.tree(parents, [2]) == {2, 3}
    assert machine.tree(parents, [1, 3]) == {1, 2, 3, 4}
    assert machine.tree(parents, [77]) == set()


def test_cpu_of_children_counts_though_they_are_gone() -> None:
    with machine.Meter() as meter:
        burn = "import time\nwhile time.process_time() < 0.3: pass"
        subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    assert 0.25 < meter.cpu < 3
    assert machine.pss_mb([os.getpid()]) > 1


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "python"])
def test_the_floor_runs_so_many_tasks_and_no_more_at_once(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setenv("PATH", "")
    elif shutil.which("cc") is None:
        pytest.skip("NOT TESTED: no C compiler")
    tool.cache_clear()
    file = tmp_path / "stamps"
    try:
        words = [*tool("floor"), "5", "2", *tool("task"), str(file), "0.05"]
        assert (words[0] != sys.executable) is compiled
        assert subprocess.run(words, check=False).returncode == 0
        assert subprocess.run([*tool("floor"), "2", "2", "/bin/false"], check=False).returncode == 1
    finally:
        tool.cache_clear()
    seen = sorted((first, last) for first, last in stamps(file))
    assert len(seen) == 5
    assert all(last - first >= 50_000_000 for first, last in seen)
    assert seen[-1][1] < time.monotonic_ns()
    for first, _ in seen:
        assert sum(begun <= first < ended for begun, ended in seen) <= 2


def test_a_line_that_is_not_complete_yet_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "stamps"
    assert stamps(file) == []
    file.write_text("12 34\n56 7")
    assert stamps(file) == [[12, 34]]
