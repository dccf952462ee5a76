"""What a node's size of -1 comes to: the machine as the properties want it counted.

Pure but for ``threads_per_core``, which asks the machine.
"""

from __future__ import annotations

from ..settings.hardware import HardwareSettings
from .capacity_plan import Machine

UNDETECTED_MB = 8192
UNDETECTED_VCORES = 8
"""YARN's constants for a node that is not to look at its machine (``YarnConfiguration``)."""


def counted_machine(machine: Machine, settings: HardwareSettings, threads_per_core: float = 1.0) -> Machine:
    """The machine with its processors counted as vcores.

    ``threads_per_core`` is how many of the kernel's processors are one core. A part of a vcore is none, as in
    YARN.
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
    """A configured size, None for what the machine has: -1, unless nothing is to be detected."""
    if configured is not None and configured >= 0:
        return configured
    return None if settings.detect_capabilities else undetected


def threads_per_core() -> float:
    """How many of the kernel's processors are one core of this machine, 1 where that cannot be seen."""
    import psutil

    logical, physical = psutil.cpu_count() or 1, psutil.cpu_count(logical=False) or 0
    return logical / physical if physical else 1.0
