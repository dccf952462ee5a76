"""Rules about several properties: contradictory values, and features that this version lacks.

Pure: it gets values and their origins, and returns errors and warnings; it raises no exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from executor.light import Record

from ..errors import ConfigurationError, InvalidPropertyError
from .declarations import by_port
from .queues import ACL_ENABLE, QUEUE_PREFIX, mappings_of, weights_of
from .suggest import printable
from .values import Value, to_text

DEFAULT = "default"
"""The origin of a value that was not set."""

OPPORTUNISTIC = "yarn.resourcemanager.opportunistic-container-allocation.enabled"
QUEUE_LENGTH = "yarn.nodemanager.opportunistic-containers-max-queue-length"
DISTRIBUTED = "yarn.nodemanager.distributed-scheduling.enabled"
_VMEM_CHECK = "yarn.nodemanager.vmem-check-enabled"
_MONITOR = "yarn.nodemanager.container-monitor.enabled"
_MAPPINGS = "yarn.scheduler.capacity.queue-mappings"
_WEIGHTS = "yopp.resourcemanager.opportunistic-share.user-weights"
_ALLOCATION_EXPIRY = "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms"
SCHEDULER_ADDRESS = "yarn.resourcemanager.scheduler.address"
RM_ADDRESS = "yarn.resourcemanager.address"
AMRM_PROXY = "yarn.nodemanager.amrmproxy.address"
_RM_PAGES, _NM_PAGES = "yarn.resourcemanager.webapp.address", "yarn.nodemanager.webapp.address"
ADDRESSES = frozenset({RM_ADDRESS, SCHEDULER_ADDRESS, _RM_PAGES, _NM_PAGES})
"""Addresses in a Hadoop site file: they apply if they are on this host; else they are addresses of that cluster's
daemons."""
HOST_NAMES = {"yarn.resourcemanager.hostname": "0.0.0.0", "yarn.nodemanager.hostname": "0.0.0.0"}
"""Hadoop's variables in these addresses, with their defaults."""
LOOPBACK_NAMES = (
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
)
"""The names of the loopback addresses in the /etc/hosts of distributions."""


def why_not_here(name: str, value: object, amrm_proxy: object, own_name: str) -> str:
    """Why an address in a Hadoop site file has no effect; "" if it has one.

    The scheduler's address has an effect if it is the port of ``amrm_proxy`` on this host: this is YARN's way to send
    a client to the AMRMProxy. ``own_name`` is the name of this host.
    """
    host, _, port = str(value).strip().rpartition(":")
    here = host in ("localhost", "[::1]") or host.startswith("127.")
    every = host in ("0.0.0.0", "[::]", "::")
    if name not in ADDRESSES or value in ("", None):
        return ""
    if name == SCHEDULER_ADDRESS and (here or every):
        proxy = here and port == str(amrm_proxy).strip().rpartition(":")[2]
        return "" if proxy else "masters find their scheduler at the ResourceManager"
    if here or (every and name != RM_ADDRESS):
        return ""
    if every or name == _NM_PAGES or host.lower().partition(".")[0] == own_name.lower().partition(".")[0]:
        return "it is an address on the network, and yopp listens on loopback only"
    return "it names another cluster's ResourceManager"


class Values(Record):
    """All values with their origins, as the rules read them."""

    values: Mapping[str, Value]
    origins: Mapping[str, str]

    def number(self, name: str) -> float:
        """The value of a numeric property."""
        return float(self.values[name])

    def given(self, name: str) -> bool:
        """Whether the property is set, to any value."""
        return self.origins.get(name, DEFAULT) != DEFAULT

    def shown(self, name: str) -> str:
        """ "name = value (origin)"."""
        return f"{name} = {printable(to_text(self.values[name]))} ({self.origins.get(name, DEFAULT)})"


def _error(values: Values, message: str, *names: str, hint: str) -> InvalidPropertyError:
    # The place in front is the place of the property that was set last: it is the first to examine.
    places = [values.origins[name] for name in names if values.given(name)]
    where = f"{places[-1]}: " if places else ""
    because = " and ".join(values.shown(name) for name in names)
    return InvalidPropertyError(f"{where}{message}", because=because, hint=hint)


def _distributed_without_opportunistic(values: Values) -> InvalidPropertyError | None:
    if not values.values[DISTRIBUTED] or values.values[OPPORTUNISTIC]:
        return None
    return _error(
        values,
        "opportunistic container allocation has to be enabled when distributed scheduling is enabled.",
        DISTRIBUTED,
        OPPORTUNISTIC,
        hint=f"set {OPPORTUNISTIC} = true",
    )


def _at_most(
    low: str, high: str, *, unless: float | None = None, below: str = ""
) -> Callable[[Values], InvalidPropertyError | None]:
    """A rule: the value of ``low`` is at most the value of ``high``; with ``below``, it is less, and ``below`` names
    the consequence. If ``high`` has the value ``unless``, the rule does not apply."""

    def rule(values: Values) -> InvalidPropertyError | None:
        least, bound = values.number(low), values.number(high)
        if bound == unless or least < bound or (least == bound and not below):
            return None
        hint = f"{low} must be less than {high}" if below else "raise the second or lower the first"
        return _error(values, below or f"{low} is more than {high}", low, high, hint=hint)

    return rule


RACKS = "yopp.nodemanager.racks"
LABELS = "yopp.nodemanager.node-labels"


