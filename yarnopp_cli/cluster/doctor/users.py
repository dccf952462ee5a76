"""The users: as which user containers run, and what prevents that on this host. A check, and a refusal."""

from __future__ import annotations

import os
from collections.abc import Iterator

from executor.errors import CannotLaunchError
from executor.linux.owners.accounts import Account, Accounts, refuse_unreachable
from executor.settings import ExecutorSettings

from ...errors import EXIT_CANNOT_START, YoppError
from ...rpc.connection import user_name
from ...settings.declarations import NodeManagerSettings
from ...settings.loading import Configuration
from ..rundir import RunDir
from .check import OK, WARN, Check, Examined
from .cluster import existing


def users(examined: Examined) -> Iterator[Check]:
    """As which user containers run, and whether containers of other users can start."""
    settings = examined.configuration.settings(ExecutorSettings)
    if os.geteuid() != 0:
        yield Check("users", OK, f"containers run as {user_name(os.geteuid())}, and can signal the daemons")
        return
    anybody = Account("another user", -1, -1, (), "/")
    if settings.limit_users:
        try:
            anybody = Accounts(settings).of("") or anybody
        except CannotLaunchError as error:
            fix = "-Dyarn.nodemanager.linux-container-executor.nonsecure-mode.local-user=<user>"
            yield Check("users", WARN, error.message, f"no container starts: {error.because}", fix)
            return
    try:
        _refuse_closed(anybody, examined.configuration, examined.run_dir)
    except CannotLaunchError as error:
        if settings.limit_users:
            yield Check("users", WARN, error.message, f"no container starts: {error.because}", error.hint)
        else:
            yield Check("users", OK, f"only root's containers start, as root: {error.because}")
        return
    who = anybody.name if settings.limit_users else "the user who submitted them"
    yield Check("users", OK, f"containers run as {who}; containers of root can signal the daemons")


def refuse_user(user: str, configuration: Configuration, run_dir: RunDir) -> None:
    """Refuse a user whose containers no node would start, before a cluster is started for them. Raises YoppError."""
    try:
        if (account := Accounts(configuration.settings(ExecutorSettings)).of(user)) is not None:
            _refuse_closed(account, configuration, run_dir)
    except CannotLaunchError as error:
        raise YoppError(
            error.message,
            because=error.because,
            hint=error.hint or "`yopp doctor` says as which users containers run",
            exit_code=EXIT_CANNOT_START,
        ) from None


def _refuse_closed(account: Account, configuration: Configuration, run_dir: RunDir) -> None:
    """Raise CannotLaunchError unless the account can reach the directories that its containers need."""
    places = configuration.settings(NodeManagerSettings)
    for path in (places.local_dirs, places.log_dirs):
        if path.startswith(f"{run_dir.path}/"):
            raise CannotLaunchError(
                f"{account.name} cannot reach {path}",
                because=f"{run_dir.path} is not accessible to others",
                hint="set yarn.nodemanager.local-dirs and yarn.nodemanager.log-dirs to other places",
            )
        refuse_unreachable(account, existing(path))
