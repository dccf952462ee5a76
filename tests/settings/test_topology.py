"""Racks and labels of single nodes in the configuration that all nodes of a host share."""

from __future__ import annotations

import pytest

from yarnopp_cli.errors import ConfigurationError
from yarnopp_cli.settings.declarations import of_node
from yarnopp_cli.settings.rules import LABELS, RACKS

from .conftest import Load


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ["", ""]),
        ("gpu", ["gpu", "gpu"]),
        ("45454=gpu", ["gpu", ""]),
        ("45454=gpu, 45455=fast", ["gpu", "fast"]),
        ("slow,45454=gpu", ["gpu", "slow"]),
    ],
)
def test_the_value_of_a_node(text: str, values: list[str]) -> None:
    assert [of_node(text, port) for port in (45454, 45455)] == values


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (f"{LABELS}=x=gpu", "does not begin with the port of a node"),
        (f"{LABELS}=1=a,1=b", "names a node twice"),
        (f"{LABELS}=1=", "lacks a value"),
        (f"{RACKS}=rack1", "has to begin with /"),
        (f"{RACKS}=45454=/r1,45455=r2", "has to begin with /"),
    ],
)
def test_what_makes_no_sense_is_refused(load_with: Load, given: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load_with([], [given])