def _per_node(name: str, *, prefix: str = "") -> Callable[[Values], InvalidPropertyError | None]:
    """A rule: the property has one value for all nodes or one for each, and each value begins with ``prefix``."""

    def rule(values: Values) -> InvalidPropertyError | None:
        try:
            found = by_port(str(values.values[name]))
            if all(value.startswith(prefix) and value != prefix for value in found.values()):
                return None
            message = (
                f"each value of {name} has to begin with {prefix}" if prefix else f"{name} lacks a value"
            )
        except ValueError as error:
            message = f"{name}: {error}"
        return _error(values, message, name, hint=f"for example 45454={prefix}one, 45455={prefix}two")

    return rule


WINDOW = "yopp.nodemanager.opportunistic.window"


def _a_window(values: Values) -> InvalidPropertyError | None:
    if not values.values[WINDOW]:
        return None
    from executor import windows  # It imports datetime, which takes a millisecond.

    try:
        windows.parse(str(values.values[WINDOW]))
    except ValueError as error:
        hint = "for example 19:00-07:00, or Mon-Fri 19:00-07:00, Sat-Sun 00:00-24:00"
        return _error(values, f"{WINDOW}: {error}", WINDOW, hint=hint)
    return None


_RULES: tuple[Callable[[Values], InvalidPropertyError | None], ...] = (
    _distributed_without_opportunistic,
    _at_most(
        "yarn.resourcemanager.nm-container-queuing.min-queue-length",
        "yarn.resourcemanager.nm-container-queuing.max-queue-length",
    ),
    _at_most(
        "yarn.resourcemanager.nm-container-queuing.min-queue-wait-time-ms",
        "yarn.resourcemanager.nm-container-queuing.max-queue-wait-time-ms",
    ),
    _per_node(RACKS, prefix="/"),
    _per_node(LABELS),
    _a_window,
    _at_most("yarn.scheduler.minimum-allocation-mb", "yarn.scheduler.maximum-allocation-mb"),
    _at_most("yarn.scheduler.minimum-allocation-vcores", "yarn.scheduler.maximum-allocation-vcores"),
    # YARN's RM refuses the registration of such a node.
    _at_most("yarn.scheduler.minimum-allocation-mb", "yarn.nodemanager.resource.memory-mb", unless=-1),
    _at_most("yarn.scheduler.minimum-allocation-vcores", "yarn.nodemanager.resource.cpu-vcores", unless=-1),
    _at_most(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
        "yarn.nm.liveness-monitor.expiry-interval-ms",
        below="every node would be lost between two heartbeats",
    ),
    _at_most(
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-min-ms",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-max-ms",
    ),
    _at_most(
        "yarn.nodemanager.sleep-delay-before-sigkill.ms",
        _ALLOCATION_EXPIRY,
        below="a container that waits for others to be killed would expire before they have ended",
    ),
)


def contradictions(values: Values) -> list[ConfigurationError]:
    """The contradictory values, one error for each, in the order of the rules."""
    found: list[ConfigurationError] = [error for rule in _RULES if (error := rule(values)) is not None]
    return found + _resource_types(values) + _queues(values)


def _resource_types(values: Values) -> list[ConfigurationError]:
    """The faults of the countable resource types."""
    patterned = any(name.startswith("yarn.nodemanager.resource-type.") for name in values.values)
    gpus = values.values["yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices"]
    if not patterned and not gpus and not values.values["yarn.resource-types"]:
        return []
    from .resource_types import faults

    return [_error(values, message, name, hint=hint) for name, message, hint in faults(values.values)]


def _queues(values: Values) -> list[ConfigurationError]:
    """The problems of the queues, and of the texts about users."""
    found: list[ConfigurationError] = []
    for name, reader in ((_MAPPINGS, mappings_of), (_WEIGHTS, weights_of)):
        if values.given(name) and (fault := reader(str(values.values[name]))[1]):
            found.append(_error(values, f"{name} cannot be read", name, hint=printable(fault)))
    if any(name.startswith(QUEUE_PREFIX + "root.") for name in values.values):
        from .queue_properties import queue_tree

        for problem in queue_tree(values.values)[1]:
            where = f"{values.origins[problem.name]}: " if values.given(problem.name) else ""
            found.append(
                InvalidPropertyError(where + problem.message, because=problem.because, hint=problem.hint)
            )
    return found


def doubts(values: Values) -> list[str]:
    """The settings that are allowed but probably not intended, a sentence each."""
    found = []
    if values.given(QUEUE_LENGTH) and values.number(QUEUE_LENGTH) > 0 and not values.values[OPPORTUNISTIC]:
        found.append(
            f"{values.shown(QUEUE_LENGTH)} has no effect: {OPPORTUNISTIC} is false, "
            "so no opportunistic container is ever allocated"
        )
    if values.values[_VMEM_CHECK] and not values.values[_MONITOR]:
        found.append(
            f"{values.shown(_VMEM_CHECK)} has no effect: {_MONITOR} is false, so nothing is measured"
        )
    if not values.values[ACL_ENABLE]:
        acls = [name for name in values.values if name.startswith(QUEUE_PREFIX) and ".acl_" in name]
        if any(values.shown(name).partition(" = ")[2][:2] != "* " for name in acls):
            found.append(f"{values.shown(acls[0])} has no effect: {ACL_ENABLE} is false")
    return found
