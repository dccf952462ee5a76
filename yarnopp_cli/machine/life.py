"""One life of the daemons of a cluster: the steps from the observed state to the wanted one. Pure.

A command observes the run directory (``Observation``), and performs the ``steps`` to the wanted state in order. Steps
that end with LOOK are only the first ones: the next steps depend on their outcome, so the command observes the run
directory again, and asks again.

Decisions: restarts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from executor.light import QuickEnum, Record, field

from ..errors import ConnectionFailedError, YoppError
from ..records.reports import STAY
from .restarts import Watched

RM = "rm"
"""The name of the ResourceManager in the run directory; a NodeManager's is ``nm-<port>``."""
ENDING_SECONDS = 15.0
"""How long a cluster may take to shut itself down before it counts as stuck."""
SILENT_SECONDS = 0.1
"""How soon an RM is asked again: its socket disappears shortly before its process ends, and appears shortly after it
starts."""
ORDERLY_SECONDS = 0.5
"""How long an NM may run on after its RM if both shut down cleanly. After an RM that was killed, it keeps running."""
ALONE_SECONDS = 1.0
"""How long nodes may outlive an RM that has shut down cleanly, before each gets a SIGTERM."""
TERM_SECONDS = 5.0
START_SECONDS = 30.0
STOP_SECONDS = 30.0
MOST_DIFFERENCES = 5
"""How many settings an error names in which a cluster differs."""


