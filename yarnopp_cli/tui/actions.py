"""Killing, pausing, promoting and the other actions on containers: the same keys on every screen that shows
containers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from textual.binding import Binding

from executor.records import ContainerState, ExecutionType

from ..errors import InvalidStateError, YoppError
from ..explain.snapshot import Picture
from ..records.ids import short_id
from ..records.reports import ContainerReport
from ..views.containers import is_live
from ..views.explain import consequences
from .base import TopApp, TopScreen, failure
from .source import DEMOTE, KILL, PAUSE, PROMOTE, RESUME, in_thread

EXPLAIN = Binding("e", "explain", "Explain")


class Action(NamedTuple):
    """An action on containers: its keys, the containers for which it is possible, and the reason why not for others.
    ``ask`` makes the question that precedes it (before a promotion the nodes are queried, too); ``danger`` marks
    actions that the dialog shows as dangerous.
    """

    keys: str
    title: str
    possible: Callable[[ContainerReport], bool]
    needs: str
    ask: Callable[[Sequence[ContainerReport], Picture], str] | None = None
    danger: bool = False
    shown: bool = False

    def binding(self, name: str, *, shown: bool, title: str = "") -> Binding:
        """The action's keys, in the footer if ``shown``."""
        display = "^k" if shown and self.keys.startswith("ctrl+k") else None
        return Binding(self.keys, f"steer('{name}')", title or self.title, show=shown, key_display=display)


ACTIONS: dict[str, Action] = {
    KILL: Action(
        "ctrl+k,f9", "Kill", is_live, "it has ended", consequences.kill_containers, danger=True, shown=True
    ),
    PAUSE: Action(
        "p",
        "Pause",
        lambda one: one.state is ContainerState.RUNNING,
        "only running containers can be paused",
        shown=True,
    ),
    RESUME: Action(
        "r",
        "Resume",
        lambda one: one.state in (ContainerState.PAUSED, ContainerState.PAUSING),
        "it is not paused",
    ),
    PROMOTE: Action(
        "P",
        "Promote",
        lambda one: is_live(one) and one.execution_type is ExecutionType.OPPORTUNISTIC,
        "only a live opportunistic container can be promoted",
        shown=True,
    ),
    DEMOTE: Action(
        "D",
        "Demote",
        lambda one: is_live(one) and one.execution_type is ExecutionType.GUARANTEED and not one.is_am,
        "only a live guaranteed container can be demoted",
        consequences.demote,
        danger=True,
    ),
}
STEER = [action.binding(name, shown=action.shown) for name, action in ACTIONS.items()]
STEER_UNSEEN = [action.binding(name, shown=False) for name, action in ACTIONS.items()]


def refusal(action: str, report: ContainerReport) -> str:
    """Why an action is not possible for a container; demoting a master in the words of `yopp container
    demote`.
    """
    if action == DEMOTE and report.is_am and is_live(report):
        return f"{report.container_id} cannot be updated: it is its application's master"
    return ACTIONS[action].needs


class ContainerActionScreen(TopScreen):
    """A screen with actions on containers: ``targets`` are the containers."""

    def targets(self) -> list[ContainerReport]:
        """The containers that an action applies to."""
        raise NotImplementedError

    def action_steer(self, action: str) -> None:
        """Perform one of ACTIONS on the targets, after a question if the action has one."""
        picture = self.top.picture or self.top.shown
        if picture is None:
            return
        what = ACTIONS[action]
        current = [picture.container(one.container_id) or one for one in self.targets()]
        possible = [one for one in current if what.possible(one)]
        perform = partial(self._perform, action, possible)
        if not possible:
            if current:
                self.refuse(action, refusal(action, current[0]))
        elif action == PROMOTE:
            self.run_worker(self._ask_promotion(possible, picture, perform), group="ask", exclusive=True)
        elif what.ask is not None:
            self.confirm(what.ask(possible, picture), perform, danger=what.danger)
        else:
            perform()

    async def _ask_promotion(
        self, reports: Sequence[ContainerReport], picture: Picture, perform: Callable[[], None]
    ) -> None:
        """Ask when the nodes have answered which containers would be preempted."""
        try:
            gives_way = await in_thread(partial(self.top.source.gives_way, reports, picture))
        except (YoppError, OSError) as error:
            self.refuse(PROMOTE, failure(error))
            return
        told = replace(picture, gives_way=gives_way)
        self.confirm(consequences.promote(reports, told), perform, danger=False)

    def _perform(self, action: str, reports: Sequence[ContainerReport]) -> None:
        act = self.top.source.act
        calls = [(short_id(one.container_id), partial(act, action, one)) for one in reports]
        perform_all(self.top, action, "containers", calls)


Call = tuple[str, Callable[[], str]]


def perform_all(top: TopApp, action: str, plural: str, calls: Sequence[Call]) -> None:
    """Make all calls of an action, and report the result: a single target by its name, several by their
    number.
    """
    what = calls[0][0] if len(calls) == 1 else f"{len(calls)} {plural}"
    top.perform(f"{action} {what}", partial(_all_of, calls))


def _all_of(calls: Sequence[Call]) -> str:
    """Make all calls one after the other, even after a failure; their answers in one line. Raises
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
