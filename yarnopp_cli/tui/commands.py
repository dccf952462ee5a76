"""The command palette: every action of the front screen, and every screen to go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from ..records.ids import short_id
from ..views.containers import command_text, shown_state
from ..views.text import harmless, shorten
from .base import TopApp, TopScreen
from .container import DetailScreen
from .screens import SCREENS, ContainersScreen

_MOST_IDS = 2000


class _Command(NamedTuple):
    """A command's name, its action, and a short help."""

    name: str
    run: Callable[[], object]
    help: str


class TopCommands(Provider):
    """Actions of the screen, the screens, and the live ids."""

    def _actions(self) -> Iterator[_Command]:
        seen = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not (active.enabled and binding.description) or binding.action in seen or binding.system:
                continue
            seen.add(binding.action)
            namespace = active.node
            if not isinstance(namespace, (TopScreen, type(self.app))):
                continue  # movement keys are no commands
            run = partial(self.app.run_action, binding.action, namespace)
            yield _Command(binding.description, run, f"key {self.app.get_key_display(binding)}")

    def _places(self) -> Iterator[_Command]:
        top = cast(TopApp, self.app)
        for name, screen in SCREENS.items():
            yield _Command(f"Go to {screen.NAME}", partial(top.run_action, f"place('{name}')"), "screen")
        if (picture := top.picture) is None:
            return
        for node in picture.nodes:
            there = partial(ContainersScreen, node_id=node.node_id)
            yield _Command(f"Go to node {node.node_id}", partial(_push, top, there), node.state.value)
        for app in picture.applications[::-1][:_MOST_IDS]:
            there = partial(ContainersScreen, application_id=app.application_id)
            name = shorten(harmless(app.name), 60)
            yield _Command(f"Go to application {app.application_id}", partial(_push, top, there), name)
        for one in picture.containers[:_MOST_IDS]:
            run = partial(_push, top, partial(DetailScreen, one))
            command = shorten(harmless(command_text(one)), 50)
            told = f"{shown_state(one)} {short_id(one.application_id)} {command}"
            yield _Command(f"Go to container {one.container_id}", run, told)

    async def discover(self) -> Hits:
        """Textual's: the commands offered before the user types."""
        for command in [*self._actions(), *list(self._places())[:5]]:
            yield DiscoveryHit(command.name, command.run, help=command.help)

    async def search(self, query: str) -> Hits:
        """Textual's: the commands that match the typed text."""
        matcher = self.matcher(query)
        words = query.casefold().split()
        for command in [*self._actions(), *self._places()]:
            if (score := matcher.match(command.name)) > 0:
                score += _literally(words, command.name.casefold())
                yield Hit(score, matcher.highlight(command.name), command.run, help=command.help)


def _push(top: TopApp, screen: Callable[[], TopScreen]) -> None:
    top.push_screen(screen())


def _literally(words: Sequence[str], name: str) -> float:
    """The bonus of a name that contains all words, over a name that only has their letters in order (as nearly all ids
    do); larger if it ends with the last word: users know ids by their last digits.
    """
    if not words or not all(word in name for word in words):
        return 0.0
    return 2000.0 if name.endswith(words[-1]) else 1000.0
