"""Programs beside the packages still fit them: what scripts/ and bench/ import exists."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()]
PROGRAMS = [path for path in SCRIPTS if path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3")]
PROGRAMS += sorted((ROOT / "bench").rglob("*.py"))


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 9


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.name for path in PROGRAMS])
def test_imports_of_our_own_packages_resolve(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in ("executor", "yarnopp_cli"):
            module = importlib.import_module(str(node.module))
            for name in node.names:
                if not hasattr(module, name.name):  # or it is a module that nobody has imported yet
                    importlib.import_module(f"{node.module}.{name.name}")
