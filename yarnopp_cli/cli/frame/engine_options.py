"""``--engine`` and ``--rm``, added to the commands that they concern, and what they lead to.

No command declares them: they are put into the signature of each as it is loaded, and a command whose engine is YARN is
never called; ``remote`` does what YARN's REST API can do of it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from ..table import COMMANDS
from .options import EngineOption, Rm

if TYPE_CHECKING:
    from ...client.choice import Choice

SECTIONS = frozenset({"Jobs", "Looking"})
OTHERS = frozenset({"status", "rmadmin", "top", "metrics"})
ALWAYS_HERE = frozenset({"man", "completion", "version"})
"""Commands that look at no cluster, whatever their section."""

HERE = frozenset({"up", "down", "rm", "nm", "doctor", "config"})
"""Commands about this host's own cluster, whatever the engine: they take the options, and say so."""
_UNSAID = frozenset({"config", "rm run", "nm run"})
"""Those of them that say nothing: files and daemons are here, and nobody thinks otherwise."""


def concerns(name: str) -> bool:
    """Whether a command (or a group) looks at a cluster, or runs something on it."""
    entry = COMMANDS[name]
    return (entry.section in SECTIONS or name in OTHERS) and name not in ALWAYS_HERE


def offer(holder: typer.Typer, name: str) -> None:
    """Add the options to the command ``name`` of ``holder``, or to each below the group of that name."""
    if not concerns(name) and name not in HERE:
        return
    for command in holder.registered_commands:
        if command.name == name:
            command.callback = _offered(command.callback, name)
    for group in holder.registered_groups:
        if group.name == name and group.typer_instance is not None:
            _offer_below(group.typer_instance, name)


def _offer_below(group: typer.Typer, path: str) -> None:
    for command in group.registered_commands:
        command.callback = _offered(command.callback, f"{path} {command.name}")
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _offer_below(below.typer_instance, f"{path} {below.name}")


def _offered(callback: Callable[..., Any] | None, path: str) -> Callable[..., Any]:
    """The command with both options behind those that say where it works."""
    assert callback is not None, f"{path} does nothing"
    signature = inspect.signature(callback, eval_str=True)

    def chosen(**values: Any) -> Any:
        choice = engine_of(path, values, here=path.partition(" ")[0] in HERE)
        del values["engine"], values["rm"]
        if choice is None:
            return callback(**values)
        from ..remote import run

        return run(path, choice, values, signature)

    parameters = []
    for parameter in signature.parameters.values():
        parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        if parameter.name == "run_dir":
            parameters += _both()
    if len(parameters) == len(signature.parameters):
        parameters += _both()
    chosen.__doc__ = callback.__doc__
    changed = inspect.Signature(parameters)
    chosen.__signature__ = changed  # type: ignore[attr-defined]
    chosen.__annotations__ = {name: one.annotation for name, one in changed.parameters.items()}
    return chosen


def engine_of(path: str, values: dict[str, Any], *, here: bool) -> Choice | None:
    """The YARN cluster that a command line means; None for this host's own, of which it says so if the command is about
    this host (``here``) and the engine is YARN. Raises UsageError."""
    from ...client.choice import YARN, choose  # the frame itself imports no more than help needs

    engine, rm = values.get("engine"), values.get("rm")
    if here:
        _tell_that_it_is_here(path, engine, rm, values)
        return None
    choice = choose(
        getattr(engine, "value", engine),
        rm,
        conf=values.get("conf"),
        define=values.get("define"),
        environ=os.environ,
    )
    return choice if choice.name == YARN else None


def _tell_that_it_is_here(path: str, engine: Any, rm: list[str] | None, values: dict[str, Any]) -> None:
    """Where the engine is YARN, say that this command is about this host's own cluster all the same.

    Who names YARN on this very line does not mean this cluster: UsageError, but for ``up`` and ``config``.
    """
    from ...client.choice import YARN, choose
    from ...errors import UsageError, YoppError

    name, asked = path.partition(" ")[0], engine is not None or bool(rm)
    try:
        choice = choose(
            getattr(engine, "value", engine),
            rm,
            conf=values.get("conf"),
            define=values.get("define"),
            environ=os.environ,
        )
    except YoppError:
        if asked:
            raise
        return  # who reads the configuration says what is wrong with it
    if choice.name != YARN or path in _UNSAID or name in _UNSAID:
        return
    if asked and name != "up":
        raise UsageError(
            f"`yopp {path}` works on this host's own cluster only",
            because=f"it is nothing that YARN's REST API has, and the engine is yarn ({choice.origin})",
            hint="--engine local",
        )
    from .output import Printer

    printer = Printer.of(
        **{one: values[one] for one in ("quiet", "output", "json", "color") if one in values}
    )
    elsewhere = ", ".join(choice.addresses) or "a YARN cluster"
    printer.warn(
        f"`yopp {path}` is about this host's own cluster; commands that look go to {elsewhere} ({choice.origin}): "
        "`yopp engine use local` changes that, --engine local for one command"
    )


def _both() -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("engine", keyword, default=None, annotation=EngineOption),
        inspect.Parameter("rm", keyword, default=None, annotation=Rm),
    ]
