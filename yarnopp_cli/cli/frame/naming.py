"""Which applications, containers and nodes people mean: full ids, ``last``, unique suffixes, ``-`` for stdin.

``3`` is the application (or container) with that number, ``3.2`` application 3's container 2, ``_0003``
whatever ends so; ``1-3,7`` and ``3.2-5`` are those of the numbers that there are, ``all`` is whatever lives. What
means nothing is exit 66, what means several things is exit 2 and lists them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from ...errors import (
    ApplicationNotFoundError,
    ContainerNotFoundError,
    NodeNotFoundError,
    UsageError,
    YoppError,
)
from ...records import client_protocol as rm
from ...records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from ...views.containers import is_live
from ...views.text import harmless
from .output import Printer, is_terminal

if TYPE_CHECKING:
    from ...client.protocol import Client
    from ...records.reports import ContainerReport, NodeReport

T = TypeVar("T")

ALL = "all"
_DOTTED = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_RANGE = re.compile(r"(?:(\d+)\.)?(\d+)-(?:(\d+)\.)?(\d+)", re.ASCII)
_NUMBERS = re.compile(r"[\d.,-]*\d,[\d.,-]*\d", re.ASCII)
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
                "- means ids from standard input, which is a terminal",
                because="nothing is piped into it",
                hint="yopp app list -q | …",
            )
        named += sys.stdin.buffer.read().decode("utf-8", "backslashreplace").split()
    if not named:
        raise UsageError(
            "no id was given",
            because="standard input was empty" if "-" in given else "the command names none",
            hint="name one, or `last`",
        )
    split = [one for word in named for one in (word.split(",") if _NUMBERS.fullmatch(word) else [word])]
    return list(dict.fromkeys(split))


def agreed(
    printer: Printer,
    given: Sequence[str],
    named: Sequence[str],
    verb: str,
    *,
    yes: bool,
    what: str = "container",
) -> bool:
    """Whether a change of ``named`` may go on: it is asked for where ``all`` was said. Raises UsageError where
    nobody can be asked."""
    if ALL in given and not named:
        printer.note(
            f"{'nothing lives: ' if what.startswith('live') else ''}there is no {what} to {verb.lower()}"
        )
    if ALL not in given or not named:
        return True
    several = f"all {len(named)} {what}s" if len(named) > 1 else f"the only {what}, {named[0]}"
    return printer.confirm(f"{verb} {several}?", yes=yes)


def applications(client: Client, given: Sequence[str]) -> list[str]:
    """The full ids of the applications named. Raises ApplicationNotFoundError, UsageError."""
    found = _Lazy(lambda: [report.application_id for report in client.applications()])
    named: list[str] = []
    for word in words(given):
        if word == ALL:
            live = rm.GetApplicationsRequest(live_only=True)
            named += [report.application_id for report in client.applications(live)]
        elif (bounds := _range(word)) is not None:
            within = [one for one in found if bounds[0] is None and bounds[1] <= _number(one) <= bounds[2]]
            named += within or [application(found, word)]
        else:
            named.append(application(found, word))
    return list(dict.fromkeys(named))


def one_of(found: Sequence[T], word: str) -> T:
    """The only thing that a word means, for who can use one only. Raises UsageError for several, or for none
    where ``all`` was said."""
    if len(found) != 1:
        raise UsageError(
            f"{harmless(word)} means {len(found)} things",
            because="this takes one",
            hint="name one, or `last`",
        )
    return found[0]


def spread(client: Client, given: Sequence[str]) -> list[str]:
    """The words with ranges and ``all`` (live applications) replaced by full ids. Raises as ``applications``."""
    found: list[str] = []
    for word in given:
        if word != ALL and _range(word) is None:
            found.append(word)
        elif is_container(word):
            found += containers(client, [word])
        else:
            found += applications(client, [word])
    return list(dict.fromkeys(found))


def _range(word: str) -> tuple[int | None, int, int] | None:
    """What ``1-3`` or ``3.2-5`` says: the application before the dot, and the bounds. Raises UsageError."""
    match = _RANGE.fullmatch(word)
    if match is None:
        return None
    first, last = _whole(match[2]), _whole(match[4])
    if last < first or (match[3] and match[3] != match[1]):
        raise UsageError(
            f"{word} is no range",
            because="it ends before it begins" if last < first else "it is of two applications",
            hint="1-3 are numbers 1 to 3, 3.2-5 are containers 2 to 5 of application 3",
        )
    return _whole(match[1]) if match[1] else None, first, last


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
    matches = [one for one in ids if _number(one) == _whole(word)] if word.isdecimal() else _ending(ids, word)
    missing = ApplicationNotFoundError(
        f"no application {harmless(word)}" if word != "last" else "there is no application yet",
        because=_known(ids, "application"),
        hint="`yopp app list -a` shows those this cluster knows",
        sought=word,
    )
    return _only(matches, word, missing)


def containers(
    client: Client, given: Sequence[str], *, every: Callable[[ContainerReport], bool] | None = None
) -> list[str]:
    """The full ids of the containers named, ended ones included; ``all`` is those that live and that ``every``
    takes. With ``every`` ranges leave out what has ended, too. Raises ContainerNotFoundError, UsageError."""
    known = rm.GetContainersRequest(finished=True)
    reports = _Lazy(lambda: list(client.container_reports(known)))
    found = _Lazy(lambda: [report.container_id for report in reports])
    named: list[str] = []
    for word in words(given):
        if word == "last":
            # Whoever names the newest means work, and not what looks after it, unless there is nothing else.
            tasks = [report.container_id for report in reports if not report.is_am]
            named.append(container(tasks or found, word))
        elif word == ALL:
            live = [one for one in client.containers() if is_live(one)]
            # A master that stands still takes its application with it: only who kills all means it too.
            named += [one.container_id for one in live if every is None or (every(one) and not one.is_am)]
        elif (bounds := _range(word)) is not None:
            app, first, last = bounds
            within = [
                one
                for one in found
                if app in (None, _application_number(one)) and first <= _number(one) <= last
            ]
            if within and every is not None:  # what shall be changed has to live
                live_ids = {one.container_id for one in client.container_reports(rm.GetContainersRequest())}
                within = [one for one in within if one in live_ids] or within
            named += within or [container(found, word)]
        else:
            named.append(container(found, word))
    return list(dict.fromkeys(named))


def container(known: Iterable[str], word: str) -> str:
    """The full id of the container that ``word`` means, among the ``known`` ids in order of allocation."""
    if word.startswith("container_"):
        return str(ContainerId.parse(word))
    ids = list(known)
    if word == "last" and ids:
        return ids[-1]
    if dotted := _DOTTED.fullmatch(word):
        wanted = (_whole(dotted[1]), _whole(dotted[2]))
        matches = [one for one in ids if (_application_number(one), _number(one)) == wanted]
    elif word.isdecimal():
        matches = [one for one in ids if _number(one) == _whole(word)]
    else:
        matches = _ending(ids, word)
    missing = ContainerNotFoundError(
        f"no container {harmless(word)}" if word != "last" else "there is no container yet",
        because=_known(ids, "container"),
        hint="`yopp container list -a` shows those this cluster knows",
        sought=word,
    )
    return _only(matches, word, missing)


def is_container(word: str) -> bool:
    """Whether a word can only mean a container: a full id of one, its suffix in YARN's digits, or ``3.2``."""
    ranged = _RANGE.fullmatch(word)
    return bool(
        word.startswith("container_")
        or _DOTTED.fullmatch(word)
        or (ranged and ranged[1])
        or re.search(r"(?:^|_)\d{6,}$", word)
    ) and (not word.startswith(("application_", "appattempt_")))


def nodes(reports: Sequence[NodeReport], given: Sequence[str]) -> list[NodeReport]:
    """The nodes named: full ids, ports, or unique beginnings or endings. Raises NodeNotFoundError,
    UsageError.
    """
    by_id = {report.node_id: report for report in reports}
    named: list[str] = []
    for word in words(given):
        bounds = _range(word)
        within = [
            one
            for one in by_id
            if bounds is not None and bounds[1] <= int(one.rpartition(":")[2]) <= bounds[2]
        ]
        named += list(by_id) if word == ALL else within or [_node(list(by_id), word)]
    return [by_id[one] for one in dict.fromkeys(named)]


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
            f"no node {harmless(word)}",
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


class _Lazy(Generic[T]):
    """Ids (or reports) that are asked for when the first word needs them, once."""

    def __init__(self, ask: Callable[[], list[T]]) -> None:
        self._ask = ask
        self._ids: list[T] | None = None

    def __iter__(self) -> Iterator[T]:
        if self._ids is None:
            self._ids = self._ask()
        return iter(self._ids)


def _whole(digits: str) -> int:
    """The number that was typed; one above that of any id where it has more digits than an id's may have, which
    Python need not read."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) < 20 else 10**19


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
