"""The records of containers, by which the next run of this node finds them: one journal for all (YARN's
``NMLeveldbStateStoreService``).

A line of the journal is a whole record, the changes to one, or a note that one is forgotten. Lines of the
same container are numbered, so a lost line is noticed. The lines of forgotten containers and of earlier
states are dropped when most of the file consists of them: the current records are written to a second file,
which then replaces the first. So at each moment one readable file has everything.

Each line is written at once (1 microsecond), before the action that relies on it: collecting the lines of one
iteration of the loop would gain nothing. Earlier versions kept a file for each record (``<id>.json``): these
are read once.

Decisions: one-journal.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from .. import plain
from ..errors import StateStoreError, reason_of
from ..light import names_of, replace
from ..records import ContainerRecord, ContainerState
from ..regular import NotRegularError, open_regular, read_regular, set_strange_aside, write_whole
from ..trees import make_again
from .cgroups.groups import may_be_container
from .journal import Contents, Journal, NewerVersionError, line
from .procfs import boot_id, read_bytes

LOG = logging.getLogger(__name__)

JOURNAL = "journal"
BOOT = "boot-id"
"""The file that records during which boot the records were written."""
GARBLED = ".garbled"
SUFFIX = ".json"
MOST_PAST = 4000
"""How many lines may be appended before the journal is rewritten, plus four for each record: about a
megabyte, which 700 containers a second write in one second. Rewriting takes half a millisecond on ext4."""

_CHANGING = tuple(name for name in names_of(ContainerRecord) if name != "spec")
_changing = attrgetter(*_CHANGING)
_ID = re.compile(rb'"id":("(?:[^"\\]|\\.)*")')
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a record's fields, and a function that returns their values."""
    names = names_of(kind)
    return names, attrgetter(*names)


def _values(record: Any) -> dict[str, Any]:
    kind: Any = type(record)
    names, values_of = _fields(kind)
    return dict(zip(names, values_of(record), strict=True))


def _encoder() -> Callable[[object], str]:
    """A function that encodes records as JSON. A JSONEncoder prepares itself for each text, which takes as
    long as encoding a short one; so it is prepared once, if this version of Python allows that."""
    encoder = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_values)
    try:
        prepared = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            None, _values, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
        )
    except (AttributeError, TypeError):
        return encoder.encode
    return lambda value: "".join(prepared(value, 0))


_encode = _encoder()


def encode(value: object) -> bytes:
    """Encode a record, or another value that consists of records, as JSON; text that is not UTF-8 (surrogate
    escapes) is preserved."""
    return _encode(value).encode("ascii")


def decode(text: bytes) -> ContainerRecord:
    """Decode the text of a record made by ``encode``; each further line is a change.

    Unknown fields are ignored, missing ones have their defaults. The execution type must be present: if it
    defaulted to guaranteed, a container would get more than it was ever promised. Raises ValueError,
    TypeError or KeyError if the text is not a record.
    """
    first, *changes = text.split(b"\n")
    values = json.loads(first)
    for change in changes[:-1]:
        values.update(json.loads(change))
    return _record(values)


def _record(values: dict[str, Any]) -> ContainerRecord:
    if "execution_type" not in values["spec"]:
        raise ValueError("its spec has no execution_type")
    record = plain.decode(ContainerRecord, values)
    if not may_be_container(record.spec.container_id):
        raise ValueError(f"{record.spec.container_id!r} cannot be a container's id")
    return record


def _changes(before: ContainerRecord, after: ContainerRecord) -> dict[str, Any]:
    """The fields besides the spec in which a record differs from an earlier one."""
    pairs = zip(_CHANGING, _changing(before), _changing(after), strict=True)
    return {name: value for name, was, value in pairs if value != was}


class _Entry:
    """The state of one container after the lines read so far: the values of its record, or the ``problem``
    with them."""

    __slots__ = ("number", "problem", "raw", "values")

    def __init__(self) -> None:
        self.number = -1
        self.values: dict[str, Any] = {}
        self.problem = ""
        self.raw: list[bytes] = []


