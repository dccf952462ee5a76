"""Each transcript in this directory is what the scheduler answers today."""

from __future__ import annotations

from pathlib import Path

import pytest

from .transcript import HERE, performed

TRANSCRIPTS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    assert performed(path.read_text()) == path.read_text()


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8


def test_a_wrong_answer_is_seen() -> None:
    text = TRANSCRIPTS[0].read_text()
    assert performed(text.replace("LAUNCHING", "RUNNING", 1)) != text.replace("LAUNCHING", "RUNNING", 1)
