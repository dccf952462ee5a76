"""The display of a job for the user who started it: the containers' output, a progress line, the end."""

from __future__ import annotations

import errno
import sys
import time

from executor.hints import TYPE_CHECKING
from executor.light import Record

from ...errors import EXIT_FAILURE, EXIT_READER_GONE, YoppError, reason_of
from ...jobs import progress
from ...jobs.output import OutputFollower, Sink
from ...jobs.watching import SignalWatch
from ...masters.ends import EndMaster, StopRequested
from ...masters.tasks import Tally
from ...records.job_protocol import SubmitApplicationResponse
from ...records.jobs import ENDED, JobSpec, TaskReport, TaskState
from ...records.reports import FinalApplicationStatus, flaws_text
from ..frame.output import Printer, is_terminal

if TYPE_CHECKING:
    from .joblog import JobLog

FIRST_LINE_SECONDS = 0.5
"""A job prints its first line when all its tasks have found a place, or after this time in seconds."""
DRAW_SECONDS = 0.1
LINE_SECONDS = 10.0
"""The interval, in seconds, at which the progress line is redrawn on a terminal, or printed elsewhere, after a
change."""
CLOCK_SECONDS = 1.0
"""The interval, in seconds, at which the progress line of several tasks is redrawn on a terminal without a change."""
BAR_CELLS = 24
_LEFT_CONTAINER = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.WAITING})


class Display(Record):
    """The display of a job. ``stream`` copies the containers' output; ``prefixed`` marks its lines; ``show_summary``
    always prints the execution types; ``log`` gets each task that has ended; ``elsewhere``: the output is not in the
    logs; ``in_order``: the output of each task is printed as a whole, in the order of the tasks.
    """

    stream: bool = False
    prefixed: bool = False
    show_summary: bool = False
    log: JobLog | None = None
    elsewhere: bool = False
    in_order: bool = False


