"""Amounts of resources as YARN's REST API writes them."""

from __future__ import annotations

from executor.hints import Any
from executor.records import Others, Resource


def resource_document(resource: Resource) -> dict[str, Any]:
    """A ResourceInfo: memory and vcores, and each type by its name."""
    named = [("memory-mb", "Mi", resource.memory), ("vcores", "", resource.vcores)]
    named += [(one.name, "", one.value) for one in resource.others]
    each = [
        {
            "attributes": {},
            "maximumAllocation": 2**63 - 1,
            "minimumAllocation": 0,
            "name": name,
            "resourceType": "COUNTABLE",
            "units": units,
            "value": value,
        }
        for name, units, value in named
    ]
    information = {"resourceInformation": each}
    return {"memory": resource.memory, "vCores": resource.vcores, "resourceInformations": information}


def entries_document(memory: int, vcores: int, others: Others = ()) -> dict[str, Any]:
    """YARN's map by resource. (YARN writes the key ``entry`` twice, of which JSON parsers keep the last; here
    it is a list.)
    """
    amounts = [("memory-mb", memory), ("vcores", vcores), *((one.name, one.value) for one in others)]
    return {"entry": [{"key": name, "value": str(amount)} for name, amount in amounts]}


def others_document(others: Others) -> dict[str, int]:
    """The amounts of resources other than memory and vcores, by name."""
    return {one.name: one.value for one in others}
