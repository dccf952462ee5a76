"""What the files of a run directory say of its cluster: the planned nodes, the configuration that its daemons run with,
and which of them are restarted if they die: one file ``<name>.watched`` for each.

A daemon writes that file when it serves, and removes it when it is asked to end. So if the process of a file is dead,
its end was not intended. Commands that stop daemons remove their files, including those of daemons that have died.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Container, Iterator

from executor.hints import TYPE_CHECKING
from executor.light import pattern, replace
from executor.linux.procfs import boot_id, is_alive
from executor.regular import NotRegularError, read_regular

from ..errors import YoppError
from ..machine.life import Plan
from ..machine.restarts import Watched, pause, tries_so_far
from ..records.reports import STAY
from ..rpc.plain import decode, encode
from .processes import ProcessId
from .rundir import FIRST_PORT, LAST_PORT, NODES, PORT, SITE, TOKEN, RunDir

if TYPE_CHECKING:
    from ..settings.loading import Configuration

_FILE = pattern(r"(rm|nm-[1-9][0-9]{0,4})\.watched")


def free_ports(used: Container[str]) -> Iterator[int]:
    """Ports for new nodes, from 45454 up, without those of the daemons ``used``. They are only names: nothing
    listens on them."""
    return (port for port in range(FIRST_PORT, LAST_PORT + 1) if f"nm-{port}" not in used)


def read_plan(run_dir: RunDir) -> Plan | None:
    """The plan in ``nodes.json``; None if there is none, or it is unreadable."""
    text = run_dir.read(NODES)
    if text is None:
        return None
    try:
        return decode(Plan, json.loads(text))
    except (ValueError, RecursionError, YoppError):
        return None


def write_plan(run_dir: RunDir, plan: Plan) -> None:
    """Store the plan, for the next command that starts missing daemons."""
    run_dir.write(NODES, json.dumps(encode(plan)) + "\n")


def running_configuration(run_dir: RunDir) -> Configuration | None:
    """The configuration with which the cluster runs; None if there is none, or it is unreadable."""
    from ..settings.loading import Configuration

    text = run_dir.read(SITE)
    if text is None:
        return None
    try:
        return Configuration.from_json(text)
    except YoppError:
        return None


def as_started(run_dir: RunDir) -> RunDir:
    """The run directory with the state directory of the cluster that was started there, which may have been another one
    by then; as it is where no cluster's configuration is left."""
    configuration = running_configuration(run_dir)
    return run_dir if configuration is None else RunDir.of(run_dir.path, state_dir=configuration.state_dir)


def forget_cluster(run_dir: RunDir, *, keep_plan: bool = False) -> None:
    """Remove the files that describe a cluster that has ended. Logs are kept."""
    names = [SITE]
    if not keep_plan:
        with contextlib.suppress(OSError):
            names += [NODES, TOKEN, *(name for name in os.listdir(run_dir.path) if name.endswith(PORT))]
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(run_dir.path, name))
    if run_dir.socket_dir != run_dir.path:
        for directory in (run_dir.socket_dir, os.path.dirname(run_dir.socket_dir)):
            with contextlib.suppress(OSError):  # it holds sockets of another cluster, or was never created
                os.rmdir(directory)


def seconds_since_boot() -> float:
    """The clock for restarts: it is independent of the wall clock, and runs while the machine
    is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def watched_names(run_dir: RunDir) -> tuple[str, ...]:
    """The names of the daemons that are restarted if they die, running or dead."""
    try:
        found = sorted(os.listdir(run_dir.path))
    except OSError:
        return ()
    return tuple(match[1] for match in map(_FILE.fullmatch, found) if match)


def read_watched(run_dir: RunDir, name: str) -> Watched | None:
    """The record of a watched daemon; None if it is not watched, or the file cannot be read now."""
    with contextlib.suppress(OSError):
        return read_surely(run_dir, name)
    return None


def read_surely(run_dir: RunDir, name: str) -> Watched | None:
    """As ``read_watched``, but raises OSError if the file cannot be read now: a lack of file descriptors must
    not make a daemon count as unwatched."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, NotRegularError):
        text = read_regular(os.path.join(run_dir.path, f"{name}.watched"))
        with contextlib.suppress(ValueError, RecursionError, YoppError):
            return decode(Watched, json.loads(text))
    return None


