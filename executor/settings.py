"""Settings as declarations: each property is a dataclass field with its YARN name, default, bounds and document.

Everything that lists properties (loading, ``yopp config``, man pages, sample files) reads these declarations, so
nothing about a property is written twice. This module reads no file and no environment.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, get_type_hints

from .light import dataclass


@dataclass(frozen=True, slots=True)
class Property:
    """One declared property. ``type`` is int, float, bool or str; bounds are inclusive, None for none."""

    name: str
    type: type
    default: Any
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    attribute: str = ""


def setting(
    name: str,
    default: Any,
    *,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a property on a dataclass field: its public name, default, bounds and document."""
    return field(
        default=default,
        metadata={
            "property": name,
            "doc": " ".join(doc.split()),
            "at_least": at_least,
            "at_most": at_most,
            "choices": choices,
        },
    )


def properties_of(settings: type) -> tuple[Property, ...]:
    """The properties that a settings dataclass declares, in order of declaration."""
    hints = get_type_hints(settings)
    return tuple(
        Property(
            name=item.metadata["property"],
            type=hints[item.name],
            default=item.default,
            doc=item.metadata["doc"],
            at_least=item.metadata["at_least"],
            at_most=item.metadata["at_most"],
            choices=item.metadata["choices"],
            attribute=item.name,
        )
        for item in fields(settings)
        if "property" in item.metadata
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorSettings:
    """Properties of one node's executor: its queue, preemption, limits and clean-up."""

    max_queue_length: int = setting(
        "yarn.nodemanager.opportunistic-containers-max-queue-length",
        0,
        at_least=0,
        doc="""Determines the max number of opportunistic containers that can be queued at an NM. 0 lets no
        opportunistic container wait: one that cannot start at once is refused.""",
    )
    use_pause_for_preemption: bool = setting(
        "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption",
        False,
        doc="Pause running opportunistic containers to make room for guaranteed ones, instead of killing them.",
    )
    pause_mechanism: str = setting(
        "yopp.nodemanager.pause-mechanism",
        "signal",
        choices=("signal", "freezer"),
        doc="""How a container is paused: by SIGSTOP to each of its processes (signal), or by the freezer of its
        cgroup (freezer), which its processes can neither see nor outrun. A host without a freezer refuses the
        second.""",
    )
    paused_memory: str = setting(
        "yopp.nodemanager.paused-memory",
        "reclaim",
        choices=("reclaim", "keep", "release"),
        doc="""What becomes of a paused container's memory where memory is what is short: the kernel takes back
        what it can and the rest is kept (reclaim), all of it is kept and containers are killed instead (keep),
        or all of it counts as given back although nothing was freed, as in YARN (release).""",
    )
    max_overtakes: int = setting(
        "yopp.nodemanager.opportunistic-queue.max-overtakes",
        100,
        at_least=0,
        doc="""How often later, smaller opportunistic containers may start before one that does not fit yet. 0 is
        YARN's strict FIFO, where the head of the queue blocks all behind it.""",
    )
    strict_resource_usage: bool = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage",
        False,
        doc="""Hold each container to its vcores by a CPU quota, even where cores are idle. Otherwise vcores are
        weights, which bind only when the machine is busy.""",
    )
    cgroups_hierarchy: str = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.hierarchy",
        "/hadoop-yarn",
        doc="The cgroup under which yopp makes its own, relative to the cgroup that yopp runs in.",
    )
    cgroups_mount: str = setting(
        "yopp.nodemanager.cgroups.mode",
        "auto",
        choices=("auto", "v1", "v2", "none"),
        doc="""Which cgroups to use: what the host offers (auto), v1 or v2 and nothing else, or none (process groups
        take the signals and psutil polling enforces memory).""",
    )
    memory_enforced: bool = setting(
        "yarn.nodemanager.resource.memory.enforced",
        True,
        doc="Write memory limits to the containers' cgroups (and poll for them where there are none).",
    )
    soft_limit_percentage: float = setting(
        "yarn.nodemanager.resource.memory.cgroups.soft-limit-percentage",
        90.0,
        at_least=0,
        at_most=100,
        doc="""The part of a guaranteed container's memory that is protected from reclaim: v1's soft limit, v2's
        memory.low. Opportunistic containers have none.""",
    )
    swappiness: int = setting(
        "yarn.nodemanager.resource.memory.cgroups.swappiness",
        0,
        at_least=0,
        at_most=100,
        doc="Swappiness of guaranteed containers (cgroup v1). Opportunistic containers always have 100.",
    )
    pids_max: int = setting(
        "yopp.nodemanager.container.pids-max",
        4096,
        at_least=0,
        doc="The number of processes and threads a container may have; 0 for no limit.",
    )
    sleep_delay_before_sigkill_ms: int = setting(
        "yarn.nodemanager.sleep-delay-before-sigkill.ms",
        250,
        at_least=0,
        doc="The time between SIGTERM and SIGKILL when a container is ended.",
    )
    monitor_interval_ms: int = setting(
        "yarn.nodemanager.container-monitor.interval-ms",
        1000,
        at_least=20,
        doc="How often the use of all containers is measured.",
    )
    delete_timeout_ms: int = setting(
        "yarn.nodemanager.linux-container-executor.cgroups.delete-timeout-ms",
        1000,
        at_least=0,
        doc="How long to go on trying to remove the cgroup of a finished container.",
    )
    diagnostics_maximum_size: int = setting(
        "yarn.nodemanager.container-diagnostics-maximum-size",
        10000,
        at_least=100,
        doc="Diagnostics of a container are cut from the front to this many characters.",
    )
    pmem_check_enabled: bool = setting(
        "yarn.nodemanager.pmem-check-enabled",
        True,
        doc="""Where no memory cgroup can be written, end containers that psutil finds over their memory
        (KILLED_EXCEEDED_PMEM).""",
    )
    retain_finished: int = setting(
        "yopp.nodemanager.retained-containers",
        1000,
        at_least=0,
        doc="How many finished containers a node remembers.",
    )
