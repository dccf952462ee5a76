"""The GPUs of a machine: listed or found, divided between nodes, held against other clusters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from yarnopp_cli.cluster.gpus import Claims, discovered, gpus_of_machine, with_gpus
from yarnopp_cli.errors import YoppError
from yarnopp_cli.machine.life import PlannedNode
from yarnopp_cli.settings.loading import load

pytestmark = pytest.mark.pure

TYPES = "yarn.resource-types=yarn.io/gpu"
ALLOWED = "yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices"
DISCOVERY = "yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables"
ASKED = (
    '<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log>'
    "<attached_gpus>2</attached_gpus><gpu id='0'><minor_number>3</minor_number></gpu>"
    "<gpu id='1'><minor_number>0</minor_number></gpu></nvidia_smi_log>"
)


def configured(*defines: str) -> Any:
    return load(["/dev/null"], [TYPES, *defines], environ={}, state_dir="/state")


def test_listed_ones_are_divided_between_the_nodes() -> None:
    nodes = [PlannedNode(1, 100, 1), PlannedNode(2, 100, 1)]
    found = with_gpus(configured(f"{ALLOWED}=0:0,1:1,2:2"), nodes)
    assert [node.gpus for node in found] == [("0:0", "1:1"), ("2:2",)]
    assert with_gpus(configured(), nodes) == tuple(nodes)
    (third,) = with_gpus(configured(f"{ALLOWED}=0:0,1:1,2:2,3:3"), [PlannedNode(3, 100, 1)], found)
    assert third.gpus == ("3:3",), "a node that comes later has what the others have not"


def program(directory: Path, text: str) -> str:
    path = directory / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_auto_asks_nvidia_smi(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(ASKED)
    path = program(tmp_path, f'[ "$*" = "-q -x" ] && cat {tmp_path}/answer')
    for named in (path, str(tmp_path)):
        found = gpus_of_machine(configured(f"{ALLOWED}=auto", f"{DISCOVERY}={named}"))
        assert found == ("0:3", "1:0"), "by place, with the minor numbers"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("echo no driver >&2; exit 9", "ended with 9: no driver"),
        ("echo hello", "did not print XML"),
        ("echo '<a><gpu></gpu></a>'", "no minor number"),
        (None, "nvidia-smi is not installed"),
    ],
)
def test_where_they_cannot_be_found(tmp_path: Path, text: str | None, because: str) -> None:
    path = str(tmp_path / "nowhere") if text is None else program(tmp_path, text)
    with pytest.raises(YoppError) as refused:
        gpus_of_machine(configured(f"{ALLOWED}=auto", f"{DISCOVERY}={path}"))
    assert because in refused.value.because and "list them" in refused.value.hint


def test_none_at_all() -> None:
    assert discovered("<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>") == ()


def test_another_process_of_this_machine_is_not_given_the_same() -> None:
    minor = os.getpid() % 10000
    mine, others = Claims(), Claims()
    try:
        assert mine.take([f"0:{minor}"]) == ((f"0:{minor}",), ())
        assert others.take([f"0:{minor}"]) == ((), (f"0:{minor}",))
        mine.release()
        assert others.take([f"0:{minor}"]) == ((f"0:{minor}",), ())
    finally:
        mine.release()
        others.release()
