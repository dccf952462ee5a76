"""Hadoop's REST APIs of a MapReduce ApplicationMaster, by the RM's proxy, and of the job history server.

yopp's masters do not listen: the ResourceManager knows which container ran which task, and answers for them. The
history server is what the RM has kept on disk, at the RM's own port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from executor.records import ContainerExitStatus, ContainerState

from ..errors import ApplicationNotFoundError, InvalidIdError
from ..records.client_protocol import GetApplicationsRequest
from ..records.container_protocol import StopContainersRequest
from ..records.history import GetMapReduceJobRequest, GetMapReduceJobResponse, TaskAttempt
from ..records.ids import ApplicationId
from ..records.reports import FINAL_STATES
from ..views.rest.mapreduce import JOB_STATES, JobView, Task
from .calls import call_daemon
from .data import ClusterData, now_ms
from .http import Document, bad_request, document, json_body, not_found, respond
from .queries import number, span

PROXY = "/proxy/{app}"
HISTORY = "/ws/v1/history"
KINDS = {"": (False, True), "m": (False,), "map": (False,), "r": (True,), "reduce": (True,)}
ATTEMPT_STATES = (
    "NEW", "STARTING", "RUNNING", "COMMIT_PENDING", "SUCCESS_CONTAINER_CLEANUP", "SUCCEEDED", "FAILED", "KILLED",
)  # fmt: skip
RECENT_MS = 600_000
"""No container outlives its application for longer."""
Find = Callable[[web.Request], Awaitable[JobView]]


class MapReduceApi:
    """``data`` asks the ResourceManager."""

    def __init__(self, data: ClusterData) -> None:
        self._data = data
        self._kept = data.kept_jobs

    def routes(self) -> list[web.RouteDef]:
        """The proxy's resources, and the history server's."""
        master, history = PROXY + "/ws/v1/mapreduce", HISTORY + "/mapreduce"
        return [
            web.get(PROXY, self.page),
            web.get(PROXY + "/", self.page),
            *_reads(master, self._living),
            web.get(master, document(self.info)),
            web.get(master + "/info", document(self.info)),
            web.get(master + "/jobs", document(self.jobs)),
            web.get(master + "/jobs/{job}", document(self.job)),
            web.get(_ATTEMPT.format(base=master) + "/state", document(self.attempt_state)),
            web.put(_ATTEMPT.format(base=master) + "/state", self.set_attempt_state),
            web.get(PROXY + "/{rest:.*}", self.nothing),
            web.get(HISTORY, document(self.history_info)),
            web.get(HISTORY + "/", document(self.history_info)),
            web.get(HISTORY + "/info", document(self.history_info)),
            web.get(history + "/jobs", document(self.history_jobs)),
            web.get(history + "/jobs/{job}", document(self.history_job)),
            *_reads(history, self._ended),
        ]

    # -- finding ---------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> GetMapReduceJobResponse:
        report = await self._data.application(request.match_info["app"])
        return await self._data.call(GetMapReduceJobRequest(report.application_id))

    async def _master(self, request: web.Request) -> JobView:
        """The job of a live master. After its end the caller is redirected to the history server, as by YARN's
        proxy; 404 if it is not a MapReduce job."""
        answer = await self._answer(request)
        app = answer.application
        if answer.report is None and await asyncio.to_thread(self._kept.find, app.application_id) is None:
            kind = app.application_type
            reason = (
                "nothing is kept of it"
                if kind == "MAPREDUCE"
                else f"it is of type {kind}, and no MapReduce job"
            )
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
            view = await asyncio.to_thread(self._kept.find, application_id) or await self._data.job(
                application_id
            )
        except (InvalidIdError, ApplicationNotFoundError):
            view = None
        if view is None or not view.has_ended:
            raise not_found(f"job, {job_id[:100]}, is not found")
        return view

    # -- a living master -------------------------------------------------------------------------------------

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The tracking URL: to the application's page."""
        report = await self._data.application(request.match_info["app"])
        raise web.HTTPFound(f"/cluster/app/{report.application_id}")

    async def nothing(self, request: web.Request) -> web.StreamResponse:
        """404: a master has no server; what is known of its job is at the paths above."""
        report = await self._data.application(request.match_info["app"])
        raise not_found(
            f"there is nothing at {request.path[:200]}: masters of yopp have no web server of their own, "
            f"see /ws/v1/cluster/apps/{report.application_id}"
        )

    async def info(self, request: web.Request) -> Document:
        """AppInfo of a MapReduce ApplicationMaster."""
        return (await self._master(request)).info()

    async def jobs(self, request: web.Request) -> Document:
        """Its one job."""
        return {"jobs": {"job": [(await self._master(request)).job()]}}

    async def job(self, request: web.Request) -> Document:
        """JobInfo."""
        return {"job": (await self._living(request)).job()}

    async def attempt_state(self, request: web.Request) -> Document:
        """JobTaskAttemptState."""
        view = await self._living(request)
        _, attempt = find_attempt(view, request)
        return {"state": view.attempt_state(attempt)}

    async def set_attempt_state(self, request: web.Request) -> web.StreamResponse:
        """Kill an attempt. Its task is tried again, and it counts as no failure, as in Hadoop."""
        wanted = (await json_body(request)).get("state")
        view = await self._living(request)
        task, attempt = find_attempt(view, request)
        if not isinstance(wanted, str) or wanted not in ATTEMPT_STATES:
            raise bad_request(f"Invalid target state: {str(wanted)[:100]}")
        if wanted == view.attempt_state(attempt):
            return respond(request, {"state": wanted})
        if wanted != "KILLED":
            raise bad_request("Only 'KILLED' is allowed as a target state.")
        if attempt.state is ContainerState.DONE:
            raise bad_request(f"{view.attempt_id(task, attempt)} has ended as {view.attempt_state(attempt)}")
        node = await self._data.node(attempt.node_id)
        wish = StopContainersRequest(
            (attempt.container_id,),
            int(ContainerExitStatus.ABORTED),
            "Task attempt killed by a person.",
            by_person=True,
        )
        answer = await call_daemon(node.address, wish)
        if answer.failed:
            raise bad_request(answer.failed[0].message)
        return respond(request, {"state": "KILLED"})

    # -- the history server ----------------------------------------------------------------------------------

    async def history_info(self, request: web.Request) -> Document:
        """HistoryInfo. It is the ResourceManager that keeps and serves the history."""
        info = await self._data.info()
        return {
            "historyInfo": {
                "startedOn": info.started_at_ms,
                "hadoopVersion": "",
                "hadoopBuildVersion": f"yopp {info.version}",
                "hadoopVersionBuiltOn": "",
            }
        }

    async def history_jobs(self, request: web.Request) -> Document:
        """Jobs that have ended, by Hadoop's filters; ``limit`` keeps the latest."""
        state = request.query.get("state", "")
        if state and state not in JOB_STATES:
            raise bad_request(
                f"Invalid job state {state[:100]}", because="there are " + ", ".join(JOB_STATES)
            )
        limit = number(request, "limit")
        if limit == 0:
            raise bad_request("limit value must be greater then 0")
        started, finished = span(request, "startedTime"), span(request, "finishedTime")
        wanted = {
            "state": state,
            "user": request.query.get("user", ""),
            "queue": request.query.get("queue", ""),
        }
        rows = [
            row
            for row in await self._rows()
            if all(not value or row[key] == value for key, value in wanted.items())
            and started[0] <= row["startTime"] <= started[1]
            and finished[0] <= row["finishTime"] <= finished[1]
        ]
        if limit is not None:
            rows = rows[max(0, len(rows) - limit) :]
        return {"jobs": {"job": rows} if rows else None}

    async def _rows(self) -> list[dict[str, Any]]:
        """Jobs that were kept, and those that ended just now and whose containers are yet to end: kept after that."""
        rows = await asyncio.to_thread(self._kept.rows)
        known = {row["id"] for row in rows}
        since = now_ms() - RECENT_MS
        for app in await self._data.applications(GetApplicationsRequest(application_types=("MAPREDUCE",))):
            job_id = app.application_id.replace("application_", "job_", 1)
            if app.state not in FINAL_STATES or app.finished_at_ms < since or job_id in known:
                continue
            answer = await self._data.call(GetMapReduceJobRequest(app.application_id))
            if answer.report is not None:
                rows.append(JobView(answer.application, answer.report, now_ms()).history_row())
        return sorted(rows, key=lambda row: (row["finishTime"], row["id"]))

    async def history_job(self, request: web.Request) -> Document:
        """JobInfo of the history server."""
        return {"job": (await self._ended(request)).history_job()}


