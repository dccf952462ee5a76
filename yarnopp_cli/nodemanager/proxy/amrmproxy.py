"""AMRMProxyService: stands between the masters of a node and the ResourceManager (YARN's class of that name).

It speaks ApplicationMasterProtocol to masters, verifies the tokens that it has given them, and keeps a pipeline of
interceptors for each attempt. A master that is started on this node gets a token of the proxy instead of the RM's, so
that only the proxy accepts its calls. A master in a client has the RM's token, presents it once, to register, and gets
the proxy's token in the answer. The service is a machine, embedded in the NodeManager.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from executor.core.machine import earliest
from executor.light import replace

from ...errors import InvalidTokenError, NotYetSupportedError, YoppError
from ...machine.calls import CallReceived, ConnectionLost, ReplyError
from ...machine.tokens import AMRM_PROXY_TOKEN, machine_ms, sign, verify
from ...records.distributed_protocol import RemoteNode
from ...records.ids import ApplicationAttemptId
from ...records.master_protocol import (
    AM_TOKEN_FILE,
    ATTEMPT_VARIABLE,
    SCHEDULER_ADDRESS_VARIABLE,
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from ...records.requests import ContainerLaunchContext, Token
from ...settings.declarations import NodeManagerSettings, ResourceManagerSettings
from ..events import (
    StoredPipeline,
    StorePipelines,
    UpstreamAnswered,
    UpstreamConnected,
    UpstreamEvent,
    UpstreamLost,
    UpstreamRefused,
)
from .distributed_scheduler import DistributedScheduler, NodeDirectory
from .interceptors import AttemptFacts, InterceptorFactory
from .pipeline import Command, Pipeline, not_initialized

MasterRequest = RegisterApplicationMasterRequest | AllocateRequest | FinishApplicationMasterRequest


class AMRMProxyService:
    """The machine: ``Machine[CallReceived | ConnectionLost | UpstreamEvent, Reply | ReplyError | ProxyCommand]``.

    ``interceptors`` make the chain of each attempt; the last one forwards to the RM. ``key`` signs the tokens of
    masters. ``address`` is the address on which it listens (``unix:/path``), ``stored`` the records of previous NM
    processes.
    """

    def __init__(
        self,
        node_id: str,
        address: str,
        settings: NodeManagerSettings,
        scheduler_settings: ResourceManagerSettings,
        *,
        interceptors: tuple[InterceptorFactory | type[DistributedScheduler], ...],
        key: bytes,
        wall_offset: float,
        stored: Iterable[StoredPipeline] = (),
    ) -> None:
        self._node_id = node_id
        self._address = address
        self._settings = settings
        self._interceptors = interceptors
        self._key = key
        self.directory = NodeDirectory(scheduler_settings, wall_offset=wall_offset)
        self._pipelines: dict[str, Pipeline] = {}
        self._out: list[Command] = []
        for known in stored:
            pipeline = self._add(known.attempt_id, known.token)
            pipeline.registered, pipeline.epoch = known.registered, known.epoch + 1
            pipeline.unsure = known.registered
            if known.terms is not None:
                pipeline.take_terms(known.terms)
        if self._pipelines:
            # Store the epochs before any allocation: the next NM process needs a separate range of ids.
            self._store()

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications whose masters use this proxy: the RM reports their ends."""
        return tuple(pipeline.application_id for pipeline in self._pipelines.values())

    # -- the machine -----------------------------------------------------------------------------------

    def handle(self, event: CallReceived | ConnectionLost | UpstreamEvent, now: float) -> list[Command]:
        """Handle one event; return commands, in the order in which they must be performed."""
        match event:
            case CallReceived():
                try:
                    self._on_call(event, now)
                except YoppError as error:
                    self._out.append(ReplyError(event.call_id, error))
            case ConnectionLost():
                for pipeline in list(self._pipelines.values()):
                    if pipeline.connection_id == event.connection_id:
                        pipeline.master_lost()
            case UpstreamConnected():
                if (found := self._pipelines.get(event.attempt_id)) is not None:
                    found.connected(now)
            case UpstreamLost():
                if (found := self._pipelines.get(event.attempt_id)) is not None:
                    found.lost(now)
            case UpstreamAnswered() | UpstreamRefused():
                if (found := self._pipelines.get(event.call.attempt_id)) is not None:
                    self._on_heard(found, event, now)
        return self._finish()

    def next_deadline(self) -> float | None:
        """The time of the next call of ``advance``; None for never."""
        return earliest(pipeline.next_deadline() for pipeline in self._pipelines.values())

    def advance(self, now: float) -> list[Command]:
        """Perform everything that is due by ``now``."""
        for pipeline in list(self._pipelines.values()):
            due = pipeline.next_deadline()
            if due is not None and due <= now:
                pipeline.advance(now)
        return self._finish()

    def validate(self) -> None:
        """Assert that no ended pipeline is kept."""
        for attempt_id, pipeline in self._pipelines.items():
            assert pipeline.attempt_id == attempt_id and not pipeline.done

    # -- the node --------------------------------------------------------------------------------------

    def registered(self, container_key: bytes) -> None:
        """The node has registered: this key signs container tokens from now on."""
        self.directory.container_key = container_key

    def nodes_changed(self, nodes: Iterable[RemoteNode], now: float) -> list[Command]:
        """The RM has sent another list of the least loaded nodes."""
        self.directory.replace(nodes)
        for pipeline in list(self._pipelines.values()):
            pipeline.nodes_changed(now)
        return self._finish()

    def application_ended(self, application_id: str) -> list[Command]:
        """The RM reports that this application has ended, repeatedly until this node has nothing of it.

        The report may overtake the RM's answer to the master's unregistration; then the proxy waits for this answer.
        """
        for attempt_id, pipeline in list(self._pipelines.items()):
            if pipeline.application_id == application_id and not pipeline.takes_leave:
                self._remove(attempt_id)
        return self._finish()

    def force_through(self, context: ContainerLaunchContext) -> ContainerLaunchContext:
        """A master's launch context with the RM's token replaced by one that only this proxy accepts.

        A context that is not a master's, or has no token, is unchanged.
        """
        attempt_id = context.environment.get(ATTEMPT_VARIABLE, "")
        text = context.files.get(AM_TOKEN_FILE)
        if text is None or not attempt_id:
            return context
        pipeline = self._add(attempt_id, Token(**json.loads(text)))
        self._store()
        return replace(
            context,
            files={**context.files, AM_TOKEN_FILE: json.dumps(asdict(pipeline.local_token))},
            environment={**context.environment, SCHEDULER_ADDRESS_VARIABLE: self._address},
        )

    def flush(self) -> list[Command]:
        """The commands that have accumulated."""
        return self._finish()

    # -- calls -----------------------------------------------------------------------------------------

    def _on_call(self, call: CallReceived, now: float) -> None:
        request = call.request
        if not isinstance(request, MasterRequest):
            raise NotYetSupportedError(f"an AMRMProxy does not answer {call.method}")
        attempt_id, token = request.attempt_id, request.token
        application_id = str(ApplicationAttemptId.parse(attempt_id).application_id)
        found = self._pipelines.get(attempt_id)
        if isinstance(request, RegisterApplicationMasterRequest) and token.kind != AMRM_PROXY_TOKEN:
            # A master in a client. Only the RM can verify its token, so the RM is asked.
            if found is None:
                found = self._add(attempt_id, token)
            elif found.rm_token != token:
                raise InvalidTokenError(f"this {token.kind} does not speak for {attempt_id}")
        else:
            if (
                verify(self._key, token, AMRM_PROXY_TOKEN, now_ms=machine_ms(now)).get("attempt_id")
                != attempt_id
            ):
                raise InvalidTokenError(f"this {AMRM_PROXY_TOKEN} does not speak for {attempt_id}")
            if found is None:
                raise not_initialized(application_id)
        found.call(call, now)

    def _on_heard(self, pipeline: Pipeline, event: UpstreamAnswered | UpstreamRefused, now: float) -> None:
        was_registered = pipeline.registered
        if isinstance(event, UpstreamAnswered):
            pipeline.answered(event.call.sequence, event.response, now)
        else:
            pipeline.refused(event.call.sequence, event.error, now)
        if pipeline.registered and not was_registered:
            self._store()

    def _add(self, attempt_id: str, rm_token: Token) -> Pipeline:
        """Add a new pipeline, which replaces the pipeline of the application's earlier attempt."""
        application_id = str(ApplicationAttemptId.parse(attempt_id).application_id)
        for other, pipeline in list(self._pipelines.items()):
            if pipeline.application_id == application_id:
                self._remove(other)
        facts = AttemptFacts(attempt_id, application_id, self._node_id, self._settings)
        distributed = DistributedScheduler(facts, self.directory)
        pipeline = Pipeline(
            facts,
            rm_token,
            sign(self._key, AMRM_PROXY_TOKEN, {"attempt_id": attempt_id}),
            tuple(
                distributed if make is DistributedScheduler else make(facts)  # type: ignore[call-arg]
                for make in self._interceptors
            ),
            distributed,
            self.directory,
            self._out.append,
        )
        self._pipelines[attempt_id] = pipeline
        return pipeline

    def _remove(self, attempt_id: str) -> None:
        self._pipelines.pop(attempt_id).forget()
        self._store()

    def _store(self) -> None:
        known = tuple(
            StoredPipeline(one.attempt_id, one.rm_token, one.terms, one.registered, one.epoch)
            for one in self._pipelines.values()
        )
        self._out.append(StorePipelines(known))

    def _finish(self) -> list[Command]:
        for attempt_id in [one.attempt_id for one in self._pipelines.values() if one.done]:
            self._remove(attempt_id)
        commands, self._out[:] = list(self._out), []
        return commands
