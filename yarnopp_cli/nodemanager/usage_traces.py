"""What a node's containers and its machine used in the last minute, for those who begin to look. Pure.

Nobody reads it most of the time, so it has to cost nothing: bare numbers, one entry a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from executor.records import ContainerUsage, ResourceUtilization

from ..records.container_protocol import GetUsageTracesResponse

POINTS = 60
"""As many are kept of each, the latest."""

_STEP = 0.9
"""Seconds between two of them at least, however often is measured."""

_FIELDS = 3
_SLACK = 15
"""So many too many are there before the oldest are thrown away, all at once."""


class UsageTraces:
    """Told of each measurement. A container that is measured no more is forgotten."""

    def __init__(self) -> None:
        self._containers: dict[str, list[float]] = {}
        self._machine: list[float] = []

    def sampled(self, usages: Mapping[str, ContainerUsage], machine: ResourceUtilization, now: float) -> None:
        """All containers and the machine were measured, at ``now`` (seconds of the node's clock)."""
        if self._machine and now - self._machine[-_FIELDS] < _STEP:
            return
        _append(self._machine, now, machine.cpu, machine.memory_bytes)
        traces = self._containers
        for name, usage in usages.items():
            trace = traces.get(name)
            if trace is None:
                trace = traces[name] = []
            _append(trace, usage.sampled_at, usage.cpu_seconds, usage.memory_bytes)
        if len(traces) > len(usages):
            for name in traces.keys() - usages.keys():
                del traces[name]

    def told(self, container_ids: Iterable[str] = ()) -> GetUsageTracesResponse:
        """Those of these containers, or of all."""
        wanted = tuple(container_ids) or tuple(self._containers)
        return GetUsageTracesResponse(
            {name: _latest(self._containers[name]) for name in wanted if name in self._containers},
            _latest(self._machine),
        )


def _append(trace: list[float], *point: float) -> None:
    trace.extend(point)
    if len(trace) > _FIELDS * (POINTS + _SLACK):
        del trace[: -_FIELDS * POINTS]


def _latest(trace: list[float]) -> tuple[float, ...]:
    return tuple(trace[-_FIELDS * POINTS :])
