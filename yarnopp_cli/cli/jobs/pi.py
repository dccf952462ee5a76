"""``yopp pi``:

Hadoop's QuasiMonteCarlo example, in real map containers and one reduce, with Hadoop's lines on stdout.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from executor.hints import TYPE_CHECKING, Any
from executor.light import replace
from executor.records import Others

from ...clock import now_ms
from ...masters import pi as masters_pi
from ...masters.pi import PERCENT
from ...records.requests import ApplicationSubmissionContext
from ..frame.command import Needs, command
from ..frame.options import (
    HERE_ONLY,
    Annotated,
    ExitCode,
    ExitRule,
    JobTimeout,
    Options,
    Queue,
    Tags,
    argument,
    option,
)
from ..frame.session import Session
from .common import Gpus, Resources, others_of, tags

if TYPE_CHECKING:
    from ...jobs.client import JobClient
    from ...records.jobs import JobSpec
    from ...records.requests import JobProperty
    from ...settings.declarations import ApplicationSettings
    from ...settings.loading import Configuration

_USED = ("mapreduce.", "yarn.app.mapreduce.", "yopp.pi.", "yopp.am.")
"""Beginnings of the names of properties that every MapReduce job uses."""
_SET_BY_THE_JOB = "programmatically"
"""A property's source, in Hadoop's word."""

Maps = Annotated[int, argument("NMAPS", "Number of maps.")]
Samples = Annotated[int, argument("NSAMPLES", "Number of points in each map.")]
Percent = Annotated[
    int | None,
    option(
        "--opportunistic-percent P",
        f"The share of opportunistic maps: short for -D {PERCENT}=P.",
        min=0,
        max=100,
    ),
]
Detach = Annotated[bool, option("-d, --detach/--wait", "Return at once; the job continues in the cluster.")]


class PiOptions(Options):
    """The options of the job."""

    percent: Percent = None
    gpus: Annotated[Gpus, HERE_ONLY] = None
    resource: Annotated[Resources, HERE_ONLY] = None
    detach: Annotated[Detach, HERE_ONLY] = False
    exit_code: Annotated[ExitCode, HERE_ONLY] = ExitRule.highest
    queue: Annotated[Queue, HERE_ONLY] = "default"
    tag: Annotated[Tags, HERE_ONLY] = None
    timeout: Annotated[JobTimeout, HERE_ONLY] = None


@command(
    "pi",
    "yopp pi 10 1000",
    f"yopp pi -D{PERCENT}=40 50 100",
    needs=Needs.JOBS,
    progress=True,
    tries=True,
    yarn=True,
)
def pi(
    session: Session,
    maps: Maps,
    samples: Samples,
    job: PiOptions,
) -> int:
    """Estimate pi with NMAPS maps of NSAMPLES points each, exactly as Hadoop's example does.

    The maps and the reduce are real processes in containers. The percentage of opportunistic maps is exact,
    and they are spread evenly. The output has Hadoop's lines in Hadoop's order, and depends only on NMAPS *
    NSAMPLES.
    """
    from .running import client_here

    masters_pi.check_size(maps, samples)
    others = others_of(job.gpus, job.resource or ())
    if session.yarn is not None:
        from .on_yarn import hadoops_pi

        return hadoops_pi(session, maps, samples, job.percent)
    client = client_here(session, round((job.timeout or 0) * 1000))

    def planned(directory: str) -> tuple[JobSpec, ApplicationSubmissionContext]:
        return _planned(session.of_jobs, client.settings, job, others, maps, samples, directory)

    return _with_files(session, client, maps, samples, planned, detach=job.detach)


def pi_again(
    session: Session, job: JobSpec, submission: ApplicationSubmissionContext, *, detach: bool
) -> int:
    """Run a `pi` job again, with new files; its exit code. Raises YoppError."""
    from .running import client_here

    assert job.pi is not None
    maps, samples = job.pi.maps, job.pi.samples

    def planned(directory: str) -> tuple[JobSpec, ApplicationSubmissionContext]:
        return masters_pi.moved(job, directory), submission

    return _with_files(session, client_here(session, job.timeout_ms), maps, samples, planned, detach=detach)


def _with_files(
    session: Session,
    client: JobClient,
    maps: int,
    samples: int,
    planned: Callable[[str], tuple[JobSpec, ApplicationSubmissionContext]],
    *,
    detach: bool,
) -> int:
    """Make the job's directory, and run the job that ``planned`` makes for it. Returns the exit code."""
    from ...cluster.clientfiles import JOBS
    from ...jobs.pifiles import PiDirectory

    printer = session.printer
    silent = printer.is_json or printer.ids_only or detach or session.dry_run
    say: Callable[[str], None] = (lambda text: None) if silent else printer.text
    parent = f"{session.run_dir.state_dir}/{JOBS}"
    if session.dry_run:
        nowhere = f"{parent}/{masters_pi.NAME}"
        return _started(session, client, *planned(nowhere), nowhere, say, detach=detach)
    say(f"Number of Maps  = {maps}\nSamples per Map = {samples}")
    client.open()
    directory = PiDirectory(parent, now_ms())
    is_ours = True
    try:
        for index in directory.write_inputs(maps, samples):
            say(f"Wrote input for Map #{index}")
        if detach:
            directory.hand_over()
        code = _started(session, client, *planned(directory.path), directory.path, say, detach=detach)
        is_ours = not detach
        return code
    finally:
        if is_ours:
            directory.remove()


