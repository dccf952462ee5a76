"""The printer: colours by the rules, widths by the terminal, and nothing cut where no person reads."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from executor.causes import Cause, CauseKind
from executor.records import (
    ContainerState,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
)
from yarnopp_cli.cli.frame import output
from yarnopp_cli.cli.frame.options import BadValueError, duration, size_mb
from yarnopp_cli.cli.frame.output import OutputClosedError, Printer
from yarnopp_cli.errors import UsageError, YoppError
from yarnopp_cli.records.reports import (
    ApplicationReport,
    ContainerReport,
    FinalApplicationStatus,
    NodeReport,
    NodeState,
    YarnApplicationState,
)
from yarnopp_cli.views import applications, containers, nodes
from yarnopp_cli.views.columns import NUMBER, Column, default_columns

LONG = "application_1765400000000_0001"
COLUMNS: tuple[Column[tuple[str, str, int]], ...] = (
    Column("id", "ID", lambda row: row[0]),
    Column("name", "NAME", lambda row: row[1], flexible=True),
    Column("count", "COUNT", lambda row: row[2], kind=NUMBER),
)


class Terminal(io.TextIOWrapper):
    """A stdout that says it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "YOPP_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return Terminal()


def listing(printer: Printer, rows: list[tuple[str, str, int]]) -> None:
    printer.listing(
        rows, COLUMNS, documents=lambda all_: {"rows": [{"id": row[0]} for row in all_]},
        document=lambda row: {"id": row[0]}, identity=lambda row: row[0],
    )  # fmt: skip


def test_a_pipe_gets_everything_however_wide(capsys: pytest.CaptureFixture[str]) -> None:
    listing(Printer(), [(LONG, "n" * 300, 1), (LONG, "m", 20_000)])
    lines = capsys.readouterr().out.splitlines()
    assert LONG in lines[1]
    assert "n" * 300 in lines[1]
    assert "\x1b" not in "".join(lines)
    assert lines[1].endswith("    1")
    assert lines[2].endswith("20000")


