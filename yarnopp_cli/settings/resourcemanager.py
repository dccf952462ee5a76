"""Properties of the ResourceManager."""

from __future__ import annotations

from executor.light import dataclass
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceManagerSettings:
    """What the RM decides by."""

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
    """Serve an opportunistic ask that does not enforce its execution type with a guaranteed container where a node
    has room for one at once. With false, as in YARN, a container always has the type that was asked for."""
    max_allocations_per_heartbeat: int = setting(
        "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat", -1
    )
    """The most opportunistic containers that one answer gives to an AM; 0 or less for no bound."""
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
    """By what nodes are compared. FREE_THEN_QUEUE_LENGTH: where most is free, then where the queue is shortest;
    what fits into free resources takes no place in the queue. The others are YARN's. QUEUE_LENGTH, its default: the
    queue's length alone, and each allocated container takes a place in it, however idle the node is.
    QUEUE_WAIT_TIME: the waiting time that the node estimates; nodes without an estimate are left out.
    QUEUE_LENGTH_THEN_RESOURCES: the queue's length, then what is free."""
    limit_policy: str = setting(
        "yopp.resourcemanager.nm-container-queuing.limit-policy",
        "ROOM_ELSEWHERE",
        choices=("ROOM_ELSEWHERE", "YARN"),
    )
    """When nodes shed containers that are queued beyond the limit. ROOM_ELSEWHERE: as many as other nodes have room
    for and start sooner, once for each computation of the limit, which is that of all nodes. YARN: each heartbeat's
    answer tells every node the limit, that of the nodes that are not full, and what is beyond it is killed even if
    it can only come back."""
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
    """With the load comparator QUEUE_WAIT_TIME the limit is a waiting time, and never below this. Nodes shed what
    they expect to wait for longer."""
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
    """Requests for vcores are raised to this. 0 allows a container without a vcore of its own."""
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
    on_demand_linger_ms: int = setting("yopp.on-demand.linger-ms", 0, at_least=0)
    """How long a cluster that a job started for itself waits for another job before it ends."""
    address: str = setting("yarn.resourcemanager.address", "")
    """host:port on which the RM also listens by TCP for clients, nodes and masters; empty for its Unix socket only.
    Only loopback addresses are allowed."""
    scheduler_address: str = setting("yarn.resourcemanager.scheduler.address", "")
    """Where masters find their scheduler: empty for the RM; localhost:8049 redirects them to the AMRMProxy."""
