"""``yopp man``: the manual, made from the declarations of this very version, so that it needs no installed
page."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from ...errors import EXIT_NO_SUCH, YoppError
from ..frame.command import Needs, command
from ..frame.options import Words, argument
from ..frame.output import WORDS, Printer, is_terminal
from ..frame.paging import paged
from ..frame.session import Session
from ..table import ALIASES, COMMANDS

if TYPE_CHECKING:
    from ...manual.roff import Page

SITE_PAGES = frozenset({"yarn-site.toml", "yarn-site", "site"})


@command(
    "man",
    "yopp man",
    "yopp man run",
    "yopp man yarn-site.toml",
    needs=Needs.NOTHING,
    forms=WORDS,
    bounded=False,
)
def man(
    session: Session,
    page: Annotated[
        list[str] | None,
        argument(
            "[COMMAND]...",
            "A command, also of a group (container pause), or yarn-site.toml for the properties.",
        ),
        Words(lambda: [*COMMANDS, "yarn-site.toml"]),
    ] = None,
) -> None:
    """Open the manual of yopp, of one command, or of the configuration file; into a pipe, as plain text."""
    from ...manual.roff import to_text

    name, *below = page or ["yopp"]
    found = _page(name)
    on_terminal = is_terminal(sys.stdout) and not session.printer.is_json
    width = min(shutil.get_terminal_size().columns, 100) - 2 if on_terminal and not below else 78
    text = to_text(found, width)
    if below:
        text = _from_section(text, name, below)
    if session.printer.is_json:
        session.printer.document({"man": {"name": found.name, "section": found.section, "text": text}})
    elif not (on_terminal and paged(text, _pager())):
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
        because=f"the page of {name} has no part with that name",
        hint=f"`yopp {group} --help` lists what it has",
        sought=" ".join(below),
        exit_code=EXIT_NO_SUCH,
    )


def _page(name: str) -> Page:
    from ...manual import pages

    if name in SITE_PAGES:
        return pages.site_page()
    if name == "yopp":
        return pages.yopp_page()
    wanted = ALIASES[name][0] if name in ALIASES else name.removeprefix("yopp-")
    if wanted not in COMMANDS:
        raise YoppError(
            f"no manual page for {name}",
            because="there is no command with that name",
            hint="name a command (`yopp --help` lists them), or yarn-site.toml",
            sought=name,
            exit_code=EXIT_NO_SUCH,
        )
    return pages.named_page(wanted)
