"""Properties of the queues, as text, into the settings they make: what ``rmadmin -refreshQueues`` sends.

The ResourceManager is given ``read_queues`` rather than importing it: it knows no names of properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import EXIT_CONFIGURATION, RemoteError
from .declarations import PROPERTIES, PROPERTIES_OF, declared
from .queue_properties import queue_tree
from .queues import QUEUE_PREFIX, CapacitySchedulerSettings, QueueSettings, mappings_of
from .values import Refused, from_text


def read_queues(
    given: Mapping[str, str], capacity: CapacitySchedulerSettings
) -> tuple[QueueSettings, CapacitySchedulerSettings, dict[str, str]]:
    """The queues, ``capacity`` with what is said of it, and which of these properties are not default.

    What is not among them has its default. Raises RemoteError for what is not a property of the queues, has no value of
    its type, or contradicts another.
    """
    values: dict[str, Any] = {}
    for name, text in given.items():
        known = declared(name) if name.startswith(QUEUE_PREFIX) else None
        if known is None:
            raise _refused(
                f"{name[:200]} is not a property of the queues", f"these begin with {QUEUE_PREFIX}"
            )
        try:
            values[name] = from_text(known, text)
        except Refused as error:
            raise _refused(f"{name[:200]} has a wrong value", str(error)) from None
    root, problems = queue_tree(values)
    if problems:
        raise _refused(problems[0].message, problems[0].because, problems[0].hint)
    bounds = {
        one.attribute: values.get(one.name, one.default)
        for one in PROPERTIES_OF[CapacitySchedulerSettings]
        if one.name.startswith(QUEUE_PREFIX)
    }
    changed = replace(capacity, **bounds)
    if wrong := mappings_of(changed.queue_mappings)[1]:
        raise _refused("queue-mappings cannot be read", wrong)
    told = {
        name: text
        for name, text in given.items()
        if name not in PROPERTIES or values[name] != PROPERTIES[name].default
    }
    return root, changed, told


def _refused(message: str, because: str, hint: str = "") -> RemoteError:
    return RemoteError(
        message, because=because, hint=hint or "`yopp config check` lists all", exit_code=EXIT_CONFIGURATION
    )
