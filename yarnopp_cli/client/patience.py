"""How a command that only looks goes on when its ResourceManager is lost: it tries again for a while, and says when
that takes long, and when the ResourceManager is there again.

Changes are never made a second time: nobody knows whether the first was. An RM that is there and does not answer is not
lost, and is told of at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import ConnectionFailedError
from ..masters.ends import PATIENCE_SECONDS, RETRY_SECONDS, TELL_SECONDS


class Patience:
    """``tell`` gets a line for people; ``may_return`` says whether the cluster of that RM still exists."""

    def __init__(self, tell: Callable[[str], None], may_return: Callable[[], bool]) -> None:
        self._tell = tell
        self._may_return = may_return
        self._since: float | None = None
        self._told = False
        self._connected = 0.0

    def lost(self, error: ConnectionFailedError) -> None:
        """Wait until it is time for another try. Raises ConnectionFailedError where there is to be none."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if not self._may_return():
            raise ConnectionFailedError(
                "the cluster has ended",
                because="its ResourceManager has ended, and no daemon restarts it",
                hint="yopp up",
            ) from error
        away = now - self._since
        if away >= PATIENCE_SECONDS:
            raise ConnectionFailedError(
                f"the ResourceManager has been unavailable for {PATIENCE_SECONDS:g} s",
                because=error.because or error.message,
                hint="`yopp up` starts what is missing; its log is rm.log in the run directory",
            ) from error
        if away >= TELL_SECONDS and not self._told:
            self._told = True
            self._tell(
                f"{error.message}: retrying for {PATIENCE_SECONDS:g} s (`yopp up` starts what is missing)"
            )
        time.sleep(RETRY_SECONDS)

    def connected(self) -> None:
        """There is an RM again; whether it answers is seen then."""
        self._connected = time.monotonic()

    def found(self) -> None:
        """A call was answered: what is lost from now on is another time."""
        if self._since is None:
            return
        away = self._connected - self._since
        self._tell(f"the ResourceManager is available again after {away:.1f} s")
        self._since, self._told = None, False
