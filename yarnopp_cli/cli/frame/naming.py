"""Resolves ids of applications, containers and nodes: full ids, ``last``, unique suffixes, ``-`` for stdin.

``3`` is the application (or container) with that number, ``3.2`` the newest container of application 3's task 2, or
its container 2 if its tasks have no numbers, ``3.c2`` its container 2 in any case; ``last.2`` belongs to the newest
application, ``NAME.2`` to the application with this name; ``_0003`` is the only id with this end, and any other word
the name of an application; ``1-3,7`` and ``3.2-5`` are the existing entities with these numbers, ``all`` means all
live ones. A word without a match is exit 66; a word with several matches is exit 2 and lists them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from executor.hints import TYPE_CHECKING, TypeVar
from executor.light import Record, pattern, suppress

from ...errors import (
    ApplicationNotFoundError,
    ContainerNotFoundError,
    NodeNotFoundError,
    NotKnownError,
    UsageError,
    YoppError,
)
from ...records import client_protocol as rm
from ...records import job_protocol
from ...records.ids import ApplicationAttemptId, ApplicationId, ContainerId, application_of, dotted
from ...records.reports import FINAL_STATES
from ...views.containers import is_live
from ...views.text import harmless, number_of
from .output import is_terminal

if TYPE_CHECKING:
    from ...client.protocol import Client
    from ...records.reports import ApplicationReport, ContainerReport, NodeReport

T = TypeVar("T")

ALL = "all"
_DOTTED = pattern(r"(?:(\d+)\.(c?))?(\d+)", re.ASCII)
_RANGE = pattern(r"(?:(\d+)\.(c?))?(\d+)-(?:(\d+)\.\2|\2)?(\d+)", re.ASCII)
_NUMBERS = pattern(r"(?:[\d.-]|\.c)*\d,(?:[\d.,-]|\.c)*\d", re.ASCII)
_OF_LAST = pattern(r"last\.(c?\d+(?:-\d+)?)", re.ASCII)
OF_NAMED = pattern(r"(.+)\.(c?\d+(?:-\d+)?)", re.ASCII)
"""``NAME.2``, unless an application has exactly this name."""
_YARNS_DIGITS = pattern(r"(?:…?e?[\d_]*_)?\d{6,}", re.ASCII)
"""The end of a container's id, with at least the digits of YARN, so that no name of a job (``train_20260131``) is
mistaken for it."""
_IDENTIFYING = pattern(r"last|all|[\d._…-]+|\d+\.c[\d.c-]+|(?:application|appattempt|container)_.*", re.ASCII)
"""Words that are never names."""
ON_END = "on-end"
"""The tag of an application of ``run --on-end``."""
_CANDIDATES = 5


def words(given: Sequence[str]) -> list[str]:
    """The named ids, with ``-`` replaced by the words on stdin. Raises UsageError if stdin is a terminal or empty."""
    named: list[str] = []
    for word in given:
        if word != "-":
            named.append(word)
            continue
        if is_terminal(sys.stdin):
            raise UsageError(
                "- reads ids from standard input, which is a terminal",
                because="nothing is piped into it",
                hint="yopp app list -q | …",
            )
        named += sys.stdin.buffer.read().decode("utf-8", "backslashreplace").split()
    if not named:
        raise UsageError(
            "no id was given",
            because="standard input was empty" if "-" in given else "the command line has none",
            hint="name one, or `last`",
        )
    split = [one for word in named for one in (word.split(",") if _NUMBERS.fullmatch(word) else [word])]
    return list(dict.fromkeys(split))


def _only(found: Sequence[T], word: str, noun: str) -> T:
    """The only match of a word, for commands that take one. Raises UsageError for several, or for none with ``all``."""
    if len(found) != 1:
        raise UsageError(
            f"{harmless(word)} matches {number_of(len(found), noun)}; exactly one is needed",
            because="this command takes one",
            hint="name one, or `last`",
        )
    return found[0]


def _number(identifier: str) -> int:
    return int(identifier.rpartition("_")[2])


class _Kind(Record):
    """A kind of entity that can be named: the error for a missing one, the full id that a word alone determines (""
    for none), and the numbers of an id (of its application, or None; its own). ``tasks`` are the task numbers of the
    ids that have one."""

    missing: type[NotKnownError]
    full: Callable[[str], str]
    numbers: Callable[[str], tuple[int | None, int]]
    tasks: Callable[[], Mapping[str, int]] = dict

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.missing.noun


def _full_application(word: str) -> str:
    if word.startswith("appattempt_"):
        return str(ApplicationAttemptId.parse(word).application_id)
    if word.startswith("container_"):
        return str(ContainerId.parse(word).application_id)
    return str(ApplicationId.parse(word)) if word.startswith("application_") else ""


def _full_container(word: str) -> str:
    return str(ContainerId.parse(word)) if word.startswith("container_") else ""


_APPLICATION = _Kind(ApplicationNotFoundError, _full_application, lambda one: (None, _number(one)))


def _of_containers(tasks: Callable[[], Mapping[str, int]] = dict) -> _Kind:
    return _Kind(
        ContainerNotFoundError,
        _full_container,
        lambda one: (ContainerId.parse(one).application_id.id, _number(one)),
        cache(tasks),
    )


_CONTAINER = _of_containers()
_NODE = _Kind(NodeNotFoundError, lambda word: "", lambda one: (None, int(one.rpartition(":")[2])))


def applications(client: Client, given: Sequence[str]) -> list[str]:
    """The full ids of the applications named. Raises ApplicationNotFoundError, UsageError."""

    def live() -> list[str]:
        return [
            one.application_id
            for one in client.applications(job_protocol.GetApplicationsRequest(live_only=True))
        ]

    reports = cache(lambda: client.applications())
    named = [word if _IDENTIFYING.fullmatch(word) else _by_name(reports(), word) for word in words(given)]
    return _named(_APPLICATION, lambda: _in_order(reports()), named, live)


def one_application(client: Client, word: str) -> str:
    """The full id of the only application that a word names. Raises as ``applications``."""
    return _only(applications(client, [word]), word, _APPLICATION.name)


def _in_order(reports: Sequence[ApplicationReport]) -> list[str]:
    """The ids in order of submission, but applications of --on-end first: `last` is the job, not the job that follows
    it."""
    return [one.application_id for one in sorted(reports, key=lambda one: ON_END not in one.tags)]


def owners(client: Client, given: Sequence[str]) -> list[str]:
    """The full ids of the applications named; ``3.2``, ``3.c2``, ``last.2`` and ``NAME.2`` name the application of a
    container. Raises as ``applications`` and ``containers``."""
    named: list[str] = []
    for word in by_names(client, words(given)):
        dotted = "." in word and is_container(word)
        named += map(application_of, containers(client, [word])) if dotted else [word]
    return applications(client, named)


def _by_name(reports: Sequence[ApplicationReport], word: str) -> str:
    """The full id of the application with this name: the live one, else the newest; the word itself if there is none.

    Raises UsageError if several are live.
    """
    named = [one for one in reports if one.name == word]
    living = [one.application_id for one in named if one.state not in FINAL_STATES]
    if len(living) > 1:
        raise UsageError(
            f"{harmless(word)!r} is the name of {len(living)} running applications; exactly one is needed",
            because=_some(living),
            hint="name one by its id, or `last`",
        )
    if living:
        return living[0]
    return max((one.application_id for one in named), key=ApplicationId.parse, default=word)


def by_names(client: Client, named: Sequence[str]) -> list[str]:
    """The words, with ``NAME.2`` and ``application_…_0003.2`` replaced by ``3.2`` with this application's number,
    unless an application has the whole word as its name. Raises UsageError if several live applications have the
    name."""
    reports = cache(lambda: client.applications())
    found = []
    for word in named:
        never = _IDENTIFYING.fullmatch(word) and not word.startswith("application_")
        match = None if never or is_container(word) else OF_NAMED.fullmatch(word)
        if match is not None and all(one.name != word for one in reports()):
            application_id = _by_name(reports(), match[1])
            if any(one.application_id == application_id for one in reports()):
                word = f"{_number(application_id)}.{match[2]}"
        found.append(word)
    return found


def _some(found: Sequence[str]) -> str:
    more = f" and {len(found) - _CANDIDATES} more" if len(found) > _CANDIDATES else ""
    return ", ".join(found[:_CANDIDATES]) + more


def kept_application(known: Sequence[str], word: str, report: Callable[[str], ApplicationReport]) -> str:
    """The full id of the application that ``word`` means, among the ``known`` ids in order of submission. ``report``
    reads the last report of an application, and raises ApplicationNotFoundError if it was not kept."""

    def kept(ids: Iterable[str]) -> Iterator[ApplicationReport]:
        for one in ids:
            with suppress(ApplicationNotFoundError):
                yield report(one)

    if word == "last":
        work = (one.application_id for one in kept(reversed(known)) if ON_END not in one.tags)
        return next(work, None) or _one(_APPLICATION, lambda: list(known), word)
    named = word if _IDENTIFYING.fullmatch(word) else _by_name(list(kept(known)), word)
    found = _one(_APPLICATION, lambda: list(known), named)
    if found not in known:
        raise ApplicationNotFoundError.of(word, f"none of the {len(known)} known applications matches")
    return found


def containers(
    client: Client, given: Sequence[str], *, every: Callable[[ContainerReport], bool] | None = None
) -> list[str]:
    """The full ids of the named containers, ended ones included; ``all`` means the live ones that ``every`` accepts.
    With ``every``, ranges leave out ended ones, too. Raises ContainerNotFoundError, UsageError."""
    reports = cache(lambda: client.container_reports(rm.GetContainersRequest(finished=True)))

    def live() -> list[str]:
        running = [one for one in client.containers() if is_live(one)]
        # Pausing or killing a master affects the whole application: `all` includes masters only for a command that
        # kills.
        return [one.container_id for one in running if every is None or (every(one) and not one.is_am)]

    def changeable(within: list[str]) -> list[str]:
        living = {one.container_id for one in client.container_reports(rm.GetContainersRequest())}
        return [one for one in within if one in living] or within

    named = by_names(client, words(given))
    if any(word == "last" or _OF_LAST.fullmatch(word) for word in named):
        # `last` means the job, not the job of its --on-end, unless there is nothing else.
        following = {one.application_id for one in client.applications() if ON_END in one.tags}
        of_jobs = [one for one in reports() if one.application_id not in following] or reports()
        tasks = [one.container_id for one in of_jobs if not one.is_am]
        named = [tasks[-1] if tasks and word == "last" else word for word in named]
        named = [_of_last(_CONTAINER, lambda: [one.container_id for one in of_jobs], word) for word in named]
    known = cache(lambda: [one.container_id for one in reports()])
    kind = _of_containers(lambda: {one.container_id: one.task for one in reports() if one.task is not None})
    return _named(kind, known, named, live, changeable if every is not None else None)


def one_container(client: Client, word: str) -> str:
    """The full id of the only container that a word names. Raises as ``containers``."""
    return _only(containers(client, [word]), word, _CONTAINER.name)


def container(known: Iterable[str], word: str, tasks: Callable[[], Mapping[str, int]] = dict) -> str:
    """The full id of the container that ``word`` means, among the ``known`` ids in order of allocation; ``tasks`` are
    the numbers of their tasks, if known."""
    ids = list(known)
    if _OF_LAST.fullmatch(word) and ids:
        # Several ended clusters may have an application with this number.
        ids = [one for one in ids if application_of(one) == application_of(ids[-1])]
    return _one(_of_containers(tasks), lambda: ids, _of_last(_CONTAINER, lambda: ids, word))


def nodes(reports: Sequence[NodeReport], given: Sequence[str]) -> list[NodeReport]:
    """The named nodes: full ids, ports, or unique beginnings or endings. Raises NodeNotFoundError, UsageError."""
    by_id = {report.node_id: report for report in reports}
    return [by_id[one] for one in _named(_NODE, lambda: list(by_id), words(given), lambda: list(by_id))]


def one_node(client: Client, word: str) -> NodeReport:
    """The only node that a word names. Raises as ``nodes``."""
    return _only(nodes(client.nodes(), [word]), word, _NODE.name)


def spread(client: Client, given: Sequence[str]) -> list[str]:
    """The words with ranges and ``all`` (live applications) replaced by full ids. Raises as ``applications``."""
    found: list[str] = []
    for word in given:
        if word != ALL and _range(word) is None:
            found.append(word)
        else:
            found += containers(client, [word]) if is_container(word) else applications(client, [word])
    return list(dict.fromkeys(found))


def jobs(client: Client, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """The full ids of the applications named, and of the containers. Raises as ``applications`` and ``containers``."""
    named = by_names(client, words(given))
    some = [one for one in named if is_container(one)]
    others = [one for one in named if one not in some]
    return applications(client, others) if others else [], containers(client, some) if some else []


def things(client: Client, given: Sequence[str]) -> list[str]:
    """The full ids of the applications, containers and nodes named. A number is a node's port, or an application's."""
    every = client.nodes()
    ports = {one.node_id.rpartition(":")[2] for one in every}

    def node(word: str) -> list[str]:
        return [one.node_id for one in nodes(every, [word])]

    found: list[str] = []
    for word in spread(client, by_names(client, words(given))):
        if is_container(word):
            found += containers(client, [word])
        elif word in ports or ":" in word:
            found += node(word)
        else:
            try:
                found += applications(client, [word])
            except YoppError as problem:
                try:
                    found += node(word)
                except NodeNotFoundError:
                    raise problem from None
    return list(dict.fromkeys(found))


def is_container(word: str) -> bool:
    """Whether a word can only mean a container: a full id of one, its suffix in YARN's digits, ``3.2``, ``3.c2``."""
    ranged = _RANGE.fullmatch(word)
    return bool(
        word.startswith("container_")
        or _OF_LAST.fullmatch(word)
        or (_DOTTED.fullmatch(word) and "." in word)
        or (ranged and ranged[1])
        or _YARNS_DIGITS.fullmatch(word)
    ) and not word.startswith(("application_", "appattempt_"))


