"""What the run directory says of its cluster: the planned nodes and the configuration that its daemons run with."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator

from executor.hints import TYPE_CHECKING
from executor.light import Record

from ..errors import YoppError
from ..records.reports import STAY
from .rundir import FIRST_PORT, LAST_PORT, NODES, PORT, SITE, TOKEN, RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration


class PlannedNode(Record):
    """A planned node: its port (only a name), its memory in MB, its vcores, and its own GPUs."""

    port: int
    memory: int
    vcores: int
    gpus: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its daemon in the run directory."""
        return f"nm-{self.port}"


class Plan(Record):
    """The planned nodes of a cluster and its lifetime, as stored in ``nodes.json``."""

    nodes: tuple[PlannedNode, ...] = ()
    lifetime: str = STAY


def free_ports(used: Iterable[int]) -> Iterator[int]:
    """Ports for new nodes, from 45454 up, without those in ``used``. They are only names: nothing
    listens on them."""
    taken = set(used)
    return (port for port in range(FIRST_PORT, LAST_PORT + 1) if port not in taken)


def read_plan(run_dir: RunDir) -> Plan | None:
    """The plan in ``nodes.json``; None if there is none, or it is unreadable."""
    from ..rpc.plain import decode

    text = run_dir.read(NODES)
    if text is None:
        return None
    try:
        return decode(Plan, json.loads(text))
    except (ValueError, RecursionError, YoppError):
        return None


def write_plan(run_dir: RunDir, plan: Plan) -> None:
    """Store the plan, for the next command that starts missing daemons."""
    from ..rpc.plain import encode

    run_dir.write(NODES, json.dumps(encode(plan)) + "\n")


def running_configuration(run_dir: RunDir) -> Configuration | None:
    """The configuration with which the cluster runs; None if there is none, or it is unreadable."""
    from ..settings.loading import Configuration

    text = run_dir.read(SITE)
    if text is None:
        return None
    try:
        return Configuration.from_json(text)
    except YoppError:
        return None


def as_started(run_dir: RunDir) -> RunDir:
    """The run directory with the state directory of the cluster that was started there, which may have been another one
    by then; as it is where no cluster's configuration is left."""
    configuration = running_configuration(run_dir)
    return run_dir if configuration is None else RunDir.of(run_dir.path, state_dir=configuration.state_dir)


def forget_cluster(run_dir: RunDir, *, keep_plan: bool = False) -> None:
    """Remove the files that describe a cluster that has ended. Logs are kept."""
    names = [SITE]
    if not keep_plan:
        with contextlib.suppress(OSError):
            names += [NODES, TOKEN, *(name for name in os.listdir(run_dir.path) if name.endswith(PORT))]
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(run_dir.path, name))
    if run_dir.socket_dir != run_dir.path:
        for directory in (run_dir.socket_dir, os.path.dirname(run_dir.socket_dir)):
            with contextlib.suppress(OSError):  # it holds sockets of another cluster, or was never created
                os.rmdir(directory)
