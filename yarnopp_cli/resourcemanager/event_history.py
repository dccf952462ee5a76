"""The last events of the cluster: a ring, filled by the ResourceManager's own transitions.

``EventHistory`` costs a few microseconds for each event and drops the oldest when it is full. The events of each
application are also in a separate queue. It decides nothing and has no clock: the step that fills it sets ``now_ms``.

Decisions: history-in-a-ring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from executor.causes import Cause
from executor.records import ContainerExitStatus, ContainerState, ContainerStatus, ExecutionType, Resource

from ..records.history import EventKind, GetEventsRequest, HistoryEvent

_ENDS: dict[int, EventKind] = {
    ContainerExitStatus.PREEMPTED: EventKind.CONTAINER_PREEMPTED,
    ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER: EventKind.CONTAINER_SHED,
    ContainerExitStatus.ABORTED: EventKind.CONTAINER_ABORTED,
    ContainerExitStatus.DISKS_FAILED: EventKind.CONTAINER_ABORTED,
}
_STOPPED = (ContainerState.PAUSED, ContainerState.RESUMING)


class Subject(NamedTuple):
    """The subject of an event of a container."""

    node: str
    app: str
    container: str


class EventHistory:
    """``size`` is the number of remembered events; with 0, events are numbered but not remembered.

    ``fresh`` are the events that are not stored yet, if events are stored (``written``).
    """

    def __init__(self, size: int, *, written: bool = False) -> None:
        self._size = size
        self._written = written
        self.fresh: list[HistoryEvent] = []
        self._ring: deque[HistoryEvent] = deque()
        self._by_application: dict[str, deque[HistoryEvent]] = {}
        self.last = 0
        self.now_ms = 0

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def oldest(self) -> int:
        """The number of the oldest remembered event, 0 for none."""
        return self._ring[0].seq if self._ring else 0

    # -- what happened ---------------------------------------------------------------------------------------

    def add(
        self,
        kind: EventKind,
        *,
        node: str = "",
        app: str = "",
        container: str = "",
        why: str = "",
        words: dict[str, str] | None = None,
        numbers: dict[str, int] | None = None,
        cause: Cause | None = None,
    ) -> None:
        """Add an event at the time of the step."""
        self.last += 1
        if self._size <= 0:
            return
        event = HistoryEvent(
            self.last, self.now_ms, kind, node, app, container, why, words or {}, numbers or {}, cause
        )
        if self._written:
            self.fresh.append(event)
        self._remember(event)

    def restore(self, events: Iterable[HistoryEvent], first: int, bound: int) -> None:
        """Continue after the stored events, which have consecutive numbers. If there are none, numbers continue above
        ``bound``; the last number lies between ``first`` and ``bound``.
        """
        found = list(events)
        if found and first <= found[-1].seq <= bound:
            self.last = found[-1].seq
            for event in found:
                self._remember(event)
        else:
            self.last = bound

    def _remember(self, event: HistoryEvent) -> None:
        if self._size <= 0:
            return
        self._ring.append(event)
        if event.app:
            self._by_application.setdefault(event.app, deque()).append(event)
        if len(self._ring) > self._size:
            self._forget(self._ring.popleft())

    def _forget(self, event: HistoryEvent) -> None:
        if event.app:
            events = self._by_application[event.app]
            events.popleft()
            if not events:
                del self._by_application[event.app]

    def _tell(self, subject: Subject, kind: EventKind, **more: Any) -> None:
        self.add(kind, node=subject.node, app=subject.app, container=subject.container, **more)

    def allocated(
        self,
        subject: Subject,
        execution_type: ExecutionType,
        resource: Resource,
        why: str = "",
        *,
        submitted_at_ms: int = 0,
        eligible_at_ms: int = 0,
    ) -> None:
        """A container was granted; ``why`` names the allocator if it is not the RM's own scheduler. Its application
        was submitted, and it was requested, at these times.
        """
        numbers = {"memoryMB": resource.memory, "vcores": resource.vcores}
        numbers |= {"submittedAt": submitted_at_ms, "eligibleAt": eligible_at_ms}
        words = {"executionType": execution_type.value}
        self._tell(subject, EventKind.CONTAINER_ALLOCATED, why=why, words=words, numbers=numbers)

    def acquired(self, subject: Subject) -> None:
        """A master has received a container."""
        self._tell(subject, EventKind.CONTAINER_ACQUIRED)

    def observed(self, subject: Subject, before: ContainerStatus | None, status: ContainerStatus) -> None:
        """The node reports a new state of a live container."""
        state, known = status.state, before.state if before is not None else None
        if known is state:
            return
        if status.started_at_ms:
            self._started(subject, before, status)
        if state is ContainerState.SCHEDULED:
            numbers = {"at": status.queued_at_ms, "position": status.position}
            self._tell(subject, EventKind.CONTAINER_QUEUED, numbers=numbers)
        elif state is ContainerState.RUNNING and known in _STOPPED:
            self._tell(subject, EventKind.CONTAINER_RESUMED)
        elif state is ContainerState.PAUSED and known is not ContainerState.RESUMING:
            why, numbers = _line(status.diagnostics), {"at": status.paused_at_ms}
            self._tell(subject, EventKind.CONTAINER_PAUSED, why=why, numbers=numbers, cause=status.cause)

    def ended(self, subject: Subject, before: ContainerStatus | None, status: ContainerStatus) -> None:
        """A container has ended, whatever the reason."""
        if status.started_at_ms:
            self._started(subject, before, status)
        numbers = {"exitStatus": status.exit_status, "at": status.finished_at_ms}
        if status.exit_code is not None:
            numbers["exitCode"] = status.exit_code
        if status.started_at_ms:
            numbers["ranMs"] = max(0, status.finished_at_ms - status.started_at_ms - status.stood_ms)
            if status.stood_ms:
                numbers["pausedMs"] = status.stood_ms
            numbers["cpuMs"] = round(status.usage.cpu_seconds * 1000)
            numbers["peakMB"] = status.usage.memory_peak_bytes >> 20
        # A master may stop its containers with any exit status.
        kind = _ENDS.get(status.exit_status, EventKind.CONTAINER_COMPLETED)
        if kind is EventKind.CONTAINER_SHED and not status.was_shed:
            kind = EventKind.CONTAINER_PREEMPTED
        self._tell(subject, kind, why=_line(status.diagnostics), numbers=numbers, cause=status.cause)

    def _started(self, subject: Subject, before: ContainerStatus | None, status: ContainerStatus) -> None:
        """Report the start of a container, unless it was known ``before``."""
        if before is not None and before.started_at_ms:
            return
        waited = status.started_at_ms - status.queued_at_ms if status.queued_at_ms else 0
        numbers = {"at": status.started_at_ms, "waitedMs": max(0, waited), "pid": status.pid}
        words = {"executionType": status.execution_type.value}
        self._tell(subject, EventKind.CONTAINER_STARTED, words=words, numbers=numbers)

    def changed(
        self, subject: Subject, was: ExecutionType, execution_type: ExecutionType, resource: Resource
    ) -> None:
        """A container has got another type or size."""
        kind = EventKind.CONTAINER_RESIZED
        if was is not execution_type:
            promoted = execution_type is ExecutionType.GUARANTEED
            kind = EventKind.CONTAINER_PROMOTED if promoted else EventKind.CONTAINER_DEMOTED
        numbers = {"memoryMB": resource.memory, "vcores": resource.vcores}
        self._tell(subject, kind, words={"executionType": execution_type.value}, numbers=numbers)

    # -- queries ---------------------------------------------------------------------------------------------

    def of_application(self, application_id: str) -> tuple[HistoryEvent, ...]:
        """The stored events of one application."""
        return tuple(self._by_application.get(application_id, ()))

    def select(self, request: GetEventsRequest) -> tuple[tuple[HistoryEvent, ...], int]:
        """The requested events, and the number at which the next request continues."""
        matching = (event for event in self._candidates(request) if _matches(event, request))
        limit = max(1, request.limit)
        if request.newest:
            return tuple(deque(matching, maxlen=limit)), self.last
        found = tuple(islice(matching, limit))
        # All events up to the last one were examined, unless the limit ended the search.
        return found, found[-1].seq if len(found) == limit else self.last

    def _candidates(self, request: GetEventsRequest) -> Iterable[HistoryEvent]:
        if request.application_id:
            return self._by_application.get(request.application_id, ())
        return self._after(request.since)

    def _after(self, since: int) -> Iterator[HistoryEvent]:
        """The events after number ``since``, found from the nearer end of the ring: a follower asks for the newest."""
        missing = self.last - since
        if 0 <= missing < len(self._ring) // 2:
            newest = list(islice(reversed(self._ring), missing))
            return reversed(newest)
        return islice(self._ring, max(0, since + 1 - self.oldest), None)


def _matches(event: HistoryEvent, request: GetEventsRequest) -> bool:
    return (
        event.seq > request.since
        and event.t >= request.since_ms
        and (not request.kinds or event.kind in request.kinds)
        and (not request.application_id or event.app == request.application_id)
        and (not request.container_id or event.container == request.container_id)
        and (not request.node_id or event.node == request.node_id)
    )


def _line(text: str) -> str:
    """The first line of a text, bounded in length."""
    first = text.strip().partition("\n")[0]
    return first if len(first) <= 500 else first[:499] + "…"
