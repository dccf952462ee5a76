"""Transition tables, and the history of one object's transitions.

Containers at their node, and applications, attempts, containers and nodes at the ResourceManager, have such a table.
A pair of state and trigger that is not in the table is a bug. ``docs/states.md`` is made from the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence
from typing import Generic, NamedTuple, TypeVar

from ..errors import InvalidTransitionError
from ..light import Record

STORY_LENGTH = 32
"""How many of the last transitions a story keeps."""

StateT = TypeVar("StateT")
TriggerT = TypeVar("TriggerT")


class StoryEntry(NamedTuple):
    """One line of a history: when (in the machine's seconds), from which state, by which trigger, to which state."""

    at: float
    before: object
    trigger: object
    after: object

    def __str__(self) -> str:
        return f"{self.at:.3f} {name_of(self.before)} --{name_of(self.trigger)}--> {name_of(self.after)}"


def name_of(item: object) -> str:
    """The name of a state or trigger: an enum's member, or a type of event or command."""
    return str(getattr(item, "__name__", None) or getattr(item, "value", item))


class TransitionTable(Record, Generic[StateT, TriggerT]):
    """``rows``: state -> trigger (a command or an event) -> next state. A life begins in the first row.

    ``of`` says whose life it is, ``meanings`` what each state means.
    """

    of: str
    rows: Mapping[StateT, Mapping[TriggerT, StateT]]
    meanings: Mapping[StateT, str]

    def follow(
        self, name: str, state: StateT, trigger: TriggerT, now: float, story: MutableSequence[StoryEntry]
    ) -> StateT:
        """The state that ``trigger`` leads to; the transition is added to the history.

        Raises InvalidTransitionError, with the history, if there is none.
        """
        following = self.rows[state].get(trigger)
        if following is None:
            raise InvalidTransitionError(name, name_of(state), name_of(trigger), tuple(story))
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
        """Markdown lines: a diagram, what each state means, and every transition.

        ``emphasised`` triggers are in italics; ``shown_as`` is one more column of the states: its head and its cells.
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
