"""The ResourceManager's pages at YARN's addresses: /cluster, nodes, apps, one app, the scheduler (``RmController``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from ...clock import now_ms
from ...records.reports import STAY, ApplicationReport, ClusterInfo, NodeReport, NodeState
from ...views import applications as application_view
from ...views import cluster as cluster_view
from ...views.columns import or_dash
from ...views.html import Html, facts, join, link, meter, moment, section, stacked, state, table, tag, tiles
from ...views.text import number_of, span
from ..browsers import linked
from ..data import ClusterData
from ..http import not_found
from ..queries import chosen_nodes, nodes_in
from ..routes import Document, Route, route, routes_of
from .frame import page, path, static_routes
from .tables import (
    MAP_REDUCE,
    MOST_ROWS,
    applications_table,
    attempts_table,
    containers_table,
    map_reduce_section,
    master,
    nodes_table,
    progress,
    queue_limits_table,
    resource_tiles,
)

NAVIGATION = (
    ("About", "/cluster"),
    ("Nodes", "/cluster/nodes"),
    ("Applications", "/cluster/apps"),
    ("Scheduler", "/cluster/scheduler"),
)


class ClusterPages:
    """The ResourceManager's pages, made from ``data``."""

    def __init__(self, data: ClusterData) -> None:
        self._data = data

    def routes(self) -> list[Route]:
        """The routes, at YARN's addresses."""
        return [*static_routes("/cluster"), *routes_of(self)]

    async def _tiles(self) -> Html:
        return cluster_tiles(self._data.info(), self._data.nodes())

    @route("GET", "/cluster", "/cluster/", "/cluster/cluster")
    async def about(self, request: web.Request) -> web.StreamResponse:
        """A summary of the cluster."""
        info = self._data.info()
        rows = [
            ("Cluster ID", info.cluster_timestamp),
            ("ResourceManager state", state("STARTED")),
            ("ResourceManager started on", moment(info.started_at_ms)),
            ("ResourceManager version", f"yopp {info.version}"),
            ("Process", info.pid),
            ("Run directory", info.run_dir),
            ("Address", info.address),
            ("Lifetime", "until yopp down" if info.lifetime == STAY else "until its last job has ended"),
            ("Largest container", str(info.maximum)),
            ("Opportunistic containers", "on" if info.opportunistic_enabled else "off"),
        ]
        empty = "All properties have their defaults."
        properties = table(("Property", "Value"), sorted(info.properties.items()), empty=empty)
        about = section("About the Cluster", facts(rows))
        return _page(request, "Cluster", await self._tiles(), about, section("Configuration", properties))

    @route("GET", "/cluster/nodes", "/cluster/nodes/{state}")
    async def nodes(self, request: web.Request) -> web.StreamResponse:
        """YARN's Nodes page: all nodes that are part of the cluster, or those in one state."""
        info, every = self._data.info(), self._data.nodes()
        word = request.match_info.get("state", "")
        shown = nodes_in(word, every) if word else chosen_nodes(request, every, "states", "state")
        listed = nodes_table(shown, opportunistic=info.opportunistic_enabled)
        return _page(request, "Nodes of the cluster", cluster_tiles(info, every), listed)

    @route("GET", "/cluster/apps", "/cluster/apps/{state}")
    async def applications(self, request: web.Request) -> web.StreamResponse:
        """All applications, the newest first."""
        word = request.match_info.get("state", "").upper()
        every = self._data.applications()
        shown = [one for one in every if not word or one.state.value == word]
        parts = [
            await self._tiles(),
            _state_filter(every, word),
            applications_table(shown[-MOST_ROWS:][::-1]),
        ]
        if len(shown) > MOST_ROWS:
            parts.append(tag("p", f"The newest {MOST_ROWS} of {len(shown)}.", class_="more"))
        return _page(request, f"{word or 'All'} Applications", *parts)

    @route("GET", "/cluster/app/{app}")
    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application: its overview, attempts and containers."""
        report = self._data.application(request.match_info["app"])
        name, now = report.application_id, now_ms()
        containers = await self._data.containers_of(name)
        listed = containers_table(containers, "No containers yet.", self._data.http_addresses())
        job = await self._data.job(name) if report.application_type == MAP_REDUCE else None
        return _page(
            request,
            name,
            tag("p", join([state(report.state.value), " ", report.name]), class_="big"),
            application_bar(report),
            section("Overview", facts(_overview(report, now))),
            map_reduce_section(job, now) if job is not None else "",
            section("Attempts", attempts_table(self._data.attempts(name))),
            section(f"Containers ({len(containers)})", listed),
        )

    @route("GET", "/cluster/container/{container}")
    async def container(self, request: web.Request) -> Document:
        """Redirect to the container's page at its node."""
        report = await self._data.container(request.match_info["container"])
        node = self._data.node(report.node_id)
        if not node.http_address:
            raise not_found(f"node {node.node_id} serves no pages")
        address = linked(request).get(node.http_address, node.http_address)
        raise web.HTTPFound(f"http://{address}{path('node', 'container', report.container_id)}")

    @route("GET", "/cluster/scheduler")
    async def scheduler(self, request: web.Request) -> web.StreamResponse:
        """The queues."""
        root = cluster_view.scheduler(self._data.queues())["scheduler"]["schedulerInfo"]
        queues = section("Application Queues", _queue(root))
        limits = section("Opportunistic containers", queue_limits_table(self._data.nodes()))
        return _page(request, "Scheduler", await self._tiles(), queues, limits)


