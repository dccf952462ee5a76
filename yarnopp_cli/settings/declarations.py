"""The properties of the ResourceManager, the NodeManagers, their pages, and of jobs: each declared once, as a field.

The properties of the executor inside a NodeManager are declared in ``executor.settings``, those of queues in
``queues``; ``PROPERTIES`` has all by name. This module reads no file and holds no value.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import Resource
from executor.settings import ExecutorSettings, Property, properties_of, setting

from .queues import QUEUE_PREFIX, CapacitySchedulerSettings


class ResourceManagerSettings(Record, kw_only=True):
    """The settings of the RM."""

    resource_types: str = setting("yarn.resource-types", "")
    """The countable resource types beside memory and vcores, separated by commas: yarn.io/gpu, or your own names for
    resources that cannot be shared (license, board). yarn.nodemanager.resource-type.<name> sets how many a node has,
    and a container requests some with --resource NAME=N."""
    opportunistic_enabled: bool = setting(
        "yarn.resourcemanager.opportunistic-container-allocation.enabled", False
    )
    """Enables opportunistic container allocation."""
    nodes_used: int = setting(
        "yarn.resourcemanager.opportunistic-container-allocation.nodes-used", 10, at_least=1
    )
    """Number of least loaded nodes to be used by the Opportunistic Container allocator for dispatching containers
    during container allocation. A higher value can improve load balance in large clusters."""
    may_be_guaranteed: bool = setting(
        "yopp.resourcemanager.opportunistic-container-allocation.may-be-guaranteed", False
    )
    """Serve an opportunistic ask that does not enforce its execution type with a guaranteed container if a node has
    room for one at once. With false, as in YARN, a container always has the requested type."""
    max_allocations_per_heartbeat: int = setting(
        "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat", -1
    )
    """The maximum number of opportunistic containers that one answer allocates to an AM; 0 or less for no
    limit."""
    sorting_nodes_interval_ms: int = setting(
        "yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms", 1000, at_least=10
    )
    """Frequency for computing least loaded nodes."""
    load_comparator: str = setting(
        "yarn.resourcemanager.nm-container-queuing.load-comparator",
        "FREE_THEN_QUEUE_LENGTH",
        choices=(
            "FREE_THEN_QUEUE_LENGTH",
            "QUEUE_LENGTH",
            "QUEUE_WAIT_TIME",
            "QUEUE_LENGTH_THEN_RESOURCES",
        ),
    )
    """How nodes are compared. FREE_THEN_QUEUE_LENGTH: by free resources, then by queue length; a container
    that fits into free resources takes no place in the queue. The others are YARN's. QUEUE_LENGTH, its
    default: the queue's length alone, and each allocated container takes a place in it, however idle the node
    is. QUEUE_WAIT_TIME: the waiting time that the node estimates; nodes without an estimate are left out.
    QUEUE_LENGTH_THEN_RESOURCES: the queue's length, then the free resources."""
    limit_policy: str = setting(
        "yopp.resourcemanager.nm-container-queuing.limit-policy",
        "ROOM_ELSEWHERE",
        choices=("ROOM_ELSEWHERE", "YARN"),
    )
    """When nodes shed containers that are queued beyond the limit. ROOM_ELSEWHERE: only as many as other
    nodes have room for and start sooner, once for each computation of the limit, which includes all nodes.
    YARN: the answer to each heartbeat tells every node the limit, which is computed without full nodes, and
    containers beyond it are killed even if no other node has room for them."""
    queue_limit_stdev: float = setting(
        "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", 1.0, at_least=0
    )
    """The k parameter: the limit of the queues is their mean length plus k standard deviations."""
    min_queue_length: int = setting(
        "yarn.resourcemanager.nm-container-queuing.min-queue-length", 5, at_least=0
    )
    """The queue_min_length parameter: the limit is never below this."""
    max_queue_length: int = setting(
        "yarn.resourcemanager.nm-container-queuing.max-queue-length", 15, at_least=0
    )
    """The queue_max_length parameter: the limit is never above this."""
    min_queue_wait_time_ms: int = setting(
        "yarn.resourcemanager.nm-container-queuing.min-queue-wait-time-ms", 10, at_least=0
    )
    """With the load comparator QUEUE_WAIT_TIME the limit is a waiting time, and never below this. Nodes shed
    containers with a longer expected waiting time."""
    max_queue_wait_time_ms: int = setting(
        "yarn.resourcemanager.nm-container-queuing.max-queue-wait-time-ms", 100, at_least=0
    )
    """With the load comparator QUEUE_WAIT_TIME the limit is a waiting time, and never above this."""
    heartbeat_interval_ms: int = setting(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", 1000, at_least=10
    )
    """The longest time between two heartbeats of a node."""
    heartbeat_scaling: bool = setting(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-scaling-enable", False
    )
    """Nodes that are busier than the others send heartbeats less often, and idler ones more often, within
    heartbeat-interval-min-ms and -max-ms."""
    heartbeat_interval_min_ms: int = setting(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-min-ms", 1000, at_least=10
    )
    """The shortest heartbeat interval that scaling sets."""
    heartbeat_interval_max_ms: int = setting(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-max-ms", 1000, at_least=10
    )
    """The longest heartbeat interval that scaling sets."""
    heartbeat_speedup_factor: float = setting(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-speedup-factor", 1.0, at_least=0
    )
    """By how many percent a node's heartbeat interval is shortened for each percent of its vcores that it is idler
    than the others."""
    heartbeat_slowdown_factor: float = setting(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-slowdown-factor", 1.0, at_least=0
    )
    """By how many percent a node's heartbeat interval is lengthened for each percent of its vcores that it is
    busier than the others."""
    nm_expiry_interval_ms: int = setting("yarn.nm.liveness-monitor.expiry-interval-ms", 600_000, at_least=100)
    """How long a node may send no heartbeat before it is LOST and its containers with it."""
    am_expiry_interval_ms: int = setting("yarn.am.liveness-monitor.expiry-interval-ms", 600_000, at_least=100)
    """How long an application master may send no heartbeat before its attempt has failed."""
    recovery_enabled: bool = setting("yarn.resourcemanager.recovery.enabled", False)
    """Whether the RM stores its state: after any end of the RM except that of the whole cluster, applications
    continue, and running containers are kept. With false, YARN's default, the next RM starts without state."""
    client_am_grace_ms: int = setting("yopp.resourcemanager.client-am-grace-ms", 2000, at_least=0)
    """How long a job whose master runs in the client continues after the client's connection is lost."""
    allocation_expiry_interval_ms: int = setting(
        "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms", 600_000, at_least=100
    )
    """How long an allocated container may stay unclaimed (not started on its node) before it is taken back."""
    max_attempts: int = setting("yarn.resourcemanager.am.max-attempts", 2, at_least=1)
    """How many times an application's master is started, at most."""
    minimum_allocation_mb: int = setting("yarn.scheduler.minimum-allocation-mb", 1024, at_least=1)
    """Requests for memory are raised to a multiple of this many MB."""
    minimum_allocation_vcores: int = setting("yarn.scheduler.minimum-allocation-vcores", 1, at_least=0)
    """Requests for vcores are raised to this. 0 allows a container without a vcore."""
    maximum_allocation_mb: int = setting("yarn.scheduler.maximum-allocation-mb", 8192, at_least=1)
    """The largest request for memory, in MB."""
    maximum_allocation_vcores: int = setting("yarn.scheduler.maximum-allocation-vcores", 4, at_least=1)
    """The largest request for vcores."""
    auto_update_containers: bool = setting("yarn.resourcemanager.auto-update.containers", False)
    """The RM itself delivers container updates to the NMs, instead of the AMs."""
    max_completed_applications: int = setting(
        "yarn.resourcemanager.max-completed-applications", 1000, at_least=0
    )
    """How many finished applications the RM remembers."""
    max_application_priority: int = setting("yarn.cluster.max-application-priority", 10, at_least=0)
    """The highest priority of an application; a higher one is lowered to it, as in YARN. YARN's own default of 0
    would allow no priorities at all."""
    submitter_applications: int = setting(
        "yopp.resourcemanager.submitter.maximum-applications", 100, at_least=1
    )
    """How many living applications a user may have at once who submits to another user's cluster
    (yopp.webapp.submitters)."""
    submitter_tasks: int = setting("yopp.resourcemanager.submitter.maximum-tasks", 100_000, at_least=1)
    """How many tasks the living applications of such a user may have together. The RM remembers each task that has
    run."""
    max_retained_containers: int = setting("yopp.resourcemanager.max-retained-containers", 10_000, at_least=0)
    """How many finished containers the RM remembers, over all applications."""
    exclude_path: str = setting("yarn.resourcemanager.nodes.exclude-path", "")
    """Path to file with nodes to exclude: `yopp rmadmin -refreshNodes` drains the nodes in it."""
    event_history_size: int = setting("yopp.resourcemanager.event-history.size", 20_000, at_least=0)
    """How many events of the cluster the RM remembers, for `yopp events` and `yopp report`."""
    retained_histories: int = setting(
        "yopp.resourcemanager.event-history.retained-applications", 200, at_least=0
    )
    """For how many finished applications the events are kept as files, for `yopp report`; the oldest are removed
    first."""
    hosted_masters: bool = setting("yopp.resourcemanager.hosted-masters", True)
    """The masters of `yopp run`, `yopp dshell` and `yopp pi` run in the ResourceManager's process: they use no
    resources, and need no process. With false, as in YARN, the master of a detached job runs in its own container,
    and the master of a foreground job in its client. This is always the case with distributed scheduling, and for a
    detached `yopp pi`."""
    on_demand_linger_ms: int = setting("yopp.on-demand.linger-ms", 0, at_least=0)
    """How long a cluster that a job started for itself waits for another job before it ends."""
    address: str = setting("yarn.resourcemanager.address", "")
    """host:port on which the RM also listens by TCP for clients, nodes and masters; empty for its Unix socket only.
    Only loopback addresses are allowed."""
    scheduler_address: str = setting("yarn.resourcemanager.scheduler.address", "")
    """The address that masters use for their scheduler: empty for the RM; localhost:8049 redirects them to the
    AMRMProxy."""


