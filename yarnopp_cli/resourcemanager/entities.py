"""Applications and their attempts: two tables of transitions, the counts, and the reports.

YARN's ``RMAppImpl`` and ``RMAppAttemptImpl``. Keeps its own books; what follows from a transition
(containers to end, callers to answer) is the services' business.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from executor.errors import InvalidTransitionError
from executor.records import ContainerStatus, ExecutionType, Resource

from ..allocation.asks import Ask, AskTable
from ..errors import YoppError
from ..machine.mailbox import Mailbox
from ..records.ids import ApplicationAttemptId
from ..records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    ApplicationResourceUsage,
    FinalApplicationStatus,
    JobSummary,
    NodeReport,
    YarnApplicationState,
)
from ..records.requests import (
    ApplicationSubmissionContext,
    Container,
    ResourceRequest,
    Token,
    UpdateContainerError,
    UpdatedContainer,
)
from .scheduler.queues import dominant_share
from .nodes_tmp import HeldCall

if TYPE_CHECKING:
    from .container_ledger import RMContainer
    from .container_updates import PendingUpdate
    from .scheduler.queues import LeafQueue
    from .mapreduce import TaskBook


class Phase(str, enum.Enum):  # noqa: UP042 -- as the project's other enums
    """Where a container stands for those who count: ALLOCATED until its node speaks of it."""

    ALLOCATED = "ALLOCATED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    FAILED = "FAILED"
    PREEMPTED = "PREEMPTED"


class AppEvent(str, enum.Enum):  # noqa: UP042 -- as the project's other enums
    """What happens to an application."""

    SUBMIT = "SUBMIT"
    ACCEPT = "ACCEPT"
    ATTEMPT_REGISTERED = "ATTEMPT_REGISTERED"
    ATTEMPT_RETRIED = "ATTEMPT_RETRIED"
    ATTEMPT_UNREGISTERED = "ATTEMPT_UNREGISTERED"
    ATTEMPT_FAILED = "ATTEMPT_FAILED"
    KILL = "KILL"


_NEW, _SUBMITTED = YarnApplicationState.NEW, YarnApplicationState.SUBMITTED
_ACCEPTED, _RUNNING = YarnApplicationState.ACCEPTED, YarnApplicationState.RUNNING
_ENDS = {
    AppEvent.ATTEMPT_FAILED: YarnApplicationState.FAILED,
    AppEvent.KILL: YarnApplicationState.KILLED,
}
APP_TRANSITIONS: Mapping[YarnApplicationState, Mapping[AppEvent, YarnApplicationState]] = {
    _NEW: {AppEvent.SUBMIT: _SUBMITTED},
    _SUBMITTED: {AppEvent.ACCEPT: _ACCEPTED, AppEvent.KILL: YarnApplicationState.KILLED},
    _ACCEPTED: {
        AppEvent.ATTEMPT_REGISTERED: _RUNNING,
        AppEvent.ATTEMPT_RETRIED: _ACCEPTED,
        **_ENDS,
    },
    _RUNNING: {
        AppEvent.ATTEMPT_RETRIED: _ACCEPTED,
        AppEvent.ATTEMPT_UNREGISTERED: YarnApplicationState.FINISHED,
        **_ENDS,
    },
    YarnApplicationState.FINISHED: {},
    YarnApplicationState.FAILED: {},
    YarnApplicationState.KILLED: {},
}
"""The life of an application.

FINISHED begins when its master says so, though the master's container may yet run.
"""


class AttemptState(str, enum.Enum):  # noqa: UP042 -- as the project's other enums
    """The life of an attempt, with YARN's names."""

    NEW = "NEW"
    SCHEDULED = "SCHEDULED"
    ALLOCATED = "ALLOCATED"
    LAUNCHED = "LAUNCHED"
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


class AttemptEvent(str, enum.Enum):  # noqa: UP042 -- as the project's other enums
    """What happens to an attempt. LAUNCHED: its master's container runs, or its master is the client."""

    START = "START"
    CONTAINER_ALLOCATED = "CONTAINER_ALLOCATED"
    LAUNCHED = "LAUNCHED"
    REGISTERED = "REGISTERED"
    UNREGISTERED = "UNREGISTERED"
    ENDED = "ENDED"
    FAIL = "FAIL"
    KILL = "KILL"


