"""The commands' requests to any cluster: this host's (``local``), or a YARN cluster by REST (``yarn``).

Decisions: one-client-protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..records import client_protocol as rm
    from ..records import job_protocol
    from ..records.reports import (
        ApplicationAttemptReport,
        ApplicationReport,
        ContainerReport,
        NodeReport,
        QueueReport,
        YarnApplicationState,
    )

    ApplicationChange = (
        rm.KillApplicationRequest
        | rm.MoveApplicationRequest
        | rm.UpdateApplicationPriorityRequest
        | rm.UpdateApplicationTimeoutsRequest
    )


class Client(Protocol):
    """One cluster. Reports are current; every method raises YoppError for a refusal, and
    ConnectionFailedError if the cluster does not answer."""

    def applications(
        self, request: job_protocol.GetApplicationsRequest | None = None
    ) -> tuple[ApplicationReport, ...]:
        """The applications that match the request, in order of submission; all without a request."""

    def application(self, application_id: str) -> ApplicationReport:
        """One application. Raises ApplicationNotFoundError."""

    def wait_for_applications(
        self,
        application_ids: Sequence[str],
        *,
        states: Sequence[YarnApplicationState] = (),
        any_of_them: bool = False,
        wait: float = 60.0,
    ) -> rm.WaitForApplicationsResponse:
        """Wait up to ``wait`` seconds until the applications have reached ``states`` or later ones (none:
        have ended)."""

    def change(self, request: ApplicationChange) -> ApplicationReport:
        """Begin to end an application, or change its queue, priority or lifetime; its report after that.

        Raises ApplicationNotFoundError, or the cluster's refusal."""

    def attempts(self, application_id: str) -> tuple[ApplicationAttemptReport, ...]:
        """The attempts of one application, oldest first. Raises ApplicationNotFoundError."""

    def nodes(self) -> tuple[NodeReport, ...]:
        """All nodes, whatever their state."""

    def node(self, node_id: str) -> NodeReport:
        """One node. Raises NodeNotFoundError."""

    def queues(self) -> tuple[QueueReport, ...]:
        """All queues, parents first."""

    def container_reports(self, request: rm.GetContainersRequest) -> tuple[ContainerReport, ...]:
        """Containers as the cluster knows them without asking the nodes, in order of allocation."""

    def containers(
        self, request: rm.GetContainersRequest | None = None, *, nodes: Iterable[NodeReport] | None = None
    ) -> tuple[ContainerReport, ...]:
        """Containers as their nodes know them now, in order of allocation. ``nodes`` saves a request
        for the nodes."""

    def container(self, container_id: str) -> ContainerReport:
        """One container. Raises ContainerNotFoundError."""

    def signal_name(self, signal: int) -> str:
        """The name of the signal with this number as the cluster sends it. Raises UsageError if it cannot be sent."""

    def signal_container(self, report: ContainerReport, signal: int) -> None:
        """Send a signal to every process of a container."""
