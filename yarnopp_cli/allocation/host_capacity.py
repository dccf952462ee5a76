"""The memory and vcores that one host can promise to its nodes together.

Memory is never promised twice: otherwise a container would be killed because another one was promised the same memory.
Vcores may be promised twice on request, since sharing a core only makes work slower. Does not read the host itself.
"""

from __future__ import annotations

from executor.light import Record
from executor.records import Resource

from ..errors import InvalidResourceRequestError


class HostCapacity(Record):
    """The memory and the cores for all nodes together, and the reasons why they are less than all of the host's.

    ``reserve_mb`` of the memory should be left for the rest of the host.
    """

    memory_mb: int
    cores: int
    reserve_mb: int = 0
    because: tuple[str, ...] = ()

    def told(self, amount: str) -> str:
        """``amount``, followed by the reasons why it is not more."""
        return amount + (f" ({'; '.join(self.because)})" if self.because else "")

    @property
    def memory_told(self) -> str:
        """The memory, with the reasons why it is not more."""
        return self.told(f"{self.memory_mb} MB")

    @property
    def cores_told(self) -> str:
        """The cores, with the reasons why they are not more."""
        return self.told(f"{self.cores} core{'' if self.cores == 1 else 's'}")

    def warnings(self, promised: Resource) -> tuple[str, ...]:
        """The warnings for users when the nodes together are promised this, a line each."""
        found = []
        if promised.vcores > self.cores:
            found.append(
                f"{promised.vcores} vcores are promised on {self.cores_told}: containers share cores and run slower"
            )
        if promised.memory > self.memory_mb - self.reserve_mb:
            found.append(
                f"{promised.memory} MB are promised of {self.memory_told}: less than {self.reserve_mb} MB is left, "
                "the reserve for the rest of the machine"
            )
        return tuple(found)

    def change(self, before: Resource, after: Resource) -> tuple[str, ...]:
        """The warnings before the promises to the nodes change; a type that does not grow is not examined again.

        Raises InvalidResourceRequestError for more memory than there is.
        """
        memory = after.memory if after.memory > before.memory else 0
        if memory > self.memory_mb:
            raise InvalidResourceRequestError(
                f"{memory} MB cannot be promised to the nodes of this host",
                because=f"together they can have {self.memory_told}",
                hint=f"request {memory - self.memory_mb} MB less, or make another node smaller first",
            )
        return self.warnings(Resource(memory, after.vcores if after.vcores > before.vcores else 0))


class HostMeasured(Record):
    """The limits of the host were read, before a request to resize nodes (an event of the ResourceManager)."""

    capacity: HostCapacity
