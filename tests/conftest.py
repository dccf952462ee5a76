"""Which tests run beside others, and which want the machine for themselves."""

from __future__ import annotations

import signal
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from tests.ending import Ending

hypothesis.settings.register_profile("yopp", deadline=None)  # on a busy machine any example may take long
hypothesis.settings.load_profile("yopp")

ALONE = (
    "bench",
    "executor/linux/test_limits_live.py",
    "executor/linux/test_weights.py",
    "live/test_first_instruction.py",
    "live/test_pressure.py",
)
"""Files whose tests measure shares of processors or spans of time: what runs beside them would be measured, too."""

PURE = (
    "client",
    "conformance",
    "core",
    "engines",
    "executor/core",
    "executor/scenarios",
    "rpc",
    "settings",
    "test_house.py",
    "test_manual.py",
    "views",
)
"""Folders and files whose tests start no daemon and need no privileges, but for those with one of these marks:"""

STARTED = ("alone", "live", "cgroup")
LIVE = "not pure and not alone"
"""The second pass of ``test.sh``."""


def pytest_configure(config: pytest.Config) -> None:
    """Signals as on a terminal: a shell starts what runs in its background with SIGINT and SIGQUIT ignored, and
    what these tests start would inherit that. SIGTERM and SIGHUP end the run in order (``tests/ending.py``)."""
    config.pluginmanager.register(Ending())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def _name(path: Path) -> str:
    """The name of a file below this folder; "" if it is elsewhere."""
    here = Path(__file__).parent
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else ""


@cache
def _marks(path: Path) -> frozenset[str]:
    """Which of the marks that decide about the pass stand in a file."""
    text = path.read_text(encoding="utf-8")
    return frozenset(mark for mark in ("pure", "alone", "live", "cgroup") if f"mark.{mark}" in text)


def _only_in_another_pass(path: Path) -> bool:
    """Whether the pass ``live`` has no test of this file."""
    name = _name(path)
    return name.startswith(ALONE) or (name.startswith(PURE) and not _marks(path) & set(STARTED))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In each pass read only the files that have such tests: importing all takes half a minute."""
    if collection_path.suffix != ".py" or collection_path.name in ("__init__.py", "conftest.py"):
        return None
    if config.option.markexpr == LIVE:
        return True if _only_in_another_pass(collection_path) else None
    wanted = {"pure": PURE, "alone": ALONE}.get(config.option.markexpr)
    if wanted is None or _name(collection_path).startswith(wanted):
        return None
    # a file elsewhere may have such tests, too
    return None if config.option.markexpr in _marks(collection_path) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of those files: ``test.sh`` runs the pure ones first and those that want the machine last."""
    for item in items:
        name = _name(item.path)
        if name.startswith(ALONE):
            item.add_marker(pytest.mark.alone)
        started = any(item.get_closest_marker(mark) for mark in STARTED)
        if name.startswith(PURE) and not started:
            item.add_marker(pytest.mark.pure)
        if name.startswith(PURE) and started and _only_in_another_pass(item.path):
            raise pytest.UsageError(
                f"{item.nodeid} would run in no pass: write its mark as pytest.mark.… in its file"
            )
