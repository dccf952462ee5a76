"""Compares the configuration of a running cluster with another one, and reloads it: ``rmadmin refresh-queues``, and
SIGHUP to ``up --foreground``.

Only the queues can change while a cluster runs. Nothing here calls the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from executor.hints import TYPE_CHECKING
from executor.settings import ExecutorSettings, properties_of

from ..records.admin_protocol import QueueProperty, RefreshQueuesRequest, RefreshQueuesResponse
from ..settings.declarations import DaemonSettings, NodeManagerSettings, ResourceManagerSettings, WebSettings
from ..settings.rules import SCHEDULER_ADDRESS
from ..settings.values import quoted, to_text
from .rundir import RunDir
from .state import running_configuration

if TYPE_CHECKING:
    from ..settings.loading import Configuration


def as_started(run_dir: RunDir, define: Sequence[str] = ()) -> Configuration | None:
    """The current content of the files with which the cluster was started, overridden by the -D options of
    that start and then by ``define``; None if no cluster has recorded its configuration. Raises YoppError."""
    from ..settings.loading import load

    site = running_configuration(run_dir)
    if site is None:
        return None
    defines = [f"{name}={to_text(site.value(name))}" for name in site.from_command_line()]
    return load(site.sources, [*defines, *define], environ=os.environ, state_dir=run_dir.state_dir)


def refresh_of(found: Configuration, *, dry_run: bool = False) -> RefreshQueuesRequest:
    """The request to change the queues to those that ``found`` declares."""
    properties = [QueueProperty(name, *rest) for name, rest in found.of_scheduler().items()]
    return RefreshQueuesRequest(tuple(properties), dry_run)


def changes_of(answer: RefreshQueuesResponse) -> dict[str, tuple[str, ...]]:
    """The paths of the queues that a refresh has added, removed or changed, by that word."""
    return {"added": answer.added, "removed": answer.removed, "changed": answer.changed}


HOSTED_MASTERS = "yopp.resourcemanager.hosted-masters"
"""A property whose value false never counts as a difference: a job need not use the hosted masters
of a cluster."""


def setting_differences(running: Configuration, wanted: Configuration) -> list[str]:
    """The properties of daemons that ``wanted`` sets to other values than those the cluster runs
    with, as sentences.

    A property that ``wanted`` does not set is not a difference: ``yopp up`` without
    settings joins any cluster.
    """
    found, others = [], wanted.differences(running)
    for kind in (ResourceManagerSettings, NodeManagerSettings, ExecutorSettings, WebSettings, DaemonSettings):
        for name in (item.name for item in properties_of(kind) if item.name in others):
            there, asked = running.value(name), wanted.value(name)
            if kind is WebSettings and str(asked).endswith(":0"):
                continue  # any port is accepted, so the cluster's is
            if name == SCHEDULER_ADDRESS or (name == HOSTED_MASTERS and not asked):
                continue  # clients read these for their own job
            running_with, wish = (to_text(one) or quoted("") for one in (there, asked))
            found.append(f"running with {name}={running_with}, you asked for {wish} ({wanted.origin(name)})")
    return found
