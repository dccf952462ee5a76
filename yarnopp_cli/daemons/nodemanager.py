"""A NodeManager's daemon: ``python -m yarnopp_cli.daemons nodemanager --run-dir DIR --port 45454``.

It recovers the containers of the previous NodeManager before it registers. SIGTERM ends it cleanly: with
``yarn.nodemanager.recovery.enabled`` and ``….recovery.supervised`` its containers keep running and the next
NodeManager recovers them; otherwise they are ended first, as with SIGUSR1 always. The shutdown of a cluster comes
from the RM, which also decides whether containers are kept. A second SIGTERM ends it without waiting. It listens on a
Unix socket; its port is only a name.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from executor.core.events import RecoveryCompleted
from executor.core.limits import period_and_quota
from executor.driver import Driver
from executor.errors import StateStoreError
from executor.light import replace
from executor.linux.cgroups import CgroupDriver, discover
from executor.linux.cgroups.devices import DeviceGroups, device_groups
from executor.linux.container_executor import LinuxContainerExecutor
from executor.linux.watching.host import HostLimits, host_limits
from executor.linux.watching.wall_clock import wall_offset
from executor.records import GPU, CgroupLimits, Resource, counted
from executor.settings import ExecutorSettings

from .. import __version__
from ..cluster.gpus import Claims, gpus_of_machine
from ..cluster.processes import END_NODE
from ..cluster.rundir import FIRST_PORT, RunDir
from ..errors import EXIT_NOT_PERMITTED, YoppError, reason_of
from ..machine.calls import Reply, ReplyError, StopDaemon
from ..nodemanager.events import (
    AnnounceReady,
    AnswerByCopy,
    CallUpstream,
    CloseUpstream,
    Command,
    ConnectUpstream,
    CopyAnswered,
    Event,
    NodeStopRequested,
    StorePipelines,
    UpstreamConnected,
    UpstreamEvent,
    UpstreamLost,
)
from ..nodemanager.machine import NodeManager
from ..nodemanager.reports import DEFAULT_RACK, NodeDescription
from ..records.ids import NodeId, is_container_id
from ..records.reports import ON_DEMAND, STAY
from ..records.tracker_protocol import NodeAnswer, NodeQuestion
from ..rpc.methods import NM_METHODS
from ..rpc.server import RpcServer
from ..settings.declarations import (
    DaemonSettings,
    HardwareSettings,
    IpcSettings,
    NodeManagerSettings,
    ResourceManagerSettings,
    of_node,
)
from ..settings.loading import Configuration
from ..settings.resource_types import gpu_devices
from ..views.containers import NodeFacts as ContainerLimitFacts
from .process import DaemonProcess, argument_parser, bounds_of, run
from .retention import applications_with_records, remove_old_logs
from .upstream import Upstreams
from .watcher import Watcher
from .web import DaemonWeb

if TYPE_CHECKING:
    from .amrmproxy import AMRMProxyShell

LOG = logging.getLogger(__name__)


class NodeManagerDaemon:
    """One NodeManager: its machine, its driver, its executor, its server, its connection to the RM."""

    def __init__(self, process: DaemonProcess, configuration: Configuration) -> None:
        self._process = process
        arguments, port = process.arguments, process.arguments.port
        self._configuration = configuration
        self._settings = configuration.settings(NodeManagerSettings)
        self._executor_settings = configuration.settings(ExecutorSettings)
        self._state_dir = process.run_dir.nm_state_dir(port)
        self._socket = process.run_dir.nm_socket(port)
        node_id = NodeId(_host_name(), port)
        host = host_limits()
        size = _size(Resource(arguments.memory, arguments.vcores), host, configuration)
        self._gpus = Claims()
        gpus, held = self._gpus.take(gpu_devices(arguments.gpus))
        self._device_groups: DeviceGroups | None = None
        if self._settings.allowed_gpu_devices and self._executor_settings.gpu_isolation == "cgroup":
            group = process.run_dir.nm_group(port).replace("/", "-")
            everybodys = gpus_of_machine(configuration)
            self._device_groups = device_groups(group, everybodys, self._executor_settings.gpu_vendor)
        if held:
            LOG.warning(
                "another process of this host claims the GPUs %s, as a NodeManager does: this node does not offer them",
                ", ".join(held),
            )
        counts = {one.name: one.value for one in configuration.resources_of_node(port)}
        self._total = replace(size, others=counted(counts | ({GPU: len(gpus)} if gpus else {})))
        self._cores = cores_of_node(self._total, host, self._settings.percentage_physical_cpu_limit)
        self._host = host
        self._cgroups = self._find_cgroups(process.run_dir, port)
        report = self._cgroups.describe()
        self._web = DaemonWeb(
            process, configuration, "nodemanager", self._post, offset=max(0, port - FIRST_PORT)
        )
        listener = self._web.bind() if arguments.lifetime == STAY else None
        offset = wall_offset()
        self._proxy = self._make_proxy(process.run_dir, node_id, configuration, offset)
        self.machine = NodeManager(
            str(node_id),
            f"unix:{self._socket}",
            self._total,
            self._executor_settings,
            self._settings,
            physical_cores=self._cores,
            wall_offset=offset,
            enforce_memory_by_polling=not self._cgroups.enforces_memory,
            log_dir=self._settings.log_dirs,
            facts=NodeDescription(
                os.getpid(),
                __version__,
                report.mode,
                (*report.weaker, *report.hints),
                rack=of_node(self._settings.racks, port) or DEFAULT_RACK,
                labels=tuple(filter(None, [of_node(self._settings.node_labels, port)])),
                http_address=listener.address if listener is not None else "",
            ),
            proxy=self._proxy.service if self._proxy is not None else None,
            devices=gpus,
        )
        self._driver: Driver[Event, Command] = Driver(
            self.machine,
            self._perform,
            crash_dir=process.run_dir.path,
            on_crash=process.crashed,
            validate=arguments.validate,
        )
        self._executor = self._make_executor(
            process.run_dir, node_id, listener.port if listener is not None else 0
        )
        bounds = bounds_of(configuration.settings(IpcSettings))
        self._server = RpcServer(NM_METHODS, self._driver.post, bounds=bounds)
        self._copies: set[asyncio.Task[None]] = set()
        self._upstreams = Upstreams(process.run_dir.rm_socket, self._from_upstream)
        most = configuration.settings(DaemonSettings).restart_max_tries
        self._watcher = Watcher(process, most, lambda told: None)  # the restarted RM records the restart

    def _find_cgroups(self, run_dir: RunDir, port: int) -> CgroupDriver:
        try:
            os.makedirs(self._state_dir, mode=0o700, exist_ok=True)
        except OSError as error:
            raise _unusable(self._state_dir, error) from None
        remember = Path(run_dir.cgroups_file(port))
        return discover(self._executor_settings, group=run_dir.nm_group(port), remember=remember)

    def _make_proxy(
        self, run_dir: RunDir, node_id: NodeId, configuration: Configuration, wall_offset: float
    ) -> AMRMProxyShell | None:
        """The AMRMProxy; distributed scheduling enables it, too."""
        if not (self._settings.amrmproxy_enabled or self._settings.distributed_scheduling_enabled):
            return None
        from .amrmproxy import AMRMProxyShell  # imported only if the proxy is enabled

        return AMRMProxyShell(
            str(node_id),
            run_dir.proxy_socket(node_id.port),
            self._state_dir,
            self._settings,
            configuration.settings(ResourceManagerSettings),
            wall_offset=wall_offset,
            post=self._post,
            bounds=bounds_of(configuration.settings(IpcSettings)),
        )

    def _make_executor(self, run_dir: RunDir, node_id: NodeId, http_port: int) -> LinuxContainerExecutor:
        # Clusters of one user may share yarn.nodemanager.local-dirs: each node has its own directory there.
        self._work_dir = os.path.join(self._settings.local_dirs, f"{run_dir.key}-nm-{node_id.port}")
        try:
            return LinuxContainerExecutor(
                self._executor_settings,
                post=self._post,
                work_dir=self._work_dir,
                log_dir=self._settings.log_dirs,
                state_dir=run_dir.records_dir(node_id.port),
                cgroups=self._cgroups,
                own_markers=("yarnopp_cli", "yopp"),
                own_pids=lambda: self._server.client_pids(),
                is_id=is_container_id,
                node_environment={
                    "NM_HOST": node_id.host,
                    "NM_PORT": str(node_id.port),
                    "NM_HTTP_PORT": str(http_port),
                },
                device_groups=self._device_groups,
                device_vendor=self._executor_settings.gpu_vendor
                if self._settings.allowed_gpu_devices
                else "",
            )
        except OSError as error:
            raise _unusable(str(error.filename or self._work_dir), error) from None

    def _post(self, event: Event) -> None:
        self._driver.post(event)

    def _from_upstream(self, event: UpstreamEvent) -> None:
        """Post an event of the connections to the RM. An RM that is watched from its connection on may not have had
        its pid file when this node began to serve, and may have died before this node reached it.
        """
        self._driver.post(event)
        if isinstance(event, UpstreamConnected | UpstreamLost) and not event.attempt_id:
            self._watcher.look(["rm"])

    def _perform(self, command: Command) -> None:
        if self._web.may_open and self.machine.cluster_stays:
            self._web.open_late(*self._web_arguments())
        match command:
            case ConnectUpstream() | CallUpstream() | CloseUpstream():
                self._upstreams.perform(command)
            case StorePipelines():
                if self._proxy is not None:
                    self._proxy.perform(command)
            case Reply() | ReplyError():
                self._answer(command)
            case AnnounceReady():
                self._process.announce_ready()
                self._watcher.look(["rm"])
            case StopDaemon():
                self._process.stop(command.reason)
            case AnswerByCopy():
                self._answer_by_copy(command.question, command.call_id)
            case _:
                self._executor.perform(command)

    def _answer_by_copy(self, question: NodeQuestion, call_id: int | None) -> None:
        """Let a copy of this process answer a question."""
        from .copies import ask_copy  # few nodes are asked anything

        def answer() -> NodeAnswer:
            from ..whatif.node import foresee

            return foresee(self.machine, question, time.monotonic())

        def tell(found: NodeAnswer | None, failed: str) -> None:
            self._driver.post(CopyAnswered(found or NodeAnswer(question.number, failed=failed), call_id))

        ask_copy(self._copies, answer, NodeAnswer, tell)

    def _answer(self, command: Reply | ReplyError) -> None:
        """Send an answer to the server from which the call came; the other servers ignore it."""
        self._web.calls.perform(command)
        self._server.perform(command)
        if self._proxy is not None:
            self._proxy.perform(command)

    async def serve(self) -> int:
        """Serve until the daemon is asked to end; the exit code."""
        self._process.on_signals(self._asked_to_end, END_NODE)
        cleaning: asyncio.Task[None] | None = None
        try:
            self._executor.start(self._node_limits())
            await self._server.listen_unix(self._socket)
            if self._proxy is not None:
                await self._proxy.listen()
            self._process.keep_place(self._socket, self._cleared)
            self._watcher.look(["rm"])  # which may die before this node reaches it
            self._web.serve(*self._web_arguments())
            self._recover()
            if self._process.arguments.lifetime == ON_DEMAND:
                self._executor.expect_containers()  # a job has started this cluster
            cleaning = asyncio.create_task(self._remove_old_logs())
            return await self._process.until_stopped()
        finally:
            self._watcher.close()
            if cleaning is not None:
                cleaning.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await cleaning
            await self._close()

    def _web_arguments(self) -> tuple[str, RunDir, ContainerLimitFacts, Configuration]:
        """The arguments of the web server: the node's id, its directory, how it limits containers, its
        configuration."""
        cgroups, cores = self._cgroups.describe().mode, len(os.sched_getaffinity(0))
        facts = ContainerLimitFacts(cgroups, self._total, cores, self._executor_settings)
        return self.machine.node_id, self._process.run_dir, facts, self._configuration

    def _recover(self) -> None:
        """Post what is left of the previous NodeManager to the machine; then the machine registers."""
        if self._settings.recovery_enabled:
            for found in self._executor.recover():
                self._driver.post(found)
        else:
            self._executor.discard()
        for complaint in self._executor.complaints:
            LOG.warning("%s", complaint)
        self._driver.post(RecoveryCompleted())

    async def _remove_old_logs(self) -> None:
        try:
            keep = applications_with_records(self._process.run_dir.state_dir)
        except StateStoreError as error:
            LOG.warning("old output is not removed: %s", error)
            return
        keep.update(status.application_id for status in self.machine.scheduler.statuses())
        older_than = time.time() - self._settings.log_retain_seconds
        # Nobody waits for this thread: there may be any number of files.
        work = self._settings.log_dirs, older_than, keep
        threading.Thread(target=remove_old_logs, args=work, daemon=True).start()

    def _asked_to_end(self, signal_name: str) -> None:
        keeps = self._settings.recovery_supervised and signal_name != END_NODE.name
        self._driver.post(NodeStopRequested(f"{signal_name} was received", keep_containers=keeps))

    def _cleared(self, why: str) -> None:
        """End the daemon and its containers: no NodeManager could find these any more."""
        self._driver.post(NodeStopRequested(why, keep_containers=False))

    async def _close(self) -> None:
        """Remove all files and cgroups, except while containers keep running, and after a crash: then the
        next NodeManager needs them."""
        self._driver.close()
        for copy in self._copies:
            copy.cancel()
        self._upstreams.close()
        await self._web.close()
        await self._server.close()
        if self._proxy is not None:
            await self._proxy.close(forget=not (self._process.has_crashed or self.machine.has_containers))
        await self._executor.close()
        if self._process.has_crashed or self.machine.has_containers:
            return
        self._executor.remove_everything()
        with contextlib.suppress(OSError):
            os.unlink(self._process.run_dir.cgroups_file(self._process.arguments.port))
        for directory in (self._state_dir, os.path.dirname(self._work_dir)):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    def _node_limits(self) -> CgroupLimits | None:
        """The limits of all containers of this node together: its share of the cores; None if it
        may use all."""
        percentage = self._settings.percentage_physical_cpu_limit
        if percentage >= 100 and not self._executor_settings.strict_resource_usage:
            return None
        cores = min(self._host.cores * percentage / 100, float(self._cores))
        if cores >= self._host.physical_cores:
            return None
        period, quota = period_and_quota(cores)
        return CgroupLimits(cpu_quota_us=quota, cpu_period_us=period)


def cores_of_node(total: Resource, host: HostLimits, percentage: int) -> int:
    """The number of cores that correspond to this node's vcores, at least 1.

    Never more than its vcores: if several nodes share a machine, or a node has less than the machine, a vcore
    is a core. It is less than the vcores if more vcores are promised than there are cores.
    """
    usable = max(1, int(host.cores * percentage / 100))
    return max(1, min(usable, total.vcores))


def _size(asked: Resource, host: HostLimits, configuration: Configuration) -> Resource:
    """The size of a node; -1 means that of the configuration. Raises YoppError for more than the
    machine has."""
    if min(asked.memory, asked.vcores) > 0:
        return asked
    from ..cluster.capacity import NodeSizeRequest, share_host  # usually the arguments have the size

    wish = NodeSizeRequest(
        memory_mb=asked.memory if asked.memory > 0 else None,
        vcores=asked.vcores if asked.vcores > 0 else None,
    )
    node, hardware = configuration.settings(NodeManagerSettings), configuration.settings(HardwareSettings)
    return share_host(host, node, hardware, wish).nodes[0]


def main(argv: Sequence[str]) -> int:
    """Run the daemon; its exit code."""
    parser = argument_parser("nodemanager")
    parser.add_argument(
        "--port", type=_port, required=True, help="the node's port, which names it on this host"
    )
    parser.add_argument(
        "--memory", type=int, default=-1, metavar="MB", help="the node's memory; -1: the machine's"
    )
    parser.add_argument(
        "--vcores", type=int, default=-1, metavar="N", help="the node's vcores; -1: the machine's"
    )
    parser.add_argument("--gpus", default="", metavar="I:M,...", help="the node's GPUs, as index:minor")
    arguments = parser.parse_args(argv)
    return run(f"nm-{arguments.port}", arguments, NodeManagerDaemon)


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port: 1 to 65535")
    return port


def _host_name() -> str:
    """This host's name, with characters replaced that a node id cannot contain."""
    name = "".join(part for part in socket.gethostname().split() if part).replace(":", "-").replace("/", "-")
    return name or "localhost"


def _unusable(path: str, error: OSError) -> YoppError:
    if error.errno == errno.EPERM:
        return YoppError(
            f"{path} is refused",
            because=reason_of(error),
            hint="chown and chmod go-w it, or set yarn.nodemanager.local-dirs and yarn.nodemanager.log-dirs",
            exit_code=EXIT_NOT_PERMITTED,
        )
    return YoppError(
        f"cannot write {path}",
        because=reason_of(error),
        hint="free some space, or set yarn.nodemanager.local-dirs and yarn.nodemanager.log-dirs",
    )
