"""Events: returned to callers, at once or when there are any (``getEvents``), and stored for ended jobs.

The ring of events is bounded; ``yopp report`` reads the stored events of an application, also after the end of the
cluster. The daemon writes the files.
"""

from __future__ import annotations

from executor.light import replace

from ...machine.calls import CallReceived
from ...machine.restarts import DaemonGivenUp, DaemonRestarted
from ...records.history import ApplicationHistory, EventKind, GetEventsRequest, GetEventsResponse
from ..commands import KeepEvents, KeepHistory
from ..context import RMContext
from ..due import DueKind
from ..entities import RMApp
from ..mapreduce import map_reduce_report
from ..reports import application_report
from ..waits import Waits

MAX_LIMIT = 10_000
"""The maximum number of events in one answer."""


class HistoryService:
    """Answers ``getEvents``. ``check`` and ``keep`` run at the end of each step."""

    def __init__(self, context: RMContext) -> None:
        self._rm = context
        self.waits = Waits(context, DueKind.EVENTS)
        self._served = 0

    def get(self, call: CallReceived, request: GetEventsRequest) -> GetEventsResponse | None:
        """Answer, or wait for up to ``wait_ms``."""
        history = self._rm.history
        since = history.last if request.since < 0 else request.since
        request = replace(request, since=since, limit=max(1, min(request.limit, MAX_LIMIT)))

        def answer(even_without: bool) -> GetEventsResponse | None:
            events, following = history.select(request)
            if not events and not even_without:
                return None
            return GetEventsResponse(events, following, history.oldest, self._rm.identity.cluster_timestamp)

        return self.waits.answer(call, answer, request.wait_ms)

    def daemon_died(self, told: DaemonRestarted | DaemonGivenUp) -> None:
        """A daemon of this cluster has died; another daemon has restarted it, or has given up."""
        port = told.name.removeprefix("nm-")
        node = next((name for name in self._rm.nodes if name.rpartition(":")[2] == port), "")
        words = {"daemon": told.name, "by": f"by {told.by}"}
        if isinstance(told, DaemonGivenUp):
            kind, why = EventKind.DAEMON_GIVEN_UP, told.why
        else:
            kind, why = EventKind.DAEMON_RESTARTED, f"process {told.died} died"
            if told.name == "rm" and not self._rm.settings.recovery_enabled:
                why += "; its applications are lost: yarn.resourcemanager.recovery.enabled is false"
        self._rm.history.add(kind, node=node, words=words, numbers={"tries": told.tries}, why=why)

    def check(self) -> None:
        """Answer the callers whose events have come, and all callers if the cluster ends."""
        last = self._rm.history.last
        if last != self._served or self._rm.ending:
            self._served = last
            self.waits.check()

    def fresh(self) -> list[KeepEvents]:
        """The events of this step, if events are stored."""
        history = self._rm.history
        if not history.fresh:
            return []
        events, history.fresh = tuple(history.fresh), []
        return [KeepEvents(events)]

    def keep(self, *, everything: bool) -> list[KeepHistory]:
        """The histories that are to be stored now: of applications that have ended with all their containers, or of
        all applications with ``everything``.
        """
        retired = self._rm.retired
        if not retired and not everything:
            return []
        ready = [app for app in retired.values() if everything or not any(app.containers())]
        for app in ready:
            del retired[app.id]
        if everything:
            ready += self._rm.live.values()
        settings = self._rm.settings
        wanted = settings.retained_histories > 0 and settings.event_history_size > 0
        kept = [KeepHistory(self._history(app), self._ended_before(app)) for app in ready] if wanted else []
        for app in ready:
            self._rm.task_books.pop(app.id, None)  # From now on the stored file is read.
            self._rm.changes.lives[app.id] = app  # Record that the history is stored.
        return kept

    def _ended_before(self, app: RMApp) -> bool:
        return app.ended and app.finished_at_ms < self._rm.identity.started_at_ms

    def _history(self, app: RMApp) -> ApplicationHistory:
        nodes = [self._rm.nodes[name] for name in sorted(app.nodes) if name in self._rm.nodes]
        tasks, *later = (
            tuple(app.task_numbers.get(number, ())) for number in range(1, len(app.attempts) + 1)
        )
        return ApplicationHistory(
            application_report(app, self._rm.now),
            tuple(map(self._rm.node_report, nodes)),
            self._rm.history.of_application(app.id),
            self._rm.now_ms,
            map_reduce_report(app, self._rm.task_books.get(app.id)),
            tasks,
            tuple(later),
        )
