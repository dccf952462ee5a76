"""The plan of ``yopp pi``: Hadoop's QuasiMonteCarlo, N maps and one reduce, and the estimate from their counts. Pure.

Priorities are MapReduce's (``RMContainerAllocator``): a failed map's next attempt 5, the reduce 10,
opportunistic maps 19, maps 20. The percentage of opportunistic maps is exact and spread evenly.
"""

from __future__ import annotations

from executor.light import replace
from executor.records import ExecutionType, Others, Resource

from ..errors import UsageError
from ..records.ids import job_id
from ..records.jobs import JobSpec, PhaseSpec, PiSpec, TaskSpec
from ..records.requests import JobProperty, MapReduceJob
from ..settings.declarations import ApplicationSettings

APPLICATION_TYPE = "MAPREDUCE"
NAME = "QuasiMonteCarlo"
PERCENT = "mapreduce.job.num-opportunistic-maps-percent"
"""The property with the percentage of maps that are opportunistic."""
PRIORITY_FAST_FAIL_MAP = 5
PRIORITY_REDUCE = 10
PRIORITY_OPPORTUNISTIC_MAP = 19
PRIORITY_MAP = 20
MAXIMUM_MAPS = 100_000
MAXIMUM_POINTS = 2**53
"""More maps would take longer to write the inputs than to compute; more points have no exact double.
"""

INPUT = "part{index}"
OUTPUT = "part-m-{index:05d}"
RESULT = "reduce-out"
"""Files in the job's directory:

a map's input (``offset size``) and output, and the sum (``inside outside``).
"""


def check_size(maps: int, samples: int) -> None:
    """Raise UsageError for an invalid job, or one that is too large."""
    hint = "yopp pi 10 1000"
    if maps <= 0 or samples <= 0:
        wrong = f"{maps} maps" if maps <= 0 else f"{samples} samples"
        raise UsageError(
            f"pi cannot be estimated with {wrong}", because="both numbers must be at least 1", hint=hint
        )
    if maps > MAXIMUM_MAPS:
        raise UsageError(
            f"{maps:,} maps are too many",
            because=f"each is a container with an input file, and {MAXIMUM_MAPS:,} is the limit",
            hint="use fewer maps with more samples: the estimate depends only on their product",
        )
    if maps * samples > MAXIMUM_POINTS:
        raise UsageError(
            f"{maps:,} maps of {samples:,} samples are too many points",
            because="Halton's sequence in doubles is exact up to 2^53 points",
            hint="use fewer samples",
        )


def opportunistic_maps(maps: int, percent: int, rule: str = "SPREAD") -> tuple[bool, ...]:
    """Which maps are opportunistic: the whole number nearest to ``percent`` of them, spread evenly.

    With the rule FIRST_OF_HUNDRED, as in YARN (``RMContainerAllocator``), the first
    ``percent`` of each hundred.
    """
    if rule == "FIRST_OF_HUNDRED":
        return tuple(index % 100 < percent for index in range(maps))
    count = (maps * percent + 50) // 100
    return tuple((index + 1) * count // maps > index * count // maps for index in range(maps))


def plan(
    maps: int,
    samples: int,
    directory: str,
    program: tuple[str, ...],
    settings: ApplicationSettings,
    *,
    others: Others = (),
    timeout_ms: int = 0,
    exit_rule: str = "highest",
    properties: tuple[JobProperty, ...] = (),
) -> JobSpec:
    """The job: a phase of maps and a phase of one reduce. ``program`` is the command that runs ``jobs/halton.py``;
    ``others`` are the countable resources of each container.
    """
    map_resource = Resource(settings.map_memory_mb, settings.map_vcores, others)
    reduce_resource = Resource(settings.reduce_memory_mb, settings.reduce_vcores, others)
    kinds = opportunistic_maps(maps, settings.num_opportunistic_maps_percent, settings.opportunistic_maps)
    tasks = tuple(
        TaskSpec(
            number=index + 1,
            resource=map_resource,
            execution_type=ExecutionType.OPPORTUNISTIC if opportunistic else ExecutionType.GUARANTEED,
            priority=PRIORITY_OPPORTUNISTIC_MAP if opportunistic else PRIORITY_MAP,
            arguments=(
                f"{directory}/{INPUT.format(index=index)}",
                f"{directory}/{OUTPUT.format(index=index)}",
            ),
        )
        for index, opportunistic in enumerate(kinds)
    )
    reduce = (TaskSpec(number=1, resource=reduce_resource, priority=PRIORITY_REDUCE),)
    return JobSpec(
        name=NAME,
        application_type=APPLICATION_TYPE,
        phases=(
            _phase("map", tasks, (*program, "map"), settings.map_max_attempts),
            _phase(
                "reduce", reduce, (*program, "reduce", directory, str(maps)), settings.reduce_max_attempts
            ),
        ),
        timeout_ms=timeout_ms,
        max_preemptions=settings.max_preemptions,
        exit_rule=exit_rule,
        pi=PiSpec(maps, samples, directory),
        map_reduce=MapReduceJob(
            maps,
            outputs_per_map=2,  # the number of points inside, and outside
            map_attempts=settings.map_max_attempts,
            reduce_attempts=settings.reduce_max_attempts,
            properties=properties,
        ),
    )


def moved(job: JobSpec, directory: str) -> JobSpec:
    """The same job with its files in another directory."""
    assert job.pi is not None
    old = job.pi.directory

    def there(word: str) -> str:
        return directory + word[len(old) :] if word == old or word.startswith(f"{old}/") else word

    phases = tuple(
        replace(
            phase,
            command=tuple(map(there, phase.command)),
            tasks=tuple(replace(task, arguments=tuple(map(there, task.arguments))) for task in phase.tasks),
        )
        for phase in job.phases
    )
    return replace(job, phases=phases, pi=replace(job.pi, directory=directory))


def _phase(name: str, tasks: tuple[TaskSpec, ...], command: tuple[str, ...], attempts: int) -> PhaseSpec:
    return PhaseSpec(
        name=name,
        tasks=tasks,
        command=command,
        max_attempts=attempts,
        retry_guaranteed=True,
        retry_priority=PRIORITY_FAST_FAIL_MAP,
        fail_fast=True,
    )


def map_input(index: int, samples: int) -> str:
    """The text of a map's input file: the offset of its first point, and the number of its points."""
    return f"{index * samples} {samples}\n"


def last_lines(application_id: str, seconds: float, counted: tuple[int, int] | None) -> str:
    """The last lines that Hadoop's client prints. ``counted`` has the points inside and outside;
    None if the job failed."""
    if counted is None:
        return f"Job {job_id(application_id)} failed!"
    inside, outside = counted
    return (
        f"Job Finished in {round(seconds, 3)} seconds\n"
        f"Estimated value of Pi is {estimate(inside, inside + outside)}"
    )


def estimate(inside: int, total: int) -> str:
    """4 * inside / total with 20 decimals, half up, as Hadoop prints it (``QuasiMonteCarlo.estimatePi``)."""
    whole, decimals = divmod((8 * inside * 10**20 + total) // (2 * total), 10**20)
    return f"{whole}.{decimals:020d}"
