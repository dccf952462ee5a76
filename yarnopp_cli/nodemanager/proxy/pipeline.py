"""The calls of one master through an AMRMProxy: its held call, the chain, and the calls to the RM.

A master's calls and the proxy's calls to the RM are independent. A master's call is answered when the RM or the chain
has news, or its time is up; meanwhile at most two calls are with the RM. While the RM is unreachable no call is
refused: the news for the RM wait (``upstream``). The proxy acknowledges to the RM only the answers that the master has
acknowledged, so no answer is lost with this node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from executor.core.machine import earliest
from executor.light import replace

from ...errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    InvalidTokenError,
    RemoteError,
    YoppError,
)
from ...machine.calls import CallReceived, Reply, ReplyError
from ...records.distributed_protocol import (
    DistributedSchedulingAllocateRequest,
    DistributedSchedulingAllocateResponse,
    RegisterDistributedSchedulingAMRequest,
    RegisterDistributedSchedulingAMResponse,
)
from ...records.master_protocol import (
    AM_RESYNC,
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from ...records.requests import Token
from ..events import ProxyCommand
from .distributed_scheduler import DistributedScheduler, NodeDirectory
from .interceptors import AttemptFacts, NotYet, RequestInterceptor
from .upstream import Pending, Sent, Upstream

PATIENCE: Final = 5.0
"""Seconds for which a registration or unregistration waits for an unreachable RM."""
ROUND_TRIP: Final = 1.0
"""Seconds for which a call that is not held waits for the RM's answer."""
LEAST_WAIT: Final = 0.01
"""A held call with less than this number of seconds left causes no further call to the RM."""
MAX_DELAYED: Final = 1000
"""Calls of one master that may wait for the throttle; more are refused."""

_NEWS: Final = (
    "allocated", "completed", "started", "queued", "updated", "update_errors", "preempting", "updated_nodes",
    "command", "token",
)  # fmt: skip
"""The parts of the RM's answer that are forwarded to a waiting master at once."""

Command = Reply | ReplyError | ProxyCommand


@dataclass(slots=True)
class _Held:
    call_id: int
    response_id: int
    deadline: float
    at_once: bool
    needs: int | None = None


@dataclass(slots=True)
class _Handshake:
    """The master's registration or unregistration, which the RM answers. ``sent``: it was sent to the RM."""

    call: CallReceived
    deadline: float
    sent: bool = False


