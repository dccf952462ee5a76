"""The common parts of all screens: the app that takes the pictures, the summary above, the footer below."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input

from ..errors import EXIT_BUG, YoppError
from ..explain.snapshot import Picture
from ..views.columns import Cell
from ..views.text import harmless, short_span
from ..views.top.sampling import History
from .dialogs import Confirm, TextDialog
from .feed import EventFeed
from .lines import Summary, TitleLine
from .source import Source, in_thread

PATIENCE = 3.0
"""Seconds without an answer after which the data is called stale."""
_SHARE = 0.1
"""The largest share of one core that taking pictures may cost: the interval grows if necessary."""
_SOONEST = 0.4
"""The least seconds between two pictures when events come faster than the interval."""
_SHORT, _LOW, _NARROW = 10, 16, 72

ALWAYS: list[BindingType] = [
    Binding("escape", "back", "Back", show=False),
    Binding("y", "copy", "Copy id", show=False),
]
"""Keys of every screen. Each screen lists all of its keys itself, so that the footer has them in the order of
use.
"""
STEERING = frozenset({"steer", "kill", "drain"})
"""Actions that change the cluster: disabled with ``--readonly``."""


def failure(error: Exception) -> str:
    """Why a call failed, in one line."""
    return error.brief if isinstance(error, YoppError) else str(error)


class TopApp(App[None]):
    """Takes a picture of the cluster every interval, and has the front screen show it. ``readonly`` disables
    all keys that change anything.
    """

    def __init__(self, source: Source, *, readonly: bool = False, interval: float = 1.0) -> None:
        super().__init__()
        self.source = source
        self.readonly = readonly
        self.interval = interval
        self.picture: Picture | None = None
        """The newest picture."""
        self.shown: Picture | None = None
        """The picture shown: older than the newest while the display is frozen."""
        self.history = History()
        self.finished = False
        """Whether pictures include ended containers."""
        self.frozen = False
        self.lost_since: float | None = None
        self.feed = EventFeed(source, self._happened)
        self._pause = interval
        self._soonest = 0.0
        self._blurred = False
        self._wake = asyncio.Event()

    def panic(self, *renderables: Any) -> None:
        """Textual's: a thread failed. Its message is printed at the end, and the exit code is not 0."""
        self._return_code = self._return_code or EXIT_BUG
        super().panic(*renderables)

    def _fatal_error(self) -> None:
        """Textual's: end after an unhandled exception. ``top`` raises it again: it is reported as in other commands."""
        self._close_messages_no_wait()

    # ---- pictures

    def begin(self) -> None:
        """Begin to take pictures."""
        self.run_worker(self._take_pictures(), group="pictures", exclusive=True)

    def wake(self) -> None:
        """Take the next picture now."""
        self._wake.set()

    async def _take_pictures(self) -> None:
        while True:
            self._wake.clear()
            cost = 0.0
            try:
                picture, cost = await self._take()
            except (YoppError, OSError) as error:
                self._lost(error.message if isinstance(error, YoppError) else str(error))
            else:
                self._took(picture)
            self._pause = max(self.interval * (2 if self._blurred else 1), cost / _SHARE)
            self._soonest = time.monotonic() + max(_SOONEST, cost / _SHARE)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause)

    async def _take(self) -> tuple[Picture, float]:
        """One picture, and the CPU seconds that it cost. If it takes longer than PATIENCE, the cluster is
        shown as lost until it comes.
        """
        source, finished = self.source, self.finished

        def take() -> tuple[Picture, float]:
            begin = time.thread_time()
            picture = source.picture(finished=finished)
            return picture, time.thread_time() - begin

        call = in_thread(take)
        done, _ = await asyncio.wait({call}, timeout=PATIENCE)
        if not done:
            self._lost("the cluster does not answer")
        return await call

    def _took(self, picture: Picture) -> None:
        back = self.lost_since is not None
        if back or self.picture is None:
            self.run_worker(self._remember(picture), group="traces", exclusive=True)
        self.lost_since = None
        self.picture = picture
        self.history.add(picture)
        if not self.frozen:
            self.shown = picture
        if back:
            self.notify("the cluster answers again", timeout=3)
        self.update()

    async def _remember(self, picture: Picture) -> None:
        """Fetch the measurements before the first picture. If that fails, the sparklines begin now."""
        with contextlib.suppress(YoppError, OSError):
            containers, machine = await in_thread(partial(self.source.traces, picture))
            self.history.remember(containers, machine, picture.host.cores)
            self.update()

    def _happened(self) -> None:
        """Take a picture at once, unless the last one is too recent."""
        if time.monotonic() >= self._soonest and not self._blurred:
            self.wake()
        elif not self.frozen and (front := self._front()) is not None and front.SHOWS_EVENTS:
            front.update()

    def _lost(self, why: str) -> None:
        if self.lost_since is None:
            self.lost_since = time.time()
            self.notify("the data shown is stale; reconnecting", title=why, severity="error")
        self.update()

    def _front(self) -> TopScreen | None:
        """The uppermost of our screens; None when the app has closed its screens, which its workers outlive."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, TopScreen)), None)

    def update(self) -> None:
        """Refresh the front screen."""
        if (front := self._front()) is not None:
            front.update()

    def status(self) -> list[Cell]:
        """The right end of the first line: the interval, and whether the picture is live, frozen or lost."""
        cells = [Cell("READONLY", "dim")] if self.readonly else []
        if self.lost_since is not None:
            since = time.strftime("%H:%M:%S", time.localtime(self.lost_since))
            return [*cells, Cell(f"LOST since {since}", "bad")]
        cells.append(Cell(f"{self._pause:.1f}".removesuffix(".0") + "s", "dim"))
        if self.picture is None or self.shown is None:
            return [*cells, Cell("FROZEN ", "warn") if self.frozen else Cell("…", "dim")]
        if self.frozen:
            age = short_span(self.picture.taken_at_ms - self.shown.taken_at_ms)
            return [*cells, Cell(f"FROZEN {age}", "warn")]
        return [*cells, Cell("LIVE", "good")]

    def on_app_blur(self) -> None:
        """Textual's: the window lost the focus; pictures are taken half as often."""
        self._blurred = True

    def on_app_focus(self) -> None:
        """Textual's: the window has the focus again."""
        self._blurred = False
        self.wake()

    # ---- actions

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Textual's: title and message in one line, never with markup."""
        text = harmless(f"{title}: {message}" if title else message)
        super().notify(text, severity=severity, timeout=timeout, markup=False)

    def perform(self, what: str, call: Callable[[], str]) -> None:
        """Make a call that changes something, report the result, and take a picture at once."""
        self.run_worker(self._perform(what, call), group="calls")

    async def _perform(self, what: str, call: Callable[[], str]) -> None:
        try:
            self.notify(await in_thread(call), title=what, timeout=4)
        except (YoppError, OSError) as error:
            self.notify(failure(error), title=f"cannot {what}", severity="error", timeout=8)
        self.wake()

    def explain(self, identifier: str) -> None:
        """Show why a container, an application or a node waits."""
        self.run_worker(self._explain(identifier), group="explain", exclusive=True)

    async def _explain(self, identifier: str) -> None:
        try:
            lines = await in_thread(partial(self.source.explain, identifier))
        except (YoppError, OSError) as error:
            self.notify(failure(error), severity="error")
            return
        self.push_screen(TextDialog(identifier, lines))


