"""Expected running times, and from them when requests that have no container yet may be served. Pure.

A node itself says when the containers start that wait there (``whatif/node.py``).

The declared running time of a container takes precedence over measurements: the median of its application's
ended containers, else that of those on its node, else that of all. The remaining time of a running container
is what a node itself takes for it (``executor.core.estimates``); a container that has outlived its expected time is
named. If a container has run for much longer than other applications' containers, its remaining time is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from executor.core.estimates import whole
from executor.light import Record
from executor.records import ExecutionType, Resource

from ..records.explanation import (
    BASES,
    OF_ALL,
    OF_APPLICATION,
    OF_NODE,
    OF_RUNNING,
    Expected,
    Reason,
)
from ..records.reports import ContainerReport
from ..records.tracker_protocol import ExpectedTimes

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
            if one.started_at_ms and not one.is_am and not one.duration_hint_ms:
                usual = self._usual(one.application_id, one.node_id)
                lasts = round(whole(usual.ms, ran_ms(one, now_ms))) if usual.basis in (OF_NODE, OF_ALL) else 0
                self._begun[one.application_id] = max(lasts, self._begun.get(one.application_id, 0))

    def of_node(self, application_ids: Iterable[str], node_id: str) -> tuple[ExpectedTimes, ...]:
        """How long the containers of each of these applications, and of any other one, are expected to run on a
        node, if their masters declare nothing."""
        found = []
        for name in ("", *application_ids):
            usual, begun = self._usual(name, node_id), self._begun.get(name, 0)
            longer = begun > usual.ms and usual.basis in (OF_NODE, OF_ALL)
            found.append(ExpectedTimes(name, Expected(begun, OF_RUNNING) if longer else usual, usual))
        return tuple(found)

    def _usual(self, application_id: str, node_id: str) -> Expected:
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


class Asked(Record):
    """Equal containers that an application has requested and not been granted. ``nodes`` are the ids of the
    nodes that could serve the request. ``limited``: a limit of its queue blocks the request.
    """

    number: int
    resource: Resource
    kind: ExecutionType
    hint_ms: int
    asked_ms: int
    nodes: frozenset[str]
    reasons: tuple[Reason, ...] = ()
    limited: bool = False
    queue: str = ""
    is_master: bool = False


def weaker(one: Expected, other: Expected) -> Expected:
    """The one of the two with the weaker basis; the other one where one is unknown."""
    if not one.basis or not other.basis:
        return other if other.basis else one
    return other if BASES.index(other.basis) >= BASES.index(one.basis) else one