class NodeManagerSettings(Record, kw_only=True):
    """A node's size, its directories, and its communication with the RM."""

    memory_mb: int = setting("yarn.nodemanager.resource.memory-mb", -1, at_least=-1)
    """Memory for containers, in MB. -1 takes the memory of this machine (or of the cgroup that yopp runs in), less
    the reserve, and divides it between the nodes of this host."""
    vcores: int = setting("yarn.nodemanager.resource.cpu-vcores", -1, at_least=-1)
    """Vcores for containers. -1 takes the cores that this process may use (affinity, cgroup quota) and divides them
    between the nodes of this host."""
    allowed_gpu_devices: str = setting("yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices", "")
    """The GPUs that the containers of this host may use: auto (those that nvidia-smi shows), or a list of index and
    minor number (0:0,1:1). They are divided between the nodes of this host. Each container gets GPUs of its own, which
    variables name (yopp.nodemanager.gpu-vendor). Empty, the default: GPUs are only counted, by
    yarn.nodemanager.resource-type.yarn.io/gpu. yarn.resource-types must contain yarn.io/gpu."""
    gpu_discovery: str = setting("yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables", "")
    """The path of nvidia-smi, or of its directory. Empty: it is searched on the PATH, then where YARN searches."""
    system_reserved_memory_mb: int = setting(
        "yarn.nodemanager.resource.system-reserved-memory-mb", -1, at_least=-1
    )
    """Memory reserved for the rest of the machine. -1: a tenth of it, at least 256 MB, at most 2048 MB."""
    percentage_physical_cpu_limit: int = setting(
        "yarn.nodemanager.resource.percentage-physical-cpu-limit", 100, at_least=1, at_most=100
    )
    """The share of the machine's cores that all containers together may use."""
    recovery_enabled: bool = setting("yarn.nodemanager.recovery.enabled", True)
    """Containers continue when their NM is stopped with --keep-containers or dies, and the next NM finds them
    again."""
    recovery_supervised: bool = setting("yarn.nodemanager.recovery.supervised", True)
    """A supervisor restarts the NM when it ends: on SIGTERM the NM leaves its containers running for the next
    NM, if yarn.nodemanager.recovery.enabled is true. With false, YARN's default, it ends them first;
    containers of an NM that crashes are still recovered."""
    heartbeat_mode: str = setting(
        "yopp.nodemanager.heartbeat-mode", "event-driven", choices=("event-driven", "periodic")
    )
    """Report changes to the RM at once (event-driven), or only at each interval as YARN does (periodic), to study
    the delay that this causes."""
    heartbeat_gap_ms: int = setting("yopp.nodemanager.heartbeat-gap-ms", 4, at_least=0, at_most=1000)
    """The shortest time between two heartbeats while containers queue at the node: changes in between are reported
    together; changes of opportunistic containers alone wait for twice this time. The first change after a pause is
    reported at once, or, for an opportunistic container, after this time, so that the next one starts first. While
    nothing queues, every change is reported at once. 0: no minimum. It has no effect with periodic heartbeats."""
    racks: str = setting("yopp.nodemanager.racks", "/default-rack")
    """The racks of the nodes, which asks may name: one for all, or some by their ports: 45454=/rack1, 45455=/rack2.
    """
    node_labels: str = setting("yopp.nodemanager.node-labels", "")
    """The labels (YARN's partitions) of the nodes: one for all, or some by their ports: 45456=gpu. An ask with a
    label is served only by nodes with that label; an ask without one, only by nodes without."""
    log_dirs: str = setting("yarn.nodemanager.log-dirs", "${yopp.state-dir}/logs")
    """The directory of containers' output: <application id>/<container id>/stdout and stderr. Only the cluster's user
    and group may read it (mode 0750)."""
    local_dirs: str = setting("yarn.nodemanager.local-dirs", "${yopp.state-dir}/nm-local-dir")
    """The directory of containers' private working directories; each is removed when its container has ended."""
    log_retain_seconds: int = setting("yarn.nodemanager.log.retain-seconds", 10800, at_least=0)
    """When a node starts, it removes the output of applications that ended longer ago than this."""
    distributed_scheduling_enabled: bool = setting("yarn.nodemanager.distributed-scheduling.enabled", False)
    """Enables distributed scheduling."""
    amrmproxy_enabled: bool = setting("yarn.nodemanager.amrmproxy.enabled", False)
    """Masters talk to the RM through the AMRMProxy of their node."""
    amrmproxy_address: str = setting("yarn.nodemanager.amrmproxy.address", "0.0.0.0:8049")
    """The address/port to which the AMRMProxyService is bound to. 0.0.0.0 means 127.0.0.1 here, unless
    yopp.nodemanager.amrmproxy.loopback-only is false. Of several NMs on one host, the first to start gets it; each
    also has a Unix socket, which the masters in its containers use."""
    amrmproxy_loopback_only: bool = setting("yopp.nodemanager.amrmproxy.loopback-only", True)
    """The AMRMProxy listens on loopback only, and serves its own user and root only. With false it is bound to the
    address as written, and callers are identified by their tokens alone."""
    amrmproxy_pipeline: str = setting(
        "yarn.nodemanager.amrmproxy.interceptor-class.pipeline", "DefaultRequestInterceptor"
    )
    """The interceptors that a master's calls pass through, separated by commas: ThrottleInterceptor,
    DistributedScheduler, import paths of your own (package.module.Class), and last DefaultRequestInterceptor, which
    calls the RM. With distributed scheduling, a DistributedScheduler that is not in the list is inserted before the
    last."""
    amrmproxy_calls_per_second: int = setting("yopp.nodemanager.amrmproxy.calls-per-second", 100, at_least=1)
    """How many allocate calls per second the ThrottleInterceptor lets one master make; further calls wait. It has
    an effect only if the pipeline contains that interceptor."""
    amrmproxy_thread_count: int = setting("yarn.nodemanager.amrmproxy.client.thread-count", 3, at_least=1)
    """The number of threads that are used at each NM for serving the interceptors register to the AMRMProxyService
    by different jobs. It has no effect here: one event loop serves them all."""