class TopScreen(Screen[None]):
    """A screen that shows the app's picture, updated while the screen is in front."""

    SHOWS_EVENTS: ClassVar[bool] = False
    """Whether it shows the events themselves, and must be updated when some arrive."""

    @property
    def top(self) -> TopApp:
        """The app."""
        return cast(TopApp, self.app)

    def compose(self) -> ComposeResult:
        """Textual's."""
        yield Summary()
        yield TitleLine()
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> ComposeResult:
        """The widgets between the summary and the footer."""
        yield Widget()

    def on_screen_resume(self) -> None:
        """Textual's: show what has changed meanwhile."""
        self.update()

    def on_resize(self) -> None:
        """Textual's: a low screen has no second line of summary, and no note."""
        self.query_one(Summary).set_class(self.size.height < _SHORT, "-short")
        self.set_class(self.size.width < _NARROW, "-narrow")
        self.set_class(self.size.height < _SHORT, "-low")
        self.set_class(self.size.height < _LOW, "-noteless")
        self.update()  # column widths depend on the screen's

    def update(self) -> None:
        """Show the app's picture, and whether it is live."""
        if not self.is_mounted or not self.query(Summary):
            return
        top = self.top
        stale = top.lost_since is not None
        self.set_class(stale, "-stale")
        self.query_one(Summary).show(top.source.where, top.shown, top.history, top.status(), stale=stale)
        if top.shown is not None:
            self.show(top.shown)

    def show(self, picture: Picture) -> None:
        """Show this picture."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's: in an input line the key that opens it is a character; with --readonly nothing can be
        changed.
        """
        if action == "type" and isinstance(self.focused, Input):
            return False
        if action in STEERING and self.top.readonly:
            return False
        return super().check_action(action, parameters)

    def identity(self) -> str:
        """The id of the selected row or container, for the clipboard."""
        return ""

    def action_copy(self) -> None:
        """Copy the id into the terminal's clipboard (OSC 52)."""
        if identity := self.identity():
            self.app.copy_to_clipboard(identity)
            self.notify(identity, title="copied", timeout=3)

    def action_explain(self) -> None:
        """Show the state of the selected row or container, and why it waits."""
        if identity := self.identity():
            self.top.explain(identity)

    def refuse(self, action: str, why: str) -> None:
        """Notify the user why an action is not possible."""
        self.notify(why, title=f"cannot {action}", severity="warning")

    def confirm(self, text: str, call: Callable[[], None], *, danger: bool = True) -> None:
        """Ask, and make the call if the answer is yes."""
        self.app.push_screen(Confirm(text, danger=danger), lambda yes: call() if yes else None)

    def action_back(self) -> None:
        """Go back to the screen before this one."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()


class TypingScreen(TopScreen):
    """A screen with an input line for a search text above the footer, shown on request."""

    TYPE: ClassVar[str] = ""
    """The placeholder of the input line."""

    def content(self) -> ComposeResult:
        """The widgets above the input line; the first one has the focus."""
        yield Widget()

    def body(self) -> ComposeResult:
        """The content, and the input line."""
        yield from self.content()
        yield Input(placeholder=self.TYPE, id="filter", compact=True)

    def on_mount(self) -> None:
        """Textual's: give the content the focus."""
        self.leave_line()

    @property
    def line(self) -> Input:
        """The input line."""
        return self.query_one("#filter", Input)

    def leave_line(self, *, keep: bool = False) -> None:
        """Give the focus back to the content; ``keep`` leaves a line that has a text visible."""
        self.line.display = keep and bool(self.line.value)
        self.set_focus(next(widget for widget in self.query("*") if widget.can_focus))

    def action_type(self) -> None:
        """Show the input line."""
        self.line.display = True
        self.set_focus(self.line)


def typing(title: str) -> Binding:
    """The key that opens the input line. It has priority, so that it is handled before the next key: ``/``
    and words may be pasted together.
    """
    return Binding("slash", "type", title, key_display="/", priority=True)
