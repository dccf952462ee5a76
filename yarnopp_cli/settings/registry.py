"""Every declared property, by name. What this module will never do: read a file or hold a value."""

from __future__ import annotations

from executor.settings import ExecutorSettings, Property, properties_of

from .declarations import (
    ApplicationSettings,
    EngineSettings,
    HardwareSettings,
    NodeManagerSettings,
    ResourceManagerSettings,
    WebSettings,
)
from .queues import QUEUE_PREFIX, CapacitySchedulerSettings

SETTINGS: tuple[type, ...] = (
    ResourceManagerSettings,
    CapacitySchedulerSettings,
    NodeManagerSettings,
    ExecutorSettings,
    HardwareSettings,
    ApplicationSettings,
    WebSettings,
    EngineSettings,
)
"""The settings classes, in the order in which the manual shows them."""

PROPERTIES_OF: dict[type, tuple[Property, ...]] = {kind: properties_of(kind) for kind in SETTINGS}
"""What each settings class declares."""

PROPERTIES: dict[str, Property] = {
    declared.name: declared for properties in PROPERTIES_OF.values() for declared in properties
}
"""All properties by name. A name declared twice would be lost here; a test counts them."""


def declared(name: str) -> Property | None:
    """The declaration of a property, be it one of a queue; None if nobody declared it."""
    if (found := PROPERTIES.get(name)) is not None or not name.startswith(QUEUE_PREFIX):
        return found
    from .queue_properties import property_of  # which few configurations need

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
"""Properties that are a ``host:port``, or empty where that is the default."""

FALLBACKS: dict[str, str] = {
    "yarn.nodemanager.container-monitor.interval-ms": "yarn.nodemanager.resource-monitor.interval-ms"
}
"""A property that nobody set has the value of another that somebody did, as in YARN."""
OPTIONAL_ADDRESSES: frozenset[str] = frozenset(
    {"yarn.resourcemanager.webapp.address", "yarn.nodemanager.webapp.address"}
)
"""Those that may be empty though their default is not: then nothing listens."""

STATE_DIR_VARIABLE = "yopp.state-dir"
"""What ``${yopp.state-dir}`` stands for follows from the run directory; it is a variable, not a property."""
