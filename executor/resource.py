"""Amounts of a node's resources: memory, vcores, and countable types such as GPUs. Plain data."""

from __future__ import annotations

from .hints import Any
from .light import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MIB = 1 << 20
"""The bytes of the unit of memory in YARN: ``Resource.memory`` counts these."""

MEMORY_MB = "memory-mb"
VCORES = "vcores"
"""YARN's names of the two resource types that every node has (``ResourceInformation.MEMORY_URI``, ``VCORES_URI``)."""

GPU = "yarn.io/gpu"
"""YARN's name of the resource type that counts the GPUs of a node."""


class ResourceInformation(Record, order=True):
    """An amount of a countable resource, such as GPUs or licences (YARN's record of that name): a whole number."""

    name: str
    value: int


Others = tuple[ResourceInformation, ...]
"""Countable resources besides memory and vcores: sorted by name, each once, none of 0. Empty for most containers."""


_new = object.__new__


class Resource(Record, order=True):
    """An amount of a node's resources: ``memory`` in MiB, ``vcores`` in virtual cores; both whole numbers.

    ``others`` are all further types (``yarn.resource-types``), made by ``counted``. A type that is not in it
    has the amount 0.
    """

    memory: int = 0
    vcores: int = 0
    others: tuple[ResourceInformation, ...] = ()

    def __add__(self, other: Resource) -> Resource:
        if self.others or other.others:
            return self._joined(other, int.__add__)
        made: Any = _new(Resource)  # calling the class takes twice as long
        made.memory, made.vcores = self.memory + other.memory, self.vcores + other.vcores
        made.others = ()
        return made  # type: ignore[no-any-return]

    def __sub__(self, other: Resource) -> Resource:
        if self.others or other.others:
            return self._joined(other, int.__sub__)
        made: Any = _new(Resource)  # calling the class takes twice as long
        made.memory, made.vcores = self.memory - other.memory, self.vcores - other.vcores
        made.others = ()
        return made  # type: ignore[no-any-return]

    def __mul__(self, number: int) -> Resource:
        others = self.others and counted({one.name: one.value * number for one in self.others})
        return Resource(self.memory * number, self.vcores * number, others)

    def _joined(self, other: Resource, operation: Callable[[int, int], int]) -> Resource:
        """Apply ``operation`` to the two amounts of each type."""
        names = {one.name for one in (*self.others, *other.others)}
        others = counted({name: operation(self.amount(name), other.amount(name)) for name in names})
        return Resource(operation(self.memory, other.memory), operation(self.vcores, other.vcores), others)

    def lesser(self, other: Resource) -> Resource:
        """The smaller of the two amounts of each type."""
        if self.others or other.others:
            return self._joined(other, min)
        return Resource(min(self.memory, other.memory), min(self.vcores, other.vcores))

    def greater(self, other: Resource) -> Resource:
        """The larger of the two amounts of each type."""
        if self.others or other.others:
            return self._joined(other, max)
        return Resource(max(self.memory, other.memory), max(self.vcores, other.vcores))

    def fits_in(self, other: Resource) -> bool:
        """Whether ``other`` has at least as much memory, vcores, and of each further type in this resource."""
        return (
            self.memory <= other.memory
            and self.vcores <= other.vcores
            and (not self.others or self._others_fit(other))
        )

    def _others_fit(self, other: Resource) -> bool:
        return all(one.value <= other.amount(one.name) for one in self.others)

    def at_least_zero(self) -> Resource:
        """This resource with negative amounts raised to zero."""
        if self.memory >= 0 and self.vcores >= 0 and not self.others:
            return self
        return self.greater(_NONE) if self.is_negative else self

    @property
    def is_negative(self) -> bool:
        """Whether any amount is below zero."""
        return self.memory < 0 or self.vcores < 0 or any(one.value < 0 for one in self.others)

    def amount(self, name: str) -> int:
        """The amount of one type, by YARN's name of the type."""
        if name == MEMORY_MB:
            return self.memory
        if name == VCORES:
            return self.vcores
        return next((one.value for one in self.others if one.name == name), 0)

    @property
    def only_others(self) -> Resource:
        """The countable types alone."""
        return Resource(0, 0, self.others)

    def of_types_in(self, needed: Resource) -> Resource:
        """The amounts of those types of which ``needed`` has any."""
        others = needed.others and counted(
            {one.name: self.amount(one.name) for one in needed.others if one.value > 0}
        )
        return Resource(
            self.memory if needed.memory > 0 else 0, self.vcores if needed.vcores > 0 else 0, others
        )

    def delays(self, waiting: Resource, free: Resource) -> bool:
        """Whether giving this away from what is ``free`` keeps ``waiting`` from starting. It does not if
        ``waiting`` lacks countable resources anyway, and this takes none of those."""
        lacking = [one.name for one in waiting.others if one.value > free.amount(one.name)]
        return not lacking or any(self.amount(name) > 0 for name in lacking)

    def __str__(self) -> str:
        more = "".join(f", {one.name}: {one.value}" for one in self.others)
        return f"<memory:{self.memory}, vCores:{self.vcores}{more}>"


def counted(amounts: Mapping[str, int]) -> Others:
    """Amounts of countable types by name, in the form of ``Resource.others``."""
    return tuple(ResourceInformation(name, value) for name, value in sorted(amounts.items()) if value)


_NONE = Resource()
