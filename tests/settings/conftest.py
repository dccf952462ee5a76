"""A loader that sees only what a test gives it: an empty home, and no site but the test's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from yarnopp_cli.errors import ConfigurationError
from yarnopp_cli.settings.loading import Configuration, Findings, examine, load

Load = Callable[..., Configuration]
Write = Callable[..., str]
Problems = Callable[..., list[ConfigurationError]]


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of commands that run in this process: a home and a run directory below the test's."""
    for name in ("YOPP_CONF", "YOPP_OUTPUT", "NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    monkeypatch.setenv("YOPP_RUN_DIR", f"{tmp_path}/run")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the test's directory; answers its path."""

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.fixture
def load_with(tmp_path: Path) -> Load:
    """``load`` with an empty home, and with the library's own defaults where no file is named."""

    def load_with(
        conf: Sequence[str] = ("/dev/null",), defines: Sequence[str] = (), **environ: str
    ) -> Configuration:
        home = {"HOME": str(tmp_path / "home")}
        return load(conf, defines, environ={**home, **environ}, state_dir="/var/state")

    return load_with


@pytest.fixture
def problems_of(tmp_path: Path) -> Problems:
    """Every problem of one configuration."""

    def problems_of(
        conf: Sequence[str] = ("/dev/null",), defines: Sequence[str] = (), **environ: str
    ) -> list[ConfigurationError]:
        home = {"HOME": str(tmp_path / "home")}
        findings: Findings = examine(conf, defines, environ={**home, **environ}, state_dir="/var/state")
        assert (findings.configuration is None) == bool(findings.problems)
        return findings.problems

    return problems_of
