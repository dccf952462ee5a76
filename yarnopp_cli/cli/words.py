"""Finds the command that a command line names, and its common options, without importing the command."""

from __future__ import annotations

from collections.abc import Sequence

from executor.hints import Any

from .frame.command import REGISTERED, Command
from .table import COMMANDS

_HADOOPS = frozenset(
    {"app", "attempt", "container", "dshell", "logs", "node", "pi", "queue", "rmadmin", "top"}
)
"""The commands that also have options of Hadoop's, which look like several of ours in one word."""


def understood(argv: Sequence[str]) -> tuple[Command, dict[str, Any]] | None:
    """The typed command, and the values of its options; None for a command line that only the whole parser
    understands."""
    if not argv or argv[0] not in COMMANDS:
        return None
    name, depth = argv[0], 1
    if COMMANDS[name].group:
        if len(argv) < 2 or argv[1].startswith("-"):
            return None
        name, depth = " ".join(argv[:2]), 2
    rest = argv[depth:]
    if argv[0] in _HADOOPS and any(map(_may_be_hadoops, rest)):
        return None
    load(argv[0], name)
    command = REGISTERED.get(name)
    values = None if command is None else command.read(rest)
    return None if command is None or values is None else (command, values)


def _may_be_hadoops(word: str) -> bool:
    return word[:1] == "-" and len(word) > 3 and word[1] != "D" and word[1:4].isalpha()


def load(name: str, path: str = "") -> None:
    """Import the modules of a command, which register its subcommands; with ``path``, only until this one is
    registered."""
    for module in (COMMANDS[name].module, *COMMANDS[name].more):
        if path not in REGISTERED:
            __import__(f"{__package__}.{module}")


def own_words(argv: Sequence[str]) -> list[str]:
    """The words for yopp itself, without the words of a command that it runs."""
    words = list(argv)
    if words[:1] == ["run"]:  # The words after its first plain word belong to the command that it runs.
        plain = next((i for i, word in enumerate(words[1:], 1) if not word.startswith("-")), len(words))
        words = words[:plain]
    return words[: words.index("--")] if "--" in words else words


def given(argv: Sequence[str], *options: str) -> list[str]:
    """The values of these options, from the words alone, which may not parse."""
    words = own_words(argv)
    pairs = zip(words, [*words, ""][1:], strict=True)
    return [
        after if word in options else word.partition("=")[2]
        for word, after in pairs
        if word.partition("=")[0] in options
    ]
