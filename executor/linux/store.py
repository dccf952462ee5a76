"""What is written down of containers, so that the next life of this node finds them: one small JSON file
each.

Each write goes to a temporary name and is renamed, so a record is the old one or the new one, never half
of each. It is not synced to the disk: it has to survive this process, not the machine, whose end ends the
containers too.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ..errors import StateStoreError
from ..records import ContainerRecord, ContainerSpec, ContainerState, ExecutionType, Resource

LOG = logging.getLogger(__name__)

SUFFIX = ".json"


def encode(record: ContainerRecord) -> bytes:
    """A record as one line of JSON; text that is not UTF-8 (surrogate escapes) comes back as it was."""
    return json.dumps(asdict(record), ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def decode(text: bytes) -> ContainerRecord:
    """The record in one line of JSON. Fields it does not know are passed over, missing ones have their
    defaults.

    Raises ValueError, TypeError or KeyError where it is no record.
    """
    values = json.loads(text)
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
    """The records of one node, in a directory that is nobody else's."""

    def __init__(self, directory: str | Path) -> None:
        """Make the directory (mode 0700) if it is missing. StateStoreError where that cannot be."""
        self.directory = Path(directory)
        self.complaints: list[str] = []
        """What ``load_all`` could not read, one sentence each."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _store_error(f"cannot make {self.directory}", error) from error

    def path(self, container_id: str) -> str:
        """Where a container's record is."""
        return os.path.join(self.directory, container_id + SUFFIX)

    def store(self, record: ContainerRecord) -> None:
        """Write a record, replacing the one before. StateStoreError where it cannot be written."""
        path = self.path(record.spec.container_id)
        temporary = path + ".new"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                text = encode(record)
                while text:
                    text = text[os.write(fd, text) :]
            finally:
                os.close(fd)
            os.rename(temporary, path)
        except OSError as error:
            raise _store_error(f"cannot write {path}", error) from error

    def forget(self, container_id: str) -> None:
        """Remove a record, if there is one. StateStoreError where it cannot be removed."""
        path = self.path(container_id)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _store_error(f"cannot remove {path}", error) from error

    def load_all(self) -> list[ContainerRecord]:
        """All records, in the order in which their containers arrived.

        One that cannot be read is set aside (``.garbled``) with a sentence in ``complaints``: it must
        neither stop the node nor be taken for "no container".
        """
        records = []
        try:
            names = sorted(os.listdir(self.directory))
        except OSError as error:
            raise _store_error(f"cannot read {self.directory}", error) from error
        for name in names:
            path = os.path.join(self.directory, name)
            if name.endswith(SUFFIX + ".new"):
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


def _store_error(message: str, error: OSError) -> StateStoreError:
    return StateStoreError(message, because=error.strerror or str(error))
