"""A NodeManager's REST API: YARN's resources below ``/ws/v1/node``, ``/metrics`` and ``/jmx``."""

from __future__ import annotations

import socket

from aiohttp import web

from ..cluster.rundir import RunDir
from ..records.ids import ApplicationId
from ..views import containers as container_view
from ..views.rest import node as view
from . import logs
from .calls import LocalCalls
from .data import NodeData, now_ms
from .figures import figure_routes
from .http import Document, WebServer, bad_request, document, not_found, require_owner, start
from .listening import WebListener
from .pages.node import NodePages

BASE = "/ws/v1/node"
APPLICATION_STATES = (
    "NEW",
    "INITING",
    "RUNNING",
    "FINISHING_CONTAINERS_WAIT",
    "APPLICATION_RESOURCES_CLEANINGUP",
    "FINISHED",
)


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
    data = NodeData(calls, node_id, run_dir, facts)
    routes = NodeApi(data).routes() + figure_routes(data.figures) + NodePages(data).routes()
    return await start(bound, listener, loopback_only, routes)
