"""``--engine`` and ``--rm``, added to the commands that they concern, and what they lead to.

No command declares them: they are put into the signature of each as it is loaded, and a command whose engine is YARN is
never called; ``remote`` does what YARN's REST API can do of it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import typer

from .options import EngineOption, Rm
from .table import COMMANDS

SECTIONS = frozenset({"Jobs", "Looking"})
OTHERS = frozenset({"status", "rmadmin", "top", "metrics"})
ALWAYS_HERE = frozenset({"man", "completion", "version"})
"""Commands that look at no cluster, whatever their section."""


def concerns(name: str) -> bool:
    """Whether a command (or a group) looks at a cluster, or runs something on it."""
    entry = COMMANDS[name]
    return (entry.section in SECTIONS or name in OTHERS) and name not in ALWAYS_HERE


def offer(holder: typer.Typer, name: str) -> None:
    """Add the options to the command ``name`` of ``holder``, or to each below the group of that name."""
    if not concerns(name):
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
        from ..engines.choice import YARN, choose  # the frame itself imports no more than help needs

        engine, rm = values.pop("engine"), values.pop("rm")
        choice = choose(
            engine.value if engine is not None else None,
            rm,
            conf=values.get("conf"),
            define=values.get("define"),
            environ=os.environ,
        )
        if choice.name != YARN:
            return callback(**values)
        from .remote import run

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


def _both() -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("engine", keyword, default=None, annotation=EngineOption),
        inspect.Parameter("rm", keyword, default=None, annotation=Rm),
    ]
