"""Which applications, containers and nodes people mean: full ids, ``last``, unique suffixes, ``-`` for stdin.

``3`` is the application (or container) with that number, ``3.2`` application 3's container 2, ``_0003``
whatever ends so. What means nothing is exit 66, what means several things is exit 2 and lists them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import (
    ApplicationNotFoundError,
    ContainerNotFoundError,
    NodeNotFoundError,
    UsageError,
    YoppError,
)
from ..records import client_protocol as rm
from ..records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from .output import is_terminal

if TYPE_CHECKING:
    from ..client import YarnClient
    from ..records.reports import ContainerReport, NodeReport

_DOTTED = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_CANDIDATES = 5


def words(given: Sequence[str]) -> list[str]:
    """The ids named, ``-`` replaced by the words on stdin. Raises UsageError where stdin is a terminal or
    empty.
    """
    named: list[str] = []
    for word in given:
        if word != "-":
            named.append(word)
            continue
        if is_terminal(sys.stdin):
            raise UsageError(
                "- means ids from standard input, which is a terminal", hint="yopp app list -q | …"
            )
        named += sys.stdin.buffer.read().decode("utf-8", "backslashreplace").split()
    if not named:
        raise UsageError("no id was given", hint="name one, or `last`")
    return list(dict.fromkeys(named))


def applications(client: YarnClient, given: Sequence[str]) -> list[str]:
    """The full ids of the applications named. Raises ApplicationNotFoundError, UsageError."""
    found = _Lazy(lambda: [report.application_id for report in client.applications()])
    return list(dict.fromkeys(application(found, word) for word in words(given)))


def application(known: Iterable[str], word: str) -> str:
    """The full id of the application that ``word`` means, among the ``known`` ids in order of submission."""
    if word.startswith("application_"):
        return str(ApplicationId.parse(word))
    if word.startswith("appattempt_"):
        return str(ApplicationAttemptId.parse(word).application_id)
    if word.startswith("container_"):
        return str(ContainerId.parse(word).application_id)
    ids = list(known)
    if word == "last" and ids:
        return ids[-1]
    matches = [one for one in ids if _number(one) == int(word)] if word.isdecimal() else _ending(ids, word)
    missing = ApplicationNotFoundError(
        f"no application {word}" if word != "last" else "there is no application yet",
        because=_known(ids, "application"),
        hint="`yopp app list -a` shows those this cluster knows",
        sought=word,
    )
    return _only(matches, word, missing)


def containers(client: YarnClient, given: Sequence[str]) -> list[str]:
    """The full ids of the containers named, ended ones included. Raises ContainerNotFoundError, UsageError."""
    every = rm.GetContainersRequest(finished=True)
    found = _Lazy(lambda: [report.container_id for report in client.container_reports(every)])
    return list(dict.fromkeys(container(found, word) for word in words(given)))


def container(known: Iterable[str], word: str) -> str:
    """The full id of the container that ``word`` means, among the ``known`` ids in order of allocation."""
    if word.startswith("container_"):
        return str(ContainerId.parse(word))
    ids = list(known)
    if word == "last" and ids:
        return ids[-1]
    if dotted := _DOTTED.fullmatch(word):
        wanted = (int(dotted[1]), int(dotted[2]))
        matches = [one for one in ids if (_application_number(one), _number(one)) == wanted]
    elif word.isdecimal():
        matches = [one for one in ids if _number(one) == int(word)]
    else:
        matches = _ending(ids, word)
    missing = ContainerNotFoundError(
        f"no container {word}" if word != "last" else "there is no container yet",
        because=_known(ids, "container"),
        hint="`yopp container list -a` shows those this cluster knows",
        sought=word,
    )
    return _only(matches, word, missing)


def is_container(word: str) -> bool:
    """Whether a word can only mean a container: a full id of one, its suffix in YARN's digits, or ``3.2``."""
    return bool(
        word.startswith("container_") or _DOTTED.fullmatch(word) or re.search(r"(?:^|_)\d{6,}$", word)
    ) and (not word.startswith(("application_", "appattempt_")))


def nodes(reports: Sequence[NodeReport], given: Sequence[str]) -> list[NodeReport]:
    """The nodes named: full ids, ports, or unique beginnings or endings. Raises NodeNotFoundError,
    UsageError.
    """
    by_id = {report.node_id: report for report in reports}
    return [by_id[one] for one in dict.fromkeys(_node(list(by_id), word) for word in words(given))]


def _node(ids: list[str], word: str) -> str:
    if word == "last" and ids:
        return ids[-1]
    matches = [one for one in ids if word in (one, one.rpartition(":")[2])] or [
        one for one in ids if one.startswith(word) or one.endswith(word)
    ]
    return _only(
        matches,
        word,
        NodeNotFoundError(
            f"no node {word}",
            because=_known(ids, "node"),
            hint="`yopp node list -a` shows those this cluster knows",
            sought=word,
        ),
    )


def of_application(report: ContainerReport, word: str) -> bool:
    """Whether a container is of the attempt, or else of the application, with the full id ``word``."""
    if word.startswith("appattempt_"):
        return str(ContainerId.parse(report.container_id).application_attempt_id) == word
    return report.application_id == word


class _Lazy:
    """Ids that are asked for when the first word needs them, once."""

    def __init__(self, ask: Callable[[], list[str]]) -> None:
        self._ask = ask
        self._ids: list[str] | None = None

    def __iter__(self) -> Iterator[str]:
        if self._ids is None:
            self._ids = self._ask()
        return iter(self._ids)


def _number(identifier: str) -> int:
    return int(identifier.rpartition("_")[2])


def _application_number(container_id: str) -> int:
    return ContainerId.parse(container_id).application_id.id


def _ending(ids: Iterable[str], word: str) -> list[str]:
    return [one for one in ids if one.endswith(word.lstrip("…"))] if word.strip("…_") else []


def _known(ids: Sequence[str], kind: str) -> str:
    """What there is instead of what was named."""
    if not ids:
        return f"there has been no {kind} yet"
    return f"the only {kind} is {ids[0]}" if len(ids) == 1 else f"it is none of {len(ids)} {kind}s"


def _only(matches: list[str], word: str, missing: YoppError) -> str:
    if not matches:
        raise missing
    if len(matches) > 1:
        more = f" and {len(matches) - _CANDIDATES} more" if len(matches) > _CANDIDATES else ""
        raise UsageError(
            f"{word!r} could be {len(matches)} things",
            because=", ".join(matches[:_CANDIDATES]) + more,
            hint="type more of the one that you mean",
        )
    return matches[0]