def of_application(report: ContainerReport, word: str) -> bool:
    """Whether a container is of the attempt, or else of the application, with the full id ``word``."""
    if word.startswith("appattempt_"):
        return str(ContainerId.parse(report.container_id).application_attempt_id) == word
    return report.application_id == word


def _named(
    kind: _Kind,
    known: Callable[[], list[str]],
    given: Sequence[str],
    live: Callable[[], list[str]],
    narrowed: Callable[[list[str]], list[str]] | None = None,
) -> list[str]:
    """The full ids of the words; ``live`` are the ids of ``all``; ``narrowed`` selects among the ids of a range."""
    named: list[str] = []
    for word in given:
        if word == ALL:
            named += live()
            continue
        word = _of_last(kind, known, word)
        within = []
        if (bounds := _range(word)) is not None:
            app, first, last, own = bounds
            within = _within(kind, known(), app, first, last, own=own)
        if within and narrowed is not None:
            within = narrowed(within)
        named += within or [_one(kind, known, word)]
    return list(dict.fromkeys(named))


def _of_last(kind: _Kind, known: Callable[[], list[str]], word: str) -> str:
    """``last.2`` with the number of the newest application that has containers; any other word is unchanged."""
    match = _OF_LAST.fullmatch(word) if kind.missing is ContainerNotFoundError else None
    if match is None or not (ids := known()):
        return word
    return f"{max(kind.numbers(one)[0] or 0 for one in ids)}.{match[1]}"


