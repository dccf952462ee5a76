"""Properties of the NodeManagers beyond those of the executor inside them, and of how a node's size is found."""

from __future__ import annotations

from executor.light import dataclass
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeManagerSettings:
    """A node's size, its directories, and how it speaks with the RM."""

    memory_mb: int = setting("yarn.nodemanager.resource.memory-mb", -1, at_least=-1)
    """Memory for containers, in MB. -1 takes the memory of this machine (or of the cgroup that yopp runs in), less
    the reserve, and divides it between the nodes of this host."""
    vcores: int = setting("yarn.nodemanager.resource.cpu-vcores", -1, at_least=-1)
    """Vcores for containers. -1 takes the cores that this process may use (affinity, cgroup quota) and divides them
    between the nodes of this host."""
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
    """The NM is restarted by somebody when it ends: on SIGTERM it leaves its containers running for its next life,
    if yarn.nodemanager.recovery.enabled is true. With false, YARN's default, it ends them first; those of an NM
    that dies are still found."""
    heartbeat_mode: str = setting(
        "yopp.nodemanager.heartbeat-mode", "event-driven", choices=("event-driven", "periodic")
    )
    """Report changes to the RM at once (event-driven), or only at each interval as YARN does (periodic), to study
    the delay that this causes."""
    racks: str = setting("yopp.nodemanager.racks", "/default-rack")
    """The racks of the nodes, which asks may name: one for all, or some by their ports: 45454=/rack1, 45455=/rack2.
    """
    node_labels: str = setting("yopp.nodemanager.node-labels", "")
    """The labels (YARN's partitions) of the nodes: one for all, or some by their ports: 45456=gpu. An ask with a
    label is served only by nodes with that label; an ask without one, only by nodes without."""
    log_dirs: str = setting("yarn.nodemanager.log-dirs", "${yopp.state-dir}/logs")
    """Where containers' output goes: <application id>/<container id>/stdout and stderr."""
    local_dirs: str = setting("yarn.nodemanager.local-dirs", "${yopp.state-dir}/nm-local-dir")
    """Where containers' private working directories are; each is removed when its container has ended."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareSettings:
    """What a size of -1 means."""

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
    """How many vcores a core counts as where a node's vcores are taken from the machine."""
    resource_monitor_interval_ms: int = setting(
        "yarn.nodemanager.resource-monitor.interval-ms", 1000, at_least=20
    )
    """How often resource use is measured, unless yarn.nodemanager.container-monitor.interval-ms is set: one pass
    measures the containers and the machine."""


def by_port(text: str) -> dict[int | None, str]:
    """A property that may differ between the nodes of a host (racks, labels): port -> value, None for all others.

    The text is ``gpu`` for all nodes, or ``45454=gpu, 45456=fast``; an entry without a port is for the others. Raises
    ValueError that says which entry is wrong.
    """
    values: dict[int | None, str] = {}
    for entry in text.replace(",", " ").split():
        port, equals, value = entry.rpartition("=")
        if equals and not (port.isascii() and port.isdigit()):
            raise ValueError(f"{entry!r} does not begin with the port of a node")
        key = int(port) if equals else None
        if key in values:
            raise ValueError(f"{entry!r} names a node a second time")
        values[key] = value
    return values


def of_node(text: str, port: int) -> str:
    """The value of the node with that port, "" for none."""
    values = by_port(text)
    return values.get(port, values.get(None, ""))
