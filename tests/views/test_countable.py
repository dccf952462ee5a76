"""Countable resources on pages, in ``yopp top`` and in the documents."""

from __future__ import annotations

import re
from dataclasses import replace

from executor.records import ContainerState, ExecutionType, Resource, counted
from tests.core.test_explain import NODE, NOW
from tests.tui.fake import INFO
from yarnopp_cli.client import documents
from yarnopp_cli.explain.snapshot import Picture
from yarnopp_cli.records.container_protocol import GetNodeInfoResponse
from yarnopp_cli.records.reports import ContainerReport
from yarnopp_cli.views import containers, nodes
from yarnopp_cli.views.resources import entries_document, resource_document
from yarnopp_cli.views.rest import node as node_view
from yarnopp_cli.views.top.lines import of_node
from yarnopp_cli.views.top.tables import queue_columns
from yarnopp_cli.web.pages.tables import resource_tiles

GPU = counted({"yarn.io/gpu": 1})
TWO = counted({"license": 3, "yarn.io/gpu": 2})
BUSY = replace(
    NODE,
    total=Resource(4096, 2, TWO),
    used=Resource(512, 1, GPU),
    opportunistic=replace(NODE.opportunistic, running=1, others_used=GPU),
)
WAITS = ContainerReport(
    "container_1_0001_01_000002", "application_1_0001", "h1:1", ExecutionType.OPPORTUNISTIC, Resource(512, 1, GPU),
    state=ContainerState.SCHEDULED, devices=("0:0",),
)  # fmt: skip


def test_resource_informations_are_yarns() -> None:
    found = resource_document(Resource(512, 1, TWO))
    assert (found["memory"], found["vCores"]) == (512, 1)
    told = found["resourceInformations"]["resourceInformation"]
    assert [(one["name"], one["units"], one["value"]) for one in told] == [
        ("memory-mb", "Mi", 512), ("vcores", "", 1), ("license", "", 3), ("yarn.io/gpu", "", 2),
    ]  # fmt: skip
    assert [one["key"] for one in entries_document(1, 2, GPU)["entry"]] == [
        "memory-mb",
        "vcores",
        "yarn.io/gpu",
    ]


def test_a_node_and_a_container_come_back_from_their_documents() -> None:
    again = documents.node(nodes.document(BUSY))
    assert (again.total, again.used, again.opportunistic.others_used) == (BUSY.total, BUSY.used, GPU)
    one = documents.container(containers.document(WAITS, NOW))
    assert (one.resource, one.devices) == (WAITS.resource, ("0:0",))


def test_what_is_used_of_each_type() -> None:
    assert nodes.others_text(BUSY) == "0/3 license, 2/2 yarn.io/gpu"
    told = dict(nodes.fields(BUSY))
    assert told["yarn.io/gpu"] == "1 guaranteed, 1 opportunistic, of 2"
    assert dict(containers.fields(WAITS, NOW))["Resource"] == "512 MB, 1 vcore, 1 yarn.io/gpu"


def test_top_shows_them_on_a_nodes_line_and_in_what_a_container_needs() -> None:
    picture = Picture(NOW, INFO, (BUSY,), (WAITS,))
    assert "2/2 yarn.io/gpu" in "".join(cell.text for cell in of_node(BUSY, picture))
    (needs,) = (one for one in queue_columns(picture, [WAITS], 160) if one.key == "needs")
    assert needs.cell(WAITS).text == "512M 1c 1 gpu" and needs.width == len("512M 1c 1 gpu")


def test_pages_have_a_tile_for_each_type() -> None:
    tiles = resource_tiles(BUSY.used, Resource(0, 0, GPU), BUSY.total)
    assert [name for name, _, _ in tiles] == ["Memory", "VCores", "license", "yarn.io/gpu"]
    _, bar, text = tiles[-1]
    assert re.sub(r"<[^>]*>", "", str(bar)).strip() == "1 of 2" and text == "guaranteed · 1 opportunistic"


def test_the_gpus_of_a_node_and_who_has_them_in_yarns_words() -> None:
    size = Resource(4096, 2, TWO)
    node = GetNodeInfoResponse(
        "h1:1", 1, size, size, BUSY.opportunistic, BUSY.node_utilization, BUSY.containers_utilization, NOW, "1", "v1",
        devices=("0:0", "1:5"),
    )  # fmt: skip
    ended = replace(WAITS, container_id="ended", state=ContainerState.DONE, devices=("1:5",))
    holder = replace(WAITS, state=ContainerState.PAUSED)
    assert node_view.resource("yarn.io/gpu", node, [ended, holder]) == {
        "totalGpuDevices": [{"index": 0, "minorNumber": 0}, {"index": 1, "minorNumber": 5}],
        "assignedGpuDevices": [{"index": 0, "minorNumber": 0, "containerId": WAITS.container_id}],
    }
    assert node_view.resource("license", node, [holder]) == {}
