"""The ResourceManager's pages at YARN's addresses: /cluster, nodes, apps, one app, the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from executor.records import Resource

from ...records.client_protocol import (
    GetApplicationAttemptsRequest,
    GetContainersRequest,
    GetQueueInfoRequest,
)
from ...records.ids import ContainerId
from ...records.reports import ApplicationReport, ClusterInfo, NodeReport, NodeState
from ...views import applications as application_view
from ...views import cluster as cluster_view
from ...views.columns import or_dash
from ...views.text import number_of, span
from ..data import ClusterData, now_ms
from ..http import not_found
from ..queries import UNLISTED, words
from .frame import page, static_routes
from .html import Html, facts, join, meter, moment, path, section, stacked, state, table, tag, tiles
from .mapreduce import MAP_REDUCE, map_reduce_section
from .tables import (
    MOST_ROWS,
    applications_table,
    attempts_table,
    containers_table,
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
    """Renders what ``data`` tells."""

    def __init__(self, data: ClusterData) -> None:
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
        """A summary of the cluster."""
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
        shown = [one for one in every if (one.state in wanted if wanted else one.state not in UNLISTED)]
        listed = nodes_table(shown, opportunistic=info.opportunistic_enabled)
        return page(
            request, "Nodes of the cluster", join([cluster_tiles(info, every), listed]), navigation=NAVIGATION
        )

    async def applications(self, request: web.Request) -> web.StreamResponse:
        """All applications, the newest first."""
        word = request.match_info.get("state", "").upper()
        every = await self._data.applications()
        shown = [one for one in every if not word or one.state.value == word]
        listed = applications_table(shown[-MOST_ROWS:][::-1])
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
        listed = containers_table(containers, "No containers yet.", addresses)
        job = await self._data.job(report.application_id) if report.application_type == MAP_REDUCE else None
        body = join(
            [
                tag("p", join([state(report.state.value), " ", report.name]), class_="big"),
                application_bar(report),
                section("Overview", facts(_overview(report))),
                *([map_reduce_section(job, now_ms())] if job is not None else []),
                section("Attempts", attempts_table(answer.attempts)),
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
                section("Opportunistic containers", queue_limits_table(await self._data.nodes())),
            ]
        )
        return page(request, "Scheduler", body, navigation=NAVIGATION)


def cluster_tiles(info: ClusterInfo, nodes: Sequence[NodeReport]) -> Html:
    """The cluster's figures."""
    told = cluster_view.opportunistic_totals([one for one in nodes if one.state is NodeState.RUNNING])
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
            *resource_tiles(info.used, Resource(told["memoryMB"], told["vcores"]), info.total),
        ]
    )


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


def _overview(report: ApplicationReport) -> list[tuple[str, object]]:
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
        ("Elapsed", span(application_view.elapsed_ms(report, now_ms()))),
        ("Progress", progress(report)),
        ("AM container", master(report.am_container_id)),
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
                f"{number_of(queue['numApplications'], 'application')}, {number_of(pending, 'container')} pending",
                class_="more",
            )
        )
    below = (queue.get("queues") or {}).get("queue") or []
    inside = join([tag("div", join(parts, " "), class_="queue"), *(_queue(one) for one in below)])
    return tag("div", inside, class_="queues")
