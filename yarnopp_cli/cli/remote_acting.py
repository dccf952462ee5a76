"""Steering a YARN cluster: one call of its REST API each, and waiting for what it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..client.yarn import LIVE_STATES, Listing, YarnEngine, signal_command
from ..errors import EXIT_TIMEOUT, UsageError, YoppError
from ..records.reports import FINAL_STATES, ApplicationReport
from ..views import applications as view
from ..views.text import timestamp
from .frame.naming import agreed, is_container, words
from .frame.options import duration
from .frame.output import Printer
from .jobs.wait import Seen, code_of, print_seen, target_of
from .looking.application import KILL_SECONDS, now_ms
from .looking.container import signal_number
from .remote import Values
from .remote_looking import app_details, container_details
from .remote_naming import application_id, application_ids, container_ids

FASTEST_POLL, SLOWEST_POLL = 0.1, 2.0
"""Seconds between two looks at an application: YARN's REST API holds no answer back."""
_ORDER = (*LIVE_STATES, "FINISHED")


def poll(
    look: Callable[[], Sequence[Listing]],
    done: Callable[[Sequence[Listing]], bool],
    until: float | None,
) -> Sequence[Listing]:
    """Look again and again, ever more rarely, until it is done or the time has come (``time.monotonic()``)."""
    pause = FASTEST_POLL
    while True:
        seen = look()
        if done(seen):
            return seen
        left = SLOWEST_POLL if until is None else until - time.monotonic()
        if left <= 0:
            return seen
        time.sleep(min(pause, left))
        pause = min(pause * 1.4, SLOWEST_POLL)


def await_end(engine: YarnEngine, named: Sequence[str], seconds: float | None) -> Sequence[Listing]:
    """The applications when all have ended, or the time has passed."""
    ended: dict[str, Listing] = {}

    def look() -> Sequence[Listing]:
        for one in named:
            if one not in ended:
                found = engine.application(one)
                if found.reports[0].state not in FINAL_STATES:
                    return [found]
                ended[one] = found
        return list(ended.values())

    poll(look, lambda seen: len(ended) == len(named), None if seconds is None else time.monotonic() + seconds)
    return [ended[one] if one in ended else engine.application(one) for one in named]


def app_kill(engine: YarnEngine, printer: Printer, values: Values) -> int:
    """``yopp app kill``."""
    given, dry_run = words(values["ids"]), values["dry_run"]
    named = application_ids(engine, given)
    what = f"live application of {engine.rest.address}"
    if not agreed(printer, given, named, "Kill", yes=values["yes"] or dry_run, what=what):
        return 1
    before = {one: engine.application(one) for one in named}
    living = [one for one in named if before[one].reports[0].state not in FINAL_STATES]
    if dry_run:
        if printer.for_people:
            for one in living:
                printer.text(f"{one} would be killed")
            printer.note(f"{len(living)} of {len(named)} live; nothing was changed")
        else:
            app_details(printer, [before[one] for one in living])
        return 0
    for one in living:
        engine.kill(one)
    bound = KILL_SECONDS if values["timeout"] is None else values["timeout"]
    after = [before[one] for one in named]
    if not values["no_wait"]:
        after = list(await_end(engine, named, bound))
    elif living:
        after = [engine.application(one) for one in named]
    late = [one.reports[0].application_id for one in after if one.reports[0].state not in FINAL_STATES]
    if late and not values["no_wait"]:
        raise YoppError(
            f"{', '.join(late)} did not end within {bound:g} s",
            because="the time that was given to it has passed",
            hint="look at it with `yopp app status`; --timeout waits longer",
            exit_code=EXIT_TIMEOUT,
        )
    if not printer.for_people:
        app_details(printer, after)
        return 0
    for found in after:
        report = found.reports[0]
        if report.application_id in living:
            printer.text(f"{report.application_id} {report.state.value}")
        else:
            printer.note(f"{report.application_id} had already ended: {report.state.value}")
    return 0


