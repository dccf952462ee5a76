"""``--engine`` and ``--rm``, added to the commands that they concern, and what they lead to.

No command declares them: they are put into the signature of each as it is loaded, and a command whose engine is YARN is
never called; ``remote`` does what YARN's REST API can do of it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from ...errors import NotYetSupportedError, UsageError, YoppError
from ..table import COMMANDS
from .options import HERE_ONLY, EngineOption, Rm
from .output import Printer

if TYPE_CHECKING:
    from ...client.choice import Choice
    from ...client.yarn import YarnRestClient

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
        name = path.partition(" ")[0]
        choice = None
        if name not in HERE:
            choice = choice_of(values)
        elif name not in _UNSAID and path not in _UNSAID:
            forms = {one: values[one] for one in ("quiet", "output", "json", "color") if one in values}
            tell_that_it_is_here(path, values, Printer.of(**forms))
        del values["engine"], values["rm"]
        if choice is None or choice.name != "yarn":
            return callback(**values)
        if path != "status":
            raise not_on_yarn(path, choice)
        from ..lifecycle.yarn_status import report

        printer = Printer.of(**{one: values[one] for one in ("quiet", "output", "json", "color", "verbose")})
        check_remote(path, choice, values["run_dir"], ())
        return report(printer, connected(choice, printer))

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


def choice_of(values: Mapping[str, Any]) -> Choice:
    """The engine that a command line means. Raises UsageError, ConfigurationError."""
    from ...client.choice import choose  # the frame itself imports no more than help needs

    engine = values.get("engine")
    return choose(
        getattr(engine, "value", engine),
        values.get("rm"),
        conf=values.get("conf"),
        define=values.get("define"),
        environ=os.environ,
    )


def not_on_yarn(path: str, engine: Choice) -> NotYetSupportedError:
    """The error of a command that works on this host's clusters only."""
    return NotYetSupportedError(
        f"`yopp {path}` works on this host's clusters only",
        because=f"it is not in YARN's REST API, and the engine is yarn ({engine.origin})",
        hint="--engine local",
    )


def check_remote(path: str, engine: Choice, run_dir: str | None, given: Iterable[tuple[Any, Any]]) -> None:
    """Refuse what a YARN cluster cannot honour, and one that is named nowhere, before anything is asked of it.

    ``given``: options of this host only, each with its value. Raises UsageError.
    """
    if run_dir is not None:
        raise _cannot_honour(path, "--run-dir", HERE_ONLY.because)
    for option, value in given:
        if value not in (option.default, None, False, [], ()):
            raise _cannot_honour(path, option.spelling, option.mark.because)
    if not engine.addresses:
        raise UsageError(
            "no ResourceManager is named",
            because=f"the engine is yarn ({engine.origin})",
            hint="--rm http://rm:8088, YOPP_RM, or `yopp engine use yarn --rm URL` for good",
        )


def _cannot_honour(path: str, spelling: str, because: str) -> UsageError:
    return UsageError(
        f"`yopp {path}` cannot honour {spelling} on YARN",
        because=because,
        hint="leave it away, or --engine local",
    )


def connected(engine: Choice, printer: Printer) -> YarnRestClient:
    """A client of the YARN cluster that was chosen; its calls are told of as ``-v`` says."""
    from ...client.rest import Rest
    from ...client.yarn import YarnRestClient
    from ...settings.files import user_of

    rest = Rest(
        engine.addresses,
        os.environ.get("HADOOP_USER_NAME") or user_of(os.environ),
        trace=printer.note if printer.verbose else None,
        trace_bodies=printer.verbose > 1,
    )
    return YarnRestClient(rest, printer.warn)


def tell_that_it_is_here(path: str, values: Mapping[str, Any], printer: Printer) -> None:
    """Where the engine is YARN, say that this command is about this host's own cluster all the same.

    Who names YARN on this very line does not mean this cluster: UsageError, but for ``up``.
    """
    asked = values.get("engine") is not None or bool(values.get("rm"))
    try:
        choice = choice_of(values)
    except YoppError:
        if asked:
            raise
        return  # who reads the configuration says what is wrong with it
    if choice.name != "yarn":
        return
    if asked and path != "up":
        raise UsageError(
            f"`yopp {path}` works on this host's own cluster only",
            because=f"it is nothing that YARN's REST API has, and the engine is yarn ({choice.origin})",
            hint="--engine local",
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
