"""The plain data that the executor, its callers and the cluster around it exchange.

Frozen records with slots, and enums, with YARN's names. They have no behaviour beyond arithmetic, read neither clock
nor file, and import nothing but the standard library and this package's own basics, so that any layer may use them.
"""

from __future__ import annotations

import enum

from .causes import Cause
from .light import QuickEnum, Record, field
from .reasons import Reason
from .resource import GPU as GPU
from .resource import MEMORY_MB as MEMORY_MB
from .resource import MIB as MIB
from .resource import VCORES as VCORES
from .resource import Others as Others
from .resource import Resource as Resource
from .resource import ResourceInformation as ResourceInformation
from .resource import counted as counted


class ExecutionType(enum.StrEnum, metaclass=QuickEnum):
    """How a container is executed (YARN's ``ExecutionType``)."""

    __hash__ = str.__hash__  # enum's own is a call in Python

    GUARANTEED = "GUARANTEED"
    OPPORTUNISTIC = "OPPORTUNISTIC"


class ContainerState(enum.StrEnum, metaclass=QuickEnum):
    """The state of a container at its node (YARN's ``ContainerImpl`` states; LAUNCHING is ours)."""

    __hash__ = str.__hash__

    SCHEDULED = "SCHEDULED"
    LAUNCHING = "LAUNCHING"
    RUNNING = "RUNNING"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    RESUMING = "RESUMING"
    KILLING = "KILLING"
    DONE = "DONE"


class ContainerSubState(enum.StrEnum, metaclass=QuickEnum):
    """The substate that YARN reports besides RUNNING or COMPLETE (``ContainerSubState``)."""

    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETING = "COMPLETING"
    DONE = "DONE"


SUB_STATES: dict[ContainerState, ContainerSubState] = {
    ContainerState.SCHEDULED: ContainerSubState.SCHEDULED,
    ContainerState.LAUNCHING: ContainerSubState.SCHEDULED,
    ContainerState.RUNNING: ContainerSubState.RUNNING,
    ContainerState.PAUSING: ContainerSubState.RUNNING,
    ContainerState.KILLING: ContainerSubState.RUNNING,
    ContainerState.PAUSED: ContainerSubState.PAUSED,
    ContainerState.RESUMING: ContainerSubState.PAUSED,
    ContainerState.DONE: ContainerSubState.DONE,
}
"""YARN's substate for each of our states (``ContainerImpl.getContainerSubState``)."""


class ContainerExitStatus(enum.IntEnum, metaclass=QuickEnum):
    """Why a container ended, if not by itself (YARN's ``ContainerExitStatus``)."""

    SUCCESS = 0
    INVALID = -1000
    ABORTED = -100
    DISKS_FAILED = -101
    PREEMPTED = -102
    KILLED_EXCEEDED_VMEM = -103
    KILLED_EXCEEDED_PMEM = -104
    KILLED_BY_APPMASTER = -105
    KILLED_BY_RESOURCEMANAGER = -106
    KILLED_AFTER_APP_COMPLETION = -107
    KILLED_BY_CONTAINER_SCHEDULER = -108
    KILLED_FOR_EXCESS_LOGS = -109


PREEMPTION_STATUSES = frozenset(
    {
        ContainerExitStatus.ABORTED,
        ContainerExitStatus.PREEMPTED,
        ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER,
    }
)
"""Exit statuses that are not the work's fault: the container is requested again, at no cost to its job."""


def exit_status_name(status: int) -> str:
    """The name of an exit status: YARN's for negative ones, ``SIGKILL`` and the like for 128+n, else the number."""
    try:
        if status <= 0:
            return ContainerExitStatus(status).name
        if 128 < status < 192:
            import signal

            return signal.Signals(status - 128).name
    except ValueError:
        pass
    return str(status)


def shell_code(returncode: int) -> int:
    """The exit code as a shell reports it, of a negative signal number (as of ``Popen.returncode``): 128+n."""
    return returncode if returncode >= 0 else 128 - returncode


