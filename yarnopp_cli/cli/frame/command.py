"""The declaration of a command: a function of its own options and a session, registered under its name.

    @command("node list", "yopp node list -o wide", "yopp node list -a --json", lists=NODES)
    def list_nodes(session: Session, every: All = False) -> None:
        \"\"\"List the running nodes.\"\"\"

The frame adds the options that all commands have, handles them, and gives the function a session made of them. Every
command accepts all common options, so that a script can give them to any command; the help of a command leaves out
options without an effect.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from executor.hints import TYPE_CHECKING, Any, TypeVar
from executor.light import MISSING, QuickEnum, Record

from ...errors import TimedOutError
from .options import HereOnly, common
from .output import FORMS, Printer
from .reading import Parameter, grouped, parameters, read
from .session import Context, Session, chosen, words_of

if TYPE_CHECKING:
    from ...client.choice import Choice as EngineChoice
    from ...views.columns import Noun
    from .engine_options import HereOnlyOption

F = TypeVar("F", bound=Callable[..., int | None])


class Needs(enum.Enum, metaclass=QuickEnum):
    """The part of a cluster that a command works on. It decides which common options the command has, and their
    meaning."""

    NOTHING = "nothing"
    """No cluster and no property: -D, --conf and --run-dir are accepted without an effect."""
    HOST = "host"
    """This host's own cluster, whatever the engine, with a notice; --conf and -D are checked."""
    QUIET_HOST = "quiet host"
    """This host's files and daemons, without a notice. The command itself checks --conf and -D."""
    EXAMINED_HOST = "examined host"
    """This host, whatever the engine, with a notice. The command itself checks --conf and -D."""
    ENGINE = "engine"
    """The choice of an engine: ``session.engine``."""
    CLUSTER = "cluster"
    """A running cluster; no property is read."""
    JOBS = "jobs"
    """A running cluster, and properties."""


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

    def read(self, words: Sequence[str]) -> dict[str, Any] | None:
        """The values of all its options and arguments; None for words that only typer can read."""
        interspersed = self.settings.get("context_settings", {}).get("allow_interspersed_args", True)
        return read([*own_parameters(self), *added(self)], words, interspersed=interspersed)


_PRINTING = ("output", "json", "quiet", "verbose", "color", "no_progress")
_OF_LISTS = ("state", "sort", "columns", "limit", "watch")
REGISTERED: dict[str, Command] = {}
"""Every command whose module has been imported, by name."""


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

    ``lists``: it lists entities of that noun, and has --state, --sort, --columns, --limit (``newest``: of the newest)
    and --watch. ``forms``: the values of -o that it has; without any it has no -o. ``asks``: it asks for confirmation,
    unless -y is given. ``progress``: it draws progress, unless --no-progress is given. ``bounded``: the frame enforces
    --timeout; a command that enforces it itself declares its own Timeout, a command that never ends has none.
    ``yarn``: it works on a YARN cluster too, by ``session.cluster``, except for options whose type has HERE_ONLY.
    ``tries``: --dry-run prints what would happen (``session.dry_run``; HERE_ONLY: not on a YARN cluster). ``waits``:
    it waits for the change to complete, unless --no-wait is given, and enforces --timeout itself
    (``session.timeout``). ``changes``: it asks, tries and waits. ``settings`` are typer's (help, hidden, …).
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


def own_parameters(one: Command) -> Sequence[Parameter]:
    """The options and arguments that a command itself declares."""
    return _parameters(one.function)


def added(one: Command | None) -> Sequence[Parameter]:
    """The options that the frame adds to a command, in the order of its help; all such options for None."""
    if one is None:
        return _parameters(common)
    taken = {spelling for parameter in own_parameters(one) for spelling in parameter.spellings}
    return [
        parameter
        for parameter in _parameters(common)
        if _wanted(one, parameter.name) and not taken.intersection(parameter.spellings)
    ]


def _wanted(one: Command, name: str) -> bool:
    if name in _OF_LISTS:
        return one.lists is not None and (name != "state" or bool(one.lists.states))
    if name in ("json", "output"):
        return bool(one.forms)
    if name in ("engine", "rm"):
        return one.needs is not Needs.NOTHING
    return {"timeout": one.bounded, "dry_run": bool(one.tries), "no_wait": one.waits}.get(name, True)


def _limits(one: Command) -> Iterator[HereOnlyOption]:
    """The options that a YARN cluster cannot honour."""
    for parameter in own_parameters(one):
        for mark in parameter.marks:
            if isinstance(mark, HereOnly):
                default = None if parameter.default is MISSING else parameter.default
                yield parameter.name, default, max(parameter.spellings, key=len), mark
    if isinstance(one.tries, HereOnly):
        yield "dry_run", False, "--dry-run", one.tries


def run_with(one: Command, values: Mapping[str, Any]) -> int | None:
    """Run a command with the values of all its options: handle the common options, and call the function with its
    session."""
    declared = own_parameters(one)
    own = {parameter.name for parameter in declared}
    if one.bounded and not one.waits and "timeout" not in own and values.get("timeout") is not None:
        _arm(float(values["timeout"]))
    if one.needs is Needs.NOTHING:
        _check(values)
    printer = Printer.of(
        **{name: values[name] for name in _PRINTING if name in values and name not in own}, forms=one.forms
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
            check_remote(one.path, engine, values, _limits(one) if one.yarn else None)
        named = {name: values[name] for name in ("conf", "define", "run_dir")}
        context = Context.of(**named, looks=one.needs in (Needs.CLUSTER, Needs.HOST))
    choice = None
    states: tuple[str, ...] = ()
    if one.lists is not None:
        states = words_of(values.get("state"), one.lists.states, "--state", one.lists.finals)
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
        return one.function(session, **grouped(declared, values))


# -- the common options ------------------------------------------------------------------------------------------


_parameters = cache(parameters)
"""The parameters of a command are needed several times."""


def _check(values: Mapping[str, Any]) -> None:
    """Check the named configuration, although this command reads no property. Raises ConfigurationError."""
    conf, define = values.get("conf"), values.get("define")
    if conf or define:
        from ...settings.loading import load

        load(tuple(conf or ()), tuple(define or ()), environ=os.environ, state_dir="/")


# -- --timeout of a command that does not enforce it itself --------------------------------------------------------


_alarms: list[tuple[Any, tuple[float, float]]] = []
"""The alarm of this process before a command set it."""


def _arm(seconds: float) -> None:
    """End this command with 124 after this many seconds."""
    import signal

    def ring(number: int, frame: object) -> None:
        raise TimedOutError(
            f"not done within {seconds:g} s",
            because=f"--timeout (or YOPP_TIMEOUT) is {seconds:g} s",
            hint="use a longer --timeout",
        )

    _alarms.append((signal.signal(signal.SIGALRM, ring), signal.getitimer(signal.ITIMER_REAL)))
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


def leave_alarm() -> None:
    """Restore the alarm of this process to its state before the command."""
    while _alarms:
        import signal

        handler, (remaining, interval) = _alarms.pop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)
