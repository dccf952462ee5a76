"""A MapReduce job as the documents of Hadoop's MapReduce ApplicationMaster and of its history server. Pure.

Nothing is invented: what a job of ours has not (a shuffle, a merge) took 0 ms, what is not measured is left out. A task
succeeds with its container; an attempt that was preempted, shed, lost or ended by a person was KILLED and costs its
task nothing, as in Hadoop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, ContainerState, ContainerUsage

from ...records.mapreduce_report import MapReduceReport, TaskAttempt
from ...records.reports import (
    FINAL_STATES,
    ApplicationAttemptReport,
    ApplicationReport,
    FinalApplicationStatus,
    YarnApplicationState,
)

NEW, SCHEDULED, STARTING, RUNNING = "NEW", "SCHEDULED", "STARTING", "RUNNING"
SUCCEEDED, FAILED, KILLED = "SUCCEEDED", "FAILED", "KILLED"
JOB_STATES: Final = (
    "NEW",
    "INITED",
    "RUNNING",
    "SUCCEEDED",
    "FAILED",
    "KILL_WAIT",
    "KILLED",
    "ERROR",
    "REBOOT",
)
"""Hadoop's; ours are never INITED, KILL_WAIT, ERROR or REBOOT."""
_KILLED_BY_OTHERS = PREEMPTION_STATUSES | {
    ContainerExitStatus.KILLED_BY_RESOURCEMANAGER,
    ContainerExitStatus.KILLED_AFTER_APP_COMPLETION,
}
_RUNNING = frozenset(
    {
        ContainerState.RUNNING,
        ContainerState.PAUSING,
        ContainerState.PAUSED,
        ContainerState.RESUMING,
        ContainerState.KILLING,
    }
)
JOB_COUNTER = "org.apache.hadoop.mapreduce.JobCounter"
TASK_COUNTER = "org.apache.hadoop.mapreduce.TaskCounter"
Counters = dict[str, int]


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its attempts. ``id`` and ``state`` are Hadoop's."""

    id: str
    is_reduce: bool
    state: str
    attempts: tuple[TaskAttempt, ...]

    @property
    def successful(self) -> TaskAttempt | None:
        """The attempt that counts."""
        return next((one for one in self.attempts if one.exit_status == 0), None)

    @property
    def started_ms(self) -> int:
        """When its first attempt began to run."""
        return min((one.started_at_ms for one in self.attempts if one.started_at_ms), default=0)

    @property
    def finished_ms(self) -> int:
        """When it had ended."""
        if self.state not in (SUCCEEDED, FAILED, KILLED):
            return 0
        last = self.successful or (self.attempts[-1] if self.attempts else None)
        return last.finished_at_ms if last is not None else 0


