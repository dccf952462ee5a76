"""How long containers are expected to run, and so when those that wait may start. Pure.

What a container's creator declared goes before what was measured: the median of its application's containers that
have ended, else that of those on its node, else that of all. What is left of one that runs is that less what it has
run; one that has outlived it may end at any moment, and is named. Of one that has run for much longer than other
applications' containers do, nothing is known.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from executor.records import ContainerState, ExecutionType, Resource

from ..records.reports import ContainerReport

MOST_STEPS = 200_000
"""Looks at waiting containers that an estimate takes, at most: beyond that it says nothing."""

BEYOND_MS = 1000
"""Twice the median of others and this much more: who has run longer is none of their kind."""

DECLARED = "declared"
OF_APPLICATION = "median-task-time"
OF_NODE = "median-node-time"
OF_ALL = "median-cluster-time"
BY_NODE = "node-queue-wait"
BASES = (DECLARED, OF_APPLICATION, OF_NODE, OF_ALL, BY_NODE)
"""What an estimate rests on, the best first. BY_NODE: the node's own word on how long a newcomer would wait."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A running time in all, in milliseconds; 0 where nothing is known. ``basis`` is one of BASES."""

    ms: int = 0
    basis: str = ""


class Durations:
    """What is known of running times: ``finished`` are containers that have ended."""

    def __init__(self, finished: Iterable[ContainerReport]) -> None:
        self._of_application: dict[str, list[int]] = {}
        self._of_node: dict[str, list[int]] = {}
        self._all: list[int] = []
        self._known: dict[tuple[str, str], Expected] = {}
        for one in finished:
            if one.started_at_ms and one.exit_status >= 0 and not one.is_am:
                ran = max(0, one.finished_at_ms - one.started_at_ms - one.stood_ms)
                self._of_application.setdefault(one.application_id, []).append(ran)
                self._of_node.setdefault(one.node_id, []).append(ran)
                self._all.append(ran)

    def of(self, report: ContainerReport) -> Expected:
        """How long a container is expected to run."""
        return self.of_task(report.duration_hint_ms, report.application_id, report.node_id)

    def of_task(self, declared_ms: int, application_id: str, node_id: str = "") -> Expected:
        """How long a container of an application is expected to run, on ``node_id`` where that is known."""
        if declared_ms > 0:
            return Expected(declared_ms, DECLARED)
        key = (application_id, node_id)
        if key not in self._known:
            self._known[key] = self._median(application_id, node_id)
        return self._known[key]

    def _median(self, application_id: str, node_id: str) -> Expected:
        for basis, times in (
            (OF_APPLICATION, self._of_application.get(application_id)),
            (OF_NODE, self._of_node.get(node_id)),
            (OF_ALL, self._all),
        ):
            if times:
                # 0 means unknown: what took no time at all took one millisecond
                return Expected(max(1, round(statistics.median(times))), basis)
        return Expected()


def ran_ms(report: ContainerReport, now_ms: int) -> int:
    """How long it has run; the time that it stood still does not count."""
    if not report.started_at_ms:
        return 0
    until = report.finished_at_ms or report.paused_at_ms or now_ms
    return max(0, until - report.started_at_ms - report.stood_ms)


def beyond(one: ContainerReport, expected: Expected, now_ms: int) -> bool:
    """Whether it has run so much longer than other applications' containers do that their median says nothing of it."""
    return expected.basis in (OF_NODE, OF_ALL) and ran_ms(one, now_ms) > 2 * expected.ms + BEYOND_MS


# -- lanes ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Waiter:
    """One that starts when ``needs`` is free, and gives ``holds`` back ``left_ms`` later (-1: nobody knows when)."""

    key: str
    needs: Resource
    holds: Resource
    left_ms: int
    expected: Expected


@dataclass(slots=True)
class Lane:
    """One node: what is free, what runs there and when it ends, and who waits, in order.

    ``ends`` are (left_ms, what is given back, expected, id of one that has outlived its time or "").
    """

    node_id: str
    free: Resource
    ends: list[tuple[int, Resource, Expected, str]] = field(default_factory=list)
    line: list[Waiter] = field(default_factory=list)


@dataclass(slots=True)
class Pool:
    """``count`` equal containers that are asked for, and go where there is room first: to one of ``nodes``."""

    key: str
    count: int
    needs: Resource
    expected: Expected
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Start:
    """In how many milliseconds one may start. ``expected`` is what that rests on: the weakest basis of all that must
    end before, and its running time. ``outlived`` are those of them that have run longer than was expected of them.
    """

    in_ms: int
    expected: Expected
    outlived: tuple[str, ...] = ()


