"""How a command that only looks goes on when its ResourceManager is lost: it tries again for a while, and says when
that takes long, and when the ResourceManager is there again.

Changes are never made a second time: nobody knows whether the first was. An RM that is there and does not answer is not
lost, and is told of at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import ConnectionFailedError
from ..masters.ends import PATIENCE_SECONDS, RETRY_SECONDS, Loss, retrying


class Patience:
    """``tell`` gets a line for people; ``may_return`` says whether the cluster of that RM still exists."""

    def __init__(self, tell: Callable[[str], None], may_return: Callable[[], bool]) -> None:
        self._tell = tell
        self._may_return = may_return
        self._loss = Loss()
        self._connected = 0.0

    def lost(self, error: ConnectionFailedError) -> None:
        """Wait until it is time for another try. Raises ConnectionFailedError where there is to be none."""
        now = time.monotonic()
        lasts = self._loss.lasts(now)
        if not self._may_return():
            raise ConnectionFailedError(
                "the cluster has ended",
                because="its ResourceManager has ended, and no daemon restarts it",
                hint="yopp up",
            ) from error
        if not lasts:
            raise ConnectionFailedError(
                f"the ResourceManager has been unavailable for {PATIENCE_SECONDS:g} s",
                because=error.because or error.message,
                hint="`yopp up` starts what is missing; its log is rm.log in the run directory",
            ) from error
        if self._loss.worth_telling(now):
            self._tell(retrying(error))
        time.sleep(RETRY_SECONDS)

    def connected(self) -> None:
        """There is an RM again; whether it answers is seen then."""
        self._connected = time.monotonic()

    def found(self) -> None:
        """A call was answered: what is lost from now on is another time."""
        if self._loss.since is None:
            return
        away = self._connected - self._loss.since
        self._tell(f"the ResourceManager is available again after {away:.1f} s")
        self._loss.over()
