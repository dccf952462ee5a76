"""The destination of the output of the containers of ``yopp run`` besides their logs: ``--results``.

Imported only with this option. A shell in the container opens the files, as the user and in the directory of the
command. The result is therefore the same for a detached job, after a retry and after the death of the ResourceManager.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from executor.light import replace

from ...errors import UsageError
from ...masters.commands import Tasks
from ...masters.sweeps import has_mark, highest_source, values_of, with_values

# Callers must not export variables of these names: the command would get them with other values.
_JOB = """__job=${CONTAINER_ID%_*_*}; __job=application_${__job#"${__job%_*_*}_"}"""
_INTO = Path(__file__).with_name("results.sh")
_LONGEST_NAME = 255 - len(".err")
"""The maximum length in bytes of the name of an output file (NAME_MAX), which leaves room for the name of its stderr
file."""
_OWN = re.compile(r"\{(job|task|#)\}")


def into_files(tasks: Tasks, pattern: str, directory: str) -> Tasks:
    """``tasks`` that write into files by ``pattern``: with marks, it is the file of stdout, and the file of stderr has
    the suffix .err; without marks, it is a directory with a subdirectory for each task. Raises UsageError before any
    file is made.
    """
    marked = has_mark(pattern) or _OWN.search(pattern) is not None
    _check(tasks, pattern, directory, marked=marked)
    file = pattern if marked else os.path.join(pattern, "{task}", "stdout")
    pieces = _OWN.split(file)
    literal, own = pieces[::2], pieces[1::2]
    # No ${1}, which would be a mark.
    names = ["__job" if one == "job" else "YOPP_TASK" for one in own]
    parts = ["__out=$1; shift", *(f"__out=$__out${name}$1; shift" for name in names)]
    err = "__err=$__out.err" if marked else "__err=${__out%/*}/stderr"
    script = "\n".join((_JOB, *parts, err, _INTO.read_text("ascii")))
    prefix = ("/bin/sh", "-c", script, "yopp", *literal)
    tasks = replace(tasks, results=os.path.join(directory, file))
    if tasks.sweep is not None:
        return replace(tasks, sweep=replace(tasks.sweep, prefix=prefix))
    name_of_job = tasks.name or tasks.command[0].rpartition("/")[2]
    return replace(tasks, command=(*prefix, *tasks.command), name=name_of_job)


def _check(tasks: Tasks, pattern: str, directory: str, *, marked: bool) -> None:
    if not pattern:
        raise UsageError(
            "--results names no place for the output",
            because="its value is empty",
            hint="--results . for a directory for each task in the working directory",
        )
    sources = 0 if tasks.sweep is None else len(tasks.sweep.sources)
    without_own = _OWN.sub("", pattern)
    if highest_source([pattern]) > sources or (not sources and has_mark(without_own)):
        raise UsageError(
            f"--results {pattern} names values that tasks do not have",
            because=f"there {'is one source' if sources == 1 else f'are {sources} sources'} of values",
            hint="{job} and {task} exist for every task",
        )
    if pattern.endswith("/") and marked:
        raise UsageError(
            f"--results {pattern} is a directory for each task",
            because="with replacement strings, it is the file of a task",
            hint=f"--results '{pattern}stdout'",
        )
    _check_place(pattern, directory)
    if marked:
        _check_names(tasks, pattern)


def _check_names(tasks: Tasks, pattern: str) -> None:
    """Raise UsageError for a file that two tasks would write, or whose name is too long for Linux."""
    own = any(mark in ("task", "#") for mark in _OWN.findall(pattern))
    found: dict[str, int] = {}
    for number in (one for some in tasks.numbers for one in some):
        values = () if tasks.sweep is None else values_of(tasks.sweep, number)
        path = os.path.normpath(with_values(pattern, values, number))
        if (longest := max(len(os.fsencode(name)) for name in path.split("/"))) > _LONGEST_NAME:
            raise UsageError(
                f"the output of task {number} cannot be written",
                because=f"--results gives it a name of {longest} bytes, and a file name may have {_LONGEST_NAME}",
                hint="--results 'out/{job}-{task}.txt'",
            )
        if not own and (other := found.setdefault(path, number)) != number:
            raise UsageError(
                f"tasks {other} and {number} would both write {path}",
                because="--results gives them the same name",
                hint="--results 'out/{job}-{task}.txt'",
            )


def _check_place(pattern: str, directory: str) -> None:
    """Raise UsageError if the files cannot be made: checks the existing directories before the first mark."""
    fixed = pattern.partition("{")[0]
    place = os.path.join(directory, fixed.rpartition("/")[0] if "{" in pattern else fixed)
    while not os.path.lexists(place):
        place = os.path.dirname(place.rstrip("/")) or "/"
    if os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):
        return
    raise UsageError(
        f"--results {pattern} cannot be written",
        because=f"{place} {'is not writable' if os.path.isdir(place) else 'is not a directory'}",
        hint="name another place",
    )