class _Replay:
    """The records that result from the lines of a journal."""

    def __init__(self, contents: Contents) -> None:
        self.entries: dict[str, _Entry] = {}
        self.strays: list[bytes] = []
        """Lines that cannot be read, and do not name their container."""
        for text, raw in zip(contents.lines, contents.raw, strict=True):
            self._add(text, raw)

    def _add(self, text: bytes | None, raw: bytes) -> None:
        try:
            said = json.loads(text or b"")
            container_id, number = said["id"], said["n"]
            if not isinstance(container_id, str) or not isinstance(number, int):
                raise TypeError("it names no container")
        except _UNREADABLE:
            self._spoil(raw)
            return
        if "forgotten" in said:
            self.entries.pop(container_id, None)
            return
        entry = self.entries.setdefault(container_id, _Entry())
        entry.raw.append(raw)
        if "record" in said:
            entry.values, entry.problem = said["record"], ""
        elif entry.number + 1 != number:
            entry.problem = entry.problem or "a line of it is missing"
        else:
            try:
                entry.values.update(said["change"])
            except _UNREADABLE as error:
                entry.problem = f"{type(error).__name__}: {error}"
        entry.number = number

    def _spoil(self, raw: bytes) -> None:
        """Handle a damaged line: the record of the container that it names becomes unreadable."""
        found = _ID.search(raw)
        try:
            container_id = json.loads(found.group(1)) if found is not None else None
        except ValueError:
            container_id = None
        if container_id is None:
            self.strays.append(raw)
            return
        entry = self.entries.setdefault(container_id, _Entry())
        entry.raw.append(raw)
        entry.problem = "a line of it is damaged"


