"""The pids that users look for: those of the commands themselves, not of the shims that are their parents."""

from __future__ import annotations

from executor.light import made_of, replace
from executor.linux.shim import command_pid
from executor.records import ContainerStatus

from ..clock import now_ms
from ..records.container_protocol import GetContainerStatusesResponse

_SETTLED_MS = 5000
"""The time after its start from which the pid of a container's command no longer changes and is cached.
Finding it takes 20 microseconds for each container of each listing."""
_REMEMBERED = 10_000


class CommandPids:
    """Finds the pids of containers' commands, and caches those of commands that have begun. Reads /proc."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int] = {}

    def told(self, response: GetContainerStatusesResponse) -> GetContainerStatusesResponse:
        """The same statuses, with the pids of the commands."""
        now = now_ms()
        if len(self._known) > _REMEMBERED + len(response.statuses):
            self._known.clear()  # most containers in it have ended; the others are found again
        return replace(response, statuses=tuple(self._one(status, now) for status in response.statuses))

    def _one(self, status: ContainerStatus, now_ms: int) -> ContainerStatus:
        if status.finished_at_ms or not status.pid:
            return status
        key = (status.container_id, status.pid)
        pid = self._known.get(key)
        if pid is None:
            pid = command_pid(status.pid) or status.pid
            if 0 < status.started_at_ms < now_ms - _SETTLED_MS:
                self._known[key] = pid
        return status if pid == status.pid else made_of(ContainerStatus, status, pid=pid)
