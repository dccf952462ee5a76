"""What the ResourceManager counts and no report tells: the rest of ``/metrics`` and ``/jmx``, for who asks by call."""

from __future__ import annotations

from executor.light import dataclass
from executor.records import Resource

PERCENTILES = (50, 75, 90, 95, 99)
"""Which percentiles of waiting times are told."""


@dataclass(frozen=True, slots=True)
class GetSchedulerFiguresRequest:
    """What was counted of opportunistic containers, and what is asked for and not allocated."""


@dataclass(frozen=True, slots=True)
class GetSchedulerFiguresResponse:
    """Counts since the ResourceManager's start; ``pending`` is the size of all that is asked for.

    ``percents`` and ``percentiles_ms`` go together: of the last waiting times of opportunistic asks, in milliseconds;
    ``waits`` is how many there have been, ``waited_ms`` their sum. ``assigned_per_second``: containers of both types,
    in the last whole second.
    """

    pending: Resource = Resource()
    allocated: int = 0
    released: int = 0
    node_local: int = 0
    rack_local: int = 0
    off_switch: int = 0
    waits: int = 0
    percents: tuple[int, ...] = ()
    percentiles_ms: tuple[int, ...] = ()
    waited_ms: int = 0
    assigned_per_second: int = 0

    @property
    def live(self) -> int:
        """Allocated and not released yet."""
        return self.allocated - self.released

    def percentiles(self) -> dict[int, int]:
        """Milliseconds by percent."""
        return dict(zip(self.percents, self.percentiles_ms, strict=True))


METHODS: dict[str, tuple[type, type]] = {
    "getSchedulerFigures": (GetSchedulerFiguresRequest, GetSchedulerFiguresResponse),
}
"""Method -> (request, response)."""