class HardwareSettings(Record, kw_only=True):
    """The meaning of a size of -1."""

    detect_capabilities: bool = setting("yarn.nodemanager.resource.detect-hardware-capabilities", True)
    """Take a size of -1 from the machine. With false, YARN's default, -1 means YARN's constants: 8192 MB and 8
    vcores, whatever the machine has."""
    count_logical_processors: bool = setting(
        "yarn.nodemanager.resource.count-logical-processors-as-cores", True
    )
    """Count every processor that the kernel shows as a core. With false, YARN's default, the threads of one core
    (hyper-threads) count once."""
    pcores_vcores_multiplier: float = setting(
        "yarn.nodemanager.resource.pcores-vcores-multiplier", 1.0, at_least=0.1, at_most=100
    )
    """The number of vcores that a core counts as, if a node's vcores are taken from the machine."""
    resource_monitor_interval_ms: int = setting(
        "yarn.nodemanager.resource-monitor.interval-ms", 1000, at_least=20
    )
    """How often resource use is measured, unless yarn.nodemanager.container-monitor.interval-ms is set: one pass
    measures the containers and the machine."""


class ApplicationSettings(Record, kw_only=True):
    """Defaults and bounds of ``yopp run``, ``yopp dshell`` and ``yopp pi``."""

    num_opportunistic_maps_percent: int = setting(
        "mapreduce.job.num-opportunistic-maps-percent", 0, at_least=0, at_most=100
    )
    """The percentage of maps that run in opportunistic containers; yopp.pi.opportunistic-maps determines which."""
    opportunistic_maps: str = setting(
        "yopp.pi.opportunistic-maps", "SPREAD", choices=("SPREAD", "FIRST_OF_HUNDRED")
    )
    """Which maps are opportunistic. SPREAD: the percentage of all maps, spread evenly. FIRST_OF_HUNDRED, YARN's rule:
    the first maps of each hundred, in the number of the percentage, so that 40 percent of 50 maps are 40."""
    preempted_counts_as_failed: bool = setting("yopp.dshell.preempted-counts-as-failed", False)
    """YARN's rule: a container of `yopp dshell` that was preempted, shed or refused has failed, and its job fails;
    only a lost container is replaced. With false, all of them are requested again."""
    map_memory_mb: int = setting("mapreduce.map.memory.mb", 1024, at_least=1)
    """Memory of the container of one map, in MB."""
    map_vcores: int = setting("mapreduce.map.cpu.vcores", 1, at_least=0)
    """Vcores of one map."""
    map_max_attempts: int = setting("mapreduce.map.maxattempts", 4, at_least=1)
    """How many times a failing map is tried before the job fails."""
    reduce_memory_mb: int = setting("mapreduce.reduce.memory.mb", 1024, at_least=1)
    """Memory of the container of the reduce, in MB."""
    reduce_vcores: int = setting("mapreduce.reduce.cpu.vcores", 1, at_least=0)
    """Vcores of the reduce."""
    reduce_max_attempts: int = setting("mapreduce.reduce.maxattempts", 4, at_least=1)
    """How many times a failing reduce is tried before the job fails."""
    retry_minimum_interval_ms: int = setting(
        "yarn.nodemanager.container-retry-minimum-interval-ms", 1000, at_least=0
    )
    """The shortest time after which `yopp dshell` retries a failed container; see its retry options."""
    am_memory_mb: int = setting("yarn.app.mapreduce.am.resource.mb", 128, at_least=1)
    """Memory of the master's container of a detached job, in MB."""
    am_vcores: int = setting("yarn.app.mapreduce.am.resource.cpu-vcores", 0, at_least=0)
    """Vcores of the master's container of a detached job. 0 by default, because a master that only waits should not
    occupy a core of a small host."""
    run_memory_mb: int = setting("yopp.run.memory-mb", 512, at_least=1)
    """Memory of each container of `yopp run`, in MB, unless --memory is given."""
    run_vcores: int = setting("yopp.run.vcores", 1, at_least=0)
    """Vcores of each container of `yopp run`, unless --vcores is given."""
    max_preemptions: int = setting("yopp.am.max-preemptions-per-container", 100, at_least=1)
    """How often one piece of work may be preempted, shed or refused before its job gives up with exit code 75. Each
    time it is requested again, and that is not counted as an attempt."""
    on_demand_enabled: bool = setting("yopp.on-demand.enabled", True)
    """A job that finds no running cluster starts one for itself, which ends with its last job."""

    @property
    def am_resource(self) -> Resource:
        """The size of the master of a detached job."""
        return Resource(self.am_memory_mb, self.am_vcores)