class ContainerSpec(Record):
    """Everything that an executor needs to run one container (YARN's ``ContainerLaunchContext`` and parts of
    its token).

    ``command`` is an argument vector, executed without a shell. ``environment`` is what the container's
    creator asked for; the executor adds YARN's own variables. ``own_account``: it is the creator's whole environment,
    so the whitelist of YARN adds nothing to it, and its HOME, USER and LOGNAME hold. ``umask`` is that of the command,
    -1 for the node's. ``working_directory`` None means the container's private
    directory, which is removed at its end. ``files`` are written into that private directory first (name ->
    text, mode 0700), as YARN localises a script. ``log_directory`` None means one under the executor's log
    directory; standard output and error go to ``stdout`` and ``stderr`` in it. ``timeout_ms`` limits the
    running time, 0 for no limit. ``duration_hint_ms`` is the expected running time if the creator knows it,
    else 0. ``waiting_since_ms`` (epoch milliseconds) is when its work began to wait elsewhere: the container
    queues before all that arrived later than that; 0 if it begins to wait here. ``least_vcores`` is the least
    CPU weight of a guaranteed container, in vcores, even if it is accounted with fewer.
    ``application_priority``: of waiting opportunistic containers, those with the larger value start first.
    ``devices`` are the GPUs that its node has assigned to it (``index:minor``), from its start on.
    """

    container_id: str
    command: tuple[str, ...]
    resource: Resource
    execution_type: ExecutionType = ExecutionType.GUARANTEED
    priority: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    log_directory: str | None = None
    application_id: str = ""
    user: str = ""
    version: int = 0
    timeout_ms: int = 0
    duration_hint_ms: int = 0
    waiting_since_ms: int = 0
    own_account: bool = False
    umask: int = -1
    least_vcores: int = 0
    application_priority: int = 0
    devices: tuple[str, ...] = ()


class ContainerMessage(Record):
    """The base of events and commands about one container."""

    container_id: str


class ContainerUsage(Record):
    """What one container has used, measured from its cgroup (or by psutil if it has none).

    ``cpu_seconds`` counts from the start of the container. ``memory_bytes`` is the current memory,
    ``memory_peak_bytes`` the highest so far. ``throttled_seconds`` is how long its CPU quota stopped it;
    ``oom_kills`` how often the kernel's OOM killer killed in it, ``limit_ooms`` how often memory ran out at its own
    limit (-1 where the kernel does not count that), ``refused_forks`` how many processes its limit kept from being
    started; both are read when it has ended. ``processes`` is the number of processes.
    ``sampled_at`` is the executor's clock, in seconds. ``virtual_bytes`` is the address space of its
    processes, 0 if not measured. ``runnable`` is how many of its threads run, or wait for the CPU, at that
    moment; it is counted while the host is watched. ``log_bytes`` is the size of its output, ``disk_bytes``
    the disk space of its private directory, 0 if not measured.
    """

    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    throttled_seconds: float = 0.0
    oom_kills: int = 0
    processes: int = 0
    sampled_at: float = 0.0
    virtual_bytes: int = 0
    runnable: int = 0
    log_bytes: int = 0
    disk_bytes: int = 0
    limit_ooms: int = -1
    refused_forks: int = 0


class ContainerFacts(Record, kw_only=True):
    """What a container's node knows about it, in its status and in the reports made from that.

    Times are epoch milliseconds, 0 for "not yet". ``exit_status`` is YARN's number: the process's own code, or a
    negative ``ContainerExitStatus``. ``exit_code`` is the process's own code as in a shell (128+n for signal n), None
    while it has none: a container over its memory limit has exit_status -104 and exit_code 137. ``pid`` is the
    container's own process. Whoever asks its node learns ``position``, its place among all that wait there to start or
    resume, 1 for the next one, and ``why`` it waits. ``usage`` is the last measurement. ``waiting_since_ms`` is when
    its work began to wait, here or elsewhere: a container that was shed is requested again with its age.
    ``duration_hint_ms`` is its spec's. ``stood_ms`` is how long it was paused before it last resumed or ended: for the
    rest of the time since its start it ran. ``resumed_at_ms`` is when it last resumed; 0 while it is paused, or if it
    never was. ``cause`` is why it is paused or being paused, has ended or is being ended; None while it queues or runs,
    or if it ended by itself. ``refusal`` is why the last request was not fulfilled. ``diagnostics`` states both for
    people. ``devices`` are the GPUs that it has or had (``index:minor``). ``stood_for`` is the category of its last
    pause (``causes.paused_for``); "" if it was never paused, or if that is no longer known. ``command`` is the
    beginning of what it runs, if that is very long.
    """

    exit_status: int = int(ContainerExitStatus.INVALID)
    exit_code: int | None = None
    diagnostics: str = ""
    user: str = ""
    command: tuple[str, ...] = ()
    pid: int = 0
    position: int = 0
    why: tuple[Reason, ...] = ()
    queued_at_ms: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0
    paused_at_ms: int = 0
    version: int = 0
    log_directory: str = ""
    cgroup: str = ""
    usage: ContainerUsage = ContainerUsage()
    waiting_since_ms: int = 0
    duration_hint_ms: int = 0
    stood_ms: int = 0
    resumed_at_ms: int = 0
    cause: Cause | None = None
    refusal: Cause | None = None
    stood_for: str = ""
    devices: tuple[str, ...] = ()


