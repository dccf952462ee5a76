"""The master of one command, without a ResourceManager."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from yarnopp_cli.daemons import commandmaster
from yarnopp_cli.daemons.commandmaster import CommandMaster
from yarnopp_cli.records.requests import Token


def test_an_end_that_no_rm_accepts_is_told_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    master = CommandMaster(
        f"unix:{tmp_path}/rm.sock", "appattempt_1765400000000_0001_000001", Token("", "", "")
    )
    quick = mock.patch.multiple(commandmaster, FINISH_SECONDS=0.05, RETRY_SECONDS=0.01)
    with quick:
        master.finish(3)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "error: exit code 3 was not reported to the ResourceManager within 0.05 s"
    assert told[1].startswith("  because: ") and len(told[1]) > len("  because: ")
