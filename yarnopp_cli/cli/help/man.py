"""``yopp man``: the manual, made from the declarations of this very version, so that it needs no installed
page."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import EXIT_NO_SUCH, YoppError
from ..frame.options import Json, Output, examples
from ..frame.output import WORDS, Printer, is_terminal
from ..frame.paging import paged
from ..table import ALIASES, COMMANDS

if TYPE_CHECKING:
    from ...roff import Page

SITE_PAGES = frozenset({"yarn-site.toml", "yarn-site", "site"})


def register(app: typer.Typer) -> None:
    """Add the command ``man``."""
    app.command("man", epilog=examples("yopp man", "yopp man run", "yopp man yarn-site.toml"))(man)


def man(
    page: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...",
            help="A command, or one of a group's (container pause), or yarn-site.toml for the properties.",
        ),
    ] = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Open the manual: of yopp, of one command, or of the configuration file. Plain text where it goes to a
    pipe."""
    from ...roff import to_text

    printer = Printer.of(output=output, json=json, forms=WORDS)
    name, *below = page or ["yopp"]
    found = _page(name)
    if below:
        text = _from_section(to_text(found), name, below)
        if printer.is_json:
            printer.document({"man": {"name": found.name, "section": found.section, "text": text}})
        elif not (is_terminal(sys.stdout) and paged(text, _pager())):
            Printer().text(text.rstrip("\n"))
        return
    if printer.is_json:
        printer.document({"man": {"name": found.name, "section": found.section, "text": to_text(found)}})
        return
    if not is_terminal(sys.stdout):
        Printer().text(to_text(found).rstrip("\n"))
        return
    text = to_text(found, min(shutil.get_terminal_size().columns, 100) - 2)
    if not paged(text, _pager()):
        Printer().text(text.rstrip("\n"))


def _pager() -> str:
    return os.environ.get("MANPAGER", os.environ.get("PAGER", "less"))


def _from_section(text: str, name: str, below: list[str]) -> str:
    """The page of a command's group from the part about one of them on. Raises YoppError where there is none."""
    group = ALIASES[name][0] if name in ALIASES else name.removeprefix("yopp-")
    lines = text.splitlines(keepends=True)
    wanted = f"yopp {group} {below[0]}"
    for number, line in enumerate(lines):
        if len(below) == 1 and (line.strip() == wanted or line.strip().startswith(f"{wanted} ")):
            return "".join(lines[number:])
    raise YoppError(
        f"no manual page for {name} {' '.join(below)}",
        because=f"the page of {name} has no part of that name",
        hint=f"`yopp {group} --help` lists what it has",
        sought=" ".join(below),
        exit_code=EXIT_NO_SUCH,
    )


def _page(name: str) -> Page:
    from ... import manual

    if name in SITE_PAGES:
        return manual.site_page()
    if name == "yopp":
        return manual.yopp_page()
    wanted = ALIASES[name][0] if name in ALIASES else name.removeprefix("yopp-")
    if wanted not in COMMANDS:
        raise YoppError(
            f"no manual page for {name}",
            because="no command is called that",
            hint="name a command (`yopp --help` lists them), or yarn-site.toml",
            sought=name,
            exit_code=EXIT_NO_SUCH,
        )
    return manual.named_page(wanted)
