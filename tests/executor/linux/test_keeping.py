"""An upgrade in place takes the programs of a running node away, or puts others there: containers start."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.core.events import ContainerExited
from executor.linux import exact, launcher, shim
from executor.linux.cgroups.none import NoCgroups
from executor.linux.keeping import KeptProgram
from executor.records import ContainerState
from executor.settings import ExecutorSettings

from .node import a_group, a_node, a_spec
from .test_preparing import SETTINGS as PREPARING
from .test_preparing import ready, store


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The programs of an installation of our own, which the next nodes use."""
    place = tmp_path / "site-packages"
    place.mkdir()
    programs = (
        (shim, "SHIM", shim.SHIM),
        *((one, "__file__", str(one.__file__)) for one in (launcher, exact)),
    )
    for module, name, path in programs:
        monkeypatch.setattr(module, name, shutil.copy2(path, place))
    yield sorted(place.iterdir())


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("slots", [pytest.param(1, marks=pytest.mark.cgroup), 0], ids=["slot", "shim"])
def test_containers_start_after_an_upgrade(
    tmp_path: Path, installed: list[Path], slots: int, how: str
) -> None:
    async def scenario(cgroups: object) -> None:
        settings = ExecutorSettings(pooled_groups=slots)
        async with a_node(tmp_path, cgroups, settings) as node:  # type: ignore[arg-type]
            for path in installed:
                path.unlink()
                if how == "replaced":
                    path.write_text("exit 2\n")
            for number in range(3):
                exited = await node.run(a_spec(f"c{number}", "sh", "-c", "exit 3"))
                assert exited.exit_code == 3

    if slots:
        with a_group(ExecutorSettings(pooled_groups=slots)) as cgroups:
            asyncio.run(scenario(cgroups))
    else:
        asyncio.run(scenario(NoCgroups()))


@pytest.mark.parametrize("variable", ["PLAIN", "odd.name"])
def test_what_was_prepared_before_an_upgrade_starts_after_it(
    tmp_path: Path, installed: list[Path], variable: str
) -> None:
    async def scenario() -> None:
        async with a_node(tmp_path, NoCgroups(), PREPARING) as node:
            show = "tr '\\0' '\\n' < /proc/$$/environ | grep -F $0=; ls -l /proc/$$/fd >&2; exit 3"
            spec = a_spec(
                "c1", "sh", "-c", show, variable, environment={variable: "there", "PATH": os.environ["PATH"]}
            )
            store(node, spec)
            await ready(node, "c1")
            for path in installed:
                path.unlink()
            store(node, spec, ContainerState.LAUNCHING)
            await node.launch(spec)
            exited = await node.told(ContainerExited, "c1")
            assert exited.exit_code == 3, node.output("c1", "stderr")
            assert node.output("c1").decode() == f"{variable}=there\n"
            assert b"memfd" not in node.output("c1", "stderr"), "the container does not have the program open"

    asyncio.run(scenario())


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
