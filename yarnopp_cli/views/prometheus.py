"""Figures in Prometheus' text format. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from executor.records import ContainerState, ContainerStatus

from ..records.container_protocol import GetNodeInfoResponse
from ..records.figures import PERCENTILES, GetSchedulerFiguresResponse
from ..records.reports import NodeReport, NodeState

_O = "yopp_opportunistic_containers"


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure. ``kind`` is "gauge", "counter" or "summary"; ``help`` says what it is, in its unit.

    A summary's figures are its quantiles, and their sum and count by the name with ``_sum`` and ``_count``.
    """

    name: str
    value: float
    help: str
    kind: str = "gauge"
    labels: Mapping[str, str] = field(default_factory=dict)


def text(samples: Iterable[Sample]) -> str:
    """All samples, those of one name together under one heading."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        family = sample.name
        if sample.kind == "summary":
            family = family.removesuffix("_count").removesuffix("_sum")
        by_name.setdefault(family, []).append(sample)
    lines = []
    for name, group in by_name.items():
        lines += [f"# HELP {name} {_help(group[0].help)}", f"# TYPE {name} {group[0].kind}"]
        lines += [f"{one.name}{_labels(one.labels)} {_number(one.value)}" for one in group]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _help(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(round(float(value), 6))


def of_cluster(figures: Mapping[str, Any], opportunistic: GetSchedulerFiguresResponse) -> list[Sample]:
    """The RM's. ``figures`` is the inside of ClusterMetricsInfo."""
    found = [
        Sample("yopp_applications", figures[key], "Applications by state.", labels={"state": state})
        for state, key in (
            ("PENDING", "appsPending"),
            ("RUNNING", "appsRunning"),
            ("FINISHED", "appsCompleted"),
            ("FAILED", "appsFailed"),
            ("KILLED", "appsKilled"),
        )
    ]
    found.append(
        Sample(
            "yopp_applications_submitted_total",
            figures["appsSubmitted"],
            "Applications ever submitted.",
            "counter",
        )
    )
    ours = figures["yopp"]
    found += [
        Sample("yopp_containers", ours[key], "Live containers by state.", labels={"state": state})
        for state, key in (
            ("RUNNING", "containersRunning"),
            ("QUEUED", "containersQueued"),
            ("PAUSED", "containersPaused"),
        )
    ]
    found += [
        Sample("yopp_containers_pending", figures["containersPending"], "Containers asked for, not allocated."),
        Sample("yopp_memory_capacity_bytes", figures["totalMB"] << 20, "Memory of all running nodes."),
        Sample("yopp_memory_allocated_bytes", figures["allocatedMB"] << 20, "Memory of guaranteed containers."),
        Sample("yopp_vcores_capacity", figures["totalVirtualCores"], "Vcores of all running nodes."),
        Sample("yopp_vcores_allocated", figures["allocatedVirtualCores"], "Vcores of guaranteed containers."),
        Sample("yopp_opportunistic_containers", opportunistic.live, "Allocated and not ended."),
        Sample(f"{_O}_allocated_total", opportunistic.allocated, "Opportunistic ones ever allocated.", "counter"),
        Sample(f"{_O}_released_total", opportunistic.released, "Opportunistic ones that ended.", "counter"),
    ]  # fmt: skip
    found += [
        Sample(
            "yopp_opportunistic_allocations_total", value, "Opportunistic allocations by locality.", "counter",
            {"level": level},
        )
        for level, value in (
            ("node", opportunistic.node_local),
            ("rack", opportunistic.rack_local),
            ("any", opportunistic.off_switch),
        )
    ]  # fmt: skip
    percentiles = opportunistic.percentiles()
    found += [
        Sample(
            "yopp_opportunistic_allocation_wait_seconds", percentiles[percent] / 1000,
            "From an opportunistic ask to its allocation; quantiles of the last 1000.", "summary",
            {"quantile": str(percent / 100)},
        )
        for percent in PERCENTILES
    ]  # fmt: skip
    wait = "yopp_opportunistic_allocation_wait_seconds"
    found.append(Sample(f"{wait}_sum", opportunistic.waited_ms / 1000, "", "summary"))
    found.append(Sample(f"{wait}_count", opportunistic.waits, "", "summary"))
    return found


