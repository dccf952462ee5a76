"""A NodeManager's REST API: YARN's resources below ``/ws/v1/node``, ``/metrics`` and ``/jmx``."""

from __future__ import annotations

import os
import socket
import time

from aiohttp import web

from executor.records import ContainerStatus

from ..cluster.rundir import RunDir
from ..errors import YoppError
from ..records.client_protocol import GetContainersRequest, GetContainersResponse
from ..records.container_protocol import (
    GetContainerStatusesRequest,
    GetContainerStatusesResponse,
    GetNodeFiguresRequest,
    GetNodeFiguresResponse,
    GetNodeInfoRequest,
    GetNodeInfoResponse,
)
from ..records.ids import ApplicationId, ContainerId
from ..records.reports import ContainerReport
from ..views import containers as container_view
from ..views import node_rest as view
from ..views.merging import merged, of_node
from . import figures, logs
from .calls import LocalCalls, call_daemon
from .http import Document, WebServer, bad_request, document, not_found, require_owner, start
from .listening import WebListener

BASE = "/ws/v1/node"
RM_SECONDS = 2.0
APPLICATION_STATES = (
    "NEW",
    "INITING",
    "RUNNING",
    "FINISHING_CONTAINERS_WAIT",
    "APPLICATION_RESOURCES_CLEANINGUP",
    "FINISHED",
)


def now_ms() -> int:
    """The time of day, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class NodeData:
    """What documents and pages are made of: the node's own answers, and what its RM knows besides."""

    def __init__(
        self, calls: LocalCalls, node_id: str, run_dir: RunDir, facts: container_view.NodeFacts
    ) -> None:
        self._call = calls
        self.node_id = node_id
        self.run_dir = run_dir
        self.facts = facts

    async def info(self) -> GetNodeInfoResponse:
        """The node."""
        found: GetNodeInfoResponse = await self._call(GetNodeInfoRequest())
        return found

    async def counts(self) -> dict[str, int]:
        """How many containers were launched, and how they ended, since the node's start."""
        answer: GetNodeFiguresResponse = await self._call(GetNodeFiguresRequest())
        return answer.counts

    async def statuses(self) -> tuple[ContainerStatus, ...]:
        """All containers that the node knows, in order of arrival."""
        answer: GetContainerStatusesResponse = await self._call(GetContainerStatusesRequest(finished=True))
        return answer.statuses

    async def containers(self) -> list[ContainerReport]:
        """The node's containers as ``yopp container list -a --node`` shows them, in order of allocation.

        While the RM does not answer: what the node knows alone.
        """
        node_id = self.node_id
        statuses = {one.container_id: one for one in await self.statuses()}
        request = GetContainersRequest(node_id=node_id, finished=True)
        try:
            answer: GetContainersResponse = await call_daemon(
                self.run_dir.rm_socket, "getContainers", request, RM_SECONDS
            )
        except YoppError:
            return [of_node(one, node_id) for one in statuses.values()]
        found = []
        for report in answer.containers:
            status = statuses.pop(report.container_id, None)
            if status is not None and container_view.is_live(report):
                report = merged(report, status)
            found.append(report)
        return found + [of_node(one, node_id) for one in statuses.values()]

    async def container(self, container_id: str) -> ContainerReport:
        """One container. Raises 404, or 400 for what is no id, in YARN's words."""
        try:
            ContainerId.parse(container_id)
        except YoppError:
            raise bad_request(f"invalid container id, {container_id[:200]}") from None
        for one in await self.containers():
            if one.container_id == container_id:
                return one
        raise not_found(f"container with id, {container_id}, not found")

    async def log_directory(self, container_id: str) -> str:
        """Where a container's output is, of ended ones too whose node has forgotten them. Raises 404."""
        try:
            report = await self.container(container_id)
        except YoppError:
            parsed = ContainerId.parse(container_id)
            info = await self.info()
            directory = os.path.join(info.log_dir, str(parsed.application_id), str(parsed))
            if info.log_dir and os.path.isdir(directory):
                return directory
            raise
        return report.log_directory


