"""Log files of containers over HTTP: the list of files, and their content from any byte on.

Reads only regular files directly in a container's own directory, follows no link, and reads no more than
requested.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from itertools import islice
from typing import Final, NamedTuple

from aiohttp import web

from executor.regular import ANY_SIZE, open_regular

from .http import caller, is_owner, not_found, require_owner
from .queries import WHOLE, number, whole

BLOCK: Final = 256 * 1024
MOST_FILES: Final = 200
"""The maximum number of listed files of a container."""
POSITION: Final = "X-Log-Position"
PARAMETERS = {"start": WHOLE, "size": {"type": "integer"}}
"""The parameters that select the bytes of a file, as ``span`` reads them."""


class ListedLogFile(NamedTuple):
    """A file's name, its size in bytes, and the time of its last change (epoch milliseconds)."""

    name: str
    size: int
    changed_ms: int


def files_of(directory: str, most: int = MOST_FILES) -> tuple[list[ListedLogFile], bool]:
    """The regular files in a container's log directory, by name, and whether there are more: a container can make any
    number of entries, of which the first ``most`` are examined, and stderr and stdout. Blocks."""
    found = []
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, most + 1)]
    except OSError:
        return [], False
    for name in dict.fromkeys(("stderr", "stdout", *names[:most])):
        with contextlib.suppress(OSError):
            facts = os.lstat(os.path.join(directory, name))
            if stat.S_ISREG(facts.st_mode):
                found.append(ListedLogFile(name, facts.st_size, facts.st_mtime_ns // 1_000_000))
    # stderr before stdout, as on YARN's page.
    return sorted(found, key=lambda one: one.name), len(names) > most


def open_file(directory: str, name: str, owner: int = -1) -> int:
    """A descriptor of one file. Raises 404 if it is not a regular file in the directory, or not owned by
    ``owner`` (-1: any).
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise not_found("no such log file")
    try:
        descriptor = open_regular(os.path.join(directory, name), most=ANY_SIZE)
    except OSError:
        raise not_found(
            f"Cannot find log file {name[:100]}: it has not been written, or was removed"
        ) from None
    if owner not in (-1, os.fstat(descriptor).st_uid):
        os.close(descriptor)
        raise not_found("no such log file")
    return descriptor


def span(request: web.Request, size: int) -> tuple[int, int]:
    """The requested bytes: ``size=N`` the first N, ``size=-N`` the last N, ``start=N`` those from byte N on."""
    if (start := number(request, "start")) is not None:
        # A file shorter than before has been truncated and rewritten by its writer.
        return (0 if start > size else start), size
    wanted = request.query.get("size", "")
    if not wanted:
        return 0, size
    count = whole("size (negative for the last ones)", wanted.removeprefix("-"))
    return (max(0, size - count), size) if wanted.startswith("-") else (0, min(size, count))


def require_reader(request: web.Request, directory: str, logs: str) -> int:
    """Raise 403 unless the caller may read this log directory. Returns the owner of the readable files: -1 (any) for
    the cluster's owner; else the caller's uid, for a directory of this user below the node's own ``logs``, to which no
    other user can write.
    """
    uid = caller(request)
    if not is_owner(request) and uid > 0 and logs and directory.startswith(f"{logs.rstrip('/')}/"):
        with contextlib.suppress(OSError):
            facts = os.lstat(directory)
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == uid:
                return uid
    require_owner(request, "containers' output")
    return -1


async def send(request: web.Request, directory: str, name: str, owner: int = -1) -> web.StreamResponse:
    """Send the requested bytes of a file as plain text; with ``owner`` only if that user owns the file."""
    descriptor = await asyncio.to_thread(open_file, directory, name, owner)
    try:
        begin, end = span(request, os.fstat(descriptor).st_size)
        response = web.StreamResponse(
            headers={"Content-Type": "text/plain; charset=utf-8", POSITION: str(end)}
        )
        response.content_length = end - begin
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        while begin < end:
            block = await asyncio.to_thread(os.pread, descriptor, min(BLOCK, end - begin), begin)
            if not block:
                break  # The file was truncated meanwhile: the caller notices that the answer is too short.
            await response.write(block)
            begin += len(block)
        if begin < end:
            response.force_close()
        return response
    finally:
        os.close(descriptor)
