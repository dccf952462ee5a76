"""``yopp logs``: print or follow the output of containers, of running clusters and of those that have ended."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from executor.records import ContainerState

from ...errors import (
    ApplicationNotFoundError,
    ConnectionFailedError,
    ContainerNotFoundError,
    UsageError,
    YoppError,
)
from ...records.client_protocol import GetContainersRequest
from ...records.reports import FINAL_STATES, ContainerReport, FinalApplicationStatus
from ...views import applications as app_view
from ...views.containers import is_live, shell_code, shown_state
from ...views.text import harmless, timestamp
from ..frame.context import Context
from ..frame.naming import application, applications, container, containers, is_container, words
from ..frame.options import (
    Color,
    Conf,
    Define,
    Ids,
    Json,
    Output,
    Quiet,
    RunDirOption,
    Verbose,
    examples,
    moment,
)
from ..frame.output import Printer, is_terminal_out, json_line, paint
from . import logparts
from .logfiles import (
    STREAMS,
    Stream,
    applications_on_disk,
    containers_on_disk,
    open_plain,
    plain_status,
    streams_of,
)

if TYPE_CHECKING:
    from ...client.local import YarnClient

LOG_DIRS = "yarn.nodemanager.log-dirs"
_POLL_SECONDS = 0.05
_BATCH = 1000
_ASK_SECONDS = 0.25
_PREFIX_STYLES = ("cyan", "green", "yellow", "blue")


def register(app: typer.Typer) -> None:
    """Add ``logs``."""
    app.command("logs", epilog=examples("yopp logs -f last", "yopp logs 3.2 --stderr --tail 20"))(logs)


@dataclass(slots=True)
class Target:
    """Whose output is wanted: containers by id, or all containers of applications, with what is known of
    them.

    ``expected`` is how many containers will have output, 2 or more if that is not known to be one. ``reticent``
    are masters whose stderr, a log of their own doings, is of no interest while their job goes well. ``client``
    None means that it is on disk only and that nothing more will come. ``directories`` are those of
    applications and containers, by id. ``asked`` containers are asked for and not granted yet. ``lost``: the
    cluster went before their end was seen.
    """

    container_ids: list[str] = field(default_factory=list)
    application_ids: list[str] = field(default_factory=list)
    client: YarnClient | None = None
    directories: dict[str, str] = field(default_factory=dict)
    masters_only: bool = False
    waiting: list[str] = field(default_factory=list)
    asked: int = 0
    lost: bool = False
    code: int = 0
    expected: int = 0
    masters: set[str] = field(default_factory=set)
    reticent: set[str] = field(default_factory=set)

    def look(self) -> tuple[dict[str, str], bool]:
        """Container -> its directory, and whether all of it has ended. Updates ``waiting`` and ``code``."""
        found = {one: self.directories[one] for one in self.container_ids if one in self.directories}
        for app in self.application_ids:
            for one in () if self.masters_only else containers_on_disk(self.directories.get(app, "")):
                found[one] = os.path.join(self.directories[app], one)
        if self.client is None:
            return found, True
        try:
            ended = self._ask(self.client, found)
        except ConnectionFailedError:
            self.client = None  # the cluster has gone: what still runs is not known any more
            self.lost = True
            return found, True
        return found, ended

    def _ask(self, client: YarnClient, found: dict[str, str]) -> bool:
        reports: list[ContainerReport] = [client.container(one) for one in self.container_ids]
        codes = [shell_code(report) for report in reports]
        self.expected = len(reports)
        self.asked = 0
        ended = all(not is_live(report) for report in reports)
        for app in self.application_ids:
            report = client.application(app)
            if report.log_directory:
                self.directories[app] = report.log_directory
            ended = ended and report.state in FINAL_STATES
            codes.append(app_view.exit_code(report))
            if report.state not in FINAL_STATES:
                self.asked += report.pending_containers
            self.expected += report.summary.total if report.summary is not None else 2
            of_app = client.container_reports(GetContainersRequest(application_id=app, finished=True))
            masters = {one.container_id for one in of_app if one.is_am}
            self.masters |= masters
            if report.state in FINAL_STATES and report.final_status is not FinalApplicationStatus.SUCCEEDED:
                self.reticent -= masters  # now it matters why
            elif not self.masters_only:
                self.reticent |= masters - set(self.container_ids)
            reports += [one for one in of_app if one.is_am or not self.masters_only]
        for one in reports:
            directory = one.log_directory or os.path.join(
                self.directories.get(one.application_id, ""), one.container_id
            )
            if os.path.isabs(directory):
                found[one.container_id] = directory
        self.waiting = [
            one.container_id
            for one in reports
            if shown_state(one) in ("ALLOCATED", "QUEUED", "LAUNCHING") and not one.started_at_ms
        ]
        self.code = max((code for code in codes if code is not None), default=0)
        return ended and not any(one.state is not ContainerState.DONE for one in reports)


@dataclass(frozen=True, slots=True)
class Style:
    """How lines are printed: which streams, with what before each, and from where on. ``chosen`` says that the
    streams were named."""

    names: tuple[str, ...]
    chosen: bool
    prefix: bool | None
    timestamps: bool
    tail: int | None
    since_ms: int


def logs(
    ids: Ids,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until it has ended; wait for what is still queued.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines of each file.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            "--since", metavar="T", parser=moment, help="Only files written to since: 10m, 2026-01-31T12:00Z."
        ),
    ] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Standard output only.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error only.")] = False,
    no_prefix: Annotated[
        bool, typer.Option("--no-prefix", help="No container number before each line.")
    ] = False,
    timestamps: Annotated[
        bool,
        typer.Option(
            "--timestamps", help="When each line was read (of old lines: when the file was last written)."
        ),
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Copy the files to DIR/<container>/ instead.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--bytes", metavar="N", help="The first N bytes of each file; with -N the last ones."),
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="List the log files, and how large they are.")
    ] = False,
    masters: Annotated[bool, typer.Option("--am", help="Only the application's master.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with the exit code of what is shown.")
    ] = False,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
) -> int:
    """Print what containers wrote: of one container, or of all those of an application, numbered.

    What a master logs (its stderr) is left out while its job goes well. If the job fails, -f shows it at the end, in
    one block: before that it was not known to matter. --am or --stderr shows it from the first, as it comes.

    With -f, Ctrl-C only stops watching. Output of a cluster that has ended is found too.
    """
    printer = Printer.of(output=output, json=json, quiet=quiet, verbose=verbose, color=color)
    if follow and (files or size is not None):
        raise UsageError(
            "-f goes with neither --bytes nor --files",
            because="these show files as they are now",
            hint="--tail N -f",
        )
    names = tuple(name for name, wanted in zip(STREAMS, (stdout, stderr), strict=True) if wanted) or STREAMS
    style = Style(
        names,
        stdout or stderr,
        False if no_prefix else None,
        timestamps,
        tail,
        since or 0,
    )
    target = find(
        Context.looking(conf=conf, define=define, run_dir=run_dir),
        words(ids),
        masters_only=masters,
        printer=printer,
    )
    try:
        if out is not None:
            _copy(printer, target, out, names)
        elif files:
            logparts.list_files(printer, target, names)
        elif printer.form == "name" and not quiet:
            printer.ids(dict.fromkeys(one.container for one in logparts.files_of(target, names)))
        elif size is not None:
            logparts.print_bytes(printer, target, names, size)
        else:
            _Reader(printer, target, style).run(follow=follow)
    finally:
        if target.client is not None:
            target.client.close()
    return target.code if exit_code else 0


def find(
    context: Context, named: Sequence[str], *, masters_only: bool = False, printer: Printer | None = None
) -> Target:
    """Who is meant, asked of the cluster, or else looked up among the files of clusters that have ended.

    Raises ApplicationNotFoundError or ContainerNotFoundError; ConnectionFailedError where there is no cluster
    and no file either.
    """
    try:
        client = context.client(printer)
    except ConnectionFailedError as error:
        return _on_disk(context, named, error, masters_only)
    target: Target | None = None
    try:
        target = _of_cluster(client, named, masters_only)
    except (ApplicationNotFoundError, ContainerNotFoundError) as error:
        return _on_disk(context, named, error, masters_only)
    finally:
        if target is None:
            client.close()
    return target


def _of_cluster(client: YarnClient, named: Sequence[str], masters_only: bool) -> Target:
    target = Target(client=client, masters_only=masters_only)
    of_containers = [word for word in named if is_container(word)]
    of_applications = [word for word in named if word not in of_containers]
    if of_containers:
        target.container_ids = containers(client, of_containers)
    if of_applications:
        target.application_ids = applications(client, of_applications)
    for one in target.container_ids:
        if directory := client.container(one).log_directory:
            target.directories[one] = directory
    for one in target.application_ids:
        target.directories[one] = client.application(one).log_directory
    return target


def _on_disk(context: Context, named: Sequence[str], error: YoppError, masters_only: bool) -> Target:
    """The same among files. Raises ``error``, what the cluster said, where nothing is found."""
    log_dir = str(context.configuration.value(LOG_DIRS))
    known = applications_on_disk(log_dir)
    if not known:
        raise error
    target = Target(masters_only=masters_only)
    every = {one: app for app in known for one in containers_on_disk(os.path.join(log_dir, app))}
    for word in named:
        if is_container(word):
            one = container(every, word)
            if one not in every:
                raise ContainerNotFoundError(
                    f"no container {word}",
                    because=f"there is no output of it in {log_dir}",
                    hint="`yopp ps -a` shows those this cluster knows",
                    sought=word,
                )
            target.container_ids.append(one)
            target.directories[one] = os.path.join(log_dir, every[one], one)
            continue
        app = application(known, word)
        if app not in known:
            raise ApplicationNotFoundError(
                f"no application {word}",
                because=f"there is no output of it in {log_dir}",
                hint="`yopp app list -a` shows those this cluster knows",
                sought=word,
            )
        target.application_ids.append(app)
        target.directories[app] = os.path.join(log_dir, app)
    return target


class _Reader:
    """Prints the streams of a target, once or as they grow."""

    def __init__(self, printer: Printer, target: Target, style: Style) -> None:
        self._printer = printer
        self._target = target
        self._style = style
        self._streams: dict[tuple[str, str], Stream] = {}
        self._numbers: dict[str, str] = {}
        self._told_waiting = False
        self._printed = False

    def run(self, *, follow: bool) -> None:
        """Print all there is; with ``follow``, go on until everything has ended."""
        if self._printer.form == "tsv":
            self._printer.separated(("id", "stream", "t", "line"))
        directories, ended = self._target.look()
        alone = self._is_alone(directories, follow=follow)
        self._open(directories, first=True)
        if not follow:
            self._print(alone, ended=True)
            if not self._printed and not self._printer.is_json:
                self._printer.note("no output" if ended else "no output yet (-f waits for it)")
            return
        asked, looks = time.monotonic(), 0
        while True:
            self._say_waiting(looks)
            moved = self._print(alone, ended=ended)
            if ended:
                if self._target.lost:
                    self._printer.note("the cluster has gone: nothing more is followed")
                return
            if not moved:
                time.sleep(_POLL_SECONDS)
            if time.monotonic() - asked >= _ASK_SECONDS:
                directories, ended = self._target.look()
                asked, looks = time.monotonic(), looks + 1
                self._open(directories, first=False)

    def _is_alone(self, directories: dict[str, str], *, follow: bool) -> bool:
        """Whether one container is all that is, or will be, shown, so that its lines need no number."""
        if not self._target.application_ids:
            return len(self._target.container_ids) == 1
        if follow and self._target.client is not None:
            return self._target.expected == 1 and not self._target.container_ids
        written = [
            directory
            for one, directory in directories.items()
            if any(stream.size() for stream in streams_of(one, directory, self._names(one)))
        ]
        return len(written) <= 1

    def _is_beside(self, stream: Stream) -> bool:
        """Whether it is a master's, who speaks beside the one container that is all of its job."""
        return stream.container_id in self._target.masters and len({one for one, _ in self._streams}) > 1

    def _names(self, container_id: str) -> tuple[str, ...]:
        """Which streams of a container are shown."""
        if container_id in self._target.reticent and not self._style.chosen:
            return tuple(name for name in self._style.names if name != "stderr")
        return self._style.names

    def _open(self, directories: dict[str, str], *, first: bool) -> None:
        for container_id, directory in directories.items():
            for stream in streams_of(container_id, directory, self._names(container_id)):
                key = (container_id, stream.name)
                if key in self._streams:
                    continue
                if self._style.since_ms and stream.changed_ms() < self._style.since_ms and first:
                    if self._target.client is None:
                        continue
                    stream.skip_to_tail(0)
                elif self._style.tail is not None and first:
                    stream.skip_to_tail(self._style.tail)
                self._streams[key] = stream
                number = "am" if container_id in self._target.masters else container_id.rpartition("_")[2]
                self._numbers.setdefault(container_id, number.lstrip("0"))

    def _say_waiting(self, looks: int) -> None:
        """What is not there yet, once; of what is asked for only where it was not granted by the second look."""
        waiting, asked = len(self._target.waiting), self._target.asked
        if self._printed or self._told_waiting or not (waiting or (asked and looks)):
            return
        parts = []
        if waiting:
            what = self._target.waiting[0] if waiting == 1 else f"{waiting} containers"
            parts.append(f"{what} {'is' if waiting == 1 else 'are'} still queued")
        if asked:
            parts.append(f"{asked} asked for and not granted yet")
        self._printer.note(f"waiting: {', '.join(parts)}")
        self._told_waiting = True

    def _print(self, alone: bool, *, ended: bool) -> bool:
        """Print what is new of every stream; whether there was anything."""
        plain = self._printer.for_people or self._printer.quiet
        raw = alone and plain and not self._style.timestamps and not is_terminal_out()
        moved = False
        for stream in self._streams.values():
            lone = alone and not self._is_beside(stream)
            if raw and lone:
                for block in stream.read():
                    self._printer.raw(block)
                    moved = True
                continue
            lines: list[bytes] = []
            for line in stream.lines(ended=ended):
                lines.append(self._line(stream, line, lone))
                moved = True
                if len(lines) >= _BATCH:
                    self._printer.raw(b"".join(lines))
                    lines.clear()
            if lines:
                self._printer.raw(b"".join(lines))
        self._printed = self._printed or moved
        return moved

    def _line(self, stream: Stream, line: bytes, alone: bool) -> bytes:
        """One line as it is printed: a JSON object, or the text after what stands before it."""
        if self._printer.is_json:
            text = line.decode("utf-8", "backslashreplace")
            return json_line(
                {"id": stream.container_id, "stream": stream.name, "t": _moment(stream), "line": text}
            )
        if self._printer.form == "tsv":
            text = harmless(line.decode("utf-8", "backslashreplace"))
            row = (stream.container_id, stream.name, timestamp(_moment(stream)), text)
            return "\t".join(row).encode("utf-8", "backslashreplace") + b"\n"
        before = b""
        if self._style.timestamps:
            before += _clock(_moment(stream)).encode() + b" "
        if self._style.prefix is not False and not alone:
            number = self._numbers[stream.container_id]
            style = _PREFIX_STYLES[int(number) % len(_PREFIX_STYLES)] if number != "am" else "dim"
            before += paint(f"[{number}]", style, self._printer.color_out).encode() + b" "
        if is_terminal_out():  # control sequences of a container are not for this terminal
            line = harmless(line.decode("utf-8", "backslashreplace"), keep="\t").encode(
                "utf-8", "backslashreplace"
            )
        return before + line + b"\n"


