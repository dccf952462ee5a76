"""Properties of how a node's size follows from the machine, and of how often its ways are looked at."""

from __future__ import annotations

from executor.light import dataclass
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareSettings:
    """What a size of -1 means."""

    detect_capabilities: bool = setting(
        "yarn.nodemanager.resource.detect-hardware-capabilities",
        True,
        doc="""Take a size of -1 from the machine. False, YARN's default, makes it YARN's constants: 8192 MB and 8
        vcores, whatever the machine has.""",
    )
    count_logical_processors: bool = setting(
        "yarn.nodemanager.resource.count-logical-processors-as-cores",
        True,
        doc="""Count each processor that the kernel shows as a core. False, YARN's default, counts the threads of
        one core (hyper-threads) once.""",
    )
    pcores_vcores_multiplier: float = setting(
        "yarn.nodemanager.resource.pcores-vcores-multiplier",
        1.0,
        at_least=0.1,
        at_most=100,
        doc="How many vcores a core makes where a node's vcores are taken from the machine.",
    )
    resource_monitor_interval_ms: int = setting(
        "yarn.nodemanager.resource-monitor.interval-ms",
        1000,
        at_least=20,
        doc="""How often use is measured, unless yarn.nodemanager.container-monitor.interval-ms says it: one pass
        measures the containers and the machine.""",
    )
