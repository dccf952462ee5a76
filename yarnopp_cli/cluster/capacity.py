"""Shares one machine between the nodes of a cluster (``allocation/host_capacity.py`` says what may be promised twice).

``plan_capacity``, ``capacity_of_host`` and ``threads_per_core`` read the machine's limits; the others are pure.
"""

from __future__ import annotations

from executor.hints import TYPE_CHECKING
from executor.light import Record
from executor.records import Resource

from ..allocation.host_capacity import HostCapacity
from ..errors import EXIT_CONFIGURATION, UsageError, YoppError
from ..machine.life import NodeSizeRequest as NodeSizeRequest
from ..records.admin_protocol import SMALLEST_NODE_MB
from ..settings.declarations import HardwareSettings, NodeManagerSettings
from ..views.text import number_of

if TYPE_CHECKING:
    from executor.linux.watching.host import HostLimits

    from ..settings.loading import Configuration

UNDETECTED_MB = 8192
UNDETECTED_VCORES = 8
"""YARN's defaults for a node that does not detect its hardware (``YarnConfiguration``)."""
RESERVE_DIVISOR = 10
RESERVE_LEAST_MB = 256
RESERVE_MOST_MB = 2048
DAEMON_MB = 40
"""The approximate memory of a NodeManager process: a thousand of them need a large machine."""


class Machine(Record):
    """What yopp may use of this host, and the reasons why it is less than all. ``cores`` may be a
    fraction (a CPU quota)."""

    memory_mb: int
    cores: float
    because: tuple[str, ...] = ()


class CapacityPlan(Record):
    """The size of each node, in order of the ports, and warnings for the user, a line each."""

    nodes: tuple[Resource, ...]
    warnings: tuple[str, ...] = ()


