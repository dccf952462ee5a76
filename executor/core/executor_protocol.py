"""What performs the commands of a ContainerScheduler: the Linux executor, the simulator's, the tests' recorder."""

from __future__ import annotations

from typing import Protocol

from .commands import Command


class ContainerExecutor(Protocol):
    """Performs commands; whoever made it gave it the function to which it posts its events."""

    def perform(self, command: Command) -> None:
        """Begin to carry out one command. Never waits and never raises for what the world does."""
