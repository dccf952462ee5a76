"""The ResourceManager's daemon: ``python -m yarnopp_cli.daemons resourcemanager --run-dir DIR``.

SIGTERM ends this process alone: NodeManagers of a cluster that stays keep their containers and wait for the
next ResourceManager, those of an on-demand cluster end themselves. A whole cluster is ended by the call
shutdownCluster.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Sequence

from executor.driver import Driver
from executor.runner import write_crash_report

from .. import __version__
from ..errors import YoppError
from ..machine.calls import Reply, StopDaemon
from ..records.admin_protocol import RefreshQueuesRequest, RefreshQueuesResponse
from ..records.client_protocol import SetLifetimeResponse
from ..resourcemanager.context import Command, Identity, KeepCrash, KeepHistory, RMContext
from ..resourcemanager.machine import Event, ResourceManager
from ..rpc.methods import RM_METHODS
from ..rpc.server import RpcServer
from ..settings.declarations import NodeManagerSettings, ResourceManagerSettings
from ..settings.loading import Configuration, read_queues
from ..settings.queues import CapacitySchedulerSettings
from .process import DaemonProcess, argument_parser, run
from .retention import HistoryFiles
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
        context = RMContext(
            self._settings,
            Identity(
                cluster_timestamp=int(time.time() * 1000),
                wall_offset=time.time() - time.monotonic(),
                run_dir=process.run_dir.path,
                address=f"unix:{process.run_dir.rm_socket}",
                log_dir=node_settings.log_dirs,
                pid=os.getpid(),
                version=__version__,
                properties=configuration.non_default(),
            ),
            rng=random.Random(),
            secret=os.urandom(32),
            lifetime=self._lifetime,
            heartbeat_wait=node_settings.heartbeat_mode == "event-driven",
            distributed=node_settings.distributed_scheduling_enabled,
            capacity=configuration.settings(CapacitySchedulerSettings),
            queues=configuration.queues(),
        )
        self._machine = ResourceManager(context, read_queues)
        self._driver: Driver[Event, Command] = Driver(
            self._machine,
            self._perform,
            crash_dir=process.run_dir.path,
            on_crash=process.crashed,
            validate=process.arguments.validate,
        )
        self._server = RpcServer(RM_METHODS, self._driver.post)
        self._histories = HistoryFiles(process.run_dir, self._settings.retained_histories)
        self._web = DaemonWeb(process, configuration, "resourcemanager", self._driver.post)

    def _perform(self, command: Command) -> None:
        if isinstance(command, StopDaemon):
            self._process.stop(command.reason)
        elif isinstance(command, KeepHistory):
            self._histories.keep(command.history)
        elif isinstance(command, KeepCrash):
            crash = command.crash
            path = write_crash_report(self._process.run_dir.path, crash.error, crash.history)
            LOG.error("the master of %s failed: %s; report: %s", command.application_id, crash, path)
        else:
            if isinstance(command, Reply) and isinstance(command.response, SetLifetimeResponse):
                if command.response.info.lifetime == "stay":
                    self._web.open_late(self._process.run_dir, self._configuration)
            elif isinstance(command, Reply) and isinstance(command.response, RefreshQueuesResponse):
                self._keep_queues(command.response.request)
            self._web.calls.perform(command)
            self._server.perform(command)

    def _keep_queues(self, request: RefreshQueuesRequest) -> None:
        """Have the next life of this cluster's ResourceManager begin with the queues that hold now."""
        if request.dry_run:
            return
        given = {one.name: (one.value, one.origin) for one in request.properties}
        self._configuration = self._configuration.with_scheduler(given)
        try:
            self._process.run_dir.write("site.json", self._configuration.to_json())
        except YoppError as error:
            LOG.warning("the new queues hold until this ResourceManager ends: %s", error)

    async def serve(self) -> int:
        """Serve until the end; the exit code."""
        self._process.on_signals(self._process.stop)
        try:
            await self._server.listen_unix(self._process.run_dir.rm_socket)
            if self._settings.address:
                await self._server.listen_tcp(self._settings.address)
            if self._lifetime == "stay":
                self._web.open(self._process.run_dir, self._configuration)
            # The machine's own deadlines begin to count now, before anybody calls.
            self._driver.step(self._machine.advance)
            self._process.announce_ready()
            return await self._process.until_stopped()
        finally:
            self._driver.close()
            await self._web.close()
            await self._server.close()


def main(argv: Sequence[str]) -> int:
    """Run the daemon; its exit code."""
    return run("rm", argument_parser("resourcemanager").parse_args(argv), ResourceManagerDaemon)
