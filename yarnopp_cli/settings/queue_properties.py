"""Properties that name a queue: ``yarn.scheduler.capacity.<queue-path>.<key>``, YARN's own form.

There are as many names as queues, so ``QueueSettings`` declares patterns: the keys, and their values. This module
makes the tree of queues from all these properties. No exception is raised: ``queue_tree`` returns the problems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from executor.light import replace
from executor.settings import Property, properties_of

from .queues import (
    ACL_ENABLE,
    DEFAULT_QUEUE,
    DEFAULT_QUEUES,
    QUEUE_PREFIX,
    ROOT,
    QueueSettings,
    priorities_of,
)
from .suggest import nearest, printable

_SUM_TOLERANCE = 0.01


_TEXTS = ("children", "submitters", "administrators", "submitter_priorities")
"""The fields of a queue's settings whose form differs from the text of the property."""


def _key(declared: Property) -> Property:
    return replace(declared, type=str, default="") if declared.attribute in _TEXTS else declared


KEYS: dict[str, Property] = {
    declared.name.rpartition(".")[2]: _key(declared) for declared in properties_of(QueueSettings)
}
"""Each key with its pattern, in the order in which the manual shows them."""

_LABELS = "node labels do not divide capacity between queues"
UNSUPPORTED: dict[str, str] = {
    "accessible-node-labels": _LABELS,
    "default-node-label-expression": _LABELS,
    "maximum-allocation-mb": "yarn.scheduler.maximum-allocation-mb applies to all queues",
    "maximum-allocation-vcores": "yarn.scheduler.maximum-allocation-vcores applies to all queues",
    "maximum-allocation": "yarn.scheduler.maximum-allocation-mb applies to all queues",
    "maximum-parallel-apps": "maximum-applications limits the live ones, and maximum-am-resource-percent "
    "those that run",
    "priority": "queues are served in the order of their used capacity",
    "user-settings": "users of one queue have equal weights",
    "reservable": "there are no reservations",
    "auto-create-child-queue": "queues are not created automatically",
    "leaf-queue-template": "queues are not created automatically",
    "intra-queue-preemption": "applications of one queue do not preempt each other",
    "resource-calculator": "memory and vcores always both count",
    "node-locality-delay": "a request is served at the nearest node with room, without delay",
    "rack-locality-additional-delay": "a request is served at the nearest node with room, without delay",
    "per-node-heartbeat": "containers are allocated when there is room, not by heartbeats",
    "schedule-asynchronously": "containers are allocated when there is room, not by heartbeats",
    "multi-node-sorting": "guaranteed containers go to the node that preempts least",
    "workflow-priority-mappings": "an application's priority is the one that it requests",
    "application": "an application that its queue refuses is refused, not the ResourceManager's start",
}
"""YARN's keys without a meaning here, and the reasons."""

_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PATH = re.compile(rf"{ROOT}(?:\.{_NAME.pattern})*", re.ASCII)


class Problem(NamedTuple):
    """A problem of the queues: the property that causes it, and the message."""

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
    """Why a name of YARN's scheduler has no meaning here; None for other names."""
    if not name.startswith(QUEUE_PREFIX):
        return None
    for part in name[len(QUEUE_PREFIX) :].split("."):
        if part in UNSUPPORTED:
            return UNSUPPORTED[part]
    return None


def nearest_name(name: str) -> str | None:
    """The name that was probably meant: the nearest key of the same queue."""
    if not name.startswith(QUEUE_PREFIX + ROOT + "."):
        return None
    path, _, key = name[len(QUEUE_PREFIX) :].rpartition(".")
    near = nearest(key, KEYS, cutoff=0.6)
    return f"{QUEUE_PREFIX}{path}.{near}" if near and _PATH.fullmatch(path) else None