class JobView:
    """One job as it is at ``now_ms``. Raises nothing; what is not there is None."""

    def __init__(self, app: ApplicationReport, report: MapReduceReport, now_ms: int) -> None:
        self.app = app
        self.report = report
        self.now_ms = now_ms
        self.id = app.application_id.replace("application_", "job_", 1)
        self._suffix = self.id.removeprefix("job_")
        self.state = job_state(app)
        self.has_ended = app.state in FINAL_STATES
        by_task: dict[tuple[bool, int], list[TaskAttempt]] = {}
        for one in report.attempts:
            by_task.setdefault((one.is_reduce, one.index), []).append(one)
        job = report.job
        planned = [(False, index) for index in range(job.maps)] + [
            (True, index) for index in range(job.reduces)
        ]
        maps_done = sum(
            1
            for (reduce, _), tried in by_task.items()
            if not reduce and any(one.exit_status == 0 for one in tried)
        )
        self.tasks = tuple(
            self._task(is_reduce, index, tuple(by_task.get((is_reduce, index), ())), maps_done == job.maps)
            for is_reduce, index in planned
        )
        self._by_id = {one.id: one for one in self.tasks}

    def _task(self, is_reduce: bool, index: int, tried: tuple[TaskAttempt, ...], maps_are_done: bool) -> Task:
        states = [self.attempt_state(one) for one in tried]
        if SUCCEEDED in states:
            state = SUCCEEDED
        elif self.has_ended:
            state = FAILED if states and states[-1] == FAILED else KILLED
        elif RUNNING in states:
            state = RUNNING
        else:
            state = NEW if is_reduce and not maps_are_done else SCHEDULED
        return Task(f"task_{self._suffix}_{_letter(is_reduce)}_{index:06d}", is_reduce, state, tried)

    # -- states and times ------------------------------------------------------------------------------------

    def attempt_state(self, one: TaskAttempt) -> str:
        """Hadoop's state of an attempt; one in a node's queue is STARTING."""
        if one.state is not ContainerState.DONE:
            return RUNNING if one.state in _RUNNING else STARTING if one.state is not None else NEW
        if one.exit_status == 0:
            return SUCCEEDED
        if one.exit_status in _KILLED_BY_OTHERS:
            return KILLED
        # The master stops its containers when the whole job ends; one that it stops earlier has failed.
        if one.exit_status == ContainerExitStatus.KILLED_BY_APPMASTER and self.state in (FAILED, KILLED):
            return KILLED
        return FAILED

    def task(self, task_id: str) -> Task | None:
        """One task by its id."""
        return self._by_id.get(task_id)

    def attempt(self, task: Task, attempt_id: str) -> TaskAttempt | None:
        """One of its attempts by its id."""
        return next((one for one in task.attempts if self.attempt_id(task, one) == attempt_id), None)

    @staticmethod
    def attempt_id(task: Task, one: TaskAttempt) -> str:
        """Hadoop's id of an attempt."""
        return f"{task.id.replace('task_', 'attempt_', 1)}_{one.number}"

    def _elapsed(self, started: int, finished: int) -> int:
        if not started:
            return 0
        return max(0, (finished or (0 if self.has_ended else self.now_ms) or started) - started)

    def _of(self, is_reduce: bool) -> list[Task]:
        return [one for one in self.tasks if one.is_reduce is is_reduce]

    def done(self, is_reduce: bool) -> int:
        """How many maps, or reduces, have succeeded."""
        return sum(1 for one in self._of(is_reduce) if one.state == SUCCEEDED)

    def _attempts_in(self, is_reduce: bool) -> dict[str, int]:
        counts = dict.fromkeys((NEW, STARTING, RUNNING, SUCCEEDED, FAILED, KILLED), 0)
        for one in self.report.attempts:
            if one.is_reduce is is_reduce:
                counts[self.attempt_state(one)] += 1
        return counts

    # -- the job ---------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """``…/mapreduce/info`` of a living job's master."""
        app = self.app
        return {
            "info": {
                "appId": app.application_id,
                "name": app.name,
                "user": app.user,
                "startedOn": app.started_at_ms,
                "elapsedTime": self._elapsed(app.started_at_ms, app.finished_at_ms),
            }
        }

    def job(self) -> dict[str, Any]:
        """One job of a living master."""
        app, counts = self.app, {is_reduce: self._attempts_in(is_reduce) for is_reduce in (False, True)}
        found: dict[str, Any] = {
            "startTime": app.started_at_ms,
            "finishTime": app.finished_at_ms,
            "elapsedTime": self._elapsed(app.started_at_ms, app.finished_at_ms),
            "id": self.id,
            "name": app.name,
            "user": app.user,
            "state": self.state,
            **self._tasks(),
            "mapProgress": _percent(self.done(False), self.report.job.maps),
            "reduceProgress": _percent(self.done(True), self.report.job.reduces),
        }
        for is_reduce, name in ((False, "maps"), (True, "reduces")):
            states = [one.state for one in self._of(is_reduce)]
            found[f"{name}Pending"] = sum(1 for state in states if state in (NEW, SCHEDULED))
            found[f"{name}Running"] = states.count(RUNNING)
        found |= {"uberized": False, "diagnostics": app.diagnostics}
        for is_reduce, name in ((True, "Reduce"), (False, "Map")):
            found[f"new{name}Attempts"] = counts[is_reduce][NEW] + counts[is_reduce][STARTING]
            found[f"running{name}Attempts"] = counts[is_reduce][RUNNING]
            found |= self._ended(is_reduce, name, counts[is_reduce])
        return {**found, "acls": []}

    def _tasks(self) -> dict[str, int]:
        job = self.report.job
        return {
            "mapsTotal": job.maps,
            "mapsCompleted": self.done(False),
            "reducesTotal": job.reduces,
            "reducesCompleted": self.done(True),
        }

    @staticmethod
    def _ended(is_reduce: bool, name: str, counts: dict[str, int]) -> dict[str, int]:
        return {
            f"failed{name}Attempts": counts[FAILED],
            f"killed{name}Attempts": counts[KILLED],
            f"successful{name}Attempts": counts[SUCCEEDED],
        }

    def history_row(self) -> dict[str, Any]:
        """One job in the history server's list."""
        app = self.app
        return {
            "submitTime": app.submitted_at_ms,
            "startTime": app.started_at_ms,
            "finishTime": app.finished_at_ms,
            "id": self.id,
            "name": app.name,
            "queue": app.queue,
            "user": app.user,
            "state": self.state,
            **self._tasks(),
            "uberized": False,
            "diagnostics": app.diagnostics,
        }

    def history_job(self) -> dict[str, Any]:
        """One job of the history server. There is no shuffle and no merge: the reduce reads the maps' files."""
        found = self.history_row() | {
            "avgMapTime": self._mean(False),
            "avgReduceTime": self._mean(True),
            "avgShuffleTime": 0,
            "avgMergeTime": 0,
        }
        for is_reduce, name in ((True, "Reduce"), (False, "Map")):
            found |= self._ended(is_reduce, name, self._attempts_in(is_reduce))
        return {**found, "acls": []}

    def _mean(self, is_reduce: bool) -> int:
        times = [
            self._elapsed(one.started_at_ms, one.finished_at_ms)
            for task in self._of(is_reduce)
            if (one := task.successful) is not None
        ]
        return sum(times) // len(times) if times else 0

    def job_attempts(self) -> dict[str, Any]:
        """``…/jobattempts``: the attempts of its master, without a container if the client is the master."""
        return {"jobAttempts": {"jobAttempt": [self._job_attempt(one) for one in self.report.masters]}}

    @staticmethod
    def _job_attempt(one: ApplicationAttemptReport) -> dict[str, Any]:
        number = one.attempt_id.rpartition("_")[2]
        address, container = one.am_http_address, one.am_container_id
        return {
            "id": int(number) if number.isdigit() else 0,
            "startTime": one.started_at_ms,
            "containerId": container,
            "nodeHttpAddress": address,
            "nodeId": one.am_node_id,
            "logsLink": f"http://{address}/node/containerlogs/{container}/{one.user}" if address else "",
        }

    def conf(self) -> dict[str, Any]:
        """``…/conf``: what the job used and what was set besides; it is in no file of its own."""
        return {
            "conf": {
                "path": "",
                "property": [
                    {"name": one.name, "value": one.value, "source": [one.source] if one.source else []}
                    for one in self.report.job.properties
                ],
            }
        }

    # -- tasks -----------------------------------------------------------------------------------------------

    def task_document(self, task: Task) -> dict[str, Any]:
        """One task."""
        done = task.successful
        return {
            "startTime": task.started_ms,
            "finishTime": task.finished_ms,
            "elapsedTime": self._elapsed(task.started_ms, task.finished_ms),
            "progress": 100.0 if task.state == SUCCEEDED else 0.0,
            "id": task.id,
            "state": task.state,
            "type": "REDUCE" if task.is_reduce else "MAP",
            "successfulAttempt": self.attempt_id(task, done) if done is not None else "",
            "status": task.state,
        }

    def tasks_document(self, kinds: Iterable[bool]) -> dict[str, Any]:
        """``…/tasks`` of these kinds (whether reduces)."""
        wanted = frozenset(kinds)
        return {"tasks": {"task": [self.task_document(one) for one in self.tasks if one.is_reduce in wanted]}}

    def attempt_document(self, task: Task, one: TaskAttempt) -> dict[str, Any]:
        """One attempt; what YARN does not have, under ``yopp``."""
        state = self.attempt_state(one)
        elapsed = self._elapsed(one.started_at_ms, one.finished_at_ms)
        found: dict[str, Any] = {
            "startTime": one.started_at_ms,
            "finishTime": one.finished_at_ms,
            "elapsedTime": elapsed,
            "progress": 100.0 if state == SUCCEEDED else 0.0,
            "id": self.attempt_id(task, one),
            "rack": one.rack,
            "state": state,
            "status": state,
            "nodeHttpAddress": one.node_http_address,
            "diagnostics": one.diagnostics,
            "type": "REDUCE" if task.is_reduce else "MAP",
            "assignedContainerId": one.container_id,
        }
        if task.is_reduce:
            found |= dict.fromkeys(
                ("shuffleFinishTime", "mergeFinishTime", "elapsedShuffleTime", "elapsedMergeTime"), 0
            )
            found["elapsedReduceTime"] = elapsed
        found["yopp"] = {
            "nodeId": one.node_id,
            "executionType": one.execution_type.value,
            "containerState": one.state.value if one.state is not None else None,
            "exitStatus": one.exit_status,
            "exitCode": one.exit_code,
            "allocatedAt": one.allocated_at_ms,
            "memoryMB": one.resource.memory,
            "vcores": one.resource.vcores,
        }
        return found

    def attempts_document(self, task: Task) -> dict[str, Any]:
        """``…/attempts``."""
        return {"taskAttempts": {"taskAttempt": [self.attempt_document(task, one) for one in task.attempts]}}

    # -- counters --------------------------------------------------------------------------------------------

    def attempt_counters(self, one: TaskAttempt) -> Counters:
        """What was measured of an attempt, and the records of one that succeeded: those of others are not counted."""
        kind = "REDUCE" if one.is_reduce else "MAP"
        found: Counters = {}
        if one.exit_status == 0:
            job = self.report.job
            if one.is_reduce:
                found["REDUCE_INPUT_RECORDS"] = job.maps * job.outputs_per_map
            else:
                found["MAP_INPUT_RECORDS"] = 1
                found["MAP_OUTPUT_RECORDS"] = job.outputs_per_map
        if is_measured(one):
            found["CPU_MILLISECONDS"] = one.cpu_ms
            if not one.finished_at_ms:  # what is left in its cgroup afterwards is no process's
                found["PHYSICAL_MEMORY_BYTES"] = one.memory_bytes
            found[f"{kind}_PHYSICAL_MEMORY_BYTES_MAX"] = max(one.peak_bytes, one.memory_bytes)
        return found

    def task_counters(self, task: Task) -> Counters:
        """The counters of the attempt that succeeded, else of the last."""
        chosen = task.successful or (task.attempts[-1] if task.attempts else None)
        return self.attempt_counters(chosen) if chosen is not None else {}

    def attempt_counters_document(self, task: Task, one: TaskAttempt) -> dict[str, Any]:
        """``…/attempts/{id}/counters``."""
        groups = _plain_groups(self.attempt_counters(one))
        return {
            "jobTaskAttemptCounters": {
                "id": self.attempt_id(task, one),
                "taskAttemptCounterGroup": groups,
            }
        }

    def task_counters_document(self, task: Task) -> dict[str, Any]:
        """``…/tasks/{id}/counters``."""
        groups = _plain_groups(self.task_counters(task))
        return {"jobTaskCounters": {"id": task.id, "taskCounterGroup": groups}}

    def job_counters_document(self) -> dict[str, Any]:
        """``…/counters``: of maps, of reduces, and of both."""
        sums: dict[bool, Counters] = {
            is_reduce: _sum(self.task_counters(one) for one in self._of(is_reduce))
            for is_reduce in (False, True)
        }
        names = list(dict.fromkeys([*sums[False], *sums[True]]))
        groups = [
            (JOB_COUNTER, [(name, 0, 0, value) for name, value in self._launched().items()]),
            (
                TASK_COUNTER,
                [
                    (name, sums[False].get(name, 0), sums[True].get(name, 0), _total(name, sums))
                    for name in names
                ],
            ),
        ]
        return {
            "jobCounters": {
                "id": self.id,
                "counterGroup": [
                    {
                        "counterGroupName": group,
                        "counter": [
                            {
                                "name": name,
                                "mapCounterValue": of_maps,
                                "reduceCounterValue": of_reduces,
                                "totalCounterValue": total,
                            }
                            for name, of_maps, of_reduces, total in found
                        ],
                    }
                    for group, found in groups
                    if found
                ],
            }
        }

    def _launched(self) -> Counters:
        found: Counters = {}
        for is_reduce, name in ((False, "MAPS"), (True, "REDUCES")):
            counts = self._attempts_in(is_reduce)
            ran = [one for one in self.report.attempts if one.is_reduce is is_reduce and one.started_at_ms]
            spent = [(one, self._elapsed(one.started_at_ms, one.finished_at_ms)) for one in ran]
            found |= {
                f"NUM_FAILED_{name}": counts[FAILED],
                f"NUM_KILLED_{name}": counts[KILLED],
                f"TOTAL_LAUNCHED_{name}": len(ran),
                f"MILLIS_{name}": sum(ms for _, ms in spent),
                f"VCORES_MILLIS_{name}": sum(ms * one.resource.vcores for one, ms in spent),
                f"MB_MILLIS_{name}": sum(ms * one.resource.memory for one, ms in spent),
            }
        return found


