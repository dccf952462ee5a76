"""What people ask about queues: where an application goes, what queues have, moves, priorities, new queues.

YARN's ``QueuePlacementManager`` and the parts of ``CapacityScheduler`` and ``ClientRMService`` that change queues.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from executor.records import ExecutionType, Resource

from ...errors import EXIT_NO_SUCH, AccessDeniedError, InvalidStateError, NotYetSupportedError, RemoteError
from ...machine.calls import CallReceived
from ...records.admin_protocol import RefreshQueuesRequest, RefreshQueuesResponse
from ...records.history import EventKind
from ...records.reports import QueueAcl, QueueReport, QueueUserReport, YarnApplicationState
from ...records.requests import ApplicationSubmissionContext
from ...settings.queues import DEFAULT_QUEUE, CapacitySchedulerSettings, QueueSettings, mappings_of
from ..context import RMContext
from ..entities import RMApp, RMAppAttempt
from ..scheduler.queues import LeafQueue, Queue, QueueTree, total_of

QueueReader = Callable[
    [Mapping[str, str], CapacitySchedulerSettings],
    tuple[QueueSettings, CapacitySchedulerSettings, dict[str, str]],
]
"""Makes settings of properties: the queues, what holds for all of them, and the properties that are not default."""

_PREFIX = "yarn.scheduler.capacity."

EVERYBODY = "%user"
MOST_PRIORITY = 1_000_000


class QueueService:
    """Changes which queue applications are in, and which queues there are; reports both."""

    def __init__(self, context: RMContext, read: QueueReader | None = None) -> None:
        self._context = context
        self._read = read
        self._mappings = mappings_of(context.capacity.queue_mappings)[0]

    # -- submission ------------------------------------------------------------------------------------------

    def place(
        self, submission: ApplicationSubmissionContext, user: str, *, privileged: bool
    ) -> tuple[LeafQueue[RMAppAttempt], ApplicationSubmissionContext]:
        """The queue an application goes to, and what it asked for with that queue's name and defaults.

        ``privileged`` callers are under no ACL. Raises RemoteError for a queue that does not exist, is not a
        leaf, takes none, or is full.
        """
        leaf = self.leaf(self._mapped(submission.queue, user))
        self._check_entry(leaf, user, privileged=privileged)
        settings = leaf.settings
        seconds = settings.maximum_application_lifetime
        timeout = submission.timeout_ms
        if timeout <= 0 and settings.default_application_lifetime > 0:
            timeout = settings.default_application_lifetime * 1000
        if seconds > 0 and not 0 < timeout <= seconds * 1000:
            timeout = seconds * 1000
        priority = submission.priority or settings.default_application_priority
        return leaf, replace(submission, queue=leaf.label, timeout_ms=timeout, priority=self.capped(priority))

    def _mapped(self, queue: str, user: str) -> str:
        """The queue by the mappings, where these have a say."""
        if queue not in ("", DEFAULT_QUEUE) and not self._context.capacity.queue_mappings_override:
            return queue
        for name, target in self._mappings:
            if name in (user, EVERYBODY):
                return user if target == EVERYBODY else target
        return queue or DEFAULT_QUEUE

    def queue(self, name: str) -> Queue:
        """The queue of that name or path. Raises RemoteError, with the nearest name, if there is none."""
        tree = self._context.scheduler.queues
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

    def leaf(self, name: str) -> LeafQueue[RMAppAttempt]:
        """The queue of that name, if applications may be in it. Raises RemoteError."""
        found = self.queue(name)
        if isinstance(found, LeafQueue):
            return found
        below = [
            leaf.label for leaf in self._context.scheduler.queues.leaves.values() if found in leaf.line()
        ]
        raise RemoteError(
            f"queue {name} takes no applications itself",
            because=f"it is the parent of: {', '.join(below)}",
            hint="name one of these",
            exit_code=EXIT_NO_SUCH,
        )

    def _check_entry(self, leaf: LeafQueue[RMAppAttempt], user: str, *, privileged: bool) -> None:
        """Raise what stands against one more application of ``user`` in a queue."""
        context = self._context
        if leaf.settings.state == "STOPPED":
            raise InvalidStateError(
                f"queue {leaf.path} is STOPPED, and takes no applications",
                because="its state in the configuration, or that of a queue above it, says so",
                hint="yopp queue list",
            )
        if not privileged and not self._allowed(leaf, user, administer=False):
            raise AccessDeniedError(
                f"User {user} does not have permission to submit to queue {leaf.label}",
                because=f"acl_submit_applications of {leaf.path} and of its parents do not name him",
            )
        limit = self.maximum_applications(leaf)
        in_all = context.capacity.maximum_applications
        living = sum(len(one.attempts) for one in context.scheduler.queues.leaves.values())
        if len(leaf.attempts) >= limit or living >= in_all:
            here = len(leaf.attempts) >= limit
            raise InvalidStateError(
                f"Queue {leaf.path} already has {len(leaf.attempts)} applications, "
                f"cannot accept submission of another",
                because=f"its maximum-applications is {limit}"
                if here
                else f"the cluster's maximum is {in_all}",
                hint="wait for one to end",
            )

    def maximum_applications(self, leaf: LeafQueue[RMAppAttempt]) -> int:
        """How many applications may live in a queue: its own number, or its share of the scheduler's."""
        own = leaf.settings.maximum_applications
        return own if own >= 0 else max(1, int(self._context.capacity.maximum_applications * leaf.share))

    def _allowed(self, leaf: LeafQueue[RMAppAttempt], user: str, *, administer: bool) -> bool:
        """Whether the ACL of the queue or of one above it names a user."""
        if not self._context.capacity.acl_enable:
            return True
        for queue in leaf.line():
            settings = queue.settings
            named = settings.administrators if administer else settings.submitters
            if named is None or user in named:
                return True
        return False

    # -- changes ---------------------------------------------------------------------------------------------

    def move(self, app: RMApp, queue: str, user: str, *, privileged: bool, dry_run: bool = False) -> None:
        """Put a living application into another queue, with all that it has. Raises RemoteError."""
        leaf = self.leaf(queue)
        self._check_living(app)
        if leaf is app.leaf:
            return
        self._check_administrator(app, user, privileged=privileged)
        self._check_entry(leaf, app.user, privileged=privileged)
        if dry_run:
            return
        self._rehome(app, leaf)
        app.context = replace(app.context, queue=leaf.label)
        self._context.changes.guaranteed = True

    def capped(self, priority: int) -> int:
        """A priority as it is taken: no higher than the cluster's highest."""
        return min(priority, self._context.settings.max_application_priority)

    def prioritise(
        self, app: RMApp, priority: int, user: str, *, privileged: bool, dry_run: bool = False
    ) -> None:
        """Give a living application another priority: a larger number is served first. Raises RemoteError."""
        self._check_living(app)
        if not 0 <= priority <= MOST_PRIORITY:
            raise InvalidStateError(
                f"{priority} is no priority",
                because=f"it is a number from 0 to {MOST_PRIORITY:,}, and a larger one goes first",
                hint="yopp app priority last 10",
            )
        self._check_administrator(app, user, privileged=privileged)
        if dry_run:
            return
        app.context = replace(app.context, priority=self.capped(priority))
        self._context.changes.guaranteed = True
        self._context.changes.opportunistic = True

    def refresh(self, call: CallReceived, request: RefreshQueuesRequest) -> None:
        """Take other queues. Raises RemoteError, and changes nothing, where they cannot be."""
        context = self._context
        if self._read is None:
            raise NotYetSupportedError("this ResourceManager was given no reader of queues")
        given = {one.name: one.value for one in request.properties}
        root, capacity, told = self._read(given, context.capacity)
        added, removed, changed = _differences(context.scheduler.queues.settings, root)
        self.replace_queues(root, capacity, dry_run=request.dry_run)
        if not request.dry_run:
            properties = context.identity.properties
            for name in [name for name in properties if name.startswith(_PREFIX)]:
                del properties[name]
            properties.update(told)
            paths = {"added": added, "removed": removed, "changed": changed}
            if words := {name: ", ".join(some) for name, some in paths.items() if some}:
                context.history.add(EventKind.QUEUES_REFRESHED, words=words)
        context.reply(call.call_id, RefreshQueuesResponse(self.reports(), added, removed, changed, request))

    def replace_queues(
        self,
        settings: QueueSettings,
        capacity: CapacitySchedulerSettings | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        """Other queues, with all applications in those of their paths (``rmadmin -refreshQueues``).

        ``capacity`` is what holds for all of them from now on, by default what did. Raises InvalidStateError, and
        changes nothing, where a queue that is gone still has applications.
        """
        context = self._context
        tree: QueueTree[RMAppAttempt] = QueueTree(settings, capacity or context.capacity)
        homes = {app.id: tree.leaves.get(app.leaf.path) for app in context.live.values()}
        for app in context.live.values():
            if homes[app.id] is None:
                raise InvalidStateError(
                    f"queue {app.leaf.path} cannot go: it has applications",
                    because=f"{app.id} is in it",
                    hint="move it with `yopp app queue ID NAME`, or let it end",
                )
        if dry_run:
            return
        if capacity is not None:
            context.capacity = capacity
            self._mappings = mappings_of(capacity.queue_mappings)[0]
        tree.resize(context.scheduler.total)
        context.scheduler.queues = tree
        for app in context.live.values():
            home = homes[app.id]
            assert home is not None, "checked above"
            self._rehome(app, home)
            app.context = replace(app.context, queue=home.label)
        context.changes.guaranteed = True

    def _rehome(self, app: RMApp, leaf: LeafQueue[RMAppAttempt]) -> None:
        """Take an application's attempt and guaranteed containers from its queue to another."""
        held = [
            container
            for attempt in app.attempts
            for container in attempt.containers.values()
            if container.execution_type is ExecutionType.GUARANTEED
        ]
        old = app.leaf
        for container in held:
            old.charge(app.user, container.resource, -1, master=container.is_am)
            leaf.charge(app.user, container.resource, 1, master=container.is_am)
        app.leaf = leaf
        if old.attempts.pop(app.attempt.id, None) is not None:
            leaf.attempts[app.attempt.id] = app.attempt

    def _check_living(self, app: RMApp) -> None:
        if app.ended:
            raise InvalidStateError(
                f"{app.id} has ended",
                because=f"it is {app.state.value}",
                hint="`yopp app list` shows those that live",
            )

    def _check_administrator(self, app: RMApp, user: str, *, privileged: bool) -> None:
        if privileged or user == app.user or self._allowed(app.leaf, user, administer=True):
            return
        raise AccessDeniedError(
            f"User {user} cannot perform operation MODIFY_APP on {app.id}",
            because=f"it belongs to {app.user}, and acl_administer_queue of {app.leaf.path} does not name {user}",
            hint=f"ask {app.user}, or an administrator of the queue",
        )

    # -- reports ---------------------------------------------------------------------------------------------

    def reports(self, name: str = "") -> tuple[QueueReport, ...]:
        """One queue and those below it, or all; parents before children."""
        tree = self._context.scheduler.queues
        top = self.queue(name) if name else tree.root
        return tuple(
            self._report(queue) for queue in tree.by_path.values() if queue is top or _below(queue, top)
        )

    def _report(self, queue: Queue) -> QueueReport:
        leaves = [leaf for leaf in self._context.scheduler.queues.leaves.values() if queue in leaf.line()]
        attempts = [attempt for leaf in leaves for attempt in leaf.attempts.values()]
        apps = [attempt.app for attempt in attempts]
        opportunistic = Resource()
        for app in apps:
            opportunistic = opportunistic + app.opportunistic_held
        context = self._context
        settings, total = queue.settings, context.scheduler.total
        leaf = queue if isinstance(queue, LeafQueue) else None
        living = bool(attempts)
        return QueueReport(
            name=leaf.label if leaf else settings.name,
            capacity=settings.capacity,
            maximum_capacity=settings.maximum_capacity,
            used=queue.used,
            applications=len(apps),
            pending_containers=sum(
                attempt.guaranteed_asks.outstanding + attempt.opportunistic_asks.outstanding
                for attempt in attempts
            ),
            state="DRAINING" if settings.state == "STOPPED" and living else settings.state,
            path=queue.path,
            parent=queue.parent.path if queue.parent else "",
            leaf=leaf is not None,
            absolute_capacity=queue.share * 100,
            absolute_maximum_capacity=queue.maximum_share * 100,
            used_capacity=queue.usage(total) * 100 if queue.share > 0 else 0.0,
            absolute_used_capacity=queue.usage(total) * queue.share * 100 if queue.share > 0 else 0.0,
            guaranteed=queue.guaranteed,
            maximum=queue.maximum,
            running_applications=sum(1 for app in apps if app.state is YarnApplicationState.RUNNING),
            maximum_applications=sum(self.maximum_applications(one) for one in leaves),
            ordering_policy=settings.ordering_policy if leaf else "utilization",
            user_limit_factor=settings.user_limit_factor,
            minimum_user_limit_percent=settings.minimum_user_limit_percent,
            preemption_disabled=settings.disable_preemption or not self._context.capacity.preemption_enabled,
            opportunistic=opportunistic,
            opportunistic_containers=sum(app.opportunistic_live for app in apps),
            pending_guaranteed=sum(attempt.guaranteed_asks.outstanding for attempt in attempts),
            users=_users(leaves),
            containers=sum(use.workers + use.masters for one in leaves for use in one.users.values()),
            masters_limit=leaf.am_limit() if leaf else Resource(),
            masters_used=total_of(one.masters_used for one in leaves),
            default_priority=settings.default_application_priority,
            maximum_lifetime=settings.maximum_application_lifetime,
            default_lifetime=settings.default_application_lifetime,
            maximum_allocation=Resource(
                context.settings.maximum_allocation_mb, context.settings.maximum_allocation_vcores
            ),
            acls=(
                QueueAcl("ADMINISTER_QUEUE", _acl(settings.administrators)),
                QueueAcl("SUBMIT_APPLICATIONS", _acl(settings.submitters)),
            ),
        )


def _acl(users: frozenset[str] | None) -> str:
    """As YARN writes it: all, or names; a space for nobody."""
    return "*" if users is None else ",".join(sorted(users)) or " "


def _below(queue: Queue, top: Queue) -> bool:
    return any(one is top for one in queue.line())


def _users(leaves: list[LeafQueue[RMAppAttempt]]) -> tuple[QueueUserReport, ...]:
    """Who has applications or containers in these queues, by name."""
    names = sorted(
        {attempt.app.user for leaf in leaves for attempt in leaf.attempts.values()}
        | {user for leaf in leaves for user in leaf.users}
    )
    applications = Counter(attempt.app.user for leaf in leaves for attempt in leaf.attempts.values())
    reports = []
    for name in names:
        used = opportunistic = Resource()
        for leaf in leaves:
            if (use := leaf.users.get(name)) is not None:
                used = used + use.used
            for attempt in leaf.attempts.values():
                if attempt.app.user == name:
                    opportunistic = opportunistic + attempt.app.opportunistic_held
        reports.append(QueueUserReport(name, used, applications[name], opportunistic))
    return tuple(reports)


def _differences(
    old: QueueSettings, new: QueueSettings
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The paths of queues that come, that go, and that are other than they were."""

    def alone(root: QueueSettings) -> Iterator[tuple[str, QueueSettings]]:
        return ((queue.path, replace(queue, children=())) for queue in root)

    before, after = dict(alone(old)), dict(alone(new))
    return (
        tuple(path for path in after if path not in before),
        tuple(path for path in before if path not in after),
        tuple(path for path in after if path in before and after[path] != before[path]),
    )
