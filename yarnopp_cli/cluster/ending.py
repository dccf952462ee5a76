"""Ends a cluster, or one of its daemons: ``yopp down``, SIGTERM to ``yopp up --foreground``, ``yopp rm stop`` and
``yopp nm stop``.

Every call is idempotent and holds the lock of the run directory. Prints nothing and asks the user nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from executor.light import Record, replace, suppress
from executor.linux.procfs import is_ours

from ..errors import ShuttingDownError, YoppError
from ..records.client_protocol import ShutdownClusterRequest
from ..rpc.blocking import Connection
from . import cleanup
from .obstacles import await_files, clear_obstacles
from .plan import as_started, forget_cluster, running_configuration
from .processes import END_NODE, ProcessId, end_processes, wait_for_end
from .rundir import Daemon, RunDir
from .watched import forget_watched, watched_names

STOP_SECONDS = 30.0
CALL_SECONDS = 5.0
TERM_SECONDS = 5.0
ALONE_SECONDS = 1.0
"""How long nodes may outlive an RM that has shut down cleanly, before each gets a SIGTERM."""


class DownReport(Record):
    """The result of ``take_down``: the names of the daemons that it ended, and what it removed."""

    ended: tuple[str, ...]
    cleared: cleanup.Cleared


def take_down(
    run_dir: RunDir,
    *,
    keep_containers: bool = False,
    keep_applications: bool = False,
    force: bool = False,
    timeout: float = STOP_SECONDS,
    lock_timeout: float | None = None,
) -> DownReport:
    """End the cluster, and remove what is left of it, including the files of daemons that were killed.

    It asks the RM first; daemons that have not ended after ``timeout`` seconds get SIGTERM, and with
    ``force`` SIGKILL. With ``keep_containers`` the containers keep running, and the next ``up`` starts the
    same nodes, which recover them (and end those of applications that the new RM does not know: all of them,
    unless the RM stores its state). With ``keep_applications`` the containers end and the stored state of the RM
    remains, so that the next ``up`` goes on with the same cluster and its applications; the RM ends first, and so
    takes no end of a container for a failure. Another command that holds the lock is waited for, for ``lock_timeout``
    seconds (``timeout``). Raises YoppError for daemons that do not end.
    """
    problems: tuple[str, ...] = ()
    left: Sequence[ProcessId]
    try:
        run_dir.check()
    except YoppError as error:
        if not force:
            raise
        problems = (f"{error.message}, so what is in it was left: {error.because}",)
    if problems or not run_dir.exists():
        daemons = _unfiled(run_dir) if force else ()
        for daemon in daemons:
            daemon.process.send(signal.SIGCONT)
        left = _end_in_turn(daemons, force=force, timeout=timeout)
        _end(daemons, left, grace=min(TERM_SECONDS, timeout), force=force)
        return DownReport(tuple(one.name for one in daemons), cleanup.Cleared(problems=problems))
    clear_obstacles(run_dir)
    if not force:
        with suppress(YoppError):
            await_files(run_dir)
    with run_dir.lock(timeout if lock_timeout is None else lock_timeout, force=force):
        forget_watched(run_dir)  # before anything else, so that no daemon is restarted meanwhile
        daemons = _daemons(run_dir, force)
        left = [daemon.process for daemon in daemons]
        for process in left:
            process.send(signal.SIGCONT)  # a stopped process could not answer the request to end
        if keep_applications:
            left = _end_in_turn(daemons, force=force, timeout=timeout)
        elif daemons and daemons[0].name == "rm" and _ask_to_end(run_dir, keep_containers):
            # The RM ends after the nodes that it knows. A node that is starting or has lost it is not told.
            wait_for_end(left[:1], timeout)
            left = wait_for_end(left, ALONE_SECONDS)
        elif not keep_containers:  # the nodes may have records that nobody can read any more
            _end_with_containers(daemons)
        _end(daemons, left, grace=min(TERM_SECONDS, timeout), force=force)
        cleared, started = cleanup.Cleared(), as_started(run_dir)
        if not keep_containers:
            configuration = running_configuration(run_dir)
            where = cleanup.places(run_dir, configuration)
            # Not all: what clients have handed over belongs to applications.
            ports = frozenset(cleanup.known_ports(run_dir, where)) if keep_applications else None
            cleared = cleanup.clear(run_dir, where, ports=ports)
            if not keep_applications:
                started.forget_rm_state()
        forget_watched(run_dir)
        run_dir.remove_stale_files()
        if not keep_applications:
            forget_cluster(run_dir, keep_plan=keep_containers)
        kept = run_dir.stale_files()
        if not (keep_containers or keep_applications):
            kept += tuple(filter(os.path.lexists, (run_dir.site_file, started.rm_state_file)))
        if kept:
            problem = (
                f"{', '.join(kept)} cannot be removed: the next cluster in this run directory would find it"
            )
            cleared = replace(cleared, problems=(*cleared.problems, problem))
    return DownReport(tuple(daemon.name for daemon in daemons), cleared)


def stop_daemon(run_dir: RunDir, name: str, *, force: bool = False, timeout: float = STOP_SECONDS) -> bool:
    """End the daemon ``rm`` or ``nm-<port>`` by SIGTERM, and with ``force`` by SIGKILL after
    ``timeout`` seconds.

    The other daemons keep running, and do not restart it. Returns False if it was neither running nor due to
    be restarted. Raises YoppError if it does not end.
    """
    if not run_dir.exists():
        return False
    run_dir.check()
    with run_dir.lock(timeout, force=force):
        wanted = name in watched_names(run_dir)
        forget_watched(run_dir, name)
        daemon = next((one for one in _daemons(run_dir, force) if one.name == name), None)
        if daemon is not None:
            _end([daemon], [daemon.process], grace=timeout, force=force)
            run_dir.remove_stale_files()
        return daemon is not None or wanted


def _daemons(run_dir: RunDir, force: bool) -> tuple[Daemon, ...]:
    """The running daemons; with ``force`` also those whose pid files are lost or damaged."""
    found = {one.process: one for one in (*(_unfiled(run_dir) if force else ()), *run_dir.daemons())}
    return tuple(sorted(found.values(), key=lambda one: one.port))


def _unfiled(run_dir: RunDir) -> tuple[Daemon, ...]:
    """The processes of this user with the arguments of a daemon of this run directory, whatever its files say."""
    from .launching import daemon_of

    found: tuple[Daemon, ...] = ()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        process = ProcessId.of(pid) if daemon_of(pid, run_dir) else None
        # Read again: the start time is now known, and the process may be another one than before.
        if process is not None and is_ours(pid) and (name := daemon_of(pid, run_dir)):
            found += (Daemon(name, int(name.partition("-")[2] or 0), process),)
    return found


def _end_in_turn(daemons: Sequence[Daemon], *, force: bool, timeout: float) -> Sequence[ProcessId]:
    """End the RM, then have the nodes end with their containers; the processes of nodes that still run."""
    rm = [daemon for daemon in daemons if daemon.name == "rm"]
    _end(rm, [daemon.process for daemon in rm], grace=timeout, force=force)
    return wait_for_end(_end_with_containers(daemons), timeout)


def _end_with_containers(daemons: Sequence[Daemon]) -> Sequence[ProcessId]:
    """Ask the nodes to end with their containers; their processes."""
    nodes = [daemon.process for daemon in daemons if daemon.port]
    for process in nodes:
        process.send(END_NODE)
    return nodes


def _end(daemons: Sequence[Daemon], processes: Sequence[ProcessId], *, grace: float, force: bool) -> None:
    left = end_processes(processes, grace=grace, force=force)
    if left:
        names = ", ".join(f"{one.name} (process {one.process.pid})" for one in daemons if one.process in left)
        raise YoppError(
            f"{names} {'has' if len(left) == 1 else 'have'} not ended",
            because=f"SIGTERM was sent {grace:g} s ago",
            hint="the same command with --force kills it",
        )


def _ask_to_end(run_dir: RunDir, keep_containers: bool) -> bool:
    """Ask the RM to shut down the cluster; whether it accepts."""
    try:
        with Connection(run_dir.rm_socket) as connection:
            connection.call(ShutdownClusterRequest(keep_containers), timeout=CALL_SECONDS)
    except ShuttingDownError:
        return True
    except YoppError:
        return False
    return True
