"""Log files of containers over HTTP: their list, and their content from any byte on.

Reads only regular files directly in a container's own directory, follows no link, and reads no more than is asked for.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Final, NamedTuple

from aiohttp import web

from .http import not_found
from .queries import number, whole

BLOCK: Final = 256 * 1024
POSITION: Final = "X-Log-Position"


class LogFile(NamedTuple):
    """A name, its bytes, and when it was written to last (epoch milliseconds)."""

    name: str
    size: int
    changed_ms: int


def files_of(directory: str) -> list[LogFile]:
    """The regular files in a container's log directory, by name; none if there is no such directory."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    found.append(LogFile(entry.name, facts.st_size, facts.st_mtime_ns // 1_000_000))
    except OSError:
        return []
    # stderr before stdout, as YARN's page has them.
    return sorted(found, key=lambda one: one.name)


def open_file(directory: str, name: str) -> int:
    """A descriptor of one file. Raises 404 for what is not a plain file there."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise not_found("no such log file")
    try:
        descriptor = os.open(
            os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        )
    except OSError:
        raise not_found(
            f"Cannot find log file {name[:100]}: it has not been written, or was removed"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_found("no such log file")
    return descriptor


def span(request: web.Request, size: int) -> tuple[int, int]:
    """Which bytes are wanted: ``size=N`` the first N, ``size=-N`` the last, ``start=N`` those from there on."""
    if (start := number(request, "start")) is not None:
        # A file that is shorter than it was has been begun anew by its writer.
        return (0 if start > size else start), size
    wanted = request.query.get("size", "")
    if not wanted:
        return 0, size
    count = whole("size (negative for the last ones)", wanted.removeprefix("-"))
    return (max(0, size - count), size) if wanted.startswith("-") else (0, min(size, count))


async def send(request: web.Request, directory: str, name: str) -> web.StreamResponse:
    """Send what is asked for of a file as plain text."""
    descriptor = await asyncio.to_thread(open_file, directory, name)
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
                break  # it was cut while it was sent: the caller sees that it is short
            await response.write(block)
            begin += len(block)
        if begin < end:
            response.force_close()
        return response
    finally:
        os.close(descriptor)
