"""A NodeManager's pages at YARN's addresses: /node, its containers, one container, logs that follow."""

from __future__ import annotations

import asyncio
import codecs
import os
import time

from aiohttp import web

from executor.records import ContainerExitStatus, Resource

from ...clock import now_ms
from ...errors import YoppError
from ...records.client_protocol import GetClusterInfoRequest
from ...records.container_protocol import GetNodeInfoResponse
from ...records.ids import ContainerId
from ...views import containers as container_view
from ...views.html import Html, esc, facts, join, link, moment, section, state, table, tag, tiles
from ...views.rest.node import by_application
from ...views.text import harmless, megabytes, span
from .. import logs
from ..calls import call_daemon
from ..data import RM_SECONDS, NodeData
from ..http import bad_request, not_found, require_owner
from ..queries import whole
from ..routes import Route, route, routes_of
from .frame import page, path, static_routes
from .tables import containers_table, kind, resource_tiles

LOGS = "/node/containerlogs/{container}"
NAVIGATION = (
    ("Node", "/node"),
    ("Containers", "/node/allContainers"),
    ("Applications", "/node/allApplications"),
)
TAIL_BYTES = 64 * 1024
"""The number of bytes of a log's end that are shown first."""
CHUNK_BYTES = 256 * 1024
"""The maximum number of bytes of a log in one answer: a line of 50 MB is sent in pieces."""
ENDED = "X-Log-Ended"
CACHE_SECONDS = 10.0


class NodePages:
    """The NodeManager's pages, made from ``data``."""

    def __init__(self, data: NodeData) -> None:
        self._data = data
        self._cluster: tuple[float, str] = (float("-inf"), "")

    def routes(self) -> list[Route]:
        """The routes, at YARN's addresses."""
        return [*static_routes("/node"), *routes_of(self)]

    async def _page(
        self, request: web.Request, title: str, *parts: object, live: bool = True
    ) -> web.StreamResponse:
        """A page, with a link back to the cluster's pages."""
        asked_at, address = self._cluster
        now = time.monotonic()
        if now - asked_at > CACHE_SECONDS:
            try:
                rm_socket = self._data.run_dir.rm_socket
                info = await call_daemon(rm_socket, GetClusterInfoRequest(), RM_SECONDS)
                address = info.http_address
            except YoppError:
                address = ""
            self._cluster = (now, address)
        back = [("Cluster", f"http://{address}/cluster/nodes")] if address else []
        return page(request, [*NAVIGATION, *back], title, *parts, live=live)

    @route("GET", "/node", "/node/node")
    async def node(self, request: web.Request) -> web.StreamResponse:
        """The node and its live containers."""
        info = await self._data.info()
        held = f"cgroups {info.cgroups}" if info.cgroups != "none" else "polling: no cgroups"
        rows = [
            ("Node ID", info.node_id),
            ("Total Pmem allocated for Containers", megabytes(info.total.memory)),
            ("Total VCores allocated for Containers", info.total.vcores),
            ("Node Healthy Status", "true"),
            ("NodeManager started on", moment(info.started_at_ms)),
            ("NodeManager Version", f"yopp {info.version}"),
            ("Process", info.pid),
            ("Limits held by", held),
            ("ResourceManager", "connected" if info.rm_connected else state("LOST")),
            ("Log directory", info.log_dir),
            *(("Note", warning) for warning in info.warnings),
        ]
        live = [one for one in await self._data.containers() if container_view.is_live(one)]
        listed = section(f"Live containers ({len(live)})", containers_table(live, "No live containers."))
        about = section("NodeManager information", facts(rows))
        return await self._page(request, f"Node {info.node_id}", node_tiles(info), about, listed)

    @route("GET", "/node/allContainers")
    async def containers(self, request: web.Request) -> web.StreamResponse:
        """All containers that the node knows, the newest first."""
        found = containers_table((await self._data.containers())[::-1], "No containers yet.")
        return await self._page(request, "All containers on this node", found)

    @route("GET", "/node/allApplications")
    async def applications(self, request: web.Request) -> web.StreamResponse:
        """The applications that have or had containers here."""
        rows = []
        for name, found in reversed(by_application(await self._data.containers()).items()):
            live = sum(1 for one in found if container_view.is_live(one))
            word = state("RUNNING" if live else "FINISHED")
            rows.append((link(path("node", "application", name), name), word, live, len(found)))
        titles = ("ApplicationId", "ApplicationState", "Live containers", "Containers")
        listed = table(titles, rows, empty="None yet.", numeric=frozenset(titles[2:]))
        return await self._page(request, "Applications on this node", listed)

    @route("GET", "/node/application/{app}")
    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application's containers on this node."""
        name = request.match_info["app"]
        found = by_application(await self._data.containers()).get(name)
        if found is None:
            raise not_found(f"application {name[:100]} has no containers on this node")
        return await self._page(request, name, containers_table(found, ""))

    @route("GET", "/node/container/{container}")
    async def container(self, request: web.Request) -> web.StreamResponse:
        """One container: YARN's rows, then what yopp measured."""
        container_id = request.match_info["container"]
        try:
            ContainerId.parse(container_id)
        except YoppError:
            raise bad_request(f"Invalid containerId {container_id[:200]}") from None
        try:
            report = await self._data.container(container_id)
        except YoppError:
            raise not_found(
                "Unknown Container. Container might have completed, please go back to the previous page and retry."
            ) from None
        logs_link = path("node", "containerlogs", container_id, report.user or "-")
        unknown = report.exit_status == ContainerExitStatus.INVALID
        rows: list[tuple[str, object]] = [
            ("ContainerID", container_id),
            ("ContainerState", state(container_view.document(report, now_ms())["state"])),
            ("ExitStatus", "N/A" if unknown else container_view.exit_text(report)),
            ("Diagnostics", report.diagnostics.strip() or "-"),
            ("User", report.user),
            ("TotalMemoryNeeded", report.resource.memory),
            ("TotalVCoresNeeded", report.resource.vcores),
            ("ExecutionType", kind(report.execution_type)),
            ("logs", link(logs_link, "Link to logs")),
        ]
        more = [
            (name, tag("span", value, class_="lines") if "\n" in value else value)
            for name, value in container_view.fields(report, now_ms(), self._data.facts)
            if name not in ("Execution-Type", "Container-Id", "Exit-Status", "Diagnostics")
        ]
        about, measured = section("Container information", facts(rows)), section("At its node", facts(more))
        return await self._page(request, "Container", about, measured)

    @route("GET", LOGS, LOGS + "/{user}")
    async def log_files(self, request: web.Request) -> web.StreamResponse:
        """The end of each file of a container's output, refreshed continuously."""
        require_owner(request, "containers' output")
        container_id = request.match_info["container"]
        directory = await self._data.log_directory(container_id)
        user = request.match_info.get("user", "-")
        files, more = await asyncio.to_thread(logs.files_of, directory)
        parts = [tag("p", link(path("node", "container", container_id), container_id), class_="big")]
        if not files:
            parts.append(
                tag("p", "Nothing has been written yet: reload when it has started.", class_="empty")
            )
        for one in files:
            address = path("node", "containerlogs", container_id, user, one.name)
            begin = max(0, one.size - TAIL_BYTES)
            note = [
                link(path("ws", "v1", "node", "containers", container_id, "logs", one.name), "whole file")
            ]
            note += [esc(f", {one.size} bytes; its last {TAIL_BYTES // 1024} KB:")] if begin else []
            log = tag("pre", "", class_="log", data_log=address, data_position=begin, tabindex="0")
            parts.append(section(one.name, join([tag("p", join(note), class_="more"), log])))
        if more:
            parts.append(tag("p", f"More files are in {directory}, and are not listed.", class_="empty"))
        return await self._page(request, "Logs", *parts, live=False)

    @route("GET", LOGS + "/{user}/{file}")
    async def log(self, request: web.Request) -> web.StreamResponse:
        """The answer to the page's script: the log from ``start`` on, in escaped characters, and the position of its
        end.
        """
        require_owner(request, "containers' output")
        container_id = request.match_info["container"]
        directory = await self._data.log_directory(container_id)
        try:
            ended = not container_view.is_live(await self._data.container(container_id))
        except YoppError:
            ended = True  # The node does not know it any more.
        text, position, size = await asyncio.to_thread(
            _read_from, directory, request.match_info["file"], request.query.get("start", "0")
        )
        done = ended and position >= size
        headers = {logs.POSITION: str(position), ENDED: "1" if done else "0"}
        return web.Response(text=text, content_type="text/plain", charset="utf-8", headers=headers)


