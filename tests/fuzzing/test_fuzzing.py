"""Each target in a process of its own, for a fixed number of runs, or for ``YOPP_FUZZ_SECONDS``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import MODULES
from .target import Target, quoted

TARGETS: dict[str, Target] = {
    f"{module}.{name}": target
    for module in MODULES
    for name, target in importlib.import_module(f"tests.fuzzing.{module}").TARGETS.items()
}
FOUND = [
    ("node.exit_file", b"1\n99999999999999999999\n"),
    ("node.exit_file", b"99999999999999999999\n1\n"),
    ("node.slot_journal", b"launcher 99999999999 1\nbegin 0 0 0 0 c1\nend 1337\n"),
    ("node.slot_journal", b"begin inf 0 0 0 c1\npid -1 0\nbegin 0 nan 0 0 c2\nbegin 0 0 -1 0 c3\n"),
    ("node.slot_journal", b"next 99999999999999999999 0 0 0 0 c1\npid 1 99999999999999999999\n"),
]
"""What was found once."""
WORDS = ("true", "null", "NaN", "1e9", "-1", "99999999999999999999")
"""What is worth a try everywhere."""
RUNS = 2000
SECONDS = int(os.environ.get("YOPP_FUZZ_SECONDS", "0"))


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.timeout(120 + SECONDS)
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_else_is_raised_and_what_is_promised_holds(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for at, seed in enumerate(target.seeds):
        (corpus / str(at)).write_bytes(seed)
    (tmp_path / "words").write_text(quoted((*WORDS, *target.words)))
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzzing", name),
            *(
                (f"-max_total_time={SECONDS}",)
                if SECONDS
                else (f"-runs={RUNS}", "-max_total_time=5", "-seed=1")
            ),
            *("-timeout=20", "-rss_limit_mb=2048", "-len_control=0", "-max_len=4096", "-verbosity=0"),
            *(f"-dict={tmp_path / 'words'}", f"-artifact_prefix={tmp_path}/found-"),
            corpus,
        ],
        env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
    )
    said = re.sub(r"(?m)^(INFO|\[INFO\]|WARNING: Failed to find function).*\n", "", ended.stdout)
    found = [path.read_bytes() for path in tmp_path.glob("found-*")]
    assert ended.returncode == 0, f"{name}: {found!r}\n{said}"


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_is_mended(name: str, data: bytes) -> None:
    TARGETS[name].run(data)
