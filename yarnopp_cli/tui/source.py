"""The cluster behind the screens: its pictures, and actions on it, through its sockets.

Every method blocks and raises YoppError; the screens call them in separate threads. Imports no Textual, so
that a frame without a terminal does not load it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psutil

from executor.records import ContainerState, ExecutionType

from ..client.local import LocalClient
from ..clock import now_ms
from ..errors import ConnectionFailedError, InvalidStateError, YoppError
from ..explain.snapshot import HostFacts, Picture
from ..records.client_protocol import GetContainersRequest, KillApplicationRequest
from ..records.history import GetEventsRequest, GetEventsResponse
from ..records.reports import ContainerReport
from ..records.requests import ContainerUpdateType, UpdateContainerRequest
from ..views.containers import NodeFacts, is_live
from ..views.explain.explanations import lines as explanation_lines
from ..views.text import number_of

T = TypeVar("T")
KILL, PAUSE, RESUME, PROMOTE, DEMOTE = "kill", "pause", "resume", "promote", "demote"
ACTIONS = (KILL, PAUSE, RESUME, PROMOTE, DEMOTE)
"""The actions on a container."""

_PAUSE_SECONDS = 2.0
"""The longest wait until a container is paused, which usually takes milliseconds."""

_LOT = 100
"""The number of containers whose traces are fetched in one call, so that no call keeps a node busy for long.
"""

_BY_HAND = "killed by the user in yopp top"


Traces = tuple[Mapping[str, Sequence[float]], Sequence[float]]
"""The traces of containers by id, and that of the machine: numbers as in GetUsageTracesResponse."""


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Begin a blocking call in a daemon thread of its own, so that quitting never waits for a daemon that
    does not answer. Its result, or the YoppError or OSError that it raised, is set in a future of the running
    loop.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(settle: Callable[[Any], None], outcome: object) -> None:
        if not future.cancelled():
            settle(outcome)

    def run() -> None:
        settle: Callable[[Any], None] = future.set_exception
        # Replaced below, except after a bug.
        outcome: object = RuntimeError("the call ended without an answer")
        try:
            settle, outcome = future.set_result, function()
        except (YoppError, OSError) as error:
            outcome = error
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, settle, outcome)

    threading.Thread(target=run, daemon=True, name="yopp-top").start()
    return future


class Source:
    """The cluster of a run directory; ``where`` names it. ``picture`` must be called by one thread at a time;
    the other methods make connections of their own.
    """

    def __init__(self, rm_socket: str, where: str) -> None:
        self.where = where
        self._rm_socket = rm_socket
        self._client: LocalClient | None = None
        psutil.cpu_percent()  # the first call only sets the beginning of the interval

    def picture(self, *, finished: bool) -> Picture:
        """The cluster's present state; ``finished`` adds ended containers."""
        client = self._client
        if client is None:
            client = self._client = LocalClient(self._rm_socket)
        try:
            info = client.cluster_info()
            nodes = client.nodes()
            containers = client.containers(GetContainersRequest(finished=finished), nodes=nodes)
            applications = client.applications()
        except (YoppError, OSError):
            if self._client is client:
                self._client = None
            client.close()
            raise
        return Picture(now_ms(), info, nodes, containers, applications, host_facts())

    def traces(self, picture: Picture) -> Traces:
        """The measurements of a picture's nodes in the minute before it, without nodes that do not answer."""
        containers: dict[str, Sequence[float]] = {}
        machine: Sequence[float] = ()
        with LocalClient(self._rm_socket) as client:
            for node in picture.nodes:
                live = [
                    one.container_id
                    for one in picture.containers
                    if one.node_id == node.node_id and is_live(one)
                ]
                try:
                    for first in range(0, len(live) if node.connected else 0, _LOT):
                        told = client.usage_traces(node, tuple(live[first : first + _LOT]))
                        containers.update(told.containers)
                        machine = max(machine, told.machine, key=len)  # all nodes are on one machine
                except ConnectionFailedError:
                    continue
        return containers, machine

    def container(self, container_id: str) -> ContainerReport:
        """One container, ended or not. Raises ContainerNotFoundError."""
        with LocalClient(self._rm_socket) as client:
            return client.container(container_id)

    def facts(self, report: ContainerReport) -> NodeFacts | None:
        """The facts about a container's node that determine its limits; None if they are not available."""
        with LocalClient(self._rm_socket) as client:
            return client.node_facts((client.node(report.node_id),), (report,)).get(report.node_id)

    def gives_way(self, reports: Sequence[ContainerReport], picture: Picture) -> Mapping[str, str]:
        """The containers that would be paused or killed ("pause", "kill") if these became guaranteed now, as
        their nodes decide.
        """
        with LocalClient(self._rm_socket) as client:
            return client.gives_way(reports, picture.nodes)

    def act(self, action: str, report: ContainerReport) -> str:
        """Perform one of ACTIONS on a container; the result in a few words."""
        with LocalClient(self._rm_socket) as client:
            if action == KILL:
                failed = client.stop_container(report, _BY_HAND).failed
                if failed:
                    raise InvalidStateError(f"{report.container_id} is not killed", because=failed[0].message)
                return "ending"
            if action == PAUSE:
                state = client.pause_container(report).state
                end = time.monotonic() + _PAUSE_SECONDS
                while state is ContainerState.PAUSING and time.monotonic() < end:
                    time.sleep(0.01)
                    state = client.container(report.container_id).state or state
                return "paused" if state is ContainerState.PAUSED else state.value
            if action == RESUME:
                after = client.resume_container(report).state
                return "will resume when there is room" if after is ContainerState.PAUSED else "going on"
            kind, target = _UPDATES[action]
            response = client.update_container(
                UpdateContainerRequest(report.container_id, -1, kind, None, target)
            )
            return "waiting for room to be promised" if response.pending else f"{target.value} now"

    def drain(self, node_id: str) -> str:
        """Drain a node; the result in a few words."""
        with LocalClient(self._rm_socket) as client:
            _, containers = client.drain_nodes((node_id,))
            return (
                f"draining, {number_of(containers, 'container')} {'is' if containers == 1 else 'are'} left"
                if containers
                else "drained"
            )

    def use_again(self, node_id: str) -> str:
        """Put a drained node back into use; the result in a few words."""
        with LocalClient(self._rm_socket) as client:
            return f"{client.resume_nodes((node_id,))[0].state.value} again"

    def explain(self, identifier: str) -> list[str]:
        """Why a container, application or node waits, as lines; the first is the answer."""
        with LocalClient(self._rm_socket) as client:
            return explanation_lines(client.explain(identifier))

    def events(self, request: GetEventsRequest) -> GetEventsResponse:
        """The events; the answer is held for up to the request's ``wait_ms``. May be called while ``picture``
        runs.
        """
        with LocalClient(self._rm_socket) as client:
            return client.events(request)

    def kill_application(self, application_id: str) -> str:
        """Kill an application; the result in a few words."""
        with LocalClient(self._rm_socket) as client:
            return client.change(KillApplicationRequest(application_id, _BY_HAND)).state.value

    def reconnect(self) -> None:
        """Make a new connection at the next call. The old one is left open, since a thread may still wait on
        it.
        """
        self._client = None

    def close(self) -> None:
        """Close all connections."""
        self.reconnect()


_UPDATES = {
    PROMOTE: (ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ExecutionType.GUARANTEED),
    DEMOTE: (ContainerUpdateType.DEMOTE_EXECUTION_TYPE, ExecutionType.OPPORTUNISTIC),
}


def host_facts() -> HostFacts:
    """The present load of this machine; CPU since the last call."""
    memory = psutil.virtual_memory()
    return HostFacts(
        cpu_percent=psutil.cpu_percent(),
        cores=psutil.cpu_count() or 1,
        memory_used=memory.total - memory.available,
        memory_total=memory.total,
        psi_cpu=_pressure("cpu"),
        psi_memory=_pressure("memory"),
    )


def _pressure(resource: str) -> float:
    """``some avg10`` of /proc/pressure/<resource> (Documentation/accounting/psi.rst); -1 if there is no such file."""
    try:
        with open(f"/proc/pressure/{resource}", encoding="ascii") as file:
            return float(file.readline().partition("avg10=")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return -1.0
