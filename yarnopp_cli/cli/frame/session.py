"""The session of a command: the printer, the cluster, and the values of the common options."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType

from executor.hints import TYPE_CHECKING, Any, TypeVar
from executor.light import Record

from ...cluster.rundir import RunDir
from ...errors import ConnectionFailedError, UsageError
from ...records.times import timestamp
from .output import Printer, is_terminal_out

if TYPE_CHECKING:
    from ...client.choice import Choice as EngineChoice
    from ...client.local import LocalClient
    from ...client.protocol import Client
    from ...client.yarn import YarnClient
    from ...settings.loading import Configuration
    from ...views.columns import Column, Noun
    from ...views.yarn import Layout

T = TypeVar("T")


class Context(Record):
    """The place and configuration of a command. Making it reads no file; ``configuration`` is loaded at its first
    use."""

    __slots__ = ("__dict__",)
    run_dir: RunDir
    conf: tuple[str, ...]
    define: tuple[str, ...]
    looks: bool = False

    @classmethod
    def of(
        cls,
        *,
        conf: Sequence[str] | None = None,
        define: Sequence[str] | None = None,
        run_dir: str | None = None,
        looks: bool = False,
    ) -> Context:
        """Make one from the values of ``--conf``, ``-D`` and ``--run-dir``. ``looks`` is for commands that need no
        property: named files (also by YOPP_CONF) are checked, and no others are read. Raises ConfigurationError, and
        YoppError if there can be no run directory."""
        home = os.path.expanduser("~")
        resolved = RunDir.resolve(run_dir, os.environ, os.getuid(), "" if home == "~" else home)
        context = cls(resolved, tuple(conf or ()), tuple(define or ()), looks)
        if looks and (context.names_files or define):
            _ = context.configuration
        return context

    @property
    def names_files(self) -> bool:
        """Whether the command line or YOPP_CONF names files."""
        return bool(self.conf or os.environ.get("YOPP_CONF"))

    def warn_of_slips(self, printer: Printer) -> None:
        """Warn of names in the named files that are nearly those of properties. Other commands print this with all
        other warnings."""
        if self.looks and self.names_files and not printer.quiet:
            from ...settings.loading import misspelt

            for line in misspelt(self.configuration.warnings):
                printer.warn(line)

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration of this command line. Raises ConfigurationError."""
        from ...settings.loading import load

        return load(self.conf, self.define, environ=os.environ, state_dir=self.run_dir.state_dir)

    def client(self, printer: Printer | None = None) -> LocalClient:
        """A client connected to the ResourceManager. Raises ConnectionFailedError (exit 69, hint ``yopp up``).

        With -v, calls are logged to stderr; with -vv, also requests and answers.
        """
        from ...client.local import LocalClient

        self.run_dir.check()
        if printer is not None:
            self.warn_of_slips(printer)
        if printer is None or not printer.verbose:
            return LocalClient(self.run_dir.rm_socket)
        printer.note(f"run directory {self.run_dir.path}")
        return LocalClient(self.run_dir.rm_socket, trace=printer.note, trace_messages=printer.verbose > 1)


class ListChoice(Record):
    """The values of ``--columns``, ``--sort`` and ``--limit``. ``newest``: the limit keeps the last rows of an
    unsorted list."""

    columns: str | None = None
    sort: str | None = None
    limit: int | None = None
    newest: bool = False