def _within(
    kind: _Kind, ids: Sequence[str], app: int | None, first: int, last: int, *, own: bool = False
) -> list[str]:
    """The ids with these numbers: of any application, or of the application with the number ``app``. In an application
    whose tasks have numbers, these numbers count, unless ``own``: of several containers of a task, the newest."""
    by_app: dict[int | None, list[tuple[int, str]]] = {}
    for one in ids:
        of, number = kind.numbers(one)
        if app in (None, of):
            by_app.setdefault(of, []).append((number, one))
    found: list[str] = []
    tasks = {} if own or not by_app else kind.tasks()
    for numbered in by_app.values():
        of_tasks = {tasks[one]: one for _, one in numbered if one in tasks}
        found += [one for number, one in sorted(of_tasks.items()) or numbered if first <= number <= last]
    return found


def _one(kind: _Kind, known: Callable[[], list[str]], word: str) -> str:
    """The full id of one word. Raises the kind's error if there is none, UsageError for several."""
    if full := kind.full(word):
        return full
    ids = known()
    if word == "last" and ids:
        return ids[-1]
    matches = _matching(kind, ids, word)
    if not matches:
        name = kind.name
        because = f"none of the {len(ids)} known {name}s matches" if ids else f"no {name} has registered"
        if len(ids) == 1:
            because = f"the only {name} is {ids[0]}"
        if others := _matching(kind, ids, word, own=True):
            because = f"no task has this number; {dotted(others[0])} is the container with this number"
        elif (typed := _DOTTED.fullmatch(word)) and typed[1]:
            because = _of_this_application(kind, ids, _whole(typed[1])) or because
        if not ids and kind is not _NODE:
            raise kind.missing(
                f"there is no {name} yet" if word == "last" else f"no {name} {word}",
                because="nothing has run here yet",
                hint="`yopp run echo hello` runs a command",
                sought=word,
            )
        raise kind.missing.of(word, because)
    if len(matches) > 1:
        raise UsageError(
            f"{word!r} matches {len(matches)} {kind.name}s; exactly one is needed",
            because=_some(matches),
            hint="type more of its id",
        )
    return matches[0]


