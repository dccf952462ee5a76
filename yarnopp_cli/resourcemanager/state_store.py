"""The records that the RM's daemon writes at the end of a step (YARN's ``RMStateStore``). It writes nothing itself.

The records precede all other commands of the step: no caller receives news that the next RM process would not know.
``recovery.py`` reads them.

Decisions: rm-state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from executor.light import names_of

from ..masters.resuming import stored_task
from ..records.reports import DRAINED, NodeState
from ..records.state import (
    Kind,
    RemoveRecords,
    StoreCommand,
    StoredApplication,
    StoredCluster,
    StoredLife,
    StoredNode,
    StoredTaskAttempt,
    StoreRecord,
)
from .context import RMContext
from .entities import RMApp, RMAppAttempt, RMNode
from .hosting.masters import HostedMasters
from .lives import AttemptState

EVENTS_AHEAD = 10_000
"""The number of event numbers that are reserved at once, so that few records are written for them."""


RESTORED = tuple(
    one.name
    for one in fields(RMApp)
    if one.name in names_of(StoredLife) and one.name not in ("id", "attempts", "state")
)
"""The fields with the same name and meaning in an application and in the record of its life."""


class RMStateStore:
    """Makes the records. Nothing is stored unless the RM keeps its state (``RMContext.keeps_state``)."""

    def __init__(self, context: RMContext, hosting: HostedMasters) -> None:
        self._rm = context
        self._hosting = hosting
        self._last_event = -1
        self._numbering = (-1, -1, False)
        self._submitted: set[str] = set()
        self._drained: set[str] = set()

    def recovered(self, applications: Iterable[str], drained: Iterable[str]) -> None:
        """Note the records that are already stored."""
        self._submitted.update(applications)
        self._drained.update(drained)

    def writes(self) -> list[StoreCommand]:
        """The commands that store the changes of this step; the changes are then forgotten."""
        changes, out = self._rm.changes, list[StoreCommand]()
        if self._rm.keeps_state:
            out = self._written()
        changes.moved.clear()
        changes.tasks.clear()
        changes.books.clear()
        changes.applications.clear()
        changes.lives.clear()
        changes.forgotten.clear()
        return out

    def _written(self) -> list[StoreCommand]:
        changes, out = self._rm.changes, list[StoreCommand]()
        rm = self._rm
        numbering = rm.last_application, rm.applications_started, rm.adopted
        if rm.history.last >= self._last_event or numbering != self._numbering:
            self._numbering = numbering
            out.append(StoreRecord(self._cluster()))
        lives = changes.lives.copy()
        for entity in changes.moved:
            if isinstance(entity, RMApp):
                lives[entity.id] = entity
            elif isinstance(entity, RMAppAttempt):
                lives[entity.app.id] = entity.app
            elif isinstance(entity, RMNode):
                out += self._node(entity)
        for app in changes.applications.values():
            out.append(StoreRecord(self._application(app)))
            lives[app.id] = app
        for task, application_id in changes.tasks.items():
            if application_id in rm.live:
                out.append(StoreRecord(stored_task(application_id, task)))
        for application_id, book in changes.books.items():
            if application_id in rm.task_books:
                out += [StoreRecord(StoredTaskAttempt(application_id, one)) for one in book.changes()]
        for app in lives.values():
            if app.id not in self._submitted:
                self._submitted.add(app.id)
                out.append(StoreRecord(self._application(app)))
            out.append(StoreRecord(self.life(app)))
            if app.ended:
                out.append(RemoveRecords(Kind.TASK, app.id))
                if app.context.map_reduce is not None and app.id not in rm.task_books:
                    out.append(RemoveRecords(Kind.ATTEMPT, app.id))
        for application_id in changes.forgotten:
            self._submitted.discard(application_id)
            out += [RemoveRecords(kind, application_id) for kind in (Kind.APPLICATION, Kind.LIFE)]
        return out

    def _cluster(self) -> StoredCluster:
        rm = self._rm
        self._last_event = rm.history.last + EVENTS_AHEAD
        return StoredCluster(
            rm.identity.cluster_timestamp,
            rm.secret.hex(),
            rm.identity.boot_id,
            rm.last_application,
            self._last_event,
            rm.applications_started,
            rm.lost_until,
            rm.adopted,
        )

    def _node(self, node: RMNode) -> list[StoreCommand]:
        if node.state in DRAINED and node.node_id not in self._drained:
            self._drained.add(node.node_id)
            return [StoreRecord(StoredNode(node.node_id))]
        if node.state is NodeState.RUNNING and node.node_id in self._drained:
            self._drained.discard(node.node_id)
            return [RemoveRecords(Kind.NODE, node.node_id)]
        return []

    def _application(self, app: RMApp) -> StoredApplication:
        job, attached = self._hosting.submitted(app.id)
        return StoredApplication(app.id, app.context, app.user, app.submitted_at_ms, job, attached)

    def life(self, app: RMApp) -> StoredLife:
        """The record of an application's life."""
        app.accrue(self._rm.now)
        app.stored_at = self._rm.now
        attempt, master = app.attempt, app.attempt.am_container
        where = attempt.am_expected
        if master is not None and attempt.state is not AttemptState.SCHEDULED:
            where = master.id, master.node.node_id
        stop, end = self._hosting.end_of(app.id)
        return StoredLife(
            app.id,
            len(app.attempts),
            *where,
            stop=stop,
            end=end,
            last_container=attempt.numbers_taken,
            state=app.state,
            succeeded=self._hosting.succeeded(app.id),
            history_due=app.id in self._rm.retired,
            counted_until_ms=self._rm.now_ms,
            **{name: getattr(app, name) for name in RESTORED},
        )
