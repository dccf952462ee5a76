"""Copies of a daemon made by fork: they answer or end, and have nothing of their parent but its memory."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from yarnopp_cli.daemons import copies
from yarnopp_cli.daemons.copies import ask_copy


def asked(*works: Callable[[], Any], kind: Any = dict[str, Any]) -> list[tuple[Any, str]]:
    """What copies of this process tell of each of these."""

    async def ask() -> list[tuple[Any, str]]:
        told: list[tuple[Any, str]] = []
        at_work: set[asyncio.Task[None]] = set()
        for work in works:
            ask_copy(at_work, work, kind, lambda found, failed: told.append((found, failed)))
        await asyncio.gather(*at_work)
        return told

    return asyncio.run(ask())


def descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")


def children() -> str:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read()


def test_a_copy_has_the_memory_of_its_parent_and_no_descriptor_or_handler_of_it() -> None:
    shared = {"value": list(range(1000))}
    before, known = descriptors(), children()

    def work() -> dict[str, Any]:
        shared["value"].append(7)
        handlers = [str(signal.getsignal(one)) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]
        mask = [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
        return {
            "pid": os.getpid(),
            "last": shared["value"][-1],
            "open": len(descriptors()),
            "of": handlers,
            "mask": mask,
        }

    old = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        ((found, failed),) = asked(work)
    finally:
        signal.signal(signal.SIGTERM, old)
    assert not failed and found["pid"] != os.getpid() and found["last"] == 7 and len(shared["value"]) == 1000
    assert found["open"] == 2, "the pipe, and the directory that it reads"
    assert set(found["of"]) == {str(signal.SIG_DFL)} and found["mask"] == []
    assert len(descriptors()) == len(before) and children() == known


def test_what_takes_too_long_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    known = children()
    monkeypatch.setattr(copies, "SECONDS", 1)

    def work() -> dict[str, Any]:
        while True:
            pass

    ((found, failed),) = asked(work)
    assert found is None and "has not answered within 1 s" in failed
    assert children() == known


def test_a_copy_that_fails_is_told_and_says_nothing_itself(capfd: pytest.CaptureFixture[str]) -> None:
    ((found, failed),) = asked(lambda: 1 // 0)
    assert found is None and failed and capfd.readouterr() == ("", "")


def test_where_no_process_can_be_made_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()

    def full() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    ((found, failed),) = asked(dict)
    assert found is None and "temporarily unavailable" in failed and len(descriptors()) == len(before)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_only_so_many_copies_are_at_work() -> None:
    told = asked(*[lambda: {"pid": os.getpid()}] * (copies.MOST_COPIES + 2))
    assert [bool(failed) for _, failed in told].count(True) == 2
    assert f"{copies.MOST_COPIES} copies of this daemon are at work" in told[0][1]
