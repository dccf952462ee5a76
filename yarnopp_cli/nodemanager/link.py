"""The timing of a node's calls to its ResourceManager: connections, heartbeats, and their intervals (YARN's
NodeStatusUpdaterImpl).

A change is reported at once, and the RM holds the answer to an idle heartbeat until it has news for the node, so that
neither waits for the other's clock. At most two heartbeats are unanswered: one that waits at the RM and a newer one on
its way; later changes go together in the next heartbeat. Pure: this module decides when to call, the NodeManager
decides what to send.
"""

from __future__ import annotations

import enum

from ..records.tracker_protocol import NodeHeartbeatResponse

FIRST_RETRY = 0.01
"""Seconds between the first attempts to connect: the RM is starting at the same time."""
FIRST_RETRY_LASTS = 3.0
"""Seconds for which attempts follow each other at this rate."""
BACKOFF_MIN = 0.05
BACKOFF_MAX = 1.0
"""The longest pause, in seconds, between attempts to reconnect; the pause is doubled after each."""
OPPORTUNISTIC_GAPS = 2
"""The number of gaps by which news of opportunistic containers alone wait after the last heartbeat, and at least one
gap after the change. By then the node has started the next containers, and the RM does not allocate the resources of
the ended ones to others."""
IDLE_INTERVALS = 3
"""The number of intervals for which the RM may hold the heartbeat of a node without containers, which has no news."""
QUICK_ANSWERS = 5
"""The number of quick answers without news after which the node concludes that the RM does not hold heartbeats; it
then waits for the interval."""


class Backoff:
    """The pauses between attempts to reach the RM."""

    def __init__(self) -> None:
        self._next = BACKOFF_MIN

    def reset(self) -> None:
        """Begin with the shortest pause again, after the RM has answered."""
        self._next = BACKOFF_MIN

    def take(self) -> float:
        """The pause before the next attempt."""
        pause, self._next = self._next, min(self._next * 2, BACKOFF_MAX)
        return pause


class LinkState(enum.Enum):
    """The states of the connection. UNREGISTERED is the end."""

    IDLE = "IDLE"
    CONNECTING = "CONNECTING"
    WAITING_TO_RETRY = "WAITING_TO_RETRY"
    REGISTERING = "REGISTERING"
    REGISTERED = "REGISTERED"
    UNREGISTERED = "UNREGISTERED"