class StateStore:
    """The records of one node, in a directory of its own."""

    def __init__(self, directory: str | Path) -> None:
        """Make the directory (mode 0700) if it is missing. Raises StateStoreError if that fails."""
        self.directory = Path(directory)
        self.complaints: list[str] = []
        """The records that ``load_all`` could not read, one sentence each."""
        self._journal = Journal(os.path.join(self.directory, JOURNAL))
        self._boot = os.path.join(self.directory, BOOT)
        self._known: dict[str, tuple[ContainerRecord, int]] = {}
        """The records in the journal, and the number of the last line of each."""
        self._owed: list[bytes] = []
        """Lines about forgotten containers that could not be written yet."""
        self._aside: list[bytes] = []
        """Lines that cannot be read, and still have to be set aside."""
        self._loaded = False
        self._past = 0
        self._most = 0
        self._make_directory()

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _store_error(f"cannot make {self.directory}", error) from error

    def store(self, record: ContainerRecord) -> None:
        """Write a record, replacing the previous one. Raises StateStoreError if it cannot be written."""
        self._take_over()
        container_id = record.spec.container_id
        known = self._known.get(container_id)
        number = known[1] + 1 if known is not None else 0
        if known is not None and known[0].spec is record.spec:
            text = _line(container_id, number, b"change", _changes(known[0], record))
        else:
            text = _line(container_id, number, b"record", record)
        self._known[container_id] = record, number
        try:
            self._add(text)
        except OSError as error:
            if known is None:
                del self._known[container_id]
            else:
                self._known[container_id] = known
            raise _store_error(f"cannot write {self._journal.path}", error) from error

    def is_open(self, container_id: str) -> bool:
        """Whether there is a record of the container that does not contain its end."""
        known = self._known.get(container_id)
        return known is not None and known[0].state is not ContainerState.DONE

    def forget(self, container_id: str) -> None:
        """Remove a record, if there is one. Raises StateStoreError if that cannot be written; it is then
        written with the next line."""
        self._take_over()
        known = self._known.pop(container_id, None)
        if known is None:
            return
        last = _line(container_id, known[1] + 1, b"forgotten", True)
        try:
            self._add(last)
        except OSError as error:
            self._owed.append(last)
            raise _store_error(f"cannot write {self._journal.path}", error) from error

    def _add(self, text: bytes) -> None:
        """Append a line, or rewrite the journal without outdated lines."""
        lines = b"".join([*self._owed, text]) if self._owed else text
        if self._past < self._most and self._journal.is_open and self._journal.add(lines):
            self._past += 1
            self._owed.clear()
            return
        try:
            self._begin_anew()
        except OSError as error:
            # There is no room for a second file: continue with the first.
            if not (self._journal.is_open and self._journal.add(lines)):
                raise
            self._owed.clear()
            self._most = 2 * self._past
            LOG.warning("old records cannot be removed from %s: %s", self._journal.path, error.strerror)

    def _begin_anew(self) -> None:
        try:
            self._set_aside()
        except OSError as error:
            if self._journal.is_open:
                raise
            LOG.error("lines of %s are lost: %s", self._journal.path, error.strerror)
            self._aside = []
        lines = [
            _line(container_id, number, b"record", record)
            for container_id, (record, number) in self._known.items()
        ]
        make_again(os.fspath(self.directory), 0o700)
        self._journal.begin_anew(b"".join(lines))
        self._owed.clear()
        self._past, self._most = 0, MOST_PAST + 4 * len(lines)

    def _take_over(self) -> None:
        """Load the records before the first write, so that what others wrote is kept."""
        if not self._loaded:
            self.load_all()

    def load_all(self, *, tidy: bool = True) -> list[ContainerRecord]:
        """All records, in the order in which their containers arrived.

        A record that cannot be read is set aside (``journal.garbled``) with a sentence in ``complaints``: it must
        neither stop the node nor be taken for "no container". With ``tidy=False`` nothing is changed: a node may
        have been started meanwhile. Raises StateStoreError if another process writes here, or a newer version did.
        """
        try:
            if tidy and not self._journal.lock():
                raise StateStoreError(
                    f"cannot use {self.directory}",
                    because="another process writes its containers' records there",
                    hint="end it first; each node needs its own directory",
                )
            contents = self._read_file(tidy=tidy)
            old = self._read_old(tidy=tidy)
        except OSError as error:
            raise _store_error(f"cannot read {self.directory}", error) from error
        except NewerVersionError as error:
            raise StateStoreError(
                f"cannot read {self._journal.path}",
                because=f"a newer version of yopp wrote it (format {error})",
                hint="start the newer version, and end its containers with it (`yopp down`)",
            ) from None
        known = self._read_journal(contents, tidy=tidy) if contents is not None else {}
        known = {record.spec.container_id: (record, 0) for record in old} | known
        if self.rebooted():
            # A process of now that has the pid and the start time of one of then is another one.
            known = {one: (_without_process(record), number) for one, (record, number) in known.items()}
        if tidy:
            self._known, self._loaded = known, True
            self._settle(contents)
        return sorted(
            (record for record, _ in known.values()),
            key=lambda record: (record.sequence, record.queued_at_ms),
        )

    def rebooted(self) -> bool:
        """Whether the host was rebooted after these records were written: then none of their processes is alive."""
        written, now = read_bytes(self._boot, 64).strip(), boot_id().encode()
        return len(written) == len(now) and written != now  # of another length, it names no boot

    def note_boot(self) -> None:
        """Note that the records are of the present boot from now on."""
        set_strange_aside(self._boot)
        try:
            write_whole(self._boot, f"{boot_id()}\n".encode())
        except OSError as error:
            LOG.warning("cannot write %s: %s", self._boot, error.strerror)

    def _settle(self, contents: Contents | None) -> None:
        """Write what was read; continue with the existing file if there is no room for another, or for what
        is set aside."""
        try:
            self._set_aside()
            if self._known:
                self._begin_anew()
            else:
                self._journal.remove()
                self._past = self._most = 0
            for name in os.listdir(self.directory):
                if name.endswith((SUFFIX, ".new")):
                    os.unlink(os.path.join(self.directory, name))
        except OSError as error:
            LOG.warning("%s is not rewritten: %s", self._journal.path, error.strerror)
            if contents is not None and not contents.strange and not self._journal.is_open:
                try:
                    self._journal.go_on(contents.size)
                    self._past, self._most = 0, MOST_PAST
                except OSError as failed:
                    LOG.error("cannot append to %s: %s", self._journal.path, failed.strerror)

    def _read_file(self, *, tidy: bool) -> Contents | None:
        try:
            return self._journal.read()
        except NotRegularError as error:
            self._complain(f"{self._journal.path} is set aside: {error.strerror}")
            if tidy:
                set_strange_aside(self._journal.path)
            return None

    def _read_journal(self, contents: Contents, *, tidy: bool) -> dict[str, tuple[ContainerRecord, int]]:
        path, known, aside = self._journal.path, {}, []
        if contents.strange:
            self._complain(f"{path} is not a journal of records, and is set aside as {path}{GARBLED}")
            if tidy:
                self._aside = contents.raw
            return {}
        if contents.torn:
            self._complain(f"the last line of {path} is incomplete, and is ignored")
        replay = _Replay(contents)
        for container_id, entry in replay.entries.items():
            if not entry.problem:
                try:
                    record = _record(entry.values)
                    if record.spec.container_id != container_id:
                        raise ValueError(f"it is about {record.spec.container_id!r}")
                except _UNREADABLE as error:
                    entry.problem = f"{type(error).__name__}: {error}"
                else:
                    known[container_id] = record, entry.number
                    continue
            self._complain(
                f"the record of {container_id} in {path} cannot be read and is set aside in {path}{GARBLED}: "
                f"{entry.problem}"
            )
            aside += entry.raw
        if replay.strays:
            self._complain(
                f"{len(replay.strays)} lines of {path} cannot be read and are set aside in {path}{GARBLED}"
            )
            aside += replay.strays
        if tidy:
            self._aside = aside
        return known

    def _read_old(self, *, tidy: bool) -> list[ContainerRecord]:
        """The records in files of their own, which earlier versions wrote."""
        records = []
        for name in sorted(os.listdir(self.directory)):
            if not name.endswith(SUFFIX):
                continue
            path = os.path.join(self.directory, name)
            try:
                record = decode(read_regular(path))
                if record.spec.container_id + SUFFIX != name:
                    raise ValueError(f"it is about {record.spec.container_id!r}")
            except (OSError, *_UNREADABLE) as error:
                aside = path.removesuffix(SUFFIX) + GARBLED
                problem = f"{type(error).__name__}: {error}"
                self._complain(f"the record {path} cannot be read and is set aside as {aside}: {problem}")
                if tidy:
                    os.rename(path, aside)
            else:
                records.append(record)
        return records

    def _complain(self, sentence: str) -> None:
        self.complaints.append(sentence)

    def _set_aside(self) -> None:
        """Keep the unreadable lines before the file that contains them is replaced. Raises OSError."""
        if self._aside:
            with open(self._journal.path + GARBLED, "ab", opener=open_regular) as file:
                file.write(b"\n".join(self._aside) + b"\n")
            self._aside = []

    def close(self) -> None:
        """Let another process write here. A later ``store`` first reads what that process wrote."""
        self._journal.close()
        self._loaded = False

    def remove(self) -> None:
        """Remove the journal if no record is left."""
        if not self._known:
            self._journal.remove()
            with contextlib.suppress(OSError):
                os.unlink(self._boot)


def _line(container_id: str, number: int, kind: bytes, said: object) -> bytes:
    return line(b'{"id":%s,"n":%d,"%s":%s}' % (encode(container_id), number, kind, encode(said)))


def _without_process(record: ContainerRecord) -> ContainerRecord:
    return replace(record, pid=0, process_start=0)


def _store_error(message: str, error: OSError) -> StateStoreError:
    return StateStoreError(message, because=reason_of(error))
