"""A command whose own files are replaced or removed meanwhile says so: that is no bug, and nobody has to report it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from yarnopp_cli import upgrade_behind
from yarnopp_cli.errors import EXIT_TRY_AGAIN
from yarnopp_cli.rpc.wire import METHOD_NOT_FOUND, OTHER_VERSION, error_of

ROOT = Path(__file__).resolve().parent.parent.parent
BREAKS: dict[str, Callable[[Path], object]] = {
    "first": lambda root: (root / "yarnopp_cli" / "cli" / "app.py").unlink(),
    "package": lambda root: shutil.rmtree(root / "yarnopp_cli" / "views"),
    "executor": lambda root: (root / "executor" / "hints.py").unlink(),
    "late": lambda root: (root / "yarnopp_cli" / "cluster" / "inspection.py").unlink(),
    "empty": lambda root: (root / "yarnopp_cli" / "errors.py").write_text(""),
    "half": lambda root: (root / "yarnopp_cli" / "cluster" / "inspection.py").write_text("def look("),
    "other": lambda root: (root / "yarnopp_cli" / "cluster" / "inspection.py").write_text(
        "def inspect_cluster(a, b): pass"
    ),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("installed")
    for name in ("executor", "yarnopp_cli", "configs"):
        shutil.copytree(ROOT / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    return made


@pytest.mark.parametrize("break_", BREAKS.values(), ids=BREAKS)
def test_it_says_that_its_files_were_replaced(
    installed: Path, tmp_path: Path, break_: Callable[[Path], object]
) -> None:
    root = tmp_path / "root"
    shutil.copytree(installed, root)
    break_(root)
    ended = subprocess.run(
        [sys.executable, "-m", "yarnopp_cli", "status"], capture_output=True, text=True, cwd=tmp_path, timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert ended.returncode == EXIT_TRY_AGAIN, ended.stderr
    told, because, hint = ended.stderr.splitlines()
    assert told == "error: the files of yopp were replaced or removed while this command ran"
    assert because.startswith("  because: ") and hint.startswith("  hint: type the command again")


@pytest.mark.parametrize("left", [None, "__init__.py", "__main__.py"])
def test_the_program_without_its_package_says_so(tmp_path: Path, left: str | None) -> None:
    shutil.copytree(ROOT / "bin", tmp_path / "bin")
    if left is not None:  # half of the file was written
        (tmp_path / "yarnopp_cli").mkdir()
        text = (ROOT / "yarnopp_cli" / left).read_text()
        (tmp_path / "yarnopp_cli" / left).write_text(text[: text.index('"""', 10)])
    bare = os.path.realpath(sys.executable)  # outside the virtual environment, where there is no yopp
    ended = subprocess.run(
        [bare, tmp_path / "bin" / "yopp", "status"], capture_output=True, text=True, cwd="/",
        timeout=60, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ended.returncode == EXIT_TRY_AGAIN, ended.stderr
    assert ended.stderr.splitlines()[0] == "error: the files of yopp are missing or incomplete"


@pytest.mark.parametrize("error", [SyntaxError("invalid syntax"), ModuleNotFoundError(name="msgspec")])
def test_what_lacks_a_file_is_incomplete_however_long_ago_it_was_written(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnopp_cli._STARTING_SECONDS", -1e9)  # all files are older
    assert upgrade_behind(ValueError()) is None
    assert upgrade_behind(error) is not None


def test_a_daemon_of_another_version_is_named_as_the_reason() -> None:
    assert (
        error_of({"code": METHOD_NOT_FOUND, "message": "there is no method 'x' here"}).hint == OTHER_VERSION
    )
