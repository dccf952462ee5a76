"""Who may read what containers write."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from executor import trees
from executor.errors import CannotLaunchError
from executor.linux import directories as module
from executor.linux.directories import Directories

from ..test_trees import nest
from .node import a_spec, until


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_output_is_its_owners_and_their_groups(tmp_path: Path) -> None:
    """YARN's modes, whatever the umask lets through: others pass the directory of all logs, and read nothing."""
    before = os.umask(0)
    try:
        directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
        spec = a_spec("c1", "true", application_id="a1")
        directories.prepare(spec)
        directories.prepare(spec)  # another attempt
    finally:
        os.umask(before)
    assert (mode(tmp_path / "logs"), mode(tmp_path / "work")) == (0o755, 0o755)
    assert mode(tmp_path / "logs" / "a1") == mode(tmp_path / "logs" / "a1" / "c1") == 0o750
    assert mode(directories.private("c1")) == 0o700


@pytest.mark.parametrize("victim", ["work", "logs"])
def test_what_somebody_is_removing_is_made_again(
    tmp_path: Path, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    shutil.rmtree(tmp_path / victim)
    make, made = os.mkdir, list[str]()

    def mkdir(path: str, mode: int = 0o777) -> None:
        make(path, mode)
        if path == str(tmp_path / victim) and not made:  # rm has read its parent, and comes to it only now
            made.append(path)
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    spec = a_spec("c1", "true", application_id="a1")
    directories.prepare(spec)
    assert made and directories.are_there(spec)


def test_a_log_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    (tmp_path / "logs" / "a1").mkdir()
    (tmp_path / "logs" / "a1" / "c1").touch()
    with pytest.raises(CannotLaunchError):
        directories.prepare(a_spec("c1", "true", application_id="a1"))


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")


def place(directories: Directories, name: str) -> int:
    directories.prepare(a_spec(name, "true"))
    return os.stat(directories.private(name)).st_ino


def test_a_directory_that_nobody_touched_serves_the_next_container(
    tmp_path: Path, directories: Directories
) -> None:
    first = place(directories, "c1")
    assert directories.keep_private("c1") and os.listdir(directories.work) == []
    assert place(directories, "c2") == first and os.listdir(directories.state) == []
    assert place(directories, "c3") != first, "one that is in use serves nobody else"
    assert directories.keep_private("c2") and directories.keep_private("c3")
    assert directories.keep_private("c3"), "it is gone"
    directories.close()
    assert os.listdir(directories.work) == os.listdir(directories.state) == []
    place(directories, "c4")
    assert directories.keep_private("c4") and os.listdir(directories.state) == [], "none is kept after that"


@pytest.mark.parametrize("change", ["mode", "attribute", "size", "replaced", "file", "directory", "gone"])
def test_a_directory_that_was_changed_serves_nobody_else(
    tmp_path: Path, directories: Directories, change: str
) -> None:
    place(directories, "c0")
    place(directories, "c1")
    private = Path(directories.private("c1"))
    match change:
        case "mode":
            private.chmod(0o755)
        case "attribute":
            try:
                os.setxattr(private, "user.of", b"c1")
            except OSError as error:
                pytest.skip(f"no attributes here: {error.strerror}")
        case "size":
            names = [private / f"{number:0200}" for number in range(200)]
            for name in names:
                name.touch()
            for name in names:
                name.unlink()
            if private.stat().st_size == os.stat(directories.private("c0")).st_size:
                pytest.skip("a directory does not stay large here")
        case "replaced":
            private.rmdir()
            private.symlink_to(tmp_path)
        case "file":
            (private / "left").touch()
        case "directory":
            (private / "left").mkdir()
        case "gone":
            private.rmdir()
    left = change in ("replaced", "file", "directory")
    assert directories.keep_private("c1") is not left, "what is left is removed thoroughly, by another way"
    assert os.listdir(directories.state) == []
    assert os.path.lexists(private) is left


def test_a_spare_directory_hides_nothing_that_is_there(directories: Directories) -> None:
    """A second attempt finds what the first one has left."""
    place(directories, "c1")
    place(directories, "c2")
    assert directories.keep_private("c1")
    mine = place(directories, "c2")
    assert mine == place(directories, "c2") and len(os.listdir(directories.state)) == 1
    (spare,) = os.listdir(directories.state)
    os.rmdir(os.path.join(directories.state, spare))
    place(directories, "c3")
    assert os.path.isdir(directories.private("c3")), "somebody has taken the spare one away"


def test_spare_directories_of_an_earlier_run_are_removed(tmp_path: Path, directories: Directories) -> None:
    place(directories, "c1")
    assert directories.keep_private("c1")
    later = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    later.remove_earlier_spares()
    assert os.listdir(later.state) == []


@pytest.mark.parametrize("kind", ["many", "deep"])
def test_a_large_directory_is_removed_while_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A user can put any number of files into the directory of a container, and the node's loop removes it."""
    directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    private, go_on = Path(directories.private("c1")), threading.Event()
    remove = trees.remove_tree
    monkeypatch.setattr(module, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(module, "remove_tree", lambda path: go_on.wait(20) and remove(path))
    private.mkdir()
    if kind == "many":
        for number in range(4):
            (private / str(number)).touch()
    else:
        nest(private / "deep", 60)
    assert directories.remove_private("c1", thoroughly=True)
    private.mkdir()
    (aside,) = [one for one in (tmp_path / "work").iterdir() if one != private]
    assert directories.known_containers() == {"c1"}
    go_on.set()
    until(lambda: not aside.exists(), "it goes")
    aside.mkdir()  # as a node leaves it that ends meanwhile
    later = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    later.remove_earlier_spares()
    until(lambda: not aside.exists(), "the next node removes it")
    assert private.exists()


def test_a_small_one_is_removed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = Directories(tmp_path / "work", tmp_path / "logs", tmp_path / "state")
    (tmp_path / "work" / "c1" / "a").mkdir(parents=True)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("no thread is needed"))
    assert directories.remove_private("c1", thoroughly=True)
    assert not list((tmp_path / "work").iterdir())
