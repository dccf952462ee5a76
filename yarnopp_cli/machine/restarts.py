"""Whether and when a dead daemon is restarted. Pure.

Decisions: restarts.
"""

from __future__ import annotations

from executor.light import Record

FIRST_PAUSE = 0.1
"""Seconds before the second try; each further pause is twice as long. The first try is immediate."""
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 5.0
"""A daemon that has run for this long since its last restart starts with a new count of tries."""


class Watched(Record):
    """A daemon that is restarted if it dies: its process, and the tries since it last ran steadily.

    ``start`` is in clock ticks after boot, ``boot_id`` is the kernel's. ``tried_at`` is the time of the last
    restart, in seconds after boot. ``given_up``: it has died, and no daemon restarts it any more.
    """

    pid: int
    start: int
    boot_id: str = ""
    tries: int = 0
    tried_at: float = 0.0
    given_up: bool = False


class DaemonRestarted(Record):
    """The daemon ``name`` (``rm``, ``nm-<port>``) has died, and the daemon ``by`` has restarted it, with
    try ``tries``.

    ``died`` is the pid of the dead process.
    """

    name: str
    by: str
    tries: int
    died: int = 0


class DaemonGivenUp(Record):
    """The daemon ``name`` has died, and the daemon ``by`` does not restart it after ``tries`` tries.

    ``why`` is the reason of the last failure.
    """

    name: str
    by: str
    tries: int
    why: str = ""


def tries_so_far(watched: Watched, now: float) -> int:
    """The number of restarts since the daemon last ran steadily; ``now`` is in seconds after boot."""
    return watched.tries if now - watched.tried_at < STEADY_SECONDS else 0


def pause(watched: Watched, now: float, most: int) -> float | None:
    """The seconds until the daemon may be restarted; None after ``most`` tries."""
    tries = tries_so_far(watched, now)
    if tries == 0:
        return 0.0
    if tries >= most:
        return None
    wanted = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (tries - 1))
    return max(0.0, watched.tried_at + wanted - now)
