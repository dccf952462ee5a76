"""Rewrites the generated files of the source tree of this module; a test checks that they are current."""

from __future__ import annotations

import sys
from pathlib import Path

from .pages import GENERATED


def main() -> None:
    """Write each file of ``GENERATED``."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").exists():
        sys.exit(f"error: {root} is not a source tree of yopp\n  hint: run this in a clone")
    for name, make in GENERATED.items():
        target = root / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
