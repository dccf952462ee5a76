"""The ResourceManager's REST API: YARN's resources below ``/ws/v1/cluster``, its proxy, ``/metrics`` and ``/jmx``
(``RMWebServices``)."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import socket
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from executor.records import ContainerState

from ..clock import now_ms
from ..cluster.inspection import cluster_document, inspect_cluster
from ..cluster.rundir import RunDir
from ..errors import NodeNotFoundError, NotYetSupportedError
from ..masters.submission import resource_of
from ..records import client_protocol as client
from ..records import job_protocol
from ..records.admin_protocol import UpdateNodeResourceRequest
from ..records.container_protocol import SignalContainerRequest, StopContainersRequest
from ..records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from ..records.methods import Request, ResponseT
from ..records.reports import ApplicationReport, NodeState, YarnApplicationState
from ..records.scheduler_protocol import GetActivitiesRequest
from ..rpc.connection import user_name
from ..settings.declarations import ApplicationSettings
from ..settings.loading import Configuration
from ..views import applications as application_view
from ..views import cluster as cluster_view
from ..views import nodes as node_view
from ..views.explain import activities as activities_view
from . import queries
from .calls import LocalCalls, Reader, call_daemon
from .data import ClusterData
from .http import (
    HttpError,
    WebServer,
    bad_request,
    caller,
    forbidden,
    is_owner,
    json_body,
    not_found,
    require_owner,
    start,
    submitter,
)
from .instruments import Instruments
from .listening import WebListener
from .mapreduce import MapReduceApi
from .openapi import description_route
from .pages.cluster import NAVIGATION, ClusterPages
from .routes import Declared, Document, Route, route, routes_of
from .submitting import hosted_job, submission_context

BASE = "/ws/v1/cluster"
APP = BASE + "/apps/{app}"
ATTEMPT = APP + "/appattempts/{attempt}"
SIGNALS = {
    "OUTPUT_THREAD_DUMP": signals.SIGQUIT,
    "GRACEFUL_SHUTDOWN": signals.SIGTERM,
    "FORCEFUL_SHUTDOWN": signals.SIGKILL,
}
SIZE: Document = {
    "type": "object",
    "properties": dict.fromkeys(("memory", "vCores"), queries.WHOLE),
    "required": ["memory", "vCores"],
}
SUBMISSION: Document = {
    "application-id": queries.TEXT,
    "am-container-spec": {"type": "object"},
    "resource": {**SIZE, "default": {}},
    **dict.fromkeys(("application-name", "application-type", "queue"), queries.MAYBE),
    "priority": {"type": "integer", "default": 0},
}
"""The members of a submission; those with a default may be missing."""
TIMEOUT: Document = {
    "type": "object",
    "properties": {"type": queries.one_of(["LIFETIME"]), "expiryTime": queries.TEXT},
    "required": ["type", "expiryTime"],
}
Change = Callable[[str, Any], Request[client.ApplicationResponse]]
TOLD: dict[str, Callable[[ApplicationReport], Document]] = {
    "": lambda app: {"app": application_view.document(app, now_ms())},
    "/state": lambda app: {"state": app.state.value},
    "/queue": lambda app: {"queue": app.queue},
    "/priority": lambda app: {"priority": app.priority},
    "/timeouts": lambda app: {"timeouts": {"timeout": [cluster_view.timeout_document(app, now_ms())]}},
    "/timeout": lambda app: {"timeout": cluster_view.timeout_document(app, now_ms())},
}
"""The documents of one application, by the path below its own. A PUT answers with the changed document."""


def java_date(epoch_ms: int) -> str:
    """A time as Java's Date writes it, in UTC."""
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(epoch_ms / 1000))


