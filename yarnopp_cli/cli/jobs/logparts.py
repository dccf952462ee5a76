"""Other views of log files: their first or last bytes, and which there are (YARN's ``-size``, ``…log_info``)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...views.columns import Column
from ...views.text import timestamp
from .logfiles import STREAMS, open_plain, plain_status

if TYPE_CHECKING:
    from ..frame.output import Printer
    from .logs import Target


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of one container; ``written_ms`` in epoch milliseconds."""

    container: str
    name: str
    path: str
    size: int
    written_ms: int


COLUMNS: tuple[Column[LogFile], ...] = (
    Column("container", "CONTAINER", lambda one: one.container),
    Column("file", "LOG FILE", lambda one: one.name),
    Column("size", "SIZE", lambda one: one.size, numeric=True),
    Column("written", "LAST WRITTEN", lambda one: one.written_ms, lambda one: timestamp(one.written_ms)),
    Column("path", "PATH", lambda one: one.path, flexible=True),
)


def files_of(target: Target, names: tuple[str, ...]) -> list[LogFile]:
    """The log files that there are, container by container."""
    directories, _ = target.look()
    found = []
    for container, directory in directories.items():
        for name in STREAMS:
            path = os.path.join(directory, name)
            status = plain_status(path)
            if status is not None and name in names:
                found.append(LogFile(container, name, path, status.st_size, status.st_mtime_ns // 1_000_000))
    return found


def document(one: LogFile) -> dict[str, Any]:
    """YARN's ContainerLogFileInfo, with whose it is."""
    return {
        "container": one.container,
        "fileName": one.name,
        "fileSize": str(one.size),
        "lastModifiedTime": timestamp(one.written_ms),
        "yopp": {"path": one.path, "size": one.size, "writtenAt": one.written_ms},
    }


def list_files(printer: Printer, target: Target, names: tuple[str, ...]) -> None:
    """Print which log files there are."""
    printer.listing(
        files_of(target, names),
        COLUMNS,
        documents=lambda rows: {"containerLogInfo": [document(one) for one in rows]},
        document=document,
        identity=lambda one: one.path,
        empty="no log files yet",
    )


def print_bytes(printer: Printer, target: Target, names: tuple[str, ...], size: int) -> None:
    """Print the first ``size`` bytes of each file, or the last ones of a negative ``size``."""
    found = [one for one in files_of(target, names) if one.size]
    for one in found:
        descriptor = open_plain(one.path)
        if descriptor is None:
            continue
        try:
            with os.fdopen(descriptor, "rb") as file:
                if size < 0:
                    file.seek(max(0, one.size + size))
                data = file.read(abs(size))
        except OSError:
            continue
        if len(found) > 1:
            printer.text(f"==> {one.container} {one.name} <==")
        printer.raw(data)
        if len(found) > 1 and data and not data.endswith(b"\n"):
            printer.raw(b"\n")
