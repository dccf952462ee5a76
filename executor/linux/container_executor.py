"""Performs the commands of a ContainerScheduler on this host, and posts what came of them.

Everything here runs on one asyncio loop; what blocks for more than about a millisecond is handed to a
worker thread that touches no state. It decides nothing: which containers run, pause or die is
``executor.core``'s business.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import pwd
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any

from ..core.commands import (
    CleanUpContainer,
    Command,
    ForgetContainer,
    KillContainer,
    LaunchContainer,
    PauseContainer,
    ReportStatus,
    ResumeContainer,
    SetLimits,
    SetNodeWeight,
    SignalContainer,
    StoreContainer,
    WatchHost,
)
from ..core.events import (
    ContainerLaunched,
    ContainerLaunchFailed,
    ContainerRecovered,
    Event,
    NodeUtilizationSampled,
    UsageSampled,
)
from ..errors import CgroupError, ExecutorError, StateStoreError
from ..records import CgroupLimits, ContainerRecord, ContainerSpec, ContainerState, ContainerStatus
from ..settings import ExecutorSettings
from .adoption import Finder
from .cgroups.base import CgroupDriver, check_name
from .cleaning import Cleaner
from .containers import LiveContainer, processes_of
from .directories import Directories
from .ending import Ender
from .environment import container_environment, whitelisted
from .host import HostReader
from .monitor import Monitor
from .node_weight import NodeWeight
from .pausing import Pauser
from .preparing import Preparer, Ready
from .procfs import send
from .shim import (
    CannotLaunchError,
    ExitWatcher,
    Launcher,
    LaunchRequest,
    ShimLauncher,
    kill_shim,
    reap,
    set_subreaper,
)
from .store import StateStore

LOG = logging.getLogger(__name__)


class LinuxContainerExecutor:
    """The executor of real containers (YARN's ``LinuxContainerExecutor`` and ``DefaultContainerExecutor``).

    ``post`` takes its events; ``report``, if given, the statuses of ReportStatus. ``work_dir`` and
    ``state_dir`` are this node's alone; logs stay in ``log_dir``. ``node_environment`` holds NM_HOST,
    NM_PORT and NM_HTTP_PORT. The machine is measured below ``proc``; processes that have one of ``own_markers`` as
    a program or module are no pressure on it, nor are ``own_pids``. Raises OSError or StateStoreError where a
    directory cannot be made.
    """

    def __init__(
        self,
        settings: ExecutorSettings,
        *,
        post: Callable[[Event], None],
        work_dir: str | Path,
        log_dir: str | Path,
        state_dir: str | Path,
        cgroups: CgroupDriver,
        node_environment: Mapping[str, str] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        launcher: Launcher | None = None,
        report: Callable[[ContainerStatus], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        proc: str = "/proc",
        own_markers: tuple[str, ...] = (),
        own_pids: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._settings = settings
        self._proc = proc
        self._own_markers = own_markers
        self._own_pids = own_pids
        self._post = post
        self._report = report
        self._clock = clock
        self._cgroups = cgroups
        self._node_environment = dict(node_environment or {})
        # Once: each look into os.environ encodes and decodes.
        self._inherited = whitelisted(os.environ)
        self._loop = loop or asyncio.get_running_loop()
        self._launcher = launcher or ShimLauncher()
        self._store = StateStore(state_dir)
        self._directories = Directories(work_dir, log_dir, state_dir)
        self._watcher = ExitWatcher(self._loop)
        self._monitor = Monitor(
            cgroups,
            self._running,
            self._sampled,
            virtual_memory=settings.vmem_check_enabled,
            interval_ms=settings.monitor_interval_ms,
            clock=clock,
            host=self._host_reader,
        )
        self._weights = NodeWeight(cgroups, self._loop)
        self._finder = Finder(self._store, self._directories, cgroups, clock)
        self._held: dict[str, LiveContainer] = {}
        self._preparer = Preparer(
            settings.prepared_containers,
            make_request=self._request,
            in_use=self._held.__contains__,
            launcher=self._launcher,
            cgroups=cgroups,
            directories=self._directories,
            watcher=self._watcher,
            loop=self._loop,
        )
        self._cleaner = Cleaner(cgroups, self._directories, self._spawn, settings.delete_timeout_ms / 1000)
        self._pauser = Pauser(
            cgroups,
            freezes=settings.pause_mechanism == "freezer",
            post=post,
            spawn=self._spawn,
            loop=self._loop,
        )
        self._ender = Ender(cgroups, post=post, spawn=self._spawn, loop=self._loop, clock=clock)
        self._unrecorded: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._user, self._home = _account()

    # ---- the life of the executor itself

    def start(self, node_limits: CgroupLimits | None = None) -> None:
        """Make this node's cgroup and begin to measure. CgroupError where the cgroup cannot be made."""
        self._cgroups.create_parent(node_limits)
        if self._cgroups.mode == "none":
            set_subreaper(True)
        if self._settings.monitor_enabled:
            self._monitor.start(self._loop)

    async def close(self) -> None:
        """Finish what is under way and watch nothing any more. Containers that still run go on."""
        await self._monitor.stop()
        self._weights.finish()
        await self._preparer.close()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._watcher.close()

    def remove_everything(self) -> None:
        """Remove this node's cgroup and its (then empty) directories, logs excepted. All containers have
        ended.
        """
        self._cgroups.remove_parent()
        self._weights.removed()
        if self._cgroups.mode == "none":
            set_subreaper(False)
        for path in (self._directories.work, self._directories.state):
            try:
                os.rmdir(path)
            except OSError as error:
                LOG.debug("%s stays: %s", path, error.strerror)

    @property
    def complaints(self) -> list[str]:
        """Records that could not be read at the start, one sentence each."""
        return self._store.complaints

    def log_directory(self, spec: ContainerSpec) -> str:
        """Where a container's output goes."""
        return self._directories.log(spec)

    def _host_reader(self, counted: Callable[[], float]) -> HostReader:
        hierarchy = self._settings.cgroups_hierarchy

        def yopp_seconds() -> float:
            seconds = self._cgroups.cpu_seconds(hierarchy)
            return counted() if seconds is None else seconds

        return HostReader(
            yopp_seconds,
            proc=self._proc,
            markers=self._own_markers,
            own_pids=self._own_pids,
            hierarchy=hierarchy.strip("/"),
            suspicious=0.5 * self._settings.pressure_outside_cpu,
            clock=self._clock,
        )

    def _sampled(self, event: UsageSampled | NodeUtilizationSampled) -> None:
        self._post(event)
        if isinstance(event, UsageSampled):
            self._weights.check()

    def _running(self) -> list[str]:
        return [held.container_id for held in self._held.values() if not held.ended]

    # ---- commands

    def perform(self, command: Command) -> None:
        """Begin to carry out one command. Posts at most one event for it, now or later."""
        match command:
            case StoreContainer(record):
                self._write_down(record)
            case ForgetContainer(container_id):
                self._forget(container_id)
            case LaunchContainer(spec, limits):
                self._launch(spec, limits)
            case SignalContainer(container_id, number):
                self._signal(container_id, number)
            case PauseContainer(container_id, reclaim_memory):
                if (held := self._live(container_id)) is not None:
                    self._pauser.pause(held, reclaim=reclaim_memory)
            case ResumeContainer(container_id):
                if (held := self._live(container_id)) is not None:
                    self._pauser.resume(held)
            case KillContainer(container_id, force):
                if (held := self._live(container_id)) is not None:
                    self._ender.kill(held, force=force)
            case SetLimits(container_id, limits):
                self._set_limits(container_id, limits)
            case CleanUpContainer(container_id):
                self._clean_up(container_id)
            case WatchHost(interval_ms):
                self._monitor.watch(interval_ms, self._loop)
            case SetNodeWeight(vcores):
                self._weights.set(vcores)
            case ReportStatus(status):
                if self._report is not None:
                    self._report(status)

    def _write_down(self, record: ContainerRecord) -> None:
        container_id = record.spec.container_id
        try:
            check_name(container_id)
            self._store.store(record)
            self._unrecorded.pop(container_id, None)
            if record.state is ContainerState.SCHEDULED:
                self._preparer.waits(record.spec)
            elif record.state is not ContainerState.LAUNCHING:
                self._preparer.gone(container_id)
        except ExecutorError as error:
            # What runs goes on; but nothing is started that a restart would not find again.
            LOG.error("%s", error)
            self._unrecorded[container_id] = str(error)

    def _forget(self, container_id: str) -> None:
        self._unrecorded.pop(container_id, None)
        self._preparer.gone(container_id)
        try:
            self._store.forget(container_id)
        except StateStoreError as error:
            LOG.error("%s", error)

    def _launch(self, spec: ContainerSpec, limits: CgroupLimits) -> None:
        container_id = spec.container_id
        if container_id in self._held:
            LOG.warning("%s was started already", container_id)
            return
        try:
            check_name(container_id)
            if container_id in self._unrecorded:
                raise CannotLaunchError(self._unrecorded[container_id])
            ready = self._begin_prepared(spec, limits)
            if ready is None:
                self._directories.prepare(spec)
                request = self._request(spec, self._cgroups.create(container_id, limits))
                launched = self._launcher.launch(request)
            else:
                request, launched = ready.prepared.request, ready.prepared.launched
        except ExecutorError as error:
            code = error.exit_code if isinstance(error, CannotLaunchError) else 125
            self._post(ContainerLaunchFailed(container_id, str(error), code))
            return
        held = self._held[container_id] = LiveContainer(
            container_id, launched.pid, launched.start, request.exit_file
        )
        self._cgroups.started(
            container_id, self._directories.traces(container_id, launched.pid, launched.start)
        )
        self._post(
            ContainerLaunched(container_id, launched.pid, launched.start, self._cgroups.path(container_id))
        )
        # Only now: an exit that is instant must not overtake the launch.
        if ready is None:
            self._watch(held, is_child=True)
        else:
            ready.on_end = lambda end: self._ender.shim_ended(held, end)

    def _begin_prepared(self, spec: ContainerSpec, limits: CgroupLimits) -> Ready | None:
        """Let a container begin that was made ready for it, within its limits; None where none was."""
        ready = self._preparer.take(spec)
        if ready is None:
            return None
        try:
            self._cgroups.set_limits(spec.container_id, limits)
        except CgroupError:
            ready.prepared.abandon()
            raise
        return ready if ready.prepared.release() else None

    def _request(self, spec: ContainerSpec, join: tuple[str, ...]) -> LaunchRequest:
        private = self._directories.private(spec.container_id)
        working = os.path.abspath(spec.working_directory) if spec.working_directory is not None else private
        logs = self._directories.log(spec)
        return LaunchRequest(
            container_id=spec.container_id,
            command=spec.command,
            environment=container_environment(
                spec,
                node_environment=self._node_environment,
                inherited=self._inherited,
                private_directory=private,
                working_directory=working,
                log_directory=logs,
                user=self._user,
                home=self._home,
            ),
            working_directory=working,
            stdout=os.path.join(logs, "stdout"),
            stderr=os.path.join(logs, "stderr"),
            exit_file=self._directories.next_exit_file(spec.container_id),
            join=join,
        )

    def _live(self, container_id: str) -> LiveContainer | None:
        """A container whose end has not been told yet. Others are beyond all signals, which is no error: they may
        end while a command is on its way.
        """
        held = self._held.get(container_id)
        return None if held is None or held.ended else held

    def _signal(self, container_id: str, number: int) -> None:
        held = self._live(container_id)
        if held is not None:
            for pid in processes_of(held, self._cgroups):
                send(pid, number)

    def _watch(self, held: LiveContainer, *, is_child: bool = False) -> None:
        self._watcher.watch(
            held.pid, held.start, lambda end: self._ender.shim_ended(held, end), is_child=is_child
        )

    def _set_limits(self, container_id: str, limits: CgroupLimits) -> None:
        if self._live(container_id) is None:
            return
        try:
            self._cgroups.set_limits(container_id, limits)
        except CgroupError as error:
            LOG.warning("the limits of %s stay as they were: %s", container_id, error)

    def _clean_up(self, container_id: str) -> None:
        self._held.pop(container_id, None)
        self._directories.remove_exit_files(container_id)
        self._cleaner.clean(container_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Tasks do not raise for what the world does: this is a bug, and the owner of the loop ends for
            # it.
            self._loop.call_exception_handler(
                {"message": "performing a command failed", "exception": error, "task": task}
            )

    # ---- after a crash

    def recover(self) -> list[ContainerRecovered]:
        """Find the containers of this node's earlier life, in order of arrival, and remove what has no
        record.

        Those alive are watched from now on; their exits come from the loop, so whoever posts the answer
        before giving way to the loop keeps the order. May block for a while where a lot has to be killed:
        call it before serving.
        """
        records = self._store.load_all()
        found = [self.find(record) for record in records]
        self._finder.remove_strangers({record.spec.container_id for record in records})
        return found

    def discard(self) -> None:
        """End and remove all containers, known or left by an earlier life, records included. Blocks."""
        known = list(self._held.values())
        for held in known:
            # One of this very moment has no command line yet, by which strangers are found.
            kill_shim(held.pid, held.start)
        for record in self._store.load_all():
            self._forget(record.spec.container_id)
        self._held.clear()
        self._finder.remove_strangers(set())
        for held in known:
            reap(held.pid)

    def find(self, record: ContainerRecord) -> ContainerRecovered:
        """What is true of a container that was written down (``adoption.py``); one alive is watched from now
        on.
        """
        found, held = self._finder.find(record)
        if held is not None:
            self._held[held.container_id] = held
            self._watch(held)
        return found


def _account() -> tuple[str, str]:
    """The name and the home directory of who runs this."""
    try:
        entry = pwd.getpwuid(os.geteuid())
        return entry.pw_name, entry.pw_dir
    except KeyError:
        try:
            return getpass.getuser(), os.environ.get("HOME", "/")
        except (KeyError, OSError):
            return str(os.geteuid()), os.environ.get("HOME", "/")
