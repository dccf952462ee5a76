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
        self._known: dict[str, tuple[tuple[int, int], str]] = {}
        self._missed: set[str] = set()

    def look(self) -> bool:
        """Read what has changed, and write what was also missing at the last look: a directory that is being removed is
        left alone. Returns whether more is missing than then. A file that others may read is not kept: its token counts
        no more. Raises nothing.
        """
        missing, before = set(), self._missed
        for name in self._names:
            try:
                facts = os.lstat(os.path.join(self._run_dir.path, name))
                version = facts.st_ino, facts.st_ctime_ns
                if self._known.get(name, (None, ""))[0] != version:
                    text = None if stat.S_IMODE(facts.st_mode) & 0o077 else self._run_dir.read(name)
                    self._known[name] = version, text or ""
            except FileNotFoundError:
                if self._known.get(name, (None, ""))[1]:
                    missing.add(name)
            except (OSError, YoppError) as error:
                LOG.warning("%s of %s cannot be read: %s", name, self._run_dir.path, error)
        lost = missing & before
        if lost or not os.path.exists(self._run_dir.lock_file):
            # Not while a command starts or stops daemons: it may be the one that removes them.
            with suppress(YoppError), self._run_dir.lock(LOCK_SECONDS):
                for name in lost:
                    if not os.path.lexists(os.path.join(self._run_dir.path, name)):
                        self._run_dir.write(name, self._known[name][1])
                        LOG.warning("%s was removed: writing it again", name)
        self._missed = missing
        return missing > before
