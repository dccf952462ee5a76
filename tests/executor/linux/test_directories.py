"""Who may read what containers write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from executor.linux.directories import Directories
from executor.linux.shim import CannotLaunchError

from .node import a_spec


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_output_is_its_owners_and_their_groups(tmp_path: Path) -> None:
    """YARN's modes, whatever the umask lets through: others pass the directory of all logs, and read nothing."""
    before = os.umask(0)
    try:
        directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
        spec = a_spec("c1", "true", application_id="a1")
        directories.prepare(spec)
        directories.prepare(spec)  # another attempt
    finally:
        os.umask(before)
    assert (mode(tmp_path / "logs"), mode(tmp_path / "work")) == (0o755, 0o755)
    assert mode(tmp_path / "logs" / "a1") == mode(tmp_path / "logs" / "a1" / "c1") == 0o750
    assert mode(directories.private("c1")) == 0o700


def test_a_log_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    (tmp_path / "logs" / "a1").mkdir()
    (tmp_path / "logs" / "a1" / "c1").touch()
    with pytest.raises(CannotLaunchError):
        directories.prepare(a_spec("c1", "true", application_id="a1"))
