"""Killing, pausing, promoting: the same keys on every screen that shows containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.binding import Binding

from executor.records import ContainerState, ExecutionType

from ..errors import YoppError
from ..records.reports import ContainerReport
from ..views import consequences
from ..views.containers import is_live
from ..views.picture import Picture
from .base import TopScreen
from .dialogs import Confirm
from .source import DEMOTE, KILL, PAUSE, PROMOTE, RESUME
from .threads import in_thread

STEERING = frozenset({"kill", "pause", "resume", "promote", "demote", "drain"})
"""Actions that change the cluster: none of them with ``--readonly``."""

LOG = Binding("l", "log", "Log")
EXPLAIN = Binding("e", "explain", "Explain")
STEER: list[Binding] = [
    Binding("ctrl+k,f9", "kill", "Kill", key_display="^k"),
    Binding("p", "pause", "Pause"),
    Binding("r", "resume", "Resume", show=False),
    Binding("P", "promote", "Promote"),
    Binding("D", "demote", "Demote", show=False),
]
STEER_UNSEEN: list[Binding] = [
    Binding("ctrl+k,f9", "kill", "Kill", show=False),
    Binding("p", "pause", "Pause", show=False),
    Binding("r", "resume", "Resume", show=False),
    Binding("P", "promote", "Promote", show=False),
    Binding("D", "demote", "Demote", show=False),
]

_POSSIBLE: dict[str, Callable[[ContainerReport], bool]] = {
    KILL: is_live,
    PAUSE: lambda one: one.state is ContainerState.RUNNING,
    RESUME: lambda one: one.state in (ContainerState.PAUSED, ContainerState.PAUSING),
    PROMOTE: lambda one: is_live(one) and one.execution_type is ExecutionType.OPPORTUNISTIC,
    DEMOTE: lambda one: is_live(one) and one.execution_type is ExecutionType.GUARANTEED,
}
_NEEDS = {
    KILL: "it has ended",
    PAUSE: "only what runs can be paused",
    RESUME: "it is not paused",
    PROMOTE: "only a live opportunistic container can be promoted",
    DEMOTE: "only a live guaranteed container can be demoted",
}


def question(action: str, reports: Sequence[ContainerReport], picture: Picture) -> str:
    """What is asked before an action; empty where nothing is."""
    if action == KILL:
        return consequences.kill_containers(reports, picture)
    if action == PROMOTE:
        return consequences.promote(reports, picture)
    if action == DEMOTE:
        return consequences.demote(reports, picture)
    return ""


class ContainerActions(TopScreen):
    """A screen with containers that may be acted upon: ``targets`` says which."""

    def targets(self) -> list[ContainerReport]:
        """What an action is for."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's: what steers is not there for who only looks."""
        if action in STEERING and self.top.readonly:
            return False
        return super().check_action(action, parameters)

    def action_kill(self) -> None:
        """Kill what is marked."""
        self._begin(KILL)

    def action_pause(self) -> None:
        """Pause what is marked."""
        self._begin(PAUSE)

    def action_resume(self) -> None:
        """Resume what is marked."""
        self._begin(RESUME)

    def action_promote(self) -> None:
        """Promote what is marked."""
        self._begin(PROMOTE)

    def action_demote(self) -> None:
        """Demote what is marked."""
        self._begin(DEMOTE)

    def action_log(self) -> None:
        """The output of the container under the cursor."""
        from .screens.log import LogScreen

        if targets := self.targets():
            self.app.push_screen(LogScreen(targets[0]))

    def action_explain(self) -> None:
        """Why it waits."""
        if targets := self.targets():
            self.top.explain(targets[0].container_id)

    def _begin(self, action: str) -> None:
        picture = self.top.picture or self.top.shown
        if picture is None:
            return
        current = [picture.container(one.container_id) or one for one in self.targets()]
        possible = [one for one in current if _POSSIBLE[action](one)]
        if not possible:
            if current:
                self.notify(_NEEDS[action], title=f"cannot {action}", severity="warning", markup=False)
            return
        text = question(action, possible, picture)
        if not text:
            self._perform(action, possible)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._perform(action, possible)

        self.app.push_screen(Confirm(text, danger=action in (KILL, DEMOTE)), answered)

    def _perform(self, action: str, reports: Sequence[ContainerReport]) -> None:
        for report in reports:
            name = consequences.short_id(report.container_id)
            self.top.perform(f"{action} {name}", partial(self.top.source.act, action, report))


async def performed(call: Callable[[], str]) -> tuple[str, bool]:
    """Make one call in a thread: what it said, and whether it did what it should."""
    try:
        return await in_thread(call), True
    except (YoppError, OSError) as error:
        because = getattr(error, "because", "")
        return f"{getattr(error, 'message', error)}{': ' + because if because else ''}", False
