"""The input and the result of a check of ``yopp doctor``."""

from __future__ import annotations

from collections.abc import Sequence

from executor.errors import ExplainedError
from executor.light import Record

from ...settings.loading import Configuration, Findings
from ..rundir import RunDir

OK = "ok"
WARN = "warn"
FAIL = "fail"
EXIT_CODES = {OK: 0, WARN: 1, FAIL: 2}


class Check(Record):
    """One finding: ``found`` is the observation, ``why`` its meaning, ``fix`` what to type."""

    name: str
    status: str
    found: str
    why: str = ""
    fix: str = ""


def failed(name: str, error: ExplainedError) -> Check:
    """An error as a finding."""
    return Check(name, FAIL, error.message, error.because, error.hint)


class Examined(Record):
    """The input of every check. ``configuration`` is that of ``findings``, or the defaults if it has none.

    ``fix`` allows a check to remove what it finds.
    """

    run_dir: RunDir
    findings: Findings
    configuration: Configuration
    fix: bool


def exit_code(checks: Sequence[Check]) -> int:
    """0: all is fine; 1: something is weaker than it could be; 2: something cannot work."""
    return max((EXIT_CODES[check.status] for check in checks), default=0)