def _moment(stream: Stream) -> int:
    """When the stream was last written to, which is about now while it is followed; in epoch milliseconds."""
    return stream.changed_ms() or time.time_ns() // 1_000_000


def _clock(epoch_ms: int) -> str:
    """Local time with its zone, ISO 8601, to the millisecond."""
    local = time.localtime(epoch_ms / 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}.{epoch_ms % 1000:03d}{time.strftime('%z', local)}"


def _copy(printer: Printer, target: Target, out: str, names: tuple[str, ...]) -> None:
    """Copy the files to ``out``/<container>/<stream>. Raises YoppError where that cannot be written."""
    directories, _ = target.look()
    copied = 0
    for container_id, directory in directories.items():
        for name in names:
            source = os.path.join(directory, name)
            if plain_status(source) is None:
                continue
            place = os.path.join(out, container_id)
            try:
                os.makedirs(place, exist_ok=True)
                if (descriptor := open_plain(source)) is None:
                    continue
                with os.fdopen(descriptor, "rb") as read, open(os.path.join(place, name), "wb") as written:
                    shutil.copyfileobj(read, written)
            except OSError as error:
                raise YoppError(
                    f"cannot copy to {place}",
                    because=str(error.strerror),
                    hint="name a directory you can write",
                ) from None
            copied += 1
    if not copied:
        printer.note("nothing was copied: nothing has been written yet")
        return
    printer.note(f"{copied} files copied to {out}")
