"""XML, Hadoop's bean queries and Prometheus' text, without a cluster."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.records import Resource
from tests.tui.fake import cluster
from yarnopp_cli.records.scheduler_protocol import GetSchedulerFiguresResponse
from yarnopp_cli.views.html import esc, moment, state, tag
from yarnopp_cli.views.rest.metrics import Figure, of_cluster, prometheus, query_beans
from yarnopp_cli.views.rest.xml import to_xml
from yarnopp_cli.web.pages.frame import path

BEANS = [
    {"name": "Hadoop:service=ResourceManager,name=ClusterMetrics", "A": 1},
    {"name": "Hadoop:service=NodeManager,name=yopp"},
]


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("", 2), ("*:*", 2), ("Hadoop:*", 2), ("java.lang:*", 0), ("Hadoop:service=NodeManager,*", 1),
        ("Hadoop:name=ClusterMetrics,service=ResourceManager", 1), ("Hadoop:name=ClusterMetrics", 0),
        ("Hadoop:service=ResourceManager,name=Cluster*", 1), ("*" * 2500 + ":" + "*" * 2500, 2), ("H*a*d*o*o*p*x:*", 0),
    ],
)  # fmt: skip
def test_beans_are_chosen_as_jmx_does(query: str, number: int) -> None:
    status, found = query_beans(BEANS, query, "")
    assert (status, len(found["beans"])) == (200, number)


def test_one_attribute_of_a_bean() -> None:
    name = str(BEANS[0]["name"])
    assert query_beans(BEANS, "", f"{name}::A") == (200, {"beans": [{"name": name, "A": 1}]})
    assert query_beans(BEANS, "", "Hadoop:service=ResourceManager,*::A")[1]["beans"] == [
        {"name": name, "A": 1}
    ]
    assert query_beans(BEANS, "", "Hadoop:name=nothing::A") == (200, {"beans": []})


@pytest.mark.parametrize(
    ("query", "get", "status"),
    [
        ("nonsense", "", 400), ("*" * 5000, "", 400), ("", "nonsense", 400), ("", "a:b=c::A::B", 400),
        ("", "a::b", 400), ("", "Hadoop:*::Nothing", 404), ("", "::", 400),
    ],
)  # fmt: skip
def test_a_query_that_is_none_is_refused_as_hadoop_does(query: str, get: str, status: int) -> None:
    found, told = query_beans(BEANS, query, get)
    assert (found, told["result"]) == (status, "ERROR")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=3))
def test_any_document_is_well_formed_xml(inside: dict[str, Any]) -> None:
    ET.fromstring(to_xml({"root": inside}).encode("utf-8", "replace"))


def test_xml_repeats_lists_and_leaves_out_nothings() -> None:
    root = ET.fromstring(to_xml({"apps": {"app": [{"id": "a", "x": None}, {"id": "<&>"}], "ok": True}}))
    assert [one.findtext("id") for one in root.findall("app")] == ["a", "<&>"]
    assert root.find("app/x") is None and root.findtext("ok") == "true"
    assert ET.fromstring(to_xml({"apps": None})).tag == "apps"


def test_prometheus_text_has_one_heading_a_name_and_escapes_labels() -> None:
    found = prometheus(
        [
            Figure("", 1, "a", "A.", labels={"x": 'q"\\\n'}),
            Figure("", 0.5, "b", "B.", "counter"),
            Figure("", 2.0, "a", "A."),
        ]
    )
    assert (
        found
        == '# HELP a A.\n# TYPE a gauge\na{x="q\\"\\\\\\n"} 1\na 2\n# HELP b B.\n# TYPE b counter\nb 0.5\n'
    )


def test_html_pieces_escape_what_they_are_given() -> None:
    assert esc("<b>&\"'\x1b\u202e") == "&lt;b&gt;&amp;&quot;&#x27;\\e\\u202e"
    assert (
        tag("a", "<i>", href='"x', data_y=1, hidden=True, class_=None)
        == '<a href="&quot;x" data-y="1" hidden>&lt;i&gt;</a>'
    )
    assert 'class="state running"' in state("RUNNING (silent)") and 'class="state xonclick"' in state(
        'X"onclick='
    )
    assert path("node", "a/../b c", "vm:1") == "/node/a%2F..%2Fb%20c/vm:1"
    assert (
        ">1970-01-01 00:00:01<" in moment(1000, 10**13)
        and ">00:00:01<" in moment(1000, 2000)
        and moment(0) == "-"
    )


def test_a_figure_is_declared_once_for_beans_and_for_prometheus() -> None:
    counted = GetSchedulerFiguresResponse(
        pending=Resource(512, 1),
        allocated=9,
        released=4,
        waits=7,
        percents=(50, 99),
        percentiles_ms=(20, 3000),
    )
    picture = cluster()
    process = {"resident_bytes": float(5 << 20), "cpu_seconds": 1.5}
    found = of_cluster(picture.info, picture.applications, picture.nodes, counted, 3, process)
    beans = {bean["name"].partition("name=")[2]: bean for bean in found.beans}
    lines = prometheus(found.samples).splitlines()
    assert (
        beans["ClusterMetrics"]["CapabilityMB"] == 32768
        and f"yopp_memory_capacity_bytes {32768 << 20}" in lines
    )
    assert beans["QueueMetrics,q0=root"]["PendingMB"] == 512
    assert beans["OpportunisticSchedulerMetrics"]["AllocateLatencyOQuantiles99thPercentileTime"] == 3000
    assert 'yopp_opportunistic_allocation_wait_seconds{quantile="0.99"} 3' in lines
    assert (
        beans["yopp"]["ResidentMB"] == 5.0
        and 'yopp_daemon_cpu_seconds_total{daemon="resourcemanager"} 1.5' in lines
    )
    named = [one for one in found.samples if one.name]
    assert all(any(line.startswith(one.name) for line in lines) for one in named)