class ClusterApi:
    """Every call of YARN's ResourceManager REST API that applies to one host."""

    def __init__(self, data: ClusterData, configuration: Configuration) -> None:
        self.data = data
        self._settings = configuration.settings(ApplicationSettings)

    def routes(self) -> list[Route]:
        """The routes, at YARN's paths."""
        told = [self._telling(path, tell) for path, tell in TOLD.items() if path != "/timeout"]
        return [*told, *routes_of(self)]

    def _telling(self, path: str, tell: Callable[[ApplicationReport], Document]) -> Route:
        async def handler(request: web.Request) -> Document:
            return tell(await self._application(request))

        return "GET", APP + path, handler

    # -- the cluster -----------------------------------------------------------------------------------------

    @route("GET", BASE, BASE + "/", BASE + "/info")
    async def info(self, request: web.Request) -> Document:
        """``yopp status --json``."""
        seen = await asyncio.to_thread(inspect_cluster, self.data.run_dir)
        return cluster_document(seen, owner=is_owner(request))

    @route("GET", BASE + "/metrics")
    async def metrics(self, request: web.Request) -> Document:
        """ClusterMetricsInfo."""
        return self.data.metrics()

    @route("GET", BASE + "/scheduler")
    async def scheduler(self, request: web.Request) -> Document:
        """The queues."""
        return cluster_view.scheduler(self.data.queues())

    @route("GET", BASE + "/scheduler/activities")
    @Declared({"nodeId": queries.TEXT, **queries.GROUPED})
    async def activities(self, request: web.Request) -> Document:
        """Why pending requests are not scheduled, by queue; at one node with ``nodeId``."""
        node_id = request.query.get("nodeId", "")
        if node_id:
            self.data.node(node_id)
        grouped = queries.grouped_by(request)
        answer = self.data.read(GetActivitiesRequest(node_id=node_id))
        return activities_view.cluster(answer, node_id, java_date(answer.at_ms), grouped=grouped)

    @route("GET", BASE + "/scheduler/app-activities/{app}")
    @Declared(
        {
            "limit": queries.WHOLE,
            "actions": queries.some_of(activities_view.ACTIONS),
            **dict.fromkeys(("requestPriorities", "allocationRequestIds"), queries.NUMBERS),
            **queries.GROUPED,
        }
    )
    async def application_activities(self, request: web.Request) -> Document:
        """Why the pending requests of one application are not scheduled."""
        report = await self._application(request)
        if queries.number(request, "limit") == 0:
            raise bad_request("limit must be greater than 0!")
        actions = frozenset(one.lower() for one in queries.names(request, "actions"))
        if wrong := actions - set(activities_view.ACTIONS):
            raise bad_request(f"Got invalid action: {min(wrong)[:100]}, valid actions: refresh, get")
        answer = self.data.read(GetActivitiesRequest(report.application_id))
        return activities_view.application(
            report,
            answer,
            java_date(answer.at_ms),
            grouped=queries.grouped_by(request),
            priorities=queries.numbers(request, "requestPriorities"),
            request_ids=queries.numbers(request, "allocationRequestIds"),
            actions=actions,
        )

    @route("GET", BASE + "/appstatistics")
    @Declared({"states": queries.some_of(YarnApplicationState), "applicationTypes": queries.TEXT})
    async def statistics(self, request: web.Request) -> Document:
        """Applications by state and type."""
        states = queries.words(request, YarnApplicationState, "application-state", "states")
        kinds = [one for one in request.query.get("applicationTypes", "").split(",") if one.strip()]
        if len(kinds) > 1:
            raise bad_request(
                "# of applicationTypes = " + str(len(kinds)), because="we temporarily support at most one"
            )
        kind = kinds[0].strip().lower() if kinds else "*"
        return cluster_view.statistics(self.data.applications(), states, kind)

    # -- applications ----------------------------------------------------------------------------------------

    @route("GET", BASE + "/apps")
    @Declared(queries.FILTERS)
    async def applications(self, request: web.Request) -> Document:
        """``yopp app list -a --json``, and YARN's filters."""
        wanted, passes = queries.application_filter(request)
        found = [one for one in self.data.applications(wanted) if passes(one)]
        return application_view.APPLICATIONS.every(queries.latest(request, found), now_ms())

    async def _application(self, request: web.Request) -> ApplicationReport:
        return self.data.application(request.match_info["app"])

    @route("GET", APP + "/timeouts/{kind}")
    @Declared({"kind": queries.one_of(["LIFETIME"])})
    async def timeout(self, request: web.Request) -> Document:
        """AppTimeoutInfo."""
        kind = request.match_info["kind"]
        if kind.upper() != "LIFETIME":
            raise bad_request(f"invalid timeout type: {kind[:100]}", because="there is one: LIFETIME")
        return TOLD["/timeout"](await self._application(request))

    @route("POST", BASE + "/apps/new-application")
    async def new_application(self, request: web.Request) -> Document:
        """A fresh id."""
        answer = await self._write(client.GetNewApplicationRequest(), request)
        return cluster_view.new_application(answer.application_id, answer.info.maximum)

    @route("POST", BASE + "/apps")
    @Declared(body=SUBMISSION, status=202, sends=())
    async def submit(self, request: web.Request) -> web.StreamResponse:
        """Run an application: 202, and its address in Location."""
        body = await json_body(request)
        wish: job_protocol.SubmitApplicationRequest | job_protocol.SubmitJobRequest
        if is_owner(request):
            context = submission_context(body, self._settings, f"unix:{self.data.run_dir.rm_socket}")
            wish = job_protocol.SubmitApplicationRequest(context)
        else:
            wish = hosted_job(body, len(await request.read()), self._settings)
        answer = await self._write(wish, request)
        place = f"http://{request.headers.get('Host', request.host)}{BASE}/apps/{answer.application_id}"
        return web.Response(status=202, headers={"Location": place})

    @route("PUT", APP + "/state")
    @Declared(body={"state": queries.one_of(YarnApplicationState), "diagnostics": queries.MAYBE})
    async def set_state(self, request: web.Request) -> Document:
        """Kill the application: KILLED is the only target state allowed."""
        body = await json_body(request)
        wanted = queries.target_state(body, set(YarnApplicationState))
        report = await self._application(request)
        _, user = self._caller(request)
        if not is_owner(request) and report.user != user:
            raise forbidden(
                f"{report.application_id} is not yours", because=f"it is {report.user}'s, and you are {user}"
            )
        ended = report.state in (YarnApplicationState.FINISHED, YarnApplicationState.FAILED)
        if not queries.is_to_be_killed(report.state, wanted) or ended:
            return TOLD["/state"](report)
        diagnostics = str(body.get("diagnostics") or "")[:1000]
        answer = await self._write(client.KillApplicationRequest(report.application_id, diagnostics), request)
        return TOLD["/state"](answer.application)

    @route("PUT", APP + "/queue")
    @Declared(body={"queue": queries.TEXT})
    async def set_queue(self, request: web.Request) -> Document:
        """Move the application to another queue."""
        queue = (await json_body(request)).get("queue")
        if not isinstance(queue, str) or not queue:
            raise bad_request('the body must be {"queue": NAME}')
        return await self._change(request, client.MoveApplicationRequest, queue)

    @route("PUT", APP + "/priority")
    @Declared(body={"priority": {"type": "integer"}})
    async def set_priority(self, request: web.Request) -> Document:
        """Change the application's priority."""
        priority = (await json_body(request)).get("priority")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise bad_request('the body must be {"priority": NUMBER}')
        return await self._change(request, client.UpdateApplicationPriorityRequest, priority)

    @route("PUT", APP + "/timeout")
    @Declared(body={"timeout": TIMEOUT})
    async def set_timeout(self, request: web.Request) -> Document:
        """Change the end of its lifetime."""
        body = (await json_body(request)).get("timeout")
        if not isinstance(body, dict) or str(body.get("type", "")).upper() != "LIFETIME":
            raise bad_request('the body must be {"timeout": {"type": "LIFETIME", "expiryTime": TIME}}')
        expires = queries.iso_ms(str(body.get("expiryTime", "")))
        return await self._change(request, client.UpdateApplicationTimeoutsRequest, expires)

    async def _change(self, request: web.Request, wish: Change, value: object) -> Document:
        """Change an application, and answer with the document at the path."""
        report = await self._application(request)
        answer = await self._write(wish(report.application_id, value), request)
        return TOLD["/" + request.path.rpartition("/")[2]](answer.application)

    def _caller(self, request: web.Request) -> tuple[int, str]:
        """The uid and user for whom a change is made: the cluster's user for its owner, else the caller.
        Raises 403.
        """
        if is_owner(request):
            return os.geteuid(), user_name(os.geteuid())
        uid, name = caller(request), submitter(request)
        if not name or uid <= 0:
            require_owner(request, "a change")
        return uid, name

    async def _write(self, wish: Request[ResponseT], request: web.Request) -> ResponseT:
        uid, user = self._caller(request)
        return await self.data.call(wish, uid=uid, user=user, guest=not is_owner(request))

    # -- attempts and containers -----------------------------------------------------------------------------

    @route("GET", APP + "/appattempts")
    async def attempts(self, request: web.Request) -> Document:
        """``yopp attempt list ID --json``."""
        report = await self._application(request)
        return application_view.ATTEMPTS.every(self.data.attempts(report.application_id))

    @route("GET", ATTEMPT)
    async def attempt(self, request: web.Request) -> Document:
        """``yopp attempt status ID --json``."""
        attempt_id = await self._attempt_id(request)
        for one in self.data.attempts(_application_of(attempt_id)):
            if one.attempt_id == attempt_id:
                return {"appAttempt": application_view.attempt_document(one)}
        raise not_found(f"app attempt with id: {attempt_id} not found")

    async def _attempt_id(self, request: web.Request) -> str:
        """The attempt's id, checked to belong to the application; a bare number is accepted, as in YARN."""
        report = await self._application(request)
        word = request.match_info["attempt"]
        if word.isascii() and word.isdigit() and len(word) < 7:
            application = ApplicationId.parse(report.application_id)
            return str(ApplicationAttemptId(application, int(word)))
        attempt = ApplicationAttemptId.parse(word)
        if str(attempt.application_id) != report.application_id:
            raise not_found("appId and appAttemptId don't match")
        if attempt.attempt_id > report.attempts:
            raise not_found(f"app attempt with id: {attempt} not found")
        return str(attempt)

    @route("GET", ATTEMPT + "/containers")
    async def attempt_containers(self, request: web.Request) -> Document:
        """The containers of an attempt, including ended ones."""
        attempt_id = await self._attempt_id(request)
        reports = await self.data.containers_of(_application_of(attempt_id))
        mine = [one for one in reports if _attempt_of(one.container_id) == attempt_id]
        return cluster_view.container_documents(mine, self.data.http_addresses(), now_ms())

    @route("GET", ATTEMPT + "/containers/{container}")
    async def attempt_container(self, request: web.Request) -> Document:
        """One container of an attempt."""
        attempt_id = await self._attempt_id(request)
        container_id = request.match_info["container"]
        if _attempt_of(container_id) != attempt_id:
            raise bad_request(f"container {container_id} is not of {attempt_id}")
        report = await self.data.container(container_id)
        address = self.data.http_addresses().get(report.node_id, "")
        return {"container": cluster_view.container_document(report, address, now_ms())}

    @route("POST", BASE + "/containers/{container}/signal/{signal}")
    @Declared({"signal": queries.one_of(SIGNALS)})
    async def signal(self, request: web.Request) -> Document:
        """Signal a container through its node, by one of YARN's three commands."""
        command = request.match_info["signal"].upper()
        if command not in SIGNALS:
            raise bad_request(
                f"Invalid command: {command[:100]}", because="there are " + ", ".join(sorted(SIGNALS))
            )
        report = await self.data.container(request.match_info["container"])
        if report.state is ContainerState.DONE:
            raise bad_request(f"container {report.container_id} has ended")
        node = self.data.node(report.node_id)
        if node.state is not NodeState.RUNNING or not node.connected:
            raise NodeNotFoundError(f"node {node.node_id} does not answer")
        if command == "OUTPUT_THREAD_DUMP" or (command == "FORCEFUL_SHUTDOWN" and report.pid):
            wish = SignalContainerRequest(report.container_id, int(SIGNALS[command]))
            await call_daemon(node.address, wish)
        if command != "OUTPUT_THREAD_DUMP":
            stop = StopContainersRequest(
                (report.container_id,), diagnostics="Container killed by the user.", by_person=True
            )
            await call_daemon(node.address, stop)
        return {"container": {"id": report.container_id, "signal": command}}

    # -- nodes -----------------------------------------------------------------------------------------------

    @route("GET", BASE + "/nodes")
    @Declared({"states": queries.some_of(NodeState)})
    async def nodes(self, request: web.Request) -> Document:
        """``yopp node list --json``; without a filter, as in YARN, the nodes whose state is not in UNLISTED."""
        return node_view.NODES.every(queries.chosen_nodes(request, self.data.nodes(), "states"))

    @route("GET", BASE + "/nodes/{node}")
    async def node(self, request: web.Request) -> Document:
        """``yopp node status ID --json``."""
        return {"node": node_view.document(self.data.node(request.match_info["node"]))}

    @route("POST", BASE + "/nodes/{node}/resource")
    @Declared(body={"resource": SIZE})
    async def set_node_resource(self, request: web.Request) -> Document:
        """Change the size of a node, until its process ends."""
        size = resource_of(await json_body(request))
        node = self.data.node(request.match_info["node"])
        (changed,) = (await self._write(UpdateNodeResourceRequest({node.node_id: size}), request)).nodes
        return {"memory": changed.total.memory, "vCores": changed.total.vcores}

    # -- not supported on one host
    # -----------------------------------------------------------------------------

    @route("GET", BASE + "/scheduler-conf")
    async def scheduler_configuration(self, request: web.Request) -> Document:
        """The ``yarn.scheduler.`` properties that were set."""
        info = self.data.info()
        found = [
            {"name": name, "value": value}
            for name, value in sorted(info.properties.items())
            if name.startswith("yarn.scheduler.")
        ]
        return {"configuration": {"property": found}}

    @route("PUT", BASE + "/scheduler-conf")
    async def change_scheduler_configuration(self, request: web.Request) -> Document:
        """400, as YARN answers if its configuration store is a file."""
        message = "Configuration change only supported by MutableConfScheduler."
        raise HttpError(400, "BadRequestException", message, because="queues are configured in files")

    @route("POST", BASE + "/delegation-token", BASE + "/delegation-token/expiration")
    @route("DELETE", BASE + "/delegation-token")
    async def delegation_token(self, request: web.Request) -> Document:
        """403, as YARN answers without Kerberos."""
        raise forbidden(
            "delegation tokens need a Kerberos authenticated connection",
            because="callers on one host are known by the kernel, and need none",
        )

    @route("GET", BASE + "/reservation/list")
    @route(
        "POST", *(f"{BASE}/reservation/{word}" for word in ("new-reservation", "submit", "update", "delete"))
    )
    async def reservation(self, request: web.Request) -> Document:
        """400, as YARN answers if the reservation system is off."""
        raise NotYetSupportedError("the reservation system is not enabled: reservations are not supported")


def _application_of(attempt_id: str) -> str:
    return str(ApplicationAttemptId.parse(attempt_id).application_id)


def _attempt_of(container_id: str) -> str:
    return str(ContainerId.parse(container_id).application_attempt_id)


async def serve(
    bound: list[socket.socket],
    listener: WebListener,
    calls: LocalCalls,
    read: Reader,
    run_dir: RunDir,
    configuration: Configuration,
) -> WebServer:
    """Serve the RM's REST API and pages on bound sockets."""
    data = ClusterData(read, calls, run_dir)
    routes = ClusterApi(data, configuration).routes()
    routes += [*MapReduceApi(data).routes(), *ClusterPages(data).routes()]
    routes += routes_of(Instruments(configuration, run_dir, NAVIGATION, data.figures))
    return await start(bound, listener, [*routes, description_route("ResourceManager", routes)])