def app_queue(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp app queue``."""
    one = application_id(engine, values["application"])
    engine.move(one, values["name"])
    found = engine.application(one)
    _changed(printer, found, f"{one} is in queue {found.reports[0].queue}")


def app_priority(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp app priority``."""
    one = application_id(engine, values["application"])
    engine.prioritise(one, values["value"])
    found = engine.application(one)
    _changed(printer, found, f"{one} has priority {found.reports[0].priority}")


def app_lifetime(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp app lifetime``. YARN takes a moment, and cannot lift a bound."""
    length = values["length"]
    if length.lower() == "unlimited":
        raise UsageError(
            "YARN cannot lift the bound of an application's life",
            because="its REST API takes a moment",
            hint="`yopp app lifetime ID 365d`",
        )
    seconds = duration(length)
    if not seconds:
        raise UsageError(
            "no time is left to live",
            because=f"{length!r} is no time at all",
            hint="`yopp app kill` ends it now",
        )
    one = application_id(engine, values["application"])
    expires = now_ms() + round(seconds * 1000)
    engine.limit_lifetime(one, expires)
    _changed(printer, engine.application(one), f"{one} may live until {timestamp(expires)}")


def _changed(printer: Printer, found: Listing, sentence: str) -> None:
    if printer.form not in ("table", "wide"):
        app_details(printer, [found])
    elif not printer.quiet:
        printer.text(sentence)


def container_signal(engine: YarnEngine, printer: Printer, values: Values) -> None:
    """``yopp container signal``: YARN's three commands."""
    import signal as signals

    name = signals.Signals(signal_number(values["name"])).name.removeprefix("SIG")
    command = signal_command(name)
    named = container_ids(engine, values["ids"])
    for one in named:
        engine.signal(one, command)
    if not printer.for_people:
        container_details(printer, [engine.container(one) for one in named])
        return
    for one in named:
        printer.text(f"{one} was sent {command} (SIG{name})")


def wait(engine: YarnEngine, printer: Printer, values: Values) -> int:
    """``yopp wait``, for applications: YARN tells nobody how a container ended."""
    named = words(values["ids"])
    for one in named:
        if is_container(one):
            raise UsageError(
                f"cannot wait for {one}",
                because="YARN forgets containers as they end, and their exit codes with them",
                hint="wait for its application",
            )
    target, some = target_of(values["state"]), values["any_of_them"]
    wanted = _ORDER.index(target) if target in _ORDER else _ORDER.index("RUNNING") if target else len(_ORDER)
    if target in ("DONE", "FINISHED", "FAILED", "KILLED"):
        wanted = len(_ORDER)
    ids = application_ids(engine, named)

    def seen_of(found: Listing) -> Seen:
        report: ApplicationReport = found.reports[0]
        ended = report.state in FINAL_STATES
        place = len(_ORDER) if ended else _ORDER.index(report.state.value)
        why = " ".join(report.diagnostics.split()) if ended else ""
        code = view.exit_code(report)
        final = report.final_status.value
        there = ended or place >= wanted
        return Seen(report.application_id, report.state.value, final, code, there, why, report.finished_at_ms)

    def done(found: Sequence[Listing]) -> bool:
        reached = [seen_of(one).reached for one in found]
        return any(reached) if some else all(reached)

    timeout = values["timeout"]
    until = None if timeout is None else time.monotonic() + timeout
    seen = [seen_of(one) for one in poll(lambda: [engine.application(one) for one in ids], done, until)]
    reached = [one for one in seen if one.reached]
    if not (reached if some else len(reached) == len(seen)):
        missing = [one for one in seen if not one.reached]
        if not printer.for_people and not printer.quiet:  # how far they have come is an answer, too
            print_seen(printer, seen, EXIT_TIMEOUT)
        raise YoppError(
            f"{', '.join(one.id for one in missing)} did not get there within {timeout:g} s",
            because=", ".join(f"{one.id} is {one.state}" for one in missing),
            hint="it goes on; `yopp wait` again, or `yopp app kill`",
            exit_code=EXIT_TIMEOUT,
        )
    code = code_of(reached, target, values["exit_code"])
    print_seen(printer, seen, code)
    return code