def reserve_mb(memory_mb: int, configured: int) -> int:
    """Memory reserved for the rest of the machine: ``configured``, or for -1 a tenth, but 256 to 2048 MB.

    On a machine so small that 256 MB is more than half of it, half is reserved.
    """
    if configured >= 0:
        return configured
    tenth = max(RESERVE_LEAST_MB, min(RESERVE_MOST_MB, memory_mb // RESERVE_DIVISOR))
    return min(tenth, memory_mb // 2)


def promised_of(machine: Machine, reserved_memory_mb: int = -1, cpu_percentage: int = 100) -> HostCapacity:
    """What may be promised of a machine, with the properties
    ``yarn.nodemanager.resource.system-reserved-memory-mb`` and ``….percentage-physical-cpu-limit``."""
    return HostCapacity(
        machine.memory_mb,
        max(1, int(machine.cores * cpu_percentage / 100)),
        reserve_mb(machine.memory_mb, reserved_memory_mb),
        machine.because,
    )


def plan(
    machine: Machine,
    wish: NodeSizeRequest,
    *,
    reserved_memory_mb: int = -1,
    cpu_percentage: int = 100,
    taken: Resource = Resource(),
) -> CapacityPlan:
    """Share the machine between ``wish.nodes`` nodes (None: one).

    The two properties are as in ``promised_of``; ``taken`` is what existing nodes have been promised. Raises
    UsageError for a size below 1, and YoppError if the machine has less than requested, with a hint what to
    type instead.
    """
    nodes = 1 if wish.nodes is None else wish.nodes
    for option, value in (("--nodes", nodes), ("--memory", wish.memory_mb), ("--vcores", wish.vcores)):
        if value is not None and value < 1:
            raise UsageError(
                f"{option} {value} is refused",
                because="it must be at least 1",
                hint=f"{option} 1, or leave it out for the default",
            )
    host = promised_of(machine, reserved_memory_mb, cpu_percentage)
    if nodes > 1 and nodes * DAEMON_MB > machine.memory_mb:
        raise YoppError(
            f"{nodes} nodes do not fit on this machine",
            because=f"their NodeManagers alone would use about {nodes * DAEMON_MB} MB of its {host.memory_told}",
            hint=f"yopp up --nodes {max(1, min(int(machine.cores), machine.memory_mb // DAEMON_MB))}",
        )
    if wish.memory_mb is not None and wish.memory_mb < SMALLEST_NODE_MB and not wish.configured:
        raise UsageError(
            f"--memory {wish.memory_mb} is refused",
            because=f"a node of less than {SMALLEST_NODE_MB} MB cannot hold a useful container",
            hint=f"--memory {SMALLEST_NODE_MB} at least, or leave it out for the default",
        )
    vcores = _vcores(wish, nodes, host, taken.vcores)
    memory = _memory(wish, nodes, host, taken.memory)
    shared = tuple(Resource(memory, one) for one in vcores)
    return CapacityPlan(shared, host.warnings(sum(shared, Resource(taken.memory, taken.vcores))))


def _vcores(wish: NodeSizeRequest, nodes: int, host: HostCapacity, taken: int) -> tuple[int, ...]:
    """Vcores of each node: as requested, or the cores divided evenly, with the remainder for the
    first nodes."""
    if wish.vcores is not None:
        return (wish.vcores,) * nodes
    if nodes > host.cores - taken:
        raise YoppError(
            f"there is not one core for each of {number_of(nodes, 'node')}",
            because=f"yopp can use {host.cores_told}" + (f", other nodes use {taken}" if taken else ""),
            hint=f"yopp up --nodes {host.cores}, or share the cores: yopp up --nodes {nodes} --vcores 1"
            if not taken
            else "to share cores, give the new node a size: --vcores 1 --memory MB",
        )
    each, more = divmod(host.cores - taken, nodes)
    return tuple(each + 1 if index < more else each for index in range(nodes))


def _memory(wish: NodeSizeRequest, nodes: int, host: HostCapacity, taken: int) -> int:
    """Memory of each node, in MB."""
    largest = max(0, (host.memory_mb - host.reserve_mb - taken) // nodes)
    if wish.memory_mb is None:
        if largest < SMALLEST_NODE_MB:
            raise YoppError(
                f"no memory is left for {number_of(nodes, 'node')}",
                because=f"yopp can use {host.memory_told}, of which {host.reserve_mb} MB are reserved"
                + (f" and {taken} MB promised to other nodes" if taken else ""),
                hint="start fewer nodes, or lower -Dyarn.nodemanager.resource.system-reserved-memory-mb=MB",
            )
        return largest
    if wish.memory_mb * nodes + taken > host.memory_mb:
        hint = f"--memory {largest}, or leave it out"
        if wish.configured:
            hint = f"lower yarn.nodemanager.resource.memory-mb to {largest} or less"
        raise YoppError(
            f"{number_of(nodes, 'node')} of {wish.memory_mb} MB cannot be promised",
            because=f"yopp can use {host.memory_told}" + (f", other nodes use {taken} MB" if taken else ""),
            hint=hint if largest >= SMALLEST_NODE_MB else "stop another node first",
            exit_code=EXIT_CONFIGURATION if wish.configured else None,
        )
    return wish.memory_mb


def counted_machine(machine: Machine, settings: HardwareSettings, threads_per_core: float = 1.0) -> Machine:
    """The machine with its processors counted as vcores.

    ``threads_per_core`` is the number of the kernel's processors per core. As in YARN, the result is rounded
    down to whole vcores later.
    """
    cores, because = machine.cores, list(machine.because)
    if not settings.count_logical_processors and threads_per_core > 1:
        cores /= threads_per_core
        because.append(f"{threads_per_core:g} logical processors count as one core")
    if settings.pcores_vcores_multiplier != 1:
        cores *= settings.pcores_vcores_multiplier
        because.append(f"a core counts as {settings.pcores_vcores_multiplier:g} vcores")
    return Machine(machine.memory_mb, cores, tuple(because))


def size_of_node(configured: int | None, settings: HardwareSettings, undetected: int) -> int | None:
    """A configured size; for -1 None (the machine's own), or the constant ``undetected`` if detection
    is disabled."""
    if configured is not None and configured >= 0:
        return configured
    return None if settings.detect_capabilities else undetected


def threads_per_core() -> float:
    """The number of the kernel's processors per core of this machine; 1 if the kernel does not report it."""
    import psutil

    logical, physical = psutil.cpu_count() or 1, psutil.cpu_count(logical=False) or 0
    return logical / physical if physical else 1.0


def share_host(
    host: HostLimits,
    node: NodeManagerSettings,
    hardware: HardwareSettings,
    wish: NodeSizeRequest,
    *,
    taken: Resource = Resource(),
) -> CapacityPlan:
    """As ``plan``, for a host with known limits, and the properties that decide how its hardware
    is counted."""
    memory, vcores = wish.memory_mb, wish.vcores
    if memory is None:
        memory = size_of_node(node.memory_mb, hardware, UNDETECTED_MB)
    if vcores is None:
        vcores = size_of_node(node.vcores, hardware, UNDETECTED_VCORES)
    return plan(
        _counted(host, hardware),
        NodeSizeRequest(wish.nodes, memory, vcores, configured=wish.memory_mb is None and memory is not None),
        reserved_memory_mb=node.system_reserved_memory_mb,
        cpu_percentage=node.percentage_physical_cpu_limit,
        taken=taken,
    )


def _counted(host: HostLimits, hardware: HardwareSettings) -> Machine:
    """The part of the host that yopp may use, with its processors counted as vcores."""
    machine = Machine(host.memory_bytes >> 20, host.cores, host.because)
    return counted_machine(
        machine, hardware, 1.0 if hardware.count_logical_processors else threads_per_core()
    )


def plan_capacity(
    configuration: Configuration, wish: NodeSizeRequest, *, taken: Resource = Resource()
) -> CapacityPlan:
    """The sizes of the nodes on this machine; ``taken`` is what other nodes have already been promised."""
    from executor.linux.watching.host import host_limits

    node, hardware = configuration.settings(NodeManagerSettings), configuration.settings(HardwareSettings)
    return share_host(host_limits(), node, hardware, wish, taken=taken)


def capacity_of_host(configuration: Configuration) -> HostCapacity:
    """The capacity that the nodes on this machine may be promised together."""
    from executor.linux.watching.host import host_limits

    node, hardware = configuration.settings(NodeManagerSettings), configuration.settings(HardwareSettings)
    machine = _counted(host_limits(), hardware)
    return promised_of(machine, node.system_reserved_memory_mb, node.percentage_physical_cpu_limit)
