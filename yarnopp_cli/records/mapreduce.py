"""What a MapReduce job says of itself: how many tasks it has, and which container is for which. Plain data.

Only `yopp pi` is one. Its master says with each allocate call which task a granted container is for; the
ResourceManager knows the rest.
"""

from __future__ import annotations

from executor.light import dataclass


@dataclass(frozen=True, slots=True)
class JobProperty:
    """A property as the job used it. ``source`` is where its value is from: "-D", "file:line", "default", …"""

    name: str
    value: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class MapReduceJob:
    """A job as submitted. Each map reads one record and writes ``outputs_per_map`` numbers; the reduces read all."""

    maps: int
    reduces: int = 1
    outputs_per_map: int = 0
    map_attempts: int = 1
    reduce_attempts: int = 1
    properties: tuple[JobProperty, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """A container is for this task, which counts from 0 among the maps or among the reduces."""

    container_id: str
    index: int
    is_reduce: bool = False
