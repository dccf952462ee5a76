"""The groups that keep GPUs from containers, where the host cannot have them; and what is written, in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from executor.errors import CgroupUnavailableError
from executor.linux.cgroups.devices import DeviceGroups, device_groups


def a_proc(tmp_path: Path, mounts: str) -> str:
    own = tmp_path / "proc" / "self"
    own.mkdir(parents=True)
    (own / "mountinfo").write_text(mounts)
    (own / "cgroup").write_text("5:devices:/\n")
    return str(tmp_path / "proc")


def test_a_host_without_the_hierarchy_is_refused_with_what_to_type(tmp_path: Path) -> None:
    root = str(tmp_path / "cgroup")
    proc = a_proc(tmp_path, f"30 23 0:26 / {root} rw - cgroup2 cgroup rw\n")
    with pytest.raises(CgroupUnavailableError) as refused:
        device_groups("node", ["0:0"], "nvidia", proc=proc, root=root)
    assert "no devices hierarchy" in refused.value.because and "gpu-isolation" in refused.value.hint


def test_its_place_is_below_the_group_of_the_node_itself(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    devices = root / "devices"
    devices.mkdir(parents=True)
    (devices / "devices.list").write_text("a *:* rwm\n")
    proc = a_proc(tmp_path, f"30 23 0:26 / {devices} rw - cgroup cgroup rw,devices\n")
    groups = device_groups("node", ["0:0", "1:5"], "nvidia", proc=proc, root=str(root))
    group = devices / "node" / "gpus-0.0"
    assert groups.join_file(["0:0"]) == str(group / "tasks")
    assert (group / "devices.deny").read_text() == "c 195:5 rwm", "the other one"
    assert not (group / "devices.allow").exists()


def test_each_set_has_one_group_and_amds_devices_their_number(tmp_path: Path) -> None:
    groups = DeviceGroups(str(tmp_path / "node"), ["0:128"], "amd")
    none = groups.join_file([])
    assert none == groups.join_file(()) == str(tmp_path / "node" / "gpus-none" / "tasks")
    assert (tmp_path / "node" / "gpus-none" / "devices.deny").read_text() == "c 226:128 rwm"
    (tmp_path / "node" / "gpus-none" / "devices.deny").unlink()
    groups.remove()
    assert not (tmp_path / "node").exists()