class ResourceManagerLink:
    """``interval`` seconds is the longest time between heartbeats; with ``periodic``, every interval has this length.

    ``gap`` is the shortest interval while containers queue at the node: changes within it go together.
    """

    def __init__(self, *, periodic: bool, interval: float = 1.0, gap: float = 0.0) -> None:
        self.state = LinkState.IDLE
        self.queueing = False
        """Whether containers queue at the node: then no news are urgent, since its vcores are in use."""
        self.idle = False
        """Whether the node has no containers."""
        self._gap = 0.0 if periodic else gap
        self._last_sent = float("-inf")
        self.interval = interval
        self.secret = ""
        self.response_id = 0
        self.was_registered = False
        self.lost_at: float | None = None
        self._periodic = periodic
        self._began_at: float | None = None
        self._retry_at: float | None = None
        self._backoff = Backoff()
        self._register_at: float | None = None
        self._in_flight: dict[int, float] = {}
        self._next_sequence = 1
        self._next_beat_at = 0.0
        self._dirty = False
        self._changed_at = 0.0
        self._of_others = False
        self._quick = 0

    @property
    def is_registered(self) -> bool:
        """Whether the node is registered with the RM."""
        return self.state is LinkState.REGISTERED

    @property
    def in_flight(self) -> int:
        """The number of unanswered heartbeats."""
        return len(self._in_flight)

    @property
    def wait_ms(self) -> int:
        """The time, in ms, for which the RM may hold the answer to a heartbeat."""
        return 0 if self._periodic else int(self.interval * 1000) * (IDLE_INTERVALS if self.idle else 1)

    # -- connecting and registering --------------------------------------------------------------------

    def connecting(self, now: float) -> None:
        """An attempt to connect has begun."""
        self.state = LinkState.CONNECTING
        self._retry_at = None
        if self._began_at is None:
            self._began_at = now
        if self.lost_at is None:
            self.lost_at = now

    def lost(self, now: float) -> None:
        """There is no connection: try again after a pause."""
        self._in_flight.clear()
        self._register_at = None
        if self.state is LinkState.UNREGISTERED:
            return
        if self.lost_at is None:
            self.lost_at = now
        began_at = self._began_at if self._began_at is not None else now
        if not self.was_registered and now - began_at < FIRST_RETRY_LASTS:
            pause = FIRST_RETRY
        else:
            pause = self._backoff.take()
        self.state = LinkState.WAITING_TO_RETRY
        self._retry_at = now + pause

    def registering(self) -> None:
        """A registration is on its way."""
        self.state = LinkState.REGISTERING
        self._register_at = None

    def registered(self, now: float, *, secret: str, interval: float) -> None:
        """The RM has accepted the registration. Answers to earlier heartbeats are ignored."""
        self.state = LinkState.REGISTERED
        self.was_registered = True
        self.lost_at = None
        self.secret = secret
        self.interval = interval
        self.response_id = 0
        self._in_flight.clear()
        self._next_beat_at = now
        self._quick = 0

    def register_again(self, now: float) -> None:
        """The RM does not know this node (RESYNC): register after a pause, a short one at first."""
        self.state = LinkState.REGISTERING
        self._in_flight.clear()
        self._register_at = now + self._backoff.take()

    def unregistered(self) -> None:
        """The node has unregistered: send no more heartbeats."""
        self.state = LinkState.UNREGISTERED
        self._retry_at = self._register_at = None
        self._in_flight.clear()

    def retry_due(self, now: float) -> bool:
        """Whether it is time to connect again."""
        return self._retry_at is not None and now >= self._retry_at

    def registration_due(self, now: float) -> bool:
        """Whether it is time to register again over the present connection."""
        return self._register_at is not None and now >= self._register_at

    # -- heartbeats ------------------------------------------------------------------------------------

    def changed(self, now: float, *, opportunistic: bool = False) -> None:
        """There is news, of an ``opportunistic`` container or of anything else."""
        if not self._dirty:
            self._changed_at = now
        self._dirty = True
        self._of_others |= not opportunistic

    def heartbeat_due(self, now: float) -> bool:
        """Whether a heartbeat must be sent now."""
        if not self.is_registered or now < self._not_before:
            return False
        if self._periodic:
            return not self._in_flight and now >= self._next_beat_at
        if not self._in_flight:
            return self._dirty or now >= self._next_beat_at
        return self._dirty and len(self._in_flight) == 1

    @property
    def _not_before(self) -> float:
        """The earliest time of the next heartbeat."""
        if not self.queueing:
            return self._last_sent
        if not self._dirty or self._of_others:
            return self._last_sent + self._gap
        return max(self._last_sent + self._gap * OPPORTUNISTIC_GAPS, self._changed_at + self._gap)

    def sent(self, now: float) -> int:
        """A heartbeat is sent now; returns its sequence number."""
        sequence = self._next_sequence
        self._next_sequence += 1
        self._in_flight[sequence] = now
        self._dirty = self._of_others = False
        self._last_sent = now
        self._next_beat_at = now + self.interval
        return sequence

    def answered(self, sequence: int, response: NodeHeartbeatResponse, now: float) -> bool:
        """A heartbeat was answered. Returns whether the answer counts: it does not if the node has registered again
        since."""
        sent_at = self._in_flight.pop(sequence, None)
        if sent_at is None:
            return False
        self.response_id = max(self.response_id, response.response_id)
        self._backoff.reset()
        if response.next_interval_ms > 0:
            self.interval = response.next_interval_ms / 1000
        if self._periodic or self._in_flight:
            return True
        was_held = now - sent_at >= self.interval / 2
        self._quick = 0 if was_held or _has_news(response) else self._quick + 1
        if self._quick <= QUICK_ANSWERS:
            self._next_beat_at = now  # The next heartbeat is sent, and waits at the RM.
        return True

    def next_deadline(self) -> float | None:
        """The time when the next call is due, None for never."""
        if self._retry_at is not None:
            return self._retry_at
        if self._register_at is not None:
            return self._register_at
        if not self.is_registered:
            return None
        if self._dirty and self.queueing and self._gap and len(self._in_flight) < 2:
            return self._not_before
        return max(self._next_beat_at, self._not_before) if not self._in_flight else None

    def validate(self) -> None:
        """Assert the invariants between two events."""
        # Two, and the last one of an ending node, which is sent without waiting for answers.
        assert len(self._in_flight) <= 3, self._in_flight
        assert not self._in_flight or self.is_registered, self.state
        assert (self._retry_at is not None) == (self.state is LinkState.WAITING_TO_RETRY), self.state


def _has_news(response: NodeHeartbeatResponse) -> bool:
    return bool(
        response.containers_to_start
        or response.tasks_to_start
        or response.containers_to_cleanup
        or response.containers_to_update
        or response.application_priorities
        or response.applications_to_cleanup
        or response.completed_acknowledged
        or response.questions
    )
