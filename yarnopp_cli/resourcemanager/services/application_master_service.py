"""Calls of masters: registration, allocation, unregistration (YARN's ``ApplicationMasterService``).

An allocate call is a master's heartbeat and its asks. It may be held until there is news; a newer call of the same
master makes the RM answer the older call at once, without news.

Decisions: refuse-the-impossible.
"""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Sequence

from executor.causes import Cause, CauseKind
from executor.light import replace
from executor.records import ExecutionType, Resource

from ...allocation.asks import Ask, AskKey, AskTable, check_label, check_request, check_size, key_of
from ...errors import (
    ApplicationNotFoundError,
    InvalidResourceRequestError,
    InvalidStateError,
    InvalidTokenError,
    NodeNotFoundError,
    YoppError,
)
from ...machine.calls import CallReceived
from ...machine.tokens import AMRM_TOKEN, machine_ms, verify
from ...records import distributed_protocol as distributed
from ...records import master_protocol as master
from ...records.ids import ApplicationAttemptId, ContainerId
from ...records.requests import ANY, Container, ResourceRequest, TaskAssignment, Token
from ..adoption import REMOTE_ID_START, Adoption
from ..app_manager import RMAppManager
from ..container_ledger import RELEASED, ContainerLedger
from ..container_updates import ContainerUpdates
from ..context import RMContext
from ..due import Due, DueKind
from ..entities import HOSTED, MOST_NUMBERED, HeldCall, RMApp, RMAppAttempt
from ..lives import AttemptState, Phase

KNOWN_ABOVE = 64
"""Ended attempts are forgotten if more than this number, plus twice the number of live ones, are remembered."""