def write_watched(run_dir: RunDir, name: str, watched: Watched) -> None:
    """Mark a daemon for restart if it dies. Raises YoppError if the file cannot be written."""
    run_dir.write(f"{name}.watched", json.dumps(encode(watched)) + "\n")


def watch_this_process(run_dir: RunDir, name: str) -> None:
    """Mark this process, the daemon ``name``, for restart if it dies. Raises YoppError."""
    process = ProcessId.of(os.getpid())
    assert process is not None  # this process is running
    earlier = read_watched(run_dir, name) or Watched(0, 0)
    tries = tries_so_far(earlier, seconds_since_boot()) if earlier.boot_id == boot_id() else 0
    made = Watched(process.pid, process.start, boot_id(), tries, earlier.tried_at if tries else 0.0)
    write_watched(run_dir, name, made)


def count_a_try(run_dir: RunDir, name: str, watched: Watched) -> Watched:
    """Record that a dead daemon is being restarted. Raises YoppError if the file cannot be written."""
    now = seconds_since_boot()
    counted = replace(watched, tries=tries_so_far(watched, now) + 1, tried_at=now, given_up=False)
    write_watched(run_dir, name, counted)
    return counted


def give_up(run_dir: RunDir, name: str, died: Watched) -> None:
    """Record that a dead daemon is not restarted any more, unless it was started meanwhile. Raises YoppError if the
    file cannot be written."""
    if read_watched(run_dir, name) == died:
        write_watched(run_dir, name, replace(died, given_up=True))


def forget_watched(run_dir: RunDir, *names: str) -> None:
    """Stop watching these daemons; without names, all: they are not restarted any more."""
    for name in names or watched_names(run_dir):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(run_dir.path, f"{name}.watched"))


def has_died(run_dir: RunDir, name: str) -> Watched | None:
    """The record of a watched daemon that has died in this boot; None for any other daemon.

    The end of its process is known by pid, start time and boot id; the lock of the pid file shows that no
    other process has taken its place. Raises OSError if that cannot be read now.
    """
    watched = read_surely(run_dir, name)
    if watched is None:
        return None
    now = boot_id()
    if watched.boot_id and not now:
        raise OSError(errno.EIO, "the kernel does not say which start of the machine this is")
    if watched.boot_id != now or is_alive(watched.pid, watched.start):
        return None
    return None if run_dir.daemon(name) is not None else watched


def is_returning(run_dir: RunDir) -> bool:
    """Whether an RM that cannot be reached serves soon: it is starting, or has died and a running node restarts it."""
    from ..settings.declarations import DaemonSettings

    if (daemons := run_dir.daemons()) and daemons[0].name == "rm":
        return True
    died = read_watched(run_dir, "rm")
    if died is None or died.given_up or not (daemons or run_dir.is_changing()):
        return False
    configuration = running_configuration(run_dir)
    if configuration is None:
        return False
    tries = configuration.settings(DaemonSettings).restart_max_tries
    return pause(died, seconds_since_boot(), tries) is not None


def may_get_rm(run_dir: RunDir) -> bool:
    """Whether an RM runs, is due to be restarted, or may be among the daemons that a command starts or stops."""
    watched = read_watched(run_dir, "rm")
    due = watched is not None and not watched.given_up
    return run_dir.daemon("rm") is not None or due or run_dir.is_changing()


def may_return(run_dir: RunDir) -> bool:
    """Whether a cluster whose RM is lost still exists: it may get an RM, or it stays and only its RM was stopped."""
    if may_get_rm(run_dir):
        return True
    plan = read_plan(run_dir)
    return plan is not None and plan.lifetime == STAY and os.path.exists(run_dir.site_file)
