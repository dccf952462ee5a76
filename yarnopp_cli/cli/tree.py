"""Builds typer's command tree, runs a command line with it, and rewrites typer's error messages."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import EXIT_USAGE, UsageError
from .frame import output
from .frame.argv import hadoops_options
from .frame.command import REGISTERED
from .frame.typed import Lazily, examples, group, made, new_typer
from .table import COMMANDS, SECTIONS
from .words import load, own_words

# typer's own click is private; the base of its public BadParameter is the base of all usage errors.
_LIKE = 0.7
"""The least similarity, by difflib, at which a word counts as a misspelling of another."""
_ELSEWHERE = {
    "up": ("start",),
    "down": ("stop", "shutdown"),
    "run": ("add", "submit", "exec", "sbatch", "srun", "qsub"),
    "rerun": ("restart", "retry"),
    "ps": ("ls", "list", "jobs", "squeue", "qstat"),
    "app list": ("ls", "list", "jobs", "squeue", "qstat", "history", "sacct"),
    "app kill": ("cancel", "remove", "scancel", "qdel"),
    "container kill": ("cancel", "scancel"),
    "node list": ("sinfo",),
    "logs": ("follow", "tail", "output"),
    "explain": ("why",),
}
"""The names of our commands in pueue, Slurm, docker and the shell."""
_BY_OTHERS = {
    word: [one for one, words in _ELSEWHERE.items() if word in words]
    for words in _ELSEWHERE.values()
    for word in words
}
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]


def _load(name: str) -> Any:
    """The command ``name``, from its module. Raises KeyError if there is none."""
    load(name)
    if name in REGISTERED:
        return made(REGISTERED[name])
    return group(name, COMMANDS[name].summary)


class _Root(TyperGroup):
    """The group of all commands: lazily imported, and listed by section in the help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Lazily(COMMANDS, _load)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the help's sections from the table, without importing any command."""
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name, entry.summary) for entry in entries])


def root() -> Any:
    """The parser's command of the whole command line; it imports a command at its first use."""
    return typer.main.get_command(
        new_typer(
            cls=_Root,
            callback=_main,
            invoke_without_command=True,
            epilog=examples("yopp up --nodes 2", "yopp run -n 10 -O sleep 10"),
        )
    )


def _main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", metavar=None, help="Print the version and exit.")
    ] = False,
) -> int | None:
    """YARN's opportunistic containers on this host: queue, run, limit and preempt real processes."""
    if version:
        from .. import __version__

        output.Printer().text(f"yopp {__version__}")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is not None:
        return None
    from .help.home import home

    return home()


def call(argv: list[str]) -> Any:
    """Let typer read a command line and run its command. Returns the command's result. Raises UsageError, and the
    errors of commands."""
    try:
        return root().main(args=argv, prog_name="yopp", standalone_mode=False)
    except _USAGE_ERROR as error:
        return _usage(error, argv)


def _usage(error: Any, argv: list[str]) -> int:
    """Raise a usage error of the parser in our form of three lines."""
    message = error.format_message().rstrip()
    context = getattr(error, "ctx", None)
    if context is not None and message == context.get_help().rstrip():  # A group without its subcommand.
        output.Printer().text(message)
        return EXIT_USAGE
    command = context.command_path if context is not None else _command_of(argv)
    first = message[:1].lower() + message[1:]
    raise _three_lines(first.rstrip("."), command, argv) from None


def _command_of(argv: list[str]) -> str:
    """The typed command, if the parser does not name the command of the wrong option."""
    of_group = bool(argv) and argv[0] in COMMANDS and COMMANDS[argv[0]].group
    words = argv[: 2 if of_group else 1]
    return " ".join(["yopp", *words]) if words and words[0] in COMMANDS else "yopp"


# The parser's messages, divided into message, reason and hint.
_VALUE = re.compile(r"(invalid value for .*?'): (.*)", re.DOTALL)
_UNEXPECTED = re.compile(r"got unexpected extra argument(?:s|\(s\))? \((.*)\)", re.DOTALL)
_NO_SUCH = re.compile(
    r"(no such (command|option)):? '?(.*?)'?(?:[.]? [(]?(Did you mean|Possible options:) (.*?)[?)]*)?",
    re.DOTALL,
)


def _three_lines(message: str, command: str, argv: list[str]) -> UsageError:
    """An error of the parser about the words after ``command``."""
    hint = f"`{command} --help` lists its options and arguments"
    if found := _VALUE.fullmatch(message):
        because = re.sub(r"is not a valid int(eger)?( range)?$", "is not a whole number", found[2])
        because = re.sub(r"is not in the range (\d+)<=x<=(\d+)[.]?$", r"is not between \1 and \2", because)
        because = re.sub(r"is not in the range x>=(\d+)[.]?$", r"is below \1", because)
        if "'--output'" in found[1] and command in ("yopp run", "yopp rerun"):
            hint = f"--results NAME writes the output of tasks to files; {hint}"
        return UsageError(found[1], because=because, hint=hint)
    if found := _NO_SUCH.fullmatch(message):
        word = found[3] if found[2] == "command" else _as_typed(found[3], argv)
        near = re.findall(r"[^\s',]+", found[5] or "")
        if meant := _suggestions(word, command, near):
            hint = f"did you mean {' or '.join(', '.join(meant).rsplit(', ', 1))}? {hint}"
        return UsageError(
            f"{found[1]}: {word}", because=f"`{command}` has no {found[2]} of that name", hint=hint
        )
    if found := _UNEXPECTED.fullmatch(message):
        message = f"unexpected argument: {found[1]}"
    because = f"`{command}` does not take that"
    if message.startswith("missing "):
        because = f"`{command}` needs it"
    elif message.endswith("requires an argument"):
        because = "nothing follows it"
    return UsageError(message, because=because, hint=hint)


def _as_typed(option: str, argv: list[str]) -> str:
    """The word that contains an option of one letter: the parser takes ``-lst`` for three options, users mean one."""
    words = [word for word in own_words(argv) if re.fullmatch(r"-[A-Za-z][A-Za-z_-]{2,}", word)]
    return next((word for word in words if len(option) == 2 and option[1] in word), option)


def _suggestions(word: str, command: str, found: list[str]) -> list[str]:
    """Suggestions for an unknown word of ``command``: similar names among the parser's candidates ``found`` and YARN's
    options, and subcommands of this name."""
    name = word.lstrip("-")
    path = command.split()[1:]
    if not word.startswith("-") and not path:
        if name in _BY_OTHERS:
            return [f"`yopp {one}`" for one in _BY_OTHERS[name]]
        for entry in COMMANDS.values():
            if entry.group:
                load(entry.name)
        below = [one for one in REGISTERED if one.endswith(f" {name}")]
        near = [one for one in found if _is_like(name, one)] or below
        return [f"`yopp {one}`" for one in near[:3]]
    if not word.startswith("-"):
        return [f"`{command} {one}`" for one in found if _is_like(name, one)][:3]
    if path and word.startswith("-") and not word.startswith("--"):
        found = [*found, *hadoops_options(path[0])]
    return [one for one in found if _is_like(name, one.lstrip("-"))][:3]


def _is_like(name: str, other: str) -> bool:
    swapped = sorted(name) == sorted(other)  # In a short word, this is a large part of the word.
    return swapped or SequenceMatcher(None, name, other).ratio() >= _LIKE or other.startswith(name[:4])
