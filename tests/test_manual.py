"""The manual: generated files are current, complete, and clean for mandoc."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from yarnopp_cli import errors
from yarnopp_cli.cli.app import run
from yarnopp_cli.cli.frame.typed import examples, new_typer
from yarnopp_cli.manual import pages
from yarnopp_cli.manual import text as manual_text
from yarnopp_cli.manual.roff import Literal, Page, Paragraph, Subheading, Tagged, to_man, to_text
from yarnopp_cli.settings.declarations import PROPERTIES

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", pages.GENERATED)
def test_a_generated_file_is_what_would_be_generated(name: str) -> None:
    made = pages.GENERATED[name]()
    assert (ROOT / name).read_text(encoding="utf-8") == made, "run: python -m yarnopp_cli.manual"
    assert made == pages.GENERATED[name]()  # twice the same


def lint(source: str, tmp_path: Path) -> str:
    mandoc = shutil.which("mandoc")
    if mandoc is None:
        pytest.skip("mandoc is not here: the pages were not linted (apt install mandoc)")
    section = source.split(".TH ", 1)[1].split()[1]
    page = tmp_path / f"page.{section}"
    page.write_text(source, encoding="utf-8")
    return subprocess.run([mandoc, "-T", "lint", page], text=True, capture_output=True, timeout=60).stdout


@pytest.mark.parametrize("name", [name for name in pages.GENERATED if name.startswith("man/")])
def test_a_page_is_clean(name: str, tmp_path: Path) -> None:
    assert lint(pages.GENERATED[name](), tmp_path) == ""


def test_lint_would_say_so(tmp_path: Path) -> None:
    assert "ERROR" in lint(".TH A 1 2026-01-01\n.SH NAME\na \\- b\n.XX\n", tmp_path)


def test_every_property_is_in_its_page_with_its_document() -> None:
    entries = {
        block.tag: block.texts
        for block in dict(pages.site_page().sections)["PROPERTIES"]
        if isinstance(block, Tagged)
    }
    assert list(entries) == list(PROPERTIES)
    for name, texts in entries.items():
        assert texts[0] == PROPERTIES[name].doc
    text = to_text(pages.site_page())
    assert "\n        Determines the max number of opportunistic containers that can be\n" in text
    assert "\n        A whole number from 0 to 100; default 0.\n" in text


def test_every_exit_code_is_in_the_page() -> None:
    documented = {
        int(number)
        for entry in manual_text.EXIT_CODES
        for number in entry.tag.split(", ")
        if number.isdigit()
    }
    declared = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    declared -= {errors.EXIT_INTERRUPTED, errors.EXIT_READER_GONE}  # 128+N
    assert declared <= documented
    assert (errors.EXIT_INTERRUPTED, errors.EXIT_READER_GONE) == (128 + signal.SIGINT, 128 + signal.SIGPIPE)


Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="PATH", help="Configuration file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def sample() -> typer.Typer:
    root, group = new_typer(), new_typer(help="Things.")

    @root.command("go", epilog=examples("yopp go -n 3", "yopp go --far"))
    def go(
        where: Annotated[str, typer.Argument(help="Where to.")],
        times: Annotated[int, typer.Option("-n", "--times", min=1, help="How often.")] = 2,
        conf: Conf = None,
        json: Json = False,
    ) -> None:
        """Go there. It's far.

        And back.
        """

    @group.command("list")
    def list_(conf: Conf = None) -> None:
        """List them."""

    @group.command("secret", hidden=True)
    def secret() -> None:
        """Nobody is told."""

    root.add_typer(group, name="thing")
    return root


def test_a_command_tree_becomes_a_page(tmp_path: Path) -> None:
    page = pages.command_page(typer.main.get_command(sample()))
    sections = dict(page.sections)
    commands = sections["COMMANDS"]
    headings = [block.title for block in commands if isinstance(block, Subheading)]
    assert [heading.split(" [")[0] for heading in headings] == ["yopp go", "yopp thing list"]
    assert Paragraph("Go there. It's far.") in commands and Paragraph("And back.") in commands
    tagged = {block.tag: block.texts for block in commands if isinstance(block, Tagged)}
    (times,) = [tag for tag in tagged if "--times" in tag]
    assert tagged[times][0].startswith("How often.") and "default: 2" in tagged[times][0]
    assert Literal(("yopp go -n 3", "yopp go --far")) in commands
    common = [block.tag for block in sections["COMMON OPTIONS"] if isinstance(block, Tagged)]
    assert [tag.split()[0] for tag in common] == ["--conf", "--json"]  # once, and not with the commands
    assert lint(to_man(page), tmp_path) == ""


def test_every_real_command_is_in_the_page() -> None:
    from yarnopp_cli.cli.table import TABLE

    headings = [
        block.title for block in dict(pages.yopp_page().sections)["COMMANDS"] if isinstance(block, Subheading)
    ]
    for entry in TABLE:
        assert any(heading.split()[1] == entry.name for heading in headings), entry.name


def test_every_command_has_a_page_with_two_examples_of_each_of_its_own() -> None:
    from yarnopp_cli.cli.table import TABLE

    for entry in TABLE:
        blocks = dict(pages.named_page(entry.name).sections)["DESCRIPTION"]
        headings = [block for block in blocks if isinstance(block, Subheading)]
        examples = [block.lines for block in blocks if isinstance(block, Literal)]
        assert len(headings) == len(examples), entry.name
        assert all(len(lines) >= 2 for lines in examples), f"{entry.name}: {examples}"


def test_roff_escapes_what_would_be_a_request_or_an_escape(tmp_path: Path) -> None:
    page = Page(
        name="x",
        section="1",
        summary="a page",
        footer="x 1",
        date="2026-01-01",
        sections=(
            (
                "TEXT",
                (Paragraph(".starts with a dot and \\back `-x \\y 'z'` é"), Literal(("'quoted", ".dot", ""))),
            ),
        ),
    )
    source = to_man(page)
    assert "\n\\&.starts with a dot and \\eback \\fB\\-x \\ey \\(aqz\\(aq\\fR \\[u00E9]\n" in source
    assert "\n\\(aqquoted\n\\&.dot\n" in source
    assert lint(source, tmp_path) == ""
    shown = to_text(page)
    assert "    .starts with a dot and \\back '-x \\y 'z'' é\n" in shown
    mandoc = shutil.which("mandoc")
    assert mandoc
    path = tmp_path / "x.1"
    path.write_text(source)
    rendered = subprocess.run(
        [mandoc, "-T", "utf8", path], text=True, capture_output=True, timeout=60, check=True
    ).stdout
    assert ".dot" in rendered and "'quoted" in rendered and "\\back" in rendered


def test_yopp_man_prints_text_into_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["man", "yarn-site.toml"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("NAME\n    yarn-site.toml - configuration of yopp\n")
    assert err == "" and "\x1b" not in out
    assert run(["man", "config"]) == 0
    assert "yopp config check" in capfd.readouterr().out
    assert run(["man", "klingon"]) == 66
    assert "no manual page for klingon" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("pager", "paged"), [("tee COPY", True), ("cat", False), ("", False), ("no-such", False)]
)
def test_yopp_man_at_a_terminal_goes_through_the_pager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pager: str, paged: bool
) -> None:
    monkeypatch.delenv("MANPAGER", raising=False)
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shown = b""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "yarnopp_cli", "man", "config"])
    try:
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # EIO: the other side has closed
                break
            if not piece:
                break
            shown += piece
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    text = shown.decode().replace("\r\n", "\n")
    assert text.startswith("NAME\n    yopp-config - ")
    copy = tmp_path / "COPY"
    assert copy.exists() == paged
    if paged:
        assert copy.read_text() == text


def test_the_page_of_one_command_of_a_group_begins_at_its_part(capsys: pytest.CaptureFixture[str]) -> None:
    from yarnopp_cli.cli.app import run

    assert run(["man", "container", "pause"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("  yopp container pause [OPTIONS] ID...")
