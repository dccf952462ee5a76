"""Other queues while the cluster runs: ``rmadmin -refreshQueues`` (``AdminService.refreshQueues``).

All that ``yarn.scheduler.capacity.…`` says holds anew: the tree of queues, mappings, and the scheduler's own bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ...errors import NotYetSupportedError
from ...machine.calls import CallReceived
from ...records.admin_protocol import RefreshQueuesRequest, RefreshQueuesResponse
from ...records.history import EventKind
from ...settings.queues import CapacitySchedulerSettings, QueueSettings
from ..context import RMContext
from .queue_service import QueueService

QueueReader = Callable[
    [Mapping[str, str], CapacitySchedulerSettings],
    tuple[QueueSettings, CapacitySchedulerSettings, dict[str, str]],
]
"""Makes settings of properties: the queues, what holds for all of them, and the properties that are not default."""

_PREFIX = "yarn.scheduler.capacity."


class QueueRefresh:
    """Answers ``refreshQueues``: all of the new configuration holds, or nothing of it."""

    def __init__(self, context: RMContext, queues: QueueService, read: QueueReader | None) -> None:
        self._context = context
        self._queues = queues
        self._read = read

    def refresh(self, call: CallReceived, request: RefreshQueuesRequest) -> None:
        """Take other queues. Raises RemoteError, and changes nothing, where they cannot be."""
        context = self._context
        if self._read is None:
            raise NotYetSupportedError("this ResourceManager was given no reader of queues")
        given = {one.name: one.value for one in request.properties}
        root, capacity, told = self._read(given, context.capacity)
        added, removed, changed = _differences(context.scheduler.queues.settings, root)
        self._queues.replace_queues(root, capacity, dry_run=request.dry_run)
        if not request.dry_run:
            properties = context.identity.properties
            for name in [name for name in properties if name.startswith(_PREFIX)]:
                del properties[name]
            properties.update(told)
            paths = {"added": added, "removed": removed, "changed": changed}
            if words := {name: ", ".join(some) for name, some in paths.items() if some}:
                context.history.add(EventKind.QUEUES_REFRESHED, words=words)
        context.reply(
            call.call_id, RefreshQueuesResponse(self._queues.reports(), added, removed, changed, request)
        )


def _differences(
    old: QueueSettings, new: QueueSettings
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The paths of queues that come, that go, and that are other than they were."""

    def alone(root: QueueSettings) -> Iterator[tuple[str, QueueSettings]]:
        return ((queue.path, replace(queue, children=())) for queue in root)

    before, after = dict(alone(old)), dict(alone(new))
    return (
        tuple(path for path in after if path not in before),
        tuple(path for path in before if path not in after),
        tuple(path for path in after if path in before and after[path] != before[path]),
    )