def of_nodes(nodes: Sequence[NodeReport]) -> list[Sample]:
    """What the RM knows of each node."""
    by_state = Counter(node.state for node in nodes)
    found = [
        Sample("yopp_nodes", by_state[state], "Nodes by state.", labels={"state": state.value})
        for state in NodeState
    ]
    for node in nodes:
        if node.state is NodeState.RUNNING:
            told = node.opportunistic
            found += _labelled(
                {"node": node.node_id},
                ("yopp_node_queue_length", told.queued, "Opportunistic containers queued."),
                ("yopp_node_queue_capacity", told.queue_capacity, "Opportunistic containers that may queue."),
                ("yopp_node_queue_limit", node.queue_limit, "The queue length the RM asks for, -1 for none."),
            )
    return found


def of_node(
    info: GetNodeInfoResponse, statuses: Sequence[ContainerStatus], counts: Mapping[str, int]
) -> list[Sample]:
    """An NM's own."""
    node = {"node": info.node_id}
    states = Counter(
        (one.state, one.execution_type) for one in statuses if one.state is not ContainerState.DONE
    )
    told = info.opportunistic
    found = [
        Sample("yopp_node_containers", number, "Live containers by state and type.", "gauge",
               {**node, "state": state.value, "type": kind.value})
        for (state, kind), number in sorted(states.items())
    ]  # fmt: skip
    found += [
        Sample(
            "yopp_node_containers_total",
            number,
            "Containers launched, and ended by how.",
            "counter",
            {**node, "what": what},
        )
        for what, number in counts.items()
    ]
    measured, held = info.node_utilization, info.containers_utilization
    found += _labelled(
        node,
        ("yopp_node_memory_capacity_bytes", info.total.memory << 20, "Memory for containers."),
        ("yopp_node_vcores_capacity", info.total.vcores, "Vcores for containers."),
        ("yopp_node_memory_allocated_bytes", info.allocated.memory << 20, "Memory of what runs."),
        ("yopp_node_vcores_allocated", info.allocated.vcores, "Vcores of what runs."),
        ("yopp_node_opportunistic_running", told.running, "Opportunistic containers running."),
        ("yopp_node_opportunistic_queued", told.queued, "Opportunistic containers queued."),
        ("yopp_node_opportunistic_paused", told.paused, "Opportunistic containers paused."),
        ("yopp_node_memory_used_bytes", measured.memory_bytes, "Measured memory of the machine."),
        ("yopp_node_cpu_cores_used", measured.cpu, "Measured processors of the machine, in cores."),
        ("yopp_node_containers_memory_used_bytes", held.memory_bytes, "Measured memory of all containers."),
        ("yopp_node_containers_cpu_cores_used", held.cpu, "Measured processors of them, in cores."),
        ("yopp_node_resourcemanager_connected", int(info.rm_connected), "1 while the RM answers."),
    )
    return found


def of_process(daemon: str, figures: Mapping[str, float], **labels: str) -> list[Sample]:
    """The daemon's own process."""
    labels = {"daemon": daemon, **labels}
    seconds = figures["cpu_seconds"]
    return [
        *_labelled(labels, ("yopp_daemon_resident_memory_bytes", figures["resident_bytes"], "Its memory.")),
        Sample("yopp_daemon_cpu_seconds_total", seconds, "Its processor time.", "counter", labels),
    ]


def _labelled(labels: Mapping[str, str], *figures: tuple[str, float, str]) -> list[Sample]:
    """Gauges that share their labels: name, value, help."""
    return [Sample(name, value, text, labels=labels) for name, value, text in figures]