class EngineSettings(Record, kw_only=True):
    """The engine that the commands use."""

    name: str = setting("yopp.engine.name", "local", choices=("local", "yarn"))
    """The cluster on which commands work. local: the cluster of this host. yarn: the YARN cluster that
    yopp.engine.rm-addresses names, through its REST API. `yopp engine use` sets both; --engine, --rm, YOPP_ENGINE and
    YOPP_RM take precedence."""
    rm_addresses: str = setting("yopp.engine.rm-addresses", "")
    """The URLs of a YARN cluster's ResourceManagers, separated by commas; they are tried in turn. A host alone
    means http://host:8088."""


class DaemonSettings(Record, kw_only=True):
    """Mutual supervision of the RM and the NMs."""

    restart_enabled: bool = setting("yopp.daemons.restart.enabled", True)
    """The RM and the NMs restart each other after a death (a kill, a crash), but not if a user or a service manager
    ended the daemon. The RM of `yopp up --foreground`, and so of `yopp service`, is restarted by its service manager.
    """
    restart_max_tries: int = setting("yopp.daemons.restart.max-tries", 10, at_least=1)
    """How often a daemon that dies within five seconds of its last restart is started again. The first try is at once,
    the second after a tenth of a second, and each further pause is twice as long, up to 30 seconds."""


