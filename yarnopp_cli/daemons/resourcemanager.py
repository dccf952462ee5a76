"""The ResourceManager's daemon: ``python -m yarnopp_cli.daemons resourcemanager --run-dir DIR``.

SIGTERM ends only this process: the NodeManagers of a cluster that stays keep their containers and wait for
the next ResourceManager; those of an on-demand cluster end themselves. The call shutdownCluster ends the
whole cluster.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Sequence
from typing import cast

from executor.driver import Driver
from executor.linux.procfs import boot_id
from executor.linux.threads import beside
from executor.linux.watching.wall_clock import WallClock, wall_offset
from executor.runner import write_crash_report

from .. import __version__
from ..allocation.host_capacity import HostMeasured
from ..clock import now_ms
from ..cluster.rundir import SITE
from ..errors import YoppError
from ..machine.calls import CallReceived, ConnectionLost, PagesServed, Reply, ReplyError, StopDaemon
from ..machine.restarts import DaemonRestarted
from ..records.admin_protocol import RefreshQueuesRequest, RefreshQueuesResponse, UpdateNodeResourceRequest
from ..records.client_protocol import SetLifetimeResponse
from ..records.job_protocol import SubmitApplicationRequest, SubmitJobRequest
from ..records.methods import Request, ResponseT
from ..records.reports import STAY
from ..records.state import StoreCommand, StoredCluster, latest
from ..records.tracker_protocol import RegisterNodeManagerRequest
from ..resourcemanager.commands import (
    Command,
    ForgetState,
    JobPlaced,
    KeepCrash,
    KeepEvents,
    KeepHistory,
    PlaceByCopy,
    Placement,
)
from ..resourcemanager.context import Identity, RMContext
from ..resourcemanager.machine import Event, ResourceManager
from ..rpc.methods import RM_METHODS
from ..rpc.server import RpcServer
from ..settings.declarations import DaemonSettings, IpcSettings, NodeManagerSettings, ResourceManagerSettings
from ..settings.loading import Configuration, read_queues
from ..settings.queues import CapacitySchedulerSettings
from ..settings.rules import RM_ADDRESS
from .event_log import EventLog
from .process import DaemonProcess, argument_parser, bounds_of, run
from .retention import HistoryFiles
from .state_file import StateFile
from .watcher import Watcher
from .web import DaemonWeb

LOG = logging.getLogger(__name__)


class ResourceManagerDaemon:
    """One ResourceManager: its machine, its driver, its server."""

    def __init__(self, process: DaemonProcess, configuration: Configuration) -> None:
        self._process = process
        self._lifetime: str = process.arguments.lifetime
        self._configuration = configuration
        self._settings = configuration.settings(ResourceManagerSettings)
        node_settings = configuration.settings(NodeManagerSettings)
        began_ms = now_ms()
        self._state = StateFile(process.run_dir.rm_state_file) if self._settings.recovery_enabled else None
        self._records = self._state.load() if self._state is not None else []
        cluster = next((one for one in self._records if isinstance(one, StoredCluster)), None)
        self._unwritten: list[StoreCommand] = []
        self._held: list[Command] = []
        self._events = EventLog(process.run_dir.rm_events_file, self._settings.event_history_size)
        self._checkpoint: asyncio.Task[None] | None = None
        self._copies: set[asyncio.Task[None]] = set()
        context = RMContext(
            self._settings,
            Identity(
                cluster_timestamp=began_ms if cluster is None else cluster.cluster_timestamp,
                started_at_ms=began_ms,
                boot_id=boot_id(),
                wall_offset=wall_offset(),
                run_dir=process.run_dir.path,
                address=f"unix:{process.run_dir.rm_socket}",
                log_dir=node_settings.log_dirs,
                pid=os.getpid(),
                version=__version__,
                properties=configuration.non_default(),
            ),
            rng=random.Random(),
            secret=os.urandom(32) if cluster is None else bytes.fromhex(cluster.secret),
            lifetime=self._lifetime,
            heartbeat_wait=node_settings.heartbeat_mode == "event-driven",
            distributed=node_settings.distributed_scheduling_enabled,
            capacity=configuration.settings(CapacitySchedulerSettings),
            queues=configuration.queues(),
        )
        context.losses = tuple(self._state.losses) if self._state is not None else ()
        self._machine = ResourceManager(context, read_queues)
        self._driver: Driver[Event, Command] = Driver(
            self._machine,
            self._perform,
            crash_dir=process.run_dir.path,
            on_crash=process.crashed,
            validate=process.arguments.validate,
        )
        bounds = bounds_of(configuration.settings(IpcSettings))
        self._server = RpcServer(RM_METHODS, self._called, bounds=bounds)
        self._histories = HistoryFiles(process.run_dir, self._settings.retained_histories)
        self._web = DaemonWeb(process, configuration, "resourcemanager", self._post)
        most = configuration.settings(DaemonSettings).restart_max_tries
        self._watcher = Watcher(process, most, self._driver.post)
        self._wall_clock = WallClock(context.identity.wall_offset, self._driver.post)

    def _post(self, event: CallReceived | ConnectionLost | PagesServed) -> None:
        """Post an event; before a request to resize nodes, the limits of the host. An application that nobody waits
        for, and that would be lost with this process, is refused."""
        if (
            isinstance(event, CallReceived)
            and isinstance(event.request, SubmitApplicationRequest | SubmitJobRequest)
            and not (isinstance(event.request, SubmitJobRequest) and event.request.attached)
            and (lacks := self._cannot_store()) is not None
        ):
            self._do(ReplyError(event.call_id, lacks))
            return
        if isinstance(event, CallReceived) and isinstance(event.request, UpdateNodeResourceRequest):
            from ..cluster.capacity import capacity_of_host  # 10 ms that no start of a cluster should take

            self._driver.post(HostMeasured(capacity_of_host(self._configuration)))
        self._driver.post(event)

    def read(self, request: Request[ResponseT]) -> ResponseT:
        """Answer a read, after the records of everything that it sees are written. Raises YoppError."""
        if self._held:
            self._write()
        return cast(ResponseT, self._machine.read(request, time.monotonic()))

    def _called(self, event: CallReceived | ConnectionLost) -> None:
        """Answer a read, post another call from a socket. A node that registers is watched from then on."""
        if isinstance(event, CallReceived) and self._machine.reads(event.request):
            try:
                self._server.perform(Reply(event.call_id, self.read(event.request)))
            except YoppError as error:
                self._server.perform(ReplyError(event.call_id, error))
            return
        self._post(event)
        if isinstance(event, CallReceived) and isinstance(event.request, RegisterNodeManagerRequest):
            self._watcher.look_at_nodes()

    def _perform(self, command: Command) -> None:
        """Perform a command. Commands that follow a record are performed once the records of this turn of the
        loop are written. A history is stored at once, before the record that marks it as stored.
        """
        if isinstance(command, KeepHistory):
            self._histories.keep(command.history, if_missing=command.if_missing)
        elif self._state is not None and isinstance(command, StoreCommand | KeepEvents):
            if not self._held:
                asyncio.get_running_loop().call_soon(self._write)
            self._held.append(command)
        elif self._held:
            self._held.append(command)
        else:
            self._do(command)

    def _write(self) -> None:
        """Write the held records and events, then perform the other held commands."""
        held, self._held = self._held, []
        if self._state is not None:
            self._unwritten += [command for command in held if isinstance(command, StoreCommand)]
            self._unwritten = [] if self._state.write(self._unwritten) else latest(self._unwritten)
            if self._state.wants_checkpoint:
                self._checkpoint = asyncio.create_task(beside(None, self._state.checkpoint))
        self._events.append([event for one in held if isinstance(one, KeepEvents) for event in one.events])
        with self._server.together():
            for command in held:
                if not isinstance(command, StoreCommand):
                    self._do(command)

    def _cannot_store(self) -> YoppError | None:
        """Why records are not written; what could not be written before is tried again."""
        if self._state is None or not self._unwritten:
            return None
        if self._state.write(self._unwritten):
            self._unwritten = []
        return self._state.failed

    def _do(self, command: Command) -> None:
        if isinstance(command, StopDaemon):
            self._process.stop(command.reason)
        elif isinstance(command, ForgetState):
            if self._state is not None:
                self._state.close()
                self._state = None
                self._events.close()
                self._process.run_dir.forget_rm_state()
        elif isinstance(command, PlaceByCopy):
            self._place_by_copy(command.call)
        elif isinstance(command, KeepCrash):
            crash = command.crash
            path = write_crash_report(self._process.run_dir.path, crash.error, crash.history)
            LOG.error("the master of %s failed: %s; report: %s", command.application_id, crash, path)
        elif isinstance(command, Reply | ReplyError):
            if isinstance(command, Reply) and isinstance(command.response, SetLifetimeResponse):
                if command.response.info.lifetime == STAY:
                    self._web.open_late(self.read, self._process.run_dir, self._configuration)
            elif isinstance(command, Reply) and isinstance(command.response, RefreshQueuesResponse):
                self._keep_queues(command.response.request)
            self._web.calls.perform(command)
            self._server.perform(command)

    def _place_by_copy(self, call: CallReceived) -> None:
        """Let a copy of this process place the job of a call."""
        from .copies import ask_copy  # dry runs are rare

        def place() -> Placement:
            from ..whatif.cluster import place

            return place(self._machine, call, time.monotonic())

        def tell(found: Placement | None, failed: str) -> None:
            self._driver.post(JobPlaced(call, found, failed))

        ask_copy(self._copies, place, Placement, tell)

    def _begin(self, now: float) -> list[Command]:
        """Recover from the stored state, and perform what is due."""
        records, self._records = self._records, []
        events = self._events.load() if self._state is not None else []
        return [*self._machine.recover(records, now, events), *self._machine.advance(now)]

    def _tell_restart(self) -> None:
        """Record an event if the previous RM died and a node has restarted it."""
        given = self._process.arguments
        if given.restarted_by:
            self._driver.post(DaemonRestarted("rm", given.restarted_by, given.tries, given.died))
            if not self._settings.recovery_enabled:
                LOG.warning("the earlier one's state is lost: yarn.resourcemanager.recovery.enabled is false")

    def _keep_queues(self, request: RefreshQueuesRequest) -> None:
        """Store the new queues in site.json, so that the next ResourceManager of this cluster
        starts with them."""
        if request.dry_run:
            return
        given = {one.name: (one.value, one.origin) for one in request.properties}
        self._configuration = self._configuration.with_scheduler(given)
        try:
            self._process.run_dir.write(SITE, self._configuration.to_json())
        except YoppError as error:
            LOG.warning("the new queues apply until this ResourceManager ends: %s", error)

    async def serve(self) -> int:
        """Serve until the daemon is asked to end; the exit code."""
        self._process.on_signals(self._process.stop)
        try:
            await self._server.listen_unix(self._process.run_dir.rm_socket)
            if self._settings.address:
                await self._server.listen_tcp(self._settings.address, RM_ADDRESS)
            if self._lifetime == STAY:
                self._web.open(self.read, self._process.run_dir, self._configuration)
            # The deadlines of the machine count from here, before the first call.
            self._driver.step(self._begin)
            self._process.announce_ready()
            self._process.keep_place(self._process.run_dir.rm_socket, self._process.stop)
            self._tell_restart()
            self._watcher.look_at_nodes()
            self._wall_clock.start()
            return await self._process.until_stopped()
        finally:
            self._watcher.close()
            self._wall_clock.stop()
            self._driver.close()
            for copy in self._copies:
                copy.cancel()
            self._write()
            if self._checkpoint is not None:
                await self._checkpoint
            if self._state is not None:
                self._state.close()
                self._state = None  # a scheduled write finds nothing to do
            self._events.close()
            await self._web.close()
            await self._server.close()


def main(argv: Sequence[str]) -> int:
    """Run the daemon; its exit code."""
    return run("rm", argument_parser("resourcemanager").parse_args(argv), ResourceManagerDaemon)
