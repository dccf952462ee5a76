"""Times for users and REST: epoch milliseconds as dates in UTC. Pure."""

from __future__ import annotations

DAY_MS = 86_400_000


def timestamp(epoch_ms: int) -> str:
    """ISO 8601 in UTC, to the millisecond: ``2025-12-10T20:26:40.000Z``; "-" for 0 (not yet)."""
    if not epoch_ms:
        return "-"
    year, month, day, hours, minutes, seconds, milliseconds = civil(epoch_ms)
    return f"{year:04d}-{month:02d}-{day:02d}T{hours:02d}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}Z"


def civil(epoch_ms: int) -> tuple[int, int, int, int, int, int, int]:
    """Year, month, day, hours, minutes, seconds and milliseconds in UTC."""
    days, rest = divmod(epoch_ms, DAY_MS)
    seconds, milliseconds = divmod(rest, 1000)
    minutes, seconds = divmod(seconds, 60)
    return (*_civil(days), minutes // 60, minutes % 60, seconds, milliseconds)


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian).

    Counted in eras of 400 years (146,097 days) that begin on 1 March, so that a leap day ends its year.
    """
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
