"""Each target in a process of its own, for a fixed number of runs, or for ``YOPP_FUZZ_SECONDS``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import MODULES, Order
from .target import Target, quoted

TARGETS: dict[str, Target] = {
    f"{module}.{name}": target
    for module in MODULES
    for name, target in importlib.import_module(f"tests.fuzzing.{module}").TARGETS.items()
}
FOUND = [
    ("node.slot_journal", b"launcher 99999999999 1\nbegin 0 0 0 0 c1\nend 1337\n"),
    ("node.slot_journal", b"begin inf 0 0 0 c1\npid -1 0\nbegin 0 nan 0 0 c2\nbegin 0 0 -1 0 c3\n"),
    ("node.slot_journal", b"next 99999999999999999999 0 0 0 0 c1\npid 1 99999999999999999999\n"),
]
"""What was found once."""
WORDS = ("true", "null", "NaN", "1e9", "-1", "99999999999999999999")
"""What is worth a try everywhere."""
RUNS = 2000
SECONDS = int(os.environ.get("YOPP_FUZZ_SECONDS", "0"))


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[Order, str], int]]:
    """Run an order for a target of a module; its exit code. The server of the module starts with the first one."""
    servers: dict[str, subprocess.Popen[str]] = {}

    def served(order: Order, module: str) -> int:
        if module not in servers:
            servers[module] = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzzing", "--serve", module],
                env={**os.environ, "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # each module that is instrumented
                text=True,
                start_new_session=True,  # with what it runs it is one process group
            )
        server = servers[module]
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, f"the server of {module} has ended: {server.wait()}"
        return int(answer)

    yield served
    for server in servers.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.timeout(120 + SECONDS)
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_else_is_raised_and_what_is_promised_holds(
    name: str, tmp_path: Path, run: Callable[[Order, str], int]
) -> None:
    target = TARGETS[name]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for at, seed in enumerate(target.seeds):
        (corpus / str(at)).write_bytes(seed)
    (tmp_path / "words").write_text(quoted((*WORDS, *target.words)))
    module, _, short = name.partition(".")
    order = Order(
        short,
        [
            *(
                (f"-max_total_time={SECONDS}",)
                if SECONDS
                else (f"-runs={RUNS}", "-max_total_time=5", "-seed=1")
            ),
            *("-timeout=20", "-rss_limit_mb=2048", "-len_control=0", "-max_len=4096", "-verbosity=0"),
            *(f"-dict={tmp_path / 'words'}", f"-artifact_prefix={tmp_path}/found-"),
            str(corpus),
        ],
        directory=str(tmp_path),
        output=str(tmp_path / "said"),
    )
    code = run(order, module)
    printed = (tmp_path / "said").read_text(errors="replace")
    said = re.sub(r"(?m)^(INFO|\[INFO\]|WARNING: Failed to find function).*\n", "", printed)
    found = [path.read_bytes() for path in tmp_path.glob("found-*")]
    assert code == 0, f"{name}: {found!r}\n{said}"


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_is_mended(name: str, data: bytes) -> None:
    TARGETS[name].run(data)
