"""The ResourceManager's REST API: YARN's resources below ``/ws/v1/cluster``, its proxy, ``/metrics`` and ``/jmx``."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import socket
import time
from typing import Any

from aiohttp import web

from executor.records import ContainerState

from ..cluster.inspection import cluster_document, inspect_cluster
from ..cluster.rundir import RunDir
from ..errors import NodeNotFoundError, NotYetSupportedError
from ..masters.submission import resource_of
from ..records import client_protocol as client
from ..records.admin_protocol import UpdateNodeResourceRequest
from ..records.container_protocol import (
    SignalContainerRequest,
    StopContainersRequest,
)
from ..records.ids import ApplicationAttemptId, ApplicationId, ContainerId
from ..records.reports import (
    ApplicationReport,
    ContainerReport,
    NodeReport,
    NodeState,
    YarnApplicationState,
)
from ..records.scheduler_protocol import GetActivitiesRequest
from ..rpc.server import user_name
from ..settings.declarations import ApplicationSettings
from ..settings.loading import Configuration
from ..views import applications as application_view
from ..views import cluster as cluster_view
from ..views import nodes as node_view
from ..views.explain import activities as activities_view
from . import submitting
from .calls import LocalCalls, call_daemon
from .data import ClusterData, now_ms
from .figures import figure_routes
from .http import (
    Document,
    HttpError,
    WebServer,
    bad_request,
    document,
    json_body,
    not_found,
    respond,
    start,
)
from .listening import WebListener
from .mapreduce import MapReduceApi
from .pages.cluster import ClusterPages
from .queries import UNLISTED, ApplicationFilter, grouped_by, iso_ms, names, number, numbers, words

BASE = "/ws/v1/cluster"
SIGNALS = {
    "OUTPUT_THREAD_DUMP": signals.SIGQUIT,
    "GRACEFUL_SHUTDOWN": signals.SIGTERM,
    "FORCEFUL_SHUTDOWN": signals.SIGKILL,
}


def java_date(epoch_ms: int) -> str:
    """A time as Java's Date writes it, in UTC."""
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(epoch_ms / 1000))