def _planned(
    configuration: Configuration,
    configured: ApplicationSettings,
    wanted: PiOptions,
    others: Others,
    maps: int,
    samples: int,
    directory: str,
) -> tuple[JobSpec, ApplicationSubmissionContext]:
    """The job with its files in ``directory``, and its submission."""
    from ...jobs.pifiles import program

    settings = _with_share(configured, wanted.percent)
    job = masters_pi.plan(
        maps,
        samples,
        directory,
        program(),
        settings,
        others=others,
        timeout_ms=round((wanted.timeout or 0) * 1000),
        exit_rule=wanted.exit_code.value,
        properties=_properties(configuration, maps, settings, configured),
    )
    return job, ApplicationSubmissionContext(
        "", job.name, queue=wanted.queue, tags=tags(wanted.tag), am_resource=settings.am_resource
    )


def _started(
    session: Session,
    client: JobClient,
    job: JobSpec,
    submission: ApplicationSubmissionContext,
    directory: str,
    say: Callable[[str], None],
    *,
    detach: bool,
) -> int:
    """Run the job with its files in ``directory``. Returns its exit code."""
    from ...jobs.pifiles import read_result
    from .console import Display
    from .running import JobOutcome, start

    began = time.time()

    def ended(outcome: JobOutcome) -> dict[str, Any]:
        seconds = time.time() - began
        counted = read_result(directory) if outcome.succeeded else None
        say(masters_pi.last_lines(outcome.response.application_id, seconds, counted))
        if counted is None:
            return {}
        total = sum(counted)
        told = {"estimate": masters_pi.estimate(counted[0], total), "inside": counted[0], "total": total}
        return {"pi": told}

    say("Starting Job")
    return start(session, client, job, submission, Display(show_summary=True), detach=detach, ended=ended)


def _properties(
    configuration: Configuration, maps: int, settings: ApplicationSettings, configured: ApplicationSettings
) -> tuple[JobProperty, ...]:
    """The job's configuration for its REST documents: the properties that it uses, and others that are set, by name."""
    from ...records.requests import JobProperty
    from ...settings.declarations import PROPERTIES
    from ...settings.values import to_text

    own = {
        "mapreduce.job.maps": str(maps),
        "mapreduce.job.reduces": "1",
        "mapreduce.job.name": masters_pi.NAME,
    }
    if settings is not configured:
        own[PERCENT] = str(settings.num_opportunistic_maps_percent)
    used = {name: to_text(configuration.value(name)) for name in PROPERTIES if name.startswith(_USED)}
    set_somewhere = configuration.non_default() | used
    found = {
        name: JobProperty(name, value, configuration.origin(name)) for name, value in set_somewhere.items()
    }
    found |= {name: JobProperty(name, value, _SET_BY_THE_JOB) for name, value in own.items()}
    return tuple(found[name] for name in sorted(found))


def _with_share(settings: ApplicationSettings, percent: int | None) -> ApplicationSettings:
    """The settings, with the share of opportunistic maps from the command line."""
    if percent is None or percent == settings.num_opportunistic_maps_percent:
        return settings
    return replace(settings, num_opportunistic_maps_percent=percent)
