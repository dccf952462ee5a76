"""The ResourceManager's orders to a node: carries out the answers to heartbeats (YARN's ContainerManagerImpl, which
receives these events from NodeStatusUpdaterImpl).

Unlike the calls that ``service`` serves, orders need no token. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from executor.causes import Cause, CauseKind
from executor.core import events
from executor.core.commands import ReportStatus
from executor.core.scheduler import ContainerScheduler
from executor.light import made_of
from executor.records import (
    ContainerExitStatus,
    ContainerQueuingLimit,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
)

from ..errors import YoppError
from ..records.requests import ContainerLaunchContext
from ..records.tracker_protocol import ContainerToStart, NodeOrders, RegisterNodeManagerResponse
from .containers import NodeContainers
from .events import Command
from .service import spec_of
from .templates import LaunchTemplates

if TYPE_CHECKING:
    # Imported late: few nodes have an AMRMProxy, and it imports many modules.
    from .proxy.amrmproxy import AMRMProxyService

NO_LIMIT: Final = ContainerQueuingLimit()
BY_RESOURCEMANAGER = "Container Killed by ResourceManager"
APPLICATION_ENDED = "Container killed on application-finish event"


class ResourceManagerOrders:
    """``pass_event`` hands an event to ``scheduler`` and collects its commands; ``collect`` takes other commands.

    ``proxy`` is the AMRMProxy of the masters on this node, if it has one.
    """

    def __init__(
        self,
        log_dir: str,
        scheduler: ContainerScheduler,
        containers: NodeContainers,
        proxy: AMRMProxyService | None,
        pass_event: Callable[[events.Event], None],
        collect: Callable[[Iterable[Command]], None],
    ) -> None:
        self._log_dir = log_dir
        self._scheduler = scheduler
        self._containers = containers
        self._proxy = proxy
        self._pass = pass_event
        self._collect = collect
        self._templates = LaunchTemplates()

    def follow(self, response: NodeOrders, epoch_ms: int) -> None:
        """Carry out all orders in the answer to a heartbeat."""
        if acknowledged := self._containers.acknowledged(response.completed_acknowledged):
            self._collect(self._scheduler.forget(acknowledged))
        self.clean_up(response)
        for update in response.containers_to_update:
            self._pass(
                events.ContainerUpdated(
                    update.container_id, update.version, update.execution_type, update.resource
                )
            )
        for master in response.containers_to_start:
            self._start_master(master, epoch_ms)
        if response.tasks_to_start:
            self._start_tasks(response, epoch_ms)
        for changed in response.application_priorities:
            self._pass(events.ApplicationPriorityChanged(changed.application_id, changed.priority))
        if response.resource is not None and response.resource != self._scheduler.total:
            self._pass(events.NodeResized(response.resource))
        if response.guaranteed_awaited not in (None, self._scheduler.awaits_guaranteed):
            self._pass(events.GuaranteedAwaited(bool(response.guaranteed_awaited)))
        if response.queuing_limit != NO_LIMIT:
            self._pass(events.QueuingLimitReceived(response.queuing_limit))

    def clean_up(self, response: RegisterNodeManagerResponse | NodeOrders) -> None:
        """End the containers and applications that the RM names; their ends are reported like all others."""
        for container_id in response.containers_to_cleanup:
            self._containers.withdrawn.add(container_id)
        status, cause = ContainerExitStatus.KILLED_BY_RESOURCEMANAGER, Cause(CauseKind.RESOURCEMANAGER)
        for event in self._containers.kills(
            response.containers_to_cleanup, status, cause, BY_RESOURCEMANAGER
        ):
            self._pass(event)
        for application_id in response.applications_to_cleanup:
            self._end_application(application_id)

    def _end_application(self, application_id: str) -> None:
        self._containers.ended_applications.add(application_id)
        self._templates.forget(application_id)
        if self._proxy is not None:
            self._collect(self._proxy.application_ended(application_id))
        status, cause = ContainerExitStatus.KILLED_AFTER_APP_COMPLETION, Cause(CauseKind.APPLICATION_ENDED)
        ids = self._containers.of_application(application_id)
        for event in self._containers.kills(ids, status, cause, APPLICATION_ENDED):
            self._pass(event)

    def _start_master(self, master: ContainerToStart, epoch_ms: int) -> None:
        container, context = master.container, master.launch_context
        if self._scheduler.status(container.id) is not None:
            return  # A repeated order.
        if self._proxy is not None:
            context = self._proxy.force_through(context)
            self._collect(self._proxy.flush())
        grant = made_of(
            ContainerSpec, container, master, container_id=container.id, command=(), least_vcores=1
        )
        self._start(grant, context, epoch_ms)

    def _start_tasks(self, response: NodeOrders, epoch_ms: int) -> None:
        """Start the tasks of hosted masters."""
        self._templates.add(response.templates)
        for task in response.tasks_to_start:
            if self._scheduler.status(task.container_id) is not None:
                continue  # A repeated order.
            template, grant = self._templates.grant(task)
            if grant.application_id not in self._containers.ended_applications:
                self._start(grant, template, epoch_ms)

    def _start(self, grant: ContainerSpec, context: ContainerLaunchContext, epoch_ms: int) -> None:
        """Start a container; if that is impossible, report its end."""
        try:
            spec = spec_of(grant, context, self._log_dir)
        except YoppError as error:
            ended = made_of(
                ContainerStatus,
                grant,
                state=ContainerState.DONE,
                exit_status=125,
                exit_code=125,
                diagnostics=str(error),
                cause=Cause(CauseKind.LAUNCH_FAILED, text=str(error)),
                finished_at_ms=epoch_ms,
                log_directory="",
            )
            self._collect((ReportStatus(ended),))
        else:
            self._pass(events.ContainerScheduled(spec))
