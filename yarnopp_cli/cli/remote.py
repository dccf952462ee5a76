"""The commands on a YARN cluster: which there are, what each takes, and the refusal of all others.

Nothing is pretended: what YARN's REST API does not have is exit 1, and an option that it cannot honour is refused
before anything is asked of the cluster.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..client.choice import Choice
from ..client.yarn import YarnRestClient
from ..errors import NotYetSupportedError, UsageError
from .frame.engine_options import check_remote, connected
from .frame.output import Printer

Values = Mapping[str, Any]
Function = Callable[[YarnRestClient, Printer, Values], int | None]
FORM = frozenset({"json", "output", "quiet", "verbose", "color", "no_progress", "conf", "define"})
"""Parameters that say how to print, and where the engine is named: all commands take them."""
_SUBMITTED = frozenset(
    {"count", "opportunistic", "guaranteed", "promote", "enforce", "timeout", "detach", "dry_run"}
)


@dataclass(frozen=True, slots=True)
class Handler:
    """What does a command remotely: a function of a module beside this one, and the parameters that it honours."""

    module: str
    function: str
    takes: frozenset[str]


HANDLERS: dict[str, Handler] = {
    "status": Handler("remote_looking", "status", frozenset()),
    "logs": Handler(
        "remote_looking",
        "logs",
        frozenset({"ids", "tail", "stdout", "stderr", "no_prefix", "masters"}),
    ),
    "wait": Handler(
        "remote_looking", "wait", frozenset({"ids", "any_of_them", "state", "exit_code", "timeout"})
    ),
    "run": Handler(
        "jobs.remote_jobs",
        "run",
        _SUBMITTED | {"command", "memory", "vcores", "env", "name", "retries", "priority", "queue", "tag"},
    ),
    "dshell": Handler(
        "jobs.remote_jobs",
        "dshell",
        _SUBMITTED
        | {
            *("argv", "shell_command", "shell_args", "shell_env", "container_type", "container_memory"),
            *("container_vcores", "container_resources", "shell_cmd_priority", "container_retry_policy"),
            *("container_retry_error_codes", "container_max_retries", "container_retry_interval", "appname"),
            *("queue", "priority", "application_tags", "master_memory", "master_vcores", "master_resources"),
            *("keep_containers", "node_label_expression", "debug", "jar"),
        },
    ),
    "pi": Handler("jobs.remote_jobs", "pi", frozenset({"maps", "samples", "percent", "dry_run"})),
}


def run(path: str, choice: Choice, values: Values, signature: inspect.Signature) -> int | None:
    """Do a command on the cluster that was chosen; its exit code. Raises YoppError."""
    printer = Printer.of(**{name: values[name] for name in FORM - {"conf", "define"} if name in values})
    handler = HANDLERS.get(path)
    if handler is None:
        raise NotYetSupportedError(
            f"`yopp {path}` works on this host's clusters only",
            because=f"it is not in YARN's REST API, and the engine is yarn ({choice.origin})",
            hint="--engine local",
        )
    for name, value in values.items():
        default = _default(signature, name)
        if name not in handler.takes | FORM and value not in (default, None, False, [], ()):
            raise _refused(path, signature, name)
    check_remote(path, choice, None, ())
    engine = connected(choice, printer)
    function: Function = getattr(import_module(f"{__package__}.{handler.module}"), handler.function)
    return function(engine, printer, values)


def _default(signature: inspect.Signature, name: str) -> Any:
    parameter = signature.parameters.get(name)
    return None if parameter is None else parameter.default


def _refused(path: str, signature: inspect.Signature, name: str) -> UsageError:
    return UsageError(
        f"`yopp {path}` cannot honour {_spelling(signature, name)} on YARN",
        because="it is nothing that Hadoop's distributed shell can do without an upload"
        if path in ("run", "dshell")
        else "YARN's REST API has no such thing",
        hint="leave it away, or --engine local",
    )


def _spelling(signature: inspect.Signature, name: str) -> str:
    """The longest spelling of a parameter's option."""
    parameter = signature.parameters.get(name)
    for info in typing.get_args(parameter.annotation)[1:] if parameter is not None else ():
        # In an annotation, typer's first spelling stands where a default would.
        given = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
        spellings = [one.partition("/")[0] for one in given if isinstance(one, str) and one[:1] == "-"]
        if spellings:
            return max(spellings, key=len)
    return name
