"""What a master has said through an AMRMProxy and the RM has not heard. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...allocation.asks import key_of
from ...records.master_protocol import AllocateRequest
from ...records.requests import ResourceRequest, UpdateContainerRequest


@dataclass(slots=True)
class Pending:
    """What the RM is to be told. Later words replace earlier ones on the same matter."""

    asks: dict[tuple[object, ...], ResourceRequest] = field(default_factory=dict)
    releases: dict[str, None] = field(default_factory=dict)
    updates: list[UpdateContainerRequest] = field(default_factory=list)
    blacklist: dict[str, bool] = field(default_factory=dict)
    dirty: bool = False

    def add(self, request: AllocateRequest) -> None:
        """Take in what ``request`` says."""
        for ask in request.asks:
            self.asks[key_of(ask), ask.resource_name, ask.execution_type_request.execution_type] = ask
        self.releases.update(dict.fromkeys(request.releases))
        self.updates += request.updates
        self.blacklist.update(dict.fromkeys(request.blacklist_removals, False))
        self.blacklist.update(dict.fromkeys(request.blacklist_additions, True))
        self.dirty = self.dirty or bool(request.asks or request.releases or request.updates or self.blacklist)

    def add_before(self, request: AllocateRequest) -> None:
        """Take in what ``request`` says as if it had been said before all else."""
        earlier = Pending()
        earlier.add(request)
        self.asks = earlier.asks | self.asks
        self.releases = earlier.releases | self.releases
        self.updates = earlier.updates + self.updates
        self.blacklist = earlier.blacklist | self.blacklist
        self.dirty = self.dirty or earlier.dirty
