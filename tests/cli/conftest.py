"""The command line in this process: ``cli(*words)`` runs one and returns its code, stdout and stderr."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from .fake import Cluster


class Ended(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short run directory of the test's own, in a clean environment."""
    path = Path(tempfile.mkdtemp(prefix="yopp-cli-"))
    for name in (
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "YOPP_OUTPUT",
        "YOPP_CONF",
        "YOPP_ENGINE",
        "YOPP_RM",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("YOPP_RUN_DIR", str(path))
    monkeypatch.setenv("HOME", str(path / "home"))
    tmp_path_factory.getbasetemp()  # made now, where it belongs
    monkeypatch.setattr(tempfile, "tempdir", str(path))  # where the story of a bug would go
    yield path
    shutil.rmtree(path)


@pytest.fixture
def cli(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run one command line against ``run_dir``."""
    from yarnopp_cli.cli.app import run

    def call(*words: str) -> Ended:
        capsys.readouterr()
        code = run(words)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ended(code, out, err)

    return call


@pytest.fixture
def cluster(run_dir: Path) -> Iterator[Cluster]:
    """A fake cluster with the reports of ``Cluster.populate``."""
    fake = Cluster(run_dir)
    fake.populate()
    yield fake
    fake.close()
