"""Real daemons in a run directory of their own, spoken to through their sockets; nothing of them may stay."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from executor.linux.procfs import read_stat
from executor.records import ContainerState, ContainerStatus, ExecutionType, Resource
from executor.settings import ExecutorSettings
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.records.client_protocol import GetClusterInfoRequest
from yarnopp_cli.records.container_protocol import (
    GetContainerStatusesRequest,
    StartContainerRequest,
    StartContainersRequest,
)
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from yarnopp_cli.records.reports import FinalApplicationStatus
from yarnopp_cli.records.requests import (
    ApplicationSubmissionContext,
    Container,
    ContainerLaunchContext,
    ExecutionTypeRequest,
    ResourceRequest,
)
from yarnopp_cli.rpc.blocking import Connection
from yarnopp_cli.settings.loading import load

ROOT = Path(__file__).resolve().parent.parent.parent
SITE = (
    "yarn.resourcemanager.opportunistic-container-allocation.enabled=true",
    "yarn.nodemanager.opportunistic-containers-max-queue-length=10",
    "yarn.scheduler.minimum-allocation-mb=1",
    "yarn.scheduler.minimum-allocation-vcores=0",
)
PORT = 45454
NM = f"nm-{PORT}"
T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout: float = 15.0, what: str = "") -> T:
    """The first true value of ``condition``."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what or condition}"
        time.sleep(0.01)
    return value