class IpcSettings(Record, kw_only=True):
    """Limits of the callers of a daemon's sockets: their number, and how long they may be idle. The names are Hadoop's
    (``core-default.xml``) where Hadoop has such properties."""

    max_connections: int = setting("ipc.server.max.connections", 0, at_least=0)
    """How many connections a daemon may have at once. For a further one, the connection that has been idle for longest
    is closed; if none is idle, the new one is refused. 0: a quarter of the files that the daemon may have open, which
    is the limit in any case."""
    idle_threshold: int = setting("ipc.client.idlethreshold", 4000, at_least=0)
    """This number of connections may be idle without limit. Further connections are closed if they are idle for longer
    than twice ipc.client.connection.maxidletime. A connection that waits for an answer is not idle."""
    max_idle_time_ms: int = setting("ipc.client.connection.maxidletime", 10_000, at_least=100)
    """Half the time after which an idle connection may be closed. A caller whose user is not known, from another host,
    is closed after twice this time in which it neither finishes a call nor reads an answer, however few there are."""
    max_per_address: int = setting("yopp.ipc.server.max-connections-per-address", 64, at_least=1)
    """How many connections one address of another host, whose users are not known, has at once. Only an AMRMProxy with
    yopp.nodemanager.amrmproxy.loopback-only = false has such callers."""
    max_held_mb: int = setting("yopp.ipc.server.max-held-mb", 256, at_least=1)
    """How much memory, in MB, the unfinished calls and the unread answers of all connections of a daemon may take.
    Beyond it, the connection that holds most is closed."""


