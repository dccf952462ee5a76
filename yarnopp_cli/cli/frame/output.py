"""All output of the command line: results to stdout, messages to stderr, in the requested form.

The only module that writes to the standard streams. Text from other sources (names, diagnostics, log prefixes) is
escaped for a terminal; ids are never shortened, and no text is shortened if stdout is not a terminal.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from executor.hints import TYPE_CHECKING, Any, TypeVar
from executor.light import contextmanager

from ...errors import EXIT_FAILURE, UsageError, YoppError, reason_of
from ...views.text import fitted_all, harmless, harmless_all, json_line, revealed, shorten, widest, width

if TYPE_CHECKING:
    from typing import TextIO

    from ...views.columns import Column

T = TypeVar("T")

FORMS = ("table", "wide", "json", "jsonl", "tsv", "name")
WORDS = ("table", "wide", "json", "jsonl")
"""The forms of an answer that is not a list and has no id."""
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
# The running command's choice, so that its error has the same form.
_errors_as_json = False
_errors_color: str | None = None
# The text that is collected while a frame is drawn; None otherwise.
_collected: list[str] | None = None


class OutputClosedError(YoppError):
    """Standard output cannot be written. ``broken_pipe``: its reader has ended, which is not an error."""

    def __init__(self, error: OSError | ValueError) -> None:
        number = getattr(error, "errno", None)
        self.broken_pipe = number == errno.EPIPE
        super().__init__(
            "cannot write to standard output",
            because="it is closed" if number in (None, errno.EBADF) else reason_of(error),
            hint="redirect it to a file with room, or to /dev/null",
            exit_code=EXIT_FAILURE,
        )


def called_mapred() -> bool:
    """Whether the program was called as `mapred`, Hadoop's command, so that its subcommands apply."""
    return os.path.basename(sys.argv[0]) == "mapred"


def wants_hadoops_codes() -> bool:
    """Whether `dshell` is to end with Hadoop's exit codes."""
    return os.environ.get("YOPP_HADOOP_EXIT", "") not in ("", "0")


