"""Calls about queues: placement of applications, reports, moves, priorities, new queues.

YARN's ``QueuePlacementManager`` and the parts of ``CapacityScheduler`` and ``ClientRMService`` that change queues.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from executor.light import made_of, replace
from executor.records import Resource

from ...errors import EXIT_NO_SUCH, AccessDeniedError, InvalidStateError, NotYetSupportedError, RemoteError
from ...machine.calls import CallReceived
from ...records import client_protocol as client
from ...records.admin_protocol import RefreshQueuesRequest, RefreshQueuesResponse
from ...records.history import EventKind
from ...records.reports import QueueAcl, QueueReport, QueueUserReport, YarnApplicationState
from ...records.requests import ApplicationSubmissionContext
from ...settings.queues import DEFAULT_QUEUE, CapacitySchedulerSettings, QueueSettings, mappings_of
from ..context import RMContext
from ..entities import RMApp, RMAppAttempt
from ..scheduler.queues import LeafQueue, Queue, QueueTree, dominant_share, total_of

QueueReader = Callable[
    [Mapping[str, str], CapacitySchedulerSettings],
    tuple[QueueSettings, CapacitySchedulerSettings, dict[str, str]],
]
"""Makes settings from properties: the queues, the settings common to all queues, and the properties that are not
default."""

_PREFIX = "yarn.scheduler.capacity."

EVERYBODY = "%user"
MOST_PRIORITY = 1_000_000


class QueueService:
    """Changes queues and the queues of applications; reports queues."""

    def __init__(self, context: RMContext, read: QueueReader | None = None) -> None:
        self._rm = context
        self._read = read
        self._mappings = mappings_of(context.capacity.queue_mappings)[0]

    # -- submission ------------------------------------------------------------------------------------------

    def place(
        self, submission: ApplicationSubmissionContext, user: str, *, privileged: bool, guest: bool
    ) -> tuple[LeafQueue[RMAppAttempt], ApplicationSubmissionContext]:
        """The queue of a new application, and its submission with the name and the defaults of this queue.

        No ACL applies to ``privileged`` callers; ``guest`` callers submit to another user's cluster. Raises
        RemoteError for a queue that does not exist, is not a leaf, is stopped, or is full.
        """
        leaf = self._leaf(self._mapped(submission.queue, user))
        self._check_entry(leaf, user, privileged=privileged)
        settings = leaf.settings
        seconds = settings.maximum_application_lifetime
        timeout = submission.timeout_ms
        if timeout <= 0 and settings.default_application_lifetime > 0:
            timeout = settings.default_application_lifetime * 1000
        if seconds > 0 and not 0 < timeout <= seconds * 1000:
            timeout = seconds * 1000
        priority = self._capped(leaf, submission.priority, guest=user if guest else "")
        return leaf, replace(submission, queue=leaf.label, timeout_ms=timeout, priority=priority)

    def _mapped(self, queue: str, user: str) -> str:
        """The queue by the mapping rules, if one applies."""
        if queue not in ("", DEFAULT_QUEUE) and not self._rm.capacity.queue_mappings_override:
            return queue
        for name, target in self._mappings:
            if name in (user, EVERYBODY):
                return user if target == EVERYBODY else target
        return queue or DEFAULT_QUEUE

    def _queue(self, name: str) -> Queue:
        """The queue with this name or path. Raises RemoteError, with the nearest name, if there is none."""
        tree = self._rm.scheduler.queues
        if (found := tree.find(name)) is not None:
            return found
        names = [leaf.label for leaf in tree.leaves.values()]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        raise RemoteError(
            f"unknown queue: {name}",
            because=f"the queues of this cluster are: {', '.join(names)}",
            hint=f"did you mean {near[0]}?" if near else "yopp queue list",
            exit_code=EXIT_NO_SUCH,
        )

    def home_of(self, name: str) -> tuple[LeafQueue[RMAppAttempt], bool]:
        """The queue of an application from a previous RM process; any other queue, and True, if that queue does not
        exist any more."""
        try:
            return self._leaf(name), False
        except RemoteError:
            return next(iter(self._rm.scheduler.queues.leaves.values())), True

    def _leaf(self, name: str) -> LeafQueue[RMAppAttempt]:
        """The leaf queue with this name. Raises RemoteError if there is none."""
        found = self._queue(name)
        if isinstance(found, LeafQueue):
            return found
        below = [leaf.label for leaf in self._rm.scheduler.queues.leaves.values() if found in leaf.line()]
        raise RemoteError(
            f"queue {name} does not accept applications",
            because=f"it is the parent of: {', '.join(below)}",
            hint="use one of these",
            exit_code=EXIT_NO_SUCH,
        )

    def _check_entry(self, leaf: LeafQueue[RMAppAttempt], user: str, *, privileged: bool) -> None:
        """Raise RemoteError if ``user`` may not add another application to the queue."""
        if leaf.stopped:
            raise InvalidStateError(
                f"queue {leaf.path} is STOPPED",
                because="the configuration stops it or a queue above it",
                hint="yopp queue list",
            )
        if not privileged and not self._allowed(leaf, user, administer=False):
            raise AccessDeniedError(
                f"User {user} does not have permission to submit to queue {leaf.label}",
                because=f"acl_submit_applications of {leaf.path} and of its parents do not name this user",
                hint="name another queue (--queue), or ask the administrator of the cluster",
            )
        limit, in_all = self._maximum_applications(leaf), self._rm.capacity.maximum_applications
        here = len(leaf.attempts)
        living = sum(len(one.attempts) for one in self._rm.scheduler.queues.leaves.values())
        if here >= limit or living >= in_all:
            raise InvalidStateError(
                f"Queue {leaf.path} already has {here} applications, cannot accept submission of another",
                because=f"its maximum-applications is {limit}"
                if here >= limit
                else f"the cluster's maximum is {in_all}",
                hint="wait for one to end",
            )

    def _maximum_applications(self, leaf: LeafQueue[RMAppAttempt]) -> int:
        """The maximum number of live applications in a queue: its own property, or its share of the scheduler's."""
        own = leaf.settings.maximum_applications
        return own if own >= 0 else max(1, int(self._rm.capacity.maximum_applications * leaf.share))

    def _allowed(self, leaf: LeafQueue[RMAppAttempt], user: str, *, administer: bool) -> bool:
        """Whether the ACL of the queue or of a queue above it names the user."""
        acls = (
            queue.settings.administrators if administer else queue.settings.submitters
            for queue in leaf.line()
        )
        return not self._rm.capacity.acl_enable or any(named is None or user in named for named in acls)

    # -- changes ---------------------------------------------------------------------------------------------

    def move(self, call: CallReceived, request: client.MoveApplicationRequest) -> client.ApplicationResponse:
        """Move a live application to another queue, with all its containers. Raises RemoteError."""
        app, leaf = self._rm.application(request.application_id), self._leaf(request.queue)
        self._rm.check_living(app)
        if leaf is not app.leaf:
            self._check_administrator(app, call)
            self._check_entry(leaf, app.user, privileged=call.uid == 0)
            if not request.dry_run:
                self._rehome(app, leaf)
                self._rm.changes.guaranteed = True
        return self._rm.change_submission(app, dry_run=request.dry_run, queue=leaf.label)

    def _capped(self, leaf: LeafQueue[RMAppAttempt], asked: int, *, guest: str = "") -> int:
        """The effective priority of an application: at most the highest of the cluster; 0 stands for the queue's
        default. A ``guest``, a user who submits to another user's cluster, gets at most the maximum of the queue and
        of the queues above it."""
        default = most = leaf.settings.default_application_priority
        if not guest:
            return min(asked or default, self._rm.settings.max_application_priority)
        for queue in leaf.line():
            named = queue.settings.submitter_priorities
            if (found := named.get(guest) or named.get("*")) is not None:
                default, most = found
                break
        return min(asked or default, most, self._rm.settings.max_application_priority)

    def prioritise(
        self, call: CallReceived, request: client.UpdateApplicationPriorityRequest
    ) -> client.ApplicationResponse:
        """Give a live application another priority: a larger number is served first. Raises RemoteError."""
        app = self._rm.application(request.application_id)
        self._rm.check_living(app)
        if not 0 <= request.priority <= MOST_PRIORITY:
            raise InvalidStateError(
                f"{request.priority} is not a priority",
                because=f"priorities are numbers from 0 to {MOST_PRIORITY:,}; a larger one goes first",
                hint="yopp app priority last 10",
            )
        self._check_administrator(app, call)
        if not request.dry_run:
            self._rm.changes.guaranteed = self._rm.changes.opportunistic = True
        user = call.user if call.guest else ""
        priority = self._capped(app.leaf, request.priority, guest=user) if request.priority else 0
        return self._rm.change_submission(app, dry_run=request.dry_run, priority=priority)

    def _check_administrator(self, app: RMApp, call: CallReceived) -> None:
        user = call.user
        if call.uid == 0 or user == app.user or self._allowed(app.leaf, user, administer=True):
            return
        raise AccessDeniedError(
            f"User {user} cannot perform operation MODIFY_APP on {app.id}",
            because=f"it belongs to {app.user}, and acl_administer_queue of {app.leaf.path} does not name {user}",
            hint=f"ask {app.user}, or an administrator of the queue",
        )

    def refresh(self, request: RefreshQueuesRequest) -> RefreshQueuesResponse:
        """Replace the queues by those of the given properties. Raises RemoteError, and changes nothing, if they are
        invalid."""
        if self._read is None:
            raise NotYetSupportedError("this ResourceManager cannot read the properties of queues")
        given = {one.name: one.value for one in request.properties}
        root, capacity, told = self._read(given, self._rm.capacity)
        differences = _differences(self._rm.scheduler.queues.settings, root)
        self.replace_queues(root, capacity, dry_run=request.dry_run)
        if not request.dry_run:
            properties = self._rm.identity.properties
            for name in [name for name in properties if name.startswith(_PREFIX)]:
                del properties[name]
            properties.update(told)
            if words := {name: ", ".join(paths) for name, paths in differences.items() if paths}:
                self._rm.history.add(EventKind.QUEUES_REFRESHED, words=words)
        return RefreshQueuesResponse(self._reports(), **differences, request=request)

    def replace_queues(
        self,
        settings: QueueSettings,
        capacity: CapacitySchedulerSettings | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        """Replace the queues; applications stay in the queue with the same path (``rmadmin -refreshQueues``).

        ``capacity`` has the new settings common to all queues, the current ones if omitted. Raises InvalidStateError,
        and changes nothing, if a removed queue still has applications.
        """
        tree: QueueTree[RMAppAttempt] = QueueTree(settings, capacity or self._rm.capacity)
        for app in self._rm.live.values():
            if app.leaf.path not in tree.leaves:
                raise InvalidStateError(
                    f"queue {app.leaf.path} cannot be removed: it has applications",
                    because=f"{app.id} is in it",
                    hint="move it with `yopp app queue ID NAME`, or wait until it ends",
                )
        if dry_run:
            return
        if capacity is not None:
            self._rm.capacity = capacity
            self._mappings = mappings_of(capacity.queue_mappings)[0]
        tree.resize(self._rm.scheduler.total)
        self._rm.scheduler.queues = tree
        for app in self._rm.live.values():
            home = tree.leaves[app.leaf.path]
            self._rehome(app, home)
            app.context = replace(app.context, queue=home.label)
        self._rm.changes.guaranteed = True

    def _rehome(self, app: RMApp, leaf: LeafQueue[RMAppAttempt]) -> None:
        """Move an application's attempt and guaranteed containers from its queue to another."""
        old = app.leaf
        for container in app.containers():
            if container.is_guaranteed:
                old.charge(app.user, container.resource, -1, master=container.is_am)
                leaf.charge(app.user, container.resource, 1, master=container.is_am)
        app.leaf = leaf
        if old.leave(app.attempt):
            leaf.enter(app.attempt)

    # -- reports ---------------------------------------------------------------------------------------------

    def get_queues(self, request: client.GetQueueInfoRequest) -> client.GetQueueInfoResponse:
        """The reports of queues."""
        return client.GetQueueInfoResponse(self._reports(request.queue))

    def _reports(self, name: str = "") -> tuple[QueueReport, ...]:
        """One queue and those below it, or all; parents before children."""
        tree = self._rm.scheduler.queues
        top = self._queue(name) if name else tree.root
        return tuple(self._report(queue) for queue in tree.by_path.values() if top in queue.line())

    def _report(self, queue: Queue) -> QueueReport:
        leaves = [leaf for leaf in self._rm.scheduler.queues.leaves.values() if queue in leaf.line()]
        attempts = [attempt for leaf in leaves for attempt in leaf.attempts.values()]
        apps = [attempt.app for attempt in attempts]
        settings, used = queue.settings, 100 * dominant_share(queue.used, self._rm.scheduler.total)
        leaf = queue if isinstance(queue, LeafQueue) else None
        return made_of(
            QueueReport,
            settings,
            queue,
            name=leaf.label if leaf else settings.name,
            applications=len(apps),
            pending_containers=sum(attempt.outstanding for attempt in attempts),
            state="DRAINING" if queue.stopped and attempts else settings.state,
            parent=queue.parent.path if queue.parent else "",
            leaf=leaf is not None,
            absolute_capacity=queue.share * 100,
            absolute_maximum_capacity=queue.maximum_share * 100,
            used_capacity=used / (queue.share or 1),
            absolute_used_capacity=used,
            running_applications=sum(app.state is YarnApplicationState.RUNNING for app in apps),
            maximum_applications=sum(map(self._maximum_applications, leaves)),
            ordering_policy=settings.ordering_policy if leaf else "utilization",
            preemption_disabled=settings.disable_preemption or not self._rm.capacity.preemption_enabled,
            opportunistic=total_of(app.opportunistic_held for app in apps),
            opportunistic_containers=sum(app.opportunistic_live for app in apps),
            pending_guaranteed=sum(attempt.guaranteed_asks.outstanding for attempt in attempts),
            users=_users(leaves),
            containers=sum(use.workers + use.masters for one in leaves for use in one.users.values()),
            masters_limit=leaf.am_limit() if leaf else Resource(),
            masters_used=total_of(one.masters_used for one in leaves),
            default_priority=settings.default_application_priority,
            maximum_lifetime=settings.maximum_application_lifetime,
            default_lifetime=settings.default_application_lifetime,
            maximum_allocation=self._rm.maximum_allocation,
            acls=(
                QueueAcl("ADMINISTER_QUEUE", _acl(settings.administrators)),
                QueueAcl("SUBMIT_APPLICATIONS", _acl(settings.submitters)),
            ),
        )


def _acl(users: frozenset[str] | None) -> str:
    """An access list in YARN's format: "*" for all, or names; a space for nobody."""
    return "*" if users is None else ",".join(sorted(users)) or " "


def _users(leaves: list[LeafQueue[RMAppAttempt]]) -> tuple[QueueUserReport, ...]:
    apps = [attempt.app for leaf in leaves for attempt in leaf.attempts.values()]
    names = {app.user for app in apps} | {user for leaf in leaves for user in leaf.users}
    return tuple(
        QueueUserReport(
            name,
            total_of(leaf.users[name].used for leaf in leaves if name in leaf.users),
            sum(app.user == name for app in apps),
            total_of(app.opportunistic_held for app in apps if app.user == name),
        )
        for name in sorted(names)
    )


def _differences(old: QueueSettings, new: QueueSettings) -> dict[str, tuple[str, ...]]:
    before, after = ({queue.path: replace(queue, children=()) for queue in root} for root in (old, new))
    return {
        "added": tuple(path for path in after if path not in before),
        "removed": tuple(path for path in before if path not in after),
        "changed": tuple(path for path in after if path in before and after[path] != before[path]),
    }
