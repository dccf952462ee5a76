"""A MapReduce job as the documents of Hadoop's MapReduce ApplicationMaster and of its history server. Pure.

The documents contain only facts: phases that yopp's jobs do not have (shuffle, merge) take 0 ms, and values that are
not measured are left out. A task succeeds if its container does. As in Hadoop, an attempt that was preempted, shed,
lost, or killed by a user is KILLED, and is not a failure of its task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from executor.light import Record, replace
from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, ContainerState, ContainerUsage

from ...records.history import MapReduceReport, TaskAttempt
from ...records.ids import job_id
from ...records.reports import (
    FINAL_STATES,
    ApplicationReport,
    FinalApplicationStatus,
    YarnApplicationState,
)
from ..applications import attempt_document

NEW, SCHEDULED, STARTING, RUNNING = "NEW", "SCHEDULED", "STARTING", "RUNNING"
SUCCEEDED, FAILED, KILLED = "SUCCEEDED", "FAILED", "KILLED"
JOB_STATES: Final = (NEW, "INITED", RUNNING, SUCCEEDED, FAILED, "KILL_WAIT", KILLED, "ERROR", "REBOOT")
"""Hadoop's states; yopp's jobs are never INITED, KILL_WAIT, ERROR or REBOOT."""
_KILLED_BY_OTHERS = PREEMPTION_STATUSES | {
    ContainerExitStatus.KILLED_BY_RESOURCEMANAGER,
    ContainerExitStatus.KILLED_AFTER_APP_COMPLETION,
}
_WAITS = (ContainerState.SCHEDULED, ContainerState.LAUNCHING)
_JOB_COUNTER = "org.apache.hadoop.mapreduce.JobCounter"
_TASK_COUNTER = "org.apache.hadoop.mapreduce.TaskCounter"
_KINDS = ((True, "reduces", "Reduce"), (False, "maps", "Map"))
Counters = dict[str, int]


class TaskView(Record):
    """A task and its attempts. ``id`` and ``state`` are Hadoop's."""

    id: str
    is_reduce: bool
    state: str
    attempts: tuple[TaskAttempt, ...]

    @property
    def kind(self) -> str:
        """Hadoop's word for the kind of task."""
        return "REDUCE" if self.is_reduce else "MAP"

    @property
    def successful(self) -> TaskAttempt | None:
        """The attempt that succeeded."""
        return next((one for one in self.attempts if one.exit_status == 0), None)

    @property
    def chosen(self) -> TaskAttempt | None:
        """The attempt that succeeded, else the last."""
        return self.successful or (self.attempts[-1] if self.attempts else None)

    @property
    def started_ms(self) -> int:
        """When the task's first attempt began to run; 0 for never."""
        return min((one.started_at_ms for one in self.attempts if one.started_at_ms), default=0)

    @property
    def finished_ms(self) -> int:
        """When the task ended; 0 if it has not."""
        ended = self.chosen if self.state in (SUCCEEDED, FAILED, KILLED) else None
        return ended.finished_at_ms if ended is not None else 0


