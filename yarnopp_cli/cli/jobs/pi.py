"""``yopp pi``:

Hadoop's QuasiMonteCarlo example, in real map containers and one reduce, with Hadoop's lines on stdout.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from executor.records import Resource

from ...errors import UsageError
from ...masters import pi as masters_pi
from ..frame.context import Context
from ..frame.options import (
    Color,
    Conf,
    Define,
    DryRun,
    ExitCode,
    ExitRule,
    JobTimeout,
    Json,
    NoProgress,
    Output,
    Queue,
    Quiet,
    RunDirOption,
    Tags,
    Verbose,
    examples,
)
from ..frame.output import Printer
from .run import tags

if TYPE_CHECKING:
    from ...jobs.pifiles import PiDirectory
    from ...jobs.session import Session
    from ...records.jobs import JobSpec
    from ...settings.applications import ApplicationSettings
    from .running import JobOptions

PERCENT = "mapreduce.job.num-opportunistic-maps-percent"

Maps = Annotated[int, typer.Argument(metavar="NMAPS", help="How many maps.")]
Samples = Annotated[int, typer.Argument(metavar="NSAMPLES", help="How many points in each.")]
Percent = Annotated[
    int | None,
    typer.Option(
        "--opportunistic-percent",
        metavar="P",
        help=f"The share of opportunistic maps: short for -D {PERCENT}=P.",
    ),
]
Detach = Annotated[
    bool, typer.Option("-d", "--detach/--wait", help="Return at once; the job goes on in the cluster.")
]


def register(app: typer.Typer) -> None:
    """Add ``pi``."""
    app.command("pi", epilog=examples("yopp pi 10 1000", f"yopp pi -D{PERCENT}=40 50 100"))(pi)


def pi(
    maps: Maps,
    samples: Samples,
    percent: Percent = None,
    detach: Detach = False,
    exit_code: ExitCode = ExitRule.highest,
    queue: Queue = "default",
    tag: Tags = None,
    dry_run: DryRun = False,
    timeout: JobTimeout = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
    no_progress: NoProgress = False,
) -> int:
    """Estimate pi with NMAPS maps of NSAMPLES points each, exactly as Hadoop's example does.

    The maps and the reduce are real processes in containers; the percentage of opportunistic maps is exact,
    and spread evenly over them. What is printed is Hadoop's, in Hadoop's order, and depends on NMAPS *
    NSAMPLES only.
    """
    from ...jobs.pifiles import PiDirectory
    from .running import JobOptions, session_of, submit_detached

    printer = Printer.of(
        output=output, json=json, quiet=quiet, verbose=verbose, color=color, no_progress=no_progress
    )
    masters_pi.check_size(maps, samples)
    context = Context.of(conf=conf, define=define, run_dir=run_dir)
    session, settings = session_of(context, printer)
    share = _share(percent, settings)
    if dry_run:
        from .dry_run import tell

        place = f"{context.run_dir.state_dir}/jobs/QuasiMonteCarlo"
        planned = _plan(context, maps, samples, place, share, timeout, settings)
        return tell(context, printer, planned, settings.am_resource if detach else None)
    silent = printer.is_json or printer.ids_only or detach
    say: Callable[[str], None] = (lambda text: None) if silent else printer.text
    say(f"Number of Maps  = {maps}\nSamples per Map = {samples}")
    session.open()
    directory = PiDirectory(f"{context.run_dir.state_dir}/jobs", round(time.time() * 1000))
    is_ours = True
    try:
        for index in directory.write_inputs(maps, samples):
            say(f"Wrote input for Map #{index}")
        job = _plan(context, maps, samples, directory.path, share, timeout, settings)
        job = replace(job, exit_rule=exit_code.value)
        options = JobOptions(show_summary=True, plain_lines=not no_progress, queue=queue, tags=tags(tag))
        if detach:
            directory.hand_over()
            submit_detached(session, job, printer, options, settings)
            is_ours = False
            return 0
        return _see_through(session, job, printer, options, directory, say)
    finally:
        if is_ours:
            directory.remove()


def _plan(
    context: Context,
    maps: int,
    samples: int,
    directory: str,
    share: int,
    timeout: float | None,
    settings: ApplicationSettings,
) -> JobSpec:
    from ...jobs.jobconf import job_properties
    from ...jobs.pifiles import program

    own = {
        "mapreduce.job.maps": str(maps),
        "mapreduce.job.reduces": "1",
        "mapreduce.job.name": masters_pi.NAME,
    }
    if share != settings.num_opportunistic_maps_percent:
        own[PERCENT] = str(share)
    return masters_pi.plan(
        masters_pi.PiOptions(
            maps=maps,
            samples=samples,
            directory=directory,
            program=program(),
            opportunistic_percent=share,
            map_resource=Resource(settings.map_memory_mb, settings.map_vcores),
            reduce_resource=Resource(settings.reduce_memory_mb, settings.reduce_vcores),
            map_attempts=settings.map_max_attempts,
            reduce_attempts=settings.reduce_max_attempts,
            timeout_ms=round((timeout or 0) * 1000),
            max_preemptions=settings.max_preemptions,
            maps_rule=settings.opportunistic_maps,
            properties=job_properties(context.configuration, own),
        )
    )


def _share(percent: int | None, settings: ApplicationSettings) -> int:
    if percent is None:
        return settings.num_opportunistic_maps_percent
    if not 0 <= percent <= 100:
        raise UsageError(
            f"--opportunistic-percent {percent}: a percentage is between 0 and 100",
            because="so many of a hundred maps are opportunistic",
            hint="--opportunistic-percent 40",
        )
    return percent


def _see_through(
    session: Session,
    job: JobSpec,
    printer: Printer,
    options: JobOptions,
    directory: PiDirectory,
    say: Callable[[str], None],
) -> int:
    """Run the job from this client, and print what it estimates."""
    from ...jobs.pifiles import read_result
    from .running import final_document, run_foreground

    say("Starting Job")
    started = time.time()
    outcome = run_foreground(session, job, printer, options)
    result = {}
    if outcome.succeeded:
        inside, outside = read_result(directory.path)
        total = inside + outside
        estimate = masters_pi.estimate(inside, total)
        say(f"Job Finished in {round(time.time() - started, 3)} seconds")
        say(f"Estimated value of Pi is {estimate}")
        result = {"pi": {"estimate": estimate, "inside": inside, "total": total}}
    else:
        say(f"Job {masters_pi.job_id(outcome.response.application_id)} failed!")
    if printer.is_json:
        printer.document(final_document(outcome, result))
    return outcome.end.exit_code
