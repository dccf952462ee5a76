"""Starts and ends a cluster, or one of its daemons: for ``yopp up`` and ``down``, jobs without a cluster, ``rm`` and
``nm``, and daemons that restart each other.

``machine/life.py`` decides. Its steps are performed here, under the lock of the run directory: every call is
idempotent, and safe if several commands make it at once. Prints nothing and asks the user nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Mapping

from executor.hints import TYPE_CHECKING, Any
from executor.light import Record, replace
from executor.linux.procfs import is_ours
from executor.records import Resource

from ..errors import ConnectionFailedError, ShuttingDownError, StoppedDaemonError, YoppError
from ..machine import life
from ..machine.life import RM, START_SECONDS, NodeSizeRequest, PlannedNode, RmAnswer, Step, Verb
from ..records import client_protocol as protocol
from ..records.methods import Request, ResponseT
from ..records.reports import ON_DEMAND, STAY
from ..rpc.blocking import Connection
from . import state
from .launching import (
    END_GRACE_SECONDS,
    WATCHED,
    Launch,
    command_line,
    daemon_environment,
    daemon_of,
    daemon_spec,
)
from .notifying import SOCKET, is_managed
from .obstacles import await_files, clear_obstacles
from .processes import END_NODE, ProcessId, end_processes, wait_for_end
from .rundir import NODES, SITE, Daemon, RunDir

if TYPE_CHECKING:
    from typing import NoReturn

    from ..settings.loading import Configuration
    from .cleanup import Cleared
    from .inspection import ClusterHandle

CALL_SECONDS = 5.0
JOIN_SECONDS = 2.0
"""How long the start of an RM waits for running nodes; one that hangs, is drained or is unhealthy costs all of it."""
_V2 = "/sys/fs/cgroup/cgroup.controllers"


class Ended(Record):
    """The names of the daemons that were ended, and what was removed."""

    names: tuple[str, ...]
    cleared: Cleared


def ensure_cluster(
    configuration: Configuration,
    run_dir: RunDir,
    *,
    lifetime: str,
    wish: NodeSizeRequest = NodeSizeRequest(),
    timeout: float = START_SECONDS,
    supervised: bool = False,
    end_lost: bool | None = None,
) -> ClusterHandle:
    """Ensure that a cluster runs: join a running one, start missing daemons, and return when all of
    them are ready.

    ``lifetime`` "on-demand" (jobs) joins any cluster; "stay" (``yopp up``) refuses a cluster that runs with
    other settings, naming each difference, and makes an on-demand cluster stay. A cluster that stays and has lost
    all daemons is started as it was, except by a ``yopp up`` that asks for something else. It waits for the end of a
    cluster that is shutting down. With ``supervised`` the caller restarts the RM if it dies, otherwise its
    nodes do. ``end_lost`` decides about the containers of lost applications. Raises YoppError; a call that fails
    ends the daemons that it started.
    """
    from .inspection import join

    if lifetime == ON_DEMAND:
        run_dir.check(closing=True)
        joined = join(run_dir)
        if joined is not None and joined.info.nodes_running:
            return joined
    up = _Command(run_dir, life.Up(lifetime, wish), timeout, configuration, supervised=supervised)
    return up.start().cluster(end_lost)


def start(
    run_dir: RunDir,
    wanted: life.OneRm | life.SomeNodes,
    configuration: Configuration,
    timeout: float = START_SECONDS,
) -> tuple[str, ...]:
    """Start the RM alone, and have the running nodes join it; or nodes, for which an RM must run. The names of the
    daemons that were started. Raises YoppError."""
    names = _Command(run_dir, wanted, timeout, configuration).start().begun.names
    if RM in names:
        nodes = sum(bool(daemon.port) for daemon in run_dir.daemons())
        # Until they have joined, it knows no container, and lists would say that none is live.
        with contextlib.suppress(YoppError), Connection(run_dir.rm_socket) as connection:
            request = protocol.WaitForNodesRequest(nodes, int(JOIN_SECONDS * 1000))
            connection.call(request, timeout=2 * JOIN_SECONDS)
    return names


def become(
    run_dir: RunDir, wanted: life.OneRm | life.SomeNodes, configuration: Configuration, *, announce: bool
) -> NoReturn:
    """Become the RM or an NM, in the foreground; with ``announce`` it prints JSON when it serves. Does not return."""
    begun = _Command(run_dir, wanted, START_SECONDS, configuration).start().begun
    environment = daemon_environment(os.environ)
    if is_managed():  # a service manager expects messages from this very process
        environment[SOCKET] = os.environ[SOCKET]
    spec = daemon_spec(run_dir, begun.names[0], begun.plan)
    command = [*command_line(spec), "--log-to-stderr", *(["--announce"] if announce else [])]
    os.execve(command[0], command, environment)


def end(
    run_dir: RunDir, wanted: life.Down | life.Stop, *, force: bool = False, lock_timeout: float | None = None
) -> Ended:
    """End the cluster with what is left of it, or one daemon. A daemon that was due to be restarted counts as ended.

    Daemons that do not end when asked to get SIGTERM, and with ``force`` SIGKILL; ``force`` also finds daemons without
    pid files. Another command that holds the lock is waited for, for ``lock_timeout`` seconds (``timeout``). Raises
    YoppError for daemons that do not end.
    """
    from .cleanup import Cleared

    searches, problems = force and isinstance(wanted, life.Down), tuple[str, ...]()
    try:
        run_dir.check()
    except YoppError as error:
        if not searches:
            raise
        problems = (f"{error.message}, so what is in it was left: {error.because}",)
    is_lost = bool(problems) or not run_dir.exists()
    if is_lost and not searches:
        return Ended((), Cleared())
    command = _Command(run_dir, wanted, wanted.timeout if lock_timeout is None else lock_timeout, force=force)
    command.there = replace(command.there, is_lost=is_lost)
    if not is_lost:
        clear_obstacles(run_dir)
    if not force:
        with contextlib.suppress(YoppError):
            await_files(run_dir)
    command.run()
    names = tuple(command.processes)
    if isinstance(wanted, life.Stop):
        names = (wanted.name,) if wanted.name in (*names, *command.there.watched) else ()
    return Ended(names, command.cleared or Cleared(problems=problems))


def start_again(
    run_dir: RunDir, name: str, by: str, *, unwatched: bool = False, timeout: float = START_SECONDS
) -> int:
    """Start the dead daemon ``name`` for the daemon ``by``; ``unwatched``: no daemon would restart ``by``.

    Returns the number of tries; 0 if it already runs, or it or ``by`` has been stopped by a command. If ``by`` has died
    meanwhile, the daemon that starts restarts it. Raises YoppError or OSError if it does not start.
    """
    command = _Command(run_dir, life.Again(name, by, unwatched), timeout)
    # The lock file is created with the directory: a directory that was removed must not be created again.
    if os.path.exists(run_dir.lock_file) and state.has_died(run_dir, name) is not None:
        clear_obstacles(run_dir)
        command.run()
    return command.tries


def restart_for_daemon(path: str, name: str, by: str, files: str, unwatched: str = "") -> int:
    """The process that a daemon runs for another one that has died, so that its own loop never waits: print ``tries``,
    or ``why`` it failed, as JSON. ``path`` is the run directory, ``files`` the limit of open files (0: as it is)."""
    if limit := int(
        files
    ):  # the daemon that asks has raised its own limit; containers must have the users' limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        answer: dict[str, object] = {
            "tries": start_again(RunDir.of(path), name, by, unwatched=bool(unwatched))
        }
    except (YoppError, OSError) as error:
        answer = {"why": error.brief if isinstance(error, YoppError) else str(error)}
    with contextlib.suppress(OSError):  # the daemon that asks may have ended meanwhile
        os.write(1, json.dumps(answer).encode())
    return 0


class _Command:
    """One command: it observes the run directory, asks for the steps, and performs them. ``timeout`` bounds a start,
    and the wait for the lock. ``processes`` are those of the observed daemons, by name."""

    def __init__(
        self,
        run_dir: RunDir,
        wanted: life.Wanted,
        timeout: float,
        configuration: Configuration | None = None,
        *,
        force: bool = False,
        supervised: bool = False,
    ) -> None:
        self.run_dir = run_dir
        self.wanted = wanted
        self.there = life.Observation(run_dir.path)
        self.begun = Step(Verb.START)
        self.processes: dict[str, ProcessId] = {}
        self.launch: Launch | None = None
        self.warnings: list[str] = []
        self.cleared: Cleared | None = None
        self.tries = 0
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._configuration = configuration
        self._stored: Configuration | None = None
        self._force = self._searches = force
        self._supervised = supervised

    def start(self) -> _Command:
        """Prepare the run directory, and ``run``."""
        self.run_dir.prepare()
        self.warnings += clear_obstacles(self.run_dir)
        await_files(self.run_dir)
        self.run()
        return self

    def run(self) -> None:
        """Perform the steps, under the lock. Then wait for the daemons that were started, without the lock, by which a
        daemon that has died meanwhile is restarted. Raises YoppError."""
        with contextlib.ExitStack() as locked:
            if not self.there.is_lost:
                locked.enter_context(self.run_dir.lock(self._timeout, force=self._force))
            if not isinstance(self.wanted, life.Up):  # the wait for the lock is not part of its time
                self._deadline = time.monotonic() + self._timeout
            steps: life.Steps = (life.LOOK,)
            while steps:
                for step in steps:
                    self._perform(step)
                steps = life.steps(self.there, self.wanted) if steps[-1].verb is Verb.LOOK else ()
        if self.launch is not None:
            with self.launch.undone_on_failure():
                self.launch.finish()

    def _left(self) -> float:
        return max(0.1, self._deadline - time.monotonic())

    def _named(self, step: Step) -> list[ProcessId]:
        """The processes of the daemons that a step names."""
        return [process for name, process in self.processes.items() if name in step.names or not step.names]

    def _call(self, request: Request[ResponseT]) -> None:
        with Connection(self.run_dir.rm_socket) as connection:
            connection.call(request, timeout=CALL_SECONDS)

    # -- looking ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        run_dir, wanted = self.run_dir, self.wanted
        daemons = self._daemons()
        self.processes |= {one.name: one.process for one in daemons}
        facts: dict[str, Any] = {"running": {one.name: one.process.pid for one in daemons}}
        facts["watched"] = state.watched_names(run_dir)
        if not isinstance(wanted, life.Down | life.Stop):
            facts |= {"plan": state.read_plan(run_dir), "is_stored": os.path.exists(run_dir.site_file)}
        if isinstance(wanted, life.Again):
            died = state.has_died(run_dir, wanted.name)
            facts["died"] = {} if died is None else {wanted.name: died}
            known = [name for name in facts["watched"] if state.read_watched(run_dir, name) is not None]
            facts["watched"] = tuple(known)
        if self._configuration is not None:
            self._stored = self._stored or state.running_configuration(run_dir)
            changes = () if self._stored is None else self._configuration.differences(self._stored)
            facts |= {"is_stored": self._stored is not None, "is_changed": bool(changes)}
        if isinstance(wanted, life.Up):
            facts["is_late"] = time.monotonic() >= self._deadline
            facts["rm"], facts["why"] = self._answer() if RM in facts["running"] else (RmAnswer.NONE, "")
            if wanted.lifetime == STAY:
                facts |= self._facts_of_stay(
                    facts["plan"] if not daemons else None, bool(facts["is_changed"])
                )
        self.there = replace(self.there, **facts)

    def _facts_of_stay(self, dead: life.Plan | None, is_changed: bool) -> dict[str, Any]:
        """The differences between the configurations, and whether nodes of a ``dead`` cluster have left records."""
        from .cleanup import has_records
        from .reloading import setting_differences

        stored, wanted = self._stored, self._configuration
        found = setting_differences(stored, wanted) if is_changed and stored and wanted else []
        nodes = dead.nodes if dead is not None else ()
        outlived = any(has_records(self.run_dir, node.port) for node in nodes)
        return {"differences": tuple(found), "outlived": outlived}

    def _answer(self) -> tuple[RmAnswer, str]:
        """What the running RM answers, and why it does not. Raises StoppedDaemonError."""
        from .inspection import look

        try:
            # An RM that is shutting down refuses this call; for any other RM it changes nothing.
            self._call(protocol.SetLifetimeRequest(look(self.run_dir, timeout=CALL_SECONDS).info.lifetime))
            return RmAnswer.SERVES, ""
        except ShuttingDownError:
            return RmAnswer.ENDS, ""
        except StoppedDaemonError:
            raise
        except ConnectionFailedError as error:
            return RmAnswer.SILENT, error.because or error.message

    def _daemons(self) -> tuple[Daemon, ...]:
        """The running daemons: also processes of this user with the arguments of a daemon of this run directory, with
        ``force``, or if the RM is missing or began a short time ago. A daemon that begins has no pid file yet, and its
        starter may have been killed."""
        found = () if self.there.is_lost else self.run_dir.daemons()
        known = {one.process for one in found}
        rm = next((one.process for one in found if one.name == RM), None)
        self._searches = self._searches or rm is None or rm.age() < START_SECONDS
        for pid in map(int, filter(str.isdigit, os.listdir("/proc") if self._searches else ())):
            process = ProcessId.of(pid) if daemon_of(pid, self.run_dir) else None
            if (
                process is None
                or process in known
                or not is_ours(pid)
                or not (self._force or self._is_here(pid))
            ):
                continue
            # Read again: the start time is now known, and the process may be another one than before. A second process
            # of a name is a child of the first, which has not yet executed its program.
            name = daemon_of(pid, self.run_dir)
            if name and (self._force or name not in (one.name for one in found)):
                found = (Daemon(name, int(name.partition("-")[2] or 0), process), *found)
        return tuple(sorted(found, key=lambda one: one.port))

    def _is_here(self, pid: int) -> bool:
        """Whether the path of the run directory is the same directory for a process: mounts may differ."""
        path = self.run_dir.path
        with contextlib.suppress(OSError):
            return os.path.samefile(f"/proc/{pid}/root{path}", path)
        return False

    # -- the steps -------------------------------------------------------------------------------------

    def _perform(self, step: Step) -> None:
        wanted = self.wanted
        match step.verb:
            case Verb.LOOK:
                self._look()
            case Verb.WAIT:
                limit = step.seconds if isinstance(wanted, life.Down) else min(step.seconds, self._left())
                if wait_for_end(self._named(step), limit):
                    self.there = replace(self.there, expired=(*self.there.expired, step))
            case Verb.SIZE:
                self._size(step)
            case Verb.CLEAR:
                self._clear_others(step)
            case Verb.STAY:
                self._call(protocol.SetLifetimeRequest(STAY))
            case Verb.START | Verb.BECOME:
                self._start(step)
            case Verb.FORGET:
                state.forget_watched(self.run_dir, *step.names)
            case Verb.ASK if isinstance(wanted, life.Down):
                self.there = replace(self.there, rm=self._ask_to_end(wanted))
            case Verb.END_NODES:
                for name, process in self.processes.items():
                    if name != RM:
                        process.send(END_NODE)
                        process.send(signal.SIGCONT)
            case Verb.END:
                self._end(step)
            case Verb.CLEAN if isinstance(wanted, life.Down):
                self._clean(wanted)

    def _configured(self, step: Step) -> Configuration:
        """The configuration with which a step starts daemons."""
        chosen = self._configuration if step.is_new or self._stored is None else self._stored
        assert chosen is not None  # a command that starts daemons has one
        return chosen

    def _size(self, step: Step) -> None:
        from .capacity import plan_capacity
        from .gpus import with_gpus

        assert isinstance(self.wanted, life.Up | life.SomeNodes)
        configuration, others = self._configured(step), step.plan.nodes
        taken = sum((Resource(node.memory, node.vcores) for node in others), Resource())
        shared = plan_capacity(configuration, self.wanted.wish, taken=taken)
        self.warnings += shared.warnings
        taken_names = {*step.names, *(node.name for node in others)}
        ports = (step.port,) if step.port is not None else state.free_ports(taken_names)
        nodes = tuple(
            PlannedNode(port, one.memory, one.vcores) for port, one in zip(ports, shared.nodes, strict=False)
        )
        self.there = replace(self.there, sized=with_gpus(configuration, nodes, others))

    def _clear_others(self, step: Step) -> None:
        from . import cleanup

        where = cleanup.places(self.run_dir, self._configured(step))
        kept = {int(name.removeprefix("nm-")) for name in step.names if name != RM}
        if orphaned := frozenset(cleanup.known_ports(self.run_dir, where) - kept):
            self.warnings += cleanup.clear(self.run_dir, where, ports=orphaned).problems

    def _start(self, step: Step) -> None:
        """Write the files, and begin to start the daemons. If that fails, they and the files are taken back."""
        run_dir, again = self.run_dir, isinstance(self.wanted, life.Again)
        run_dir.remove_stale_files()
        files = {name: run_dir.read(name) for name in (SITE, NODES)} if step.is_new else {}
        names = step.names if step.verb is Verb.START else ()
        specs = [daemon_spec(run_dir, name, step.plan, *self._arguments(name)) for name in names]
        self.begun = step
        self.launch = Launch(
            run_dir,
            specs,
            timeout=self._left(),
            undo=lambda: self._restore(step, files),
            grace=0.0 if again else END_GRACE_SECONDS,
        )
        with self.launch.undone_on_failure(locked=True):
            if step.is_new or not self.there.is_stored:
                run_dir.write(SITE, self._configured(step).to_json())
            if step.is_new or step.plan != self.there.plan:
                state.write_plan(run_dir, step.plan)
            if specs and isinstance(self.wanted, life.Up) and os.path.exists(_V2):
                # Daemons that are started in the cgroup of this process can delegate controllers if it is in a leaf.
                from executor.linux.cgroups.discovery import enter_leaf
                from executor.settings import ExecutorSettings

                enter_leaf(self._configured(step).settings(ExecutorSettings))
            self.launch.begin()
            if not again:
                self.launch.finish(RM)

    def _arguments(self, name: str) -> tuple[str, ...]:
        """The arguments of a daemon about its restarts by others."""
        if not isinstance(self.wanted, life.Again):
            return () if self._supervised and name == RM else (WATCHED,)
        died = state.count_a_try(self.run_dir, name, self.there.died[name])
        self.tries = died.tries
        return WATCHED, "--restarted-by", self.wanted.by, "--died", str(died.pid), "--tries", str(died.tries)

    def _restore(self, step: Step, files: Mapping[str, str | None]) -> None:
        """Restore the files of a cluster that is new, unless another command has ended it or started daemons; take new
        nodes from the plan of one that goes on."""
        run_dir, before = self.run_dir, self.there.plan or life.Plan()
        with contextlib.suppress(YoppError):  # the disk is full: the reason of the failure is told
            if not step.is_new:
                new = set(step.plan.nodes) - set(before.nodes)
                if new and (plan := state.read_plan(run_dir)) is not None:
                    nodes = tuple(node for node in plan.nodes if node not in new)
                    state.write_plan(run_dir, life.Plan(nodes, plan.lifetime))
            elif not run_dir.daemons():
                is_planned = os.path.exists(run_dir.nodes_file)
                state.forget_cluster(run_dir)
                for name, text in files.items() if is_planned else ():
                    if text is not None:
                        run_dir.write(name, text)

    def _ask_to_end(self, down: life.Down) -> RmAnswer:
        for process in self.processes.values():
            process.send(signal.SIGCONT)  # a stopped process could not answer
        try:
            self._call(protocol.ShutdownClusterRequest(down.keep_containers))
        except ShuttingDownError:
            pass
        except YoppError:
            return RmAnswer.SILENT
        return RmAnswer.ENDS

    def _end(self, step: Step) -> None:
        left = end_processes(self._named(step), grace=step.seconds, force=self._force)
        names = [f"{name} (process {one.pid})" for name, one in self.processes.items() if one in left]
        if names:
            raise YoppError(
                f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} not ended",
                because=f"SIGTERM was sent {step.seconds:g} s ago",
                hint="the same command with --force kills it",
            )
        if not self.there.is_lost:
            self.run_dir.remove_stale_files()

    def _clean(self, down: life.Down) -> None:
        from . import cleanup

        run_dir, started, cleared = self.run_dir, state.as_started(self.run_dir), cleanup.Cleared()
        if not down.keep_containers:
            where = cleanup.places(run_dir, state.running_configuration(run_dir))
            # Not all: what clients have handed over belongs to applications.
            ports = frozenset(cleanup.known_ports(run_dir, where)) if down.keep_applications else None
            cleared = cleanup.clear(run_dir, where, ports=ports)
            if not down.keep_applications:
                started.forget_rm_state()
        state.forget_watched(run_dir)
        if not down.keep_applications:
            state.forget_cluster(run_dir, keep_plan=down.keep_containers)
        kept = run_dir.stale_files()
        if not (down.keep_containers or down.keep_applications):
            kept += tuple(filter(os.path.lexists, (run_dir.site_file, started.rm_state_file)))
        if kept:
            problem = (
                f"{', '.join(kept)} cannot be removed: the next cluster in this run directory would find it"
            )
            cleared = replace(cleared, problems=(*cleared.problems, problem))
        self.cleared = cleared

    def cluster(self, end_lost: bool | None) -> ClusterHandle:
        """Wait for all nodes of the plan to register; the resulting cluster."""
        from .inspection import ClusterHandle, look, weaker_limits

        nodes, started = self.begun.plan.nodes, self.begun.names
        with Connection(self.run_dir.rm_socket) as connection:
            satisfied = False
            while not satisfied:
                ends = time.monotonic() >= self._deadline
                request = protocol.WaitForNodesRequest(len(nodes), int(self._left() * 1000))
                satisfied = connection.call(request, timeout=self._left() + CALL_SECONDS).satisfied or ends
            if end_lost is not None:
                settle = protocol.SettleLostRequest(end_lost)
                kept = connection.call(settle, timeout=CALL_SECONDS).containers
                told = "are ended" if end_lost else "run to their end"
                self.warnings.append(f"containers whose applications were lost: {kept} {told}")
        seen = look(self.run_dir, timeout=CALL_SECONDS)
        self.warnings += [*seen.info.warnings, *seen.info.lost]
        if seen.info.nodes_running < len(nodes):
            self.warnings.append(
                f"{seen.info.nodes_running} of {len(nodes)} nodes are ready: see `yopp status`"
            )
        fresh = [node.port for node in nodes if node.name in started]
        if fresh:
            self.warnings += weaker_limits(self.run_dir, fresh[0])  # this is the same for all nodes of a host
        return ClusterHandle(self.run_dir, seen.info, seen.nodes, started, tuple(self.warnings))
