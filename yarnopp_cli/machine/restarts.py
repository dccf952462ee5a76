"""Whether and when a daemon that died is started again. Pure.

Decisions: restarts.
"""

from __future__ import annotations

from executor.light import Record

FIRST_PAUSE = 0.1
"""Seconds before the second try; each further pause is twice as long. The first try is at once."""
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 5.0
"""A daemon that has run for this long since its last restart starts with a new count of tries."""


class Watched(Record):
    """A daemon that is to be started again if it dies: its process, and the tries since it last ran steadily.

    ``start`` is in clock ticks after boot, ``boot_id`` the kernel's. ``tried_at`` is when it was last started again, in
    seconds after boot.
    """

    pid: int
    start: int
    boot_id: str = ""
    tries: int = 0
    tried_at: float = 0.0


class DaemonRestarted(Record):
    """The daemon ``name`` (``rm``, ``nm-<port>``) died, and ``by`` has started it again, as try ``tries``.

    ``died`` is the process that died.
    """

    name: str
    by: str
    tries: int
    died: int = 0


class DaemonGivenUp(Record):
    """The daemon ``name`` died, and ``by`` does not start it again after ``tries`` tries.

    ``why`` is the last failure.
    """

    name: str
    by: str
    tries: int
    why: str = ""


def tries_so_far(watched: Watched, now: float) -> int:
    """How often it was started again since it last ran steadily; ``now`` in seconds after boot."""
    return watched.tries if now - watched.tried_at < STEADY_SECONDS else 0


def pause(watched: Watched, now: float, most: int) -> float | None:
    """In how many seconds it may be started again; None after ``most`` tries."""
    tries = tries_so_far(watched, now)
    if tries == 0:
        return 0.0
    if tries >= most:
        return None
    wanted = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (tries - 1))
    return max(0.0, watched.tried_at + wanted - now)
