"""An application master of the bench itself, in this process: it asks, starts and releases, and makes no
other calls."""

from __future__ import annotations

from collections.abc import Sequence

from executor.records import ExecutionType, Resource
from yarnopp_cli.records.container_protocol import StartContainerRequest, StartContainersRequest
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.records.requests import (
    ANY,
    ApplicationSubmissionContext,
    Container,
    ContainerLaunchContext,
    ExecutionTypeRequest,
    ResourceRequest,
)
from yarnopp_cli.rpc.blocking import Connection

SMALL = Resource(32, 1)


class Master:
    """One attempt, connected to the RM or to an AMRMProxy (``scheduler``), and to each node on which it
    starts containers.

    ``seen`` are the containers that were allocated to it. Not for several threads. Raises YoppError, as the
    calls do.
    """

    def __init__(self, rm: str | Connection, scheduler: str = "", name: str = "bench") -> None:
        self._own = isinstance(rm, str)
        self.client = Connection(rm) if isinstance(rm, str) else rm
        self.scheduler = Connection(scheduler) if scheduler else self.client
        context = ApplicationSubmissionContext(application_id="", name=name, unmanaged=True)
        made = self.client.call(SubmitApplicationRequest(context))
        self._attempt = made.attempt_id
        token = made.am_token
        assert token is not None  # the answer has the token of an unmanaged master
        registered = self.scheduler.call(RegisterApplicationMasterRequest(self._attempt, token))
        self._token = registered.token or token
        self._nodes: dict[str, Connection] = {}
        self._response_id = self._asked = 0
        self.seen: set[str] = set()

    def ask(
        self, number: int, kind: ExecutionType, size: Resource = SMALL, node: str = ANY
    ) -> ResourceRequest:
        """A request for the next call; each has a key of its own, so that none replaces another."""
        self._asked += 1
        return ResourceRequest(
            number, size, resource_name=node, relax_locality=node == ANY,
            execution_type_request=ExecutionTypeRequest(kind, True), allocation_request_id=self._asked,
        )  # fmt: skip

    def call(
        self, *asks: ResourceRequest, releases: Sequence[str] = (), wait_ms: int = 1000
    ) -> AllocateResponse:
        """Make one allocate call; the RM holds its answer for up to ``wait_ms`` until it has news."""
        request = AllocateRequest(
            self._attempt,
            self._token,
            self._response_id,
            asks=asks,
            releases=tuple(releases),
            wait_ms=wait_ms,
        )
        response = self.scheduler.call(request)
        self._response_id, self._token = response.response_id, response.token or self._token
        return response

    def new(self, response: AllocateResponse) -> list[Container]:
        """The containers of this answer that no earlier one had."""
        found = [one for one in response.allocated if one.id not in self.seen]
        self.seen.update(one.id for one in found)
        return found

    def acquire(
        self, number: int, kind: ExecutionType, size: Resource = SMALL, releases: Sequence[str] = ()
    ) -> list[Container]:
        """Ask for ``number`` containers, release others, and wait until all are allocated."""
        got = self.new(self.call(self.ask(number, kind, size), releases=releases))
        while len(got) < number:
            got += self.new(self.call())
        return got

    def start(self, containers: Sequence[Container], command: Sequence[str]) -> None:
        """Run a command in each of these containers."""
        launch = ContainerLaunchContext(tuple(command))
        by_node: dict[str, list[Container]] = {}
        for one in containers:
            by_node.setdefault(one.node_address, []).append(one)
        for address, members in by_node.items():
            if address not in self._nodes:
                self._nodes[address] = Connection(address, peer="the node")
            starts = tuple(StartContainerRequest(one.token, launch) for one in members)
            failed = self._nodes[address].call(StartContainersRequest(starts)).failed
            if failed:
                raise RuntimeError(f"{failed[0].container_id}: {failed[0].message}")

    def until_completed(self, number: int) -> None:
        """Wait until ``number`` containers have ended."""
        done: set[str] = set()
        while len(done) < number:
            done.update(one.container_id for one in self.call().completed)

    def finish(self) -> None:
        """Unregister, and close the connections that were opened here."""
        self.scheduler.call(
            FinishApplicationMasterRequest(self._attempt, self._token, FinalApplicationStatus.SUCCEEDED)
        )
        for node in self._nodes.values():
            node.close()
        if self.scheduler is not self.client:
            self.scheduler.close()
        if self._own:
            self.client.close()
