"""The house rules that a program can read (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for folder in ("executor", "yarnopp_cli") for path in (ROOT / folder).rglob("*.py"))
PURE_STDLIB = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "decimal", "difflib", "enum",
    "fractions", "functools", "hashlib", "heapq", "hmac", "html", "itertools", "json", "math", "operator", "random",
    "re", "shlex", "signal", "statistics", "string", "textwrap", "typing", "unicodedata",
}  # fmt: skip
PURE_ROOMS = ("executor.core", "executor.records", "executor.causes", "executor.reasons", "executor.resource",
              "yarnopp_cli.records", "yarnopp_cli.machine",
              "yarnopp_cli.allocation", "yarnopp_cli.resourcemanager", "yarnopp_cli.nodemanager", "yarnopp_cli.masters",
              "yarnopp_cli.explain", "yarnopp_cli.views", "yarnopp_cli.whatif",
              "yarnopp_cli.report.timeline", "yarnopp_cli.report.page")  # fmt: skip
PURE_OURS = (*PURE_ROOMS, "executor.hints", "executor.light", "executor.errors", "executor.settings",
             "yarnopp_cli.errors", "yarnopp_cli.settings.declarations", "yarnopp_cli.settings.queues",
             "yarnopp_cli.settings.resource_types")  # fmt: skip
ROOMS_BELOW = {
    "records": (),
    "machine": ("records",),
    "allocation": ("records", "settings"),
    "explain": ("records",),
    "views": ("records", "explain"),
    "masters": ("records", "settings"),
    "resourcemanager": ("records", "settings", "machine", "allocation", "explain", "masters"),
    "nodemanager": ("records", "settings", "machine", "allocation"),
    "whatif": (
        "records",
        "settings",
        "machine",
        "allocation",
        "explain",
        "masters",
        "resourcemanager",
        "nodemanager",
    ),
    "rpc": ("records", "machine"),
}
"""Which rooms the modules of a room may import, besides its own: machines know no shell, and none another machine,
but the ResourceManager those of the masters that it hosts. Their copies in virtual time know them all."""
IMPURE_CALLS = {
    ("random", name) for name in ("random", "choice", "shuffle", "randrange", "randint", "sample")
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """A module's syntax tree, parsed once for all tests."""
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, absolute name) of everything that a module imports, wherever it stands."""
    here = module_name(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                dotted = f"{name}.{alias.name}"
                exists = (ROOT / (dotted.replace(".", "/") + ".py")).exists()
                found.append((node.lineno, dotted if exists else name))
    return tuple(found)


def is_pure(path: Path) -> bool:
    name = module_name(path)
    return any(name == room or name.startswith(room + ".") for room in PURE_ROOMS)


PURE = [path for path in SOURCES if is_pure(path)]


def test_no_folder_has_more_modules_than_can_be_looked_over() -> None:
    counts = Counter(path.parent.relative_to(ROOT) for path in SOURCES)
    assert {str(folder): count for folder, count in counts.items() if count > 25} == {}


def test_there_is_something_to_read() -> None:
    assert len(PURE) > 15
    assert len(SOURCES) > 40


@pytest.mark.parametrize("path", PURE, ids=module_name)
def test_pure_folders_import_only_what_is_pure(path: Path) -> None:
    wrong = [
        f"line {line}: {name}"
        for line, name in imports_of(path)
        if name.split(".")[0] not in PURE_STDLIB
        and not any(name == ours or name.startswith(ours + ".") for ours in PURE_OURS)
    ]
    assert not wrong, f"{path.relative_to(ROOT)} may not import {wrong}"


@pytest.mark.parametrize("path", PURE, ids=module_name)
def test_pure_folders_use_no_global_random_and_open_nothing(path: Path) -> None:
    wrong = []
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id in {"open", "input", "print", "exec", "eval"}:
            wrong.append((node.lineno, function.id))
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            continue
        if (function.value.id, function.attr) in IMPURE_CALLS:
            wrong.append((node.lineno, f"{function.value.id}.{function.attr}"))
    assert not wrong


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_go_one_way(path: Path) -> None:
    name = module_name(path)
    forbidden: tuple[str, ...] = ("click", "typer._click", "tests")
    if name.startswith("executor"):
        forbidden += ("yarnopp_cli", "typer", "textual", "aiohttp", "msgspec", "tomli")
    elif not name.startswith(("yarnopp_cli.cli", "yarnopp_cli.__main__", "yarnopp_cli.manual")):
        forbidden += ("typer", "yarnopp_cli.cli")
    if not name.startswith("yarnopp_cli.tui"):
        forbidden += ("textual",)
    wrong = [
        (line, imported)
        for line, imported in imports_of(path)
        if any(imported == item or imported.startswith(item + ".") for item in forbidden)
    ]
    assert not wrong, f"{path.relative_to(ROOT)}: {wrong}"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_public_names_have_docstrings(path: Path) -> None:
    tree = tree_of(path)
    missing = [] if ast.get_docstring(tree) or not tree.body else ["the module"]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            nodes: list[ast.stmt] = [node, *node.body] if not node.name.startswith("_") else []
        elif isinstance(node, ast.Module):
            nodes = list(node.body)
        else:
            continue
        missing += [
            f"{item.name} (line {item.lineno})"
            for item in nodes
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not item.name.startswith("_")
            and not ast.get_docstring(item)
        ]
    assert not missing, f"{path.relative_to(ROOT)} lacks docstrings: {sorted(set(missing))}"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_no_print_and_no_swallowed_errors(path: Path) -> None:
    name = module_name(path)
    wrong = []
    for node in ast.walk(tree_of(path)):
        prints = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        if prints and name != "yarnopp_cli.cli.frame.output" and not name.startswith("yarnopp_cli.jobs."):
            wrong.append(f"print at line {node.lineno}")
        if isinstance(node, ast.ExceptHandler):
            caught = node.type
            broad = caught is None or (
                isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"}
            )
            if broad and name not in {"executor.runner", "executor.core.cell", "yarnopp_cli.cli.app"}:
                wrong.append(f"broad except at line {node.lineno}")
    assert not wrong, f"{path.relative_to(ROOT)}: {wrong}"


def test_no_imports_form_a_circle() -> None:
    """Imports for types count: what two modules need of each other belongs into a third, or into one of them."""
    modules = {module_name(path): path for path in SOURCES}
    wanted = {
        name: {imported for _, imported in imports_of(path) if imported in modules} - {name}
        for name, path in modules.items()
    }
    circular = set()
    for name, others in wanted.items():
        reached, ahead = set(others), list(others)
        while ahead:
            more = wanted[ahead.pop()] - reached
            reached |= more
            ahead += more
        if name in reached:
            circular.add(name)
    assert not circular, f"in a circle: {sorted(circular)}"


@pytest.mark.parametrize("room", ROOMS_BELOW)
def test_rooms_import_only_the_rooms_below_them(room: str) -> None:
    below = {f"yarnopp_cli.{name}" for name in (room, *ROOMS_BELOW[room], "errors")}
    wrong = [
        f"{module_name(path)}, line {line}: {imported}"
        for path in SOURCES
        if module_name(path).startswith(f"yarnopp_cli.{room}.")
        for line, imported in imports_of(path)
        if imported.startswith("yarnopp_cli.") and ".".join(imported.split(".")[:2]) not in below
    ]
    assert not wrong


TOLD_NOTHING_ELSE = {"yarnopp_cli.client.documents"}
"""A YARN cluster's REST API has no other word of how Hadoop's distributed shell ended."""


LOOKS = {"startswith", "endswith", "find", "index", "count", "match", "search", "fullmatch", "removeprefix"}


def speaks_of_diagnostics(node: ast.AST) -> bool:
    names = (getattr(one, "attr", None) or getattr(one, "id", None) for one in ast.walk(node))
    return "diagnostics" in names


def is_known_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return any(map(is_known_text, node.elts))
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_no_program_reads_diagnostics(path: Path) -> None:
    """Sentences are for people. Why something is as it is stands in a ``Cause``."""
    if module_name(path) in TOLD_NOTHING_ELSE:
        return
    wrong = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            searched = isinstance(node.ops[0], ast.In | ast.NotIn) and speaks_of_diagnostics(
                node.comparators[0]
            )
            compared = any(map(is_known_text, sides)) and any(map(speaks_of_diagnostics, sides))
            if searched or compared:
                wrong.append(f"compared at line {node.lineno}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
            wrong += [
                f"searched at line {node.lineno}"
                for one in (node.func.value, *node.args)
                if speaks_of_diagnostics(one)
            ]
    assert not wrong, f"{path.relative_to(ROOT)}: diagnostics are {wrong}"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_what_the_system_says_goes_on_in_the_middle_of_a_line(path: Path) -> None:
    """``because: no such file or directory``, in every error: ``errors.reason_of``."""
    calls = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    said = [ast.unparse(one.value) for call in calls for one in call.keywords if one.arg == "because"]
    wrong = [one for one in said if "strerror" in one]
    assert not wrong, f"{path.relative_to(ROOT)}: {wrong}"


def loaded_by(statement: str) -> set[str]:
    """The top-level packages in sys.modules after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True
        ).stdout.split()
    )


