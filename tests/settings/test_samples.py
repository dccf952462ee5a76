"""The samples in ``configs/``: each is read without a word, and says what it is for."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from executor.settings import ExecutorSettings
from yarnopp_cli.settings.declarations import PROPERTIES
from yarnopp_cli.settings.files import SHIPPED_SITE

from .conftest import Load, Write

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SAMPLES = sorted(CONFIGS.glob("*.toml"))


def test_there_are_samples() -> None:
    assert {path.name for path in SAMPLES} >= {
        "yarn-site.toml",
        "yarn-default.toml",
        "pause.toml",
        "strict.toml",
        "yarn-rules.toml",
    }


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_read_without_a_word(load_with: Load, path: Path) -> None:
    configuration = load_with([str(path)])
    assert configuration.warnings == ()
    assert path.read_text().startswith("# ")


def test_what_the_samples_are_for(load_with: Load) -> None:
    pause = load_with([str(CONFIGS / "pause.toml")]).settings(ExecutorSettings)
    assert pause.use_pause_for_preemption and pause.max_queue_length == 10
    strict = load_with([str(CONFIGS / "strict.toml")]).settings(ExecutorSettings)
    assert strict.strict_resource_usage and strict.pids_max == 512 and strict.max_overtakes == 0
    yarns = load_with([str(CONFIGS / "yarn-rules.toml")]).settings(ExecutorSettings)
    assert (yarns.queue_policy, yarns.preemption_policy, yarns.paused_place) == (
        "FIFO",
        "NEWEST_FIRST",
        "TAIL",
    )
    assert yarns.all_pass_through_queue and yarns.paused_memory == "release"
    assert yarns.force_start_guaranteed and not yarns.refuse_oversized


def test_the_samples_differ_from_the_local_site_only_in_what_they_show(load_with: Load) -> None:
    site = load_with([str(CONFIGS / "yarn-site.toml")]).non_default()
    for name in ("pause.toml", "strict.toml", "yarn-rules.toml"):
        expected = dict(site)
        if name == "yarn-rules.toml":
            del expected["yopp.nodemanager.pressure.enabled"]  # YARN looks at promises alone
            del expected["yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"]  # and kills
        assert load_with([str(CONFIGS / name)]).non_default().items() >= expected.items()


def test_the_shipped_site_is_the_one_in_configs() -> None:
    assert Path(SHIPPED_SITE).read_bytes() == (CONFIGS / "yarn-site.toml").read_bytes()


def test_every_property_of_the_default_file_can_be_taken_from_it(load_with: Load, write: Write) -> None:
    text = re.sub(r"^#(?=\w)", "", (CONFIGS / "yarn-default.toml").read_text(), flags=re.MULTILINE)
    path = write("all.toml", text)
    configuration = load_with([path])
    assert {name for name in PROPERTIES if configuration.origin(name).startswith(path)} == set(PROPERTIES)
    assert configuration.non_default() == {}
    assert configuration.warnings == ()


def test_the_service_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = CONFIGS / "yopp-nodemanager.service"
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    assert parser["Service"]["KillMode"] == "process"
    assert parser["Service"]["Delegate"] == "cpu memory pids"
    assert parser["Service"]["ExecStart"].endswith("/yopp nm run")
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here: the unit was only parsed")
    program = shutil.which("true")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/usr/local/bin/yopp nm run", f"{program}"))
    checked = subprocess.run(
        [analyze, "verify", "--man=no", copy], text=True, capture_output=True, timeout=60
    )
    assert unit.name not in checked.stderr, checked.stderr