class JobView:
    """One job at ``now_ms``. No method raises an error; an unknown value is None."""

    def __init__(self, app: ApplicationReport, report: MapReduceReport, now_ms: int) -> None:
        self.app = app
        self.report = report
        self.now_ms = now_ms
        self.id = job_id(app.application_id)
        self.state = _job_state(app)
        self.has_ended = app.state in FINAL_STATES
        by_task: dict[tuple[bool, int], list[TaskAttempt]] = {}
        for one in report.attempts:
            by_task.setdefault((one.is_reduce, one.index), []).append(one)
        succeeded = {(one.is_reduce, one.index) for one in report.attempts if one.exit_status == 0}
        self._maps_are_done = sum(not is_reduce for is_reduce, _ in succeeded) == report.job.maps
        planned = [(False, index) for index in range(report.job.maps)]
        planned += [(True, index) for index in range(report.job.reduces)]
        self.tasks = tuple(self._task(*one, tuple(by_task.get(one, ()))) for one in planned)
        self._by_id = {one.id: one for one in self.tasks}

    def _task(self, is_reduce: bool, index: int, tried: tuple[TaskAttempt, ...]) -> TaskView:
        states = [self.attempt_state(one) for one in tried]
        if SUCCEEDED in states:
            state = SUCCEEDED
        elif self.has_ended:
            state = FAILED if states and states[-1] == FAILED else KILLED
        elif RUNNING in states:
            state = RUNNING
        else:
            state = NEW if is_reduce and not self._maps_are_done else SCHEDULED
        name = f"task_{self.id.removeprefix('job_')}_{'r' if is_reduce else 'm'}_{index:06d}"
        return TaskView(name, is_reduce, state, tried)

    # -- states and times ------------------------------------------------------------------------------------

    def attempt_state(self, one: TaskAttempt) -> str:
        """Hadoop's state of an attempt; an attempt in a node's queue is STARTING."""
        if one.state is not ContainerState.DONE:
            return NEW if one.state is None else STARTING if one.state in _WAITS else RUNNING
        if one.exit_status == 0:
            return SUCCEEDED
        if one.exit_status in _KILLED_BY_OTHERS:
            return KILLED
        # The master stops its containers when the whole job ends; an attempt that it stops earlier has
        # failed.
        if one.exit_status == ContainerExitStatus.KILLED_BY_APPMASTER and self.state in (FAILED, KILLED):
            return KILLED
        return FAILED

    def task(self, task_id: str) -> TaskView | None:
        """One task by its id."""
        return self._by_id.get(task_id)

    def attempt(self, task: TaskView, attempt_id: str) -> TaskAttempt | None:
        """One attempt of a task by its id."""
        return next((one for one in task.attempts if self.attempt_id(task, one) == attempt_id), None)

    @staticmethod
    def attempt_id(task: TaskView, one: TaskAttempt) -> str:
        """Hadoop's id of an attempt."""
        return f"{task.id.replace('task_', 'attempt_', 1)}_{one.number}"

    def _times(self, started: int, finished: int) -> dict[str, int]:
        """The start, the end and the duration so far."""
        end = finished or (0 if self.has_ended else self.now_ms) or started
        elapsed = max(0, end - started) if started else 0
        return {"startTime": started, "finishTime": finished, "elapsedTime": elapsed}

    def _elapsed(self, one: TaskAttempt) -> int:
        return self._times(one.started_at_ms, one.finished_at_ms)["elapsedTime"]

    def _of(self, is_reduce: bool) -> list[TaskView]:
        return [one for one in self.tasks if one.is_reduce is is_reduce]

    def _attempts_in(self, is_reduce: bool) -> Counter[str]:
        """The number of attempts of maps, or of reduces, in each state."""
        return Counter(self.attempt_state(one) for one in self.report.attempts if one.is_reduce is is_reduce)

    # -- the job ---------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """``…/mapreduce/info`` of a live job's master."""
        app, times = self.app, self._times(self.app.started_at_ms, self.app.finished_at_ms)
        return {
            "info": {
                "appId": app.application_id,
                "name": app.name,
                "user": app.user,
                "startedOn": times["startTime"],
                "elapsedTime": times["elapsedTime"],
            }
        }

    def _overview(self) -> dict[str, Any]:
        """The fields of a job that a live master and the history server share."""
        found = {"id": self.id, "name": self.app.name, "user": self.app.user, "state": self.state}
        counts: dict[str, Any] = {"uberized": False, "diagnostics": self.app.diagnostics}
        for is_reduce, name, _ in _KINDS:
            states = [one.state for one in self._of(is_reduce)]
            counts |= {f"{name}Total": len(states), f"{name}Completed": states.count(SUCCEEDED)}
        return found | counts

    def job(self) -> dict[str, Any]:
        """One job of a live master."""
        found = self._times(self.app.started_at_ms, self.app.finished_at_ms) | self._overview()
        for is_reduce, name, kind in _KINDS:
            states = Counter(one.state for one in self._of(is_reduce))
            tried, total = self._attempts_in(is_reduce), states.total()
            found[f"{kind.lower()}Progress"] = round(100 * states[SUCCEEDED] / total, 2) if total else 100.0
            found[f"{name}Pending"] = states[NEW] + states[SCHEDULED]
            found[f"{name}Running"] = states[RUNNING]
            found[f"new{kind}Attempts"] = tried[NEW] + tried[STARTING]
            found[f"running{kind}Attempts"] = tried[RUNNING]
        return {**found, **self._ended_attempts(), "acls": []}

    def _ended_attempts(self) -> dict[str, int]:
        return {
            f"{word}{kind}Attempts": self._attempts_in(is_reduce)[state]
            for is_reduce, _, kind in _KINDS
            for word, state in (("failed", FAILED), ("killed", KILLED), ("successful", SUCCEEDED))
        }

    def history_row(self) -> dict[str, Any]:
        """One job in the history server's list."""
        app = self.app
        times = {"startTime": app.started_at_ms, "finishTime": app.finished_at_ms}
        return {"submitTime": app.submitted_at_ms, **times, "queue": app.queue, **self._overview()}

    def history_job(self) -> dict[str, Any]:
        """One job of the history server. There is no shuffle and no merge: the reduce reads the maps' files."""
        means = {f"avg{kind}Time": self._mean(is_reduce) for is_reduce, _, kind in _KINDS}
        nothing = {"avgShuffleTime": 0, "avgMergeTime": 0, "acls": []}
        return {**self.history_row(), **means, **self._ended_attempts(), **nothing}

    def _mean(self, is_reduce: bool) -> int:
        times = [self._elapsed(one.successful) for one in self._of(is_reduce) if one.successful is not None]
        return sum(times) // len(times) if times else 0

    def job_attempts(self) -> dict[str, Any]:
        """``…/jobattempts``: the attempts of its master, without a container if the client is the master."""
        told = ("id", "startTime", "containerId", "nodeHttpAddress", "nodeId", "logsLink")
        attempts = map(attempt_document, self.report.masters)
        return {"jobAttempts": {"jobAttempt": [{name: one[name] for name in told} for one in attempts]}}

    def conf(self) -> dict[str, Any]:
        """``…/conf``: the properties that the job used or that were set; there is no file of them."""
        properties = [
            {"name": one.name, "value": one.value, "source": [one.source] if one.source else []}
            for one in self.report.job.properties
        ]
        return {"conf": {"path": "", "property": properties}}

    # -- tasks -----------------------------------------------------------------------------------------------

    def task_document(self, task: TaskView) -> dict[str, Any]:
        """One task."""
        done = task.successful
        return {
            **self._times(task.started_ms, task.finished_ms),
            "progress": 100.0 if task.state == SUCCEEDED else 0.0,
            "id": task.id,
            "state": task.state,
            "type": task.kind,
            "successfulAttempt": self.attempt_id(task, done) if done is not None else "",
            "status": task.state,
        }

    def tasks_document(self, kinds: Iterable[bool]) -> dict[str, Any]:
        """``…/tasks`` of these kinds (whether reduces)."""
        wanted = frozenset(kinds)
        return {"tasks": {"task": [self.task_document(one) for one in self.tasks if one.is_reduce in wanted]}}

    def attempt_document(self, task: TaskView, one: TaskAttempt) -> dict[str, Any]:
        """One attempt; fields that YARN does not have are under ``yopp``."""
        state, found = self.attempt_state(one), self._times(one.started_at_ms, one.finished_at_ms)
        reduce = {}
        if task.is_reduce:
            shuffle = ("shuffleFinishTime", "mergeFinishTime", "elapsedShuffleTime", "elapsedMergeTime")
            reduce = dict.fromkeys(shuffle, 0) | {"elapsedReduceTime": found["elapsedTime"]}
        return {
            **found,
            "progress": 100.0 if state == SUCCEEDED else 0.0,
            "id": self.attempt_id(task, one),
            "rack": one.rack,
            "state": state,
            "status": state,
            "nodeHttpAddress": one.node_http_address,
            "diagnostics": one.diagnostics,
            "type": task.kind,
            "assignedContainerId": one.container_id,
            **reduce,
            "yopp": {
                "nodeId": one.node_id,
                "executionType": one.execution_type.value,
                "containerState": one.state.value if one.state is not None else None,
                "exitStatus": one.exit_status,
                "exitCode": one.exit_code,
                "allocatedAt": one.allocated_at_ms,
                "memoryMB": one.resource.memory,
                "vcores": one.resource.vcores,
            },
        }

    def attempts_document(self, task: TaskView) -> dict[str, Any]:
        """``…/attempts``."""
        return {"taskAttempts": {"taskAttempt": [self.attempt_document(task, one) for one in task.attempts]}}

    # -- counters --------------------------------------------------------------------------------------------

    def attempt_counters(self, one: TaskAttempt) -> Counters:
        """The measurements of an attempt, and, if it succeeded, the records that it read and wrote."""
        found: Counters = {}
        job = self.report.job
        if one.exit_status == 0 and one.is_reduce:
            found["REDUCE_INPUT_RECORDS"] = job.maps * job.outputs_per_map
        elif one.exit_status == 0:
            found |= {"MAP_INPUT_RECORDS": 1, "MAP_OUTPUT_RECORDS": job.outputs_per_map}
        if is_measured(one):
            found["CPU_MILLISECONDS"] = one.cpu_ms
            if not one.finished_at_ms:  # memory left in its cgroup after its end belongs to no process
                found["PHYSICAL_MEMORY_BYTES"] = one.memory_bytes
            most = "REDUCE_PHYSICAL_MEMORY_BYTES_MAX" if one.is_reduce else "MAP_PHYSICAL_MEMORY_BYTES_MAX"
            found[most] = max(one.peak_bytes, one.memory_bytes)
        return found

    def task_counters(self, task: TaskView) -> Counters:
        """The counters of the attempt that succeeded, else of the last."""
        return self.attempt_counters(task.chosen) if task.chosen is not None else {}

    def attempt_counters_document(self, task: TaskView, one: TaskAttempt) -> dict[str, Any]:
        """``…/attempts/{id}/counters``."""
        groups = _plain_groups(self.attempt_counters(one))
        found = {"id": self.attempt_id(task, one), "taskAttemptCounterGroup": groups}
        return {"jobTaskAttemptCounters": found}

    def task_counters_document(self, task: TaskView) -> dict[str, Any]:
        """``…/tasks/{id}/counters``."""
        groups = _plain_groups(self.task_counters(task))
        return {"jobTaskCounters": {"id": task.id, "taskCounterGroup": groups}}

    def job_counters_document(self) -> dict[str, Any]:
        """``…/counters``: of maps, of reduces, and of both."""
        maps, reduces = (_sum(map(self.task_counters, self._of(is_reduce))) for is_reduce in (False, True))
        groups = {
            _JOB_COUNTER: [(name, 0, 0, value) for name, value in self._launched().items()],
            _TASK_COUNTER: [
                (name, maps.get(name, 0), reduces.get(name, 0), total)
                for name, total in _sum((maps, reduces)).items()
            ],
        }
        keys = ("name", "mapCounterValue", "reduceCounterValue", "totalCounterValue")
        found = [
            {"counterGroupName": group, "counter": [dict(zip(keys, row, strict=True)) for row in rows]}
            for group, rows in groups.items()
            if rows
        ]
        return {"jobCounters": {"id": self.id, "counterGroup": found}}

    def _launched(self) -> Counters:
        found: Counters = {}
        for is_reduce, name in ((False, "MAPS"), (True, "REDUCES")):
            states = self._attempts_in(is_reduce)
            ran = [one for one in self.report.attempts if one.is_reduce is is_reduce and one.started_at_ms]
            spent = [(one.resource, self._elapsed(one)) for one in ran]
            found |= {
                f"NUM_FAILED_{name}": states[FAILED],
                f"NUM_KILLED_{name}": states[KILLED],
                f"TOTAL_LAUNCHED_{name}": len(ran),
                f"MILLIS_{name}": sum(ms for _, ms in spent),
                f"VCORES_MILLIS_{name}": sum(ms * size.vcores for size, ms in spent),
                f"MB_MILLIS_{name}": sum(ms * size.memory for size, ms in spent),
            }
        return found


