"""How a command is declared: a function of its own options and a session, registered under what people type.

    @command("node list", "yopp node list -o wide", "yopp node list -a --json", lists=NODES)
    def list_nodes(session: Session, every: All = False) -> None:
        \"\"\"List the running nodes.\"\"\"

The frame adds the options that all commands have, handles them, and gives the function a session made of them. Every
command takes all of them, so that a script can give them everywhere; those that do nothing are not in its help.
"""

from __future__ import annotations

import copy
import enum
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import typer

from executor.light import Record

from ...errors import EXIT_TIMEOUT, YoppError
from .options import (
    NEWEST,
    Color,
    Columns,
    Conf,
    Define,
    DryRun,
    EngineOption,
    HereOnly,
    Json,
    Limit,
    Live,
    NoProgress,
    NoWait,
    Output,
    Quiet,
    Rm,
    RunDirOption,
    Sort,
    State,
    Timeout,
    Verbose,
    Watch,
    Words,
    Yes,
    examples,
    new_typer,
)
from .output import FORMS, Printer
from .session import Context, Session, chosen, words_of

if TYPE_CHECKING:
    from ...client.choice import Choice as EngineChoice
    from ...views.columns import Noun
    from .engine_options import HereOnlyOption

F = TypeVar("F", bound=Callable[..., int | None])


class Needs(enum.Enum):
    """What a command works on. It decides which of the common options it has, and what they mean."""

    NOTHING = "nothing"
    """No cluster and no property: -D, --conf and --run-dir are taken, and do nothing."""
    HOST = "host"
    """This host's own cluster, whatever the engine, and says so; what --conf and -D name is checked."""
    QUIET_HOST = "quiet host"
    """This host's files and daemons, and nobody thinks otherwise. The command itself judges --conf and -D."""
    EXAMINED_HOST = "examined host"
    """This host, whatever the engine, and says so. The command itself judges --conf and -D."""
    ENGINE = "engine"
    """The choice of an engine itself: ``session.engine``."""
    CLUSTER = "cluster"
    """A cluster that runs; no property is read."""
    JOBS = "jobs"
    """A cluster that runs, and properties."""


class Command(Record):
    """A command's declaration."""

    path: str
    function: Callable[..., int | None]
    examples: tuple[str, ...]
    needs: Needs
    lists: Noun[Any] | None
    newest: bool
    forms: Sequence[str]
    shows: frozenset[str]
    bounded: bool
    yarn: bool
    tries: bool | HereOnly
    waits: bool
    settings: dict[str, Any]


_PRINTING = ("output", "json", "quiet", "verbose", "color", "no_progress")
_OF_LISTS = ("state", "sort", "columns", "limit", "watch")
REGISTERED: dict[str, Command] = {}
"""Every command whose module has been imported, by what is typed."""


def command(
    path: str,
    *lines: str,
    needs: Needs = Needs.CLUSTER,
    lists: Noun[Any] | None = None,
    newest: bool = False,
    forms: Sequence[str] = FORMS,
    asks: bool = False,
    progress: bool = False,
    bounded: bool = True,
    yarn: bool = False,
    tries: bool | HereOnly = False,
    waits: bool = False,
    changes: bool = False,
    **settings: Any,
) -> Callable[[F], F]:
    """Register a function as the command ``path`` ("node list"), with the example ``lines`` of its help.

    ``lists``: it lists things of that noun, and has --state, --sort, --columns, --limit (``newest``: of the newest)
    and --watch. ``forms``: those of -o that it has; without any it has no -o. ``asks``: it asks before it acts, unless
    -y. ``progress``: it draws progress, unless --no-progress. ``bounded``: --timeout ends it; a command that bounds
    itself declares its own Timeout, one that never ends has none. ``yarn``: it works on a YARN cluster too, by
    ``session.cluster``, but for the options whose type says HERE_ONLY. ``tries``: --dry-run says what would happen
    (``session.dry_run``; HERE_ONLY: not on a YARN cluster). ``waits``: it returns when what it does has happened, or at
    once with --no-wait, and bounds itself by ``session.timeout``. ``changes``: it asks, tries and waits. ``settings``
    are typer's (help, hidden, …).
    """
    if changes:
        asks = tries = waits = True
    shown = frozenset({"--yes"} if asks else ()) | frozenset({"--no-progress"} if progress else ())

    def register(function: F) -> F:
        REGISTERED[path] = Command(
            path, function, lines, needs, lists, newest, forms, shown, bounded, yarn, tries, waits, settings
        )
        return function

    return register


