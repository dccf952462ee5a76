"""``yopp man``: the manual, made from the declarations of this very version, so that it needs no installed
page."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import EXIT_NO_SUCH, YoppError
from .options import Json, Output, examples
from .output import WORDS, Printer, is_terminal
from .paging import paged
from .table import ALIASES, COMMANDS

if TYPE_CHECKING:
    from ..roff import Page

SITE_PAGES = frozenset({"yarn-site.toml", "yarn-site", "site"})


def register(app: typer.Typer) -> None:
    """Add the command ``man``."""
    app.command("man", epilog=examples("yopp man", "yopp man run", "yopp man yarn-site.toml"))(man)


def man(
    page: Annotated[
        str, typer.Argument(metavar="[COMMAND]", help="A command, or yarn-site.toml for the properties.")
    ] = "yopp",
    json: Json = False,
    output: Output = None,
) -> None:
    """Open the manual: of yopp, of one command, or of the configuration file. Plain text where it goes to a
    pipe."""
    from ..roff import to_text

    printer = Printer.of(output=output, json=json, forms=WORDS)
    found = _page(page)
    if printer.is_json:
        printer.document({"man": {"name": found.name, "section": found.section, "text": to_text(found)}})
        return
    if not is_terminal(sys.stdout):
        Printer().text(to_text(found).rstrip("\n"))
        return
    text = to_text(found, min(shutil.get_terminal_size().columns, 100) - 2)
    if not paged(text, os.environ.get("MANPAGER", os.environ.get("PAGER", "less"))):
        Printer().text(text.rstrip("\n"))


def _page(name: str) -> Page:
    from .. import manual

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
