"""Messages to the service manager (sd_notify(3)), for the daemons and for ``yopp up --foreground``. It never
waits for an answer, and it is not an error if the service manager does not listen."""

from __future__ import annotations

import contextlib
import os
import time

SOCKET = "NOTIFY_SOCKET"
"""The environment variable with the service manager's socket: a path, or an abstract name that
begins with @."""


def is_managed() -> bool:
    """Whether a service manager expects messages from this process."""
    return os.environ.get(SOCKET, "").startswith(("/", "@"))


def notify(*assignments: str) -> None:
    """Send ``READY=1`` and the like to the service manager; does nothing if no service manager started
    this process."""
    if not is_managed():
        return
    import socket

    address = os.environ[SOCKET]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.connect("\0" + address[1:] if address.startswith("@") else address)
        notifier.sendall("\n".join(assignments).encode("utf-8", "surrogateescape"))


def notify_reloading() -> None:
    """Tell the service manager that the configuration is being read again, until the next ``READY=1``."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
