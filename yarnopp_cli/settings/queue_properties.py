"""Properties that name a queue: ``yarn.scheduler.capacity.<queue-path>.<key>``, YARN's own form.

The names are as many as there are queues, so ``QueueSettings`` declares patterns: which keys there are, and what each
takes. Here is what a whole set of them means. Nothing is raised: ``queue_tree`` answers with the problems it found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from executor.settings import Property, properties_of
from yarnopp_cli.settings.queues import DEFAULT_QUEUE, DEFAULT_QUEUES, QUEUE_PREFIX, ROOT, QueueSettings
from yarnopp_cli.settings.suggest import nearest, printable

_SUM_TOLERANCE = 0.01


_TEXTS = ("children", "submitters", "administrators")
"""What a queue's settings hold in another form than the text of the property."""


def _key(declared: Property) -> Property:
    return replace(declared, type=str, default="") if declared.attribute in _TEXTS else declared


KEYS: dict[str, Property] = {
    declared.name.rpartition(".")[2]: _key(declared) for declared in properties_of(QueueSettings)
}
"""Each key with its pattern, in the order in which the manual shows them."""

_LABELS = "nodes are not divided by label between queues here"
UNSUPPORTED: dict[str, str] = {
    "accessible-node-labels": _LABELS,
    "default-node-label-expression": _LABELS,
    "maximum-allocation-mb": "yarn.scheduler.maximum-allocation-mb holds for all queues",
    "maximum-allocation-vcores": "yarn.scheduler.maximum-allocation-vcores holds for all queues",
    "maximum-allocation": "yarn.scheduler.maximum-allocation-mb holds for all queues",
    "maximum-parallel-apps": "maximum-applications bounds those that live, and maximum-am-resource-percent "
    "those that run",
    "acl_application_max_priority": "priorities are not restricted",
    "priority": "queues are served by how much of their capacity they use",
    "user-settings": "users of one queue weigh the same",
    "reservable": "there are no reservations",
    "auto-create-child-queue": "queues are those of the configuration",
    "leaf-queue-template": "queues are those of the configuration",
    "intra-queue-preemption": "applications of one queue do not preempt each other",
    "resource-calculator": "memory and vcores both count, always",
    "node-locality-delay": "an ask is served at the nearest place that has room, without delay",
    "rack-locality-additional-delay": "an ask is served at the nearest place that has room, without delay",
    "per-node-heartbeat": "containers are allocated when there is room, not by heartbeats",
    "schedule-asynchronously": "containers are allocated when there is room, not by heartbeats",
    "multi-node-sorting": "guaranteed containers go where least has to make room",
    "workflow-priority-mappings": "an application's priority is what it names",
    "application": "an application that its queue refuses is refused, not the ResourceManager's start",
}
"""YARN's keys that mean nothing here, and why."""

_PATH = re.compile(r"root(?:\.[A-Za-z0-9_-]+)*", re.ASCII)


class Problem(NamedTuple):
    """What is wrong with the queues: the property to look at, and what to say of it."""

    name: str
    message: str
    because: str = ""
    hint: str = ""


def split(name: str) -> tuple[str, str] | None:
    """The queue's path and the key of a property's name; None if it is no queue's."""
    if not name.startswith(QUEUE_PREFIX + ROOT + "."):
        return None
    path, _, key = name[len(QUEUE_PREFIX) :].rpartition(".")
    return (path, key) if key in KEYS and _PATH.fullmatch(path) else None


def property_of(name: str) -> Property | None:
    """The declaration of one queue's property."""
    parts = split(name)
    if parts is None:
        return None
    path, key = parts
    declared = KEYS[key]
    default = "*" if path == ROOT and key.startswith("acl_") else declared.default
    return replace(declared, name=name, default=default)


def why_unsupported(name: str) -> str | None:
    """Why a name of YARN's scheduler means nothing here; None if it is not one of those."""
    if not name.startswith(QUEUE_PREFIX):
        return None
    for part in name[len(QUEUE_PREFIX) :].split("."):
        if part in UNSUPPORTED:
            return UNSUPPORTED[part]
    return None


def nearest_name(name: str) -> str | None:
    """The name that was probably meant: that queue's nearest key."""
    if not name.startswith(QUEUE_PREFIX + ROOT + "."):
        return None
    path, _, key = name[len(QUEUE_PREFIX) :].rpartition(".")
    near = nearest(key, KEYS, cutoff=0.6)
    return f"{QUEUE_PREFIX}{path}.{near}" if near and _PATH.fullmatch(path) else None