class ClusterApi:
    """Every call of YARN's ResourceManager REST API that means something on one host."""

    def __init__(self, data: ClusterData, configuration: Configuration) -> None:
        self.data = data
        self._settings = configuration.settings(ApplicationSettings)

    def routes(self) -> list[web.RouteDef]:
        """The resources, YARN's paths."""
        app, attempt = BASE + "/apps/{app}", BASE + "/apps/{app}/appattempts"
        reads = {
            BASE: self.info,
            BASE + "/": self.info,
            BASE + "/info": self.info,
            BASE + "/metrics": self.metrics,
            BASE + "/scheduler": self.scheduler,
            BASE + "/scheduler/activities": self.activities,
            BASE + "/scheduler/app-activities/{app}": self.application_activities,
            BASE + "/appstatistics": self.statistics,
            BASE + "/apps": self.applications,
            app: self.application,
            app + "/state": self.state,
            app + "/queue": self.queue,
            app + "/priority": self.priority,
            app + "/timeouts": self.timeouts,
            app + "/timeouts/{kind}": self.timeout,
            attempt: self.attempts,
            attempt + "/{attempt}": self.attempt,
            attempt + "/{attempt}/containers": self.attempt_containers,
            attempt + "/{attempt}/containers/{container}": self.attempt_container,
            BASE + "/nodes": self.nodes,
            BASE + "/nodes/{node}": self.node,
            BASE + "/scheduler-conf": self.scheduler_configuration,
        }
        found = [web.get(path, document(handler)) for path, handler in reads.items()]
        found += [
            web.post(BASE + "/apps/new-application", document(self.new_application)),
            web.post(BASE + "/apps", self.submit),
            web.put(app + "/state", self.set_state),
            web.put(app + "/queue", document(self.set_queue)),
            web.put(app + "/priority", document(self.set_priority)),
            web.put(app + "/timeout", document(self.set_timeout)),
            web.post(BASE + "/nodes/{node}/resource", document(self.set_node_resource)),
            web.post(BASE + "/containers/{container}/signal/{signal}", document(self.signal)),
            web.put(BASE + "/scheduler-conf", document(self.change_scheduler_configuration)),
        ]
        for method, path in (
            ("POST", "/delegation-token"),
            ("POST", "/delegation-token/expiration"),
            ("DELETE", "/delegation-token"),
        ):
            found.append(web.route(method, BASE + path, self.delegation_token))
        for method, path in (
            ("GET", "list"),
            ("POST", "new-reservation"),
            ("POST", "submit"),
            ("POST", "update"),
            ("POST", "delete"),
        ):
            found.append(web.route(method, f"{BASE}/reservation/{path}", self.reservation))
        return found

    # -- the cluster -----------------------------------------------------------------------------------------

    async def info(self, request: web.Request) -> Document:
        """``yopp status --json``."""
        return cluster_document(await asyncio.to_thread(inspect_cluster, self.data.run_dir))

    async def metrics(self, request: web.Request) -> Document:
        """ClusterMetricsInfo."""
        return await self.data.metrics()

    async def scheduler(self, request: web.Request) -> Document:
        """The queues."""
        answer = await self.data.call(client.GetQueueInfoRequest())
        return cluster_view.scheduler(answer.queues)

    async def activities(self, request: web.Request) -> Document:
        """Why pending requests are not scheduled, by queue; at one node with ``nodeId``."""
        node_id = request.query.get("nodeId", "")
        if node_id:
            await self.data.node(node_id)
        grouped = grouped_by(request)
        answer = await self.data.call(GetActivitiesRequest(node_id=node_id))
        return activities_view.cluster(answer, node_id, java_date(answer.at_ms), grouped=grouped)

    async def application_activities(self, request: web.Request) -> Document:
        """Why the pending requests of one application are not scheduled."""
        report = await self.data.application(request.match_info["app"])
        if number(request, "limit") == 0:
            raise bad_request("limit must be greater than 0!")
        actions = frozenset(one.lower() for one in names(request, "actions"))
        if wrong := actions - set(activities_view.ACTIONS):
            raise bad_request(f"Got invalid action: {min(wrong)[:100]}, valid actions: refresh, get")
        answer = await self.data.call(GetActivitiesRequest(report.application_id))
        return activities_view.application(
            report,
            answer,
            java_date(answer.at_ms),
            grouped=grouped_by(request),
            priorities=numbers(request, "requestPriorities"),
            request_ids=numbers(request, "allocationRequestIds"),
            actions=actions,
        )

    async def statistics(self, request: web.Request) -> Document:
        """Applications by state and type."""
        states = words(request, "states", YarnApplicationState, "application-state")
        kinds = [one for one in request.query.get("applicationTypes", "").split(",") if one.strip()]
        if len(kinds) > 1:
            raise bad_request(
                "# of applicationTypes = " + str(len(kinds)), because="we temporarily support at most one"
            )
        kind = kinds[0].strip().lower() if kinds else "*"
        return cluster_view.statistics(await self.data.applications(), states, kind)

    # -- applications ----------------------------------------------------------------------------------------

    async def applications(self, request: web.Request) -> Document:
        """``yopp app list -a --json``, and YARN's filters."""
        wanted = ApplicationFilter.of(request)
        found = [one for one in await self.data.applications(wanted.request) if wanted.passes(one)]
        if wanted.limit is not None:
            found = found[max(0, len(found) - wanted.limit) :]
        return application_view.APPLICATIONS.every(found, now_ms())

    async def application(self, request: web.Request) -> Document:
        """``yopp app status ID --json``."""
        return {"app": application_view.document(await self._application(request), now_ms())}

    async def _application(self, request: web.Request) -> ApplicationReport:
        return await self.data.application(request.match_info["app"])

    async def state(self, request: web.Request) -> Document:
        """AppState."""
        return {"state": (await self._application(request)).state.value}

    async def queue(self, request: web.Request) -> Document:
        """AppQueue."""
        return {"queue": (await self._application(request)).queue}

    async def priority(self, request: web.Request) -> Document:
        """AppPriority."""
        return {"priority": (await self._application(request)).priority}

    async def timeouts(self, request: web.Request) -> Document:
        """AppTimeoutsInfo."""
        return {
            "timeouts": {
                "timeout": [cluster_view.timeout_document(await self._application(request), now_ms())]
            }
        }

    async def timeout(self, request: web.Request) -> Document:
        """AppTimeoutInfo."""
        kind = request.match_info["kind"]
        if kind.upper() != "LIFETIME":
            raise bad_request(f"invalid timeout type: {kind[:100]}", because="there is one: LIFETIME")
        return {"timeout": cluster_view.timeout_document(await self._application(request), now_ms())}

    async def new_application(self, request: web.Request) -> Document:
        """A fresh id."""
        answer: client.GetNewApplicationResponse = await self._write(
            request, client.GetNewApplicationRequest()
        )
        return cluster_view.new_application(answer.application_id, answer.info.maximum)

    async def submit(self, request: web.Request) -> web.StreamResponse:
        """Run an application: 202, and where to look for it."""
        body = await json_body(request)
        context = submitting.context(body, self._settings, f"unix:{self.data.run_dir.rm_socket}")
        answer = await self._write(request, client.SubmitApplicationRequest(context))
        place = f"http://{request.headers.get('Host', request.host)}{BASE}/apps/{answer.application_id}"
        return web.Response(status=202, headers={"Location": place})

    async def set_state(self, request: web.Request) -> web.StreamResponse:
        """Kill it: KILLED is the only other state that can be asked for. 202 as it begins, 200 where it had ended."""
        body = await json_body(request)
        wanted = body.get("state")
        if not isinstance(wanted, str) or wanted not in set(YarnApplicationState):
            raise bad_request(f"Invalid target state: {str(wanted)[:100]}")
        report = await self._application(request)
        if wanted == report.state:
            return respond(request, {"state": wanted})
        if wanted != YarnApplicationState.KILLED:
            raise bad_request("Only 'KILLED' is allowed as a target state.")
        if report.state in (YarnApplicationState.FINISHED, YarnApplicationState.FAILED):
            return respond(request, {"state": report.state.value})
        diagnostics = str(body.get("diagnostics") or "")[:1000]
        answer = await self._write(request, client.KillApplicationRequest(report.application_id, diagnostics))
        return respond(request, {"state": answer.application.state.value})

    async def set_queue(self, request: web.Request) -> Document:
        """Move it to another queue."""
        queue = (await json_body(request)).get("queue")
        if not isinstance(queue, str) or not queue:
            raise bad_request('the body must be {"queue": NAME}')
        report = await self._application(request)
        wish = client.MoveApplicationRequest(report.application_id, queue)
        return {"queue": (await self._write(request, wish)).application.queue}

    async def set_priority(self, request: web.Request) -> Document:
        """Give it another priority."""
        priority = (await json_body(request)).get("priority")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise bad_request('the body must be {"priority": NUMBER}')
        report = await self._application(request)
        wish = client.UpdateApplicationPriorityRequest(report.application_id, priority)
        return {"priority": (await self._write(request, wish)).application.priority}

    async def set_timeout(self, request: web.Request) -> Document:
        """Change the end of its lifetime."""
        body = (await json_body(request)).get("timeout")
        if not isinstance(body, dict) or str(body.get("type", "")).upper() != "LIFETIME":
            raise bad_request('the body must be {"timeout": {"type": "LIFETIME", "expiryTime": TIME}}')
        expires = iso_ms(str(body.get("expiryTime", "")))
        report = await self._application(request)
        wish = client.UpdateApplicationTimeoutsRequest(report.application_id, expires)
        changed: ApplicationReport = (await self._write(request, wish)).application
        return {"timeout": cluster_view.timeout_document(changed, now_ms())}

    async def _write(self, request: web.Request, wish: Any) -> Any:
        uid = os.geteuid()
        return await self.data.call(wish, uid=uid, user=user_name(uid))

    # -- attempts and containers -----------------------------------------------------------------------------

    async def attempts(self, request: web.Request) -> Document:
        """``yopp attempt list ID --json``."""
        report = await self._application(request)
        answer = await self.data.call(client.GetApplicationAttemptsRequest(report.application_id))
        return application_view.ATTEMPTS.every(answer.attempts)

    async def attempt(self, request: web.Request) -> Document:
        """``yopp attempt status ID --json``."""
        attempt_id = await self._attempt_id(request)
        answer = await self.data.call(client.GetApplicationAttemptsRequest(request.match_info["app"]))
        for one in answer.attempts:
            if one.attempt_id == attempt_id:
                return {"appAttempt": application_view.attempt_document(one)}
        raise not_found(f"app attempt with id: {attempt_id} not found")

    async def _attempt_id(self, request: web.Request) -> str:
        """The attempt's id, checked to be one of the application; its bare number will do, as in YARN."""
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

    async def attempt_containers(self, request: web.Request) -> Document:
        """The containers of an attempt, those that have ended too."""
        attempt_id = await self._attempt_id(request)
        reports = await self.data.containers(
            client.GetContainersRequest(application_id=request.match_info["app"], finished=True)
        )
        mine = [one for one in reports if _attempt_of(one.container_id) == attempt_id]
        return cluster_view.container_documents(mine, await self._http_addresses(), now_ms())

    async def attempt_container(self, request: web.Request) -> Document:
        """One container of an attempt."""
        attempt_id = await self._attempt_id(request)
        container_id = request.match_info["container"]
        if _attempt_of(container_id) != attempt_id:
            raise bad_request(f"container {container_id} is not of {attempt_id}")
        report = await self._container(container_id)
        addresses = await self._http_addresses()
        return {
            "container": cluster_view.container_document(report, addresses.get(report.node_id, ""), now_ms())
        }

    async def _container(self, container_id: str) -> ContainerReport:
        ContainerId.parse(container_id)
        request = client.GetContainersRequest(container_ids=(container_id,), finished=True)
        return (await self.data.containers(request))[0]

    async def _http_addresses(self) -> dict[str, str]:
        return {node.node_id: node.http_address for node in await self.data.nodes()}

    async def signal(self, request: web.Request) -> Document:
        """Signal a container through its node, as YARN's three commands mean it."""
        command = request.match_info["signal"].upper()
        if command not in SIGNALS:
            raise bad_request(
                f"Invalid command: {command[:100]}", because="there are " + ", ".join(sorted(SIGNALS))
            )
        report = await self._container(request.match_info["container"])
        if report.state is ContainerState.DONE:
            raise bad_request(f"container {report.container_id} has ended")
        node = await self._reachable(report.node_id)
        if command == "OUTPUT_THREAD_DUMP":
            wish: Any = SignalContainerRequest(report.container_id, int(SIGNALS[command]))
            await call_daemon(node.address, wish)
        else:
            wish = StopContainersRequest(
                (report.container_id,), diagnostics="Container killed by a person.", by_person=True
            )
            if command == "FORCEFUL_SHUTDOWN" and report.pid:
                kill = SignalContainerRequest(report.container_id, int(SIGNALS[command]))
                await call_daemon(node.address, kill)
            await call_daemon(node.address, wish)
        return {"container": {"id": report.container_id, "signal": command}}

    # -- nodes -----------------------------------------------------------------------------------------------

    async def nodes(self, request: web.Request) -> Document:
        """``yopp node list --json``; without a filter, as in YARN, those whose state is not in UNLISTED."""
        states = words(request, "states", NodeState, "node state")
        found = await self.data.nodes()
        if "states" in request.query:
            found = tuple(one for one in found if not states or one.state in states)
        else:
            found = tuple(one for one in found if one.state not in UNLISTED)
        return node_view.NODES.every(found)

    async def node(self, request: web.Request) -> Document:
        """``yopp node status ID --json``."""
        return {"node": node_view.document(await self.data.node(request.match_info["node"]))}

    async def _reachable(self, node_id: str) -> NodeReport:
        node = await self.data.node(node_id)
        if node.state is not NodeState.RUNNING or not node.connected:
            raise NodeNotFoundError(f"node {node_id} does not answer")
        return node

    async def set_node_resource(self, request: web.Request) -> Document:
        """Another size of a node, until its process ends."""
        size = resource_of(await json_body(request))
        node = await self.data.node(request.match_info["node"])
        answer = await self._write(request, UpdateNodeResourceRequest(node.node_id, size))
        total = answer.node.total
        return {"memory": total.memory, "vCores": total.vcores}

    # -- what one host has not ---------------------------------------------------------------------------------

    async def scheduler_configuration(self, request: web.Request) -> Document:
        """The queues' properties that were set."""
        info = await self.data.info()
        found = [
            {"name": name, "value": value}
            for name, value in sorted(info.properties.items())
            if name.startswith("yarn.scheduler.")
        ]
        return {"configuration": {"property": found}}

    async def change_scheduler_configuration(self, request: web.Request) -> Document:
        """400, as YARN answers where its configuration store is a file."""
        raise HttpError(
            400,
            "BadRequestException",
            "Configuration change only supported by MutableConfScheduler.",
            because="queues are configured in files",
        )

    async def delegation_token(self, request: web.Request) -> web.StreamResponse:
        """403, as YARN answers without Kerberos."""
        raise HttpError(
            403,
            "ForbiddenException",
            "delegation tokens need a Kerberos authenticated connection",
            because="callers on one host are known by the kernel, and need none",
        )

    async def reservation(self, request: web.Request) -> web.StreamResponse:
        """400, as YARN answers where the reservation system is off."""
        raise as_unsupported(
            "the reservation system is not enabled: there are no reservations in this version"
        )


def as_unsupported(message: str) -> NotYetSupportedError:
    """A refusal of what YARN has and yopp has not."""
    return NotYetSupportedError(message)


def _attempt_of(container_id: str) -> str:
    return str(ContainerId.parse(container_id).application_attempt_id)


async def serve(
    bound: socket.socket,
    listener: WebListener,
    loopback_only: bool,
    calls: LocalCalls,
    run_dir: RunDir,
    configuration: Configuration,
) -> WebServer:
    """Serve the RM's REST API and pages on a bound socket."""
    data = ClusterData(calls, run_dir)
    routes = ClusterApi(data, configuration).routes()
    routes += MapReduceApi(data).routes()
    routes += figure_routes(data.figures)
    routes += ClusterPages(data).routes()
    return await start(bound, listener, loopback_only, routes)