def is_measured(one: TaskAttempt) -> bool:
    """Whether its node has measured an attempt: what runs has some memory."""
    return bool(one.started_at_ms and (one.cpu_ms or one.memory_bytes or one.peak_bytes))


def with_usage(report: MapReduceReport, usages: Mapping[str, ContainerUsage]) -> MapReduceReport:
    """The report, with what was measured just now of the containers named."""

    def fresh(one: TaskAttempt) -> TaskAttempt:
        usage = usages.get(one.container_id)
        if usage is None:
            return one
        return replace(
            one,
            cpu_ms=round(usage.cpu_seconds * 1000),
            memory_bytes=usage.memory_bytes,
            peak_bytes=usage.memory_peak_bytes,
        )

    return replace(report, attempts=tuple(fresh(one) for one in report.attempts)) if usages else report


def job_state(app: ApplicationReport) -> str:
    """Hadoop's state of a job."""
    if app.state not in FINAL_STATES:
        return RUNNING if app.state is YarnApplicationState.RUNNING else NEW
    if app.state is YarnApplicationState.KILLED or app.final_status is FinalApplicationStatus.KILLED:
        return KILLED
    succeeded = (
        app.state is YarnApplicationState.FINISHED and app.final_status is FinalApplicationStatus.SUCCEEDED
    )
    return SUCCEEDED if succeeded else FAILED


def _letter(is_reduce: bool) -> str:
    return "r" if is_reduce else "m"


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 100.0


def _sum(counters: Iterable[Counters]) -> Counters:
    total: Counters = {}
    for one in counters:
        for name, value in one.items():
            total[name] = (
                max(total.get(name, 0), value) if name.endswith("_MAX") else total.get(name, 0) + value
            )
    return total


def _total(name: str, sums: dict[bool, Counters]) -> int:
    parts = (sums[False].get(name, 0), sums[True].get(name, 0))
    return max(parts) if name.endswith("_MAX") else sum(parts)


def _plain_groups(counters: Counters) -> Sequence[dict[str, Any]]:
    if not counters:
        return []
    listed = [{"name": name, "value": value} for name, value in counters.items()]
    return [{"counterGroupName": TASK_COUNTER, "counter": listed}]
