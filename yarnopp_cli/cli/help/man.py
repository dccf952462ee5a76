"""``yopp man``: the manual, made from the declarations of the running version, so that no page must be installed."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable

from executor.hints import TYPE_CHECKING

from ...errors import EXIT_NO_SUCH, YoppError
from ..frame.command import Needs, command
from ..frame.options import Annotated, Words, argument
from ..frame.output import WORDS, Printer, is_terminal, write_bytes
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
    elif not (on_terminal and paged(text, os.environ.get("MANPAGER", os.environ.get("PAGER", "less")))):
        Printer().text(text.rstrip("\n"))


def _from_section(text: str, name: str, below: list[str]) -> str:
    """The page of a command's group from the section of one command on. Raises YoppError if it has no such section."""
    group = _command(name)
    lines = text.splitlines(keepends=True)
    wanted = f"yopp {group} {below[0]} "
    for number, line in enumerate(lines):
        if len(below) == 1 and f"{line.strip()} ".startswith(wanted):
            return "".join(lines[number:])
    there_is_none = f"the page of {name} has no section with that name"
    raise _missing(" ".join([name, *below]), there_is_none, f"`yopp {group} --help` lists its commands")


def _command(name: str) -> str:
    return ALIASES[name][0] if name in ALIASES else name.removeprefix("yopp-")


def _missing(name: str, because: str, hint: str) -> YoppError:
    return YoppError(
        f"no manual page for {name}", because=because, hint=hint, sought=name, exit_code=EXIT_NO_SUCH
    )


def _page(name: str) -> Page:
    from ...manual import pages

    if name in SITE_PAGES:
        return pages.site_page()
    if name == "yopp":
        return pages.yopp_page()
    if _command(name) not in COMMANDS:
        hint = "name a command (`yopp --help` lists them), or yarn-site.toml"
        raise _missing(name, "no command has that name", hint)
    return pages.named_page(_command(name))


# -- text that is longer than the terminal ----------------------------------------------------------------------


def through_pager(call: Callable[[], int]) -> int:
    """Return the result of ``call``; its output goes through $PAGER if it is longer than the terminal."""
    collected = io.StringIO()
    with contextlib.redirect_stdout(collected):
        code = call()
    text = collected.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines or not paged(text, os.environ.get("PAGER", "")):
        write_bytes(text.encode(errors="backslashreplace"))
    return code


def paged(text: str, wanted: str) -> bool:
    """Whether the pager ``wanted`` took the text. An empty one, or ``cat``, takes none."""
    try:
        words = shlex.split(wanted)
    except ValueError:  # An unclosed quote.
        return False
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return False
    # As in git and systemd: the pager ends at once if the text fits on the screen, and leaves it there.
    environment = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
    try:
        subprocess.run(words, input=text, encoding="utf-8", env=environment, check=False)
    except OSError:
        return False
    return True
