"""Trees that a container can make and that no path, stack or limit of descriptors reaches are removed all the same."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.trees import last_written, remove_tree

pytestmark = pytest.mark.pure
NAME = "n" * 100


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], used + 200), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def nest(top: Path, depth: int) -> None:
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir(NAME, dir_fd=here)
        below = os.open(NAME, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_tree_deeper_than_a_path_and_the_descriptors(tmp_path: Path, few_descriptors: None) -> None:
    nest(tmp_path / "deep", 1500)
    assert last_written(str(tmp_path / "deep")) > 0
    before = len(os.listdir("/proc/self/fd"))
    assert remove_tree(str(tmp_path / "deep")) == []
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "file"
    kept.parent.mkdir()
    kept.write_text("here")
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "below" / "link").symlink_to(kept.parent)
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert remove_tree(str(tmp_path / "tree")) == []
    (error,) = remove_tree(str(tmp_path / "link"))
    assert error.filename == str(tmp_path / "link")
    assert kept.read_text() == "here"
    assert sorted(os.listdir(tmp_path)) == ["kept", "link"]


def test_what_is_not_there_is_told_and_has_no_time(tmp_path: Path) -> None:
    (error,) = remove_tree(str(tmp_path / "none"))
    assert isinstance(error, FileNotFoundError)
    assert last_written(str(tmp_path / "none")) == 0


def test_the_newest_time_below(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    newest = tmp_path / "a" / "b" / "file"
    newest.touch()
    for path, when in ((newest, 3000), (tmp_path / "a" / "b", 2000), (tmp_path / "a", 1000), (tmp_path, 500)):
        os.utime(path, (when, when))
    assert last_written(str(tmp_path)) == 3000