class ContainerStatus(ContainerFacts):
    """A container as its node sees it (YARN's ``ContainerStatus``)."""

    container_id: str
    state: ContainerState
    execution_type: ExecutionType
    resource: Resource = Resource()
    application_id: str = ""

    @property
    def was_shed(self) -> bool:
        """Whether its node shed it before it ever ran: YARN has one exit status for both shedding and preemption."""
        return (
            self.exit_status == ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER and not self.started_at_ms
        )

    def __str__(self) -> str:
        words = [self.container_id, self.state.value, self.execution_type.value, str(self.resource)]
        if self.state is ContainerState.DONE:
            name = exit_status_name(self.exit_status)
            words.append(name if name == str(self.exit_status) else f"{name} ({self.exit_status})")
        if self.position:
            words.append(f"number {self.position} of those that wait")
        sentence = " ".join(words)
        return f"{sentence}: {self.diagnostics}" if self.diagnostics else sentence


class ContainerRecord(Record):
    """What is stored about one container, so that a new executor finds it again after a crash.

    ``process_start`` is the start time of ``pid`` in clock ticks after boot (field 22 of /proc/PID/stat): pid
    and start time together identify one process until the next boot. ``exit_status`` and ``diagnostics`` are
    set once the container is being killed, and are reported when it has ended. ``exit_code`` and
    ``finished_at_ms`` are set in the record of a finished container, which is kept until its end has been
    reported. ``ran_ms`` is how long it had run when it entered ``state``, at ``state_since_ms``, without the
    time it was paused. ``held`` is set while a user, and not the scheduler, keeps it paused.
    ``paused_memory`` is the memory in MiB that a paused container has kept, -1 for all of it. ``cause`` is as
    in ContainerStatus. ``passing_diagnostics`` are the lines of ``diagnostics`` about pauses. ``left`` has the pids and
    start times of the processes that were stopped before it was paused, and stay so when it is resumed.
    """

    spec: ContainerSpec
    state: ContainerState
    pid: int = 0
    process_start: int = 0
    queued_at_ms: int = 0
    started_at_ms: int = 0
    exit_status: int = int(ContainerExitStatus.INVALID)
    diagnostics: str = ""
    sequence: int = 0
    exit_code: int | None = None
    finished_at_ms: int = 0
    ran_ms: int = 0
    state_since_ms: int = 0
    held: bool = False
    paused_memory: int = -1
    cause: Cause | None = None
    passing_diagnostics: tuple[str, ...] = ()
    left: tuple[tuple[int, int], ...] = ()


class CgroupLimits(Record):
    """Limits of one container, for both cgroup versions (``CGroupsCpuResourceHandlerImpl``, ``…Memory…``).

    ``cpu_shares`` is v1's cpu.shares, ``cpu_weight`` v2's cpu.weight. ``cpu_quota_us`` per ``cpu_period_us``, None for
    no quota. ``memory_max`` is the hard limit in bytes, None for none; ``memory_low`` the protected amount (v1's soft
    limit, v2's memory.low). ``swappiness`` is v1's. ``pids_max`` None for no limit. ``yields``: the OOM killer and the
    disk treat it as an opportunistic container.
    """

    cpu_shares: int = 1024
    cpu_weight: int = 100
    cpu_quota_us: int | None = None
    cpu_period_us: int = 100_000
    memory_max: int | None = None
    memory_low: int = 0
    swappiness: int = 0
    pids_max: int | None = None
    yields: bool = False


