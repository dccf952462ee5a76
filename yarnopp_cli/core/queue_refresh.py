"""Other queues while the cluster runs: ``rmadmin -refreshQueues`` (``AdminService.refreshQueues``).

All that ``yarn.scheduler.capacity.…`` says holds anew: the tree of queues, mappings, and the scheduler's own bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..errors import EXIT_CONFIGURATION, RemoteError
from ..records.admin_protocol import RefreshQueuesRequest, RefreshQueuesResponse
from ..records.history import EventKind
from ..settings.queue_properties import queue_tree
from ..settings.queues import CapacitySchedulerSettings, QueueSettings, mappings_of
from ..settings.registry import PROPERTIES, PROPERTIES_OF, QUEUE_PREFIX, declared
from ..settings.values import Refused, from_text
from .calls import CallReceived
from .context import RMContext
from .queue_service import QueueService


class QueueRefresh:
    """Answers ``refreshQueues``: all of the new configuration holds, or nothing of it."""

    def __init__(self, context: RMContext, queues: QueueService) -> None:
        self._context = context
        self._queues = queues

    def refresh(self, call: CallReceived, request: RefreshQueuesRequest) -> None:
        """Take other queues. Raises RemoteError, and changes nothing, where they cannot be."""
        context = self._context
        values = _typed(request)
        root, problems = queue_tree(values)
        if problems:
            raise _refused(problems[0].message, problems[0].because, problems[0].hint)
        capacity = replace(context.capacity, **_bounds(values))
        if wrong := mappings_of(capacity.queue_mappings)[1]:
            raise _refused("queue-mappings cannot be read", wrong)
        added, removed, changed = _differences(context.scheduler.queues.settings, root)
        self._queues.replace_queues(root, capacity, dry_run=request.dry_run)
        if not request.dry_run:
            kept = {
                name: value
                for name, value in context.identity.properties.items()
                if not name.startswith(QUEUE_PREFIX)
            }
            context.identity.properties.clear()
            context.identity.properties.update(
                kept | {one.name: one.value for one in request.properties if _is_set(one.name, values)}
            )
            if added or removed or changed:
                words = {"added": added, "removed": removed, "changed": changed}
                context.history.add(
                    EventKind.QUEUES_REFRESHED,
                    words={name: ", ".join(paths) for name, paths in words.items() if paths},
                )
        context.reply(
            call.call_id, RefreshQueuesResponse(self._queues.reports(), added, removed, changed, request)
        )


def _is_set(name: str, values: dict[str, Any]) -> bool:
    """Whether a property is told of as not default: of those of single queues, all that are there."""
    return name not in PROPERTIES or values[name] != PROPERTIES[name].default


def _typed(request: RefreshQueuesRequest) -> dict[str, Any]:
    """The properties' values. Raises RemoteError for what is no property of the queues, or has no value of its type."""
    values: dict[str, Any] = {}
    for one in request.properties:
        known = declared(one.name) if one.name.startswith(QUEUE_PREFIX) else None
        if known is None:
            raise _refused(f"{one.name[:200]} is no property of the queues", f"these begin with {QUEUE_PREFIX}")
        try:
            values[one.name] = from_text(known, one.value)
        except Refused as error:
            raise _refused(f"{one.name[:200]} has a wrong value", str(error)) from None
    return values


def _bounds(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of CapacitySchedulerSettings that are about queues; their defaults where nothing is said."""
    return {
        one.attribute: values.get(one.name, one.default)
        for one in PROPERTIES_OF[CapacitySchedulerSettings]
        if one.name.startswith(QUEUE_PREFIX)
    }


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


def _refused(message: str, because: str, hint: str = "") -> RemoteError:
    return RemoteError(
        message, because=because, hint=hint or "`yopp config check` lists all", exit_code=EXIT_CONFIGURATION
    )