def made(one: Command) -> Any:
    """The parser's command of a declaration."""
    signature = inspect.signature(one.function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "session"]
    # typer reads the command's own options alone; those of the frame are the parser's objects already
    limits: list[HereOnlyOption] = []
    call = _called(one, own, limits)
    holder = new_typer()
    settings = {"epilog": examples(*one.examples)} if one.examples else {}
    holder.command(one.path.rpartition(" ")[2], **settings | one.settings)(call)
    parsed: Any = typer.main.get_command(holder)
    for parameter, option in zip(own, parsed.params, strict=False):
        marks = get_args(parameter.annotation)[1:]
        option.completes = next((mark for mark in marks if isinstance(mark, Live | Words)), None)
        limits += [
            (parameter, max(option.opts, key=len), mark) for mark in marks if isinstance(mark, HereOnly)
        ]
    if isinstance(one.tries, HereOnly):
        dry_run = inspect.Parameter("dry_run", inspect.Parameter.KEYWORD_ONLY, default=False)
        limits.append((dry_run, "--dry-run", one.tries))
    taken = {spelling for option in parsed.params for spelling in option.opts}
    parsed.params += [option for option in _added(one) if not taken.intersection(option.opts)]
    return parsed


def _called(
    one: Command, own: Sequence[inspect.Parameter], limits: Sequence[HereOnlyOption]
) -> Callable[..., int | None]:
    """What the parser calls: a function that seems to take the command's own options alone."""
    names = {parameter.name for parameter in own}

    def call(**values: Any) -> int | None:
        mine = {name: value for name, value in values.items() if name in names}
        return _run(one, limits, mine, values)

    call.__doc__ = one.function.__doc__
    changed = inspect.Signature([one_.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one_ in own])
    call.__signature__ = changed  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return call


def _run(
    one: Command, limits: Sequence[HereOnlyOption], mine: dict[str, Any], values: Mapping[str, Any]
) -> int | None:
    """One run: what all commands have is handled, and the function called with its session."""
    printer = Printer.of(
        **{name: values[name] for name in _PRINTING if name in values and name not in mine}, forms=one.forms
    )
    context: Context | None = None
    engine: EngineChoice | None = None
    if one.needs is not Needs.NOTHING:
        from .engine_options import check_remote, choice_of, tell_that_it_is_here

        if one.needs in (Needs.HOST, Needs.EXAMINED_HOST):
            tell_that_it_is_here(one.path, values, printer)
        elif one.needs is not Needs.QUIET_HOST:
            engine = choice_of(values)
        if engine is not None and engine.name == "yarn" and one.needs is not Needs.ENGINE:
            check_remote(one.path, engine, values, limits if one.yarn else None)
        named = {name: values[name] for name in ("conf", "define", "run_dir")}
        looks = one.needs in (Needs.CLUSTER, Needs.HOST)
        context = Context.looking(**named) if looks else Context.of(**named)
    choice = None
    states: tuple[str, ...] = ()
    if one.lists is not None:
        states = words_of(values.get("state"), one.lists.states, "--state")
        picked = {name: values[name] for name in ("columns", "sort", "limit")}
        choice = chosen(printer, one.lists.columns(0), **picked, newest=one.newest)
    with Session(
        printer,
        context,
        bool(values.get("yes")),
        values.get("timeout"),
        choice,
        states,
        values.get("watch"),
        engine,
        dry_run=bool(values.get("dry_run")),
        no_wait=bool(values.get("no_wait")),
    ) as session:
        return one.function(session, **mine)


# -- the options that all commands have --------------------------------------------------------------------------


def _declarations(
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    state: State = None,
    sort: Sort = None,
    columns: Columns = None,
    limit: Limit = None,
    watch: Watch = None,
    conf: Conf = None,
    define: Define = None,
    run_dir: RunDirOption = None,
    engine: EngineOption = None,
    rm: Rm = None,
    json: Json = False,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    color: Color = None,
    no_progress: NoProgress = False,
    timeout: Timeout = None,
    yes: Yes = False,
) -> None:
    """Stand for a command that takes them all."""


