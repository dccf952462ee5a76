"""A check of the users: as which user containers run, and what prevents that on this host."""

from __future__ import annotations

import os
from collections.abc import Iterator

from executor.linux.owners.accounts import Account, Accounts, refuse_unreachable
from executor.linux.shim import CannotLaunchError
from executor.settings import ExecutorSettings

from ...rpc.connection import user_name
from ...settings.declarations import NodeManagerSettings
from .check import OK, WARN, Check, Examined
from .cluster import existing


def users(examined: Examined) -> Iterator[Check]:
    """As which user containers run, and whether containers of other users can start."""
    settings = examined.configuration.settings(ExecutorSettings)
    if os.geteuid() != 0:
        yield Check("users", OK, f"containers run as {user_name(os.geteuid())}, and can signal the daemons")
        return
    places = examined.configuration.settings(NodeManagerSettings)
    anybody = Account("another user", -1, -1, (), "/")
    if settings.limit_users:
        try:
            anybody = Accounts(settings).of("") or anybody
        except CannotLaunchError as error:
            fix = "-Dyarn.nodemanager.linux-container-executor.nonsecure-mode.local-user=<user>"
            yield Check("users", WARN, error.message, f"no container starts: {error.because}", fix)
            return
    closed = f"{examined.run_dir.path}/"
    try:
        for path in (places.local_dirs, places.log_dirs):
            if path.startswith(closed):
                raise CannotLaunchError(
                    f"{anybody.name} cannot reach {path}",
                    because=f"{examined.run_dir.path} is not accessible to others",
                    hint="set yarn.nodemanager.local-dirs and yarn.nodemanager.log-dirs to other places",
                )
            refuse_unreachable(anybody, existing(path))
    except CannotLaunchError as error:
        if settings.limit_users:
            yield Check("users", WARN, error.message, f"no container starts: {error.because}", error.hint)
        else:
            yield Check("users", OK, f"only root's containers start, as root: {error.because}")
        return
    who = anybody.name if settings.limit_users else "the user who submitted them"
    yield Check("users", OK, f"containers run as {who}; containers of root can signal the daemons")
