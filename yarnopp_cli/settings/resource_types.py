"""Countable resource types beside memory and vcores: GPUs, licences, test boards (YARN's ``ResourceUtils``).

``yarn.resource-types`` names them, and ``yarn.nodemanager.resource-type.<name>`` sets the amount of a node; there is
one such property for each type. Plain data and its errors; no exception is raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from executor.hints import Any
from executor.light import Record, pattern, replace
from executor.records import GPU, MEMORY_MB, VCORES, Others, counted
from executor.settings import Property, properties_of, setting

from .suggest import printable

RESOURCE_TYPES = "yarn.resource-types"
NODE_AMOUNT = "yarn.nodemanager.resource-type."
"""The beginning of the names of the properties that set a node's amounts."""
ALLOWED_GPUS = "yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices"
DISCOVERY = "yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables"
AUTO = "auto"
"""The value of ALLOWED_GPUS for all GPUs that are found."""
MOST = 1_000_000
"""The maximum amount of one type at one node."""

_NAME = pattern(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*/)?[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
_DEVICE = pattern(r"(?:0|[1-9][0-9]{0,3}):(?:0|[1-9][0-9]{0,3})", re.ASCII)
_AMOUNT = pattern(r"(?:([0-9]{1,5})=)?([0-9]{1,9})", re.ASCII)


class ResourceTypeSettings(Record, kw_only=True):
    """The pattern of the properties that set a node's amount of each type."""

    amount: str = setting("yarn.nodemanager.resource-type.<name>", "")
    """How many of a resource type of yarn.resource-types a node has, a whole number: one for all nodes of this host, or
    some by their ports: 45454=2, 45455=0. Without it a node has none."""


PATTERN: Property = properties_of(ResourceTypeSettings)[0]
"""The declaration of each of these properties, except its name."""


def property_of(name: str) -> Property | None:
    """The declaration of the property of one type; None for other names."""
    of = name.removeprefix(NODE_AMOUNT)
    return replace(PATTERN, name=name) if of != name and not wrong_name(of) else None


def declaration_of(name: str) -> str:
    """The property that gives a node some of a type, and its meaning. A number of GPUs alone identifies no GPU, so
    containers would not learn which ones they have."""
    return (
        f"{ALLOWED_GPUS} which GPUs a node has" if name == GPU else f"{NODE_AMOUNT}{name} how many a node has"
    )


def wrong_name(name: str) -> str:
    """The fault of the name of a resource type; "" if there is none."""
    if name in (MEMORY_MB, VCORES, "memory"):
        return f"every node has {name} without being told"
    if len(name) > 100 or not _NAME.fullmatch(name):
        return "a name has letters, digits, and . _ -, optionally after a domain and /"
    return ""


def type_names(text: str) -> tuple[str, ...]:
    """The types that ``yarn.resource-types`` names, in order, each once."""
    named = dict.fromkeys(text.replace(",", " ").split())
    return tuple(name for name in named if name not in (MEMORY_MB, VCORES))


def amounts_of_node(values: Mapping[str, Any], port: int) -> Others:
    """The amounts of the node with this port, from the values of all properties."""
    amounts = {}
    for name in type_names(str(values.get(RESOURCE_TYPES, ""))):
        by_port = _amounts(str(values.get(NODE_AMOUNT + name, "")))
        amounts[name] = by_port.get(port, by_port.get(None, 0))
    return counted(amounts)


def gpu_devices(text: str) -> tuple[str, ...]:
    """YARN's list of GPUs, ``0:0,1:1``: each by its index and its minor number. Raises ValueError."""
    devices: list[str] = []
    for entry in text.replace(",", " ").split():
        if not _DEVICE.fullmatch(entry):
            raise ValueError(f"{quoted(entry)} is not a GPU; a GPU is index:minor")
        index, _, minor = entry.partition(":")
        known = [one.partition(":") for one in devices]
        if any(index == one[0] or minor == one[2] for one in known):
            raise ValueError(f"{quoted(entry)} names a GPU twice")
        devices.append(entry)
    return tuple(devices)


def _amounts(text: str) -> dict[int | None, int]:
    """Port -> amount, None for all other nodes. Raises ValueError, which describes the error."""
    amounts: dict[int | None, int] = {}
    for entry in text.replace(",", " ").split():
        found = _AMOUNT.fullmatch(entry)
        if found is None or int(found[2]) > MOST:
            raise ValueError(f"{quoted(entry)} is not a whole number up to {MOST}, or PORT=NUMBER")
        port = int(found[1]) if found[1] else None
        if port in amounts:
            raise ValueError(f"{quoted(entry)} names a node twice")
        amounts[port] = int(found[2])
    return amounts


def quoted(text: str) -> str:
    """A text in quotes, safe for a terminal."""
    return f"'{printable(text)}'"


def faults(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The faults of these properties: (name, message, hint)."""
    found: list[tuple[str, str, str]] = []
    known = type_names(str(values.get(RESOURCE_TYPES, "")))
    for name in known:
        if wrong := wrong_name(name):
            found.append(
                (
                    RESOURCE_TYPES,
                    f"{quoted(name)} in {RESOURCE_TYPES} is not the name of a resource type",
                    wrong,
                )
            )
    for name, value in values.items():
        if not name.startswith(NODE_AMOUNT):
            continue
        of = name.removeprefix(NODE_AMOUNT)
        if of not in known:
            named = ", ".join(map(printable, (*known, of)))
            found.append(
                (name, f"{name} is not a type that {RESOURCE_TYPES} names", f"{RESOURCE_TYPES} = {named}")
            )
        try:
            _amounts(str(value))
        except ValueError as error:
            found.append((name, f"{name}: {error}", "for example 2, or 45454=2, 45455=0"))
    return found + _gpu_faults(values, known)


def _gpu_faults(values: Mapping[str, Any], known: tuple[str, ...]) -> list[tuple[str, str, str]]:
    allowed, found = str(values.get(ALLOWED_GPUS, "")), list[tuple[str, str, str]]()
    if allowed and GPU not in known:
        named = ", ".join((*known, GPU))
        found.append((ALLOWED_GPUS, f"{RESOURCE_TYPES} does not name {GPU}", f"{RESOURCE_TYPES} = {named}"))
    if allowed and values.get(NODE_AMOUNT + GPU):
        hint = "leave one of them out"
        found.append((ALLOWED_GPUS, f"{NODE_AMOUNT}{GPU} sets the number of GPUs, too", hint))
    try:
        if allowed != AUTO:
            gpu_devices(allowed)
    except ValueError as error:
        found.append((ALLOWED_GPUS, f"{ALLOWED_GPUS}: {error}", "auto, or for example 0:0,1:1"))
    return found
