"""More of Hadoop's own cases of the kinds A and H: several victims, round robin in a rack, many asks, the bound."""

from __future__ import annotations

from dataclasses import replace

from executor.core.commands import KillContainer
from tests.executor.core.world import G, O, World
from yarnopp_cli.settings.declarations import ResourceManagerSettings

from .test_distributed import Fixture, anywhere_near, ask, hosts, node
from .yarn_node import KILLED, yarn_node


def killed(world: World) -> list[str]:
    return [command.container_id for command in world.commands if isinstance(command, KillContainer)]


def test_a9_kill_multiple_opportunistic_containers() -> None:
    for world in (yarn_node(), World()):
        for number in range(3):
            world.schedule(f"c{number}", O, 512)
        world.schedule("c3", G, 1500)
        assert len(killed(world)) == 2 and world.states("c3") == ["RUNNING"]
        assert all(KILLED in world.status(name).diagnostics for name in killed(world))
        assert all(world.status(name).exit_status == -108 for name in killed(world))


def test_a10_kill_only_required_opportunistic_containers() -> None:
    for world in (yarn_node(), World()):
        for number in range(4):
            world.schedule(f"c{number}", O, 512)
        world.schedule("c4", G, 512)
        world.schedule("c5", G, 512)
        assert sorted(killed(world)) == ["c2", "c3"], "the newest, and no more than two"
        assert world.states("c0", "c1", "c4", "c5") == ["RUNNING"] * 4
        assert world.queued() == (0, 0)


def racks() -> Fixture:
    return Fixture(node("h1"), node("h2"), node("h3"), node("h4", "/r2"))


def test_h7_round_robin_rack_local_allocation() -> None:
    fixture = racks()
    granted = fixture.allocate(*anywhere_near("h5", "/r1", 1, 1), *anywhere_near("h5", "/r1", 1, 2))
    assert len(granted) == 2 and len(hosts(granted)) == 2 and "h4" not in hosts(granted)


def test_h8_round_robin_rack_local_allocation_same_scheduler_key() -> None:
    granted = racks().allocate(*anywhere_near("h5", "/r1", 3, 1))
    assert hosts(granted) == {"h1": 1, "h2": 1, "h3": 1}


def test_h9_off_switch_allocation_when_no_node_or_rack() -> None:
    fixture = racks()
    granted = fixture.allocate(*anywhere_near("h6", "/r3", 2, 2))
    assert len(granted) == 2 and fixture.outstanding == 0


def test_h10_lots_of_containers_rack_local_allocation_same_scheduler_key() -> None:
    fixture = racks()
    granted = fixture.allocate(*anywhere_near("h5", "/r1", 300, 1))
    assert len(granted) == 300 and "h4" not in hosts(granted)
    assert max(hosts(granted).values()) - min(hosts(granted).values()) <= 1


def test_h11_lots_of_containers_rack_local_allocation() -> None:
    fixture = racks()
    asked = [one for number in range(1, 101) for one in anywhere_near("h5", "/r1", 1, number)]
    granted = fixture.allocate(*asked)
    assert len(granted) == 100 and fixture.outstanding == 0


def test_h13_max_allocations_per_am_heartbeat() -> None:
    bound = replace(ResourceManagerSettings(opportunistic_enabled=True), max_allocations_per_heartbeat=2)
    fixture = Fixture(node("h1"), node("h2"), node("h3"), settings=bound)
    assert len(fixture.allocate(*anywhere_near("h6", "/r3", 3, 2))) == 2
    assert len(fixture.allocate()) == 1
    assert len(fixture.allocate(ask(3, id=7), ask(1, id=8))) == 2, "over all keys of the call"