def test_a_narrow_terminal_shortens_names_and_never_ids(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", terminal)
    listing(Printer(color="never"), [(LONG, "n" * 300, 1)])
    header, row = terminal.text().splitlines()
    assert LONG in row
    assert "…" in row
    assert len(row) == 60
    assert header.startswith("ID ")


@pytest.mark.parametrize(
    ("mode", "environment", "tty", "colored"),
    [
        (None, {}, True, True),
        (None, {}, False, False),
        (None, {"NO_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": ""}, True, True),
        (None, {"CLICOLOR": "0"}, True, False),
        (None, {"CLICOLOR_FORCE": "1"}, False, True),
        (None, {"CLICOLOR_FORCE": "0"}, False, False),
        (None, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False, False),
        (None, {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"CLICOLOR_FORCE": "1"}, True, False),
        ("auto", {"NO_COLOR": "1"}, True, True),
        ("auto", {}, False, False),
    ],
)
def test_colours(
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
    mode: str | None,
    environment: dict[str, str],
    tty: bool,
    colored: bool,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr(terminal, "isatty", lambda: tty)
    assert Printer(color=mode).color_out is colored


def test_states_are_coloured_words_and_widths_stay_right(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", terminal)
    listing(Printer(color="always"), [("RUNNING", "x", 1), ("KILLED", "y", 2)])
    lines = terminal.text().splitlines()
    assert lines[1].startswith("\x1b[32mRUNNING\x1b[0m  x")
    assert lines[2].startswith("\x1b[31mKILLED\x1b[0m   y")


def test_json_on_a_terminal_is_the_same_value_indented(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", terminal)
    Printer("json").document({"a": ["ü", "\x9b\u202e\ud800"]})
    text = terminal.text()
    assert text.count("\n") > 2
    assert json.loads(text) == {"a": ["ü", "\x9b\u202e\ud800"]}
    assert "\x9b" not in text
    assert "ü" in text


def test_every_form_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a", "b\tc\n", 1)]
    expected = {
        "json": '{"rows":[{"id":"a"}]}\n',
        "jsonl": '{"id":"a"}\n',
        "name": "a\n",
        "tsv": "id\tname\tcount\na\tb\\tc\\n\t1\n",
    }
    for form, text in expected.items():
        listing(Printer(form), rows)
        assert capsys.readouterr().out == text
    listing(Printer(quiet=True), rows)
    assert capsys.readouterr().out == "a\n"


def test_wide_characters_keep_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    listing(Printer(), [("x", "日本", 1), ("y", "abcd", 2)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].replace("日本", "abcd") == lines[2].replace("y", "x").replace("2", "1")


def test_the_choice_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YOPP_OUTPUT", raising=False)
    assert Printer.of().form == "table"
    assert Printer.of(json=True).form == "json"
    assert Printer.of(json=True, output="jsonl").form == "jsonl"
    monkeypatch.setenv("YOPP_OUTPUT", "tsv")
    assert Printer.of().form == "tsv"
    assert Printer.of(output="wide").form == "wide"
    with pytest.raises(UsageError):
        Printer.of(json=True, output="wide")


def test_questions_need_a_terminal_or_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printer = Printer()
    assert printer.confirm("Sure?", yes=True)
    with pytest.raises(UsageError, match="Sure"):
        printer.confirm("Sure?", yes=False)
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    for answer, meant in (("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert printer.confirm("Sure?", yes=False) is meant
    assert "[y/N]" in capsys.readouterr().err

    class Interrupted(io.StringIO):
        def readline(self, *_: object) -> str:  # type: ignore[override]
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        printer.confirm("Sure?", yes=False)
    assert capsys.readouterr().err.endswith("[y/N] \n")


def test_a_stdout_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    monkeypatch.setattr("sys.stdout", stream)
    with pytest.raises(OutputClosedError) as caught:
        Printer().text("x")
    assert caught.value.broken_pipe
    output.abandon(sys.stdout)
    stream.close()


def test_errors_have_three_lines_and_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.reset(json_wanted=False)
    output.error(YoppError("bad\x1b[31m", because="a\nb", hint="c"))
    assert capsys.readouterr().err == "error: bad\\e[31m\n  because: a\\nb\n  hint: c\n"
    output.error(YoppError("only this"))
    assert capsys.readouterr().err == "error: only this\n"
    output.error(YoppError("a\u00a0b\ufeff\u200b \u00fc", because="\u2028", hint="\x1b\U000e0041"))
    assert capsys.readouterr().err == (
        "error: a\\xa0b\\ufeff\\u200b \u00fc\n  because: \\u2028\n  hint: \\e\\U000e0041\n"
    )
    Printer().warn("a\u00a0b\u3164\ufe0f")
    assert capsys.readouterr().err == "warning: a\\xa0b\\u3164\\ufe0f\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("2h", 7200), ("1h30m", 5400), ("250ms", 0.25), ("1.5", 1.5), ("0", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "5x", "-1", "1 h", "inf", "nan", "1e3", "9" * 400, "m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadValueError):
        duration(text)


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [
        ("512", 512),
        ("512M", 512),
        ("2G", 2048),
        ("2GiB", 2048),
        ("1.5g", 1536),
        ("1T", 1 << 20),
        ("2048k", 2),
    ],
)
def test_sizes(text: str, megabytes: int) -> None:
    assert size_mb(text) == megabytes


@pytest.mark.parametrize("text", ["", "-1", "x", "1.3M", "1X", "9" * 400, "10 M B"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadValueError):
        size_mb(text)


def test_a_narrow_terminal_leaves_out_what_can_be_spared_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (COLUMNS[0], replace(COLUMNS[1], spare=2), replace(COLUMNS[2], spare=1))

    def titles(cells: int, **how: Any) -> list[str]:
        stream = Terminal()
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setenv("COLUMNS", str(cells))
        how = {"columns": columns, "documents": list, "document": dict, "identity": str} | how
        Printer(color="never", form=how.pop("form", "table")).listing([(LONG, "name", 1)], **how)
        return stream.text().split("\n")[0].split()

    assert titles(45) == ["ID", "NAME", "COUNT"]
    assert capsys.readouterr().err == ""
    assert titles(40) == ["ID", "NAME"]
    assert capsys.readouterr().err == "hidden columns: COUNT (-o wide shows all)\n"
    assert titles(35) == titles(10) == ["ID"], "ids stay whole"
    silent = (COLUMNS[0], replace(COLUMNS[1], spare=1), replace(COLUMNS[2], value=lambda one: 0, spare=2))
    assert titles(40, columns=silent) == ["ID", "NAME"], "what says nothing goes first"
    assert titles(10, whole=True) == titles(10, form="wide") == ["ID", "NAME", "COUNT"]


def test_eighty_columns_show_which_nodes_have_paused_containers_and_which_task_a_container_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the totals of a node, and before where a container is and how long it has run."""
    status = OpportunisticContainersStatus(running=1, paused=2, lent_vcores=-1, queued=1, memory_used=1024)
    node = NodeReport(
        "workstation7:45454", NodeState.RUNNING, "", total=Resource(128 << 10, 16), num_containers=1,
        used=Resource(4096, 8), opportunistic=status,
    )  # fmt: skip
    container = ContainerReport(
        "container_1795333996006_1001_01_000002", "application_1795333996006_1001", "workstation:45454",
        ExecutionType.OPPORTUNISTIC, Resource(512, 1), state=ContainerState.PAUSED, command=("sleep", "1" * 40),
        cause=Cause(CauseKind.MAKE_ROOM, for_container="c"), started_at_ms=1000, task=1_000_000, position=1000,
    )  # fmt: skip
    for row, columns, needed in (
        (node, nodes.COLUMNS, "PAUSED"),
        (container, containers.columns(10**9), "TASK"),
    ):
        stream = Terminal()
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setenv("COLUMNS", "80")
        shown = default_columns(columns, wide=False)
        Printer(color="never").listing([row], shown, documents=list, document=dict, identity=str)
        assert needed in stream.text().splitlines()[0].split()


@pytest.mark.parametrize("cells", [80, 100, 120, 200])
def test_containers_and_applications_fit_a_terminal(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    """Ids, types and states, each row on one line; the more room, the more columns. Ids are whole where all columns
    fit, and else as short as they can be typed, so that fewer columns are left out."""
    container = ContainerReport(
        "container_1795333996006_0001_01_000002", "application_1795333996006_0001", "workstation:45454",
        ExecutionType.OPPORTUNISTIC, Resource(512, 1), state=ContainerState.RUNNING, command=("sleep", "1" * 40),
        started_at_ms=1000,
    )  # fmt: skip
    application = ApplicationReport(
        "application_1795333996006_0001", "sleep " + "1" * 40, "me", "default", "MAPREDUCE",
        YarnApplicationState.RUNNING, FinalApplicationStatus.UNDEFINED, containers_running=20, containers_queued=100,
    )  # fmt: skip
    preempted = replace(
        container, state=ContainerState.DONE, exit_status=-108, finished_at_ms=8000, position=0, task=12
    )
    for row, columns in (
        (container, containers.columns(9000)),
        (preempted, containers.columns(9000)),
        (application, applications.columns(9000)),
    ):
        stream = Terminal()
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setenv("COLUMNS", str(cells))
        shown = default_columns(columns, wide=False)
        Printer(color="never").listing([row], shown, documents=list, document=dict, identity=str)
        title, line = stream.text().splitlines()
        assert max(len(title), len(line)) <= cells
        fits = cells >= (120 if row is application else 200)
        whole, typed = (row.application_id, "1") if row is application else (container.container_id, "1.c2")
        assert line.split()[0] == (whole if fits else typed)
        assert row is application or {"NODE", "TIME"} <= set(title.split())
        assert row is not preempted or {"EXIT", "TASK"} <= set(title.split())
        assert ("KILLED" if row is preempted else "RUNNING") in line
        assert cells < 200 or title.split() == " ".join(column.title for column in shown).split()
