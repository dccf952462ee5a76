"""What a launcher is asked to start for a container: its environment, directories, user and GPUs."""

from __future__ import annotations

import getpass
import os
import pwd
from collections.abc import Mapping

from ..errors import CannotLaunchError
from ..light import Record
from ..records import ContainerSpec, ExecutionType
from ..settings import ExecutorSettings
from .cgroups.devices import DeviceGroups
from .directories import Directories
from .environment import container_environment, whitelisted
from .owners.accounts import Accounts


class LaunchRequest(Record):
    """What is needed to start one container. ``join`` are the ``cgroup.procs`` (v1: ``tasks``) files that its first
    process joins first."""

    container_id: str
    command: tuple[str, ...]
    environment: dict[str, str]
    working_directory: str
    stdout: str
    stderr: str
    join: tuple[str, ...] = ()
    account: tuple[int, int, list[int], bool] | None = None
    """The account to run as: uid, gid, groups, and whether the process is kept from gaining privileges
    (no_new_privs). None: this process's own."""
    umask: int = -1
    """That of the command; -1 for this process's own."""
    oom_score_adj: int = 0
    idle: bool = False
    """Its score for the OOM killer (proc(5)); whether it has the idle class of I/O, and without cgroups of the CPU."""


def check_words(command: tuple[str, ...]) -> None:
    """Refuse words that are not a command. Raises CannotLaunchError."""
    if not command:
        raise CannotLaunchError("no command was given", 127)
    if not command[0] or command[0].startswith("-"):
        raise CannotLaunchError(f"{command[0]!r}: command not found", 127)


class LaunchRequests:
    """``device_groups`` has the files to join for GPUs, where the kernel denies a container the others."""

    def __init__(
        self,
        directories: Directories,
        accounts: Accounts,
        settings: ExecutorSettings,
        *,
        node_environment: Mapping[str, str],
        device_vendor: str,
        device_groups: DeviceGroups | None,
    ) -> None:
        self._directories = directories
        self._accounts = accounts
        self._settings = settings
        self._node_environment = dict(node_environment)
        self._device_vendor = device_vendor
        self._device_groups = device_groups
        # Read once: each access to os.environ encodes and decodes.
        self._inherited = whitelisted(os.environ)
        self._user, self._home = _account()

    def of(self, spec: ContainerSpec) -> LaunchRequest:
        """The request to start a container."""
        private = self._directories.private(spec.container_id)
        working = os.path.abspath(spec.working_directory) if spec.working_directory is not None else private
        logs = self._directories.log(spec)
        account = self._accounts.of(spec.user)
        groups = self._device_groups
        yields = spec.execution_type is ExecutionType.OPPORTUNISTIC
        return LaunchRequest(
            container_id=spec.container_id,
            command=spec.command,
            environment=container_environment(
                spec,
                node_environment=self._node_environment,
                inherited=self._inherited,
                private_directory=private,
                working_directory=working,
                log_directory=logs,
                user=self._user,
                home=self._home if account is None else account.home,
                account=account is not None,
                device_vendor=self._device_vendor,
            ),
            working_directory=working,
            stdout=os.path.join(logs, "stdout"),
            stderr=os.path.join(logs, "stderr"),
            join=() if groups is None else (groups.join_file(spec.devices),),
            account=None if account is None else account.ids,
            umask=spec.umask,
            oom_score_adj=self._settings.opportunistic_oom_score_adj if yields else 0,
            idle=yields and self._settings.opportunistic_idle,
        )


def _account() -> tuple[str, str]:
    """The name and home directory of the user who runs this process."""
    try:
        entry = pwd.getpwuid(os.geteuid())
        return entry.pw_name, entry.pw_dir
    except KeyError:
        try:
            return getpass.getuser(), os.environ.get("HOME", "/")
        except (KeyError, OSError):
            return str(os.geteuid()), os.environ.get("HOME", "/")
