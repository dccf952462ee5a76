"""Which tests run beside others, and which want the machine for themselves."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ALONE = (
    "bench",
    "executor/linux/test_limits_live.py",
    "executor/linux/test_weights.py",
    "live/test_limits.py",
    "live/test_pausing.py",
    "live/test_policies.py",
    "live/test_preparing.py",
    "live/test_pressure.py",
    "live/test_rebalancing.py",
    "live/test_top.py",
)
"""Files whose tests measure shares of processors or spans of time: what runs beside them would be measured, too."""


def pytest_configure() -> None:
    """Signals as on a terminal: a shell starts what runs in its background with SIGINT and SIGQUIT ignored, and
    what these tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of those files; ``test.sh`` runs them last, one after another."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).as_posix().startswith(ALONE):
            item.add_marker(pytest.mark.alone)
