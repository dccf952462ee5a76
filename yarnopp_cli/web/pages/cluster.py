"""The ResourceManager's pages at YARN's addresses: /cluster, nodes, apps, one app, the scheduler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiohttp import web

from executor.records import ContainerState, ExecutionType

from ...records.client_protocol import (
    GetApplicationAttemptsRequest,
    GetContainersRequest,
    GetQueueInfoRequest,
)
from ...records.ids import ContainerId
from ...records.reports import ApplicationReport, ClusterInfo, ContainerReport, NodeReport, NodeState
from ...settings.loading import Configuration
from ...views import applications as application_view
from ...views import cluster as cluster_view
from ...views import containers as container_view
from ...views import nodes as node_view
from ...views.text import megabytes, of_megabytes, span
from ..http import not_found
from ..queries import words
from .frame import page, static_routes
from .html import (
    Html,
    facts,
    join,
    link,
    meter,
    moment,
    path,
    section,
    shares,
    stacked,
    state,
    table,
    tag,
    tiles,
)
from .mapreduce import MAP_REDUCE, map_reduce_section

if TYPE_CHECKING:
    from ..cluster_data import ClusterData

NAVIGATION = (
    ("About", "/cluster"),
    ("Nodes", "/cluster/nodes"),
    ("Applications", "/cluster/apps"),
    ("Scheduler", "/cluster/scheduler"),
)
NODE_TITLES = (
    "Node Labels", "Rack", "Node State", "Node Address", "Node HTTP Address", "Last health-update", "Health-report",
    "Running Containers (G)", "Allocation Tags", "Mem Used (G)", "Mem Avail (G)", "Mem Total", "Phys Mem Used %",
    "VCores Used (G)", "VCores Avail (G)", "VCores Total", "Phys VCores Used %", "Running Containers (O)",
    "Mem Used (O)", "VCores Used (O)", "Queued Containers", "Version",
)  # fmt: skip
"""YARN's NodesPage with opportunistic containers enabled."""
PLAIN_NODE_TITLES = tuple(
    title.removesuffix(" (G)").removeprefix("Running ") if title.endswith(" (G)") else title
    for title in NODE_TITLES
    if not title.endswith(" (O)") and title != "Queued Containers"
)
"""The same with opportunistic containers off."""
APPLICATION_TITLES = (
    "ID", "User", "Name", "Application Type", "Application Tags", "Queue", "Application Priority", "StartTime",
    "LaunchTime", "FinishTime", "State", "FinalStatus", "Running Containers", "Queued Containers", "Paused Containers",
    "Allocated CPU VCores", "Allocated Memory MB", "Progress",
)  # fmt: skip
"""YARN's, those that mean something on one host, with the queued and the paused beside the running."""
CONTAINER_TITLES = (
    "Container ID",
    "Execution Type",
    "State",
    "Node",
    "Time",
    "Memory",
    "VCores",
    "Logs",
    "Exit",
)
QUEUE_TITLES = (
    "Node",
    "Running (O)",
    "Queued",
    "Queue capacity",
    "Limit of the RM",
    "Paused",
    "Estimated wait",
)
_NUMERIC = (
    "Mem", "Phys", "VCores", "Running", "Containers", "Queued", "Paused", "Allocated", "Application Priority", "Time",
    "Live", "Queue capacity", "Limit of the RM", "Estimated wait",
)  # fmt: skip
NUMBERS = frozenset(
    title
    for title in (*NODE_TITLES, *PLAIN_NODE_TITLES, *APPLICATION_TITLES, *CONTAINER_TITLES, *QUEUE_TITLES)
    if title.startswith(_NUMERIC)
)
"""Columns that are aligned to the right."""
MOST_ROWS = 500


