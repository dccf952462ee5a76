"""The effect of ``--engine`` and ``--rm``: a client of a YARN cluster, or the refusal of unsupported commands and
options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from executor.hints import TYPE_CHECKING, Any

from ...errors import NotYetSupportedError, UsageError, YoppError
from .options import HERE_ONLY, HereOnly
from .output import Printer

if TYPE_CHECKING:
    from ...client.choice import Choice
    from ...client.yarn import YarnClient


HereOnlyOption = tuple[str, Any, str, HereOnly]
"""An option that a YARN cluster cannot honour: its name, its default, its spelling, and the reason."""


def choice_of(values: Mapping[str, Any]) -> Choice:
    """The engine that a command line selects. Raises UsageError, ConfigurationError."""
    from ...client.choice import choose  # The frame itself imports only the modules that help needs.

    engine = values.get("engine")
    return choose(
        getattr(engine, "value", engine),
        values.get("rm"),
        conf=values.get("conf"),
        define=values.get("define"),
        environ=os.environ,
    )


def check_remote(
    path: str, engine: Choice, values: Mapping[str, Any], limits: Iterable[HereOnlyOption] | None
) -> None:
    """Refuse options that a YARN cluster does not support, and a missing address, before any call.

    ``limits``: options for this host only; None if the whole command is for this host only. Raises
    NotYetSupportedError, UsageError.
    """
    if limits is None:
        raise NotYetSupportedError(
            f"`yopp {path}` works on this host's clusters only",
            because=f"it is not in YARN's REST API, and the engine is yarn ({engine.origin})",
            hint="--engine local",
        )
    refused = [("--run-dir", HERE_ONLY)] if values["run_dir"] is not None else []
    for name, default, spelling, mark in limits:
        if values[name] not in (default, None, False, [], ()):
            refused.append((spelling, mark))
    for spelling, mark in refused[:1]:
        raise UsageError(
            f"`yopp {path}` cannot honour {spelling} on YARN",
            because=mark.because,
            hint="leave it out, or use --engine local",
        )
    if not engine.addresses:
        raise UsageError(
            "no ResourceManager is configured",
            because=f"the engine is yarn ({engine.origin})",
            hint="--rm http://rm:8088, YOPP_RM, or `yopp engine use yarn --rm URL` for good",
        )


def connected(engine: Choice, printer: Printer) -> YarnClient:
    """A client of the chosen YARN cluster; ``-v`` logs its calls."""
    from ...client.rest import Rest
    from ...client.yarn import YarnClient
    from ...settings.files import user_of

    rest = Rest(
        engine.addresses,
        os.environ.get("HADOOP_USER_NAME") or user_of(os.environ),
        trace=printer.note if printer.verbose else None,
        trace_bodies=printer.verbose > 1,
    )
    return YarnClient(rest, printer.warn)


def tell_that_it_is_here(path: str, values: Mapping[str, Any], printer: Printer) -> None:
    """If the engine is YARN, print that this command nevertheless works on this host's cluster.

    Raises UsageError if the command line itself names YARN, except for ``up``.
    """
    asked = values.get("engine") is not None or bool(values.get("rm"))
    try:
        choice = choice_of(values)
    except YoppError:
        if asked:
            raise
        return  # The code that reads the configuration reports its errors.
    if choice.name != "yarn":
        return
    if asked and path != "up":
        raise UsageError(
            f"`yopp {path}` works on this host's own cluster only",
            because=f"YARN's REST API does not have it, and the engine is yarn ({choice.origin})",
            hint="--engine local",
        )
    elsewhere = ", ".join(choice.addresses) or "a YARN cluster"
    printer.warn(
        f"`yopp {path}` is about this host's own cluster; commands that read a cluster ask {elsewhere} "
        f"({choice.origin}): `yopp engine use local` changes that, or --engine local for one command"
    )
