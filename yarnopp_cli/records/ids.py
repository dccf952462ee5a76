"""YARN's identifiers: parse them from and print them in YARN's own form.

On the wire and in every record an identifier is its printed form, a ``str``; these classes take it apart.
"""

from __future__ import annotations

import re

from executor.light import Record, pattern

from ..errors import InvalidIdError

# At most 19 digits, as many as a Java long has: Python refuses to read numbers of very many digits.
_APPLICATION = pattern(r"application_(\d{1,19})_(\d{4,19})", re.ASCII)
_ATTEMPT = pattern(r"appattempt_(\d{1,19})_(\d{4,19})_(\d{6,19})", re.ASCII)
_CONTAINER = pattern(r"container_(?:e(\d{1,19})_)?(\d{1,19})_(\d{4,19})_(\d{2,19})_(\d{6,19})", re.ASCII)
_NODE = pattern(r"([^:\s/]+):(\d{1,5})", re.ASCII)


class ApplicationId(Record, order=True):
    """``application_<cluster timestamp, ms>_<number, at least 4 digits>``."""

    cluster_timestamp: int
    id: int

    def __str__(self) -> str:
        return f"application_{self.cluster_timestamp}_{self.id:04d}"

    @classmethod
    def parse(cls, text: str) -> ApplicationId:
        """Raise InvalidIdError unless ``text`` is an application id."""
        if not (match := _APPLICATION.fullmatch(text)):
            raise _invalid(text, "an application id", "application_1765400000000_0001")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def read(cls, text: str) -> ApplicationId:
        """As ``parse``, but the number may have fewer digits: so YARN reads an id (``ApplicationId.fromString``)."""
        name, _, number = text.rpartition("_")
        return cls.parse(f"{name}_{number:0>4}" if number.isdecimal() else text)


class ApplicationAttemptId(Record, order=True):
    """``appattempt_<cluster timestamp>_<application>_<attempt, 6 digits>``."""

    application_id: ApplicationId
    attempt_id: int

    def __str__(self) -> str:
        app = self.application_id
        return f"appattempt_{app.cluster_timestamp}_{app.id:04d}_{self.attempt_id:06d}"

    @classmethod
    def parse(cls, text: str) -> ApplicationAttemptId:
        """Raise InvalidIdError unless ``text`` is an attempt id."""
        if not (match := _ATTEMPT.fullmatch(text)):
            raise _invalid(text, "an application attempt id", "appattempt_1765400000000_0001_000001")
        return cls(ApplicationId(int(match[1]), int(match[2])), int(match[3]))


class ContainerId(Record, order=True):
    """``container_[e<epoch>_]<cluster timestamp>_<application>_<attempt, 2 digits>_<container, 6 digits>``."""

    application_attempt_id: ApplicationAttemptId
    container_id: int
    epoch: int = 0

    @property
    def application_id(self) -> ApplicationId:
        """The application that the container belongs to."""
        return self.application_attempt_id.application_id

    def __str__(self) -> str:
        app = self.application_id
        epoch = f"e{self.epoch:02d}_" if self.epoch else ""
        attempt = self.application_attempt_id.attempt_id
        return f"container_{epoch}{app.cluster_timestamp}_{app.id:04d}_{attempt:02d}_{self.container_id:06d}"

    @classmethod
    def parse(cls, text: str) -> ContainerId:
        """Raise InvalidIdError unless ``text`` is a container id."""
        if not (match := _CONTAINER.fullmatch(text)):
            raise _invalid(text, "a container id", "container_1765400000000_0001_01_000002")
        app = ApplicationId(int(match[2]), int(match[3]))
        return cls(ApplicationAttemptId(app, int(match[4])), int(match[5]), int(match[1] or 0))


def is_container_id(text: str) -> bool:
    """Whether a text is a container id as yopp itself prints it."""
    return _CONTAINER.fullmatch(text) is not None and str(ContainerId.parse(text)) == text


class NodeId(Record, order=True):
    """``<host>:<port>``: the name of a NodeManager. On one host the port distinguishes its nodes."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> NodeId:
        """Raise InvalidIdError unless ``text`` is a node id."""
        if not (match := _NODE.fullmatch(text)) or int(match[2]) > 65535:
            raise _invalid(text, "a node id", "host1:45454")
        return cls(match[1], int(match[2]))


def application_of(container_id: str) -> str:
    """The application id, printed, of a printed container id. Raises InvalidIdError."""
    return str(ContainerId.parse(container_id).application_id)


def job_id(application_id: str) -> str:
    """MapReduce's job id for an application."""
    return application_id.replace("application_", "job_", 1)


def dotted(container_id: str) -> str:
    """The shortest form of a container id that a user can type: ``36.c2``, container 2 of application 36
    (``36.2`` is its task 2). Text that is no container id is returned unchanged.
    """
    parts = container_id.split("_")
    if len(parts) < 5 or not (parts[-3].isdecimal() and parts[-1].isdecimal()):
        return container_id
    return ".c".join(parts[place].lstrip("0") or "0" for place in (-3, -1))


def numbered(identifier: str) -> str:
    """The number at the end of an id, ``36``: the shortest form of an application id that a user can type."""
    return identifier.rpartition("_")[2].lstrip("0") or "0"


def short(identifier: str, of: str = "") -> str:
    """A container's id as used in a sentence about application ``of``: ``…_000009``; the id of another application's
    container has the form that a user can type: ``36.c9``.
    """
    parts = identifier.split("_")
    return "…_" + parts[-1] if of.split("_")[1:3] == parts[-4:-2] else dotted(identifier)


def suffix(identifier: str) -> str:
    """The last part of an id, by which users recognise it: ``_000009``."""
    return "_" + identifier.rpartition("_")[2]


def short_id(identifier: str) -> str:
    """An id with its middle left out: ``container_…_000009``."""
    return f"{identifier.partition('_')[0]}_…{suffix(identifier)}"


_LISTS = {
    "an application id": "yopp app list -a",
    "an application attempt id": "yopp attempt list APPLICATION",
    "a container id": "yopp ps -a",
    "a node id": "yopp node list -a",
}


def _invalid(text: str, what: str, example: str) -> InvalidIdError:
    return InvalidIdError(
        f"{text!r} is not {what}",
        because=f"{what} looks like {example}",
        hint=f"`{_LISTS[what]}` lists the known ones",
        sought=text if "container" in what else "",
    )