def now_ms() -> int:
    """The time of day, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class ClusterPages:
    """Renders what ``data`` tells."""

    def __init__(self, data: ClusterData, configuration: Configuration) -> None:
        self._data = data

    def routes(self) -> list[web.RouteDef]:
        """YARN's addresses."""
        return [
            *static_routes("/cluster"),
            web.get("/cluster", self.about),
            web.get("/cluster/cluster", self.about),
            web.get("/cluster/nodes", self.nodes),
            web.get("/cluster/apps", self.applications),
            web.get("/cluster/apps/{state}", self.applications),
            web.get("/cluster/app/{app}", self.application),
            web.get("/cluster/scheduler", self.scheduler),
            web.get("/cluster/container/{container}", self.container),
        ]

    async def _tiles(self) -> Html:
        info, nodes = await self._data.info(), await self._data.nodes()
        return cluster_tiles(info, nodes)

    async def about(self, request: web.Request) -> web.StreamResponse:
        """The cluster in short."""
        info = await self._data.info()
        rows = [
            ("Cluster ID", info.cluster_timestamp),
            ("ResourceManager state", state("STARTED")),
            ("ResourceManager started on", moment(info.started_at_ms)),
            ("ResourceManager version", f"yopp {info.version}"),
            ("Process", info.pid),
            ("Run directory", info.run_dir),
            ("Address", info.address),
            ("Lifetime", "until yopp down" if info.lifetime == "stay" else "until its last job has ended"),
            ("Largest container", str(info.maximum)),
            ("Opportunistic containers", "on" if info.opportunistic_enabled else "off"),
        ]
        properties = table(
            ("Property", "Value"),
            sorted(info.properties.items()),
            empty="All properties have their defaults.",
        )
        body = join(
            [
                await self._tiles(),
                section("About the Cluster", facts(rows)),
                section("Configuration", properties),
            ]
        )
        return page(request, "Cluster", body, navigation=NAVIGATION)

    async def nodes(self, request: web.Request) -> web.StreamResponse:
        """YARN's Nodes page."""
        wanted = words(request, "states", NodeState, "node state") + words(
            request, "state", NodeState, "node state"
        )
        info = await self._data.info()
        every = await self._data.nodes()
        shown = [one for one in every if (one.state in wanted if wanted else one.state not in _HIDDEN)]
        titles = NODE_TITLES if info.opportunistic_enabled else PLAIN_NODE_TITLES
        rows = [node_row(one, opportunistic=info.opportunistic_enabled) for one in shown]
        listed = table(titles, rows, empty="No nodes.", numeric=NUMBERS)
        return page(
            request, "Nodes of the cluster", join([cluster_tiles(info, every), listed]), navigation=NAVIGATION
        )

    async def applications(self, request: web.Request) -> web.StreamResponse:
        """All applications, the newest first."""
        word = request.match_info.get("state", "").upper()
        every = await self._data.applications()
        shown = [one for one in every if not word or one.state.value == word]
        listed = table(
            APPLICATION_TITLES,
            [application_row(one) for one in reversed(shown[-MOST_ROWS:])],
            empty="No applications.",
            numeric=NUMBERS,
        )
        parts: list[object] = [await self._tiles(), _state_filter(every, word), listed]
        if len(shown) > MOST_ROWS:
            parts.append(tag("p", f"The newest {MOST_ROWS} of {len(shown)}.", class_="more"))
        return page(
            request,
            "All Applications" if not word else f"{word} Applications",
            join(parts),
            navigation=NAVIGATION,
        )

    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application: its overview, attempts and containers."""
        report = await self._data.application(request.match_info["app"])
        answer = await self._data.call(GetApplicationAttemptsRequest(report.application_id))
        containers = await self._data.containers(
            GetContainersRequest(application_id=report.application_id, finished=True)
        )
        addresses = {one.node_id: one.http_address for one in await self._data.nodes()}
        attempts = table(
            ("Attempt ID", "State", "AM Container", "Started", "Finished", "Diagnostics"),
            [
                (one.attempt_id, state(one.state), _master(one.am_container_id),
                 moment(one.started_at_ms), moment(one.finished_at_ms), one.diagnostics)
                for one in answer.attempts
            ],
            empty="No attempts.",
        )  # fmt: skip
        listed = containers_table(containers, "No containers yet.", addresses)
        job = await self._data.job(report.application_id) if report.application_type == MAP_REDUCE else None
        body = join(
            [
                tag("p", join([state(report.state.value), " ", report.name]), class_="big"),
                application_bar(report),
                section("Overview", facts(_overview(report))),
                *([map_reduce_section(job, now_ms())] if job is not None else []),
                section("Attempts", attempts),
                section(f"Containers ({len(containers)})", listed),
            ]
        )
        return page(request, report.application_id, body, navigation=NAVIGATION)

    async def container(self, request: web.Request) -> web.StreamResponse:
        """To the page of a container at its node."""
        container_id = request.match_info["container"]
        ContainerId.parse(container_id)
        (report,) = await self._data.containers(
            GetContainersRequest(container_ids=(container_id,), finished=True)
        )
        node = await self._data.node(report.node_id)
        if not node.http_address:
            raise not_found(f"node {node.node_id} serves no pages")
        raise web.HTTPFound(f"http://{node.http_address}{path('node', 'container', container_id)}")

    async def scheduler(self, request: web.Request) -> web.StreamResponse:
        """The queues."""
        answer = await self._data.call(GetQueueInfoRequest())
        found = cluster_view.scheduler(answer.queues)["scheduler"]["schedulerInfo"]
        body = join(
            [
                await self._tiles(),
                section("Application Queues", _queue(found)),
                section("Opportunistic containers", _limits(await self._data.nodes())),
            ]
        )
        return page(request, "Scheduler", body, navigation=NAVIGATION)


_HIDDEN = frozenset({NodeState.UNHEALTHY, NodeState.LOST, NodeState.SHUTDOWN, NodeState.DECOMMISSIONED})


def cluster_tiles(info: ClusterInfo, nodes: Sequence[NodeReport]) -> Html:
    """The cluster's figures."""
    told = cluster_view.opportunistic_totals([one for one in nodes if one.state is NodeState.RUNNING])
    total, used = info.total, info.used
    return tiles(
        [
            ("Nodes", info.nodes_running, f"{info.nodes_lost} lost" if info.nodes_lost else "running"),
            (
                "Applications",
                info.applications_running,
                f"running · {info.applications_pending} pending · {info.applications_finished} ended",
            ),
            (
                "Containers",
                info.containers_running,
                f"running · {info.containers_queued} queued · {info.containers_paused} paused",
            ),
            (
                "Memory",
                shares(
                    used.memory,
                    told["memoryMB"],
                    total.memory,
                    of_megabytes(used.memory, total.memory),
                ),
                f"guaranteed · {megabytes(told['memoryMB'])} opportunistic",
            ),
            (
                "VCores",
                shares(used.vcores, told["vcores"], total.vcores, f"{used.vcores} of {total.vcores}"),
                f"guaranteed · {told['vcores']} opportunistic",
            ),
        ]
    )


