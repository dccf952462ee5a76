"""An RM and a node in one thread and on one socket, for the client's loop: it grants at once, and runs
nothing.

``outcomes`` says how containers end, by order of start: an exit status, or None for never (until stopped).
What a container is to have written is put into its log directory by ``output`` before its end is told.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executor.records import ContainerState, ContainerStatus, ExecutionType, Resource
from yarnopp_cli.records.client_protocol import ApplicationResponse, KillApplicationRequest
from yarnopp_cli.records.container_protocol import (
    StartContainersRequest,
    StartContainersResponse,
    StopContainersRequest,
    StopContainersResponse,
)
from yarnopp_cli.records.job_protocol import SubmitApplicationResponse
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    FinishApplicationMasterResponse,
    RegisterApplicationMasterResponse,
)
from yarnopp_cli.records.reports import (
    ApplicationReport,
    ClusterInfo,
    FinalApplicationStatus,
    YarnApplicationState,
)
from yarnopp_cli.records.requests import Container, Token
from yarnopp_cli.rpc.methods import NM_METHODS, RM_METHODS
from yarnopp_cli.rpc.plain import decode, encode

APPLICATION = "application_1765400000000_0001"
ATTEMPT = "appattempt_1765400000000_0001_000001"
TOKEN = Token("AMRMToken", "{}", "00")


class FakeCluster:
    """Serves until ``close``. ``hang_up_after`` ends each RM connection after so many calls, once, and the method
    ``dies_of`` each time."""

    def __init__(
        self, directory: Path, outcomes: list[int | None], *, output: bytes = b"", hang_up_after: int = 0
    ) -> None:
        self.directory = directory
        self.address = f"unix:{directory}/rm.sock"
        self.logs = directory / "logs"
        self.outcomes = outcomes
        self.output = output
        self.hang_up_after = hang_up_after
        self.nodes_running = 1
        self.started_at_ms = 1
        self.dies_of = ""
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self.stopped: list[str] = []
        self.finish: FinishApplicationMasterRequest | None = None
        self.killed: KillApplicationRequest | None = None
        self._number = 0
        self._response = 0
        self._started: list[str] = []
        self._running: list[str] = []
        self._completed: list[ContainerStatus] = []
        self._allocated: list[Container] = []
        self._held: tuple[socket.socket, int] | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"{directory}/rm.sock")
        self._listener.listen()
        self._wake, self._waker = socket.socketpair()
        self._clients: dict[int, tuple[socket.socket, bytearray]] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def submitted(self) -> SubmitApplicationResponse:
        """What the RM would have answered to the submission."""
        return SubmitApplicationResponse(APPLICATION, self._info(), ATTEMPT, TOKEN, str(self.logs))

    def _info(self) -> ClusterInfo:
        began = self.started_at_ms
        return ClusterInfo(began, 1, 0, "", "stay", "", self.address, nodes_running=self.nodes_running)

    def close(self) -> None:
        """End the thread; fails if it died of an error."""
        self._waker.send(b"x")
        self._thread.join(10)
        assert not self._thread.is_alive()
        for item in (self._listener, self._wake, self._waker, *(c for c, _ in self._clients.values())):
            item.close()

    def _serve(self) -> None:
        while True:
            poller = select.poll()
            for item in (self._listener, self._wake, *(client for client, _ in self._clients.values())):
                poller.register(item, select.POLLIN)
            for descriptor, _ in poller.poll():
                if descriptor == self._wake.fileno():
                    return
                if descriptor == self._listener.fileno():
                    client, _ = self._listener.accept()
                    self._clients[client.fileno()] = (client, bytearray())
                elif descriptor in self._clients:
                    self._read(descriptor)

    def _read(self, descriptor: int) -> None:
        client, buffer = self._clients[descriptor]
        try:
            data = client.recv(1 << 20)
        except ConnectionResetError:  # it left with something unread
            data = b""
        if not data:
            self._drop(descriptor)
            return
        buffer += data
        while (end := buffer.find(b"\n")) >= 0:
            call = json.loads(bytes(buffer[:end]))
            del buffer[: end + 1]
            self.calls.append(call["method"])
            request = decode({**RM_METHODS, **NM_METHODS}[call["method"]], call["params"])
            self.requests.append(request)
            if call["method"] == self.dies_of:
                self._drop(descriptor)
                return
            if self.hang_up_after and len(self.calls) >= self.hang_up_after:
                self.hang_up_after = 0
                self._drop(descriptor)
                return
            handler: Callable[..., Any] = getattr(self, "_on_" + call["method"])
            response = handler(client, call["id"], request)
            if response is not None:
                self._reply(client, call["id"], response)

    def _drop(self, descriptor: int) -> None:
        client, _ = self._clients.pop(descriptor)
        if self._held is not None and self._held[0] is client:
            self._held = None
        client.close()

    def _reply(self, client: socket.socket, call_id: int, response: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # it may have left
            client.sendall(
                json.dumps({"jsonrpc": "2.0", "id": call_id, "result": encode(response)}).encode() + b"\n"
            )

    def _on_submitApplication(self, *_: Any) -> Any:
        return self.submitted()

    def _on_getClusterInfo(self, *_: Any) -> Any:
        return self._info()

    def _on_registerApplicationMaster(self, *_: Any) -> Any:
        size = Resource(1024, 4)
        return RegisterApplicationMasterResponse(Resource(1, 0), size, size, "default", True)

    def _on_allocate(self, client: socket.socket, call_id: int, request: AllocateRequest) -> None:
        if self._held is not None:
            self._reply(*self._held, AllocateResponse(self._response))
        self._held = (client, call_id)
        for ask in request.asks:
            for _ in range(ask.num_containers):
                self._number += 1
                self._allocated.append(
                    Container(
                        f"container_1765400000000_0001_01_{self._number:06d}", "host:45454", self.address,
                        ask.capability, TOKEN, ask.priority, ask.execution_type_request.execution_type,
                        ask.allocation_request_id,
                    )
                )  # fmt: skip
        self._answer()

    def _answer(self) -> None:
        if self._held is None or not (self._allocated or self._started or self._completed):
            return
        self._response += 1
        response = AllocateResponse(
            self._response, tuple(self._allocated), tuple(self._completed), tuple(self._started)
        )
        held, self._held = self._held, None
        self._allocated, self._completed, self._started = [], [], []
        self._reply(*held, response)

    def _on_startContainers(
        self, client: socket.socket, call_id: int, request: StartContainersRequest
    ) -> None:
        ids = [
            f"container_1765400000000_0001_01_{len(self._running) + 1 + i:06d}"
            for i in range(len(request.containers))
        ]
        self._reply(client, call_id, StartContainersResponse(tuple(ids)))
        for container_id in ids:
            self._running.append(container_id)
            self._started.append(container_id)
            (self.logs / container_id).mkdir(parents=True)
            (self.logs / container_id / "stdout").write_bytes(self.output)
            (self.logs / container_id / "stderr").write_bytes(b"")
            outcome = self.outcomes.pop(0) if self.outcomes else 0
            if outcome is not None:
                self._end(container_id, outcome)
        self._answer()

    def _end(self, container_id: str, status: int) -> None:
        self._completed.append(
            ContainerStatus(
                container_id, ContainerState.DONE, ExecutionType.GUARANTEED, exit_status=status,
                exit_code=143 if status == -105 else None,
            )
        )  # fmt: skip

    def _on_stopContainers(self, client: socket.socket, call_id: int, request: StopContainersRequest) -> None:
        self._reply(client, call_id, StopContainersResponse(request.container_ids))
        for container_id in request.container_ids:
            self.stopped.append(container_id)
            self._end(container_id, request.exit_status)
        self._answer()

    def _on_finishApplicationMaster(self, _: Any, __: int, request: FinishApplicationMasterRequest) -> Any:
        self.finish = request
        return FinishApplicationMasterResponse(True)

    def _on_forceKillApplication(self, _: Any, __: int, request: KillApplicationRequest) -> Any:
        self.killed = request
        return ApplicationResponse(
            ApplicationReport(
                request.application_id, "", "", "default", "YARN", YarnApplicationState.KILLED,
                FinalApplicationStatus.KILLED,
            )
        )  # fmt: skip
