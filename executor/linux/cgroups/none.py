"""No cgroups: signals go to sessions and descendants; figures come from psutil and /proc.

This has three limitations: memory is measured, not limited; the CPU is not divided; a process escapes if it
leaves its session, clears its environment *and* kills its launcher, which otherwise adopts every orphan.
"""

from __future__ import annotations

import os
import time

from ...light import replace
from ...records import CgroupLimits, ContainerUsage
from ..processes import reap
from ..procfs import ProcessStat, Traces, members_of, scan
from .base import CgroupDriver, CgroupReport
from .groups import check_name, kill_until_empty

WEAKER = (
    "memory limits are enforced by polling: a container can exceed its limit for two monitoring intervals",
    "CPU is not shared by weight, and no CPU quota is possible",
    "a process that leaves its session, clears its environment and kills its launcher may outlive its container",
)
"""The limitations that users are told of when this driver is used."""

SCAN_AGE_SECONDS = 0.2
"""How long a table of processes is reused by the containers of one monitoring pass. It is not used to send
signals."""


class NoCgroups(CgroupDriver):
    """Recognises the processes of a container by the session that its command leads, and by their launcher."""

    def __init__(self, *, reasons: tuple[str, ...] = (), hints: tuple[str, ...] = ()) -> None:
        self._reasons = reasons
        self._hints = hints
        self._traces: dict[str, Traces] = {}
        self._last: dict[str, ContainerUsage] = {}
        self._gone: dict[str, dict[int, float]] = {}
        self._seen: dict[str, set[tuple[int, int]]] = {}
        self._table: dict[int, ProcessStat] = {}
        self._table_at = -1.0

    def describe(self) -> CgroupReport:
        """Report that there are no cgroups, why not, and the limitations."""
        return CgroupReport(mode="none", weaker=self._reasons + WEAKER, hints=self._hints)

    def create(self, container_id: str, limits: CgroupLimits | None) -> tuple[str, ...]:
        """There is nothing to make, and nothing to join."""
        check_name(container_id)
        return ()

    def started(self, container_id: str, traces: Traces) -> None:
        """Remember how to find the container's processes."""
        self._traces[container_id] = traces

    def give_back(self, container_id: str) -> None:
        """Its launcher starts other containers from now on."""
        if (traces := self._traces.get(container_id)) is not None:
            self._traces[container_id] = replace(traces, launcher=0)

    def processes(self, container_id: str) -> list[int]:
        """The container's session, descendants and marked orphans, found by a scan of all processes."""
        return [entry.pid for entry in self._members(container_id, scan())]

    def _members(
        self, container_id: str, table: dict[int, ProcessStat], *, orphans: bool = True
    ) -> list[ProcessStat]:
        traces = self._traces.get(container_id)
        if traces is None:
            return []
        seen = self._seen.setdefault(container_id, set())
        # Those seen before belong to it also when their launcher has ended, and they are children of another process.
        members = members_of(traces, table, orphans=orphans, known=seen)
        seen.update((entry.pid, entry.start) for entry in members)
        self._reap_orphans(traces, seen, table)
        return members

    def _reap_orphans(
        self, traces: Traces, seen: set[tuple[int, int]], table: dict[int, ProcessStat]
    ) -> None:
        """Reap the container's zombies that became children of this process when their parents ended (the
        executor is a subreaper here). Other children of this process are not reaped."""
        own = os.getpid()
        for entry in table.values():
            if entry.state == "Z" and entry.parent == own:
                in_session = entry.session == traces.leader and entry.start >= traces.start
                if in_session or (entry.pid, entry.start) in seen:
                    reap(entry.pid)

    def usage(self, container_id: str, now: float, processes: int = -1) -> ContainerUsage:
        """Sums over the container's processes, from psutil; processes that have ended count with their last
        reading."""
        import psutil

        if time.monotonic() - self._table_at > SCAN_AGE_SECONDS:
            self._table, self._table_at = scan(), time.monotonic()
        before = self._last.get(container_id, ContainerUsage())
        members = self._members(container_id, self._table, orphans=False)
        if not members:
            return replace(before, memory_bytes=0, processes=0, sampled_at=now)
        seconds = self._gone.setdefault(container_id, {})
        memory = 0
        for member in members:
            try:
                process = psutil.Process(member.pid)
                with process.oneshot():
                    times, held = process.cpu_times(), process.memory_info()
            except psutil.Error:
                continue
            seconds[member.pid] = times.user + times.system
            memory += held.rss
        usage = ContainerUsage(
            cpu_seconds=max(before.cpu_seconds, sum(seconds.values())),
            memory_bytes=memory,
            memory_peak_bytes=max(before.memory_peak_bytes, memory),
            processes=len(members),
            sampled_at=now,
        )
        self._last[container_id] = usage
        return usage

    def kill(self, container_id: str) -> None:
        """Send SIGKILL repeatedly until no process of the container is found."""
        kill_until_empty(
            container_id, lambda: self.processes(container_id), patience=lambda: self.kill_seconds
        )

    def remove(self, container_id: str, wait_seconds: float = 0.0) -> bool:
        """Reap the container's last zombies, and forget the container."""
        self._members(container_id, scan(), orphans=False)
        for known in (self._traces, self._last, self._gone, self._seen):
            known.pop(container_id, None)
        return True
