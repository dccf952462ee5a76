"""The executor as a library: submit commands, wait for them, promote, pause and kill them.

It connects the machine of ``core``, the driver and the Linux executor, and adds nothing to their decisions
and actions. It belongs to one event loop, and must not be used from several threads.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import itertools
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from .causes import Cause, CauseKind
from .core import events
from .core.commands import Command
from .core.scheduler import ContainerScheduler
from .driver import Driver
from .errors import ContainerNotFoundError, ExecutorError, InvalidResourceError, reason_of
from .light import Record
from .linux.cgroups import CgroupDriver, CgroupReport, discover
from .linux.container_executor import LinuxContainerExecutor
from .linux.watching.wall_clock import wall_offset
from .records import (
    ContainerExitStatus,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    OpportunisticContainersStatus,
    Resource,
)
from .regular import open_regular
from .settings import ExecutorSettings

KILLED_ON_REQUEST = "Container killed on request."
KILLED_AT_CLOSE = "Container killed because its executor was closed."


class ExecutorStats(Record):
    """The resources and containers of an executor: ``allocated`` to containers of both types, ``available``
    the rest."""

    total: Resource
    allocated: Resource
    available: Resource
    running: int
    paused: int
    queued: int
    finished: int
    opportunistic: OpportunisticContainersStatus


class Job:
    """One submitted command."""

    def __init__(self, executor: Executor, spec: ContainerSpec, log_directory: str) -> None:
        self.container_id = spec.container_id
        self.spec = spec
        self.stdout = os.path.join(log_directory, "stdout")
        self.stderr = os.path.join(log_directory, "stderr")
        self._executor = executor
        self._ended: asyncio.Future[ContainerStatus] = asyncio.get_running_loop().create_future()

    async def wait(self) -> ContainerStatus:
        """Wait until the job has ended. Raises ExecutorError only if the executor itself failed."""
        return await asyncio.shield(self._ended)

    @property
    def done(self) -> bool:
        """Whether the job has ended."""
        return self._ended.done()

    @property
    def status(self) -> ContainerStatus:
        """The job's present status."""
        if self._ended.done():
            return self._ended.result()
        return self._executor.status(self.container_id)

    def kill(self, *, force: bool = False) -> None:
        """End the job: SIGTERM, then SIGKILL after the configured delay; ``force`` sends SIGKILL at once."""
        self._executor.kill(self.container_id, force=force)

    def signal(self, number: int) -> None:
        """Send a signal to every process of the job."""
        self._executor.signal(self.container_id, number)

    def promote(self) -> None:
        """Make the job's container guaranteed."""
        self._executor.promote(self.container_id)

    def demote(self) -> None:
        """Make the job's container opportunistic."""
        self._executor.demote(self.container_id)

    def pause(self) -> None:
        """Pause the job until ``resume``."""
        self._executor.pause(self.container_id)

    def resume(self) -> None:
        """Resume the job as soon as there is room for it."""
        self._executor.resume(self.container_id)

    def _end(self, status: ContainerStatus) -> None:
        if not self._ended.done():
            self._ended.set_result(status)

    def _fail(self, error: BaseException) -> None:
        if not self._ended.done():
            broken = ExecutorError("the executor failed", because=f"{type(error).__name__}: {error}")
            broken.__cause__ = error
            self._ended.set_exception(broken)
            self._ended.exception()  # retrieved, so that asyncio does not warn if nobody waits for it