def _of_this_application(kind: _Kind, ids: Sequence[str], app: int) -> str:
    """A sentence about the containers of the application with this number; "" if it has none, or if their tasks are
    not known."""
    tasks = kind.tasks()
    found = sorted({tasks[one] for one in ids if one in tasks and kind.numbers(one)[0] == app})
    if not found:
        return ""
    shown = str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
    return f"application {app} has containers of {number_of(len(found), 'task')} so far: {shown}"


def _matching(kind: _Kind, ids: Sequence[str], word: str, *, own: bool = False) -> list[str]:
    """The ids of a word: by number (``own``: the containers' own numbers, not those of tasks), or by a part that only
    one id has."""
    if numbered := _DOTTED.fullmatch(word):
        app, number = _whole(numbered[1]) if numbered[1] else None, _whole(numbered[3])
        found = _within(kind, ids, app, number, number, own=own or bool(numbered[2]))
        if found or kind is not _NODE:
            return found
    if kind is _NODE:
        return [one for one in ids if one == word] or [
            one for one in ids if one.startswith(word) or one.endswith(word)
        ]
    return [one for one in ids if one.endswith(word.lstrip("…"))] if word.strip("…_") else []


def _range(word: str) -> tuple[int | None, int, int, bool] | None:
    """The parts of ``1-3`` or ``3.2-5``: the application before the dot, the bounds, and whether these are
    containers' own numbers. Raises UsageError."""
    match = _RANGE.fullmatch(word)
    if match is None:
        return None
    first, last = _whole(match[3]), _whole(match[5])
    if last < first or (match[4] and match[4] != match[1]):
        raise UsageError(
            f"{word} is not a range",
            because="its end is before its start" if last < first else "its ends belong to two applications",
            hint="1-3 are numbers 1 to 3, 3.2-5 are tasks 2 to 5 of application 3",
        )
    return _whole(match[1]) if match[1] else None, first, last, bool(match[2])


def _whole(digits: str) -> int:
    """The number that was typed; a number above any id's if it has more digits than an id may have, which Python need
    not read."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) < 20 else 10**19
