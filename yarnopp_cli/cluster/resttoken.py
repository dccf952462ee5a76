"""The bearer token of the REST API: whoever has read it from the run directory may do over HTTP what its owner may.

It is a file that only the cluster's user and root can read, so it says no more than the user's uid does; but it can be
used where the kernel tells no uid: through a tunnel, from a container with a network of its own, by a proxy.
"""

from __future__ import annotations

import os
import stat

from ..errors import YoppError
from .rundir import RunDir

NAME = "rest.token"
LEAST_CHARACTERS = 32


def read_token(run_dir: RunDir) -> str:
    """The token as it is now, "" where there is none that only its owner can read. It changes with its file."""
    try:
        facts = os.lstat(os.path.join(run_dir.path, NAME))
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            return ""
        found = (run_dir.read(NAME) or "").strip()
    except (OSError, YoppError):
        return ""
    return found if len(found) >= LEAST_CHARACTERS else ""


def keep_token(run_dir: RunDir) -> None:
    """Make a token, unless there is one. Raises YoppError if its file cannot be written."""
    if not read_token(run_dir):
        import secrets  # 4 ms

        run_dir.write(NAME, secrets.token_urlsafe(32) + "\n")
