"""What a service manager is told: sd_notify(3), for the daemons and for ``yopp up --foreground``. It never waits for an
answer, and a service manager that does not listen is no error."""

from __future__ import annotations

import contextlib
import os
import time

SOCKET = "NOTIFY_SOCKET"
"""The variable that names the service manager's socket: a path, or with @ an abstract name."""


def is_managed() -> bool:
    """Whether a service manager waits to hear from this process."""
    return os.environ.get(SOCKET, "").startswith(("/", "@"))


def notify(*assignments: str) -> None:
    """Tell the service manager ``READY=1`` and the like; nothing where this process was not started by one."""
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