def is_measured(one: TaskAttempt) -> bool:
    """Whether its node has measured an attempt: a running process uses some memory."""
    return bool(one.started_at_ms and (one.cpu_ms or one.memory_bytes or one.peak_bytes))


def with_usage(report: MapReduceReport, usages: Mapping[str, ContainerUsage]) -> MapReduceReport:
    """The report, with these fresh measurements of its containers."""
    attempts = []
    for one in report.attempts:
        if (now := usages.get(one.container_id)) is not None:
            cpu_ms, peak = round(now.cpu_seconds * 1000), now.memory_peak_bytes
            one = replace(one, cpu_ms=cpu_ms, memory_bytes=now.memory_bytes, peak_bytes=peak)
        attempts.append(one)
    return replace(report, attempts=tuple(attempts))


def _job_state(app: ApplicationReport) -> str:
    """Hadoop's state of a job."""
    if app.state not in FINAL_STATES:
        return RUNNING if app.state is YarnApplicationState.RUNNING else NEW
    if app.state is YarnApplicationState.KILLED or app.final_status is FinalApplicationStatus.KILLED:
        return KILLED
    finished = app.state is YarnApplicationState.FINISHED
    return SUCCEEDED if finished and app.final_status is FinalApplicationStatus.SUCCEEDED else FAILED


def _sum(counters: Iterable[Counters]) -> Counters:
    total: Counters = {}
    for one in counters:
        for name, value in one.items():
            before = total.get(name, 0)
            total[name] = max(before, value) if name.endswith("_MAX") else before + value
    return total


def _plain_groups(counters: Counters) -> Sequence[dict[str, Any]]:
    listed = [{"name": name, "value": value} for name, value in counters.items()]
    return [{"counterGroupName": _TASK_COUNTER, "counter": listed}] if listed else []
