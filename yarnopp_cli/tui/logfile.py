"""A container's output as lines with random access, however long the file or its lines are.

Only the beginnings of lines are kept in memory; their text is read when it is shown, without characters that
act on a terminal. Imports no Textual.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right

from executor.regular import ANY_SIZE, open_regular

from ..views.text import harmless

BLOCK = 1 << 20
STEP = 4 * BLOCK
"""The most bytes that one ``grow`` reads: some 20 ms."""

PIECE = 4096
"""Longer lines are shown in pieces of this many bytes."""

WINDOW = 256 << 20
"""Only this much of the end of a longer file is shown."""

MOST_LINES = 2_000_000
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


class LogFile:
    """One file, which may not exist yet, may grow, and may be truncated. Lines are numbered from 0."""

    def __init__(self, path: str, *, window: int = WINDOW, most_lines: int = MOST_LINES) -> None:
        self.path = path
        self.skipped = 0
        """Bytes at the beginning that are not shown."""
        self._window = window
        self._most_lines = most_lines
        self._starts: array[int] = array("Q")
        self._position = 0
        self._opened = False
        self._ended_with_newline = False

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def position(self) -> int:
        """The byte up to which the file has been read."""
        return self._position

    def grow(self) -> bool:
        """Read what has been written since, at most STEP bytes; whether the lines have changed, also because the file
        was truncated. Raises OSError for a file that cannot be read; a missing file is empty.
        """
        descriptor = self._open()
        if descriptor < 0:
            return False
        try:
            size = os.fstat(descriptor).st_size
            if truncated := size < self._position:
                self._forget()
            if not self._opened:
                self._opened = True
                self._begin(descriptor, size)
            before = self._position
            while self._position - before < STEP and (block := os.pread(descriptor, BLOCK, self._position)):
                self._take(block)
            return truncated or self._position != before
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return open_regular(self.path, most=ANY_SIZE)
        except FileNotFoundError:
            return -1

    def _forget(self) -> None:
        self._starts = array("Q")
        self._position = self.skipped = 0
        self._opened = False

    def _begin(self, descriptor: int, size: int) -> None:
        """Begin at the first line of the window."""
        if size <= self._window:
            return
        at = size - self._window
        newline = os.pread(descriptor, 1 << 16, at).find(b"\n")
        self._position = self.skipped = at + newline + 1

    def _take(self, block: bytes) -> None:
        base = self._position
        starts = self._starts
        at = 0
        if not starts or self._ended_with_newline:
            starts.append(base)
        while at < len(block):
            end = block.find(b"\n", at)
            stop = len(block) if end < 0 else end
            while base + stop - starts[-1] > PIECE:
                starts.append(starts[-1] + self._cut(block, starts[-1] + PIECE - base))
            if end < 0:
                break
            at = end + 1
            if at < len(block):
                starts.append(base + at)
        self._ended_with_newline = block.endswith(b"\n")
        self._position = base + len(block)
        if len(starts) > self._most_lines:
            half = len(starts) // 2
            self.skipped = starts[half]
            self._starts = starts[half:]

    @staticmethod
    def _cut(block: bytes, wanted: int) -> int:
        """The length of a piece that should end at ``wanted`` of the block, shortened so that no UTF-8
        character is cut.
        """
        back = 0
        while back < 3 and 0 < wanted - back < len(block) and block[wanted - back] & 0xC0 == 0x80:
            back += 1
        return PIECE - back

    def lines(self, first: int, count: int) -> list[str]:
        """The text of ``count`` lines from ``first``, harmless, without colours, tabs expanded."""
        first = max(0, first)
        last = min(len(self._starts), first + count)
        if first >= last:
            return []
        begin = self._starts[first]
        end = self._starts[last] if last < len(self._starts) else self._position
        descriptor = self._open()
        if descriptor < 0:
            return []
        try:
            data = os.pread(descriptor, end - begin, begin)
        finally:
            os.close(descriptor)
        bounds = [self._starts[index] - begin for index in range(first, last)] + [end - begin]
        return [shown(data[bounds[index] : bounds[index + 1]]) for index in range(last - first)]

    def find(self, text: str, line: int, *, forward: bool = True) -> int:
        """The next line that contains ``text``, case-insensitively, after (or before) ``line``; else from the
        other end on; -1 if there is none at all. Reads the file: call it in a thread.
        """
        if not text or not self._starts:
            return -1
        pattern = re.compile(re.escape(text.encode()), re.IGNORECASE)
        first, end = self._starts[0], self._position
        at = self._starts[line] if 0 <= line < len(self._starts) else first
        after = self._starts[line + 1] if line + 1 < len(self._starts) else end
        ranges = [(after, end), (first, after)] if forward else [(first, at), (at, end)]
        descriptor = self._open()
        if descriptor < 0:
            return -1
        try:
            for begin, stop in ranges:
                found = _search(descriptor, pattern, begin, stop, len(text.encode()), forward=forward)
                if found >= 0:
                    return bisect_right(self._starts, found) - 1
        finally:
            os.close(descriptor)
        return -1


def _search(
    descriptor: int, pattern: re.Pattern[bytes], begin: int, end: int, length: int, *, forward: bool
) -> int:
    """The position of the first (or last) match in these bytes of the file; -1 for none."""
    starts = range(begin, end, BLOCK)
    for at in starts if forward else reversed(starts):
        data = os.pread(descriptor, min(BLOCK + length - 1, end - at), at)
        found = -1
        for match in pattern.finditer(data):
            found = match.start()
            if forward:
                break
        if found >= 0:
            return at + found
    return -1


def shown(data: bytes) -> str:
    """One line's bytes as text that is safe to show."""
    text = data.rstrip(b"\r\n").decode("utf-8", "replace")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    if "\t" in text:
        text = text.expandtabs(8)
    return harmless(text)
