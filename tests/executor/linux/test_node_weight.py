"""When a node writes the weight of its group: more at once, less a moment later, and nothing where it comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from executor.core.limits import SHARES
from executor.linux.cgroups import weights
from executor.linux.cgroups.weights import GroupWeights, NodeWeight

from .node import soon

FILE = "cpu.shares"


class Group:
    """A node's group in a directory: what is written there, and how often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / FILE).write_text("2")
        self.writes = 0

    def weigh(self) -> GroupWeights:
        group = self

        class Counted(GroupWeights):
            def set(self, vcores: float) -> None:
                group.writes += 1
                super().set(vcores)

        return Counted((str(self.path),), FILE, SHARES)

    @property
    def vcores(self) -> float:
        return int((self.path / FILE).read_text()) / 1024


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


async def turn() -> None:
    """Until all that is to be done at once has been done."""
    ready = asyncio.Event()
    asyncio.get_running_loop().call_soon(ready.set)
    await ready.wait()


@pytest.fixture
def much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less weight is written so late that no pause of this machine takes as long."""
    monkeypatch.setattr(weights, "LOWER_SECONDS", 1000.0)


def test_more_weight_comes_at_once(group: Group, much_later: None) -> None:
    async def scenario() -> None:
        node = NodeWeight(group.weigh(), asyncio.get_running_loop())
        node.set(2)
        await turn()
        assert group.vcores == 2
        node.set(1)
        await turn()
        assert group.vcores == 2
        node.set(3)
        await turn()
        assert group.vcores == 3

    asyncio.run(scenario())


def test_less_comes_later(group: Group) -> None:
    async def scenario() -> None:
        node = NodeWeight(group.weigh(), asyncio.get_running_loop())
        node.set(2)
        await turn()
        node.set(1)
        assert group.vcores == 2
        await soon(lambda: group.vcores == 1, "it weighs less")

    asyncio.run(scenario())


def test_a_container_that_is_followed_by_another_costs_no_write(group: Group, much_later: None) -> None:
    async def scenario() -> None:
        node = NodeWeight(group.weigh(), asyncio.get_running_loop())
        node.set(2)
        await turn()
        for _ in range(5):
            node.set(1)
            await turn()
            node.set(2)
            await turn()
        node.finish()
        assert group.writes == 1 and group.vcores == 2

    asyncio.run(scenario())


def test_changes_without_end_do_not_keep_the_weight_of_the_past(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LOWER_SECONDS", 0.02)

    async def scenario() -> None:
        node = NodeWeight(group.weigh(), asyncio.get_running_loop())
        node.set(4)
        await turn()
        async with asyncio.timeout(10):
            while group.vcores == 4:
                node.set(1)
                await asyncio.sleep(0.001)
                node.set(2)
                await asyncio.sleep(0.001)

    asyncio.run(scenario())


def test_what_was_not_written_yet_is_written_at_the_end(group: Group) -> None:
    async def scenario() -> None:
        node = NodeWeight(group.weigh(), asyncio.get_running_loop())
        node.set(2)
        await turn()
        node.set(1)
        node.finish()
        assert group.vcores == 1

    asyncio.run(scenario())