def lane(
    node_id: str,
    free: Resource,
    running: Sequence[ContainerReport],
    line: Sequence[ContainerReport],
    durations: Durations,
    now_ms: int,
) -> Lane:
    """A node as its containers are now. Masters, what nothing is known of, and what is beyond all that is known
    are taken to go on for ever.
    """
    found = Lane(node_id, free)
    for one in running:
        expected = durations.of(one)
        if not one.is_am and expected.ms and not beyond(one, expected, now_ms):
            ran = ran_ms(one, now_ms)
            late = one.container_id if ran > expected.ms else ""
            left = 0 if one.state is ContainerState.KILLING else max(0, expected.ms - ran)
            found.ends.append((left, one.resource, expected, late))
    for one in line:
        expected = durations.of(one)
        left = max(0, expected.ms - ran_ms(one, now_ms)) if expected.ms and not one.is_am else -1
        # One that stands still has kept its memory.
        needs = one.resource if one.state is ContainerState.SCHEDULED else Resource(0, one.resource.vcores)
        found.line.append(Waiter(one.container_id, needs, one.resource, left, expected))
    return found


def starts(lanes: Sequence[Lane], pools: Sequence[Pool], wanted: frozenset[str]) -> dict[str, list[Start]]:
    """When those of the keys in ``wanted`` start, by key, each one's starts in order; those of which nothing can be
    said are not there. Each lane starts its own in their order, as they fit; then the pools' ones in theirs.
    """
    return _Race(lanes, pools, wanted).run()


class _Race:
    """The lanes' future, end after end."""

    def __init__(self, lanes: Sequence[Lane], pools: Sequence[Pool], wanted: frozenset[str]) -> None:
        self._lanes = lanes
        self._free = {one.node_id: one.free for one in lanes}
        self._lines = {one.node_id: list(one.line) for one in lanes}
        self._least = {one.node_id: _least(waiter.needs for waiter in one.line) for one in lanes}
        self._pools = list(pools)
        self._left = {one.key: one.count for one in pools}
        self._wanted = wanted
        self._missing = sum(1 for one in lanes for waiter in one.line if waiter.key in wanted)
        self._missing += sum(one.count for one in pools if one.key in wanted)
        self._ends: list[tuple[int, int, str, Resource, Expected, str]] = []
        self._number = 0
        self._steps = 0
        self._clock = 0
        self._weakest = Expected()
        self._outlived: tuple[str, ...] = ()
        self._found: dict[str, list[Start]] = {}

    def run(self) -> dict[str, list[Start]]:
        """Until all that are wanted have started, nothing ends any more, or it takes too long."""
        for one in self._lanes:
            for left, resource, expected, late in one.ends:
                self._end(left, one.node_id, resource, expected, late)
        for one in self._lanes:
            self._start_on(one.node_id)
        while self._missing and self._ends and self._steps < MOST_STEPS:
            self._clock, _, node_id, resource, expected, late = heapq.heappop(self._ends)
            if late and late not in self._outlived:
                self._outlived = (*self._outlived, late)
            self._weakest = weaker(self._weakest, expected)
            self._free[node_id] = self._free[node_id] + resource
            self._start_on(node_id)
        return self._found

    def _end(self, at: int, node_id: str, resource: Resource, expected: Expected, late: str = "") -> None:
        self._number += 1
        self._steps += 1
        heapq.heappush(self._ends, (at, self._number, node_id, resource, expected, late))

    def _start_on(self, node_id: str) -> None:
        line = self._lines[node_id]
        least = self._least[node_id]
        place = 0
        while place < len(line) and least.fits_in(self._free[node_id]) and self._steps < MOST_STEPS:
            self._steps += 1
            waiter = line[place]
            if waiter.needs.fits_in(self._free[node_id]):
                del line[place]
                self._begin(waiter.key, node_id, waiter.needs, waiter.holds, waiter.left_ms, waiter.expected)
            else:
                place += 1
        for pool in self._pools:
            if node_id not in pool.nodes:
                continue
            while self._left[pool.key] and pool.needs.fits_in(self._free[node_id]):
                if self._steps >= MOST_STEPS:
                    return
                self._left[pool.key] -= 1
                left = pool.expected.ms or -1
                self._steps += 1
                self._begin(pool.key, node_id, pool.needs, pool.needs, left, pool.expected)

    def _begin(
        self, key: str, node_id: str, needs: Resource, holds: Resource, left: int, expected: Expected
    ) -> None:
        self._free[node_id] = self._free[node_id] - needs
        if key in self._wanted:
            self._missing -= 1
            basis = self._weakest if self._weakest.basis else expected
            self._found.setdefault(key, []).append(Start(self._clock, basis, self._outlived))
        if left >= 0:
            self._end(self._clock + left, node_id, holds, expected)


def _least(needs: Iterable[Resource]) -> Resource:
    """What any of them needs at the least, each resource by itself."""
    known = list(needs)
    if not known:
        return Resource()
    return Resource(min(one.memory for one in known), min(one.vcores for one in known))


def weaker(one: Expected, other: Expected) -> Expected:
    """Which of two rests on less; the other where one is unknown."""
    if not one.basis or not other.basis:
        return other if other.basis else one
    return other if BASES.index(other.basis) >= BASES.index(one.basis) else one


def guaranteed(reports: Iterable[ContainerReport]) -> list[ContainerReport]:
    """Those of them that are guaranteed."""
    return [one for one in reports if one.execution_type is ExecutionType.GUARANTEED]
