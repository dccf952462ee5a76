"""The interceptors of an AMRMProxy: each master's calls pass through them on the way to the RM and back.

A chain is made for each attempt from ``yarn.nodemanager.amrmproxy.interceptor-class.pipeline``. ``forward`` returns
the request for the next interceptor, ``answer`` the response for the one before; both are pure except for the
interceptor's own fields, and time is an argument. To add an interceptor, write a class that overrides either method,
and put its import path ("package.module.Class") into that property::

    from yarnopp_cli.nodemanager.proxy.interceptors import RequestInterceptor

    class AtMostTen(RequestInterceptor):
        "No ask for more than ten containers at a time."

        def forward(self, request, now):
            asks = (replace(ask, num_containers=min(ask.num_containers, 10)) for ask in request.asks)
            return replace(request, asks=tuple(asks))
"""

from __future__ import annotations

from collections.abc import Callable

from executor.light import Record

from ...records.master_protocol import AllocateRequest, AllocateResponse
from ...settings.declarations import NodeManagerSettings


class AttemptFacts(Record):
    """The facts about the caller: printed ids of the attempt, its application and this node; the node's settings."""

    attempt_id: str
    application_id: str
    node_id: str
    settings: NodeManagerSettings


class NotYet(Exception):
    """Raised by ``forward``: repeat the call at ``until`` (seconds, on the clock of ``now``)."""

    def __init__(self, until: float) -> None:
        super().__init__(until)
        self.until = until


class RequestInterceptor:
    """Forwards requests and responses unchanged. Each attempt has its own instance."""

    def __init__(self, facts: AttemptFacts) -> None:
        self.facts = facts

    def forward(self, request: AllocateRequest, now: float) -> AllocateRequest:
        """The request for the next interceptor. A YoppError refuses the call, NotYet delays it."""
        return request

    def answer(self, response: AllocateResponse, now: float) -> AllocateResponse:
        """The response for the interceptor before, and finally for the master."""
        return response


class DefaultRequestInterceptor(RequestInterceptor):
    """The last interceptor of every chain: it forwards to the ResourceManager."""


class ThrottleInterceptor(RequestInterceptor):
    """Delays the calls of a master that calls more often than ``yopp.nodemanager.amrmproxy.calls-per-second``.

    The calls of one second may come at once. No call is refused or lost: the calls wait.
    """

    def __init__(self, facts: AttemptFacts) -> None:
        super().__init__(facts)
        self._rate = float(facts.settings.amrmproxy_calls_per_second)
        self._burst = max(1.0, self._rate)
        self._left = self._burst
        self._at: float | None = None

    def forward(self, request: AllocateRequest, now: float) -> AllocateRequest:
        """Take one call from the allowance, or raise NotYet with the time when the allowance has one."""
        if self._at is not None:
            self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._left < 1 - 1e-6:
            raise NotYet(now + (1 - self._left) / self._rate)
        self._left -= 1
        return request


InterceptorFactory = Callable[[AttemptFacts], RequestInterceptor]
"""A subclass of RequestInterceptor."""