def queue_tree(values: Mapping[str, Any]) -> tuple[QueueSettings, list[Problem]]:
    """The queues that these properties (by full name) make, and everything that is wrong with them.

    Where something is wrong the queues are the default ones.
    """
    given: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if (parts := split(name)) is not None:
            given.setdefault(parts[0], {})[parts[1]] = value
    problems: list[Problem] = []
    if not given:
        return DEFAULT_QUEUES, problems
    root = _queue(ROOT, ROOT, given, problems, stopped=False, spared=False)
    known = [queue.path for queue in root]
    for path in given.keys() - set(known):
        key = next(iter(given[path]))
        near = nearest(path, known)
        problems.append(
            Problem(
                f"{QUEUE_PREFIX}{path}.{key}",
                f"there is no queue {path}",
                f"{QUEUE_PREFIX}{path.rpartition('.')[0]}.queues does not name it",
                f"did you mean {near}?" if near else f"the queues are {', '.join(known)}",
            )
        )
    return (DEFAULT_QUEUES if problems else root), problems


def _queue(
    path: str,
    name: str,
    given: Mapping[str, Mapping[str, Any]],
    problems: list[Problem],
    *,
    stopped: bool,
    spared: bool,
) -> QueueSettings:
    mine = given.get(path, {})

    def value(key: str) -> Any:
        return mine.get(key, KEYS[key].default)

    default_children = DEFAULT_QUEUE if path == ROOT and "queues" not in mine else ""
    names = [word.strip() for word in (value("queues") or default_children).split(",") if word.strip()]
    stopped = stopped or value("state") == "STOPPED"
    spared = spared or value("disable_preemption")
    for child in names:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", child, re.ASCII) or names.count(child) > 1:
            problems.append(
                Problem(
                    f"{QUEUE_PREFIX}{path}.queues",
                    f'"{printable(child)}" cannot be a queue\'s name'
                    if names.count(child) == 1
                    else f"it names {printable(child)} twice",
                    "a name has letters, digits, - and _, and occurs once below its parent",
                )
            )
    names = [child for child in dict.fromkeys(names) if re.fullmatch(r"[A-Za-z0-9_-]+", child, re.ASCII)]
    children = tuple(
        _queue(f"{path}.{child}", child, given, problems, stopped=stopped, spared=spared) for child in names
    )
    if children:
        _check_children(path, children, given, problems)
    maximum = value("maximum-capacity")
    capacity = 100.0 if path == ROOT else value("capacity")
    maximum = 100.0 if maximum < 0 or path == ROOT else maximum
    if capacity > maximum:
        problems.append(
            Problem(
                f"{QUEUE_PREFIX}{path}.maximum-capacity",
                f"the maximum-capacity of {path} is less than its capacity",
                f"{maximum:g} is less than {capacity:g}",
                "raise the first or lower the second",
            )
        )
    settings = {declared.attribute: value(key) for key, declared in KEYS.items()} | {
        "capacity": capacity,
        "maximum_capacity": maximum,
        "children": children,
        "state": "STOPPED" if stopped else "RUNNING",
        "submitters": _acl(path, "acl_submit_applications", mine, problems),
        "administrators": _acl(path, "acl_administer_queue", mine, problems),
        "disable_preemption": spared,
    }
    return QueueSettings(name=name, path=path, **settings)


def _check_children(
    path: str,
    children: tuple[QueueSettings, ...],
    given: Mapping[str, Mapping[str, Any]],
    problems: list[Problem],
) -> None:
    """The capacities below one parent are all there (a single one may be left out) and sum to 100."""
    without = [child for child in children if "capacity" not in given.get(child.path, {})]
    if without and len(children) > 1:
        first = without[0].path
        problems.append(
            Problem(
                f"{QUEUE_PREFIX}{path}.queues",
                f"the queue {first} has no capacity",
                "each of several queues below one parent needs one",
                f"set {QUEUE_PREFIX}{first}.capacity",
            )
        )
        return
    total = sum(child.capacity for child in children)
    if abs(total - 100) > _SUM_TOLERANCE:
        shown = " + ".join(f"{child.capacity:g} ({child.name})" for child in children)
        problems.append(
            Problem(
                f"{QUEUE_PREFIX}{children[-1].path}.capacity",
                f"the capacities of the queues below {path} sum to {total:g} instead of 100",
                shown,
                "they are percentages of their parent",
            )
        )


def _acl(path: str, key: str, mine: Mapping[str, Any], problems: list[Problem]) -> frozenset[str] | None:
    """YARN's form: users with commas, a blank, groups with commas; "*" is everybody (None)."""
    text = mine.get(key, "*" if path == ROOT else "").strip()
    if text == "*":
        return None
    users, _, groups = text.partition(" ")
    if groups.strip():
        problems.append(
            Problem(
                f"{QUEUE_PREFIX}{path}.{key}",
                f"{key} of {path} names groups: {printable(groups.strip())}",
                "names after a blank are groups, and only users are supported",
                "name the users, with commas and without blanks",
            )
        )
    return frozenset(user for user in users.split(",") if user)