def strays_of(texts: Mapping[str, str], all_texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The properties in ``texts`` that have no effect, and the reasons: they belong to queues that the lists in
    ``all_texts`` do not name, or set the only order of queues."""
    known, found = {ROOT}, []
    for path in (paths := [ROOT]):  # The list grows meanwhile.
        below = all_texts.get(f"{QUEUE_PREFIX}{path}.queues", DEFAULT_QUEUE if path == ROOT else "")
        paths += {f"{path}.{name.strip()}" for name in below.split(",") if name.strip()} - known
        known.update(paths)
    for name, text in texts.items():
        path, key = split(name) or ("", "")
        parent = path.rpartition(".")[0]
        if key == "ordering-policy" and text.strip() in ("utilization", "priority-utilization"):
            found.append((name, UNSUPPORTED["priority"]))
        elif path and path not in known:
            why = why_unsupported(name)
            found.append((name, why or f"{QUEUE_PREFIX}{parent}.queues does not name that queue"))
    return found


def queue_tree(values: Mapping[str, Any]) -> tuple[QueueSettings, list[Problem]]:
    """The queues that these properties (by full name) make, and all their problems.

    If there is a problem, the queues are the default ones.
    """
    given: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if (parts := split(name)) is not None:
            given.setdefault(parts[0], {})[parts[1]] = value
    if not given:
        return DEFAULT_QUEUES, []
    tree = _Tree(given, acls=bool(values.get(ACL_ENABLE)))
    root = tree.queue(ROOT, ROOT, stopped=False, spared=False)
    known = [queue.path for queue in root]
    for path in given.keys() - set(known):
        near = nearest(path, known)
        tree.wrong(
            path,
            next(iter(given[path])),
            f"there is no queue {path}",
            f"{QUEUE_PREFIX}{path.rpartition('.')[0]}.queues does not name it",
            f"did you mean {near}?" if near else f"the queues are {', '.join(known)}",
        )
    return (DEFAULT_QUEUES if tree.problems else root), tree.problems


class _Tree:
    """Builds the queues: the properties ``given`` for each path, by key, and their problems. Without ``acls``, access
    lists have no effect, and so no problems."""

    def __init__(self, given: Mapping[str, Mapping[str, Any]], *, acls: bool) -> None:
        self.given = given
        self._acls = acls
        self.problems: list[Problem] = []

    def wrong(self, path: str, key: str, message: str, because: str, hint: str = "") -> None:
        """Note a problem of one property of a queue."""
        self.problems.append(Problem(f"{QUEUE_PREFIX}{path}.{key}", message, because, hint))

    def queue(self, path: str, name: str, *, stopped: bool, spared: bool) -> QueueSettings:
        """The queue of this path, with the queues below it; ``stopped``, and ``spared`` from preemption, like its
        parent."""
        mine = self.given.get(path, {})
        values = {key: mine.get(key, declared.default) for key, declared in KEYS.items()}
        if path == ROOT and "queues" not in mine:
            values["queues"] = DEFAULT_QUEUE
        stopped = stopped or values["state"] == "STOPPED"
        spared = spared or values["disable_preemption"]
        children = tuple(
            self.queue(f"{path}.{child}", child, stopped=stopped, spared=spared)
            for child in self._names(path, values["queues"])
        )
        if children:
            self._check_children(path, children)
        maximum = values["maximum-capacity"]
        capacity = 100.0 if path == ROOT else values["capacity"]
        maximum = 100.0 if maximum < 0 or path == ROOT else maximum
        if capacity > maximum:
            self.wrong(
                path,
                "maximum-capacity",
                f"the maximum-capacity of {path} is less than its capacity",
                f"{maximum:g} is less than {capacity:g}",
                "raise the first or lower the second",
            )
        priorities, wrong = priorities_of(values["acl_application_max_priority"])
        if wrong:
            self.wrong(path, "acl_application_max_priority", f"an entry for {path} cannot be read", wrong)
        settings = {declared.attribute: values[key] for key, declared in KEYS.items()} | {
            "capacity": capacity,
            "maximum_capacity": maximum,
            "children": children,
            "state": "STOPPED" if stopped else "RUNNING",
            "submitters": self._acl(path, "acl_submit_applications"),
            "administrators": self._acl(path, "acl_administer_queue"),
            "submitter_priorities": priorities,
            "disable_preemption": spared,
        }
        return QueueSettings(name=name, path=path, **settings)

    def _names(self, path: str, text: str) -> list[str]:
        """The valid names in a list of queues."""
        names = [word.strip() for word in text.split(",") if word.strip()]
        for child in names:
            if not _NAME.fullmatch(child) or names.count(child) > 1:
                twice = f"it names {printable(child)} twice"
                self.wrong(
                    path,
                    "queues",
                    f'"{printable(child)}" cannot be a queue\'s name' if names.count(child) == 1 else twice,
                    "a name has letters, digits, - and _, and occurs once below its parent",
                )
        return [child for child in dict.fromkeys(names) if _NAME.fullmatch(child)]

    def _check_children(self, path: str, children: tuple[QueueSettings, ...]) -> None:
        """Check that the capacities below one parent are set (a single one may be missing) and sum to 100."""
        without = [child.path for child in children if "capacity" not in self.given.get(child.path, {})]
        total = sum(child.capacity for child in children)
        if without and len(children) > 1:
            self.wrong(
                path,
                "queues",
                f"the queue {without[0]} has no capacity",
                "each of several queues below one parent needs a capacity",
                f"set {QUEUE_PREFIX}{without[0]}.capacity",
            )
        elif abs(total - 100) > _SUM_TOLERANCE:
            self.wrong(
                children[-1].path,
                "capacity",
                f"the capacities of the queues below {path} sum to {total:g} instead of 100",
                " + ".join(f"{child.capacity:g} ({child.name})" for child in children),
                "they are percentages of their parent",
            )

    def _acl(self, path: str, key: str) -> frozenset[str] | None:
        """YARN's form: users with commas, a blank, groups with commas; "*" is everybody (None)."""
        text = self.given.get(path, {}).get(key, "*" if path == ROOT else "").strip()
        if text == "*":
            return None
        users, _, groups = text.partition(" ")
        if groups.strip() and self._acls:
            self.wrong(
                path,
                key,
                f"{key} of {path} names groups: {printable(groups.strip())}",
                "names after a space are groups, and only users are supported",
                "name the users, with commas and without spaces",
            )
        return frozenset(user for user in users.split(",") if user)
