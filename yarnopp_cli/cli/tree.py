"""The tree of all commands, each module imported when its command is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .frame import output
from .frame.command import REGISTERED, Lazily, group, made
from .frame.options import examples, new_typer, option
from .table import COMMANDS, SECTIONS


def _load(name: str) -> Any:
    """The command ``name``, from its module. Raises KeyError if there is none of that name."""
    entry = COMMANDS[name]
    for module in (entry.module, *entry.more):
        import_module(f"{__package__}.{module}")
    if name in REGISTERED:
        return made(REGISTERED[name])
    return group(name, entry.summary)


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


def build() -> typer.Typer:
    """The whole command line as one Typer; ``typer.main.get_command`` of it can be walked for a manual."""
    return new_typer(
        cls=_Root,
        callback=_main,
        invoke_without_command=True,
        epilog=examples("yopp up --nodes 2", "yopp run -n 10 -O sleep 10"),
    )


def _main(
    ctx: typer.Context,
    version: Annotated[bool, option("--version, -V", "Print the version and exit.")] = False,
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
