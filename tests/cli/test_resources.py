"""``--gpus`` and ``--resource``: what containers ask for beside memory and vcores."""

from __future__ import annotations

import pytest

from executor.records import Resource, counted
from yarnopp_cli.cli.jobs.common import others_of, resources
from yarnopp_cli.cli.jobs.dshell import container_size
from yarnopp_cli.client.shell import _container_resources
from yarnopp_cli.errors import UsageError

GPU = "yarn.io/gpu"


def test_both_options_together() -> None:
    assert others_of(2, ["license=1", " board = 3"]) == counted({GPU: 2, "license": 1, "board": 3})
    assert others_of(0, []) == others_of(None, ["license=0"]) == ()


@pytest.mark.parametrize(
    ("gpus", "words", "because"),
    [
        (1, [f"{GPU}=1"], "twice"),
        (None, ["license"], "whole number"),
        (None, ["license=-1"], "whole number"),
        (None, ["license=9999999"], "whole number"),
        (None, ["=1"], "letters"),
        (None, ["memory-mb=512"], "--memory"),
        (None, ["vcores=2"], "--vcores"),
    ],
)
def test_what_is_refused(gpus: int | None, words: list[str], because: str) -> None:
    with pytest.raises(UsageError) as refused:
        others_of(gpus, words)
    assert because in refused.value.because


def test_yarns_own_option_of_the_distributed_shell() -> None:
    assert resources(f"memory=1G,{GPU}=1") == Resource(1024, -1, counted({GPU: 1}))
    both = container_size(10, 1, f"{GPU}=1,vcores=2", counted({"license": 1}))
    assert both == Resource(10, 2, counted({GPU: 1, "license": 1}))


def test_separators_are_blanks() -> None:
    assert others_of(None, ["license=\x1c1"]) == counted({"license": 1})


def test_hadoops_shell_is_told_of_them_where_there_are_any() -> None:
    assert _container_resources(Resource(512, 1)) == []
    size = Resource(512, 1, counted({GPU: 2}))
    assert _container_resources(size) == [f"--container_resources memory-mb=512,vcores=1,{GPU}=2"]
