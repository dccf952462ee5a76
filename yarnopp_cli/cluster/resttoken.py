"""The bearer token of the REST API: a client that presents it may do over HTTP what the cluster's owner may.

Its file is readable only for the cluster's user and root, so it proves no more than the uid does; but it also
works where the kernel does not know the uid: through a tunnel or a proxy, or from a container with its own
network.
"""

from __future__ import annotations

import os
import stat

from ..errors import YoppError
from .rundir import TOKEN, RunDir

LEAST_CHARACTERS = 32


def read_token(run_dir: RunDir) -> str:
    """The token, read from its file each time; "" unless the file is private to this user and its text has at
    least 32 characters."""
    try:
        facts = os.lstat(os.path.join(run_dir.path, TOKEN))
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            return ""
        found = (run_dir.read(TOKEN) or "").strip()
    except (OSError, YoppError):
        return ""
    return found if len(found) >= LEAST_CHARACTERS else ""


def keep_token(run_dir: RunDir) -> None:
    """Create a token, unless there is one. Raises YoppError if its file cannot be written."""
    if not read_token(run_dir):
        import secrets  # 4 ms

        run_dir.write(TOKEN, secrets.token_urlsafe(32) + "\n")