def test_importing_the_executor_loads_nothing_of_the_cluster() -> None:
    assert not loaded_by("import executor") & {
        "typer",
        "textual",
        "aiohttp",
        "msgspec",
        "tomli",
        "yarnopp_cli",
        "rich",
    }


@pytest.mark.parametrize("daemon", ["resourcemanager", "nodemanager"])
def test_daemons_load_no_command_line(daemon: str) -> None:
    loaded = loaded_by(f"import yarnopp_cli.daemons.{daemon}")
    assert not loaded & {"typer", "textual", "aiohttp", "rich"}


def test_the_frame_of_the_command_line_is_light() -> None:
    assert not loaded_by("import yarnopp_cli.__main__") & {
        "textual",
        "aiohttp",
        "msgspec",
        "psutil",
        "rich",
        "asyncio",
    }


def test_modules_name_decisions_that_exist_and_each_is_named() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text()
    known = set(re.findall(r"^\*\*([a-z-]+)\*\*\.", text, re.MULTILINE))
    named: set[str] = set()
    for path in SOURCES:
        for line in re.findall(r"^Decisions: (.+)\.$", ast.get_docstring(tree_of(path)) or "", re.MULTILINE):
            unknown = set(line.split(", ")) - known
            assert not unknown, f"{module_name(path)} names decisions that docs/decisions.md lacks: {unknown}"
            named |= set(line.split(", "))
    assert 30 <= len(known) <= 50 and named == known, f"no module names these decisions: {known - named}"
