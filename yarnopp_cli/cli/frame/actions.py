"""The common parts of commands that change something: confirmation, waiting, and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from executor.hints import TYPE_CHECKING, Any, TypeVar

from ...client.polling import polls
from ...errors import EXIT_FAILURE, TimedOutError

if TYPE_CHECKING:
    from ...views.columns import Noun
    from .session import Session

T = TypeVar("T")


def agree(
    session: Session,
    given: Sequence[str],
    named: Sequence[str],
    verb: str,
    *,
    what: str = "container",
) -> None:
    """Ask for confirmation of a change of ``named`` if ``all`` was typed without -y. The command ends with 1 if the
    user refuses. Raises UsageError without a terminal."""
    from .naming import ALL  # A command that only waits names no entities.

    if ALL not in given:
        return
    if not named:
        session.printer.note(f"no {what}s to {verb.lower()}")
        return
    if session.yarn is not None:
        what = f"{what} of {session.yarn.rest.address}"
    several = f"all {len(named)} {what}s" if len(named) > 1 else f"the only {what}, {named[0]}"
    if not session.printer.confirm(f"{verb} {several}?", yes=session.yes or session.dry_run):
        raise SystemExit(EXIT_FAILURE)


def foretell_kill(
    session: Session,
    named: Sequence[str],
    live: Sequence[T],
    text: Callable[[T], str],
    told: Callable[[Sequence[T], Callable[[T], str]], None],
) -> None:
    """Print, by ``told``, which of ``named`` a kill would end: the ``live`` ones, with the ``text`` of each."""
    told(live, lambda one: f"would be killed: {text(one)}")
    if session.printer.for_people:
        session.printer.note(f"{len(live)} of {len(named)} live; nothing was changed")


def polled(look: Callable[[float], T], enough: Callable[[T], bool], seconds: float | None) -> T:
    """Call ``look`` repeatedly, with growing intervals, until the result is ``enough`` or the time has expired; its
    argument is the remaining seconds."""
    until = None if seconds is None else time.monotonic() + seconds
    for left in polls(until, fastest=0.01, slowest=0.25):
        found = look(left)
        if enough(found):
            break
    return found


def awaited(
    noun: Noun[T],
    look: Callable[[float], Sequence[T]],
    done: Callable[[T], bool],
    what: str,
    seconds: float | None,
    *,
    because: Callable[[str], str] = lambda _: "its time has expired",
    hint: str = "",
) -> Sequence[T]:
    """As ``polled``, until all entities that ``look`` finds are ``done``. Raises YoppError (exit 124) for those that
    do not ``what`` in time, with the reason that ``because`` returns for the first."""
    found = polled(look, lambda every: all(map(done, every)), seconds)
    if waiting := [noun.identity(one) for one in found if not done(one)]:
        raise TimedOutError(
            f"{', '.join(waiting)} did not {what} within {seconds:g} s",
            because=because(waiting[0]),
            hint=hint or f"`yopp {noun.singular} status` shows it; use a longer --timeout",
        )
    return found


def tell(
    session: Session,
    noun: Noun[T],
    found: Sequence[T],
    text: Callable[[T], str],
    *,
    before: Callable[[T], bool] = lambda _: False,
    document: Callable[[T], Mapping[str, Any]] | None = None,
    fields: Callable[[T], Sequence[tuple[str, str]]] | None = None,
    answer: Callable[[T], Mapping[str, Any]] | None = None,
) -> None:
    """Print the outcome for each entity: for users a line, on stderr if nothing changed (``before``); otherwise in
    full."""
    printer = session.printer
    if not printer.for_people:
        session.details(noun, found, document=document, fields=fields, answer=answer)
        return
    for one in found:
        (printer.note if before(one) else printer.text)(f"{noun.identity(one)} {text(one)}")
