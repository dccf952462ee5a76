"""A container that has its node for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from executor.records import Resource
from yarnopp_cli.cli.jobs.exclusive import largest
from yarnopp_cli.records.reports import NodeState

from .fake import Cluster, node

SMALL, LARGE = Resource(2048, 2), Resource(5000, 4)


@pytest.mark.parametrize(
    ("name", "step", "expected"),
    [
        ("*", 1, LARGE),
        ("*", 1024, Resource(4096, 4)),
        ("*", 8192, Resource(5000, 4)),
        ("host1:45454", 1, SMALL),
        ("45454", 1, SMALL),
        ("host2", 1, LARGE),
        ("host3", 1, None),
        ("nobody", 1, None),
    ],
)
def test_it_is_as_large_as_the_largest_node_that_may_be_meant(
    name: str, step: int, expected: Resource | None
) -> None:
    nodes = [
        node(Path("/"), "host1:45454", total=SMALL),
        node(Path("/"), "host2:45455", total=LARGE),
        node(Path("/"), "host3:45456", total=Resource(9999, 9), state=NodeState.LOST),
    ]
    assert largest(nodes, name, step) == expected


def test_a_size_of_ones_own_is_refused(cli: Callable[..., Any], cluster: Cluster) -> None:
    refused = cli("run", "--exclusive", "--vcores", "1", "--dry-run", "--", "true")
    assert refused.code == 2 and "--exclusive and a size exclude each other" in refused.err
    total = cluster.nodes[0].total
    told = cli("run", "--exclusive", "--dry-run", "--node", cluster.nodes[0].node_id, "--", "true")
    assert told.code == 0 and f"{total.vcores} vcores" in told.out, told.out + told.err


def test_without_a_cluster_it_is_the_node_that_the_job_would_start(cli: Callable[..., Any]) -> None:
    told = cli(
        "run", "--exclusive", "--dry-run",
        "-D", "yarn.nodemanager.resource.memory-mb=700", "-D", "yarn.nodemanager.resource.cpu-vcores=3",
        "-D", "yarn.scheduler.minimum-allocation-mb=64", "--", "true",
    )  # fmt: skip
    assert told.code == 0 and "1 guaranteed, of 640 MB, 3 vcores" in told.out, told.out + told.err
