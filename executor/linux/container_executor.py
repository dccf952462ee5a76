"""Performs the commands of a ContainerScheduler on this host, and posts the resulting events (YARN's
``LinuxContainerExecutor``).

Everything here runs on one asyncio loop; work that blocks for more than about a millisecond runs in a worker thread
that touches no state. Nothing is decided here: ``executor.core`` decides which containers run, pause or end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ..core import commands
from ..core.events import (
    ContainerChangeFailed,
    ContainerExited,
    ContainerRecovered,
    Event,
    NodeUtilizationSampled,
    UsageSampled,
)
from ..errors import CgroupError, ExecutorError, StateStoreError
from ..light import replace
from ..records import (
    CgroupLimits,
    ContainerRecord,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
)
from ..settings import ExecutorSettings
from .adoption import Finder
from .cgroups.base import CgroupDriver
from .cgroups.devices import DeviceGroups
from .cgroups.files import paths_below
from .cgroups.groups import check_name, may_be_container
from .cgroups.weights import NodeWeight
from .confining import kept_from_containers
from .context import ExecutorContext, LiveContainer
from .directories import Directories
from .ending import Cleaner, Ender
from .owners.accounts import Accounts
from .pausing import Pauser
from .preparing import Preparer
from .processes import RETRY_SECONDS, ExitWatcher, kill_launcher, set_subreaper
from .procfs import send
from .requests import LaunchRequests
from .slots.journals import code_of, forget_launchers
from .slots.pool import most_slots
from .starting import Starter
from .store import StateStore
from .watching.health import SHORT, HealthChecker, os_error_of
from .watching.host import HostReader
from .watching.measuring import bytes_stored, bytes_written
from .watching.monitor import Monitor, Seldom
from .watching.outputs import is_full, refusal
from .watching.repeats import Repeats
from .watching.rotation import rotate
from .watching.wall_clock import WallClock, wall_offset
from .watching.window import WindowKeeper
from .yielding import change

LOG = logging.getLogger(__name__)


class LinuxContainerExecutor:
    """The executor of real containers (YARN's ``LinuxContainerExecutor`` and ``DefaultContainerExecutor``).

    ``post`` takes its events; ``report``, if given, the statuses of ReportStatus. ``work_dir`` and
    ``state_dir`` belong to this node alone; logs stay in ``log_dir``. ``node_environment`` holds NM_HOST,
    NM_PORT and NM_HTTP_PORT. ``device_vendor`` is the vendor of the GPUs that the node assigns one by one, ""
    for none; ``device_groups`` keeps containers from opening other GPUs. The host is measured below ``proc``;
    processes that run one of ``own_markers`` as a program or module do not count as pressure, nor do
    ``own_pids``. What an earlier run left is removed only if ``is_id`` of its name. Raises OSError or
    StateStoreError if a directory cannot be made.
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
        device_vendor: str = "",
        device_groups: DeviceGroups | None = None,
        report: Callable[[ContainerStatus], None] | None = None,
        proc: str = "/proc",
        own_markers: tuple[str, ...] = (),
        own_pids: Callable[[], Collection[int]] = tuple,
        is_id: Callable[[str], bool] = may_be_container,
    ) -> None:
        self._settings = settings
        self._proc = proc
        self._own_markers = own_markers
        self._own_pids = own_pids
        self._post = post
        self._report = report
        self._cgroups = cgroups
        self._device_vendor = device_vendor
        self._device_groups = device_groups
        confined = settings.confined_containers and os.geteuid() == 0
        read_only = kept_from_containers(state_dir) if confined else ()
        self._store = StateStore(state_dir)
        accounts = Accounts(settings)
        self._directories = Directories(work_dir, log_dir, state_dir, accounts)
        requests = LaunchRequests(
            self._directories,
            accounts,
            settings,
            node_environment=node_environment or {},
            device_vendor=device_vendor,
            device_groups=device_groups,
        )
        loop = asyncio.get_running_loop()
        self._context = context = ExecutorContext(
            cgroups, self._directories, loop=loop, post=post, clock=time.monotonic
        )
        self._watcher = ExitWatcher(loop)
        seldom: dict[str, Seldom] = {}
        if settings.log_monitor_enabled or settings.log_rotation_bytes:
            seldom["log_bytes"] = Seldom(self._written, settings.log_monitor_interval_ms)
        if settings.work_dir_size_limit_bytes:
            seldom["disk_bytes"] = Seldom(self._stored, settings.work_dir_interval_ms)
        self._monitor = Monitor(
            context,
            self._running,
            self._sampled,
            virtual_memory=settings.vmem_check_enabled,
            interval_ms=settings.monitor_interval_ms,
            make_host=self._host_reader,
            seldom=seldom,
        )
        self._weights = NodeWeight(cgroups.weights(), loop)
        self._finder = Finder(context, is_id)
        self._held: dict[str, LiveContainer] = {}
        self._preparer = Preparer(
            context,
            settings.prepared_containers,
            in_use=self._held.__contains__,
        )
        self._cleaner = Cleaner(context, settings.delete_timeout_ms / 1000)
        self._pauser = Pauser(context, freezes=settings.pause_mechanism == "freezer")
        self._unrecorded: dict[str, ExecutorError] = {}
        self._repeats = Repeats(LOG)
        #: commands that wait because the host is short of a resource, in order, by container ("" for the node)
        self._late: dict[str, deque[commands.Command]] = {}
        self._health = HealthChecker(context, settings, self._directories.modes, post)
        self._ender = Ender(context, self._health)
        self._starter = Starter(
            context,
            requests,
            self._held,
            self._unrecorded,
            preparer=self._preparer,
            ender=self._ender,
            health=self._health,
            slots=most_slots(settings.pooled_groups, os.uname().release),
            read_only=read_only,
        )
        self._pool = self._starter.pool
        self._window = WindowKeeper(settings.opportunistic_window, post)
        self._wall_clock = WallClock(wall_offset(), post)

    # ---- the life of the executor itself

    def start(self, node_limits: CgroupLimits | None = None) -> None:
        """Make this node's cgroup and begin to measure. Raises CgroupError if the cgroup cannot be made."""
        self._cgroups.create_parent(node_limits)
        if self._cgroups.mode == "none":
            set_subreaper(True)
        if self._settings.monitor_enabled:
            self._monitor.start()
        self._health.start()
        self._window.start()
        self._wall_clock.start()

    def expect_containers(self) -> None:
        """Prepare for a container that will come soon: begin the parts of its start that take long."""
        self._pool.warm()

    async def close(self) -> None:
        """Finish the work under way, and stop watching. Running containers continue."""
        await self._monitor.stop()
        self._health.stop()
        self._window.stop()
        self._wall_clock.stop()
        self._weights.finish()
        self._preparer.close()
        await self._pool.close(self._store.is_open)
        if self._device_groups is not None:
            self._device_groups.remove()
        self._pauser.give_up()
        await self._context.finish()
        self._pauser.close()
        self._watcher.close()
        self._directories.close()
        self._store.close()
        if self._cgroups.mode == "none":
            set_subreaper(False)

    def remove_everything(self) -> None:
        """Remove this node's cgroup and its directories except logs, once all containers have ended."""
        self._cgroups.remove_parent()
        self._weights.removed()
        self._store.remove()
        for path in (self._directories.work, self._directories.state):
            try:
                os.rmdir(path)
            except OSError as error:
                LOG.debug("%s stays: %s", path, error.strerror)
                return  # `down` removes what is left where there is a directory of records

    @property
    def complaints(self) -> list[str]:
        """Records that could not be read at the start, one sentence each."""
        return self._store.complaints

    def log_directory(self, spec: ContainerSpec) -> str:
        """The directory of a container's output."""
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
            others=lambda: self._cgroups.processes_of_others(hierarchy),
            groups=paths_below(self._cgroups.bases.values(), hierarchy),
            suspicious=0.5 * self._settings.pressure_outside_cpu,
            yields=self._settings.group_weights and self._cgroups.weights() is not None,
            clock=self._context.clock,
        )

    def _sampled(self, event: UsageSampled | NodeUtilizationSampled) -> None:
        self._post(event)
        if isinstance(event, UsageSampled):
            self._weights.revise()
            self._ender.note_oom_kills()
            if is_full(self._directories.logs):
                for held in self._held.values():
                    if not held.output_lost:
                        held.output_lost = refusal(held.logs, ended=False)

    def _running(self) -> dict[str, bool]:
        return {
            held.container_id: held.paused
            for held in self._held.values()
            if held.pid and not held.ended and not held.over
        }

    def _written(self, container_id: str, processes: list[int]) -> int:
        held, settings = self._held.get(container_id), self._settings
        logs = "" if held is None else held.logs
        if settings.log_rotation_bytes and logs.startswith(f"{self._directories.logs}/"):
            rotate(logs, settings.log_rotation_bytes, settings.log_rotation_files)
        return bytes_written(logs, processes) if settings.log_monitor_enabled else 0

    def _stored(self, container_id: str, processes: list[int]) -> int:
        return bytes_stored(self._directories.private(container_id), processes)

    # ---- commands

    def perform(self, command: commands.Command) -> None:
        """Begin to perform one command. At most one event is posted for it, now or later.

        While the host is short of descriptors, memory or processes, the command is retried, and later
        commands for the same container wait behind it: an older record never overwrites a newer one.
        """
        waiting = self._late.get(_container_of(command)) if self._late else None
        if waiting is not None and not isinstance(command, commands.KillContainer):
            waiting.append(command)
        elif not self._performed(command):
            container_id = _container_of(command)
            self._late[container_id] = deque([command])
            self._context.loop.call_later(RETRY_SECONDS, self._perform_late, container_id)

    def _perform_late(self, container_id: str) -> None:
        waiting = self._late[container_id]
        while waiting:
            if not self._performed(waiting[0]):
                self._context.loop.call_later(RETRY_SECONDS, self._perform_late, container_id)
                return
            waiting.popleft()
        del self._late[container_id]

    def _performed(self, command: commands.Command) -> bool:
        """Perform the command. Returns False if it is to be repeated: the host is short of a resource that it needs, or
        the kernel does not let a container resume. Other errors of the kernel are told, once."""
        try:
            self._perform(command)
        except (OSError, CgroupError) as error:
            container_id, because = _container_of(command), os_error_of(error)
            if isinstance(command, commands.LaunchContainer) or not container_id:
                raise
            short = because is not None and because.errno in SHORT
            if container_id not in self._late:
                LOG.warning("%s of %s fails: %s", type(command).__name__, container_id, error)
                if not short:
                    self._post(ContainerChangeFailed(container_id, str(error)))
            return not short and not isinstance(command, commands.ResumeContainer)
        return True

    def _perform(self, command: commands.Command) -> None:
        match command:
            case commands.StoreContainer(record):
                self._write_down(record)
            case commands.ForgetContainer(container_id):
                self._forget(container_id)
            case commands.LaunchContainer(spec, limits):
                self._starter.launch(spec, limits)
            case commands.LaunchNext():
                self._starter.launch_next(command)
            case commands.RevokeNext(container_id, ends):
                following = self._pool.follows(container_id)
                if (following is None or self._pool.take_back(container_id)) and ends:
                    self._post(ContainerExited(container_id, None))
            case commands.SignalContainer(container_id, number):
                self._signal(container_id, number)
            case commands.PauseContainer(container_id, reclaim_memory):
                if (held := self._to_act_on(container_id)) is not None:
                    self._pauser.pause(held, reclaim=reclaim_memory)
            case commands.ResumeContainer(container_id):
                if (held := self._to_act_on(container_id)) is not None:
                    self._pauser.resume(held)
            case commands.KillContainer(container_id, force):
                if (held := self._to_act_on(container_id)) is not None:
                    self._ender.kill(held, force=force)
            case commands.SetLimits(container_id, limits):
                self._set_limits(container_id, limits)
            case commands.CleanUpContainer(container_id):
                self._clean_up(container_id)
            case commands.WatchHost(interval_ms, next_ms):
                self._monitor.watch(interval_ms, next_ms)
            case commands.SetNodeWeight(vcores):
                self._weights.set(vcores)
            case commands.ReportStatus(status):
                if self._report is not None:
                    self._report(status)

    def _write_down(self, record: ContainerRecord) -> None:
        container_id = record.spec.container_id
        try:
            check_name(container_id)
            self._store.store(record)
            self._unrecorded.pop(container_id, None)
            if record.state is ContainerState.SCHEDULED:
                if not (
                    self._device_vendor and record.spec.resource.others
                ):  # otherwise its GPUs are assigned at its start
                    self._preparer.waits(record.spec)
            elif record.state is not ContainerState.LAUNCHING:
                self._preparer.gone(container_id)
            elif container_id in self._held:  # it has followed another one
                self._preparer.takes(record.spec)
        except ExecutorError as error:
            # Running containers continue, but no container is started that a restart would not find again.
            self._repeats.error(str(error))
            self._unrecorded[container_id] = error

    def _forget(self, container_id: str) -> None:
        self._unrecorded.pop(container_id, None)
        self._preparer.gone(container_id)
        try:
            self._store.forget(container_id)
        except StateStoreError as error:
            self._repeats.error(str(error))

    def _to_act_on(self, container_id: str) -> LiveContainer | None:
        """The container, if its end is not on its way yet; nothing follows it from now on. Others take no signals,
        which is no error: a container may end while a command for it is under way."""
        held = self._held.get(container_id)
        if held is not None:
            self._pool.take_back(container_id)
        return None if held is None or held.ended or held.over else held

    def _signal(self, container_id: str, number: int) -> None:
        held = self._to_act_on(container_id)
        if held is not None:
            for pid in self._cgroups.processes(container_id):
                send(pid, number)

    def _watch_launcher(self, held: LiveContainer) -> None:
        """Watch the launcher of an earlier run. It ends after its container, whose exit code it has written
        by then; without a journal, the code is not known."""
        container_id = held.container_id

        def ended() -> None:
            usage = self._cgroups.usage
            try:
                code = code_of(held.journal, container_id)
            except OSError as error:
                LOG.warning("the end of %s cannot be read yet: %s", container_id, error)
                self._context.loop.call_later(RETRY_SECONDS, ended)
                return
            self._ender.has_ended(held, lambda: usage(container_id, self._context.clock()), code)

        self._watcher.watch(*held.launcher, ended)
        self._pool.adopt(held)

    def _set_limits(self, container_id: str, limits: CgroupLimits) -> None:
        if self._to_act_on(container_id) is None:
            return
        settings = self._settings
        refused = change(
            lambda: self._cgroups.processes(container_id),
            settings.opportunistic_oom_score_adj if limits.yields else 0,
            idle=limits.yields and settings.opportunistic_idle,
            for_cpu=self._cgroups.mode == "none",
        )
        if refused:
            self._post(ContainerChangeFailed(container_id, f"the kernel keeps {refused}"))
        self._cgroups.set_limits(container_id, limits)

    def _clean_up(self, container_id: str) -> None:
        held = self._held.pop(container_id, None)
        self._finder.cleaned(container_id)
        # A slot is in use by another container by now. Most containers leave nothing in their directory.
        in_slot = held is not None and held.inside and not held.journal
        if not (in_slot and self._directories.keep_private(container_id)):
            self._cleaner.clean(container_id)

    # ---- after a crash

    def recover(self) -> list[ContainerRecovered]:
        """Find the containers of this node's earlier run, in order of arrival, and remove those that have no record.

        Live containers are watched from now on. Their exits come from the loop, so a caller that posts the
        answer before it returns to the loop keeps the order. May block for a while if many have to be killed:
        call it before serving.
        """
        rebooted = self._store.rebooted()
        records = self._begin_with_records()
        self._finder.survey()
        found = [replace(self.find(record), rebooted=rebooted) for record in records]
        self._finder.remove_strangers({record.spec.container_id for record in records})
        return found

    def _begin_with_records(self) -> list[ContainerRecord]:
        """Load the records of the earlier run. After a reboot, none of them names a process."""
        rebooted = self._store.rebooted()
        records = self._store.load_all()
        if rebooted:
            LOG.warning("the machine was restarted: none of %d containers is running", len(records))
            forget_launchers(self._directories.state)
        self._store.note_boot()
        return records

    def discard(self) -> None:
        """End and remove all containers, known or left by an earlier run, and their records. Blocks."""
        known = list(self._held.values())
        for held in known:
            kill_launcher(*held.launcher)
        for record in self._begin_with_records():
            self._forget(record.spec.container_id)
        self._held.clear()
        self._finder.survey()
        self._finder.remove_strangers(set())

    def find(self, record: ContainerRecord) -> ContainerRecovered:
        """Find out the state of a recorded container (``adoption.py``), and watch it from now on if it is alive."""
        found, held = self._finder.find(record)
        logs = self._directories.log(record.spec)
        if found.exit_code is not None and record.state is not ContainerState.DONE:
            found = replace(found, output_lost=refusal(logs))
        if held is not None:
            held.logs = logs
            self._held[held.container_id] = held
            self._watch_launcher(held)
        return found


def _container_of(command: commands.Command) -> str:
    """The id of the container that a command is about; "" for the node."""
    match command:
        case commands.StoreContainer(record):
            return record.spec.container_id
        case commands.LaunchContainer(spec) | commands.LaunchNext(spec):
            return spec.container_id
    return getattr(command, "container_id", "")
