"""What the tasks of a job read: pieces of the standard input, files, and nothing that somebody piped in."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from yarnopp_cli.cli.jobs import inputs
from yarnopp_cli.cli.jobs.inputs import Block, fed
from yarnopp_cli.cluster.rundir import RunDir
from yarnopp_cli.errors import UsageError, YoppError
from yarnopp_cli.masters.commands import Tasks
from yarnopp_cli.records.jobs import Sweep


@pytest.mark.parametrize(
    ("text", "number", "lines"),
    [
        ("1", 1, False),
        ("10k", 10240, False),
        ("2M", 2 << 20, False),
        ("1G", 1 << 30, False),
        ("50L", 50, True),
    ],
)
def test_sizes_of_pieces(text: str, number: int, lines: bool) -> None:
    block = Block(text)
    assert (block.number, block.lines) == (number, lines)


@pytest.mark.parametrize("text", ["", "0", "0L", "M", "-1", "1.5M", "10X", "1MM", "9" * 20])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        Block(text)


def cut(data: bytes, block: str, directory: Path) -> list[bytes]:
    paths = inputs._cut(io.BytesIO(data), str(directory), Block(block))
    assert paths == [str(directory / str(number)) for number in range(1, len(paths) + 1)]
    return [Path(path).read_bytes() for path in paths]


def test_pieces_are_whole_lines(tmp_path: Path) -> None:
    def piece(data: bytes, block: str) -> list[bytes]:
        there = tmp_path / str(len(list(tmp_path.iterdir())))
        there.mkdir()
        return cut(data, block, there)

    assert piece(b"", "10") == [b""], "a command that reads nothing runs, as in a pipe"
    assert piece(b"a\nb\nc", "2L") == [b"a\nb\n", b"c"]
    assert piece(b"a\nb\nc\n", "1") == [b"a\n", b"b\n", b"c\n"]
    assert piece(b"aaaa\nb\nccc\n", "6") == [b"aaaa\nb\n", b"ccc\n"]
    long = b"x" * 200_000 + b"\n"
    assert piece(long + b"y\n" + long, "1K") == [long, b"y\n" + long], "a long line is one"
    assert piece(long * 3, "2L") == [long * 2, long]


def test_more_pieces_than_tasks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_TASKS", 3)
    with pytest.raises(UsageError, match="more than 3 pieces"):
        cut(b"1\n2\n3\n4\n", "1L", tmp_path)


def swept(*values: str, sources: int = 1) -> Tasks:
    return Tasks(("wc", "-l"), (range(1, len(values) + 1),), Sweep((values,) * sources))


def test_a_file_is_read_by_every_task_or_by_its_own(tmp_path: Path) -> None:
    run_dir = RunDir.of(str(tmp_path / "run"))
    (tmp_path / "a b").write_text("x\n")
    plain = Tasks(("wc", "-l"), (range(1, 3),))
    for tasks, file in ((plain, "a b"), (swept("a b"), "{1}"), (swept("a b"), str(tmp_path / "{}"))):
        with fed(tasks, file, None, str(tmp_path), run_dir) as given:
            assert given.command == (*inputs.READS, file, "wc", "-l")
            assert (given.name, given.sweep, given.numbers) == ("wc", tasks.sweep, tasks.numbers)
    assert (
        subprocess.run([*inputs.READS, str(tmp_path / "a b"), "wc", "-l"], capture_output=True).stdout
        == b"1\n"
    )


@pytest.mark.parametrize(
    ("tasks", "file", "told"),
    [
        (swept("a", "b"), "{1}", "b, which task 2 reads, cannot be read"),
        (swept("a"), "nothing", "nothing cannot be read"),
        (swept("a"), ".", ". cannot be read"),
        (swept("a"), "{2}", "does not name a file for each task"),
        (swept("a", sources=2), "{}", "does not name a file for each task"),
        (Tasks(("wc",), (range(1, 2),)), "{1}", "does not name a file for each task"),
        (Tasks((), (range(1, 2),), Sweep((("a",),), shell=True)), "a", "needs a COMMAND"),
    ],
)
def test_a_file_that_no_task_can_read(tmp_path: Path, tasks: Tasks, file: str, told: str) -> None:
    (tmp_path / "a").write_text("")
    with (
        pytest.raises(YoppError, match=told),
        fed(tasks, file, None, str(tmp_path), RunDir.of(str(tmp_path))),
    ):
        pass


READER = "from yarnopp_cli.cli.jobs.inputs import refuse_unread; refuse_unread()"


def test_what_is_piped_in_and_read_by_nobody_is_refused(tmp_path: Path) -> None:
    """A pipe with data, a file: but not what the parent reads, as a loop of a shell does, and no empty ones."""
    command = [sys.executable, "-c", READER]

    def refused(fd: int) -> bool:
        ended = subprocess.run(command, stdin=fd, capture_output=True)
        assert (b"would read the standard input" in ended.stderr) == bool(ended.returncode), ended.stderr
        return ended.returncode != 0

    for data in ("", "a\nb\n"):
        (tmp_path / "lines").write_text(data)
        with open(tmp_path / "lines") as file:
            assert refused(file.fileno()) == bool(data)
    loop = f"while read line; do {shlex.join(command)} || exit 1; done <{tmp_path}/lines"
    assert subprocess.run(["sh", "-c", loop]).returncode == 0
    read, write = os.pipe()
    try:
        assert not refused(read)
        os.write(write, b"data\n")
        assert refused(read)
    finally:
        os.close(read)
        os.close(write)
