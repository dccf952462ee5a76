"""The RM's events in files: the history shown by ``yopp events`` outlives the RM, as its state does.

``events.log`` has one line of JSON per event, in the order of the sequence numbers. When it has as many as
the RM remembers, it becomes ``events.log.1``, and a new file begins: the two together hold the remembered
events. All events of one turn of the loop are one write, before any client receives them. If a write fails,
the files are removed, and no more events are written until the RM ends; the next RM numbers its events from
above the bound in the stored state.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence

import msgspec

from executor.regular import LARGEST, open_regular, read_regular, set_strange_aside

from ..errors import reason_of
from ..records.history import HistoryEvent
from ..rpc.codec import encode

LOG = logging.getLogger(__name__)

EARLIER = ".1"
"""The suffix of the previous file."""


class EventLog:
    """The files at ``path``; ``size`` is the number of remembered events; with 0 nothing is written."""

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._lines = 0
        self._fd = -1
        self._decoder = msgspec.json.Decoder(HistoryEvent)

    def load(self) -> list[HistoryEvent]:
        """The stored events: the last ones without a gap in their numbers, at most the newest ``size``.
        Opens the file for appending.
        """
        if not self._size:
            return []
        for told in set_strange_aside(self._path + EARLIER, self._path, most=LARGEST):
            LOG.error("%s", told)
        earlier, _ = self._read(self._path + EARLIER)
        found, length = self._read(self._path)
        self._lines = len(found)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._open()
            os.ftruncate(self._fd, length)  # drop an incomplete last line
        except OSError as error:
            self._give_up(error)
        events = [*earlier, *found]
        for place in range(len(events) - 1, 0, -1):
            if events[place - 1].seq != events[place].seq - 1:
                events = events[place:]
                break
        return events[-self._size :]

    def append(self, events: Sequence[HistoryEvent]) -> None:
        """Append events, whose numbers follow those in the file."""
        if self._fd < 0 or not events:
            return
        try:
            text = b"".join(encode(event) + b"\n" for event in events)
            if os.write(self._fd, text) < len(text):
                raise OSError("it was written only in part")
            self._lines += len(events)
            if self._lines >= self._size:
                os.close(self._fd)
                self._fd = -1
                os.replace(self._path, self._path + EARLIER)
                self._open()
                self._lines = 0
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file; later events are not written."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._fd = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _read(self, path: str) -> tuple[list[HistoryEvent], int]:
        """The events of one file up to the first invalid line, and their length in bytes."""
        try:
            lines = read_regular(path).split(b"\n")[:-1]
        except OSError:
            return [], 0
        found, length = [], 0
        for line in lines:
            try:
                found.append(self._decoder.decode(line))
            except (msgspec.MsgspecError, ValueError, RecursionError):
                break
            length += len(line) + 1
        return found, length

    def _give_up(self, error: OSError) -> None:
        """Remove the files: without the events that could not be written, the next RM would reuse
        their numbers."""
        LOG.error(
            "%s cannot be written; the next ResourceManager starts without events: %s",
            self._path,
            reason_of(error),
        )
        self.close()
        for suffix in ("", EARLIER):
            with contextlib.suppress(OSError):
                os.unlink(self._path + suffix)
