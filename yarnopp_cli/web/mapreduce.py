"""Hadoop's REST APIs of a MapReduce ApplicationMaster, below the RM's proxy path, and of the job history
server.

yopp's masters have no web server: the ResourceManager knows the container of each task, and answers for them. The
history server's API serves the histories that the RM has stored on disk, at the RM's own port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from executor.records import ContainerExitStatus, ContainerState

from ..clock import now_ms
from ..errors import ApplicationNotFoundError, InvalidIdError
from ..records.container_protocol import StopContainersRequest
from ..records.history import GetMapReduceJobRequest
from ..records.ids import ApplicationId
from ..records.job_protocol import GetApplicationsRequest
from ..records.reports import FINAL_STATES
from ..views.rest.mapreduce import JOB_STATES, JobView
from .calls import call_daemon
from .data import ClusterData
from .http import bad_request, json_body, not_found
from .queries import SPANS, TEXT, WHOLE, is_to_be_killed, latest, one_of, span, target_state
from .routes import Declared, Document, Route, route, routes_of

PROXY = "/proxy/{app}"
MASTER = PROXY + "/ws/v1/mapreduce"
HISTORY = "/ws/v1/history"
KEPT = HISTORY + "/mapreduce"
JOB = "/jobs/{job}"
TASK = JOB + "/tasks/{task}"
ATTEMPT = TASK + "/attempts/{attempt}"
OF_JOBS: dict[str, Callable[..., Document]] = {
    JOB + "/jobattempts": JobView.job_attempts,
    JOB + "/counters": JobView.job_counters_document,
    JOB + "/conf": JobView.conf,
    TASK: lambda view, task: {"task": view.task_document(task)},
    TASK + "/counters": JobView.task_counters_document,
    TASK + "/attempts": JobView.attempts_document,
    ATTEMPT: lambda view, task, tried: {"taskAttempt": view.attempt_document(task, tried)},
    ATTEMPT + "/counters": JobView.attempt_counters_document,
}
"""The documents that a live master and the history server share, made from the view of a job, and the task
and attempt in the path.
"""
OF_MASTERS: dict[str, Callable[..., Document]] = {
    JOB: lambda view: {"job": view.job()},
    ATTEMPT + "/state": lambda view, task, tried: {"state": view.attempt_state(tried)},
}
OF_KEPT: dict[str, Callable[..., Document]] = {JOB: lambda view: {"job": view.history_job()}}
KINDS = {"": (False, True), "m": (False,), "map": (False,), "r": (True,), "reduce": (True,)}
ATTEMPT_STATES = (
    "NEW", "STARTING", "RUNNING", "COMMIT_PENDING", "SUCCESS_CONTAINER_CLEANUP", "SUCCEEDED", "FAILED", "KILLED",
)  # fmt: skip
RECENT_MS = 600_000
"""The longest time, in milliseconds, by which a container outlives its application."""
Find = Callable[[web.Request], Awaitable[JobView]]


class MapReduceApi:
    """The routes of both APIs; ``data`` has the ResourceManager's answers."""

    def __init__(self, data: ClusterData) -> None:
        self._data = data
        self._kept = data.kept_jobs

    def routes(self) -> list[Route]:
        """The routes of the proxy, and those of the history server."""
        found = [_told(MASTER + path, self._living, tell) for path, tell in (OF_JOBS | OF_MASTERS).items()]
        found += [_told(KEPT + path, self._ended, tell) for path, tell in (OF_JOBS | OF_KEPT).items()]
        found += [_tasks(MASTER, self._living), _tasks(KEPT, self._ended)]
        return [*found, *routes_of(self)]

    # -- finding ---------------------------------------------------------------------------------------------

    async def _master(self, request: web.Request) -> JobView:
        """The job of a live master. After its end the caller is redirected to the history server, as by YARN's
        proxy; 404 if it is not a MapReduce job."""
        report = self._data.application(request.match_info["app"])
        answer = self._data.read(GetMapReduceJobRequest(report.application_id))
        app = answer.application
        if answer.report is None and await asyncio.to_thread(self._kept.find, app.application_id) is None:
            reason = f"it is of type {app.application_type}, not a MapReduce job"
            if app.application_type == "MAPREDUCE":
                reason = "its history is not kept"
            raise not_found(
                f"{app.application_id} has no web server of its own: {reason}; "
                f"see /ws/v1/cluster/apps/{app.application_id}"
            )
        if app.state in FINAL_STATES and request.method == "GET":
            here = request.path.partition("/ws/v1/mapreduce")[2]
            place = HISTORY + ("/info" if here in ("", "/info") else "/mapreduce" + here)
            raise web.HTTPFound(place + (f"?{request.query_string}" if request.query_string else ""))
        if answer.report is None:
            raise bad_request(f"{app.application_id} has ended")
        if request.path.endswith("/counters"):
            return await self._data.measured(answer)
        return JobView(app, answer.report, now_ms())

    async def _living(self, request: web.Request) -> JobView:
        view = await self._master(request)
        if request.match_info["job"] != view.id:
            raise not_found(f"job, {request.match_info['job'][:100]}, is not found")
        return view

    async def _ended(self, request: web.Request) -> JobView:
        job_id = request.match_info["job"]
        if not job_id.startswith("job_"):
            raise not_found(f"JobId string : {job_id[:100]} is not properly formed")
        try:
            application_id = str(ApplicationId.parse(job_id.replace("job_", "application_", 1)))
        except InvalidIdError:
            raise not_found(f"job, {job_id[:100]}, is not found") from None
        try:
            live = await self._data.job(application_id)
        except ApplicationNotFoundError:
            live = None
        # The files are read after the RM was asked, as in ``_rows``.
        view = await asyncio.to_thread(self._kept.find, application_id) or live
        if view is None or not view.has_ended:
            raise not_found(f"job, {job_id[:100]}, is not found")
        return view

    # -- a live master ---------------------------------------------------------------------------------------

    @route("GET", PROXY, PROXY + "/")
    @Declared(status=302, sends=())
    async def page(self, request: web.Request) -> web.StreamResponse:
        """The tracking URL: redirects to the application's page."""
        report = self._data.application(request.match_info["app"])
        raise web.HTTPFound(f"/cluster/app/{report.application_id}")

    @route("GET", MASTER, MASTER + "/info")
    async def info(self, request: web.Request) -> Document:
        """AppInfo of a MapReduce ApplicationMaster."""
        return (await self._master(request)).info()

    @route("GET", MASTER + "/jobs")
    async def jobs(self, request: web.Request) -> Document:
        """The jobs of a master: it has one."""
        return {"jobs": {"job": [(await self._master(request)).job()]}}

    @route("PUT", MASTER + ATTEMPT + "/state")
    @Declared(body={"state": one_of(ATTEMPT_STATES)})
    async def set_attempt_state(self, request: web.Request) -> Document:
        """Kill an attempt. As in Hadoop, its task is tried again, and the attempt does not count as failed."""
        body = await json_body(request)
        view = await self._living(request)
        task, attempt = _named(view, request)
        wanted, state = target_state(body, ATTEMPT_STATES), view.attempt_state(attempt)
        if is_to_be_killed(state, wanted):
            if attempt.state is ContainerState.DONE:
                raise bad_request(f"{view.attempt_id(task, attempt)} has ended as {state}")
            node = self._data.node(attempt.node_id)
            wish = StopContainersRequest(
                (attempt.container_id,),
                int(ContainerExitStatus.ABORTED),
                "Task attempt killed by the user.",
                by_person=True,
            )
            answer = await call_daemon(node.address, wish)
            if answer.failed:
                raise bad_request(answer.failed[0].message)
        return {"state": wanted}

    @route("GET", PROXY + "/{rest:.*}")
    async def nothing(self, request: web.Request) -> Document:
        """404: a master has no web server; its job is described at the paths above."""
        report = self._data.application(request.match_info["app"])
        raise not_found(
            f"there is nothing at {request.path[:200]}: masters of yopp have no web server of their own, "
            f"see /ws/v1/cluster/apps/{report.application_id}"
        )

    # -- the history server ----------------------------------------------------------------------------------

    @route("GET", HISTORY, HISTORY + "/", HISTORY + "/info")
    async def history_info(self, request: web.Request) -> Document:
        """HistoryInfo. The ResourceManager keeps and serves the history."""
        info = self._data.info()
        return {
            "historyInfo": {
                "startedOn": info.started_at_ms,
                "hadoopVersion": "",
                "hadoopBuildVersion": f"yopp {info.version}",
                "hadoopVersionBuiltOn": "",
            }
        }

    @route("GET", KEPT + "/jobs")
    @Declared({"state": one_of(JOB_STATES), "user": TEXT, "queue": TEXT, "limit": WHOLE, **SPANS})
    async def history_jobs(self, request: web.Request) -> Document:
        """Ended jobs, with Hadoop's filters; ``limit`` keeps the latest."""
        wanted = {name: request.query.get(name, "") for name in ("state", "user", "queue")}
        if wanted["state"] and wanted["state"] not in JOB_STATES:
            raise bad_request(
                f"Invalid job state {wanted['state'][:100]}", because="there are " + ", ".join(JOB_STATES)
            )
        started, finished = span(request, "startedTime"), span(request, "finishedTime")
        rows = [
            row
            for row in await self._rows()
            if all(not value or row[key] == value for key, value in wanted.items())
            and started[0] <= row["startTime"] <= started[1]
            and finished[0] <= row["finishTime"] <= finished[1]
        ]
        rows = latest(request, rows)
        return {"jobs": {"job": rows} if rows else None}

    async def _rows(self) -> list[dict[str, Any]]:
        """Kept jobs, and recently ended ones: the history of a job is kept when its last container has ended."""
        since = now_ms() - RECENT_MS
        recent: list[dict[str, Any]] = []
        for app in self._data.applications(GetApplicationsRequest(application_types=("MAPREDUCE",))):
            if app.state not in FINAL_STATES or app.finished_at_ms < since:
                continue
            answer = self._data.read(GetMapReduceJobRequest(app.application_id))
            if answer.report is not None:
                recent.append(JobView(answer.application, answer.report, now_ms()).history_row())
        # The files are read after the RM's answer, so that they include a job that was stored, and dropped by the RM,
        # in between.
        rows = await asyncio.to_thread(self._kept.rows)
        known = {row["id"] for row in rows}
        rows += [row for row in recent if row["id"] not in known]
        return sorted(rows, key=lambda row: (row["finishTime"], row["id"]))


def _told(path: str, find: Find, tell: Callable[..., Document]) -> Route:
    async def handler(request: web.Request) -> Document:
        view = await find(request)
        return tell(view, *_named(view, request))

    return "GET", path, handler


def _tasks(base: str, find: Find) -> Route:
    @Declared({"type": one_of(KINDS)})
    async def tasks(request: web.Request) -> Document:
        kind = request.query.get("type", "").lower()
        if kind not in KINDS:
            raise bad_request("tasktype must be either m or r")
        return (await find(request)).tasks_document(KINDS[kind])

    return "GET", base + JOB + "/tasks", tasks


def _named(view: JobView, request: web.Request) -> tuple[Any, ...]:
    """The task in the path, and its attempt, if the path names them. Raises 404."""
    task_id, attempt_id = request.match_info.get("task"), request.match_info.get("attempt")
    if task_id is None:
        return ()
    task = view.task(task_id)
    if task is None:
        raise not_found(f"task not found with id {task_id[:100]}")
    if attempt_id is None:
        return (task,)
    attempt = view.attempt(task, attempt_id)
    if attempt is None:
        raise not_found(f"Error getting info on task attempt id {attempt_id[:100]}")
    return task, attempt