_CUT_SHORT = {AttemptEvent.FAIL: AttemptState.FAILED, AttemptEvent.KILL: AttemptState.KILLED}
ATTEMPT_TRANSITIONS: Mapping[AttemptState, Mapping[AttemptEvent, AttemptState]] = {
    AttemptState.NEW: {
        AttemptEvent.START: AttemptState.SCHEDULED,
        AttemptEvent.LAUNCHED: AttemptState.LAUNCHED,
    },
    AttemptState.SCHEDULED: {AttemptEvent.CONTAINER_ALLOCATED: AttemptState.ALLOCATED, **_CUT_SHORT},
    AttemptState.ALLOCATED: {
        AttemptEvent.LAUNCHED: AttemptState.LAUNCHED,
        # A quick master may register before its node has told that it runs.
        AttemptEvent.REGISTERED: AttemptState.RUNNING,
        **_CUT_SHORT,
    },
    AttemptState.LAUNCHED: {AttemptEvent.REGISTERED: AttemptState.RUNNING, **_CUT_SHORT},
    AttemptState.RUNNING: {AttemptEvent.UNREGISTERED: AttemptState.FINISHING, **_CUT_SHORT},
    AttemptState.FINISHING: {AttemptEvent.ENDED: AttemptState.FINISHED},
    AttemptState.FINISHED: {},
    AttemptState.FAILED: {},
    AttemptState.KILLED: {},
}
"""The life of an attempt."""

ENDED_ATTEMPT_STATES = frozenset({AttemptState.FINISHED, AttemptState.FAILED, AttemptState.KILLED})
_LISTENING = frozenset({AttemptState.ALLOCATED, AttemptState.LAUNCHED, AttemptState.RUNNING})