class NodeApi:
    """Every call of YARN's NodeManager REST API that means something on one host."""

    def __init__(self, data: NodeData) -> None:
        self._data = data

    def routes(self) -> list[web.RouteDef]:
        """The resources, YARN's paths."""
        reads = {
            BASE: self.info,
            BASE + "/": self.info,
            BASE + "/info": self.info,
            BASE + "/apps": self.applications,
            BASE + "/apps/{app}": self.application,
            BASE + "/containers": self.containers,
            BASE + "/containers/{container}": self.container,
            BASE + "/containers/{container}/logs": self.log_files,
            BASE + "/auxiliaryservices": self.auxiliary_services,
        }
        found = [web.get(path, document(handler)) for path, handler in reads.items()]
        found += [
            web.get(BASE + "/containers/{container}/logs/{file}", self.log),
            web.get(BASE + "/containerlogs/{container}/{file}", self.log),
            web.put(BASE + "/auxiliaryservices", document(self.change_auxiliary_services)),
        ]
        return found

    async def info(self, request: web.Request) -> Document:
        """The node."""
        return view.info(await self._data.info(), now_ms(), self._data.facts.settings)

    async def applications(self, request: web.Request) -> Document:
        """Applications that have, or had, containers here."""
        state, user = request.query.get("state", ""), request.query.get("user", "")
        if state and state.upper() not in APPLICATION_STATES:
            raise bad_request(
                f"Error: invalid application state {state[:100]}", ", ".join(APPLICATION_STATES)
            )
        if "user" in request.query and not user:
            raise bad_request("Error: You must specify a non-empty string for the user")
        listed = [
            view.application_document(application_id, containers)
            for application_id, containers in view.by_application(await self._data.containers()).items()
        ]
        found = [
            one
            for one in listed
            if (not state or one["state"] == state.upper()) and (not user or one["user"] == user)
        ]
        return {"apps": {"app": found} if found else None}

    async def application(self, request: web.Request) -> Document:
        """One application."""
        application_id = request.match_info["app"]
        ApplicationId.parse(application_id)
        containers = view.by_application(await self._data.containers()).get(application_id)
        if containers is None:
            raise not_found(f"app with id {application_id} not found")
        return {"app": view.application_document(application_id, containers)}

    async def containers(self, request: web.Request) -> Document:
        """``yopp container list -a --node NODE --json``."""
        found = await self._data.containers()
        return container_view.documents(found, now_ms(), {self._data.node_id: self._data.facts})

    async def container(self, request: web.Request) -> Document:
        """``yopp container status ID --json``."""
        report = await self._data.container(request.match_info["container"])
        return {"container": container_view.document(report, now_ms(), self._data.facts)}

    async def log_files(self, request: web.Request) -> Document:
        """The files of a container's output."""
        require_owner(request, "containers' output")
        container_id = request.match_info["container"]
        directory = await self._data.log_directory(container_id)
        files = [(one.name, one.size, one.changed_ms) for one in logs.files_of(directory)]
        return view.log_files(container_id, self._data.node_id, files)

    async def log(self, request: web.Request) -> web.StreamResponse:
        """One file of a container's output."""
        require_owner(request, "containers' output")
        directory = await self._data.log_directory(request.match_info["container"])
        return await logs.send(request, directory, request.match_info["file"])

    async def auxiliary_services(self, request: web.Request) -> Document:
        """There are none."""
        return {"services": {"service": []}}

    async def change_auxiliary_services(self, request: web.Request) -> Document:
        """400, as YARN answers without a manifest."""
        raise bad_request(
            "Auxiliary services manifest is not enabled",
            because="there are no auxiliary services on one host",
        )


async def serve(
    bound: socket.socket,
    listener: WebListener,
    loopback_only: bool,
    calls: LocalCalls,
    node_id: str,
    run_dir: RunDir,
    facts: container_view.NodeFacts,
) -> WebServer:
    """Serve an NM's REST API and pages on a bound socket."""
    from .pages.node import NodePages

    data = NodeData(calls, node_id, run_dir, facts)
    routes = NodeApi(data).routes() + figures.node_routes(data) + NodePages(data).routes()
    return await start(bound, listener, loopback_only, routes)