def _read_from(directory: str, name: str, start: str) -> tuple[str, int, int]:
    """Text from byte ``start`` on, the byte after it, and the file's size. It ends at the end of a character."""
    first = whole("start", start)
    descriptor = logs.open_file(directory, name)
    try:
        size = os.fstat(descriptor).st_size
        begin = first if first <= size else 0
        data = os.pread(descriptor, CHUNK_BYTES, begin)
    finally:
        os.close(descriptor)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, len(data) < CHUNK_BYTES).replace("\r\n", "\n")
    unfinished, _ = decoder.getstate()  # The first bytes of a character, which is sent whole next time.
    return harmless(text, keep="\n\t"), begin + len(data) - len(unfinished), size


def node_tiles(info: GetNodeInfoResponse) -> Html:
    """The node's figures."""
    told = info.opportunistic
    opportunistic = Resource(told.memory_used, told.vcores_used, told.others_used)
    guaranteed = (info.allocated - opportunistic).at_least_zero()
    cpu, used = info.node_utilization.cpu, info.node_utilization.memory_bytes >> 20
    return tiles(
        [
            (
                "Opportunistic",
                told.running,
                f"running · {told.queued} of {told.queue_capacity} queued · {told.paused} paused",
            ),
            *resource_tiles(guaranteed, opportunistic, info.total),
            ("Measured CPU", f"{cpu:.1f} cores", "of the whole machine"),
            ("Measured memory", megabytes(used), "of the whole machine"),
            ("Estimated wait", span(told.estimated_queue_wait_ms), "in the queue"),
        ]
    )
