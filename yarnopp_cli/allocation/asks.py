"""The outstanding resource requests of an application, their rules, and the nodes that may serve them.

YARN's ``AppSchedulingInfo`` and ``OpportunisticContainerContext``: an ask for ``*`` replaces the outstanding
number of its key, asks for hosts and racks add preferred places. There is one table for each attempt and
execution type.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass, field

from executor.reasons import Reason, ReasonKind
from executor.records import MEMORY_MB, VCORES, ExecutionType, Others, Resource, counted

from ..errors import InvalidResourceRequestError
from ..records.requests import ANY, ResourceRequest
from ..settings.declarations import ResourceManagerSettings
from ..settings.resource_types import RESOURCE_TYPES, declaration_of, type_names
from .cluster_node import ClusterNode

AskKey = tuple[int, int, int, int, Others]
"""Priority, allocation request id, memory, vcores and further resources as they were asked for."""

_Shape = tuple[int, bool, int, int, Others, str, bool, frozenset[str]]

OPPORTUNISTIC_ENABLED = "yarn.resourcemanager.opportunistic-container-allocation.enabled"


def key_of(request: ResourceRequest) -> AskKey:
    """The key of a request; a new request replaces the one with the same key."""
    return key_for(request.priority, request.allocation_request_id, request.capability)


def key_for(priority: int, allocation_request_id: int, size: Resource) -> AskKey:
    """The key of asks for containers of this size, priority and request id."""
    return (priority, allocation_request_id, size.memory, size.vcores, size.others)


@dataclass(slots=True, eq=False)
class Ask:
    """Outstanding containers of one key.

    ``resource`` is the normalised size. ``locations`` are hosts, node ids and racks with the number wanted there;
    without ``relax`` no other place may serve the ask. ``overtaken`` counts later asks served while this one did not
    fit. ``asked_ms`` is the time of the first request, ``waiting_since_ms`` the time when its work began to wait, if
    the work was shed or preempted before, else 0; both are epoch milliseconds.
    """

    key: AskKey
    request: ResourceRequest
    resource: Resource
    outstanding: int = 0
    relax: bool = True
    has_any: bool = False
    locations: dict[str, int] = field(default_factory=dict)
    overtaken: int = 0
    waiting_since_ms: int = 0
    asked_ms: int = 0

    @property
    def execution_type(self) -> ExecutionType:
        """The type of its containers."""
        return self.request.execution_type_request.execution_type

    @property
    def is_aged(self) -> bool:
        """Whether its work waited before, in a container that was shed or preempted: then it goes before new
        asks of its priority.
        """
        return self.waiting_since_ms > 0

    def shape(self) -> _Shape:
        """Asks of the same shape can be served by the same nodes: if one finds none, no other does."""
        return (
            self.key[0],
            not self.is_aged,
            self.resource.memory,
            self.resource.vcores,
            self.resource.others,
            self.request.node_label_expression,
            self.relax,
            frozenset(self.locations),
        )


class AskTable:
    """Outstanding asks of one attempt and one execution type, the most important priority first, then work
    that was shed or preempted, then by age. (YARN serves the least important first, which matters if not all
    can be served.)

    Finding the next request, and skipping all that cannot be served, costs the same for five and 50,000. ``watch`` is
    called with the size of requests of a new shape, and with None when nothing is outstanding.
    """

    def __init__(self) -> None:
        self.watch: Callable[[Resource | None], None] | None = None
        self._asks: dict[AskKey, Ask] = {}
        self._groups: dict[_Shape, OrderedDict[AskKey, Ask]] = {}
        self._shapes: dict[AskKey, _Shape] = {}
        self.outstanding = 0

    def __len__(self) -> int:
        return len(self._asks)

    def __iter__(self) -> Iterator[Ask]:
        return iter(self._asks.values())

    def get(self, key: AskKey) -> Ask | None:
        """The outstanding ask with this key."""
        return self._asks.get(key)

    def put(self, request: ResourceRequest, resource: Resource, unknown: int = 0, now_ms: int = 0) -> None:
        """Enter one ask at ``now_ms`` (epoch milliseconds); the age in the ask is subtracted from it.

        ``unknown`` is how many containers of its key were allocated in answers that the asker had not received when it
        asked. They are subtracted from the number, so that no container is allocated twice.
        """
        key = key_of(request)
        ask = self._asks.get(key) or Ask(key, request, resource, asked_ms=now_ms)
        if request.age_ms > 0 and now_ms > request.age_ms and not ask.is_aged:
            ask.waiting_since_ms = now_ms - request.age_ms
        if request.resource_name == ANY:
            ask.request, ask.resource, ask.has_any = request, resource, True
            ask.relax = request.relax_locality
            self._set_outstanding(ask, request.num_containers - unknown)
        else:
            if request.num_containers > 0:
                ask.locations[request.resource_name] = request.num_containers
            else:
                ask.locations.pop(request.resource_name, None)
            if not ask.has_any:
                # A place without an ask for ANY is an ask of its own, as in YARN's own tests.
                ask.relax = request.relax_locality
                self._set_outstanding(ask, _wanted_at(ask.locations) - unknown)
        self._place(ask)

    def take(self, ask: Ask, location: str) -> None:
        """One container of ``ask`` was allocated, at ``location`` (ANY if no preferred place)."""
        self._set_outstanding(ask, ask.outstanding - 1)
        if location != ANY and location in ask.locations:
            ask.locations[location] -= 1
            if ask.locations[location] <= 0:
                del ask.locations[location]
            if not ask.locations and not ask.relax and not ask.has_any:
                self._set_outstanding(ask, 0)
        if ask.outstanding <= 0 or location != ANY:
            self._place(ask)

    def drop(self, ask: Ask) -> None:
        """Remove the ask."""
        self._set_outstanding(ask, 0)
        self._place(ask)

    def groups(self) -> list[OrderedDict[AskKey, Ask]]:
        """The asks grouped by shape, in order of service. A group shrinks as its asks are taken."""
        return [self._groups[shape] for shape in sorted(self._groups, key=lambda shape: shape[:2])]

    def clear(self) -> None:
        """Remove all asks."""
        was, self.outstanding = self.outstanding, 0
        self._asks.clear()
        self._groups.clear()
        self._shapes.clear()
        if was and self.watch is not None:
            self.watch(None)

    def _set_outstanding(self, ask: Ask, number: int) -> None:
        number = max(0, number)
        self.outstanding += number - ask.outstanding
        ask.outstanding = number

    def _place(self, ask: Ask) -> None:
        """Put the ask into the group of its shape, or remove it if nothing is outstanding."""
        key = ask.key
        new = ask.shape() if ask.outstanding > 0 else None
        old = self._shapes.get(key)
        if new is not None and new == old:
            self._asks[key] = ask
            return
        if old is not None:
            group = self._groups[old]
            del group[key], self._shapes[key], self._asks[key]
            if not group:
                del self._groups[old]
        if new is not None:
            if new not in self._groups:
                self._groups[new] = OrderedDict()
                if self.watch is not None:
                    self.watch(ask.resource)
            self._groups[new][key] = ask
            self._shapes[key] = new
            self._asks[key] = ask
        elif not self._groups and self.watch is not None:
            self.watch(None)


def _wanted_at(locations: dict[str, int]) -> int:
    """The number of containers that asks for places alone request: a rack's number repeats that of its hosts."""
    racks = sum(number for name, number in locations.items() if name.startswith("/"))
    return max(racks, sum(locations.values()) - racks)


