"""Runs one target: ``python -m tests.fuzzing NAME [libFuzzer's options] [DIRECTORY...]``. It ends the process."""

from __future__ import annotations

import logging
import sys

import atheris

from tests.fuzzing import MODULES

with atheris.instrument_imports(include=["executor", "yarnopp_cli"]):
    atheris.enabled_hooks.add("str")  # not "RegEx", whose patterns take no position: json fails with them
    module, _, name = sys.argv.pop(1).partition(".")
    assert module in MODULES
    target = __import__(f"tests.fuzzing.{module}", fromlist=["TARGETS"]).TARGETS[name]

logging.disable()
atheris.Setup(sys.argv, target.run)
atheris.Fuzz()
