"""A life as a table: from which state what leads to which; and the story of who goes through it.

Containers at their node, and applications, attempts, containers and nodes at the ResourceManager, are all of this
shape. A pair that is not in its table is a bug. ``docs/states.md`` is made from the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ..errors import InvalidTransitionError

STORY_LENGTH = 32
"""How many of its last transitions one remembers."""

StateT = TypeVar("StateT")
TriggerT = TypeVar("TriggerT")


class StoryEntry(NamedTuple):
    """One line of a story: when (the machine's seconds), from which state, why, to which state."""

    at: float
    before: object
    trigger: object
    after: object

    def __str__(self) -> str:
        return f"{self.at:.3f} {name_of(self.before)} --{name_of(self.trigger)}--> {name_of(self.after)}"


def name_of(item: object) -> str:
    """The name of a state or trigger: an enum's member, or a type of event or command."""
    return str(getattr(item, "__name__", None) or getattr(item, "value", item))


@dataclass(frozen=True, slots=True)
class TransitionTable(Generic[StateT, TriggerT]):
    """``rows``: state -> what is done to it or seen of it -> next state. The first row is where a life begins.

    ``of`` says whose life it is, ``meanings`` what each state is.
    """

    of: str
    rows: Mapping[StateT, Mapping[TriggerT, StateT]]
    meanings: Mapping[StateT, str]

    def after(
        self, name: str, state: StateT, trigger: TriggerT, story: MutableSequence[StoryEntry]
    ) -> StateT:
        """The state that ``trigger`` leads to. Raises InvalidTransitionError, with the story, if none does."""
        try:
            return self.rows[state][trigger]
        except KeyError:
            raise InvalidTransitionError(name, name_of(state), name_of(trigger), tuple(story)) from None

    def follow(
        self, name: str, state: StateT, trigger: TriggerT, now: float, story: MutableSequence[StoryEntry]
    ) -> StateT:
        """The same, written into the story."""
        following = self.after(name, state, trigger, story)
        story.append(StoryEntry(now, state, trigger, following))
        if len(story) > STORY_LENGTH:
            del story[0]
        return following

    def document(
        self,
        *,
        emphasised: Callable[[TriggerT], bool] = lambda trigger: False,
        shown_as: tuple[str, Mapping[StateT, str]] | None = None,
    ) -> list[str]:
        """The lines of Markdown of a diagram, what each state means, and every transition.

        ``emphasised`` triggers are in italics; ``shown_as`` is one more column of the states: its head, its cells.
        """
        lines = [
            f"## The states of {self.of}",
            "",
            "```mermaid",
            "stateDiagram-v2",
            f"    [*] --> {name_of(next(iter(self.rows)))}",
        ]
        for state, row in self.rows.items():
            for following in dict.fromkeys(row.values()):
                triggers = ", ".join(name_of(one) for one, target in row.items() if target is following)
                if following is not state:
                    lines.append(f"    {name_of(state)} --> {name_of(following)}: {triggers}")
        lines += [f"    {name_of(state)} --> [*]" for state, row in self.rows.items() if not row]
        head, cells = shown_as or ("", {})
        column = f" {head} |" if head else ""
        lines += ["```", "", f"| state |{column} what it means |", f"| --- |{' --- |' if head else ''} --- |"]
        for state in self.rows:
            column = f" {cells[state]} |" if head else ""
            lines.append(f"| {name_of(state)} |{column} {self.meanings[state]} |")
        lines += ["", "| from | by | to |", "| --- | --- | --- |"]
        for state, row in self.rows.items():
            for trigger, following in row.items():
                by = f"*{name_of(trigger)}*" if emphasised(trigger) else name_of(trigger)
                lines.append(f"| {name_of(state)} | {by} | {name_of(following)} |")
        return lines
