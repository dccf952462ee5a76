"""Makes the directories of containers that wait, so that less is left to do when their turn comes.

A container that is queued, or for which others are being paused or killed, has the time. The directories are empty, so
a container that never begins leaves nothing; the next run of the node removes what this one leaves.

Decisions: launchers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from ..errors import ExecutorError
from ..records import ContainerSpec, ExecutionType
from .context import ExecutorContext

LOG = logging.getLogger(__name__)

DELAY_SECONDS = 0.003
"""The delay before directories are made: starting and reporting the next container is more urgent."""


class Preparer:
    """Keeps the directories of up to ``limit`` waiting guaranteed containers, and of as many opportunistic ones.

    ``in_use`` tells whether a container has been launched.
    """

    def __init__(self, context: ExecutorContext, limit: int, *, in_use: Callable[[str], bool]) -> None:
        self._context = context
        self._limit = limit
        self._in_use = in_use
        self._loop = context.loop
        # An OrderedDict instead of a dict, as in ``core/queues.py``.
        self._waiting = {kind: OrderedDict[str, ContainerSpec]() for kind in ExecutionType}
        #: containers whose directories are made
        self._ready: dict[str, ContainerSpec] = {}
        self._filling: asyncio.Handle | None = None

    def waits(self, spec: ContainerSpec) -> None:
        """Note that a container waits, or that the spec of a waiting one has changed."""
        if self._limit == 0 or not self._context.directories.logs_are_its_own(spec):
            return  # nothing is written to somebody's directory before the container begins
        if spec.container_id in self._ready:
            self._ready[spec.container_id] = spec
            return
        self._forget(spec.container_id)
        self._waiting[spec.execution_type][spec.container_id] = spec
        self._fill_soon()

    def gone(self, container_id: str) -> None:
        """Note that a container no longer waits, and will not be launched."""
        self._forget(container_id)
        if (spec := self._ready.pop(container_id, None)) is not None:
            self._clear_away(spec)
            self._fill_soon()

    def waits_on(self, spec: ContainerSpec) -> None:
        """Note that a container with directories, which was about to start, waits on."""
        if self._limit:
            self._ready[spec.container_id] = spec
        else:
            self._clear_away(spec)

    def takes(self, spec: ContainerSpec) -> bool:
        """Call when the container is launched. Returns whether its directories were made, and still exist."""
        self._forget(spec.container_id)
        if self._ready.pop(spec.container_id, None) is None:
            return False
        self._fill_soon()
        return self._context.directories.are_there(spec)

    def close(self) -> None:
        """Stop preparing containers, and remove what was prepared."""
        self._limit = 0
        for waiting in self._waiting.values():
            waiting.clear()
        if self._filling is not None:
            self._filling.cancel()
        while self._ready:
            self._clear_away(self._ready.popitem()[1])

    def _forget(self, container_id: str) -> None:
        for waiting in self._waiting.values():
            waiting.pop(container_id, None)

    def _fill_soon(self) -> None:
        if self._filling is None and self._limit and any(self._waiting.values()):
            self._filling = self._loop.call_later(DELAY_SECONDS, self._fill)

    def _fill(self) -> None:
        self._filling = None
        for kind, waiting in self._waiting.items():
            room = self._limit - sum(spec.execution_type is kind for spec in self._ready.values())
            for container_id in list(islice(waiting, max(0, room))):
                spec = waiting.pop(container_id)
                try:
                    self._context.directories.prepare(spec)
                except ExecutorError as error:
                    # It is retried, and reported, when the container's turn comes.
                    LOG.debug("%s has no directories yet: %s", container_id, error)
                    self._clear_away(spec)
                else:
                    self._ready[container_id] = spec

    def _clear_away(self, spec: ContainerSpec) -> None:
        if self._in_use(spec.container_id):
            return
        self._context.directories.remove_empty_logs(spec)
        self._context.directories.remove_private(spec.container_id, thoroughly=True)
