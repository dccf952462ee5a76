"""What repeats with each container is logged once a minute."""

from __future__ import annotations

import logging

import pytest

from executor.linux.watching import repeats


def test_each_error_is_logged_once_a_minute_and_counted_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 59.0, 59.0, 60.0, 120.0])
    log = repeats.Repeats(logging.getLogger("test"), lambda: next(times))
    for text in ("full", "full", "full", "broken"):
        log.error(text)
    assert [one.getMessage() for one in caplog.records] == ["full", "broken"]
    log.error("full")
    log.error("full")
    last = [one.getMessage() for one in caplog.records[2:]]
    assert last == ["full\n  and 2 times in the 60 s before", "full"]


def test_what_it_remembers_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    log = repeats.Repeats(logging.getLogger("test"), lambda: 0.0)
    for number in range(repeats.MOST + 1):
        log.error(f"{number}")
    log.error("0")
    log.error(f"{repeats.MOST}")
    assert len(caplog.records) == repeats.MOST + 2, "the oldest one alone is forgotten"
