"""Runs targets, each until it ends its process.

``python -m tests.fuzzing NAME [libFuzzer's options] [DIRECTORY...]`` runs one. ``python -m tests.fuzzing --serve
MODULE`` runs those of a module that it reads as lines of JSON, one ``Order`` each, in a child each, and answers with a
line: the exit code. To import and to instrument a module takes longer than most targets.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile

import atheris

from tests.fuzzing import MODULES, Order
from tests.fuzzing.target import Target


def targets_of(module: str) -> dict[str, Target]:
    """The targets of a module, with what they test instrumented."""
    assert module in MODULES
    with atheris.instrument_imports(include=["executor", "yarnopp_cli"]):
        atheris.enabled_hooks.add("str")  # not "RegEx", whose patterns take no position: json fails with them
        found: dict[str, Target] = __import__(f"tests.fuzzing.{module}", fromlist=["TARGETS"]).TARGETS
    return found


def fuzz(target: Target, arguments: list[str]) -> None:
    """Run a target, and end this process."""
    logging.disable()
    atheris.Setup([sys.argv[0], *arguments], target.run)
    atheris.Fuzz()


def serve(module: str) -> None:
    """Run what is ordered, one after the other, until nobody can order more."""
    targets = targets_of(module)
    for line in sys.stdin:
        order = Order(*json.loads(line))
        child = os.fork()
        if child == 0:
            said = os.open(order.output, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.environ["TMPDIR"], tempfile.tempdir = order.directory, None
            fuzz(targets[order.target], order.arguments)
            os._exit(1)  # never reached: it must not go on as a second server
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if sys.argv[1] == "--serve":
    serve(sys.argv[2])
else:
    chosen, _, name = sys.argv[1].partition(".")
    fuzz(targets_of(chosen)[name], sys.argv[2:])
