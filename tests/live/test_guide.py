"""The commands of docs/guide.md are typed in their order, beside one cluster: each ends as the guide shows it."""

from __future__ import annotations

import re
import subprocess

import pytest

from .conftest import ROOT, Yopp
from .test_examples import on_the_path

pytestmark = pytest.mark.live

FAILS = re.compile(r"^(error:|failed after)", re.MULTILINE)
NOT_TYPED = re.compile(r"doctor|activate|/dev/null &|kill %1|^cat train")
"""The installation is that of the tests, and a load of the machine would be one for the other tests, too."""


def typed() -> list[tuple[str, str]]:
    """The commands of the guide, each with the output that it shows."""
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(\$ .*?)^```", text, re.MULTILINE | re.DOTALL)
    pairs = [
        part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return [(line.split("  #")[0].strip(), shown) for line, _, shown in pairs if not NOT_TYPED.search(line)]


def without_node(text: str) -> str:
    return re.sub(r"\S+:\d{5}", "NODE", text)


@pytest.mark.timeout(300)
def test_each_command_of_the_guide_ends_as_it_is_shown(yopp: Yopp) -> None:
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    program = text.split("$ cat train.py\n")[1].split("```")[0]
    (yopp.home / "train.py").write_text(program.replace("sleep(5)", "sleep(0.5)"))
    (yopp.home / "train.py").chmod(0o755)
    (yopp.home / "hog.py").write_text("memory = bytearray(10**9)\nimport time; time.sleep(60)\n")
    commands, environment = typed(), on_the_path(yopp)
    assert len(commands) > 25
    for line, shown in commands:
        line = line.replace("sleep 20", "sleep 1")  # it is waited for
        if line == "yopp up":
            line += " --vcores 2 -Dyopp.nodemanager.pressure.enabled=false"
        ended = subprocess.run(
            ["bash", "-c", line], env=environment, cwd=yopp.home, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said = f"{line}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        assert bool(ended.returncode) == bool(FAILS.search(shown)), said
        assert "Traceback" not in said
        if line.startswith("cat ") or "--dry-run" in line:
            assert without_node(ended.stdout + ended.stderr) == without_node(shown), said
