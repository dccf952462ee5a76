"""Which containers wait at a node, in which order they start, and why each does not start now. Read only.

Reasons are those of the decisions: ``_next_to_start`` is asked about each kind of waiting containers. So a rule of the
scheduler needs no second description, and no step costs more because reasons are known. They are computed when somebody
reads them.

Decisions: reasons-are-data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ..causes import Cause, CauseKind, of_kind
from ..light import replace
from ..reasons import (
    CONTAINERS,
    MEMORY,
    MOST_NAMED,
    VCORES,
    Holders,
    Reason,
    ReasonKind,
    about,
    amount_of,
    beside_master,
    lacking,
    missing,
    too_big,
)
from ..records import MIB, ContainerStatus, Resource
from .container import KILLING, PAUSED, PAUSING, Container
from .pressure_actions import PressureActions
from .tracker import Room

KEPT = "yopp.nodemanager.paused-resources = keep"
"""The setting by which guaranteed containers wait for the devices of opportunistic ones."""

_PAUSED_FOR: Mapping[CauseKind, ReasonKind] = {
    CauseKind.PERSON: ReasonKind.BY_PERSON,
    CauseKind.OUTSIDE_WINDOW: ReasonKind.WINDOW_CLOSED,
    CauseKind.OUTSIDE_CPU: ReasonKind.OUTSIDE_CPU,
    CauseKind.LENT_CPU: ReasonKind.LENT_CPU,
    CauseKind.MACHINE_MEMORY: ReasonKind.MACHINE_MEMORY,
    CauseKind.LENT_MEMORY: ReasonKind.LENT_MEMORY,
    CauseKind.NODE_RESIZED: ReasonKind.NODE_RESIZED,
}


class WaitingContainers(PressureActions):
    """The layer of those who read: the order of the waiting containers, and the reasons."""

    def line(self) -> list[Container]:
        """All that wait, in the order in which they start or resume if there is room for each in turn."""
        return [*self._guaranteed, *self._opportunistic.in_order(self._epoch_ms)]

    def statuses(self, container_ids: Iterable[str] = (), *, finished: bool = True) -> list[ContainerStatus]:
        """The containers, each that waits with its place and the reasons: those named that are known; without names,
        the live ones in order of arrival, then, with ``finished``, the recent ended ones."""
        wanted = tuple(container_ids)
        ended = chain(self._forgotten.values(), self._finished.values()) if finished or wanted else ()
        every: Iterable[Container] = chain(self._live.values(), ended)
        if wanted:
            known = self._forgotten | self._finished | self._live
            every = [known[one] for one in wanted if one in known]
        line = self.line()
        places = {one.container_id: place for place, one in enumerate(line, start=1)}
        verdicts: dict[Any, list[Reason]] = {}
        return [self._seen(one, places.get(one.container_id, 0), line, verdicts) for one in every]

    def _seen(
        self, one: Container, place: int, line: Sequence[Container], verdicts: dict[Any, list[Reason]]
    ) -> ContainerStatus:
        status = one.status()
        if not place and one.state not in (PAUSED, PAUSING):
            return status
        reasons = [] if place and one.state is not PAUSED else [self._of_pause(one)]
        if place:
            key = one.needed, one.allocated, one.execution_type, self._opportunistic.kind(one)
            if key not in verdicts:
                verdicts[key] = self._verdict(one)
            found = verdicts[key]
            if of_kind(one.cause, CauseKind.RESUMED):
                reasons = []
                found = [replace(reason, resumed=True, detail=one.cause.by) for reason in found]
            elif reasons:  # what it gave up is among its reasons already
                found = [reason for reason in found if reason.resource != VCORES]
            reasons += found
            if place > 1:
                before = tuple(other.container_id for other in line[: min(place - 1, MOST_NAMED)])
                amounts = (1, 0, len(line))
                reasons.append(Reason(ReasonKind.BEHIND, CONTAINERS, *amounts, before, number=place - 1))
            if not reasons:
                reasons = [Reason(ReasonKind.NEXT)]
        return replace(status, position=place, why=tuple(reasons))

    def _verdict(self, one: Container) -> list[Reason]:
        """What the decision says of a container that waits, whoever is before it; empty if it might start."""
        found = self._next_to_start(one)
        if isinstance(found, Container):
            return []
        free = self._tracker.free_for_guaranteed.at_least_zero()
        room = self._room_for_opportunistic() if one.is_opportunistic else Room(free)
        match found.kind:
            case ReasonKind.SHORT:
                while isinstance(room, Room) and room.before is not None:
                    room = room.before
                free = room.left if isinstance(room, Room) else free
                return self._never(one) or [
                    self._short(one, name, free) for name in missing(one.needed, free)
                ]
            case ReasonKind.MACHINE_BUSY:
                left = room.left if isinstance(room, Room) else Resource()
                return [lacking(found.kind, one.needed, left, self.total, used=left)]
            case ReasonKind.RESERVED:
                names = tuple(other.container_id for other in self._guaranteed)
                return [replace(found, by=names[:MOST_NAMED], number=len(names))]
        return [found]

    def _never(self, one: Container) -> list[Reason]:
        """Why it can never start here, where that is so."""
        if not one.resource.fits_in(self.total):
            return [too_big(one.resource, [("", self.total)], ReasonKind.TOO_BIG_HERE)]
        own = (o for o in self._active.values() if o.spec.application_id == one.spec.application_id)
        master = sum((other.resource for other in own if other.spec.least_vcores), Resource())
        why = None if one.spec.least_vcores else beside_master(one.resource, master, self.total)
        return [] if why is None else [why]

    def _short(self, one: Container, name: str, free: Resource) -> Reason:
        """It lacks some of one type, which containers hold; paused ones hold all but their vcores."""
        holders = [other for other in self._active.values() if amount_of(other.allocated, name)]
        kept = name not in (VCORES, MEMORY) and not one.is_opportunistic
        kept = kept and any(other.is_opportunistic and other.state is not KILLING for other in holders)
        detail = KEPT if kept else ""
        return about(ReasonKind.SHORT, name, one.needed, free, self.total, **_held_by(holders), detail=detail)

    def _of_pause(self, one: Container) -> Reason:
        """Why it was paused, as its pause has it, else as the last cause of its state."""
        pause, room = one.pause, self._room_for_opportunistic()
        cause = (pause and (pause.held_by or pause.gives_way_to)) or one.cause or Cause(CauseKind.MAKE_ROOM)
        kind = _PAUSED_FOR.get(cause.kind, ReasonKind.MADE_ROOM)
        match kind:
            case ReasonKind.BY_PERSON:
                return Reason(kind, detail=cause.by, by=(one.container_id,))
            case ReasonKind.WINDOW_CLOSED:
                return Reason(kind, at_ms=cause.until_ms)
            case ReasonKind.OUTSIDE_CPU:
                left = room.left if isinstance(room, Room) else Resource()
                return about(kind, VCORES, one.resource, left, self.total)
            case ReasonKind.MACHINE_MEMORY:
                return Reason(kind, MEMORY, cause.limit // MIB, cause.measured // MIB, self.total.memory)
            case ReasonKind.LENT_MEMORY:
                return about(kind, MEMORY, one.resource, self.available, self.total)
        having = [other for other in self._active.values() if other.allocated.vcores]
        by = _held_by([other for other in having if not other.is_opportunistic] or having)
        return about(kind, VCORES, one.resource, self.available, self.total, **by)


def _since(one: Container) -> int:
    return one.resumed_at_ms or one.started_at_ms or one.queued_at_ms


def _held_by(holders: Sequence[Container]) -> dict[str, Any]:
    """The fields of a reason that tell which containers hold what is missing, and the one that has held it longest."""
    if not holders:
        return {}
    oldest, guaranteed = min(holders, key=_since), sum(not one.is_opportunistic for one in holders)
    told = Holders(guaranteed, len(holders) - guaranteed, oldest.container_id, _since(oldest))
    return {"by": tuple(one.container_id for one in holders[:MOST_NAMED]), "holders": told}