_NO_LABEL = Reason(ReasonKind.NO_LABEL)
_BLACKLISTED = Reason(ReasonKind.BLACKLISTED)
_ELSEWHERE = Reason(ReasonKind.ELSEWHERE)


def excludes(ask: Ask, node: ClusterNode, blacklist: Set[str]) -> Reason | None:
    """Why ``ask`` may never be served on ``node``: its label, its blacklist (by host or node id), strict locality."""
    label = ask.request.node_label_expression
    if (label not in node.labels) if label else node.labels:
        return _NO_LABEL
    if blacklist and (node.host in blacklist or node.node_id in blacklist):
        return _BLACKLISTED
    return None if ask.relax or any(map(node.names, ask.locations)) else _ELSEWHERE


def admits(ask: Ask, node: ClusterNode, blacklist: Set[str]) -> bool:
    """Whether ``ask`` may be served on ``node`` at all."""
    return excludes(ask, node, blacklist) is None


def could_serve(ask: Ask, node: ClusterNode, blacklist: Set[str]) -> bool:
    """Whether ``ask`` could be served on ``node`` if the node were empty."""
    return ask.resource.fits_in(node.total) and admits(ask, node, blacklist)


def levels(ask: Ask) -> list[tuple[str, ...]]:
    """The places to try, nearest first: hosts, then racks, then (if relaxed) any."""
    if not ask.locations:
        return [(ANY,)] if ask.relax else []
    hosts = tuple(name for name in ask.locations if not name.startswith("/"))
    racks = tuple(name for name in ask.locations if name.startswith("/"))
    anywhere = (ANY,) if ask.relax else ()
    return [level for level in (hosts, racks, anywhere) if level]


