"""The queues of guaranteed containers, as configured, and the properties of the scheduler as a whole.

YARN's ``CapacitySchedulerConfiguration``. Plain data; ``queue_properties`` makes it from the properties of queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from executor.hints import Any
from executor.light import Record
from executor.settings import setting

ROOT = "root"
QUEUE_PREFIX = "yarn.scheduler.capacity."
"""The beginning of the names of all properties of queues; <queue-path> is the path of a queue."""
DEFAULT_QUEUE = "default"
ACL_ENABLE = "yarn.acl.enable"


class CapacitySchedulerSettings(Record, kw_only=True):
    """The settings of all queues together."""

    maximum_applications: int = setting("yarn.scheduler.capacity.maximum-applications", 10_000, at_least=1)
    """The maximum number of active applications; a queue gets its capacity's share of them unless it has its own
    maximum."""
    maximum_am_resource_percent: float = setting(
        "yarn.scheduler.capacity.maximum-am-resource-percent", 1.0, at_least=0, at_most=1
    )
    """The share of a queue that application masters may take, from 0 to 1; one master may always start. YARN's
    default of 0.1 would leave room for a single master on one host."""
    queue_mappings: str = setting("yarn.scheduler.capacity.queue-mappings", "")
    """Which queue the applications of a user go to: u:NAME:QUEUE, several separated by commas; %user as a
    name means every user, and as a queue the queue with the user's name. The first match counts."""
    queue_mappings_override: bool = setting("yarn.scheduler.capacity.queue-mappings-override.enable", False)
    """Mappings also apply to applications that name a queue; otherwise only to applications that name `default`."""
    acl_enable: bool = setting(ACL_ENABLE, False)
    """Whether acl_submit_applications and acl_administer_queue of the queues are enforced."""
    preemption_enabled: bool = setting("yarn.resourcemanager.scheduler.monitor.enable", False)
    """Preempt guaranteed containers of queues above their capacity when another queue is below its own and asks for
    a container that fits into it."""
    preemption_interval_ms: int = setting(
        "yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval", 3000, at_least=10
    )
    """How often the scheduler checks whether a queue is below its capacity, in ms."""
    max_wait_before_kill_ms: int = setting(
        "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill", 15_000, at_least=0
    )
    """How long before killing a container its master is notified, in ms."""
    total_preemption_per_round: float = setting(
        "yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round",
        0.1,
        at_least=0,
        at_most=1,
    )
    """The share of the cluster that is marked for preemption in one round, at most. The need of one container
    is always marked, because small clusters would never preempt otherwise."""
    natural_termination_factor: float = setting(
        "yarn.resourcemanager.monitor.capacity.preemption.natural_termination_factor",
        0.2,
        at_least=0,
        at_most=1,
    )
    """The maximum share of the missing resources that is marked for preemption in one round, because some
    containers will end by themselves. The need of one container is always marked."""
    max_ignored_over_capacity: float = setting(
        "yarn.resourcemanager.monitor.capacity.preemption.max_ignored_over_capacity", 0.1, at_least=0
    )
    """The share of its capacity by which a queue may exceed it before its containers are preempted."""
    observe_only: bool = setting("yarn.resourcemanager.monitor.capacity.preemption.observe_only", False)
    """Notify masters of preemption, but kill nothing."""
    users_in_turn: bool = setting("yopp.resourcemanager.guaranteed-share.users-in-turn", True)
    """Among applications of one priority, a queue first serves the applications of the user who holds the smallest
    part of the cluster in it. With false, as in YARN, it serves the applications of all users in one order. So does a
    queue with a minimum-user-limit-percent below 100, whose limits share it between users."""
    shed_queued: bool = setting("yopp.resourcemanager.opportunistic-share.shed-queued", True)
    """When a user requests opportunistic containers and every queue is full, shed queued containers of users above
    their share: they end before they start, with exit status -108, and are requested again. With false, the user
    waits for a free place."""
    user_weights: str = setting("yopp.resourcemanager.opportunistic-share.user-weights", "")
    """How users share opportunistic resources when they compete for them: NAME=WEIGHT, several separated by commas;
    a user who is not named has 1. The applications of one user share that user's part in proportion to 1 plus their
    priority."""


def _of_queue(key: str, default: Any, **limits: Any) -> Any:
    """Declare a property of one queue by the last part of its name."""
    return setting(f"{QUEUE_PREFIX}<queue-path>.{key}", default, **limits)


