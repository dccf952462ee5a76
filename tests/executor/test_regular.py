"""What is no regular file of ours is neither read nor waited for; it is kept under another name."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from executor.regular import (
    LARGEST,
    NotRegularError,
    open_regular,
    read_regular,
    set_strange_aside,
    write_whole,
)

from ..strangers import NOBODY_UID


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.fspath(path))


def strangers_file(path: Path) -> None:
    path.write_text("theirs")
    os.chown(path, NOBODY_UID, NOBODY_UID)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, LARGEST + 1)


STRANGE: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
    "socket": a_socket,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "dangling": lambda path: path.symlink_to("nothing"),
    "loop": lambda path: path.symlink_to(path),
    "huge": huge,
} | ({"stranger": strangers_file} if os.geteuid() == 0 else {})


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
@pytest.mark.timeout(20)
def test_what_is_strange_is_refused_and_set_aside(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    make(path)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT):
        with pytest.raises(NotRegularError):
            open_regular(os.fspath(path), flags)
    with pytest.raises(NotRegularError):
        read_regular(os.fspath(path))
    (told,) = set_strange_aside(os.fspath(path), most=LARGEST)
    (aside,) = os.listdir(tmp_path)
    assert aside.startswith("file.aside-") and aside in told
    assert set_strange_aside(os.fspath(path)) == []
    write_whole(os.fspath(path), b"ours")
    assert read_regular(os.fspath(path)) == b"ours" and set_strange_aside(os.fspath(path)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_the_owner_of_a_directory_may_own_its_files(tmp_path: Path) -> None:
    strangers_file(tmp_path / "file")
    os.chown(tmp_path, NOBODY_UID, NOBODY_UID)
    assert read_regular(os.fspath(tmp_path / "file")) == b"theirs"