class WebSettings(Record, kw_only=True):
    """The addresses and rights of the REST APIs and pages of the ResourceManager and the NodeManagers."""

    resourcemanager_address: str = setting("yarn.resourcemanager.webapp.address", "localhost:8088")
    """host:port of the RM's REST API and pages, empty for none; port 0 takes a free one. 0.0.0.0 means 127.0.0.1
    here, unless yopp.webapp.loopback-only is false. If the default port is taken, a free one is used instead. A
    cluster that a job started for itself serves no pages."""
    nodemanager_address: str = setting("yarn.nodemanager.webapp.address", "localhost:8042")
    """host:port of the NMs' REST API and pages, empty for none; port 0 takes a free one. Of several NMs on one
    host, the first has this port and each further one the next, or a free one if that is taken."""
    loopback_only: bool = setting("yopp.webapp.loopback-only", True)
    """The REST APIs and pages are served on loopback only, where the kernel identifies callers: only the cluster's
    own user and root may make changes. With false they are bound to the addresses as written; callers from other
    hosts may look, but change nothing."""
    readers: str = setting("yopp.webapp.readers", "all", choices=("all", "owner"))
    """Who may read the REST APIs, pages and metrics. all: every user of this machine; only the cluster's own user and
    root may read the output of containers and make changes. owner: only these two."""
    submitters: str = setting("yopp.webapp.submitters", "owner", choices=("owner", "all"))
    """Who may submit applications over REST: the cluster's own user and root, or all users of this machine. The
    containers of other users run as these users, so only root's cluster can serve all users. They may end their own
    applications and read their own output, but change nothing else. Their masters run in the ResourceManager."""


