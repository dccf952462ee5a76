"""``yopp top``: the app. It takes a picture of the cluster every interval and shows it to the screen in front."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.system_commands import SystemCommandsProvider
from textual.theme import BUILTIN_THEMES

from ..errors import YoppError
from ..explain.snapshot import Picture
from ..records.history import HistoryEvent
from ..records.reports import ContainerReport
from ..views.columns import Cell
from ..views.text import harmless, short_span
from ..views.top.sampling import History
from .actions import performed
from .base import TopScreen
from .commands import TopCommands
from .container import STREAMS, DetailScreen, LogScreen
from .dialogs import TextDialog, beside
from .feed import EventFeed
from .screens import ApplicationsScreen, ContainersScreen, EventsScreen, NodesScreen, QueueScreen
from .source import Source
from .threads import in_thread

THEMES = frozenset(BUILTIN_THEMES)
"""What ``--theme`` takes."""

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0)
PATIENCE = 3.0
"""Seconds without an answer after which the data is called stale."""

_SHARE = 0.1
"""The most of one core that taking pictures may cost: the interval grows if it must."""

_SOONEST = 0.4
"""Seconds between two pictures when things happen faster than the interval."""


_NOT_OURS = ("Keys", "Maximize", "Minimize")


class YoppTop(App[None]):
    """Screens over a Source. ``readonly`` takes all keys away that change anything."""

    TITLE = "yopp top"
    CSS_PATH = "yopp.tcss"
    PLACES: ClassVar[dict[str, str]] = {
        "nodes": "Nodes",
        "containers": "Containers",
        "applications": "Applications",
        "queue": "Queue",
        "events": "Events",
    }
    MODES: ClassVar[dict[str, Any]] = {
        "nodes": NodesScreen,
        "containers": ContainersScreen,
        "applications": ApplicationsScreen,
        "queue": QueueScreen,
        "events": EventsScreen,
    }
    DEFAULT_MODE = "nodes"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        TopCommands,
        SystemCommandsProvider,
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "place('nodes')", "Nodes", show=False),
        Binding("2", "place('containers')", "Containers", show=False),
        Binding("3", "place('applications')", "Applications", show=False),
        Binding("4", "place('queue')", "Queue", show=False),
        Binding("5", "place('events')", "Events", show=False),
        Binding("F", "freeze", "Freeze the picture", show=False),
        Binding("plus,equals_sign", "interval(1)", "Slower", show=False, key_display="+"),
        Binding("minus", "interval(-1)", "Faster", show=False, key_display="-"),
        Binding("ctrl+r", "reconnect", "Reconnect", show=False),
        Binding("colon", "command_palette", "Commands", show=False, key_display=":"),
        Binding("question_mark", "keys", "Help", key_display="?"),
        Binding("q", "quit", "Quit", show=False),
    ]

    def __init__(
        self, source: Source, *, readonly: bool = False, interval: float = 1.0, theme: str = ""
    ) -> None:
        super().__init__()
        self.source = source
        self.readonly = readonly
        self.interval = interval
        self.picture: Picture | None = None
        self.shown: Picture | None = None
        self.history = History()
        self.finished = False
        self.frozen = False
        self.lost_since: float | None = None
        self.feed = EventFeed(source, self._happened)
        self._pause = interval
        self._soonest = 0.0
        self._blurred = False
        self._wake = asyncio.Event()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        if theme:
            self.theme = theme

    # ---- taking pictures

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Textual's: its own commands for the palette, without those that mean nothing here."""
        return (one for one in super().get_system_commands(screen) if one.title not in _NOT_OURS)

    def on_mount(self) -> None:
        """Textual's: begin. A signal that ends us leaves the terminal as it was."""
        loop = self._own_loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread: a test
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self._begin()
        self.run_worker(self.feed.run(), group="events")

    def terminal_gone(self) -> None:
        """End: the terminal is gone. Callable from any thread."""
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._own_loop.call_soon_threadsafe(partial(self.exit, return_code=128 + signal.SIGHUP))

    def _begin(self) -> None:
        self.run_worker(self._take_pictures(), group="pictures", exclusive=True)

    def wake(self) -> None:
        """Take the next picture now."""
        self._wake.set()

    async def _take_pictures(self) -> None:
        while True:
            self._wake.clear()
            try:
                picture, cost = await self._take()
            except (YoppError, OSError) as error:
                self._lost(getattr(error, "message", "") or str(error))
                cost = 0.0
            else:
                self._took(picture)
            wanted = self.interval * (2 if self._blurred else 1)
            self._pause = max(wanted, cost / _SHARE)
            self._soonest = time.monotonic() + max(_SOONEST, cost / _SHARE)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause)

    async def _take(self) -> tuple[Picture, float]:
        """One picture, and the CPU seconds that it cost. What takes long is shown as lost until it comes."""
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
        """Fetch what was used before the first picture."""
        with contextlib.suppress(
            YoppError, OSError
        ):  # else the sparklines begin now; the next look tells of it
            containers, machine = await in_thread(partial(self.source.traces, picture))
            self.history.remember(containers, machine, picture.host.cores)
            self.update()

    def _happened(self, events: list[HistoryEvent]) -> None:
        """Take a picture at once, unless the last one was taken a moment ago."""
        if time.monotonic() >= self._soonest and not self._blurred:
            self.wake()
        elif not self.frozen and isinstance(self.screen, EventsScreen):
            self.update()

    def _lost(self, why: str) -> None:
        if self.lost_since is None:
            self.lost_since = time.time()
            self.notify("the data shown is stale; reconnecting", title=why, severity="error", markup=False)
        self.update()

    def update(self) -> None:
        """Have the screen in front show what there is."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, TopScreen):
                screen.update()
                break

    def status(self) -> list[Cell]:
        """The right end of the first line."""
        cells = [Cell("READONLY", "dim")] if self.readonly else []
        if self.lost_since is not None:
            since = time.strftime("%H:%M:%S", time.localtime(self.lost_since))
            return [*cells, Cell(f"LOST since {since}", "bad")]
        every = f"{self._pause:.1f}".removesuffix(".0") + "s"
        cells.append(Cell(every, "dim"))
        if self.frozen:
            age = (
                short_span(self.picture.taken_at_ms - self.shown.taken_at_ms)
                if self.picture and self.shown
                else ""
            )
            return [*cells, Cell(f"FROZEN {age}", "warn")]
        return [*cells, Cell("LIVE", "good") if self.picture is not None else Cell("…", "dim")]

    def on_app_blur(self) -> None:
        """Textual's: the window lost the focus; half as often is enough."""
        self._blurred = True

    def on_app_focus(self) -> None:
        """Textual's: the window has the focus again."""
        self._blurred = False
        self.wake()

    # ---- doing things

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Textual's: in one line where that is enough."""
        text = harmless(f"{title}: {message}" if title else message)
        super().notify(text, severity=severity, timeout=timeout, markup=False)

    def perform(self, what: str, call: Callable[[], str]) -> None:
        """Make a call that changes something, tell how it went, and look at once."""
        self.run_worker(self._perform(what, call), group="calls")

    async def _perform(self, what: str, call: Callable[[], str]) -> None:
        said, done = await performed(call)
        if done:
            self.notify(said, title=what, timeout=4, markup=False)
        else:
            self.notify(said, title=f"cannot {what}", severity="error", timeout=8, markup=False)
        self.wake()

    def action_freeze(self) -> None:
        """Stand still, or go on."""
        self.frozen = not self.frozen
        if not self.frozen:
            self.shown = self.picture
        self.update()

    def action_interval(self, step: int) -> None:
        """A longer or a shorter interval."""
        nearest = min(range(len(INTERVALS)), key=lambda index: abs(INTERVALS[index] - self.interval))
        self.interval = INTERVALS[max(0, min(len(INTERVALS) - 1, nearest + step))]
        self._pause = self.interval
        self.wake()

    def action_reconnect(self) -> None:
        """Forget all connections and make new ones."""
        self.source.reconnect()
        self._begin()

    def action_keys(self) -> None:
        """What the keys do here."""
        keys: dict[tuple[int, str], list[str]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if active.enabled and binding.description and not binding.system:
                place = 0 if isinstance(active.node, TopScreen) else 1 if active.node is self else 2
                keys.setdefault((place, binding.description), []).append(self.get_key_display(binding))
        blocks = []
        for place, title in enumerate(("Here", "Everywhere", "Moving")):
            shown = [
                (", ".join(dict.fromkeys(named)), description)
                for (where, description), named in keys.items()
                if where == place
            ]
            cells = max((len(named) for named, _ in shown), default=0)
            blocks.append([title, *(f"{named:<{cells}}  {description}" for named, description in shown)])
        self.push_screen(TextDialog("Keys", beside(blocks), wide=True))

    def explain(self, identifier: str) -> None:
        """Show why a container, an application or a node waits."""
        self.run_worker(self._explain(identifier), group="explain", exclusive=True)

    async def _explain(self, identifier: str) -> None:
        try:
            lines = await in_thread(partial(self.source.explain, identifier))
        except (YoppError, OSError) as error:
            self.notify(getattr(error, "message", str(error)), severity="error", markup=False)
            return
        self.push_screen(TextDialog(identifier, lines))

    # ---- going places

    def action_place(self, name: str) -> None:
        """One of the numbered screens, at its beginning."""
        if any(not isinstance(screen, TopScreen) for screen in self.screen_stack[1:]):
            return  # a dialog wants its answer first
        if self.current_mode != name:
            self.switch_mode(name)
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def open_node(self, node_id: str) -> None:
        """The containers of a node."""
        self.push_screen(ContainersScreen(node_id=node_id))

    def open_application(self, application_id: str) -> None:
        """The containers of an application."""
        self.push_screen(ContainersScreen(application_id=application_id))

    def open_container(self, report: ContainerReport) -> None:
        """Everything about a container."""
        self.push_screen(DetailScreen(report))

    def open_log(self, report: ContainerReport, stream: str = STREAMS[0]) -> None:
        """A container's output."""
        self.push_screen(LogScreen(report, stream))

    def open_subject(self, event: HistoryEvent) -> None:
        """What an event happened to."""
        if event.container:
            self.run_worker(self._open_container(event.container), group="open", exclusive=True)
        elif event.app:
            self.open_application(event.app)
        elif event.node:
            self.open_node(event.node)

    async def _open_container(self, container_id: str) -> None:
        """Open a container's screen, also of one that ended long ago."""
        found = self.picture.container(container_id) if self.picture is not None else None
        if found is None:
            try:
                found = await in_thread(partial(self.source.container, container_id))
            except (YoppError, OSError) as error:
                self.notify(getattr(error, "message", str(error)), severity="error", markup=False)
                return
        self.open_container(found)
