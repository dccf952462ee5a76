"""Times of the week at which opportunistic containers may run: ``19:00-07:00, Sat-Sun 00:00-24:00``. Pure.

Decisions: window.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from .light import Record

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 24 * 60
_WEEK = 7 * _DAY


class Window(Record):
    """The ``minutes`` from minute ``start`` of each of ``days`` (0 is Monday); a window may reach into the
    next day."""

    days: tuple[int, ...]
    start: int
    minutes: int


def parse(text: str) -> tuple[Window, ...]:
    """The windows in ``text``, none if it is empty. Raises ValueError if the text is invalid."""
    return tuple(_window(one) for one in text.split(",") if one.strip())


def _window(text: str) -> Window:
    *days, times = text.split()
    begin, dash, end = times.partition("-")
    if not dash or len(days) > 1:
        raise ValueError(f"{text.strip()!r} is not a window of time")
    start, stop = _minute(begin), _minute(end)
    if start in (_DAY, stop):
        raise ValueError(f"{times!r} is empty")
    return Window(_days_of(days[0]) if days else tuple(range(7)), start, (stop - start) % _DAY or _DAY)


def _minute(text: str) -> int:
    hours, _, minutes = text.partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and len(hours) <= 2 == len(minutes)):
        raise ValueError(f"{text!r} is not a time of day")
    number = int(hours) * 60 + int(minutes)
    if number > _DAY or int(minutes) > 59:
        raise ValueError(f"{text!r} is not a time of day")
    return number


def _days_of(text: str) -> tuple[int, ...]:
    first, dash, last = text.lower().partition("-")
    try:
        start = _DAYS.index(first)
        stop = _DAYS.index(last) if dash else start
    except ValueError:
        raise ValueError(f"{text!r} is not a day of the week") from None
    return tuple((start + offset) % 7 for offset in range((stop - start) % 7 + 1))


def next_change(windows: tuple[Window, ...], now: datetime) -> tuple[bool, datetime | None]:
    """Whether a window is open at ``now``, a local time, and when that changes; None for never. Without
    windows it is always open."""
    if not windows:
        return True, None
    monday = (now - timedelta(days=now.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    minute = (now - monday) // timedelta(minutes=1)
    is_open = _is_open(windows, minute)
    for ahead in sorted(set(_edges(windows, minute))):
        if _is_open(windows, minute + ahead) != is_open:
            return is_open, monday + timedelta(minutes=minute + ahead)
    return is_open, None


def _edges(windows: tuple[Window, ...], minute: int) -> list[int]:
    """How many minutes after ``minute`` a window begins or ends, up to a week."""
    begins = [(day * _DAY + one.start, one.minutes) for one in windows for day in one.days]
    edges = [edge for begin, length in begins for edge in (begin, begin + length)]
    return [(edge - minute - 1) % _WEEK + 1 for edge in edges]


def _is_open(windows: tuple[Window, ...], minute: int) -> bool:
    return any((minute - day * _DAY - one.start) % _WEEK < one.minutes for one in windows for day in one.days)
