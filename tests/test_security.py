"""docs/security.md and docs/reliability.md name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE + RELIABILITY)))


def test_each_promise_names_the_test_that_attacks_it() -> None:
    promises = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(promises) > 12
    assert [line for line in promises if "`test_" not in line] == []


@pytest.mark.parametrize("name", NAMED)
def test_it_exists(name: str) -> None:
    declared = re.compile(rf"^ *(async )?def {name}\(", re.MULTILINE)
    assert any(declared.search(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
