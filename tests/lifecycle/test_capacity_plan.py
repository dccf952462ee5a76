"""How the machine is shared between nodes: literal figures, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.records import Resource
from yarnopp_cli.cluster.capacity import DAEMON_MB, Machine, NodeSizeRequest, plan, reserve_mb
from yarnopp_cli.errors import EXIT_CONFIGURATION, EXIT_FAILURE, EXIT_USAGE, UsageError, YoppError

TWO_CORES = Machine(memory_mb=16_000, cores=2.0)
MANY_CORES = Machine(memory_mb=64_000, cores=7.0)


@pytest.mark.parametrize(
    ("memory", "configured", "kept"),
    [
        (16_000, -1, 1600),  # a tenth
        (1_000, -1, 256),  # at least
        (64_000, -1, 2048),  # at most
        (300, -1, 150),  # but never more than half of a tiny machine
        (16_000, 0, 0),
        (16_000, 5_000, 5_000),
    ],
)
def test_the_reserve(memory: int, configured: int, kept: int) -> None:
    assert reserve_mb(memory, configured) == kept


def test_a_node_that_can_hold_no_useful_container_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        plan(Machine(8192, 4), NodeSizeRequest(memory_mb=31))
    assert caught.value.message == "--memory 31 is refused" and "32 MB" in caught.value.because
    assert plan(Machine(8192, 4), NodeSizeRequest(memory_mb=32)).nodes[0].memory == 32


def test_one_node_gets_the_machine_less_the_reserve() -> None:
    assert plan(TWO_CORES, NodeSizeRequest()).nodes == (Resource(14_400, 2),)
    assert plan(TWO_CORES, NodeSizeRequest()).warnings == ()


def test_memory_is_split_evenly_and_spare_cores_go_to_the_first_nodes() -> None:
    shared = plan(MANY_CORES, NodeSizeRequest(nodes=3))
    assert [node.vcores for node in shared.nodes] == [3, 2, 2]
    assert {node.memory for node in shared.nodes} == {(64_000 - 2048) // 3}


def test_a_cpu_quota_of_a_fraction_counts_whole_cores_and_at_least_one() -> None:
    assert plan(Machine(16_000, 1.5), NodeSizeRequest()).nodes[0].vcores == 1
    assert plan(Machine(16_000, 0.3), NodeSizeRequest()).nodes[0].vcores == 1


def test_a_part_of_the_cores_by_configuration() -> None:
    assert plan(MANY_CORES, NodeSizeRequest(), cpu_percentage=50).nodes[0].vcores == 3


def test_more_nodes_than_cores_are_refused_saying_what_to_type() -> None:
    with pytest.raises(YoppError) as refused:
        plan(TWO_CORES, NodeSizeRequest(nodes=3))
    assert refused.value.exit_code == EXIT_FAILURE
    assert "2 cores" in refused.value.because
    assert "yopp up --nodes 2" in refused.value.hint
    assert "yopp up --nodes 3 --vcores 1" in refused.value.hint


def test_what_lowered_the_cores_is_named() -> None:
    limited = Machine(16_000, 1.0, ("its affinity leaves it 1 of 8 processors",))
    with pytest.raises(YoppError, match="2 nodes") as refused:
        plan(limited, NodeSizeRequest(nodes=2))
    assert "its affinity leaves it 1 of 8" in refused.value.because


def test_explicit_vcores_may_be_promised_twice_with_a_warning() -> None:
    shared = plan(TWO_CORES, NodeSizeRequest(nodes=3, vcores=2))
    assert [node.vcores for node in shared.nodes] == [2, 2, 2]
    assert shared.warnings == ("6 vcores are promised on 2 cores: containers share cores and run slower",)
    assert plan(TWO_CORES, NodeSizeRequest(nodes=2, vcores=1)).warnings == ()


def test_memory_is_never_promised_twice() -> None:
    with pytest.raises(YoppError) as refused:
        plan(TWO_CORES, NodeSizeRequest(nodes=2, memory_mb=9_000))
    assert refused.value.exit_code == EXIT_FAILURE
    assert "16000 MB" in refused.value.because
    assert "--memory 7200" in refused.value.hint
    with pytest.raises(YoppError) as configured:
        plan(TWO_CORES, NodeSizeRequest(memory_mb=17_000, configured=True))
    assert configured.value.exit_code == EXIT_CONFIGURATION
    assert "yarn.nodemanager.resource.memory-mb" in configured.value.hint


def test_memory_out_of_the_reserve_is_given_with_a_warning() -> None:
    given_ = plan(TWO_CORES, NodeSizeRequest(memory_mb=15_000))
    assert given_.nodes == (Resource(15_000, 2),)
    assert "1600 MB" in given_.warnings[0]


@pytest.mark.parametrize(
    "wish",
    [
        NodeSizeRequest(nodes=0),
        NodeSizeRequest(nodes=-1),
        NodeSizeRequest(memory_mb=0),
        NodeSizeRequest(vcores=0),
    ],
)
def test_sizes_that_make_no_sense(wish: NodeSizeRequest) -> None:
    with pytest.raises(UsageError) as refused:
        plan(TWO_CORES, wish)
    assert refused.value.exit_code == EXIT_USAGE


def test_a_thousand_nodes_on_two_cores() -> None:
    for wish in (
        NodeSizeRequest(nodes=1000),
        NodeSizeRequest(nodes=1000, vcores=1),
        NodeSizeRequest(nodes=1000, vcores=1, memory_mb=1),
    ):
        with pytest.raises(YoppError) as refused:
            plan(TWO_CORES, wish)
        assert f"{1000 * DAEMON_MB} MB" in refused.value.because
        assert refused.value.hint == "yopp up --nodes 2"


def test_a_machine_with_no_memory_to_give() -> None:
    with pytest.raises(YoppError, match="no memory is left") as refused:
        plan(Machine(1_000, 1.0), NodeSizeRequest(), reserved_memory_mb=990)
    assert "system-reserved-memory-mb" in refused.value.hint


def test_a_node_beside_others_gets_only_what_they_left() -> None:
    with pytest.raises(YoppError, match="not one core for each") as refused:
        plan(TWO_CORES, NodeSizeRequest(), taken=Resource(14_400, 2))
    assert "other nodes use 2" in refused.value.because
    beside = plan(TWO_CORES, NodeSizeRequest(memory_mb=1_000, vcores=1), taken=Resource(10_000, 1))
    assert beside.nodes == (Resource(1_000, 1),)
    with pytest.raises(YoppError, match="cannot be promised"):
        plan(TWO_CORES, NodeSizeRequest(memory_mb=7_000, vcores=1), taken=Resource(10_000, 1))


@given(
    memory=st.integers(600, 1_000_000),
    cores=st.floats(0.1, 256),
    nodes=st.integers(1, 300),
    wanted=st.none() | st.integers(1, 100_000),
    vcores=st.none() | st.integers(1, 64),
)
def test_no_plan_ever_promises_more_memory_than_there_is(
    memory: int, cores: float, nodes: int, wanted: int | None, vcores: int | None
) -> None:
    try:
        made = plan(Machine(memory, cores), NodeSizeRequest(nodes, wanted, vcores))
    except YoppError as refused:
        assert refused.because and refused.hint
        return
    assert len(made.nodes) == nodes
    assert sum(node.memory for node in made.nodes) <= memory
    assert all(node.memory > 0 and node.vcores > 0 for node in made.nodes)
    if vcores is None:
        assert sum(node.vcores for node in made.nodes) <= max(1, int(cores))