@cache
def _options() -> dict[str, Any]:
    """The options as the parser's own objects by parameter, to be copied for each command: making one costs a tenth
    of a ms."""
    holder = new_typer()
    holder.command("common")(_declarations)
    parsed: Any = typer.main.get_command(holder)
    return {option.name: option for option in parsed.params if option.name != "help"}


def _noun(one: Command) -> Noun[Any]:
    assert one.lists is not None, f"{one.path} lists nothing"
    return one.lists


def _added(one: Command) -> Iterator[Any]:
    """The options that the frame adds to a command, in the order of its help."""
    for name, declared in _options().items():
        if name in _OF_LISTS and (one.lists is None or (name == "state" and not one.lists.states)):
            continue
        if name in ("json", "output") and not one.forms:
            continue
        if name in ("engine", "rm") and one.needs is Needs.NOTHING:
            continue
        if name == "timeout" and not one.bounded:
            continue
        if (name == "dry_run" and not one.tries) or (name == "no_wait" and not one.waits):
            continue
        option = copy.copy(declared)
        option.completes = None
        if name == "state":
            option.completes = Words(lambda: _noun(one).states, several=True)
        elif name in ("sort", "columns"):
            option.completes = Words(lambda: [column.key for column in _noun(one).columns(0)], several=True)
        elif name == "limit" and one.newest:
            option.help = NEWEST
        elif name == "timeout":
            option.callback = None if one.waits else bounded
        elif name in ("no_progress", "yes"):
            option.hidden = max(option.opts, key=len) not in one.shows
        elif one.needs is Needs.NOTHING and name in ("conf", "define", "run_dir", "verbose"):
            option.hidden = True
            if name in ("conf", "define"):
                option.callback = _checked
        yield option


def _checked(context: Any, option: Any, value: Any) -> Any:
    """What is named is checked, though this command reads no property. Raises ConfigurationError."""
    if value:
        from ...settings.loading import load

        conf, defines = (value, ()) if option.name == "conf" else ((), value)
        load(tuple(conf), tuple(defines), environ=os.environ, state_dir="/")
    return value


# -- groups ------------------------------------------------------------------------------------------------------


class Lazily(MutableMapping[str, Any]):
    """Commands of the parser by name, each made when it is first asked for."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any]) -> None:
        self._made: dict[str, Any] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> Any:
        if self._made[name] is None:
            self._made[name] = self._make(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made


def group(name: str, summary: str) -> Any:
    """The parser's group of the commands registered below ``name``; its help is the summary."""
    holder = new_typer(callback=_nothing, help=f"{summary}.", no_args_is_help=True)
    parsed: Any = typer.main.get_command(holder)
    parsed.name = name
    below = {path.partition(" ")[2]: one for path, one in REGISTERED.items() if path.startswith(f"{name} ")}
    parsed.commands = Lazily(below, lambda name: made(below[name]))
    parsed.epilog = examples(*(one.examples[0] for one in list(below.values())[:2] if one.examples))
    return parsed


def _nothing() -> None:
    """Stand for a group's callback."""


# -- --timeout of a command that does not bound itself ------------------------------------------------------------


class TimedOutError(YoppError):
    """What ``--timeout`` allows has passed."""

    exit_code = EXIT_TIMEOUT


def bounded(context: Any, option: Any, seconds: Any) -> Any:
    """Have this command end with 124 after so many seconds."""
    if seconds is not None and not context.resilient_parsing:
        _arm(float(seconds))
    return seconds


def _arm(seconds: float) -> None:
    def ring(number: int, frame: object) -> None:
        raise TimedOutError(
            f"not done within {seconds:g} s",
            because="that is the time that --timeout (or YOPP_TIMEOUT) gives it",
            hint="a longer --timeout waits longer",
        )

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


@contextmanager
def alarm_kept() -> Iterator[None]:
    """Leave the alarm of this process as it was, whatever a command sets within."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler, (remaining, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGALRM) is not handler:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, remaining, interval)
