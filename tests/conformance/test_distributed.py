"""conformance.md H and I: the distributed allocator and the DistributedScheduler, by Hadoop's own figures."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from executor.records import ExecutionType, Resource
from yarnopp_cli.nodemanager.proxy.distributed_scheduler import DistributedScheduler, NodeDirectory
from yarnopp_cli.nodemanager.proxy.interceptors import AttemptFacts
from yarnopp_cli.records.distributed_protocol import RegisterDistributedSchedulingAMResponse, RemoteNode
from yarnopp_cli.records.master_protocol import (
    AllocateRequest,
    AllocateResponse,
    RegisterApplicationMasterResponse,
)
from yarnopp_cli.records.requests import Container, ExecutionTypeRequest, ResourceRequest, Token
from yarnopp_cli.settings.declarations import NodeManagerSettings, ResourceManagerSettings

ATTEMPT, APP = "appattempt_1_0001_000001", "application_1_0001"
SIZE = Resource(1024, 1)
TOKEN = Token("AMRMProxyToken", "{}", "")
OPPORTUNISTIC, GUARANTEED = ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED


def node(host: str, rack: str = "/r1", *, port: int = 1234, labels: tuple[str, ...] = ()) -> RemoteNode:
    """A node of a plain list: of no load, and with room for all that the cases ask for."""
    return RemoteNode(
        f"{host}:{port}", f"unix:/{host}", rack, labels, Resource(1 << 20, 1000), queue_room=1000
    )


def ask(
    number: int, where: str = "*", *, id: int = 1, kind: ExecutionType = OPPORTUNISTIC, **more: Any
) -> ResourceRequest:
    capability = more.pop("capability", SIZE)
    return ResourceRequest(
        number, capability, more.pop("priority", 1), where,
        execution_type_request=ExecutionTypeRequest(kind), allocation_request_id=id, **more,
    )  # fmt: skip


def anywhere_near(host: str, rack: str, number: int, id: int) -> list[ResourceRequest]:
    return [ask(number, where, id=id) for where in (rack, host, "*")]


class Fixture:
    """min (1024, 1), max (1024, 10), as in the tests of Hadoop."""

    def __init__(
        self,
        *nodes: RemoteNode,
        minimum: Resource = SIZE,
        maximum: Resource | None = None,
        settings: ResourceManagerSettings | None = None,
    ) -> None:
        settings = settings or ResourceManagerSettings(opportunistic_enabled=True)
        self.directory = NodeDirectory(settings, wall_offset=0.0)
        self.directory.container_key = b"k" * 32
        self.scheduler = DistributedScheduler(
            AttemptFacts(ATTEMPT, APP, "h0:1", NodeManagerSettings()), self.directory
        )
        maximum = maximum or Resource(1024, 10)
        plain = RegisterApplicationMasterResponse(minimum, maximum, Resource(), "default", True)
        terms = RegisterDistributedSchedulingAMResponse(
            plain, minimum, maximum, minimum, 12345, (1 << 40) - 1, "ann", nodes
        )
        self.directory.replace(nodes)
        self.scheduler.registered(terms, 0)
        self.forwarded: tuple[ResourceRequest, ...] = ()
        self._number = 0

    def allocate(self, *asks: ResourceRequest, blacklist: tuple[str, ...] = ()) -> list[Container]:
        """One allocate call through the interceptor; what was granted. The RM knows of it at once."""
        request = AllocateRequest(ATTEMPT, TOKEN, self._number, asks=asks, blacklist_additions=blacklist)
        self.forwarded = self.scheduler.forward(request, 10.0).asks
        self._number += 1
        granted = self.scheduler.answer(AllocateResponse(self._number), 10.0).allocated
        self.scheduler.reported(container.id for container in granted)
        return list(granted)

    @property
    def outstanding(self) -> int:
        return self.scheduler.opportunistic_asks.outstanding


def hosts(granted: list[Container]) -> Counter[str]:
    return Counter(container.node_id.partition(":")[0] for container in granted)


def test_H1_simple_allocation() -> None:
    fixture = Fixture(node("h1"))
    assert hosts(fixture.allocate(ask(1))) == {"h1": 1}
    assert fixture.outstanding == 0


def test_H2_blacklist_rejection() -> None:
    fixture = Fixture(node("h1"), node("h2", "/r2"))
    assert not fixture.allocate(ask(1), blacklist=("h1", "h2"))
    assert fixture.outstanding == 1


def test_H3_round_robin_simple_allocation() -> None:
    fixture = Fixture(node("h1"), node("h2"), node("h3"))
    granted = fixture.allocate(*(ask(1, id=number) for number in (1, 2, 3)))
    assert hosts(granted) == {"h1": 1, "h2": 1, "h3": 1}


def test_H4_node_local_allocation() -> None:
    fixture = Fixture(node("h1"), node("h2"), node("h3"))
    granted = fixture.allocate(
        ask(1, id=1), *anywhere_near("h1", "/r1", 1, 2), *anywhere_near("h1", "/r1", 1, 3)
    )
    assert len(granted) == 3
    assert {one.node_id for one in granted if one.allocation_request_id in (2, 3)} == {"h1:1234"}


def test_H5_node_local_allocation_same_scheduler_key() -> None:
    fixture = Fixture(node("h1"), node("h2"), node("h3"))
    assert hosts(fixture.allocate(*anywhere_near("h1", "/r1", 2, 2))) == {"h1": 2}


def test_H6_simple_rack_local_allocation() -> None:
    fixture = Fixture(node("h3", "/r2"), node("h2", "/r1"), node("h4", "/r2"))
    assert hosts(fixture.allocate(*anywhere_near("h1", "/r1", 1, 1))) == {"h2": 1}


def test_H12_allocation_with_node_labels() -> None:
    fixture = Fixture(node("h1"))
    labelled = ask(1, node_label_expression="label")
    assert not fixture.allocate(labelled)
    assert fixture.outstanding == 1
    fixture.directory.replace([node("h1", labels=("label",))])
    assert hosts(fixture.allocate(labelled)) == {"h1": 1}
    assert fixture.outstanding == 0


def test_I_distributed_scheduler() -> None:
    listed = [node(name, port=port) for port, name in enumerate("abcd", 1)]
    fixture = Fixture(*listed, minimum=Resource(512, 2), maximum=Resource(1024, 4))
    size = Resource(1024, 4)
    guaranteed = ask(5, capability=size, priority=100, kind=GUARANTEED)
    wanted = ask(4, capability=size, priority=100)

    first = fixture.allocate(guaranteed, wanted)
    assert hosts(first) == dict.fromkeys("abcd", 1)
    assert fixture.forwarded == (guaranteed,)
    fixture.directory.replace([node(name, port="abcdef".index(name) + 1) for name in "fedc"])
    second = fixture.allocate(guaranteed, wanted)
    assert hosts(second) == dict.fromkeys("cdef", 1)
    assert [one.node_id[0] for one in second] == ["f", "e", "d", "c"], "the order of the list"
    assert fixture.forwarded == (guaranteed,)
    for container in first + second:
        assert json.loads(container.token.identifier)["node_id"] == container.node_id
        assert json.loads(container.token.identifier)["expires_ms"] == 10_000 + 12345
    assert len({container.id for container in first + second}) == 8


def test_G9_no_bound_of_one_container_a_node_and_heartbeat() -> None:
    """YARN's allocator gives each node at most one off-switch container a call, 10 in all."""
    fixture = Fixture(node("h1"), node("h2"))
    assert hosts(fixture.allocate(ask(100))) == {"h1": 50, "h2": 50}


