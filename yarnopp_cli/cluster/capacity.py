"""Shares one machine between the nodes of a cluster.

Memory is never promised twice: otherwise a container would be killed because another one was promised the
same memory. Vcores may be promised twice on request, since sharing a core only makes work slower. All
functions are pure except ``plan_capacity`` and ``threads_per_core``, which read the machine's limits.
"""

from __future__ import annotations

from executor.hints import TYPE_CHECKING
from executor.light import Record
from executor.records import Resource

from ..errors import EXIT_CONFIGURATION, UsageError, YoppError
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

    def told(self, amount: str) -> str:
        """``amount``, followed by the reasons why it is not more."""
        return amount + (f" ({'; '.join(self.because)})" if self.because else "")


class Wish(Record):
    """The requested nodes; None leaves the choice to yopp. Sizes are per node.

    ``configured`` means that the sizes come from the configuration and not from the command line.
    """

    nodes: int | None = None
    memory_mb: int | None = None
    vcores: int | None = None
    configured: bool = False


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


def plan(
    machine: Machine,
    wish: Wish,
    *,
    reserved_memory_mb: int = -1,
    cpu_percentage: int = 100,
    taken: Resource = Resource(),
) -> CapacityPlan:
    """Share the machine between ``wish.nodes`` nodes (None: one).

    ``reserved_memory_mb`` and ``cpu_percentage`` are the properties
    ``yarn.nodemanager.resource.system-reserved-memory-mb`` and ``….percentage-physical-cpu-limit``; ``taken``
    is what existing nodes have been promised. Raises UsageError for a size below 1, and YoppError if the
    machine has less than requested, with a hint what to type instead.
    """
    nodes = 1 if wish.nodes is None else wish.nodes
    for option, value in (("--nodes", nodes), ("--memory", wish.memory_mb), ("--vcores", wish.vcores)):
        if value is not None and value < 1:
            raise UsageError(
                f"{option} {value} is refused",
                because="it must be at least 1",
                hint=f"name at least 1, or leave {option} out for the default",
            )
    memory_told = machine.told(f"{machine.memory_mb} MB")
    if nodes > 1 and nodes * DAEMON_MB > machine.memory_mb:
        raise YoppError(
            f"{nodes} nodes do not fit on this machine",
            because=f"their {nodes} NodeManagers alone would use about {nodes * DAEMON_MB} MB of its {memory_told}",
            hint=f"yopp up --nodes {max(1, min(int(machine.cores), machine.memory_mb // DAEMON_MB))}",
        )
    if wish.memory_mb is not None and wish.memory_mb < SMALLEST_NODE_MB and not wish.configured:
        raise UsageError(
            f"--memory {wish.memory_mb} is refused",
            because=f"a node of less than {SMALLEST_NODE_MB} MB cannot hold a useful container",
            hint=f"--memory {SMALLEST_NODE_MB} at least, or leave it out for the default",
        )
    warnings: list[str] = []
    cores = max(1, int(machine.cores * cpu_percentage / 100))
    vcores = _vcores(wish, nodes, cores, machine.told(number_of(cores, "core")), taken.vcores, warnings)
    reserve = reserve_mb(machine.memory_mb, reserved_memory_mb)
    memory = _memory(wish, nodes, machine.memory_mb, reserve, memory_told, taken.memory, warnings)
    return CapacityPlan(tuple(Resource(memory, one) for one in vcores), tuple(warnings))


def _vcores(
    wish: Wish, nodes: int, cores: int, told: str, taken: int, warnings: list[str]
) -> tuple[int, ...]:
    """Vcores of each node: as requested, or the cores divided evenly, with the remainder for the
    first nodes."""
    if wish.vcores is not None:
        promised = wish.vcores * nodes + taken
        if promised > cores:
            warnings.append(
                f"{promised} vcores are promised on {told}: containers share cores and run slower"
            )
        return (wish.vcores,) * nodes
    if nodes > cores - taken:
        raise YoppError(
            f"there is not one core for each of {number_of(nodes, 'node')}",
            because=f"yopp can use {told}" + (f", other nodes use {taken}" if taken else ""),
            hint=f"yopp up --nodes {cores}, or share the cores: yopp up --nodes {nodes} --vcores 1"
            if not taken
            else "name the size of the new node: --vcores 1 --memory MB",
        )
    each, more = divmod(cores - taken, nodes)
    return tuple(each + 1 if index < more else each for index in range(nodes))


def _memory(
    wish: Wish, nodes: int, machine_mb: int, reserve: int, told: str, taken: int, warnings: list[str]
) -> int:
    """Memory of each node, in MB."""
    largest = max(0, (machine_mb - reserve - taken) // nodes)
    if wish.memory_mb is None:
        if largest < SMALLEST_NODE_MB:
            raise YoppError(
                f"no memory is left for {number_of(nodes, 'node')}",
                because=f"yopp can use {told}, of which {reserve} MB are reserved"
                + (f" and {taken} MB promised to other nodes" if taken else ""),
                hint="start fewer nodes, or lower -Dyarn.nodemanager.resource.system-reserved-memory-mb=MB",
            )
        return largest
    promised = wish.memory_mb * nodes + taken
    if promised > machine_mb:
        hint = f"--memory {largest}, or leave it out"
        if wish.configured:
            hint = f"lower yarn.nodemanager.resource.memory-mb to {largest} or less"
        raise YoppError(
            f"{number_of(nodes, 'node')} of {wish.memory_mb} MB cannot be promised",
            because=f"yopp can use {told}" + (f", other nodes use {taken} MB" if taken else ""),
            hint=hint if largest >= SMALLEST_NODE_MB else "stop another node first",
            exit_code=EXIT_CONFIGURATION if wish.configured else None,
        )
    if promised > machine_mb - reserve:
        warnings.append(
            f"{promised} MB are promised of {told}: less than {reserve} MB is left, which should be reserved for "
            "the rest of the machine"
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
    wish: Wish,
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
    machine = Machine(host.memory_bytes >> 20, host.cores, host.because)
    return plan(
        counted_machine(machine, hardware, 1.0 if hardware.count_logical_processors else threads_per_core()),
        Wish(wish.nodes, memory, vcores, configured=wish.memory_mb is None and memory is not None),
        reserved_memory_mb=node.system_reserved_memory_mb,
        cpu_percentage=node.percentage_physical_cpu_limit,
        taken=taken,
    )


def plan_capacity(configuration: Configuration, wish: Wish, *, taken: Resource = Resource()) -> CapacityPlan:
    """The sizes of the nodes on this machine; ``taken`` is what other nodes have already been promised."""
    from executor.linux.watching.host import host_limits

    node, hardware = configuration.settings(NodeManagerSettings), configuration.settings(HardwareSettings)
    return share_host(host_limits(), node, hardware, wish, taken=taken)


def warnings_of_resize(
    configuration: Configuration, before: Resource, after: Resource, others: Resource
) -> tuple[str, ...]:
    """What is to be known before a node gets another size beside the ``others``. What it has already is not examined
    again. Raises YoppError, as ``plan`` does, for more memory than the machine has."""
    warnings: tuple[str, ...] = ()
    if after.memory > before.memory:
        warnings = plan_capacity(configuration, Wish(1, after.memory, after.vcores), taken=others).warnings
    elif after.vcores > before.vcores:
        cores_alone = Resource(0, others.vcores)
        warnings = plan_capacity(
            configuration, Wish(1, SMALLEST_NODE_MB, after.vcores), taken=cores_alone
        ).warnings
    return warnings