_TASK = "{base}/jobs/{{job}}/tasks/{{task}}"
_ATTEMPT = _TASK + "/attempts/{{attempt}}"


def _reads(base: str, find: Find) -> list[web.RouteDef]:
    """What a living master and the history server tell alike."""

    def of_job(make: Callable[[JobView], Document]) -> Callable[[web.Request], Awaitable[Document]]:
        async def handler(request: web.Request) -> Document:
            return make(await find(request))

        return handler

    def of_task(make: Callable[[JobView, Task], Document]) -> Callable[[web.Request], Awaitable[Document]]:
        async def handler(request: web.Request) -> Document:
            view = await find(request)
            return make(view, find_task(view, request))

        return handler

    def of_attempt(
        make: Callable[[JobView, Task, TaskAttempt], Document],
    ) -> Callable[[web.Request], Awaitable[Document]]:
        async def handler(request: web.Request) -> Document:
            view = await find(request)
            return make(view, *find_attempt(view, request))

        return handler

    async def tasks(request: web.Request) -> Document:
        kind = request.query.get("type", "").lower()
        if kind not in KINDS:
            raise bad_request("tasktype must be either m or r")
        return (await find(request)).tasks_document(KINDS[kind])

    job, task, attempt = base + "/jobs/{job}", _TASK.format(base=base), _ATTEMPT.format(base=base)
    reads: dict[str, Callable[[web.Request], Awaitable[Document]]] = {
        job + "/jobattempts": of_job(JobView.job_attempts),
        job + "/counters": of_job(JobView.job_counters_document),
        job + "/conf": of_job(JobView.conf),
        job + "/tasks": tasks,
        task: of_task(lambda view, one: {"task": view.task_document(one)}),
        task + "/counters": of_task(JobView.task_counters_document),
        task + "/attempts": of_task(JobView.attempts_document),
        attempt: of_attempt(lambda view, one, tried: {"taskAttempt": view.attempt_document(one, tried)}),
        attempt + "/counters": of_attempt(JobView.attempt_counters_document),
    }
    return [web.get(path, document(handler)) for path, handler in reads.items()]


def find_task(view: JobView, request: web.Request) -> Task:
    """The task that a path names. Raises 404."""
    task = view.task(request.match_info["task"])
    if task is None:
        raise not_found(f"task not found with id {request.match_info['task'][:100]}")
    return task


def find_attempt(view: JobView, request: web.Request) -> tuple[Task, TaskAttempt]:
    """The attempt that a path names, and its task. Raises 404."""
    task = find_task(view, request)
    attempt: Any = view.attempt(task, request.match_info["attempt"])
    if attempt is None:
        raise not_found(f"Error getting info on task attempt id {request.match_info['attempt'][:100]}")
    return task, attempt
