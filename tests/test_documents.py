"""The pages and the tests agree: each promise has its tests, each test exists, and generated documents are current."""

from __future__ import annotations

import re

import pytest

from tests.documents import GENERATED, NONE, ROOT, every_test, promises, resolved
from tests.settings.test_yarn_names import NAMES
from yarnopp_cli.settings.declarations import PROPERTIES

CASES = """
A1 A2 A3 A4 A5 A6 A7 A8 A11 A12 A13 A'2 A'4 A'5 A'7 A'8 B1 C1 C2 D1 E1 E7 E9 E11 F1 F2 F6 F7 F9 G1 G2 G3 G4 G5 G6 G11
G12 H1 H2 H3 H4 H5 H6 H12 I J1 J2 J3 J4 J5 J6 K1 K3 K4 L1 L2 L3 L4 M N O
"""
BUGS = """
5117 7185 8346 7542 8606 10760 5918 9402 7587 5350 9238 5351 7531 6849 7203 5204 9166 9382 6756 9164 9594 6565 8893
10649 11808 5110 5799 5823 7630 9448
"""
PROMISES = promises()
KNOWN = every_test()
LINES = [
    pytest.param(tests, id=f"{section}: {promise}"[:80])
    for section, entries in PROMISES.items()
    for promise, tests in entries.items()
]
CONFORMANCE = "docs/conformance.md"
GAPS, YARNS_BUGS = "What is wrong in YARN 3.4.1 by its own code", "YARN's known bugs"


def page(name: str, heading: str = "") -> str:
    """A page, or its part below a heading of the second level."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0] if heading else text


def table(text: str) -> list[str]:
    """The first cells of all tables in a text, without their heads."""
    lines = text.splitlines()
    rows = [line for above, line in zip(["", *lines], lines, strict=False) if line.startswith("| ") and above]
    cells = [row.strip("|").split(" | ")[0].strip() for row in rows]
    assert len(set(cells)) == len(cells), "one line each"
    return cells


@pytest.mark.parametrize("tests", LINES)
def test_each_promise_has_tests_or_a_reason(tests: list[str]) -> None:
    for test in tests:
        assert len(test) > 20 if test.startswith(NONE) else resolved(test, KNOWN), f"no test matches {test}"


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("docs/security.md", ""),
        ("docs/operations.md", "Tested faults"),
        (CONFORMANCE, GAPS),
        (CONFORMANCE, YARNS_BUGS),
    ],
)
def test_each_line_of_a_page_is_a_promise_and_each_promise_is_there(name: str, heading: str) -> None:
    section = f"{name}: {heading}" if heading else name
    assert table(page(name, heading)) == list(PROMISES[section])


def test_no_case_of_yarn_is_missing() -> None:
    cases = PROMISES[f"{CONFORMANCE}: Cases of Hadoop's own tests"]
    assert {name.split(",")[0].split(" to ")[0] for name in cases} == set(CASES.split())
    listed = re.split(r",\s+", page(CONFORMANCE, "Cases of Hadoop's own tests").split(".")[0].strip())
    assert listed == [name.replace(", ", " and ") for name in cases]
    assert list(PROMISES[f"{CONFORMANCE}: {GAPS}"]) == [f"G{number}" for number in range(1, 17)]
    assert list(PROMISES[f"{CONFORMANCE}: {YARNS_BUGS}"]) == [f"YARN-{number}" for number in BUGS.split()]
    properties = [name for name in NAMES if name in PROPERTIES]
    assert list(PROMISES[f"{CONFORMANCE}: Properties"]) == properties
    assert re.findall(r"^\* ([\w.-]+)", page(CONFORMANCE, "Properties"), re.MULTILINE) == properties


def test_the_count_that_the_page_states_is_that_of_its_lines() -> None:
    defects = [tests for part in (GAPS, YARNS_BUGS) for tests in PROMISES[f"{CONFORMANCE}: {part}"].values()]
    shown = [tests for tests in defects if not tests[0].startswith(NONE)]
    apart = len(defects) - len(shown)
    words = {0: "all apply", 1: "one does not apply"}.get(apart, f"{apart} do not apply")
    count = (
        f"For {len(shown)} of these {len(defects)} defects a test shows that they cannot occur here; {words}."
    )
    assert count in " ".join(page(CONFORMANCE).split())


@pytest.mark.parametrize("name", GENERATED)
def test_a_document_is_what_would_be_generated(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == GENERATED[name](), "run: make man"


def test_each_decision_has_a_reason_and_a_price() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").split("\n## Dependencies")[0]
    decisions = re.split(r"^\*\*([a-z-]+)\*\*\.", text, flags=re.MULTILINE)[1:]
    assert len(decisions) > 60
    for name, body in zip(decisions[::2], decisions[1::2], strict=True):
        assert [body.count(f"\n* *{part}.* ") for part in ("Reason", "Price and risk")] == [1, 1], name
