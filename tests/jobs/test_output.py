"""Containers' output on its way to the client's:

whole, in order, marked, and never blocking on a slow reader.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnopp_cli.jobs.output import CHUNK, OutputFollower, Sink


def forever() -> bool:
    return True


class Pipe:
    """A pipe whose reading end is the test."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)

    def read(self) -> bytes:
        data = b""
        try:
            while piece := os.read(self.read_end, 1 << 20):
                data += piece
        except BlockingIOError:
            pass
        return data

    def close(self) -> None:
        for descriptor in (self.read_end, self.write_end):
            if descriptor >= 0:
                os.close(descriptor)
        self.read_end = self.write_end = -1


@pytest.fixture
def pipes() -> Iterator[tuple[Pipe, Pipe]]:
    made = (Pipe(), Pipe())
    yield made
    for pipe in made:
        pipe.close()


def follower(tmp_path: Path, pipes: tuple[Pipe, Pipe], *, prefixed: bool = False) -> OutputFollower:
    return OutputFollower(
        str(tmp_path), Sink(pipes[0].write_end), Sink(pipes[1].write_end), prefixed=prefixed
    )


def write(tmp_path: Path, container: str, data: bytes, stream: str = "stdout") -> None:
    (tmp_path / container).mkdir(exist_ok=True)
    with open(tmp_path / container / stream, "ab") as file:
        file.write(data)