class Pipeline:
    """``chain`` in the order in which requests pass it; ``distributed`` does nothing unless it is part of it.

    ``rm_token`` is the attempt's token at the RM, ``local_token`` the token that its master presents here. ``emit``
    takes commands.
    """

    def __init__(
        self,
        facts: AttemptFacts,
        rm_token: Token,
        local_token: Token,
        chain: tuple[RequestInterceptor, ...],
        distributed: DistributedScheduler,
        directory: NodeDirectory,
        emit: Callable[[Command], None],
    ) -> None:
        self.attempt_id = facts.attempt_id
        self.application_id = facts.application_id
        self.rm_token = rm_token
        self.local_token = local_token
        self.terms: RegisterDistributedSchedulingAMResponse | None = None
        self.epoch = 0
        self.registered = False
        self.unsure = False
        """Only a previous NM process knew which of the RM's answers the master has received. The RM subtracts its
        allocations that the master may not know from the master's asks. The proxy therefore sends no asks to the RM
        before the master has acknowledged its answers.
        """
        self._resyncs = False
        self.done = False
        """The pipeline has ended: its owner forgets it."""
        self.connection_id = -1
        self._chain = chain
        self.distributed = distributed
        self._distributes = distributed in chain
        self._directory = directory
        self._emit = emit
        self._upstream = Upstream(facts.attempt_id, emit)
        self._handshake: _Handshake | None = None
        self._held: _Held | None = None
        self._delayed: deque[CallReceived] = deque()
        self._delayed_until = 0.0
        self._number = 0
        self._rm_ids: dict[int, int] = {}
        self._rm_acknowledged = 0
        self._news: AllocateResponse | None = None
        self._error: YoppError | None = None
        self._last = AllocateResponse(0)
        self._latest: AllocateRequest | None = None

    @property
    def takes_leave(self) -> bool:
        """Whether the master's unregistration was sent to the RM."""
        return self.registered and self._handshake is not None and self._handshake.sent

    # -- the master ------------------------------------------------------------------------------------

    def call(self, call: CallReceived, now: float) -> None:
        """A call of the attempt's own master, whose token has been verified."""
        if call.connection_id != self.connection_id:
            self._held = None  # The earlier caller does not wait any more.
            self.connection_id = call.connection_id
            self.distributed.master_reconnected()
        if isinstance(call.request, AllocateRequest):
            if len(self._delayed) >= MAX_DELAYED:
                because = f"{MAX_DELAYED} of its calls are throttled"
                error = RemoteError(f"{self.attempt_id} calls too often", because=because)
                self._emit(ReplyError(call.call_id, error))
                return
            self._delayed.append(call)
            self._take_calls(now)
        else:
            self._supersede()
            self._handshake = _Handshake(call, now + PATIENCE)
        self.settle(now)

    def master_lost(self) -> None:
        """The master's connection has ended: close the one to the RM, which then decides whether to wait for the
        master."""
        self.connection_id = -1
        self._held = None
        self._handshake = None
        self._delayed.clear()
        self._upstream.close()

    def _take_calls(self, now: float) -> None:
        """Forward the waiting calls, as far as the chain allows."""
        while self._delayed and (self._delayed_until <= now):
            call = self._delayed[0]
            try:
                self._take_call(call, call.request, now)
            except NotYet as later:
                self._delayed_until = later.until
                return
            except YoppError as error:
                self._emit(ReplyError(call.call_id, error))
            self._delayed.popleft()

    def _take_call(self, call: CallReceived, request: AllocateRequest, now: float) -> None:
        self._number = max(self._number, request.response_id)
        forwarded = request
        for interceptor in self._chain:
            forwarded = interceptor.forward(forwarded, now)
        self._supersede()
        received = [number for number in self._rm_ids if number <= request.response_id]
        for number in received:
            self._rm_acknowledged = max(self._rm_acknowledged, self._rm_ids.pop(number))
            self.unsure = False
        self._latest = forwarded
        self._upstream.pending.add(forwarded)
        at_once = request.wait_ms <= 0
        wait = request.wait_ms / 1000 if not at_once else 0.0 if self._upstream.is_away else ROUND_TRIP
        self._held = _Held(call.call_id, request.response_id, now + wait, at_once)

    def _supersede(self) -> None:
        """Answer the older call at once, without news, because a newer one has come."""
        if self._held is not None:
            self._emit(Reply(self._held.call_id, AllocateResponse(self._held.response_id)))
            self._held = None

    # -- the ResourceManager ---------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """The requested connection is established."""
        self._upstream.connected()
        self.settle(now)

    def lost(self, now: float) -> None:
        """The connection could not be made, or has ended: repeat the unanswered calls later."""
        if self._upstream.is_away:
            return
        self._upstream.lost(now)
        if self._handshake is not None:
            self._handshake.sent = False
        if self._held is not None and self._held.at_once:
            self._held.deadline = now
        self.settle(now)

    def answered(self, sequence: int, response: Any, now: float) -> None:
        """The RM's answer to one call."""
        sent = self._upstream.in_flight.pop(sequence, None)
        if sent is None:
            return
        allocated = (
            response.response if isinstance(response, DistributedSchedulingAllocateResponse) else response
        )
        if isinstance(allocated, AllocateResponse) and allocated.command == AM_RESYNC:
            self._resync(sent, allocated)
            self.settle(now)
            return
        if isinstance(response, DistributedSchedulingAllocateResponse):
            self.distributed.reported(sent.reported)
            self._directory.replace(response.nodes_for_scheduling)
            response = response.response
        if isinstance(response, AllocateResponse):
            self._on_allocated(sequence, response)
        elif isinstance(
            response, RegisterApplicationMasterResponse | RegisterDistributedSchedulingAMResponse
        ):
            self._on_registered(response)
        else:
            self.done = True
            self._end_handshake(response)
        self.settle(now)

    def refused(self, sequence: int, error: YoppError, now: float) -> None:
        """The RM refused a call: refuse the master's call."""
        sent = self._upstream.in_flight.pop(sequence, None)
        if sent is None:
            return
        if isinstance(sent.request, DistributedSchedulingAllocateRequest | AllocateRequest):
            self._error = error
            self.done = self.done or isinstance(error, ApplicationNotFoundError | InvalidTokenError)
        elif self._handshake is not None:
            self._end_handshake(error)
            self.done = self.done or not self.registered
        self.settle(now)

    def _resync(self, sent: Sent, response: AllocateResponse) -> None:
        """The RM was restarted, ignored this call, and numbers its answers anew. Call it again only after the master,
        which is notified once, has registered again.
        """
        self._upstream.say_again(sent)
        if not self._resyncs:
            self._resyncs, self._news = True, response
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._rm_ids.clear()
        self._rm_acknowledged = 0
        self.unsure = False

    def _on_allocated(self, sequence: int, response: AllocateResponse) -> None:
        has_news = any(getattr(response, name) for name in _NEWS)
        self.unsure = self.unsure and bool(response.allocated)
        if response.token is not None:
            self.rm_token = response.token
            response = replace(response, token=None)
        if response.num_nodes:
            self._last = response
        if has_news:
            self._news = response
        if self._held is not None and self._held.needs is not None and sequence >= self._held.needs:
            self._held.deadline = float("-inf")

    def _on_registered(
        self, response: RegisterApplicationMasterResponse | RegisterDistributedSchedulingAMResponse
    ) -> None:
        self.registered, self._resyncs = True, False
        self._begin_anew()
        # The RM ignored the rest of a call that it answered with the request to register again.
        self.distributed.master_reconnected()
        if isinstance(response, RegisterDistributedSchedulingAMResponse):
            self.take_terms(response)
            self._directory.replace(response.nodes_for_scheduling)
            response = response.response
        self._end_handshake(replace(response, token=self.local_token))

    def take_terms(self, terms: RegisterDistributedSchedulingAMResponse) -> None:
        """Take the RM's terms, by which opportunistic containers are allocated here."""
        # The terms are stored without the lists of containers.
        told = replace(terms.response, ended_well=(), ending=())
        self.terms = replace(terms, response=told)
        self.distributed.registered(terms, self.epoch)

    def _end_handshake(self, answer: Any) -> None:
        if self._handshake is not None:
            call_id, self._handshake = self._handshake.call.call_id, None
            self._emit(
                ReplyError(call_id, answer) if isinstance(answer, YoppError) else Reply(call_id, answer)
            )

    # -- what follows ----------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """Call the RM and answer the master, if an event has given a reason for either."""
        if self.connection_id >= 0 and not self.done:
            self._call_upstream(now)
        self._answer_master(now)

    def nodes_changed(self, now: float) -> None:
        """There is another list of nodes: try the outstanding asks again."""
        if self.connection_id >= 0:
            self.distributed.allocate(now)
            self.settle(now)

    def next_deadline(self) -> float | None:
        """The time of the next call of ``advance``; None for never."""
        return earliest(
            (
                self._held.deadline if self._held is not None else None,
                self._handshake.deadline if self._handshake is not None else None,
                self._upstream.retry_at,
                self._delayed_until if self._delayed else None,
            )
        )

    def advance(self, now: float) -> None:
        """Perform everything that is due by ``now``."""
        retry_at = self._upstream.retry_at
        if retry_at is not None and retry_at <= now:
            self._upstream.retry_at = None
        if self._handshake is not None and self._handshake.deadline <= now:
            what = "the AMRMProxy cannot reach the ResourceManager"
            self._end_handshake(ConnectionFailedError(what, hint="yopp rm restart"))
        self._take_calls(now)
        self.settle(now)

    def forget(self) -> None:
        """Forget everything after the attempt's end, and refuse the calls that still wait."""
        self.done = True
        self._upstream.close()
        self.distributed.forget()
        waiting = [held.call_id for held in (self._held,) if held is not None]
        waiting += [call.call_id for call in self._delayed]
        waiting += [self._handshake.call.call_id] if self._handshake is not None else []
        for call_id in waiting:
            self._emit(ReplyError(call_id, self._error or not_initialized(self.application_id)))
        self._held = self._handshake = None
        self._delayed.clear()

    def _call_upstream(self, now: float) -> None:
        """Connect to the RM, and send the calls that are due."""
        upstream, handshake = self._upstream, self._handshake
        if upstream.is_away and (handshake is not None or self._held is not None or self._delayed):
            upstream.connect()
        if not upstream.is_connected:
            return
        if handshake is not None and not handshake.sent:
            handshake.sent = True
            self._send_handshake(handshake.call.request)
        told_to_wait = self._resyncs or handshake is not None
        if self.registered and self._latest is not None and not told_to_wait and len(upstream.in_flight) < 2:
            told = {one for sent in upstream.in_flight.values() for one in sent.reported}
            fresh = any(container.id not in told for container in self.distributed.unreported)
            asked = self.unsure and (upstream.in_flight or self._rm_ids or self._news is not None)
            says = fresh or (upstream.pending.dirty and not asked)
            if says or (self._held is not None and self._held_waits(self._held, now)):
                self._send_allocate(self._latest, now)

    def _held_waits(self, held: _Held, now: float) -> bool:
        """Whether the held call needs its own call to the RM."""
        if held.at_once:
            return held.needs is None
        return not self._upstream.in_flight and held.deadline - now > LEAST_WAIT

    def _send_handshake(
        self, request: RegisterApplicationMasterRequest | FinishApplicationMasterRequest
    ) -> None:
        passed_on = replace(request, token=self.rm_token)
        if isinstance(passed_on, RegisterApplicationMasterRequest) and self._distributes:
            self._upstream.send(RegisterDistributedSchedulingAMRequest(passed_on))
        else:
            self._upstream.send(passed_on)

    def _send_allocate(self, latest: AllocateRequest, now: float) -> None:
        upstream, held, said = self._upstream, self._held, Pending()
        if not self.unsure:
            upstream.pending, said = said, upstream.pending
        at_once = held is None or held.at_once or self.unsure
        wait = 0.0 if held is None or at_once else max(0.0, held.deadline - now)
        request = replace(
            said.said_in(latest),
            token=self.rm_token,
            response_id=self._rm_acknowledged,
            wait_ms=int(wait * 1000),
        )
        if held is not None and held.at_once:
            held.needs = upstream.sequence + 1
        if self._distributes:
            told = self.distributed.unreported
            passed_on = DistributedSchedulingAllocateRequest(request, told)
            upstream.send(passed_on, tuple(one.id for one in told))
        else:
            upstream.send(request)

    def _answer_master(self, now: float) -> None:
        """Answer the held call if there is news."""
        if self.connection_id >= 0:
            self.distributed.allocate(now)
        held = self._held
        if held is None:
            return
        if self._error is not None:
            error, self._error = self._error, None
            self._held = None
            self._emit(ReplyError(held.call_id, error))
            return
        if self._news is None and not self.distributed.has_news and held.deadline > now:
            return
        self._number += 1
        news, self._news = self._news, None
        if news is not None:
            self._rm_ids[self._number] = news.response_id
        known = news or replace(
            AllocateResponse(0), available=self._last.available, num_nodes=self._last.num_nodes
        )
        response = replace(known, response_id=self._number)
        for interceptor in reversed(self._chain):
            response = interceptor.answer(response, now)
        self._held = None
        self._emit(Reply(held.call_id, response))
        if self._distributes and self.connection_id >= 0 and not self.done:
            # Report the containers allocated here, though no call of the master waits.
            self._call_upstream(now)


def not_initialized(application_id: str) -> ApplicationNotFoundError:
    """YARN's refusal for an application that has no chain here."""
    return ApplicationNotFoundError(
        f"The AM request processing pipeline is not initialized for app: {application_id}"
    )
