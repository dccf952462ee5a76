"""The journals of launchers, from which a later run of a node learns about containers that were started in slots.

Each slot has one, ``<slot>.journal`` beside the records. The launcher (``launcher.py``) appends to it; a line
counts once it has its newline:

    launcher PID START                   the launcher that writes this journal
    begin CPU THROTTLED KILLS PEAK ID    this container begins; the figures that its cgroup had counted before
    next QUEUED CPU ... ID               the same of one that follows another: when it was queued (epoch, ms)
    pid PID START                        its process
    end CODE                             its exit code, as a shell reports it

Decisions: launchers.
"""

from __future__ import annotations

import codecs
import logging
import math
import os
import signal

from ...errors import StateStoreError, reason_of
from ...light import Record, replace
from ...regular import NotRegularError, read_regular, write_whole
from ..cgroups.slots import SLOT_PREFIX, Baseline
from ..processes import kill_identified
from ..procfs import PIDS, is_alive, send, standing, wait_until

LOG = logging.getLogger(__name__)

SUFFIX = ".journal"
EXIT_CODES = range(256)
STOP_SECONDS = 2.0
"""How long a launcher may take to stop before its journal is read."""


class Begun(Record):
    """A container that a launcher began. ``pid`` is 0 and ``code`` None until they are written.

    ``last``: it is the last one of its slot, so the processes in the slot's cgroup are its own. ``queued_at_ms`` is
    not 0 if it followed another one: it may have begun before its node knew, and recorded, that.
    """

    container_id: str
    slot: str
    launcher: int
    launcher_start: int
    baseline: Baseline
    pid: int = 0
    start: int = 0
    code: int | None = None
    last: bool = False
    queued_at_ms: int = 0


def journal_path(state: str, slot: str) -> str:
    """The path of a slot's journal."""
    return os.path.join(state, slot + SUFFIX)


class Journal(Record):
    """The content of a journal: its launcher, 0 if unknown, and the containers that it began, oldest first."""

    slot: str
    launcher: int = 0
    launcher_start: int = 0
    begun: tuple[Begun, ...] = ()

    def last_of(self, container_id: str) -> Begun | None:
        """The last container of that id; None if there is none."""
        return next((one for one in reversed(self.begun) if one.container_id == container_id), None)


def _text_of(path: str) -> bytes:
    """The text of a journal, empty if there is none. Raises OSError if it cannot be read now."""
    try:
        return read_regular(path)
    except (FileNotFoundError, NotRegularError):
        return b""


def _whole(text: str, within: range = range(2**63)) -> int:
    """The number. Raises ValueError where it is none, or not ``within``: messages have integers of 64 bits."""
    if (number := int(text)) not in within:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    if not 0 <= (number := float(text)) < math.inf:
        raise ValueError(text)
    return number


def read_journal(path: str) -> Journal:
    """The content of a journal; empty if there is none. Invalid lines are ignored.

    Raises OSError if it cannot be read now: a container that has begun must not be taken for one that has not.
    """
    slot = os.path.basename(path).removesuffix(SUFFIX)
    launcher = start = 0
    begun: list[Begun] = []
    for line in _text_of(path).split(b"\n")[:-1]:
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        queued = "0"
        if word == "next":
            word = "begin"
            queued, _, rest = rest.partition(" ")
        try:
            match word, rest.split(" ", 4):
                case "launcher", [one, two]:
                    launcher, start = _whole(one, PIDS), _whole(two)
                case "begin", [cpu, throttled, kills, peak, name]:
                    base = Baseline(_seconds(cpu), _seconds(throttled), _whole(kills), _whole(peak))
                    name, _ = codecs.unicode_escape_decode(name.encode("ascii", "replace"))
                    begun.append(Begun(name, slot, launcher, start, base, queued_at_ms=_whole(queued)))
                case "pid", [one, two] if begun:
                    begun[-1] = replace(begun[-1], pid=_whole(one, PIDS), start=_whole(two))
                case "end", [code] if begun:
                    begun[-1] = replace(begun[-1], code=_whole(code, EXIT_CODES))
        except ValueError:
            LOG.warning("%s has an invalid line: %r", path, line)
    begun[-1:] = [replace(one, last=True) for one in begun[-1:]]
    return Journal(slot, launcher, start, tuple(begun))


def surely(path: str) -> Journal:
    """``read_journal`` for callers that cannot wait until the journal can be read. Raises StateStoreError."""
    try:
        return read_journal(path)
    except OSError as error:
        raise StateStoreError(
            f"cannot read {path}",
            because=reason_of(error),
            hint="it says which containers have begun: start the node again when the disk is well",
        ) from error


def code_of(path: str, container_id: str) -> int | None:
    """The exit code of the last container of that id in a journal; None if there is none. Raises OSError."""
    found = read_journal(path).last_of(container_id)
    return found.code if found is not None else None


def survey(state: str) -> dict[str, Begun]:
    """The containers that the launchers of an earlier run began, by id. An idle launcher is ended.

    Its node has died, but the node's last request may still be on its way to the launcher: the launcher is
    stopped while its journal is read, and is then continued or killed. Blocks. Raises StateStoreError.
    """
    found: dict[str, Begun] = {}
    for path in journals(state):
        journal = surely(path)
        if journal.launcher and is_alive(journal.launcher, journal.launcher_start):
            send(journal.launcher, signal.SIGSTOP)
            if not wait_until(lambda pid=journal.launcher: standing(pid), STOP_SECONDS):  # type: ignore[misc]
                LOG.warning("the launcher %d of %s does not stop", journal.launcher, journal.slot)
            journal = surely(path)
            if journal.begun and journal.begun[-1].code is None:
                send(journal.launcher, signal.SIGCONT)
            else:
                kill_identified(journal.launcher, journal.launcher_start)
        found.update((one.container_id, one) for one in journal.begun)
    return found


def journals(state: str) -> list[str]:
    """The paths of the journals that exist."""
    return [
        os.path.join(state, name)
        for name in os.listdir(state)
        if name.startswith(SLOT_PREFIX) and name.endswith(SUFFIX)
    ]


def forget_launchers(state: str) -> None:
    """After a reboot, remove what these journals say about launchers: it applies to no process any more."""
    for path in journals(state):
        try:
            kept = [line for line in _text_of(path).splitlines(True) if not line.startswith(b"launcher ")]
            write_whole(path, b"".join(kept))
        except OSError as error:
            LOG.warning("cannot change %s: %s", path, error.strerror)


def remove_journal(path: str) -> None:
    """Remove a journal, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        LOG.warning("cannot remove %s: %s", path, error.strerror)