class JobConsole:
    """Shows one job to the user who started it (``jobs.watching.Observer``)."""

    def __init__(
        self,
        printer: Printer,
        job: JobSpec,
        tally: Tally,
        response: SubmitApplicationResponse,
        shown: Display,
        submitted_at: float,
    ) -> None:
        self._printer = printer
        self._job = job
        self._tally = tally
        self._response = response
        self._started = submitted_at
        self._first_said = False
        # A single command, whose output is shown and whose code is returned, prints no messages in a pipe or a script.
        only_one = job.size == 1
        self._terse = shown.stream and only_one and not printer.verbose and not is_terminal(sys.stderr)
        self._plain_lines = printer.may_tell_progress and not self._terse and not is_terminal(sys.stderr)
        self._shown = ""
        self._drawn_at = 0.0
        self._is_drawn = False
        self._pace = progress.RemainingTime()
        self._log = shown.log
        self._unlogged = ""
        self.tasks: dict[tuple[int, int], TaskReport] = {}
        self._follower: OutputFollower | None = None
        self._out: Sink | None = None
        self._err: Sink | None = None
        if shown.stream:
            sys.stdout.flush()
            sys.stderr.flush()
            self._out = Sink(1, self.hide if is_terminal(sys.stdout) else None)
            self._err = Sink(2, self.hide if is_terminal(sys.stderr) else None)
            self._follower = OutputFollower(
                response.log_directory,
                self._out,
                self._err,
                prefixed=shown.prefixed,
                in_lines=job.size > 1,
                order=job.phases[0].numbers() if shown.in_order else None,
            )

    # --- events of the loop

    def task_changed(self, task: TaskReport) -> None:
        """Follow a task's output; remember its end."""
        self.tasks[task.phase, task.planned_number] = task
        if self._follower is not None and task.container_id:
            if task.state is TaskState.RUNNING:
                self._follower.watch(task.container_id, task.number)
            elif task.state in _LEFT_CONTAINER:
                self._follower.ended(task.container_id, task.number)
        if self._follower is not None and task.state in ENDED:
            self._follower.task_ended(task.number)
        if self._log is not None and task.state in (TaskState.SUCCEEDED, TaskState.FAILED):
            self._log.ended(task, self._response.log_directory)
            if self._log.problem:
                self.say(f"warning: {self._log.path} is incomplete from here on: {self._log.problem}")
                self._unlogged = self._log.problem
                self._log = None
        if self._printer.verbose:
            where = f" {task.container_id} on {task.node_id}" if task.container_id else ""
            self.say(f"task {task.number}: {task.state.value}{where}")

    def notice(self, text: str) -> None:
        """Print a notice."""
        self.say(text)

    def stopping(self, reason: str) -> None:
        """Print that the job is being stopped."""
        self.say(f"{reason}: stopping the job; a second Ctrl-C kills it at once")

    def stop_wanted(self) -> StopRequested | None:
        """Stop a job whose reader has ended (``| head``), as a command in a pipe does."""
        if self._follower is not None and self._follower.reader_gone:
            return StopRequested("its output is no longer read", EXIT_READER_GONE)
        return None

    def tick(self, now: float) -> float | None:
        """Copy output and draw progress, if they are due."""
        again = None if self._follower is None else self._follower.tick(now)
        if self._printer.quiet or self._printer.is_json:
            return again
        due = self._say_first(now) if not self._first_said else self._show(now)
        return due if again is None else again if due is None else min(again, due)

    # --- progress

    def _say_first(self, now: float) -> float | None:
        counts = self._tally.counts
        unplaced = counts[TaskState.ASKED] + counts[TaskState.STARTING]
        placed = any(counts[state] for state in (TaskState.RUNNING, TaskState.QUEUED))
        if (placed and not unplaced) or now - self._started >= FIRST_LINE_SECONDS:
            self.say_first_line()
            return now
        return self._started + FIRST_LINE_SECONDS

    def say_first_line(self) -> None:
        """Print once the id of the application, and the places of its tasks."""
        if not self._first_said:
            self._first_said = True
            self._drawn_at = time.monotonic()
            self._shown = progress.states_text(self._tally)
            if self._terse:
                return
            self.say(
                progress.first_line(
                    self._response.application_id, self._job, self._response.info.nodes_running, self._shown
                )
            )

    def _show(self, now: float) -> float | None:
        text = progress.states_text(self._tally)
        period = DRAW_SECONDS if self._printer.progress else LINE_SECONDS
        if text == self._shown and (self._is_drawn or not self._printer.progress):
            if self._tally.total == 1 or not self._printer.progress:
                return None
            period = CLOCK_SECONDS
        if not self._may_draw():
            return None
        if now - self._drawn_at < period:
            return self._drawn_at + period
        self._shown, self._drawn_at = text, now
        if self._printer.progress:
            tally, elapsed = self._tally, now - self._started
            drawn = progress.bar(tally, BAR_CELLS) if tally.total > 1 else ()
            left = self._pace.left(tally, elapsed)
            self._printer.status_line(f"{progress.elapsed_text(elapsed, left)}  {text}", drawn)
            self._is_drawn = True
            return now + CLOCK_SECONDS if tally.total > 1 else None
        elif self._plain_lines:
            self._printer.note(text)
        return None

    def _may_draw(self) -> bool:
        """Whether a progress line may be drawn: it must not interrupt a line of the containers' output."""
        if self._out is None or self._err is None or not self._printer.progress:
            return True
        if self._tally.total == 1 and self._tally.counts[TaskState.RUNNING]:
            return False
        return self._out.at_line_start and self._err.at_line_start

    def hide(self) -> None:
        """Remove the progress line."""
        if self._is_drawn:
            self._printer.status_line("")
            self._is_drawn = False

    def say(self, text: str) -> None:
        """One line on stderr, around the progress line."""
        self.hide()
        if is_terminal(sys.stderr):  # The last output of a container may have no end of line.
            for sink, stream in ((self._out, sys.stdout), (self._err, sys.stderr)):
                if sink is not None and not sink.at_line_start and is_terminal(stream):
                    sink.write(b"\n")
        self._printer.note(text)

    # --- the end

    def drain(self, signals: SignalWatch) -> None:
        """Copy the rest of the output, however slow its reader is; a signal ends the copying."""
        if self._follower is not None:
            self._follower.drain(lambda: not any(signals.received()))
            self._follower.close()
        self.hide()

    def close(self) -> None:
        """Close all files."""
        self.hide()
        if self._follower is not None:
            self._follower.close()

    def check_output(self, end: EndMaster) -> None:
        """Raises YoppError if stdout has not taken all output of the containers, or the job log not all of its lines,
        for example because a disk is full."""
        problem = self._follower.lost if self._follower is not None else None
        if problem is not None:
            raise YoppError(
                "cannot write to standard output",
                because="it is closed" if problem.errno == errno.EBADF else reason_of(problem),
                hint=f"the job has ended; its whole output is in {self._response.log_directory}",
                exit_code=end.exit_code or EXIT_FAILURE,
            )
        if self._unlogged:
            raise YoppError(
                "the job log is incomplete",
                because=self._unlogged,
                hint=f"the job has ended; `yopp wait {self._response.application_id} --joblog FILE` writes it",
                exit_code=end.exit_code or EXIT_FAILURE,
            )

    def say_end(self, end: EndMaster, shown: Display) -> None:
        """Print the result of the job."""
        self.say_first_line()
        if (self._terse or self._printer.quiet) and end.final_status is FinalApplicationStatus.SUCCEEDED:
            if flaws := flaws_text(end.summary):
                self._printer.warn(f"{self._response.application_id}: {flaws}")
            return
        tally = self._tally
        logs = "" if shown.elsewhere else self._response.log_directory
        for line in progress.failure_lines(tally.failures, tally.total, logs):
            self.say(line)
        elapsed = time.monotonic() - self._started
        halt = self._job.halt
        halted = halt is not None and tally.counts[TaskState.FAILED] >= halt.failures
        self.say(progress.end_line(end.final_status, elapsed, tally, end.diagnostics, halted=halted))
        summary = progress.summary_line(end.summary, always=shown.show_summary)
        if summary:
            self.say(summary)
