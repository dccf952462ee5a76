"""Recovery of a restarted RM from its stored records (YARN's work-preserving restart). Pure.

Applications are restored. A hosted master continues as another attempt, with the ended tasks and the tasks that have a
container. A master outside the RM keeps its attempt, and registers again. States of containers are not stored: their
nodes report them at registration. Until then a container is *expected*, and its task is neither ended nor retried. A
node's first registration is complete: a container that it does not list is lost. A node that does not register is lost
after the usual time of silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from executor.causes import Cause, CauseKind
from executor.light import Record, field, replace
from executor.records import ContainerExitStatus, ContainerState, ContainerStatus, ExecutionType

from ..masters import messages as m
from ..records.history import EventKind, HistoryEvent, TaskAttempt
from ..records.ids import ApplicationId
from ..records.jobs import TaskState
from ..records.reports import FINAL_STATES, YarnApplicationState
from ..records.state import (
    Stored,
    StoredApplication,
    StoredCluster,
    StoredLife,
    StoredNode,
    StoredTask,
    StoredTaskAttempt,
)
from .adoption import Adoption
from .app_manager import RMAppManager
from .container_ledger import ContainerLedger
from .context import RMContext, Unreported
from .due import Due, DueKind
from .entities import RMApp, RMAppAttempt
from .hosting.masters import HostedMasters
from .lives import AppEvent, AttemptEvent
from .scheduler.queues import LeafQueue
from .services.queue_service import QueueService
from .state_store import EVENTS_AHEAD, RESTORED, RMStateStore

RESTARTED = "The ResourceManager was restarted."
NEVER_CAME = "Container not found on its node after the ResourceManager was restarted"
NEVER_BEGAN = "Container not found on its node after its application's master had died"
ENDED_WITH_IT = "The application ended while it ran, and then the ResourceManager"
REBOOTED = "Container lost: the machine was restarted while it ran"


class Recovered(Record, frozen=False):
    """The stored records, sorted by their subjects."""

    cluster: StoredCluster | None = None
    applications: dict[str, StoredApplication] = field(default_factory=dict)
    lives: dict[str, StoredLife] = field(default_factory=dict)
    tasks: dict[str, list[StoredTask]] = field(default_factory=lambda: defaultdict(list))
    attempts: dict[str, list[TaskAttempt]] = field(default_factory=lambda: defaultdict(list))
    drained: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, records: Iterable[Stored]) -> Recovered:
        """Sort the records, which may be in any order."""
        found = cls()
        for record in records:
            match record:
                case StoredCluster():
                    found.cluster = record
                case StoredApplication():
                    found.applications[record.id] = record
                case StoredLife():
                    found.lives[record.id] = record
                case StoredTask():
                    found.tasks[record.application_id].append(record)
                case StoredTaskAttempt():
                    found.attempts[record.application_id].append(record.attempt)
                case StoredNode():
                    found.drained.add(record.node_id)
        return found


class Recovery:
    """Restores the records, once, and compares them with the reports of nodes."""

    def __init__(
        self,
        context: RMContext,
        manager: RMAppManager,
        ledger: ContainerLedger,
        adoption: Adoption,
        hosting: HostedMasters,
        queues: QueueService,
        store: RMStateStore,
    ) -> None:
        self._rm = context
        self._manager = manager
        self._ledger = ledger
        self._adoption = adoption
        self._hosting = hosting
        self._queues = queues
        self._store = store

    def restore(self, found: Recovered, events: Iterable[HistoryEvent] = ()) -> None:
        """Enter all records into the books of an RM that has just started."""
        rm, cluster, kept = self._rm, found.cluster, list(events)
        bound = cluster.last_event if cluster is not None else kept[-1].seq if kept else 0
        rm.history.restore(kept, bound - EVENTS_AHEAD, bound)
        if rm.losses:
            rm.history.add(EventKind.STATE_LOST, why="; ".join(rm.losses))
        if cluster is None:
            return
        rm.rebooted = bool(cluster.boot_id) and cluster.boot_id != rm.identity.boot_id
        rm.last_application = rm.recovered_applications = cluster.last_application
        rm.lost_until, rm.adopted = cluster.lost_until, cluster.adopted
        rm.drained = set(found.drained)
        self._store.recovered(found.applications, found.drained)
        for stored in sorted(found.applications.values(), key=lambda one: ApplicationId.parse(one.id).id):
            life = found.lives.get(stored.id, StoredLife(stored.id))
            self._restore(stored, life, found)
        rm.applications_started = max(rm.applications_started, cluster.applications_started)
        words = {"reboot": "yes"} if rm.rebooted else {}
        numbers = {"applications": len(rm.live), "containers": len(rm.expected)}
        rm.history.add(EventKind.RESOURCEMANAGER_RECOVERED, words=words, numbers=numbers)
        if rm.live:
            expiry = rm.settings.nm_expiry_interval_ms / 1000
            rm.deadlines.set(Due(DueKind.RECOVERY), rm.now + expiry)

    def _restore(self, stored: StoredApplication, life: StoredLife, found: Recovered) -> None:
        rm, tasks = self._rm, found.tasks[stored.id]
        leaf, gone = self._queues.home_of(stored.context.queue)
        app = self._application(stored, life, leaf)
        if (book := rm.task_books.get(app.id)) is not None:
            book.restore(found.attempts[app.id])
            for attempt in found.attempts[app.id]:
                app.note_task(attempt.container_id, attempt.index + 1)
        if life.state in FINAL_STATES:
            self._end(app, life)
            self._hosting.restore_end(app, stored, life)
            return
        began = self._go_on(app, life)
        for task in tasks:
            if task.container_id:
                app.note_task(task.container_id, task.shown_number)
            if task.state is TaskState.STARTING:
                expected = Unreported(began, task.node_id, task.priority)
                rm.expected[task.container_id] = expected
        if life.am_container_id:
            rm.expected[life.am_container_id] = Unreported(began, life.am_node_id, is_am=True)
        if stored.job is not None:
            lost = "the machine" if rm.rebooted else "the ResourceManager"
            ended = sum(one.state not in (TaskState.STARTING, TaskState.WAITING) for one in tasks)
            running = sum(one.state is TaskState.STARTING for one in tasks)
            notice = f"{lost} was restarted, and the job continues: {ended} tasks have ended, {running} had a container"
            self._hosting.resume(app, stored, life, m.MasterStarted(tuple(tasks)), notice)
        if gone:
            self._manager.kill(app, f"its queue {stored.context.queue} is gone")

    def _application(
        self, stored: StoredApplication, life: StoredLife, leaf: LeafQueue[RMAppAttempt]
    ) -> RMApp:
        """Restore an application with all its attempts except the last one, which continues or has ended the
        application."""
        context = replace(stored.context, application_id=stored.id)
        hosted = stored.job is not None
        app = self._manager.enter(context, stored.user, leaf, stored.submitted_at_ms, hosted=hosted)
        app.recovered = True
        app.counted_before_ms = life.counted_until_ms or self._rm.now_ms
        for name in RESTORED:
            setattr(app, name, getattr(life, name))
        goes_on = hosted and life.state not in FINAL_STATES and not life.postponed
        for _ in range(life.attempts - (not goes_on)):
            attempt = self._manager.new_attempt(app)
            self._rm.move(attempt, AttemptEvent.LAUNCHED)
            self._manager.leave(attempt, AttemptEvent.FAIL, RESTARTED)
        return app

    def _go_on(self, app: RMApp, life: StoredLife) -> RMAppAttempt:
        """The attempt with which a live application continues: a new attempt for a hosted master, else the last one,
        whose master registers again.
        """
        rm, manager = self._rm, self._manager
        attempt = manager.new_attempt(app)
        app.leaf.enter(attempt)
        if not app.hosted:
            attempt.last_container = attempt.numbers_taken = life.last_container
        if life.postponed:
            manager.postpone(app)
            if app.expires_at_ms:
                rm.deadlines.set(Due(DueKind.LIFETIME, app.id), rm.moment(app.expires_at_ms))
            return attempt
        if app.context.timeout_ms > 0:
            end = rm.moment(app.timed_from_ms + app.context.timeout_ms)
            rm.deadlines.set(Due(DueKind.LIFETIME, app.id), end)
        if life.am_container_id:
            attempt.am_expected = life.am_container_id, life.am_node_id
            self._rm.move(attempt, AttemptEvent.START)
            self._rm.move(attempt, AttemptEvent.CONTAINER_ALLOCATED)
            manager.expect_master(attempt)
            return attempt
        manager.start(attempt)
        if app.unmanaged and not app.hosted:
            rm.await_client(app.id)
        return attempt

    def _end(self, app: RMApp, life: StoredLife) -> None:
        """Restore an application that had ended."""
        rm, attempt = self._rm, self._manager.new_attempt(app)
        self._rm.move(attempt, AttemptEvent.LAUNCHED)
        if life.state is YarnApplicationState.FINISHED:
            self._rm.move(attempt, AttemptEvent.REGISTERED)
            self._rm.move(app, AppEvent.ATTEMPT_REGISTERED)
            self._rm.move(attempt, AttemptEvent.UNREGISTERED)
            self._rm.move(attempt, AttemptEvent.ENDED)
            self._rm.move(app, AppEvent.ATTEMPT_UNREGISTERED)
        else:
            killed = life.state is YarnApplicationState.KILLED
            self._rm.move(attempt, AttemptEvent.KILL if killed else AttemptEvent.FAIL)
            self._rm.move(app, AppEvent.KILL if killed else AppEvent.ATTEMPT_FAILED)
        attempt.diagnostics = app.diagnostics
        rm.deadlines.clear(Due(DueKind.DEADLINE, app.id))
        self._manager.retire(app)
        if life.history_due:
            if (book := rm.task_books.get(app.id)) is not None:
                book.missed("", ENDED_WITH_IT, rm.now_ms)
        else:
            rm.retired.pop(app.id, None)  # Its history was kept when its last container ended.
            rm.task_books.pop(app.id, None)

    # -- what nodes tell ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Treat the reports as complete for nodes that registered in this step, and for nodes whose time to report has
        passed."""
        arrived = self._rm.changes.arrived
        while arrived:
            self._miss(arrived.pop(0))

    def over(self) -> None:
        """Nodes that have not registered by now are lost, with their containers."""
        for node_id in {one.node_id for one in self._rm.expected.values()}:
            self._miss(node_id)

    def _miss(self, node_id: str) -> None:
        """The containers that are still expected of a node are lost."""
        rm = self._rm
        text = REBOOTED if rm.rebooted else NEVER_CAME
        if rm.unreported.pop(node_id, None) is not None:
            text = NEVER_BEGAN
        for application_id, book in rm.task_books.items():
            book.missed(node_id, text, rm.now_ms)
            rm.changes.books[application_id] = book
        for container_id in [key for key, one in rm.expected.items() if one.node_id == node_id]:
            expected = rm.expected.pop(container_id)
            attempt = expected.attempt
            if attempt.app.ended:
                continue
            if attempt.ended:
                self._ledger.ended_untold(attempt.app, self._lost(container_id, attempt, text))
                continue
            if expected.reported is not None:
                self._adoption.reported(attempt, expected.reported)
                continue
            if expected.is_am:
                self._manager.fail_attempt(attempt, f"AM {text[0].lower()}{text[1:]}", counted=False)
                continue
            attempt.completed.put(container_id, self._lost(container_id, attempt, text))
            rm.news_for_master(attempt)

    def _lost(self, container_id: str, attempt: RMAppAttempt, text: str) -> ContainerStatus:
        return ContainerStatus(
            container_id,
            ContainerState.DONE,
            ExecutionType.GUARANTEED,
            exit_status=int(ContainerExitStatus.ABORTED),
            diagnostics=text,
            cause=Cause(CauseKind.NODE_LOST),
            application_id=attempt.app.id,
            finished_at_ms=self._rm.now_ms,
        )