class QueueSettings(Record, kw_only=True):
    """One queue and the queues below it. ``capacity`` and ``maximum_capacity`` in percent of the parent.

    ``user_limit_factor`` below 0 is no bound; ``maximum_applications`` and ``maximum_am_resource_percent`` below 0 are
    the scheduler's. Lifetimes in seconds, below 1 for none. An ACL of None admits all users.
    """

    name: str
    path: str
    children: tuple[QueueSettings, ...] = _of_queue("queues", ())
    """The names of the queues below this one, separated by commas. A queue with queues below it takes no
    applications itself."""
    capacity: float = _of_queue("capacity", 100.0, at_least=0, at_most=100)
    """The guaranteed capacity of the queue, in percent of its parent. The capacities of the queues below one parent
    sum to 100. On the cluster they are rounded to whole vcores and MB, so that no more is promised than exists."""
    maximum_capacity: float = _of_queue("maximum-capacity", 100.0, at_least=-1, at_most=100)
    """The maximum of the queue while other queues leave resources idle, in percent of its parent; -1 for no bound."""
    user_limit_factor: float = _of_queue("user-limit-factor", 1.0, at_least=-1)
    """The limit of one user, as a multiple of the queue's capacity; -1 for no limit. With 1, a single user does not
    exceed the capacity, whatever the maximum is. A user may always run one container."""
    minimum_user_limit_percent: int = _of_queue("minimum-user-limit-percent", 100, at_least=1, at_most=100)
    """While several users ask for containers, none is limited to less than this percentage of the queue: with 50, two
    users share it evenly and a third waits; with 100 there is no such limit, and users take turns."""
    maximum_applications: int = _of_queue("maximum-applications", -1, at_least=-1)
    """How many applications may be active in the queue; -1 for its capacity's share of
    yarn.scheduler.capacity.maximum-applications."""
    maximum_am_resource_percent: float = _of_queue(
        "maximum-am-resource-percent", -1.0, at_least=-1, at_most=1
    )
    """The share of the queue that application masters may take, from 0 to 1; -1 for
    yarn.scheduler.capacity.maximum-am-resource-percent."""
    state: str = _of_queue("state", "RUNNING", choices=("RUNNING", "STOPPED"))
    """A STOPPED queue accepts no new applications; its present applications continue. Queues below a stopped one are
    stopped."""
    submitters: frozenset[str] | None = _of_queue("acl_submit_applications", frozenset())
    """The users who may submit, separated by commas, or *. A user who may submit to a parent may also submit below
    it; the default of root is *. Enforced with yarn.acl.enable."""
    administrators: frozenset[str] | None = _of_queue("acl_administer_queue", frozenset())
    """The users who may move the applications of others and change their priority, in the same form."""
    ordering_policy: str = _of_queue("ordering-policy", "fifo", choices=("fifo", "fair"))
    """The order in which applications of one priority are served: by submission (fifo), or the one with the
    smallest dominant share first (fair)."""
    default_application_priority: int = _of_queue("default-application-priority", 0, at_least=0)
    """The priority of applications that name none (or 0)."""
    submitter_priorities: Mapping[str, tuple[int, int]] = _of_queue("acl_application_max_priority", {})
    """The priorities of applications that other users than the cluster's own submit over REST, in YARN's form:
    `[user=ada max_priority=4 default_priority=1] [user=* max_priority=1]`. A higher priority is lowered. A user whom
    neither the queue nor a queue above it names has at most default-application-priority."""
    maximum_application_lifetime: int = _of_queue("maximum-application-lifetime", -1)
    """After how many seconds an application is killed, whatever lifetime was requested; below 1 for never."""
    default_application_lifetime: int = _of_queue("default-application-lifetime", -1)
    """The lifetime in seconds of an application without its own; below 1 for unlimited."""
    disable_preemption: bool = _of_queue("disable_preemption", False)
    """Do not preempt containers of this queue or of the queues below it."""

    def __iter__(self) -> Iterator[QueueSettings]:
        """Iterate over this queue and all below, parents before children."""
        yield self
        for child in self.children:
            yield from child


DEFAULT_QUEUES = QueueSettings(
    name=ROOT,
    path=ROOT,
    children=(QueueSettings(name=DEFAULT_QUEUE, path=f"{ROOT}.{DEFAULT_QUEUE}"),),
    submitters=None,
    administrators=None,
)
"""One queue with the whole cluster."""


def mappings_of(text: str) -> tuple[list[tuple[str, str]], str]:
    """The pairs (user, queue) of ``queue-mappings``, and its error ("" for none)."""
    pairs = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        kind, _, rest = word.partition(":")
        user, _, queue = rest.partition(":")
        if kind == "g":
            return [], f"{word}: groups are not supported"
        if kind != "u" or not user or not queue:
            return [], f"{word} is not of the form u:NAME:QUEUE"
        pairs.append((user, queue))
    return pairs, ""


def priorities_of(text: str) -> tuple[dict[str, tuple[int, int]], str]:
    """The default and the highest priority by user of ``acl_application_max_priority``, and its error ("" for none).
    ``*`` alone, as in Hadoop's own file, names nobody."""
    found = {}
    for entry in re.findall(r"[^\[\]\s,][^\[\]]*", "" if text.strip() == "*" else text):
        words = dict(word.partition("=")[::2] for word in entry.split())
        user, most, least = (words.pop(name, "0") for name in ("user", "max_priority", "default_priority"))
        if words or user == "0" or not (most + least).isdecimal():
            return {}, f"{entry} is not of the form user=NAME max_priority=NUMBER default_priority=NUMBER"
        found[user] = (min(int(least), int(most)), int(most))
    return found, ""


def weights_of(text: str) -> tuple[dict[str, float], str]:
    """The weights by user of ``user-weights``, and its error ("" for none)."""
    weights = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        user, _, number = word.partition("=")
        if not user or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", number) or float(number) <= 0:
            return {}, f"{word} is not of the form NAME=WEIGHT with a weight above 0"
        weights[user] = float(number)
    return weights, ""
