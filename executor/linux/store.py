"""The records of containers, by which the next run of this node finds them: one small file each.

The first line is a whole record, each further one what has changed since, all of them JSON. The first is written under
a temporary name and renamed; a line that was cut short has no newline and does not count. So a record is the old one
or the new one, never half of each. (Renaming over the file each time would be simpler, but makes ext4 write the data
out first: half a millisecond in which the node does nothing else, against ten microseconds.) It is not synced to the
disk: it has to survive this process, not the machine, whose end ends the containers, too.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..causes import Cause, CauseKind
from ..errors import StateStoreError
from ..records import ContainerRecord, ContainerSpec, ContainerState, ExecutionType, Resource

LOG = logging.getLogger(__name__)

SUFFIX = ".json"
MOST_CHANGES = 100
"""How many lines are added to a file before it is written anew."""

_RECORDS: dict[str, type[Any]] = {"ContainerSpec": ContainerSpec, "Resource": Resource, "Cause": Cause}
_ENUMS = {"ExecutionType": ExecutionType, "ContainerState": ContainerState, "CauseKind": CauseKind}
_PLAIN: dict[str, tuple[type, ...]] = {"int": (int,), "str": (str,), "bool": (bool,), "float": (int, float)}
"""The types of fields, as they are declared."""
_KINDS: tuple[type[Any], ...] = (ContainerRecord, *_RECORDS.values())
_FIELDS = {kind: tuple(item.name for item in fields(kind)) for kind in _KINDS}


def encode(record: ContainerRecord) -> bytes:
    """A record as one line of JSON; text that is not UTF-8 (surrogate escapes) is preserved."""
    return _line(_values(record))


def encode_change(record: ContainerRecord, before: ContainerRecord) -> bytes:
    """What has changed in a record since one of the same spec, as one line of JSON."""
    new = ((name, getattr(record, name)) for name in _FIELDS[ContainerRecord] if name != "spec")
    return _line({name: _value(value) for name, value in new if value != getattr(before, name)})


def _values(record: object) -> dict[str, Any]:
    return {name: _value(getattr(record, name)) for name in _FIELDS[type(record)]}


def _value(value: Any) -> Any:
    return _values(value) if type(value) in _FIELDS else value


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def decode(text: bytes) -> ContainerRecord:
    """The record in a file's text. Unknown fields are ignored, missing ones have their defaults.

    The execution type must be there: guaranteed by default, a container would get more than it was ever promised.
    Raises ValueError, TypeError or KeyError if it is not a record.
    """
    first, *changes = text.split(b"\n")
    values = json.loads(first)
    for change in changes[:-1]:
        values.update(json.loads(change))
    if "execution_type" not in values["spec"]:
        raise ValueError("its spec has no execution_type")
    record: ContainerRecord = _read_record(ContainerRecord, values)
    return record


def _read_record(kind: type[Any], values: dict[str, Any]) -> Any:
    known = (item for item in fields(kind) if item.name in values)
    return kind(**{item.name: _read(str(item.type), item.name, values[item.name]) for item in known})


def _read(declared: str, name: str, value: Any) -> Any:
    """A value of a field of that declared type."""
    if declared.endswith(" | None"):
        return None if value is None else _read(declared.removesuffix(" | None"), name, value)
    if declared in _RECORDS:
        return _read_record(_RECORDS[declared], value)
    if declared in _ENUMS:
        return _ENUMS[declared](value)
    if declared == "tuple[str, ...]":
        return tuple(_read("str", name, item) for item in value)
    if declared == "dict[str, str]":
        return {_read("str", name, key): _read("str", name, item) for key, item in value.items()}
    accepted = _PLAIN[declared]
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
        raise TypeError(f"{name} is {value!r}, not {declared}")
    return value


class StateStore:
    """The records of one node, in a directory of its own."""

    def __init__(self, directory: str | Path) -> None:
        """Make the directory (mode 0700) if it is missing. Raises StateStoreError if that fails."""
        self.directory = Path(directory)
        self.complaints: list[str] = []
        """What ``load_all`` could not read, one sentence each."""
        self._written: dict[str, tuple[ContainerRecord, int]] = {}
        """The records in the files that this process wrote, and how many changes each file has."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _store_error(f"cannot make {self.directory}", error) from error

    def path(self, container_id: str) -> str:
        """The file of a container's record."""
        return os.path.join(self.directory, container_id + SUFFIX)

    def store(self, record: ContainerRecord) -> None:
        """Write a record, replacing the previous one. Raises StateStoreError if it cannot be written."""
        container_id = record.spec.container_id
        before, changes = self._written.pop(container_id, (None, 0))
        try:
            fresh = before is None or before.spec is not record.spec or changes >= MOST_CHANGES
            if before is None or fresh or not self._append(record, before):
                changes = -1
                self._write(record)
        except OSError as error:
            # The rest of a line that was cut short is ignored by readers, and the next write begins anew.
            raise _store_error(f"cannot write {self.path(container_id)}", error) from error
        self._written[container_id] = record, changes + 1

    def _write(self, record: ContainerRecord) -> None:
        path = self.path(record.spec.container_id)
        _put(path + ".new", encode(record), os.O_CREAT | os.O_TRUNC)
        os.rename(path + ".new", path)

    def _append(self, record: ContainerRecord, before: ContainerRecord) -> bool:
        """Add what changed; False if the file does not exist any more."""
        try:
            _put(self.path(record.spec.container_id), encode_change(record, before), os.O_APPEND)
        except FileNotFoundError:
            return False
        return True

    def forget(self, container_id: str) -> None:
        """Remove a record, if there is one. Raises StateStoreError if it cannot be removed."""
        path = self.path(container_id)
        self._written.pop(container_id, None)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _store_error(f"cannot remove {path}", error) from error

    def load_all(self, *, tidy: bool = True) -> list[ContainerRecord]:
        """All records, in the order in which their containers arrived.

        One that cannot be read is set aside (``.garbled``) with a sentence in ``complaints``: it must neither stop the
        node nor be taken for "no container". With ``tidy=False`` nothing is changed: a node may have been started
        meanwhile.
        """
        records = []
        try:
            names = sorted(os.listdir(self.directory))
        except OSError as error:
            raise _store_error(f"cannot read {self.directory}", error) from error
        for name in names:
            path = os.path.join(self.directory, name)
            if name.endswith(SUFFIX + ".new"):
                if tidy:
                    os.unlink(path)
                continue
            if not name.endswith(SUFFIX):
                continue
            try:
                with open(path, "rb") as file:
                    record = decode(file.read())
                if record.spec.container_id + SUFFIX != name:
                    raise ValueError(f"it speaks of {record.spec.container_id!r}")
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                if tidy:
                    self._set_aside(path, error)
                continue
            records.append(record)
        return sorted(records, key=lambda record: (record.sequence, record.queued_at_ms))

    def _set_aside(self, path: str, error: Exception) -> None:
        aside = path[: -len(SUFFIX)] + ".garbled"
        problem = f"{type(error).__name__}: {error}"
        sentence = f"the record {path} cannot be read and is set aside as {aside}: {problem}"
        self.complaints.append(sentence)
        LOG.error("%s", sentence)
        try:
            os.rename(path, aside)
        except OSError as failed:
            LOG.error("cannot set %s aside: %s", path, failed.strerror)


def _put(path: str, text: bytes, flags: int) -> None:
    fd = os.open(path, flags | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        while text:
            text = text[os.write(fd, text) :]
    finally:
        os.close(fd)


def _store_error(message: str, error: OSError) -> StateStoreError:
    return StateStoreError(message, because=error.strerror or str(error))
