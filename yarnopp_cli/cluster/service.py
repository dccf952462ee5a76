"""The cluster of a run directory as a systemd service: one unit, which starts all of its daemons at boot.

For root it is a system unit, for any other user a unit of that user's service manager. A unit file that
``install`` did not write is never changed. Nothing here prints.

Decisions: restarts.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from executor.light import Record
from executor.regular import read_regular, write_whole

from ..errors import EXIT_NOT_PERMITTED, EXIT_UNREACHABLE, InvalidStateError, YoppError, reason_of
from ..settings.files import home_of, user_of
from .launching import daemon_environment
from .rundir import RunDir

MARK = "# Made by `yopp service install`; `yopp service remove` removes it."
"""The first line of every unit file that ``install`` writes."""
SUBGROUPS = 254
"""The first systemd version that starts a service in a subgroup of its delegated cgroup (DelegateSubgroup=),
so that it can start beside processes of an earlier run. It also waits for reloads (Type=notify-reload, since
253)."""
SUBGROUP = "yopp-self"
"""The subgroup that nodes, too, use for themselves in a delegated cgroup."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./~-]+")
_SHOWN = ("ActiveState", "UnitFileState", "MainPID")
_RUNS = ("active", "reloading")


class Host(Record):
    """The places of systemd's files. Tests use others."""

    etc: str = "/etc/systemd/system"
    shipped: tuple[str, ...] = (
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
    )
    booted: str = "/run/systemd/system"
    """A directory that exists if systemd is the host's init (sd_booted(3))."""
    runtime: str = "/run/user"
    lingering: str = "/var/lib/systemd/linger"
    cgroups: str = "/sys/fs/cgroup"


HOST = Host()


class Service(Record):
    """The unit of one run directory: ``name``.service in the file ``path``. With ``uid`` 0 it is a
    system unit."""

    run_dir: RunDir
    uid: int
    user: str
    name: str
    path: str
    host: Host
    environ: Mapping[str, str]

    @property
    def unit(self) -> str:
        """The name of the unit for systemctl."""
        return f"{self.name}.service"

    @property
    def systemctl(self) -> tuple[str, ...]:
        """The command that manages the unit."""
        return ("systemctl",) if self.uid == 0 else ("systemctl", "--user")

    @property
    def runtime(self) -> str:
        """The runtime directory of the user's service manager."""
        return self.environ.get("XDG_RUNTIME_DIR") or f"{self.host.runtime}/{self.uid}"

    @property
    def delegated(self) -> tuple[str, ...] | None:
        """The controllers delegated to the user's service manager; None for root, and without cgroups v2."""
        group = f"user.slice/user-{self.uid}.slice/user@{self.uid}.service"
        try:
            with open(os.path.join(self.host.cgroups, group, "cgroup.controllers"), encoding="ascii") as file:
                return tuple(file.read().split()) if self.uid else None
        except OSError:
            return None

    @property
    def lingers(self) -> bool:
        """Whether the unit starts at boot and outlives a logout; a user's unit does so only with
        lingering enabled."""
        return self.uid == 0 or os.path.exists(os.path.join(self.host.lingering, self.user))


class State(Record):
    """The state of a service. ``ours`` is None if there is no unit file, True if ``install`` wrote it."""

    ours: bool | None
    enabled: str = ""
    active: str = "inactive"
    pid: int = 0


def service_here(run_dir: RunDir) -> Service:
    """The service of a run directory for the user of this process."""
    home = home_of(os.environ)
    return service_of(run_dir, os.getuid(), user_of(os.environ), home, os.environ)


def service_of(run_dir: RunDir, uid: int, user: str, home: str, environ: Mapping[str, str]) -> Service:
    """The service of a run directory: ``yopp`` for the default one, ``yopp-<key>`` for others."""
    is_default = run_dir.path == RunDir.resolve(None, {}, uid, home).path
    name = "yopp" if is_default else f"yopp-{run_dir.key}"
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    folder = HOST.etc if uid == 0 else os.path.join(config, "systemd", "user")
    return Service(run_dir, uid, user, name, os.path.join(folder, f"{name}.service"), HOST, environ)


# -- the unit ------------------------------------------------------------------------------------------