def _page(request: web.Request, title: str, *parts: object) -> web.Response:
    return page(request, NAVIGATION, title, *parts)


def cluster_tiles(info: ClusterInfo, nodes: Sequence[NodeReport]) -> Html:
    """The cluster's figures."""
    running = [one.opportunistic for one in nodes if one.state is NodeState.RUNNING]
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
            *resource_tiles(info.used, cluster_view.opportunistic_size(running), info.total),
        ]
    )


def application_bar(report: ApplicationReport) -> Html:
    """An application's containers by state, as a bar and in words."""
    parts = [
        ("done", report.containers_done),
        ("killed", report.containers_killed),
        ("failed", report.containers_failed),
        ("running", report.containers_running),
        ("paused", report.containers_paused),
        ("queued", report.containers_queued),
        ("pending", report.pending_containers),
    ]
    return stacked(parts, application_view.counts_text(report))


def _overview(report: ApplicationReport, now: int) -> list[tuple[str, object]]:
    allocated = f"{report.guaranteed_allocated_total} guaranteed, {report.opportunistic_allocated_total} opportunistic"
    rows: list[tuple[str, object]] = [
        ("User", report.user),
        ("Name", report.name),
        ("Application Type", report.application_type),
        ("Application Tags", ", ".join(report.tags) or "-"),
        ("Application Priority", report.priority),
        ("YarnApplicationState", state(report.state.value)),
        ("Queue", report.queue),
        ("FinalStatus Reported by AM", report.final_status.value),
        ("Exit code", or_dash(application_view.exit_code(report))),
        ("Started", moment(report.submitted_at_ms)),
        ("Launched", moment(report.started_at_ms)),
        ("Finished", moment(report.finished_at_ms)),
        ("Elapsed", span(application_view.elapsed_ms(report, now))),
        ("Progress", progress(report)),
        ("AM container", master(report)),
        ("Allocated", allocated),
        (
            "Aggregate Resource Allocation",
            f"{report.memory_seconds} MB-seconds, {report.vcore_seconds} vcore-seconds",
        ),
        ("Command", tag("code", report.command_line)),
        ("Diagnostics", application_view.diagnostics_text(report) or "-"),
    ]
    if report.summary is not None and report.summary.completed:
        rows.append(("Ran", application_view.summary_text(report.summary)))
    return rows


def _state_filter(every: Sequence[ApplicationReport], word: str) -> Html:
    """Links to the applications of one state, with their number."""
    counts = Counter(one.state.value for one in every)
    links = [link("/cluster/apps", f"ALL {len(every)}", here=not word)]
    links += [
        link(path("cluster", "apps", name), f"{name} {number}", here=name == word)
        for name, number in sorted(counts.items())
    ]
    return tag("p", join(links), class_="filter")


def _queue(queue: dict[str, Any]) -> Html:
    """A queue and its children."""
    used, most = queue["absoluteUsedCapacity"], queue["absoluteMaxCapacity"]
    words = f"{used:.1f}% used of {queue['absoluteCapacity']:.1f}% (at most {most:.1f}%)"
    parts: list[object] = [
        tag("strong", queue["queueName"]),
        state(queue.get("state", "RUNNING")),
        meter(used, most, words),
    ]
    if "numApplications" in queue:
        pending = number_of(queue.get("numPendingContainers", 0), "container")
        text = f"{number_of(queue['numApplications'], 'application')}, {pending} pending"
        parts.append(tag("span", text, class_="more"))
    below = (queue.get("queues") or {}).get("queue") or []
    inside = join([tag("div", join(parts, " "), class_="queue"), *(_queue(one) for one in below)])
    return tag("div", inside, class_="queues")
