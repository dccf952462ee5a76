"""Reloads the configuration of a running cluster: ``rmadmin refresh-queues``, and SIGHUP to
``up --foreground``.

Only the queues can change while a cluster runs. Nothing here calls the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from executor.hints import TYPE_CHECKING

from ..records.admin_protocol import QueueProperty, RefreshQueuesRequest, RefreshQueuesResponse
from ..settings.values import to_text
from .plan import running_configuration
from .rundir import RunDir

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
