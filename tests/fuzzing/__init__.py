"""Coverage-guided fuzzing, by atheris, of what reads bytes or words that others wrote.

``node``, ``protocol``, ``configuration`` and ``commands`` hold the targets: functions of bytes. A target catches the
exceptions that are the documented refusal, and asserts what else must hold; any other exception is a find.
``python -m tests.fuzzing NAME`` runs one.
"""

from typing import NamedTuple

MODULES = ("node", "protocol", "configuration", "commands")


class Order(NamedTuple):
    """What a server of a module is to run: a target of it, with libFuzzer's arguments; where its temporary files go,
    and what it prints."""

    target: str
    arguments: list[str]
    directory: str
    output: str
