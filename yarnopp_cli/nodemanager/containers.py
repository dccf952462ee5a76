"""The containers of a NodeManager as the ResourceManager must learn of them: unreported changes, unacknowledged ends,
and the applications with live containers.

The ContainerScheduler owns the containers themselves. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from executor.causes import Cause
from executor.core.events import ContainerKillRequested
from executor.records import ContainerState, ContainerStatus, ContainerUsage, ResourceUtilization

REMEMBERED_ENDS: Final = 2000
"""The number of ended applications and withdrawn containers that are remembered, to refuse late requests for them."""


class Remembered:
    """A set of the last ``REMEMBERED_ENDS`` texts."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def add(self, text: str) -> None:
        """Remember a text, and forget the oldest one if there are too many."""
        self._texts.pop(text, None)
        self._texts[text] = None
        if len(self._texts) > REMEMBERED_ENDS:
            del self._texts[next(iter(self._texts))]


class NodeContainers:
    """Receives every ReportStatus of the scheduler, in order."""

    def __init__(self) -> None:
        self.ended_applications = Remembered()
        self.withdrawn = Remembered()
        self._live: dict[str, ContainerStatus] = {}
        self._applications: dict[str, set[str]] = {}
        self._changed: dict[str, None] = {}
        self._unacknowledged: dict[str, ContainerStatus] = {}
        self.counts = {"launched": 0, "completed": 0, "failed": 0, "killed": 0}
        """Counts since the node's start, as NodeManagerMetrics has them: completed ended with 0, killed by the
        cluster."""

    @property
    def live(self) -> dict[str, ContainerStatus]:
        """The containers that have not ended, as last reported, in order of arrival."""
        return self._live

    @property
    def started(self) -> list[str]:
        """The live containers that have, or had, processes: their usage can be measured."""
        return [one for one, status in self._live.items() if status.state is not ContainerState.SCHEDULED]

    @property
    def unacknowledged(self) -> dict[str, ContainerStatus]:
        """The ends that the RM has not acknowledged."""
        return self._unacknowledged

    def reported(self, status: ContainerStatus) -> None:
        """The scheduler reports that a container's state, type or limits changed."""
        container_id = status.container_id
        self._count(status)
        self._changed[container_id] = None
        if status.state is not ContainerState.DONE:
            self._live[container_id] = status
            if status.application_id:
                self._applications.setdefault(status.application_id, set()).add(container_id)
            return
        self._live.pop(container_id, None)
        self._unacknowledged[container_id] = status
        ids = self._applications.get(status.application_id)
        if ids is not None:
            ids.discard(container_id)
            if not ids:
                del self._applications[status.application_id]

    def _count(self, status: ContainerStatus) -> None:
        before = self._live.get(status.container_id)
        if status.started_at_ms and (before is None or not before.started_at_ms):
            self.counts["launched"] += 1
        if status.state is ContainerState.DONE and status.container_id not in self._unacknowledged:
            end = "completed" if status.exit_status == 0 else "killed" if status.exit_status < 0 else "failed"
            self.counts[end] += 1

    def of_application(self, application_id: str) -> tuple[str, ...]:
        """The containers of an application that have not ended."""
        return tuple(sorted(self._applications.get(application_id, ())))

    @property
    def running_applications(self) -> tuple[str, ...]:
        """The applications that have a live container here."""
        return tuple(self._applications)

    def acknowledged(self, container_ids: Iterable[str]) -> list[str]:
        """The RM has received these ends. Returns the containers whose end need not be reported again."""
        known = [one for one in container_ids if self._unacknowledged.pop(one, None) is not None]
        for container_id in known:
            self._changed.pop(container_id, None)
        return known

    def all_statuses(self) -> tuple[ContainerStatus, ...]:
        """All statuses that the RM must know when this node registers."""
        self._changed.clear()
        return (*self._unacknowledged.values(), *self._live.values())

    def news(self, *, with_usage: bool) -> tuple[ContainerStatus, ...]:
        """The statuses that changed since the last call (``with_usage``: all that started), and unacknowledged ends."""
        ended = self._unacknowledged
        if with_usage:
            self._changed.update(dict.fromkeys(self.started))
        live = [self._live[one] for one in self._changed if one in self._live]
        statuses = (*ended.values(), *live)
        self._changed.clear()
        return statuses

    def update_live(self, status: ContainerStatus) -> None:
        """A live container has newer figures, and the same state."""
        if status.container_id in self._live:
            self._live[status.container_id] = status

    def kills(
        self,
        container_ids: Iterable[str],
        exit_status: int,
        cause: Cause,
        diagnostics: str,
        *,
        force: bool = False,
    ) -> list[ContainerKillRequested]:
        """The events that end the live ones of these containers, in order.

        Waiting containers come first: otherwise the end of a running container would start a waiting one, only to end
        it too.
        """
        waiting = (ContainerState.SCHEDULED, ContainerState.PAUSED)
        found = [one for one in container_ids if one in self._live]
        found.sort(key=lambda one: self._live[one].state not in waiting)
        return [ContainerKillRequested(one, int(exit_status), diagnostics, force, cause) for one in found]

    def validate(self) -> None:
        """Assert that every application listed has a live container, and that none is both live and ended."""
        assert not self._live.keys() & self._unacknowledged.keys()
        for application_id, ids in self._applications.items():
            assert ids, application_id
            assert ids <= self._live.keys(), ids - self._live.keys()


class UtilizationMeter:
    """Turns two samples of the containers' CPU time into cores in use."""

    def __init__(self) -> None:
        self.containers = ResourceUtilization()
        self._last: dict[str, ContainerUsage] = {}

    def sampled(self, usages: dict[str, ContainerUsage]) -> None:
        """All containers were measured. A container that is measured for the first time counts from its next sample
        on."""
        cores = 0.0
        for container_id, usage in usages.items():
            before = self._last.get(container_id)
            if before is not None and usage.sampled_at > before.sampled_at:
                used = usage.cpu_seconds - before.cpu_seconds
                cores += max(used, 0.0) / (usage.sampled_at - before.sampled_at)
        memory = sum(usage.memory_bytes for usage in usages.values())
        self.containers = ResourceUtilization(memory_bytes=memory, cpu=round(cores, 4))
        self._last = usages