def unit_text(service: Service, words: Sequence[str], *, version: int) -> str:
    """The unit that starts the cluster by ``yopp up --foreground`` with ``words``, for a version
    of systemd."""
    command = [sys.executable, "-P", "-m", "yarnopp_cli", "up", "--foreground"]
    command += ["--run-dir", service.run_dir.path, *words]
    path = daemon_environment({}).get("PYTHONPATH")
    environment = [f"Environment={quoted(f'PYTHONPATH={path}', dollar='$')}"] if path else []
    if version >= SUBGROUPS:
        # If the ResourceManager or this command dies, the rest keeps running, and the next start recovers it.
        kind = ["Type=notify-reload", "KillMode=process", f"DelegateSubgroup={SUBGROUP}"]
    else:
        kind = ["Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "KillMode=mixed"]
    after = ["After=network.target"] if service.uid == 0 else []
    lines = [
        MARK,
        "[Unit]",
        f"Description=yopp: YARN's containers on this host ({escaped(service.run_dir.path)})",
        "Documentation=man:yopp(1) man:yopp-service(1)",
        *after,
        "",
        "[Service]",
        *kind,
        f"ExecStart={' '.join(map(quoted, command))}",
        *environment,
        "Restart=on-failure",
        "RestartSec=1",
        "TimeoutStopSec=60",
        "# The cgroups below the service are yopp's, with these controllers.",
        "Delegate=cpu memory pids",
        "# An OOM kill of a container does not affect the service.",
        "OOMPolicy=continue",
        "TasksMax=infinity",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if service.uid == 0 else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A text with backslashes, line ends and systemd's specifiers escaped."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("%", "%%")


def quoted(word: str, *, dollar: str = "$$") -> str:
    """A word quoted for ``ExecStart=`` (systemd.syntax(7), systemd.service(5)). In ``Environment=`` a dollar
    is an ordinary character (systemd.exec(5)), so pass ``dollar="$"``."""
    if _PLAIN.fullmatch(word):
        return word
    return '"' + escaped(word).replace('"', '\\"').replace("$", dollar) + '"'


# -- the state -----------------------------------------------------------------------------------------


def check_systemd(service: Service) -> None:
    """Raise YoppError on a host without systemd, and for a user without a service manager."""
    if not os.path.isdir(service.host.booted):
        raise YoppError(
            "there is no systemd here",
            because=f"{service.host.booted} does not exist: this host has another init",
            hint="let your init run `yopp up --foreground`, which ends on SIGTERM",
            exit_code=EXIT_UNREACHABLE,
        )
    socket = os.path.join(service.runtime, "systemd", "private")
    if service.uid and not os.path.exists(socket):
        raise YoppError(
            f"no service manager of {service.user} is running",
            because=f"{socket} does not exist",
            hint="`loginctl enable-linger` starts it, or log in",
            exit_code=EXIT_UNREACHABLE,
        )


def is_ours(path: str) -> bool | None:
    """Whether ``install`` wrote the unit file; None if there is no file. False for a link."""
    try:
        return read_regular(path).partition(b"\n")[0] == MARK.encode()
    except FileNotFoundError:
        return None
    except OSError:
        return False


def state_of(service: Service) -> State:
    """The state of the service, also if systemd does not run. Raises YoppError."""
    ours = is_ours(service.path)
    try:
        check_systemd(service)
    except YoppError:
        return State(ours)
    told = _systemctl(service, "show", f"--property={','.join(_SHOWN)}", service.unit)
    shown = dict(line.partition("=")[::2] for line in told.splitlines())
    pid = shown.get("MainPID", "")
    return State(
        ours,
        shown.get("UnitFileState", ""),
        shown.get("ActiveState", ""),
        int(pid) if pid.isdigit() else 0,
    )


def systemd_version(service: Service) -> int:
    """The version of systemctl. Raises YoppError."""
    found = re.match(r"systemd (\d+)", _systemctl(service, "--version"))
    return int(found[1]) if found else 0


# -- install and remove --------------------------------------------------------------------------------


def check_install(service: Service, *, start: bool) -> State:
    """The state of the service. Raises YoppError if it cannot be installed: there is another unit of its
    name, or (with ``start``) a running cluster that the service did not start."""
    elsewhere = [os.path.join(folder, service.unit) for folder in service.host.shipped if service.uid == 0]
    taken = [path for path in elsewhere if os.path.lexists(path)]
    if is_ours(service.path) is False:
        taken.insert(0, service.path)
    if taken:
        raise InvalidStateError(
            f"another {service.unit} exists",
            because=f"{taken[0]} was not made by `yopp service install`",
            hint="remove it, or use a run directory with another name, which has a unit with another name",
        )
    state = state_of(service)
    there = service.run_dir.daemons() if service.run_dir.exists() else ()
    if start and there and state.active not in _RUNS:
        raise InvalidStateError(
            "a cluster is already running here",
            because=f"{there[0].name} is process {there[0].process.pid}, which the service did not start",
            hint="`yopp down` first, or --no-start",
        )
    return state


def install(service: Service, text: str, before: State, *, start: bool) -> None:
    """Write the unit, and enable it for boot; with ``start`` start it now. ``before`` is from
    ``check_install``.

    Raises YoppError if systemd refuses the unit, or the cluster does not start; then the change is undone.
    """
    with contextlib.ExitStack() as undo:
        undo.callback(_undo, service, before, _content(service.path))
        try:
            os.makedirs(os.path.dirname(service.path), exist_ok=True)
            write_whole(service.path, text.encode("utf-8", "surrogateescape"), mode=0o644, durable=True)
        except OSError as error:
            raise YoppError(
                f"cannot write {service.path}",
                because=reason_of(error),
                hint="`ls -ld` shows who owns it",
                exit_code=EXIT_NOT_PERMITTED if isinstance(error, PermissionError) else None,
            ) from None
        _systemctl(service, "daemon-reload")
        _systemctl(service, "enable", *(["--now"] if start else []), service.unit)
        undo.pop_all()


def check_remove(service: Service) -> State:
    """The state of the service. Raises YoppError for a unit that ``install`` did not write."""
    if is_ours(service.path) is False:
        raise InvalidStateError(
            f"{service.unit} is not removed",
            because=f"{service.path} was not made by `yopp service install`",
            hint=f"`{' '.join(service.systemctl)} disable --now {service.unit}`, and remove the file",
        )
    return state_of(service)


def remove(service: Service) -> None:
    """Stop and disable the service, and remove its unit. Call ``check_remove`` first. Raises YoppError."""
    with_systemd = True
    try:
        check_systemd(service)
    except YoppError:  # without systemd there is only the file to remove
        with_systemd = False
    if with_systemd:
        _systemctl(service, "disable", "--now", service.unit)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(service.path)
    if with_systemd:
        _reload(service)


def _content(path: str) -> bytes | None:
    with contextlib.suppress(OSError):
        return read_regular(path)
    return None


def _undo(service: Service, before: State, content: bytes | None) -> None:
    """Restore the unit file to ``content``, None for none. A service that was not running is stopped, and one
    that was not enabled is disabled: systemd would restart it again and again.
    """
    words = ["disable"] * (content is None or before.enabled != "enabled")
    words += ["--now" if words else "stop"] * (content is None or before.active not in _RUNS)
    if words:
        with contextlib.suppress(YoppError):
            _systemctl(service, *words, service.unit)
    if content is not None:
        with contextlib.suppress(OSError):
            write_whole(service.path, content, mode=0o644, durable=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(service.path)
    _reload(service)


def _reload(service: Service) -> None:
    with contextlib.suppress(YoppError):
        _systemctl(service, "daemon-reload")


def _systemctl(service: Service, *words: str) -> str:
    """The output of systemctl. If it fails, raises YoppError with the last line of its errors."""
    command = [*service.systemctl, *words]
    environment = dict(service.environ)
    if service.uid:
        environment["XDG_RUNTIME_DIR"] = service.runtime
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
        )
    except OSError as error:
        raise YoppError(
            "systemctl cannot be run", because=reason_of(error), hint="it comes with systemd"
        ) from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        user = "" if service.uid == 0 else "--user "
        raise YoppError(
            f"`{' '.join(command)}` failed",
            because=said[-1] if said else f"it ended with exit code {done.returncode}",
            hint=f"`journalctl {user}-e -u {service.unit}` shows the service's log",
        )
    return done.stdout
