"""The floor and the task whose start is timed, compiled if there is a C compiler."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
_built = tempfile.TemporaryDirectory(prefix="yobench")  # removed when this process ends


@functools.cache
def tool(name: str) -> tuple[str, ...]:
    """The first words of a command that runs ``floor`` or ``task``."""
    compiler = shutil.which("cc")
    target = Path(_built.name) / name
    if compiler is None:
        return (sys.executable, "-S", "-E", str(HERE / f"{name}.py"))
    for static in (["-static"], []):  # not every host has a static libc
        words = [compiler, "-O2", *static, "-o", str(target), str(HERE / f"{name}.c")]
        if not subprocess.run(words, capture_output=bool(static), check=not static).returncode:
            break
    return (str(target),)


def floor_name() -> str:
    """The name of the floor on this host."""
    return "floor (vfork in C)" if shutil.which("cc") else "floor (posix_spawn in Python: no C compiler)"
