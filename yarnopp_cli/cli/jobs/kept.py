"""Output files and the job log of ``yopp run``, and resuming from the log."""

# No `from __future__ import annotations`: see run.py.

from collections.abc import Iterator

from executor.hints import TYPE_CHECKING
from executor.light import contextmanager

from ...errors import UsageError
from ...masters.commands import Tasks
from ..frame.options import WITHOUT_UPLOAD, Annotated, Options, option

if TYPE_CHECKING:
    from .joblog import JobLog

NoPrefix = Annotated[
    bool, option("--no-prefix", "Do not prefix lines with the container's number."), WITHOUT_UPLOAD
]
KeepOrder = Annotated[
    bool,
    option("-k, --keep-order", "Print the output of each container as a whole, in their order."),
    WITHOUT_UPLOAD,
]


class Outputs(Options):
    """The destinations of the tasks' output and of the record of their ends."""

    results: Annotated[
        str | None,
        option(
            "--results NAME",
            "Write the output to NAME/TASK/stdout and stderr, not to logs; or to a file with replacement strings: "
            "'out/{job}-{task}'.",
        ),
        WITHOUT_UPLOAD,
    ] = None
    joblog: Annotated[
        str | None,
        option("--joblog FILE", "Write a line for each task that has ended, in the columns of GNU parallel."),
        WITHOUT_UPLOAD,
    ] = None
    resume: Annotated[bool, option("--resume", "Leave out the tasks that --joblog has."), WITHOUT_UPLOAD] = (
        False
    )
    resume_failed: Annotated[
        bool,
        option("--resume-failed", "Leave out the tasks that --joblog has and that ended with 0."),
        WITHOUT_UPLOAD,
    ] = False

    def check(self, *, detach: bool, piped: bool) -> None:
        """Raise UsageError for contradictions."""
        if self.joblog is None and (self.resume or self.resume_failed):
            raise UsageError(
                f"--resume{'-failed' if self.resume_failed else ''} needs --joblog",
                because="the job log lists the tasks that have ended",
                hint="yopp run --joblog FILE --resume …",
            )
        if piped and (self.resume or self.resume_failed):
            raise UsageError.exclusive(
                "--pipe and --resume",
                "the pieces of the standard input may differ from those of the last time",
                hint="split -l 1000 FILE, then --stdin {1} with the names of the pieces",
            )
        if self.joblog is not None and detach:
            raise UsageError.exclusive(
                "-d and --joblog",
                "this client writes the file, so it must run until the job ends",
                hint="leave out -d; `yopp wait ID --joblog FILE` writes it afterwards",
            )

    def left(self, tasks: Tasks) -> Tasks:
        """The tasks that still have to run. Raises UsageError."""
        if self.joblog is None or not (self.resume or self.resume_failed):
            return tasks
        from .joblog import still_to_run

        return still_to_run(tasks, self.joblog, failed=self.resume_failed)

    def written(self, tasks: Tasks, directory: str | None) -> Tasks:
        """The tasks, with their output in files if that was requested. Raises UsageError."""
        if self.results is None or directory is None:
            return tasks
        from .outputs import into_files

        return into_files(tasks, self.results, directory)

    @contextmanager
    def log(self, tasks: Tasks) -> Iterator["JobLog"]:
        """The open log. Raises UsageError."""
        from .joblog import JobLog

        assert self.joblog is not None
        log = JobLog(self.joblog, tasks, more=self.resume or self.resume_failed)
        try:
            yield log
        finally:
            log.close()
