"""The end of a NodeManager: first its containers end, unless they are kept; then it unregisters; then it stops.
Pure."""

from __future__ import annotations

import enum
from typing import Final

from ..errors import ConnectionFailedError, ShuttingDownError, YoppError

UNREGISTER_SECONDS: Final = 1.0
"""Seconds that the ending node waits for the RM's answer to its unregistration."""
GRACE_SECONDS: Final = 5.0
"""Seconds, beyond the time between SIGTERM and SIGKILL, that the ending node waits for containers to end."""
FORCED_SECONDS: Final = 0.5
"""Seconds that the ending node waits for containers after SIGKILL."""


class EndingStep(enum.Enum):
    """The next step of an ending node."""

    WAIT = "WAIT"
    KILL = "KILL"
    """Kill the containers that have not ended."""
    UNREGISTER = "UNREGISTER"
    STOP = "STOP"


class NodeEnding:
    """``patience`` is the time between SIGTERM and SIGKILL."""

    def __init__(self, reason: str, now: float, *, keeps: bool, patience: float) -> None:
        self.reason = reason
        self.keeps = keeps
        """Whether the containers are kept for the next NM process."""
        self.deadline = now + patience + GRACE_SECONDS
        self._unregistering = False
        self._forced = False

    def hasten(self, now: float) -> None:
        """The end was requested again: do not wait for containers any longer."""
        if not self.keeps and not self._forced:
            self.deadline = now

    def next_step(self, now: float, *, live: int, registered: bool) -> EndingStep:
        """The next step. ``live``: the number of containers that have not ended; ``registered``: the node is
        registered with the RM."""
        late = now >= self.deadline
        if self._unregistering:
            return EndingStep.STOP if late or not registered else EndingStep.WAIT
        if live and not self.keeps:
            if not late:
                return EndingStep.WAIT
            if not self._forced:
                self._forced, self.deadline = True, now + FORCED_SECONDS
                return EndingStep.KILL
            self.reason += f"; {live} containers did not end"
        if not registered:
            return EndingStep.STOP
        self._unregistering, self.deadline = True, now + UNREGISTER_SECONDS
        return EndingStep.UNREGISTER

    def refusal(self, node_id: str) -> YoppError:
        """The error for masters. A node that keeps its containers is unreachable like one that has died, and its
        containers wait for the next NM process. A node that ends its containers ends the master, too."""
        kind = ConnectionFailedError if self.keeps else ShuttingDownError
        return kind(f"node {node_id} is ending", because=self.reason)
