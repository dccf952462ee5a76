"""Killing, pausing, promoting: the same keys on every screen that shows containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from textual.binding import Binding

from executor.records import ContainerState, ExecutionType

from ..errors import InvalidStateError, YoppError
from ..records.reports import ContainerReport
from ..views import consequences
from ..views.containers import is_live
from ..views.picture import Picture
from .base import TopScreen
from .source import DEMOTE, KILL, PAUSE, PROMOTE, RESUME
from .threads import in_thread

LOG = Binding("l", "log", "Log")
EXPLAIN = Binding("e", "explain", "Explain")
STEER: list[Binding] = [
    Binding("ctrl+k,f9", "kill", "Kill", key_display="^k"),
    Binding("p", "pause", "Pause"),
    Binding("r", "resume", "Resume", show=False),
    Binding("P", "promote", "Promote"),
    Binding("D", "demote", "Demote", show=False),
]
STEER_UNSEEN = [replace(one, show=False, key_display=None) for one in STEER]

_POSSIBLE: dict[str, Callable[[ContainerReport], bool]] = {
    KILL: is_live,
    PAUSE: lambda one: one.state is ContainerState.RUNNING,
    RESUME: lambda one: one.state in (ContainerState.PAUSED, ContainerState.PAUSING),
    PROMOTE: lambda one: is_live(one) and one.execution_type is ExecutionType.OPPORTUNISTIC,
    DEMOTE: lambda one: is_live(one) and one.execution_type is ExecutionType.GUARANTEED and not one.is_am,
}
_NEEDS = {
    KILL: "it has ended",
    PAUSE: "only what runs can be paused",
    RESUME: "it is not paused",
    PROMOTE: "only a live opportunistic container can be promoted",
    DEMOTE: "only a live guaranteed container can be demoted",
}


def refusal(action: str, report: ContainerReport) -> str:
    """Why an action cannot be for a container; of a master in the words of `yopp container demote`."""
    if action == DEMOTE and report.is_am and is_live(report):
        return f"{report.container_id} cannot be updated: it is its application's master"
    return _NEEDS[action]


def question(action: str, reports: Sequence[ContainerReport], picture: Picture) -> str:
    """What is asked before an action; empty where nothing is."""
    ask = {
        KILL: consequences.kill_containers,
        PROMOTE: consequences.promote,
        DEMOTE: consequences.demote,
    }.get(action)
    return ask(reports, picture) if ask is not None else ""


class ContainerActions(TopScreen):
    """A screen with containers that may be acted upon: ``targets`` says which."""

    def targets(self) -> list[ContainerReport]:
        """What an action is for."""
        raise NotImplementedError

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
        if targets := self.targets():
            self.top.open_log(targets[0])

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
                self.refuse(action, refusal(action, current[0]))
            return
        text = question(action, possible, picture)
        perform = partial(self._perform, action, possible)
        if text:
            self.confirm(text, perform, danger=action in (KILL, DEMOTE))
        else:
            perform()

    def _perform(self, action: str, reports: Sequence[ContainerReport]) -> None:
        act = self.top.source.act
        calls = [(consequences.short_id(one.container_id), partial(act, action, one)) for one in reports]
        self.top.perform(f"{action} {counted(calls, 'containers')}", partial(all_of, calls))


Call = tuple[str, Callable[[], str]]


def counted(calls: Sequence[Call], plural: str) -> str:
    """The name of the one, or how many there are."""
    return calls[0][0] if len(calls) == 1 else f"{len(calls)} {plural}"


def all_of(calls: Sequence[Call]) -> str:
    """Make all the calls, one after the other, whatever becomes of each: what they said, in one line. Raises
    InvalidStateError if any of them failed.
    """
    said: dict[str, int] = {}
    failed = []
    for name, call in calls:
        try:
            text = call()
        except (YoppError, OSError) as error:
            failed.append(f"{name}: {failure(error)}" if len(calls) > 1 else failure(error))
        else:
            said[text] = said.get(text, 0) + 1
    done = next(iter(said), "") if len(calls) == 1 else ", ".join(f"{n} {text}" for text, n in said.items())
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise InvalidStateError(f"{done + '; ' if done else ''}{failed[0]}{more}")
    return done


def failure(error: Exception) -> str:
    """Why a call failed, in one line."""
    because = getattr(error, "because", "")
    return f"{getattr(error, 'message', error)}{': ' + because if because else ''}"


async def performed(call: Callable[[], str]) -> tuple[str, bool]:
    """Make one call in a thread: what it said, and whether it did what it should."""
    try:
        return await in_thread(call), True
    except (YoppError, OSError) as error:
        return failure(error), False
