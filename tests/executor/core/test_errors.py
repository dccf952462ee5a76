"""What an error says of the system's own words."""

from __future__ import annotations

import errno
import os

import pytest

from executor.errors import reason_of


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/Some/File"), "no such file or directory"),
        (OSError("Cannot read /Some/File"), "cannot read /Some/File"),
        (ValueError("RPC struct is bad"), "RPC struct is bad"),
        (ValueError(""), ""),
    ],
)
def test_why_the_system_refused_is_said_in_the_middle_of_a_sentence(error: Exception, told: str) -> None:
    """Names keep their letters."""
    assert reason_of(error) == told
