"""Settings as declarations: each property is a field of a record with its YARN name, default, bounds and document.

Everything that lists properties (loading, ``yopp config``, man pages, sample files) reads these declarations,
so nothing about a property is written twice. This module reads no file and no environment.

Decisions: pausing-is-shipped.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from .hints import Any
from .light import Record, field, notes_of

LARGEST_LONG = 2**63 - 1
"""The range of YARN's longs; other numbers are ints."""


class Property(Record, frozen=False):
    """One declared property. ``type`` is int, float, bool or str; bounds are inclusive, None for none.

    It is the field ``attribute`` of the record ``declared_in``.
    """

    name: str
    type: type
    default: Any
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    declared_in: Any = None
    attribute: str = ""

    @property
    def doc(self) -> str:
        """The property's documentation: the docstring below the field."""
        return _documents(self.declared_in)[self.attribute]


@cache
def _documents(settings: type) -> dict[str, str]:
    import ast  # only manuals need documents: they read the source, because no program keeps such docstrings
    import inspect

    (declared,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        item.target.id: " ".join(below.value.value.split())
        for item, below in pairwise(declared.body)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        if isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def setting(
    name: str,
    default: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a property as a field of a record; the docstring below the field is its document."""
    declared = Property(name, type(default), default, at_least, at_most, choices)
    return field(default=default, note=declared)


def properties_of(settings: type) -> tuple[Property, ...]:
    """The properties that a settings record declares, in order of declaration; each is told where it is declared."""
    found = [(name, one) for name, one in notes_of(settings).items() if isinstance(one, Property)]
    for name, one in found:
        one.declared_in, one.attribute = settings, name
    return tuple(one for _, one in found)


class ExecutorSettings(Record, kw_only=True):
    """Properties of one node's executor: its queue, preemption, limits and clean-up."""

    max_queue_length: int = setting(
        "yarn.nodemanager.opportunistic-containers-max-queue-length", 0, at_least=0
    )
    """Determines the max number of opportunistic containers that can be queued at an NM. With 0, no opportunistic
    container can wait: one that cannot start at once is refused."""
    use_pause_for_preemption: bool = setting(
        "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption", False
    )
    """Pause running opportunistic containers to make room for guaranteed ones, instead of killing them."""
    pause_mechanism: str = setting(
        "yopp.nodemanager.pause-mechanism", "signal", choices=("signal", "freezer")
    )
    """How a container is paused: by SIGSTOP to each of its processes (signal), or by the freezer of its cgroup
    (freezer), which its processes can neither notice nor escape. On a host without a freezer, the value freezer is
    an error."""
    paused_memory: str = setting(
        "yopp.nodemanager.paused-memory", "reclaim", choices=("reclaim", "keep", "release")
    )
    """What happens to the memory of a paused container when memory is short. reclaim: the kernel reclaims as much as
    it can, and the container keeps the rest. keep: the container keeps all of it, and containers are killed instead.
    release: all of it counts as freed although it is not, as in YARN."""
    paused_resources: str = setting("yopp.nodemanager.paused-resources", "kill", choices=("kill", "keep"))
    """Where preemption pauses: what happens to an opportunistic container whose GPUs, or other countable resources, a
    guaranteed container needs. A paused container keeps them, because a stopped process keeps its device open. kill:
    it is killed for them. keep: it is not preempted, and the guaranteed container waits for its end."""
    gpu_vendor: str = setting("yopp.nodemanager.gpu-vendor", "nvidia", choices=("nvidia", "amd"))
    """The variables that name a container's GPUs, if the node's GPUs are identified. nvidia: CUDA_VISIBLE_DEVICES and
    NVIDIA_VISIBLE_DEVICES. amd: ROCR_VISIBLE_DEVICES, and HIP_VISIBLE_DEVICES, which counts among those. A
    container without GPUs has -1 in them, and void in NVIDIA_VISIBLE_DEVICES."""
    gpu_isolation: str = setting(
        "yopp.nodemanager.gpu-isolation", "variables", choices=("variables", "cgroup")
    )
    """The isolation of identified GPUs. variables: variables name the container's GPUs; a program can ignore them.
    cgroup: the kernel also refuses to open other GPUs, by the devices hierarchy of cgroup v1, which the host must
    have. Containers then start without pooled cgroups."""
    admission: str = setting(
        "yarn.nodemanager.opportunistic-containers-queue-policy",
        "BY_QUEUE_LEN",
        choices=("BY_QUEUE_LEN", "BY_RESOURCES"),
    )
    """The opportunistic containers that a node accepts. BY_QUEUE_LEN: those that start at once, and as many more as
    fit in the queue. BY_RESOURCES: those that fit beside all running and queued containers, so that none waits for
    long; the queue length then counts as 0."""
    opportunistic_window: str = setting("yopp.nodemanager.opportunistic.window", "")
    """When opportunistic containers may run, in the local time of this host: 19:00-07:00, or several windows, each
    with days or without: Mon-Fri 19:00-07:00, Sat-Sun 00:00-24:00. Outside of them none starts, and those that run are
    paused. Empty for always."""
    opportunistic_oom_score_adj: int = setting(
        "yopp.nodemanager.opportunistic.oom-score-adj", 1000, at_least=0, at_most=1000
    )
    """The score (oom_score_adj of proc(5)) of opportunistic containers for the kernel's OOM killer, which ends the
    process with the highest first when memory of the host ends: with 1000, before all others. Guaranteed containers
    have 0, or the NodeManager's own score if it may not lower that; the daemons have less if they may (root)."""
    opportunistic_idle: bool = setting("yopp.nodemanager.opportunistic.idle-classes", True)
    """Give opportunistic containers the kernel's idle class of I/O (ioprio_set(2); I/O schedulers such as BFQ serve it
    when nobody else wants the disk), and, without cgroups, that of the CPU (SCHED_IDLE). A promotion ends both. Without
    RLIMIT_NICE, only root may end SCHED_IDLE: then the container's diagnostics say that it stays."""
    all_pass_through_queue: bool = setting("yopp.nodemanager.opportunistic-queue.all-pass-through", False)
    """YARN's rule: every opportunistic container needs a place in the queue, even one that could start at once, so
    that a queue length of 0 refuses all of them. Otherwise a container that starts at once needs no place."""
    queue_policy: str = setting(
        "yopp.nodemanager.opportunistic-queue.policy",
        "FIFO_BACKFILL",
        choices=("FIFO_BACKFILL", "FIFO", "SHORTEST_FIRST", "LEAST_REMAINING_TASKS"),
    )
    """Which queued opportunistic container starts next (YARN-5886). FIFO_BACKFILL: the first that fits, in order of
    arrival. FIFO, YARN's rule: the first, and no other while it does not fit or a guaranteed container waits.
    SHORTEST_FIRST: of those that fit, the one with the shortest expected run time, as declared by the application
    master, else as measured on the application's containers that ended here. LEAST_REMAINING_TASKS: of those that
    fit, one of the application with the fewest unfinished containers here. All but FIFO let later arrivals overtake
    within the bounds of max-overtakes and max-wait-ms."""
    max_overtakes: int = setting("yopp.nodemanager.opportunistic-queue.max-overtakes", 100, at_least=0)
    """How many later opportunistic containers may start before one that waits because it does not fit yet or the
    queue's policy prefers others. 0 is YARN's strict FIFO, where the head of the queue blocks all behind it."""
    max_wait_ms: int = setting("yopp.nodemanager.opportunistic-queue.max-wait-ms", 0, at_least=0)
    """How long an opportunistic container may wait while later ones are started before it; after that, none
    overtakes it. 0 sets no such bound: max-overtakes alone applies."""
    paused_place: str = setting(
        "yopp.nodemanager.opportunistic-queue.paused-place", "ARRIVAL", choices=("ARRIVAL", "TAIL")
    )
    """The place in which a paused opportunistic container waits to be resumed. ARRIVAL: before all that arrived
    later, without taking a place in the queue. TAIL, YARN's rule: behind all that are queued when it is paused,
    taking a place in the queue."""
    hold_for_guaranteed_ms: int = setting(
        "yopp.nodemanager.opportunistic-queue.hold-for-guaranteed-ms", 100, at_least=0
    )
    """How long the resources that a guaranteed container frees are kept for the next one, if the RM reports that
    guaranteed containers wait for them: an opportunistic container would start in the gap and be killed at once.
    Nothing is kept where preemption pauses, because pausing loses no work. 0 is YARN's rule: the opportunistic
    container starts."""
    preemption_policy: str = setting(
        "yopp.nodemanager.preemption-policy",
        "MINIMAL",
        choices=("MINIMAL", "NEWEST_FIRST", "LEAST_WORK_LOST", "SPARE_NEARLY_DONE"),
    )
    """Which opportunistic containers are preempted for a guaranteed one (YARN-5887). MINIMAL: the fewest that
    suffice, and of those the newest. LEAST_WORK_LOST: those whose end loses the fewest vcore-seconds.
    SPARE_NEARLY_DONE: as MINIMAL, but containers of jobs that are nearly done only if the others do not suffice.
    These three preempt none where even all would not suffice. NEWEST_FIRST, YARN's rule: one after the other, the
    last started first, whatever its size, even if that does not suffice."""
    nearly_done_percentage: int = setting(
        "yopp.nodemanager.preemption.nearly-done-percentage", 75, at_least=0, at_most=100
    )
    """The share of a job's containers that must have ended for SPARE_NEARLY_DONE to count the job as nearly done,
    in percent of those that came to this node. A running container counts with the elapsed share of its expected
    run time."""
    utilization_tracker: str = setting(
        "yopp.nodemanager.utilization-tracker", "ALLOCATION", choices=("ALLOCATION", "UTILIZATION")
    )
    """What opportunistic containers may use (YARN-1011). ALLOCATION, YARN's only rule: resources that are not
    allocated. UTILIZATION: also resources that are allocated but measured to be idle, up to the thresholds and the
    factor of overallocation. They are taken back as soon as guaranteed containers use them: by pausing if CPU is
    short, by killing if memory is short. Guaranteed containers never wait for lent vcores."""
    overallocation_general: float = setting(
        "yarn.nodemanager.overallocation.general-utilization-threshold", -1.0, at_least=-1, at_most=1
    )
    """The utilization, of memory and of CPU, up to which opportunistic containers start on resources that are
    allocated but idle. -1 means 0.95 where yopp.nodemanager.utilization-tracker is UTILIZATION. Values above 0.95
    count as 0.95; 0 lends nothing."""
    overallocation_memory: float = setting(
        "yarn.nodemanager.overallocation.memory-utilization-threshold", -1.0, at_least=-1, at_most=1
    )
    """The same for memory alone; -1 takes the general threshold."""
    overallocation_cpu: float = setting(
        "yarn.nodemanager.overallocation.cpu-utilization-threshold", -1.0, at_least=-1, at_most=1
    )
    """The same for CPU alone; -1 takes the general threshold."""
    overallocation_preemption: float = setting(
        "yarn.nodemanager.overallocation.preemption-threshold", 0.96, at_least=0, at_most=1
    )
    """The utilization above which opportunistic containers on lent resources are preempted. Nothing is lent unless
    it is above the other thresholds."""
    overallocation_factor: float = setting("yopp.nodemanager.overallocation.factor", 2.0, at_least=1)
    """The largest multiple of the node's memory and vcores that may be allocated in all, including opportunistic
    containers on lent resources."""
    overallocation_ramp_ms: int = setting("yopp.nodemanager.overallocation.ramp-ms", 2000, at_least=0)
    """How long a container counts with its allocation after it has started, before it counts with its measured use.
    """
    pressure_enabled: bool = setting("yopp.nodemanager.pressure.enabled", False)
    """Opportunistic containers yield to processes outside yopp: they are paused while those need the CPU (with
    yopp.nodemanager.group-weights: while those leave none, except for a short turn now and then), even with
    opportunistic-containers-use-pause-for-preemption = false, and killed while memory is short (with swap: paused,
    and their memory is reclaimed). They resume by themselves."""
    pressure_outside_cpu: float = setting("yopp.nodemanager.pressure.outside-cpu", 0.5, at_least=0.05)
    """The number of cores that processes outside yopp must want (use, or wait for), while no core is idle, to count as
    pressure. yopp's own daemons and clients are not counted."""
    pressure_sampling_ms: int = setting("yopp.nodemanager.pressure.sampling-interval-ms", 250, at_least=20)
    """How often the machine is measured while opportunistic containers run and pressure or utilization matters; half
    as often while they only wait. Otherwise container-monitor.interval-ms holds."""
    pressure_sustained_ms: int = setting("yopp.nodemanager.pressure.sustained-ms", 500, at_least=0)
    """How long the CPU must be short before opportunistic containers are paused, so that a short burst pauses none.
    """
    pressure_quiet_ms: int = setting("yopp.nodemanager.pressure.quiet-ms", 1500, at_least=0)
    """How long pressure must be over before paused containers are resumed. Doubled, up to 30 s, each time they are
    paused again within 10 s."""
    pressure_memory_available_mb: int = setting(
        "yopp.nodemanager.pressure.memory-available-mb", -1, at_least=-1
    )
    """How much of the machine's memory stays available: below it, opportunistic containers are paused or killed,
    one at a time, and no other starts before there is half as much again. -1: a fortieth of the memory, at least 64
    MB, at most 512 MB. 0: memory is not watched."""
    pressure_memory_stall: float = setting(
        "yopp.nodemanager.pressure.memory-stall-percentage", 20.0, at_least=0, at_most=100
    )
    """The share of time, in percent, that all tasks must have waited for memory (PSI, full) for memory to count as
    short while less than twice memory-available-mb is available. 0 for never. It has no effect on a kernel without
    PSI."""
    force_start_guaranteed: bool = setting("yopp.nodemanager.force-start-guaranteed", False)
    """YARN's rule where the queue length is 0 and the queue policy BY_QUEUE_LEN: a guaranteed container starts at
    once whether it fits or not, because the ResourceManager has accounted for it."""
    refuse_oversized: bool = setting("yopp.nodemanager.refuse-oversized", True)
    """End a container at once that needs more than the whole node. Otherwise it waits forever, as at YARN's
    NodeManager; YARN's ResourceManager grants no such container."""
    strict_resource_usage: bool = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage", False
    )
    """Limit each container to its vcores by a CPU quota, even where cores are idle. Otherwise vcores are weights,
    which apply only when the machine is busy."""
    prepared_containers: int = setting("yopp.nodemanager.prepared-containers", 4, at_least=0, at_most=1000)
    """The number of waiting opportunistic and of waiting guaranteed containers whose directories are made before they
    start. 0 makes none before."""
    pooled_groups: int = setting("yopp.nodemanager.pooled-groups", -1, at_least=-1, at_most=10000)
    """The maximum number of containers that run at the same time in pooled cgroups, each started by a small process
    in the cgroup, so that no container waits for a new cgroup. Pooled cgroups are created when they are needed, and
    removed after ten seconds without use. Further containers, and all with 0, get their own cgroup, and the small
    process is outside. -1 is 100 on Linux 6.6 or later, and 0 before: there, a cgroup of the least weight waits for
    each of its processes, so a pause takes seconds longer with the small process."""
    cgroups_hierarchy: str = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.hierarchy", "/hadoop-yarn"
    )
    """The cgroup under which yopp makes its own, relative to the cgroup that yopp runs in."""
    group_weights: bool = setting("yopp.nodemanager.group-weights", True)
    """Give the cgroups above the containers, from the hierarchy's down to the node's, the CPU weight of all
    guaranteed containers that run below them, and the smallest weight while only opportunistic containers run or use
    the CPU. So each guaranteed vcore weighs as much as a process outside yopp, and opportunistic containers get the
    CPU that others leave. All clusters of a host together weigh at most one process for each core, or what the
    largest cluster weighs. With false, as in YARN, these weights are not written: yopp as a whole counts as one
    process."""
    cgroups_mount: str = setting(
        "yopp.nodemanager.cgroups.mode", "auto", choices=("auto", "v1", "v2", "none")
    )
    """The cgroups to use: those of the host (auto), only v1, only v2, or none (signals go to process groups, and
    psutil polling enforces memory)."""
    memory_enforced: bool = setting("yarn.nodemanager.resource.memory.enforced", True)
    """Write memory limits to the containers' cgroups (without cgroups: enforce them by polling)."""
    memory_enabled: bool = setting("yarn.nodemanager.resource.memory.enabled", True)
    """Limit the memory of containers by cgroups, where they exist. With false, memory is checked at each measurement,
    as without cgroups; see yarn.nodemanager.pmem-check-enabled."""
    soft_limit_percentage: float = setting(
        "yarn.nodemanager.resource.memory.cgroups.soft-limit-percentage", 90.0, at_least=0, at_most=100
    )
    """The part of a guaranteed container's memory that is protected from reclaim: v1's soft limit, v2's memory.low.
    Opportunistic containers have none."""
    swappiness: int = setting(
        "yarn.nodemanager.resource.memory.cgroups.swappiness", 0, at_least=0, at_most=100
    )
    """Swappiness of guaranteed containers (cgroup v1). Opportunistic containers always have 100."""
    pids_max: int = setting("yopp.nodemanager.container.pids-max", 4096, at_least=0)
    """The number of processes and threads a container may have; 0 for no limit."""
    sleep_delay_before_sigkill_ms: int = setting(
        "yarn.nodemanager.sleep-delay-before-sigkill.ms", 250, at_least=0
    )
    """The time between SIGTERM and SIGKILL when a container is ended."""
    monitor_interval_ms: int = setting("yarn.nodemanager.container-monitor.interval-ms", 1000, at_least=20)
    """How often the resource use of all containers is measured."""
    monitor_enabled: bool = setting("yarn.nodemanager.container-monitor.enabled", True)
    """Measure the usage of containers. With false, no usage is shown, and memory without a cgroup limit is not
    checked."""
    confined_containers: bool = setting("yopp.nodemanager.confined-containers", True)
    """Keep the containers of a node that root runs from changing their own limits, groups and records: they see the
    cgroups and the node's records read-only, in their own mount namespace, gain no privileges by programs
    (no_new_privs), and lack the capabilities that could undo this (CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYS_MODULE,
    CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_DAC_READ_SEARCH). With false, containers of root can mount file systems, and run
    other container engines. `yopp doctor` shows what applies."""
    limit_users: bool = setting("yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users", False)
    """On root's node: run the containers of all users as one user, nonsecure-mode.local-user. With false, each
    container runs as the user who submitted its application, with that user's groups. True in YARN, which cannot
    identify callers in nonsecure mode; here the kernel does. A node of another user runs all containers as that user.
    """
    local_user: str = setting("yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user", "nobody")
    """The user of all containers with nonsecure-mode.limit-users."""
    min_user_id: int = setting(
        "yopp.nodemanager.linux-container-executor.min-user-id", 1000, at_least=1, at_most=2**32 - 2
    )
    """Where root runs the node: containers of users with a smaller uid are refused (min.user.id of YARN's
    container-executor.cfg). Root's own run as root."""
    allowed_system_users: str = setting("yopp.nodemanager.linux-container-executor.allowed-system-users", "")
    """Users, separated by commas, whose containers are started although their uid is below min-user-id
    (allowed.system.users of container-executor.cfg)."""
    banned_users: str = setting(
        "yopp.nodemanager.linux-container-executor.banned-users", "hdfs,yarn,mapred,bin"
    )
    """Users, separated by commas, whose containers are refused where root runs the node (banned.users of
    container-executor.cfg). With root among them, root's jobs are refused too."""
    log_monitor_enabled: bool = setting("yarn.nodemanager.container-log-monitor.enable", False)
    """End containers that write more into their log directory than the limits allow (KILLED_FOR_EXCESS_LOGS). Files
    that were removed and are still written to as standard output or error count too. Needs
    yarn.nodemanager.container-monitor.enabled."""
    log_monitor_interval_ms: int = setting(
        "yarn.nodemanager.container-log-monitor.interval-ms", 60000, at_least=20
    )
    """How often the log directories are measured, at most as often as the containers are."""
    log_dir_size_limit_bytes: int = setting(
        "yarn.nodemanager.container-log-monitor.dir-size-limit-bytes",
        1_000_000_000,
        at_least=1,
        at_most=LARGEST_LONG,
    )
    """The most bytes in one log directory of a container. A container has one, so the smaller of this and the total
    counts."""
    log_total_size_limit_bytes: int = setting(
        "yarn.nodemanager.container-log-monitor.total-size-limit-bytes",
        10_000_000_000,
        at_least=1,
        at_most=LARGEST_LONG,
    )
    """The most bytes in all log directories of a container."""
    log_rotation_bytes: int = setting(
        "yopp.nodemanager.container-log-rotation.size-bytes", 0, at_least=0, at_most=LARGEST_LONG
    )
    """Rotate stdout and stderr of running containers that are larger than this: old output moves to stdout.1 and so
    on, and the program continues to write. Sizes are checked each container-log-monitor.interval-ms, and count in its
    limits. 0 rotates nothing, as in YARN. If the file system cannot remove the front of a file (ext4 and XFS can),
    output at the moment of a rotation is lost. A requested output directory is not rotated."""
    log_rotation_files: int = setting(
        "yopp.nodemanager.container-log-rotation.files", 1, at_least=0, at_most=100
    )
    """The number of old files kept of each. With 0, old output is deleted."""
    work_dir_size_limit_bytes: int = setting(
        "yopp.nodemanager.container-disk-monitor.size-limit-bytes", 0, at_least=0, at_most=LARGEST_LONG
    )
    """End containers whose own directory (LOCAL_DIRS, the working directory unless another was requested) uses more
    disk space than this, including removed files that they still hold open; 0 for no limit. Files elsewhere, as in
    /tmp, do not count. Needs yarn.nodemanager.container-monitor.enabled."""
    work_dir_interval_ms: int = setting(
        "yopp.nodemanager.container-disk-monitor.interval-ms", 5000, at_least=20
    )
    """How often these directories are measured, at most as often as the containers are."""
    delete_timeout_ms: int = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.delete-timeout-ms", 1000, at_least=0
    )
    """How long to keep trying to remove the cgroup of a finished container."""
    delete_delay_ms: int = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.delete-delay-ms", 20, at_least=1
    )
    """The longest pause between two attempts to remove the cgroup of a finished container."""
    diagnostics_maximum_size: int = setting(
        "yarn.nodemanager.container-diagnostics-maximum-size", 10000, at_least=100
    )
    """How many characters of a container's diagnostics are kept: the last ones."""
    pmem_check_enabled: bool = setting("yarn.nodemanager.pmem-check-enabled", True)
    """Without a writable memory cgroup, end containers that psutil finds over their memory (KILLED_EXCEEDED_PMEM)."""
    vmem_check_enabled: bool = setting("yarn.nodemanager.vmem-check-enabled", False)
    """End containers whose processes together have more virtual memory than their memory times
    yarn.nodemanager.vmem-pmem-ratio: at once beyond twice that, else at the second measurement in a row
    (KILLED_EXCEEDED_VMEM). True in YARN; programs map far more than they use."""
    vmem_pmem_ratio: float = setting("yarn.nodemanager.vmem-pmem-ratio", 2.1, at_least=0.99)
    """Virtual memory that a container may have for each MB of its memory."""
    disk_health_enabled: bool = setting("yarn.nodemanager.disk-health-checker.enable", True)
    """Check whether containers can start here: a node whose disks are full or fail, or that cannot start a process,
    is unhealthy. It reports the reason, and gets no containers until it is healthy. A container that it could not
    start is retried elsewhere, or later, and this does not count as a failure."""
    disk_health_interval_ms: int = setting(
        "yarn.nodemanager.disk-health-checker.interval-ms", 120_000, at_least=10
    )
    """How often the disks are checked while the node is healthy. After a container could not be started, they are
    checked every second until the node is healthy again."""
    disk_most_used_percentage: float = setting(
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage",
        100.0,
        at_least=0,
        at_most=100,
    )
    """The maximum use of a disk, in percent. In YARN it is 90; here, a disk that accepts writes is healthy, because
    yopp shares it with the rest of the host."""
    disk_least_free_mb: int = setting(
        "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb", 0, at_least=0
    )
    """How many MB of a disk must be free."""
    retain_finished: int = setting("yopp.nodemanager.retained-containers", 1000, at_least=0)
    """How many finished containers a node remembers."""
