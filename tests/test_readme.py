"""What the README shows is run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def block_after(marker: str) -> str:
    match = re.search(rf"<!-- {re.escape(marker)} -->\n```\w*\n(.*?)```", README, re.S)
    assert match, f"README.md has no block marked {marker}"
    return match[1]


@pytest.mark.live
def test_the_library_example_works_as_printed(tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(block_after("test: library"))
    ended = subprocess.run(
        [sys.executable, str(program)], cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == 10, ended.stdout
    assert all("DONE" in line or "SUCCESS" in line for line in lines), ended.stdout
    assert ended.stderr == ""
    assert [one.name for one in tmp_path.iterdir()] == [program.name], "it leaves nothing"


def test_the_readme_names_files_that_exist() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    for path in re.findall(r"`((?:executor|yarnopp_cli|configs|docs)/[\w/.-]+)`", README):
        assert (ROOT / path).exists(), path