def normalise(size: Resource, settings: ResourceManagerSettings) -> Resource:
    """The size that a container of ``size`` is allocated: raised to the minimum, the memory to a multiple of
    it, and capped.
    """
    step = settings.minimum_allocation_mb
    memory = max(size.memory, step)
    memory = -(-memory // step) * step
    vcores = max(size.vcores, settings.minimum_allocation_vcores)
    return Resource(
        min(memory, max(settings.maximum_allocation_mb, size.memory)),
        min(vcores, max(settings.maximum_allocation_vcores, size.vcores)),
        size.others and counted({one.name: one.value for one in size.others}),
    )


def check_size(
    size: Resource, settings: ResourceManagerSettings, node_sizes: Set[Resource], *, what: str = "a container"
) -> Resource:
    """The normalised size, or InvalidResourceRequestError if it could never be allocated.

    ``node_sizes`` are the totals of the known nodes; with none the ask waits for the first node.
    """
    if size.is_negative:
        raise InvalidResourceRequestError(
            f"{what} of {size} is not valid", because="no amount of a resource can be negative"
        )
    if size.others:
        check_types(size, settings, what=what)
    maximum = Resource(settings.maximum_allocation_mb, settings.maximum_allocation_vcores)
    if size.memory > maximum.memory or size.vcores > maximum.vcores:
        largest = f", and the largest node has {max(node_sizes)}" if node_sizes else ""
        raise InvalidResourceRequestError(
            f"{what} of {size} is larger than the maximum allocation",
            because=f"the configuration allows {maximum}{largest}",
            hint="ask for less, or raise yarn.scheduler.maximum-allocation-mb and -vcores",
        )
    resource = normalise(size, settings)
    check_fits(
        resource, node_sizes, what=what, rounded=f" (rounded up from {size})" if resource != size else ""
    )
    return resource


def check_fits(
    size: Resource, node_sizes: Collection[Resource], *, what: str = "a container", rounded: str = ""
) -> None:
    """Raise InvalidResourceRequestError for a size that none of these nodes could ever hold, if there are any."""
    if node_sizes and not any(size.fits_in(total) for total in node_sizes):
        raise InvalidResourceRequestError(
            f"{what} of {size}{rounded} is larger than any node",
            because=_larger_than_all(size, node_sizes),
            hint=_hint_for_larger(size, node_sizes),
        )


def _larger_than_all(size: Resource, node_sizes: Collection[Resource]) -> str:
    """Why none of these nodes could ever hold a container of that size."""
    for one in size.others:
        if (most := max(total.amount(one.name) for total in node_sizes)) < one.value:
            return f"no node has more than {most} of {one.name}" if most else f"no node has any {one.name}"
    return f"the largest node has {max(node_sizes)}"


def _hint_for_larger(size: Resource, node_sizes: Collection[Resource]) -> str:
    missing = [one.name for one in size.others if not any(total.amount(one.name) for total in node_sizes)]
    return f"name in {declaration_of(missing[0])}" if missing else "request less, or start a larger node"


def check_types(size: Resource, settings: ResourceManagerSettings, *, what: str = "a container") -> None:
    """Raise InvalidResourceRequestError for a resource type that the cluster does not have, or one named twice."""
    known = type_names(settings.resource_types)
    names = [one.name for one in size.others]
    for name in names:
        if name not in known:
            raise InvalidResourceRequestError(
                f"{what} of {size} asks for {name}, which is not a resource type of this cluster",
                because=f"the resource types are {', '.join((MEMORY_MB, VCORES, *known))}",
                hint=f"name it in {RESOURCE_TYPES}, and in {declaration_of(name)}",
            )
    if len(names) > len(set(names)):
        raise InvalidResourceRequestError(f"{what} of {size} is not valid", because="it names a type twice")


def check_label(label: str, known: Collection[tuple[str, ...]], *, what: str = "an ask") -> None:
    """Raise InvalidResourceRequestError if no known node could ever serve this label ("" for none).

    An ask with a label goes to nodes that have it, one without to nodes that have none (YARN's partitions).
    ``known`` are the label sets of the nodes, each set once. With no nodes the ask waits for the first.
    """
    if not known or any(label in labels if label else not labels for labels in known):
        return
    if not label:
        raise InvalidResourceRequestError(
            f"{what} names no node label, and no node is without one",
            because=f"the nodes have the labels {', '.join(sorted(set().union(*known)))}",
            hint="name a label, or start a node without one",
        )
    labels = sorted(set().union(*known))
    raise InvalidResourceRequestError(
        f"no node has the label {label}, which {what} names",
        because=f"the nodes have the labels {', '.join(labels)}" if labels else "no node has a label",
        hint="yopp node list",
    )


def check_request(
    request: ResourceRequest, settings: ResourceManagerSettings, node_sizes: Set[Resource]
) -> Resource:
    """The normalised size of a valid ask, else InvalidResourceRequestError. 0 containers withdraw an ask."""
    if request.num_containers < 0:
        raise InvalidResourceRequestError(
            f"an ask for {request.num_containers} containers is not valid",
            because="a number of containers cannot be negative",
        )
    wanted = request.execution_type_request.execution_type
    if wanted is ExecutionType.OPPORTUNISTIC and not settings.opportunistic_enabled:
        raise InvalidResourceRequestError(
            "opportunistic containers are switched off on this cluster",
            because=f"{OPPORTUNISTIC_ENABLED} is false",
            hint="set it to true (configs/yarn-site.toml does), or ask for guaranteed containers",
        )
    if not request.resource_name:
        raise InvalidResourceRequestError("an ask names no resource", because='"*" means any node')
    return check_size(request.capability, settings, node_sizes)