def node_row(node: NodeReport, *, opportunistic: bool) -> list[object]:
    """A node under YARN's titles."""
    available = (node.total - node.used).at_least_zero()
    told = node.opportunistic
    address: object = (
        link(f"http://{node.http_address}/node", node.http_address) if node.http_address else "N/A"
    )
    row: list[object] = [
        ",".join(node.labels), node.rack, state(node_view.state_text(node)), node.node_id, address,
        moment(node.last_heartbeat_ms, now_ms()), node.health_report, node.num_containers, "",
        megabytes(node.used.memory), megabytes(available.memory), megabytes(node.total.memory),
        f"{node_view.memory_percent(node):.0f}", node.used.vcores, available.vcores, node.total.vcores,
        f"{node_view.cpu_percent(node):.0f}",
    ]  # fmt: skip
    if opportunistic:
        row += [told.running, megabytes(told.memory_used), told.vcores_used, told.queued]
    return [*row, node.version]


def application_row(report: ApplicationReport) -> list[object]:
    """An application under YARN's titles."""
    return [
        link(path("cluster", "app", report.application_id), report.application_id), report.user, report.name,
        report.application_type, ",".join(report.tags), report.queue, report.priority,
        *(moment(at, now_ms()) for at in (report.submitted_at_ms, report.started_at_ms, report.finished_at_ms)),
        state(report.state.value), report.final_status.value, report.containers_running, report.containers_queued,
        report.containers_paused, report.allocated.vcores, report.allocated.memory,
        meter(report.progress, 1, f"{report.progress:.0%}"),
    ]  # fmt: skip


def container_row(report: ContainerReport, http_address: str, now: int) -> list[object]:
    """A container in the list of an application or a node; ``http_address`` is its node's, "" for this one's own."""
    base = f"http://{http_address}" if http_address else ""
    logs: object = ""
    if report.started_at_ms:
        logs = link(base + path("node", "containerlogs", report.container_id, report.user or "-"), "logs")
    return [
        link(base + path("node", "container", report.container_id), report.container_id),
        kind(report.execution_type),
        state(container_view.shown_state(report)),
        report.node_id,
        span(container_view.time_ms(report, now)),
        megabytes(report.resource.memory),
        report.resource.vcores,
        logs,
        "" if report.state is not ContainerState.DONE else container_view.exit_text(report).partition(",")[0],
    ]


def containers_table(
    reports: Sequence[ContainerReport], empty: str, http_addresses: Mapping[str, str] | None = None
) -> Html:
    """Containers in the order given; of too many, those that run, then those that wait, then the last that ended."""
    shown, addresses, now = list(reports), http_addresses or {}, now_ms()
    if len(shown) > MOST_ROWS:
        ranked = sorted(range(len(shown)), key=lambda at: (_rank(shown[at]), -at))
        shown = [shown[at] for at in sorted(ranked[:MOST_ROWS])]
    rows = [container_row(one, addresses.get(one.node_id, ""), now) for one in shown]
    found = table(CONTAINER_TITLES, rows, empty=empty, numeric=NUMBERS)
    if len(shown) == len(reports):
        return found
    words = f"{len(shown)} of {len(reports)}: those that run before those that wait, and these before those that ended."
    return join([found, tag("p", words, class_="more")])


