"""Retries of a command whose ResourceManager is lost: it tries again for a while, reports a long
absence, and reports when the ResourceManager is available again.

Changes are never retried, except a submission, which has a key (``jobs/client.py``): whether the first call took effect
is unknown. An RM that is connected but does not answer is not lost; that is an error at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import ConnectionFailedError
from ..masters.ends import PATIENCE_SECONDS, RETRY_SECONDS, Loss, retrying


class Patience:
    """Decides about retries. ``tell`` gets lines for the user; ``may_return`` returns whether the cluster still
    exists."""

    def __init__(self, tell: Callable[[str], None], may_return: Callable[[], bool]) -> None:
        self._tell = tell
        self._may_return = may_return
        self._loss = Loss()

    def lost(self, error: ConnectionFailedError) -> None:
        """Wait until the next try. Raises ConnectionFailedError if no further try follows."""
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

    def found(self) -> None:
        """A call was answered: the loss is over, and the next one counts separately."""
        if self._loss.since is None:
            return
        away = time.monotonic() - self._loss.since
        self._tell(f"the ResourceManager is available again after {away:.1f} s")
        self._loss.over()
