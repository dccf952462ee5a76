"""What is remembered of an application is given to be kept when nothing of it lives any more.

The ring forgets; what was kept is read by ``yopp report`` when the cluster has long ended. Writes nothing itself: its
command is the daemon's to perform.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..records.history import ApplicationHistory
from . import mapreduce
from .entities import RMApp
from .context import RMContext


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """Write this down, and let the oldest go."""

    history: ApplicationHistory


class HistoryKeeper:
    """``check`` at the end of each step; ``all`` before the ResourceManager ends."""

    def __init__(self, context: RMContext) -> None:
        self._context = context

    def check(self, now: float) -> list[KeepHistory]:
        """What is to be kept now: applications that have ended, and their containers too."""
        context = self._context
        if not context.to_keep:
            return []
        ready = [app for app in context.to_keep.values() if not any(one.containers for one in app.attempts)]
        for app in ready:
            del context.to_keep[app.id]
        kept = [KeepHistory(self._history(app, now)) for app in ready if self._wanted()]
        for app in ready:
            app.tasks = None  # what was kept is read from there
        return kept

    def all(self, now: float) -> list[KeepHistory]:
        """What is left to be kept, whatever is missing of it."""
        context = self._context
        left = {**context.to_keep, **context.live}
        context.to_keep.clear()
        return [KeepHistory(self._history(app, now)) for app in left.values() if self._wanted()]

    def _wanted(self) -> bool:
        settings = self._context.settings
        return settings.retained_histories > 0 and settings.event_history_size > 0

    def _history(self, app: RMApp, now: float) -> ApplicationHistory:
        context = self._context
        offset = context.identity.wall_offset
        nodes = [context.nodes[name] for name in sorted(app.nodes) if name in context.nodes]
        return ApplicationHistory(
            app.report(now),
            tuple(node.report(offset) for node in nodes),
            context.history.of_application(app.id),
            context.ms(now),
            mapreduce.report(app, offset),
        )
