"""Every screen as text, compared with the files in ``snapshots/``: a diff that a person can read.

After a change that is meant: ``python -m tests.tui.test_snapshots --update``, and look at the diff.
"""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from yarnopp_cli.views.text import width

from .driving import Driver, drive
from .fake import FakeSource, cluster, container_id

FOLDER = Path(__file__).parent / "snapshots"
SIZES = ((80, 24), (120, 30), (200, 50))
SCREENS: dict[str, tuple[str, ...]] = {
    "nodes": ("1",),
    "nodes-yarn": ("1", "w", "right", "right"),
    "containers": ("2",),
    "containers-marked": ("2", "space", "j", "space", "M"),
    "detail": ("2", "enter"),
    "log": ("2", "enter", "l"),
    "applications": ("3",),
    "applications-yarn": ("3", "w"),
    "queue": ("4",),
    "events": ("5",),
    "kill": ("2", "ctrl+k"),
    "help": ("2", "question_mark"),
}


def watched(folder: Path) -> FakeSource:
    """A cluster with one container that has written something."""
    source = FakeSource(cluster(18))
    (folder / "stdout").write_text("".join(f"step {step}\n" for step in range(100)))
    source.change(container_id(2, 1), log_directory=str(folder))
    return source


def taken(name: str, size: tuple[int, int], folder: Path) -> str:
    """The text of one screen."""
    text = ""
    source = watched(folder)

    async def body(driver: Driver) -> None:
        nonlocal text
        # The first events have another picture taken if they come while the first one is taken, else none.
        await driver.until(lambda: driver.app.feed.events, "the first events")
        await driver.until(lambda: not driver.app._wake.is_set(), "their picture")
        if source.taken < 2:
            await driver.picture()
        await driver.until(lambda: len(driver.app.history.host_cpu) == 2, "two pictures")
        for _ in range(8):
            source.later()
            driver.app._took(source.picture(finished=False))
        await driver.press(*SCREENS[name])
        if name == "detail":
            await driver.sees("CPU weight", "step 99")
        if name == "events":
            await driver.sees("NodeAdded")
        if name == "log":
            await driver.sees("step 99")
        await driver.settle()
        text = driver.text.replace(str(folder), "/logs")

    run(body, source, size)
    return text.rstrip("\n") + "\n"


def run(body: Callable[[Driver], Awaitable[None]], source: FakeSource, size: tuple[int, int]) -> None:
    drive(body, source=source, size=size)


@pytest.fixture
def folder() -> Path:
    """A directory with a name of always the same length: paths are wrapped."""
    with tempfile.TemporaryDirectory(prefix="yopp-snapshot-") as name:
        yield Path(name)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_it_was(name: str, size: tuple[int, int], folder: Path) -> None:
    text = taken(name, size, folder)
    assert all(width(line) <= size[0] for line in text.splitlines())
    path = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
    wanted = path.read_text(encoding="utf-8")
    diff = "\n".join(
        difflib.unified_diff(wanted.splitlines(), text.splitlines(), "wanted", "is", lineterm="")
    )
    assert text == wanted, f"{diff}\n(python -m tests.tui.test_snapshots --update)"


@pytest.mark.parametrize("name", ["nodes", "containers", "queue", "kill"])
def test_without_colours_it_says_the_same(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    path = FOLDER / f"{name}-80x24.txt"
    source = watched(folder)

    async def body(driver: Driver) -> None:
        for _ in range(8):
            source.later()
            driver.app._took(source.picture(finished=False))
        await driver.press(*SCREENS[name])
        assert driver.text.rstrip("\n") + "\n" == path.read_text(encoding="utf-8")
        colours = set()
        for strip in driver.app.screen._compositor.render_strips():
            for segment in strip:
                if segment.style is not None:
                    colours |= {segment.style.color, segment.style.bgcolor}
        shades = [colour.triplet for colour in colours if colour is not None and colour.triplet is not None]
        assert shades and all(max(shade) - min(shade) <= 2 for shade in shades), shades

    run(body, source, (80, 24))


def main() -> None:
    """Write the files anew."""
    if "--update" not in sys.argv:
        sys.exit(__doc__)
    os.environ.pop("NO_COLOR", None)
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name in SCREENS:
        for size in SIZES:
            with tempfile.TemporaryDirectory(prefix="yopp-snapshot-") as folder:
                text = taken(name, size, Path(folder))
            (FOLDER / f"{name}-{size[0]}x{size[1]}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
