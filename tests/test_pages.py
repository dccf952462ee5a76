"""Links of the pages lead to files and headings, their commands exist, and README and performance are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from yarnopp_cli.cli.table import TABLE

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
FOREIGN = {"no such option: -x", "ls: invalid option -- 'O'"}
"""Symptoms that other programs and libraries print."""
COMMANDS = {entry.name for entry in TABLE}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if not link.startswith(("http:", "https:")):
            file, _, heading = link.partition("#")
            target = page.parent / file if file else page
            assert target.exists(), link
            assert not heading or heading in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    typed = re.findall(r"(?:^\$ |`)yopp ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(typed) - COMMANDS == set()


def test_pages_are_of_readable_length() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100
    assert len((ROOT / "docs" / "performance.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_symptoms_are_messages_of_the_program() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "yarnopp_cli").rglob("*.py"))
    source += "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "executor").rglob("*.py"))
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    symptoms = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    messages = [one for cell in symptoms for one in re.findall(r"`([^`]+)`", cell) if one.count(" ") > 2]
    assert len(messages) > 20
    for message in messages:
        fixed = [part.strip(" ,.:") for part in re.split(r"\S*[\d<>…A-Z]\S*", message)]
        known = any(" " in part and part in source for part in fixed)
        assert known or message in FOREIGN, message
