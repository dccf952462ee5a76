"""The commands on a YARN cluster: which there are, what each takes, and the refusal of all others.

Nothing is pretended: what YARN's REST API does not have is exit 1, and an option that it cannot honour is refused
before anything is asked of the cluster.
"""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..client.choice import Choice
from ..client.rest import Rest
from ..client.yarn import YarnEngine
from ..errors import NotYetSupportedError, UsageError
from ..settings.files import user_of
from .frame.output import Printer

Values = Mapping[str, Any]
Function = Callable[[YarnEngine, Printer, Values], int | None]
FORM = frozenset({"json", "output", "quiet", "verbose", "color", "no_progress", "conf", "define"})
"""Parameters that say how to print, and where the engine is named: all commands take them."""
_LIST = frozenset({"sort", "columns", "limit", "watch"})
_SUBMITTED = frozenset(
    {"count", "opportunistic", "guaranteed", "promote", "enforce", "timeout", "detach", "dry_run"}
)


@dataclass(frozen=True, slots=True)
class Handler:
    """What does a command remotely: a function of a module beside this one, and the parameters that it honours."""

    module: str
    function: str
    takes: frozenset[str]


def _looking(function: str, *takes: str) -> Handler:
    return Handler("remote_looking", function, frozenset(takes))


def _acting(function: str, *takes: str) -> Handler:
    return Handler("remote_acting", function, frozenset(takes))


_CONTAINERS = _looking("container_list", "every", "state", "kind", "app", "node", "user", *_LIST)
HANDLERS: dict[str, Handler] = {
    "status": _looking("status"),
    "node list": _looking("node_list", "every", "state", *_LIST),
    "node status": _looking("node_status", "ids"),
    "app list": _looking("app_list", "every", "state", "kind", "tag", "user", "queue", "name", *_LIST),
    "app status": _looking("app_status", "ids"),
    "attempt list": _looking("attempt_list", "application", "sort", "columns", "limit"),
    "attempt status": _looking("attempt_status", "ids"),
    "container list": _CONTAINERS,
    "ps": _CONTAINERS,
    "container status": _looking("container_status", "ids"),
    "queue list": _looking("queue_list", "sort", "columns", "limit"),
    "queue status": _looking("queue_status", "ids"),
    "logs": _looking("logs", "ids", "tail", "stdout", "stderr", "no_prefix", "masters"),
    "app kill": _acting("app_kill", "ids", "dry_run", "no_wait", "timeout", "yes"),
    "app queue": _acting("app_queue", "application", "name"),
    "app priority": _acting("app_priority", "application", "value"),
    "app lifetime": _acting("app_lifetime", "application", "length"),
    "container signal": _acting("container_signal", "ids", "name"),
    "wait": _acting("wait", "ids", "any_of_them", "state", "exit_code", "timeout"),
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
    if not choice.addresses:
        raise UsageError(
            "no ResourceManager is named",
            because=f"the engine is yarn ({choice.origin})",
            hint="--rm http://rm:8088, YOPP_RM, or `yopp engine use yarn --rm URL` for good",
        )
    engine = YarnEngine(rest(choice, printer))
    function: Function = getattr(import_module(f"{__package__}.{handler.module}"), handler.function)
    return function(engine, printer, values)


def rest(choice: Choice, printer: Printer) -> Rest:
    """The calls of the cluster that was chosen, told of as ``-v`` says."""
    return Rest(
        choice.addresses,
        os.environ.get("HADOOP_USER_NAME") or user_of(os.environ),
        trace=printer.note if printer.verbose else None,
        trace_bodies=printer.verbose > 1,
    )


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
