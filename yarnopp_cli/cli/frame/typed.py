"""The declarations of commands as typer's commands: for help, errors, completion and the manual.

A command line without mistakes does not use this module (``reading.py``).
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.light import MISSING

from .command import REGISTERED, Command, Needs, added, own_parameters, run_with
from .options import LARGEST, NEWEST, BadValueError, Live, Words
from .reading import Parameter

if TYPE_CHECKING:
    from ...views.columns import Noun

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Click's context settings of every command."""


def new_typer(**settings: Any) -> typer.Typer:
    """A Typer with the settings of all our commands: plain help, ``-h``, no completion options, no pretty
    tracebacks.
    """
    settings["context_settings"] = SETTINGS | settings.get("context_settings", {})
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings
    )


def examples(*lines: str) -> str:
    """The end of a help text: an ``Examples:`` paragraph that is not re-wrapped."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def made(one: Command) -> Any:
    """The parser's command of a declaration."""
    own = own_parameters(one)
    # Typer reads the command's own options only; the frame's are parser objects already.
    holder = new_typer()
    settings: dict[str, Any] = {"epilog": examples(*one.examples)} if one.examples else {}
    settings |= one.settings
    settings["context_settings"] = SETTINGS | settings.get("context_settings", {})

    def call(**values: Any) -> int | None:
        return run_with(one, values)

    call.__doc__ = one.function.__doc__
    holder.command(one.path.rpartition(" ")[2], **settings)(_taking(own, call))
    parsed: Any = typer.main.get_command(holder)
    for parameter, option in zip(own, parsed.params, strict=False):
        option.completes = next((mark for mark in parameter.marks if isinstance(mark, Live | Words)), None)
    parsed.params += _added(one)
    return parsed


def _taking(parameters: Iterable[Parameter], function: Any) -> Callable[..., Any]:
    """A function that, for typer, takes these parameters."""
    function.__signature__ = inspect.Signature([_seen(one) for one in parameters])
    function.__annotations__ = {one.name: _annotation(one) for one in parameters}
    return function  # type: ignore[no-any-return]


def _seen(parameter: Parameter) -> inspect.Parameter:
    default = inspect.Parameter.empty if parameter.default is MISSING else parameter.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(parameter.name, kind, default=default, annotation=_annotation(parameter))


def _annotation(parameter: Parameter) -> Any:
    """The type of a parameter as typer reads it."""
    declared = parameter.declared
    settings = {"metavar": declared.metavar, "help": declared.help, **declared.settings}
    if "parser" in settings:
        settings["parser"] = _complaining(settings["parser"])
    elif parameter.kind is int and parameter.takes_value:
        settings["callback"] = _bounded
    seen = typer.Option(*declared.spellings, **settings) if declared.spellings else typer.Argument(**settings)
    return Annotated[parameter.annotated, seen]


def _bounded(value: int | None) -> int | None:
    """A whole number that JSON represents. Its bounds are not in the help, unlike an option's own."""
    if value is not None and abs(value) > LARGEST:
        raise typer.BadParameter(f"{value} is larger than any number that JSON carries exactly")
    return value


def _complaining(parser: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of values whose errors typer prints."""

    @functools.wraps(parser)
    def parse(text: str) -> Any:
        try:
            return parser(text)
        except BadValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


@cache
def _options() -> dict[str, Any]:
    """The common options as objects of the parser, by parameter, to be copied for each command: making one takes a
    tenth of a ms."""
    holder = new_typer()
    holder.command("common")(_taking(added(None), lambda **_: None))
    parsed: Any = typer.main.get_command(holder)
    return {option.name: option for option in parsed.params if option.name != "help"}


def _noun(one: Command) -> Noun[Any]:
    assert one.lists is not None, f"{one.path} lists nothing"
    return one.lists


def _added(one: Command) -> Iterator[Any]:
    """The options that the frame adds to a command, in the order of its help."""
    for parameter in added(one):
        name = parameter.name
        option = copy.copy(_options()[name])
        option.completes = None
        if name == "state":
            option.completes = Words(lambda: _noun(one).states, several=True)
        elif name in ("sort", "columns"):
            option.completes = Words(lambda: [column.key for column in _noun(one).columns(0)], several=True)
        elif name == "limit" and one.newest:
            option.help = NEWEST
        elif name in ("no_progress", "yes"):
            option.hidden = max(option.opts, key=len) not in one.shows
        elif one.needs is Needs.NOTHING and name in ("conf", "define", "run_dir", "verbose"):
            option.hidden = True
        yield option


# -- groups ------------------------------------------------------------------------------------------------------


class Lazily(UserDict[str, Any]):
    """Commands of the parser by name, each made at its first use."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(names))
        self._make = make

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = self._make(name)
        return self.data[name]


class _Group(typer.core.TyperGroup):
    """A group whose help shows the whole summary of each command, on several lines if necessary."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of the commands."""
        listed = [(name, self.commands[name].get_short_help_str(1000)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(listed)


def group(name: str, summary: str) -> Any:
    """The parser's group of the commands registered below ``name``; its help is the summary."""
    holder = new_typer(cls=_Group, callback=_nothing, help=f"{summary}.", no_args_is_help=True)
    parsed: Any = typer.main.get_command(holder)
    parsed.name = name
    below = {path.partition(" ")[2]: one for path, one in REGISTERED.items() if path.startswith(f"{name} ")}
    parsed.commands = Lazily(below, lambda name: made(below[name]))
    parsed.epilog = examples(*(one.examples[0] for one in list(below.values())[:2] if one.examples))
    return parsed


def _nothing() -> None:
    """Stand for a group's callback."""
