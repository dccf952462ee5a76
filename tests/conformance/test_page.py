"""docs/conformance.md and the tests agree: each case, gap, bug and property has its line, and each line its test."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from tests.settings.test_yarn_names import NAMES
from yarnopp_cli.settings.declarations import PROPERTIES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
CASES = """
A1 A2 A3 A4 A5 A6 A7 A8 A11 A12 A13 A'2 A'4 A'5 A'7 A'8 B1 C1 C2 D1 E1 E7 E9 E11 F1 F2 F6 F7 F9 G1 G2 G3 G4 G5 G6 G11
G12 H1 H2 H3 H4 H5 H6 H12 I J1 J2 J3 J4 J5 J6 K1 K3 K4 L1 L2 L3 L4 M N O
"""
BUGS = """
5117 7185 8346 7542 8606 10760 5918 9402 7587 5350 9238 5351 7531 6849 7203 5204 9166 9382 6756 9164 9594 6565 8893
10649 11808 5110 5799 5823 7630 9448
"""


def known_tests() -> set[str]:
    """The names of all tests that there are."""
    defined = re.compile(r"^ *def (test_\w+)\(", re.MULTILINE)
    return {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in defined.findall(path.read_text())
    }


def rows(heading: str) -> dict[str, list[str]]:
    """The lines of one table: first cell -> the others."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({row[0] for row in cells}) == len(cells), "one line each"
    return {row[0]: row[1:] for row in cells}


SECTIONS = {
    "Cases of Hadoop's own tests": 0,
    "What is wrong in YARN 3.4.1 by its own code": 1,
    "YARN's known bugs": 1,
    "Properties": 0,
}
"""Heading -> which cell after the first names the tests."""
LINES = [
    (heading, name, row[cell]) for heading, cell in SECTIONS.items() for name, row in rows(heading).items()
]
KNOWN = known_tests()


@pytest.mark.parametrize(("heading", "name", "cell"), LINES, ids=[f"{name}" for _, name, _ in LINES])
def test_each_line_names_a_test_or_a_reason(heading: str, name: str, cell: str) -> None:
    if cell.startswith("—"):
        assert len(cell) > 20, "a reason"
        return
    patterns = re.findall(r"`(test_[^`]+)`", cell)
    assert patterns, f"{name} of {heading!r} names no test"
    for pattern in patterns:
        assert fnmatch.filter(KNOWN, pattern), f"no test matches {pattern}"


def test_no_line_is_missing() -> None:
    assert {name.split(",")[0].split(" to ")[0] for name in rows("Cases of Hadoop's own tests")} == set(
        CASES.split()
    )
    assert list(rows("What is wrong in YARN 3.4.1 by its own code")) == [
        f"G{number}" for number in range(1, 17)
    ]
    assert list(rows("YARN's known bugs")) == [f"YARN-{number}" for number in BUGS.split()]
    assert list(rows("Properties")) == [name for name in NAMES if name in PROPERTIES]


def test_the_count_that_the_page_states_is_that_of_its_lines() -> None:
    defects = [line for line in LINES if line[0] in list(SECTIONS)[1:3]]
    shown = [line for line in defects if not line[2].startswith("—")]
    apart = len(defects) - len(shown)
    words = {0: "all apply", 1: "one does not apply"}.get(apart, f"{apart} do not apply")
    said = " ".join(PAGE.split())
    assert (
        f"For {len(shown)} of these {len(defects)} defects a test shows that they cannot occur here; {words}."
        in said
    )
