"""``yopp logs``: print or follow the output of containers, of running and of ended clusters."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from dataclasses import dataclass

from executor.hints import TYPE_CHECKING, Any

from ...errors import UsageError, YoppError, reason_of
from ...jobs.logfiles import STREAMS, Stream, open_plain, plain_status, streams_of
from ...records.times import timestamp
from ...views.columns import NUMBER, Column
from ...views.text import harmless, json_line
from ..frame.command import command
from ..frame.naming import words
from ..frame.options import HERE_ONLY, Annotated, JobIds, moment, option
from ..frame.output import Printer, is_terminal_out, paint
from ..frame.session import Session
from .logtarget import Target, elsewhere, fetched, find

if TYPE_CHECKING:
    from ...client.yarn import YarnClient

_POLL_SECONDS = 0.05
_BATCH = 1000
_ASK_SECONDS = 0.25
_PREFIX_STYLES = ("cyan", "green", "yellow", "blue")


@dataclass(frozen=True, slots=True)
class Style:
    """The lines that are printed: of which streams, with which prefix, and from which position. ``chosen``: the
    streams were named."""

    names: tuple[str, ...]
    chosen: bool
    prefix: bool
    timestamps: bool
    tail: int | None
    since_ms: int


Follow = Annotated[
    bool,
    option("-f, --follow", "Follow the output until the end; wait for containers that are still queued."),
    HERE_ONLY,
]
Tail = Annotated[int | None, option("--tail N", "Only the last N lines of each file.", min=0)]
Since = Annotated[
    int | None,
    option("--since T", "Only files modified since this time: 10m, 2026-01-31T12:00Z.", parser=moment),
    HERE_ONLY,
]
Stdout = Annotated[bool, option("--stdout", "Standard output only.")]
Stderr = Annotated[bool, option("--stderr", "Standard error only.")]
NoPrefix = Annotated[bool, option("--no-prefix", "No task number before each line.")]
Timestamps = Annotated[
    bool,
    option("--timestamps", "Show when each line was read (for old lines: when the file was last modified)."),
    HERE_ONLY,
]
Out = Annotated[str | None, option("--out DIR", "Copy the files to DIR/<container>/ instead."), HERE_ONLY]
Size = Annotated[
    int | None, option("--bytes N", "The first N bytes of each file; with -N the last ones."), HERE_ONLY
]
Files = Annotated[bool, option("--files", "List the log files and their sizes."), HERE_ONLY]
Masters = Annotated[bool, option("--am", "Only the log of the application's master.")]
WithCode = Annotated[
    bool, option("--exit-code", "Exit with the exit code of the containers shown."), HERE_ONLY
]


@command("logs", "yopp logs -f last", "yopp logs 3.2 --stderr --tail 20", yarn=True)
def logs(
    session: Session,
    ids: JobIds,
    follow: Follow = False,
    tail: Tail = None,
    since: Since = None,
    stdout: Stdout = False,
    stderr: Stderr = False,
    no_prefix: NoPrefix = False,
    timestamps: Timestamps = False,
    out: Out = None,
    size: Size = None,
    files: Files = False,
    masters: Masters = False,
    exit_code: WithCode = False,
) -> int:
    """Print the output of one container, or of all containers of an application, with their tasks' numbers.

    The log of a master (its stderr) is left out unless its job fails. With -f, it then follows at the end, in
    one block. --am or --stderr shows it from the start.

    With -f, Ctrl-C only stops watching. Output of a cluster that has ended is found too.
    """
    printer = session.printer
    if follow and (files or size is not None):
        raise UsageError(
            "-f cannot be used with --bytes or --files",
            because="these options show files as they are now",
            hint="--tail N -f",
        )
    names = tuple(name for name, wanted in zip(STREAMS, (stdout, stderr), strict=True) if wanted) or STREAMS
    style = Style(names, stdout or stderr, not no_prefix, timestamps, tail, since or 0)
    if session.yarn is not None:
        _print_fetched(session.yarn, printer, words(ids), style, masters)
        return 0
    target = find(session, words(ids), masters_only=masters)
    if out is not None:
        _copy(printer, target, out, names)
    elif files:
        _list_files(printer, target, names)
    elif printer.form == "name" and not printer.quiet:
        printer.ids(dict.fromkeys(one.container for one in files_of(target, names)))
    elif size is not None:
        _print_bytes(printer, target, names, size)
    else:
        if follow and target.client is not None:
            session.be_patient()
        _Reader(printer, target, style).run(follow=follow)
    return target.code if exit_code else 0


def _print_fetched(
    yarn: YarnClient, printer: Printer, named: list[str], style: Style, masters_only: bool
) -> None:
    lines, only, shown = _LinePrinter(printer, style), style.names if style.chosen else (), False
    found = fetched(yarn, printer.note, named, only=only, masters_only=masters_only, tail=style.tail)
    for stream, mark in found:
        lines.print(stream, mark, ended=True)
        shown = True
    if not shown:
        printer.note(
            "nothing was written, or it has been aggregated: `yarn logs -applicationId ID` prints aggregated logs"
        )


class _LinePrinter:
    """Prints the new output of streams: lines with prefixes, or the bytes unchanged."""

    def __init__(self, printer: Printer, style: Style) -> None:
        self._printer = printer
        self._style = style
        if printer.form == "tsv":
            printer.separated(("id", "stream", "t", "line"))

    def print(self, stream: Stream, mark: str, *, ended: bool) -> bool:
        """Print the new output of a stream. Returns whether there was any. ``mark`` is its task's number, "" if it is
        the only one."""
        plain = self._printer.for_people or self._printer.quiet
        mark = mark if self._style.prefix else ""
        moved = False
        if plain and not (mark or self._style.timestamps or is_terminal_out()):
            for block in stream.read():
                self._printer.raw(block)
                moved = True
            return moved
        lines = (self._line(stream, line, mark) for line in stream.lines(ended=ended))
        while batch := b"".join(itertools.islice(lines, _BATCH)):
            self._printer.raw(batch)
            moved = True
        return moved

    def _line(self, stream: Stream, line: bytes, mark: str) -> bytes:
        """One line as printed: a JSON object, or the prefix and the text."""
        text = line.decode("utf-8", "backslashreplace")
        container, name, at = stream.container_id, stream.name, stream.changed_ms()
        if self._printer.is_json:
            return json_line({"id": container, "stream": name, "t": at or None, "line": text})
        if self._printer.form == "tsv":
            row = (container, name, timestamp(at), harmless(text))
            return "\t".join(row).encode("utf-8", "backslashreplace") + b"\n"
        before = b""
        if self._style.timestamps:
            before += _clock(at).encode() + b" "
        if mark:
            style = _PREFIX_STYLES[int(mark) % len(_PREFIX_STYLES)] if mark != "am" else "dim"
            before += paint(f"[{mark}]", style, self._printer.color_out).encode() + b" "
        if is_terminal_out():  # Control sequences of a container must not reach this terminal.
            line = harmless(text, keep="\t").encode("utf-8", "backslashreplace")
        return before + line + b"\n"


def _clock(epoch_ms: int) -> str:
    """Local time with its zone, ISO 8601, to the millisecond."""
    local = time.localtime(epoch_ms / 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}.{epoch_ms % 1000:03d}{time.strftime('%z', local)}"


class _Reader:
    """Prints the streams of a target, once or as they grow."""

    def __init__(self, printer: Printer, target: Target, style: Style) -> None:
        self._printer = printer
        self._target = target
        self._style = style
        self._lines = _LinePrinter(printer, style)
        self._streams: dict[tuple[str, str], Stream] = {}
        self._told_waiting = False
        self._printed = False

    def run(self, *, follow: bool) -> None:
        """Print the present output; with ``follow``, continue until all containers have ended."""
        directories, ended = self._target.look()
        alone = self._is_alone(directories, follow=follow)
        self._open(directories, first=True)
        if not follow:
            self._print(alone, ended=True)
            if not self._printed and not self._printer.is_json:
                self._say_nothing("no output" if ended else "no output yet (-f waits for it)")
            return
        asked, looks = time.monotonic(), 0
        while True:
            self._say_waiting(looks)
            moved = self._print(alone, ended=ended)
            if ended:
                if self._target.lost:
                    self._printer.note("the cluster has ended: its output is no longer followed")
                elif not self._printed and not self._printer.is_json:
                    self._say_nothing()
                return
            if not moved:
                time.sleep(_POLL_SECONDS)
            if time.monotonic() - asked >= _ASK_SECONDS:
                directories, ended = self._target.look()
                asked, looks = time.monotonic(), looks + 1
                self._open(directories, first=False)

    def _say_nothing(self, otherwise: str = "") -> None:
        places = elsewhere(self._target)
        if told := f"the output is in {', '.join(places)} (--results)" if places else otherwise:
            self._printer.note(told)

    def _is_alone(self, directories: dict[str, str], *, follow: bool) -> bool:
        """Whether only one container is, or will be, shown, so that its lines need no number."""
        if not self._target.application_ids:
            return len(self._target.container_ids) == 1
        if follow and self._target.client is not None:
            return self._target.expected == 1 and not self._target.container_ids
        written = [
            directory
            for one, directory in directories.items()
            if any(stream.size() for stream in streams_of(one, directory, self._names(one)))
        ]
        return len(written) <= 1 and (self._target.masters_only or not self._target.several)

    def _names(self, container_id: str) -> tuple[str, ...]:
        """The streams of a container that are shown."""
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

    def _say_waiting(self, looks: int) -> None:
        """Print once which containers are still missing; requested containers only if they are not granted at the
        second look."""
        waiting, asked = len(self._target.waiting), self._target.asked
        if self._printed or self._told_waiting or not (waiting or (asked and looks)):
            return
        parts = []
        if waiting:
            what = self._target.waiting[0] if waiting == 1 else f"{waiting} containers"
            parts.append(f"{what} {'is' if waiting == 1 else 'are'} still queued")
        if asked:
            parts.append(f"{asked} not granted yet")
        self._printer.note(f"waiting: {', '.join(parts)}")
        self._told_waiting = True

    def _print(self, alone: bool, *, ended: bool) -> bool:
        """Print the new output of every stream. Returns whether there was any."""
        several = len({container_id for container_id, _ in self._streams}) > 1
        moved = False
        for stream in self._streams.values():
            # A master's log is beside the output of the only container of its job.
            is_master = stream.container_id in self._target.masters
            number = "am" if is_master else self._target.mark(stream.container_id)
            mark = number if not alone or (is_master and several) else ""
            moved = self._lines.print(stream, mark, ended=ended) or moved
        self._printed = self._printed or moved
        return moved


def _copy(printer: Printer, target: Target, out: str, names: tuple[str, ...]) -> None:
    """Copy the files to ``out``/<container>/<stream>. Raises YoppError if they cannot be written."""
    copied = 0
    for one in files_of(target, names):
        place = os.path.join(out, one.container)
        try:
            os.makedirs(place, exist_ok=True)
            if (descriptor := open_plain(one.path)) is None:
                continue
            with os.fdopen(descriptor, "rb") as read, open(os.path.join(place, one.name), "wb") as written:
                shutil.copyfileobj(read, written)
        except OSError as error:
            raise YoppError(
                f"cannot copy to {place}",
                because=reason_of(error),
                hint="name a directory that you can write to",
            ) from None
        copied += 1
    printer.note(
        f"{copied} files copied to {out}" if copied else "no file was copied: there is no output yet"
    )


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One file of one container; ``written_ms`` in epoch milliseconds."""

    container: str
    name: str
    path: str
    size: int
    written_ms: int


