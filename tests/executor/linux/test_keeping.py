"""An upgrade in place takes the programs of a running node away, or puts others there: containers start."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from executor.linux import launcher
from executor.linux.cgroups.none import NoCgroups
from executor.linux.keeping import KeptProgram
from executor.settings import ExecutorSettings

from .node import a_group, a_node, a_spec


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The launcher of an installation of our own, which the next nodes use."""
    place = tmp_path / "site-packages"
    place.mkdir()
    program = shutil.copy2(str(launcher.__file__), place)
    monkeypatch.setattr(launcher, "__file__", program)
    return Path(program)


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("slots", [pytest.param(1, marks=pytest.mark.cgroup), 0], ids=["slot", "outside"])
def test_containers_start_after_an_upgrade(tmp_path: Path, installed: Path, slots: int, how: str) -> None:
    async def scenario(cgroups: object) -> None:
        settings = ExecutorSettings(pooled_groups=slots)
        async with a_node(tmp_path, cgroups, settings) as node:  # type: ignore[arg-type]
            installed.unlink()
            if how == "replaced":
                installed.write_text("exit 2\n")
            for number in range(3):
                exited = await node.run(a_spec(f"c{number}", "sh", "-c", "exit 3"))
                assert exited.exit_code == 3

    if slots:
        with a_group(ExecutorSettings(pooled_groups=slots)) as cgroups:
            asyncio.run(scenario(cgroups))
    else:
        asyncio.run(scenario(NoCgroups()))


def test_a_copy_is_made_only_where_it_is_needed_and_follows_no_link(tmp_path: Path) -> None:
    program, state, victim = tmp_path / "program", tmp_path / "state", tmp_path / "victim"
    program.write_text("first")
    state.mkdir()
    kept = KeptProgram(os.fspath(program))
    assert kept.at(os.fspath(state)) == os.fspath(program) and list(state.iterdir()) == []
    program.write_text("another")
    victim.write_text("ours")
    (state / "program").symlink_to(victim)
    for _ in range(2):
        assert kept.at(os.fspath(state)) == os.fspath(state / "program")
        assert not (state / "program").is_symlink() and (state / "program").read_text() == "first"
    (state / "program").write_text("other")
    assert Path(kept.at(os.fspath(state))).read_text() == "first"
    assert victim.read_text() == "ours" and len(list(state.iterdir())) == 1