def _rank(report: ContainerReport) -> int:
    if report.state is ContainerState.DONE:
        return 2
    return 0 if report.started_at_ms else 1


def kind(execution_type: ExecutionType) -> Html:
    """The execution type."""
    return tag("span", execution_type.value, class_=f"kind {execution_type.value.lower()}")


def application_bar(report: ApplicationReport) -> Html:
    """Its containers by state, as one bar and in words."""
    bar = stacked(
        [
            ("done", report.containers_done),
            ("failed", report.containers_failed),
            ("running", report.containers_running),
            ("paused", report.containers_paused),
            ("queued", report.containers_queued),
            ("pending", report.pending_containers),
        ]
    )
    return tag(
        "div", join([bar, tag("p", application_view.counts_text(report), class_="more")]), class_="counts"
    )


def _master(container_id: str) -> object:
    """A master's container, whose page its node has."""
    if not container_id:
        return "in its client"
    return link(path("cluster", "container", container_id), container_id)


def _overview(report: ApplicationReport) -> list[tuple[str, object]]:
    code = application_view.exit_code(report)
    master = _master(report.am_container_id)
    rows: list[tuple[str, object]] = [
        ("User", report.user),
        ("Name", report.name),
        ("Application Type", report.application_type),
        ("Application Tags", ", ".join(report.tags) or "-"),
        ("Application Priority", report.priority),
        ("YarnApplicationState", state(report.state.value)),
        ("Queue", report.queue),
        ("FinalStatus Reported by AM", report.final_status.value),
        ("Exit code", "-" if code is None else code),
        ("Started", moment(report.submitted_at_ms)),
        ("Launched", moment(report.started_at_ms)),
        ("Finished", moment(report.finished_at_ms)),
        ("Elapsed", span(application_view.elapsed_ms(report, now_ms()))),
        ("Progress", meter(report.progress, 1, f"{report.progress:.0%}")),
        ("AM container", master),
        (
            "Allocated",
            f"{report.guaranteed_allocated_total} guaranteed, {report.opportunistic_allocated_total} opportunistic",
        ),
        (
            "Aggregate Resource Allocation",
            f"{report.memory_seconds} MB-seconds, {report.vcore_seconds} vcore-seconds",
        ),
        ("Command", tag("code", report.command_line)),
        ("Diagnostics", report.diagnostics or "-"),
    ]
    if report.summary is not None and report.summary.completed:
        rows.append(("Ran", application_view.summary_text(report.summary)))
    return rows


def _state_filter(every: Sequence[ApplicationReport], word: str) -> Html:
    """Links to the applications of one state, with their number."""
    counts: dict[str, int] = {}
    for one in every:
        counts[one.state.value] = counts.get(one.state.value, 0) + 1
    links = [tag("a", f"ALL {len(every)}", href="/cluster/apps", aria_current="page" if not word else None)]
    links += [
        tag(
            "a",
            f"{name} {number}",
            href=path("cluster", "apps", name),
            aria_current="page" if name == word else None,
        )
        for name, number in sorted(counts.items())
    ]
    return tag("p", join(links), class_="filter")


def _queue(queue: dict[str, Any]) -> Html:
    """A queue and those below it."""
    used = queue["absoluteUsedCapacity"]
    words = (
        f"{used:.1f}% used of {queue['absoluteCapacity']:.1f}% (at most {queue['absoluteMaxCapacity']:.1f}%)"
    )
    parts: list[object] = [
        tag("strong", queue["queueName"]),
        state(queue.get("state", "RUNNING")),
        meter(used, queue["absoluteMaxCapacity"], words),
    ]
    if "numApplications" in queue:
        pending = queue.get("numPendingContainers", 0)
        parts.append(
            tag(
                "span",
                f"{_counted(queue['numApplications'], 'application')}, {_counted(pending, 'container')} pending",
                class_="more",
            )
        )
    below = (queue.get("queues") or {}).get("queue") or []
    inside = join([tag("div", join(parts, " "), class_="queue"), *(_queue(one) for one in below)])
    return tag("div", inside, class_="queues")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _limits(nodes: Sequence[NodeReport]) -> Html:
    """What waits at each node, and how much may."""
    return table(
        QUEUE_TITLES,
        [
            (one.node_id, one.opportunistic.running, one.opportunistic.queued, one.opportunistic.queue_capacity,
             node_view.limit_text(one), one.opportunistic.paused,
             span(one.opportunistic.estimated_queue_wait_ms))
            for one in nodes
            if one.state is NodeState.RUNNING
        ],
        empty="No nodes.",
        numeric=NUMBERS,
    )  # fmt: skip