@dataclass(slots=True, eq=False)
class RMAppAttempt:
    """One run of an application's master, and all that is between it and the RM.

    ``response_id`` numbers the answers, ``sent_here`` is the last one on this connection; what stands in
    the mailboxes is repeated until acknowledged. ``held`` is the call that waits for an answer,
    ``answer_due`` says that it need not wait. ``connection_id`` is the connection over which its master
    spoke last, -1 for none. ``since_call`` counts the opportunistic containers that were allocated since
    its master last called. ``refusal`` is what is wrong with asks that were taken and no node can serve: the
    answer to its master's next call. ``paused_told`` is how many paused containers its master knows of.
    """

    id: str
    record: ApplicationAttemptId
    app: RMApp
    token: Token
    state: AttemptState = AttemptState.NEW
    am_ask: Ask | None = None
    am_container: RMContainer | None = None
    connection_id: int = -1
    last_contact: float = 0.0
    response_id: int = 0
    sent_here: int = 0
    held: HeldCall | None = None
    answer_due: bool = False
    since_call: int = 0
    last_container: int = 0
    diagnostics: str = ""
    started_ms: int = 0
    finished_ms: int = 0
    blacklist: set[str] = field(default_factory=set)
    guaranteed_asks: AskTable = field(default_factory=AskTable)
    opportunistic_asks: AskTable = field(default_factory=AskTable)
    containers: dict[str, RMContainer] = field(default_factory=dict)
    updates: dict[str, PendingUpdate] = field(default_factory=dict)
    allocated: Mailbox[tuple[RMContainer, Container]] = field(default_factory=Mailbox)
    completed: Mailbox[ContainerStatus] = field(default_factory=Mailbox)
    started: Mailbox[str] = field(default_factory=Mailbox)
    queued: Mailbox[str] = field(default_factory=Mailbox)
    updated: Mailbox[UpdatedContainer] = field(default_factory=Mailbox)
    update_errors: Mailbox[UpdateContainerError] = field(default_factory=Mailbox)
    preempting: Mailbox[str] = field(default_factory=Mailbox)
    updated_nodes: Mailbox[NodeReport] = field(default_factory=Mailbox)
    refusal: YoppError | None = None
    paused_told: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of this attempt."""
        return self.state in ENDED_ATTEMPT_STATES

    @property
    def awaits_master(self) -> bool:
        """Whether a master is (or should be) there and is expected to speak."""
        return self.state in _LISTENING

    def asks(self, execution_type: ExecutionType) -> AskTable:
        """Its outstanding asks of one type."""
        return (
            self.opportunistic_asks if execution_type is ExecutionType.OPPORTUNISTIC else self.guaranteed_asks
        )

    def mailboxes(self) -> tuple[Mailbox[Any], ...]:
        """All its news, box by box."""
        return (
            self.allocated,
            self.completed,
            self.started,
            self.queued,
            self.updated,
            self.update_errors,
            self.preempting,
            self.updated_nodes,
        )

    def has_news(self) -> bool:
        """Whether a waiting allocate is to be answered now."""
        return bool(
            self.allocated.fresh
            or self.completed.fresh
            or self.started.fresh
            or self.queued.fresh
            or self.updated.fresh
            or self.update_errors.fresh
            or self.preempting.fresh
            or self.updated_nodes.fresh
            or self.paused_told != self.app.counts[Phase.PAUSED]
        )

    def forget_news(self) -> None:
        """Nobody will fetch the news any more."""
        for box in self.mailboxes():
            box.clear()

    def move(self, event: AttemptEvent) -> None:
        """Take a transition. Raises InvalidTransitionError for one that is not in the table: a bug."""
        if (target := ATTEMPT_TRANSITIONS[self.state].get(event)) is None:
            raise InvalidTransitionError(self.id, self.state.value, event.value)
        self.state = target

    def report(self) -> ApplicationAttemptReport:
        """As people see it."""
        return ApplicationAttemptReport(
            attempt_id=self.id,
            state=self.state.value,
            am_container_id=self.am_container.id if self.am_container else "",
            diagnostics=self.diagnostics,
            started_at_ms=self.started_ms,
            finished_at_ms=self.finished_ms,
            am_node_id=self.am_container.node.node_id if self.am_container else "",
            am_http_address=self.am_container.node.registration.http_address if self.am_container else "",
            user=self.app.user,
            blacklist=tuple(sorted(self.blacklist)),
        )


@dataclass(slots=True, eq=False)
class RMApp:
    """One application.

    ``leaf`` is its queue. ``opportunistic_held`` is what its live opportunistic containers come to, of
    which there are ``opportunistic_live``. ``nodes`` are those that ever had a container of it.
    ``failures`` counts the attempts that failed by their own fault. ``finishing`` is true while its master
    has unregistered and its master's container has not ended yet. ``tasks`` is there for a MapReduce job, until its
    history is kept. ``proxy_url`` leads to its page.
    """

    id: str
    number: int
    context: ApplicationSubmissionContext
    user: str
    log_directory: str
    max_attempts: int
    submitted_ms: int
    leaf: LeafQueue
    state: YarnApplicationState = YarnApplicationState.NEW
    final_status: FinalApplicationStatus = FinalApplicationStatus.UNDEFINED
    attempts: list[RMAppAttempt] = field(default_factory=list)
    failures: int = 0
    finishing: bool = False
    started_ms: int = 0
    finished_ms: int = 0
    progress: float = 0.0
    diagnostics: str = ""
    tracking_url: str = ""
    proxy_url: str = ""
    summary: JobSummary | None = None
    nodes: set[str] = field(default_factory=set)
    counts: dict[Phase, int] = field(default_factory=lambda: dict.fromkeys(Phase, 0))
    guaranteed: Resource = field(default_factory=Resource)
    opportunistic_running: Resource = field(default_factory=Resource)
    opportunistic_held: Resource = field(default_factory=Resource)
    opportunistic_live: int = 0
    running: Resource = field(default_factory=Resource)
    opportunistic_total: int = 0
    guaranteed_total: int = 0
    promoted_total: int = 0
    memory_seconds: float = 0.0
    vcore_seconds: float = 0.0
    counted_until: float = 0.0
    preempted: Resource = field(default_factory=Resource)
    preempted_masters: int = 0
    shed: int = 0
    preempted_memory_seconds: float = 0.0
    preempted_vcore_seconds: float = 0.0
    tasks: TaskBook | None = None

    @property
    def attempt(self) -> RMAppAttempt:
        """The current (last) attempt."""
        return self.attempts[-1]

    @property
    def ended(self) -> bool:
        """Whether it has ended as people see it; its master's container may yet run (``finishing``)."""
        return self.state in FINAL_STATES

    @property
    def unmanaged(self) -> bool:
        """Whether its master is the client."""
        return self.context.unmanaged

    def move(self, event: AppEvent) -> None:
        """Take a transition. Raises InvalidTransitionError for one that is not in the table: a bug."""
        if (target := APP_TRANSITIONS[self.state].get(event)) is None:
            raise InvalidTransitionError(self.id, self.state.value, event.value)
        self.state = target

    def count(self, phase: Phase, difference: int) -> None:
        """One container more (1) or less (-1) in ``phase``."""
        self.counts[phase] += difference

    def count_granted(self, execution_type: ExecutionType) -> None:
        """One more container was allocated to its master."""
        if execution_type is ExecutionType.OPPORTUNISTIC:
            self.opportunistic_total += 1
        else:
            self.guaranteed_total += 1

    def change_running(self, container: RMContainer, now: float, sign: int) -> None:
        """A container began (1) or ceased (-1) to run; what ran until now is added to the seconds."""
        self.accrue(now)
        size = container.resource if sign > 0 else Resource() - container.resource
        self.running = self.running + size
        if container.execution_type is ExecutionType.OPPORTUNISTIC:
            self.opportunistic_running = self.opportunistic_running + size

    def accrue(self, now: float) -> None:
        """Add what has been running since last time to the memory and vcore seconds."""
        elapsed = max(0.0, now - self.counted_until)
        self.memory_seconds += self.running.memory * elapsed
        self.vcore_seconds += self.running.vcores * elapsed
        self.counted_until = now

    def add_seconds(self, resource: Resource, seconds: float) -> None:
        """Count a container that was never seen running, by its node's own times."""
        self.memory_seconds += resource.memory * max(0.0, seconds)
        self.vcore_seconds += resource.vcores * max(0.0, seconds)

    def count_preempted(self, container: RMContainer, seconds: float) -> None:
        """A container that ran for ``seconds`` was taken from it."""
        size = container.resource
        self.preempted = self.preempted + size
        self.preempted_masters += container.is_am
        self.preempted_memory_seconds += size.memory * max(0.0, seconds)
        self.preempted_vcore_seconds += size.vcores * max(0.0, seconds)

    def _usage(self) -> ApplicationResourceUsage:
        """What it has, wants and lost."""
        attempt = self.attempts[-1] if self.attempts else None
        master = attempt.am_container if attempt else None
        requests: tuple[ResourceRequest, ...] = ()
        if attempt is not None and not self.ended:
            tables = (attempt.guaranteed_asks, attempt.opportunistic_asks)
            requests = tuple(
                replace(
                    next(iter(group.values())).request,
                    num_containers=sum(ask.outstanding for ask in group.values()),
                )
                for table in tables
                for group in table.groups()
                if group
            )
        *_, root = self.leaf.line()
        part = dominant_share(self.guaranteed, root.guaranteed)
        return ApplicationResourceUsage(
            guaranteed=self.guaranteed,
            master=master.resource if master and not self.ended else Resource(),
            queue_percent=100 * part / self.leaf.share if self.leaf.share > 0 else 0.0,
            cluster_percent=100 * part,
            preempted=self.preempted,
            preempted_masters=self.preempted_masters,
            preempted_memory_seconds=int(self.preempted_memory_seconds),
            preempted_vcore_seconds=int(self.preempted_vcore_seconds),
            requests=requests,
            am_http_address=master.node.registration.http_address if master else "",
            node_label_expression=self.context.node_label_expression,
        )

    def report(self, now: float) -> ApplicationReport:
        """As people see it."""
        self.accrue(now)
        context, counts = self.context, self.counts
        attempt = self.attempts[-1] if self.attempts else None
        master = attempt.am_container if attempt else None
        pending = (
            attempt.guaranteed_asks.outstanding + attempt.opportunistic_asks.outstanding if attempt else 0
        )
        return ApplicationReport(
            application_id=self.id,
            name=context.name,
            user=self.user,
            queue=context.queue,
            application_type=context.application_type,
            state=self.state,
            final_status=self.final_status,
            progress=self.progress,
            diagnostics=self.diagnostics,
            priority=context.priority,
            tags=context.tags,
            current_attempt_id=attempt.id if attempt else "",
            am_container_id=master.id if master else "",
            am_node_id=master.node.node_id if master else "",
            unmanaged=context.unmanaged,
            submitted_at_ms=self.submitted_ms,
            started_at_ms=self.started_ms,
            finished_at_ms=self.finished_ms,
            allocated=self.guaranteed + self.opportunistic_running,
            containers_allocated=counts[Phase.ALLOCATED],
            containers_queued=counts[Phase.QUEUED],
            containers_running=counts[Phase.RUNNING],
            containers_paused=counts[Phase.PAUSED],
            containers_done=counts[Phase.DONE],
            containers_failed=counts[Phase.FAILED],
            containers_preempted=counts[Phase.PREEMPTED],
            containers_shed=self.shed,
            pending_containers=pending,
            opportunistic_allocated_total=self.opportunistic_total,
            guaranteed_allocated_total=self.guaranteed_total,
            promoted_total=self.promoted_total,
            opportunistic_pending=attempt.opportunistic_asks.outstanding if attempt else 0,
            memory_seconds=int(self.memory_seconds),
            vcore_seconds=int(self.vcore_seconds),
            attempts=len(self.attempts),
            log_directory=self.log_directory,
            command_line=context.command_line,
            summary=self.summary,
            timeout_at_ms=self.submitted_ms + context.timeout_ms if context.timeout_ms > 0 else 0,
            usage=self._usage(),
            tracking_url=self.proxy_url,
        )
