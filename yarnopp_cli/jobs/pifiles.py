"""The files of a `pi` job: one input per map, and the reduce's result. They are removed when the job has
ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from ..cluster.clientfiles import PI, ClientDirectory, unusable
from ..errors import YoppError
from ..masters.pi import INPUT, RESULT, map_input
from . import halton


def program() -> tuple[str, ...]:
    """The command that runs ``halton.py`` in a container: this interpreter, with as little of it as possible."""
    return (sys.executable, "-I", "-S", "-Xutf8", os.path.abspath(halton.__file__))


class PiDirectory(ClientDirectory):
    """``QuasiMonteCarlo_<millis>_<random>`` under a parent directory."""

    def __init__(self, parent: str, millis: int) -> None:
        """Create the directory. Raises YoppError if that fails."""
        super().__init__(parent, f"{PI}{millis}")

    def write_inputs(self, maps: int, samples: int) -> Iterator[int]:
        """Write each map's input; yields the number of each. Raises YoppError, e.g. on a full disk."""
        for index in range(maps):
            try:
                with open(f"{self.path}/{INPUT.format(index=index)}", "w", encoding="ascii") as file:
                    file.write(map_input(index, samples))
            except OSError as error:
                raise unusable(self.path, error) from None
            yield index


def read_result(path: str) -> tuple[int, int]:
    """The reduce's result: points inside and outside. Raises YoppError."""
    try:
        inside, outside = halton.read_pair(f"{path}/{RESULT}")
        if min(inside, outside) < 0 or not inside + outside:
            raise ValueError(f"it counted {inside} points inside and {outside} outside")
    except (OSError, ValueError) as error:
        raise YoppError("the reduce left no result", because=str(error)) from None
    return inside, outside