class Printer:
    """The output of one command. ``Printer.of`` makes it from the common options.

    ``form`` is one of FORMS; ``quiet`` prints ids only and no notes; ``verbose`` counts ``-v``; ``color`` is
    auto, always or never (None: decided by the environment).
    """

    def __init__(
        self,
        form: str = "table",
        *,
        quiet: bool = False,
        verbose: int = 0,
        color: str | None = None,
        progress: bool = True,
    ) -> None:
        self.form = form
        self.quiet = quiet
        self.verbose = verbose
        self.color = color
        """The value of --color."""
        self.color_out = _colored(sys.stdout, color)
        self.color_err = _colored(sys.stderr, color)
        self.as_mapred = called_mapred()
        self.as_yarn = self.as_mapred or os.path.basename(sys.argv[0]) == "yarn"
        """Whether the program was called as `yarn`: lists and reports then have YARN's layout."""
        self.may_tell_progress = progress
        """Whether --no-progress is not given: lines of progress are printed if no progress line can be drawn."""
        self.progress = (
            progress and not quiet and is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        )

    @classmethod
    def of(
        cls,
        *,
        output: Any = None,
        json: bool = False,
        quiet: bool = False,
        verbose: int = 0,
        color: Any = None,
        no_progress: bool = False,
        forms: Sequence[str] = FORMS,
    ) -> Printer:
        """Make a printer from the values of the common options; ``YOPP_OUTPUT`` replaces a missing ``-o``.

        Raises UsageError for two forms at once (``-q`` means ``-o name`` and silence on stderr), and for a form that
        is not in ``forms``, the forms of the command.
        """
        global _errors_as_json, _errors_color
        _errors_color = getattr(color, "value", color)
        chosen = getattr(output, "value", output)
        if json and chosen not in (None, "json", "jsonl"):
            raise UsageError.exclusive(f"--json and -o {chosen}", "each selects the form of the output")
        if quiet and (json or chosen not in (None, "name")):
            other = "--json" if json else f"-o {chosen}"
            raise UsageError.exclusive(
                f"-q and {other}", "-q prints ids only, as -o name does; 2>/dev/null silences stderr alone"
            )
        chosen = "name" if quiet else chosen or ("json" if json else None)
        if chosen is None:
            chosen = os.environ.get("YOPP_OUTPUT") or "table"
            if chosen not in FORMS:
                raise UsageError(
                    f"YOPP_OUTPUT is {chosen!r}, which is not an output format",
                    because="it replaces -o if neither -o nor --json is given",
                    hint=f"use one of {', '.join(FORMS)}",
                )
            chosen = chosen if chosen in forms else "table"
        if chosen not in forms and not quiet:
            raise UsageError(
                f"-o {chosen} is not supported here",
                because="the output is not a table",
                hint=f"use one of {', '.join(forms)}",
            )
        _errors_as_json = chosen in ("json", "jsonl")
        return cls(chosen, quiet=quiet, verbose=verbose, color=_errors_color, progress=not no_progress)

    @property
    def is_json(self) -> bool:
        """Whether stdout carries only JSON."""
        return self.form in ("json", "jsonl")

    @property
    def ids_only(self) -> bool:
        """Whether stdout carries only ids."""
        return self.quiet or self.form == "name"

    @property
    def for_people(self) -> bool:
        """Whether the output is for users: text or a table."""
        return self.form in ("table", "wide") and not self.quiet

    def text(self, text: str) -> None:
        """Print one or several lines of an answer on stdout."""
        _write(harmless(text, keep="\n\t") + "\n")

    def document(self, value: Any) -> None:
        """Print one JSON value on stdout: on one line, or indented for a reader at a terminal."""
        write_bytes(json_line(value, indent=2 if self.form == "json" and is_terminal_out() else None))

    def stream_line(self, value: Any) -> None:
        """Print one object of a stream, on one line."""
        write_bytes(json_line(value))

    def raw(self, data: bytes) -> None:
        """Pass bytes through to stdout as they are."""
        write_bytes(data)

    def note(self, text: str) -> None:
        """Print a message on stderr, unless quiet."""
        if not self.quiet:
            # In a picture that is redrawn, a separate line would tear the picture.
            talk = _talk if _collected is None else _write
            talk(harmless(text, keep="\n") + "\n")

    def warn(self, text: str) -> None:
        """Print a warning on stderr, even if quiet."""
        prefix = paint("warning:", "yellow", self.color_err)
        _talk(f"{prefix} {revealed(text)}\n")

    def status_line(self, text: str, bar: Sequence[tuple[str, str]] = ()) -> None:
        """Replace the progress line on a terminal's stderr; an empty text removes it. Without a terminal, do nothing.

        ``bar`` precedes it: pieces of text, each with its style; it is omitted on a narrow terminal.
        """
        if self.progress:
            columns = max(10, terminal_size().columns - 1)
            drawn, taken = "", 0
            if bar and columns >= sum(len(piece) for piece, _ in bar) + 30:
                drawn = "[" + "".join(paint(piece, style, self.color_err) for piece, style in bar) + "] "
                taken = sum(len(piece) for piece, _ in bar) + 3
            _talk("\r\x1b[K" + drawn + shorten(harmless(text), columns - taken))

    def clear_screen(self) -> None:
        """Empty the terminal, for a list that is printed again."""
        _write("\x1b[H\x1b[2J")

    @contextmanager
    def frame(self, title: str) -> Iterator[None]:
        """Draw the output over the previous output on the terminal, as far as it fits."""
        global _collected
        _collected = [f"{title}\n"] if title else []
        try:
            yield
        finally:
            text, _collected = "".join(_collected), None
        lines = text.rstrip("\n").split("\n")
        rows = max(2, terminal_size().lines - 1)
        if len(lines) > rows:
            lines = [*lines[: rows - 1], f"… {len(lines) - rows + 1} more lines"]
        _write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")

    def listing(
        self,
        rows: Sequence[T],
        columns: Sequence[Column[T]],
        *,
        documents: Callable[[Sequence[T]], Any],
        document: Callable[[T], Mapping[str, Any]],
        identity: Callable[[T], str],
        empty: str = "",
        header: bool = True,
        whole: bool = False,
    ) -> None:
        """Print ``rows`` in the chosen form: table, one JSON document, one a line, tab-separated, or ids.

        A table on a terminal leaves out dispensable columns if the table does not fit, and prints their names, unless
        ``whole``.

        Tab-separated rows have the columns of the table and exactly the texts of its cells, under the columns' keys.
        """
        if self.form == "json":
            self.document(documents(rows))
        elif self.form == "jsonl":
            for row in rows:
                self.document(document(row))
        elif self.ids_only:
            self.ids(identity(row) for row in rows)
        elif self.form == "tsv":
            self.separated(
                [column.key for column in columns] if header else (),
                ([column.cell(row) for column in columns] for row in rows),
            )
        elif rows:
            self._table(rows, columns, header=header, whole=whole or self.form == "wide")
        elif empty:
            self.note(empty)

    def ids(self, ids: Iterable[str]) -> None:
        """Print ids, one a line."""
        _write("".join(f"{harmless(one)}\n" for one in ids))

    def separated(self, keys: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> None:
        """Print rows of texts with tabs between them, under a line of their keys if there are any; a tab within a
        text is printed as ``\\t``."""
        lines = ["\t".join(keys)] if keys else []
        lines += ["\t".join(harmless(text) for text in row) for row in rows]
        _write("".join(f"{line}\n" for line in lines))

    def answer(
        self,
        document: Any,
        text: str,
        *,
        ids: Iterable[str] = (),
        table: tuple[Sequence[str], Iterable[Sequence[str]]] = ((), ()),
    ) -> None:
        """Print one answer in the chosen form: ``document`` as JSON, ``ids``, the keys and rows of ``table``
        tab-separated, or ``text`` for users."""
        if self.is_json:
            self.document(document)
        elif self.ids_only:
            self.ids(ids)
        elif self.form == "tsv":
            self.separated(*table)
        elif text:
            self.text(text)

    def _table(
        self, rows: Sequence[T], columns: Sequence[Column[T]], *, header: bool = True, whole: bool = True
    ) -> None:
        cells = [harmless_all([column.cell(row) for row in rows]) for column in columns]
        widths, omitted = _widths(columns, cells), ""
        if is_terminal(sys.stdout):
            from ...views.columns import that_fit

            available = terminal_size().columns
            if not whole:
                if len(that_fit(columns, cells, _least(columns, widths), available, 2)) < len(columns):
                    short = [one.short or one.cell for one in columns]
                    cells = [harmless_all([text(row) for row in rows]) for text in short]
                    widths = _widths(columns, cells)
                places = that_fit(columns, cells, _least(columns, widths), available, 2)
                omitted = ", ".join(one.title for i, one in enumerate(columns) if i not in places)
                columns, widths = [columns[i] for i in places], [widths[i] for i in places]
                cells = [cells[i] for i in places]
            widths = _fit(widths, columns, available)
        if header:
            cells = [[column.title, *texts] for column, texts in zip(columns, cells, strict=True)]
        drawn = [
            fitted_all(texts, wide, right=column.numeric)
            for texts, wide, column in zip(cells, widths, columns, strict=True)
        ]
        if self.color_out:
            drawn = [self._painted(texts, header) for texts in drawn]
        _write("".join("  ".join(parts).rstrip() + "\n" for parts in zip(*drawn, strict=True)))
        if omitted:
            self.note(f"hidden columns: {omitted} (-o wide shows all)")

    def _painted(self, texts: list[str], header: bool) -> list[str]:
        """The texts of a column in their colours; the first one may be its title."""

        def painted(part: str, tone: Callable[[str], str]) -> str:
            word = part.strip()
            return part.replace(word, tone(word)) if word else part

        titles = [painted(text, lambda word: paint(word, "bold", True)) for text in texts[:header]]
        return titles + [painted(text, self._toned) for text in texts[header:]]

    def _toned(self, word: str) -> str:
        """The word of a state in its colour; any other text unchanged."""
        style = _styles().get(word) if self.color_out else None
        return paint(word, style, True) if style else word

    def fields(self, pairs: Sequence[tuple[str, str]], *, apart: bool = False) -> None:
        """Print ``name: value`` lines, values aligned; further lines of a value are indented under it. ``apart``: after
        an empty line."""
        longest = max((width(name) for name, _ in pairs), default=0)
        lines = []
        for name, value in pairs:
            shown = self._toned(harmless(value, keep="\n").replace("\n", "\n" + " " * (longest + 3)))
            lines.append(f"{name:>{longest}} : {shown}".rstrip())
        _write("\n" * apart + "\n".join(lines) + "\n")

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Ask on stderr and return the answer. Raises UsageError without a terminal and without ``yes``."""
        if yes:
            return True
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise UsageError(
                "nothing was changed",
                because=f"there is no terminal for the question: {question}",
                hint="-y answers yes",
            )
        _talk(f"{harmless(question)} [y/N] ")
        answer = ""
        try:
            answer = sys.stdin.readline()
        finally:
            if not answer:
                _talk("\n")
        return answer.strip().lower() in ("y", "yes")


@cache
def _styles() -> Mapping[str, str]:
    """The style of each state. Made late: a command without tables needs no columns."""
    from ...views.columns import BAD, DIM, GOOD, STATE_TONES, WARN

    styles = {GOOD: "green", WARN: "yellow", BAD: "red", DIM: "dim"}
    return {state: styles[tone] for state, tone in STATE_TONES.items()}


def _widths(columns: Sequence[Column[Any]], cells: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column with its cells."""
    return [max(width(one.title), widest(texts)) for one, texts in zip(columns, cells, strict=True)]


def _least(columns: Sequence[Column[Any]], widths: Sequence[int]) -> list[int]:
    """The least width of each column: some columns may be shortened."""
    return [min(cells, 12) if one.flexible else cells for cells, one in zip(widths, columns, strict=True)]


def _fit(widths: list[int], columns: Sequence[Column[Any]], available: int) -> list[int]:
    """Shorten the flexible columns, widest first, until the table fits; ids and numbers keep their width."""
    fitted = list(widths)
    over = sum(fitted) + 2 * (len(fitted) - 1) - available
    while over > 0:
        flexible = [i for i, column in enumerate(columns) if column.flexible and fitted[i] > 12]
        if not flexible:
            break
        broadest = max(flexible, key=lambda i: fitted[i])
        taken = min(over, fitted[broadest] - 12)
        fitted[broadest] -= taken
        over -= taken
    return fitted


def paint(text: str, style: str, wanted: bool) -> str:
    """``text`` in a style's colour, if colours are wanted."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if wanted and text else text


def _colored(stream: TextIO, mode: str | None) -> bool:
    """Whether to colour: ``--color``, then NO_COLOR, CLICOLOR_FORCE, CLICOLOR=0, then whether it is a
    terminal.
    """
    if mode in ("always", "never"):
        return mode == "always"
    if mode != "auto":
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
            return True
        if os.environ.get("CLICOLOR") == "0":
            return False
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed one is not."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def terminal_size() -> os.terminal_size:
    """The columns and lines of the terminal, or the values of COLUMNS and LINES, or 80 by 24."""
    import shutil  # Imported late: it is needed only for a terminal.

    return shutil.get_terminal_size()


def is_terminal_out() -> bool:
    """Whether standard output is a terminal."""
    return is_terminal(sys.stdout)


def error(problem: YoppError) -> None:
    """Print an error on stderr: three lines, or one JSON object in YARN's form if JSON was requested."""
    if _errors_as_json:
        from ...views.cluster import error_document

        write_error_bytes(json_line(error_document(problem)))
        return
    mark = paint("error:", "red", _colored(sys.stderr, _errors_color))
    lines = [f"{mark} {revealed(problem.message.rstrip())}"]
    if problem.because:
        lines.append(f"  because: {revealed(problem.because)}")
    if problem.hint:
        lines.append(f"  hint: {revealed(problem.hint)}")
    _talk("\n".join(lines) + "\n")


def reset(*, json_wanted: bool, color: str | None = None) -> None:
    """Begin a new command line; both arguments set the form of its errors until its options are parsed."""
    global _errors_as_json, _errors_color
    _errors_as_json, _errors_color = json_wanted, color


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout at once. Raises OutputClosedError."""
    try:
        sys.stdout.flush()
        if data:  # An unbuffered stream would write no bytes, and notice that its terminal has gone.
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    except (OSError, ValueError) as problem:
        raise OutputClosedError(problem) from problem


def write_error_bytes(data: bytes) -> None:
    """Write bytes to stderr at once; errors are ignored."""
    try:
        sys.stderr.flush()
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
    except (OSError, ValueError):
        abandon(sys.stderr)


def flush() -> None:
    """Flush stdout. Raises OutputClosedError."""
    write_bytes(b"")


def abandon(stream: TextIO) -> None:
    """Point a stream's descriptor at /dev/null, so that its buffer can be dropped without an error."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
    except (OSError, ValueError):
        pass


def _write(text: str) -> None:
    if _collected is not None:
        _collected.append(text)
        return
    encoding = "utf-8" if text.isascii() else (sys.stdout.encoding or "utf-8")
    write_bytes(text.encode(encoding, "backslashreplace"))


def _talk(text: str) -> None:
    encoding = sys.stderr.encoding or "utf-8"
    write_error_bytes(text.encode(encoding, "backslashreplace"))
