"""Applications that begin later: at a time, when others have ended, or both.

A postponed application is ACCEPTED; its attempt is NEW, requests no containers and has none.
``services/postponing.py`` checks its conditions when its time has come, and when an application ends for which it
waits. An application that can never begin is ended, and so are the applications that wait for it to succeed.

Decisions: begins-later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from executor.hints import TYPE_CHECKING
from executor.light import Record

from ..errors import (
    ApplicationNotFoundError,
    NotYetSupportedError,
    UsageError,
)
from ..records.requests import AFTER, ApplicationSubmissionContext, check_deadline, never_after

if TYPE_CHECKING:
    from .context import RMContext
    from .entities import RMApp

UNKNOWN = "unknown"


class Verdict(Record):
    """Whether an application begins now: only if ``left``, its open conditions, is empty, and it is ``due``. ``never``
    is the reason why it can never begin, "" if it can."""

    left: tuple[str, ...]
    due: bool
    never: str = ""


def judge(begin_at_ms: int, after: Iterable[str], now_ms: int, ended: Callable[[str], str]) -> Verdict:
    """Whether an application begins now.

    ``ended`` returns how another application ended: OK, FAILED, "" if it has not ended, or UNKNOWN if the RM does not
    know it any more."""
    left, never = [], ""
    for one in after:
        how = ended(one.rpartition(":")[0])
        if not how:
            left.append(one)
        else:
            never = never or never_after(one, how)
    return Verdict(tuple(left), now_ms >= begin_at_ms, never)


def waiting_for(application_id: str, postponed: Iterable[RMApp]) -> list[RMApp]:
    """The postponed applications that wait for the end of an application."""
    named = application_id + ":"
    return [app for app in postponed if any(one.startswith(named) for one in app.context.after)]


def check_postponed(submission: ApplicationSubmissionContext, context: RMContext, *, hosted: bool) -> None:
    """Refuse an application that cannot be postponed as requested. Raises YoppError."""
    for one in submission.after:
        parent, _, condition = one.rpartition(":")
        if condition not in AFTER:
            raise UsageError(
                f"an application cannot begin after {one!r}",
                because=f"the condition is one of {', '.join(AFTER)}",
                hint="--after ID:ok",
            )
        if parent not in context.applications:
            raise ApplicationNotFoundError(
                f"{parent} doesn't exist in the RM",
                because="an application can only wait for a known one",
                hint="`yopp app list -a` lists the known ones",
                sought=parent,
            )
    check_deadline(submission.begin_at_ms, submission.deadline_at_ms, context.now_ms)
    if (submission.begin_at_ms or submission.after) and submission.unmanaged and not hosted:
        raise NotYetSupportedError(
            "a job whose master runs in its client cannot begin later",
            because="this cluster does not host masters",
            hint="add --detach",
        )
