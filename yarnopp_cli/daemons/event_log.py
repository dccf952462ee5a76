"""The RM's events in files: what ``yopp events`` remembers outlives the RM with its state.

``events.log`` has a line of JSON an event, in the order of their numbers. When it has as many as the RM remembers, it
becomes ``events.log.1``, and another begins: both together have what is remembered. All events of one turn of the loop
are one write, before anybody is told of them. A file that takes none is given up until the RM ends: the next life's
numbers begin above the bound that its state has.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence

import msgspec

from ..errors import reason_of
from ..records.history import HistoryEvent
from ..rpc.codec import encode

LOG = logging.getLogger(__name__)

EARLIER = ".1"
"""The suffix of the file before."""


class EventLog:
    """The files at ``path``; ``size`` is how many events are remembered, 0 for none: then nothing is written."""

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._lines = 0
        self._fd = -1
        self._decoder = msgspec.json.Decoder(HistoryEvent)

    def load(self) -> list[HistoryEvent]:
        """What is written, the newest ``size`` at most: the last events whose numbers have no gap. The file is open for
        more afterwards.
        """
        if not self._size:
            return []
        earlier, _ = self._read(self._path + EARLIER)
        found, length = self._read(self._path)
        self._lines = len(found)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._open()
            os.ftruncate(self._fd, length)  # a line that was torn is none
        except OSError as error:
            self._give_up(error)
        events = [*earlier, *found]
        for place in range(len(events) - 1, 0, -1):
            if events[place - 1].seq != events[place].seq - 1:
                events = events[place:]
                break
        return events[-self._size :]

    def append(self, events: Sequence[HistoryEvent]) -> None:
        """Write these, which follow what is written."""
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
        """Write nothing more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)

    def _read(self, path: str) -> tuple[list[HistoryEvent], int]:
        """The events of one file up to the first line that is none, and how many bytes those are."""
        try:
            with open(path, "rb") as file:
                lines = file.read().split(b"\n")[:-1]
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
        """Without the last ones, the rest would give their numbers to others."""
        LOG.error(
            "%s cannot be written; the next ResourceManager starts without events: %s",
            self._path,
            reason_of(error),
        )
        self.close()
        for suffix in ("", EARLIER):
            with contextlib.suppress(OSError):
                os.unlink(self._path + suffix)
