"""TCP ports that nobody else takes between the choice and its use."""

from __future__ import annotations

import os
import random
import socket
from typing import Final

_CHOICE: Final = random.Random(os.getpid())
_BELOW_EPHEMERAL: Final = range(10_000, 32_000)
"""The kernel gives these to nobody who connects, or who binds to port 0 (ip_local_port_range begins at 32768)."""


def free_port() -> int:
    """A TCP port of loopback on which nobody listens."""
    while True:
        port = _CHOICE.choice(_BELOW_EPHEMERAL)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