class Session(Record, frozen=False):
    """One run of a command. The frame makes it from the options that all commands have, and closes it.

    ``timeout`` is None if --timeout is not given or if the frame enforces it.
    """

    __slots__ = ("__dict__",)
    printer: Printer
    place: Context | None
    yes: bool = False
    timeout: float | None = None
    picked: ListChoice | None = None
    states: tuple[str, ...] = ()
    """The words of ``--state``, each a state of the noun."""
    watch: float | None = None
    engine: EngineChoice | None = None
    """The chosen engine, for a command on a cluster."""
    dry_run: bool = False
    """Whether the command only shows what would happen (declared with ``tries=``)."""
    no_wait: bool = False
    """Whether the command is to return at once, if it was declared with ``waits=``."""

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in ("client", "yarn"):
            if self.__dict__.get(opened) is not None:
                self.__dict__[opened].close()

    @cached_property
    def now_ms(self) -> int:
        """The present time, to which times in tables and documents are counted."""
        from ...clock import now_ms

        return now_ms()

    # -- the cluster -------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The place and configuration of a command that has a cluster."""
        assert self.place is not None, "the command is declared to need nothing"
        return self.place

    @property
    def run_dir(self) -> RunDir:
        """The run directory of this host's cluster."""
        return self.context.run_dir

    @property
    def configuration(self) -> Configuration:
        """The configuration of this command line, read at its first use. Raises ConfigurationError."""
        return self.context.configuration

    @cached_property
    def of_jobs(self) -> Configuration:
        """The configuration of a job: the properties with which the running cluster was started, below the command
        line's (``Configuration.beside``); without a cluster, this command's. Raises ConfigurationError."""
        site = self.run_dir.read("site.json")
        if site is None or self.run_dir.daemon("rm") is None:
            return self.configuration
        return self.configuration.beside(site, named=self.context.names_files)

    def configured(self) -> Configuration:
        """The configuration, with its warnings printed: for commands that start daemons with it."""
        for line in self.configuration.warnings:
            self.printer.warn(line)
        return self.configuration

    @cached_property
    def client(self) -> LocalClient:
        """This host's cluster; connects at the first use, and waits for an RM that another daemon is restarting.
        Raises ConnectionFailedError (exit 69, hint ``yopp up``)."""
        try:
            return self.context.client(self.printer)
        except ConnectionFailedError as error:
            lost = error
        from ...client.patience import Patience
        from ...cluster.state import is_returning

        patience = Patience(self.printer.note, lambda: True)
        while is_returning(self.run_dir):
            patience.lost(lost)
            try:
                client = self.context.client(self.printer)
            except ConnectionFailedError as error:
                lost = error
            else:
                patience.found()
                return client
        raise lost

    def be_patient(self) -> None:
        """Retry calls for a while if the ResourceManager of this host is lost: for a command that runs for long, and
        changes nothing."""
        if self.yarn is not None:
            return
        from ...cluster.state import may_return

        self.client.be_patient(self.printer.note, lambda: may_return(self.run_dir))

    @cached_property
    def yarn(self) -> YarnClient | None:
        """The YARN cluster, if the engine is YARN."""
        if self.engine is None or self.engine.name != "yarn":
            return None
        from .engine_options import connected

        return connected(self.engine, self.printer)

    @property
    def cluster(self) -> Client:
        """The cluster of the command line, for a command that was declared with ``yarn=``."""
        return self.client if self.yarn is None else self.yarn

    # -- lists and details -------------------------------------------------------------------------------------

    @property
    def choice(self) -> ListChoice:
        """The choice of ``--sort``, ``--columns`` and ``--limit``, for a command that was declared with ``lists=``."""
        assert self.picked is not None, "the command is declared without lists="
        return self.picked

    def repeat(self, once: Callable[[], None]) -> None:
        """Run ``once``; with ``--watch`` again and again until Ctrl-C: in place on a terminal, else with the time
        before each table."""
        if self.watch is None:
            once()
            return
        printer = self.printer
        in_place = is_terminal_out() and not printer.is_json
        self.be_patient()
        if in_place:
            printer.clear_screen()
        while True:
            self.__dict__.pop("now_ms", None)
            if self.yarn is not None:
                self.yarn.forget()
            now = timestamp(self.now_ms) if printer.for_people else ""
            if in_place:
                with printer.frame(f"{now}, every {self.watch:g} s (Ctrl-C ends)" if now else ""):
                    once()
            else:
                if now:
                    printer.text(now)
                once()
            time.sleep(self.watch)

    def show(
        self,
        noun: Noun[T],
        rows: Sequence[T],
        *,
        empty: str = "",
        document: Callable[[T], Mapping[str, Any]] | None = None,
        filters: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Print a list in the chosen form, with the chosen columns.

        ``filters`` are the filters that YARN's layout prints. ``document`` replaces the noun's own. Documents of a
        YARN cluster are printed as received, and JSON of a whole answer byte by byte. In jsonl, a row with chosen
        columns is one flat object of their values."""
        from ...views.columns import choose, default_columns, sort

        one = document or (lambda row: noun.document(row, self.now_ms))
        choice, columns = self.choice, self._columns(noun, rows)
        if self.yarn is not None:
            one = self.yarn.document_of
            if self.printer.form == "json" and choice.sort is None and choice.limit is None:
                body = self.yarn.body_of(rows)
                if body is not None:
                    self.raw(body)
                    return
        flat = one
        shown = default_columns(columns, wide=self.printer.form == "wide")
        if choice.columns:
            shown = choose(columns, choice.columns)
            flat = lambda row: {column.key: column.value(row) for column in shown}  # noqa: E731
        ordered = sort(rows, columns, choice.sort) if choice.sort else rows
        if choice.newest and choice.limit is not None and not choice.sort:
            ordered = ordered[max(0, len(ordered) - choice.limit) :]
        layout = self._yarns_layout(noun)
        if layout is not None and layout.columns and not choice.columns:
            wide = self.printer.form == "wide"
            self.printer.text(layout.table(ordered[: choice.limit], filters or {}, details=wide))
            return
        self.printer.listing(
            ordered[: choice.limit],
            shown,
            documents=lambda listed: noun.documents([one(row) for row in listed]),
            document=flat,
            identity=noun.identity,
            empty=empty,
            whole=bool(choice.columns),
        )

    def details(
        self,
        noun: Noun[T],
        rows: Sequence[T],
        *,
        document: Callable[[T], Mapping[str, Any]] | None = None,
        fields: Callable[[T], Sequence[tuple[str, str]]] | None = None,
        answer: Callable[[T], Mapping[str, Any]] | None = None,
    ) -> None:
        """Print one or several entities in full. ``document`` and ``fields`` replace the noun's own; ``answer`` is the
        answer of REST to the same change, and precedes the document in JSON. Documents of a YARN cluster are printed
        as in ``show``."""
        yarn = self.yarn
        if yarn is not None and self.printer.is_json:
            for row in rows:
                body = yarn.body_of([row], single=True)
                if body is not None:
                    self.raw(body)
                else:
                    self.printer.document({noun.singular: yarn.document_of(row)})
            return
        lines = fields or (lambda row: noun.fields(row, self.now_ms))
        one = document or (lambda row: noun.document(row, self.now_ms))
        told = yarn is None or yarn.is_ours(rows)
        printer = self.printer
        if printer.is_json:
            for row in rows:
                printer.document({**(answer(row) if answer is not None else {}), noun.singular: one(row)})
        elif not printer.for_people:
            columns = self._columns(noun, rows)
            printer.listing(rows, columns, documents=list, document=one, identity=noun.identity)
        elif (layout := self._yarns_layout(noun)) is not None:
            for row in rows:
                printer.text(layout.text(row, self.now_ms))
        else:
            for number, row in enumerate(rows):
                printer.fields(lines(row) if told else noun.told(lines(row)), apart=number > 0)

    def _yarns_layout(self, noun: Noun[T]) -> Layout[T] | None:
        """YARN's text layout for this noun, if the program was called as `yarn`; otherwise None."""
        if not (self.printer.as_yarn and self.printer.for_people):
            return None
        from ...views.yarn import LAYOUTS

        return LAYOUTS.get("job" if self.printer.as_mapred and noun.singular == "app" else noun.singular)

    def _columns(self, noun: Noun[T], rows: Sequence[T]) -> Sequence[Column[T]]:
        """The columns for which the cluster has values: in columns that only yopp has, a YARN cluster would show
        zeros."""
        columns = noun.columns(self.now_ms)
        if self.yarn is None or self.yarn.is_ours(rows):
            return columns
        known = [column for column in columns if not column.ours]
        if self.picked is not None:
            chosen(self.printer, known, columns=self.picked.columns, sort=self.picked.sort)
        return known

    def raw(self, body: bytes) -> None:
        """Print an answer of a YARN cluster unchanged."""
        print_raw(self.printer, body)


def print_raw(printer: Printer, body: bytes) -> None:
    """Print an answer of a YARN cluster unchanged; on a terminal, indented and escaped."""
    if is_terminal_out():
        import json

        printer.document(json.loads(body))
    else:
        printer.raw(body if body.endswith(b"\n") else body + b"\n")


# -- lists ------------------------------------------------------------------------------------------


def chosen(
    printer: Printer,
    among: Sequence[Column[Any]],
    *,
    columns: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    newest: bool = False,
) -> ListChoice:
    """The choice of a command line, checked before any call. Raises UsageError for columns that do not exist, and for
    ``--columns`` with a form without columns."""
    from ...views.columns import choose, find

    if columns is not None and (printer.form == "json" or printer.ids_only):
        form = "-q" if printer.quiet else f"-o {printer.form}"
        what = "YARN's own document" if printer.form == "json" else "only ids"
        raise UsageError.exclusive(
            f"--columns and {form}", f"{form} is {what}", "-o jsonl and -o tsv take --columns"
        )
    try:
        if columns is not None and not choose(among, columns):
            raise KeyError(columns)
        for key in (sort or "").split(","):
            if key.strip():
                find(among, key.strip().removeprefix("-"))
    except KeyError as error:
        raise UsageError(
            f"there is no column {error.args[0]!r}",
            because="--columns and --sort take the names of columns",
            hint="choose from " + ", ".join(one.key for one in among),
        ) from None
    return ListChoice(columns, sort, limit, newest)


def empty_text(things: str, choice: ListChoice, *, narrowed: bool, live_only: bool = False) -> str:
    """The text for an empty list, which distinguishes filters and the limit from an empty cluster."""
    if choice.limit == 0:
        return f"no {things} shown: --limit is 0"
    live = " live" if live_only else ""
    more = " (-a shows ended ones)" if live_only else ""
    return f"no{live} {things} match{more}" if narrowed else f"no {things}{live}{more}"


def words_of(
    text: str | None, allowed: Sequence[str], option: str, finals: Sequence[str] = ()
) -> tuple[str, ...]:
    """The upper-case words of a comma list, each one of ``allowed``. Raises UsageError naming the option, or --final
    for one of ``finals``."""
    wanted = tuple(word.strip().upper() for word in (text or "").split(",") if word.strip())
    for word in wanted:
        if word not in allowed:
            raise UsageError(
                f"{option} does not take {word}",
                because="there is no such state",
                hint=f"--final {word}" if word in finals else "choose from " + ", ".join(allowed),
            )
    return wanted
