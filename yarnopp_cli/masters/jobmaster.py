"""JobMaster: the machine that drives every job of ``yopp run``, ``yopp dshell`` and ``yopp pi`` (distributedshell's
``ApplicationMaster``).

It requests a container for each task of a phase, starts granted containers, follows their ends, retries
failed tasks as far as their phase allows, and requests preempted, shed, refused or lost containers again
without counting a try; a loss is not a preemption. It keeps one allocate call waiting at the RM, and sends a second
one at once when it has news. It never sleeps: it waits only for events and deadlines.
"""

from __future__ import annotations

import enum

from executor.causes import CauseKind, of_kind
from executor.core.machine import earliest
from executor.records import PREEMPTION_STATUSES, ContainerExitStatus, ContainerStatus, ExecutionType

from ..errors import (
    EXIT_CANNOT_START,
    EXIT_TIMEOUT,
    EXIT_TRY_AGAIN,
    ApplicationNotFoundError,
    ConnectionFailedError,
    InvalidTokenError,
    ShuttingDownError,
    YoppError,
)
from ..records.client_protocol import KillApplicationRequest
from ..records.container_protocol import (
    StartContainersRequest,
    StartContainersResponse,
    StopContainersRequest,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from ..records.jobs import ENDED, JobSpec, TaskState
from ..records.master_protocol import (
    AM_RESYNC,
    AM_SHUTDOWN,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterResponse,
)
from ..records.reports import FinalApplicationStatus
from ..records.requests import Container, ContainerUpdateType, TaskAssignment, Token, UpdatedContainer
from . import messages as m
from .amrmclient import AMRMClient, update_request
from .ends import PATIENCE_SECONDS, RETRY_SECONDS, retrying
from .nmclient import NodeNews, Starts
from .outcome import MasterOutcome
from .resuming import EarlierAttempts, ended_well
from .tasks import LIVE, Tally, Task, exit_code_of
from .waiting import WaitingTasks

STOP_PATIENCE_SECONDS = 5.0
"""How long a job that is being stopped waits for its containers to end before it leaves them to the RM.
"""

START_FAILURES = 3
"""How often a node may refuse to start one task's container before the task has failed."""


class Stage(enum.Enum):
    """The stages of a master."""

    NEW = "NEW"
    WORKING = "WORKING"
    STOPPING = "STOPPING"
    FINISHING = "FINISHING"
    ENDED = "ENDED"


class JobMaster:
    """The machine of one job (``Machine[Event, Command]``). The first event is ``MasterStarted``.

    A ``hosted`` master runs in the ResourceManager, which sends its starts to the nodes. It
    keeps its counts in ``tally``. It tries a lost RM again for ``patience`` seconds.
    """

    def __init__(
        self,
        job: JobSpec,
        attempt_id: str,
        token: Token,
        *,
        hosted: bool = False,
        tally: Tally | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.job = job
        self._hosted = hosted
        self.stage = Stage.NEW
        self.tally = Tally(job.size) if tally is None else tally
        self._out: list[m.Command] = []
        # the tasks of the current phase, and the task of each container
        self._phase_index = -1
        self._earlier = EarlierAttempts()
        self._tasks: list[Task] = []
        self._unfinished = 0
        self._waiting = WaitingTasks()
        self._by_container: dict[str, Task] = {}
        self._seen: set[str] = set()
        self._launches = 0
        self._rm = AMRMClient(attempt_id, token, job.heartbeat_ms, patience)
        self._rm.tasks_matter = job.map_reduce is not None  # otherwise sent only with other news
        self._starts = Starts(self._by_container.__contains__, hosted=hosted)
        self._noticed: set[str] = set()
        self._promotions: set[str] = set()
        self._nodes = NodeNews()
        # the end
        self._timeout_at: float | None = None
        self._stop_at: float | None = None
        self._halted = False
        self._outcome = MasterOutcome(self.tally, job.exit_rule)

    # --- the machine

    def handle(self, event: m.Event, now: float) -> list[m.Command]:
        """Handle one event; returns commands, in the order in which they must be performed."""
        match event:
            case m.MasterStarted(past):
                self._earlier = EarlierAttempts(past)
                if self.job.timeout_ms:
                    self._timeout_at = self._time_limit(now)
                self._register()
            case m.Answered(m.CallRM(), response):
                self._on_rm_answered(response, now)
            case m.Answered(m.CallNode(node_address=address), response):
                self._starts.reached(address)
                if isinstance(response, StartContainersResponse):
                    for failed in response.failed:
                        self._on_start_refused(failed.container_id, failed.message or failed.exception, now)
                elif isinstance(response, UpdateContainersResponse):
                    self._on_updated(response)
            case m.CallFailed():
                self._on_call_failed(event.call, event.error, now)
            case m.StopRequested():
                self._stop(event.reason, event.exit_code, event.final_status, now)
        return self._pump(now)

    def next_deadline(self) -> float | None:
        """When ``advance`` must be called; None for never."""
        if self.stage is Stage.ENDED:
            return None
        if self.stage is Stage.FINISHING:
            return self._rm.retry_at
        times = [self._rm.retry_at, self._stop_at if self.stage is Stage.STOPPING else self._timeout_at]
        if self.stage is Stage.WORKING and self._rm.registered:  # otherwise nothing is requested or started
            times.append(self._starts.next_deadline())
            if self._room > 0:
                times.append(self._waiting.next_time())
        return earliest(times)

    def advance(self, now: float) -> list[m.Command]:
        """Do everything due by ``now``."""
        if self._timeout_at is not None and now >= self._timeout_at:
            self._timeout_at = None
            self._stop(
                f"its time limit of {self.job.timeout_ms / 1000:g} s has passed",
                EXIT_TIMEOUT,
                FinalApplicationStatus.KILLED,
                now,
            )
        if self._rm.retry_due(now):
            if self.stage is Stage.FINISHING:
                self._out.append(self._farewell())
            elif not self._rm.registered:
                self._register()
        return self._pump(now)

    def succeeded(self) -> list[int]:
        """The numbers of this phase's tasks that have succeeded, in order."""
        return sorted(task.number for task in self._tasks if task.state is TaskState.SUCCEEDED)

    def validate(self) -> None:
        """Assert every invariant."""
        counts = dict.fromkeys(TaskState, 0)
        for task in self._tasks:
            counts[task.state] += 1
            if task.state in LIVE:
                assert task.container is not None and self._by_container[task.container.id] is task
        ended = sum(counts[state] for state in ENDED)
        assert self._unfinished == len(self._tasks) + self._waiting.planned - ended
        assert len(self._by_container) == sum(counts[state] for state in LIVE)
        for state in (*LIVE, TaskState.ASKED):
            assert self.tally.counts[state] == counts[state], state
        assert sum(self.tally.counts.values()) == self.tally.total
        assert all(count >= 0 for count in self.tally.counts.values())
        assert len(self._rm.asks) == counts[TaskState.ASKED]
        assert self._rm.in_flight >= 0

    # --- one step

    def _pump(self, now: float) -> list[m.Command]:
        """After every event: ask, start, finish and report as far as possible now."""
        if self.stage is Stage.WORKING and self._rm.registered:
            more = len(self.job.phases) - 1
            while not (self._unfinished or self._halted or self._is_stopping) and self._phase_index < more:
                self._begin_phase(now)
            if self._is_stopping:
                pass  # A task that failed before a restart ends the job.
            elif not self._unfinished:
                self._finish()
            else:
                self._ask(now)
                self._out += self._starts.take(now)
        if self.stage is Stage.STOPPING and (
            not self._by_container or (self._stop_at is not None and now >= self._stop_at)
        ):
            self._finish()
        if self.stage in (Stage.WORKING, Stage.STOPPING) and self._rm.due:
            self._out.append(self._rm.allocate(self.tally.summary()))
        commands, self._out = self._out, []
        return commands

    @property
    def _is_stopping(self) -> bool:
        return self.stage is not Stage.WORKING

    def _begin_phase(self, now: float) -> None:
        self._phase_index += 1
        phase = self.job.phases[self._phase_index]
        known, planned = self._earlier.begin(self._phase_index, phase, self.tally)
        self._unfinished = phase.size
        self._tasks = [task for task, _ in known]
        self._waiting.begin(planned, phase.size - len(known))
        self._launches = 0
        held = self._earlier.held()
        for task, state in known:
            if task.container is not None:
                self._launches = max(self._launches, task.shown_number)
            if state in LIVE and task.container is not None:
                self._by_container[task.container.id] = task
                self._move(task, TaskState.STARTING)
            elif state in ENDED:
                self._close(task, state)
            elif task.number not in held:
                self._waiting.add((task,))
        failed = next((task for task, state in known if state is TaskState.FAILED), None)
        if failed is not None:
            self._react_to_failure(failed, now)

    @property
    def _room(self) -> int:
        """How many more tasks may request containers now."""
        having = self.tally.counts[TaskState.ASKED] + self.tally.live
        return (self.job.max_running or self.tally.total) - having

    def _ask(self, now: float) -> None:
        self._tasks += self._waiting.make(self.tally.counts[TaskState.ASKED])
        due = self._waiting.take(now, self._room)
        if not due:
            return
        for task in due:
            self._move(task, TaskState.ASKED)
        self._rm.asks.add(due, now)
        for task in due:
            task.asked_at = now
            if task.first_asked < 0:
                task.first_asked = now

    # --- the RM's answers

    def _register(self) -> None:
        self._out.append(self._rm.register(self._earlier.awaited()))

    def _on_rm_answered(self, response: object, now: float) -> None:
        self._rm.answered(response)
        match response:
            case RegisterApplicationMasterResponse():
                if self._timeout_at is not None:
                    self._timeout_at = min(self._timeout_at, self._time_limit(now, response.elapsed_ms))
                self._on_registered(response)
            case AllocateResponse():
                self._on_allocated(response, now)
            case _:  # The RM has accepted the job's end.
                self._end()

    def _time_limit(self, now: float, elapsed_ms: int = 0) -> float:
        """The time of the job's deadline, if the job began ``elapsed_ms`` ago."""
        return now + (self.job.timeout_ms - self.job.start_ms - elapsed_ms) / 1000

    def _on_registered(self, response: RegisterApplicationMasterResponse) -> None:
        # containers of earlier attempts: which tasks they run is unknown, unless records name them
        self._rm.releases += [
            container.id
            for container in response.containers_from_previous_attempts
            if container.id not in self._by_container
        ]
        for container_id in response.ended_well:
            self._on_ended_earlier(container_id, well=True)
        for container_id in self._earlier.ending(response.ending):
            self._on_ended_earlier(container_id, well=False)
        if self.stage is Stage.NEW:
            self.stage = Stage.WORKING
        else:
            self._rm.repeat_all()

    def _on_allocated(self, response: AllocateResponse, now: float) -> None:
        if self.stage in (Stage.FINISHING, Stage.ENDED):
            return
        if response.command == AM_RESYNC:
            if self._rm.registered:  # otherwise it already registers: two calls were waiting at the RM
                self._register()
            return
        if response.command == AM_SHUTDOWN:
            self._expelled(YoppError("the ResourceManager ended this application", exit_code=143))
            return
        self._rm.acknowledge(response)
        for container in response.allocated:
            self._on_granted(container, now)
        for container_id in response.queued:
            self._on_news(container_id, TaskState.QUEUED)
        for container_id in response.started:
            self._on_news(container_id, TaskState.RUNNING)
        for updated in response.updated:
            self._on_update_granted(updated)
        for refused in filter(self._rm.is_refused, response.update_errors):
            self._notice(f"an update of a container was refused: {refused.reason}")
        if response.preempting:
            self._notice("containers of this job will be preempted soon: another queue is below its capacity")
        for status in response.completed:
            self._on_completed(status, now)
        if response.paused >= 0:
            self.tally.paused = response.paused
        for node in response.updated_nodes:
            if sentence := self._nodes.sentence(node):
                self._out.append(m.Notice(sentence))

    def _on_granted(self, container: Container, now: float) -> None:
        if container.id in self._seen:
            return
        self._seen.add(container.id)
        task = self._rm.asks.match(container)
        if task is None or self.stage is not Stage.WORKING:
            self._rm.releases.append(container.id)
            return
        self._launches += 1
        if task.phase.number_by_allocation:
            task.shown_number = self._launches
        task.container = container
        task.ask_wait_ms = max(0, round((now - task.asked_at) * 1000))
        task.upgraded = task.execution_type is not container.execution_type
        self._by_container[container.id] = task
        if self.job.map_reduce is not None or not self._hosted:
            self._rm.tasks.append(TaskAssignment(container.id, task.shown_number - 1, self._phase_index > 0))
        self._move(task, TaskState.STARTING)
        self._starts.add(task)

    def _on_news(self, container_id: str, state: TaskState) -> None:
        task = self._by_container.get(container_id)
        if task is None or task.state is state:
            return
        task.has_queued = task.has_queued or state is TaskState.QUEUED
        self._move(task, state)
        container = task.container
        if self._halted and state is TaskState.QUEUED and container is not None:
            self._stop_containers(container.node_id, container.node_address, (container.id,))
        if (
            state is TaskState.RUNNING
            and task.phase.promote
            and not task.promoted
            and container is not None
            and container.execution_type is ExecutionType.OPPORTUNISTIC
        ):
            task.promoted = True
            self._rm.updates.append(update_request(container, ContainerUpdateType.PROMOTE_EXECUTION_TYPE))

    def _on_update_granted(self, updated: UpdatedContainer) -> None:
        container = updated.container
        task = self._by_container.get(container.id)
        if task is None or task.container is None or task.container.version >= container.version:
            return
        task.container = container
        if updated.update_type is ContainerUpdateType.PROMOTE_EXECUTION_TYPE:
            self._promotions.add(container.id)
        self._out.append(
            m.CallNode(
                container.node_id,
                container.node_address,
                UpdateContainersRequest((container.token,)),
                (container.id,),
            )
        )

    def _on_updated(self, response: UpdateContainersResponse) -> None:
        for container_id in response.updated:
            task = self._by_container.get(container_id)
            if container_id in self._promotions:
                self._promotions.discard(container_id)
                self.tally.noted["promoted"] += 1
            if task is not None:
                self._report(task)
        for failed in response.failed:
            self._notice(f"{failed.container_id} could not be updated: {failed.message}")

    # --- ends of containers

    def _on_completed(self, status: ContainerStatus, now: float) -> None:
        task = self._by_container.get(status.container_id)
        if task is None:
            self._on_ended_earlier(status.container_id, well=status.exit_code == 0)
            return
        del self._by_container[status.container_id]
        task.note_end(status)
        self.tally.note_pauses(status)
        task.exit_status = status.exit_status
        task.diagnostics = status.diagnostics
        task.started_at_ms, task.finished_at_ms = status.started_at_ms, status.finished_at_ms
        stopped = self._halted and status.exit_status == ContainerExitStatus.KILLED_BY_APPMASTER
        if self.stage is not Stage.WORKING or stopped:
            task.exit_code = exit_code_of(status)
            self._close(task, TaskState.KILLED if task.exit_code else TaskState.SUCCEEDED)
        elif of_kind(status.cause, CauseKind.NODE_FAULT):
            self._again(task, now + task.backoff(status))
        elif status.exit_status == ContainerExitStatus.ABORTED:
            task.losses += 1
            self.tally.noted["lost"] += 1
            self._again(task, now + task.backoff(status))
        elif status.exit_status in PREEMPTION_STATUSES and not self.job.preempted_is_failure:
            self._on_preempted(task, status, now)
        elif (code := exit_code_of(status)) == 0:
            task.exit_code = 0
            self._close(task, TaskState.SUCCEEDED)
        else:
            task.exit_code = code
            self._on_failed(task, code, now)

    def _on_ended_earlier(self, container_id: str, *, well: bool) -> None:
        """A container of an earlier attempt has ended. If it ended well, its task needs no other container, and a
        present one is stopped; else the task, which has waited for this end, may have another container."""
        task, record, awaited = self._earlier.ended(container_id, well=well)
        if task is None or record is None or task.state in ENDED or self._is_stopping:
            return
        if not well:
            if awaited:
                self._waiting.add((task,))
            return
        was, container = task.state, task.container
        if was in LIVE and container is not None:
            del self._by_container[container.id]
            self._rm.releases.append(container.id)
        elif was is TaskState.WAITING:
            self._waiting.remove(task)
        ended_well(task, record)
        self._close(task, TaskState.SUCCEEDED)
        if was is TaskState.ASKED:
            self._rm.asks.repeat_all()

    def _on_preempted(self, task: Task, status: ContainerStatus, now: float) -> None:
        task.preemptions += 1
        self.tally.noted["preempted"] += 1
        self.tally.noted["shed"] += status.was_shed
        if task.preemptions > self.job.max_preemptions:
            task.exit_code = EXIT_TRY_AGAIN
            task.diagnostics = (
                f"preempted, shed or refused {task.preemptions} times, which is more than "
                f"yopp.am.max-preemptions-per-container = {self.job.max_preemptions} allows; "
                f"the last time: {task.diagnostics}"
            )
            self._fail(task, now)
            return
        self._again(task, now + task.backoff(status))

    def _on_failed(self, task: Task, code: int, now: float) -> None:
        task.attempts += 1
        if not task.may_try_again(code):
            self._fail(task, now)
            return
        self.tally.noted["retried"] += not self._halted
        if task.phase.retry_guaranteed:
            task.execution_type = ExecutionType.GUARANTEED
            task.priority = task.phase.retry_priority
        self._again(task, now + task.phase.retry_interval_ms / 1000)

    def _on_start_refused(self, container_id: str, message: str, now: float) -> None:
        task = self._by_container.pop(container_id, None)
        if task is None:
            return
        self._rm.releases.append(container_id)
        task.diagnostics = message
        if self.stage is not Stage.WORKING:
            self._close(task, TaskState.KILLED)
            return
        task.start_failures += 1
        if task.start_failures >= START_FAILURES:
            task.exit_code = EXIT_CANNOT_START
            self._fail(task, now)
        else:
            self._again(task, now + RETRY_SECONDS)

    def _again(self, task: Task, not_before: float) -> None:
        """Request another container; until it is granted, the reports of the task show the last one."""
        if self._halted:
            self._close(task, TaskState.KILLED)
            return
        task.promoted = False
        self._waiting.add_later(task, not_before)
        self._move(task, TaskState.WAITING)

    def _fail(self, task: Task, now: float) -> None:
        self._close(task, TaskState.FAILED)
        self._react_to_failure(task, now)

    def _react_to_failure(self, task: Task, now: float) -> None:
        if task.phase.fail_fast:
            self._stop(
                f"task {task.shown_number} of the {task.phase.name} failed: {task.diagnostics}",
                None,
                FinalApplicationStatus.FAILED,
                now,
            )
        failed, halt = self.tally.counts[TaskState.FAILED], self.job.halt
        if halt is not None and failed >= halt.failures and not self._halted and self.stage is Stage.WORKING:
            reason = f"halted: {failed} of {self.tally.total} tasks failed"
            if halt.now:
                self._stop(reason, None, FinalApplicationStatus.FAILED, now)
            else:
                self._outcome.reason, self._halted = reason, True
                self._withdraw(frozenset({TaskState.QUEUED}))

    def _close(self, task: Task, state: TaskState) -> None:
        self._move(task, state)
        self._unfinished -= 1

    def _move(self, task: Task, state: TaskState) -> None:
        self.tally.move(task, state)
        self._report(task)

    def _report(self, task: Task) -> None:
        later = self._hosted and task.state is not TaskState.WAITING
        self._out.append(m.TaskChanged(task, None if later else task.report()))

    def _notice(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            self._out.append(m.Notice(text))

    # --- failures

    def _on_call_failed(self, call: m.Call, error: YoppError, now: float) -> None:
        if isinstance(call, m.CallNode):
            lost = isinstance(error, ConnectionFailedError) and self.stage is Stage.WORKING
            if lost and self._starts.unreachable(call, now):
                return  # The call is repeated.
        else:
            self._rm.failed(call)
        match call.request:
            case StartContainersRequest():
                for container_id in call.container_ids:
                    self._on_start_refused(container_id, error.message, now)
            case StopContainersRequest():
                pass  # Later the RM ends them with the application.
            case UpdateContainersRequest():
                self._notice(f"a container could not be updated: {error.message}")
            case FinishApplicationMasterRequest() | KillApplicationRequest():
                self._on_end_untold(error, now)
            case _:
                self._on_rm_failed(error, now)

    def _on_rm_failed(self, error: YoppError, now: float) -> None:
        if self.stage in (Stage.FINISHING, Stage.ENDED):
            return
        if isinstance(error, (ApplicationNotFoundError, InvalidTokenError, ShuttingDownError)):
            self._expelled(error)
            return
        if not isinstance(error, ConnectionFailedError) or not self._rm.lost(now):
            self._outcome.error = error
            self._stop(error.message, error.exit_code, FinalApplicationStatus.FAILED, now)
        elif self._rm.loss.worth_telling(now):
            self._notice(retrying(error, self._rm.loss.patience))

    def _on_end_untold(self, error: YoppError, now: float) -> None:
        """The report of the job's end was not received, or its answer was lost: repeat it, which is harmless. A job
        that was stopped does not wait for the answer.
        """
        if self._outcome.reason or not isinstance(error, ConnectionFailedError) or not self._rm.lost(now):
            self._notice(f"the job's end could not be reported to the ResourceManager: {error.message}")
            self._end(told=False)
        elif self._rm.loss.worth_telling(now):
            self._notice(
                f"the job has ended, but its ResourceManager is unavailable: {error.message}: retrying"
            )

    def _expelled(self, error: YoppError) -> None:
        """End, since the RM no longer knows this master: there is nothing to unregister."""
        self._outcome.expelled(error)
        self._end()

    # --- the end

    def _stop(self, reason: str, exit_code: int | None, status: FinalApplicationStatus, now: float) -> None:
        """Stop live containers, then unregister. With ``exit_code`` None, the failed tasks decide the exit code."""
        if self.stage is Stage.FINISHING and self._rm.retry_at is not None:
            self._end(told=False)  # the RM cannot be reached, and no container runs any more
        if self.stage in (Stage.STOPPING, Stage.FINISHING, Stage.ENDED):
            return
        self._outcome.decide(reason, exit_code, status)
        if self.stage is Stage.NEW:
            self.stage = Stage.STOPPING
            self._finish()
            return
        self.stage = Stage.STOPPING
        self._stop_at = now + STOP_PATIENCE_SECONDS
        self._starts.clear()
        self._withdraw(LIVE)

    def _withdraw(self, states: frozenset[TaskState]) -> None:
        """Withdraw all requests, and stop the live containers of tasks in these states."""
        self._rm.asks.withdraw_all()
        unmade = self._waiting.clear()
        self.tally.drop(unmade)
        self._unfinished -= unmade
        nodes: dict[tuple[str, str], list[str]] = {}
        for task in self._tasks:
            if task.state in states and (container := task.container) is not None:
                nodes.setdefault((container.node_id, container.node_address), []).append(container.id)
            elif task.state in (TaskState.WAITING, TaskState.ASKED):
                self._close(task, TaskState.KILLED)
        for (node_id, address), ids in nodes.items():
            self._stop_containers(node_id, address, tuple(ids))

    def _stop_containers(self, node_id: str, address: str, ids: tuple[str, ...]) -> None:
        self._out.append(m.CallNode(node_id, address, StopContainersRequest(ids), ids))

    def _finish(self) -> None:
        self.stage = Stage.FINISHING
        if self._outcome.status is FinalApplicationStatus.KILLED:
            if self._rm.registered:
                self._out.append(self._rm.last_word(self._outcome.summary))
            self._out.append(self._rm.kill(self._outcome.reason))
            return
        self._out.append(self._farewell())

    def _farewell(self) -> m.CallRM:
        outcome = self._outcome
        return self._rm.finish(outcome.status, outcome.diagnostics, outcome.summary)

    def _end(self, *, told: bool = True) -> None:
        if self.stage is Stage.ENDED:
            return
        self.stage = Stage.ENDED
        self._out.append(self._outcome.end(told=told))
