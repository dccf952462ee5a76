"""The calls of hosted masters: calls to the RM are function calls, calls to a node go with its next heartbeat. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from executor.causes import Cause, CauseKind
from executor.records import ContainerExitStatus

from ...errors import YoppError
from ...machine.calls import CallReceived
from ...masters import messages as m
from ...masters.tasks import Task
from ...records.container_protocol import StopContainersRequest, StopContainersResponse
from ...records.master_protocol import (
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from ...records.tracker_protocol import LaunchTemplate, TaskToStart
from ..container_ledger import ContainerLedger
from ..context import RMContext
from ..entities import HOSTED, HeldCall, RMApp, RMContainer
from ..services.application_master_service import ApplicationMasterService
from ..services.client_rm_service import ClientRMService

STOPPED = "Container killed by the ApplicationMaster."


class HostedCalls:
    """Performs the calls of hosted masters. A deferred call gets a negative number; its answer arrives under this
    number."""

    def __init__(
        self,
        context: RMContext,
        ledger: ContainerLedger,
        masters: ApplicationMasterService,
        clients: ClientRMService,
    ) -> None:
        self._rm = context
        self._ledger = ledger
        self._masters = masters
        self._clients = clients
        self._held: dict[int, tuple[RMApp, m.Call]] = {}
        self._last_number = 0
        self._templates: defaultdict[str, set[str]] = defaultdict(set)

    def call(self, app: RMApp, call: m.Call) -> m.Event | None:
        """Make a call of an application's master. Returns None if ``answered`` returns the answer later."""
        try:
            response = self._ask_rm(app, call) if isinstance(call, m.CallRM) else self._ask_node(app, call)
        except YoppError as error:
            return m.CallFailed(call, error)
        return None if response is None else m.Answered(call, response)

    def answered(self) -> Iterator[tuple[str, m.Event]]:
        """The answers that this step gave to deferred calls, each with its application."""
        answers, self._rm.changes.hosted = self._rm.changes.hosted, []
        for number, answer in answers:
            app, call = self._held.pop(number)
            failed = isinstance(answer, YoppError)
            yield app.id, m.CallFailed(call, answer) if failed else m.Answered(call, answer)

    def start(self, app: RMApp, command: m.StartTasks) -> None:
        """Let a node start the work in granted containers."""
        node = self._rm.nodes.get(command.node_id)
        for task in command.tasks:
            container = task.container and self._rm.live_containers.get(task.container.id)
            if not container or container.node is not node:
                continue  # The container has ended, and its master is notified of the end.
            node.tasks_to_start.put(container.id, self._to_start(app, task, container))
            app.note_task(container.id, task.shown_number)
        if node is not None:
            self._rm.news_for_node(node)

    def ended(self, app: RMApp) -> None:
        """The application's master has ended: cancel the starts that were not sent yet."""
        for template_id in self._templates.pop(app.id, ()):
            self._rm.templates.pop(template_id, None)
            for node_id in app.nodes:
                if (node := self._rm.nodes.get(node_id)) is not None:
                    node.templates_told.discard(template_id)

    def validate(self) -> None:
        """Assert that each deferred call will be answered."""
        for number, (app, call) in self._held.items():
            if isinstance(call, m.CallNode):
                found = [self._rm.live_containers.get(one) for one in call.container_ids]
                told = {one for live in found if live is not None for _, one in live.update_calls}
                assert number in told, f"nobody will answer an update of {app.id}"
                continue
            held = app.attempt.held
            assert held is not None and held.call_id == number, f"a call of {app.id} is held by nobody"

    def _ask_rm(self, app: RMApp, call: m.CallRM) -> Any:
        request = call.request
        asked = CallReceived(-1, HOSTED, request, user=app.user)
        match request:
            case AllocateRequest():
                number = self._number(app, call)
                try:
                    self._masters.serve(app.attempt, HeldCall(number, request.response_id), request)
                except YoppError:
                    del self._held[number]
                    raise
                return None  # The answer follows when there is news.
            case RegisterApplicationMasterRequest():
                return self._masters.register(asked, request)
            case FinishApplicationMasterRequest():
                return self._masters.finish(request)
            case _:
                return self._clients.kill(asked, request)

    def _ask_node(self, app: RMApp, call: m.CallNode) -> StopContainersResponse | None:
        """Stop or update containers through the RM's orders to their node."""
        found = [self._rm.live_containers.get(one) for one in call.container_ids]
        live = [one for one in found if one is not None]
        if isinstance(call.request, StopContainersRequest):
            cause = Cause(CauseKind.MASTER, text=STOPPED)
            for container in live:
                status = ContainerExitStatus.KILLED_BY_APPMASTER
                self._ledger.end_at_node(container, cause, STOPPED, status)
            return StopContainersResponse(call.container_ids)
        for container in live:
            # The node may refuse an update: the call is answered when the node has reported the result.
            container.update_calls += ((container.version, self._number(app, call)),)
            self._ledger.deliver_update(container)
        return None

    def _number(self, app: RMApp, call: m.Call) -> int:
        """The number under which a call is answered later."""
        self._last_number -= 1
        self._held[self._last_number] = (app, call)
        return self._last_number

    def _to_start(self, app: RMApp, task: Task, container: RMContainer) -> TaskToStart:
        template_id = f"{app.id}/{task.phase_index}"
        if template_id not in self._templates[app.id]:
            self._templates[app.id].add(template_id)
            self._rm.templates[template_id] = LaunchTemplate(
                template_id, app.id, app.user, task.phase.context, task.phase.number_variable
            )
        arguments, variables = task.launch
        return TaskToStart(
            container.id,
            template_id,
            task.shown_number,
            container.resource,
            container.execution_type,
            container.priority,
            container.version,
            container.waiting_since_ms,
            task.spec.duration_hint_ms,
            arguments,
            variables,
            app.context.priority,
        )
