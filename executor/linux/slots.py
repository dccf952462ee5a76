"""The journals of launchers: what a later run of a node learns of containers that were started in slots.

Each slot has one, ``<slot>.journal`` beside the records. The launcher (``launcher.py``) appends to it; a line counts
once it is whole:

    launcher PID START                   whose journal it is
    begin CPU THROTTLED KILLS PEAK ID    this container has begun; the figures that its group had counted before
    pid PID START                        its process
    end CODE                             its exit code, as a shell tells it

Decisions: slots, slot-journal.
"""

from __future__ import annotations

import logging
import os
import signal

from ..errors import StateStoreError
from ..light import Record, replace
from ..regular import NotRegularError, read_regular
from .cgroups.slots import SLOT_PREFIX, Baseline
from .procfs import is_alive, send, standing, wait_until
from .shim import kill_identified

LOG = logging.getLogger(__name__)

SUFFIX = ".journal"
STOP_SECONDS = 2.0
"""How long a launcher may take to stand still for a look at its journal."""


class Begun(Record):
    """A container that a launcher began. ``pid`` is 0 and ``code`` None while that is not written.

    ``last``: it is the last one of its slot, so that what is in the group is its own.
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


def journal_path(state: str, slot: str) -> str:
    """Where the journal of a slot is."""
    return os.path.join(state, slot + SUFFIX)


def begin_line(container_id: str, baseline: Baseline) -> bytes:
    """The line that a launcher writes before it begins a container."""
    return (
        f"begin {baseline.cpu_seconds!r} {baseline.throttled_seconds!r} {baseline.oom_kills} {baseline.peak} "
        f"{container_id}\n"
    ).encode()


def can_be_written(container_id: str) -> bool:
    """Whether an id fits in a line."""
    return container_id.isprintable()


class Journal(Record):
    """What a journal says: its launcher, 0 if that is not known; what it began, the last one last."""

    slot: str
    launcher: int = 0
    launcher_start: int = 0
    begun: tuple[Begun, ...] = ()


def _text_of(path: str) -> bytes:
    """What is written in a journal, empty if there is none. Raises OSError if that cannot be read now."""
    try:
        return read_regular(path)
    except (FileNotFoundError, NotRegularError):
        return b""


def read_journal(path: str) -> Journal:
    """What a journal says; nothing if there is none. Lines that make no sense are no lines.

    Raises OSError if it cannot be read now: what has begun must not be taken for what has not.
    """
    slot = os.path.basename(path).removesuffix(SUFFIX)
    launcher = start = 0
    begun: list[Begun] = []
    for line in _text_of(path).split(b"\n")[:-1]:
        word, *rest = line.decode("utf-8", "replace").split(" ", 5)
        try:
            match word, rest:
                case "launcher", [one, two]:
                    launcher, start = int(one), int(two)
                case "begin", [cpu, throttled, kills, peak, name]:
                    base = Baseline(float(cpu), float(throttled), int(kills), int(peak))
                    begun.append(Begun(name, slot, launcher, start, base))
                case "pid", [one, two] if begun:
                    begun[-1] = replace(begun[-1], pid=int(one), start=int(two))
                case "end", [code] if begun:
                    begun[-1] = replace(begun[-1], code=int(code))
        except ValueError:
            LOG.warning("%s has an invalid line: %r", path, line)
    begun[-1:] = [replace(one, last=True) for one in begun[-1:]]
    return Journal(slot, launcher, start, tuple(begun))


def surely(path: str) -> Journal:
    """The same for who cannot wait until it can be read. Raises StateStoreError."""
    try:
        return read_journal(path)
    except OSError as error:
        raise StateStoreError(
            f"cannot read {path}",
            because=error.strerror or str(error),
            hint="it says which containers have begun: start the node again when the disk is well",
        ) from error


def code_of(path: str, container_id: str) -> int | None:
    """The exit code of the last container of that id in a journal; None if it has none. Raises OSError."""
    found = [one for one in read_journal(path).begun if one.container_id == container_id]
    return found[-1].code if found else None


def survey(state: str) -> dict[str, Begun]:
    """What the launchers of an earlier run began, by container. A launcher that has nothing to do is ended.

    Its node has died, but what that told it last may still be on its way to it: it is looked at while it is stopped,
    and then goes on, or never does. Blocks. Raises StateStoreError.
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
    """The journals that are there."""
    return [
        os.path.join(state, name)
        for name in os.listdir(state)
        if name.startswith(SLOT_PREFIX) and name.endswith(SUFFIX)
    ]


def forget_launchers(state: str) -> None:
    """The machine was started again: what these journals say of launchers is true of no process."""
    for path in journals(state):
        try:
            kept = [line for line in _text_of(path).splitlines(True) if not line.startswith(b"launcher ")]
            with open(path, "wb") as file:
                file.write(b"".join(kept))
        except OSError as error:
            LOG.warning("cannot change %s: %s", path, error.strerror)


def remove_journal(path: str) -> None:
    """Remove a journal, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        LOG.warning("cannot remove %s: %s", path, error.strerror)
