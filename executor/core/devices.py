"""The GPUs of a node and their holders. Pure.

With identified GPUs, a container gets the number that it requests until it ends, running or paused, and no GPU has
two holders (``GpuResourceAllocator``). Its GPUs are part of its spec, and so of its record.

Decisions: countable-resources.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import GPU, Resource


class Devices:
    """The GPUs of one node and their holders. ``ids`` have YARN's form ``index:minor``. Without ids, GPUs are only
    counted, or do not exist."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        self._holders: dict[str, str] = {}

    def needed(self, resource: Resource) -> int:
        """The number of GPUs of a container of that size."""
        return resource.amount(GPU) if self.ids and resource.others else 0

    def suffice(self, resource: Resource) -> bool:
        """Whether this number is free."""
        return self.needed(resource) <= len(self.ids) - len(self._holders.keys() & set(self.ids))

    def give(self, container_id: str, resource: Resource) -> tuple[str, ...]:
        """Allocate the first free ones. The caller has checked ``suffice``."""
        number = self.needed(resource)
        given = tuple([one for one in self.ids if one not in self._holders][:number]) if number else ()
        assert len(given) == number, f"{container_id} needs {number} GPUs of {self.ids}: {self._holders}"
        self.hold(container_id, given)
        return given

    def hold(self, container_id: str, devices: Sequence[str]) -> None:
        """A container holds these, whether or not the node still has them."""
        for device in devices:
            assert self._holders.get(device, container_id) == container_id, f"{device} would be given to two"
            self._holders[device] = container_id

    def release(self, container_id: str, devices: Sequence[str]) -> None:
        """The container has ended."""
        for device in devices:
            if self._holders.get(device) == container_id:
                del self._holders[device]

    @property
    def holders(self) -> dict[str, str]:
        """The holders: container ids by device."""
        return dict(self._holders)


def shared(ids: Sequence[str], nodes: int) -> list[tuple[str, ...]]:
    """The GPUs of a machine divided between ``nodes`` nodes, one after the other, the remainder to the first ones."""
    each, more = divmod(len(ids), max(1, nodes))
    parts, at = [], 0
    for index in range(nodes):
        number = each + (index < more)
        parts.append(tuple(ids[at : at + number]))
        at += number
    return parts
