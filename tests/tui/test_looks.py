"""What pictures of the screens have shown to be ugly or untrue, so that it stays away."""

from __future__ import annotations

import dataclasses
import re

import pytest

from yarnopp_cli.records.reports import JobSummary
from yarnopp_cli.views.applications import summary_text
from yarnopp_cli.views.containers import fields
from yarnopp_cli.views.text import short_span, shorten, vcores, width
from yarnopp_cli.views.top.tables import application_columns, counts_cell

from .driving import Driver, drive
from .fake import NOW, FakeSource, application, container

LONG = "container_1765400000000_0001_01_000040"


@pytest.mark.parametrize("size", [(80, 24), (100, 24), (120, 30)])
def test_no_figure_is_cut_however_far_one_scrolls(size: tuple[int, int]) -> None:
    """Half of ``12288`` would be ``288``, or ``12``: another figure."""

    async def body(driver: Driver) -> None:
        await driver.press("1", "w")
        figures = {cell.strip() for cell in _cells(driver)}
        for _ in range(25):
            await driver.press("right")
            for line in driver.text.splitlines():
                if "host1:4545" in line[:20] and line[2:].startswith("host1"):
                    for found in re.findall(r"(?<=\s)\d[\d.]*(?: [MG]B)?(?=\s|$)", line):
                        assert found in figures, (found, line)

    drive(body, size=size)


def _cells(driver: Driver) -> set[str]:
    table = driver.app.screen.query_one("#table")
    return {column.cell(row).text for row in table.rows for column in table.columns}  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(80, 24), (120, 30)])
def test_the_row_of_an_event_is_said_in_full_below(size: tuple[int, int]) -> None:
    async def body(driver: Driver) -> None:
        await driver.press("5")
        ended = "ContainerPreempted ran 4.0 s exit -102 PREEMPTED on host1:45454"
        told = f"{ended} (room for container_…_000041) {LONG} 2025-12-10"

        def below() -> str:
            return " ".join("\n".join(driver.text.splitlines()[-3:-1]).split())

        await driver.until(lambda: below() == told, "the row in full")

    drive(body, size=size)


def test_what_is_explained_goes_on_under_its_first_word() -> None:
    class Wordy(FakeSource):
        def explain(self, identifier: str) -> list[str]:
            return ["It waits.", "  " + "a reason that takes more than one line, " * 4]

    async def body(driver: Driver) -> None:
        await driver.press("2", "e")
        await driver.sees("It waits.")
        lines = driver.text.splitlines()
        first = next(place for place, line in enumerate(lines) if "It waits." in line)
        start = lines[first].index("It waits.")
        for line in lines[first + 1 : first + 3]:
            assert line[start : start + 2] == "  " and line[start + 2].isalpha(), line

    drive(body, source=Wordy(), size=(80, 24))


def test_a_cut_text_ends_in_one_ellipsis() -> None:
    assert shorten("room for container_…_000041", 21) == "room for container_…"
    assert width(shorten("abcdef", 4)) == 4


def test_names_of_applications_have_the_room_that_marks_leave() -> None:
    rows = [application(1, name="nightly-index"), application(2)]
    columns = {column.key: column for column in application_columns(NOW, rows, 80)}
    assert columns["name"].width >= len("nightly-index") and columns["bar"].width >= len("Containers")
    assert counts_cell(rows[0], columns["counts"].width).text == "█7 ▒1 ░4 ·12 ✗1"
    assert sum(column.width + 1 for column in columns.values()) + 2 <= 80


def test_a_span_is_never_told_as_less_than_a_shorter_one() -> None:
    """61 s and 119 s were both ``1m`` below ``99s``."""
    told = [short_span(1000 * seconds) for seconds in (99, 100, 119, 120, 7199, 7200)]
    assert told == ["99s", "100s", "119s", "2m", "119m", "2h"]


def test_one_vcore_is_one_and_what_is_not_throttled_says_nothing_of_it() -> None:
    assert [vcores(number) for number in (0, 1, 2)] == ["0 vcores", "1 vcore", "2 vcores"]
    one = container(1, 1)
    still = dataclasses.replace(one, usage=dataclasses.replace(one.usage, throttled_seconds=0.0))
    assert dict(fields(one, NOW))["CPU-Used"] == "1.50 s, throttled for 250 ms"
    assert dict(fields(still, NOW))["CPU-Used"] == "1.50 s"
    assert dict(fields(one, NOW))["Resource"] == "512 MB, 1 vcore"


def test_a_jobs_summary_says_of_what_it_counts() -> None:
    told = summary_text(
        JobSummary(completed=2, opportunistic=2, queued=1, wait_ms_total=618, wait_ms_max=618)
    )
    assert told == (
        "2 opportunistic, 0 guaranteed; 0 of them waited to be granted, 1 of them queued, "
        "0 preempted, 0 given back by a full queue, 0 promoted; "
        "waited 309 ms on average, 618 ms at most, from request to start"
    )
