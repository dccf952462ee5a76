"""Begins postponed applications, or ends them before they have begun; ends applications at their deadlines.
``postponed.py`` decides."""

from __future__ import annotations

from executor.light import replace

from ...errors import EXIT_CANNOT_START, EXIT_TIMEOUT
from ...records.job_protocol import StopJobRequest
from ...records.reports import FinalApplicationStatus
from ...records.requests import FAILED, OK, waits_for
from ..app_manager import RMAppManager
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import RMApp
from ..hosting.masters import HostedMasters
from ..postponed import UNKNOWN, judge


class Postponed:
    """Begins or ends postponed applications, as ``judge`` decides."""

    def __init__(self, context: RMContext, manager: RMAppManager, hosting: HostedMasters) -> None:
        self._rm = context
        self._manager = manager
        self._hosting = hosting

    def consider(self, app: RMApp) -> None:
        """Begin a postponed application, end it, or let it wait."""
        if app.ended:
            self._hosting.never_began(app)
            return
        if not app.postponed or self._rm.ending:
            return
        context = app.context
        found = judge(context.begin_at_ms, context.after, self._rm.now_ms, self._how_ended)
        if found.never:
            self._manager.kill(app, f"It can never begin: {found.never}.", EXIT_CANNOT_START)
            return
        if found.left != context.after:
            app.context = replace(context, after=found.left)
            self._rm.changes.applications[app.id] = app
        if found.due and not found.left:
            self._manager.begin(app)
            self._hosting.begin(app)
            return
        waits = waits_for(context.begin_at_ms, found.left, self._rm.now_ms)
        app.diagnostics = f"It has not begun: it {waits}."
        if not found.due:
            self._rm.deadlines.set(Due(DueKind.BEGIN, app.id), self._rm.moment(context.begin_at_ms))
        self._hosting.postponed(app, f"{app.id} has not begun: it {waits}.")

    def time_has_come(self, application_id: str) -> None:
        """The begin time of an application has come: begin it if it waits for nothing else."""
        if (app := self._rm.postponed.get(application_id)) is not None:
            self._rm.changes.postponed.append(app)

    def deadline_passed(self, application_id: str) -> None:
        """The deadline of an application has passed: end it."""
        app = self._rm.live.get(application_id)
        if app is None or app.ended:
            return
        reason = "its deadline has passed"
        if app.hosted and not app.postponed:
            self._hosting.stop(StopJobRequest(app.id, reason, EXIT_TIMEOUT, FinalApplicationStatus.KILLED))
        else:
            self._manager.kill(app, f"It was ended: {reason}.", EXIT_TIMEOUT)

    def _how_ended(self, application_id: str) -> str:
        # An application that is forgotten in the step of its end is among the retired ones until the end of the step.
        app = self._rm.applications.get(application_id) or self._rm.retired.get(application_id)
        if app is None:
            return UNKNOWN
        if not app.ended:
            return ""
        return OK if app.final_status is FinalApplicationStatus.SUCCEEDED else FAILED