COLUMNS: tuple[Column[OutputFile], ...] = (
    Column("container", "CONTAINER", lambda one: one.container),
    Column("file", "LOG FILE", lambda one: one.name),
    Column("size", "SIZE", lambda one: one.size, kind=NUMBER),
    Column("written", "LAST WRITTEN", lambda one: one.written_ms, lambda one: timestamp(one.written_ms)),
    Column("path", "PATH", lambda one: one.path, flexible=True),
)


def files_of(target: Target, names: tuple[str, ...]) -> list[OutputFile]:
    """The existing log files, by container."""
    directories, _ = target.look()
    found = []
    for container, directory in directories.items():
        for name in names:
            path = os.path.join(directory, name)
            if (status := plain_status(path)) is not None:
                found.append(
                    OutputFile(container, name, path, status.st_size, status.st_mtime_ns // 1_000_000)
                )
    return found


def document(one: OutputFile) -> dict[str, Any]:
    """YARN's ContainerLogFileInfo, with the container."""
    return {
        "container": one.container,
        "fileName": one.name,
        "fileSize": str(one.size),
        "lastModifiedTime": timestamp(one.written_ms),
        "yopp": {"path": one.path, "size": one.size, "writtenAt": one.written_ms},
    }


def _list_files(printer: Printer, target: Target, names: tuple[str, ...]) -> None:
    """Print the list of log files."""
    printer.listing(
        files_of(target, names),
        COLUMNS,
        documents=lambda rows: {"containerLogInfo": [document(one) for one in rows]},
        document=document,
        identity=lambda one: one.path,
        empty="no log files yet",
    )


def _print_bytes(printer: Printer, target: Target, names: tuple[str, ...], size: int) -> None:
    """Print the first ``size`` bytes of each file, or the last ones for a negative ``size``."""
    found = [one for one in files_of(target, names) if one.size]
    for one in found:
        descriptor = open_plain(one.path)
        if descriptor is None:
            continue
        try:
            with os.fdopen(descriptor, "rb") as file:
                if size < 0:
                    file.seek(max(0, one.size + size))
                data = file.read(abs(size))
        except OSError:
            continue
        if len(found) > 1:
            printer.text(f"==> {one.container} {one.name} <==")
        printer.raw(data)
        if len(found) > 1 and data and not data.endswith(b"\n"):
            printer.raw(b"\n")
