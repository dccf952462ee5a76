"""``yopp ps``: ``yopp container list`` under the name that fingers know."""

from __future__ import annotations

import typer

from ..frame.options import examples
from .container import list_containers


def register(app: typer.Typer) -> None:
    """Add ``ps``."""
    app.command("ps", epilog=examples("yopp ps -w 1", "yopp ps -a --app last --json"))(list_containers)