class Started:
    """One daemon that a test started, and what came out of its pipe."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        readable, writable = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "yarnopp_cli.daemons", module, *arguments, "--ready-fd", str(writable)],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(writable,),
            start_new_session=True,
        )
        os.close(writable)
        self._pipe = readable

    def word(self, timeout: float = 20.0) -> bytes:
        """All that it says of its start: b"1", an error, or b"" if it died."""
        said = b""
        while True:
            assert select.select([self._pipe], [], [], timeout)[0], f"it says nothing; so far: {said!r}"
            piece = os.read(self._pipe, 65536)
            if not piece:
                return said
            said += piece

    def ready(self) -> Started:
        """Itself, once it serves."""
        said = self.word()
        assert said == b"1", (said, self.stderr())
        return self

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = 15.0) -> int:
        """Its exit code."""
        return self.process.wait(timeout)

    def stderr(self) -> str:
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        return (self.process.stderr.read() or b"").decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        os.close(self._pipe)


class Cluster:
    """A run directory, its daemons, and a client with a master of its own."""

    def __init__(self, directory: Path) -> None:
        self.run_dir = RunDir.of(str(directory / "run"))
        self.run_dir.prepare()
        self.daemons: list[Started] = []
        self.write_site()
        self._connections: list[Connection] = []

    def write_site(self, *defines: str) -> None:
        configuration = load([os.devnull], [*SITE, *defines], environ={}, state_dir=self.run_dir.state_dir)
        self.run_dir.write("site.json", configuration.to_json())

    def start(self, module: str, *arguments: str, environment: dict[str, str] | None = None) -> Started:
        started = Started(module, "--run-dir", self.run_dir.path, *arguments, environment=environment)
        self.daemons.append(started)
        return started

    def rm(self, *arguments: str) -> Started:
        return self.start("resourcemanager", "--validate", *arguments)

    def nm(self, *arguments: str, port: int = PORT, memory: int = 1024, vcores: int = 2) -> Started:
        size = ("--port", str(port), "--memory", str(memory), "--vcores", str(vcores))
        return self.start("nodemanager", "--validate", *size, *arguments)

    def up(self, lifetime: str = "stay") -> tuple[Started, Started]:
        """Both at once, as a starter does."""
        rm, nm = self.rm("--lifetime", lifetime), self.nm()
        return rm.ready(), nm.ready()

    def connect(self, address: str = "") -> Connection:
        connection = Connection(address or f"unix:{self.run_dir.rm_socket}")
        self._connections.append(connection)
        return connection

    def node(self, port: int = PORT) -> Connection:
        return self.connect(f"unix:{self.run_dir.nm_socket(port)}")

    def log(self, name: str) -> str:
        return Path(self.run_dir.log_file(name)).read_text()

    def files(self) -> set[str]:
        return set(os.listdir(self.run_dir.path))

    def leftovers(self) -> list[str]:
        """Processes that speak of this run directory, and cgroups of it.

        Containers' environment has its name.
        """
        left = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                stat = read_stat(int(entry.name))
                if self.run_dir.path.encode() in text and stat is not None and stat.state not in "ZX":
                    left.append(f"process {entry.name}: {text[:200]!r}")
        left += [
            f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/hadoop-yarn/{self.run_dir.key}")
        ]
        left += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"hadoop-yarn/{self.run_dir.key}")]
        return left

    def close(self) -> None:
        """End what lives: daemons by what was started here, containers by their cgroups and shims."""
        for connection in self._connections:
            connection.close()
        for daemon in self.daemons:
            daemon.close()
        self._discard_containers()

    def _discard_containers(self) -> None:
        """End what outlived its NM, as the next NM would: by the records and cgroups of this run directory
        alone.
        """
        nodes = [path.parent.name for path in Path(self.run_dir.state_dir).glob("nm-*/containers")]
        if not nodes:
            return
        ports = " ".join(name.removeprefix("nm-") for name in nodes)
        script = (
            "import asyncio, sys\n"
            "from executor.linux.cgroups import discover\n"
            "from executor.linux.container_executor import LinuxContainerExecutor\n"
            "from executor.settings import ExecutorSettings\n"
            "async def main(run_dir, state, key, ports):\n"
            "    for port in ports:\n"
            "        groups = discover(ExecutorSettings(), group=f'{key}/nm-{port}')\n"
            "        executor = LinuxContainerExecutor(\n"
            "            ExecutorSettings(), post=lambda event: None, cgroups=groups,\n"
            "            work_dir=f'{state}/nm-local-dir/{key}-nm-{port}', log_dir=f'{state}/logs',\n"
            "            state_dir=f'{state}/nm-{port}/containers')\n"
            "        executor.discard()\n"
            "        await executor.close()\n"
            "        executor.remove_everything()\n"
            "asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split()))\n"
        )
        subprocess.run(
            [sys.executable, "-c", script, "-", self.run_dir.state_dir, self.run_dir.key, ports],
            cwd=ROOT,
            check=True,
            timeout=30,
        )


class Job:
    """An unmanaged application whose master is the test."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rm = cluster.connect()
        context = ApplicationSubmissionContext("", "test", unmanaged=True)
        submitted = self.rm.call(SubmitApplicationRequest(context))
        self.id: str = submitted.application_id
        self.attempt: str = submitted.attempt_id
        self.token = submitted.am_token
        self.rm.call(RegisterApplicationMasterRequest(self.attempt, self.token))
        self.response_id = 0
        self.granted: list[Container] = []
        self.completed: dict[str, ContainerStatus] = {}

    def allocate(self, *asks: ResourceRequest, wait_ms: int = 0) -> AllocateResponse:
        request = AllocateRequest(self.attempt, self.token, self.response_id, asks=asks, wait_ms=wait_ms)
        response: AllocateResponse = self.rm.call(request)
        self.response_id = response.response_id
        self.granted += response.allocated
        self.completed |= {status.container_id: status for status in response.completed}
        return response

    def grant(self, count: int, execution_type: ExecutionType, memory: int = 64) -> list[Container]:
        """Ask for containers until they are there."""
        before = len(self.granted)
        wanted = ExecutionTypeRequest(execution_type, enforce=True)
        self.allocate(ResourceRequest(count, Resource(memory, 1), execution_type_request=wanted))
        wait_for(lambda: len(self.granted) - before >= count or not self.allocate(wait_ms=500))
        return self.granted[before:]

    def launch(self, containers: list[Container], *command: str) -> list[str]:
        """Run the command in each of them; their ids."""
        context = ContainerLaunchContext(command, {"RUN_DIR": self.cluster.run_dir.path})
        starts = tuple(StartContainerRequest(container.token, context) for container in containers)
        node = self.cluster.connect(containers[0].node_address)
        response = node.call(StartContainersRequest(starts))
        assert not response.failed
        return list(response.started)

    def until_completed(self, ids: list[str]) -> list[ContainerStatus]:
        """Their ends, as the RM tells them."""
        wait_for(lambda: all(one in self.completed for one in ids) or not self.allocate(wait_ms=500))
        return [self.completed[one] for one in ids]

    def finish(self) -> None:
        status = FinalApplicationStatus.SUCCEEDED
        self.rm.call(FinishApplicationMasterRequest(self.attempt, self.token, status))


def status_of(node: Connection, container_id: str) -> ContainerStatus:
    """A container as its node sees it."""
    response = node.call(GetContainerStatusesRequest((container_id,)))
    assert not response.failed, response.failed
    status: ContainerStatus = response.statuses[0]
    return status


def until_running(node: Connection, container_id: str) -> ContainerStatus:
    """Its status once it runs."""

    def look() -> ContainerStatus | None:
        status = status_of(node, container_id)
        return status if status.state is ContainerState.RUNNING else None

    found = wait_for(look)
    assert found is not None
    return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with nothing running yet. Its path is short: a Unix socket's may have 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="yd"))
    made = Cluster(directory)
    try:
        yield made
    finally:
        made.close()
        deadline = time.monotonic() + 10
        while (left := made.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.05)  # what was killed is ending
        shutil.rmtree(directory, ignore_errors=True)
    assert not left, left


def started_at(connection: Connection) -> int:
    """When the RM started, epoch milliseconds."""
    return int(connection.call(GetClusterInfoRequest()).started_at_ms)


assert ExecutorSettings().cgroups_hierarchy == "/hadoop-yarn"  # where ``cleanup`` looks
