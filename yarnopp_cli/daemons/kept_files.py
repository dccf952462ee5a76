"""The plain files of the run directory that a daemon writes again if another program removes them, such as one that
removes what has not been used for long (tmpfiles.d).

Without them, a dead daemon would not be restarted, and the next command would start it with other settings. Sockets
cannot be made again: a daemon without one ends.
"""

from __future__ import annotations

import logging
import os
import stat

from executor.light import suppress

from ..cluster.rundir import NODES, PORT, SITE, TOKEN, RunDir
from ..errors import YoppError

LOG = logging.getLogger(__name__)

LOCK_SECONDS = 0.05
"""How long to wait for another daemon, which writes the same."""


class KeptFiles:
    """The files of the daemon ``name``, and those that the daemons of a run directory share."""

    def __init__(self, run_dir: RunDir, name: str) -> None:
        self._run_dir = run_dir
        self._names = (SITE, NODES, TOKEN, "where", f"{name}.http", f"{name}{PORT}", f"{name}.watched")
        self._known: dict[str, str] = {}
        self._missed: set[str] = set()

    def look(self) -> bool:
        """Read them, and write what was also missing at the last look: a directory that is being removed is left alone.
        Returns whether more is missing than then. Raises nothing.
        """
        found = {name: self._read(name) for name in self._names}
        missing = {name for name, text in found.items() if text is None and self._known.get(name)}
        self._known |= {name: text for name, text in found.items() if text is not None}
        lost, is_more = missing & self._missed, missing > self._missed
        self._missed = missing
        if lost or not os.path.exists(self._run_dir.lock_file):
            # Not while a command starts or stops daemons: it may be the one that removes them.
            with suppress(YoppError), self._run_dir.lock(LOCK_SECONDS):
                for name in lost:
                    if self._read(name) is None:
                        self._run_dir.write(name, self._known[name])
                        LOG.warning("%s was removed: writing it again", name)
        return is_more

    def _read(self, name: str) -> str | None:
        """The text of a file, None if it is missing, "" if others may read it: then its token counts no more."""
        try:
            mode = os.lstat(os.path.join(self._run_dir.path, name)).st_mode
            return "" if stat.S_IMODE(mode) & 0o077 else self._run_dir.read(name) or ""
        except FileNotFoundError:
            return None
        except (OSError, YoppError):
            return self._known.get(name, "")
