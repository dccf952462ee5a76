"""What the run directory keeps of a cluster as a whole: the nodes that it shall have, and its configuration.

A command that starts what is missing finds here what there was. Nothing here starts or ends a daemon.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from executor.light import dataclass

from ..errors import YoppError
from ..rpc.plain import decode, encode
from .rundir import RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration

STAY = "stay"
ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node that the cluster shall have: its port (a name only), MB of memory and vcores."""

    port: int
    memory: int
    vcores: int

    @property
    def name(self) -> str:
        """The daemon's name in the run directory."""
        return f"nm-{self.port}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes of a cluster, and whether it stays, as kept in ``nodes.json``."""

    nodes: tuple[PlannedNode, ...] = ()
    lifetime: str = STAY


def read_plan(run_dir: RunDir) -> Plan | None:
    """The plan in ``nodes.json``; None where there is none that can be read."""
    text = run_dir.read("nodes.json")
    if text is None:
        return None
    try:
        return decode(Plan, json.loads(text))
    except (ValueError, YoppError):
        return None


def write_plan(run_dir: RunDir, plan: Plan) -> None:
    """Keep the plan for the next command that starts what is missing."""
    run_dir.write("nodes.json", json.dumps(encode(plan)) + "\n")


def running_configuration(run_dir: RunDir) -> Configuration | None:
    """The configuration that the cluster runs with; None where there is none that can be read."""
    from ..settings.loading import Configuration

    text = run_dir.read("site.json")
    if text is None:
        return None
    try:
        return Configuration.from_json(text)
    except YoppError:
        return None


def forget_cluster(run_dir: RunDir, *, keep_plan: bool = False) -> None:
    """Remove the files that describe a cluster that has ended. Logs stay."""
    for path in (run_dir.site_file, *(() if keep_plan else (run_dir.nodes_file,))):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if run_dir.socket_dir != run_dir.path:
        for directory in (run_dir.socket_dir, os.path.dirname(run_dir.socket_dir)):
            with contextlib.suppress(OSError):  # another cluster's sockets, or none were made
                os.rmdir(directory)