def by_port(text: str) -> dict[int | None, str]:
    """A property that may differ between the nodes of a host (racks, labels): port -> value, None for all others.

    The text is ``gpu`` for all nodes, or ``45454=gpu, 45456=fast``; an entry without a port is for all other nodes.
    Raises ValueError, which names the wrong entry.
    """
    values: dict[int | None, str] = {}
    for entry in text.replace(",", " ").split():
        port, equals, value = entry.rpartition("=")
        if equals and not (port.isascii() and port.isdigit()):
            raise ValueError(f"{entry!r} does not begin with the port of a node")
        key = int(port) if equals else None
        if key in values:
            raise ValueError(f"{entry!r} names a node twice")
        values[key] = value
    return values


def of_node(text: str, port: int) -> str:
    """The value for the node with this port, "" for none."""
    values = by_port(text)
    return values.get(port, values.get(None, ""))


# -- all of them -----------------------------------------------------------------------------------------------

SETTINGS: dict[type, str] = {
    ResourceManagerSettings: "ResourceManager",
    CapacitySchedulerSettings: "Queues of guaranteed containers",
    NodeManagerSettings: "NodeManager",
    ExecutorSettings: "Containers on a node",
    HardwareSettings: "Hardware",
    ApplicationSettings: "Jobs",
    DaemonSettings: "Daemons",
    IpcSettings: "Callers of daemons",
    WebSettings: "REST API and pages",
    EngineSettings: "A YARN cluster",
}
"""The settings classes and their headings, in the order in which the manual shows them."""

PROPERTIES_OF: dict[type, tuple[Property, ...]] = {kind: properties_of(kind) for kind in SETTINGS}
"""The properties that each settings class declares."""

PROPERTIES: dict[str, Property] = {
    declared.name: declared for properties in PROPERTIES_OF.values() for declared in properties
}
"""All properties by name. A duplicate name would be lost here; a test counts them."""


def declared(name: str) -> Property | None:
    """The declaration of a property, also of a queue's or a resource type's; None if it is not declared."""
    if (found := PROPERTIES.get(name)) is not None:
        return found
    if name.startswith("yarn.nodemanager.resource-type."):
        from .resource_types import property_of as of_type  # Imported late: few configurations need it.

        return of_type(name)
    if not name.startswith(QUEUE_PREFIX):
        return None
    from .queue_properties import property_of  # Imported late: few configurations need it.

    return property_of(name)


DIRECTORIES: frozenset[str] = frozenset({"yarn.nodemanager.log-dirs", "yarn.nodemanager.local-dirs"})
"""Properties that name one directory by its absolute path. YARN takes a list; one host has one."""

CGROUP_PATHS: frozenset[str] = frozenset({"yarn.nodemanager.linux-container-executor.cgroups.hierarchy"})
"""Properties that name a place inside a cgroup tree, where ``..`` would leave it."""

ADDRESSES: frozenset[str] = frozenset(
    {
        "yarn.resourcemanager.address",
        "yarn.resourcemanager.scheduler.address",
        "yarn.nodemanager.amrmproxy.address",
        "yarn.resourcemanager.webapp.address",
        "yarn.nodemanager.webapp.address",
    }
)
"""Properties that are a ``host:port``, or empty if the default is empty."""

FALLBACKS: dict[str, str] = {
    "yarn.nodemanager.container-monitor.interval-ms": "yarn.nodemanager.resource-monitor.interval-ms"
}
"""An unset property takes the value of another one, as in YARN."""
OPTIONAL_ADDRESSES: frozenset[str] = frozenset(
    {"yarn.resourcemanager.webapp.address", "yarn.nodemanager.webapp.address"}
)
"""Addresses that may be empty although their default is not: an empty one opens no port."""

STATE_DIR_VARIABLE = "yopp.state-dir"
"""The variable ``${yopp.state-dir}`` follows from the run directory; it is a variable, not a property."""
