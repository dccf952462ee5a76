"""Output of any kind and size, and nothing in it that acts on a terminal."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarnopp_cli.tui.logfile import PIECE, LogFile, shown

from ..steps import steps
from .driving import Driver, drive
from .fake import FakeSource, container_id


def read_all(file: LogFile) -> list[str]:
    while file.grow():
        pass
    return file.lines(0, len(file))


@given(st.lists(st.binary(max_size=60), max_size=20))
@settings(max_examples=60)
def test_lines_are_the_lines_however_they_come(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "stdout"
    file = LogFile(str(path))
    assert read_all(file) == []
    with path.open("wb") as writer:
        for part in parts:
            writer.write(part)
            writer.flush()
            file.grow()
    data = b"".join(parts)
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert read_all(file) == [shown(line) for line in expected]


@given(st.binary())
def test_nothing_shown_can_act_on_a_terminal(data: bytes) -> None:
    text = shown(data)
    assert not [one for one in text if ord(one) < 32 or 0x7F <= ord(one) < 0xA0 or one in "\u202e\u2066"]


def test_colours_are_left_out_and_other_sequences_are_shown() -> None:
    assert (
        shown(b"\x1b[1;31mred\x1b[0m\tx \x1b]0;title\x07 \x1b[2J\r\n") == "red     x \\e]0;title\\x07 \\e[2J"
    )


def test_a_truncated_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_text("one\ntwo\nthree\n")
    file = LogFile(str(path))
    assert read_all(file) == ["one", "two", "three"]
    path.write_text("new\n")
    assert read_all(file) == ["new"]
    path.write_text("")
    assert file.grow() and not len(file), "its lines are gone, which is a change"
    assert not file.grow()


def test_a_line_is_cut_between_characters(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    text = "x" + "é" * PIECE
    path.write_text(text + "\nend\n")
    lines = read_all(LogFile(str(path)))
    assert "".join(lines[:-1]) == text and lines[-1] == "end"
    assert "\ufffd" not in text


def test_a_line_of_50_megabytes_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"y" * (50 << 20) + b"\nlast needle\n")
    file = LogFile(str(path))

    def work() -> None:
        while file.grow():
            pass
        assert file.lines(len(file) - 1, 1) == ["last needle"]
        assert all(len(line) <= PIECE for line in file.lines(len(file) - 60, 60))
        assert file.find("NEEDLE", 0) == len(file) - 1

    assert steps(work) < 200_000, "lines of Python, for 13,000 pieces"


def test_only_the_end_of_a_huge_file_is_indexed(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_text("".join(f"{number:09d}\n" for number in range(10_000)))
    file = LogFile(str(path), window=10_000)
    lines = read_all(file)
    assert lines == [f"{number:09d}" for number in range(10_000 - len(lines), 10_000)]
    assert 990 < len(lines) <= 1000 and file.skipped > 80_000
    few = LogFile(str(path), most_lines=500)
    lines = read_all(few)
    assert lines[-1] == "000009999" and len(lines) <= 1_000 + 200_000
    assert few.skipped > 0


@pytest.mark.parametrize("forward", [True, False])
def test_find_agrees_with_a_plain_search(tmp_path: Path, forward: bool) -> None:
    chance = random.Random(7)
    lines = ["".join(chance.choice("abc ") for _ in range(chance.randrange(30))) for _ in range(400)]
    path = tmp_path / "stdout"
    path.write_text("\n".join(lines) + "\n")
    file = LogFile(str(path))
    assert read_all(file) == lines
    for _ in range(200):
        wanted, at = "".join(chance.choice("abc") for _ in range(3)), chance.randrange(400)
        order = (
            [*range(at + 1, 400), *range(at + 1)]
            if forward
            else [*range(at - 1, -1, -1), *range(399, at - 1, -1)]
        )
        expected = next((line for line in order if wanted in lines[line]), -1)
        assert file.find(wanted.upper(), at, forward=forward) == expected


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret\n")
    (tmp_path / "stdout").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        LogFile(str(tmp_path / "stdout")).grow()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError):  # and does not hang
        LogFile(str(tmp_path / "pipe")).grow()


@pytest.mark.parametrize(
    "data",
    [os.urandom(1 << 20), b"\x1b[2J\x1b]0;x\x07" * 1000, b"z" * (50 << 20), b"\n" * 100_000,
     "漢字\u202e".encode() * 3000],
    ids=["binary", "sequences", "50-mb-line", "empty-lines", "wide"],
)  # fmt: skip
def test_the_log_screen_takes_anything(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "stdout").write_bytes(data)
    source = FakeSource()
    source.change(container_id(2, 1), log_directory=str(tmp_path))

    async def body(driver: Driver) -> None:
        await driver.press("2", "l")
        view = driver.app.screen.view
        await driver.until(lambda: view.file.position == len(data), "all read", 20)
        for key in ("w", "pageup", "g", "G", "t", "right", "w", "right", "end"):
            await driver.press(key)
            assert not [one for one in driver.text if one != "\n" and (ord(one) < 32 or one in "\x7f\u202e")]

    drive(body, source=source)