class PlannedNode(Record):
    """A planned node: its port (only a name), its memory in MB, its vcores, and its own GPUs."""

    port: int
    memory: int
    vcores: int
    gpus: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its daemon in the run directory."""
        return f"nm-{self.port}"


class Plan(Record):
    """The planned nodes of a cluster and its lifetime, as stored in ``nodes.json``."""

    nodes: tuple[PlannedNode, ...] = ()
    lifetime: str = STAY


class NodeSizeRequest(Record):
    """The requested nodes; None leaves the choice to yopp. Sizes are per node.

    ``configured`` means that the sizes come from the configuration and not from the command line.
    """

    nodes: int | None = None
    memory_mb: int | None = None
    vcores: int | None = None
    configured: bool = False


# -- the wanted states ---------------------------------------------------------------------------------


class Up(Record):
    """A cluster with all its nodes. ``lifetime`` ON_DEMAND (a job) accepts any cluster; STAY makes it stay, and refuses
    one that runs with other settings."""

    lifetime: str
    wish: NodeSizeRequest = NodeSizeRequest()


class OneRm(Record):
    """The RM alone; in the ``foreground``, the process of the command becomes the RM."""

    foreground: bool = False


class SomeNodes(Record):
    """The planned nodes that do not run, or the one at ``port``, or a new one if a size is given; in the ``foreground``
    the process of the command becomes the first of them."""

    port: int | None = None
    wish: NodeSizeRequest = NodeSizeRequest()
    foreground: bool = False


class Again(Record):
    """The daemon ``name``, which has died, for the daemon ``by``. ``unwatched``: no daemon would restart ``by``."""

    name: str
    by: str
    unwatched: bool = False


class Down(Record):
    """The end of the cluster, with its files and the containers of dead nodes. The daemons have ``timeout`` seconds.

    With ``keep_containers`` the containers keep running, and the next ``up`` starts the same nodes, which recover them
    (and end those of applications that the new RM does not know: all of them, unless the RM stores its state). With
    ``keep_applications`` the containers end, and the next ``up`` goes on with the same cluster and its applications.
    """

    keep_containers: bool = False
    keep_applications: bool = False
    timeout: float = STOP_SECONDS


class Stop(Record):
    """The end of the daemon ``name``, which has ``timeout`` seconds; the others run on, and do not restart it."""

    name: str
    timeout: float = STOP_SECONDS


# -- the observed state --------------------------------------------------------------------------------


class RmAnswer(enum.StrEnum, metaclass=QuickEnum):
    """The answer of a running RM."""

    NONE = "NONE"  # the RM was not asked, or none runs
    SERVES = "SERVES"
    ENDS = "ENDS"  # the RM shuts the cluster down
    SILENT = "SILENT"  # the RM cannot be reached, or refuses to shut down


class Observation(Record):
    """The facts that a command observes under the lock of the run directory ``place``."""

    place: str = ""
    is_lost: bool = False  # the directory is gone or refused: its files are not used
    running: Mapping[str, int] = field(default_factory=dict)  # pids of daemons that hold their pid files
    rm: RmAnswer = RmAnswer.NONE
    why: str = ""  # the reason of a SILENT RM
    plan: Plan | None = None
    watched: tuple[str, ...] = ()  # the daemons that are restarted if they die
    died: Mapping[str, Watched] = field(default_factory=dict)  # the watched daemons that have died
    is_stored: bool = False  # the configuration of the cluster can be read
    is_changed: bool = False  # the command sets other values than the stored ones
    differences: tuple[str, ...] = ()  # the values of daemons among them, as sentences
    outlived: bool = False  # nodes of the plan have left records of containers
    sized: tuple[PlannedNode, ...] | None = None  # new nodes, once a SIZE step has found them
    expired: tuple[Step, ...] = ()  # the WAIT steps after which a daemon still ran
    is_late: bool = False  # the time of the command is over


# -- the steps -----------------------------------------------------------------------------------------


class Verb(enum.StrEnum, metaclass=QuickEnum):
    """The kinds of steps. ``names`` are daemons; for WAIT, FORGET and END, no names are all daemons."""

    LOOK = "look"  # look again, and ask for the next steps
    WAIT = "wait"  # for the end of these daemons, at most `seconds`
    SIZE = "size"  # find ports (or take `port`), sizes and GPUs of new nodes beside `plan` and these daemons
    CLEAR = "clear"  # end the containers and remove the files of all other nodes, which have ended
    STAY = "stay"  # tell the RM that the cluster stays
    START = "start"  # write the files and start these daemons; if one fails, end them and restore the files
    BECOME = "become"  # write the files, and replace this process by this daemon
    FORGET = "forget"  # these daemons are not restarted any more
    ASK = "ask"  # ask the RM to shut the cluster down
    END_NODES = "end-nodes"  # ask the nodes to end with their containers
    END = "end"  # SIGTERM; with force SIGKILL after `seconds`
    CLEAN = "clean"  # end the containers and remove the files of ended daemons, unless the command keeps them


class Step(Record):
    """One step. ``plan`` is to be stored. A cluster that ``is_new`` has the configuration of the command, any other the
    stored one."""

    verb: Verb
    names: tuple[str, ...] = ()
    seconds: float = 0.0
    plan: Plan = Plan()
    port: int | None = None
    is_new: bool = False


LOOK = Step(Verb.LOOK)
Steps = tuple[Step, ...]
Wanted = Up | OneRm | SomeNodes | Again | Down | Stop


def steps(there: Observation, wanted: Wanted) -> Steps:
    """The next steps to the wanted state. Raises YoppError if that is refused."""
    match wanted:
        case Up():
            return _up(there, wanted)
        case OneRm():
            return _one_rm(there, wanted)
        case SomeNodes():
            return _some_nodes(there, wanted)
        case Again():
            return _again(there, wanted)
        case Down():
            return _down(there, wanted)
        case Stop():
            forget, end = (Step(verb, (wanted.name,), wanted.timeout) for verb in (Verb.FORGET, Verb.END))
            return (forget, end) if wanted.name in there.running else (forget,)


def _up(there: Observation, up: Up) -> Steps:
    before = _waits(there)
    if before:
        return before
    kept, runs = there.plan, bool(there.running)
    nodes = kept.nodes if kept is not None else ()
    changed = up.lifetime == STAY and (there.is_changed or bool(size_differences(nodes, up.wish)))
    as_it_was = not runs and kept is not None and kept.lifetime == STAY and there.is_stored and not changed
    goes_on = runs or as_it_was
    # Nodes recover the containers that outlived them only if they have the same ports and sizes.
    if not (nodes and (goes_on or (there.outlived and up == Up(STAY)))):
        if there.sized is None:
            return Step(Verb.SIZE, is_new=not goes_on), LOOK
        nodes = there.sized
    if runs and up.lifetime == STAY:
        _refuse_differences([*size_differences(nodes, up.wish), *there.differences])
    lifetime = STAY if goes_on and kept is not None and kept.lifetime == STAY else up.lifetime
    names = tuple(node.name for node in nodes)
    started = tuple(name for name in (RM, *names) if name not in there.running)
    serves = there.rm is RmAnswer.SERVES
    return (
        Step(Verb.CLEAR, tuple(dict.fromkeys((*there.running, *names)))),
        *([Step(Verb.STAY)] if serves and up.lifetime == STAY else []),
        Step(Verb.START, started, plan=Plan(nodes, lifetime), is_new=not goes_on),
    )


def _waits(there: Observation) -> Steps:
    """The steps while daemons end, or while the RM does not answer; none otherwise. Raises YoppError for an RM that has
    had its time."""
    match there.rm:
        case RmAnswer.ENDS:
            wait = Step(Verb.WAIT, (RM,), ENDING_SECONDS)
            why = "it is still shutting down" if there.is_late or wait in there.expired else ""
        case RmAnswer.SILENT:
            wait, why = Step(Verb.WAIT, (RM,), SILENT_SECONDS), there.why if there.is_late else ""
        case RmAnswer.NONE if there.running:
            wait, why = Step(Verb.WAIT, (), ORDERLY_SECONDS), ""
            if wait in there.expired:
                return ()
        case _:
            return ()
    if why:
        raise YoppError(
            f"the ResourceManager (process {there.running[RM]}) does not answer",
            because=why,
            hint="yopp down --force",
        )
    return wait, LOOK


def _refuse_differences(found: Sequence[str]) -> None:
    if found:
        raise YoppError(
            "the cluster is running with other settings",
            because="; ".join(found[:MOST_DIFFERENCES])
            + (f"; and {more} more" if (more := len(found) - MOST_DIFFERENCES) > 0 else ""),
            hint="`yopp down` first, or leave out the options that differ",
        )


def size_differences(nodes: Sequence[PlannedNode], wish: NodeSizeRequest) -> list[str]:
    """The differences between the running nodes and the requested ones, as sentences."""
    asked = (
        ("nodes", wish.nodes, [len(nodes)]),
        ("memory", wish.memory_mb, sorted({node.memory for node in nodes})),
        ("vcores", wish.vcores, sorted({node.vcores for node in nodes})),
    )
    return [
        f"running with {what}={' and '.join(map(str, sizes))}, you asked for {wanted}"
        for what, wanted, sizes in asked
        if wanted is not None and sizes != [wanted]
    ]


def _plan_that_goes_on(there: Observation) -> tuple[Plan, bool]:
    """The plan to which a command adds daemons, and whether the cluster is new. The files of a job's cluster that has
    ended do not count; a cluster that stays keeps its configuration, unless the command sets other values."""
    runs, plan = bool(there.running), there.plan
    stays = plan is not None and plan.lifetime == STAY
    is_new = not (runs or (stays and there.is_stored and not there.is_changed))
    return (plan if plan is not None and (runs or stays) else Plan()), is_new


def _one_rm(there: Observation, wanted: OneRm) -> Steps:
    if wanted.foreground:
        _refuse_running(there, RM)
    elif RM in there.running:
        return ()
    plan, is_new = _plan_that_goes_on(there)
    verb = Verb.BECOME if wanted.foreground else Verb.START
    return (Step(verb, (RM,), plan=Plan(plan.nodes, STAY), is_new=is_new),)


def _some_nodes(there: Observation, wanted: SomeNodes) -> Steps:
    if RM not in there.running and not wanted.foreground:  # a node is ready only after it has registered
        raise ConnectionFailedError(
            "the ResourceManager is not running",
            because=f"no process holds {there.place}/{RM}.pid",
            hint="`yopp rm start`, or `yopp up`",
        )
    plan, is_new = _plan_that_goes_on(there)
    if wanted.foreground and wanted.port is not None:
        _refuse_running(there, f"nm-{wanted.port}")
    chosen = _planned(there, plan, wanted)
    if chosen is None:
        if there.sized is None:
            return Step(Verb.SIZE, tuple(there.running), plan=plan, port=wanted.port, is_new=is_new), LOOK
        chosen = there.sized
    if wanted.foreground:
        if not chosen:
            _refuse_running(there, plan.nodes[0].name)
        chosen = chosen[:1]
    nodes = (*plan.nodes, *(node for node in chosen if node not in plan.nodes))
    verb = Verb.BECOME if wanted.foreground else Verb.START
    names = tuple(node.name for node in chosen)
    return (Step(verb, names, plan=Plan(nodes, plan.lifetime), is_new=is_new),)


def _planned(there: Observation, plan: Plan, wanted: SomeNodes) -> tuple[PlannedNode, ...] | None:
    """The planned nodes to start, which do not run; None for a new one: a size or an unknown port is given, or nothing
    is planned. Raises YoppError for a planned node of another size."""
    port, sized = wanted.port, wanted.wish != NodeSizeRequest()
    if f"nm-{port}" in there.running:
        return ()
    kept = [node for node in plan.nodes if port in (None, node.port)]
    wish = wanted.wish.memory_mb, wanted.wish.vcores
    if port is not None and kept and sized and (kept[0].memory, kept[0].vcores) != wish:
        raise YoppError(
            f"the node on port {port} has another size",
            because=f"it has {kept[0].memory} MB and {kept[0].vcores} vcores",
            hint="leave --memory and --vcores out, or start a new node without naming a port",
        )
    if kept and (port is not None or not sized):
        return tuple(node for node in kept if node.name not in there.running)
    return None


def _refuse_running(there: Observation, name: str) -> None:
    if (pid := there.running.get(name)) is not None:
        raise YoppError(
            f"{name} is already running",
            because=f"process {pid} holds {there.place}/{name}.pid",
            hint=f"`yopp {name[:2]} stop` ends it",
        )


def _again(there: Observation, wanted: Again) -> Steps:
    asks = wanted.by in (there.running if wanted.unwatched else there.watched)  # and has not been stopped
    plan = there.plan
    if wanted.name not in there.died or not asks or plan is None or not there.is_stored:
        return ()
    if wanted.name != RM and wanted.name not in [node.name for node in plan.nodes]:
        return ()
    return (Step(Verb.START, (wanted.name,), plan=plan),)


def _down(there: Observation, down: Down) -> Steps:
    # First, so that nothing is restarted meanwhile.
    begin: Steps = (Step(Verb.FORGET),) if there.rm is RmAnswer.NONE and not there.is_lost else ()
    if down.keep_applications or there.is_lost:
        # The RM ends first, and so takes no end of a container for a failure.
        begin += Step(Verb.END, (RM,), down.timeout), Step(Verb.END_NODES), Step(Verb.WAIT, (), down.timeout)
    elif RM in there.running and there.rm is RmAnswer.NONE:
        return *begin, Step(Verb.ASK), LOOK
    elif there.rm is RmAnswer.ENDS:
        # The RM ends after the nodes that it knows. A node that is starting or has lost it is not told.
        begin += Step(Verb.WAIT, (RM,), down.timeout), Step(Verb.WAIT, (), ALONE_SECONDS)
    elif not down.keep_containers:  # the nodes may have records that nobody can read any more
        begin += (Step(Verb.END_NODES),)
    clean = () if there.is_lost else (Step(Verb.CLEAN),)
    return *begin, Step(Verb.END, (), min(TERM_SECONDS, down.timeout)), *clean
