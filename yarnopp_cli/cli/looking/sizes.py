"""The options of ``yopp node resize`` and ``yopp container resize``: a new size."""

from __future__ import annotations

from executor.light import replace
from executor.records import Resource

from ...errors import UsageError
from ..frame.options import Annotated, Options, option, size_mb


class NewSize(Options):
    """A new size; an amount that is not given stays as it is."""

    memory: Annotated[
        int | None, option("--memory SIZE", "Its new memory: 512, 512M, 2G.", parser=size_mb)
    ] = None
    vcores: Annotated[int | None, option("--vcores V", "Its new vcores.")] = None

    def check(self) -> None:
        """Raise UsageError if no amount is given."""
        if self.memory is None and self.vcores is None:
            raise UsageError(
                "no new size was given",
                because="a resize needs memory, vcores or both",
                hint="--memory 2G, --vcores 2, or both",
            )

    def of(self, size: Resource) -> Resource:
        """The size after the change."""
        memory = size.memory if self.memory is None else self.memory
        return replace(size, memory=memory, vcores=size.vcores if self.vcores is None else self.vcores)