class ResourceUtilization(Record):
    """Measured use of a node or of all its containers: memory in bytes, ``cpu`` in cores (2.0: two whole cores).

    ``load1`` is the host's load average over a minute, -1 if it has no meaning; ``memory_total_bytes`` and
    ``cores`` are those of the host, 0 if that has no meaning.
    """

    memory_bytes: int = 0
    cpu: float = 0.0
    load1: float = -1.0
    memory_total_bytes: int = 0
    cores: int = 0


class HostUtilization(Record):
    """The whole host between two readings, which decide when opportunistic containers are paused or killed.

    In cores: ``cpu`` is what all processes used, ``idle`` what was not used, ``yopp_cpu`` the part of ``cpu`` used
    by containers of all nodes and by yopp's own daemons and clients, ``daemons_cpu`` the part used by the latter.
    ``runnable`` is how many threads ran, or waited for the CPU, at the moment of the reading; 0 if unknown;
    ``runnable_others`` how many of them belong to containers of other nodes; -1 if unknown. ``outside_waiting`` is
    how many cores processes outside yopp waited for in vain, ``outside_lasting`` how many were used by those that did
    not end soon; -1 if unknown. Memory in bytes. ``memory_stalled`` is
    the fraction of the time, 0 to 1, in which all tasks waited for memory (PSI ``full``); -1 if unknown. ``yields``:
    opportunistic containers have so little weight that the kernel gives them only what others leave. ``cost`` is the
    CPU time, in seconds, that this reading took.
    """

    cores: int
    cpu: float
    idle: float
    yopp_cpu: float = 0.0
    runnable: int = 0
    outside_waiting: float = -1.0
    memory_total: int = 0
    memory_available: int = 0
    swap_free: int = 0
    memory_stalled: float = -1.0
    yields: bool = False
    daemons_cpu: float = 0.0
    runnable_others: int = -1
    outside_lasting: float = -1.0
    cost: float = 0.0

    @property
    def outside_cpu(self) -> float:
        """Cores used by processes outside yopp."""
        return max(0.0, self.cpu - self.yopp_cpu)


class OpportunisticContainersStatus(Record):
    """What a node reports about its opportunistic containers in each heartbeat (YARN's record of that name).

    ``memory_used`` is in MiB, and exact (YARN's is in whole GB). ``wait_queue_length`` counts queued containers of
    both types. ``estimated_queue_wait_ms`` is -1 if unknown. ``paused`` containers are not counted in the queue.
    ``lent_memory`` and ``lent_vcores`` are what may start here in addition to what is not allocated; below zero, the
    part of that which may not start because the host is busy. ``queued_memory`` and ``queued_vcores`` are what the
    queued opportunistic containers ask for together. ``wait_estimates`` counts the containers that have started
    after their wait was estimated; for the last hundred of them ``wait_error_ms`` is the mean error of the estimate,
    ``mean_wait_ms`` the mean wait, -1 for none. ``shed`` counts those that were shed to keep a limit of the RM.
    ``closed_until_ms`` (epoch) is until when none may run because of the time of day; 0 while they may.
    ``others_used`` and ``queued_others`` are the same for countable resources as those for memory.
    """

    running: int = 0
    memory_used: int = 0
    vcores_used: int = 0
    queued: int = 0
    wait_queue_length: int = 0
    estimated_queue_wait_ms: int = -1
    queue_capacity: int = 0
    paused: int = 0
    lent_memory: int = 0
    lent_vcores: int = 0
    queued_memory: int = 0
    queued_vcores: int = 0
    wait_estimates: int = 0
    wait_error_ms: int = -1
    mean_wait_ms: int = -1
    shed: int = 0
    closed_until_ms: int = 0
    others_used: tuple[ResourceInformation, ...] = ()
    queued_others: tuple[ResourceInformation, ...] = ()

    @property
    def host_is_busy(self) -> bool:
        """Whether some of what is not allocated may not be used."""
        return self.lent_vcores < 0 or self.lent_memory < 0


class ContainerQueuingLimit(Record):
    """The maximum queue length (or wait) that the RM allows a node; -1 for no limit.

    If both are given, containers within either limit may stay.
    """

    max_queue_length: int = -1
    max_queue_wait_time_ms: int = -1