class ApplicationMasterService:
    """Answers masters; the RM's step calls ``answer`` for those that may have news."""

    def __init__(
        self,
        context: RMContext,
        ledger: ContainerLedger,
        adoption: Adoption,
        manager: RMAppManager,
        updates: ContainerUpdates,
    ) -> None:
        self._rm = context
        self._ledger = ledger
        self._adoption = adoption
        self._manager = manager
        self._updates = updates
        #: attempts whose masters have shown the token that was made for them, which is not verified each time
        self._known: dict[str, RMAppAttempt] = {}

    # -- registration ----------------------------------------------------------------------------------------

    def register(
        self, call: CallReceived, request: master.RegisterApplicationMasterRequest
    ) -> master.RegisterApplicationMasterResponse:
        """Register the master of an attempt."""
        attempt = self._attempt(request.attempt_id, request.token)
        earlier = {ContainerId.parse(name): node_id for name, node_id in request.earlier.items()}
        again = attempt.state is AttemptState.RUNNING
        # A repeated registration over another connection, before any other call: the first answer was lost with its
        # connection.
        repeats = not attempt.has_called and call.connection_id != attempt.connection_id
        if again and not attempt.app.recovered and not repeats:
            raise InvalidStateError(f"the master of {attempt.app.id} is registered already")
        if not attempt.awaits_master:
            raise InvalidStateError(
                f"{attempt.id} has ended", because=attempt.diagnostics or f"it is {attempt.state.value}"
            )
        if call.connection_id != HOSTED:
            self._note_contact(attempt, call.connection_id)
        if not again:
            self._manager.registered(attempt)
        return master.RegisterApplicationMasterResponse(
            minimum=self._rm.minimum_allocation,
            maximum=self._rm.maximum_allocation,
            largest_node=self._rm.scheduler.largest,
            queue=attempt.app.leaf.label,
            opportunistic_enabled=self._rm.settings.opportunistic_enabled,
            containers_from_previous_attempts=tuple(
                container.container() for container in attempt.containers.values() if not container.is_am
            ),
            ended_well=self._ended_well(attempt),
            ending=self._adoption.ending(attempt, earlier),
            elapsed_ms=self._elapsed_ms(attempt),
        )

    def _elapsed_ms(self, attempt: RMAppAttempt) -> int:
        """The time since the application began, for an attempt that is not its first."""
        app = attempt.app
        return 0 if attempt is app.attempts[0] else max(0, self._rm.now_ms - app.timed_from_ms)

    def _ended_well(self, attempt: RMAppAttempt) -> tuple[str, ...]:
        """Containers of earlier attempts that ended with exit code 0: those whose end was not reported to a master,
        and, because the masters may not have written the other ends down, all that the RM still remembers.
        """
        if attempt is attempt.app.attempts[0]:
            return ()
        remembered = (
            container.id
            for container in self._rm.finished_containers.values()
            if container.app is attempt.app
            and container.attempt is not attempt
            and container.status is not None
            and container.status.exit_code == 0
        )
        return tuple(dict.fromkeys((*attempt.app.ended_well, *remembered)))

    def register_distributed(
        self, call: CallReceived, request: distributed.RegisterDistributedSchedulingAMRequest
    ) -> distributed.RegisterDistributedSchedulingAMResponse:
        """Register a master through its node's DistributedScheduler."""
        self._check_distributed()
        response = self.register(call, request.request)
        return distributed.RegisterDistributedSchedulingAMResponse(
            response,
            minimum=response.minimum,
            maximum=response.maximum,
            increment=response.minimum,
            container_token_expiry_ms=self._rm.settings.allocation_expiry_interval_ms,
            container_id_start=REMOTE_ID_START,
            user=self._attempt(request.request.attempt_id, request.request.token).app.user,
            nodes_for_scheduling=self._rm.nodes_for_scheduling(),
        )

    def _check_distributed(self) -> None:
        if not self._rm.distributed:
            raise InvalidStateError(
                "Distributed Scheduling is not enabled.",
                because="yarn.nodemanager.distributed-scheduling.enabled is false at the ResourceManager",
            )

    def finish(
        self, request: master.FinishApplicationMasterRequest
    ) -> master.FinishApplicationMasterResponse:
        """The master reports the end of the job. A repeated call does no harm."""
        attempt = self._attempt(request.attempt_id, request.token)
        if not attempt.app.ended:
            if attempt.app.recovered and attempt.awaits_master and attempt.state is not AttemptState.RUNNING:
                self._manager.registered(attempt)  # The master had registered with a previous RM process.
            if attempt.state is not AttemptState.RUNNING:
                raise InvalidStateError(
                    f"the master of {attempt.id} is not registered", because=f"it is {attempt.state.value}"
                )
            self._manager.unregistered(attempt, request)
        return master.FinishApplicationMasterResponse(is_unregistered=True)

    # -- allocation ------------------------------------------------------------------------------------------

    def allocate_distributed(
        self, call: CallReceived, request: distributed.DistributedSchedulingAllocateRequest
    ) -> None:
        """An allocate call through a DistributedScheduler, with its own allocations."""
        self._check_distributed()
        self.allocate(call, request.request, remote=request.allocated_containers)

    def allocate(
        self,
        call: CallReceived,
        request: master.AllocateRequest,
        *,
        remote: tuple[Container, ...] | None = None,
    ) -> None:
        """A master's heartbeat and asks. All asks are checked before any is accepted.

        ``remote`` are containers that its node's DistributedScheduler allocated; None without a DistributedScheduler.
        """
        attempt = self._attempt(request.attempt_id, request.token)
        held = HeldCall(call.call_id, request.response_id, remote is not None)
        self.serve(attempt, held, request, call.connection_id, remote)

    def serve(
        self,
        attempt: RMAppAttempt,
        held: HeldCall,
        request: master.AllocateRequest,
        connection_id: int = HOSTED,
        remote: tuple[Container, ...] | None = None,
    ) -> None:
        """Answer an allocate call of the master of ``attempt``, whose identity is proven."""
        app = attempt.app
        self._supersede(attempt)
        if attempt.ended or attempt.state is AttemptState.FINISHING:
            response = master.AllocateResponse(attempt.response_id, command=master.AM_SHUTDOWN)
            self._rm.reply_to_master(held, response)
            return
        if attempt.state is not AttemptState.RUNNING:
            if app.recovered:  # YARN's ApplicationMasterNotRegisteredException
                self._rm.reply_to_master(held, master.AllocateResponse(0, command=master.AM_RESYNC))
                return
            raise InvalidStateError(f"the master of {app.id} has not registered yet")
        if connection_id != HOSTED:
            self._note_contact(attempt, connection_id)
        attempt.has_called = True
        for box in attempt.mailboxes():
            box.acknowledge(request.response_id)
        for container in remote or ():
            self._adoption.reported(attempt, container)
        if attempt.refusal is not None:
            refusal, attempt.refusal = attempt.refusal, None
            raise refusal
        if label := app.context.node_label_expression:
            request = replace(request, asks=tuple(_labelled(ask, label) for ask in request.asks))
        sizes = self._check(request, attempt)
        if math.isfinite(request.progress):
            app.progress = min(1.0, max(0.0, request.progress))
        if request.summary is not None:
            app.summary = request.summary
        if request.tasks:
            self._assign(app, request.tasks)
        if request.blacklist_removals:
            attempt.blacklist.difference_update(request.blacklist_removals)
            self._rm.changes.guaranteed = True
        attempt.blacklist.update(request.blacklist_additions)
        attempt.since_call = 0
        self._take_asks(attempt, request.asks, sizes)
        for container_id in request.releases:
            self._release(attempt, container_id)
        if request.updates:
            self._updates.request(attempt, request.updates)
        if attempt.opportunistic_asks.outstanding:
            # Each call starts a new count of allocations.
            bounded = self._rm.settings.max_allocations_per_heartbeat > 0
            known = attempt.id in self._rm.opportunistic_waiting
            self._rm.opportunistic_waiting.add(attempt)
            contended = self._rm.opportunistic_waiting.contended
            if request.asks or request.blacklist_removals or bounded or contended or not known:
                self._rm.changes.opportunistic = True
        self._rm.hold(attempt, held, min(request.wait_ms, self._rm.settings.am_expiry_interval_ms))
        self._rm.news_for_master(attempt)

    # -- liveness --------------------------------------------------------------------------------------------

    def connection_lost(self, connection_id: int) -> None:
        """The connection of a client that runs its master was lost: the client may reconnect within the grace
        period."""
        for app in list(self._rm.live.values()):
            attempt = app.attempt
            if attempt.connection_id != connection_id:
                continue
            attempt.connection_id = -1
            self._rm.forget_held(attempt)
            attempt.send_again()
            self._adoption.tell_of_remote(attempt)
            if app.unmanaged and not app.ended:
                self._rm.await_client(app.id)

    def client_gone(self, application_id: str) -> None:
        """The grace period of a lost client has passed."""
        app = self._rm.live.get(application_id)
        if app is not None and not app.ended:
            why = "it was a foreground job" if app.hosted else f"the master of {app.id} ran in it"
            self._manager.fail_attempt(app.attempt, f"its client is gone: {why}")

    def expired(self, attempt_id: str) -> None:
        """The liveness deadline of a master has come: the attempt fails if the master was silent for the whole
        interval."""
        attempt = self._current(attempt_id)
        if attempt is None or not attempt.awaits_master:
            return
        interval = self._rm.settings.am_expiry_interval_ms / 1000
        due = (self._rm.now if attempt.held else attempt.last_contact) + interval
        if due > self._rm.now:
            self._rm.deadlines.set(Due(DueKind.MASTER_LIVENESS, attempt_id), due)
        else:
            self._manager.fail_attempt(attempt, f"ApplicationMaster for attempt {attempt_id} timed out")

    # -- answers ---------------------------------------------------------------------------------------------

    def answer(self, attempt: RMAppAttempt) -> None:
        """Answer the held call of ``attempt`` if there is news."""
        held = attempt.held
        if held is None or not (attempt.answer_due or attempt.has_news()):
            return
        number = attempt.next_number()
        allocated = attempt.allocated.take(number)
        attempt.paused_told = attempt.app.counts[Phase.PAUSED]
        for granted, _ in allocated:
            if not granted.acquired:
                granted.acquired = True
                self._rm.history.acquired(granted.subject)
        self._rm.reply_to_master(
            held,
            master.AllocateResponse(
                number,
                allocated=tuple(container for _, container in allocated),
                completed=attempt.completed.take(number),
                started=attempt.started.take(number),
                queued=attempt.queued.take(number),
                updated=attempt.updated.take(number),
                update_errors=attempt.update_errors.take(number),
                preempting=attempt.preempting.take(number),
                updated_nodes=attempt.updated_nodes.take(number),
                paused=attempt.paused_told,
                available=self._rm.scheduler.available(),
                num_nodes=len(self._rm.scheduler.nodes),
            ),
        )
        self._rm.forget_held(attempt)

    def hold_is_over(self, attempt_id: str) -> None:
        """The time for which an allocate call may be held has passed."""
        if (attempt := self._current(attempt_id)) is not None:
            attempt.answer_due = True
            self.answer(attempt)

    def _supersede(self, attempt: RMAppAttempt) -> None:
        """Answer the held call without news: its number is the number of the last answer that the master has."""
        if attempt.held is not None:
            response = master.AllocateResponse(attempt.last_number(attempt.held))
            self._rm.reply_to_master(attempt.held, response)
            self._rm.forget_held(attempt)

    # -- asks ------------------------------------------------------------------------------------------------

    def _check(self, request: master.AllocateRequest, attempt: RMAppAttempt) -> list[Resource]:
        """The normalised size of each ask. Raises the first error of any ask."""
        scheduler = self._rm.scheduler
        node_sizes = scheduler.node_sizes.keys()
        sizes = [check_request(ask, self._rm.settings, node_sizes) for ask in request.asks]
        for label in {ask.node_label_expression for ask in request.asks if ask.num_containers > 0}:
            check_label(label, scheduler.label_sets())
        strict = {key_of(ask) for ask in request.asks if not ask.relax_locality}
        for ask, size in zip(request.asks, sizes, strict=True):
            if ask.num_containers <= 0:
                continue
            if ask.execution_type_request.execution_type is ExecutionType.GUARANTEED:
                attempt.app.leaf.check_size(size)
            if ask.resource_name != ANY and key_of(ask) in strict:
                self._check_place([ask.resource_name], size)
        return sizes

    def _check_place(self, names: Sequence[str], size: Resource) -> None:
        """Refuse an ask for certain places only if none of the places exists or all are too small."""
        nodes = self._rm.scheduler.nodes.values()
        if not nodes:
            return
        name = " or ".join(names)
        totals = [node.total for node in nodes if any(map(node.load.names, names))]
        if not totals:
            raise NodeNotFoundError(
                f"there is no node {name}",
                because=f"the nodes are {', '.join(sorted(node.node_id for node in nodes))}",
                hint="yopp node list",
            )
        if not any(size.fits_in(total) for total in totals):
            raise InvalidResourceRequestError(
                f"a container of {size} is larger than {name}",
                because=f"it has {max(totals)}",
                hint="request less, or allow any node",
            )

    def refuse_hopeless(self) -> None:
        """Report requests that no present node can ever serve to their masters, which would wait for ever otherwise."""
        if not self._rm.scheduler.nodes:
            return
        for app in list(self._rm.live.values()):
            attempt = app.attempt
            faults = [
                fault
                for table in attempt.tables
                for group in table.groups()
                if (fault := self._drop_hopeless(attempt, table, list(group.values()))) is not None
            ]
            if not faults:
                continue
            if attempt.am_ask is not None:
                self._manager.refuse(app, str(faults[0]))
                continue
            if not attempt.opportunistic_asks.outstanding:
                self._rm.opportunistic_waiting.remove(attempt.id)
            if attempt.held is None:
                attempt.refusal = faults[0]
            else:
                self._rm.refuse(attempt.held.call_id, faults[0])
                self._rm.forget_held(attempt)

    def _drop_hopeless(
        self, attempt: RMAppAttempt, table: AskTable, group: Sequence[Ask]
    ) -> YoppError | None:
        """Drop asks of one shape that no node could serve, and return the error; None if a node could."""
        ask = group[0]
        try:
            check_size(ask.resource, self._rm.settings, self._rm.scheduler.node_sizes.keys())
            check_label(ask.request.node_label_expression, self._rm.scheduler.label_sets())
            if table is attempt.guaranteed_asks:
                attempt.app.leaf.check_size(ask.resource)
            if not ask.relax and ask.locations:
                self._check_place(sorted(ask.locations), ask.resource)
        except YoppError as fault:
            for hopeless in group:
                table.drop(hopeless)
            return fault
        return None

    def _assign(self, app: RMApp, tasks: Sequence[TaskAssignment]) -> None:
        """Note the tasks of containers, as their master reports them."""
        for one in tasks:
            container = self._rm.find_container(one.container_id)
            if container is not None and container.app is app and -1 <= one.index < MOST_NUMBERED:
                app.note_task(container.id, one.index + 1)
        if (book := self._rm.task_books.get(app.id)) is not None:
            book.assign(tasks, self._rm.find_container, app.id)
            self._rm.changes.books[app.id] = book

    def _take_asks(
        self, attempt: RMAppAttempt, asks: tuple[ResourceRequest, ...], sizes: list[Resource]
    ) -> None:
        """Accept asks, minus the containers allocated for them in answers that the master had not received."""
        if not asks:
            return
        unknown: Counter[tuple[ExecutionType, AskKey]] = Counter(
            (container.asked_type, container.ask_key) for container, _ in attempt.allocated.items()
        )
        for ask, size in zip(asks, sizes, strict=True):
            execution_type = ask.execution_type_request.execution_type
            missed = unknown[execution_type, key_of(ask)]
            attempt.asks(execution_type).put(ask, size, missed, self._rm.now_ms)
            if execution_type is ExecutionType.OPPORTUNISTIC and ask.num_containers > 0:
                self._rm.metrics.asked(attempt.id, key_of(ask), self._rm.now)
            if execution_type is ExecutionType.GUARANTEED:
                self._rm.changes.guaranteed = True
        if not attempt.opportunistic_asks.outstanding:
            self._rm.opportunistic_waiting.remove(attempt.id)

    def _release(self, attempt: RMAppAttempt, container_id: str) -> None:
        container = attempt.containers.get(container_id)
        if container is not None and not container.is_am:
            container.released = True
            self._ledger.end_at_node(container, Cause(CauseKind.RELEASED), RELEASED)

    # -- identity --------------------------------------------------------------------------------------------

    def _attempt(self, attempt_id: str, token: Token) -> RMAppAttempt:
        known = self._known.get(attempt_id)
        if known is not None and not known.ended and _is_same(token, known.token):
            return known  # The attempt has proven its token before, and the token does not expire.
        self._known.pop(attempt_id, None)
        return self._proven(attempt_id, token)

    def _proven(self, attempt_id: str, token: Token) -> RMAppAttempt:
        """The attempt that the token belongs to, after a full check of the token."""
        application_id = ApplicationAttemptId.parse(attempt_id).application_id
        if application_id.cluster_timestamp != self._rm.identity.cluster_timestamp:
            raise ApplicationNotFoundError(
                f"Application attempt {attempt_id} doesn't exist in the RM",
                because="the ResourceManager was restarted, and does not know applications from before",
                hint="submit the job again",
            )
        payload = verify(self._rm.am_key, token, AMRM_TOKEN, now_ms=machine_ms(self._rm.now))
        if payload.get("attempt_id") != attempt_id:
            raise InvalidTokenError(f"this AMRMToken does not speak for {attempt_id}")
        app = self._rm.applications.get(str(application_id))
        for attempt in app.attempts if app is not None else ():
            if attempt.id == attempt_id:
                if not attempt.ended and _is_same(token, attempt.token):
                    if len(self._known) > KNOWN_ABOVE + 2 * len(self._rm.live):
                        self._known.clear()  # Attempts that ended without another call.
                    self._known[attempt_id] = attempt
                return attempt
        raise ApplicationNotFoundError(f"Application attempt {attempt_id} doesn't exist in the RM")

    def _current(self, attempt_id: str) -> RMAppAttempt | None:
        """The attempt, if it is the last one of a living application."""
        app = self._rm.live.get(str(ApplicationAttemptId.parse(attempt_id).application_id))
        return app.attempt if app is not None and app.attempt.id == attempt_id else None

    def _note_contact(self, attempt: RMAppAttempt, connection_id: int) -> None:
        attempt.connect(connection_id)
        self._rm.deadlines.clear(Due(DueKind.CLIENT_GONE, attempt.app.id))
        self._manager.expect_master(attempt)


def _is_same(token: Token, made: Token) -> bool:
    """Whether two tokens are equal."""
    shown = token.password.encode("utf-8", "surrogatepass")
    same = token.kind == made.kind and token.identifier == made.identifier
    return hmac.compare_digest(shown, made.password.encode()) and same


def _labelled(ask: ResourceRequest, label: str) -> ResourceRequest:
    """The ask, with its application's node label if it names none (as in YARN)."""
    return ask if ask.node_label_expression else replace(ask, node_label_expression=label)
