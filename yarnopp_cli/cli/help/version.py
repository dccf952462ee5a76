"""``yopp version``."""

from __future__ import annotations

import os
import sys

from ... import __version__
from ...errors import YoppError
from ..frame.command import Needs, command
from ..frame.session import Session


def cgroup_version() -> str:
    """The mounted cgroups: v1, v2, hybrid or none. `yopp doctor` shows which can be used."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            kinds = {line.rpartition(" - ")[2].split(" ", 1)[0] for line in file}
    except OSError:
        return "none"
    if "cgroup" in kinds:
        return "hybrid" if "cgroup2" in kinds else "v1"
    return "v2" if "cgroup2" in kinds else "none"


def _engine() -> str:
    """The chosen engine; a configuration with errors is reported by the commands that read it."""
    from ...client.choice import LOCAL, choose

    try:
        return choose(None, None, conf=None, define=None, environ=os.environ).name
    except YoppError:
        return LOCAL


@command("version", "yopp version", "yopp version --json", needs=Needs.NOTHING)
def version(session: Session) -> None:
    """Print the versions of yopp and its dependencies."""

    import typer

    printer = session.printer
    facts = {
        "version": __version__,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "typer": typer.__version__,
        "cgroup": cgroup_version(),
        "engine": _engine(),
        "kernel": os.uname().release,
    }
    if printer.for_people:
        printer.fields([("yopp" if name == "version" else name, value) for name, value in facts.items()])
    else:
        printer.answer({"yopp": facts}, "", ids=[__version__], table=(list(facts), [list(facts.values())]))
