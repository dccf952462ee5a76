"""What all lists have in common: choosing columns, sorting, limiting, and printing again every so often."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ...views.columns import Column, choose, find
from ...views.text import timestamp
from .output import Printer, is_terminal_out


@dataclass(frozen=True, slots=True)
class Choice:
    """The values of ``--columns``, ``--sort`` and ``--limit``. ``newest``: the limit leaves the last ones of a list
    that is not sorted."""

    columns: str | None = None
    sort: str | None = None
    limit: int | None = None
    newest: bool = False


def chosen(
    printer: Printer,
    among: Sequence[Column[Any]],
    *,
    columns: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    newest: bool = False,
) -> Choice:
    """The choice of a command line, checked before anything is asked. Raises UsageError for columns that there are
    not, and for ``--columns`` with a form that has none."""
    if columns is not None and (printer.form == "json" or printer.ids_only):
        what = "YARN's own document" if printer.form == "json" else "the ids alone"
        raise UsageError(
            f"--columns and {'-q' if printer.quiet else f'-o {printer.form}'} exclude each other",
            because=f"{'-q' if printer.quiet else f'-o {printer.form}'} is {what}",
            hint="-o jsonl and -o tsv have columns",
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
    return Choice(columns, sort, limit, newest)


def empty_text(things: str, choice: Choice, *, narrowed: bool, live_only: bool = False) -> str:
    """What is said where no row is left: there are none only where neither filters nor the limit are why."""
    if choice.limit == 0:
        return f"no {things} shown: --limit is 0"
    live = " live" if live_only else ""
    more = " (-a shows ended ones)" if live_only else ""
    return f"no{live} {things} match{more}" if narrowed else f"no {things}{live}{more}"


def repeat(printer: Printer, seconds: float | None, once: Callable[[], None]) -> None:
    """Run ``once``; with ``seconds``, again and again until Ctrl-C: in place on a terminal, else with the time before
    each table."""
    if seconds is None:
        once()
        return
    told = printer.for_people
    in_place = is_terminal_out() and not printer.is_json
    if in_place:
        printer.clear_screen()
    while True:
        now = timestamp(time.time_ns() // 1_000_000)
        if in_place:
            with printer.frame(f"{now}, every {seconds:g} s (Ctrl-C ends)" if told else ""):
                once()
        else:
            if told:
                printer.text(now)
            once()
        time.sleep(seconds)


def words_of(text: str | None, allowed: Sequence[str], option: str) -> tuple[str, ...]:
    """The upper-case words of a comma list, each one of ``allowed``. Raises UsageError naming the option."""
    wanted = tuple(word.strip().upper() for word in (text or "").split(",") if word.strip())
    for word in wanted:
        if word not in allowed:
            raise UsageError(
                f"{option} has no {word}",
                because="no such state is known",
                hint="choose from " + ", ".join(allowed),
            )
    return wanted