def test_bytes_go_through_as_they_are_while_they_are_written(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = follower(tmp_path, pipes)
    follow.watch("c1", 1)
    assert follow.tick(0.0) is not None
    write(tmp_path, "c1", b"half a li")
    write(tmp_path, "c1", b"oops\xff\x00", "stderr")
    follow.tick(0.0)
    assert (pipes[0].read(), pipes[1].read()) == (b"half a li", b"oops\xff\x00")
    write(tmp_path, "c1", b"ne\n")
    follow.ended("c1", 1)
    follow.drain(forever)
    assert pipes[0].read() == b"ne\n"
    assert follow.tick(0.0) is None


def test_with_a_prefix_whole_lines_are_marked_and_the_last_one_ended(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = follower(tmp_path, pipes, prefixed=True)
    follow.watch("c1", 1)
    follow.watch("c2", 2)
    write(tmp_path, "c1", b"a\nb")
    write(tmp_path, "c2", b"x\r\ny\n")
    follow.tick(0.0)
    assert pipes[0].read() == b"[1] a\n[2] x\r\n[2] y\n"
    write(tmp_path, "c1", b"c")
    follow.ended("c1", 1)
    follow.ended("c2", 2)
    follow.drain(forever)
    assert pipes[0].read() == b"[1] bc\n"


def test_a_line_without_end_is_shown_in_pieces(tmp_path: Path, pipes: tuple[Pipe, Pipe]) -> None:
    follow = follower(tmp_path, pipes, prefixed=True)
    write(tmp_path, "c1", b"z" * (CHUNK + 10))
    follow.ended("c1", 1)
    data = b""
    deadline = time.monotonic() + 10
    while follow.tick(0.0) is not None and time.monotonic() < deadline:
        data += pipes[0].read()
    data += pipes[0].read()
    assert [len(line) for line in data.splitlines()] == [CHUNK + 4, 10 + 4]


def test_a_container_that_ends_before_it_was_seen_is_copied_whole(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = follower(tmp_path, pipes)
    write(tmp_path, "c1", b"quick\n")
    follow.ended("c1", 1)
    follow.ended("never-ran", 2)
    follow.tick(0.0)
    assert pipes[0].read() == b"quick\n"
    follow.ended("c1", 1)
    follow.drain(forever)
    assert pipes[0].read() == b""


def test_a_reader_that_does_not_read_blocks_nothing(tmp_path: Path, pipes: tuple[Pipe, Pipe]) -> None:
    follow = follower(tmp_path, pipes)
    big = os.urandom(400_000)
    write(tmp_path, "c1", big)
    write(tmp_path, "c1", b"still here\n", "stderr")
    follow.ended("c1", 1)
    for _ in range(20):
        follow.tick(0.0)  # would never come back if it waited for the reader
    assert pipes[1].read() == b"still here\n"
    data = pipes[0].read()
    assert 0 < len(data) < len(big)
    deadline = time.monotonic() + 20
    while len(data) < len(big) and time.monotonic() < deadline:
        follow.tick(0.0)
        data += pipes[0].read()
    assert data == big


def test_draining_ends_when_it_is_told_to(tmp_path: Path, pipes: tuple[Pipe, Pipe]) -> None:
    follow = follower(tmp_path, pipes)
    write(tmp_path, "c1", b"x" * 1_000_000)
    follow.ended("c1", 1)
    rounds = iter([True] * 3)
    follow.drain(lambda: next(rounds, False))
    follow.close()
    assert len(pipes[0].read()) < 1_000_000


def test_a_reader_that_has_gone_is_noticed_and_costs_nothing(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = follower(tmp_path, pipes)
    os.close(pipes[0].read_end)
    pipes[0].read_end = -1
    write(tmp_path, "c1", b"x" * 100)
    write(tmp_path, "c1", b"e", "stderr")
    follow.ended("c1", 1)
    follow.drain(forever)
    assert follow.reader_gone
    assert pipes[1].read() == b"e"


def lose_reader(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    pipe.read_end = -1


@pytest.mark.parametrize("prefixed", [False, True])
def test_of_what_nobody_reads_any_more_nothing_is_copied(
    tmp_path: Path, pipes: tuple[Pipe, Pipe], prefixed: bool
) -> None:
    """Containers may have written gigabytes by the time they are ended."""
    follow = follower(tmp_path, pipes, prefixed=prefixed)
    for name in ("c1", "c2", "c3"):
        write(tmp_path, name, b"y\n" * 1_000_000)
        follow.watch(name, 1)
    follow.tick(0.0)
    assert not follow.reader_gone
    lose_reader(pipes[0])
    follow.tick(0.0)
    assert follow.reader_gone
    before = read_so_far()
    for name in ("c1", "c2", "c3"):
        follow.ended(name, 1)
    follow.drain(forever)
    follow.close()
    assert read_so_far() - before < CHUNK


def read_so_far() -> int:
    """Bytes that this process has read."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_half_a_line_is_enough_to_notice_that_the_reader_has_gone(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    """With a prefix only whole lines are written: a container may never end its own."""
    follow = follower(tmp_path, pipes, prefixed=True)
    write(tmp_path, "c1", b"a line\n")
    follow.watch("c1", 1)
    follow.tick(0.0)
    assert pipes[0].read() == b"[1] a line\n"
    lose_reader(pipes[0])
    follow.tick(0.0)
    assert not follow.reader_gone, "nothing was written that he would have read"
    with open(tmp_path / "c1" / "stdout", "ab") as file:
        file.write(b"half")
    follow.tick(0.0)
    assert follow.reader_gone and follow.lost is None


def test_what_is_pending_is_enough_to_notice_that_the_reader_has_gone(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = follower(tmp_path, pipes)
    write(tmp_path, "c1", b"x" * 300_000)
    follow.watch("c1", 1)
    follow.tick(0.0)
    assert not follow.reader_gone
    lose_reader(pipes[0])
    follow.tick(0.0)
    assert follow.reader_gone


def test_one_reader_of_both_streams_is_missed_by_either(tmp_path: Path) -> None:
    """``2>&1 | head``, where containers write to stderr alone."""
    pipe = Pipe()
    follow = OutputFollower(str(tmp_path), Sink(pipe.write_end), Sink(pipe.write_end), prefixed=True)
    write(tmp_path, "c1", b"line\n", "stderr")
    follow.watch("c1", 1)
    lose_reader(pipe)
    follow.tick(0.0)
    assert follow.reader_gone
    pipe.close()


def test_a_reader_of_stderr_alone_is_not_missed(tmp_path: Path, pipes: tuple[Pipe, Pipe]) -> None:
    follow = follower(tmp_path, pipes)
    lose_reader(pipes[1])
    write(tmp_path, "c1", b"line\n", "stderr")
    write(tmp_path, "c1", b"out\n")
    follow.watch("c1", 1)
    follow.tick(0.0)
    assert not follow.reader_gone and pipes[0].read() == b"out\n"


def test_a_fifo_or_a_link_in_the_place_of_a_log_file_is_not_waited_for(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "c1").mkdir()
    os.symlink(tmp_path / "secret", tmp_path / "c1" / "stdout")
    os.mkfifo(tmp_path / "c1" / "stderr")
    follow = follower(tmp_path, pipes)
    follow.ended("c1", 1)
    follow.drain(forever)
    assert pipes[0].read() == b"" and pipes[1].read() == b""


def test_a_progress_line_is_taken_away_before_anything_is_written(tmp_path: Path) -> None:
    pipe = Pipe()
    events: list[str] = []
    sink = Sink(pipe.write_end, lambda: events.append("hide"))
    sink.flush()
    assert events == [] and sink.at_line_start
    sink.write(b"abc")
    assert events == ["hide"] and not sink.at_line_start
    sink.write(b"\n")
    assert sink.at_line_start
    pipe.close()


def test_of_several_containers_whole_lines_are_shown_and_nothing_is_added(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = OutputFollower(
        str(tmp_path), Sink(pipes[0].write_end), Sink(pipes[1].write_end), prefixed=False, in_lines=True
    )
    for name, number in (("c1", 1), ("c2", 2)):
        follow.watch(name, number)
        write(tmp_path, name, b"half of %d" % number)
    follow.tick(0.0)
    assert pipes[0].read() == b""
    write(tmp_path, "c2", b" and the rest\nend")
    follow.ended("c2", 2)
    follow.tick(0.0)
    assert pipes[0].read() == b"half of 2 and the rest\nend"
    follow.ended("c1", 1)
    follow.drain(forever)
    assert pipes[0].read() == b"half of 1"


def test_kept_in_order_the_output_of_a_task_waits_for_that_of_those_before_it(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = OutputFollower(
        str(tmp_path),
        Sink(pipes[0].write_end),
        Sink(pipes[1].write_end),
        prefixed=False,
        order=iter((5, 7, 8, 9)),
    )
    write(tmp_path, "c8", b"eight")
    follow.ended("c8", 8)
    follow.task_ended(8)
    write(tmp_path, "c5", b"five")
    follow.watch("c5", 5)
    follow.tick(0.0)
    assert pipes[0].read() == b"five", "what has its turn is shown while it is written"
    write(tmp_path, "c5", b"!", "stderr")
    follow.ended("c5", 5)
    follow.tick(0.0)
    assert (pipes[0].read(), pipes[1].read()) == (b"", b"!"), "it may be tried again"
    write(tmp_path, "c5b", b"again")
    follow.ended("c5b", 5)
    follow.task_ended(5)
    follow.tick(0.0)
    assert pipes[0].read() == b"again"
    follow.task_ended(7)  # which has never had a container
    follow.tick(0.0)
    assert pipes[0].read() == b"eight"
    write(tmp_path, "c9", b"nine")
    follow.watch("c9", 9)
    follow.drain(forever)
    assert pipes[0].read() == b"nine"


def test_what_is_drained_in_order_leaves_out_tasks_that_never_ran(
    tmp_path: Path, pipes: tuple[Pipe, Pipe]
) -> None:
    follow = OutputFollower(
        str(tmp_path), Sink(pipes[0].write_end), Sink(pipes[1].write_end), prefixed=True, order=range(1, 100_000)
    )  # fmt: skip
    for number in (99_998, 3):
        write(tmp_path, f"c{number}", b"x\n")
        follow.ended(f"c{number}", number)
    follow.drain(forever)
    assert pipes[0].read() == b"[3] x\n[99998] x\n"
