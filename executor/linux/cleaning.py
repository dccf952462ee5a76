"""Removes the groups and private directories of containers that have ended, in a worker thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from .cgroups.base import CgroupDriver
from .directories import Directories

LOG = logging.getLogger(__name__)


class Cleaner:
    """``spawn`` runs what it does beside the loop; ``patience`` is how long, in seconds, a group may be busy."""

    def __init__(
        self,
        cgroups: CgroupDriver,
        directories: Directories,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        patience: float,
    ) -> None:
        self._cgroups = cgroups
        self._directories = directories
        self._spawn = spawn
        self._patience = patience
        self._unclean: list[str] = []

    def clean(self, container_id: str) -> None:
        """Remove what is left of a container; returns at once."""
        # Half a millisecond each, in which the loop has better to do; those that end meanwhile go together.
        self._unclean.append(container_id)
        if len(self._unclean) == 1:
            self._spawn(self._clean_those())

    async def _clean_those(self) -> None:
        while self._unclean:
            now = list(self._unclean)
            busy = await asyncio.to_thread(self._clean_quickly, now)
            del self._unclean[: len(now)]
            for container_id in busy:
                self._spawn(asyncio.to_thread(self._clean_slowly, container_id))

    def _clean_quickly(self, containers: list[str]) -> list[str]:
        """Remove their groups and empty directories; those of which something is left."""
        busy = []
        for container_id in containers:
            removed = self._cgroups.remove(container_id)
            if not self._directories.remove_private(container_id, thoroughly=False) or not removed:
                busy.append(container_id)
        return busy

    def _clean_slowly(self, container_id: str) -> None:
        self._directories.remove_private(container_id, thoroughly=True)
        if not self._cgroups.remove(container_id, self._patience):
            path = self._cgroups.path(container_id)
            LOG.warning("the cgroup of %s cannot be removed: %s", container_id, path)