def test_G10_two_sizes_under_one_scheduler_key() -> None:
    """YARN's allocator fails on the second size of a key once the first got something."""
    fixture = Fixture(node("h1"), maximum=Resource(4096, 10))
    granted = fixture.allocate(ask(1), ask(1, capability=Resource(2048, 1)))
    assert sorted(one.resource.memory for one in granted) == [1024, 2048]


def test_ids_count_down_from_their_own_range_and_never_repeat_in_another_life_of_the_node() -> None:
    fixture = Fixture(node("h1"))
    assert fixture.allocate(ask(1))[0].id == "container_1_0001_01_1099511627775"
    again = Fixture(node("h1"))
    terms = again.scheduler._terms
    assert terms is not None
    again.scheduler.registered(terms, 1)
    assert again.allocate(ask(1))[0].id == f"container_1_0001_01_{(1 << 40) - 1 - (1 << 24)}"


def test_what_is_not_reported_yet_counts_against_a_newer_list() -> None:
    small = replace(node("h1"), total=Resource(2048, 2), free=Resource(1024, 1), queue_room=1)
    fixture = Fixture(small)
    fixture.scheduler.forward(AllocateRequest(ATTEMPT, TOKEN, asks=(ask(5),)), 1.0)
    assert len(fixture.scheduler.unreported) == 2, "one fits, one queues"
    fixture.directory.replace([small])  # the RM's figures do not have the two yet
    fixture.scheduler.allocate(2.0)
    assert len(fixture.scheduler.unreported) == 2
    fixture.scheduler.reported([one.id for one in fixture.scheduler.unreported])
    fixture.directory.replace([small])  # now they do, and it has room again
    fixture.scheduler.allocate(3.0)
    assert len(fixture.scheduler.unreported) == 2
    assert fixture.outstanding == 1
