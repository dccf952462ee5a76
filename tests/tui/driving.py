"""Driving the app in a test: press, wait for a condition, read the screen as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import textual.app
import textual.pilot
from textual.command import CommandPalette
from textual.pilot import Pilot

from yarnopp_cli.tui.app import YoppTop
from yarnopp_cli.tui.table import LiveTable

from .fake import FakeSource

NEVER = 3600.0
"""An interval in which no picture comes by itself."""

_PASSES = 6


async def _settle(*_: float) -> None:
    """Let the loop run round a few times. Textual's own way is to sleep until the process is idle: a fifth of a
    second a key, and a whole one on a busy machine.
    """
    for _ in range(_PASSES):
        await asyncio.sleep(0)


textual.app.wait_for_idle = textual.pilot.wait_for_idle = _settle  # type: ignore[assignment, attr-defined]


def text_of(app: YoppTop) -> str:
    """The screen as lines, blanks at their ends left out."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def go_to(table: LiveTable, identity: str) -> bool:
    """Put the cursor on the row of that id; False if it is not shown."""
    shown = [table._identity(row) for row in table.rows]
    if identity in shown:
        table._put_cursor(shown.index(identity))
    return identity in shown


class Driver:
    """A running app, its source, and what a person would do."""

    def __init__(self, app: YoppTop, source: FakeSource, pilot: Pilot[None]) -> None:
        self.app, self.source, self.pilot = app, source, pilot

    @property
    def text(self) -> str:
        return text_of(self.app)

    async def until(self, condition: Callable[[], Any], what: str = "", seconds: float = 10.0) -> None:
        """Wait until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{self.text}"
            await self.pilot.pause(0.01)

    async def sees(self, *words: str) -> None:
        """Wait until all the words are on the screen."""
        await self.until(lambda: all(word in self.text for word in words), f"{words} on the screen")

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Wait until what has been pressed has been dealt with, also what came of it."""
        for _ in range(3):
            await self.pilot.pause()

    async def type(self, text: str) -> None:
        for character in text:
            await self.pilot.press("space" if character == " " else character)
        await self.settle()

    async def picture(self) -> None:
        """Have the next picture taken, and wait for it."""
        taken = self.source.taken
        self.app.wake()
        # A thread takes it; the app has it once it waits for the next one to be wanted.
        await self.until(lambda: self.source.taken > taken and self.app._wake._waiters, "another picture")
        await self.pilot.pause(0.02)
        await self.pilot.pause()

    async def searched(self) -> None:
        """Wait until the palette has found all that it finds for what was typed."""
        group = CommandPalette._GATHER_COMMANDS_GROUP
        await self.until(
            lambda: all(one.is_finished for one in self.app.workers if one.group == group), "the search"
        )
        await self.settle()

    async def acts(self, *expected: tuple[str, ...]) -> None:
        """Wait until exactly these acts have been done."""
        await self.until(lambda: len(self.source.acts) >= len(expected), f"{len(expected)} acts")
        await self.pilot.pause()
        assert sorted(self.source.acts) == sorted(expected)


def drive(
    body: Callable[[Driver], Awaitable[None]],
    *,
    source: FakeSource | None = None,
    size: tuple[int, int] = (80, 24),
    told: bool = False,
    **options: Any,
) -> None:
    """Run the app in a terminal of that size and ``body`` with it, once the first picture is there. What was done is
    seen there if ``told``.
    """
    fake = source or FakeSource()

    async def main() -> None:
        app = YoppTop(fake, interval=options.pop("interval", NEVER), **options)
        async with app.run_test(size=size, notifications=told) as pilot:
            driver = Driver(app, fake, pilot)
            await driver.until(lambda: app.picture is not None or fake.lost or fake.hold, "the first picture")
            await pilot.pause()
            await body(driver)

    try:
        asyncio.run(main())
    finally:
        fake.close()
