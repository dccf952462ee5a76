"""Expected running times, and from them when requests that have no container yet may be served. Pure.

A node itself says when the containers start that wait there (``whatif/node.py``).

The declared running time of a container takes precedence over measurements: the median of its application's
ended containers, else that of those on its node, else that of all. The remaining time of a running container
is what a node itself takes for it (``executor.core.estimates``); a container that has outlived its expected time is
named. If a container has run for much longer than other applications' containers, its remaining time is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from executor.core.estimates import Node, Pool, Running, Waiting, future, remaining, whole
from executor.light import Record
from executor.records import ContainerState, ExecutionType, Resource

from ..records.explanation import (
    BASES,
    DECLARED,
    OF_ALL,
    OF_APPLICATION,
    OF_NODE,
    OF_RUNNING,
    Expected,
    Reason,
    Start,
)
from ..records.reports import ContainerReport
from ..records.tracker_protocol import ExpectedTimes
from .snapshot import NodeSnapshot, needs_of

BEYOND_MS = 1000
"""A container that has run longer than twice the median of others plus this is not comparable with them."""


class Durations:
    """The running times of ``finished``, containers that have ended, and of those of ``live`` that have begun."""

    def __init__(
        self, finished: Iterable[ContainerReport], live: Iterable[ContainerReport] = (), now_ms: int = 0
    ) -> None:
        self._times: dict[tuple[str, str], list[int]] = {}
        self._known: dict[tuple[str, str], Expected] = {}
        for one in finished:
            if one.started_at_ms and one.exit_status >= 0 and not one.is_am:
                ran = max(0, one.finished_at_ms - one.started_at_ms - one.stood_ms)
                for whose in ((OF_APPLICATION, one.application_id), (OF_NODE, one.node_id), (OF_ALL, "")):
                    self._times.setdefault(whose, []).append(ran)
        self._begun: dict[str, int] = {}
        for one in live:
            usual = self.usual(one)
            if one.started_at_ms and not one.is_am and usual.basis in (OF_NODE, OF_ALL):
                lasts = round(whole(usual.ms, ran_ms(one, now_ms)))
                self._begun[one.application_id] = max(lasts, self._begun.get(one.application_id, 0))

    def of(self, report: ContainerReport) -> Expected:
        """How long a container is expected to run."""
        return self.of_task(report.duration_hint_ms, report.application_id, report.node_id)

    def of_task(self, declared_ms: int, application_id: str, node_id: str = "") -> Expected:
        """How long a container of an application is expected to run, on ``node_id`` where that is known."""
        usual, begun = self._usual(declared_ms, application_id, node_id), self._begun.get(application_id, 0)
        if begun > usual.ms and usual.basis in (OF_NODE, OF_ALL):
            return Expected(begun, OF_RUNNING)
        return usual

    def of_node(self, application_ids: Iterable[str], node_id: str) -> tuple[ExpectedTimes, ...]:
        """The same for each of these applications, and any other one, on a node."""
        return tuple(
            ExpectedTimes(one, self.of_task(0, one, node_id), self._usual(0, one, node_id))
            for one in ("", *application_ids)
        )

    def usual(self, report: ContainerReport) -> Expected:
        """The same before anything of its application has begun."""
        return self._usual(report.duration_hint_ms, report.application_id, report.node_id)

    def _usual(self, declared_ms: int, application_id: str, node_id: str) -> Expected:
        if declared_ms > 0:
            return Expected(declared_ms, DECLARED)
        key = (application_id, node_id)
        if key not in self._known:
            self._known[key] = self._median(application_id, node_id)
        return self._known[key]

    def _median(self, application_id: str, node_id: str) -> Expected:
        for basis, whose in ((OF_APPLICATION, application_id), (OF_NODE, node_id), (OF_ALL, "")):
            if ordered := sorted(self._times.get((basis, whose), ())):
                median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
                # 0 means unknown, so a time of 0 ms counts as 1 ms
                return Expected(max(1, round(median)), basis)
        return Expected()


def ran_ms(report: ContainerReport, now_ms: int) -> int:
    """How long a container has run; the time it was paused does not count."""
    if not report.started_at_ms:
        return 0
    until = report.finished_at_ms or report.paused_at_ms or now_ms
    return max(0, until - report.started_at_ms - report.stood_ms)


def is_beyond(expected: Expected, ran: float) -> bool:
    """Whether a container has run so much longer than other applications' containers, ``ran`` milliseconds, that their
    median does not apply to it.
    """
    return expected.basis in (OF_NODE, OF_ALL) and ran > 2 * expected.ms + BEYOND_MS


# -- the order of starts -------------------------------------------------------------------------------------


class Asked(Record):
    """Equal containers that an application has requested and not been granted. ``nodes`` are the ids of the
    nodes that could serve the request, ``duration`` is how long each container is expected to run.
    ``limited``: a limit of its queue blocks the request.
    """

    number: int
    resource: Resource
    kind: ExecutionType
    duration: Expected
    asked_ms: int
    nodes: frozenset[str]
    reasons: tuple[Reason, ...] = ()
    limited: bool = False
    queue: str = ""


class _Tag(NamedTuple):
    """The facts that the estimate needs about a container that starts or ends."""

    key: str
    expected: Expected
    late: bool = False


def future_of(
    free: Resource,
    running: Sequence[ContainerReport],
    line: Sequence[ContainerReport],
    durations: Durations,
    now_ms: int,
) -> Node:
    """A node with its present containers. Masters, containers of unknown running time, and those far beyond
    their expected time are taken to run for ever.
    """
    ends, waiting = [], []
    for one in running:
        expected, usual = durations.of(one), durations.usual(one)
        if not one.is_am and usual.ms and not is_beyond(usual, ran_ms(one, now_ms)):
            ran = ran_ms(one, now_ms)
            left = 0 if one.state is ContainerState.KILLING else remaining(expected.ms, ran)
            # What only says how long it has run already is no reason to expect its end now.
            basis = expected if left else usual
            ends.append(Running(left, one.resource, _Tag(one.container_id, basis, ran > usual.ms)))
    for one in line:
        expected = durations.of(one)
        known = bool(expected.ms) and not one.is_am
        left_ms = remaining(expected.ms, ran_ms(one, now_ms)) if known else None
        waiting.append(Waiting(left_ms, needs_of(one), one.resource, _Tag(one.container_id, expected)))
    return Node(free, ends, waiting)


def durations_of(
    nodes: Sequence[NodeSnapshot], finished: Sequence[ContainerReport], now_ms: int
) -> Durations:
    """The running times of ``finished``, and of the containers on these nodes."""
    return Durations(finished, (one for here in nodes for one in here.live), now_ms)


def queue_of(here: NodeSnapshot, durations: Durations, now_ms: int) -> Node:
    """A node with its queue of opportunistic containers, and the running ones that these wait for."""
    return future_of(here.free_for(ExecutionType.OPPORTUNISTIC), here.running, here.line, durations, now_ms)


def starts(
    lanes: dict[str, Node], asked: Mapping[str, Asked], wanted: frozenset[str]
) -> list[tuple[str, Start]]:
    """The keys in ``wanted`` and when they start, in order; those without an estimate are left out.

    ``lanes`` are the nodes by their ids: each starts the containers of its own queue in order, as they fit;
    then those in ``asked``, in order.
    """
    places = {node_id: place for place, node_id in enumerate(lanes)}
    pools = [
        Pool(
            one.number,
            Waiting(one.duration.ms or None, one.resource, one.resource, _Tag(key, one.duration)),
            frozenset(places[node_id] for node_id in one.nodes if node_id in places),
        )
        for key, one in asked.items()
    ]
    missing = sum(1 for node in lanes.values() for one in node.line if one.tag.key in wanted)
    missing += sum(one.number for key, one in asked.items() if key in wanted)
    found: list[tuple[str, Start]] = []
    weakest, outlived, seen = Expected(), dict[str, None](), 0
    for at, tag, ended in future(list(lanes.values()), pools):
        for one in ended[seen:]:
            weakest = weaker(weakest, one.expected)
            if one.late:
                outlived[one.key] = None
        seen = len(ended)
        if tag.key in wanted:
            basis = weakest if weakest.basis else tag.expected
            found.append((tag.key, Start(round(at), basis, tuple(outlived))))
            missing -= 1
            if not missing:
                break
    return found


def weaker(one: Expected, other: Expected) -> Expected:
    """The one of the two with the weaker basis; the other one where one is unknown."""
    if not one.basis or not other.basis:
        return other if other.basis else one
    return other if BASES.index(other.basis) >= BASES.index(one.basis) else one
