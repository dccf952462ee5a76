"""The configuration files: their places, and reading them. The only module of the settings that opens files."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Mapping, Sequence

from ..errors import ConfigurationError
from .entries import Reading
from .plain_toml import read_plain
from .suggest import printable_path

LARGEST_FILE = 4 * 1024 * 1024
"""Bytes. A site file has a few thousand; a larger file is something else, or a device."""

SHIPPED_SITE = os.path.realpath(os.path.join(os.path.dirname(__file__), "yarn-site.toml"))
"""The local site that comes with yopp: in the source tree a link to ``configs/yarn-site.toml``."""

SYSTEM_SITE = "/etc/yopp/yarn-site.toml"
FILES_OF_A_DIRECTORY = ("mapred-site.xml", "yarn-site.xml", "yarn-site.toml")
"""The files that ``--conf DIR`` reads, in this order: Hadoop's own files first, ours over them."""


def home_of(environ: Mapping[str, str]) -> str:
    """The user's home directory: HOME, or the password file if HOME is empty (cron, ``env -i``)."""
    if environ.get("HOME"):
        return environ["HOME"]
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def user_of(environ: Mapping[str, str]) -> str:
    """The user's name: from the password file, else from the environment, else the uid."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return environ.get("USER") or str(os.getuid())


def candidate_sites(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of a site, in order of search, if neither ``--conf`` nor ``YOPP_CONF`` names one."""
    return (
        os.path.join(home_of(environ), ".config/yopp/yarn-site.toml"),
        SYSTEM_SITE,
        SHIPPED_SITE,
    )


def named_files(conf: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The files and directories that ``--conf`` or else ``YOPP_CONF`` names, separated by colons."""
    return list(conf) or [path for path in environ.get("YOPP_CONF", "").split(":") if path]


def chosen_files(conf: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The files to read, first to last: the named ones, or else the site that is found.

    A directory stands for the files in it that yopp reads.

    Raises ConfigurationError if a named directory contains none of them.
    """
    named = named_files(conf, environ)
    if not named:
        return [next((path for path in candidate_sites(environ) if _exists(path)), SHIPPED_SITE)]
    files: list[str] = []
    for path in named:
        if not os.path.isdir(path):
            files.append(path)
            continue
        inside = [os.path.join(path, name) for name in FILES_OF_A_DIRECTORY]
        present = [candidate for candidate in inside if _exists(candidate)]
        if not present:
            raise ConfigurationError(
                f"{printable_path(path)}: no configuration in this directory",
                because=f"it contains none of {', '.join(FILES_OF_A_DIRECTORY)}",
                hint="name a file, or the directory of a yarn-site.toml or yarn-site.xml",
            )
        files.extend(present)
    return files


def read_file(path: str, text: str | None = None) -> Reading:
    """The entries of one configuration file, or of ``text`` instead: TOML or XML by the file's name, else by the first
    character. Errors are part of the reading; no exception is raised.
    """
    try:
        content = _content(path) if text is None else text.encode()
    except ConfigurationError as error:
        return Reading(error)
    if path.endswith(".xml") or (not path.endswith(".toml") and content.lstrip()[:1] == b"<"):
        from .xml import read_xml

        return read_xml(content, path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        problem = ConfigurationError(
            f"{printable_path(path)}:{line}:{column}: not UTF-8",
            because=f"byte 0x{content[error.start]:02x} is not valid there",
            hint="save the file as UTF-8",
        )
        return Reading(problem)
    plain = read_plain(text, path)
    if plain is not None:
        return plain
    from .toml import read_toml  # Importing it takes 10 ms.

    return read_toml(text, path)


def check_file(path: str) -> None:
    """Raises ConfigurationError for a file that cannot be read; its content does not matter."""
    _content(path)


def _exists(path: str) -> bool:
    # A home directory that may not be entered (sudo -u with HOME kept) has no site for this user.
    try:
        os.stat(path)
    except (OSError, ValueError):
        return False
    return True


def _content(path: str) -> bytes:
    shown = printable_path(path)
    try:
        with open(path, "rb") as file:
            device = stat.S_ISCHR(os.fstat(file.fileno()).st_mode) and path != os.devnull
            content = b"" if device else file.read(LARGEST_FILE + 1)
    except ValueError as error:  # A NUL in the path.
        raise ConfigurationError(
            f"{shown}: cannot read this file",
            because=str(error),
            hint="name a file or directory that can be read",
        ) from None
    except OSError as error:
        hint = {
            errno.ENOENT: "see `yopp config path` for the files that yopp looks for",
            errno.EACCES: f"ls -l {shown}",
        }.get(error.errno or 0, "")
        because = (error.strerror or "it cannot be read").lower()
        raise ConfigurationError(f"{shown}: cannot read this file", because=because, hint=hint) from None
    if device or len(content) > LARGEST_FILE:
        raise ConfigurationError(
            f"{shown}: not a configuration file",
            because="it is a device" if device else f"it has more than {LARGEST_FILE} bytes",
            hint="`yopp config check FILE` reads one; `yopp man yarn-site.toml` describes the format",
        )
    return content