class Executor:
    """Runs commands as containers within ``total``.

    ``work_dir`` holds private directories while containers run, and their output under ``logs``, which stays.
    It is locked against a second executor; containers that a killed executor left in it are ended and
    removed. With ``cgroups`` None, the executor uses what the host offers (see ``describe``). The host is
    measured below ``proc``. Use it as ``async with``, which ends running containers.
    """

    def __init__(
        self,
        total: Resource,
        *,
        work_dir: str | Path,
        settings: ExecutorSettings | None = None,
        cgroups: CgroupDriver | None = None,
        node_environment: Mapping[str, str] | None = None,
        validate: bool = False,
        proc: str = "/proc",
    ) -> None:
        if total.memory <= 0 or total.vcores <= 0:
            raise InvalidResourceError(f"an executor of {total} cannot run any container")
        self.total = total
        self.settings = settings or ExecutorSettings()
        self.work_dir = Path(work_dir).absolute()
        self._cgroups = cgroups
        self._node_environment = dict(node_environment or {})
        self._validate = validate
        self._proc = proc
        self._jobs: dict[str, Job] = {}
        self._ended: deque[str] = deque()
        self._numbers = itertools.count(1)
        self._lock = -1
        self._open = False

    async def __aenter__(self) -> Executor:
        """Lock the directory, choose cgroups, and remove what an earlier executor left. Raises ExecutorError
        if that fails."""
        self._take_lock()
        try:
            self._start()
        finally:
            if not self._open:
                self._release_lock()
        return self

    def _start(self) -> None:
        name = hashlib.sha256(os.fsencode(os.path.realpath(self.work_dir))).hexdigest()[:12]
        if self._cgroups is None:
            self._cgroups = discover(self.settings, group=f"executor-{name}")
        self._machine = ContainerScheduler(
            self.total,
            self.settings,
            physical_cores=os.cpu_count() or 1,
            wall_offset=wall_offset(),
            enforce_memory_by_polling=not self._cgroups.enforces_memory,
        )
        self._driver: Driver[events.Event, Command] = Driver(
            self._machine,
            lambda command: self._linux.perform(command),
            crash_dir=self.work_dir,
            on_crash=lambda error, _: self._failed(error),
            validate=self._validate,
        )
        try:
            self._linux = LinuxContainerExecutor(
                self.settings,
                post=self._driver.post,
                work_dir=self.work_dir / "containers",
                log_dir=self.work_dir / "logs",
                state_dir=self.work_dir / "state",
                cgroups=self._cgroups,
                node_environment=self._node_environment,
                report=self._reported,
                proc=self._proc,
            )
        except OSError as error:
            raise self._unusable(error) from error
        self._linux.discard()
        self._linux.start()
        self._open = True
        self._driver.post(events.RecoveryCompleted())

    def _unusable(self, error: OSError) -> ExecutorError:
        return ExecutorError(f"{self.work_dir} cannot be used", because=reason_of(error))

    async def __aexit__(self, *_: object) -> None:
        """End running containers, wait for their end, and remove cgroups and private directories; logs stay."""
        self._open = False
        try:
            if self._driver.crash is None:
                living = [job for job in self._jobs.values() if not job.done]
                for job in living:
                    self._request_end(job.container_id, CauseKind.NODE_STOPPED, KILLED_AT_CLOSE, force=False)
                await asyncio.gather(*(job.wait() for job in living))
            await self._linux.close()
            if self._driver.crash is not None:
                self._linux.discard()
            self._driver.close()
            self._linux.remove_everything()
        finally:
            self._release_lock()

    def submit(
        self,
        command: Sequence[str],
        *,
        resource: Resource | None = None,
        execution_type: ExecutionType = ExecutionType.GUARANTEED,
        environment: Mapping[str, str] | None = None,
        working_directory: str | Path | None = None,
        files: Mapping[str, str] | None = None,
        container_id: str | None = None,
        priority: int = 0,
        timeout_ms: int = 0,
        duration_hint_ms: int = 0,
        log_directory: str | Path | None = None,
        application_id: str = "",
    ) -> Job:
        """Submit a command (an argument vector, no shell); its container starts, queues, or is refused,
        depending on its type.

        ``resource`` None is one vcore and 1024 MiB, or all the memory if there is less. ``application_id``
        names the job that policies count the container to. Raises InvalidResourceError for more than this
        executor can ever give; ExecutorError for no command, an id in use, or a closed executor.
        """
        self._check_open()
        if not command or isinstance(command, str):
            raise ExecutorError("no command was given", hint='pass a list of words, such as ["sleep", "10"]')
        wanted = Resource(min(1024, self.total.memory), 1) if resource is None else resource
        if wanted.memory < 0 or wanted.vcores < 0 or not wanted.fits_in(self.total):
            raise InvalidResourceError(
                f"a container of {wanted} can never run here",
                because=f"the largest that this executor can hold is {self.total}",
            )
        for path in (working_directory, log_directory):
            if path is not None and "\0" in os.fspath(path):
                raise ExecutorError(f"{os.fspath(path)!r} cannot be a directory", because="it has a NUL byte")
        name = container_id if container_id is not None else self._next_id()
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise ExecutorError(f"{name!r} cannot be the id of a container")
        if name in self._jobs:
            raise ExecutorError(f"the container {name} already exists")
        spec = ContainerSpec(
            container_id=name,
            command=tuple(command),
            resource=wanted,
            execution_type=execution_type,
            priority=priority,
            environment=dict(environment or {}),
            working_directory=os.fspath(working_directory) if working_directory is not None else None,
            files=dict(files or {}),
            log_directory=os.fspath(log_directory) if log_directory is not None else None,
            timeout_ms=timeout_ms,
            duration_hint_ms=duration_hint_ms,
            application_id=application_id,
        )
        job = self._jobs[name] = Job(self, spec, self._linux.log_directory(spec))
        self._driver.post(events.ContainerScheduled(spec))
        return job

    def job(self, container_id: str) -> Job:
        """A job by its id. Raises ContainerNotFoundError."""
        try:
            return self._jobs[container_id]
        except KeyError:
            raise ContainerNotFoundError(f"there is no container {container_id!r}") from None

    def status(self, container_id: str) -> ContainerStatus:
        """The present status of a container. Raises ContainerNotFoundError if it is unknown, or already
        forgotten."""
        self.job(container_id)
        for status in self._machine.statuses((container_id,)):
            return status
        raise ContainerNotFoundError(f"{container_id!r} ended long ago and is no longer known")

    def statuses(self) -> list[ContainerStatus]:
        """All containers: the live ones in order of arrival, then the finished ones that are remembered."""
        return self._machine.statuses()

    def stats(self) -> ExecutorStats:
        """The resources, and the numbers of containers."""
        statuses = self._machine.statuses()
        states = [status.state for status in statuses]
        paused = states.count(ContainerState.PAUSED) + states.count(ContainerState.RESUMING)
        queued, finished = states.count(ContainerState.SCHEDULED), states.count(ContainerState.DONE)
        return ExecutorStats(
            total=self.total,
            allocated=self._machine.allocated,
            available=self._machine.available,
            running=len(states) - paused - queued - finished,
            paused=paused,
            queued=queued,
            finished=finished,
            opportunistic=self._machine.opportunistic_status(),
        )

    def describe(self) -> CgroupReport:
        """What enforces limits on this host, and its limitations."""
        self._check_open()
        assert self._cgroups is not None
        return self._cgroups.describe()

    def kill(self, container_id: str, *, force: bool = False) -> None:
        """End a container; does nothing if it has ended."""
        self.job(container_id)
        self._request_end(container_id, CauseKind.PERSON, KILLED_ON_REQUEST, force=force)

    def signal(self, container_id: str, number: int) -> None:
        """Send a signal to every process of a running container."""
        self.job(container_id)
        self._driver.post(events.ContainerSignalRequested(container_id, number))

    def pause(self, container_id: str) -> None:
        """Pause a running container until ``resume``."""
        self.job(container_id)
        self._driver.post(events.ContainerPauseRequested(container_id, "Container paused on request."))

    def resume(self, container_id: str) -> None:
        """Resume a container that ``pause`` stopped."""
        self.job(container_id)
        self._driver.post(events.ContainerResumeRequested(container_id))

    def promote(self, container_id: str) -> None:
        """Make an opportunistic container guaranteed, whether it runs, waits or is paused."""
        self._change_type(container_id, ExecutionType.GUARANTEED)

    def demote(self, container_id: str) -> None:
        """Make a guaranteed container opportunistic."""
        self._change_type(container_id, ExecutionType.OPPORTUNISTIC)

    def _change_type(self, container_id: str, execution_type: ExecutionType) -> None:
        version = self.status(container_id).version + 1
        self._driver.post(events.ContainerUpdated(container_id, version, execution_type=execution_type))

    def _request_end(self, container_id: str, why: CauseKind, diagnostics: str, *, force: bool) -> None:
        status = int(ContainerExitStatus.KILLED_BY_APPMASTER)
        self._driver.post(events.ContainerKillRequested(container_id, status, diagnostics, force, Cause(why)))

    def _next_id(self) -> str:
        return next(name for number in self._numbers if (name := f"container_{number:06}") not in self._jobs)

    def _reported(self, status: ContainerStatus) -> None:
        if status.state is not ContainerState.DONE:
            return
        job = self._jobs.get(status.container_id)
        if job is not None:
            job._end(status)
            self._ended.append(status.container_id)
            # A job whose caller still holds it remains usable; only its id is forgotten, when the machine
            # forgets it.
            while len(self._ended) > self.settings.retain_finished:
                del self._jobs[self._ended.popleft()]
        self._driver.step(lambda _: self._machine.forget([status.container_id]))

    def _failed(self, error: BaseException) -> None:
        for job in self._jobs.values():
            job._fail(error)

    def _check_open(self) -> None:
        if self._open and self._driver.crash is not None:
            raise ExecutorError("the executor failed", because=str(self._driver.crash))
        if not self._open:
            raise ExecutorError(
                "the executor is not open", hint="use it as `async with Executor(...) as executor:`"
            )

    def _take_lock(self) -> None:
        try:
            self.work_dir.mkdir(parents=True, exist_ok=True)
            self._lock = open_regular(os.fspath(self.work_dir / "lock"), os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ExecutorError(
                f"{self.work_dir} is in use",
                because="another executor works in it",
                hint="choose another work_dir",
            ) from None

    def _release_lock(self) -> None:
        os.close(self._lock)
