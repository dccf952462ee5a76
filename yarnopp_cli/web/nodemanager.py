"""A NodeManager's REST API: YARN's resources below ``/ws/v1/node``, ``/metrics`` and ``/jmx`` (``NMWebServices``)."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import web

from ..clock import now_ms
from ..cluster.rundir import RunDir
from ..errors import YoppError
from ..records.ids import ApplicationId
from ..settings.loading import Configuration
from ..views import containers as container_view
from ..views.rest import node as view
from . import logs, queries
from .calls import LocalCalls
from .data import NodeData
from .http import WebServer, bad_request, caller, is_owner, not_found, require_owner, start
from .instruments import Instruments
from .listening import WebListener
from .openapi import description_route
from .pages.node import NAVIGATION, NodePages
from .routes import Declared, Document, route, routes_of

BASE = "/ws/v1/node"
CONTAINER = BASE + "/containers/{container}"
APPLICATION_STATES = (
    "NEW",
    "INITING",
    "RUNNING",
    "FINISHING_CONTAINERS_WAIT",
    "APPLICATION_RESOURCES_CLEANINGUP",
    "FINISHED",
)


class NodeApi:
    """Every call of YARN's NodeManager REST API that applies to one host."""

    def __init__(self, data: NodeData) -> None:
        self._data = data

    @route("GET", BASE, BASE + "/", BASE + "/info")
    async def info(self, request: web.Request) -> Document:
        """The node."""
        return view.info(await self._data.info(), now_ms(), self._data.facts.settings)

    @route("GET", BASE + "/apps")
    @Declared({"state": queries.one_of(APPLICATION_STATES), "user": queries.TEXT})
    async def applications(self, request: web.Request) -> Document:
        """Applications that have, or had, containers here."""
        state, user = request.query.get("state", ""), request.query.get("user", "")
        if state and state.upper() not in APPLICATION_STATES:
            raise bad_request(
                f"Error: invalid application state {state[:100]}", ", ".join(APPLICATION_STATES)
            )
        if "user" in request.query and not user:
            raise bad_request("Error: You must specify a non-empty string for the user")
        groups = view.by_application(await self._data.containers())
        found = [
            one
            for one in (view.application_document(*group) for group in groups.items())
            if (not state or one["state"] == state.upper()) and (not user or one["user"] == user)
        ]
        return {"apps": {"app": found} if found else None}

    @route("GET", BASE + "/apps/{app}")
    async def application(self, request: web.Request) -> Document:
        """One application."""
        application_id = str(ApplicationId.read(request.match_info["app"]))
        containers = view.by_application(await self._data.containers()).get(application_id)
        if containers is None:
            raise not_found(f"app with id {application_id} not found")
        return {"app": view.application_document(application_id, containers)}

    @route("GET", BASE + "/containers")
    async def containers(self, request: web.Request) -> Document:
        """``yopp container list -a --node NODE --json``."""
        found = await self._data.containers()
        return container_view.documents(found, now_ms(), {self._data.node_id: self._data.facts})

    @route("GET", CONTAINER)
    async def container(self, request: web.Request) -> Document:
        """``yopp container status ID --json``."""
        report = await self._data.container(request.match_info["container"])
        return {"container": container_view.document(report, now_ms(), self._data.facts)}

    @route("GET", CONTAINER + "/logs")
    async def log_files(self, request: web.Request) -> Document:
        """The files of a container's output."""
        container_id = request.match_info["container"]
        directory, _ = await self._readable(request)
        files = await asyncio.to_thread(logs.files_of, directory)
        return view.log_files(container_id, self._data.node_id, *files)

    @route("GET", CONTAINER + "/logs/{file}", BASE + "/containerlogs/{container}/{file}")
    @Declared(logs.PARAMETERS, sends=("text/plain",))
    async def log(self, request: web.Request) -> web.StreamResponse:
        """One file of a container's output."""
        directory, owner = await self._readable(request)
        return await logs.send(request, directory, request.match_info["file"], owner)

    async def _readable(self, request: web.Request) -> tuple[str, int]:
        """The log directory, and the uid whose files in it the caller may read (-1: all). Raises 403 and 404."""
        if not is_owner(request) and caller(request) <= 0:
            require_owner(request, "containers' output")
        try:
            directory = await self._data.log_directory(request.match_info["container"])
        except YoppError:
            require_owner(request, "containers' output")  # Other users do not learn whether it exists.
            raise
        return directory, logs.require_reader(request, directory, (await self._data.info()).log_dir)

    @route("GET", BASE + "/resources/{name:.+}")
    async def resource(self, request: web.Request) -> Document:
        """The devices of a resource type and the containers that hold them: for yarn.io/gpu, if GPUs are known
        individually.
        """
        info, name = await self._data.info(), request.match_info["name"]
        return view.resource(name, info, await self._data.containers())

    @route("GET", BASE + "/auxiliaryservices")
    async def auxiliary_services(self, request: web.Request) -> Document:
        """The auxiliary services: there are none."""
        return {"services": {"service": []}}

    @route("PUT", BASE + "/auxiliaryservices")
    async def change_auxiliary_services(self, request: web.Request) -> Document:
        """400, as YARN answers without a manifest."""
        raise bad_request(
            "Auxiliary services manifest is not enabled",
            because="there are no auxiliary services on one host",
        )


async def serve(
    bound: list[socket.socket],
    listener: WebListener,
    calls: LocalCalls,
    node_id: str,
    run_dir: RunDir,
    facts: container_view.NodeFacts,
    configuration: Configuration,
) -> WebServer:
    """Serve an NM's REST API and pages on bound sockets."""
    data = NodeData(calls, node_id, run_dir, facts)
    routes = [*routes_of(NodeApi(data)), *NodePages(data).routes()]
    routes += routes_of(Instruments(configuration, run_dir, NAVIGATION, data.figures))
    return await start(bound, listener, [*routes, description_route("NodeManager", routes)])
