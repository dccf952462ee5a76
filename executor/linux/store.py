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

_FACTS = tuple(item.name for item in fields(ContainerRecord) if item.name != "spec")
_CAUSE = tuple(item.name for item in fields(Cause))
_SPEC = tuple(item.name for item in fields(ContainerSpec) if item.name != "resource")


def encode(record: ContainerRecord) -> bytes:
    """A record as one line of JSON; text that is not UTF-8 (surrogate escapes) is preserved."""
    spec: dict[str, Any] = {name: getattr(record.spec, name) for name in _SPEC}
    spec["resource"] = {"memory": record.spec.resource.memory, "vcores": record.spec.resource.vcores}
    return _line({"spec": spec, **_facts(record)})


def encode_change(record: ContainerRecord, before: ContainerRecord) -> bytes:
    """What has changed in a record since one of the same spec, as one line of JSON."""
    known = _facts(before)
    return _line({name: value for name, value in _facts(record).items() if value != known[name]})


def _facts(record: ContainerRecord) -> dict[str, Any]:
    facts = {name: getattr(record, name) for name in _FACTS}
    if record.cause is not None:
        facts["cause"] = {name: getattr(record.cause, name) for name in _CAUSE}
    return facts


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def decode(text: bytes) -> ContainerRecord:
    """The record in a file's text. Unknown fields are ignored, missing ones have their defaults.

    Raises ValueError, TypeError or KeyError if it is not a record.
    """
    first, *changes = text.split(b"\n")
    values = json.loads(first)
    for change in changes[:-1]:
        values.update(json.loads(change))
    spec = dict(values["spec"])
    spec["resource"] = Resource(**_checked(Resource, spec["resource"]))
    spec["execution_type"] = ExecutionType(spec["execution_type"])
    spec["command"] = tuple(_of_type("str", "command", word) for word in spec["command"])
    for mapping in ("environment", "files"):
        for name, value in spec.get(mapping, {}).items():
            _of_type("str", mapping, name), _of_type("str", mapping, value)
    record = dict(values)
    record["spec"] = ContainerSpec(**_checked(ContainerSpec, spec))
    record["state"] = ContainerState(record["state"])
    if record.get("cause") is not None:
        cause = dict(record["cause"], kind=CauseKind(record["cause"]["kind"]))
        record["cause"] = Cause(**_checked(Cause, cause))
    passing = record.get("passing_diagnostics", ())
    record["passing_diagnostics"] = tuple(_of_type("str", "passing_diagnostics", line) for line in passing)
    return ContainerRecord(**_checked(ContainerRecord, record))


def _checked(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values that ``kind`` has fields for, plain ones checked against the types declared there."""
    return {
        item.name: _of_type(str(item.type), item.name, values[item.name])
        for item in fields(kind)
        if item.name in values
    }


def _of_type(declared: str, name: str, value: Any) -> Any:
    accepted: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "int | None": (int, type(None)),
        "str": (str,),
        "str | None": (str, type(None)),
        "bool": (bool,),
        "float": (int, float),
    }
    types = accepted.get(declared)
    if types is not None and (
        not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
    ):
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
            if before is None or before.spec is not record.spec or changes >= MOST_CHANGES:
                changes = 0
                self._write(record)
            elif self._append(record, before):
                changes += 1
            else:
                self._write(record)
        except OSError as error:
            # The rest of a line that was cut short is ignored by readers, and the next write begins anew.
            raise _store_error(f"cannot write {self.path(container_id)}", error) from error
        self._written[container_id] = record, changes

    def _write(self, record: ContainerRecord) -> None:
        path = self.path(record.spec.container_id)
        temporary = path + ".new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, encode(record))
        finally:
            os.close(fd)
        os.rename(temporary, path)

    def _append(self, record: ContainerRecord, before: ContainerRecord) -> bool:
        """Add what changed; False if the file does not exist any more."""
        try:
            fd = os.open(self.path(record.spec.container_id), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            _write_all(fd, encode_change(record, before))
        finally:
            os.close(fd)
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
        sentence = (
            f"the record {path} cannot be read and is set aside as {aside}: {type(error).__name__}: {error}"
        )
        self.complaints.append(sentence)
        LOG.error("%s", sentence)
        try:
            os.rename(path, aside)
        except OSError as failed:
            LOG.error("cannot set %s aside: %s", path, failed.strerror)


def _write_all(fd: int, text: bytes) -> None:
    while text:
        text = text[os.write(fd, text) :]


def _store_error(message: str, error: OSError) -> StateStoreError:
    return StateStoreError(message, because=error.strerror or str(error))
