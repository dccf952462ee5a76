"""How a NodeManager ends: first its containers, unless they are kept; then it unregisters; then it stops. Pure."""

from __future__ import annotations

import enum
from typing import Final

from ..errors import ConnectionFailedError, ShuttingDownError, YoppError

UNREGISTER_SECONDS: Final = 1.0
"""How long the end waits for the RM to note it."""
GRACE_SECONDS: Final = 5.0
"""How long, beyond the time between SIGTERM and SIGKILL, the end waits for containers to end."""
FORCED_SECONDS: Final = 0.5
"""How long it waits after that."""


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
        """Whether the containers are kept for the next life of the node."""
        self.deadline = now + patience + GRACE_SECONDS
        self._unregistering = False
        self._forced = False

    def hasten(self, now: float) -> None:
        """The end was requested again: wait no longer for containers."""
        if not self.keeps and not self._forced:
            self.deadline = now

    def next_step(self, now: float, *, live: int, registered: bool) -> EndingStep:
        """The next step. ``live`` containers have not ended; ``registered``: the RM counts the node among its own."""
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
        """The error for masters: a node that keeps its containers is away like one that has died, and they wait for its
        next life. One that ends its containers ends the master, too."""
        kind = ConnectionFailedError if self.keeps else ShuttingDownError
        return kind(f"node {node_id} is ending", because=self.reason)
