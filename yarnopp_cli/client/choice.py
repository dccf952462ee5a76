"""The engine that a command line selects, and the origin of the choice. Reads configuration files only if one may name
an engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from executor.light import Record

from ..errors import UsageError, YoppError

LOCAL, YARN = "local", "yarn"
NAMES = (LOCAL, YARN)
NAME_PROPERTY = "yopp.engine.name"
ADDRESSES_PROPERTY = "yopp.engine.rm-addresses"
ENGINE_VARIABLE, RM_VARIABLE = "YOPP_ENGINE", "YOPP_RM"
DEFAULT_PORTS = {"http": 8088, "https": 8090}
"""The default ports of YARN's ``yarn.resourcemanager.webapp.address`` and ``…webapp.https.address``."""


class Choice(Record):
    """An engine, the URLs of its ResourceManagers (none for ``local``), and the origin of each.

    An origin is an option, an environment variable, "file:line", or "default".
    """

    name: str = LOCAL
    origin: str = "default"
    addresses: tuple[str, ...] = ()
    addresses_origin: str = ""


def choose(
    engine: str | None,
    rm: Sequence[str] | None,
    *,
    conf: Sequence[str] | None,
    define: Sequence[str] | None,
    environ: Mapping[str, str],
) -> Choice:
    """The engine of ``--engine`` and ``--rm``, else of ``YOPP_ENGINE`` and ``YOPP_RM``, else of the
    configuration.

    A ResourceManager without an engine means YARN. Raises UsageError, ConfigurationError.
    """
    configured = _configured(conf or (), define or (), environ)
    named = [one for text in rm or () for one in text.split(",") if one.strip()]
    from_variable = environ.get(RM_VARIABLE, "")
    if engine == LOCAL and named:
        raise UsageError.exclusive(
            "--engine local and --rm",
            "this host's cluster is found by its run directory",
            hint="--run-dir names another one",
        )
    if engine:
        name, origin = engine, "--engine"
    elif named:
        name, origin = YARN, "--rm"
    elif environ.get(ENGINE_VARIABLE):
        name, origin = environ[ENGINE_VARIABLE], ENGINE_VARIABLE
    elif from_variable:
        name, origin = YARN, RM_VARIABLE
    else:
        name, origin = configured.name, configured.origin
    if name not in NAMES:
        raise UsageError(
            f"{origin}: there is no engine {name}",
            because="the engines are local and yarn",
            hint="`yopp engine list`",
        )
    if name == LOCAL:
        return Choice(LOCAL, origin)
    if named:
        return Choice(name, origin, addresses(named), "--rm")
    if from_variable:
        return Choice(name, origin, addresses(from_variable.split(",")), RM_VARIABLE)
    return Choice(name, origin, configured.addresses, configured.addresses_origin)


def addresses(texts: Sequence[str]) -> tuple[str, ...]:
    """Base URLs without a trailing slash, from ``host``, ``host:port`` or URLs. Raises UsageError."""
    return tuple(dict.fromkeys(_address(text.strip()) for text in texts if text.strip()))


def _address(text: str) -> str:
    import urllib.parse  # not needed with the local engine

    try:
        parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise _no_address(text, str(error)) from None
    if parts.scheme not in DEFAULT_PORTS:
        raise _no_address(text, f"{parts.scheme} is neither http nor https")
    if not parts.hostname or not parts.hostname.isascii() or any(one in text for one in ' \t\r\n"<>\\\0'):
        raise _no_address(text, "it has no host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise _no_address(text, "it must not have a user, a query or a fragment")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/ws/v1/cluster").removesuffix("/cluster")
    return f"{parts.scheme}://{host}:{port or DEFAULT_PORTS[parts.scheme]}{path}"


def _no_address(text: str, because: str) -> UsageError:
    return UsageError(
        f"{text!r} is not the address of a ResourceManager",
        because=because,
        hint="--rm http://rm.example.org:8088",
    )


def _configured(conf: Sequence[str], define: Sequence[str], environ: Mapping[str, str]) -> Choice:
    """The engine that the configuration names. The files are parsed only if one contains the word: few do."""
    if not any("yopp.engine" in text for text in define) and not _mentioned(conf, environ):
        return Choice()
    from ..settings.loading import load

    configuration = load(conf, define, environ=environ, state_dir="/")
    name = str(configuration.value(NAME_PROPERTY))
    texts = str(configuration.value(ADDRESSES_PROPERTY)).split(",")
    return Choice(
        name,
        configuration.origin(NAME_PROPERTY),
        addresses(texts),
        configuration.origin(ADDRESSES_PROPERTY),
    )


def _mentioned(conf: Sequence[str], environ: Mapping[str, str]) -> bool:
    from ..settings.files import LARGEST_FILE, chosen_files

    try:
        files = chosen_files(conf, environ)
    except YoppError:
        return False  # The command that loads the configuration reports the error.
    for path in files:
        if not os.path.isfile(path):
            continue
        try:
            with open(path, "rb") as file:
                if b"engine" in file.read(LARGEST_FILE):
                    return True
        except OSError:
            continue
    return False
