"""Which tests run beside others, and which want the machine for themselves."""

from __future__ import annotations

import signal
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
    "live/test_limits.py",
    "live/test_pausing.py",
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
"""Folders and files whose tests start no daemon and need no privileges, but for those marked ``live`` or ``cgroup``."""


def pytest_configure(config: pytest.Config) -> None:
    """Signals as on a terminal: a shell starts what runs in its background with SIGINT and SIGQUIT ignored, and
    what these tests start would inherit that. SIGTERM and SIGHUP end the run in order (``tests/ending.py``)."""
    config.pluginmanager.register(Ending())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m pure`` or ``-m alone`` read only the files that have such tests: importing all takes half a minute."""
    wanted = {"pure": PURE, "alone": ALONE}.get(config.option.markexpr)
    here = Path(__file__).parent
    if wanted is None or collection_path.suffix != ".py" or collection_path.name == "__init__.py":
        return None
    name = collection_path.relative_to(here).as_posix() if collection_path.is_relative_to(here) else ""
    if name.startswith(wanted) or collection_path.name == "conftest.py":
        return None
    marked = f"mark.{config.option.markexpr}" in collection_path.read_text(encoding="utf-8")
    return None if marked else True  # a file elsewhere may have such tests, too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of those files: ``test.sh`` runs the pure ones first and those that want the machine last."""
    here = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        name = item.path.relative_to(here).as_posix()
        if name.startswith(ALONE):
            item.add_marker(pytest.mark.alone)
        started = any(item.get_closest_marker(mark) for mark in ("alone", "live", "cgroup"))
        if name.startswith(PURE) and not started:
            item.add_marker(pytest.mark.pure)
