"""What is remembered of an application is given to be kept when nothing of it lives any more.

The ring forgets; what was kept is read by ``yopp report`` when the cluster has long ended. Writes nothing itself: its
command is the daemon's to perform.
"""

from __future__ import annotations

from ..records.history import ApplicationHistory
from .context import KeepHistory, RMContext
from .entities import RMApp
from .mapreduce import map_reduce_report
from .reports import application_report, node_report


class HistoryKeeper:
    """``check`` at the end of each step; ``all`` before the ResourceManager ends."""

    def __init__(self, context: RMContext) -> None:
        self._context = context

    def check(self, now: float) -> list[KeepHistory]:
        """What is to be kept now: applications that have ended, and their containers too."""
        context = self._context
        retired = context.retired
        if not retired:
            return []
        ready = [app for app in retired.values() if not any(app.containers())]
        kept = [KeepHistory(self._history(app, now)) for app in ready if self._wanted()]
        for app in ready:
            del retired[app.id]
            context.task_books.pop(app.id, None)  # what was kept is read from there
        return kept

    def all(self, now: float) -> list[KeepHistory]:
        """What is left to be kept, whatever is missing of it."""
        context = self._context
        left = {**context.retired, **context.live}
        context.retired.clear()
        return [KeepHistory(self._history(app, now)) for app in left.values() if self._wanted()]

    def _wanted(self) -> bool:
        settings = self._context.settings
        return settings.retained_histories > 0 and settings.event_history_size > 0

    def _history(self, app: RMApp, now: float) -> ApplicationHistory:
        context = self._context
        offset = context.identity.wall_offset
        nodes = [context.nodes[name] for name in sorted(app.nodes) if name in context.nodes]
        return ApplicationHistory(
            application_report(app, now),
            tuple(node_report(node, offset) for node in nodes),
            context.history.of_application(app.id),
            context.ms(now),
            map_reduce_report(app, context.task_books.get(app.id), offset),
        )
