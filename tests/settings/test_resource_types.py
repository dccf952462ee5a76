"""Countable resource types in the configuration: their names, what a node has, and what is wrong."""

from __future__ import annotations

import pytest

from executor.records import counted
from yarnopp_cli.errors import UnknownPropertyError
from yarnopp_cli.settings.loading import Configuration
from yarnopp_cli.settings.resource_types import gpu_devices

from .conftest import Load, Problems, Write

TYPES, AMOUNT = "yarn.resource-types", "yarn.nodemanager.resource-type."


def test_what_a_node_has(load_with: Load) -> None:
    found = load_with(
        defines=[f"{TYPES}=yarn.io/gpu, license", f"{AMOUNT}yarn.io/gpu=45454=2, 1", f"{AMOUNT}license=5"]
    )
    assert found.resources_of_node(45454) == counted({"yarn.io/gpu": 2, "license": 5})
    assert found.resources_of_node(45455) == counted({"yarn.io/gpu": 1, "license": 5})
    again = Configuration.from_json(found.to_json())
    assert again.resources_of_node(45454) == found.resources_of_node(45454), "a daemon reads the same"
    assert load_with().resources_of_node(45454) == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", f'"{TYPES}" = "yarn.io/gpu"\n"{AMOUNT}yarn.io/gpu" = "2"\n'),
        ("b.toml", f'{TYPES} = "yarn.io/gpu"\n[yarn.nodemanager.resource-type]\n"yarn.io/gpu" = 2\n'),
        (
            "a.xml",
            f"<configuration><property><name>{TYPES}</name><value>yarn.io/gpu</value></property><property>"
            f"<name>{AMOUNT}yarn.io/gpu</name><value>2</value></property></configuration>",
        ),
    ],
)
def test_from_files(load_with: Load, write: Write, name: str, text: str) -> None:
    assert load_with([write(name, text)]).resources_of_node(1) == counted({"yarn.io/gpu": 2})


@pytest.mark.parametrize(
    ("defines", "says", "hint"),
    [
        ([f"{AMOUNT}board=1"], "not a type that yarn.resource-types names", f"{TYPES} = board"),
        ([f"{TYPES}=a b!"], "'b!' in yarn.resource-types is not the name of a resource type", "letters"),
        ([f"{TYPES}=board", f"{AMOUNT}board=many"], "'many' is not a whole number", "45454=2"),
        ([f"{TYPES}=board", f"{AMOUNT}board=1, 2"], "twice", "45454=2"),
        ([f"{TYPES}=board", f"{AMOUNT}board=-1"], "'-1' is not a whole number", "45454=2"),
    ],
)
def test_what_is_wrong(problems_of: Problems, defines: list[str], says: str, hint: str) -> None:
    (problem,) = problems_of(defines=defines)
    assert says in problem.message
    assert hint in problem.hint


def test_a_name_that_can_be_no_type_is_an_unknown_property(problems_of: Problems) -> None:
    (problem,) = problems_of(defines=[f"{AMOUNT}memory-mb=1"])
    assert isinstance(problem, UnknownPropertyError)


ALLOWED = "yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices"


@pytest.mark.parametrize(
    ("defines", "says"),
    [
        ([f"{ALLOWED}=auto"], "yarn.resource-types does not name yarn.io/gpu"),
        ([f"{TYPES}=yarn.io/gpu", f"{ALLOWED}=0"], "'0' is not a GPU"),
        ([f"{TYPES}=yarn.io/gpu", f"{ALLOWED}=0:0,0:1"], "twice"),
        ([f"{TYPES}=yarn.io/gpu", f"{ALLOWED}=0:0,1:0"], "twice"),
        (
            [f"{TYPES}=yarn.io/gpu", f"{ALLOWED}=0:0", f"{AMOUNT}yarn.io/gpu=1"],
            "sets the number of GPUs, too",
        ),
    ],
)
def test_what_is_wrong_with_gpus(problems_of: Problems, defines: list[str], says: str) -> None:
    (problem,) = problems_of(defines=defines)
    assert says in problem.message and problem.hint


def test_listed_gpus(load_with: Load) -> None:
    found = load_with(defines=[f"{TYPES}=yarn.io/gpu", f"{ALLOWED}= 0:0, 2:5"])
    assert gpu_devices(str(found.value(ALLOWED))) == ("0:0", "2:5")
