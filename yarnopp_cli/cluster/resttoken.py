"""The bearer token of the REST API: a client that presents it may do over HTTP what the cluster's owner may; and the
links that are made of it, by which a browser of the owner may do the same.

Its file is readable only for the cluster's user and root, so it proves no more than the uid does; but it also
works where the kernel does not know the uid: through a tunnel or a proxy, or from a container with its own
network. A link names a host that nobody can have named before, so no page of another user has the same origin.

Decisions: callers.
"""

from __future__ import annotations

import os
import stat

from executor.linux.procfs import boot_id

from ..errors import YoppError
from .rundir import TOKEN, RunDir

LEAST_CHARACTERS = 32
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


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


def links(run_dir: RunDir) -> dict[str, str]:
    """The addresses by which the owner's browser calls the daemons that run, by their addresses for everybody: a name
    below ``localhost``, which browsers take for this host, made of token, boot and process. None without a token,
    and none for a daemon that is not on loopback."""
    token, found = read_token(run_dir), dict[str, str]()
    for daemon in run_dir.daemons() if token else ():
        import hmac  # 1 ms

        address = run_dir.http_address(daemon.name)
        host, _, port = address.rpartition(":")
        if host in _LOOPBACK:
            life = f"{boot_id()} {daemon.name} {daemon.process.pid} {daemon.process.start}"
            label = hmac.new(token.encode(), life.encode(), "sha256").hexdigest()[:32]
            found[address] = f"{label}.localhost:{port}"
    return found
